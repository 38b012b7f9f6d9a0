"""`bookie local` as its users meet it: one line of JSON, bookies that serve, an orderly end, and nothing restarted."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import local_support
import server_support
import wait_support
from bookie.base.errors import Status
from bookie.rpc import admin_pb2, admin_pb2_grpc
from bookie.wire.messages import Request, Response
from client_session import ClientSession
from local_support import LocalBookie, LocalFleet

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=2) as running:
        yield running


def ask(bookie: LocalBookie, request: Request) -> Response:
    """One request over a raw socket."""
    session: ClientSession[str] = ClientSession()
    with socket.create_connection(("127.0.0.1", bookie.port), timeout=DEADLINE_S) as connection:
        connection.sendall(b"".join(session.send(request, "asked")))
        while True:
            chunk = connection.recv(65536)
            assert chunk, "the bookie closed the connection"
            for _, response in session.receive(chunk):
                return response


def health(bookie: LocalBookie, service: str) -> int:
    with grpc.insecure_channel(bookie.admin) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=DEADLINE_S, wait_for_ready=True)
        return int(answer.status)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_bookies_serve_at_once(fleet: LocalFleet) -> None:
    for bookie in fleet.bookies:
        assert ask(bookie, server_support.add(0)).status is Status.EOK
        answer = ask(bookie, server_support.read(0))
        assert answer.body == server_support.body(0)  # type: ignore[union-attr]


def test_the_admin_port_reports_and_answers_probes(fleet: LocalFleet) -> None:
    bookie = fleet.bookies[0]

    with grpc.insecure_channel(bookie.admin) as channel:
        stub = admin_pb2_grpc.AdminStub(channel)
        report = stub.GetStorageReport(admin_pb2.GetStorageReportRequest(), timeout=DEADLINE_S, wait_for_ready=True)
        last = list(stub.GetRepairStatus(admin_pb2.GetRepairStatusRequest(), timeout=DEADLINE_S))[-1]
        refused = stub.GrantRegeneration(admin_pb2.Grant(grant_id="g"), timeout=DEADLINE_S)

    assert report.bookie_id == bookie.bookie_id
    assert report.state in (admin_pb2.SERVING, admin_pb2.REPAIRING)
    assert report.data_port_open
    assert [volume.role for volume in report.volumes] == ["journal", "ledgers", "index"]
    assert last.done
    assert (refused.accepted, refused.refused_reason) == (False, "not_waiting")
    assert [health(bookie, name) for name in ("process", "storage", "serving", "")] == [1, 1, 1, 1]
    with pytest.raises(grpc.RpcError) as caught:
        health(bookie, "nonsense")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_metrics_are_what_prometheus_reads(fleet: LocalFleet) -> None:
    bookie = fleet.bookies[0]
    ask(bookie, server_support.add(1))

    with urllib.request.urlopen(f"http://127.0.0.1:{bookie.metrics_port}/metrics", timeout=DEADLINE_S) as answer:
        text = answer.read().decode()

    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    assert float(lines["bookie_adds_total"]) >= 1
    assert float(lines['bookie_add_latency_seconds_bucket{le="+Inf"}']) >= 1
    assert float(lines["process_resident_memory_bytes"]) < 150 * 1024 * 1024


def test_a_second_start_of_a_bookie_that_runs_is_told_and_ends(fleet: LocalFleet) -> None:
    config = str(fleet.bookies[0].facts["config"])

    done = subprocess.run(
        [*local_support.BOOKIE, "serve", "--config", config],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("bookie: held by another process: ")
    for directory in (fleet.bookies[0].journal, fleet.bookies[0].ledgers, fleet.bookies[0].index):
        assert f" {directory} ({config}:" in said


def test_a_killed_bookie_stays_dead_until_its_settings_file_starts_it_again(tmp_path: Path) -> None:
    with local_support.fleet(tmp_path / "data", tmp_path / "fleet.log", bookies=1) as fleet:
        bookie = fleet.bookies[0]
        assert ask(bookie, server_support.add(0)).status is Status.EOK
        os.kill(bookie.pid, signal.SIGKILL)
        log = fleet.log
        wait_support.wait_until(
            lambda: "bookie-1 ended" in log.read_text(), "the fleet tells of the death", timeout_s=DEADLINE_S
        )

        again = subprocess.Popen(
            [*local_support.BOOKIE, "serve", "--config", str(bookie.facts["config"])], stderr=subprocess.DEVNULL
        )
        try:
            serving = health_pb2.HealthCheckResponse.SERVING
            wait_support.wait_until(
                lambda: health(bookie, "serving") == serving, "the bookie serves again", timeout_s=DEADLINE_S
            )
            answer = ask(bookie, server_support.read(0))
            assert answer.body == server_support.body(0)  # type: ignore[union-attr]
        finally:
            again.terminate()
            assert again.wait(timeout=DEADLINE_S) == 0


def zookeeper_pid(fleet: LocalFleet) -> int:
    started = re.findall(r"starting ZooKeeper port=\d+ pid=(\d+)", fleet.log.read_text())
    return int(started[-1])


def test_after_a_power_cut_the_bookies_serve_at_once_too(tmp_path: Path) -> None:
    """The registrations of the lives before stand until their sessions end."""
    data, log = tmp_path / "data", tmp_path / "fleet.log"
    with local_support.fleet(data, log, bookies=2) as fleet:
        for pid in (zookeeper_pid(fleet), *(bookie.pid for bookie in fleet.bookies), fleet.process.pid):
            local_support.end(pid, signal.SIGKILL)

    with local_support.fleet(data, log, bookies=2) as fleet:
        for bookie in fleet.bookies:
            assert ask(bookie, server_support.add(0)).status is Status.EOK


def test_the_death_of_zookeeper_is_told(tmp_path: Path) -> None:
    with local_support.fleet(tmp_path / "data", tmp_path / "fleet.log", bookies=1) as fleet:
        os.kill(zookeeper_pid(fleet), signal.SIGKILL)

        log = fleet.log
        wait_support.wait_until(lambda: "zookeeper ended" in log.read_text(), "it is told", timeout_s=DEADLINE_S)


def test_sigterm_ends_everything_with_exit_code_zero(tmp_path: Path) -> None:
    with local_support.fleet(tmp_path / "data", tmp_path / "fleet.log", bookies=1) as fleet:
        fleet.process.terminate()

        assert fleet.process.wait(timeout=DEADLINE_S) == 0
        assert not is_alive(fleet.bookies[0].pid)


def test_zookeeper_keeps_its_data_in_a_folder_whose_name_java_reads_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its data lay beside the folder, under a name that nobody chose, and outlived it: the next fleet there was refused.
    monkeypatch.setenv("LC_ALL", "C")
    data = tmp_path / "für uns" / "back\\slash"

    with local_support.fleet(data, tmp_path / "fleet.log", bookies=1) as fleet:
        assert ask(fleet.bookies[0], server_support.add(0)).status is Status.EOK

        assert (data / "zookeeper" / "data" / "version-2").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fleet.log", "für uns"]
    assert [path.name for path in data.parent.iterdir()] == ["back\\slash"]


def test_a_missing_java_is_told(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": "/nowhere"}

    done = subprocess.run(
        [sys.executable, "-m", "bookie", "local", "--data", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env=environment,
    )

    assert done.returncode == 2
    assert "JAVA_HOME is /nowhere" in done.stderr


def test_a_fleet_does_not_take_the_zookeeper_of_another_one_for_its_own(fleet: LocalFleet, tmp_path: Path) -> None:
    port = fleet.uri.rpartition(":")[2].removesuffix("/ledgers")

    second = subprocess.run(
        [*local_support.BOOKIE, "local", "--data", str(tmp_path), "--bookies", "1", "--zk-port", port],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert second.returncode == 1
    assert f"ZooKeeper cannot listen on port {port}: Address already in use" in second.stderr
    assert not list(tmp_path.glob("*.conf"))
    assert not (tmp_path / "zookeeper").exists()  # a zoo.cfg would name the port to the next start


def test_a_second_fleet_in_a_running_folder_is_refused_and_touches_nothing(fleet: LocalFleet) -> None:
    config = Path(str(fleet.bookies[0].facts["config"]))
    before = config.read_bytes()

    second = subprocess.run(
        [*local_support.BOOKIE, "local", "--data", str(config.parent), "--bookies", "3"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert second.returncode == 1
    assert f"another `bookie local` runs in {config.parent}" in second.stderr
    assert "choose another --data" in second.stderr
    assert config.read_bytes() == before
    assert not (config.parent / "bookie-3.conf").exists()
