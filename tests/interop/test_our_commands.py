"""Our commands on a cluster of official bookies: they see it, use it and test it as they do our own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import java_support
from bookie.cli import main
from java_fleet_support import JudgedFleet

pytestmark = pytest.mark.java

Told = Callable[..., Any]


@pytest.fixture
def told(java_fleet: JudgedFleet, capsys: pytest.CaptureFixture[str]) -> Told:
    """Run a command on the official cluster; give its JSON."""

    def run(*words: str, lines: bool = False) -> Any:
        assert main.main([*words, "--metadata-service-uri", java_fleet.uri, "--json"]) == 0, capsys.readouterr().err
        said = capsys.readouterr().out
        return [json.loads(line) for line in said.splitlines()] if lines else json.loads(said)

    return run


@pytest.fixture(scope="module")
def ledger(java_fleet: JudgedFleet) -> int:
    """Written by the official client."""
    with java_support.JavaClient(java_fleet.uri, java_fleet.folder / "commands.log") as java:
        made = java.ask("create", digest="MAC", password="secret")
        java.append(made["handle"], list(java_support.payloads(made["ledger"], 20)))
        java.ask("close", handle=made["handle"])
    return int(made["ledger"])


def test_the_official_cluster_is_shown(java_fleet: JudgedFleet, told: Told) -> None:
    shown = told("cluster", "show")
    listed = {row["id"]: row for row in told("cluster", "list-bookies", "--state", "writable")}

    assert (len(shown["instanceId"]), shown["layout"]) == (36, "HierarchicalLedgerManagerFactory")
    assert set(java_fleet.bookie_ids) <= set(listed)
    for bookie_id in java_fleet.bookie_ids:
        assert listed[bookie_id]["endpoints"] == [f"bookie-rpc://{bookie_id}"]
        assert told("cookie", "show", bookie_id)["instanceId"] == shown["instanceId"]


def test_what_the_official_client_wrote_is_read_as_a_whole_and_from_each_bookie(
    java_fleet: JudgedFleet, told: Told, ledger: int
) -> None:
    wanted = [payload.decode() for payload in java_support.payloads(ledger, 20)]
    shown = told("ledger", "show", str(ledger))
    (segment,) = shown["segments"]

    assert (shown["state"], shown["lastEntry"], shown["length"]) == ("CLOSED", 19, 2000)
    whole = told("ledger", "read", str(ledger), "--password", "secret", lines=True)
    assert [entry["payload"] for entry in whole] == wanted
    for bookie_id in segment["bookies"]:
        copies = told("ledger", "read", str(ledger), "--bookie", bookie_id, lines=True)
        assert [entry["payload"] for entry in copies] == wanted


def test_a_record_is_dumped_and_put_back(told: Told, ledger: int, tmp_path: Path) -> None:
    saved = str(tmp_path / "record")
    told("metadata", "dump", str(ledger), "--output", saved)
    told("metadata", "restore", str(ledger), saved, "--replace", "--yes")

    assert told("metadata", "show", "--file", saved)["sha256"] == told("metadata", "show", str(ledger))["sha256"]


def test_what_an_official_bookie_holds_is_brought_to_another_and_the_official_client_reads_on(
    java_fleet: JudgedFleet, told: Told
) -> None:
    payloads = list(java_support.payloads(7, 30))
    with java_support.JavaClient(java_fleet.uri, java_fleet.folder / "moved.log") as java:
        made = java.ask("create", ensemble=2, write=2, ack=2)
        java.append(made["handle"], payloads)
        java.ask("close", handle=made["handle"])
        ledger = str(made["ledger"])
        leaver, stays = told("ledger", "show", ledger)["segments"][0]["bookies"]

        done = told("cluster", "recover-bookie", leaver, "--ledger", ledger, "--yes")
        new, kept = told("ledger", "show", ledger)["segments"][0]["bookies"]

        assert (done["moved"], done["entriesCopied"], done["left"]) == (1, len(payloads), [])
        assert (kept, new in java_fleet.bookie_ids) == (stays, True)
        assert new not in (leaver, stays)
        copies = told("ledger", "read", ledger, "--bookie", new, lines=True)
        assert [entry["payload"].encode() for entry in copies] == payloads
        reader = java.ask("open", ledger=made["ledger"])
        assert java.read(reader["handle"], 0, len(payloads) - 1) == payloads


def test_official_bookies_pass_our_test_together_and_alone(java_fleet: JudgedFleet, told: Told) -> None:
    assert told("test", "sanity")["entries"] == 20
    assert told("test", "sanity", "--bookie", java_fleet.bookie_ids[0])["bookies"] == [java_fleet.bookie_ids[0]]
    assert told("test", "speed", "--entries", "200", "--in-flight", "20")["addsPerSecond"] > 0


def test_auto_recovery_that_never_ran_is_told_so(told: Told) -> None:
    status = told("autorecovery", "status")

    assert (status["enabled"], status["auditor"], status["underReplicated"]) == (True, None, 0)
