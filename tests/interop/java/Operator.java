import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.bookkeeper.bookie.BookieImpl;
import org.apache.bookkeeper.bookie.BookieShell;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.replication.AuditorElector;
import org.apache.bookkeeper.replication.AutoRecoveryMain;
import org.apache.bookkeeper.replication.ReplicationWorker;
import org.apache.bookkeeper.util.EntryFormatter;
import org.apache.bookkeeper.util.LedgerIdFormatter;
import org.apache.commons.configuration2.BaseConfiguration;
import org.apache.commons.configuration2.CompositeConfiguration;

/**
 * The official shell and the official auto-recovery in one process, told what to do by lines of JSON as `Judge` is. A
 * shell command is answered with its exit code and all that it printed, also when it threw. It must never decide
 * whether that is right.
 */
public final class Operator {
    private final JsonNode settings;
    private ByteArrayOutputStream told = new ByteArrayOutputStream(); // one for each question: threads of a command outlive it
    private AutoRecoveryMain recovery;
    private AuditorElector auditor;
    private ReplicationWorker worker;

    private Operator(JsonNode settings) {
        this.settings = settings;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Operator operator = new Operator(Judge.JSON.readTree(arguments[0]));
        answers.println("{\"ready\":true}");
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(Judge.JSON.writeValueAsString(operator.answer(Judge.JSON.readTree(line))));
        }
        operator.stop();
        System.exit(0); // commands leave threads behind
    }

    private JsonNode answer(JsonNode question) {
        told = new ByteArrayOutputStream();
        try {
            switch (question.get("op").asText()) {
                case "shell":
                    return shell(question.get("words"));
                case "recovery_start":
                    recovery = new AutoRecoveryMain(server());
                    recovery.start();
                    return Judge.JSON.createObjectNode();
                case "auditor_start":
                    auditor = new AuditorElector(BookieImpl.getBookieId(server()).toString(), server());
                    auditor.start();
                    return Judge.JSON.createObjectNode();
                case "worker_start":
                    worker = new ReplicationWorker(server());
                    worker.start();
                    return Judge.JSON.createObjectNode();
                case "recovery_stop":
                    stop();
                    return Judge.JSON.createObjectNode();
                default:
                    throw new IllegalArgumentException("the operator knows no operation " + question.get("op"));
            }
        } catch (Exception wrapped) {
            wrapped.printStackTrace(); // the log says where; the answer says only what
            return Judge.describe(Judge.unwrap(wrapped)).put("told", told());
        }
    }

    /** One command, as if typed. The log goes where standard output goes (log4j2.xml, follow). */
    private ObjectNode shell(JsonNode words) throws Exception {
        BaseConfiguration plain = new BaseConfiguration();
        settings.fields().forEachRemaining(field -> plain.setProperty(field.getKey(), field.getValue().asText()));
        CompositeConfiguration configuration = new CompositeConfiguration();
        configuration.addConfiguration(plain);
        String[] typed = new String[words.size()];
        for (int index = 0; index < typed.length; index++) {
            typed[index] = words.get(index).asText();
        }
        PrintStream before = System.out;
        System.setOut(new PrintStream(told, true, StandardCharsets.UTF_8)); // commands keep it from their making on
        int code;
        try {
            BookieShell shell = new BookieShell(
                LedgerIdFormatter.LONG_LEDGERID_FORMATTER, EntryFormatter.STRING_FORMATTER);
            shell.setConf(configuration);
            code = shell.run(typed);
        } finally {
            System.out.flush();
            System.setOut(before);
        }
        return Judge.JSON.createObjectNode().put("code", code).put("told", told());
    }

    private String told() {
        return told.toString(StandardCharsets.UTF_8);
    }

    private ServerConfiguration server() {
        ServerConfiguration made = new ServerConfiguration();
        settings.fields().forEachRemaining(field -> made.setProperty(field.getKey(), field.getValue().asText()));
        return made;
    }

    private void stop() throws InterruptedException {
        if (recovery != null) {
            recovery.shutdown();
            recovery = null;
        }
        if (auditor != null) {
            auditor.shutdown();
            auditor = null;
        }
        if (worker != null) {
            worker.shutdown();
            worker = null;
        }
    }
}
