"""How the benchmark finds out that a bookie serves again, and what it tells the bookies that it starts."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

import bench_sides
import bench_swarm
import port_support

SIZE = bench_swarm._ADD.size + 1
OK, READ_ONLY = 0, 105


def answered(code: int | None) -> bool:
    """What is made of a bookie that answers `code`, or closes the connection without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                request = connection.recv(SIZE, socket.MSG_WAITALL)
                if code is not None:
                    ledger, entry = bench_swarm._ADD.unpack(request[:-1])[5:7]
                    connection.sendall(bench_swarm._ANSWER.pack(24, 2, 1, 0, code, ledger, entry))

        thread = threading.Thread(target=serve)
        thread.start()
        found = bench_swarm.acknowledges(server.getsockname()[1], 7)
        thread.join()
        return found


@pytest.mark.parametrize(("code", "serves"), [(OK, True), (READ_ONLY, False), (None, False)])
def test_a_bookie_serves_when_it_takes_an_add(code: int | None, serves: bool) -> None:
    assert answered(code) is serves


def test_where_nobody_listens_no_bookie_serves() -> None:
    assert not bench_swarm.acknowledges(port_support.free_port(), 7)


def test_settings_of_a_side_are_in_the_environment_of_what_is_started_and_not_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BOOKIE_GC_WAIT_TIME", "7")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)

    with bench_sides._running(Path("packages"), {"gcWaitTime": "1000", "localScrubInterval": "1"}):
        inside = dict(os.environ)

    assert (inside["BOOKIE_GC_WAIT_TIME"], inside["BOOKIE_LOCAL_SCRUB_INTERVAL"]) == ("1000", "1")
    assert (inside["PYTHONPATH"], inside["PYTHONSAFEPATH"]) == ("packages", "1")
    assert os.environ["BOOKIE_GC_WAIT_TIME"] == "7"
    assert "PYTHONSAFEPATH" not in os.environ
    assert "BOOKIE_LOCAL_SCRUB_INTERVAL" not in os.environ
