"""An ack of memory counts for the life that gave it, and for no other (spec/bp46.md#T17)."""

import asyncio
from collections.abc import Callable

import pytest

from bookie.base import errors
from bookie.base.ids import BootEpoch, EntryId, Incarnation, Life
from bookie.client import LedgerWriter
from bookie.client.write.syncs_confirm import SyncsConfirm
from bookie.wire import codes, messages
from bookie.wire.messages import Request
from client_support import BREAK, MUTE, FakeBookie, Fleet, Script, tell
from story_support import story


def named(fleet: Fleet) -> None:
    """Let every bookie say which life it is."""
    for bookie in fleet.bookies:
        bookie.life = Life(Incarnation(1), BootEpoch(1))


def mute(kind: type[Request]) -> Script:
    return lambda request: MUTE if isinstance(request, kind) else None


def obey(request: Request) -> str | None:
    return None


def is_back(writer: LedgerWriter) -> Callable[[], bool]:
    """Every bookie is in its seat, and knows what it has to."""
    return lambda: all(seat.is_live and seat.takes_adds for seat in writer._appender.seats)


async def everybody_has(fleet: Fleet, writer: LedgerWriter, count: int) -> None:
    """Let the slowest bookie acknowledge, too."""
    acked = writer._appender.durability
    assert isinstance(acked, SyncsConfirm)
    await fleet.until(
        lambda: not any(acked._syncing.lacks(slot, EntryId(count - 1)) for slot in range(3)), f"{count} acks of each"
    )


def added(bookie: FakeBookie) -> list[int]:
    """The ids of the adds that it was asked for, in order."""
    return [request.entry_id for request in bookie.asked(messages.AddRequest)]


@story(tell)
async def test_a_writer_with_deferred_sync_asks_each_bookie_which_life_it_is_before_anything_else(fleet: Fleet) -> None:
    named(fleet)
    async with fleet.client() as client:
        writer = await client.create(deferred_sync=True)
        for _ in range(3):
            await writer.append(b"x")

        for bookie in fleet.bookies:
            asked = bookie.asked(messages.BookieInfoRequest)
            assert bookie.requests[0] is asked[0]
            assert [request.requested for request in asked] == [codes.INFO_LIFE]


@pytest.mark.parametrize("version", [2, 3])
@story(tell)
async def test_nobody_else_asks_for_it(fleet: Fleet, *, version: int) -> None:
    async with fleet.client(protocol_version=version) as client:
        async with await client.create() as writer:
            await writer.append(b"x")

        assert not any(bookie.asked(messages.BookieInfoRequest) for bookie in fleet.bookies)


@story(tell)
async def test_in_the_same_life_acks_stand_and_only_what_was_not_acknowledged_is_sent_again(fleet: Fleet) -> None:
    """Also a lost answer: what it has already is taken again without harm."""

    named(fleet)
    async with fleet.client() as client:
        writer = await client.create(deferred_sync=True)
        await writer.append_many([b"x"] * 5)
        await everybody_has(fleet, writer, 5)
        fleet["b1"].script = fleet["b2"].script = mute(messages.AddRequest)
        pending = asyncio.ensure_future(writer.append(b"y"))
        await fleet.until(lambda: all(5 in added(bookie) for bookie in fleet.bookies), "the sixth add")
        for quiet in ("b1", "b2"):
            fleet[quiet].script = obey
            fleet[quiet].break_connections()

        assert await pending == 5
        await fleet.until(is_back(writer), "all bookies in their seats")
        assert await writer.force() == 5
        assert [added(bookie) for bookie in fleet.bookies] == [[*range(6)], [*range(6), 5], [*range(6), 5]]


@pytest.mark.parametrize("says_its_life", [True, False])
@story(tell)
async def test_the_next_life_is_sent_what_the_one_before_had_in_memory(fleet: Fleet, *, says_its_life: bool) -> None:
    """A bookie that does not say which life it is (Java's) counts as another one after every break."""

    if says_its_life:
        named(fleet)
    async with fleet.client("reader") as other:
        async with fleet.client() as client:
            writer = await client.create(deferred_sync=True)
            await writer.append_many([b"forced"] * 3)
            assert await writer.force() == 2
            await writer.append_many([b"in memory"] * 4)
            await everybody_has(fleet, writer, 7)
            for bookie in fleet.bookies:
                bookie.cut_power()

            await fleet.until(is_back(writer), "all bookies in their seats")
            assert await writer.force() == 6
            assert [added(bookie) for bookie in fleet.bookies] == [[*range(7), *range(3, 7)]] * 3
            await writer.append_many([b"later"] * 2)
            assert await writer.force() == 8
        for bookie in fleet.bookies:
            bookie.cut_power()
        reader = await other.open(writer.id)
        payloads = [found.payload for found in await reader.read(0, reader.last_entry)]

        assert payloads == [b"forced"] * 3 + [b"in memory"] * 4 + [b"later"] * 2


@pytest.mark.parametrize("says_its_life", [True, False])
@story(tell)
async def test_a_force_that_the_next_life_answers_proves_nothing_of_what_the_one_before_acknowledged(
    fleet: Fleet, *, says_its_life: bool
) -> None:
    """spec/bp46.md#T17; Java's client takes it for a yes."""

    if says_its_life:
        named(fleet)
    async with fleet.client(request_timeout_ms=2_000, long_poll_ms=500) as client:
        writer = await client.create(deferred_sync=True)
        await writer.append_many([b"in memory"] * 4)
        for bookie in fleet.bookies:
            bookie.script = mute(messages.AddRequest)
            bookie.cut_power()
        await fleet.until(is_back(writer), "all bookies in their seats")

        with pytest.raises(errors.StorageFailed):
            await writer.force()
        assert writer.last_confirmed == -1


