import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;

/** Calls in flight, at most `window` of them; what each took, and what went wrong first. One thread makes the calls. */
final class Flight {
    private static final int CALLS_MAX = 4_000_000;
    private static final long PATIENCE_S = 30;
    private final int windowMax;
    private final Semaphore window;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final long[] latenciesNs;
    private final long startedNs = System.nanoTime();
    private final double pace;
    private int calls;
    private long operations;

    Flight(int windowMax) {
        this(windowMax, 0);
    }

    /** `pace`: calls a second, 0 for as many as the window lets. */
    Flight(int windowMax, double pace) {
        this.windowMax = windowMax;
        this.pace = pace;
        window = new Semaphore(windowMax);
        latenciesNs = new long[CALLS_MAX];
    }

    boolean mayGoOn(long durationNs) {
        return System.nanoTime() - startedNs < durationNs && failure.get() == null && calls < CALLS_MAX;
    }

    /**
     * Waits until the next call is due and has room in the window; returns when it began: at a pace that is when it was
     * due, so that a call which waits for the calls before it is as late as its caller finds it.
     */
    long waitRoom() throws InterruptedException {
        long dueNs = pace == 0 ? 0 : startedNs + (long) (calls * 1e9 / pace);
        for (long leftNs; pace != 0 && (leftNs = dueNs - System.nanoTime()) > 0;) {
            LockSupport.parkNanos(leftNs);
        }
        if (!window.tryAcquire(PATIENCE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no call was answered for " + PATIENCE_S + " s");
        }
        return pace == 0 ? System.nanoTime() : dueNs;
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
            .put("p50_us", latenciesNs[calls / 2] / 1000).put("p99_us", latenciesNs[(int) (calls * 99L / 100)] / 1000)
            .put("p999_us", latenciesNs[(int) (calls * 999L / 1000)] / 1000);
    }
}
