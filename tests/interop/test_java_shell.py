"""`bookkeeper shell` on the judged fleet: it sees bookies, cookies, ledgers and the cluster, and its own tests pass."""

import re
from pathlib import Path

import pytest

import java_departure_support
import java_support
from bookie import blocking
from bookie.cli import main
from java_departure_support import Departure
from java_fleet_support import JudgedFleet
from java_operator_support import JavaOperator
from java_support import JavaClient
from local_support import MortalBookie

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def ledger(java: JavaClient) -> int:
    """A closed ledger of one entry."""
    made = java.ask("create", custom={"who": "judge"})
    java.append(made["handle"], [b"for the shell"])
    java.ask("close", handle=made["handle"])
    return int(made["ledger"])


def test_the_shell_lists_every_bookie(fleet: JudgedFleet, operator: JavaOperator) -> None:
    told = operator.shell("listbookies", "-rw")

    for bookie_id in fleet.bookie_ids:
        assert f"BookieID:{bookie_id}," in told
    assert "No bookie exists!" in operator.shell("listbookies", "-ro")
    known = operator.shell("listbookies", "-a")
    assert all(bookie_id in known for bookie_id in fleet.bookie_ids)


def test_the_shell_shows_every_cookie(fleet: JudgedFleet, operator: JavaOperator) -> None:
    for bookie_id in fleet.bookie_ids:
        told = operator.shell("cookie_get", bookie_id)

        assert f"Cookie for bookie '{bookie_id}' is:" in told
        assert f'bookieHost: "{bookie_id}"' in told
        assert "instanceId:" in told


def test_the_shell_knows_the_cluster(fleet: JudgedFleet, operator: JavaOperator) -> None:
    instance_id = re.search(r"InstanceId: ([0-9a-f-]{36})", operator.shell("whatisinstanceid"))

    assert instance_id is not None
    assert instance_id.group(1) in operator.shell("cookie_get", fleet.bookie_ids[0])
    told = operator.shell("clusterinfo")
    assert f'"writableBookiesCount" : {len(fleet.bookie_ids)}' in told
    assert '"unavailableBookiesCount" : 0' in told


def test_the_shell_lists_and_reads_ledgers(operator: JavaOperator, ledger: int) -> None:
    listed = operator.shell("listledgers", "-meta")
    read = operator.shell("readledger", "-ledgerid", str(ledger), "-msg")
    shown = operator.shell("ledgermetadata", "-ledgerid", str(ledger))

    assert f"ledgerID: {ledger}\n" in listed
    assert "state=CLOSED" in listed
    assert "for the shell" in read
    assert f"ledgerID: {ledger}\n" in shown
    assert "who=base64:" in shown


def test_the_shell_reads_from_one_bookie_alone(fleet: JudgedFleet, operator: JavaOperator, ledger: int) -> None:
    for bookie_id in fleet.bookie_ids:
        # With -bookie the last entry is not included, and the bytes are dumped in hexadecimal (ReadLedgerCommand).
        words = ("-ledgerid", str(ledger), "-firstentryid", "0", "-lastentryid", "1", "-msg", "-bookie", bookie_id)

        assert "for the shel|" in _read_by_itself(operator, words)


def _read_by_itself(operator: JavaOperator, words: tuple[str, ...]) -> str:
    """What `readledger -bookie` told. It reads with a client of its own, and ends that client's executor before the
    client (ReadLedgerCommand of 4.17.3): a read whose answer it has printed may still stand in the client's table, and
    the client then fails to close. On a busy machine one run in forty ends so."""
    try:
        return operator.shell("readledger", *words)
    except java_support.JudgeError as failed:
        if "Executor is shutting down" not in str(failed):
            raise
        return failed.told


def test_the_shell_saves_and_restores_a_ledger_s_record(
    operator: JavaOperator, tmp_path: Path, java: JavaClient
) -> None:
    made = java.ask("create")
    java.append(made["handle"], [b"kept"])
    java.ask("close", handle=made["handle"])
    ledger, saved = str(made["ledger"]), str(tmp_path / "record")

    operator.shell("ledgermetadata", "-ledgerid", ledger, "-dumptofile", saved)
    operator.shell("deleteledger", "-ledgerid", ledger, "-force")
    assert made["ledger"] not in java.ask("list")["ledgers"]
    operator.shell("ledgermetadata", "-ledgerid", ledger, "-restorefromfile", saved)

    reader = java.ask("open", ledger=made["ledger"])
    assert java.read(reader["handle"], 0, 0) == [b"kept"]


