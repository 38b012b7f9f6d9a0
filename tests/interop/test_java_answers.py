"""Rarer questions of the official client to our bookies: deferred sync with force, and lists of entries."""

import os

import pytest

import java_support
from java_fleet_support import JudgedFleet
from java_support import JavaClient

pytestmark = pytest.mark.java


def test_deferred_adds_are_confirmed_by_force(java: JavaClient, other_java: JavaClient) -> None:
    ledger = java.ask("create", deferredSync=True)
    payloads = list(java_support.payloads(ledger["ledger"], 20))

    java.append(ledger["handle"], payloads)
    before = java.ask("lac", handle=ledger["handle"], how="local")["last"]
    java.ask("force", handle=ledger["handle"])
    after = java.ask("lac", handle=ledger["handle"], how="local")["last"]
    java.ask("close", handle=ledger["handle"])
    reader = other_java.ask("open", ledger=ledger["ledger"])

    assert (before, after, reader["last"]) == (-1, 19, 19)
    assert other_java.read(reader["handle"], 0, 19) == payloads


def test_what_was_acknowledged_without_force_is_there_for_a_recovery(java: JavaClient, other_java: JavaClient) -> None:
    ledger = java.ask("create", deferredSync=True, digest="MAC")
    payloads = list(java_support.payloads(ledger["ledger"], 20))
    java.append(ledger["handle"], payloads)
    java.ask("forget", handle=ledger["handle"])

    reader = other_java.ask("open", ledger=ledger["ledger"], digest="MAC")

    assert reader["last"] == 19
    assert other_java.read(reader["handle"], 0, 19) == payloads


def test_java_reads_our_list_of_a_striped_ledger(fleet: JudgedFleet, java: JavaClient) -> None:
    if os.environ.get("BOOKIE_JUDGED") == "java":
        pytest.skip("Java's DbLedgerStorage answers no list of entries")
    ledger = java.ask("create", ensemble=3, write=2, ack=2)
    java.append(ledger["handle"], list(java_support.payloads(ledger["ledger"], 301)))
    java.ask("close", handle=ledger["handle"])
    (segment,) = java.ask("metadata", ledger=ledger["ledger"])["segments"]

    for slot, bookie in enumerate(segment["bookies"]):
        listed = java.ask("entries", ledger=ledger["ledger"], bookie=bookie, asked=list(range(310)))

        # Entry e is written to slots e mod 3 and (e + 1) mod 3.
        expected = [entry < 301 and slot in (entry % 3, (entry + 1) % 3) for entry in range(310)]
        assert listed["there"] == expected
        assert listed["count"] == sum(expected)
