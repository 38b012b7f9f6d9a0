"""The brake on mass deletion: what a bookie forgets in a day without a person, and what it never forgets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.base.units import HOUR_MS, NS_PER_MS
from bookie.sim.node import ProcessEnd
from bookie.storage.collect import brake, collector
from bookie.storage.collect.brake import Amount, Window
from bookie.storage.collect.collector import Collected
from bookie.storage.collect.daily import DailyCounts
from bookie.storage.collect_options import BrakeOptions
from bookie.storage.store import EntryStore
from storage_support import Bench, entry, run
from story_support import story

HOUR_NS = HOUR_MS * NS_PER_MS
TENTH = BrakeOptions(share_max=0.1, ledgers_min=10)


def braked(**brake_options: float) -> Bench:
    return Bench(brake=BrakeOptions(**brake_options), entry_log_bytes_max=4096)  # type: ignore[arg-type]


async def fill(bench: Bench, store: EntryStore, ledgers: range, *, payload: bytes = b"payload") -> None:
    for ledger_id in ledgers:
        await bench.put_all(store, ledger_id, [0], payload=payload)
    await store.flush()


class MetadataStore:
    """Has the ledgers that it is told to have."""

    def __init__(self, *has: range) -> None:
        self.has = has

    async def is_absent(self, ledger_id: LedgerId) -> bool:
        return not any(ledger_id in ids for ids in self.has)


class HandClock:
    """Each process has a clock of its own, which begins anywhere and moves when told."""

    def __init__(self) -> None:
        self.now_ns = 7

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        raise AssertionError("wall clocks jump")

    async def sleep_until(self, deadline_ns: int) -> None:
        raise AssertionError("nobody waits here")


def counts_of(bench: Bench, store: EntryStore) -> DailyCounts:
    return DailyCounts(store.partitions, bench.node.world.clock)


# ---- the rule -----------------------------------------------------------------------------------------------------


def ledgers(count: int) -> Amount:
    return Amount(count, count * 100)


@pytest.mark.parametrize(
    ("found", "here", "collected", "may_go"),
    [
        (100, 1000, 0, True),
        (101, 1000, 0, False),
        (1, 1000, 110, True),  # the day began with 1,110
        (2, 1000, 110, False),
        (10, 10, 0, True),  # few: whatever their share
        (11, 11, 0, False),
        (6, 20, 5, False),
        (0, 0, 0, True),
        (0, 1000, 900, True),
    ],
)
def test_a_share_of_a_day_or_a_few_may_go(found: int, here: int, collected: int, *, may_go: bool) -> None:
    ruling = brake.rule(ledgers(found), ledgers(here), ledgers(collected), TENTH)

    assert (ruling.reason == "") == may_go, ruling.reason


def test_few_ledgers_with_most_of_the_bytes_are_held_too() -> None:
    ruling = brake.rule(Amount(50, 600), Amount(1000, 1000), Amount(), TENTH)

    assert "50 ledgers (600 B)" in ruling.reason
    assert "100 bytes more may go today" in ruling.reason


@pytest.mark.parametrize(
    ("collected", "allowed"),
    [
        (Amount(), Amount(100, 100)),
        (Amount(1, 10), Amount(99, 91)),  # the day began with 1,001 ledgers of 1,010 bytes
        (Amount(0, 200), Amount(100, 0)),  # more went already than a day has
        (Amount(200, 0), Amount(0, 100)),
    ],
)
def test_what_went_in_the_day_is_taken_off_in_ledgers_and_in_bytes(collected: Amount, allowed: Amount) -> None:
    found = Amount(11, allowed.size_bytes + 1)

    ruling = brake.rule(found, Amount(1000, 1000), collected, TENTH)

    assert ruling.allowed == allowed
    assert f"and {allowed.ledgers if not allowed.ledgers else allowed.size_bytes} " in ruling.reason
    if allowed.ledgers:
        fits = Amount(11, allowed.size_bytes)
        assert brake.rule(fits, Amount(1000, 1000), collected, TENTH) == brake.Ruling("", allowed)


def test_a_share_of_one_is_no_brake() -> None:
    assert brake.rule(ledgers(1000), ledgers(1000), ledgers(10_000), BrakeOptions(share_max=1.0)).reason == ""


@given(
    runs=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30 * HOUR_NS)), max_size=40),
    share=st.sampled_from([0.0, 0.1, 0.5]),
    few=st.integers(0, 20),
)
def test_never_more_than_the_share_or_the_few_go_in_any_day(
    runs: list[tuple[int, int]], share: float, few: int
) -> None:
    options, window, now_ns, here = BrakeOptions(share, few), Window(0), 0, 1000
    went: list[tuple[int, int]] = []
    for wanted, pause_ns in runs:
        now_ns += pause_ns
        found = ledgers(min(wanted, here))
        if not brake.rule(found, ledgers(here), window.at(now_ns), options).reason:
            window.count(found)
            here -= found.ledgers
            went.append((now_ns, found.ledgers))
        window = Window.load(window.dump(), now_ns)  # it starts again after every run
        for at_ns, _ in went:
            day = sum(count for when, count in went if at_ns <= when < at_ns + 24 * HOUR_NS)
            assert day <= max(few, share * 1000)


@pytest.mark.parametrize("options", [{"share_max": -0.1}, {"share_max": 1.1}, {"ledgers_min": -1}])
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, float]) -> None:
    with pytest.raises(errors.BadInput, match="gcDaily"):
        BrakeOptions(**options)  # type: ignore[arg-type]


# ---- a run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_flushed", [True, False])
def test_of_ledgers_that_are_suddenly_all_gone_not_one_is_collected(*, is_flushed: bool) -> None:
    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            await fill(bench, store, range(40), payload=bytes(2000))
            if not is_flushed:
                await bench.put_all(store, 41, [0])
            counts = counts_of(bench, store)
            for _ in range(3):
                found = await collector.collect(store, MetadataStore().is_absent, counts)
                assert (found.ledgers_deleted, found.logs_dropped, found.day) == (0, 0, Amount())
                assert found.held.ledgers == found.ledgers_seen >= 40
                assert found.held.size_bytes > 80_000
                assert found.held_first == tuple(range(10))
                assert "all of them are kept" in found.held_reason
            assert await bench.read(store, 7, 0) == entry(7, 0, payload=bytes(2000))

        await bench.life(work)

    run(story, braked(share_max=0.1, ledgers_min=10))


@story(run, braked, share_max=0.1, ledgers_min=0)
async def test_everyday_deletions_pass_and_count_for_a_day_of_running_across_restarts(bench: Bench) -> None:
    metadata = MetadataStore(range(10, 200))

    async def collect(store: EntryStore) -> Collected:
        return await collector.collect(store, metadata.is_absent, DailyCounts(store.partitions, HandClock()))

    async def first(store: EntryStore) -> None:
        await fill(bench, store, range(100))
        found = await collect(store)
        assert (found.ledgers_deleted, found.day.ledgers, found.held_reason) == (10, 10, "")

    async def second(store: EntryStore) -> None:
        metadata.has = (range(19, 200),)
        found = await collect(store)
        assert (found.ledgers_deleted, found.held.ledgers, found.allowed.ledgers) == (0, 9, 0)

    async def third(store: EntryStore) -> None:
        clock = HandClock()
        counts = DailyCounts(store.partitions, clock)
        clock.now_ns += 24 * HOUR_NS
        assert (await collector.collect(store, metadata.is_absent, counts)).held.ledgers == 9
        clock.now_ns += HOUR_NS  # the hour that ran counts whole
        found = await collector.collect(store, metadata.is_absent, counts)
        assert (found.ledgers_deleted, found.day.ledgers) == (9, 9)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)
    await bench.life(third)


@story(run, braked, share_max=0.1, ledgers_min=0)
async def test_hours_that_passed_are_kept_over_a_restart(bench: Bench) -> None:
    metadata = MetadataStore(range(10, 200))

    async def first(store: EntryStore) -> None:
        await fill(bench, store, range(100))
        clock = HandClock()
        counts = DailyCounts(store.partitions, clock)
        assert (await collector.collect(store, metadata.is_absent, counts)).ledgers_deleted == 10
        clock.now_ns += 20 * HOUR_NS
        await bench.put_all(store, 50, [1])
        await collector.collect(store, metadata.is_absent, counts)

    async def second(store: EntryStore) -> None:
        clock = HandClock()
        counts = DailyCounts(store.partitions, clock)
        assert counts.total().ledgers == 10
        clock.now_ns += 5 * HOUR_NS
        assert counts.total().ledgers == 0

    await bench.life(first)
    await bench.life(second)


@story(run, braked, share_max=0.1, ledgers_min=10)
async def test_a_person_lets_go_exactly_what_was_shown_and_tomorrow_is_not_charged_with_it(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await fill(bench, store, range(40))
        counts, metadata = counts_of(bench, store), MetadataStore(range(30, 40))
        looked = await collector.collect(store, metadata.is_absent, counts, looks_only=True)
        assert (looked.ledgers_deleted, looked.held.ledgers) == (0, 30)
        metadata.has = ()
        assert (await collector.collect(store, metadata.is_absent, counts, released=30)).ledgers_deleted == 0
        metadata.has = (range(30, 40),)
        done = await collector.collect(store, metadata.is_absent, counts, released=30)
        assert (done.ledgers_deleted, done.held_reason, done.day) == (30, "", Amount())
        assert [ledger async for ledger in store.ledgers()] == list(range(30, 40))

    await bench.life(work)


@story(run, braked, share_max=0.1, ledgers_min=10)
async def test_a_ledger_that_came_back_between_the_look_and_the_deletion_is_kept(bench: Bench) -> None:
    asked: list[LedgerId] = []

    async def is_absent(ledger_id: LedgerId) -> bool:
        asked.append(ledger_id)
        return asked.count(ledger_id) == 1 or ledger_id == 3

    async def work(store: EntryStore) -> None:
        await fill(bench, store, range(5))
        found = await collector.collect(store, is_absent, counts_of(bench, store))
        assert found.ledgers_deleted == 1
        assert [ledger async for ledger in store.ledgers()] == [0, 1, 2, 4]

    await bench.life(work)


@story(run, braked, share_max=0.1, ledgers_min=10)
async def test_looking_deletes_nothing_that_may_go(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await fill(bench, store, range(5))
        looked = await collector.collect(store, MetadataStore().is_absent, counts_of(bench, store), looks_only=True)
        assert (looked.held_reason, looked.ledgers_deleted, looked.logs_dropped) == ("", 0, 0)
        assert len([ledger async for ledger in store.ledgers()]) == 5

    await bench.life(work)


def test_several_directories_share_one_day() -> None:
    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            await fill(bench, store, range(40))
            counts = counts_of(bench, store)
            found = await collector.collect(store, MetadataStore(range(4, 40)).is_absent, counts)
            assert (found.ledgers_deleted, found.day.ledgers) == (4, 4)
            assert (await collector.collect(store, MetadataStore(range(5, 40)).is_absent, counts)).held.ledgers == 1

        await bench.life(work)

    changes = {"ledger_dirs": ("/ledgers", "/ledgers1"), "index_dirs": ("/index", "/index1")}
    run(story, Bench(brake=BrakeOptions(0.1, 0), **changes))


def test_a_day_ends_however_often_it_is_asked_for() -> None:
    window, minute_ns = Window(0), HOUR_NS // 60
    window.count(ledgers(3))
    for minute in range(0, 25 * 60, 10):
        assert window.at(minute * minute_ns) == ledgers(3)
    assert window.at(25 * HOUR_NS) == Amount()


@story(run)
async def test_what_goes_counts_for_a_day_from_now_although_nobody_asked_for_hours(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        clock = HandClock()
        counts = DailyCounts(store.partitions, clock)
        clock.now_ns += 20 * HOUR_NS
        counts.count(0, ledgers(3))
        clock.now_ns += 20 * HOUR_NS
        assert counts.total() == ledgers(3)
        clock.now_ns += 5 * HOUR_NS
        assert counts.total() == Amount()

    await bench.life(work)


def test_counts_are_stored_again_as_they_were_read() -> None:
    window = Window(0)
    window.count(ledgers(3))
    window.at(HOUR_NS)
    window.count(ledgers(5))

    data = window.dump()

    assert Window.load(data, 7).dump() == data
    assert Window.load(data, 7).at(7) == ledgers(8)
    assert Window.load(None, 7).dump() == Window(0).dump()


@pytest.mark.parametrize("data", [b"short", Window(0).dump() + b"more", Window(0).dump()[:-1]])
def test_counts_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(errors.CorruptFile):
        Window.load(data, 0)


@story(run, braked, share_max=0.1, ledgers_min=10)
async def test_counts_that_cannot_be_read_hold_for_a_day_and_end_nothing(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await fill(bench, store, range(5))
        store.partitions[0].index.put_meta("collected", b"damaged")
        clock = HandClock()
        counts = DailyCounts(store.partitions, clock)
        assert (await collector.collect(store, MetadataStore().is_absent, counts)).held.ledgers == 5
        clock.now_ns += 25 * HOUR_NS
        assert (await collector.collect(store, MetadataStore().is_absent, counts)).ledgers_deleted == 5

    await bench.life(work)


@story(run, braked)
async def test_what_goes_is_counted_before_the_first_of_it_is_deleted(bench: Bench) -> None:
    """CRASH: a checkpoint may run between two deletions; those it makes durable without their count are free."""

    async def work(store: EntryStore) -> None:
        await fill(bench, store, range(3))
        counts = counts_of(bench, store)
        seen: list[int] = []

        async def is_absent(ledger_id: LedgerId) -> bool:
            seen.append(counts.total().ledgers)
            return ledger_id < 2

        found = await collector.collect(store, is_absent, counts)

        assert found.ledgers_deleted == 2
        assert seen == [0, 0, 0, 2, 2], "three looks, and a question before each deletion"

    await bench.life(work)
