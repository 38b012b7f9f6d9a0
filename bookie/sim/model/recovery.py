"""What a recovery does: begins, fences, reads, writes back, closes. Pure."""

from collections.abc import Iterator

from bookie.sim.model import guards
from bookie.sim.model.states import (
    ABSENT,
    CLOSED,
    FENCING,
    IDLE,
    IN_RECOVERY,
    READING,
    SOFT_FENCE,
    UP,
    WRITING,
    ModelBookie,
    ModelState,
    Space,
    first_end,
    holds,
    may_have_lost,
    serves,
    with_bookie,
)
from bookie.sim.model.writer import is_old_registered

Step = tuple[str, ModelState]


def steps(state: ModelState, space: Space) -> Iterator[Step]:
    """Yield what may happen next."""
    if state.recovery == IDLE:
        if state.recoveries and state.phase not in (CLOSED, ABSENT):
            yield _begin(state, space)
        return
    if state.recovery_version != state.version:
        yield "the recovery finds other metadata and gives up", _ended(state)
    if state.recoveries:
        yield "the client that recovers dies", _ended(state)
    if state.recovery == FENCING:
        yield from _fence(state, space)
    elif state.recovery == READING:
        yield from _read(state, space)
    else:
        yield from _write(state, space)


def _ended(state: ModelState) -> ModelState:
    bookies = tuple(it._replace(recovers=0, said=0, recovery_knows_old=0) for it in state.bookies)
    return state._replace(bookies=bookies, recovery=IDLE, entry=0, recovery_version=0)


def _begin(state: ModelState, space: Space) -> Step:
    asks = guards.RECOVERY_ASKS not in space.off
    bookies = tuple(
        it._replace(
            recovers=it.names,
            said=0,
            recovery_knows_old=int(bool(it.old) and (is_old_registered(it) or not asks)),
        )
        for it in state.bookies
    )
    return "a recovery begins: the metadata says IN_RECOVERY", state._replace(
        bookies=bookies,
        phase=IN_RECOVERY,
        version=state.version + 1,
        recovery=FENCING,
        recovery_version=state.version + 1,
        entry=state.first,
        recoveries=state.recoveries - 1,
    )


def _fenced(bookie: ModelBookie, space: Space) -> ModelBookie:
    if guards.FENCE_DURABLE in space.off and not bookie.fenced:
        return bookie._replace(fenced=1, soft=bookie.soft | SOFT_FENCE)
    return bookie._replace(fenced=1)


def _confirmed_by(entries: int, state: ModelState) -> int:
    """Return the LAC that a bookie knows from the entries that it has, as a number of entries."""
    return max((lac for entry, lac in enumerate(state.carried) if entries >> entry & 1), default=0)


def _fence(state: ModelState, space: Space) -> Iterator[Step]:
    asked = [(index, it) for index, it in enumerate(state.bookies) if it.recovers & space.tail and not it.said]
    for index, bookie in asked:
        if serves(bookie):
            lac = _confirmed_by(holds(bookie), state)
            fenced = _fenced(bookie, space)._replace(said=int(not may_have_lost(bookie)))
            yield (
                f"the recovery fences b{index}",
                state._replace(bookies=with_bookie(state, index, fenced), entry=max(state.entry, lac * fenced.said)),
            )
        if bookie.recovery_knows_old and bookie.old:
            fenced = bookie._replace(said=1, old=(bookie.old[0], 1, bookie.old[2]))
            lac = _confirmed_by(bookie.old[0], state)
            yield (
                f"the recovery fences the old process of b{index}",
                state._replace(bookies=with_bookie(state, index, fenced), entry=max(state.entry, lac)),
            )
    missing_max = space.ack_quorum - 1 + (guards.FENCE_COVERAGE in space.off)
    if len(asked) <= missing_max:
        yield "the recovery has fenced enough, and reads", _to_read(state, state.entry)


def _to_read(state: ModelState, entry: int) -> ModelState:
    bookies = tuple(it._replace(said=0) for it in state.bookies)
    return state._replace(bookies=bookies, recovery=READING, entry=entry)


