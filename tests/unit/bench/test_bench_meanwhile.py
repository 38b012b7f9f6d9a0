"""How the benchmark finds out that a bookie serves again, and what it tells the bookies that it starts."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

import bench_meanwhile
import bench_sides
import bench_swarm
import port_support
from bench_sides import Side

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


def test_entry_logs_are_in_the_order_in_which_they_were_begun_and_those_without_a_byte_do_not_count(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "java-bookie-7" / "ledgers" / "current"
    (folder / "locations").mkdir(parents=True)
    for name, size in (("10.log", 0), ("a.log", 3), ("9.log", 5), ("locations/000001.log", 7), ("lastMark", 16)):
        (folder / name).write_bytes(bytes(size))

    side = Side("official", "zk://nowhere", tmp_path, ports=[7])

    assert [path.name for path in side.entry_logs()] == ["9.log", "a.log", "10.log"]
    assert bench_meanwhile._new(side, {folder / "9.log": 5}) == {folder / "a.log": 3}


def test_of_the_ledgers_that_fill_the_logs_so_many_are_deleted_that_the_logs_are_compacted() -> None:
    threshold = float(bench_sides.COMPACTING["minorCompactionThreshold"])
    ledgers = list(range(int(bench_meanwhile.FILLED["ledgers"])))

    deleted = bench_meanwhile.to_delete(ledgers)

    share = 1 - len(deleted) / len(ledgers)
    assert 0 < share < 0.75 * threshold
    # A bookie that sorts by ledger has a run of neighbours in each log.
    assert all(len(deleted & set(ledgers[first : first + 9])) > 5 for first in range(0, 40, 9))


def test_a_counter_is_found_among_others_of_like_names() -> None:
    text = "# HELP scrub_total x\n# TYPE scrub_total counter\nscrub_total_of 3\nscrub_total 17.0\n"

    assert bench_sides.counted(text, "scrub_total") == 17
