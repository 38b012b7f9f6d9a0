"""The fix a person runs on a stopped bookie (BP-46): marks, then the cookie; cut anywhere, run again, done once."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, BootEpoch, LedgerId
from bookie.cli import reports
from bookie.client import cluster
from bookie.integrity import by_hand
from bookie.integrity.boot import Boot
from bookie.integrity.options import IntegrityOptions
from bookie.metadata import cookie, paths
from bookie.metadata.cookie import IncarnationRecord
from bookie.metadata.ledger import new_ledger
from bookie.ports import World
from bookie.ports.admin import Grant, State, StorageReport, Verdict
from bookie.ports.metadata_store import MetadataStore
from bookie.server.bookie import Bookie
from bookie.server.options import ServerOptions
from bookie.sim.node import NodeCrashed, ProcessEnd, Simulation
from bookie.storage import dirs
from bookie.storage.options import StorageOptions
from story_support import story

URI = "zk+hierarchical://zk:2181/ledgers"
ID = BookieId("bookie-1")
STORAGE = StorageOptions(journal_dirs=("/data/journal",), ledger_dirs=("/data/ledgers",))
OPTIONS = ServerOptions(
    bookie_id=ID,
    host="bookie",
    metadata_uri=URI,
    storage=STORAGE,
    integrity=IntegrityOptions(regeneration="manual", volume_proof="none"),
    session_timeout_ms=6_000,
)


class Story:
    """A bookie that served, was stopped and lost its volume; one open ledger names it."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.node = simulation.node("bookie")
        self.observer = simulation.node("observer")
        self.world = self.observer.begin()
        self.metadata: MetadataStore
        self.ledger: LedgerId

    async def live(self) -> None:
        """One first, orderly life."""
        do = self.observer.do
        self.metadata = await do(self.world.metadata_stores.connect(URI))
        await do(cluster.format_cluster(self.metadata, URI, self.world.entropy))
        world = self.node.begin()
        bookie = await self.node.do(_build(world))
        self.node.spawn(bookie.run(), "bookie")
        await self.simulation.until(bookie.ready.is_set, "the bookie is ready")
        ledgers = await do(cluster.open_ledgers(self.metadata, paths.parse_uri(URI)))
        made = new_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1, bookies=(ID,), ctoken=7)
        self.ledger = await do(ledgers.create(made))
        bookie.request_stop()
        await self.simulation.until(lambda: not bookie.ready.is_set(), "the bookie stops")
        await self.simulation.loop.sleep_ns(3_000_000_000)
        self.node.end(ProcessEnd.EXIT)

    async def fix(self, *, cut_after_ns: int | None = None, change: Callable[[Grant], Grant] = lambda it: it) -> str:
        """Run the fix on the stopped machine; power may go while it works. Return the verdict it began with."""
        world = self.node.begin()
        if cut_after_ns is not None:
            at_ns = self.simulation.loop.now_ns + cut_after_ns
            self.observer.spawn(self._cut(at_ns), "power")
        try:
            return await self.node.do(_fix(world, change))
        finally:
            self.node.end(ProcessEnd.EXIT)

    async def _cut(self, at_ns: int) -> None:
        life = self.node.life
        await self.simulation.loop.sleep_ns(max(0, at_ns - self.simulation.loop.now_ns))
        if self.node.life is life:  # else the fix was quicker
            self.node.end(ProcessEnd.POWER_CUT)

    async def record(self) -> IncarnationRecord:
        stored = await self.observer.do(self.metadata.get(paths.incarnation("/ledgers", ID)))
        return cookie.load_incarnation(stored.data)


async def _build(world: World) -> Bookie:
    return Bookie(OPTIONS, world)


async def _fix(world: World, change: Callable[[Grant], Grant]) -> str:
    metadata = await world.metadata_stores.connect(URI)
    boot = Boot(ID, STORAGE, OPTIONS.integrity, world, OPTIONS.client_options())
    report: StorageReport = await boot.inspect(metadata)
    assert report.verdict is not None
    if report.verdict in by_hand.FIXABLE:
        by_hand_of = reports.grant_for(report, "bookie cookie fix", "local: bookie cookie fix by ada@home")
        grant = None if report.verdict is Verdict.RESUME else change(by_hand_of)
        await by_hand.fix(boot, metadata, grant)
    await metadata.close()
    return report.verdict.value


def tell(story: Callable[[Story], Awaitable[Any]], seed: int = 1) -> Any:
    simulation = Simulation(seed)

    async def director() -> Any:
        told = Story(simulation)
        await told.live()
        found = await story(told)
        told.node.end()
        told.observer.end()
        return found

    return simulation.run(director())


async def is_marked(story: Story) -> bool:
    """Once the bookie serves again: is the ledger in limbo, or was it recovered already?"""
    world = story.node.begin()
    bookie = await story.node.do(_build(world))
    story.node.spawn(bookie.run(), "bookie")
    await story.simulation.until(bookie.ready.is_set, "the bookie is ready")
    assert bookie.boot.store is not None
    facts = bookie.boot.store.facts(story.ledger)
    return facts is not None and (facts.is_limbo or facts.is_fenced)


async def says_dirty(story: Story) -> bool:
    """Would the next boot think that this life ended badly?"""
    world = story.node.begin()
    try:
        return await story.node.do(dirs.is_dirty(world.disk, STORAGE))
    finally:
        story.node.end(ProcessEnd.EXIT)


