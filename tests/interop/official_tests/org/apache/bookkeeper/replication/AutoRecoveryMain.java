package org.apache.bookkeeper.replication;

import java.net.UnknownHostException;
import org.apache.bookkeeper.bookie.BookieImpl;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.stats.StatsLogger;

/** `bookie autorecovery run` in the place of the official process: auditor and worker in one. */
public class AutoRecoveryMain {
    final AuditorElector auditorElector;
    final ReplicationWorker replicationWorker;
    private final Replacement replacement;

    public AutoRecoveryMain(ServerConfiguration conf) throws UnknownHostException {
        replacement = new Replacement(BookieImpl.getBookieId(conf).toString(), "both", conf);
        auditorElector = new AuditorElector(replacement);
        replicationWorker = new ReplicationWorker(replacement);
    }

    public AutoRecoveryMain(ServerConfiguration conf, StatsLogger statsLogger) throws UnknownHostException {
        this(conf);
    }

    public void start() {
        replacement.start();
    }

    public void shutdown() {
        replacement.stop();
    }

    public Auditor getAuditor() {
        return auditorElector.getAuditor();
    }

    public ReplicationWorker getReplicationWorker() {
        return replicationWorker;
    }

    public boolean isAutoRecoveryRunning() {
        return replacement.isRunning();
    }
}
