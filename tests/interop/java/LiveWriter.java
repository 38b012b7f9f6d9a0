import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import org.apache.bookkeeper.client.api.WriteHandle;

/** A live writer: adds `template` + entry id, one after the other, until told to stop or until an add fails. */
final class LiveWriter extends Thread {
    private final WriteHandle writer;
    private final String template;
    private volatile boolean isStopping;
    private volatile long acknowledged;
    private volatile Throwable failure;

    LiveWriter(WriteHandle writer, String template) {
        this.writer = writer;
        this.template = template;
        setDaemon(true);
    }

    @Override
    public void run() {
        try {
            for (long entry = 0; !isStopping; entry++) {
                writer.append((template + entry).getBytes(StandardCharsets.UTF_8));
                acknowledged = entry + 1;
            }
        } catch (Exception error) {
            failure = Judge.unwrap(error);
        }
    }

    /** How many adds were acknowledged, and what ended the writer; no error when it was still writing. */
    JsonNode halt() throws InterruptedException {
        boolean wasWriting = isAlive();
        isStopping = true;
        join(30_000);
        ObjectNode answer = failure == null ? Judge.JSON.createObjectNode() : Judge.JSON.createObjectNode()
            .put("ended_by", failure.getClass().getSimpleName());
        return answer.put("acknowledged", acknowledged).put("was_writing", wasWriting);
    }
}