@story(tell)
async def test_the_fix_begins_the_next_life_and_a_second_one_finds_nothing_to_do(it: Story) -> None:
    it.node.image.wipe("/data")

    assert await it.fix() == "LOST"
    assert await it.fix() == "HEALTHY"

    assert (await it.record()).incarnation == 2
    assert not await says_dirty(it)
    assert await is_marked(it)


@pytest.mark.parametrize("part", range(12))
def test_a_fix_that_lost_power_anywhere_is_run_again_and_ends_in_one_new_life(part: int) -> None:
    async def story(it: Story) -> None:
        it.node.image.wipe("/data")
        for attempt in range(12):  # each cut comes a little later than the one before
            try:
                await it.fix(cut_after_ns=(12 * attempt + part) * 2_000_000)
            except (NodeCrashed, BookieError):
                it.node.end()
                await it.simulation.loop.sleep_ns(20_000_000_000)  # until the old session is over
                continue
            break

        assert await it.fix() in ("LOST", "RESUME", "HEALTHY", "UNCLEAN")
        assert await it.fix() == "HEALTHY"
        assert (await it.record()).incarnation == 2
        assert await is_marked(it)

    tell(story, seed=part + 1)


@story(tell)
async def test_a_grant_that_does_not_fit_is_refused_and_changes_nothing(it: Story) -> None:
    it.node.image.wipe("/data")

    with pytest.raises(errors.GrantRefused, match="other evidence"):
        await it.fix(change=lambda grant: dataclasses.replace(grant, evidence_hash="another"))

    assert (await it.record()).incarnation == 1
    assert await it.fix() == "LOST"


def test_a_healthy_bookie_is_left_alone() -> None:
    async def story(it: Story) -> BootEpoch:
        before = await it.record()
        assert await it.fix() == "HEALTHY"
        assert await it.record() == before
        return before.boot_epoch

    assert tell(story) == 1


class Flushing:
    """A boot that is over at once, and its store, which ends as it is told; `done` says what was made of it."""

    def __init__(self, *, ends_well: bool, fails: bool) -> None:
        self._ends_well = ends_well
        self._fails = fails
        self.done: list[str] = []

    async def run(self, metadata: object, *, on_state: object, fail: Callable[[BookieError], None]) -> "Flushing":
        if self._fails:
            fail(errors.DiskFailed("it is broken"))
        return self

    async def close(self) -> bool:
        return self._ends_well

    async def abandon(self) -> None:
        self.done.append("abandoned")

    async def ended_well(self) -> None:
        self.done.append("ended well")


@pytest.mark.parametrize(("ends_well", "fails"), [(False, False), (True, True), (False, True)])
def test_a_fix_whose_last_flush_failed_says_so_and_leaves_the_marker(ends_well: bool, fails: bool) -> None:
    """CONFORMANCE.md#B25: what it marked may be in memory alone."""
    boot: Any = Flushing(ends_well=ends_well, fails=fails)

    with pytest.raises(errors.StorageFailed, match="run the command again"):
        asyncio.run(by_hand.fix(boot, boot, None))

    assert boot.done == ["abandoned"]


class Asking(Flushing):
    """A boot that enters these states, and goes on from one in which it waits when it is given a grant."""

    def __init__(self, *states: State) -> None:
        super().__init__(ends_well=True, fails=False)
        self._states = states
        self._granted = asyncio.Event()

    async def run(self, metadata: object, *, on_state: Any, fail: Callable[[BookieError], None]) -> "Flushing":
        for state in self._states:
            on_state(state)
            if state in (State.WAITING_GRANT, State.HELD):
                await self._granted.wait()
                self._granted.clear()
        return self

    async def grant(self, grant: object) -> None:
        self.done.append("granted")
        self._granted.set()


def fixed(boot: Any, grant: object) -> list[str]:
    async def main() -> None:
        async with asyncio.timeout(5):
            await by_hand.fix(boot, boot, grant)  # type: ignore[arg-type]

    asyncio.run(main())
    done: list[str] = boot.done
    return done


@pytest.mark.parametrize("waits", [State.WAITING_GRANT, State.HELD])
def test_a_grant_is_given_once_when_the_boot_waits_for_it(waits: State) -> None:
    assert fixed(Asking(State.STARTING, waits, State.FENCING), "grant") == ["granted", "ended well"]


@pytest.mark.parametrize("grant", ["grant", None])
def test_a_boot_that_asks_for_nothing_is_given_nothing(grant: object) -> None:
    """What was begun before is finished, and a healthy bookie is let alone."""
    assert fixed(Asking(State.STARTING, State.FENCING), grant) == ["ended well"]


def test_a_boot_that_waits_again_is_not_given_the_same_grant_again() -> None:
    boot = Asking(State.WAITING_GRANT, State.WAITING_GRANT)

    with pytest.raises(errors.GrantRefused, match="the evidence changed"):
        fixed(boot, "grant")

    assert boot.done == ["granted"]


def test_without_a_grant_nothing_is_allowed() -> None:
    boot = Asking(State.WAITING_GRANT)

    with pytest.raises(errors.GrantRefused):
        fixed(boot, None)

    assert boot.done == []


def test_the_first_failure_is_the_one_that_is_told() -> None:
    class Failing(Flushing):
        async def run(self, metadata: object, *, on_state: object, fail: Callable[[BookieError], None]) -> "Flushing":
            fail(errors.DiskFailed("the first"))
            fail(errors.DiskFailed("what followed of it"))
            return self

    boot: Any = Failing(ends_well=True, fails=False)
    with pytest.raises(errors.StorageFailed) as caught:
        asyncio.run(by_hand.fix(boot, boot, None))

    assert "the first" in str(caught.value.__cause__)
