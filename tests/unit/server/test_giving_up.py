"""Which surplus goes, and how: the rule by itself, and its driver with a store, a metadata store and somebody else.

The storage: `tests/unit/storage/test_giving_up.py`. Whole clusters: `tests/simulation/test_surplus.py`.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.rounds import Rounds
from bookie.base.units import NS_PER_MS
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.client.tasks import Tasks
from bookie.metadata import paths, repair, serde
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment
from bookie.ports.metadata_store import MetadataStore, Op
from bookie.ports.metrics import Sample
from bookie.server import giving_up, surplus
from bookie.server.giving_up import GivingUp
from bookie.server.surplus import Surplus
from bookie.sim.node import ProcessEnd
from bookie.storage.collect.collector import Collected
from bookie.storage.collect_options import BrakeOptions
from bookie.storage.store import EntryStore
from client_support import lose_removals
from storage_support import KEY, Bench, entry, put, run
from story_support import story

URI, ROOT = "zk+hierarchical://zk:2181/ledgers", "/ledgers"
ME, OTHER = BookieId("b1:3181"), BookieId("b2:3181")
GONE, KEPT, THIRD = LedgerId(7), LedgerId(8), LedgerId(9)
WAIT_MS = 1_000
SEEN = Collected(ledgers_seen=2, ledgers_deleted=0, logs_dropped=0)
CLOSED = LedgerMetadata(1, 1, 1, (Segment(EntryId(0), (OTHER,)),), LedgerState.CLOSED, EntryId(1), 7)
OURS = dataclasses.replace(CLOSED, segments=(Segment(EntryId(0), (ME,)),))
LONGER = dataclasses.replace(CLOSED, segments=(Segment(EntryId(0), (BookieId(f"{ME}0"),)),))
OPEN = dataclasses.replace(CLOSED, state=LedgerState.IN_RECOVERY, last_entry=EntryId(-1), length=0)

# ---- the rule --------------------------------------------------------------------------------------------------------


def look(rule: Surplus, at_ms: int, *ledgers: LedgerId, is_quiet: bool = True, is_complete: bool = True) -> None:
    rule.begin(at_ms * NS_PER_MS)
    for ledger_id in ledgers:
        rule.found(ledger_id, at_ms * NS_PER_MS + 5, is_quiet=is_quiet)
    if is_complete:
        rule.end()


def test_surplus_is_due_when_it_was_there_quietly_for_long_enough_before_a_run_began() -> None:
    rule = Surplus(WAIT_MS)
    look(rule, 0, GONE, is_quiet=False)
    assert rule.due() == []
    look(rule, 1_000, GONE)
    assert rule.due() == []
    look(rule, 1_001, GONE)
    assert rule.due() == [GONE]


def test_one_look_is_never_enough_however_short_the_wait() -> None:
    rule = Surplus(0)
    look(rule, 0, GONE)
    assert rule.due() == []
    look(rule, 1, GONE)
    assert rule.due() == [GONE]


def test_what_was_no_surplus_in_between_waits_anew() -> None:
    rule = Surplus(WAIT_MS)
    look(rule, 0, GONE)
    look(rule, 1_000)
    look(rule, 2_000, GONE)
    assert rule.due() == []


@pytest.mark.parametrize("is_complete", [True, False])
def test_what_something_came_for_waits_anew_also_when_the_run_that_saw_it_was_cut(is_complete: bool) -> None:
    rule = Surplus(WAIT_MS)
    look(rule, 0, GONE)
    look(rule, 2_000, GONE, is_quiet=False, is_complete=is_complete)
    look(rule, 2_500, GONE)
    assert rule.due() == []
    look(rule, 4_000, GONE)
    assert rule.due() == [GONE]


def test_without_a_wait_it_is_counted_alone() -> None:
    rule = Surplus()
    assert [sample.name for sample in rule.samples()] == ["bookie_gc_surplus_given_up_total"]
    for at_ms in (0, 10**9):
        look(rule, at_ms, GONE)
    assert rule.due() == []
    assert rule.ledgers == 1


def test_what_is_watched_is_bounded_and_all_is_counted() -> None:
    rule = Surplus(WAIT_MS, watched_max=1)
    for at_ms in (0, 2_000):
        look(rule, at_ms, GONE, KEPT)
        assert rule.ledgers == 2
    assert rule.due() == [GONE]
    look(rule, 4_000, KEPT, GONE)
    assert rule.due() == [GONE]  # watched already, so it stays


Find = tuple[LedgerId, int, bool]  # which, how long after the one before, and whether nothing came for it


@dataclass(frozen=True)
class Run:
    """One run of the collection: after how many ns it begins, what it finds, and whether it comes to its end."""

    pause_ns: int
    finds: tuple[Find, ...]
    is_complete: bool = True


class Model:
    """Which surplus may go, told from all that was ever seen: what the last complete run has found that was found in
    every complete run since one that was long enough ago, while no run, cut or not, heard of anything that came for it.
    Of what is new a run watches only so much."""

    def __init__(self, wait_ns: int, watched_max: int) -> None:
        self.wait_ns, self.watched_max = max(1, wait_ns), watched_max
        # Of each run: what it found; and, of one that came to its end, what it watches since when.
        self.runs: list[tuple[dict[LedgerId, tuple[int, bool]], dict[LedgerId, int] | None]] = []

    def since(self, ledger_id: LedgerId) -> int | None:
        """Return since when it is surplus and quiet; None when it is not, or nobody watches it."""
        for finds, watched in reversed(self.runs):
            if watched is not None:
                return watched.get(ledger_id)
            if ledger_id in finds and not finds[ledger_id][1]:
                return None
        return None

    def due(self, began_ns: int, finds: dict[LedgerId, tuple[int, bool]], *, is_complete: bool) -> list[LedgerId]:
        """Return what may go after a run, in the order in which that found it."""
        watched: dict[LedgerId, int] = {}
        for ledger_id, (at_ns, is_quiet) in finds.items():
            since_ns = self.since(ledger_id) if is_quiet else None
            if since_ns is not None or len(watched) < self.watched_max:
                watched[ledger_id] = at_ns if since_ns is None else since_ns
        self.runs.append((finds, watched if is_complete else None))
        return [each for each, since_ns in watched.items() if began_ns - since_ns >= self.wait_ns]


EDGE_NS = WAIT_MS * NS_PER_MS
FINDS = st.lists(
    st.tuples(st.sampled_from([GONE, KEPT, THIRD]), st.sampled_from([0, 1]), st.booleans().map(lambda odd: not odd)),
    unique_by=lambda find: find[0],
).map(tuple)
RUNS = st.builds(Run, st.sampled_from([1, 5, EDGE_NS // 2, EDGE_NS - 1, EDGE_NS, EDGE_NS + 1]), FINDS, st.booleans())
LOUD, QUIET = ((GONE, 0, False),), ((GONE, 0, True),)


@settings(max_examples=50)
@given(st.lists(RUNS, max_size=5), st.sampled_from([0, WAIT_MS]), st.sampled_from([1, 2, 9]))
@example([Run(0, LOUD), Run(EDGE_NS, QUIET)], WAIT_MS, 9)
@example([Run(0, LOUD), Run(EDGE_NS - 1, QUIET)], WAIT_MS, 9)
@example([Run(0, LOUD), Run(0, QUIET)], 0, 9)
@example([Run(0, LOUD), Run(EDGE_NS, LOUD, is_complete=False), Run(EDGE_NS, QUIET)], WAIT_MS, 9)
@example([Run(0, LOUD), Run(EDGE_NS, (), is_complete=False), Run(EDGE_NS, QUIET)], WAIT_MS, 9)
@example([Run(0, LOUD), Run(EDGE_NS, ()), Run(EDGE_NS, QUIET)], WAIT_MS, 9)
@example([Run(0, LOUD), Run(EDGE_NS, ((KEPT, 0, False), *QUIET))], WAIT_MS, 1)
def test_what_goes_is_what_the_whole_history_says_may_go(runs: list[Run], wait_ms: int, watched_max: int) -> None:
    rule, model, now_ns = Surplus(wait_ms, watched_max=watched_max), Model(wait_ms * NS_PER_MS, watched_max), 0
    for run_ in runs:
        now_ns += run_.pause_ns
        began_ns, finds = now_ns, {}
        rule.begin(began_ns)
        for ledger_id, later_ns, is_quiet in run_.finds:
            now_ns += later_ns
            finds[ledger_id] = now_ns, is_quiet
            rule.found(ledger_id, now_ns, is_quiet=is_quiet)
        due = model.due(began_ns, finds, is_complete=run_.is_complete)
        if run_.is_complete:
            rule.end()
            assert rule.due() == due
            assert rule.ledgers == len(finds)


@pytest.mark.parametrize(
    ("record", "is_surplus", "is_named"),
    [
        (serde.dump_ledger(CLOSED), True, False),
        (serde.dump_ledger(OURS), False, True),
        (serde.dump_ledger(LONGER), False, False),
        (serde.dump_ledger(OPEN), False, False),
        (serde.dump_ledger(dataclasses.replace(OPEN, state=LedgerState.OPEN)), False, False),
        (b"nothing of ours", False, False),
        (b"b1:3181 is in it", False, False),
    ],
)
def test_only_a_closed_record_without_our_name_makes_surplus(record: bytes, is_surplus: bool, is_named: bool) -> None:
    assert surplus.is_surplus(record, ME) is is_surplus
    assert surplus.names(record, ME) is is_named


# ---- the driver ------------------------------------------------------------------------------------------------------


class Interfering:
    """A metadata store that lets somebody act just before one kind of question is passed on, or just after the answer
    of one about a path, before any other task can."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.before: dict[str, Callable[[], Awaitable[None]]] = {}
        self.after: dict[str, Callable[[], None]] = {}
        self.asked: list[tuple[str, str]] = []
        self.withheld = ""  # a path that is another's

    async def transact(self, ops: Sequence[Op]) -> Any:
        for op in ops:
            self._check(op.path)
        return await self._store.transact(ops)

    def _check(self, path: str) -> None:
        if path == self.withheld:
            raise errors.MetadataDenied(f"{path}: no permission")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def sync(self, path: str) -> None:
        self.asked.append(("sync", path))
        await self._store.sync(path)

    async def get(self, path: str) -> Any:
        what = "sign" if "holder" in path or "bookie-surplus" in path else "get"
        self.asked.append((what, path))
        if what in self.before:
            await self.before.pop(what)()
        self._check(path)
        answer = await self._store.get(path)
        if path in self.after:
            asyncio.get_running_loop().call_soon(self.after.pop(path))
        return answer


