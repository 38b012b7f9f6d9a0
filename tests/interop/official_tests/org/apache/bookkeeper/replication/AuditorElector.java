package org.apache.bookkeeper.replication;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;

/** A process of ours that stands for auditor, in the place of the official elector. */
public class AuditorElector {
    private final Replacement replacement;
    final Auditor auditor;

    public AuditorElector(String bookieId, ServerConfiguration conf) {
        this(new Replacement(bookieId, "auditor", conf));
    }

    AuditorElector(Replacement replacement) {
        this.replacement = replacement;
        this.auditor = new Auditor(replacement);
    }

    public Future<?> start() {
        replacement.start();
        return CompletableFuture.completedFuture(null);
    }

    /** Return the auditor while this process leads, else null. */
    Auditor getAuditor() {
        return auditor.leads() ? auditor : null;
    }

    public BookieId getCurrentAuditor() {
        String found = replacement.ask("who").asText("");
        return found.isEmpty() ? null : BookieId.parse(found);
    }

    public void shutdown() {
        replacement.stop();
    }

    public boolean isRunning() {
        return replacement.isRunning();
    }
}
