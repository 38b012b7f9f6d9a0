"""One state of the model, what must hold in it, and the guards. Pure.

A state has what all share and one `ModelBookie` for each bookie, which holds all that concerns it, also what others
know of it. So bookies are interchangeable, and sorting them makes states equal that differ by names alone.

Masks are of entries (bit n: entry n). In `names` and its kin one more bit, the highest, stands for all that follows the
last entry of the bound: a bookie with it is in the last ensemble. An ensemble is its write set (no striping).

No message is kept. A request that nobody answers, or "unknown", is a step that does not happen; a late answer is a
decision that happens late; a late add is a bit in `sent` that is taken later.
"""

from typing import NamedTuple

OPEN, IN_RECOVERY, CLOSED, ABSENT = range(4)
# Stages of a bookie: serving; its volumes are gone; the same, and claimed; marked, and does not serve yet;
# crashed with entries in memory; serves before its marks (only without that guard).
UP, LOST, CLAIMED, MARKED, UNCLEAN, UNMARKED = range(6)
# What the recovery does.
IDLE, FENCING, READING, WRITING = range(4)
# A bookie's part in a re-replication: none, what it held is copied, the target, a target that began a new life since.
NO_PART, SOURCE, TARGET, TARGET_OF_BEFORE = range(4)

SOFT_FENCE, SOFT_LIMBO, SOFT_DOUBT = 1, 2, 4
# What a doubt record says of the ledger: nothing, unexamined, fenced and nothing else.
NO_DOUBT, UNEXAMINED, FENCES = range(3)
# What an examination read, and has not written yet.
NOT_READ, SEEN_CLEAN, SEEN_LIMBO, SEEN_BOTH, SEEN_FENCES, BOUND_TOO_EARLY = range(6)


class ModelBookie(NamedTuple):
    """All that concerns one bookie id."""

    stage: int = UP
    has: int = 0
    memory: int = 0  # acknowledged, and not on disk yet
    flushing: int = 0  # the same, of the checkpoint that runs
    touch: int = 0  # journaled: entries of this ledger are in memory
    touch_flushing: int = 0  # the same, of the checkpoint that runs
    plain: int = 0  # this life makes no touches: the setting is off, or the program is older; its marker says so
    fenced: int = 0
    limbo: int = 0
    soft: int = 0  # which marks a crash takes away
    doubt: int = NO_DOUBT
    seen: int = NOT_READ
    names: int = 0  # in the metadata
    writes: int = 0  # as the writer believes
    sent: int = 0  # adds on their way
    acked: int = 0  # acknowledgements that the writer counts
    recovers: int = 0  # as the recovery believes
    said: int = 0  # the answer that the recovery waits for has come
    gave: int = 0  # the word of this id, by whichever process, on which somebody counts
    part: int = NO_PART
    old: tuple[int, ...] = ()  # an older process that nobody could end: entries, fence, is registered
    writer_knows_old: int = 0
    recovery_knows_old: int = 0
    named: tuple[int, ...] = ()  # `names` of each record of before, see `ModelState.older`


class ModelState(NamedTuple):
    """What the bookies share. `confirmed`, `pushed`: numbers of entries. `last`: the number of entries at the close."""

    bookies: tuple[ModelBookie, ...]
    phase: int = OPEN
    version: int = 0
    first: int = 0  # of the last segment
    last: int = 0
    ended: int = -1  # `last` of the first close
    is_writing: int = 1
    writer_version: int = 0
    pushed: int = 0
    confirmed: int = 0
    carried: tuple[int, ...] = ()  # by entry: how many were confirmed when it was sent
    recovery: int = IDLE
    recovery_version: int = 0
    entry: int = 0  # that the recovery looks at
    part_version: int = -1  # that the re-replicator read
    older: tuple[tuple[int, int], ...] = ()  # phase and first of each record of before, where a space wants stale reads
    wipes: int = 0
    kills: int = 0
    changes: int = 0
    copies: int = 0
    twins: int = 0
    recoveries: int = 0


