"""Whoever changes a ledger's metadata keeps what somebody else wrote meanwhile (CONFORMANCE.md#P20, P22, P33)."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client, LedgerWriter
from bookie.client.repair.evacuation import Evacuation, LedgerStillOpen
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.ports.metadata_store import CheckOp
from bookie.quorum.recovery import WRITE_BEHIND_MAX
from bookie.wire import messages
from bookie.wire.digest import Digest, DigestType
from client_support import Fleet, tell
from story_support import story


def overtaken(client: Client, change: Callable[[LedgerMetadata], LedgerMetadata], *, at: int = 1) -> None:
    """Let another client write `change` right before the write number `at` of `client`."""
    ledgers = client.shared.ledgers
    put, count = ledgers.put, 0

    async def put_late(
        ledger_id: LedgerId, metadata: LedgerMetadata, version: int, *, provided: Sequence[CheckOp] = ()
    ) -> int:
        nonlocal count
        count += 1
        if count == at:
            stored, current = await ledgers.get(ledger_id)
            await put(ledger_id, change(stored), current)
        return await put(ledger_id, metadata, version, provided=provided)

    ledgers.put = put_late  # type: ignore[method-assign]


def spare_of(fleet: Fleet, writer: LedgerWriter, number: int = -1) -> BookieId:
    """A bookie that is not in the writer's ensemble."""
    return [bookie.id for bookie in fleet.bookies if bookie.id not in writer.metadata.last_segment.bookies][number]


def moved(old: BookieId, new: BookieId) -> Callable[[LedgerMetadata], LedgerMetadata]:
    """What a re-replication writes: `new` has the entries of `old` in the first segment."""
    return lambda stored: stored.replaced(EntryId(0), old, new)


@story(tell, zones="abcabc")
async def test_an_ensemble_change_keeps_what_a_rereplication_wrote(fleet: Fleet) -> None:
    """CONFORMANCE.md#P20: else readers ask a bookie that has nothing, and the copies that were made are orphans."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        victim, old, _ = writer.metadata.last_segment.bookies
        new = spare_of(fleet, writer)
        overtaken(client, moved(old, new))

        await fleet[str(victim)].stop()
        await fleet.until(lambda: victim not in writer.metadata.last_segment.bookies, "the ensemble change")
        await writer.append(b"late")

        stored = await client.metadata(writer.id)
        assert stored.segments[0].bookies[:2] == (victim, new)
        assert stored.last_segment.first_entry == 1
        assert stored.last_segment.bookies[1] == new
        assert len(stored.segments) == 2


@story(tell, zones="abcabc")
async def test_a_close_keeps_what_a_rereplication_wrote(fleet: Fleet) -> None:
    """CONFORMANCE.md#P22."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        old, new = writer.metadata.last_segment.bookies[0], spare_of(fleet, writer)
        overtaken(client, moved(old, new))

        await writer.close()

        stored = await client.metadata(writer.id)
        assert (stored.state, stored.last_entry) == (LedgerState.CLOSED, 0)
        assert stored.segments[0].bookies[0] == new


def planted(
    fleet: Fleet, holders: Sequence[BookieId], ledger_id: LedgerId, entry_id: int, lac: int | None = None
) -> None:
    """An entry that was sent to `holders` alone before its writer went."""
    told = entry_id - 1 if lac is None else lac
    body = Digest(DigestType.CRC32C, b"").seal(ledger_id, EntryId(entry_id), told, 10, b"late")
    for holder in holders:
        fleet[str(holder)].entries[ledger_id, EntryId(entry_id)] = b"".join(body)


