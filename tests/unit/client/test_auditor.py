"""What the auditor counts, and `explain` tells, of ledgers that lie too close together (spec/metadata.md#M51)."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from bookie.base.errors import Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_S
from bookie.client import Client
from bookie.client.ledgers import LedgerStore
from bookie.client.repair import explaining
from bookie.client.repair.auditor import Auditor
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.maintenance import Maintenance
from bookie.client.repair.marks import Marks
from bookie.client.repair.membership import Membership
from bookie.metadata import paths, repair
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.metadata.maintenance import MaintenanceLease
from bookie.metadata.repair import Underreplicated
from bookie.ports.metadata_store import MetadataStore, Stored, find
from bookie.wire import messages
from client_support import MUTE, Fleet, tell
from story_support import story

ROOT = "/ledgers"


async def with_ledger(client: Client, number: int, *names: str) -> LedgerId:
    """A closed ledger on these bookies; without entries on them, since nobody lists here."""
    bookies = tuple(BookieId(name) for name in names)
    made = new_ledger(ensemble_size=len(bookies), write_quorum=2, ack_quorum=2, bookies=bookies)
    await client.shared.ledgers.create(made.closed(EntryId(9), 100), LedgerId(number))
    return LedgerId(number)


async def auditor(fleet: Fleet, client: Client, **options: int) -> Auditor:
    for each in fleet.bookies:
        await fleet.store.create(f"{paths.cookies(ROOT)}/{each.id}", b"", parents=True)
    shared, options = client.shared, AutoRecoveryOptions(check_interval_ms=0, **options)
    recovery = AutoRecovery(shared.ledgers.store, ROOT)
    return Auditor(shared, recovery, Membership(shared, recovery, options), BookieId("me:1"), options)


@story(tell, zones="aabb")
async def test_ledgers_that_lie_too_close_are_counted_and_not_marked(fleet: Fleet) -> None:
    async with fleet.client() as client:
        await with_ledger(client, 1, "b0", "b1")
        await with_ledger(client, 2, "b0", "b2")
        await with_ledger(client, 3, "b2", "b3")
        looking = await auditor(fleet, client)

        await looking.turn()

        assert (looking.counts.audits, looking.counts.misplaced, looking.counts.marked) == (1, 2, 0)


@story(tell, zones="aabb")
async def test_a_loss_is_audited_when_its_time_is_over_and_not_at_the_next_poll(fleet: Fleet) -> None:
    async with fleet.client() as client:
        await with_ledger(client, 1, "b0", "b2")
        looking = await auditor(fleet, client, loss_delay_ms=7_000, poll_ms=600_000)
        running = asyncio.ensure_future(looking.run())
        await asyncio.sleep(1)
        await fleet["b0"].stop()

        await asyncio.sleep(6)
        assert looking.counts.marked == 0
        await asyncio.sleep(2)
        assert looking.counts.marked == 1
        assert (await fleet.store.get(paths.auditor_votes(ROOT))).data == b'bookieId: "me:1"\n'
        running.cancel()


@pytest.mark.parametrize("left", ["mark", "vote", "delay", "huge delay", "huge mark"])
@story(tell, zones="aabb")
async def test_what_a_stranger_left_keeps_no_lost_replica_from_being_marked(fleet: Fleet, *, left: str) -> None:
    """One mark that cannot be read ended each look at its ledger; a node among the votes that is nobody's kept
    everybody from leading; a delay that is no number stopped auditors and workers."""
    path, data = {
        "mark": (paths.underreplicated(ROOT, LedgerId(1)), b"\xff"),
        "huge mark": (paths.underreplicated(ROOT, LedgerId(1)), b"x" * 900_000),
        "vote": (f"{paths.auditor_votes(ROOT)}/V_0000000000", b""),
        "delay": (paths.recovery_delay(ROOT), b"soon"),
        "huge delay": (paths.recovery_delay(ROOT), b"9" * 400),
    }[left]
    async with fleet.client() as client:
        await with_ledger(client, 1, "b0", "b2")
        await with_ledger(client, 2, "b0", "b2")
        looking = await auditor(fleet, client, loss_delay_ms=7_000, poll_ms=1_000)
        await fleet.store.create(path, data, parents=True)
        running = asyncio.ensure_future(looking.run())
        await asyncio.sleep(1)

        await fleet["b0"].stop()
        await asyncio.sleep(12)

        marks = Marks(fleet.store, ROOT)
        assert [(await find_mark(marks, LedgerId(each))).missing for each in (1, 2)] == [("b0",), ("b0",)]
        running.cancel()


@story(tell, zones="aabb")
async def test_a_bookie_that_only_a_ledger_names_is_lost_in_the_look_behind_the_first(fleet: Fleet) -> None:
    """Nobody has its cookie, so the first look is the first to hear of it; the delay is 0."""
    async with fleet.client() as client:
        looking = await auditor(fleet, client, loss_delay_ms=0, poll_ms=600_000)
        running = asyncio.ensure_future(looking.run())
        await asyncio.sleep(2)
        await with_ledger(client, 1, "b0", "stranger")

        await AutoRecovery(client.shared.ledgers.store, ROOT).set_delay_s(0)  # asks for a look
        await asyncio.sleep(2)
        assert looking.counts.marked == 1
        running.cancel()


@story(tell, zones="aabb")
async def test_a_person_is_told_which_segment_lies_too_close_and_what_would_move_it(fleet: Fleet) -> None:
    async with fleet.client() as client:
        close, spread = await with_ledger(client, 1, "b0", "b1"), await with_ledger(client, 2, "b0", "b2")

        told = await explaining.explain(client.shared, close)

        assert [each.bookies for each in told.misplaced] == [("b0", "b1")]
        assert "in 1 zones on average, and could be in 2" in told.misplaced[0].reason
        assert any("recover-bookie BOOKIE --ledger 1" in each for each in told.helps)
        assert not any("no copy is missing" in each for each in told.helps)  # nobody lists here

        fleet["b1"].script = lambda request: (
            Status.EUNKNOWNLEDGERSTATE if isinstance(request, messages.ListEntriesRequest) else None
        )
        told = await explaining.explain(client.shared, close)
        assert any("may have lost entries of this ledger, so it denies none" in each for each in told.needs)
        assert not any("no copy is missing" in each for each in told.helps)
        assert (await explaining.explain(client.shared, spread)).misplaced == ()


@story(tell)
async def test_a_person_is_told_what_became_of_each_bookie_that_is_not_registered(fleet: Fleet) -> None:
    """One that has a cookie is away, one that nobody ever saw never was there, and one that a process stands for is
    starting: of none is said that it is lost."""
    async with fleet.client() as client:
        ledger_id = await with_ledger(client, 1, "b0", "stranger", "beginner")
        await fleet["b0"].stop()
        await fleet.store.create(paths.cookie(ROOT, BookieId("b0")), b"5", parents=True)
        await fleet.store.create(paths.process(ROOT, BookieId("beginner")), b"", parents=True)

        told = await explaining.explain(client.shared, ledger_id)

        assert {each: found.value for each, found in told.whereabouts.items()} == {
            "b0": "away",
            "stranger": "never registered",
            "beginner": "starting",
        }
        assert any(each.startswith("bookie b0: it was registered before") for each in told.helps), told.helps
        assert any(each.startswith("bookie stranger: nothing is known of it") for each in told.helps), told.helps


async def find_mark(marks: Marks, ledger_id: LedgerId) -> Underreplicated:
    found = await marks.find(ledger_id)
    assert found is not None
    return found.record


def spoilt(fleet: Fleet, ledger_id: LedgerId, entry_id: int, by: str) -> None:
    body = fleet[by].entries[ledger_id, EntryId(entry_id)]
    fleet[by].entries[ledger_id, EntryId(entry_id)] = body[:-1] + bytes([body[-1] ^ 1])


async def ten_entries(fleet: Fleet, client: Client) -> LedgerId:
    async with await client.create() as writer:
        await writer.append_many([b"entry %d" % number for number in range(10)])
    await fleet.until(lambda: all(len(each.ids(writer.id)) == 10 for each in fleet.bookies), "every copy")
    return writer.id


def looks(fleet: Fleet, client: Client, **options: int) -> Auditor:
    given = AutoRecoveryOptions(**options)
    recovery = AutoRecovery(fleet.store, ROOT)
    return Auditor(client.shared, recovery, Membership(client.shared, recovery, given), BookieId("me:1"), given)


@story(tell)
async def test_what_a_bookie_lists_and_cannot_give_is_marked_by_the_comparison_that_reads(fleet: Fleet) -> None:
    """As Java's auditor does: its entry logs are gone, its index is not."""
    async with fleet.client() as client:
        bad, gone = await ten_entries(fleet, client), await ten_entries(fleet, client)
        await ten_entries(fleet, client)
        for bookie in fleet.bookies:
            bookie.listed = [(0, 10)]
        spoilt(fleet, bad, 9, "b1")
        fleet["b2"].script = lambda request: (
            Status.EIO if isinstance(request, messages.ReadRequest) and request.ledger_id == gone else None
        )

        lists_only = looks(fleet, client, probe_interval_ms=0)
        await lists_only.turn()
        assert (lists_only.counts.audits, lists_only.counts.marked) == (1, 0)
        await lists_only.withdraw()
        reading = looks(fleet, client)
        await reading.turn()

        assert reading.counts.marked == 2
        marks = Marks(fleet.store, ROOT)
        assert [(await find_mark(marks, each)).missing for each in (bad, gone)] == [("b1",), ("b2",)]


