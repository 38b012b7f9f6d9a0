"""A roll-out waits until every bookie that came back has fetched what was written while it was away, asks those that do
not do so by themselves, and halts at one that cannot (spec/operator.md#Q9)."""

import asyncio
from pathlib import Path
from typing import NoReturn

import pytest

import operator_world_support as worlds
from bookie.ports.admin import FillStatus
from bookie_operator.crash import CrashPoint
from bookie_operator.reconcile import Reconciler
from operator_world_support import Crashed, World

PODS = ["ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0"]
AUTOMATIC = {"strategy": "Automatic", "soakSeconds": 3}


class Judge:
    """Looks at the disks themselves at each stop: of every entry, all copies but the stopped bookie's are there."""

    def __init__(self, world: World) -> None:
        self.world, self.stops, self.wrong = world, list[str](), list[str]()
        world.on_stop = self

    def __call__(self, pod: str) -> None:
        self.stops.append(pod)
        stopped = self.world.bookie(pod).bookie_id
        for entry, write_set in enumerate(self.world.entries):
            lacking = [one for one in write_set if one != stopped and entry not in self.world.disks.get(one, set())]
            if lacking:
                self.wrong.append(f"{pod} was stopped while {lacking} lacked entry {entry}")


@pytest.fixture
def filling(world: World) -> World:
    """Its bookies take four seconds to fill their holes."""
    world.fill_s = 4
    for one in world.bookies.values():
        one.fill = FillStatus(began_ms_ago=9_000, ended_ms_ago=8_000, is_whole=True)
    world.edit(rollout=AUTOMATIC)
    return world


def run(world: World, operator: Reconciler | None = None, *, passes: int = 65) -> None:
    asyncio.run(world.run(operator or world.operator(), passes=passes))


def images(world: World) -> set[str]:
    return {one["spec"]["containers"][0]["image"] for one in world.of_kind("Pod")}


def waiting_for(world: World) -> str:
    found = world.status().rollout
    return (found.waiting_for if found is not None else None) or ""


def missed(world: World, pod: str) -> None:
    """While the bookie is away an entry is written: its write set names it, and it is on two others alone."""
    gone = world.bookie(pod).bookie_id
    others = sorted(one.bookie_id for one in world.bookies.values() if one.bookie_id != gone)[:2]
    for each in others:
        world.disks.setdefault(each, set()).add(len(world.entries))
    world.entries.append((*others, gone))


def test_each_stop_finds_every_other_copy_of_what_was_written_meanwhile(filling: World) -> None:
    judge = Judge(filling)
    judged = filling.on_stop

    def stopped(pod: str) -> None:
        judged(pod)
        missed(filling, pod)

    filling.on_stop = stopped
    filling.edit(image="bookie:next")
    run(filling)

    assert (judge.stops, judge.wrong) == (PODS, [])
    assert images(filling) == {"bookie:next"}
    assert not [one for one in filling.writes if one.startswith("fill/")], "they fill their holes by themselves"


@pytest.mark.slow
def test_a_bookie_that_does_not_fill_by_itself_is_asked(filling: World) -> None:
    filling.bookie(PODS[3]).fill = FillStatus()
    judge = Judge(filling)

    filling.edit(image="bookie:next")
    run(filling, passes=75)

    assert filling.writes.count(f"fill/{PODS[3]}") == 1
    assert (judge.stops, judge.wrong) == (PODS, [])


@pytest.mark.slow
def test_a_ledger_that_cannot_be_filled_halts_the_roll_out_and_what_helps_lets_it_go_on(filling: World) -> None:
    judge, operator = Judge(filling), filling.operator()
    filling.fill_problems[PODS[0]] = "entry 5: data.ledgers.zone-b.0: it has it not"
    filling.edit(image="bookie:next")
    run(filling, operator, passes=30)

    assert judge.stops == PODS[:1]
    assert "ledger 7: entry 5: data.ledgers.zone-b.0: it has it not" in waiting_for(filling)
    stalled = filling.status().condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "RolloutHalted")
    asked = filling.writes.count(f"fill/{PODS[0]}")
    assert asked <= 1, "after a minute, not in every pass"

    filling.fill_problems.clear()
    run(filling, operator, passes=110)

    assert (judge.stops, judge.wrong) == (PODS, [])
    assert images(filling) == {"bookie:next"}


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_operator_that_dies_around_its_question_ends_where_one_that_lives_does(
    filling: World, tmp_path: Path, after: int
) -> None:
    filling.bookie(PODS[3]).fill = FillStatus()
    judge = Judge(filling)
    filling.edit(image="bookie:next")

    def die(_: int) -> NoReturn:
        raise Crashed

    operator = filling.operator(CrashPoint(after, str(tmp_path), die))

    async def until_it_dies() -> None:
        while True:
            await operator.reconcile(worlds.KEY)
            filling.settle()

    with pytest.raises(Crashed):
        asyncio.run(asyncio.wait_for(until_it_dies(), 60))
    run(filling, filling.operator(has_watched=False))

    assert (judge.stops, judge.wrong) == (PODS, [])
    assert images(filling) == {"bookie:next"}


def test_releases_that_say_nothing_of_holes_are_rolled_as_before(world: World) -> None:
    assert world.fill_s == 0
    judge = Judge(world)
    world.edit(rollout=AUTOMATIC)

    world.edit(image="bookie:next")
    run(world, passes=60)

    assert judge.stops == PODS
    assert images(world) == {"bookie:next"}
