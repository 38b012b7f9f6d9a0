"""`bookkeeper shell` on the judged fleet: it sees bookies, cookies, ledgers and the cluster, and its own tests pass."""

import re
from pathlib import Path

import pytest

from java_fleet_support import JudgedFleet
from java_operator_support import JavaOperator
from java_support import JavaClient

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

        assert "for the shel|" in operator.shell("readledger", *words)


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
