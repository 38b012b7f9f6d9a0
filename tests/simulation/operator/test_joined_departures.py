"""Bookies leave, make room, get new volumes and sleep under writers: the operator's own loop over the bookie's own
classes (`joined_support`). What was acknowledged is read back, and nothing goes that somebody may need."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

import joined_support as joined
from bookie.ports.admin import State
from bookie.sim import retirement
from bookie.sim.cluster import SimCluster
from bookie.sim.replicas import Replicas
from bookie_operator.model.operation import OperationPhase
from bookie_operator.model.status import Departure, HibernationState
from joined_stories_support import NAMED_ID, PASSES, a_bookie_is_replaced, busy, claims, goes_on
from joined_support import Fate, JoinedWorld, healed, some
from rolling_support import PODS

LAST, ITS_ID = "ledgers-zone-a-1", "data.ledgers.zone-a.1"
MENDED = "ledgers-zone-b-0"
Story = Callable[[SimCluster, Fate, int], Coroutine[Any, Any, JoinedWorld]]  # the number of operators that lead


def departure(world: JoinedWorld) -> Departure | None:
    entry = world.status().bookie(LAST)
    return entry.leaving.state if entry is not None and entry.leaving is not None else None


def has_left(world: JoinedWorld) -> bool:
    is_there = any(name.endswith(LAST) for kind, name in world.objects if kind in ("PersistentVolumeClaim", "Pod"))
    return not is_there and not world.has_cookie(ITS_ID) and world.is_quiet()


async def a_bookie_leaves(cluster: SimCluster, fate: Fate, leaders: int) -> JoinedWorld:
    """It refuses writes, moves all away, ends, is forgotten; then its claims go."""
    copied = Replicas(cluster.simulation.violation, lambda name: retirement.entry_store(cluster.bookies[name]))
    cluster.ledger_observers.append(copied.metadata_changed)
    world, application = await busy(cluster)
    assert world.ledgers_of(ITS_ID)
    world.edit(replicas=3)
    await goes_on(world, fate, leaders, lambda: has_left(world))

    assert world.forgotten == [ITS_ID]
    assert copied.promised, "no ledger was moved"
    del cluster.bookies[ITS_ID]
    await healed(cluster, world, application)
    return world


async def a_bookie_is_to_stay(cluster: SimCluster, fate: Fate, leaders: int, *, state: Departure) -> JoinedWorld:
    """The number is raised again while it leaves: it takes writes again, in the same life, with all that it has."""
    world, application = await busy(cluster)
    life = (await cluster.bookies[ITS_ID].report()).incarnation
    world.edit(replicas=3)
    await world.run(world.operator(), passes=PASSES, until=lambda: departure(world) is state)
    assert departure(world) is state, world.status()
    world.edit(replicas=4)
    await goes_on(world, fate, leaders, lambda: departure(world) is None and world.is_quiet())

    report = await cluster.bookies[ITS_ID].report()
    assert (world.forgotten, report.incarnation, report.state) == ([], life, State.SERVING)
    await healed(cluster, world, application)
    return world


async def a_node_is_drained(cluster: SimCluster, fate: Fate, leaders: int) -> JoinedWorld:
    """Each bookie of the node is evicted after it has flushed, while the others serve."""
    world, application = await busy(cluster, disruption={"onDrain": "ReadOnlyFirst"})
    evicted = list[str]()

    def on_stop(pod: str) -> None:
        states = {one.name: one.state for one in world.bookies.values()}
        evicted.append(pod)
        if states.pop(pod) is not State.READ_ONLY or list(states.values()) != [State.SERVING] * 3:
            world.wrong.append(f"{pod} is evicted before it has flushed, or while another does not serve: {states}")

    def on_node() -> list[str]:
        return [one["metadata"]["name"] for one in world.of_kind("Pod") if one["spec"].get("nodeName") == "node"]

    def drain() -> None:
        for pod in on_node():
            world.evict(pod)

    world.on_stop = on_stop
    world.add_node("elsewhere")
    world.cordon("node")
    await goes_on(world, fate, leaders, lambda: not on_node() and world.is_quiet(), drain)

    assert sorted(evicted) == PODS
    assert not any([(await bookie.report()).unclean_shutdown for bookie in cluster.bookies.values()])
    await healed(cluster, world, application)
    return world


async def a_volume_is_replaced(cluster: SimCluster, fate: Fate, leaders: int, *, volume: str) -> JoinedWorld:
    """One volume of a bookie goes, after it has flushed and while the others serve; it heals what was on it."""
    world, application = await busy(cluster)
    world.replaced[MENDED] = volume
    world.ask("disk", "ReplaceVolume", target={"bookie": MENDED, "volume": volume})
    before = claims(world)
    await goes_on(
        world, fate, leaders, lambda: world.operation("disk").phase is OperationPhase.COMPLETE and world.is_quiet()
    )

    assert {name for name, uid in claims(world).items() if before[name] != uid} == {f"{volume}-{MENDED}"}
    await healed(cluster, world, application)
    return world


async def a_fleet_sleeps(cluster: SimCluster, fate: Fate, leaders: int) -> JoinedWorld:
    """Nobody ends before all refuse writes; awake again, each has what it had."""
    world, application = await busy(cluster)
    grace = world.spec()["lifecycle"]
    world.edit(lifecycle=grace | {"hibernate": True})

    def sleeps() -> bool:
        found = world.status().hibernation
        return found is not None and found.state is HibernationState.HIBERNATED and not world.of_kind("Pod")

    await goes_on(world, fate, leaders, sleeps)
    written = len(application.ledgers)
    world.edit(lifecycle=grace)
    await goes_on(world, fate, leaders, world.is_quiet)
    await world.run(world.operator(), passes=10)

    assert len(application.ledgers) > written
    assert world.grants == 0
    assert not any([(await bookie.report()).unclean_shutdown for bookie in cluster.bookies.values()])
    await healed(cluster, world, application)
    return world


STAYS = (Departure.DRAINING, Departure.DRAINED, Departure.RETIRING)
VOLUMES = ("ledgers", "journal", "index")
STORIES: dict[str, Story] = {
    "leaves": a_bookie_leaves,
    **{f"stays, {one.value}": partial(a_bookie_is_to_stay, state=one) for one in STAYS},
    "drained node": a_node_is_drained,
    **{f"volume {one}": partial(a_volume_is_replaced, volume=one) for one in VOLUMES},
    "replaced": a_bookie_is_replaced,
    "sleeps": a_fleet_sleeps,
}


def told(name: str, seed: int, fate: Fate | None = None, *, leaders: int = 1) -> JoinedWorld:
    return joined.cluster(seed).run(lambda cluster: STORIES[name](cluster, fate or Fate(), leaders))


def test_a_bookie_leaves_by_proof_and_its_claims_go_last() -> None:
    told("leaves", 1)


def test_a_bookie_that_is_to_stay_after_its_proof_takes_writes_again() -> None:
    told("stays, Drained", 1)


def test_a_node_is_drained_one_flushed_bookie_after_the_other() -> None:
    told("drained node", 1)


def test_one_volume_of_a_bookie_that_serves_is_replaced_and_healed() -> None:
    told("volume ledgers", 1)


def test_a_bookie_is_replaced_as_a_whole_and_no_other_is_touched() -> None:
    told("replaced", 1)


def test_a_fleet_sleeps_and_wakes_with_all_it_had() -> None:
    told("sleeps", 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("name", STORIES)
def test_nothing_acknowledged_is_lost_in_other_orders_of_events(name: str, seed: int) -> None:
    told(name, seed)


@pytest.mark.parametrize("name", some(STORIES, ["stays, Drained"]))
def test_two_operators_that_both_believe_to_lead_do_it_as_safely(name: str) -> None:
    told(name, 2, leaders=2)


# How many writes of the operator each is, at least, in the one order of events (seed) in which each is played: up to
# its fault a life is the same as without one, so that every fault strikes.
SEED = 1
WRITES = {"leaves": 42, "stays": 6, "drained": 36, "volume": 25, "replaced": 65, "sleeps": 21}
DEATHS = [(name, nth) for name in STORIES for nth in range(1, WRITES[re.split("[ ,]", name)[0]] + 1)]


@pytest.mark.parametrize(("name", "nth"), some(DEATHS, [("stays, Drained", 2), ("sleeps", 4)]))
def test_it_is_done_whichever_write_was_the_operators_last(name: str, nth: int) -> None:
    fate = Fate(Fate.DIES, nth)

    told(name, SEED, fate)

    assert fate.has_struck


EVERY_FOURTH = [
    (name, how, nth)
    for name in ("leaves", "drained node", "volume ledgers", "sleeps")
    for how in (Fate.LOSES_ANSWER, Fate.LOSES_REQUEST)
    for nth in range(1, 20, 4)
]
# Events are writes too, and orders to bookies.
OF_A_REPLACEMENT = [("replaced", Fate.LOSES_ANSWER, nth) for nth in range(1, 83)]
OF_A_REPLACEMENT += [("replaced", Fate.LOSES_REQUEST, nth) for nth in range(1, 83, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how", "nth"), [*EVERY_FOURTH, *OF_A_REPLACEMENT])
def test_it_is_done_whichever_answer_or_request_is_lost(name: str, how: str, nth: int) -> None:
    fate = Fate(how, nth)

    told(name, SEED, fate)

    assert fate.has_struck


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_bookie_is_replaced_while_processes_are_killed(seed: int) -> None:
    """With data in the journal: no kill loses what has to be moved."""
    rng = random.Random(seed)
    world = joined.cluster(seed, journal_write_data=True).run(
        lambda cluster: a_bookie_is_replaced(cluster, Fate("processes end"), 1, kills=rng)
    )
    assert world.forgotten == [NAMED_ID]
