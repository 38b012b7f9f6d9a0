"""Breadth-first search over every reachable state. Pure, but for the clock that nobody here reads.

States are hashed whole; the caller makes equal what is equal by symmetry (`canonical`). The first violation found is a
shortest one. Memory: about 1 KB a state.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
Steps = Callable[[S], Iterable[tuple[str, S]]]


class SpaceTooLarge(Exception):
    """More states than the caller allows."""


@dataclass(frozen=True, slots=True)
class Explored(Generic[S]):
    """What a search saw. `broken`: which promise, None when all held; `story`: the steps that lead there."""

    states: int
    depth: int
    broken: str | None
    story: tuple[str, ...] = ()


def explore(
    initial: S,
    steps: Steps[S],
    canonical: Callable[[S], S],
    broken: Callable[[S], str | None],
    *,
    states_max: int = 10_000_000,
) -> Explored[S]:
    """Visit every state that `steps` reaches from `initial`; stop at the first of which `broken` says something.

    Raises SpaceTooLarge beyond `states_max` states.
    """
    first = canonical(initial)
    came_from: dict[S, S | None] = {first: None}
    wave, depth = [first], 0
    while wave:
        following: list[S] = []
        for state in wave:
            for _, reached in steps(state):
                found = canonical(reached)
                if found in came_from:
                    continue
                came_from[found] = state
                complaint = broken(found)
                if complaint is not None:
                    story = _story(initial, _path(found, came_from), steps, canonical)
                    return Explored(len(came_from), depth + 1, complaint, story)
                following.append(found)
        if len(came_from) > states_max:
            raise SpaceTooLarge(f"more than {states_max} states at depth {depth}")
        wave = following
        depth += bool(following)
    return Explored(len(came_from), depth, None)


def _path(end: S, came_from: dict[S, S | None]) -> list[S]:
    path = [end]
    while (before := came_from[path[-1]]) is not None:
        path.append(before)
    return path[::-1]


def _story(initial: S, path: list[S], steps: Steps[S], canonical: Callable[[S], S]) -> tuple[str, ...]:
    """Walk `path` again without `canonical`, so that a bookie keeps its name through the story."""
    told: list[str] = []
    state = initial
    for wanted in path[1:]:
        label, state = next((label, it) for label, it in steps(state) if canonical(it) == wanted)
        told.append(label)
    return tuple(told)
