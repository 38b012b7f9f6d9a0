"""The worker against model bookies that are like Java's: no lives, no lists (spec/metadata.md#M44, M48)."""

import asyncio
import contextlib
import dataclasses
import re

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, BootEpoch, EntryId, Incarnation, LedgerId, Life
from bookie.base.units import NS_PER_S
from bookie.client import Client
from bookie.client.repair import explaining
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.maintenance import Maintenance
from bookie.client.repair.marks import Marks
from bookie.client.repair.membership import Membership
from bookie.client.repair.replication_worker import ReplicationWorker
from bookie.metadata import paths, repair
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.metadata.maintenance import MaintenanceLease
from bookie.metadata.repair import Underreplicated
from bookie.ports.metadata_store import find
from bookie.wire import messages
from bookie.wire.messages import Request
from client_support import MUTE, Fleet, lose_removals, obey, tell
from story_support import story

ROOT = "/ledgers"


def listless(request: Request) -> str | None:
    """As an official bookie on DbLedgerStorage: a question for a list is never answered."""
    return MUTE if isinstance(request, messages.ListEntriesRequest) else None


def full(request: Request) -> Status | str | None:
    return Status.EREADONLY if isinstance(request, messages.AddRequest) else listless(request)


async def marked(fleet: Fleet, client: Client, *, lacks: range, count: int = 10, by: str = "b1") -> LedgerId:
    """A closed ledger of `count` entries that one bookie lacks some of, marked."""
    async with await client.create() as writer:
        await writer.append_many([b"entry %d" % number for number in range(count)])
    await fleet.until(lambda: all(len(each.ids(writer.id)) == count for each in fleet.bookies), "every copy")
    for bookie in fleet.bookies:
        bookie.script = listless
    for number in lacks:
        del fleet[by].entries[writer.id, EntryId(number)]
    marks = Marks(fleet.store, ROOT)
    await marks.prepare()
    await marks.mark(writer.id, [BookieId(by)], 1)
    return writer.id


class Switch(AutoRecovery):
    """The switch of a metadata store that once gives no answer."""

    asked = 0
    stumbles_at = 0

    async def is_enabled(self) -> bool:
        self.asked += 1
        if self.asked == self.stumbles_at:
            raise errors.OutcomeUnknown("the metadata store gave no answer")
        return await super().is_enabled()


def worker_of(
    client: Client, recovery: AutoRecovery | None = None, options: AutoRecoveryOptions | None = None
) -> ReplicationWorker:
    options, shared = options or AutoRecoveryOptions(), client.shared
    recovery = recovery or AutoRecovery(shared.ledgers.store, shared.ledgers.root)
    return ReplicationWorker(shared, recovery, Membership(shared, recovery, options), options)


