package org.apache.bookkeeper.replication;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;

/** Our auditor in the place of the official one: what the official tests ask of it. */
public class Auditor implements AutoCloseable {
    private final Replacement replacement;

    Auditor(Replacement replacement) {
        this.replacement = replacement;
    }

    boolean leads() {
        return replacement.ask("leads").asBoolean(false);
    }

    public boolean isRunning() {
        return replacement.isRunning();
    }

    /** Ask for a look now; done when one that began afterwards has ended. */
    Future<?> submitAuditTask() {
        return CompletableFuture.supplyAsync(() -> replacement.ask("audit"));
    }

    /** Return something while a bookie is away that does not count as lost yet, else null. */
    Future<?> getAuditTask() {
        return replacement.ask("waits").asBoolean(false) ? new CompletableFuture<>() : null;
    }

    int getLostBookieRecoveryDelayBeforeChange() {
        return replacement.ask("delay").asInt();
    }

    public void shutdown() {
        replacement.stop();
    }

    @Override
    public void close() {
        shutdown();
    }
}