@pytest.mark.parametrize("is_disk_lost", [False, True])
@story(tell)
async def test_what_was_forced_counts_for_the_disk_that_it_was_forced_to(fleet: Fleet, *, is_disk_lost: bool) -> None:
    named(fleet)
    async with fleet.client(request_timeout_ms=60_000) as client:
        writer = await client.create(deferred_sync=True)
        fleet["b1"].script = fleet["b2"].script = mute(messages.ForceRequest)
        await writer.append_many([b"x"] * 4)
        forcing = asyncio.ensure_future(writer.force())
        await fleet.until(lambda: not fleet["b0"].in_memory, "the first force")

        fleet["b0"].script = mute(messages.AddRequest)
        if is_disk_lost:
            fleet["b0"].wipe()
            fleet["b0"].life = Life(Incarnation(2), BootEpoch(1))
        fleet["b0"].cut_power()
        await fleet.until(is_back(writer), "the first bookie in its seat")
        fleet["b1"].script = obey
        fleet["b1"].break_connections()
        await fleet.until(lambda: not fleet["b1"].in_memory, "the second force")
        await asyncio.sleep(1)

        assert writer.last_confirmed == (-1 if is_disk_lost else 3)
        fleet["b0"].script = obey
        fleet["b0"].break_connections()
        assert await forcing == 3
        assert fleet["b0"].ids(writer.id) == [0, 1, 2, 3]


@story(tell)
async def test_a_bookie_that_was_away_while_others_went_on_counts_again_from_the_last_confirmed_on(
    fleet: Fleet,
) -> None:
    """CONFORMANCE.md#D21: what is confirmed in the cluster nobody needs its word for; the next force may need it."""

    named(fleet)
    async with fleet.client(request_timeout_ms=60_000) as client:
        writer = await client.create(deferred_sync=True)
        await writer.append(b"all have it")
        await everybody_has(fleet, writer, 1)
        fleet["b0"].script = mute(messages.BookieInfoRequest)
        fleet["b0"].break_connections()
        await fleet.until(lambda: not is_back(writer)(), "the writer to miss the first bookie")
        await writer.append_many([b"two have it"] * 3)
        assert await writer.force() == 3

        fleet["b0"].script = obey
        fleet["b0"].break_connections()
        await fleet.until(is_back(writer), "the first bookie in its seat")
        fleet["b2"].script = mute(messages.ForceRequest)
        await writer.append(b"again all")

        assert await writer.force() == 4
        assert fleet["b0"].ids(writer.id) == [0, 4]


@story(tell)
async def test_what_is_not_forced_takes_bounded_room_since_bookies_are_told_to_sync_in_time(fleet: Fleet) -> None:
    named(fleet)
    async with fleet.client(in_flight_bytes_max=100_000) as client:
        writer = await client.create(deferred_sync=True)
        held = 0
        for _ in range(100):
            await writer.append_many([b"x" * 1_000] * 10)
            held = max(held, writer._appender.held_bytes)

        assert 50_000 <= held <= 110_000
        assert 800 <= writer.last_confirmed < 1_000
        assert 10 <= len(fleet["b0"].asked(messages.ForceRequest)) <= 40
        for bookie in fleet.bookies:
            bookie.cut_power()
        assert await writer.force() == 999
        assert writer._appender.held_bytes == 0
        assert all(bookie.ids(writer.id) == [*range(1_000)] for bookie in fleet.bookies)


@pytest.mark.parametrize("how", ["stays away", "breaks at every add"])
@story(tell, zones="abca")
async def test_a_bookie_that_does_not_come_back_to_its_work_ends_the_writer(fleet: Fleet, *, how: str) -> None:
    """CONFORMANCE.md#D12: no other one is taken, whether the ack quorum can do without it or not."""

    named(fleet)
    async with fleet.client(ensemble_timeout_ms=3_000) as client:
        writer = await client.create(deferred_sync=True)
        await writer.append_many([b"x"] * 3)
        before = await client.metadata(writer.id)
        failing = fleet[before.last_segment.bookies[1]]
        if how == "stays away":
            await failing.stop()
        else:
            failing.script = lambda request: BREAK if isinstance(request, messages.AddRequest) else None
            failing.cut_power()
        began_ns = fleet.machine.loop.now_ns
        await fleet.until(lambda: writer.error is not None, "the end of the writer")

        assert 3 <= (fleet.machine.loop.now_ns - began_ns) / 1e9 <= 12
        with pytest.raises(errors.StorageFailed, match="keeps its ensemble"):
            await writer.force()
        assert await client.metadata(writer.id) == before


@story(tell)
async def test_breaks_that_lie_apart_are_each_given_the_whole_time(fleet: Fleet) -> None:
    named(fleet)
    async with fleet.client(ensemble_timeout_ms=3_000) as client:
        writer = await client.create(deferred_sync=True)
        for number in range(6):
            await writer.append(b"x")
            if number % 2:
                fleet["b1"].cut_power()
            else:
                fleet["b1"].break_connections()
            await asyncio.sleep(2)

        assert await writer.force() == EntryId(5)
