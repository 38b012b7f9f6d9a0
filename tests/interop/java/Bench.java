import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import org.apache.bookkeeper.client.DefaultEnsemblePlacementPolicy;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Adds and reads as fast as they are answered. One process asks every cluster that is compared, so that all of them
 * meet the same compiled machine code: clients for each `uri` and protocol, made when it is first asked for.
 */
final class Bench implements AutoCloseable {
    private final Map<String, BookKeeper> clients = new HashMap<>();

    private CountDownLatch isGoingOver;
    private FutureTask<ObjectNode> going;

    ObjectNode run(JsonNode question) throws Exception {
        return run(question, new CountDownLatch(1));
    }

    /** Begins what `run` would do, for as long as it may and nobody says `end`. */
    ObjectNode begin(JsonNode question) {
        CountDownLatch isOver = new CountDownLatch(1);
        isGoingOver = isOver;
        going = start(() -> run(question, isOver));
        return Judge.JSON.createObjectNode();
    }

    /** Ends what `begin` began; the answer is that of `run`. */
    ObjectNode end() throws Exception {
        isGoingOver.countDown();
        return going.get();
    }

    /**
     * One load until it is over, or `isOver`. Beside it another (`beside`) goes on, asked of the same bookies and told of
     * the same ledger to read: of that one the answer has the operations a second and the p99.
     */
    private ObjectNode run(JsonNode question, CountDownLatch isOver) throws Exception {
        if (!question.has("beside")) {
            return alone(question, isOver);
        }
        ObjectNode other = question.get("beside").deepCopy();
        other.set("uri", question.get("uri"));
        other.set("ledger", question.path("ledger"));
        CountDownLatch isOtherOver = new CountDownLatch(1);
        FutureTask<ObjectNode> beside = start(() -> alone(other, isOtherOver));
        ObjectNode found;
        try {
            found = alone(question, isOver);
        } finally {
            isOtherOver.countDown();
        }
        ObjectNode told = beside.get();
        return told.has("error") ? told
            : found.put("beside", told.get("operations").asLong() / told.get("elapsed_s").asDouble())
                .put("beside_p99_us", told.get("p99_us").asLong());
    }

    private static FutureTask<ObjectNode> start(Callable<ObjectNode> load) {
        FutureTask<ObjectNode> task = new FutureTask<>(load);
        Thread thread = new Thread(task, "load");
        thread.setDaemon(true); // whoever asked may be gone
        thread.start();
        return task;
    }

    private ObjectNode alone(JsonNode question, CountDownLatch isOver) throws Exception {
        return "reads".equals(question.path("load").asText()) ? reads(question, isOver) : adds(question, isOver);
    }

    /**
     * Adds of `size` bytes to ledgers in turn until `seconds` are over, there are `count`, or `isOver`; the answer names
     * the ledgers. `ledgers` of them, over `clients` with `connections` each: one of all where nothing is said. They are
     * new; several are opened first, with an entry each.
     * `pace`: so many a second, each timed from when it was due; without it as many as are taken. `patient`: a bookie that
     * is gone is not replaced while an ack quorum of the others answers.
     */
    private ObjectNode adds(JsonNode question, CountDownLatch isOver) throws Exception {
        byte[] payload = new byte[question.get("size").asInt()];
        Arrays.fill(payload, (byte) 'x');
        int countMax = question.path("count").asInt(Integer.MAX_VALUE);
        List<WriteHandle> writers = create(question);
        try {
            if (writers.size() > 1) {
                CompletableFuture.allOf(
                    writers.stream().map(writer -> writer.appendAsync(payload)).toArray(CompletableFuture[]::new)).get();
            }
            Flight flight = new Flight(question.get("window").asInt(), question.path("pace").asDouble());
            for (int sent = 0; sent < countMax && isOver.getCount() > 0 && flight.mayGoOn(durationNs(question)); sent++) {
                long beganNs = flight.waitRoom();
                flight.follow(writers.get(sent % writers.size()).appendAsync(payload), beganNs, 1);
            }
            ObjectNode found = flight.land();
            ArrayNode ids = found.putArray("ledgers");
            writers.forEach(writer -> ids.add(writer.getId()));
            return found;
        } finally {
            CompletableFuture.allOf(writers.stream().map(WriteHandle::closeAsync).toArray(CompletableFuture[]::new)).get();
        }
    }

