"""The official client, unmodified, on protocol version 2: what Pulsar speaks, and so what a fleet is judged by first.

It uses v2 for adds, reads, fencing and recovery, and opens a v3 connection beside it for explicit LACs.
"""

import pytest

import java_support
import wait_support
from java_support import JavaClient, JavaGuest
from local_support import MortalBookie

pytestmark = pytest.mark.java


@pytest.mark.parametrize("digest", ["CRC32C", "MAC", "CRC32", "DUMMY"])
def test_v2_writes_reads_and_closes_a_ledger(java_v2: JavaGuest, digest: str) -> None:
    ledger = java_v2.ask("create", digest=digest, password="secret")
    payloads = list(java_support.payloads(ledger["ledger"], 200))

    entries = java_v2.append(ledger["handle"], payloads)
    java_v2.ask("close", handle=ledger["handle"])
    reader = java_v2.ask("open", ledger=ledger["ledger"], digest=digest, password="secret")

    assert entries == list(range(200))
    assert java_v2.read(reader["handle"], 0, 199) == payloads


@pytest.mark.parametrize("size_bytes", [0, 1, 1_000_000])
def test_v2_reads_back_entries_of_any_size(java_v2: JavaGuest, size_bytes: int) -> None:
    ledger = java_v2.ask("create")
    payload = bytes(index % 251 for index in range(size_bytes))

    java_v2.append(ledger["handle"], [payload, b"after", payload])
    java_v2.ask("close", handle=ledger["handle"])
    reader = java_v2.ask("open", ledger=ledger["ledger"])

    assert java_v2.read(reader["handle"], 0, 2) == [payload, b"after", payload]


@pytest.mark.parametrize(("writer", "reader"), [("java_v2", "other_java"), ("java", "other_java_v2")])
def test_what_one_protocol_wrote_the_other_recovers(request: pytest.FixtureRequest, writer: str, reader: str) -> None:
    ours: java_support.JavaAsker = request.getfixturevalue(writer)
    theirs: java_support.JavaAsker = request.getfixturevalue(reader)
    ledger = ours.ask("create", digest="MAC", password="secret")
    payloads = list(java_support.payloads(ledger["ledger"], 57))
    ours.append(ledger["handle"], payloads)
    ours.ask("forget", handle=ledger["handle"])

    found = theirs.ask("open", ledger=ledger["ledger"], digest="MAC", password="secret")

    assert (found["last"], found["closed"]) == (56, True)
    assert theirs.read(found["handle"], 0, 56) == payloads


def test_v2_recovers_a_ledger_in_which_nothing_was_written(java_v2: JavaGuest, other_java_v2: JavaGuest) -> None:
    ledger = java_v2.ask("create")
    java_v2.ask("forget", handle=ledger["handle"])

    assert other_java_v2.ask("open", ledger=ledger["ledger"])["last"] == -1


def test_v2_recovery_fences_a_live_v2_writer(java_v2: JavaGuest, other_java_v2: JavaGuest) -> None:
    ledger = java_v2.ask("create")
    java_v2.ask("stream", handle=ledger["handle"], template="live ")
    tailer = other_java_v2.ask("open", ledger=ledger["ledger"], recovery=False)

    def is_under_way() -> bool:
        last: int = other_java_v2.ask("lac", handle=tailer["handle"])["last"]
        return last > 20

    wait_support.wait_until(is_under_way, "the writer's first twenty entries", timeout_s=30)

    reader = other_java_v2.ask("open", ledger=ledger["ledger"])
    wrote = java_v2.ask("stream_stop", handle=ledger["handle"])

    assert wrote["ended_by"] in java_support.ENDS_OF_A_FENCED_WRITER
    assert wrote["acknowledged"] - 1 <= reader["last"]
    expected = [f"live {entry}".encode() for entry in range(reader["last"] + 1)]
    assert other_java_v2.read(reader["handle"], 0, reader["last"]) == expected


def test_a_wrong_password_neither_reads_nor_fences_on_v2(java_v2: JavaGuest, other_java_v2: JavaGuest) -> None:
    ledger = java_v2.ask("create", digest="MAC", password="right")
    java_v2.append(ledger["handle"], [b"first"])

    with pytest.raises(java_support.JudgeError, match="Unauthorized"):
        other_java_v2.ask("open", ledger=ledger["ledger"], digest="MAC", password="wrong")

    assert java_v2.append(ledger["handle"], [b"second"]) == [1]


def test_v2_reads_the_last_entry_of_a_ledger_that_is_being_written(
    java_v2: JavaGuest, other_java_v2: JavaGuest
) -> None:
    ledger = java_v2.ask("create")
    for payload in (b"zero", b"one", b"two"):  # one by one: each entry carries the confirmation of the one before
        java_v2.append(ledger["handle"], [payload])
    reader = other_java_v2.ask("open", ledger=ledger["ledger"], recovery=False)

    assert other_java_v2.read(reader["handle"], 0, 1) == [b"zero", b"one"]
    assert other_java_v2.read(reader["handle"], 0, 2, unconfirmed=True) == [b"zero", b"one", b"two"]
    for how in ("read", "try"):
        assert other_java_v2.ask("lac", handle=reader["handle"], how=how)["last"] == 1
    # On v2 a long poll is a plain read that returns at once.
    assert other_java_v2.ask("tail", handle=reader["handle"], entry=1)["last"] == 1