def test_the_shells_own_test_passes(operator: JavaOperator) -> None:
    words = ["-ensemble", "3", "-writeQuorum", "3", "-ackQuorum", "2", "-numEntries", "20"]

    told = operator.shell("simpletest", *words)

    assert "20 entries written to ledger" in told, told


def test_the_shell_asks_every_bookie_for_its_space(fleet: JudgedFleet, operator: JavaOperator) -> None:
    told = operator.shell("bookieinfo")

    for bookie_id in fleet.bookie_ids:
        assert bookie_id in told
    assert "Total: " in told or "TotalDisk" in told, told


def test_the_shell_finds_where_each_bookie_listens(fleet: JudgedFleet, operator: JavaOperator) -> None:
    for bookie_id in fleet.bookie_ids:
        host, _, port = bookie_id.rpartition(":")
        told = operator.shell("endpointinfo", "-b", bookie_id)

        assert "bookie-rpc" in told
        assert host in told
        assert port in told


def test_the_shell_finds_nothing_under_replicated(operator: JavaOperator) -> None:
    told = operator.shell("listunderreplicated")

    assert "urL" not in told
    assert "Exception" not in told


def test_recover_brings_what_a_bookie_that_is_gone_held_to_the_others(
    java: JavaClient, operator: JavaOperator, mortal: MortalBookie
) -> None:
    entries = 31
    ledgers = [java_support.create_on(java, mortal.bookie_id, ensemble=3, write=2, ack=2) for _ in range(3)]
    for ledger in ledgers:
        java.append(ledger["handle"], list(java_support.payloads(ledger["ledger"], entries)))
    for ledger in ledgers[1:]:
        java.ask("close", handle=ledger["handle"])
    java.ask("forget", handle=ledgers[0]["handle"])  # its writer is gone: the command has to end it first
    mortal.stop()

    told = operator.shell("recover", "-force", "-deleteCookie", mortal.bookie_id)

    assert "Recover bookie operation completed with rc: OK" in told, told
    assert f"Removed cookie from /ledgers/cookies for bookie {mortal.bookie_id}" in told, told
    for ledger in ledgers:
        stored = java.ask("metadata", ledger=ledger["ledger"])
        assert (stored["state"], stored["last"]) == ("CLOSED", entries - 1)
        firsts = [segment["first"] for segment in stored["segments"]]
        for segment, end in zip(stored["segments"], [*firsts[1:], entries], strict=True):
            assert mortal.bookie_id not in segment["bookies"]
            for slot, bookie in enumerate(segment["bookies"]):
                owed = [entry for entry in range(segment["first"], end) if slot in (entry % 3, (entry + 1) % 3)]
                listed = java.ask("entries", ledger=ledger["ledger"], bookie=bookie, asked=owed)
                assert all(listed["there"]), (bookie, segment, listed)
        reader = java.ask("open", ledger=ledger["ledger"])
        written = list(java_support.payloads(ledger["ledger"], entries))
        assert java.read(reader["handle"], 0, entries - 1) == written


@pytest.mark.slow
def test_decommissionbookie_forgets_a_bookie_of_ours_once_all_it_held_is_elsewhere(
    departure: Departure, capsys: pytest.CaptureFixture[str]
) -> None:
    """It triggers the auditor's audit, waits for the official workers to copy between bookies of ours, and looks."""
    told = departure.told()

    assert f"Cookie of the decommissioned bookie: {departure.lost} is deleted successfully" in told, told
    for words in (("cookie", "show"), ("cluster", "decommission", "--yes")):  # ours finds nothing left of it
        assert main.main([*words, departure.lost, "--metadata-service-uri", departure.fleet.uri]) == 3
    assert "knows no bookie" in capsys.readouterr().err
    with blocking.connect(departure.fleet.uri) as client:
        assert not any(metadata.names(departure.lost) for _, metadata, _ in client.snapshot())
        for ledger in departure.ledgers:
            with client.open(ledger) as reader:
                read = [bytes(entry.payload) for entry in reader.read(0, java_departure_support.ENTRIES - 1)]
            assert read == list(java_support.payloads(ledger, java_departure_support.ENTRIES))
