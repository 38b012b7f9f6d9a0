"""Deferred sync, force, the explicit LAC and add_confirmed_entry (BP-14: D-rows; addConfirmedEntry: A-rows)."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import EntryId
from bookie.client import LedgerWriter
from bookie.metadata.ledger import LedgerState
from bookie.wire import entry, messages
from bookie.wire.messages import Request
from client_support import MUTE, Fleet, tell, tell_each
from story_support import story


def lacs(fleet: Fleet, writer: LedgerWriter, bookie: str = "b0") -> list[int]:
    """The LAC in the header of every entry that a bookie has, in order of ids."""
    held = fleet[bookie]
    return [entry.unpack_header(held.entries[writer.id, EntryId(i)]).lac for i in held.ids(writer.id)]


def no_force(request: Request) -> str | None:
    return MUTE if isinstance(request, messages.ForceRequest) else None


# ---- deferred sync ---------------------------------------------------------------------------------------------------


@story(tell)
async def test_with_deferred_sync_acks_confirm_nothing_until_force(fleet: Fleet) -> None:
    """CONFORMANCE.md#D3, D13, D14, D24."""

    async with fleet.client() as client:
        writer = await client.create(deferred_sync=True)
        assert await writer.append_many([b"x"] * 5) == range(5)
        assert writer.last_confirmed == -1

        assert await writer.force() == 4
        assert writer.last_confirmed == 4
        for _ in range(3):
            await writer.append(b"y")
        assert lacs(fleet, writer) == [-1] * 5 + [4] * 3
        assert all(request.is_deferred for request in fleet["b0"].asked(messages.AddRequest))


@story(tell)
async def test_the_level_is_in_the_metadata_for_others_to_see(fleet: Fleet) -> None:
    """CONFORMANCE.md#D2, D11."""

    async with fleet.client() as client:
        writer = await client.create(deferred_sync=True, custom={"app": b"me"})
        plain = await client.create()

        stored = dict((await client.metadata(writer.id)).custom)
        assert stored == {"app": b"me", "bookie.durability": b"deferred"}
        assert not (await client.metadata(plain.id)).custom
        with pytest.raises(errors.BadInput, match="not by hand"):
            await client.create(custom={"bookie.durability": b"deferred"})


@pytest.mark.parametrize("is_recovered", [False, True])
@story(tell)
async def test_the_level_stays_in_the_metadata_of_a_closed_ledger(fleet: Fleet, *, is_recovered: bool) -> None:
    """CONFORMANCE.md#D11."""

    async with fleet.client() as client:
        writer = await client.create(deferred_sync=True, custom={"app": b"me"})
        await writer.append(b"x")
        if is_recovered:
            await client.open(writer.id)
        else:
            await writer.close()

        stored = await client.metadata(writer.id)
        assert stored.is_closed
        assert dict(stored.custom) == {"app": b"me", "bookie.durability": b"deferred"}


@story(tell)
async def test_deferred_sync_is_refused_on_stripes_and_on_version_two(fleet: Fleet) -> None:
    """CONFORMANCE.md#D17, D23."""

    async with fleet.client() as client, fleet.client("old", protocol_version=2) as old:
        with pytest.raises(errors.BadInput, match="must equal write quorum"):
            await client.create(ensemble_size=3, write_quorum=2, ack_quorum=2, deferred_sync=True)
        with pytest.raises(errors.BadInput, match="protocol version 3"):
            await old.create(deferred_sync=True)


@story(tell)
async def test_force_covers_what_is_still_on_its_way(fleet: Fleet) -> None:
    """BP-14, "Sync API": it flushes out any in-flight entries."""

    async with fleet.client() as client:
        writer = await client.create(deferred_sync=True)
        pending = [writer.append_nowait(b"x") for _ in range(10)]

        assert await writer.force() == 9
        assert all(future.done() for future in pending)


@story(tell_each, seeds=24)
async def test_force_is_done_at_the_ack_quorum_and_entries_up_to_it_survive_a_power_cut_everywhere(
    fleet: Fleet,
) -> None:
    """CONFORMANCE.md#D13, D22: Java waits for all of the ensemble."""

    async with fleet.client("reader") as other:
        async with fleet.client() as client:
            writer = await client.create(deferred_sync=True)
            fleet["b2"].script = no_force
            await writer.append_many([b"safe"] * 3)
            assert await writer.force() == 2
            await writer.append_many([b"lost"] * 3)

        for bookie in fleet.bookies:
            bookie.cut_power()
        await asyncio.sleep(1)
        reader = await other.open(writer.id)

        assert [found.payload for found in await reader.read(0, reader.last_entry)] == [b"safe"] * 3