@story(tell)
async def test_a_bookie_that_gives_no_lists_is_read_too_and_one_that_is_too_busy_is_not_marked(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await ten_entries(fleet, client)
        for bookie in fleet.bookies:
            bookie.listed = [(0, 10)]
        fleet["b1"].script = lambda request: MUTE if isinstance(request, messages.ListEntriesRequest) else None
        del fleet["b1"].entries[ledger_id, EntryId(0)]
        fleet["b2"].script = lambda request: (
            Status.ETOOMANYREQUESTS if isinstance(request, messages.ReadRequest) else None
        )
        reading = looks(fleet, client)

        await reading.turn()

        assert reading.counts.marked == 1
        assert (await find_mark(Marks(fleet.store, ROOT), ledger_id)).missing == ("b1",)


def reads(fleet: Fleet) -> int:
    return sum(len(each.asked(messages.ReadRequest)) for each in fleet.bookies)


@story(tell)
async def test_a_new_leader_reads_only_when_the_last_reading_of_any_auditor_is_long_ago(fleet: Fleet) -> None:
    async with fleet.client() as client:
        await ten_entries(fleet, client)
        for bookie in fleet.bookies:
            bookie.listed = [(0, 10)]
        path, week_ms = paths.all_ledgers_checked(ROOT), 604_800_000

        async def reads_of_a_new_one(**options: int) -> int:
            before, one = reads(fleet), looks(fleet, client, **options)
            await one.turn()
            assert one.counts.audits == 1
            await one.withdraw()
            return reads(fleet) - before

        began_ms = client.shared.world.clock.wall_ms()
        first = await reads_of_a_new_one()
        assert first > 0
        noted = repair.load_check_time((await fleet.store.get(path)).data)
        assert noted is not None
        assert began_ms <= noted <= client.shared.world.clock.wall_ms()
        assert await reads_of_a_new_one() == 0
        for data in (repair.dump_check_time(noted - week_ms), b"garbage", repair.dump_check_time(noted + week_ms)):
            await fleet.store.put(path, data, -1)  # by Java's shell, by a stranger, by a clock that was ahead
            assert await reads_of_a_new_one() == first
        await fleet.store.delete(path, -1)
        assert await reads_of_a_new_one(probe_interval_ms=0) == 0
        assert await find(fleet.store, path) is None
        assert await reads_of_a_new_one() == first


@story(tell)
async def test_a_reading_that_broke_off_is_not_noted(fleet: Fleet) -> None:
    async with fleet.client() as client:
        for number in range(100):  # more than one batch
            await with_ledger(client, number, "b0", "b1")
        one, recovery = looks(fleet, client), AutoRecovery(fleet.store, ROOT)
        off: list[asyncio.Future[bool]] = []

        def switch_off(request: messages.Request) -> None:
            if not off:
                off.append(asyncio.ensure_future(recovery.set_enabled(enabled=False)))

        fleet["b1"].script = switch_off

        await one.turn()

        assert off
        assert one.counts.audits == 0
        assert await find(fleet.store, paths.all_ledgers_checked(ROOT)) is None


@story(tell)
async def test_a_comparison_comes_when_its_time_is_over_and_not_at_the_next_poll(fleet: Fleet) -> None:
    async with fleet.client() as client:
        reading = looks(fleet, client, check_interval_ms=7_000, poll_ms=600_000)
        running = asyncio.ensure_future(reading.run())

        await asyncio.sleep(6)
        assert reading.counts.audits == 1
        await asyncio.sleep(10)
        assert reading.counts.audits == 3
        running.cancel()


@story(tell)
async def test_a_bookie_that_never_answers_a_read_costs_an_audit_few_timeouts_and_others_are_read(
    fleet: Fleet,
) -> None:
    async with fleet.client() as client:
        ledgers = [await ten_entries(fleet, client) for _ in range(20)]
        for bookie in fleet.bookies:
            bookie.listed = [(0, 10)]
        fleet["b1"].script = lambda request: MUTE if isinstance(request, messages.ReadRequest) else None
        spoilt(fleet, ledgers[-1], 0, "b2")
        reading, began_ns = looks(fleet, client), fleet.machine.loop.now_ns

        await reading.turn()

        assert (reading.counts.audits, reading.counts.marked) == (1, 1)
        assert fleet.machine.loop.now_ns - began_ns < 15 * NS_PER_S  # each read may take 5
        assert (await find_mark(Marks(fleet.store, ROOT), ledgers[-1])).missing == ("b2",)


@story(tell)
async def test_a_person_is_told_of_a_bookie_that_lists_all_and_does_not_let_it_be_read(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await ten_entries(fleet, client)
        for bookie in fleet.bookies:
            bookie.listed = [(0, 10)]
        spoilt(fleet, ledger_id, 0, "b0")
        fleet["b1"].script = lambda request: (
            Status.ETOOMANYREQUESTS if isinstance(request, messages.ReadRequest) else None
        )

        told = await explaining.explain(client.shared, ledger_id)

        assert any("b0 lacks 1 entries (1 of them are there and damaged" in each for each in told.needs), told.needs
        assert any("b1 does not say what it holds" in each for each in told.needs), told.needs


class Counting:
    """A metadata store that notes how many of its nodes are read at once."""

    def __init__(self, store: MetadataStore) -> None:
        self._store, self._now, self.most = store, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, path: str) -> Stored:
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            return await self._store.get(path)
        finally:
            self._now -= 1


@story(tell)
async def test_a_person_waits_for_the_slowest_bookie_and_not_for_one_after_the_other(fleet: Fleet) -> None:
    """Nobody lists entry 9, and nobody answers for it: each of three reads takes five seconds, once."""
    async with fleet.client() as client:
        ledger_id = await ten_entries(fleet, client)
        for bookie in fleet.bookies:
            bookie.listed = [(0, 8)]
            bookie.script = lambda request: (
                MUTE if isinstance(request, messages.ReadRequest) and request.entry_id == 9 else None
            )
        began_ns = fleet.machine.loop.now_ns

        told = await explaining.explain(client.shared, ledger_id)

        assert len(told.found.fills) == 3
        assert all("nobody has it" in each for each in told.needs), told.needs
        assert fleet.machine.loop.now_ns - began_ns < 6 * NS_PER_S
        asked = [request for bookie in fleet.bookies for request in bookie.asked(messages.ReadRequest)]
        assert [request.entry_id for request in asked].count(9) == 3, "of each bookie once"


@story(tell)
async def test_the_records_of_many_lost_bookies_are_read_together_and_sixteen_at_most(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await with_ledger(client, 1, *(f"stranger{number}" for number in range(12)))
        counting = Counting(client.shared.ledgers.store)
        shared = replace(client.shared, ledgers=LedgerStore(cast(MetadataStore, counting), ROOT))

        told = await explaining.explain(shared, ledger_id)

        assert len(told.whereabouts) == 12
        assert counting.most == 16


@story(tell)
async def test_two_reads_without_an_answer_do_not_keep_the_others_of_a_bookie_from_being_read(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledgers = [await ten_entries(fleet, client) for _ in range(6)]
        for bookie in fleet.bookies:
            bookie.listed = [(0, 10)]
        fleet["b1"].script = lambda request: (
            MUTE if isinstance(request, messages.ReadRequest) and request.ledger_id in ledgers[:2] else None
        )
        for each in ledgers[2:]:
            spoilt(fleet, each, 0, "b1")
        reading = looks(fleet, client)

        await reading.turn()

        assert reading.counts.marked == 4


def called(name: str, fleet: Fleet, client: Client, **options: int) -> Auditor:
    given, recovery = AutoRecoveryOptions(check_interval_ms=0, **options), AutoRecovery(fleet.store, ROOT)
    return Auditor(client.shared, recovery, Membership(client.shared, recovery, given), BookieId(name), given)


@story(tell)
async def test_of_two_auditors_only_the_leader_looks_and_whoever_begins_to_lead_looks_at_once(fleet: Fleet) -> None:
    async with fleet.client("first") as one, fleet.client("second") as two:
        first, second = called("first:1", fleet, one), called("second:1", fleet, two)

        def audits() -> list[int]:
            return [first.counts.audits, second.counts.audits]

        for _ in range(2):
            await first.turn()
            await second.turn()
        assert audits() == [1, 0]

        await first.withdraw()
        await second.turn()
        assert first.counts.unreadable == 0
        await first.turn()  # it stands behind the other now
        assert audits() == [1, 1]
        figures = [(each.counts.unreadable, each.counts.misplaced) for each in (first, second)]
        assert figures == [(None, None), (0, 0)], "of what the other one finds the first knows nothing"
        assert (await fleet.store.get(paths.auditor_votes(ROOT))).data == b'bookieId: "second:1"\n'

        await second.withdraw()
        await first.turn()  # nobody knows what the other one saw
        assert audits() == [2, 1]


@story(tell)
async def test_a_look_in_which_the_session_ended_counts_for_nothing(fleet: Fleet) -> None:
    """Another may lead since, and what it lists may be old."""
    async with fleet.client() as client:
        for number in range(100):  # more than one batch
            await with_ledger(client, number, "b0", "b1")
        for bookie in fleet.bookies:
            bookie.listed = [(0, 10)]
        # Between two batches there is time for a new session.
        one, store = looks(fleet, client, probe_interval_ms=0, check_ledgers_per_s=2), client.shared.ledgers.store
        ended: list[int] = []

        def end(request: messages.Request) -> None:
            if not ended:
                ended.append(store.session_id)
                fleet.machine.keeper.end_session(store.session_id)

        fleet["b1"].script = end

        await one.turn()

        assert store.session_id not in ended
        assert one.counts.audits == 0


@story(tell)
async def test_a_bookie_that_counts_as_lost_since_a_look_began_is_left_to_the_next_one(fleet: Fleet) -> None:
    """This one did not ask whether it is back."""
    async with fleet.client() as client:
        await with_ledger(client, 1, "b0", "stranger")
        one = looks(fleet, client, loss_delay_ms=0, check_interval_ms=0)

        await one.turn()
        assert (one.counts.audits, one.counts.marked) == (1, 0)
        await one.turn()
        assert (one.counts.audits, one.counts.marked) == (2, 1)


@story(tell)
async def test_a_hole_is_marked_by_a_record_that_was_read_anew(fleet: Fleet) -> None:
    """The bookie that the old record names has nothing of it because the ledger moved."""
    async with fleet.client() as client:
        ledger_id, ledgers = await with_ledger(client, 1, "b1", "b2"), client.shared.ledgers
        for name in ("b1", "b2"):
            fleet[name].listed = [(0, 10)]
        get, stored = ledgers.get, await ledgers.get(ledger_id)
        old = stored[0].replaced(EntryId(0), BookieId("b1"), BookieId("b0")), stored[1]
        asked: list[LedgerId] = []

        async def get_late(wanted: LedgerId) -> tuple[LedgerMetadata, int]:
            asked.append(wanted)
            return old if len(asked) == 1 else await get(wanted)

        ledgers.get = get_late  # type: ignore[method-assign]
        one = looks(fleet, client, probe_interval_ms=0)

        await one.turn()

        assert len(asked) == 2
        assert (one.counts.audits, one.counts.marked) == (1, 0)


@story(tell, zones="abca")
async def test_nobody_looks_while_more_than_half_of_the_bookies_are_away(fleet: Fleet) -> None:
    async with fleet.client() as client:
        one = await auditor(fleet, client)
        for bookie in fleet.bookies[:3]:
            await bookie.stop()
        await asyncio.sleep(1)

        await one.turn()
        assert one.counts.audits == 0
        for bookie in fleet.bookies[:3]:
            await bookie.start()
        await asyncio.sleep(1)
        await one.turn()
        assert one.counts.audits == 1


@story(tell)
async def test_a_lease_that_is_taken_while_a_look_lasts_spares_its_bookie_from_then_on(fleet: Fleet) -> None:
    async with fleet.client() as client:
        for number in range(100):  # more than one batch
            await with_ledger(client, number, "b0", "b1")
        fleet["b1"].listed = [(0, 10)]  # and b0 has nothing
        one, leases = looks(fleet, client, probe_interval_ms=0), Maintenance(fleet.store, ROOT)
        taken: list[asyncio.Future[None]] = []

        def take(request: messages.Request) -> None:
            if not taken:
                taken.append(asyncio.ensure_future(leases.take(BookieId("b0"), MaintenanceLease(600, "me"))))

        fleet["b1"].script = take

        await one.turn()

        assert taken
        assert one.counts.audits == 1
        assert 0 < one.counts.marked < 100


@story(tell)
async def test_a_bookie_that_came_back_is_compared_once_it_had_time_for_itself(fleet: Fleet) -> None:
    async with fleet.client() as client:
        ledger_id = await with_ledger(client, 1, "b0", "b1")
        fleet["b0"].listed = [(0, 10)]  # and b1 has nothing
        one = await auditor(fleet, client, return_grace_ms=5_000)
        await one.turn()
        await fleet["b1"].stop()
        await asyncio.sleep(1)
        await one.turn()
        await fleet["b1"].start()
        await asyncio.sleep(1)
        await one.turn()
        assert one.counts.marked == 0

        await asyncio.sleep(5)
        await one.turn()

        assert one.counts.marked == 1
        assert (await find_mark(Marks(fleet.store, ROOT), ledger_id)).missing == ("b1",)


@story(tell)
async def test_records_that_nobody_can_read_are_counted_and_stop_no_look(fleet: Fleet) -> None:
    async with fleet.client() as client:
        for number in (1, 2, 3):
            await with_ledger(client, number, "b0", "stranger")
        await fleet.store.put(paths.ledger_path(ROOT, LedgerId(2)), b"garbage", -1)
        one = looks(fleet, client, loss_delay_ms=0, check_interval_ms=0)

        await one.turn()
        await one.turn()

        assert (one.counts.audits, one.counts.unreadable, one.counts.marked) == (2, 1, 2)