    private List<WriteHandle> create(JsonNode question) throws Exception {
        List<CompletableFuture<WriteHandle>> creations = new ArrayList<>();
        for (int number = 0; number < question.path("ledgers").asInt(1); number++) {
            creations.add(client(question, number % question.path("clients").asInt(1)).newCreateLedgerOp()
                .withEnsembleSize(question.path("ensemble").asInt(1)).withWriteQuorumSize(question.path("write").asInt(1))
                .withAckQuorumSize(question.path("ack").asInt(1)).withDigestType(DigestType.CRC32C)
                .withPassword(new byte[0]).execute());
        }
        List<WriteHandle> writers = new ArrayList<>();
        for (CompletableFuture<WriteHandle> creation : creations) {
            writers.add(creation.get());
        }
        return writers;
    }

    /** Reads of a closed ledger, `batch` entries a call, in order or (`random`) not; `once`: nothing is read twice. */
    private ObjectNode reads(JsonNode question, CountDownLatch isOver) throws Exception {
        int batch = question.path("batch").asInt(1);
        boolean isOnce = question.path("once").asBoolean(false);
        BookKeeper client = client(question, question.path("number").asInt());
        try (ReadHandle reader = client.newOpenLedgerOp().withLedgerId(question.get("ledger").asLong())
                .withDigestType(DigestType.CRC32C).withPassword(new byte[0]).withRecovery(false).execute().get()) {
            int[] order = order((int) ((reader.getLastAddConfirmed() + 1) / batch), question);
            Flight flight = new Flight(question.get("window").asInt(), question.path("pace").asDouble());
            for (int call = 0; !(isOnce && call == order.length) && isOver.getCount() > 0
                    && flight.mayGoOn(durationNs(question)); call++) {
                long beganNs = flight.waitRoom();
                long first = (long) order[call % order.length] * batch;
                CompletableFuture<LedgerEntries> read = reader.readAsync(first, first + batch - 1);
                flight.follow(read.thenAccept(LedgerEntries::close), beganNs, batch);
            }
            return flight.land();
        }
    }

    /** The batches 0 to `count` - 1, shuffled by `seed` if `random`. */
    private static int[] order(int count, JsonNode question) {
        int[] order = new int[count];
        Arrays.setAll(order, index -> index);
        if (question.path("random").asBoolean(false)) {
            Random random = new Random(question.path("seed").asLong(1));
            for (int index = count - 1; index > 0; index--) {
                int other = random.nextInt(index + 1);
                int moved = order[index];
                order[index] = order[other];
                order[other] = moved;
            }
        }
        return order;
    }

    private static long durationNs(JsonNode question) {
        return (long) (question.path("seconds").asDouble(3600) * 1e9);
    }

    private BookKeeper client(JsonNode question, int number) throws Exception {
        String uri = question.get("uri").asText();
        boolean isV2 = question.path("v2").asBoolean(false);
        int connections = question.path("connections").asInt(1);
        boolean isPatient = question.path("patient").asBoolean(false);
        String name = isV2 + " " + number + " " + connections + " " + isPatient + " " + uri;
        if (!clients.containsKey(name)) {
            ClientConfiguration settings = new ClientConfiguration();
            settings.setMetadataServiceUri(uri);
            settings.setEnsemblePlacementPolicy(DefaultEnsemblePlacementPolicy.class); // loopback has no racks
            settings.setThrottleValue(0);
            settings.setUseV2WireProtocol(isV2);
            settings.setNumChannelsPerBookie(connections); // a ledger always takes the same one
            settings.setDelayEnsembleChange(isPatient); // a bookie that is gone is waited for while enough others answer
            settings.setZkTimeout(30_000);
            settings.setClientConnectTimeoutMillis(30_000); // a thousand connections at once
            settings.setAddEntryTimeout(30);
            settings.setReadEntryTimeout(30);
            settings.setSpeculativeReadTimeout(0); // one bookie: a second question would only cost
            clients.put(name, BookKeeper.newBuilder(settings).build());
        }
        return clients.get(name);
    }

    @Override
    public void close() throws Exception {
        for (BookKeeper client : clients.values()) {
            client.close();
        }
    }
}
