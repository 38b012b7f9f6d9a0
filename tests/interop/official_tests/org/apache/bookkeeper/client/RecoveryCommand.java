package org.apache.bookkeeper.client;

import java.io.IOException;
import net.bytebuddy.implementation.bind.annotation.Argument;
import net.bytebuddy.implementation.bind.annotation.FieldValue;
import org.apache.bookkeeper.client.AsyncCallback.RecoverCallback;
import org.apache.bookkeeper.net.BookieId;

/** `bookie cluster recover-bookie` in the place of two methods of BookKeeperAdmin (`Patch` puts it there). */
public final class RecoveryCommand {
    private RecoveryCommand() {
    }

    public static void recoverBookieData(@FieldValue("bkc") BookKeeper client, @Argument(0) BookieId bookie)
        throws InterruptedException, BKException {
        if (!succeeds(client, bookie)) {
            throw new BKException.BKLedgerRecoveryException();
        }
    }

    public static void asyncRecoverBookieData(
        @FieldValue("bkc") BookKeeper client, @Argument(0) BookieId bookie, @Argument(1) RecoverCallback done,
        @Argument(2) Object context) {
        Thread waiting = new Thread(() -> {
            boolean succeeded = false;
            try {
                succeeded = succeeds(client, bookie);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            int code = succeeded ? BKException.Code.OK : BKException.Code.LedgerRecoveryException;
            done.recoverComplete(code, context);
        });
        waiting.setDaemon(true);
        waiting.start();
    }

    private static boolean succeeds(BookKeeper client, BookieId bookie) throws InterruptedException {
        try {
            return new ProcessBuilder(
                    System.getProperty("replacement.python"), "-m", "bookie", "cluster", "recover-bookie", "--yes",
                    "--metadata-service-uri", client.getConf().getMetadataServiceUriUnchecked(), bookie.toString())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start().waitFor() == 0;
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