class Space(NamedTuple):
    """The bounds of a space, and the guards that are off."""

    bookies: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    entries: int = 1
    wipes: int = 1
    kills: int = 0
    changes: int = 0
    copies: int = 0
    twins: int = 0
    recoveries: int = 1
    journaled: bool = True
    collects: bool = False
    creates: bool = False  # the ledger is not there yet
    doubts: bool = False  # boots doubt in place of scanning (docs/decisions/0021-phase-one-in-constant-time.md)
    touches: bool = False  # without a journal of entries, a touch tells what was in memory
    upgrades: bool = False  # the first lives make no touches, and each later one may or may not
    off: frozenset[str] = frozenset()

    @property
    def tail(self) -> int:
        """The bit of the last ensemble."""
        return 1 << self.entries

    def initial(self) -> ModelState:
        """A new ledger on the first bookies."""
        everything = (2 << self.entries) - 1
        spare = ModelBookie(plain=int(self.upgrades))
        member = spare if self.creates else spare._replace(names=everything, writes=everything)
        rest = self.bookies - self.write_quorum
        return ModelState(
            (member,) * self.write_quorum + (spare,) * rest,
            phase=ABSENT if self.creates else OPEN,
            is_writing=int(not self.creates),
            wipes=self.wipes,
            kills=self.kills,
            changes=self.changes,
            copies=self.copies,
            twins=self.twins,
            recoveries=self.recoveries,
        )


def first_end(state: ModelState, last: int) -> int:
    """Return what `ended` is once somebody closes the ledger after `last` entries."""
    return state.ended if state.ended >= 0 else last


def canonical(state: ModelState) -> ModelState:
    """Return the state with its bookies in one order."""
    return state._replace(bookies=tuple(sorted(state.bookies)))


def with_bookie(state: ModelState, index: int, bookie: ModelBookie) -> tuple[ModelBookie, ...]:
    """Return the bookies of `state` with one of them changed."""
    return (*state.bookies[:index], bookie, *state.bookies[index + 1 :])


def serves(bookie: ModelBookie) -> bool:
    """Return True when its newest process answers requests."""
    return bookie.stage in (UP, UNMARKED)


def is_repaired(bookie: ModelBookie) -> bool:
    """Return True when nothing of it is missing any more that it may have lost."""
    return bookie.stage == UP and not may_have_lost(bookie)


def may_have_lost(bookie: ModelBookie) -> bool:
    """Return True when it answers "unknown" for what it has not."""
    return bool(bookie.limbo) or bookie.doubt == UNEXAMINED


def is_fenced(bookie: ModelBookie) -> bool:
    """Return True when it refuses normal adds as fenced."""
    return bool(bookie.fenced) or bookie.doubt == FENCES


def holds(bookie: ModelBookie) -> int:
    """Return the entries that its newest process can show."""
    return bookie.has | bookie.memory | bookie.flushing


def may_lose(state: ModelState, space: Space) -> bool:
    """Return True when one more bookie may lose data within what the ack quorum promises to survive."""
    return sum(not is_repaired(bookie) for bookie in state.bookies) < space.ack_quorum - 1


def broken(state: ModelState) -> str | None:
    """Return the promise that does not hold in this state. Rules: spec/bp46.md#S1, S2, S4, S8."""
    is_closed = state.phase == CLOSED
    if state.ended >= 0 and not (is_closed and state.last == state.ended):
        return "S4: a closed ledger is open again, or has another end"
    if is_closed and state.confirmed > state.last:
        return f"S1: entry {state.last} was acknowledged, and the ledger is closed before it"
    end = state.last if is_closed else state.confirmed
    for entry in range(end):
        bit = 1 << entry
        if not any(bookie.names & bit and holds(bookie) & bit for bookie in state.bookies):
            return f"S2: no bookie that the metadata names has entry {entry}"
    for bookie in state.bookies:
        denied = bookie.gave & bookie.names & ~holds(bookie)
        if denied and serves(bookie) and not may_have_lost(bookie) and (not is_closed or denied & ((1 << end) - 1)):
            return "S8: a bookie denies an entry that it acknowledged"
    return None
