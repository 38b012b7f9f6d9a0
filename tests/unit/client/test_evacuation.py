"""Bookies leave: what they hold is brought to others first, durable and verified; only then the metadata says so."""

import asyncio
from collections.abc import Sequence

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import BookieId, BootEpoch, EntryId, Incarnation, LedgerId, Life
from bookie.client import Client, LedgerWriter
from bookie.client.repair.evacuation import Evacuation, LedgerStillOpen
from bookie.client.repair.replication_lock import LockLost, locked
from bookie.metadata import paths, repair
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.wire import messages
from bookie.wire.messages import Request
from client_support import ROOT, FakeBookie, Fleet, lose_removals, tell
from story_support import story

COUNT = 40


async def written(client: Client, *, closed: bool = True, **shape: int) -> LedgerWriter:
    """A ledger of `COUNT` entries."""
    writer = await client.create(**shape)  # type: ignore[arg-type]
    await writer.append_many([b"entry %d" % number for number in range(COUNT)])
    if closed:
        await writer.close()
    return writer


def leaving(client: Client, *bookies: str, may_end: bool = True) -> Evacuation:
    return Evacuation(client.shared, [BookieId(name) for name in bookies], may_end=may_end)


async def whole(fleet: Fleet, client: Client, ledger_id: LedgerId) -> LedgerMetadata:
    """The metadata, after a look at every replica that it promises."""
    metadata = await client.metadata(ledger_id)
    for number in range(COUNT):
        for bookie_id in metadata.write_set(EntryId(number)):
            assert (ledger_id, number) in fleet[bookie_id].entries, f"{bookie_id} lacks entry {number}"
    return metadata


def named(metadata: LedgerMetadata) -> set[str]:
    return {bookie_id for segment in metadata.segments for bookie_id in segment.bookies}


async def lose_session(fleet: Fleet, client: Client) -> None:
    """The client's session ends, and with it all that was its own; the next one has begun on return."""
    store = client.shared.ledgers.store
    before = store.session_id
    fleet.machine.keeper.end_session(before)
    await fleet.until(lambda: store.session_id != before, "the next session")


@pytest.mark.parametrize("shape", [(3, 3, 2), (3, 2, 2), (2, 1, 1)])
@pytest.mark.parametrize("alive", [True, False])
def test_every_replica_of_a_leaving_bookie_stands_elsewhere(shape: Sequence[int], alive: bool) -> None:
    if shape[1] == 1 and not alive:
        return  # its only copies are gone: below

    async def story(fleet: Fleet) -> None:
        async with fleet.client() as client:
            size, write, ack = shape
            writer = await written(client, ensemble_size=size, write_quorum=write, ack_quorum=ack)
            victim = writer.metadata.last_segment.bookies[1]
            held = dict(fleet[victim].entries)
            if not alive:
                await fleet[victim].stop()
                fleet[victim].wipe()
            evacuation = leaving(client, victim)

            await evacuation.move(writer.id)

            metadata = await whole(fleet, client, writer.id)
            assert victim not in named(metadata)
            assert (metadata.state, metadata.last_entry) == (LedgerState.CLOSED, COUNT - 1)
            assert evacuation.copier.entries == len(held)
            new = metadata.last_segment.bookies[1]
            assert {key: fleet[new].entries[key] for key in held} == held  # byte for byte
            asked = fleet[new].requests
            forced = next(number for number, request in enumerate(asked) if isinstance(request, messages.ForceRequest))
            assert not any(isinstance(request, messages.AddRequest) for request in asked[forced:])

    tell(story, zones="abcd")


@story(tell, zones="abcd")
async def test_two_bookies_leave_at_once_and_none_takes_the_other_s_place(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client, ensemble_size=2, write_quorum=2, ack_quorum=2)
        first = writer.metadata.last_segment.bookies[0]
        second = next(bookie.id for bookie in fleet.bookies if bookie.id not in writer.metadata.last_segment.bookies)

        await leaving(client, first, second).move(writer.id)

        assert not {first, second} & named(await whole(fleet, client, writer.id))


