"""Sentences of the replication protocol that no other test of the client decides (docs/CONFORMANCE.md)."""

import asyncio
import dataclasses
import functools
import itertools

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.client import Client, LedgerWriter
from bookie.metadata.ledger import LedgerState
from bookie.wire import messages
from bookie.wire.messages import Request
from client_support import MUTE, Fleet, obey, tell
from story_support import story


async def touched(client: Client, writer: LedgerWriter, **changes: object) -> None:
    """Somebody else writes the ledger's metadata, between two looks of its writer."""
    metadata, version = await client.shared.ledgers.get(writer.id)
    await client.shared.ledgers.put(writer.id, dataclasses.replace(metadata, **changes), version)  # type: ignore[arg-type]


@story(tell)
async def test_a_ledger_is_in_the_metadata_before_any_bookie_hears_of_it(fleet: Fleet) -> None:
    """CONFORMANCE.md#O3: a writer that dies right after creating leaves a ledger that is listed, opens, and is
    empty."""

    async with fleet.client("gone") as gone, fleet.client() as client:
        writer = await gone.create()

        assert not any(bookie.asked(messages.AddRequest) for bookie in fleet.bookies)
        assert (await client.metadata(writer.id)).state is LedgerState.OPEN
        assert [ledger_id async for ledger_id in client.ledgers()] == [writer.id]
        assert (await client.open(writer.id)).last_entry == -1


@story(tell)
async def test_ledgers_created_at_once_by_many_clients_have_different_ids(fleet: Fleet) -> None:
    """CONFORMANCE.md#P2."""

    made: list[LedgerId] = []

    async def create(name: str) -> None:
        async with fleet.client(name) as client:
            made.extend([writer.id for writer in await asyncio.gather(*(client.create() for _ in range(20)))])

    await asyncio.gather(*(create(f"app{number}") for number in range(5)))

    assert len(made) == len(set(made)) == 100


@story(tell)
async def test_a_closed_writer_takes_no_entry(fleet: Fleet) -> None:
    """CONFORMANCE.md#O12."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"last")
        await writer.close()

        with pytest.raises(errors.LedgerClosed):
            await writer.append(b"later")
        assert (await client.metadata(writer.id)).last_entry == 0
        assert all(bookie.ids(writer.id) == [0] for bookie in fleet.bookies)


@story(tell)
async def test_a_writer_that_is_being_closed_takes_no_entry(fleet: Fleet) -> None:
    """CONFORMANCE.md#O12: neither a new one nor one that waits for its turn."""

    async with fleet.client(in_flight_entries_max=1) as client:
        writer = await client.create()
        last = asyncio.ensure_future(writer.append(b"last"))
        waits = asyncio.ensure_future(writer.append(b"waits"))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(writer.close())
        await asyncio.sleep(0)

        with pytest.raises(errors.LedgerClosed):
            await writer.append(b"later")
        with pytest.raises(errors.LedgerClosed):
            await waits
        await closing

        assert await last == 0
        assert (await client.metadata(writer.id)).last_entry == 0
        assert all(bookie.ids(writer.id) == [0] for bookie in fleet.bookies)


@pytest.mark.parametrize(("size", "write", "ack"), [(3, 3, 2), (3, 3, 3), (4, 3, 2), (5, 3, 2)])
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "recovered"])
def test_all_but_one_of_an_ack_quorum_may_be_destroyed_and_every_entry_is_read(
    size: int, write: int, ack: int, is_closed: bool
) -> None:
    """CONFORMANCE.md#P10: whichever they are, before or after the ledger was closed; recovery has others to write back
    to."""
    payloads = [b"entry %d" % number for number in range(10)]

    async def story(fleet: Fleet, destroyed: tuple[int, ...]) -> None:
        async with fleet.client("writer") as writing, fleet.client() as client:
            writer = await writing.create(ensemble_size=size, write_quorum=write, ack_quorum=ack)
            await writer.append_many(payloads)
            if is_closed:
                await writer.close()
            for slot in destroyed:
                bookie = fleet[writer.metadata.last_segment.bookies[slot]]
                bookie.wipe()
                await bookie.stop()

            reader = await client.open(writer.id)

            assert [entry.payload for entry in await reader.read(0, 9)] == payloads

    for destroyed in itertools.combinations(range(size), ack - 1):
        tell(functools.partial(story, destroyed=destroyed), zones="abcdefg"[: size + ack - 1])


