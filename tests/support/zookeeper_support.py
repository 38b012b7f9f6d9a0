"""A real ZooKeeper for tests: the jars inside pip's pyspark, one process on a free port of the loopback interface.

Started in under a second (local-cluster.md, 4). Can be killed and started again over the same data, and frozen, so that
tests can take answers away. Ends its own process by its id and nothing else.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import children
import port_support
import wait_support

JARS = ("zookeeper-3", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
# Besides, for a server that speaks TLS (NettyServerCnxnFactory).
NETTY_JARS = "netty-*"
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
SMALL_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# No test's ZooKeeper waits for its disk: one that stands still for some seconds, as a busy machine's may, would end the
# sessions of bookies, and a test would find fewer than it started. A kill loses nothing by it.
UNSYNCED = "-Dzookeeper.forceSync=no"
START_TIMEOUT_S = 120.0
# Sessions may be as short as two ticks: tests of lost sessions do not want to wait for long.
TICK_MS = 500


class ZooKeeper:
    """One server. `address` stays the same over restarts."""

    def __init__(
        self,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        enter: Sequence[str] = (),
        settings: Mapping[str, object] | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        """`enter`: what goes before the command, where it is to run on a machine of its own at `host`. `settings`:
        more lines of zoo.cfg; `jvm`: more options of Java."""
        self.folder = folder
        self.host = host
        self.port = port_support.free_port()
        self._enter = tuple(enter)
        self.settings = dict(settings or {})
        self._jvm = tuple(jvm)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def uri(self) -> str:
        return f"zk+hierarchical://{self.address}/ledgers"

    def logs(self) -> list[Path]:
        return [self.folder / "zookeeper.log"]

    def start(self) -> None:
        """Start, or start again after `stop`; returns when it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "zoo.cfg"
        settings.write_text(
            f"dataDir={self.folder}/data\nclientPort={self.port}\nclientPortAddress={self.host}\ntickTime={TICK_MS}\n"
            "admin.enableServer=false\n4lw.commands.whitelist=srvr\nmaxClientCnxns=0\nfsync.warningthresholdms=60000\n"
            + "".join(f"{name}={value}\n" for name, value in self.settings.items())
        )
        with (self.folder / "zookeeper.log").open("ab") as log:
            command = [
                *self._enter,
                _java(),
                *SMALL_JVM,
                UNSYNCED,
                *self._jvm,
                "-cp",
                class_path(),
                MAIN_CLASS,
                str(settings),
            ]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_support.wait_until(self._answers, f"ZooKeeper on port {self.port}", timeout_s=START_TIMEOUT_S)

    def stop(self) -> None:
        """Kill it; the data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """While it holds, connections stand but nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"ZooKeeper ended at once:\n{children.tail(*self.logs())}")
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as connection:
                # "ruok" says yes before it serves; "srvr" does not.
                connection.sendall(b"srvr")
                return connection.recv(64).startswith(b"Zookeeper version")
        except OSError:
            return False


@contextlib.contextmanager
def running(folder: Path, **options: Any) -> Iterator[ZooKeeper]:
    """A server that is there inside the `with` block. `folder` is its own; `options`: of `ZooKeeper`."""
    server = ZooKeeper(folder, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def class_path() -> str:
    """The jars of a ZooKeeper server, from the installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "pyspark is not installed: make install"
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "jars"
    found = [next(folder.glob(f"{name}*.jar"), None) for name in JARS]
    assert all(found), f"the ZooKeeper jars are not in {folder}"
    return ":".join(str(jar) for jar in [*found, *sorted(folder.glob(NETTY_JARS))])


def _java() -> str:
    java = shutil.which("java")
    assert java is not None, "Java is not on the PATH: apt-get install openjdk-17-jre-headless"
    return java
