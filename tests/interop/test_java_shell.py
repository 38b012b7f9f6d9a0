"""`bookkeeper shell` on the judged fleet: it lists bookies, cookies and ledgers, and its own test passes."""

import pytest

import java_support
from java_fleet_support import JudgedFleet
from java_support import JavaClient

pytestmark = pytest.mark.java


def test_the_shell_lists_every_bookie(fleet: JudgedFleet) -> None:
    told = java_support.shell(fleet.uri, fleet.folder, "listbookies", "-rw")

    for bookie_id in fleet.bookie_ids:
        assert f"BookieID:{bookie_id}," in told


def test_the_shell_shows_every_cookie(fleet: JudgedFleet) -> None:
    for bookie_id in fleet.bookie_ids:
        told = java_support.shell(fleet.uri, fleet.folder, "cookie_get", bookie_id)

        assert f"Cookie for bookie '{bookie_id}' is:" in told
        assert f'bookieHost: "{bookie_id}"' in told
        assert "instanceId:" in told


def test_the_shell_lists_and_reads_ledgers(fleet: JudgedFleet, java: JavaClient) -> None:
    ledger = java.ask("create")
    java.append(ledger["handle"], [b"for the shell"])
    java.ask("close", handle=ledger["handle"])

    listed = java_support.shell(fleet.uri, fleet.folder, "listledgers", "-meta")
    read = java_support.shell(fleet.uri, fleet.folder, "readledger", "-ledgerid", str(ledger["ledger"]), "-msg")

    assert f"ledgerID: {ledger['ledger']}\n" in listed
    assert "state=CLOSED" in listed
    assert "for the shell" in read


def test_the_shells_own_test_passes(fleet: JudgedFleet) -> None:
    words = ["-ensemble", "3", "-writeQuorum", "3", "-ackQuorum", "2", "-numEntries", "20"]

    told = java_support.shell(fleet.uri, fleet.folder, "simpletest", *words)

    assert "20 entries written to ledger" in told, told


def test_the_shell_asks_every_bookie_for_its_space(fleet: JudgedFleet) -> None:
    told = java_support.shell(fleet.uri, fleet.folder, "bookieinfo")

    for bookie_id in fleet.bookie_ids:
        assert bookie_id in told
    assert "Total: " in told or "TotalDisk" in told, told
