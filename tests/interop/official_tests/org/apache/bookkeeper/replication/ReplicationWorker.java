package org.apache.bookkeeper.replication;

import com.google.common.cache.CacheBuilder;
import com.google.common.cache.CacheLoader;
import com.google.common.cache.LoadingCache;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.stats.StatsLogger;

/** A process of ours that makes marked ledgers whole, in the place of the official worker. */
public class ReplicationWorker implements Runnable {
    /** Java's own counts, of which ours has none: they stay empty, and no test that needs them is run. */
    final LoadingCache<Long, AtomicInteger> replicationFailedLedgers =
        CacheBuilder.newBuilder().build(CacheLoader.from(() -> new AtomicInteger()));
    final LoadingCache<Long, ConcurrentSkipListSet<Long>> unableToReadEntriesForReplication =
        CacheBuilder.newBuilder().build(CacheLoader.from(() -> new ConcurrentSkipListSet<Long>()));

    private final Replacement replacement;

    public ReplicationWorker(ServerConfiguration conf) {
        this(new Replacement("worker", "worker", conf));
    }

    public ReplicationWorker(ServerConfiguration conf, StatsLogger statsLogger) {
        this(conf);
    }

    ReplicationWorker(Replacement replacement) {
        this.replacement = replacement;
    }

    public void start() {
        replacement.start();
    }

    @Override
    public void run() {
        start();
    }

    public void shutdown() {
        replacement.stop();
    }

    public boolean isRunning() {
        return replacement.isRunning();
    }
}