class Stage:
    """Two ledgers with two entries each, both closed and of another bookie."""

    def __init__(self, bench: Bench, store: EntryStore, mine: MetadataStore, theirs: MetadataStore) -> None:
        self.bench, self.store, self.theirs = bench, store, theirs
        self.metadata = Interfering(mine)
        self.ledgers = LedgerStore(self.metadata, ROOT)  # type: ignore[arg-type]
        self.versions: dict[LedgerId, int] = {}
        self.driver: GivingUp

    async def set(self, tasks: Tasks) -> "Stage":
        instance_id = await cluster.ensure_cluster(self.theirs, URI, self.bench.node.world.entropy)
        world = self.bench.node.world
        self.rounds = Rounds()
        self.driver = GivingUp(
            self.store, self.ledgers, world, me=ME, instance_id=instance_id, tasks=tasks, rounds=self.rounds
        )
        for ledger_id in (GONE, KEPT):
            await self.add(ledger_id)
        await self.store.flush()
        return self

    async def add(self, ledger_id: LedgerId, **shape: Any) -> None:
        await self.bench.settle(*(put(self.store, ledger_id, entry_id, **shape) for entry_id in (0, 1)))
        await self.theirs.create(self.path(ledger_id), serde.dump_ledger(CLOSED), parents=True)
        self.store.watch_surplus(ledger_id)

    def path(self, ledger_id: LedgerId) -> str:
        return paths.ledger_path(ROOT, ledger_id)

    async def names_us(self) -> None:
        stored = await self.theirs.get(self.path(GONE))
        await self.theirs.put(self.path(GONE), serde.dump_ledger(OURS), stored.version)

    async def gone(self, *, here: bool) -> None:
        assert self.store.has_entries(GONE) is here
        if here:
            assert await self.bench.read(self.store, GONE, 0) == entry(GONE, 0)
        else:
            with pytest.raises(errors.UnknownLedgerState):
                await self.store.read(GONE, EntryId(0))