@story(tell)
async def test_a_bookie_that_acknowledged_after_the_force_was_sent_is_asked_again(fleet: Fleet) -> None:
    """Wire 7.8: a force covers what was acknowledged before it."""

    async with fleet.client() as client:
        writer = await client.create(deferred_sync=True)
        fleet["b2"].script = no_force
        for number in range(20):
            await writer.append_many([b"x"] * 7)
            assert await writer.force() == 7 * number + 6

        asked = [len(bookie.asked(messages.ForceRequest)) for bookie in fleet.bookies]
        assert 20 <= asked[0] + asked[1] <= 80
        assert asked[2] <= 1


@story(tell)
async def test_a_force_that_too_few_bookies_answer_proves_nothing(fleet: Fleet) -> None:
    async with fleet.client(request_timeout_ms=2_000, long_poll_ms=500) as client:
        writer = await client.create(deferred_sync=True)
        await writer.append_many([b"x"] * 3)
        fleet["b1"].script = fleet["b2"].script = no_force

        with pytest.raises(errors.StorageFailed, match="nothing after entry -1 is known to be durable"):
            await writer.force()
        assert writer.last_confirmed == -1


@pytest.mark.parametrize("failure", ["gone", "silence", "error"])
@story(tell, zones="abca")
async def test_a_bookie_that_fails_ends_a_writer_with_deferred_sync_and_changes_no_metadata(
    fleet: Fleet, *, failure: str
) -> None:
    """CONFORMANCE.md#D12; one that comes back in time is no failure (`test_lives`)."""

    async with fleet.client(ensemble_timeout_ms=1_000, request_timeout_ms=1_000, long_poll_ms=500) as client:
        writer = await client.create(deferred_sync=True)
        await writer.append_many([b"x"] * 3)
        failing = fleet[writer.metadata.last_segment.bookies[0]]
        if failure == "gone":
            await failing.stop()
        else:
            failing.script = lambda request: Status.EIO if failure == "error" else MUTE
            await asyncio.gather(writer.append(b"y"), return_exceptions=True)
        await fleet.until(lambda: writer.error is not None, "the end of the writer", timeout_s=10)

        with pytest.raises(errors.StorageFailed, match="keeps its ensemble"):
            await writer.force()
        with pytest.raises(errors.StorageFailed):
            await writer.close()
        metadata = await client.metadata(writer.id)
        assert (metadata.state, len(metadata.segments)) == (LedgerState.OPEN, 1)


@story(tell)
async def test_a_late_answer_to_force_from_a_connection_that_broke_proves_nothing(fleet: Fleet) -> None:
    async with fleet.client(request_timeout_ms=60_000) as client:
        writer = await client.create(deferred_sync=True)
        for bookie in fleet.bookies:
            bookie.script = no_force
        await writer.append_many([b"x"] * 3)
        forcing = asyncio.ensure_future(writer.force())
        await asyncio.sleep(0.1)
        for bookie in fleet.bookies:
            bookie.cut_power()
        await asyncio.wait([forcing])

        assert isinstance(forcing.exception(), errors.StorageFailed)
        assert writer.last_confirmed == -1


@story(tell)
async def test_closing_forces_first_so_that_nothing_acknowledged_is_cut_off(fleet: Fleet) -> None:
    """Wire 11: Java's writer closes at the last forced entry."""

    async with fleet.client() as client:
        async with await client.create(deferred_sync=True) as writer:
            await writer.append_many([b"four"] * 4)

        stored = await client.metadata(writer.id)
        assert (stored.state, stored.last_entry, stored.length) == (LedgerState.CLOSED, 3, 16)
        assert sum(len(bookie.in_memory) == 0 for bookie in fleet.bookies) >= 2


@story(tell)
async def test_what_a_bookie_tells_of_its_own_disk_moves_the_lac_without_a_force(fleet: Fleet) -> None:
    """CONFORMANCE.md#D16."""

    async with fleet.client() as client:
        writer = await client.create(deferred_sync=True)
        for bookie in fleet.bookies:
            bookie.tells_synced = True
        await writer.append_many([b"x"] * 5)

        assert writer.last_confirmed == 4


@story(tell)
async def test_force_without_deferred_sync_is_the_end_of_what_is_in_flight(fleet: Fleet) -> None:
    """CONFORMANCE.md#D7, D8."""

    async with fleet.client() as client:
        writer = await client.create()
        assert await writer.force() == -1
        for _ in range(5):
            writer.append_nowait(b"x")

        assert await writer.force() == 4
        assert not fleet["b0"].asked(messages.ForceRequest)


# ---- the explicit LAC ------------------------------------------------------------------------------------------------


@story(tell)
async def test_an_idle_writer_tells_the_last_entry_within_the_interval(fleet: Fleet) -> None:
    """CONFORMANCE.md#A5."""

    async with fleet.client(explicit_lac_ms=100) as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 4)

        await fleet.until(lambda: all(b.lac(writer.id) == 3 for b in fleet.bookies), "the LAC", timeout_s=0.2)