@story(tell)
async def test_what_was_filled_in_place_is_forced_before_the_mark_goes(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        worker = worker_of(client)
        fleet["b1"].requests.clear()

        await worker.turn()

        asked = fleet["b1"].requests
        adds = [place for place, each in enumerate(asked) if isinstance(each, messages.AddRequest)]
        forces = [place for place, each in enumerate(asked) if isinstance(each, messages.ForceRequest)]
        assert len(adds) == 4, worker.blocked
        assert forces, "it may acknowledge from memory"
        assert forces[-1] > adds[-1]
        assert fleet["b1"].ids(ledger_id) == list(range(10))
        assert await Marks(fleet.store, ROOT).find(ledger_id) is None
        assert worker.counts.mended == 1


@story(tell)
async def test_a_ledger_whose_mark_cannot_be_read_is_looked_at_and_mended(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        await fleet.store.put(paths.underreplicated(ROOT, ledger_id), b"\xff" * 100, -1)
        worker = worker_of(client)

        await worker.turn()

        assert worker.blocked == {}
        assert fleet["b1"].ids(ledger_id) == list(range(10))
        assert await Marks(fleet.store, ROOT).find(ledger_id) is None


@story(tell)
async def test_a_lock_of_no_session_is_removed_and_its_ledger_mended(fleet: Fleet) -> None:
    """No repairer's outlives its session: it would keep the ledger from repair for ever."""
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        path = paths.replication_lock(ROOT, ledger_id)
        await fleet.store.create(path, b"\xff whoever", parents=True)
        worker = worker_of(client)

        await worker.turn()

        assert worker.blocked == {}
        assert fleet["b1"].ids(ledger_id) == list(range(10))
        assert await Marks(fleet.store, ROOT).find(ledger_id) is None
        assert await find(fleet.store, path) is None


@story(tell)
async def test_a_lock_of_a_session_is_left_alone_whatever_it_says(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        path = paths.replication_lock(ROOT, ledger_id)
        await fleet.store.create(path, b"\xff whoever", ephemeral=True, parents=True)
        worker = worker_of(client)

        await worker.turn()

        assert worker.blocked == {ledger_id: f"ledger {ledger_id} is being repaired by another process"}
        assert fleet["b1"].ids(ledger_id) == [0, 1, 2, 7, 8, 9]
        assert await find(fleet.store, path) is not None


@story(tell)
async def test_a_person_is_told_whose_lock_it_is_since_when_and_what_becomes_of_it(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        path = paths.replication_lock(ROOT, ledger_id)
        await fleet.store.create(path, repair.dump_lock("a stranger"), parents=True)
        of_nobody = await explaining.explain(client.shared, ledger_id)
        await fleet.store.delete(path)
        await fleet.store.create(path, repair.dump_lock("node-1"), ephemeral=True)
        of_somebody = await explaining.explain(client.shared, ledger_id)

        told = [next(each for each in one.helps if path in each) for one in (of_nobody, of_somebody)]
        since = rf"its lock {path} \(holder {{}}, made \d+ s ago\) "
        nobodys = since.format("a stranger") + "belongs to no session, .* the next worker of ours removes it"
        assert re.match(nobodys, told[0])
        session = f"session {fleet.store.session_id:#x}"
        assert re.match(since.format("node-1") + f"is held by {session}: nobody else repairs it", told[1])


@story(tell)
async def test_a_person_is_told_of_the_way_out_where_bookies_in_limbo_wait_for_each_other(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(0))
        before = await explaining.explain(client.shared, ledger_id)
        for bookie in ("b0", "b2"):
            fleet[bookie].limbo.add(ledger_id)
            del fleet[bookie].entries[ledger_id, EntryId(0)]
        waits = await explaining.explain(client.shared, ledger_id)

        assert not any("accept-loss" in each for each in before.helps)
        way_out = next(each for each in waits.helps if f"`bookie ledger accept-loss {ledger_id} " in each)
        assert set(re.findall(r"--bookie (\w+)", way_out)) == {"b0", "b2"}, "and not b1, which says that it lacks it"


def spoil(fleet: Fleet, ledger_id: LedgerId, entries: range, by: str = "b1") -> None:
    """The bookie has them still, and with other bytes."""
    for each in entries:
        body = fleet[by].entries[ledger_id, EntryId(each)]
        fleet[by].entries[ledger_id, EntryId(each)] = body[:-1] + bytes([body[-1] ^ 1])


def lists_all(fleet: Fleet, count: int) -> None:
    """The bookies give lists now, from an index that knows nothing of what became of the bytes."""
    for bookie in fleet.bookies:
        bookie.listed, bookie.script = [(0, count)], obey


@story(tell)
async def test_what_is_listed_and_damaged_is_copied_again_all_of_it_and_only_then_the_mark_goes(fleet: Fleet) -> None:
    """The ends alone are read to see that; the damage between them is found when they are bad."""
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(0))
        good = dict(fleet["b1"].entries)
        spoil(fleet, ledger_id, range(1))
        spoil(fleet, ledger_id, range(4, 6))
        lists_all(fleet, 10)
        fleet["b1"].requests.clear()
        worker = worker_of(client)

        await worker.turn()

        asked = fleet["b1"].requests
        adds = [place for place, each in enumerate(asked) if isinstance(each, messages.AddRequest)]
        forces = [place for place, each in enumerate(asked) if isinstance(each, messages.ForceRequest)]
        assert len(adds) == 3, worker.blocked
        assert forces[-1] > adds[-1]
        assert fleet["b1"].entries == good
        assert await Marks(fleet.store, ROOT).find(ledger_id) is None


@story(tell)
async def test_a_damaged_entry_that_nobody_gives_stays_marked_and_the_others_are_copied_again(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(0))
        good = dict(fleet["b1"].entries)
        spoil(fleet, ledger_id, range(6))
        for other in ("b0", "b2"):
            spoil(fleet, ledger_id, range(1), by=other)
        lists_all(fleet, 10)
        worker = worker_of(client)

        await worker.turn()

        assert "entry 0: no bookie gave a good copy" in worker.blocked[ledger_id]
        assert {key for key, body in fleet["b1"].entries.items() if body != good[key]} == {(ledger_id, EntryId(0))}
        assert await Marks(fleet.store, ROOT).find(ledger_id) is not None


@story(tell)
async def test_a_bookie_that_takes_a_copy_and_gives_a_bad_one_still_is_told_of(fleet: Fleet) -> None:
    def broken(request: Request) -> Status | str | None:
        return Status.EIO if isinstance(request, messages.ReadRequest) and request.entry_id == 0 else None

    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(0))
        lists_all(fleet, 10)
        fleet["b1"].script = broken
        worker = worker_of(client)

        await worker.turn()

        assert "b1 acknowledged entry 0 and gives no good copy of it" in worker.blocked[ledger_id]
        assert await Marks(fleet.store, ROOT).find(ledger_id) is not None


@story(tell)
async def test_a_mark_stays_while_a_bookie_does_not_let_what_it_lists_be_read(fleet: Fleet) -> None:
    def busy(request: Request) -> Status | str | None:
        return Status.ETOOMANYREQUESTS if isinstance(request, messages.ReadRequest) else None

    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(0))
        lists_all(fleet, 10)
        fleet["b1"].script = busy
        worker = worker_of(client)

        await worker.turn()
        assert "b1 does not say what it holds" in worker.blocked[ledger_id]
        assert await Marks(fleet.store, ROOT).find(ledger_id) is not None

        fleet["b1"].script = obey
        await fleet.machine.loop.sleep_ns(10 * NS_PER_S)
        await worker.turn()
        assert await Marks(fleet.store, ROOT).find(ledger_id) is None


@story(tell)
async def test_damage_on_a_bookie_that_gives_no_lists_is_copied_again(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(7, 8))
        good = dict(fleet["b0"].entries)
        spoil(fleet, ledger_id, range(4, 6))
        worker = worker_of(client)

        await worker.turn()

        assert worker.counts.mended == 1, worker.blocked
        assert fleet["b1"].entries == good


@story(tell)
async def test_a_bookie_that_acknowledges_and_keeps_nothing_is_told_of_and_not_filled_for_ever(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        fleet["b1"].script = lambda request: (
            Status.EOK if isinstance(request, messages.AddRequest) else listless(request)
        )
        worker = worker_of(client)

        await worker.turn()

        assert worker.blocked == {ledger_id: "bookie b1 acknowledged entry 3 and does not list it"}
        assert len(fleet["b1"].asked(messages.AddRequest)) == 10 + 4
        assert await Marks(fleet.store, ROOT).find(ledger_id) is not None


@story(tell)
async def test_an_entry_that_nobody_gives_stays_marked_with_its_reason_and_the_others_are_filled(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        for other in ("b0", "b2"):
            del fleet[other].entries[ledger_id, EntryId(5)]
            fleet[other].limbo.add(ledger_id)
        worker = worker_of(client)

        await worker.turn()

        assert "entry 5: no bookie gave a good copy" in worker.blocked[ledger_id]
        assert fleet["b1"].ids(ledger_id) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
        assert await Marks(fleet.store, ROOT).find(ledger_id) is not None


@story(tell)
async def test_a_blocked_ledger_is_not_tried_again_before_its_pause_and_pauses_grow(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        fleet["b1"].script = full
        worker = worker_of(client)
        tries = []
        for _ in range(60):
            before = worker.counts.failures
            await worker.turn()
            tries.append(worker.counts.failures - before)
            await fleet.machine.loop.sleep_ns(1_000_000_000)

        assert ledger_id in worker.blocked
        assert 2 <= sum(tries) <= 5  # after 5, 10, 20, ... seconds, not each second


@story(tell)
async def test_a_store_that_stumbles_between_two_ledgers_does_not_end_the_process(fleet: Fleet) -> None:
    """One of many coroutines meets the error: a group of errors is none that `run` would wait out."""
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        worker = worker_of(client, switch := Switch(client.shared.ledgers.store, ROOT))
        switch.stumbles_at = 2  # the turn asks first, then whoever takes its first ledger

        running = asyncio.ensure_future(worker.run())
        await fleet.machine.loop.sleep_ns(30_000_000_000)

        assert not running.done(), running.exception()
        running.cancel()
        assert switch.asked > 2
        assert fleet["b1"].ids(ledger_id) == list(range(10))


@story(tell)
async def test_what_nobody_gives_does_not_keep_what_comes_after_it_from_being_filled(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(200), count=200)
        for other in ("b0", "b2"):
            fleet[other].limbo.add(ledger_id)
            for number in range(100):
                del fleet[other].entries[ledger_id, EntryId(number)]
        worker = worker_of(client)

        for _ in range(4):
            await worker.turn()
            await fleet.machine.loop.sleep_ns(300_000_000_000)

        assert fleet["b1"].ids(ledger_id) == list(range(100, 200)), worker.blocked
        assert "no bookie gave a good copy" in worker.blocked[ledger_id]


@story(tell)
async def test_a_ledger_that_takes_long_does_not_keep_a_later_loss_waiting(fleet: Fleet) -> None:
    """Seven of eight places stood empty, for hours, until all copies of one large ledger were made."""
    async with fleet.client() as client:
        slow = await marked(fleet, client, lacks=range(100), count=100)
        for other in ("b0", "b2"):
            fleet[other].script = lambda request: (
                MUTE if isinstance(request, messages.ReadRequest) and request.ledger_id == slow else listless(request)
            )
        worker = worker_of(client, options=AutoRecoveryOptions(entries_at_once=1))
        running = asyncio.ensure_future(worker.run())
        await fleet.machine.loop.sleep_ns(30 * NS_PER_S)
        scripts = [each.script for each in fleet.bookies]

        later = await marked(fleet, client, lacks=range(3, 7))
        for bookie, script in zip(fleet.bookies, scripts, strict=True):
            bookie.script = script

        await fleet.until(lambda: fleet["b1"].ids(later) == list(range(10)), "the later ledger's copies", timeout_s=60)
        assert slow not in worker.blocked, "it is worked on still"
        running.cancel()


@story(tell)
async def test_what_one_bookie_may_be_sent_a_second_keeps_no_other_bookie_waiting(fleet: Fleet) -> None:
    """200 entries of some 50 bytes at 100 bytes a second: b1 is filled for over a minute, b2 lacks three."""
    options = AutoRecoveryOptions(bytes_per_s=100, entries_at_once=200)
    async with fleet.client() as client:
        long = await marked(fleet, client, lacks=range(200), count=200)
        worker = worker_of(client, options=options)
        running = asyncio.ensure_future(worker.run())
        await fleet.until(lambda: bool(fleet["b1"].ids(long)), "the long one begun")

        short = await marked(fleet, client, lacks=range(3), by="b2")
        await fleet.until(lambda: fleet["b2"].ids(short) == list(range(10)), "the short one", timeout_s=10)
        assert len(fleet["b1"].ids(long)) < 50, "its own limit holds"

        worker.set_copy_rate(None)
        await fleet.until(lambda: worker.counts.mended == 2, "both whole", timeout_s=120)
        running.cancel()


@story(tell)
async def test_many_ledgers_that_fill_one_bookie_leave_a_place_to_those_of_another(fleet: Fleet) -> None:
    """Eight ledgers lack a hundred entries on b1, which takes 100 bytes a second: every place would be theirs."""
    options = AutoRecoveryOptions(bytes_per_s=100, ledgers_at_once=3, entries_at_once=100)
    async with fleet.client() as client:
        long = [await marked(fleet, client, lacks=range(100), count=100) for _ in range(8)]
        short = [await marked(fleet, client, lacks=range(3), by="b2") for _ in range(3)]
        worker = worker_of(client, options=options)
        running = asyncio.ensure_future(worker.run())

        for each in short:
            await fleet.until(lambda each=each: fleet["b2"].ids(each) == list(range(10)), "a short one", timeout_s=20)
        assert not any(fleet["b1"].ids(each) == list(range(100)) for each in long)

        worker.set_copy_rate(None)
        await fleet.until(lambda: worker.counts.mended == 11, "all of them, each called in its turn", timeout_s=600)
        assert worker.counts.failures == 0
        running.cancel()


@story(tell)
async def test_ledgers_that_waited_for_a_place_when_it_was_switched_off_are_mended_once_it_is_on_again(
    fleet: Fleet,
) -> None:
    """Nobody calls them any more: those that were called when it was switched off were mended by another worker."""
    options = AutoRecoveryOptions(bytes_per_s=2_000, ledgers_at_once=3, entries_at_once=100, poll_ms=1_000)
    async with fleet.client() as client:
        ledgers = [await marked(fleet, client, lacks=range(100), count=100) for _ in range(8)]
        recovery = AutoRecovery(client.shared.ledgers.store, ROOT)
        worker = worker_of(client, recovery, options)
        running = asyncio.ensure_future(worker.run())
        waiting = worker._places.is_waiting
        await fleet.until(lambda: sum(map(waiting, ledgers)) == 6, "two begun, and the others wait for their places")
        called = list(worker._places._waiting[BookieId("b1")])[:2]

        await recovery.set_enabled(enabled=False)
        await fleet.until(lambda: not worker.busy, "what was begun ends", timeout_s=600)
        for each in called:
            await fleet.store.delete(paths.underreplicated(ROOT, each))
        await recovery.set_enabled(enabled=True)

        await fleet.until(lambda: worker.counts.mended == 6, "the others", timeout_s=600)
        assert all(fleet["b1"].ids(each) == list(range(100)) for each in ledgers if each not in called)
        running.cancel()


@story(tell)
async def test_a_mark_for_a_placement_alone_stays_for_javas_worker(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(0))
        path = paths.underreplicated(ROOT, ledger_id)
        await fleet.store.put(path, repair.dump_underreplicated(Underreplicated((), 1)), -1)
        worker = worker_of(client)

        await worker.turn()

        assert "because of its placement alone" in worker.blocked[ledger_id]
        assert await Marks(fleet.store, ROOT).find(ledger_id) is not None
        assert worker.counts.mended == 0


@story(tell)
async def test_a_ledger_whose_mark_somebody_took_away_is_blocked_no_more(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        fleet["b1"].script = full
        worker = worker_of(client)
        await worker.turn()
        assert ledger_id in worker.blocked

        await fleet.store.delete(paths.underreplicated(ROOT, ledger_id))
        await worker.turn()

        assert worker.blocked == {}


@story(tell)
async def test_a_worker_that_is_switched_off_looks_no_more_often_than_it_says(fleet: Fleet) -> None:
    """What is due and may not be tried is no reason to ask a hundred times a second."""
    async with fleet.client() as client:
        await marked(fleet, client, lacks=range(3, 7))
        fleet["b1"].script = full
        worker = worker_of(client, switch := Switch(client.shared.ledgers.store, ROOT), AutoRecoveryOptions())
        running = asyncio.ensure_future(worker.run())
        await fleet.until(lambda: bool(worker.blocked), "the first try")
        await switch.set_enabled(enabled=False)
        await fleet.machine.loop.sleep_ns(60 * NS_PER_S)  # what was to be tried again is due
        asked = switch.asked

        await fleet.machine.loop.sleep_ns(100 * NS_PER_S)

        assert switch.asked - asked <= 2 + 100_000 // AutoRecoveryOptions().poll_ms
        running.cancel()


@story(tell)
async def test_what_is_due_before_the_next_look_at_the_queue_is_tried_when_it_is_due(fleet: Fleet) -> None:
    options = AutoRecoveryOptions(poll_ms=600_000, retry_ms=2_000)
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        fleet["b1"].script = full
        worker = worker_of(client, options=options)
        running = asyncio.ensure_future(worker.run())
        await fleet.until(lambda: bool(worker.blocked), "the first try")
        fleet["b1"].script = listless

        await fleet.until(lambda: fleet["b1"].ids(ledger_id) == list(range(10)), "the second try", timeout_s=30)
        running.cancel()


@story(tell)
async def test_what_was_marked_meanwhile_is_looked_for_after_each_success(fleet: Fleet) -> None:
    """Nobody tells of a mark beside others."""
    options = AutoRecoveryOptions(poll_ms=600_000, bytes_per_s=100, entries_at_once=100)
    async with fleet.client() as client:
        first = await marked(fleet, client, lacks=range(20), count=20)
        worker = worker_of(client, options=options)
        running = asyncio.ensure_future(worker.run())
        await fleet.until(lambda: bool(fleet["b1"].ids(first)), "the first one begun")

        second = await marked(fleet, client, lacks=range(3), by="b2")

        await fleet.until(lambda: fleet["b2"].ids(second) == list(range(10)), "the second one", timeout_s=60)
        running.cancel()


@story(tell)
async def test_a_rate_that_is_set_later_holds_for_every_copy_from_then_on(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(100), count=100)
        worker = worker_of(client, options=AutoRecoveryOptions(entries_at_once=1))
        worker.set_copy_rate(100)  # bytes a second: two entries
        running = asyncio.ensure_future(worker.run())

        await fleet.machine.loop.sleep_ns(10 * NS_PER_S)

        assert 0 < len(fleet["b1"].ids(ledger_id)) < 50
        running.cancel()


@story(tell)
async def test_a_ledger_is_judged_by_its_record_after_a_sync(fleet: Fleet) -> None:
    """By an older one it is open, lacks nothing that has an end, and its mark would go."""
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        ledgers = client.shared.ledgers
        get, sync = ledgers.get, ledgers.store.sync
        is_late = True

        async def get_late(ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
            metadata, version = await get(ledger_id)
            older = dataclasses.replace(metadata, state=LedgerState.OPEN, last_entry=INVALID_ENTRY_ID, length=0)
            return (older, version - 1) if is_late else (metadata, version)

        async def catch_up(path: str) -> None:
            nonlocal is_late
            await sync(path)
            is_late = is_late and path != ledgers.path(ledger_id)

        ledgers.get, ledgers.store.sync = get_late, catch_up  # type: ignore[method-assign]
        worker = worker_of(client)

        await worker.turn()

        assert fleet["b1"].ids(ledger_id) == list(range(10)), worker.blocked


@story(tell, zones="abcd")
async def test_a_bookie_whose_maintenance_begins_before_its_turn_comes_keeps_its_place(fleet: Fleet) -> None:
    """A turn may last for hours: who was lost when it began may be away on purpose now."""
    async with fleet.client() as client:
        async with await client.create() as writer:
            await writer.append(b"entry")
        named = writer.metadata.last_segment.bookies
        lists_all(fleet, 1)
        for each in fleet.bookies:
            await fleet.store.create(f"{paths.cookies(ROOT)}/{each.id}", b"", parents=True)
        marks = Marks(fleet.store, ROOT)
        await marks.prepare()
        await marks.mark(writer.id, [named[0]], 1)
        worker = worker_of(client)
        await fleet[named[0]].stop()
        await worker.turn()  # from now on it is away
        await fleet.machine.loop.sleep_ns(100 * NS_PER_S)
        ledgers, is_lost = client.shared.ledgers, False
        get = ledgers.get

        async def get_as_it_is_taken(ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
            nonlocal is_lost
            is_lost = is_lost or worker.lost == {named[0]}
            await Maintenance(fleet.store, ROOT).take(named[0], MaintenanceLease(600, "me"))
            return await get(ledger_id)

        ledgers.get = get_as_it_is_taken  # type: ignore[method-assign]

        await worker.turn()

        assert is_lost
        assert (await get(writer.id))[0].last_segment.bookies == named
        assert "under maintenance" in worker.blocked[writer.id]


@story(tell)
async def test_a_bookie_that_knows_nothing_of_the_ledger_lacks_all_of_it(fleet: Fleet) -> None:
    """That it has no such ledger is an answer: nobody waits for a better one."""

    def knows(request: Request) -> Status | str | None:
        is_list = isinstance(request, messages.ListEntriesRequest)
        return Status.ENOLEDGER if is_list and not fleet["b1"].entries else None

    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(10))
        lists_all(fleet, 10)
        fleet["b1"].script = knows
        worker = worker_of(client)

        await worker.turn()

        assert fleet["b1"].ids(ledger_id) == list(range(10)), worker.blocked
        assert await Marks(fleet.store, ROOT).find(ledger_id) is None


@story(tell)
async def test_a_loss_that_is_marked_once_more_while_the_ledger_is_mended_keeps_the_mark(fleet: Fleet) -> None:
    """It may be younger than the look that found the ledger whole; a look more is all that it costs."""
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        ledgers, marks = client.shared.ledgers, Marks(fleet.store, ROOT)
        get = ledgers.get
        times = 0

        async def get_beside_the_auditor(ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
            nonlocal times
            times += 1
            if times == 2:  # the last look, which finds it whole
                assert not await marks.mark(ledger_id, [BookieId("b1")], 2)
            return await get(ledger_id)

        ledgers.get = get_beside_the_auditor  # type: ignore[method-assign]
        worker = worker_of(client)

        await worker.turn()

        assert worker.blocked == {ledger_id: "it was marked again meanwhile"}
        assert worker.counts.mended == 0
        assert await marks.find(ledger_id) is not None
        await fleet.machine.loop.sleep_ns(2 * NS_PER_S)
        await worker.turn()
        assert worker.counts.mended == 1
        assert await marks.find(ledger_id) is None


@story(tell)
async def test_a_mark_stays_when_the_lock_was_lost_while_the_ledger_was_mended(fleet: Fleet) -> None:
    """Who has it now, or marks the ledger, cannot know of a look of ours."""
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        ledgers = client.shared.ledgers
        get = ledgers.get

        async def get_and_lose(ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
            with contextlib.suppress(errors.NodeMissing):
                await fleet.store.delete(paths.replication_lock(ROOT, ledger_id))
            return await get(ledger_id)

        ledgers.get = get_and_lose  # type: ignore[method-assign]
        worker = worker_of(client)

        await worker.turn()

        assert worker.counts.mended == 0
        assert await Marks(fleet.store, ROOT).find(ledger_id) is not None


@story(tell)
async def test_a_lock_that_the_store_does_not_take_back_goes_once_it_does(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(3, 7))
        lock = paths.replication_lock(ROOT, ledger_id)
        lose_removals(client.shared.ledgers.store, lock, 5)

        await worker_of(client).turn()

        await fleet.until_removed(lock)


@pytest.mark.parametrize("is_damaged", [False, True])
@story(tell)
async def test_what_a_life_took_that_ended_before_the_force_is_not_believed(fleet: Fleet, *, is_damaged: bool) -> None:
    async with fleet.client() as client:
        ledger_id = await marked(fleet, client, lacks=range(0) if is_damaged else range(3, 7))
        if is_damaged:
            spoil(fleet, ledger_id, range(1))
            lists_all(fleet, 10)
        bookie, before = fleet["b1"], fleet["b1"].script
        await bookie.begin_life(Life(Incarnation(1), BootEpoch(1)))

        def restarts(request: Request) -> Status | str | None:
            if isinstance(request, messages.ForceRequest):
                bookie.life = Life(Incarnation(1), BootEpoch(2))
            return before(request)

        bookie.script = restarts
        worker = worker_of(client)

        await worker.turn()

        assert worker.blocked == {ledger_id: "bookie b1 restarted while it was filled: it is asked again"}
        assert await Marks(fleet.store, ROOT).find(ledger_id) is not None