@story(tell)
async def test_one_that_leaves_too_is_not_drawn_though_it_is_the_only_one(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client, ensemble_size=2, write_quorum=2, ack_quorum=2)
        ensemble = writer.metadata.last_segment.bookies
        spare = next(bookie.id for bookie in fleet.bookies if bookie.id not in ensemble)

        with pytest.raises(errors.NotEnoughBookies):
            await leaving(client, ensemble[0], spare).move(writer.id)


@story(tell)
async def test_an_entry_that_nobody_has_keeps_the_old_bookie_named(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client, ensemble_size=2, write_quorum=1, ack_quorum=1)
        victim = writer.metadata.last_segment.bookies[0]
        await fleet[victim].stop()
        before = await client.metadata(writer.id)

        with pytest.raises(errors.QuorumNotReached, match="no bookie gave a good copy"):
            await leaving(client, victim).move(writer.id)

        assert await client.metadata(writer.id) == before


@story(tell)
async def test_one_entry_among_many_that_nobody_has_keeps_the_old_bookie_named(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client, ensemble_size=2, write_quorum=2, ack_quorum=2)
        victim, other = (fleet[name] for name in writer.metadata.last_segment.bookies)
        await victim.stop()
        del other.entries[writer.id, EntryId(COUNT // 2)]
        before = await client.metadata(writer.id)

        with pytest.raises(errors.QuorumNotReached, match=f"entry {COUNT // 2}: no bookie gave a good copy"):
            await leaving(client, victim.id).move(writer.id)

        assert await client.metadata(writer.id) == before


@story(tell, zones="abcd")
async def test_a_bookie_that_leaves_is_not_asked_for_what_others_give(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client)
        victim = fleet[writer.metadata.last_segment.bookies[0]]

        await leaving(client, victim.id).move(writer.id)

        assert victim.asked(messages.ReadRequest) == []


@story(tell, zones="abcd")
async def test_each_bookie_that_takes_copies_is_told_to_force_them(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client, ensemble_size=2, write_quorum=2, ack_quorum=2)
        old = writer.metadata.last_segment.bookies
        new = [bookie for bookie in fleet.bookies if bookie.id not in old]

        await leaving(client, *old).move(writer.id)

        assert named(await whole(fleet, client, writer.id)) == {bookie.id for bookie in new}
        for bookie in new:
            forced = next(n for n, each in enumerate(bookie.requests) if isinstance(each, messages.ForceRequest))
            assert not any(isinstance(each, messages.AddRequest) for each in bookie.requests[forced:]), bookie.id


@story(tell, zones="abcd")
async def test_a_damaged_replica_is_not_copied(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client)
        victim, other, third = (fleet[name] for name in writer.metadata.last_segment.bookies)
        await victim.stop()
        for key, body in other.entries.items():
            other.entries[key] = body[:-1] + b"?"

        await leaving(client, victim.id).move(writer.id)

        metadata = await whole(fleet, client, writer.id)
        assert fleet[metadata.last_segment.bookies[0]].entries == third.entries


@story(tell, zones="abcd")
async def test_a_ledger_without_an_end_is_recovered_first_or_left_alone(fleet: Fleet) -> None:
    async with fleet.client("writer that dies") as client:
        writer = await written(client, closed=False)
    victim = writer.metadata.last_segment.bookies[0]
    await fleet[victim].stop()
    async with fleet.client() as client:
        with pytest.raises(LedgerStillOpen):
            await leaving(client, victim, may_end=False).move(writer.id)
        assert (await client.metadata(writer.id)).state is LedgerState.OPEN
        await leaving(client, victim).move(writer.id)

        metadata = await whole(fleet, client, writer.id)
        assert (metadata.state, metadata.last_entry) == (LedgerState.CLOSED, COUNT - 1)
        assert victim not in named(metadata)


@story(tell, zones="abcde")
async def test_sealed_fragments_of_a_ledger_that_is_written_are_moved_and_its_writer_goes_on(fleet: Fleet) -> None:
    async with fleet.client() as client, fleet.client("other") as other:
        writer = await written(client, closed=False)
        victim = fleet[writer.metadata.last_segment.bookies[0]]
        await victim.stop()
        await writer.append(b"after the change")
        assert len(writer.metadata.segments) == 2

        await leaving(other, victim.id, may_end=False).move(writer.id)

        assert await writer.append(b"and on") == COUNT + 1
        await writer.close()
        metadata = await whole(fleet, client, writer.id)
        assert (victim.id in named(metadata), metadata.last_entry) == (False, COUNT + 1)


@story(tell)
async def test_nothing_is_changed_when_no_bookie_is_left_to_take_over(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client)
        before = await client.metadata(writer.id)

        with pytest.raises(errors.NotEnoughBookies, match="start more"):
            await leaving(client, before.last_segment.bookies[0]).move(writer.id)

        assert await client.metadata(writer.id) == before


@story(tell, zones="abcde")
async def test_a_bookie_that_fails_to_take_copies_is_not_named_and_another_is_drawn_the_next_time(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client)
        victim, *kept = writer.metadata.last_segment.bookies
        spare: list[FakeBookie] = [bookie for bookie in fleet.bookies if bookie.id not in (victim, *kept)]
        broken: list[str] = []

        def first_asked_breaks(bookie: FakeBookie) -> None:
            def script(request: Request) -> Status | None:
                if not isinstance(request, messages.AddRequest) or (broken and broken[0] != bookie.id):
                    return None
                broken[:] = [bookie.id]
                return Status.EIO

            bookie.script = script

        for bookie in spare:
            first_asked_breaks(bookie)
        evacuation = leaving(client, victim)
        with pytest.raises(errors.StorageFailed):
            await evacuation.move(writer.id)
        assert victim in named(await client.metadata(writer.id))
        assert client.shared.pool.is_quarantined(BookieId(broken[0]))
        await evacuation.move(writer.id)

        assert not {victim, *broken} & named(await whole(fleet, client, writer.id))


@pytest.mark.parametrize("when", ["before the first copy", "when it is to force"])
@story(tell, zones="abcde")
async def test_a_bookie_that_fails_to_answer_is_not_drawn_again_the_next_time(fleet: Fleet, *, when: str) -> None:
    """It is gone, and registered until its session ends; or it cannot say what it has on disk."""

    async with fleet.client() as client:
        writer = await written(client)
        ensemble = writer.metadata.last_segment.bookies
        bad, good = (bookie for bookie in fleet.bookies if bookie.id not in ensemble)
        client.shared.pool.quarantine(good.id, errors.RequestTimedOut("so that the bad one is drawn first"))
        if when == "before the first copy":
            await bad.stop(unregister=False)
        else:
            force = messages.ForceRequest
            bad.script = lambda request: Status.EUNKNOWNLEDGERSTATE if isinstance(request, force) else None
        evacuation = leaving(client, ensemble[0])

        with pytest.raises((errors.BookieUnavailable, errors.UnknownLedgerState)):
            await evacuation.move(writer.id)
        assert client.shared.pool.is_quarantined(bad.id)
        for _ in range(10):
            left = await evacuation.move_many([writer.id], lambda _: None)
            if not left:
                break

        assert good.id in named(await whole(fleet, client, writer.id))


FIRST, SECOND = (Life(Incarnation(1), BootEpoch(epoch)) for epoch in (1, 2))


async def half_moved(fleet: Fleet, client: Client) -> tuple[LedgerWriter, FakeBookie, asyncio.Task[None]]:
    """A ledger of which half was copied to the one bookie that is drawn for that."""
    writer = await written(client)
    ensemble = writer.metadata.last_segment.bookies
    new, *others = (bookie for bookie in fleet.bookies if bookie.id not in ensemble)
    for bookie in others:
        client.shared.pool.quarantine(bookie.id, errors.RequestTimedOut("so that it is not drawn"))
    await new.begin_life(FIRST)
    evacuation = Evacuation(client.shared, [ensemble[1]], bytes_per_s=100)
    move = asyncio.create_task(evacuation.move(writer.id))
    await fleet.until(lambda: len(new.ids(writer.id)) >= COUNT // 2, "half of the copies")
    await asyncio.sleep(0.05)  # of simulated time: nothing is on its way to it
    return writer, new, move


async def lose_disks_and_return(bookie: FakeBookie) -> None:
    """The next life of it: with nothing of what this one took."""
    bookie.wipe()
    bookie.cut_power()
    await bookie.begin_life(SECOND)


@story(tell, zones="abcd")
async def test_a_new_bookie_that_was_restarted_meanwhile_is_given_everything_again(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer, new, move = await half_moved(fleet, client)
        await lose_disks_and_return(new)

        await move

        assert new.id in named(await whole(fleet, client, writer.id))


@story(tell, zones="abcd")
async def test_a_new_bookie_whose_life_ends_at_the_last_moment_is_given_everything_again(fleet: Fleet) -> None:
    """It was asked which life it is, said so, and lost its disks before the metadata named it: its phase one found
    nothing to mark."""

    async with fleet.client() as client:
        writer, new, move = await half_moved(fleet, client)
        fleet.machine.fabric.hold("app", "zk")
        lives_told = len(new.asked(messages.BookieInfoRequest))
        await fleet.until(lambda: len(new.asked(messages.BookieInfoRequest)) > lives_told, "its life to be asked")
        await asyncio.sleep(0.01)  # of simulated time: it answered, and the change is on its way
        await lose_disks_and_return(new)
        fleet.machine.fabric.release("app", "zk")

        await move

        assert new.id in named(await whole(fleet, client, writer.id))


@story(tell, zones="abcd")
async def test_a_bookie_that_answers_from_a_life_that_is_over_takes_nothing(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client)
        ensemble = writer.metadata.last_segment.bookies
        new = next(bookie for bookie in fleet.bookies if bookie.id not in ensemble)
        await new.begin_life(SECOND)
        new.life = FIRST  # a process cut off from the metadata store, and not stopped yet

        with pytest.raises(errors.BookieUnavailable, match="its earlier process still answers"):
            await leaving(client, ensemble[0]).move(writer.id)

        assert new.entries == {}


@story(tell, zones="abcd")
async def test_nothing_is_published_when_the_lock_was_lost_although_the_metadata_did_not_change(fleet: Fleet) -> None:
    """A bookie of Java's that had the lock meanwhile threw the copies away (spec/metadata.md#M39)."""

    async with fleet.client() as client:
        writer, new, move = await half_moved(fleet, client)
        before = await client.metadata(writer.id)
        lock = paths.replication_lock(ROOT, writer.id)
        await lose_session(fleet, client)
        await fleet.store.create(lock, repair.dump_lock("a java bookie"), ephemeral=True)
        new.entries.clear()

        with pytest.raises(LockLost, match="begin again"):
            await move
        assert await client.metadata(writer.id) == before
        assert repair.load_lock((await fleet.store.get(lock)).data) == "a java bookie"
        await fleet.store.delete(lock)
        await leaving(client, before.last_segment.bookies[1]).move(writer.id)

        assert new.id in named(await whole(fleet, client, writer.id))


@story(tell, zones="abcde")
async def test_who_moves_a_ledger_without_the_lock_and_is_first_is_not_undone(fleet: Fleet) -> None:
    """Java's `recover` takes no lock (spec/metadata.md#M34): against other movers the version alone decides."""

    async with fleet.client() as client:
        writer, new, move = await half_moved(fleet, client)
        ledgers = client.shared.ledgers
        metadata, version = await ledgers.get(writer.id)
        old = metadata.last_segment.bookies[1]
        other = next(bookie for bookie in fleet.bookies if bookie.id not in (*metadata.last_segment.bookies, new.id))
        other.entries |= fleet[old].entries
        await ledgers.put(writer.id, metadata.replaced(EntryId(0), old, other.id), version)

        await move

        assert named(await whole(fleet, client, writer.id)) == {*metadata.last_segment.bookies, other.id} - {old}


@story(tell, zones="abcd")
async def test_a_ledger_that_another_repairs_is_left_to_it_and_our_lock_goes_when_we_are_done(fleet: Fleet) -> None:
    """Java's workers and its removal of surplus replicas heed the same lock (spec/metadata.md#M32, M39)."""

    async with fleet.client() as client:
        writer = await written(client)
        victim = writer.metadata.last_segment.bookies[0]
        lock = paths.replication_lock(ROOT, writer.id)
        held: list[bool] = []

        async def is_held() -> bool:
            try:
                await fleet.store.get(lock)
            except errors.NodeMissing:
                return False
            return True

        await fleet.store.create(lock, repair.dump_lock("a java worker"), ephemeral=True, parents=True)
        with pytest.raises(errors.TooManyRequests, match="a java worker"):
            await leaving(client, victim).move(writer.id)
        await fleet.store.delete(lock)
        for bookie in fleet.bookies:
            bookie.script = lambda request: held.append(True) if isinstance(request, messages.AddRequest) else None
        moving = asyncio.ensure_future(leaving(client, victim).move(writer.id))
        await fleet.until(lambda: bool(held), "the first copy")
        assert await is_held()
        await moving

        assert not await is_held()


@story(tell)
async def test_a_lock_that_went_with_our_session_and_is_another_s_now_is_not_given_back(fleet: Fleet) -> None:
    async with fleet.client() as client:
        path = paths.replication_lock(ROOT, LedgerId(7))
        store = client.shared.ledgers.store
        async with locked(store, ROOT, LedgerId(7), "ours", None):
            await lose_session(fleet, client)
            await fleet.store.create(path, repair.dump_lock("a java worker"), ephemeral=True)

        assert repair.load_lock((await fleet.store.get(path)).data) == "a java worker"


@story(tell, zones="abcd")
async def test_a_lock_that_the_store_does_not_take_back_goes_once_it_does(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await written(client)
        lock = paths.replication_lock(ROOT, writer.id)
        lose_removals(client.shared.ledgers.store, lock, 5)

        await leaving(client, writer.metadata.last_segment.bookies[0]).move(writer.id)

        await fleet.until_removed(lock)


@story(tell, zones="abcde")
async def test_two_evacuations_at_once_end_with_one_whole_ledger(fleet: Fleet) -> None:
    async with fleet.client() as client, fleet.client("other") as other:
        writer = await written(client)
        victim = writer.metadata.last_segment.bookies[0]

        told = await asyncio.gather(
            leaving(client, victim).move(writer.id), leaving(other, victim).move(writer.id), return_exceptions=True
        )

        assert any(one is None for one in told)
        assert all(one is None or isinstance(one, errors.TooManyRequests) for one in told), told
        assert victim not in named(await whole(fleet, client, writer.id))


@story(tell)
async def test_the_look_finds_whom_it_should_and_what_would_be_closed(fleet: Fleet) -> None:
    async with fleet.client() as client:
        shape = {"ensemble_size": 1, "write_quorum": 1, "ack_quorum": 1}
        writers = [await written(client, closed=number % 2 == 0, **shape) for number in range(12)]
        victim = writers[0].metadata.last_segment.bookies[0]
        unreadable = await written(client, closed=True, **shape)
        await fleet.store.put(client.shared.ledgers.path(unreadable.id), b"nonsense", -1)

        found = [one async for one in leaving(client, victim).look()]

        assert len(found) == len(writers) + 1  # each ledger in turn, for a bar that moves
        mine = [writer for writer in writers if writer.metadata.last_segment.bookies[0] == victim]
        readable = {one.ledger_id: one.must_end for one in found if one is not None and not one.problem}
        assert readable == {writer.id: writers.index(writer) % 2 == 1 for writer in mine}
        (bad,) = [one for one in found if one is not None and one.problem]
        assert bad.ledger_id == unreadable.id
