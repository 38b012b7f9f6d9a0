"""Our client and the official one on the same ledgers, on official bookies and on ours.

Each reads what the other wrote, and each one's recovery stops the other one's writer.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import java_support
from bookie import blocking
from bookie.base import errors
from bookie.blocking import BlockingClient
from bookie.client import DigestType
from bookie.client.write.syncs_confirm import SyncsConfirm
from bookie.connect import connect
from java_fleet_support import JudgedFleet
from java_support import JavaClient

pytestmark = pytest.mark.java

# The metadata's numbers, by the names that the official client uses.
DIGESTS = {"CRC32C": DigestType.CRC32C, "MAC": DigestType.HMAC, "CRC32": DigestType.CRC32, "DUMMY": DigestType.DUMMY}


@dataclass(frozen=True, slots=True)
class Both:
    java: JavaClient
    ours: BlockingClient
    ours_v2: BlockingClient
    uri: str
    are_ours: bool  # the bookies

    def client(self, version: int) -> BlockingClient:
        return self.ours if version == 3 else self.ours_v2


@pytest.fixture(scope="module", params=["java_fleet", "fleet"], ids=["official bookies", "our bookies"])
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    fleet: JudgedFleet = request.getfixturevalue(request.param)
    log = fleet.folder / "both.log"
    with (
        java_support.JavaClient(fleet.uri, log) as java,
        blocking.connect(fleet.uri) as ours,
        blocking.connect(fleet.uri, protocol_version=2) as ours_v2,
    ):
        yield Both(java, ours, ours_v2, fleet.uri, request.param == "fleet")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("digest", list(DIGESTS))
def test_we_read_what_java_wrote(both: Both, digest: str, version: int) -> None:
    ledger = both.java.ask("create", digest=digest, password="secret")
    payloads = list(java_support.payloads(ledger["ledger"], 60))
    both.java.append(ledger["handle"], payloads)
    both.java.ask("close", handle=ledger["handle"])

    with both.client(version).open(ledger["ledger"], b"secret") as reader:
        read = [entry.payload for entry in reader.read(0, 59)]

    assert read == payloads


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("digest", list(DIGESTS))
def test_java_reads_what_we_wrote(both: Both, digest: str, version: int) -> None:
    with both.client(version).create(digest_type=DIGESTS[digest], password=b"secret", custom={"by": b"us"}) as writer:
        payloads = list(java_support.payloads(writer.id, 60))
        for payload in payloads:
            writer.append(payload)

    reader = both.java.ask("open", ledger=writer.id, digest=digest, password="secret")

    assert both.java.read(reader["handle"], 0, 59) == payloads
    stored = both.java.ask("metadata", ledger=writer.id)
    assert (stored["state"], stored["last"], stored["length"]) == ("CLOSED", 59, 6000)
    assert stored["custom"] == {"by": "us"}


@pytest.mark.parametrize("version", [2, 3])
def test_our_recovery_stops_a_live_java_writer(both: Both, version: int) -> None:
    ledger = both.java.ask("create")
    both.java.append(ledger["handle"], [b"before"])

    with both.client(version).open(ledger["ledger"]) as reader:
        last = reader.last_confirmed
        with pytest.raises(java_support.JudgeError, match=r"LedgerFenced|LedgerClosed"):
            both.java.append(ledger["handle"], [b"too late"])

        assert last == 0
        assert [entry.payload for entry in reader.read(0, 0)] == [b"before"]
    assert both.java.ask("metadata", ledger=ledger["ledger"])["last"] == 0


@pytest.mark.parametrize("version", [2, 3])
def test_javas_recovery_stops_our_live_writer(both: Both, version: int) -> None:
    writer = both.client(version).create()
    writer.append(b"before")

    reader = both.java.ask("open", ledger=writer.id)

    with pytest.raises((errors.LedgerFenced, errors.LedgerClosed)):
        writer.append(b"too late")
    assert reader["last"] == 0
    assert both.java.read(reader["handle"], 0, 0) == [b"before"]


def test_we_delete_what_java_made_and_java_no_longer_finds_it(both: Both) -> None:
    ledger = both.java.ask("create")
    both.java.ask("close", handle=ledger["handle"])

    both.ours.delete(ledger["ledger"])

    with pytest.raises(java_support.JudgeError, match="NoSuchLedger"):
        both.java.ask("open", ledger=ledger["ledger"])


def test_both_list_the_same_ledgers(both: Both) -> None:
    ledger = both.java.ask("create")

    ours = list(both.ours.ledgers())

    assert ledger["ledger"] in ours
    assert ours == sorted(both.java.ask("list")["ledgers"])


def test_we_tail_what_java_is_writing(both: Both) -> None:
    ledger = both.java.ask("create")
    for payload in (b"zero", b"one", b"two"):
        both.java.append(ledger["handle"], [payload])

    with both.ours.open_no_recovery(ledger["ledger"]) as reader:
        confirmed = reader.read_last_confirmed()
        read = [entry.payload for entry in reader.read(0, confirmed)]

    assert confirmed >= 1
    assert read == [b"zero", b"one", b"two"][: confirmed + 1]
    assert both.java.append(ledger["handle"], [b"three"]) == [3]


def test_what_we_force_java_reads_and_acks_alone_confirm_nothing(both: Both) -> None:
    """BP-14, CONFORMANCE.md#D13, D14, D24: on official bookies too, which tell nothing of their disks by themselves."""
    writer = both.ours.create(deferred_sync=True)
    writer.append_many([b"forced"] * 5)

    assert writer.force() == 4
    watching = both.java.ask("open", ledger=writer.id, recovery=False)
    writer.append_many([b"closed over"] * 5)
    writer.close()

    reader = both.java.ask("open", ledger=writer.id)
    assert both.java.read(reader["handle"], 0, 9) == [b"forced"] * 5 + [b"closed over"] * 5
    assert watching["last"] <= 4


