import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.DefaultEnsemblePlacementPolicy;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.client.api.LedgersIterator;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteAdvHandle;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;

/** One client, its handles by number, and what can be asked of them. Payloads travel as base64. */
final class Ledgers implements AutoCloseable {
    private final ClientConfiguration settings;
    private final BookKeeper client;
    private final Bench bench = new Bench();
    private final Map<Integer, AutoCloseable> handles = new HashMap<>();
    private final Map<Integer, LiveWriter> streams = new HashMap<>();
    private int handleNext = 1;

    /** `options`: uri, v2 (the old wire protocol), explicitLacMs, settings by name. Throttle off: comparisons need it. */
    Ledgers(JsonNode options) throws Exception {
        settings = new ClientConfiguration();
        settings.setMetadataServiceUri(options.get("uri").asText());
        settings.setEnsemblePlacementPolicy(DefaultEnsemblePlacementPolicy.class); // loopback has no racks
        settings.setThrottleValue(0);
        settings.setUseV2WireProtocol(options.path("v2").asBoolean(false));
        settings.setExplictLacInterval(options.path("explicitLacMs").asInt(0));
        // A busy machine is not a dead bookie: what a test kills refuses connections at once.
        settings.setZkTimeout(30_000);
        settings.setAddEntryTimeout(30);
        settings.setReadEntryTimeout(30);
        settings.setClientConnectTimeoutMillis(30_000);
        options.path("settings").fields().forEachRemaining(
            field -> settings.setProperty(field.getKey(), field.getValue().asText()));
        client = BookKeeper.newBuilder(settings).build();
    }

    JsonNode dispatch(String operation, JsonNode question) throws Exception {
        switch (operation) {
            case "create":
                return create(question);
            case "open":
                return open(question);
            case "append":
                return append(question);
            case "force":
                ((WriteHandle) handle(question)).force().get();
                return Judge.JSON.createObjectNode();
            case "read":
                return read(question);
            case "batch":
                return batch(question);
            case "lac":
                return lac(question);
            case "tail":
                return tail(question);
            case "metadata":
                return metadata(question);
            case "close":
                handles.remove(question.get("handle").asInt()).close();
                return Judge.JSON.createObjectNode();
            case "forget": // the writer's process "dies": the handle is dropped, the ledger stays open
                handles.remove(question.get("handle").asInt());
                return Judge.JSON.createObjectNode();
            case "delete":
                client.newDeleteLedgerOp().withLedgerId(question.get("ledger").asLong()).execute().get();
                return Judge.JSON.createObjectNode();
            case "list":
                return list();
            case "entries":
                return entries(question);
            case "stream":
                return stream(question);
            case "stream_stop":
                return streams.remove(question.get("handle").asInt()).halt();
            case "bench":
                return bench.run(question);
            case "bench-begin":
                return bench.begin(question);
            case "bench-end":
                return bench.end();
            default:
                throw new IllegalArgumentException("the judge knows no operation " + operation);
        }
    }

    private ObjectNode create(JsonNode question) throws Exception {
        Map<String, byte[]> custom = new HashMap<>();
        question.path("custom").fields().forEachRemaining(
            field -> custom.put(field.getKey(), field.getValue().asText().getBytes(StandardCharsets.UTF_8)));
        var builder = client.newCreateLedgerOp()
            .withEnsembleSize(question.path("ensemble").asInt(3))
            .withWriteQuorumSize(question.path("write").asInt(3))
            .withAckQuorumSize(question.path("ack").asInt(2))
            .withDigestType(digest(question))
            .withPassword(password(question))
            .withCustomMetadata(custom);
        if (question.path("deferredSync").asBoolean(false)) {
            builder = builder.withWriteFlags(WriteFlag.DEFERRED_SYNC);
        }
        ReadHandle writer = question.path("advanced").asBoolean(false)
            ? builder.makeAdv().execute().get() : builder.execute().get();
        return keep(writer);
    }

    private ObjectNode open(JsonNode question) throws Exception {
        return keep(client.newOpenLedgerOp()
            .withLedgerId(question.get("ledger").asLong())
            .withDigestType(digest(question))
            .withPassword(password(question))
            .withRecovery(question.path("recovery").asBoolean(true))
            .execute().get());
    }

    private ObjectNode keep(ReadHandle opened) {
        int number = handleNext++;
        handles.put(number, opened);
        return Judge.JSON.createObjectNode().put("handle", number).put("ledger", opened.getId())
            .put("last", opened.getLastAddConfirmed()).put("length", opened.getLength())
            .put("closed", opened.isClosed());
    }

    /** Adds all payloads without waiting between them; the answer has every entry id. */
    private ObjectNode append(JsonNode question) throws Exception {
        List<CompletableFuture<Long>> pending = new ArrayList<>();
        long entry = question.path("first").asLong(0);
        for (JsonNode payload : question.get("payloads")) {
            byte[] bytes = Base64.getDecoder().decode(payload.asText());
            pending.add(handle(question) instanceof WriteAdvHandle
                ? ((WriteAdvHandle) handle(question)).writeAsync(entry++, bytes)
                : ((WriteHandle) handle(question)).appendAsync(bytes));
        }
        ObjectNode answer = Judge.JSON.createObjectNode();
        ArrayNode entries = answer.putArray("entries");
        for (CompletableFuture<Long> one : pending) {
            entries.add(one.get());
        }
        return answer;
    }

