"""What the writer does: sends, counts, confirms, changes its ensemble, closes. Pure."""

import itertools
from collections.abc import Iterator

from bookie.sim.model import guards
from bookie.sim.model.states import (
    ABSENT,
    CLOSED,
    OPEN,
    UP,
    ModelBookie,
    ModelState,
    Space,
    first_end,
    is_fenced,
    may_have_lost,
    serves,
    with_bookie,
)

Step = tuple[str, ModelState]


def steps(state: ModelState, space: Space) -> Iterator[Step]:
    """Yield what may happen next."""
    if state.phase == ABSENT:
        yield from _creates(state, space)
        return
    yield from _adds(state, space)
    if not state.is_writing:
        return
    if state.pushed < space.entries:
        yield _push(state)
    if state.confirmed < state.pushed:
        bit = 1 << state.confirmed
        if sum(bookie.acked & bit != 0 for bookie in state.bookies) >= space.ack_quorum:
            said = f"the writer tells its application that entry {state.confirmed} is stored"
            yield said, state._replace(confirmed=state.confirmed + 1)
    if state.changes:
        yield from _changes(state, space)
    if state.writer_version != state.version and state.phase == OPEN:
        known = tuple(bookie._replace(writes=bookie.names) for bookie in state.bookies)
        yield "the writer reads the metadata again", state._replace(bookies=known, writer_version=state.version)
    if state.writer_version == state.version or guards.CLOSE_BY_CAS in space.off:
        yield _close(state)


def _push(state: ModelState) -> Step:
    bit = 1 << state.pushed
    sent = tuple(it._replace(sent=it.sent | bit) if it.writes & bit else it for it in state.bookies)
    carried = (*state.carried, state.confirmed)
    return f"the writer sends entry {state.pushed}", state._replace(
        bookies=sent, pushed=state.pushed + 1, carried=carried
    )


def _adds(state: ModelState, space: Space) -> Iterator[Step]:
    """Adds that arrive, however late."""
    limbo_refuses = guards.FENCE_OF_PHASE_ONE not in space.off  # else limbo does the work of the fence
    for index, bookie in enumerate(state.bookies):
        if not bookie.sent:
            continue
        for entry in range(state.pushed):
            bit = 1 << entry
            if not bookie.sent & bit:
                continue
            counted = bookie._replace(sent=bookie.sent & ~bit)
            if state.is_writing and (bookie.writes & bit or guards.VOID_ACKS in space.off):
                counted = counted._replace(acked=bookie.acked | bit, gave=bookie.gave | bit)
            if serves(bookie) and not is_fenced(bookie) and not (may_have_lost(bookie) and limbo_refuses):
                taken = counted._replace(has=bookie.has | bit)
                if not space.journaled:
                    taken = touched(counted, space)._replace(memory=bookie.memory | bit)
                yield f"b{index} takes entry {entry}", state._replace(bookies=with_bookie(state, index, taken))
            if bookie.writer_knows_old and bookie.old and not bookie.old[1]:
                taken = counted._replace(old=(bookie.old[0] | bit, *bookie.old[1:]))
                said = f"the old process of b{index} takes entry {entry}"
                yield said, state._replace(bookies=with_bookie(state, index, taken))


def touched(bookie: ModelBookie, space: Space) -> ModelBookie:
    """Return the bookie with the touch that precedes an answer from memory. Rule 4 of decision 21."""
    if not space.touches or bookie.plain or guards.TOUCH in space.off:
        return bookie
    if bookie.touch_flushing and guards.TOUCH_PER_GENERATION in space.off:
        return bookie  # it was told once; the end of the checkpoint forgets that
    return bookie._replace(touch=1)


def _creates(state: ModelState, space: Space) -> Iterator[Step]:
    """The ledger is made on bookies that are registered."""
    everything = (2 << space.entries) - 1
    able = [index for index, it in enumerate(state.bookies) if it.stage == UP or is_old_registered(it)]
    for chosen in itertools.combinations(able, space.write_quorum):
        bookies = list(state.bookies)
        for index in chosen:
            it = bookies[index]
            knows = int(is_old_registered(it))
            bookies[index] = it._replace(names=everything, writes=everything, writer_knows_old=knows)
        who = ", ".join(f"b{index}" for index in chosen)
        yield (
            f"the writer makes the ledger on {who}",
            state._replace(bookies=tuple(bookies), phase=OPEN, is_writing=1, version=1, writer_version=1),
        )


def is_old_registered(bookie: ModelBookie) -> bool:
    """Return True when clients are sent to the older process: until the claim of the newer one."""
    return bool(bookie.old) and bool(bookie.old[2])


def _changes(state: ModelState, space: Space) -> Iterator[Step]:
    if state.writer_version != state.version and guards.CHANGE_BY_CAS not in space.off:
        return
    from_confirmed = (2 << space.entries) - (1 << state.confirmed)
    pending = ((1 << state.pushed) - 1) & from_confirmed
    for out, leaver in enumerate(state.bookies):
        if not leaver.writes & space.tail:
            continue
        for into, comer in enumerate(state.bookies):
            is_old = is_old_registered(comer)
            if comer.writes & space.tail or not (comer.stage == UP or is_old):
                continue
            bookies = list(state.bookies)
            left = leaver._replace(writes=leaver.writes & ~from_confirmed)
            if guards.VOID_ACKS not in space.off:
                left = left._replace(acked=left.acked & ~from_confirmed, gave=left.gave & ~from_confirmed)
            bookies[out] = left
            knows_old = comer.writer_knows_old if guards.WRITER_ASKS in space.off else 0
            bookies[into] = comer._replace(
                writes=comer.writes | from_confirmed,
                sent=comer.sent | pending,
                gave=comer.gave & ~from_confirmed,
                writer_knows_old=1 if is_old else knows_old,
            )
            named = tuple(it._replace(names=it.writes) for it in bookies)
            yield (
                f"the writer replaces b{out} by b{into} from entry {state.confirmed} on",
                state._replace(
                    bookies=named,
                    phase=OPEN,
                    version=state.version + 1,
                    writer_version=state.version + 1,
                    first=state.confirmed,
                    changes=state.changes - 1,
                ),
            )


def _close(state: ModelState) -> Step:
    bookies = tuple(it._replace(names=it.writes, writes=0, acked=0) for it in state.bookies)
    return f"the writer closes the ledger after {state.confirmed} entries", state._replace(
        bookies=bookies,
        phase=CLOSED,
        version=state.version + 1,
        last=state.confirmed,
        ended=first_end(state, state.confirmed),
        is_writing=0,
    )
