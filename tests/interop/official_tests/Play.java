import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/** Runs official test methods, one line of JSON a question: {"op": "play", "test": "CLASS#METHOD"}. */
public final class Play {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Play() {
    }

    public static void main(String[] words) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what tests print is no answer
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Launcher launcher = LauncherFactory.create();
        answers.println("{}");
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = JSON.readTree(line);
            answers.println(play(launcher, question.get("test").asText()));
        }
        System.exit(0); // some tests leave threads behind
    }

    /** Return how many tests were run, and how each that failed did. */
    private static ObjectNode play(Launcher launcher, String test) {
        SummaryGeneratingListener listener = new SummaryGeneratingListener();
        launcher.execute(
            LauncherDiscoveryRequestBuilder.request().selectors(DiscoverySelectors.selectMethod(test)).build(), listener);
        TestExecutionSummary summary = listener.getSummary();
        ObjectNode answer = JSON.createObjectNode().put("succeeded", summary.getTestsSucceededCount());
        StringWriter failures = new StringWriter();
        summary.getFailures().forEach(each -> each.getException().printStackTrace(new PrintWriter(failures, true)));
        return answer.put("failures", failures.toString());
    }
}