def _read(state: ModelState, space: Space) -> Iterator[Step]:
    if state.entry == space.entries:  # nothing can follow, in this space
        yield from _closed(state, space)
        return
    bit = 1 << state.entry
    asked = [(index, it) for index, it in enumerate(state.bookies) if it.recovers & bit and not it.said]
    for index, bookie in asked:
        if serves(bookie):
            fenced = bookie if guards.READS_FENCE in space.off else _fenced(bookie, space)
            yield from _answer(state, index, fenced, holds(bookie) & bit, space, f"b{index}")
        if bookie.recovery_knows_old and bookie.old:
            fenced = bookie._replace(old=(bookie.old[0], 1, bookie.old[2]))
            yield from _answer(state, index, fenced, bookie.old[0] & bit, space, f"the old process of b{index}")
    denials = sum(it.said for it in state.bookies)
    needed = space.write_quorum - space.ack_quorum + 1 - (guards.NEGATIVE_QUORUM in space.off)
    if denials >= needed:
        yield from _closed(state, space)


def _answer(state: ModelState, index: int, fenced: ModelBookie, has: int, space: Space, who: str) -> Iterator[Step]:
    if has:
        if guards.WRITE_BACK in space.off:
            found = state._replace(bookies=with_bookie(state, index, fenced))
            yield f"{who} shows entry {state.entry} to the recovery", _to_read(found, state.entry + 1)
            return
        bookies = tuple(it._replace(said=0) for it in with_bookie(state, index, fenced))
        yield f"{who} shows entry {state.entry} to the recovery", state._replace(bookies=bookies, recovery=WRITING)
    elif not who.startswith("b") or not may_have_lost(fenced) or guards.LIMBO_IS_UNKNOWN in space.off:
        denied = fenced._replace(said=1)
        yield (
            f"{who} denies entry {state.entry} to the recovery",
            state._replace(bookies=with_bookie(state, index, denied)),
        )


def _write(state: ModelState, space: Space) -> Iterator[Step]:
    bit = 1 << state.entry
    for index, bookie in enumerate(state.bookies):
        if not bookie.recovers & bit or bookie.said:
            continue
        if serves(bookie):
            taken = bookie._replace(has=bookie.has | bit, said=1, gave=bookie.gave | bit)
            if guards.TOUCH_RECOVERY in space.off:
                taken = taken._replace(has=bookie.has, memory=bookie.memory | bit)
            said = f"b{index} takes entry {state.entry} back from the recovery"
            yield said, state._replace(bookies=with_bookie(state, index, taken))
        if state.changes:
            yield from _replace(state, index, space)
    if sum(it.said for it in state.bookies) >= space.ack_quorum:
        yield f"the recovery has written entry {state.entry} back", _to_read(state, state.entry + 1)


def _replace(state: ModelState, out: int, space: Space) -> Iterator[Step]:
    """The recovery brings in another bookie, which the metadata names at the close."""
    since = (2 << space.entries) - (1 << state.entry)
    for into, comer in enumerate(state.bookies):
        if comer.recovers & space.tail or comer.stage != UP:
            continue
        bookies = list(state.bookies)
        bookies[out] = bookies[out]._replace(recovers=bookies[out].recovers & ~since)
        bookies[into] = comer._replace(recovers=comer.recovers | since, recovery_knows_old=0)
        said = f"the recovery takes b{into} in place of b{out} from entry {state.entry} on"
        yield said, state._replace(bookies=tuple(bookies), changes=state.changes - 1)


def _closed(state: ModelState, space: Space) -> Iterator[Step]:
    if state.recovery_version != state.version:
        return
    bookies = tuple(it._replace(names=it.recovers) for it in state.bookies)
    closed = state._replace(bookies=bookies, phase=CLOSED, version=state.version + 1, last=state.entry)
    closed = closed._replace(ended=first_end(state, state.entry))
    yield f"the recovery closes the ledger after {state.entry} entries", _ended(closed)
