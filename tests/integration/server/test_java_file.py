"""`bookie serve` with a file kept for Java: it registers as Java's bookie would, answers its admin paths, and ends."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

import children
import local_support
import port_support
import wait_support
import zookeeper_support
from bookie import blocking
from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.cli import main
from bookie.metadata import registration
from bookie.metadata.registration import BookieServiceInfo

pytestmark = pytest.mark.slow

# What is in a fleet's file besides: machinery of a JVM, an older way to name the cluster.
TEMPLATE = Path(__file__).parents[2] / "unit" / "cli" / "bk_server.conf"
ENDS_WITHIN_S = 10.0


class Served:
    """One `bookie serve` process with its settings file."""

    def __init__(
        self, folder: Path, servers: str, *, asks_for_ports: bool = True, asks_for_http: bool = True, **changed: str
    ) -> None:
        self.port, self.http_port, admin, metrics = (port_support.free_port() for _ in range(4))
        self.log = folder / "bookie.log"
        theirs = TEMPLATE.read_text().replace("/data/", f"{folder}/")
        changes = {
            "bookiePort": str(self.port),
            "httpServerPort": str(self.http_port),
            "zkServers": servers,
            "zkLedgersRootPath": "/ledgers",
            "advertisedAddress": "127.0.0.1",
            "useHostNameAsBookieID": "true",
            "diskUsageThreshold": "0.99",
            **changed,
        }
        lines = [line for line in theirs.splitlines() if line.partition("=")[0] not in changes]
        if not asks_for_http:
            del changes["httpServerPort"]
        lines += [f"{name}={value}" for name, value in changes.items()]
        lines += ["listeningAddress=127.0.0.1"]
        lines += [f"adminPort={admin}", f"metricsPort={metrics}"] if asks_for_ports else []
        settings = folder / "bk_server.conf"
        settings.write_text("\n".join(lines) + "\n")
        with self.log.open("ab") as talk:
            argv = [*local_support.BOOKIE, "serve", "--config", str(settings)]
            self.process = children.spawn(argv, stderr=talk, stdout=subprocess.DEVNULL)

    def http(self, path: str, body: object = None) -> tuple[int, str]:
        """GET, or PUT when there is a body; the status and the text."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}{path}", data, method="GET" if data is None else "PUT"
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, children.tail(self.log)
            try:
                return self.http("/api/v1/bookie/is_ready")[0] == 200
            except OSError:
                return False

        wait_support.wait_until(is_ready, "the bookie is ready", timeout_s=90)

    def stop(self) -> tuple[int, float]:
        """SIGTERM; the exit code and how long it took."""
        began_s = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60), time.monotonic() - began_s


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a ZooKeeper with a cluster at /ledgers."""
    with zookeeper_support.running(tmp_path_factory.mktemp("zookeeper")) as running:
        assert main.main(["cluster", "init", "--metadata-service-uri", running.uri, "--json"]) == 0
        yield running.uri.removeprefix("zk+hierarchical://").removesuffix("/ledgers")


def facts(served: Served, path: str) -> Any:
    return json.loads(served.http(path)[1])


def test_a_java_fleet_s_file_serves_and_ends_in_order(
    tmp_path: Path, zookeeper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    served = Served(tmp_path, zookeeper)
    try:
        served.wait_ready()
        with blocking.connect(f"zk://{zookeeper}/ledgers") as client:
            with client.create(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer:
                writer.append(b"kept")
            assert writer.metadata.last_segment.bookies == (f"127.0.0.1:{served.port}",)

        uri = f"zk://{zookeeper}/ledgers"
        assert main.main(["cluster", "list-bookies", "--metadata-service-uri", uri, "--json"]) == 0
        (registered,) = json.loads(capsys.readouterr().out)
        ports = {"bookie-rpc": served.port, "http": served.http_port}
        assert registered["endpoints"] == [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
        assert served.http("/heartbeat") == (200, "OK\n")
        assert facts(served, "/api/v1/bookie/state")["running"] is True
        assert facts(served, "/api/v1/config/server_config")["bookieId"] == f"127.0.0.1:{served.port}"
        assert facts(served, "/api/v1/bookie/info")["totalSpace"] > 0
        assert facts(served, "/api/v1/ledger/list") == {str(writer.id): None}
        (shown,) = facts(served, f"/api/v1/ledger/metadata?ledger_id={writer.id}").values()
        assert (shown["state"], shown["lastEntryId"]) == ("CLOSED", 0)
        assert facts(served, "/api/v1/bookie/list_bookies") == {f"127.0.0.1:{served.port}": None}
        assert facts(served, "/api/v1/autorecovery/status") == {"enabled": True}
        assert "bookie_adds_total 1.0" in served.http("/metrics")[1]
        assert served.http("/api/v1/bookie/state/readonly", {"readOnly": True})[0] == 200
        assert facts(served, "/api/v1/bookie/state/readonly") == {"readOnly": True}

        code, took_s = served.stop()
        assert (code, took_s < wait_support.patient(ENDS_WITHIN_S)) == (0, True), took_s
    finally:
        children.end(served.process, timeout_s=20)
    said = served.log.read_text()
    assert said.count("without meaning here, ignored: ") == 1
    assert f"setting bookiePort={served.port} origin={tmp_path}" in said
    assert "stopped bookie_id=" in said


def test_a_bookie_forced_read_only_is_never_chosen_and_stays_so(tmp_path: Path, zookeeper: str) -> None:
    served = Served(tmp_path, zookeeper, forceReadOnlyBookie="true")
    try:
        served.wait_ready()
        assert facts(served, "/api/v1/bookie/state/readonly") == {"readOnly": True}
        code, text = served.http("/api/v1/bookie/state/readonly", {"readOnly": False})
        assert (code, "forceReadOnlyBookie" in text) == (400, True)
        with blocking.connect(f"zk://{zookeeper}/ledgers") as client, pytest.raises(errors.NotEnoughBookies):
            client.create(ensemble_size=1, write_quorum=1, ack_quorum=1)
        assert "/ledgers/available/readonly/" in served.log.read_text()
        assert f"path=/ledgers/available/127.0.0.1:{served.port}" not in served.log.read_text()
    finally:
        children.end(served.process, timeout_s=20)


def test_ports_that_nobody_asked_for_never_keep_a_bookie_from_starting(
    tmp_path: Path, zookeeper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # One Java file for several bookies of a machine: one says an admin port, which another would have chosen itself.
    with contextlib.ExitStack() as taken:
        port = low_port(taken)
        (tmp_path / "1").mkdir()
        (tmp_path / "2").mkdir()
        with contextlib.suppress(OSError):  # somebody has it already
            taken.enter_context(listener(8080))
        first = Served(tmp_path / "1", zookeeper, asks_for_ports=False, adminPort=str(port + 10_000))
        taken.callback(children.end, first.process, timeout_s=20)
        first.wait_ready()

        second = Served(tmp_path / "2", zookeeper, asks_for_ports=False, asks_for_http=False, bookiePort=str(port))
        taken.callback(children.end, second.process, timeout_s=20)
        wait_support.wait_until(lambda: "serving bookie_id=" in second.log.read_text(), "it serves", timeout_s=90)
        said = second.log.read_text()
        found = re.search(r"httpServerPort is not set and 8080 is taken: it is (\d+)", said)
        assert found is not None
        second.http_port = int(found.group(1))
        second.wait_ready()
        registered = registered_at(zookeeper, f"127.0.0.1:{port}")
        assert [one.port for one in registered.endpoints] == [port, second.http_port]

        for key, above in (("adminPort", 10_000), ("metricsPort", 20_000)):
            assert f"{key} is not set and {port + above} is taken: it is " in said
        assert main.main(["node", "show", "--config", str(tmp_path / "2" / "bk_server.conf")]) == 2
        assert f"is 127.0.0.1:{first.port}, not 127.0.0.1:{port}: add --admin" in capsys.readouterr().err
        found = re.search(r"adminPort is not set and \d+ is taken: it is (\d+)", said)
        assert found is not None
        assert main.main(["node", "show", "--admin", f"127.0.0.1:{found.group(1)}", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bookieId"] == f"127.0.0.1:{port}"


def registered_at(zookeeper: str, bookie_id: str) -> BookieServiceInfo:
    client = KazooClient(zookeeper)
    client.start()
    try:
        return registration.load_service_info(BookieId(bookie_id), client.get(f"/ledgers/available/{bookie_id}")[0])
    finally:
        client.stop()
        client.close()


def low_port(taken: contextlib.ExitStack) -> int:
    """A free port, so low that those derived from it exist; that of its metrics is in use from now on."""
    for port in range(21_000, 31_000, 7):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            held.enter_context(listener(port)).close()
            held.enter_context(listener(port + 10_000)).close()
            held.enter_context(listener(port + 20_000))
            taken.push(held.pop_all())
            return port
    raise AssertionError("no free port")


def listener(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))
