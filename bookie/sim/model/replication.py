"""What a re-replicator does: copies what a bookie that is away held to another one, and names that. Pure."""

from collections.abc import Iterator

from bookie.sim.model import guards
from bookie.sim.model.states import (
    CLOSED,
    NO_PART,
    SOURCE,
    TARGET,
    UP,
    ModelState,
    Space,
    holds,
    serves,
)

Step = tuple[str, ModelState]


def steps(state: ModelState, space: Space) -> Iterator[Step]:
    """Yield what may happen next."""
    if state.part_version >= 0:
        yield from _publish(state, space)
    elif state.copies:
        yield from _copy(state, space)


def _slots(state: ModelState, space: Space) -> int:
    """What may be moved: everything of a closed ledger, else what is sealed."""
    return (2 << space.entries) - 1 if state.phase == CLOSED else (1 << state.first) - 1


def _copy(state: ModelState, space: Space) -> Iterator[Step]:
    slots = _slots(state, space)
    for out, away in enumerate(state.bookies):
        moved = away.names & slots
        if away.stage == UP or not moved:
            continue
        entries = moved & ((1 << state.last) - 1) if state.phase == CLOSED else moved
        found = 0
        for other, it in enumerate(state.bookies):
            if other != out and serves(it):
                found |= holds(it) & it.names
        if entries & ~found and guards.COPY_BEFORE_NAMING not in space.off:
            continue
        for into, comer in enumerate(state.bookies):
            if comer.stage != UP or comer.names & moved:
                continue
            bookies = list(state.bookies)
            bookies[out] = away._replace(part=SOURCE)
            copied = 0 if guards.COPY_BEFORE_NAMING in space.off else entries
            bookies[into] = comer._replace(part=TARGET, has=comer.has | copied, gave=comer.gave | copied)
            yield (
                f"a re-replicator copies to b{into} what b{out} held",
                state._replace(
                    bookies=tuple(bookies),
                    part_version=state.version,
                    copies=state.copies - 1,
                ),
            )


def _publish(state: ModelState, space: Space) -> Iterator[Step]:
    done = tuple(it._replace(part=NO_PART) for it in state.bookies)
    yield "the re-replicator gives up", state._replace(bookies=done, part_version=-1)
    out = next(index for index, it in enumerate(state.bookies) if it.part == SOURCE)
    into = next(index for index, it in enumerate(state.bookies) if it.part >= TARGET)
    if state.part_version != state.version and guards.REPLICATOR_BY_CAS not in space.off:
        return
    if state.bookies[into].part != TARGET and guards.REPLICATOR_SEES_LIVES not in space.off:
        return
    phase, first, names = state.phase, state.first, [it.names for it in state.bookies]
    if state.part_version != state.version:  # it writes what it read, over whatever is there
        phase, first = state.older[state.part_version]
        names = [it.named[state.part_version] for it in state.bookies]
    slots = (2 << space.entries) - 1 if phase == CLOSED else (1 << first) - 1
    moved = names[out] & slots
    bookies = [it._replace(names=name) for it, name in zip(done, names, strict=True)]
    bookies[out] = bookies[out]._replace(names=names[out] & ~moved)
    bookies[into] = bookies[into]._replace(names=names[into] | moved)
    yield (
        f"the re-replicator names b{into} in place of b{out}",
        state._replace(bookies=tuple(bookies), version=state.version + 1, part_version=-1, phase=phase, first=first),
    )
