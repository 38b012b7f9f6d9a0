"""The official client, unmodified, v3, on the judged bookies: what it writes it reads, and recovery decides once."""

import pytest

import java_support
import wait_support
from java_support import JavaClient

pytestmark = pytest.mark.java


@pytest.mark.parametrize("digest", ["CRC32C", "MAC", "CRC32", "DUMMY"])
def test_java_writes_reads_and_closes_a_ledger(java: JavaClient, digest: str) -> None:
    ledger = java.ask("create", digest=digest, password="secret", custom={"who": "judge"})
    payloads = list(java_support.payloads(ledger["ledger"], 200))

    entries = java.append(ledger["handle"], payloads)
    java.ask("close", handle=ledger["handle"])
    reader = java.ask("open", ledger=ledger["ledger"], digest=digest, password="secret")

    assert entries == list(range(200))
    assert java.read(reader["handle"], 0, 199) == payloads
    stored = java.ask("metadata", ledger=ledger["ledger"])
    assert (stored["state"], stored["last"], stored["length"]) == ("CLOSED", 199, 20_000)
    assert stored["custom"] == {"who": "judge"}


@pytest.mark.parametrize("size_bytes", [0, 1, 1_000_000])
def test_java_reads_back_entries_of_any_size(java: JavaClient, size_bytes: int) -> None:
    ledger = java.ask("create")
    payload = bytes(index % 251 for index in range(size_bytes))

    java.append(ledger["handle"], [payload, b"after", payload])
    java.ask("close", handle=ledger["handle"])
    reader = java.ask("open", ledger=ledger["ledger"])

    assert java.read(reader["handle"], 0, 2) == [payload, b"after", payload]


def test_java_closes_an_empty_ledger_at_minus_one(java: JavaClient) -> None:
    ledger = java.ask("create")

    java.ask("close", handle=ledger["handle"])

    assert java.ask("open", ledger=ledger["ledger"])["last"] == -1


def test_java_deletes_a_ledger_and_nobody_opens_it_again(java: JavaClient, other_java: JavaClient) -> None:
    ledger = java.ask("create")
    java.append(ledger["handle"], [b"soon gone"])
    java.ask("close", handle=ledger["handle"])
    assert ledger["ledger"] in java.ask("list")["ledgers"]

    java.ask("delete", ledger=ledger["ledger"])

    with pytest.raises(java_support.JudgeError, match="NoSuchLedger"):
        other_java.ask("open", ledger=ledger["ledger"])
    assert ledger["ledger"] not in java.ask("list")["ledgers"]


def test_java_recovers_a_ledger_whose_writer_went_away(java: JavaClient, other_java: JavaClient) -> None:
    ledger = java.ask("create", digest="MAC", password="secret")
    payloads = list(java_support.payloads(ledger["ledger"], 57))
    java.append(ledger["handle"], payloads)
    java.ask("forget", handle=ledger["handle"])

    reader = other_java.ask("open", ledger=ledger["ledger"], digest="MAC", password="secret")

    assert (reader["last"], reader["closed"]) == (56, True)
    assert other_java.read(reader["handle"], 0, 56) == payloads
    assert java.ask("metadata", ledger=ledger["ledger"])["state"] == "CLOSED"


def test_java_recovers_a_ledger_in_which_nothing_was_written(java: JavaClient, other_java: JavaClient) -> None:
    ledger = java.ask("create")
    java.ask("forget", handle=ledger["handle"])

    assert other_java.ask("open", ledger=ledger["ledger"])["last"] == -1


def test_java_recovery_fences_a_live_writer(java: JavaClient, other_java: JavaClient) -> None:
    ledger = java.ask("create")
    java.ask("stream", handle=ledger["handle"], template="live ")
    tailer = other_java.ask("open", ledger=ledger["ledger"], recovery=False)

    def is_under_way() -> bool:
        last: int = other_java.ask("lac", handle=tailer["handle"])["last"]
        return last > 20

    wait_support.wait_until(is_under_way, "the writer's first twenty entries", timeout_s=30)

    reader = other_java.ask("open", ledger=ledger["ledger"])
    closed_at = reader["last"]
    wrote = java.ask("stream_stop", handle=ledger["handle"])

    assert wrote["ended_by"] in java_support.ENDS_OF_A_FENCED_WRITER
    assert wrote["acknowledged"] - 1 <= closed_at
    expected = [f"live {entry}".encode() for entry in range(closed_at + 1)]
    assert other_java.read(reader["handle"], 0, closed_at) == expected


def test_a_wrong_password_neither_reads_nor_fences(java: JavaClient, other_java: JavaClient) -> None:
    ledger = java.ask("create", digest="MAC", password="right")
    java.append(ledger["handle"], [b"first"])

    with pytest.raises(java_support.JudgeError, match="Unauthorized"):
        other_java.ask("open", ledger=ledger["ledger"], digest="MAC", password="wrong")

    assert java.append(ledger["handle"], [b"second"]) == [1]


def test_java_tails_a_ledger_that_is_being_written(java: JavaClient, other_java: JavaClient) -> None:
    ledger = java.ask("create")
    for payload in (b"zero", b"one", b"two"):  # one by one: each entry carries the confirmation of the one before
        java.append(ledger["handle"], [payload])
    reader = other_java.ask("open", ledger=ledger["ledger"], recovery=False)

    assert other_java.read(reader["handle"], 0, 1) == [b"zero", b"one"]
    assert other_java.read(reader["handle"], 0, 2, unconfirmed=True) == [b"zero", b"one", b"two"]
    assert other_java.ask("lac", handle=reader["handle"])["last"] >= 1
    seen = other_java.ask("tail", handle=reader["handle"], entry=1)
    assert seen["last"] >= 1


@pytest.mark.parametrize("parallel", [False, True])
def test_a_long_poll_brings_the_entry_once_it_is_confirmed(
    java: JavaClient, other_java: JavaClient, parallel: bool
) -> None:
    ledger = java.ask("create")
    java.append(ledger["handle"], [b"zero"])
    reader = other_java.ask("open", ledger=ledger["ledger"], recovery=False)
    java.ask("stream", handle=ledger["handle"], template="more ")

    def has_come() -> bool:
        seen = other_java.ask("tail", handle=reader["handle"], entry=5, timeoutMs=2000, parallel=parallel)
        return seen.get("payload") is not None and seen["last"] >= 5

    wait_support.wait_until(has_come, "entry 5 by long poll", timeout_s=30)
    assert java.ask("stream_stop", handle=ledger["handle"])["was_writing"]


def test_a_reader_sees_the_explicit_lac_of_an_idle_writer(java: JavaClient, other_java: JavaClient) -> None:
    ledger = other_java.ask("create")
    other_java.append(ledger["handle"], [b"zero", b"one", b"two"])
    reader = java.ask("open", ledger=ledger["ledger"], recovery=False)

    def is_told() -> bool:
        last: int = java.ask("lac", handle=reader["handle"], how="read")["last"]
        return last == 2

    wait_support.wait_until(is_told, "the last entry by explicit LAC", timeout_s=60)
