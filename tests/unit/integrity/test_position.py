"""How far its disks reached: told as a lower bound, and held against what they hold at the next boot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.base.rounds import Rounds
from bookie.base.units import NS_PER_S
from bookie.integrity.position import PositionKeeper, is_behind
from bookie.metadata import paths
from bookie.metadata.cookie import IncarnationRecord
from bookie.metadata.position import Position, dump_position, load_position
from bookie.ports import World
from bookie.ports.metadata_store import Stored
from bookie.sim.metadata_store import Strike
from bookie.sim.node import SimNode, Simulation
from bookie.storage.journal.batch import JournalPosition
from bookie.storage.options import StorageOptions
from one_life_support import one_life
from story_support import story

ROOT, ME, MINE = "/ledgers", BookieId("b"), "instance-1"
PATH = paths.position(ROOT, ME)
RECORD = IncarnationRecord(MINE, Incarnation(3), BootEpoch(7), boot_id="1")
STORAGE = StorageOptions(journal_dirs=("/data/journal",), ledger_dirs=("/data/ledgers",))


class Stage:
    def __init__(self, simulation: Simulation, world: World) -> None:
        self.simulation, self.world = simulation, world
        self.journaled, self.logged = JournalPosition(1, 4096), (0, 0)

    async def behind(self, data: bytes | None, record: IncarnationRecord | None = RECORD) -> bool:
        """Are these disks, which are empty, behind what was told?"""
        return await is_behind(self.world, STORAGE, None if data is None else Stored(data, 0), record)

    async def keeping(self) -> asyncio.Task[None]:
        """Report the position of a store that got as far as `journaled` and `logged`."""
        metadata = await self.world.metadata_stores.connect("zk+hierarchical://zk:2181/ledgers")
        where = type(
            "Where",
            (),
            {"journaled": property(lambda _: (self.journaled,)), "logged": property(lambda _: (self.logged,))},
        )
        return asyncio.ensure_future(
            PositionKeeper(cast(Any, where()), metadata, ROOT, ME, RECORD, Rounds()).run(self.world.clock)
        )

    async def passes(self, seconds: float) -> None:
        await self.simulation.loop.sleep_ns(int(seconds * NS_PER_S))

    @property
    def told(self) -> Stored:
        return self.simulation.keeper.tree.get(PATH)

    @property
    def reached(self) -> tuple[tuple[int, int], ...]:
        found = load_position(self.told.data)
        assert (found.instance_id, found.incarnation) == (MINE, RECORD.incarnation)
        return (*found.journals, *found.logs)


def run(tell: Callable[[Stage], Awaitable[None]]) -> None:
    simulation = Simulation(1)

    async def whole(world: World, _: SimNode) -> None:
        await tell(Stage(simulation, world))

    one_life(simulation, whole)


def position(
    *,
    instance_id: str = MINE,
    incarnation: int = 3,
    journals: tuple[tuple[int, int], ...] = (),
    logs: tuple[tuple[int, int], ...] = (),
) -> bytes:
    return dump_position(Position(instance_id, Incarnation(incarnation), journals, logs))


# ---- at the next boot -----------------------------------------------------------------------------------------------


@story(run)
async def test_disks_that_hold_less_than_was_told_of_their_journals_or_logs_went_back(stage: Stage) -> None:
    assert not await stage.behind(position())
    assert await stage.behind(position(journals=((1, 4096),)))
    assert await stage.behind(position(logs=((1, 4096),)))
    assert not await stage.behind(position(logs=((1, 0),))), "of a log without a byte nothing can be gone"


@story(run)
async def test_what_was_told_of_another_cluster_or_an_earlier_life_says_nothing_of_these_disks(stage: Stage) -> None:
    more: Any = {"journals": ((1, 4096),), "logs": ((1, 4096),)}

    assert not await stage.behind(position(instance_id="another", **more))
    assert not await stage.behind(position(incarnation=2, **more))
    assert not await stage.behind(position(**more), None)
    assert not await stage.behind(None)


@story(run)
async def test_a_record_that_is_older_than_what_was_told_went_back_itself(stage: Stage) -> None:
    assert await stage.behind(position(incarnation=4))


@pytest.mark.parametrize("data", [b"", b"rot", b"{}", b"[" * 100_000, b'{"instance_id":"instance-1","incarnation":9}'])
@story(run)
async def test_what_cannot_be_read_proves_nothing(stage: Stage, *, data: bytes) -> None:
    assert not await stage.behind(data)


# ---- while it serves ------------------------------------------------------------------------------------------------


@story(run)
async def test_a_new_file_is_told_at_once_and_more_of_one_every_ten_seconds(stage: Stage) -> None:
    task = await stage.keeping()
    await stage.passes(0.5)
    assert (stage.reached, stage.told.version) == (((1, 4096), (0, 0)), 0)

    stage.journaled = JournalPosition(1, 8192)
    await stage.passes(8)
    assert stage.told.version == 0, "each sync would be a write of the metadata store"
    await stage.passes(3)
    assert (stage.reached, stage.told.version) == (((1, 8192), (0, 0)), 1)

    stage.journaled = JournalPosition(2, 4096)
    await stage.passes(1.5)
    assert (stage.reached, stage.told.version) == (((2, 4096), (0, 0)), 2)
    stage.logged = (1, 4096)
    await stage.passes(1.5)
    assert (stage.reached, stage.told.version) == (((2, 4096), (1, 4096)), 3)

    await stage.passes(60)
    assert stage.told.version == 3, "nothing is new"
    task.cancel()


@pytest.mark.parametrize("strike", [Strike.REQUEST_LOST, Strike.ANSWER_LOST])
@story(run)
async def test_what_the_metadata_store_did_not_take_is_told_again_a_second_later(
    stage: Stage, *, strike: Strike
) -> None:
    task = await stage.keeping()
    await stage.passes(0.5)
    left = [strike]
    stage.simulation.keeper.strike = lambda _, asked: left.pop() if left and asked.endswith(PATH) else None

    stage.journaled = JournalPosition(2, 4096)
    await stage.passes(3)

    assert not left
    assert stage.reached == ((2, 4096), (0, 0))
    assert not task.done(), "no trouble of the metadata store ends it"
    task.cancel()
