"""LedgerReader against model bookies: replicas, digests, LAC, tailing (spec/wire.md#W59, W63; CONFORMANCE.md#B9 to B11,
P18)."""

import asyncio
import contextlib
import dataclasses

import pytest

from bookie.base import errors
from bookie.base.errors import Answer, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import NS_PER_S
from bookie.client import Client, DigestType, Entry, LedgerReader
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.sim.history import TreeHistory
from bookie.wire import messages
from bookie.wire.digest import Digest
from client_support import BREAK, MUTE, Fleet, tell
from story_support import story


async def closed_ledger(client: Client, count: int, **options: object) -> LedgerId:
    async with await client.create(**options) as writer:  # type: ignore[arg-type]
        await writer.append_many([b"entry %d" % number for number in range(count)])
    return writer.id


@pytest.mark.parametrize("digest", list(DigestType))
@story(tell)
async def test_what_was_written_is_read_with_its_ids_and_lengths(fleet: Fleet, *, digest: DigestType) -> None:
    async with fleet.client() as client:
        ledger_id = await closed_ledger(client, 3, digest_type=digest, password=b"secret")

        reader = await client.open(ledger_id, b"secret")
        entries = await reader.read(0, reader.last_entry)

        assert entries == [(0, b"entry 0", 7), (1, b"entry 1", 14), (2, b"entry 2", 21)]


@story(tell)
async def test_a_wrong_password_is_refused_before_any_bookie_is_asked(fleet: Fleet) -> None:
    """Wire 10.4, step 1."""

    async with fleet.client() as client:
        ledger_id = await closed_ledger(client, 1, password=b"secret")
        for bookie in fleet.bookies:
            bookie.requests.clear()

        for opened in (client.open, client.open_no_recovery):
            with pytest.raises(errors.Unauthorized):
                await opened(ledger_id, b"guess")

        assert not any(bookie.requests for bookie in fleet.bookies)
        assert (await client.open(ledger_id, administrative=True)).last_entry == 0


@pytest.mark.parametrize("failure", [Status.ENOENTRY, Status.EIO, Status.EUNKNOWNLEDGERSTATE, MUTE, BREAK])
@story(tell)
async def test_one_good_replica_is_enough(fleet: Fleet, *, failure: Status | str) -> None:
    """CONFORMANCE.md#B9."""

    async with fleet.client() as client:
        ledger_id = await closed_ledger(client, 20)
        for bad in ("b0", "b2"):
            fleet[bad].script = lambda request: failure

        reader = await client.open(ledger_id)

        assert [entry.entry_id for entry in await reader.read(0, 19)] == list(range(20))