def test_what_was_acknowledged_from_memory_outlives_broken_connections_whoever_answers(both: Both) -> None:
    """Official bookies are asked which life they are, answer that they do not know, and are sent all of it again."""

    async def story() -> int:
        async with connect(both.uri) as client:
            writer = await client.create(deferred_sync=True)
            await writer.append_many([b"in memory"] * 20)
            before = [*writer._appender.seats]
            async with asyncio.timeout(60):
                for seat in before:
                    while (connection := seat.link._connection) is None:  # an ack quorum is faster than all
                        await writer.append(b"in memory")
                    connection.close(errors.BookieUnavailable("broken by the test"))
                while any(
                    old is new or not new.is_back for old, new in zip(before, writer._appender.seats, strict=True)
                ):
                    await writer.append(b"in memory")
            durability = writer._appender.durability
            assert isinstance(durability, SyncsConfirm)
            assert [life is not None for life in durability._syncing._lives] == [both.are_ours] * 3
            await writer.close()
            return writer.id

    reader = both.java.ask("open", ledger=asyncio.run(story()))
    assert reader["last"] >= 19
    assert set(both.java.read(reader["handle"], 0, reader["last"])) == {b"in memory"}


def test_java_sees_a_confirmed_entry_at_once_without_recovery(both: Both) -> None:
    """addConfirmedEntry, CONFORMANCE.md#A1 to A4: confirmed first, then told."""
    writer = both.ours.create()
    writer.append(b"plain")

    assert writer.add_confirmed_entry(b"commit") == 1

    reader = both.java.ask("open", ledger=writer.id, recovery=False)
    assert both.java.ask("lac", handle=reader["handle"])["last"] == 1
    assert both.java.read(reader["handle"], 0, 1) == [b"plain", b"commit"]
    writer.close()


@pytest.mark.parametrize("version", [2, 3])
def test_we_read_a_large_ledger_of_java_in_batches_and_entry_by_entry(both: Both, version: int) -> None:
    """Entries of all sizes up to 300 KiB: several to an answer, one to an answer, and a stripe without batches."""
    client = both.client(version)
    for write in (3, 2):
        ledger = both.java.ask("create", write=write, ack=2)
        sizes = [0, 1, 100, 5_000, 300 * 1024, 20, 300 * 1024, 7] * 5
        payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
        both.java.append(ledger["handle"], payloads)
        both.java.ask("close", handle=ledger["handle"])

        with client.open(ledger["ledger"]) as reader:
            assert [entry.payload for entry in reader.read(0, len(payloads) - 1)] == payloads
