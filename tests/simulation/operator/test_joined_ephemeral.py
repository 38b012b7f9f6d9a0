"""Bookies whose volumes go with their pods, under writers: the operator's own loop over the bookie's own classes
(`joined_support`). A node dies, and its bookie comes back empty; a node is drained, and its bookie begins anew."""

from __future__ import annotations

import pytest

from bookie.ports.admin import State
from bookie.sim.cluster import SimCluster
from bookie.sim.node import Defect
from joined_stories_support import (
    ITS_ID,
    LOST,
    PASSES,
    PATIENT_PASSES,
    a_node_dies,
    busy_on_ephemeral,
    cut_off,
    die,
    ephemeral,
)
from joined_support import Fate, JoinedWorld, healed, some

OTHER = "ledgers-zone-c-0"
HELD = 30  # seconds


def test_a_node_dies_and_its_bookie_comes_back_empty_and_heals_by_one_grant() -> None:
    world = ephemeral(1).run(lambda cluster: a_node_dies(cluster, Fate()))

    assert world.grants == 1


def test_without_limbo_the_simulator_sees_the_bookie_that_came_back_empty_deny_what_it_acknowledged() -> None:
    with pytest.raises(Defect, match=f"S8: {ITS_ID} acknowledged entry"):
        ephemeral(1, guard_limbo=False).run(lambda cluster: a_node_dies(cluster, Fate()))


async def two_die_at_once(cluster: SimCluster) -> JoinedWorld:
    """Some ledger may have had its ack quorum on these two alone: only a person may give that up."""
    world, application = await busy_on_ephemeral(cluster, LOST, OTHER)
    die(world, LOST, OTHER)
    for _ in range(HELD):
        await world.run(world.operator(), passes=1)
        assert (world.grants, world.wrong, world.is_quiet()) == (0, [], False)
    told = {one.type: (one.status, one.reason) for one in world.status().conditions}
    states = {one.name: one.state for one in world.bookies.values()}

    assert (states[LOST], states[OTHER]) == (State.WAITING_GRANT, State.WAITING_GRANT)
    assert told["Stalled"] == told["DataAtRisk"] == ("True", "AckQuorumBreached")
    assert told["Ready"][0] == "False"
    await application.stop()
    return world


def test_of_two_that_lose_their_volumes_at_once_none_is_granted_anything() -> None:
    ephemeral(1).run(two_die_at_once)


async def another_dies_before_the_first_is_whole(cluster: SimCluster) -> JoinedWorld:
    """The second waits for its grant until the first has copied all that it lacks."""
    world, application = await busy_on_ephemeral(cluster, OTHER)
    cut_off(cluster)
    world.kill(LOST)
    operator = world.operator()
    await world.run(operator, passes=PASSES, until=lambda: world.bookie(LOST).state.serves)
    die(world, OTHER)
    await world.run(operator, passes=HELD, until=lambda: world.grants > 1)
    assert (world.grants, world.bookie(OTHER).state) == (1, State.WAITING_GRANT)
    cluster.heal()
    await world.run(operator, passes=2 * PASSES, until=world.is_quiet)

    assert world.grants == 2
    await healed(cluster, world, application)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_that_loses_its_volumes_while_another_heals_waits_for_its_end(seed: int) -> None:
    ephemeral(seed).run(another_dies_before_the_first_is_whole)


async def a_node_is_drained(cluster: SimCluster, fate: Fate) -> JoinedWorld:
    """Its bookie moves all away, ends, is forgotten, and begins anew on another node."""
    world, application = await busy_on_ephemeral(cluster, LOST)
    world.cordon("elsewhere")
    world.fate, passes = fate, PATIENT_PASSES if fate.how else PASSES

    def is_elsewhere() -> bool:
        pod = world.objects.get(("Pod", LOST))
        return pod is not None and pod["spec"].get("nodeName") == "node" and world.is_quiet()

    await world.run(world.operator(), passes=passes, until=lambda: is_elsewhere() or bool(world.wrong))
    world.fate = Fate()

    assert is_elsewhere(), (world.wrong, world.status())
    assert (world.forgotten, world.grants) == ([ITS_ID], 0)
    await healed(cluster, world, application)
    return world


def test_a_drained_node_is_left_with_nothing_on_it() -> None:
    ephemeral(1).run(lambda cluster: a_node_is_drained(cluster, Fate()))


STORIES = {"dies": a_node_dies, "drained": a_node_is_drained}
# How many writes each is, in the one order of events (seed) in which each is played; events and orders are writes whose
# answers may be lost.
SEED, DEATHS, ANSWERS = 1, {"dies": 18, "drained": 38}, {"dies": 39, "drained": 56}
FATES = [
    *[(name, Fate.DIES, nth) for name in STORIES for nth in range(1, DEATHS[name] + 1)],
    *[(name, Fate.LOSES_ANSWER, nth) for name in STORIES for nth in range(1, ANSWERS[name] + 1, 2)],
    *[(name, Fate.LOSES_REQUEST, nth) for name in STORIES for nth in range(2, ANSWERS[name] + 1, 4)],
]


@pytest.mark.parametrize(("name", "how", "nth"), some(FATES, [("dies", Fate.DIES, 7)]))
def test_it_ends_well_whatever_befalls_one_write_of_the_operator(name: str, how: str, nth: int) -> None:
    fate = Fate(how, nth)

    ephemeral(SEED).run(lambda cluster: STORIES[name](cluster, fate))

    assert fate.has_struck
