"""The model of BP-46: with all guards no promise breaks in any state of its small spaces; without one, one does."""

from collections.abc import Iterator

import pytest

from bookie.sim.model import guards, spaces
from bookie.sim.model.__main__ import main
from bookie.sim.model.explore import SpaceTooLarge, explore

# A guess at how large they are, so that a space that stopped growing (an actor that does nothing) is red.
STATES_MIN = 1_000


@pytest.mark.parametrize("name", spaces.SMALL)
def test_with_every_guard_no_promise_breaks_in_any_state(name: str) -> None:
    seen = spaces.run(spaces.SMALL[name])

    assert (seen.broken, seen.story) == (None, ())
    assert seen.states > STATES_MIN


@pytest.mark.parametrize("guard", spaces.CASES)
def test_without_a_guard_a_promise_breaks(guard: str) -> None:
    space = spaces.CASES[guard]
    assert not space.off

    seen = spaces.run(space._replace(off=frozenset({guard})))
    assert seen.broken is not None, guards.GUARDS[guard]
    assert len(seen.story) == seen.depth


@pytest.mark.parametrize("name", spaces.PAPER)
def test_phase_one_in_constant_time_breaks_no_promise_with_all_its_rules(name: str) -> None:
    """decisions/0021-phase-one-in-constant-time.md: on paper, and here."""
    seen = spaces.run(spaces.PAPER[name])

    assert (seen.broken, seen.story) == (None, ())
    assert seen.states > STATES_MIN


@pytest.mark.parametrize("guard", spaces.PAPER_CASES)
def test_phase_one_in_constant_time_needs_each_of_its_rules(guard: str) -> None:
    seen = spaces.run(spaces.PAPER_CASES[guard]._replace(off=frozenset({guard})))

    assert seen.broken is not None


@pytest.mark.parametrize("guard", spaces.SECOND_LINES)
def test_what_another_guard_does_too_breaks_nothing_alone(guard: str) -> None:
    space, _ = spaces.SECOND_LINES[guard]

    assert spaces.run(space._replace(off=frozenset({guard}))).broken is None


def test_every_guard_has_its_space() -> None:
    assert set(spaces.CASES) | set(spaces.SECOND_LINES) == set(guards.GUARDS)
    for space in (*spaces.SMALL.values(), *spaces.LARGE.values()):
        assert not space.off


def test_the_first_accident_of_the_proposal_is_told_as_the_proposal_tells_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--without", guards.FENCE_OF_PHASE_ONE]) == 0

    told = capsys.readouterr().out
    story = ["the recovery closes the ledger", "loses its volumes", "takes entry 0", "tells its application", "=> S1"]
    places = [told.index(line, told.index(story[0])) for line in story]
    assert places == sorted(places)


def test_a_search_finds_a_shortest_story_and_tells_it_with_the_names_it_began_with() -> None:
    """Two counters that are equal by symmetry; the story names the one that moved, although states are sorted."""

    def steps(state: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        left, right = state
        if left < 9:
            yield "left", (left + 1, right)
        if right < 9:
            yield "right", (left, right + 1)

    def canonical(state: tuple[int, int]) -> tuple[int, int]:
        return min(state), max(state)

    seen = explore((0, 0), steps, canonical, lambda state: "far" if state == (1, 3) else None)
    assert (seen.broken, seen.depth, len(seen.story)) == ("far", 4, 4)
    assert sorted([seen.story.count("left"), seen.story.count("right")]) == [1, 3]
    assert explore((0, 0), steps, canonical, lambda _: None).states == 55
    with pytest.raises(SpaceTooLarge, match="more than 20 states"):
        explore((0, 0), steps, canonical, lambda _: None, states_max=20)
