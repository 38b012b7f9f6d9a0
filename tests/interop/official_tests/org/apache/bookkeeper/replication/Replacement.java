package org.apache.bookkeeper.replication;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.conf.ServerConfiguration;

/** A process of ours (tests/support/replacement_child.py) that does what a Java object would do in this JVM. */
final class Replacement {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int GRACE_PERIODS = 32; // between Java's first pause for a ledger that fails, and its longest

    private final String name;
    private final String roles;
    private final ServerConfiguration settings;
    private Process process;
    private BufferedWriter questions;
    private BufferedReader answers;

    /** `roles`: auditor, worker or both. `name` stands in the vote. */
    Replacement(String name, String roles, ServerConfiguration settings) {
        this.name = name;
        this.roles = roles;
        this.settings = settings;
    }

    /** Start the process; it has voted, or looked at the queue, when this returns. */
    synchronized void start() {
        if (process != null) {
            return;
        }
        try {
            process = new ProcessBuilder(
                    System.getProperty("replacement.python"), System.getProperty("replacement.child"), options())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        questions = new BufferedWriter(new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8));
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        ask("begin");
    }

    /** The settings of ours that correspond to Java's. */
    private String options() {
        long failedPauseMax = settings.getLockReleaseOfFailedLedgerGracePeriod();
        ObjectNode told = JSON.createObjectNode();
        told.put("loss_delay_ms", settings.getLostBookieRecoveryDelay() * 1000L);
        told.put("audit_interval_ms", Math.max(1, settings.getAuditorPeriodicBookieCheckInterval()) * 1000L);
        told.put("check_interval_ms", settings.getAuditorPeriodicCheckInterval() * 1000L);
        told.put("probe_interval_ms", settings.getAuditorPeriodicCheckInterval() * 1000L);
        told.put("open_ledger_grace_ms", settings.getOpenLedgerRereplicationGracePeriod());
        told.put("poll_ms", settings.getRwRereplicateBackoffMs());
        told.put("retry_ms", Math.max(1, failedPauseMax / GRACE_PERIODS));
        told.put("retry_ms_max", failedPauseMax);
        ObjectNode all = JSON.createObjectNode();
        all.put("uri", settings.getMetadataServiceUriUnchecked());
        all.put("name", name);
        all.put("roles", roles);
        all.put("session_ms", settings.getZkTimeout());
        all.set("options", told);
        return all.toString();
    }

    synchronized boolean isRunning() {
        return process != null && process.isAlive();
    }

    /** Return the answer to `question`; null when the process is not there. */
    synchronized JsonNode ask(String question) {
        if (!isRunning()) {
            return JSON.nullNode();
        }
        try {
            questions.write(question + "\n");
            questions.flush();
            String line = answers.readLine();
            return line == null ? JSON.nullNode() : JSON.readTree(line);
        } catch (IOException error) {
            return JSON.nullNode();
        }
    }

    /** End the process in order, as a stop signal would; by force when it does not. */
    void stop() {
        if (!isRunning()) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(20, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
