"""Workflows that meet no death of the operator in a file of their own: whichever writes are its last, what was asked
for is done, once, and safely."""

import pytest

import workflows_support as workflows
from bookie.ports.admin import State
from meeting_support import Fleet, Judge
from operator_world_support import World
from workflows_support import ENOUGH, STORIES


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("name", STORIES)
def test_what_was_asked_for_is_done_whichever_writes_are_the_operators_last(
    world: World, name: str, first: int
) -> None:
    """Every third write, then every fourth, is the last of its operator; `first` shifts which. The next has watched
    nothing."""
    story = STORIES[name]
    world = workflows.begin(story, world)
    judge, fleet = Judge(world), Fleet(world, "dies", first=first)

    for ask, is_done in story.asks:
        ask(world)
        for _ in range(ENOUGH):
            story.meanwhile(world, judge)
            fleet.run(1)
            assert workflows.wrong(world, judge) == []
            if is_done(world):
                break
        assert is_done(world), world.status()

    assert fleet.deaths > 2
    assert len(world.accepted) == story.grants, "a grant is given once, whoever gives it"
    assert {one.state for one in world.bookies.values()} == {State.SERVING}
    fleet.lives_on()
    fleet.run(12)
    assert (world.thin_entries(), world.is_quiet()) == ([], True), world.status()
