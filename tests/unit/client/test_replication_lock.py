"""The lock of one ledger: whose it is when requests and answers are lost, and that nobody else's is ever removed."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.base.units import NS_PER_S
from bookie.client.repair.replication_lock import Later, LockLost, ReplicationLock, locked
from bookie.client.tasks import Tasks
from bookie.metadata import paths, repair
from bookie.ports import World
from bookie.ports.metadata_store import MetadataStore, Op, find
from bookie.sim.history import TreeHistory
from bookie.sim.metadata_store import KEEPER_HOST
from sim_support import Machine, on_machine
from story_support import story

URI, ROOT = "zk+hierarchical://zk:2181/ledgers", "/ledgers"
LEDGER = LedgerId(7)
TURNS, TAKERS = 30, 8
LOCK, SIGN = paths.replication_lock(ROOT, LEDGER), paths.replication_holder(ROOT, "ours")


class Losing:
    """A metadata store that loses what it is told to, and lets somebody act just before a question is passed on."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.lost: list[str] = []  # of each of the next transactions: "request", "answer" or ""
        self.before: dict[str, list[Callable[[], Awaitable[None]] | None]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def transact(self, ops: Sequence[Op]) -> None:
        how = self.lost.pop(0) if self.lost else ""
        if how != "request":
            await self._store.transact(ops)
        if how:
            raise errors.OutcomeUnknown(f"the {how} was lost")

    async def get(self, path: str) -> Any:
        await self._let_act("get")
        return await self._store.get(path)

    async def delete(self, path: str, version: int) -> None:
        await self._let_act("delete")
        await self._store.delete(path, version)

    async def _let_act(self, what: str) -> None:
        if self.before.get(what) and (act := self.before[what].pop(0)) is not None:
            await act()


class Stage:
    """Ours, which loses things, and a session of somebody else."""

    def __init__(self, machine: Machine, world: World, mine: MetadataStore, theirs: MetadataStore) -> None:
        self.machine, self.mine, self.theirs = machine, mine, theirs
        self.world = world
        self.losing = Losing(mine)
        store: Any = self.losing
        self.lock = ReplicationLock(LEDGER, LOCK, SIGN, store)
        self.store: MetadataStore = store

    async def is_held(self) -> bool:
        lock, sign = await find(self.theirs, LOCK), await find(self.theirs, SIGN)
        assert (lock is None) is (sign is None), "one of the two alone"
        return lock is not None

    async def given_back(self) -> None:
        keeper, gone = self.machine.keeper, asyncio.Event()
        keeper.observers.append(lambda _: None if LOCK in keeper.tree.nodes else gone.set())
        async with asyncio.timeout(60):
            await gone.wait()
        assert not await self.is_held()

    async def taken_by_another(self) -> None:
        await self.theirs.delete(LOCK)
        await self.theirs.create(LOCK, repair.dump_lock("another"), ephemeral=True)

    async def holder(self) -> str:
        return repair.load_lock((await self.theirs.get(LOCK)).data)


def on_a_stage(body: Callable[[Stage], Awaitable[None]]) -> None:
    async def told(machine: Machine) -> None:
        world = machine.begin()
        stores = world.metadata_stores
        mine, theirs = await stores.connect(URI, session_timeout_ms=10_000), await stores.connect(URI)
        await body(Stage(machine, world, mine, theirs))

    on_machine(told)


@pytest.mark.parametrize("lost", [["answer"], ["request"], ["request", "request", "answer"]], ids=",".join)
@story(on_a_stage)
async def test_a_lock_whose_answer_was_lost_is_ours_once_we_have_looked(stage: Stage, *, lost: list[str]) -> None:
    # The first transaction finds no folders, in which locks are; the second is the one that is lost.
    stage.losing.lost = ["", *lost]

    await stage.lock.take("ours")

    await stage.lock.confirm()
    assert await stage.is_held()
    assert (await stage.theirs.get(LOCK)).owner == stage.mine.session_id == (await stage.theirs.get(SIGN)).owner


@story(on_a_stage)
async def test_a_lock_that_was_never_seen_is_not_held(stage: Stage) -> None:
    stage.losing.lost = ["request"] * 9

    with pytest.raises(errors.OutcomeUnknown, match="look, then try again"):
        await stage.lock.take("ours")

    assert not await stage.is_held()


@story(on_a_stage)
async def test_a_lost_answer_makes_no_lock_of_another_ours(stage: Stage) -> None:
    await stage.theirs.create(LOCK, repair.dump_lock("another"), ephemeral=True, parents=True)
    await stage.theirs.create(SIGN.rpartition("/")[0], b"", parents=True)
    stage.losing.lost = ["request"]

    with pytest.raises(errors.TooManyRequests, match="another"):
        await stage.lock.take("ours")

    assert await stage.holder() == "another"


@pytest.mark.parametrize("lost", ["answer", "request"])
@story(on_a_stage)
async def test_a_lock_is_given_back_although_a_message_is_lost(stage: Stage, *, lost: str) -> None:
    async with locked(stage.store, ROOT, LEDGER, "ours", None):
        stage.losing.lost = [lost]

    assert not await stage.is_held()


@story(on_a_stage)
async def test_a_lock_whose_taking_nobody_can_tell_of_is_given_back(stage: Stage) -> None:
    """Else its ledger waits for the end of our session."""

    async def cut() -> None:
        raise errors.MetadataError("cut off")

    stage.losing.lost, stage.losing.before["get"] = ["", "answer"], [cut]

    with pytest.raises(errors.MetadataError, match="cut off"):
        async with locked(stage.store, ROOT, LEDGER, "ours", None):
            raise AssertionError("nobody knows whether it is ours")

    assert not await stage.is_held()


@pytest.mark.parametrize("lost", [["request"] * 2, ["request"] * 5, ["request", "request", "answer"]], ids=",".join)
@story(on_a_stage)
async def test_a_lock_that_the_store_does_not_take_back_goes_once_it_does(stage: Stage, *, lost: list[str]) -> None:
    """Our session outlives the outage, and lasts for months: nobody would repair the ledger."""
    session_id = stage.mine.session_id
    async with Tasks() as tasks:
        async with locked(stage.store, ROOT, LEDGER, "ours", Later(tasks, stage.world.clock)):
            stage.losing.lost = list(lost)

        await stage.given_back()
    assert stage.mine.session_id == session_id


@story(on_a_stage)
async def test_a_lock_whose_holder_was_cancelled_in_an_outage_goes_after_it(stage: Stage) -> None:
    """A drain that is cancelled: its bookie lives on, and so does its session."""
    session_id, fabric = stage.mine.session_id, stage.machine.fabric
    taken = asyncio.Event()

    async with Tasks() as tasks:

        async def work() -> None:
            async with locked(stage.store, ROOT, LEDGER, "ours", Later(tasks, stage.world.clock)):
                taken.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await taken.wait()
        fabric.hold(stage.machine.name, KEEPER_HOST)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        fabric.release(stage.machine.name, KEEPER_HOST)

        await stage.given_back()
    assert stage.mine.session_id == session_id


@story(on_a_stage)
async def test_a_lock_is_not_asked_for_again_once_its_session_has_ended(stage: Stage) -> None:
    """The node of another may be in its place."""
    async with Tasks() as tasks:
        async with locked(stage.store, ROOT, LEDGER, "ours", Later(tasks, stage.world.clock)):
            stage.losing.lost = ["request"] * 2
        stage.machine.keeper.end_session(stage.mine.session_id)
        await stage.theirs.create(LOCK, repair.dump_lock("another"), ephemeral=True)

        await asyncio.sleep(30)

    assert await stage.holder() == "another"


@pytest.mark.parametrize("gone", [LOCK, SIGN], ids=["lock", "sign"])
@story(on_a_stage)
async def test_a_lock_of_which_half_is_gone_is_lost(stage: Stage, *, gone: str) -> None:
    """Java's workers remove locks that are not theirs; the sign is of the session that took it."""
    await stage.lock.take("ours")
    await stage.theirs.delete(gone)

    with pytest.raises(LockLost):
        await stage.lock.confirm()
    with pytest.raises(errors.NodeMissing):
        await stage.mine.transact(stage.lock.held)


@story(on_a_stage)
async def test_an_old_view_of_the_store_confirms_no_lock(stage: Stage) -> None:
    """The server of a session may be behind: it shows the lock of a session that has ended."""
    keeper = stage.machine.keeper
    await stage.lock.take("ours")
    keeper.history = TreeHistory(keeper.tree)
    for path in list(keeper.tree.nodes):
        keeper.history.note(path, stage.machine.loop.now_ns)
    keeper.faults.lag_ns = 10**6 * NS_PER_S

    keeper.end_session(stage.mine.session_id)

    with pytest.raises(LockLost):
        await stage.lock.confirm()


@pytest.mark.parametrize("moment", ["get", "delete"], ids=["before we look again", "before we delete"])
@story(on_a_stage)
async def test_a_lock_that_is_taken_while_one_of_no_session_is_removed_stays(stage: Stage, *, moment: str) -> None:
    await stage.theirs.create(LOCK, repair.dump_lock("nobody"), parents=True)
    await stage.theirs.create(SIGN.rpartition("/")[0], b"", parents=True)

    async def taken() -> None:
        await stage.taken_by_another()
        if moment == "get":  # its version is that of what we wrote: whose it is tells alone
            await stage.theirs.put(LOCK, repair.dump_lock("another"), 0)

    stage.losing.before = {"get": [None, taken]} if moment == "get" else {"delete": [taken]}

    with pytest.raises(errors.TooManyRequests, match="another"):
        await stage.lock.take("ours")

    assert await stage.holder() == "another"


@story(on_a_stage)
async def test_a_lock_ends_with_its_session(stage: Stage) -> None:
    await stage.lock.take("ours")

    stage.machine.keeper.end_session(stage.mine.session_id)

    assert not await stage.is_held()


@story(on_a_stage)
async def test_who_is_cancelled_does_not_wait_for_a_silent_store(stage: Stage) -> None:
    """A bookie that stops has yet to flush."""
    loop = stage.machine.loop
    taken = asyncio.Event()

    async def work() -> None:
        async with locked(stage.store, ROOT, LEDGER, "ours", None):
            taken.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await taken.wait()
    stage.machine.fabric.hold(stage.machine.name, KEEPER_HOST)
    began_ns = loop.now_ns
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert loop.now_ns - began_ns < 2 * NS_PER_S


@story(on_a_stage)
async def test_of_many_that_remove_a_node_of_no_session_one_has_the_lock(stage: Stage) -> None:
    """Each look at what another writes to is void: without giving way all of them may use up their attempts."""
    taken: list[int] = []

    async def taking(store: MetadataStore, turn: int, name: str) -> None:
        with contextlib.suppress(errors.TooManyRequests, errors.OutcomeUnknown):
            async with locked(store, ROOT, LEDGER, name, None):
                taken.append(turn)

    for turn in range(TURNS):
        await stage.theirs.create(LOCK, repair.dump_lock("nobody"), parents=True)
        async with asyncio.TaskGroup() as group:
            for number in range(TAKERS):
                store = (stage.mine, stage.theirs)[number % 2]
                group.create_task(taking(store, turn, f"{turn}-{number}"))

    assert sorted(set(taken)) == list(range(TURNS))
