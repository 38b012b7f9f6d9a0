"""Official ZooKeeper and official Java bookies as processes on this machine: to judge our client, and to race against.

Each server is ended by whoever started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import subprocess
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import java_support
import port_support
import wait_support
import zookeeper_support
from bookie import connect
from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.metadata import paths

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0
ROOT = "/ledgers"
DB_STORAGE = "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage"
SORTED_STORAGE = "org.apache.bookkeeper.bookie.SortedLedgerStorage"
LOG = "bookie.log"
FAST_JVM = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g")


@dataclasses.dataclass(frozen=True, slots=True)
class JudgedFleet:
    """Bookies under judgement, ours or official ones; `folder` is for logs and settings of the judge."""

    uri: str
    bookie_ids: list[str]
    folder: Path

    def logs(self) -> list[Path]:
        """What its bookies, its metadata store and the judge's clients say."""
        return [
            log
            for pattern in ("*.log", "fleet/logs/*.log", "java-bookie-*/bookie.log")
            for log in sorted(self.folder.glob(pattern))
        ]


@contextlib.contextmanager
def java_server(main: str, arguments: Sequence[str], log: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one Java program until the body ends; its output goes to `log`."""
    argv = ["java", *flags, "-cp", java_support.class_path(), main, *arguments]
    with log.open("ab") as output, subprocess.Popen(argv, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until `port` takes connections. Raises with the end of the log when the server ends or is too late."""

    def is_open() -> bool:
        if process.poll() is not None:
            raise AssertionError(
                f"{log.name}: ended with {process.returncode}: {log.read_text(encoding='utf-8')[-2000:]}"
            )
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_support.wait_until(is_open, f"port {port} of {log.name}", timeout_s=START_TIMEOUT_S)


@contextlib.contextmanager
def zookeeper(folder: Path) -> Iterator[str]:
    """Run an official ZooKeeper with a freshly formatted BookKeeper cluster; give its metadataServiceUri."""
    port = port_support.free_port()
    log = folder / "zookeeper.log"
    unsynced = zookeeper_support.UNSYNCED
    flags = [
        *java_support.SMALL_JVM,
        unsynced,
        "-Dzookeeper.admin.enableServer=false",
        "-Dzookeeper.4lw.commands.whitelist=*",
    ]
    arguments = [str(port), str(folder / "zookeeper")]
    with java_server("org.apache.zookeeper.server.ZooKeeperServerMain", arguments, log, *flags) as process:
        wait_port(port, process, log)
        uri = f"zk+hierarchical://127.0.0.1:{port}{ROOT}"
        told = java_support.shell(uri, folder, "initnewcluster")
        assert "Successfully initiated cluster" in told, told
        yield uri


@contextlib.contextmanager
def bookies(
    uri: str,
    folder: Path,
    count: int,
    *,
    fast: bool = False,
    ports: Sequence[int] = (),
    started: list[int] | None = None,
    storage: str = DB_STORAGE,
    settings: Mapping[str, str] = types.MappingProxyType({}),
) -> Iterator[list[str]]:
    """Run `count` official bookies registered at `uri`; give their ids (host:port). `fast`: as one would run it.

    `ports` of an earlier run start the same bookies again. Their process ids are appended to `started`.
    `settings`: what they have besides, by Java's names.
    """
    with contextlib.ExitStack() as stack:
        starting = []
        for port in ports or port_support.free_ports(count):
            home = settings_of(folder, port).parent
            path = _write_settings(uri, home, port, storage, settings, cache_mb=256 if fast else 16)
            starting.append((port, stack.enter_context(again(path, fast=fast)), home / LOG))
        for port, process, log in starting:
            wait_port(port, process, log)
            if started is not None:
                started.append(process.pid)
        ids = [f"127.0.0.1:{port}" for port, _, _ in starting]
        wait_registered(uri, ids)
        yield ids


def again(settings: Path, *, fast: bool) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """Run the official bookie of this settings file, until the body ends; nobody waits for it."""
    flags = FAST_JVM if fast else (*java_support.SMALL_JVM, "-XX:MaxDirectMemorySize=256m")
    return java_server("org.apache.bookkeeper.server.Main", ["-c", str(settings)], settings.parent / LOG, *flags)


def settings_of(folder: Path, port: int) -> Path:
    """Return where `bookies` writes the settings of the one at `port`."""
    return folder / f"java-bookie-{port}" / "bookie.conf"


def wait_registered(uri: str, bookie_ids: Sequence[str]) -> None:
    """Wait until clients can choose all of them: an official bookie may open its port before its record is seen."""

    async def writable() -> set[str]:
        try:
            async with connect.connect(uri) as client:
                return {str(record.bookie_id) for record in await client.admin.bookies() if not record.is_read_only}
        except errors.MetadataError:  # a busy machine: the next look may find it answering
            return set()

    wanted = set(bookie_ids)
    wait_support.wait_until(
        lambda: wanted <= asyncio.run(writable()), f"{sorted(wanted)} to be registered", timeout_s=START_TIMEOUT_S
    )


def forget(uri: str, bookie_id: str) -> None:
    """Make a cluster what it was before a bookie that has ended: nobody waits for the end of its session."""

    async def forgotten() -> None:
        async with connect.connect(uri) as client:
            ledgers, name = client.shared.ledgers, BookieId(bookie_id)
            records = (f"{paths.available(ledgers.root)}/{name}", f"{paths.readonly(ledgers.root)}/{name}")
            for path in (*records, paths.cookie(ledgers.root, name)):
                with contextlib.suppress(errors.NodeMissing):
                    await ledgers.store.delete(path)

    asyncio.run(forgotten())


def _write_settings(uri: str, home: Path, port: int, storage: str, more: Mapping[str, str], *, cache_mb: int) -> Path:
    """Write one bookie's settings: journal synced before every answer, no auto-recovery."""
    home.mkdir(parents=True, exist_ok=True)
    settings = {
        "metadataServiceUri": uri,
        "bookiePort": port,
        "advertisedAddress": "127.0.0.1",
        "allowLoopback": "true",
        "journalDirectory": f"{home}/journal",
        "ledgerDirectories": f"{home}/ledgers",
        "ledgerStorageClass": storage,
        "dbStorage_writeCacheMaxSizeMb": cache_mb,
        "dbStorage_readAheadCacheMaxSizeMb": cache_mb,
        "dbStorage_rocksDB_blockCacheSize": 16_777_216,
        "journalSyncData": "true",
        "autoRecoveryDaemonEnabled": "false",
        "httpServerEnabled": "false",
        "zkTimeout": 30_000,
        "diskUsageThreshold": 0.99,
        "diskUsageWarnThreshold": 0.98,
        **more,  # of a name that stands twice Java takes the first value
    }
    path = settings_of(home.parent, port)
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path