@story(tell, zones="abcabc")
async def test_a_recovery_that_is_overtaken_by_a_rereplication_keeps_what_it_wrote(fleet: Fleet) -> None:
    """CONFORMANCE.md#P33: and the ensemble of its own write-back."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await lost.create(ack_quorum=3)
        for _ in range(3):
            await writer.append(b"x")
        victim, old, last = writer.metadata.last_segment.bookies
        new = spare_of(fleet, writer)
        planted(fleet, (victim, old, last), writer.id, 3)
        fleet[str(victim)].script = lambda request: Status.EIO if isinstance(request, messages.AddRequest) else None
        overtaken(client, moved(old, new), at=2)  # the first write says IN_RECOVERY

        reader = await client.open(writer.id)

        stored = await client.metadata(writer.id)
        assert (reader.last_entry, stored.state) == (3, LedgerState.CLOSED)
        assert stored.segments[0].bookies == (victim, new, last)
        assert stored.last_segment.first_entry == 3
        assert victim not in stored.last_segment.bookies
        assert [3 in fleet[str(each)].ids(writer.id) for each in stored.last_segment.bookies] == [True] * 3


@story(tell)
async def test_a_recovery_adopts_the_end_that_another_one_wrote(fleet: Fleet) -> None:
    """CONFORMANCE.md#P33: two may choose differently where a bookie came back between their reads; one end stands."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await lost.create()
        await writer.append_many([b"x"] * 3)
        planted(fleet, writer.metadata.last_segment.bookies[1:], writer.id, 3)
        overtaken(client, lambda stored: stored.closed(EntryId(2), 3), at=2)

        reader = await client.open(writer.id)

        assert (reader.is_closed, reader.last_entry, reader.metadata.length) == (True, 2, 3)
        assert (await client.metadata(writer.id)).last_entry == 2


@story(tell, zones="abcabc")
async def test_a_recovery_that_is_overtaken_keeps_every_ensemble_of_its_write_back(fleet: Fleet) -> None:
    """CONFORMANCE.md#P33, spec/wire.md#W55: two bookies fail one after the other, so it wrote to three ensembles."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await lost.create(ack_quorum=3)
        for _ in range(3):
            await writer.append(b"x")
        first, second, last = writer.metadata.last_segment.bookies
        others = [each for each in fleet.bookies if each.id not in (first, second, last)]
        count = 2 * WRITE_BEHIND_MAX  # so that it reads on once the first of them is replaced
        for number in range(3, count):
            planted(fleet, (first, second, last), writer.id, number, lac=2)
        is_add = messages.AddRequest
        fleet[str(first)].script = lambda request: Status.EIO if isinstance(request, is_add) else None
        fleet[str(second)].script = lambda request: (
            Status.EIO if isinstance(request, is_add) and any(len(each.ids(writer.id)) > 9 for each in others) else None
        )
        overtaken(client, moved(last, others[0].id), at=2)  # the first write says IN_RECOVERY

        reader = await client.open(writer.id)

        stored = await client.metadata(writer.id)
        assert reader.last_entry == count - 1
        lacking = [
            (entry_id, each)
            for entry_id in range(3, count)
            for each in stored.write_set(EntryId(entry_id))
            if entry_id not in fleet[str(each)].ids(writer.id)
        ]
        assert lacking == []
        assert len(stored.segments) == 3
        assert stored.segments[0].bookies == (first, second, others[0].id)


def made_anew(stored: LedgerMetadata) -> LedgerMetadata:
    """What stands there when the ledger was deleted, and another one made with its id, on the same bookies."""
    return dataclasses.replace(stored, state=LedgerState.OPEN, last_entry=EntryId(-1), length=0)


@story(tell)
async def test_a_recovery_does_not_close_the_ledger_that_was_made_in_the_place_of_its_own(fleet: Fleet) -> None:
    """CONFORMANCE.md#P33: the end that it found is not the end of that one, which has a writer."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await lost.create()
        await writer.append_many([b"x"] * 3)
        overtaken(client, made_anew, at=2)

        with pytest.raises(errors.LedgerMissing, match="made anew"):
            await client.open(writer.id)

        assert (await client.metadata(writer.id)).state is LedgerState.OPEN


@story(tell, zones="abcd")
async def test_nobody_is_named_in_a_ledger_that_was_made_in_the_place_of_the_one_that_was_copied(
    fleet: Fleet,
) -> None:
    """spec/metadata.md#M34: its entries are others, and its segment has no end."""

    async with fleet.client() as client:
        async with await client.create() as writer:
            await writer.append_many([b"x"] * 3)
        before = writer.metadata.last_segment.bookies
        overtaken(client, made_anew)

        with pytest.raises(LedgerStillOpen):
            await Evacuation(client.shared, before[:1], may_end=False).move(writer.id)

        assert (await client.metadata(writer.id)).last_segment.bookies == before