def on_a_stage(body: Callable[[Stage], Awaitable[None]], **changes: Any) -> None:
    async def told(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            stores = bench.node.world.metadata_stores
            mine, theirs = await stores.connect(URI), await stores.connect(URI)
            async with Tasks() as tasks:
                await body(await Stage(bench, store, mine, theirs).set(tasks))

        await bench.life(work)

    run(told, **changes)


@story(on_a_stage)
async def test_the_entries_go_and_the_lock_is_given_back(stage: Stage) -> None:
    assert await stage.driver.run([GONE], SEEN) == 1

    await stage.gone(here=False)
    assert stage.store.has_entries(KEPT)
    facts = stage.store.facts(GONE)
    assert facts is not None
    assert (facts.is_fenced, facts.master_key) == (True, KEY)
    with pytest.raises(errors.NodeMissing):
        await stage.theirs.get(paths.replication_lock(ROOT, GONE))


@story(on_a_stage)
async def test_a_lock_that_the_store_does_not_take_back_goes_once_it_does(stage: Stage) -> None:
    """The session of a bookie lasts for months: nobody would repair the ledger."""
    lock, simulation = paths.replication_lock(ROOT, GONE), stage.bench.simulation
    lose_removals(stage.metadata, lock, 5)  # type: ignore[arg-type]

    assert await stage.driver.run([GONE], SEEN) == 1

    await simulation.until(lambda: lock not in simulation.keeper.tree.nodes, "the end of the lock")


@story(on_a_stage)
async def test_the_record_is_read_again_after_a_sync_under_the_lock(stage: Stage) -> None:
    await stage.names_us()

    assert await stage.driver.run([GONE, KEPT], SEEN) == 1

    await stage.gone(here=True)
    assert not stage.store.is_given_up(GONE)  # not even marked
    asked = stage.metadata.asked
    synced = asked.index(("sync", stage.path(GONE)))
    assert ("get", stage.path(GONE)) not in asked[:synced]
    assert ("get", stage.path(GONE)) in asked[synced:]


@story(on_a_stage)
async def test_a_ledger_that_was_deleted_since_is_left_to_the_collection_and_the_others_go(stage: Stage) -> None:
    """That it is gone is for the collector to prove."""
    await stage.theirs.delete(stage.path(GONE))

    assert await stage.driver.run([GONE, KEPT], SEEN) == 1

    await stage.gone(here=True)
    assert not stage.store.has_entries(KEPT)


@pytest.mark.parametrize("what", ["record", "lock"])
@story(on_a_stage)
async def test_a_ledger_whose_record_or_lock_nobody_lets_us_have_keeps_no_other(stage: Stage, *, what: str) -> None:
    """Of another owner in ZooKeeper: each run ended there, and no surplus behind it ever went."""
    stage.metadata.withheld = stage.path(GONE) if what == "record" else paths.replication_lock(ROOT, GONE)

    assert await stage.driver.run([GONE, KEPT], SEEN) == 1

    stage.metadata.withheld = ""
    await stage.gone(here=True)
    assert not stage.store.has_entries(KEPT)
    assert "no permission" in stage.rounds.last()["giving up of surplus"]


@story(on_a_stage)
async def test_nothing_goes_while_somebody_repairs_the_ledger(stage: Stage) -> None:
    lock = paths.replication_lock(ROOT, GONE)
    await stage.theirs.create(lock, repair.dump_lock("somebody"), ephemeral=True, parents=True)

    assert await stage.driver.run([GONE, KEPT], SEEN) == 1

    await stage.gone(here=True)
    assert repair.load_lock((await stage.theirs.get(lock)).data) == "somebody"


@story(on_a_stage)
async def test_nothing_goes_once_the_lock_is_lost(stage: Stage) -> None:
    async def lost() -> None:
        stage.bench.simulation.keeper.end_session(stage.metadata.session_id)

    stage.metadata.before["sign"] = lost

    assert await stage.driver.run([GONE], SEEN) == 0

    await stage.gone(here=True)


@story(on_a_stage)
async def test_each_ledger_goes_by_its_own_lock(stage: Stage) -> None:
    """Java's workers remove locks that are not theirs (`replication_lock`)."""

    async def removed() -> None:
        await stage.theirs.delete(paths.replication_lock(ROOT, KEPT))

    stage.metadata.before["sign"] = removed

    assert await stage.driver.run([GONE, KEPT], SEEN) == 1

    await stage.gone(here=False)
    assert stage.store.has_entries(KEPT)


@story(on_a_stage)
async def test_a_copy_that_comes_while_the_lock_is_confirmed_keeps_all(stage: Stage) -> None:
    async def copied() -> None:
        stage.store.add_copied(GONE, EntryId(2), entry(GONE, 2), KEY)

    stage.metadata.before["sign"] = copied

    assert await stage.driver.run([GONE], SEEN) == 0

    await stage.gone(here=True)
    assert await stage.bench.read(stage.store, GONE, 2) == entry(GONE, 2)


@story(on_a_stage)
async def test_nothing_is_awaited_between_the_last_look_at_the_lock_and_the_end_of_the_entries(stage: Stage) -> None:
    """Whoever has his turn in between may take the lock, hear of entries that are here, and name us for them."""
    had: list[bool] = []
    stage.metadata.after[paths.replication_lock(ROOT, GONE)] = lambda: had.append(stage.store.has_entries(GONE))

    assert await stage.driver.run([GONE], SEEN) == 1

    assert had == [False]


@story(on_a_stage)
async def test_the_mark_is_durable_before_an_entry_goes(stage: Stage) -> None:
    marked: list[bool] = []

    async def looked() -> None:
        (partition,) = stage.store.partitions
        marked.append(bool((partition.index.row(GONE) or b"\0\0")[1] & 16) and stage.store.has_entries(GONE))

    stage.metadata.before["sign"] = looked
    await stage.driver.run([GONE], SEEN)
    assert marked == [True]


@story(on_a_stage)
async def test_another_cluster_s_metadata_store_says_nothing(stage: Stage, *, caplog: pytest.LogCaptureFixture) -> None:
    path = paths.instance_id(ROOT)
    stored = await stage.theirs.get(path)
    await stage.theirs.put(path, b"another", stored.version)

    with caplog.at_level(logging.WARNING):
        assert await stage.driver.run([GONE], SEEN) == 0

    assert "surplus kept" in caplog.text
    assert list(stage.rounds.last()) == ["giving up of surplus"]
    assert "is now cluster" in stage.rounds.last()["giving up of surplus"]
    await stage.gone(here=True)


@story(on_a_stage)
async def test_nothing_goes_while_the_brake_holds_garbage(stage: Stage) -> None:
    held = dataclasses.replace(SEEN, held_reason="too many ledgers are gone")

    assert await stage.driver.run([GONE], held) == 0

    await stage.gone(here=True)


@story(on_a_stage, brake=BrakeOptions(0.1, 1))
async def test_only_so_many_go_a_day(stage: Stage) -> None:
    assert await stage.driver.run([GONE, KEPT], SEEN) == 1
    assert not stage.store.is_given_up(KEPT)  # what stays is not even marked
    assert await stage.driver.run([KEPT], SEEN) == 0
    assert stage.store.has_entries(KEPT)


@story(on_a_stage, brake=BrakeOptions(0.5, 0))
async def test_a_day_in_which_more_went_than_may_go_now_lets_nothing_go(stage: Stage) -> None:
    """Where little is left here, the share of a day is soon behind what went in it."""
    await stage.add(THIRD)
    assert await stage.driver.run([GONE], SEEN) == 1

    assert await stage.driver.run([KEPT, THIRD], dataclasses.replace(SEEN, ledgers_seen=0)) == 0

    assert stage.store.has_entries(KEPT)
    assert stage.store.has_entries(THIRD)


@story(on_a_stage, brake=BrakeOptions(0.5, 0))
async def test_the_bytes_of_a_day_are_bounded_too(stage: Stage) -> None:
    """Of 20 KiB, of which half may go in a day, 14 are too many and count for nothing then; 6 are not, and 8 more would
    be."""
    many = dataclasses.replace(SEEN, ledgers_seen=1_000)
    six, eight, other = LedgerId(11), LedgerId(12), LedgerId(13)
    for ledger_id, kib in ((six, 6), (eight, 8), (other, 6)):
        await stage.add(ledger_id, payload=b"x" * (kib * 512))  # two entries each
    await stage.store.flush()

    assert await stage.driver.run([other, eight], many) == 0
    assert await stage.driver.run([six], many) == 1
    assert await stage.driver.run([eight], many) == 0


@story(on_a_stage)
async def test_what_must_stop_the_node_is_raised(stage: Stage) -> None:
    async def failed() -> None:
        raise errors.DiskFailed("the disk failed")

    stage.metadata.before["get"] = failed

    with pytest.raises(errors.DiskFailed):
        await stage.driver.run([GONE], SEEN)


@story(run)
async def test_what_went_is_gone_after_a_power_cut(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        stores = bench.node.world.metadata_stores
        async with Tasks() as tasks:
            stage = await Stage(bench, store, await stores.connect(URI), await stores.connect(URI)).set(tasks)
            assert await stage.driver.run([GONE], SEEN) == 1

    async def look(store: EntryStore) -> None:
        assert not store.has_entries(GONE)
        assert store.has_entries(KEPT)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(look)


def test_locks_are_held_of_few_ledgers_at_a_time() -> None:
    assert giving_up.TOGETHER <= 64


def test_what_was_given_up_is_counted() -> None:
    found = Surplus(WAIT_MS, given_up=3)
    samples = {sample.name: sample.value for sample in found.samples() if isinstance(sample, Sample)}
    assert samples == {"bookie_gc_surplus_given_up_total": 3}