@story(tell)
async def test_a_replica_with_a_flipped_bit_is_passed_over(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await closed_ledger(client, 3)
        for rotten in ("b0", "b1"):
            for key, body in list(fleet[rotten].entries.items()):
                fleet[rotten].entries[key] = body[:-1] + bytes([body[-1] ^ 1])

        reader = await client.open(ledger_id)

        assert [entry.payload for entry in await reader.read(0, 2)] == [b"entry 0", b"entry 1", b"entry 2"]


@story(tell)
async def test_a_replica_that_answers_with_another_entry_is_passed_over(fleet: Fleet) -> None:
    """CONFORMANCE.md#O1: its digest is right, and it is an entry of this ledger."""

    async with fleet.client() as client:
        ledger_id = await closed_ledger(client, 3)
        reader = await client.open(ledger_id)
        for liar in reader.metadata.write_set(EntryId(1))[:2]:
            fleet[liar].entries[ledger_id, EntryId(1)] = fleet[liar].entries[ledger_id, EntryId(0)]

        assert [entry.payload for entry in await reader.read(0, 2)] == [b"entry 0", b"entry 1", b"entry 2"]


@story(tell)
async def test_the_error_is_no_only_when_every_replica_said_no(fleet: Fleet) -> None:
    """CONFORMANCE.md#B10, B11."""

    async with fleet.client() as client:
        ledger_id = await closed_ledger(client, 1)
        reader = await client.open(ledger_id)
        for bookie in fleet.bookies:
            bookie.entries.clear()

        with pytest.raises(errors.NoSuchEntry):
            await reader.read(0, 0)
        fleet["b1"].limbo.add(ledger_id)
        with pytest.raises(errors.UnknownLedgerState) as caught:
            await reader.read(0, 0)

        assert caught.value.answer is Answer.UNKNOWN


@story(tell)
async def test_a_silent_replica_is_given_company_after_the_speculative_time_out(fleet: Fleet) -> None:
    """Wire 10.5, step 4."""

    async with fleet.client(speculative_read_ms=200) as client:
        ledger_id = await closed_ledger(client, 3)
        reader = await client.open(ledger_id)
        fleet["b0"].script = lambda request: MUTE
        began_ns = fleet.machine.loop.now_ns

        await reader.read(0, 2)
        once_ns = fleet.machine.loop.now_ns
        await reader.read(0, 2)

        assert once_ns - began_ns < 1_000_000_000
        assert fleet.machine.loop.now_ns - once_ns < 100_000_000, "from then on it is asked last"


@story(tell)
async def test_entries_beyond_the_last_confirmed_are_refused(fleet: Fleet) -> None:
    """Wire 10.5, step 1."""

    async with fleet.client() as client:
        ledger_id = await closed_ledger(client, 3)
        reader = await client.open(ledger_id)

        for first, last in ((0, 3), (3, 3), (2, 0)):
            with pytest.raises(errors.BadInput, match="closed and ends at entry 2: read to there"):
                await reader.read(first, last)
        with pytest.raises(errors.BadInput, match="first must be 0 to"):
            await reader.read(-1, 1)


@story(tell)
async def test_reading_ahead_is_bounded_and_stops_with_the_consumer(fleet: Fleet) -> None:
    async with fleet.client(prefetch_entries_max=8) as client:
        ledger_id = await closed_ledger(client, 100)
        reader = await client.open(ledger_id)
        for bookie in fleet.bookies:
            bookie.requests.clear()

        async with contextlib.aclosing(reader.read_stream(0, 99)) as stream:  # type: ignore[type-var]
            async for entry in stream:
                if entry.entry_id == 10:
                    break

        asked = sum(len(bookie.asked(messages.ReadRequest)) for bookie in fleet.bookies)
        assert asked <= 11 + 8


@story(tell)
async def test_opening_without_recovery_disturbs_nobody(fleet: Fleet) -> None:
    """CONFORMANCE.md#P18."""

    async with fleet.client() as client, fleet.client("reader") as other:
        writer = await client.create()
        for _ in range(5):
            await writer.append(b"x")
        before = await client.shared.ledgers.get(writer.id)

        reader = await other.open_no_recovery(writer.id)

        assert await client.shared.ledgers.get(writer.id) == before
        assert reader.last_confirmed >= 3  # the last entry's header says so at least
        assert not any(bookie.fenced for bookie in fleet.bookies)
        assert await writer.append(b"more") == 5
        await fleet.until(lambda: all(b.lac(writer.id) == 5 for b in fleet.bookies), "the explicit LAC")
        assert await reader.read_last_confirmed() == 5
        await reader.close()


@story(tell)
async def test_entries_that_are_read_move_what_the_reader_knows_to_be_confirmed(fleet: Fleet) -> None:
    """CONFORMANCE.md#D5, O5: their headers come from the writer."""

    async with fleet.client(explicit_lac_ms=0) as client, fleet.client("reader") as other:
        writer = await client.create()
        for _ in range(3):
            await writer.append(b"x")
        reader = await other.open_no_recovery(writer.id)
        assert reader.last_confirmed == 1
        for _ in range(3):
            await writer.append(b"x")

        await reader.read_unconfirmed(0, 5)

        assert reader.last_confirmed == 4
        assert len(await reader.read(0, 4)) == 5


@story(tell)
async def test_no_answer_moves_the_end_of_a_ledger_that_is_closed(fleet: Fleet) -> None:
    """CONFORMANCE.md#O15, P12: a bookie that has an entry of behind the end tells of more than was kept."""

    async with fleet.client() as client:
        ledger_id = await closed_ledger(client, 3)
        reader = await client.open(ledger_id)
        body = b"".join(Digest(DigestType.CRC32C, b"").seal(ledger_id, EntryId(7), 6, 70, b"left behind"))
        for bookie in fleet.bookies:
            bookie.entries[ledger_id, EntryId(7)] = bytes(body)

        await reader.read(0, 2)

        assert (reader.last_entry, await reader.read_last_confirmed()) == (2, 2)
        assert [entry.entry_id async for entry in reader.tail()] == [0, 1, 2]


@story(tell)
async def test_a_record_that_comes_late_does_not_take_a_reader_back(fleet: Fleet) -> None:
    """spec/metadata.md#M22: a metadata server may be behind what the reader has seen; then entries would be asked of
    bookies that were replaced."""

    async with fleet.client() as client, fleet.client("reader") as other:
        writer = await client.create()
        await writer.append(b"x")
        old = await client.shared.ledgers.get(writer.id)
        await client.shared.ledgers.put(writer.id, old[0].with_custom("a", b"b"), old[1])
        reader = await other.open_no_recovery(writer.id)
        newer, get = reader.metadata, other.shared.ledgers.get

        async def get_late(ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
            return old

        other.shared.ledgers.get = get_late  # type: ignore[method-assign]
        stored, version = await client.shared.ledgers.get(writer.id)
        await client.shared.ledgers.put(writer.id, stored.with_custom("a", b"c"), version)
        await asyncio.sleep(1)  # the reader hears of it
        await reader.read_last_confirmed()
        assert reader.metadata == newer
        other.shared.ledgers.get = get  # type: ignore[method-assign]


@pytest.mark.parametrize("batch_reads", [False, True])
@pytest.mark.parametrize("is_known", [False, True], ids=["gone", "denied"])
@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
@story(tell, zones="abcabc")
async def test_a_reader_asks_the_bookies_that_hold_an_entry_now_before_it_says_that_nobody_does(
    fleet: Fleet, *, batch_reads: bool, is_known: bool, is_closed: bool
) -> None:
    """spec/metadata.md#M22: all three bookies were replaced since it was opened, and forgot what is not theirs."""

    async with fleet.client() as client, fleet.client("reader", batch_reads=batch_reads) as other:
        ledger_id = await closed_ledger(client, 3)
        stored, version = await client.shared.ledgers.get(ledger_id)
        if not is_closed:
            stored = dataclasses.replace(stored, state=LedgerState.OPEN)
            version = await client.shared.ledgers.put(ledger_id, stored, version)
        reader = await other.open_no_recovery(ledger_id, confirmed=EntryId(2))
        fleet.machine.fabric.hold("zk", "reader")  # not even a watch tells it
        for old in stored.last_segment.bookies:
            new = next(each for each in fleet.bookies if not stored.names(each.id))
            new.entries.update(fleet[old].entries)
            new.keys.update(fleet[old].keys)
            stored = stored.replaced(EntryId(0), old, new.id)
        await client.shared.ledgers.put(ledger_id, stored, version)
        for bookie in fleet.bookies:
            if not stored.names(bookie.id):
                bookie.wipe()
                if not is_known:
                    await bookie.stop()
        reading = asyncio.ensure_future(reader.read(0, 2))
        await asyncio.sleep(1)
        fleet.machine.fabric.release("zk", "reader")

        assert [each.payload for each in await reading] == [b"entry 0", b"entry 1", b"entry 2"]
        assert reader.metadata.last_segment == stored.last_segment
        await reader.close()


@pytest.mark.parametrize("is_denied", [True, False])
@story(tell, zones="abcd")
async def test_a_denial_by_all_is_told_only_by_a_reader_that_knows_who_is_named(
    fleet: Fleet, *, is_denied: bool
) -> None:
    """The metadata store does not answer: perhaps others have the entry. An error that is no denial says that itself.
    And for an entry that is not confirmed nobody looks again."""

    async with fleet.client() as client, fleet.client("reader") as other:
        ledger_id = await closed_ledger(client, 3)
        reader = await other.open(ledger_id)
        for bookie in fleet.bookies:
            bookie.script = lambda request: None if is_denied else Status.EIO
            bookie.entries.clear()
        fleet.machine.fabric.hold("zk", "reader")

        with pytest.raises(errors.MetadataError if is_denied else errors.StorageFailed):
            await reader.read(0, 2)
        with pytest.raises(errors.NoSuchEntry if is_denied else errors.StorageFailed):
            await reader.read_unconfirmed(3, 3)
        fleet.machine.fabric.release("zk", "reader")


@story(tell)
async def test_an_answer_that_was_on_its_way_does_not_take_the_last_confirmed_entry_back(fleet: Fleet) -> None:
    async with fleet.client(explicit_lac_ms=0) as client, fleet.client("reader") as other:
        writer = await client.create()
        for _ in range(6):
            await writer.append(b"x")
        reader = await other.open_no_recovery(writer.id)

        asking = asyncio.ensure_future(reader.read_last_confirmed())
        await asyncio.sleep(0)
        reader.learn(EntryId(5))  # from the writer itself

        assert await asking == 5
        assert reader.last_confirmed == 5


@story(tell)
async def test_a_lac_that_too_few_bookies_can_tell_is_an_error_and_not_a_guess(fleet: Fleet) -> None:
    """CONFORMANCE.md#B13 for plain LAC reads."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 5)
        for bad in ("b0", "b2"):
            fleet[bad].script = lambda request: Status.EIO

        with pytest.raises(errors.QuorumNotReached):
            await client.open_no_recovery(writer.id)


async def collect(reader: LedgerReader, into: list[Entry]) -> None:
    async for entry in reader.tail():
        into.append(entry)


@story(tell)
async def test_a_tail_delivers_every_entry_once_and_ends_with_the_ledger(fleet: Fleet) -> None:
    async with fleet.client() as client, fleet.client("reader") as other:
        writer = await client.create()
        reader = await other.open_no_recovery(writer.id)
        seen: list[Entry] = []
        tailing = asyncio.ensure_future(collect(reader, seen))

        for number in range(30):
            await writer.append(b"%d" % number)
            if number % 7 == 0:
                await asyncio.sleep(0.4)
        await fleet.until(lambda: len(seen) >= 29, "the tail to follow")
        await writer.append(b"30")
        await writer.close()
        await tailing

        assert [int(entry.payload) for entry in seen] == list(range(31))
        assert reader.is_closed


@story(tell, zones="abcabc")
async def test_what_precedes_the_last_segment_is_confirmed_when_its_bookies_know_nothing_yet(fleet: Fleet) -> None:
    """CONFORMANCE.md#O5: an ensemble change begins a segment behind the last confirmed entry."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 5)
        metadata, version = await client.shared.ledgers.get(writer.id)
        others = tuple(bookie.id for bookie in fleet.bookies if bookie.id not in metadata.last_segment.bookies)
        await client.shared.ledgers.put(writer.id, metadata.with_ensemble(EntryId(5), others), version)

        reader = await client.open_no_recovery(writer.id)

        assert reader.last_confirmed == 4


@story(tell, zones="abca")
async def test_a_tail_survives_a_bookie_that_goes_and_an_ensemble_change(fleet: Fleet) -> None:
    async with fleet.client() as client, fleet.client("reader") as other:
        writer = await client.create()
        reader = await other.open_no_recovery(writer.id)
        seen: list[Entry] = []
        tailing = asyncio.ensure_future(collect(reader, seen))
        await writer.append_many([b"x"] * 10)

        await fleet[str(writer.metadata.last_segment.bookies[1])].stop()
        await writer.append_many([b"y"] * 10)
        await fleet.until(lambda: len(seen) == 20, "the tail to follow")
        await writer.close()
        await tailing

        assert [entry.entry_id for entry in seen] == list(range(20))


@story(tell)
async def test_an_explicit_lac_hidden_behind_an_error_is_still_believed(fleet: Fleet) -> None:
    """Wire 7.7 and trap 9: a Java bookie with an explicit LAC and no entry answers EIO with a good body."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 5)
        await fleet.until(lambda: all(b.lac(writer.id) == 4 for b in fleet.bookies), "the explicit LAC")
        for bookie in fleet.bookies:
            bookie.entries.clear()
            bookie.lac_status = Status.EIO

        reader = await client.open_no_recovery(writer.id)

        assert reader.last_confirmed == EntryId(4)


async def lagging(fleet: Fleet) -> None:
    """From now on the store keeps its history, so that servers may lag."""
    keeper, loop = fleet.machine.keeper, fleet.machine.loop
    keeper.history = TreeHistory(keeper.tree)
    for path in list(keeper.tree.nodes):
        keeper.history.note(path, loop.now_ns)
    await loop.sleep_ns(NS_PER_S)


@story(tell)
async def test_a_ledger_that_was_just_made_is_opened_at_a_metadata_server_that_lags(fleet: Fleet) -> None:
    """Who says "there is no such ledger" has looked, also for one that another client made and told of."""
    async with fleet.client() as client, fleet.client("writer") as another:
        await lagging(fleet)
        writer = await another.create()
        await writer.append(b"x")
        fleet.machine.keeper.faults.lag_ns = 10**6 * NS_PER_S

        async with await client.open(writer.id) as reader:
            assert reader.last_entry == 0
        with pytest.raises(errors.LedgerMissing):
            await client.open(LedgerId(writer.id + 1))


@pytest.mark.parametrize("as_admin", [True, False])
@story(tell)
async def test_all_ledgers_are_listed_at_a_metadata_server_that_lags(fleet: Fleet, *, as_admin: bool) -> None:
    async with fleet.client() as client, fleet.client("writer") as another:
        await lagging(fleet)
        writer = await another.create()
        fleet.machine.keeper.faults.lag_ns = 10**6 * NS_PER_S

        if as_admin:
            assert [each async for each, _ in client.admin.ledgers()] == [writer.id]
        else:
            assert [each async for each in client.ledgers()] == [writer.id]