def another(stored: LedgerMetadata) -> LedgerMetadata:
    """Another ledger under the id of `stored`, with a writer and a password of its own, and a segment further on."""
    anew = dataclasses.replace(made_anew(stored), password=b"another")
    return anew.with_ensemble(EntryId(50), stored.last_segment.bookies)


@story(tell)
async def test_a_recovery_closes_no_other_ledger_that_is_recovered_too(fleet: Fleet) -> None:
    """CONFORMANCE.md#P33: its state alone does not tell it from the one that was there before."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await lost.create()
        await writer.append_many([b"x"] * 3)
        overtaken(client, lambda stored: another(stored).in_recovery(), at=2)

        with pytest.raises(errors.LedgerMissing, match="made anew"):
            await client.open(writer.id)

        assert (await client.metadata(writer.id)).state is LedgerState.IN_RECOVERY


@story(tell)
async def test_a_recovery_looks_whose_ledger_it_closes_also_where_the_version_is_its_own(fleet: Fleet) -> None:
    """CONFORMANCE.md#P33: versions of a record that is made anew begin at 0 again."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await lost.create()
        await writer.append_many([b"x"] * 3)
        ledgers = client.shared.ledgers
        put = ledgers.put

        async def put_and_lose(ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
            ledgers.put = put  # type: ignore[method-assign]
            await put(ledger_id, metadata, version)
            await ledgers.delete(ledger_id)
            anew = another(metadata)
            await ledgers.create(anew, ledger_id)
            return await put(ledger_id, anew.in_recovery(), 0)

        ledgers.put = put_and_lose  # type: ignore[assignment,method-assign]

        with pytest.raises(errors.LedgerMissing, match="made anew"):
            await client.open(writer.id)

        assert (await client.metadata(writer.id)).state is LedgerState.IN_RECOVERY


@story(tell)
async def test_a_writer_closes_no_ledger_that_was_made_in_the_place_of_its_own(fleet: Fleet) -> None:
    """CONFORMANCE.md#P22: the end is the other writer's to say; entries of his would lie behind it."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"mine")
        overtaken(client, another)

        with pytest.raises(errors.LedgerMissing, match="made anew"):
            await writer.close()

        assert (await client.metadata(writer.id)).state is LedgerState.OPEN


@story(tell, zones="abcabc")
async def test_a_writer_changes_no_ensemble_of_a_ledger_that_was_made_in_the_place_of_its_own(fleet: Fleet) -> None:
    """CONFORMANCE.md#P20: it ends with a reason; its place in the other ledger would be before acknowledged entries."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"mine")
        stored, version = await client.shared.ledgers.get(writer.id)
        await client.shared.ledgers.put(writer.id, another(stored), version)

        await fleet[str(writer.metadata.last_segment.bookies[0])].stop()
        await fleet.until(lambda: writer.error is not None, "the writer's end")

        assert isinstance(writer.error, errors.LedgerMissing)
        assert await client.metadata(writer.id) == (await client.shared.ledgers.get(writer.id))[0]
        assert len((await client.metadata(writer.id)).segments) == 2


@story(tell, zones="abcd")
async def test_nobody_is_named_in_another_ledger_with_the_same_end_and_bookies(fleet: Fleet) -> None:
    """spec/metadata.md#M34: the copies are of the entries that were deleted."""

    async with fleet.client() as client:
        async with await client.create() as writer:
            await writer.append_many([b"x"] * 3)
        before = writer.metadata.last_segment.bookies
        overtaken(client, lambda stored: dataclasses.replace(stored, password=b"another"))

        with pytest.raises(errors.Unauthorized):  # it copies anew, and the bookie has the key of the first ledger
            await Evacuation(client.shared, before[:1]).move(writer.id)

        assert (await client.metadata(writer.id)).last_segment.bookies == before
