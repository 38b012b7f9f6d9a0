"""The spaces that are explored, and for each guard the space in which its absence breaks a promise. Pure."""

from collections.abc import Iterator

from bookie.sim.model import boots, guards, recovery, replication, writer
from bookie.sim.model.explore import Explored, explore
from bookie.sim.model.states import ModelState, Space, broken, canonical

ACTORS = (writer.steps, recovery.steps, boots.steps, replication.steps)
# Without these somebody acts on a record of before; so the record of before is part of the state.
_STALE = frozenset({guards.EXAMINE_AFTER_CLAIM, guards.SYNC_BEFORE_READ, guards.REPLICATOR_BY_CAS})

# Three bookies, every entry on each, two acknowledgements: BP-46's own cluster.
_THREE = Space(wipes=0)
_WIPE = Space()
_FOUR = Space(bookies=4, changes=1)
_TWIN = Space(wipes=0, twins=1)
_TWIN_OF_FOUR = Space(bookies=4, changes=1, wipes=0, twins=1)
_COPY = Space(bookies=4, copies=1, collects=True)
_COPY_TWICE = Space(bookies=4, copies=1, wipes=2)

# Explored whole with every guard on. `SMALL` in seconds, by a test; `LARGE` by the command.
SMALL: dict[str, Space] = {
    "one bookie loses its volumes": _WIPE,
    "two do, one after the other": Space(wipes=2),
    "a crash without a journal of entries": Space(journaled=False, kills=1, wipes=0),
    "an ensemble change": _FOUR,
    "re-replication and collection": _COPY,
    "re-replication and two losses": _COPY_TWICE,
    "two processes of one id": _TWIN,
    "two processes and an ensemble change": _TWIN_OF_FOUR,
}
LARGE: dict[str, Space] = {
    "two entries, one loses its volumes": Space(entries=2),
    "two entries, two recoveries": Space(entries=2, recoveries=2),
    "two ensemble changes, two losses": Space(bookies=4, changes=2, wipes=2),
    "an ensemble change and re-replication": Space(bookies=4, changes=1, copies=1, collects=True),
    "two losses, change, re-replication": Space(bookies=4, changes=1, copies=1, wipes=2),
    "an ack quorum of one": Space(ack_quorum=1, entries=2, wipes=0),
    "write quorum two": Space(bookies=4, write_quorum=2, changes=2, wipes=2),
    "a loss and two processes": Space(bookies=4, changes=1, twins=1, wipes=1),
    "no journal of entries, two crashes": Space(bookies=4, journaled=False, kills=2, wipes=1, changes=1),
}