@story(tell)
async def test_a_writer_that_is_stuck_tells_what_is_confirmed_though_something_is_in_flight(fleet: Fleet) -> None:
    async with fleet.client(explicit_lac_ms=100, request_timeout_ms=60_000) as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 4)
        for bookie in fleet.bookies:
            bookie.script = lambda request: MUTE if isinstance(request, messages.AddRequest) else None
        stuck = writer.append_nowait(b"stuck")

        await fleet.until(lambda: all(b.lac(writer.id) == 3 for b in fleet.bookies), "the LAC", timeout_s=1)
        stuck.cancel()


@story(tell)
async def test_a_writer_that_gets_on_needs_no_explicit_lac(fleet: Fleet) -> None:
    async with fleet.client(explicit_lac_ms=100) as client:
        writer = await client.create()
        pending: list[asyncio.Future[EntryId]] = []
        for _ in range(100):
            pending.append(writer.append_nowait(b"x"))
            await asyncio.sleep(0.01)
            pending.append(writer.append_nowait(b"y"))
        await asyncio.wait(pending)

        assert len(fleet["b0"].asked(messages.WriteLacRequest)) <= 12


# ---- add_confirmed_entry ---------------------------------------------------------------------------------------------


@story(tell)
async def test_a_confirmed_entry_is_visible_at_once_to_readers_that_do_not_recover(fleet: Fleet) -> None:
    """CONFORMANCE.md#A3: without the LAC being told before an ack quorum has the entry."""

    async with fleet.client(explicit_lac_ms=0) as client, fleet.client("reader") as other:
        writer = await client.create()
        assert await writer.append(b"plain") == 0
        async with await other.open_no_recovery(writer.id) as reader:
            assert reader.last_confirmed == -1

            assert await writer.add_confirmed_entry(b"commit") == 1
            assert await reader.read_last_confirmed() == 1
            assert (await reader.read(1, 1))[0].payload == b"commit"


@pytest.mark.parametrize("deferred_sync", [False, True])
@story(tell)
async def test_a_confirmed_entry_is_in_the_ledger_after_its_writer_and_one_bookie_crashed(
    fleet: Fleet, *, deferred_sync: bool
) -> None:
    """CONFORMANCE.md#A1, A2: no add after it, no close; AQ - 1 bookies lose power for good."""

    async with fleet.client("reader") as other:
        async with fleet.client() as client:
            writer = await client.create(deferred_sync=deferred_sync)
            await writer.add_confirmed_entry(b"commit")
        fleet["b0"].cut_power()
        await fleet["b0"].stop()
        fleet["b0"].wipe()

        reader = await other.open(writer.id)

        assert reader.last_entry == 0
        assert (await reader.read(0, 0))[0].payload == b"commit"


@story(tell)
async def test_nobody_is_told_of_an_entry_that_an_ack_quorum_does_not_have(fleet: Fleet) -> None:
    """CONFORMANCE.md#A4."""

    async with fleet.client(request_timeout_ms=60_000) as client:
        writer = await client.create()
        for quiet in ("b1", "b2"):
            fleet[quiet].script = lambda request: MUTE if isinstance(request, messages.AddRequest) else None
        adding = asyncio.ensure_future(writer.add_confirmed_entry(b"commit"))
        await asyncio.sleep(5)

        assert not adding.done()
        assert [bookie.lac(writer.id) for bookie in fleet.bookies] == [-1, -1, -1]
        adding.cancel()


@story(tell)
async def test_what_was_appended_after_a_confirmed_entry_is_told_to_nobody_with_it(fleet: Fleet) -> None:
    """CONFORMANCE.md#A4."""

    def no_later_ones(request: Request) -> str | None:
        return MUTE if isinstance(request, messages.AddRequest) and request.entry_id > 0 else None

    async with fleet.client(request_timeout_ms=60_000) as client:
        writer = await client.create()
        for quiet in ("b1", "b2"):
            fleet[quiet].script = no_later_ones
        adding = asyncio.ensure_future(writer.add_confirmed_entry(b"commit"))
        await asyncio.sleep(0)
        later = writer.append_nowait(b"later")

        assert await adding == 0
        await fleet.until(lambda: all(bookie.lac(writer.id) == 0 for bookie in fleet.bookies), "all to be told of it")
        assert not later.done()
        later.cancel()


@story(tell)
async def test_a_confirmed_entry_of_which_readers_cannot_be_told_is_confirmed_all_the_same(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        for quiet in ("b1", "b2"):
            fleet[quiet].script = lambda r: Status.EIO if isinstance(r, messages.WriteLacRequest) else None

        with pytest.raises(errors.QuorumNotReached, match="the entry is confirmed"):
            await writer.add_confirmed_entry(b"commit")
        assert writer.last_confirmed == 0
        await writer.append(b"on")
