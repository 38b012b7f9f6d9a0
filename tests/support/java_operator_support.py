"""The official shell and the official auto-recovery as one process that is told what to do (tests/interop/java)."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import java_support

# Small figures, so that a test need not wait for what is meant for weeks of quiet.
QUICK = {
    "zkTimeout": "30000",
    "allowLoopback": "true",
    "ensemblePlacementPolicy": "org.apache.bookkeeper.client.DefaultEnsemblePlacementPolicy",  # loopback has no racks
    "advertisedAddress": "127.0.0.1",
    "lostBookieRecoveryDelay": "0",
    "openLedgerRereplicationGracePeriod": "1000",
    "lockReleaseOfFailedLedgerGracePeriod": "1000",
    "rwRereplicateBackoffMs": "200",
    "auditorPeriodicBookieCheckInterval": "86400",
    "auditorPeriodicCheckInterval": "0",
}


class JavaOperator:
    """One JVM for all commands of a test run. Every call waits for the answer; a Java exception is JudgeError."""

    def __init__(self, uri: str, log: Path, **settings: str) -> None:
        logging = f"-Dlog4j2.configurationFile={java_support.SOURCES / 'log4j2.xml'}"
        options = {"metadataServiceUri": uri, **QUICK, **settings}
        self._process = java_support.JavaProcess("Operator", options, log, *java_support.SMALL_JVM, logging)

    def shell(self, *words: str) -> str:
        """Run `bookkeeper shell WORDS`; return all it printed. Callers judge the text."""
        told: str = self._process.ask("shell", words=list(words))["told"]
        return told

    @property
    def pid(self) -> int:
        return self._process.pid

    def start_recovery(self) -> None:
        """Be an auditor and a replication worker from now on."""
        self._process.ask("recovery_start")

    def start_auditor(self) -> None:
        """Stand for auditor from now on, and copy nothing."""
        self._process.ask("auditor_start")

    def start_worker(self) -> None:
        """Be a replication worker from now on, and stand for nothing."""
        self._process.ask("worker_start")

    def stop_recovery(self) -> None:
        """Be nothing of all that any more."""
        self._process.ask("recovery_stop")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.end()