def test_an_unwritten_entry_is_no_such_entry(java_v2: JavaGuest) -> None:
    ledger = java_v2.ask("create")
    java_v2.append(ledger["handle"], [b"only one"])

    with pytest.raises(java_support.JudgeError, match="NoSuchEntry"):
        java_v2.read(ledger["handle"], 5, 5, unconfirmed=True)


def test_an_explicit_lac_of_a_v2_client_comes_by_v3_beside_it(other_java_v2: JavaGuest, java: JavaClient) -> None:
    ledger = other_java_v2.ask("create")
    other_java_v2.append(ledger["handle"], [b"zero", b"one", b"two"])
    reader = java.ask("open", ledger=ledger["ledger"], recovery=False)

    def is_told() -> bool:
        last: int = java.ask("lac", handle=reader["handle"], how="read")["last"]
        return last == 2

    wait_support.wait_until(is_told, "the last entry by explicit LAC", timeout_s=60)


# ---- batch reads (4.17)


def test_a_batch_read_brings_consecutive_entries(java_v2: JavaGuest) -> None:
    ledger = java_v2.ask("create")
    payloads = list(java_support.payloads(ledger["ledger"], 100))
    java_v2.append(ledger["handle"], payloads)
    java_v2.ask("close", handle=ledger["handle"])
    reader = java_v2.ask("open", ledger=ledger["ledger"])["handle"]

    assert java_v2.batch(reader, 0, countMax=10) == payloads[:10]
    assert java_v2.batch(reader, 95, countMax=10) == payloads[95:]
    assert java_v2.batch(reader, 0) == payloads


def test_a_batch_read_is_as_long_as_its_size_allows_and_never_empty(java_v2: JavaGuest) -> None:
    ledger = java_v2.ask("create")
    payloads = [bytes([number]) * 1000 for number in range(20)]
    java_v2.append(ledger["handle"], payloads)
    java_v2.ask("close", handle=ledger["handle"])
    reader = java_v2.ask("open", ledger=ledger["ledger"])["handle"]

    some = java_v2.batch(reader, 3, sizeMax=5_000)
    one = java_v2.batch(reader, 7, sizeMax=10)

    # 36 bytes of head; each entry has 36 bytes of envelope and digest (CRC32C) and 4 of length.
    assert some == payloads[3:7]
    assert one == payloads[7:8]


def test_a_batch_read_of_large_entries_stays_below_the_frame_limit(java_v2: JavaGuest) -> None:
    ledger = java_v2.ask("create")
    payloads = [bytes([number]) * 1_000_000 for number in range(8)]
    java_v2.append(ledger["handle"], payloads)
    java_v2.ask("close", handle=ledger["handle"])
    reader = java_v2.ask("open", ledger=ledger["ledger"])["handle"]

    assert java_v2.batch(reader, 0, countMax=8) == payloads[:5]


# ---- a bookie dies


def test_v2_writes_on_when_a_bookie_dies_and_recovers_what_was_acknowledged(
    java_v2: JavaGuest, other_java_v2: JavaGuest, mortal: MortalBookie
) -> None:
    ledger = java_support.create_on(java_v2, mortal.bookie_id, ensemble=3, write=3, ack=2)
    first = list(java_support.payloads(ledger["ledger"], 50))
    java_v2.append(ledger["handle"], first)

    mortal.kill()
    second = list(java_support.payloads(ledger["ledger"], 150))[50:]
    assert java_v2.append(ledger["handle"], second) == list(range(50, 150))
    java_v2.ask("forget", handle=ledger["handle"])
    reader = other_java_v2.ask("open", ledger=ledger["ledger"])

    assert reader["last"] == 149
    assert other_java_v2.read(reader["handle"], 0, 149) == [*first, *second]
    segments = java_v2.ask("metadata", ledger=ledger["ledger"])["segments"]
    assert mortal.bookie_id in segments[0]["bookies"]
    assert mortal.bookie_id not in segments[-1]["bookies"]


def test_v2_recovers_a_ledger_while_one_of_its_bookies_is_dead(
    java_v2: JavaGuest, other_java_v2: JavaGuest, mortal: MortalBookie
) -> None:
    ledger = java_support.create_on(java_v2, mortal.bookie_id, ensemble=3, write=3, ack=2, digest="MAC")
    payloads = list(java_support.payloads(ledger["ledger"], 40))
    java_v2.append(ledger["handle"], payloads)
    java_v2.ask("forget", handle=ledger["handle"])

    mortal.kill()
    reader = other_java_v2.ask("open", ledger=ledger["ledger"], digest="MAC")

    assert (reader["last"], reader["closed"]) == (39, True)
    assert other_java_v2.read(reader["handle"], 0, 39) == payloads
