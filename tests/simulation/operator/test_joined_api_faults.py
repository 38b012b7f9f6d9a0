"""An API server that fails, or lists what was a while ago, while the operator's own loop, paced by its own queue, looks
after the bookie's own classes (`joined_support`): each story ends whole, nothing is given up or stopped twice, no
request is sent again before the time that the API server asked for, and no status calls well what is not."""

from __future__ import annotations

import pytest

import joined_support as joined
from bookie.sim.cluster import SimCluster
from joined_stories_support import (
    ITS_ID,
    LOST,
    NAMED_ID,
    a_bookie_is_replaced,
    a_node_dies,
    ephemeral,
    volumes_are_lost,
)
from joined_support import WELL, JoinedWorld, OldLists, Weather, in_service, some


async def heal(cluster: SimCluster, weather: Weather) -> JoinedWorld:
    return await volumes_are_lost(cluster, fate=weather)


async def replace(cluster: SimCluster, weather: Weather) -> JoinedWorld:
    return await a_bookie_is_replaced(cluster, weather, 1)


STORIES = {"heal": heal, "replace": replace, "dies": a_node_dies}


def told(name: str, weather: Weather, seed: int = 1) -> None:
    made = ephemeral(seed) if name == "dies" else joined.cluster(seed)
    lives: dict[str, int] = {}

    async def story(cluster: SimCluster) -> None:
        world = await STORIES[name](cluster, weather)
        for one, bookie in cluster.bookies.items():
            lives[one] = (await bookie.report()).incarnation
        assert world.wrong == []

    made.run(story)
    anew = NAMED_ID if name == "replace" else ITS_ID
    assert weather.has_struck
    assert weather.too_early == []
    assert lives.pop(anew) == 2, "one new life, however often the order was sent"
    assert set(lives.values()) == {1}


# In all of these together every call is struck in some story, each time by another status.
EVERY = 29


@pytest.mark.parametrize(
    ("name", "first"), some([(name, first) for name in STORIES for first in range(EVERY)], [("heal", 11)])
)
def test_it_ends_well_behind_an_api_server_of_which_every_so_many_calls_fail(name: str, first: int) -> None:
    told(name, Weather(EVERY, first))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", STORIES)
def test_it_ends_well_behind_an_api_server_whose_lists_are_old(name: str, seed: int) -> None:
    told(name, OldLists(seed), seed)


async def it_lasts(cluster: SimCluster, weather: Weather) -> JoinedWorld:
    """A bookie loses its volumes while nobody can list pods: what was seen once is not told as what is."""
    world = await in_service(cluster)
    operator = world.operator()
    await world.run(operator, passes=5)
    world.lose(LOST)
    world.fate = weather
    await world.run(operator, passes=100, until=lambda: not says_well(world))
    assert not says_well(world), world.status()
    told = {one.type: (one.status, one.reason) for one in world.status().conditions}
    assert (told["Ready"][0], told["Stalled"], world.grants) == ("Unknown", ("True", "ReadFailed"), 0)

    weather.of = "nothing"
    await world.run(operator, passes=200, until=world.is_quiet)
    world.fate = joined.Fate()
    assert (world.is_quiet(), world.grants > 0, world.wrong) == (True, True, []), world.status()
    return world


def says_well(world: JoinedWorld) -> bool:
    return WELL.items() <= {one.type: one.status for one in world.status().conditions}.items()


@pytest.mark.parametrize("status", some([0, 410, 429, 500, 503, 504], [429, 410]))
def test_an_api_server_that_fails_for_long_at_one_list_is_told_and_nothing_is_called_well(status: int) -> None:
    weather = Weather(1, 0, of="list Pod ", statuses=[status])

    joined.cluster(1).run(lambda cluster: it_lasts(cluster, weather))

    assert weather.too_early == []