@story(tell, zones="abca")
async def test_an_ensemble_change_and_a_close_go_on_over_changes_that_somebody_else_made(fleet: Fleet) -> None:
    """CONFORMANCE.md#P20, P22: the ledger is still open, so the writer looks again and tries again."""

    async with fleet.client() as client, fleet.client("other") as other:
        writer = await client.create()
        await writer.append(b"early")
        await touched(other, writer, custom=(("seen", b"1"),))
        victim = str(writer.metadata.last_segment.bookies[0])

        await fleet[victim].stop()
        await fleet.until(lambda: victim not in writer.metadata.last_segment.bookies, "the ensemble change")
        await writer.append(b"late")
        await touched(other, writer, custom=(("seen", b"2"),))
        await writer.close()

        stored = await other.metadata(writer.id)
        assert (stored.state, stored.last_entry, stored.custom) == (LedgerState.CLOSED, 1, (("seen", b"2"),))


@pytest.mark.parametrize("reaches_a_bookie", [True, False])
@story(tell)
async def test_an_entry_whose_writer_was_fenced_may_be_in_the_ledger_or_not(
    fleet: Fleet, *, reaches_a_bookie: bool
) -> None:
    """CONFORMANCE.md#P29: its writer is told the same in both cases, and must not conclude anything."""

    def mute_adds(request: Request) -> str | None:
        return MUTE if isinstance(request, messages.AddRequest) and not request.is_recovery else None

    async with fleet.client(request_timeout_ms=60_000) as client, fleet.client("other") as other:
        writer = await client.create()
        await writer.append(b"early")
        for bookie in fleet.bookies:
            bookie.script = mute_adds
        if reaches_a_bookie:
            fleet.first_asked(writer, 1).script = obey
        pending = writer.append_nowait(b"who knows")
        await fleet.until(
            lambda: all(len(bookie.asked(messages.AddRequest)) == 2 for bookie in fleet.bookies), "the adds"
        )
        for bookie in fleet.bookies:
            if bookie.script is mute_adds:
                bookie.script = lambda request: (
                    Status.EFENCED if isinstance(request, messages.AddRequest) and not request.is_recovery else None
                )

        reader = await other.open(writer.id)
        after = writer.append_nowait(b"after")
        await asyncio.wait([pending, after])

        assert reader.last_entry == (1 if reaches_a_bookie else 0)
        assert isinstance(pending.exception(), errors.LedgerFenced | errors.LedgerClosed)
        assert isinstance(after.exception(), errors.LedgerFenced | errors.LedgerClosed)


@story(tell)
async def test_what_is_not_confirmed_may_be_read_by_who_asks_for_it_and_may_be_missing(fleet: Fleet) -> None:
    """CONFORMANCE.md#D5, D6."""

    async with fleet.client("reader") as other:
        async with fleet.client() as client:  # it would write again what a bookie lost
            writer = await client.create(deferred_sync=True)
            await writer.append_many([b"pushed"] * 3)
        reader = await other.open_no_recovery(writer.id)
        assert reader.last_confirmed == -1

        with pytest.raises(errors.BadInput, match="up to -1 are confirmed"):
            await reader.read(0, 0)
        found = await reader.read_unconfirmed(0, 2)
        assert [entry.payload for entry in found] == [b"pushed"] * 3
        for bookie in fleet.bookies:
            bookie.cut_power()
        await asyncio.sleep(1)
        with pytest.raises(errors.NoSuchEntry):
            await reader.read_unconfirmed(2, 2)


@story(tell)
async def test_what_recovery_writes_back_is_never_deferred(fleet: Fleet) -> None:
    """CONFORMANCE.md#D10: recovery of a ledger with deferred sync is recovery, and its adds are on disk when they are
    answered."""

    async with fleet.client() as client, fleet.client("other") as other:
        writer = await client.create(deferred_sync=True)
        await writer.append_many([b"x"] * 3)

        reader = await other.open(writer.id)

        assert reader.last_entry == EntryId(2)
        adds = [add for bookie in fleet.bookies for add in bookie.asked(messages.AddRequest) if add.is_recovery]
        assert adds
        assert not any(add.is_deferred for add in adds)
