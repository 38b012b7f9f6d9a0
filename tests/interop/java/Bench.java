import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.WriteHandle;

/** Adds as fast as they are acknowledged, with at most `window` in flight, on one ledger of one bookie. */
final class Bench {
    private Bench() {
    }

    /** `size` bytes an entry, `seconds` long; the answer has adds a second and latencies in microseconds. */
    static ObjectNode run(BookKeeper client, JsonNode question) throws Exception {
        byte[] payload = new byte[question.path("size").asInt(1024)];
        Arrays.fill(payload, (byte) 'x');
        int windowMax = question.path("window").asInt(1000);
        long durationNs = (long) (question.path("seconds").asDouble(5.0) * 1e9);
        Semaphore window = new Semaphore(windowMax);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        long[] latenciesNs = new long[4_000_000];
        int sent = 0;
        try (WriteHandle writer = client.newCreateLedgerOp().withEnsembleSize(1).withWriteQuorumSize(1)
                .withAckQuorumSize(1).withDigestType(DigestType.CRC32C).withPassword(new byte[0]).execute().get()) {
            long startedNs = System.nanoTime();
            while (System.nanoTime() - startedNs < durationNs && failure.get() == null && sent < latenciesNs.length) {
                if (!window.tryAcquire(30, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no add was acknowledged for 30 s");
                }
                int index = sent++;
                long beganNs = System.nanoTime();
                writer.appendAsync(payload).whenComplete((entry, error) -> {
                    latenciesNs[index] = System.nanoTime() - beganNs;
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                    window.release();
                });
            }
            window.acquire(windowMax);
            long elapsedNs = System.nanoTime() - startedNs;
            if (failure.get() != null) {
                return Judge.describe(Judge.unwrap(failure.get()));
            }
            Arrays.sort(latenciesNs, 0, sent);
            return Judge.JSON.createObjectNode().put("adds", sent).put("adds_per_second", sent * 1e9 / elapsedNs)
                .put("p50_us", latenciesNs[sent / 2] / 1000).put("p99_us", latenciesNs[sent * 99 / 100] / 1000);
        }
    }
}
