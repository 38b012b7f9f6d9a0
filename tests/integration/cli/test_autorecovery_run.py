"""Auto-recovery on a real fleet, as a process of its own and inside a bookie: it leads, marks, mends or says why it
cannot, and ends in order."""

import json
import os
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import children
import local_support
import port_support
import wait_support
from bookie import blocking
from bookie.base.ids import BookieId
from bookie.cli import main

pytestmark = pytest.mark.slow


def test_a_lost_bookie_is_marked_told_of_with_its_reason_and_the_process_ends_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*words: str, code: int = 0) -> Any:
        ended = main.main([*words, "--json"])
        said = capsys.readouterr()
        assert ended == code, said.err
        return json.loads(said.out) if said.out else None

    def until(condition: Callable[[], bool], what: str) -> None:
        wait_support.wait_until(condition, what, timeout_s=120)

    with local_support.fleet(tmp_path / "data", tmp_path / "log", bookies=3) as fleet:
        monkeypatch.setenv("BOOKIE_METADATA_SERVICE_URI", fleet.uri)
        with blocking.connect(fleet.uri) as client, client.create() as writer:
            writer.append_many([b"entry %d" % number for number in range(50)])
        ledger = str(writer.id)
        assert told("autorecovery", "explain", ledger)["outcome"] == "listed"
        served = fleet.bookies[0].bookie_id
        told("autorecovery", "maintenance", served, code=2)
        told("autorecovery", "maintenance", served, "--seconds", "90000", code=2)
        told("autorecovery", "maintenance", "unknown:1", "--seconds", "60", code=3)
        told("autorecovery", "maintenance", "unknown:1", "--end", code=3)
        assert told("autorecovery", "maintenance", served, "--end")["ended"] is False
        told("autorecovery", "maintenance", served, "--seconds", "60", "--reason", "a new disk", "--by", "ann")
        (lease,) = told("autorecovery", "maintenance")
        assert (lease["bookie"], lease["by"], lease["reason"]) == (served, "ann", "a new disk")
        assert told("autorecovery", "maintenance", served, "--end")["ended"]
        assert told("autorecovery", "maintenance") == []
        metrics = f"127.0.0.1:{port_support.free_port()}"
        options = ("--name", "ours:1", "--loss-delay", "1", "--metrics", metrics, "--json")
        with (tmp_path / "run.log").open("ab") as log:
            process = children.spawn([*local_support.BOOKIE, "autorecovery", "run", *options], stderr=log)
        try:
            until(lambda: told("autorecovery", "status")["auditor"] == "ours:1", "our process to lead")
            lost = fleet.bookies[1]
            os.kill(lost.pid, signal.SIGKILL)
            until(lambda: bool(told("autorecovery", "list")), "the ledger to be marked")
            (marked,) = told("autorecovery", "list")
            explained = told("autorecovery", "explain", ledger, code=6)  # what its disks have, nobody knows
            until(lambda: bool(told("autorecovery", "status")["workers"]), "the worker to tell of its progress")
            until(lambda: told("autorecovery", "status")["workers"][0]["ledgersBlocked"] == 1, "its ledger to be told")
            until(lambda: "start more" in (tmp_path / "run.log").read_text(), "the reason to be told")
            with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=30) as page:
                shown = page.read().decode()
                assert "bookie_autorecovery_is_auditor 1.0" in shown
                assert "bookie_autorecovery_seconds_left 0.0" in shown, "what is blocked has no time"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert told("autorecovery", "status")["auditor"] is None  # its vote was given back
        finally:
            children.end(process, timeout_s=30)

        assert (str(marked["ledger"]), marked["missing"]) == (ledger, [lost.bookie_id])
        assert explained["marked"] == [lost.bookie_id]
        assert {each["bookie"]: each["standing"] for each in explained["bookies"]}[lost.bookie_id] == "away"
        assert any("start one more, or bring" in each for each in explained["helps"])
        events = [json.loads(line)["event"] for line in (tmp_path / "run.log").read_text().splitlines()]
        assert any(each.startswith("ledger marked") for each in events)


def test_a_bookie_that_is_asked_to_looks_after_the_others_and_serves_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def auditor() -> Any:
        assert main.main(["autorecovery", "status", "--json"]) == 0
        return json.loads(capsys.readouterr().out)["auditor"]

    asked = ("autoRecoveryDaemonEnabled=true", "lostBookieRecoveryDelay=1")
    with (
        local_support.fleet(tmp_path / "data", tmp_path / "log", bookies=3) as fleet,
        local_support.one_bookie(fleet.uri, tmp_path / "fourth", *asked) as fourth,
        blocking.connect(fleet.uri) as client,
    ):
        monkeypatch.setenv("BOOKIE_METADATA_SERVICE_URI", fleet.uri)
        lost = fleet.bookies[0]
        ledgers = []
        while not any(client.metadata(each).names(BookieId(lost.bookie_id)) for each in ledgers):
            with client.create() as writer:
                writer.append_many([b"entry %d" % number for number in range(50)])
            ledgers.append(writer.id)
        wait_support.wait_until(lambda: auditor() == fourth.bookie_id, "the fourth to lead", timeout_s=60)

        local_support.kill(lost)
        wait_support.wait_until(
            lambda: not any(client.metadata(each).names(BookieId(lost.bookie_id)) for each in ledgers),
            "nothing to name the lost one",
            timeout_s=120,
        )

        fourth.stop()
        assert auditor() is None, "it gave its vote back"
        told = fourth.log.read_text()
        assert "replicas moved" in told
        assert told.count("stopped bookie_id=") == 1
