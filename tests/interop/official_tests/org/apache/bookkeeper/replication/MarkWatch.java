package org.apache.bookkeeper.replication;

import java.util.concurrent.CountDownLatch;
import net.bytebuddy.implementation.bind.annotation.Argument;
import net.bytebuddy.implementation.bind.annotation.FieldValue;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * The watch of BookieAutoRecoveryTest on a mark, which survives a change of the mark (`Patch` puts it there).
 *
 * <p>The official one is used up by the first event of any kind, and counts only a creation and a deletion. Our auditor
 * writes a mark once more when its ledger is being repaired (metadata.md#M48): then the test would wait for ever.
 */
public final class MarkWatch {
    private MarkWatch() {
    }

    /** Count `latch` down at the next creation or deletion of `path`; return what is there now. */
    public static Stat watchUrLedgerNode(
        @FieldValue("zkc") ZooKeeper store, @Argument(0) String path, @Argument(1) CountDownLatch latch)
        throws KeeperException, InterruptedException {
        return store.exists(path, event -> {
            switch (event.getType()) {
                case NodeCreated, NodeDeleted -> latch.countDown();
                case NodeDataChanged -> again(store, path, latch);
                default -> { }
            }
        });
    }

    private static void again(ZooKeeper store, String path, CountDownLatch latch) {
        try {
            if (watchUrLedgerNode(store, path, latch) == null) {
                latch.countDown(); // deleted between the change and this look
            }
        } catch (KeeperException error) {
            throw new IllegalStateException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