    private ObjectNode read(JsonNode question) throws Exception {
        ReadHandle reader = (ReadHandle) handle(question);
        long first = question.get("first").asLong();
        long last = question.get("last").asLong();
        ObjectNode answer = Judge.JSON.createObjectNode();
        ArrayNode payloads = answer.putArray("payloads");
        try (LedgerEntries entries = question.path("unconfirmed").asBoolean(false)
                ? reader.readUnconfirmed(first, last) : reader.read(first, last)) {
            for (LedgerEntry entry : entries) {
                payloads.add(Base64.getEncoder().encodeToString(entry.getEntryBytes()));
            }
        }
        return answer;
    }

    /** As many entries from `first` on as the bookies put into one answer. */
    private ObjectNode batch(JsonNode question) throws Exception {
        ReadHandle reader = (ReadHandle) handle(question);
        ObjectNode answer = Judge.JSON.createObjectNode();
        ArrayNode payloads = answer.putArray("payloads");
        try (LedgerEntries entries = reader.batchRead(question.get("first").asLong(),
                question.path("countMax").asInt(0), question.path("sizeMax").asLong(5 << 20))) {
            for (LedgerEntry entry : entries) {
                payloads.add(Base64.getEncoder().encodeToString(entry.getEntryBytes()));
            }
        }
        return answer;
    }

    /** The last add confirmed: asked of a quorum (`how` = read), of whoever answers first (try), or known (local). */
    private ObjectNode lac(JsonNode question) throws Exception {
        ReadHandle reader = (ReadHandle) handle(question);
        String how = question.path("how").asText("read");
        long last = how.equals("read") ? reader.readLastAddConfirmed()
            : how.equals("try") ? reader.tryReadLastAddConfirmed() : reader.getLastAddConfirmed();
        return Judge.JSON.createObjectNode().put("last", last);
    }

    /** Long poll: waits on the bookies until `entry` is confirmed, and brings it. */
    private ObjectNode tail(JsonNode question) throws Exception {
        ReadHandle reader = (ReadHandle) handle(question);
        ObjectNode answer = Judge.JSON.createObjectNode();
        try (LastConfirmedAndEntry seen = reader.readLastAddConfirmedAndEntry(question.get("entry").asLong(),
                question.path("timeoutMs").asLong(5_000), question.path("parallel").asBoolean(false))) {
            answer.put("last", seen.getLastAddConfirmed());
            if (seen.hasEntry()) {
                answer.put("payload", Base64.getEncoder().encodeToString(seen.getEntry().getEntryBytes()));
            }
        }
        return answer;
    }

    private ObjectNode metadata(JsonNode question) throws Exception {
        LedgerMetadata stored = client.getLedgerMetadata(question.get("ledger").asLong()).get();
        ObjectNode answer = Judge.JSON.createObjectNode();
        answer.put("state", stored.getState().name()).put("ensemble", stored.getEnsembleSize())
            .put("write", stored.getWriteQuorumSize()).put("ack", stored.getAckQuorumSize())
            .put("last", stored.isClosed() ? stored.getLastEntryId() : -1)
            .put("length", stored.isClosed() ? stored.getLength() : -1)
            .put("digest", String.valueOf(stored.getDigestType()));
        ObjectNode custom = answer.putObject("custom");
        stored.getCustomMetadata().forEach((key, value) -> custom.put(key, new String(value, StandardCharsets.UTF_8)));
        ArrayNode segments = answer.putArray("segments");
        stored.getAllEnsembles().forEach((first, bookies) -> {
            ArrayNode names = segments.addObject().put("first", first).putArray("bookies");
            bookies.forEach(bookie -> names.add(bookie.toString()));
        });
        return answer;
    }

    private ObjectNode list() throws Exception {
        ObjectNode answer = Judge.JSON.createObjectNode();
        ArrayNode found = answer.putArray("ledgers");
        try (var ledgers = client.newListLedgersOp().execute().get()) {
            for (LedgersIterator each = ledgers.iterator(); each.hasNext(); ) {
                found.add(each.next());
            }
        }
        return answer;
    }

    /** Which of `asked` the bookie says it has, by its own list; and how many it has. */
    private ObjectNode entries(JsonNode question) throws Exception {
        ObjectNode answer = Judge.JSON.createObjectNode();
        ArrayNode there = answer.putArray("there");
        try (BookKeeperAdmin admin = new BookKeeperAdmin(settings)) {
            AvailabilityOfEntriesOfLedger found = admin.asyncGetListOfEntriesOfLedger(
                BookieId.parse(question.get("bookie").asText()), question.get("ledger").asLong()).get();
            answer.put("count", found.getTotalNumOfAvailableEntries());
            for (JsonNode entry : question.get("asked")) {
                there.add(found.isEntryAvailable(entry.asLong()));
            }
        }
        return answer;
    }

    private ObjectNode stream(JsonNode question) throws IOException {
        LiveWriter writer = new LiveWriter((WriteHandle) handle(question), question.get("template").asText());
        streams.put(question.get("handle").asInt(), writer);
        writer.start();
        return Judge.JSON.createObjectNode();
    }

    private AutoCloseable handle(JsonNode question) {
        AutoCloseable found = handles.get(question.get("handle").asInt());
        if (found == null) {
            throw new IllegalArgumentException("no handle " + question.get("handle"));
        }
        return found;
    }

    private static DigestType digest(JsonNode question) {
        return DigestType.valueOf(question.path("digest").asText("CRC32C"));
    }

    private static byte[] password(JsonNode question) {
        return question.path("password").asText("").getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public void close() throws Exception {
        bench.close();
        client.close();
    }
}
