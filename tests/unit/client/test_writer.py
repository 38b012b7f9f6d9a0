"""LedgerWriter against model bookies: appending, ensemble changes, the end (CONFORMANCE.md#P15 to P24; spec/wire.md#W48
to W50, W66)."""

import asyncio
import contextlib
import gc

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.client import LedgerWriter
from bookie.metadata import paths
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.wire import entry, messages
from bookie.wire.messages import Request
from client_support import BREAK, MUTE, ROOT, Fleet, obey, tell, tell_each
from story_support import story


def in_ensemble(fleet: Fleet, writer: LedgerWriter, slot: int = 0) -> "str":
    return str(writer.metadata.last_segment.bookies[slot])


@story(tell)
async def test_entries_are_confirmed_in_order_and_stored_on_the_whole_write_set(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()

        ids = [await writer.append(b"entry %d" % number) for number in range(5)]
        await writer.close()

        assert ids == [0, 1, 2, 3, 4]
        assert [bookie.ids(writer.id) for bookie in fleet.bookies] == [ids] * 3
        stored = await client.metadata(writer.id)
        assert (stored.state, stored.last_entry, stored.length) == (LedgerState.CLOSED, 4, 35)


@story(tell_each, seeds=12)
async def test_many_appends_at_once_keep_their_order_within_the_bounds_on_what_is_in_flight(fleet: Fleet) -> None:
    async with fleet.client(in_flight_entries_max=7) as client:
        writer = await client.create()

        ids = await asyncio.gather(*(writer.append(b"x" * size) for size in range(100)))

        assert ids == list(range(100))
        assert writer.length == sum(range(100))
        for _ in range(7):
            writer.append_nowait(b"y")
        with pytest.raises(errors.TooManyRequests):
            writer.append_nowait(b"z")
        await writer.close()


@story(tell)
async def test_append_many_costs_one_wait_and_returns_the_ids(fleet: Fleet) -> None:
    async with fleet.client(in_flight_entries_max=10) as client:
        writer = await client.create()

        assert await writer.append_many([b"a"] * 25) == range(25)
        assert await writer.append_many([]) == range(0)
        assert await writer.append_many([b"b"]) == range(25, 26)


@story(tell)
async def test_the_header_carries_the_lac_and_the_length(fleet: Fleet) -> None:
    """CONFORMANCE.md#P16, P17; spec/wire.md#W19."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"four")
        await writer.append(b"seven!!")

        bodies = [fleet["b0"].entries[writer.id, entry_id] for entry_id in (0, 1)]  # type: ignore[index]
        headers = [entry.unpack_header(body) for body in bodies]

        assert [(header.lac, header.length) for header in headers] == [(-1, 4), (0, 11)]


@story(tell)
async def test_a_header_never_says_more_than_what_is_confirmed(fleet: Fleet) -> None:
    """CONFORMANCE.md#P17: however many entries are under way, and whichever of them one bookie has."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"confirmed")
        for name in ("b0", "b1"):
            fleet[name].script = lambda request: MUTE

        pending = []
        for number in range(4):
            pending.append(writer.append_nowait(b"on its way"))
            await fleet.until(lambda number=number: number + 1 in fleet["b2"].ids(writer.id), "the add")  # type: ignore[misc]

        bodies = [fleet["b2"].entries[writer.id, EntryId(entry_id)] for entry_id in range(5)]
        assert [entry.unpack_header(body).lac for body in bodies] == [-1, 0, 0, 0, 0]
        for name in ("b0", "b1"):
            fleet[name].script = obey
        assert await asyncio.gather(*pending) == [1, 2, 3, 4]


@story(tell)
async def test_a_close_waits_for_what_is_in_flight(fleet: Fleet) -> None:
    """CONFORMANCE.md#P21."""

    async with fleet.client() as client:
        writer = await client.create()
        pending = [writer.append_nowait(b"on its way") for _ in range(3)]

        await writer.close()

        assert [await each for each in pending] == [0, 1, 2]
        stored = await client.metadata(writer.id)
        assert (stored.state, stored.last_entry, stored.length) == (LedgerState.CLOSED, 2, 30)


@story(tell)
async def test_a_writer_whose_last_entries_failed_closes_at_the_last_confirmed(fleet: Fleet) -> None:
    """CONFORMANCE.md#P21."""

    async with fleet.client(request_timeout_ms=1_000, ensemble_timeout_ms=3_000) as client:
        writer = await client.create()
        await writer.append(b"early")
        for bookie in fleet.bookies:
            bookie.script = lambda request: MUTE
        with pytest.raises(errors.NotEnoughBookies):
            await writer.append_many([b"late"] * 3)

        await writer.close()

        stored = await client.metadata(writer.id)
        assert (stored.state, stored.last_entry, stored.length) == (LedgerState.CLOSED, 0, 5)


@pytest.mark.parametrize("failure", [Status.EIO, Status.EREADONLY, Status.EUNKNOWNLEDGERSTATE, MUTE, BREAK])
@story(tell, zones="abca")
async def test_a_bookie_that_fails_is_replaced_from_the_first_unconfirmed_entry_on(
    fleet: Fleet, *, failure: Status | str
) -> None:
    """CONFORMANCE.md#P19; spec/wire.md#W18: whatever goes wrong with one bookie, short of EUA."""

    async with fleet.client(request_timeout_ms=1_000, long_poll_ms=500) as client:
        writer = await client.create()
        await writer.append_many([b"early"] * 10)
        victim = in_ensemble(fleet, writer)
        fleet[victim].script = lambda request: failure

        ids = await writer.append_many([b"late"] * 10)
        await fleet.until(lambda: len(writer.metadata.segments) == 2, "the ensemble change")
        await writer.append(b"last")
        await writer.close()

        assert ids == range(10, 20)
        after = writer.metadata.last_segment
        assert victim not in after.bookies
        newcomer = next(b for b in after.bookies if b not in writer.metadata.segments[0].bookies)
        assert fleet[newcomer].ids(writer.id) == list(range(after.first_entry, 21))


@story(tell, zones="abca")
async def test_a_bookie_of_which_the_connection_breaks_is_replaced_even_when_nothing_is_under_way(fleet: Fleet) -> None:
    """It may have lost its memory with its process (spec/bp46.md#R4): an idle writer must not keep it."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        victim = in_ensemble(fleet, writer)

        await fleet[victim].stop()
        await fleet.until(lambda: victim not in writer.metadata.last_segment.bookies, "the ensemble change")

        assert await writer.append(b"late") == 1


@story(tell, zones="abca")
async def test_a_writer_outlives_a_bookie_that_comes_back_empty_and_fenced_its_ledgers_for_itself(fleet: Fleet) -> None:
    """spec/bp46.md#T14, L5: EFENCED while the metadata is OPEN is one bookie's self-protection, not a recovery."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        victim = in_ensemble(fleet, writer)
        fleet[victim].wipe()
        fleet[victim].keys[writer.id] = b""
        fleet[victim].script = lambda request: Status.EFENCED if isinstance(request, messages.AddRequest) else None

        await writer.append_many([b"late"] * 5)
        await fleet.until(lambda: victim not in writer.metadata.last_segment.bookies, "the ensemble change")

        assert await writer.append(b"on") == 6
        await writer.close()


@story(tell)
async def test_without_a_replacement_the_writer_goes_on_while_the_ack_quorum_can_be_met(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        await fleet["b1"].stop()
        await writer.append_many([b"without"] * 10)
        await fleet["b1"].start()
        for _ in range(200):
            await writer.append(b"again")
            if fleet["b1"].ids(writer.id)[-1] > 10:
                break
            await asyncio.sleep(0.1)
        await writer.close()

        assert fleet["b1"].ids(writer.id)[0] == 0
        assert fleet["b1"].ids(writer.id)[-1] > 10
        assert len(writer.metadata.segments) == 1


@story(tell)
async def test_without_an_ack_quorum_the_writer_waits_and_then_gives_up_with_the_reasons(fleet: Fleet) -> None:
    async with fleet.client(ensemble_timeout_ms=5_000) as client:
        writer = await client.create()
        await writer.append(b"early")
        await fleet["b1"].stop()
        await fleet["b2"].stop()

        with pytest.raises(errors.NotEnoughBookies, match="slot"):
            await writer.append(b"late")
        assert writer.last_confirmed == 0


@story(tell)
async def test_an_ack_quorum_that_comes_back_in_time_confirms_what_waited(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        await fleet["b1"].stop()
        await fleet["b2"].stop()
        waiting = asyncio.ensure_future(writer.append_many([b"late"] * 3))
        await asyncio.sleep(2)
        assert not waiting.done()

        await fleet["b2"].start()

        assert await waiting == range(1, 4)
        await writer.close()


@story(tell)
async def test_the_time_without_an_ack_quorum_is_counted_anew_once_an_entry_was_confirmed(fleet: Fleet) -> None:
    async with fleet.client(ensemble_timeout_ms=5_000) as client:
        writer = await client.create()
        await writer.append(b"early")
        await fleet["b1"].stop()
        for _ in range(3):
            await fleet["b2"].stop()
            waiting = asyncio.ensure_future(writer.append(b"late"))
            await asyncio.sleep(3)
            assert not waiting.done()

            await fleet["b2"].start()
            await waiting

        assert writer.error is None


@story(tell)
async def test_acks_from_before_a_break_do_not_count_after_it(fleet: Fleet) -> None:
    """spec/bp46.md#R4: what was acknowledged and not confirmed may be gone with the process."""

    async with fleet.client(request_timeout_ms=60_000) as client:
        writer = await client.create()
        await writer.append(b"early")
        for quiet in ("b1", "b2"):
            fleet[quiet].script = lambda request: MUTE
        pending = writer.append_nowait(b"late")
        await fleet.until(lambda: 1 in fleet["b0"].ids(writer.id), "the ack of b0")
        await fleet["b0"].stop()
        fleet["b0"].wipe()
        fleet["b1"].script = obey
        fleet["b1"].break_connections()
        await asyncio.sleep(3)

        # b1 has it again, b2 is silent and b0 is gone: one copy is no ack quorum.
        assert fleet["b1"].ids(writer.id) == [0, 1]
        assert not pending.done()
        await fleet["b0"].start()
        assert await pending == 1
        assert fleet["b0"].ids(writer.id)[-1] == 1


@story(tell)
async def test_a_writer_that_is_recovered_by_another_client_learns_it_and_cannot_close(fleet: Fleet) -> None:
    """CONFORMANCE.md#P20, P23, P28, P29."""

    async with fleet.client() as client, fleet.client("other") as other:
        writer = await client.create()
        await writer.append(b"early")
        reader = await other.open(writer.id)

        with pytest.raises((errors.LedgerFenced, errors.LedgerClosed)):
            await writer.append_many([b"late"] * 3)

        assert reader.last_entry == 0
        await writer.close()  # closed where we had it: fine (CONFORMANCE.md#P24)
        with pytest.raises((errors.LedgerFenced, errors.LedgerClosed)):
            await writer.append(b"later")


@story(tell)
async def test_closing_a_ledger_that_is_in_recovery_is_an_error_and_changes_nothing(fleet: Fleet) -> None:
    """CONFORMANCE.md#P23, where Java's writer overrules the recovery."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        metadata, version = await client.shared.ledgers.get(writer.id)
        await client.shared.ledgers.put(writer.id, metadata.in_recovery(), version)

        with pytest.raises(errors.LedgerFenced, match="recovered by another client"):
            await writer.close()

        assert (await client.metadata(writer.id)).state is LedgerState.IN_RECOVERY


@story(tell)
async def test_closing_a_ledger_that_another_client_closed_elsewhere_is_an_error(fleet: Fleet) -> None:
    """CONFORMANCE.md#P24."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        metadata, version = await client.shared.ledgers.get(writer.id)
        await client.shared.ledgers.put(writer.id, metadata.closed(-1, 0), version)  # type: ignore[arg-type]

        with pytest.raises(errors.LedgerClosed, match="at entry -1"):
            await writer.close()


@story(tell)
async def test_closing_a_ledger_that_another_client_closed_at_the_same_entry_with_another_length_is_an_error(
    fleet: Fleet,
) -> None:
    """CONFORMANCE.md#P24: that end is not ours, whatever its entry is called."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        metadata, version = await client.shared.ledgers.get(writer.id)
        await client.shared.ledgers.put(writer.id, metadata.closed(EntryId(0), 6), version)

        with pytest.raises(errors.LedgerClosed, match="at entry 0"):
            await writer.close()


@story(tell)
async def test_a_key_that_too_many_refuse_ends_the_writer(fleet: Fleet) -> None:
    """Wire 5.4: EUA is fatal, where it is the password that is wrong."""

    async with fleet.client() as client:
        writer = await client.create(password=b"secret")
        for name in ("b0", "b1", "b2"):
            fleet[name].script = lambda request: Status.EUA

        await asyncio.gather(*(writer.append(b"x") for _ in range(3)), return_exceptions=True)
        with pytest.raises(errors.Unauthorized):
            await writer.append(b"x")


@story(tell)
async def test_an_append_that_is_cancelled_is_not_taken_back(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        task = asyncio.ensure_future(writer.append(b"sent"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

        assert await writer.append(b"next") == 1
        assert writer.last_confirmed == 1


@story(tell)
async def test_an_append_that_is_cancelled_at_the_moment_of_its_turn_passes_the_turn_on(fleet: Fleet) -> None:
    """Else, with room for one, who waits behind it waits for ever."""

    async with fleet.client(in_flight_entries_max=1) as client:
        writer = await client.create()
        first = writer.append_nowait(b"first")
        given_up, patient = (asyncio.ensure_future(writer.append(b"x")) for _ in range(2))
        first.add_done_callback(lambda _: given_up.cancel())

        async with asyncio.timeout(10):
            assert await patient == 1
        assert given_up.cancelled()


@story(tell)
async def test_an_append_that_is_refused_takes_nobodys_turn(fleet: Fleet) -> None:
    async with fleet.client(in_flight_entries_max=1) as client:
        writer = await client.create()
        first = writer.append_nowait(b"first")
        too_large, patient = (asyncio.ensure_future(writer.append(bytes(size))) for size in (6 << 20, 1))

        async with asyncio.timeout(10):
            assert await patient == 1
        assert isinstance(too_large.exception(), errors.BadInput)
        assert await first == 0


@story(tell)
async def test_readers_can_see_the_last_entry_once_the_writer_pauses(fleet: Fleet) -> None:
    """Explicit LAC (spec/wire.md#W65)."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 4)

        await fleet.until(lambda: all(b.lac(writer.id) == 3 for b in fleet.bookies), "the explicit LAC")


@story(tell, zones="abca")
async def test_an_ensemble_change_waits_for_the_metadata_store_while_entries_go_on(fleet: Fleet) -> None:
    async with fleet.client(session_timeout_ms=4_000) as client:
        writer = await client.create()
        await writer.append(b"early")
        fleet.machine.fabric.hold("app", "zk")
        victim = in_ensemble(fleet, writer)
        fleet[victim].break_connections()

        assert await writer.append_many([b"x"] * 3) == range(1, 4)
        fleet.machine.fabric.release("app", "zk")
        await fleet.until(lambda: victim not in writer.metadata.last_segment.bookies, "the ensemble change")
        await writer.append(b"late")


@story(tell, zones="abca")
async def test_an_ensemble_change_whose_answer_was_lost_is_found_also_at_a_metadata_server_that_lags(
    fleet: Fleet,
) -> None:
    """Else entries are confirmed by a bookie that the metadata has replaced, and a recovery does not ask it."""

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append(b"early")
        victim, silent = in_ensemble(fleet, writer), in_ensemble(fleet, writer, 1)
        spare = next(str(bookie.id) for bookie in fleet.bookies if bookie.id not in writer.metadata.segments[0].bookies)
        ledgers, before = client.shared.ledgers, await client.shared.ledgers.get(writer.id)
        get, put, sync = ledgers.get, ledgers.put, ledgers.store.sync
        lagging: list[bool] = []

        async def put_unheard(ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
            result = await put(ledger_id, metadata, version)
            if lagging:
                return result
            lagging.append(True)
            await fleet[spare].stop()
            await fleet[victim].start()
            raise errors.MetadataError("the connection broke before the answer came")

        async def get_late(ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
            return before if lagging == [True] else await get(ledger_id)

        async def catch_up(path: str) -> None:
            await sync(path)
            lagging.append(False)

        ledgers.put, ledgers.get, ledgers.store.sync = put_unheard, get_late, catch_up  # type: ignore[method-assign]
        await fleet[victim].stop()
        await fleet.until(lambda: bool(lagging), "the ensemble change")
        fleet[silent].script = lambda request: MUTE

        await writer.append(b"late")

        stored, _ = await get(writer.id)
        holders = [bookie for bookie in stored.write_set(EntryId(1)) if 1 in fleet[str(bookie)].ids(writer.id)]
        assert len(holders) >= 2, f"confirmed, but only {holders} of {stored.last_segment.bookies} have it"


@story(tell, zones="abca")
async def test_what_a_replacement_acknowledges_that_was_gone_when_the_ledger_named_it_counts_for_nothing(
    fleet: Fleet,
) -> None:
    """docs/INTEGRITY.md, two processes: another process of its id may have made its marks before that."""

    async with fleet.client(request_timeout_ms=3_600_000) as client:
        writer = await client.create()
        await writer.append(b"early")
        victim, silent = in_ensemble(fleet, writer), in_ensemble(fleet, writer, 1)
        spare = next(str(bookie.id) for bookie in fleet.bookies if bookie.id not in writer.metadata.segments[0].bookies)
        put = client.shared.ledgers.put

        async def put_too_late(ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
            await fleet.store.delete(f"{paths.available(ROOT)}/{spare}")  # it listens on
            return await put(ledger_id, metadata, version)

        client.shared.ledgers.put = put_too_late  # type: ignore[method-assign]
        fleet[silent].script = lambda request: MUTE
        await fleet[victim].stop()
        await fleet.until(lambda: spare in writer.metadata.last_segment.bookies, "the ensemble change")

        late = writer.append_nowait(b"late")
        await asyncio.sleep(3)
        assert not late.done()

        client.shared.ledgers.put = put  # type: ignore[method-assign]
        fleet[silent].script = obey
        fleet[silent].break_connections()  # what it swallowed is sent again
        assert await late == 1


@story(tell, zones="abca")
async def test_a_bookie_that_only_lags_does_not_fill_the_memory_of_the_writer(fleet: Fleet) -> None:
    def quiet(request: Request) -> str:
        return MUTE

    async with fleet.client(lag_bytes_max=10_000, request_timeout_ms=3_600_000) as client:
        writer = await client.create()
        victim = in_ensemble(fleet, writer)
        fleet[victim].script = quiet

        for _ in range(40):
            await writer.append(b"x" * 1000)
        await fleet.until(lambda: victim not in writer.metadata.last_segment.bookies, "the ensemble change")

        assert len(fleet[victim].asked(messages.AddRequest)) <= 10


@story(tell)
async def test_an_entry_too_large_for_a_frame_is_refused_and_costs_no_bookie(fleet: Fleet) -> None:
    """Wire 1: a bookie answers it by closing the connection."""

    async with fleet.client() as client:
        writer = await client.create()

        with pytest.raises(errors.BadInput, match="does not fit a frame"):
            await writer.append(bytes(5 * 1024 * 1024))
        assert await writer.append(bytes(5 * 1024 * 1024 - 256)) == 0
        await writer.close()

        assert len((await client.metadata(writer.id)).segments) == 1


@pytest.mark.parametrize("ended_by", ["another client", "the client's end"])
@story(tell)
async def test_the_end_of_a_writer_is_told_once_and_not_for_each_entry(
    fleet: Fleet, *, caplog: pytest.LogCaptureFixture, ended_by: str
) -> None:
    """Who appends without waiting may look at the last future alone: the order of entries tells of the others. What
    nobody looked at would be a defect of the loop, and end a process of ours."""
    async with contextlib.AsyncExitStack() as mine, fleet.client() as other:
        client = await mine.enter_async_context(fleet.client())
        writer = await client.create()
        for bookie in fleet.bookies:
            bookie.script = lambda request: MUTE if isinstance(request, messages.AddRequest) else None
        *_, last = [writer.append_nowait(b"entry") for _ in range(20)]
        if ended_by == "another client":
            await fleet.until(
                lambda: all(len(bookie.asked(messages.AddRequest)) == 20 for bookie in fleet.bookies), "the adds"
            )
            for bookie in fleet.bookies:
                bookie.script = obey
            await other.open(writer.id)
            writer.append_nowait(b"late")
        else:
            await mine.aclose()

        with pytest.raises((errors.LedgerFenced, errors.LedgerClosed, errors.ClientClosed)):
            await last
        del last, _
        gc.collect()

    told = [record.getMessage() for record in caplog.records if record.name == "bookie.client.write.writer"]
    assert [text.split(" ledger_id=")[0] for text in told] == ["writer ended"]
