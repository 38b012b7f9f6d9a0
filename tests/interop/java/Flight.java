import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** Calls in flight, at most `window` of them; what each took, and what went wrong first. One thread makes the calls. */
final class Flight {
    private static final int CALLS_MAX = 2_000_000;
    private static final long PATIENCE_S = 30;
    private final int windowMax;
    private final Semaphore window;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final long[] latenciesNs;
    private final long startedNs = System.nanoTime();
    private int calls;
    private long operations;

    Flight(int windowMax) {
        this.windowMax = windowMax;
        window = new Semaphore(windowMax);
        latenciesNs = new long[CALLS_MAX];
    }

    boolean mayGoOn(long durationNs) {
        return System.nanoTime() - startedNs < durationNs && failure.get() == null && calls < CALLS_MAX;
    }

    /** Waits for room in the window. */
    void waitRoom() throws InterruptedException {
        if (!window.tryAcquire(PATIENCE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no call was answered for " + PATIENCE_S + " s");
        }
    }

    /** One call, begun at `beganNs`, that stands for `count` operations. */
    void follow(CompletableFuture<?> call, long beganNs, int count) {
        int index = calls++;
        operations += count;
        call.whenComplete((result, error) -> {
            latenciesNs[index] = System.nanoTime() - beganNs;
            if (error != null) {
                failure.compareAndSet(null, error);
            }
            window.release();
        });
    }

    /** Waits for what is in flight; the answer has operations a second and the calls' latencies in microseconds. */
    ObjectNode land() throws InterruptedException {
        if (!window.tryAcquire(windowMax, PATIENCE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("calls were not answered for " + PATIENCE_S + " s");
        }
        double elapsedS = (System.nanoTime() - startedNs) / 1e9;
        if (failure.get() != null) {
            return Judge.describe(Judge.unwrap(failure.get()));
        }
        Arrays.sort(latenciesNs, 0, calls);
        return Judge.JSON.createObjectNode().put("operations", operations).put("elapsed_s", elapsedS)
            .put("p50_us", latenciesNs[calls / 2] / 1000).put("p99_us", latenciesNs[(int) (calls * 99L / 100)] / 1000);
    }
}