# Guard -> the space in which a promise breaks without it.
CASES: dict[str, Space] = {
    guards.FENCE_DURABLE: Space(kills=1, wipes=0),
    guards.MARKS_BEFORE_SERVING: _WIPE,
    guards.MARKS_DURABLE: Space(kills=1),
    guards.FENCE_OF_PHASE_ONE: _WIPE,
    guards.LIMBO_IS_UNKNOWN: _WIPE,
    guards.LIMBO_IN_RECOVERY: _FOUR,
    guards.LIMBO_CLOSED: _WIPE,
    guards.SYNC_BEFORE_READ: _FOUR,
    guards.COPY_BEFORE_CLEAR: _WIPE,
    guards.CLEAR_SEALED: _WIPE,
    guards.MARKER: Space(journaled=False, kills=1, wipes=0),
    guards.COLLECTOR_KEEPS_FENCES: _COPY,
    guards.CLAIM: _TWIN_OF_FOUR,
    guards.WRITER_ASKS: _TWIN_OF_FOUR,
    guards.RECOVERY_ASKS: _TWIN_OF_FOUR,
    guards.VOID_ACKS: _FOUR,
    guards.CHANGE_BY_CAS: Space(bookies=4, changes=1, wipes=0),
    guards.CLOSE_BY_CAS: _THREE,
    guards.READS_FENCE: _THREE,
    guards.NEGATIVE_QUORUM: _THREE,
    guards.WRITE_BACK: _WIPE,
    guards.COPY_BEFORE_NAMING: _COPY_TWICE,
    guards.REPLICATOR_BY_CAS: Space(bookies=4, copies=1, changes=1),
    guards.REPLICATOR_SEES_LIVES: _COPY_TWICE,
}
# Phase one in constant time (decision 21): the same two questions.
_DOUBT = Space(doubts=True)
_TOUCH = Space(journaled=False, touches=True, kills=1, wipes=0)
PAPER: dict[str, Space] = {
    "doubt: a loss": _DOUBT,
    "doubt: two losses": Space(doubts=True, wipes=2),
    "doubt: an ensemble change": Space(doubts=True, bookies=4, changes=1),
    "doubt: re-replication and collection": Space(doubts=True, bookies=4, copies=1, collects=True),
    "doubt: re-replication and two losses": Space(doubts=True, bookies=4, copies=1, wipes=2),
    "doubt: two processes, a new ledger": Space(doubts=True, twins=1, wipes=0, creates=True),
    "doubt: a loss, a new ledger": Space(doubts=True, bookies=4, creates=True),
    "touch: a crash": _TOUCH,
    "touch: two crashes": _TOUCH._replace(kills=2),
    "touch: lives with and without": _TOUCH._replace(kills=2, upgrades=True),
    "touch and doubt": _TOUCH._replace(wipes=1, doubts=True),
}
PAPER_CASES: dict[str, Space] = {
    guards.BOUND_AFTER_CLAIM: Space(doubts=True, twins=1, wipes=0, creates=True),
    guards.DOUBT_DURABLE: Space(doubts=True, kills=1),
    guards.EXAMINE_AFTER_CLAIM: Space(doubts=True, bookies=4, changes=1),
    guards.NOT_NAMED_STAYS_FENCED: Space(doubts=True, bookies=4, copies=1, collects=True),
    guards.OPEN_NAMED_IS_LIMBO: _DOUBT,
    guards.LIMBO_CLOSED: _DOUBT,
    guards.LIMBO_IN_RECOVERY: Space(doubts=True, bookies=4, changes=1),
    guards.LIMBO_IS_UNKNOWN: _DOUBT,
    guards.TOUCH: _TOUCH,
    guards.TOUCH_PER_GENERATION: _TOUCH._replace(entries=2),
    guards.TOUCH_RECOVERY: _TOUCH,
    guards.TOUCH_OUTLIVES_FAILURE: _TOUCH,
    guards.TOUCH_OUTLIVES_REPLAY: _TOUCH._replace(kills=2),
    guards.TOUCH_MARKER: _TOUCH._replace(upgrades=True),
}
# Guards that the model does not need, because another one does the same work in all of its spaces.
SECOND_LINES: dict[str, tuple[Space, str]] = {
    guards.FENCE_COVERAGE: (Space(entries=2, wipes=0), "each denial that a recovery counts has fenced its bookie, too"),
}


def steps(state: ModelState, space: Space) -> Iterator[tuple[str, ModelState]]:
    """Yield what may happen next, by whomever."""
    remembers = not _STALE.isdisjoint(space.off)
    for actor in ACTORS:
        for label, reached in actor(state, space):
            if remembers and reached.version != state.version:
                yield label, _remembering(reached, state)
            else:
                yield label, reached


def _remembering(reached: ModelState, before: ModelState) -> ModelState:
    pairs = zip(reached.bookies, before.bookies, strict=True)
    bookies = tuple(it._replace(named=(*old.named, old.names)) for it, old in pairs)
    return reached._replace(bookies=bookies, older=(*before.older, (before.phase, before.first)))


def run(space: Space, *, states_max: int = 10_000_000) -> Explored[ModelState]:
    """Explore all of `space`, or up to the first broken promise."""
    return explore(space.initial(), lambda state: steps(state, space), canonical, broken, states_max=states_max)
