import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.bookkeeper.client.api.BKException;

/**
 * The official BookKeeper client as a program that is told what to do: one JSON object a line on standard input, one
 * answer a line on standard output. An answer holds what was asked for, or `error` (the exception's class), `code`
 * (BKException.Code) and `message`. It must never decide whether an answer is right: the tests do.
 */
public final class Judge {
    static final ObjectMapper JSON = new ObjectMapper();

    private Judge() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not look like an answer
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Ledgers> clients = new HashMap<>();
        try {
            clients.put("", new Ledgers(JSON.readTree(arguments[0])));
            answers.println("{\"ready\":true}");
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                answers.println(JSON.writeValueAsString(answer(clients, JSON.readTree(line))));
            }
        } finally {
            for (Ledgers one : clients.values()) {
                one.close();
            }
        }
    }

    /** `client` names whom to ask; `connect` makes one more, with settings of its own, in this process. */
    private static JsonNode answer(Map<String, Ledgers> clients, JsonNode question) {
        String name = question.path("client").asText("");
        try {
            switch (question.get("op").asText()) {
                case "connect":
                    clients.put(name, new Ledgers(question));
                    return JSON.createObjectNode();
                case "disconnect":
                    clients.remove(name).close();
                    return JSON.createObjectNode();
                default:
                    return clients.get(name).dispatch(question.get("op").asText(), question);
            }
        } catch (Exception wrapped) {
            return describe(unwrap(wrapped));
        }
    }

    static Throwable unwrap(Throwable error) {
        boolean isWrapper = error instanceof ExecutionException || error instanceof CompletionException;
        return isWrapper && error.getCause() != null ? unwrap(error.getCause()) : error;
    }

    static ObjectNode describe(Throwable error) {
        ObjectNode answer = JSON.createObjectNode();
        answer.put("error", error.getClass().getSimpleName());
        answer.put("code", error instanceof BKException ? ((BKException) error).getCode() : 0);
        answer.put("message", String.valueOf(error.getMessage()));
        return answer;
    }
}
