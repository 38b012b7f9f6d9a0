"""The operator's own loop heals the bookie's own classes, under writers and readers, and the oracle finds every
acknowledged entry.

What the other tests of this folder play (bookies, their volumes, their metadata store) is the simulated product here:
`joined_support`.
"""

from __future__ import annotations

import random

import pytest

import joined_support as joined
from bookie.ports.admin import State
from bookie.sim.cluster import SimCluster
from bookie.sim.node import Defect, ProcessEnd
from joined_stories_support import ITS_ID, LOST, volumes_are_lost
from joined_support import Application, Fate, JoinedWorld, PodBookie, healed, in_service, some
from rolling_support import AUTOMATIC, PODS, images

PASSES = 120  # seconds; a heal takes about twenty


async def volumes_are_lost_and_soon_granted(cluster: SimCluster) -> JoinedWorld:
    world = await in_service(cluster)
    world.lose(LOST)
    await world.run(world.operator(), passes=30, until=world.is_quiet)
    assert world.is_quiet(), world.status()
    return world


@pytest.mark.parametrize("seed", some(range(20), (0, 1)))
def test_a_bookie_that_lost_its_volumes_heals_by_one_grant_of_the_operator(seed: int) -> None:
    world = joined.cluster(seed).run(volumes_are_lost)

    assert world.grants == 1


# A heal is 23 writes that an operator may die after, and as many more (events, orders) whose answers may be lost. It
# takes four minutes where no living operator heard of the pod's end.
DEATHS = [(Fate.DIES, nth) for nth in range(1, 24)]
ANSWERS = [(Fate.LOSES_ANSWER, nth) for nth in range(1, 47, 2)]
REQUESTS = [(Fate.LOSES_REQUEST, nth) for nth in range(2, 47, 4)]


@pytest.mark.parametrize(
    ("how", "nth"), some((*DEATHS, *ANSWERS, *REQUESTS), (DEATHS[6], ANSWERS[6], REQUESTS[3])), ids=str
)
def test_it_heals_whatever_befalls_one_write_of_the_operator(how: str, nth: int) -> None:
    fate = Fate(how, nth)

    world = joined.cluster(nth).run(lambda cluster: volumes_are_lost(cluster, fate=fate))

    assert fate.has_struck
    assert 1 <= world.grants <= 2


def test_a_bookie_is_sent_the_grant_that_is_on_record() -> None:
    """As the first, and over sooner when it goes wrong: for rules that are broken on purpose."""
    world = joined.cluster(1).run(volumes_are_lost_and_soon_granted)

    assert world.grants == 1


def test_without_limbo_the_simulator_sees_a_healing_bookie_deny_what_it_acknowledged() -> None:
    with pytest.raises(Defect, match=f"S8: {ITS_ID} acknowledged entry"):
        joined.cluster(1, guard_limbo=False).run(volumes_are_lost)


async def processes_die_meanwhile(cluster: SimCluster, *, rng: random.Random) -> None:
    """A bookie loses its volumes; any process may end at any time, and a second bookie loses its own afterwards."""
    world = await in_service(cluster)
    application = Application(cluster)
    operator = world.operator()
    for lost in rng.sample([pod["metadata"]["name"] for pod in world.of_kind("Pod")], 2):
        await world.run(operator, passes=rng.randrange(4, 10))
        world.lose(lost)
        for _ in range(rng.randrange(2, 5)):
            await world.run(operator, passes=rng.randrange(1, 8))
            one = rng.choice(list(world.bookies.values()))
            assert isinstance(one, PodBookie)
            one.node.crash(rng.choice([ProcessEnd.KILL, ProcessEnd.POWER_CUT]))
        await world.run(operator, passes=2 * PASSES, until=world.is_quiet)
        assert world.is_quiet(), world.status()
    await healed(cluster, world, application)


@pytest.mark.parametrize("seed", some(range(6), (0,)))
def test_two_bookies_heal_one_after_the_other_while_processes_die(seed: int) -> None:
    """With data in the journal: no kill loses what the bookie that heals may need."""
    rng = random.Random(seed)

    joined.cluster(seed, journal_write_data=True).run(lambda cluster: processes_die_meanwhile(cluster, rng=rng))


def is_rolled_out(world: JoinedWorld) -> bool:
    return world.is_quiet() and set(images(world).values()) == {"bookie:next"}


async def an_image_is_rolled_out(cluster: SimCluster, *, fate: Fate | None = None) -> JoinedWorld:
    """Each bookie refuses adds, flushes, ends in order and comes back, while the application goes on."""
    world = await in_service(cluster)
    world.edit(rollout=AUTOMATIC)
    await world.run(world.operator(), passes=10)
    application, stopped, wrong = Application(cluster), list[str](), list[str]()

    def on_stop(pod: str) -> None:
        stopped.append(pod)
        states = {name: world.bookie(name).state for name in PODS}
        if states.pop(pod) is not State.READ_ONLY or set(states.values()) != {State.SERVING}:
            wrong.append(f"{pod} is stopped before it has flushed, or while another is not whole: {states}")

    world.on_stop = on_stop
    world.edit(image="bookie:next")
    world.fate = fate or Fate()
    await world.run(world.operator(), passes=PASSES, until=lambda: is_rolled_out(world) or bool(wrong))
    world.fate = Fate()

    assert not wrong
    assert is_rolled_out(world), world.status()
    assert sorted(stopped) == PODS
    reports = [await bookie.report() for bookie in cluster.bookies.values()]
    assert not any(report.unclean_shutdown for report in reports)
    await healed(cluster, world, application)
    return world


@pytest.mark.parametrize("seed", some(range(4), (0,)))
def test_an_image_is_rolled_out_and_every_bookie_ends_in_order(seed: int) -> None:
    """Without data in the journal: a bookie that was ended before it had flushed would have lost something."""
    joined.cluster(seed).run(an_image_is_rolled_out)


@pytest.mark.slow
@pytest.mark.parametrize("nth", range(2, 40, 5))
@pytest.mark.parametrize("how", [Fate.DIES, Fate.LOSES_ANSWER])
def test_it_is_rolled_out_whatever_befalls_one_write_of_the_operator(how: str, nth: int) -> None:
    fate = Fate(how, nth)

    joined.cluster(nth).run(lambda cluster: an_image_is_rolled_out(cluster, fate=fate))

    assert fate.has_struck
