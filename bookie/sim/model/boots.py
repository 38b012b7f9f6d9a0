"""How bookies lose data, come back, and are repaired. Pure."""

from collections.abc import Iterator

from bookie.sim.model import doubts, guards
from bookie.sim.model.states import (
    ABSENT,
    BOUND_TOO_EARLY,
    CLAIMED,
    CLOSED,
    IN_RECOVERY,
    LOST,
    MARKED,
    OPEN,
    SOFT_DOUBT,
    SOFT_FENCE,
    SOFT_LIMBO,
    TARGET,
    TARGET_OF_BEFORE,
    UNCLEAN,
    UNEXAMINED,
    UNMARKED,
    UP,
    ModelBookie,
    ModelState,
    Space,
    holds,
    may_lose,
    serves,
    with_bookie,
)

Step = tuple[str, ModelState]


def steps(state: ModelState, space: Space) -> Iterator[Step]:
    """Yield what may happen next."""
    may = may_lose(state, space)
    for index, bookie in enumerate(state.bookies):
        if bookie.stage == UP:
            yield from _losses(state, index, space, may=may)
            yield from _repair(state, index, space)
            if bookie.doubt == UNEXAMINED:
                yield from doubts.examines(state, index, space)
        else:
            yield from _boot(state, index, space)


def _new_life(bookie: ModelBookie) -> int:
    return TARGET_OF_BEFORE if bookie.part == TARGET else bookie.part


def _emptied(bookie: ModelBookie) -> ModelBookie:
    """Return what the world still knows of a bookie whose volumes are gone, and nothing that was on them."""
    return ModelBookie(
        stage=LOST,
        names=bookie.names,
        writes=bookie.writes,
        sent=bookie.sent,
        acked=bookie.acked,
        recovers=bookie.recovers,
        said=bookie.said,
        gave=bookie.gave,
        part=_new_life(bookie),
        old=bookie.old,
        writer_knows_old=bookie.writer_knows_old,
        recovery_knows_old=bookie.recovery_knows_old,
        named=bookie.named,
    )


def _losses(state: ModelState, index: int, space: Space, *, may: bool) -> Iterator[Step]:
    bookie = state.bookies[index]
    if may and state.wipes:
        gone = _emptied(bookie)
        lost = with_bookie(state, index, gone)
        yield f"b{index} loses its volumes", state._replace(bookies=lost, wipes=state.wipes - 1)
    if may and state.twins and not bookie.old:
        young = _emptied(bookie)._replace(
            old=(bookie.has, bookie.fenced, 1),
            writer_knows_old=1,
            recovery_knows_old=int(bookie.recovers != 0),
        )
        twins = with_bookie(state, index, young)
        yield (
            f"b{index} is made again, empty, while its old process lives",
            state._replace(bookies=twins, twins=state.twins - 1),
        )
    if state.kills and (bookie.soft or ((bookie.memory or bookie.flushing) and may)):
        yield _kill(state, index, space)
    if space.upgrades and not (bookie.memory or bookie.flushing or bookie.soft):
        other = bookie._replace(plain=1 - bookie.plain, touch=0, part=_new_life(bookie))
        said = f"b{index} stops in good order, and its next life makes {'touches' if bookie.plain else 'no touches'}"
        yield said, state._replace(bookies=with_bookie(state, index, other))
    if bookie.memory and not bookie.flushing:
        begun = bookie._replace(flushing=bookie.memory, memory=0, touch_flushing=bookie.touch, touch=0)
        yield f"b{index} begins a checkpoint", state._replace(bookies=with_bookie(state, index, begun))
    if bookie.flushing:
        ended = bookie._replace(has=bookie.has | bookie.flushing, flushing=0, touch_flushing=0)
        yield f"b{index} ends the checkpoint", state._replace(bookies=with_bookie(state, index, ended))
        kept = bookie.touch if guards.TOUCH_OUTLIVES_FAILURE in space.off else bookie.touch | bookie.touch_flushing
        failed = bookie._replace(memory=bookie.memory | bookie.flushing, flushing=0, touch=kept, touch_flushing=0)
        yield f"the checkpoint of b{index} fails", state._replace(bookies=with_bookie(state, index, failed))


def _kill(state: ModelState, index: int, space: Space) -> Step:
    bookie = state.bookies[index]
    is_unclean = (bookie.memory or bookie.flushing) and guards.MARKER not in space.off
    ended = bookie._replace(
        stage=UNCLEAN if is_unclean else UP,
        memory=0,
        flushing=0,
        seen=0,
        doubt=0 if bookie.soft & SOFT_DOUBT else bookie.doubt,
        soft=0,
        fenced=0 if bookie.soft & SOFT_FENCE else bookie.fenced,
        limbo=0 if bookie.soft & SOFT_LIMBO else bookie.limbo,
        part=_new_life(bookie),
    )
    return f"b{index} is killed", state._replace(bookies=with_bookie(state, index, ended), kills=state.kills - 1)


def _boot(state: ModelState, index: int, space: Space) -> Iterator[Step]:
    bookie = state.bookies[index]

    def step(said: str, changed: ModelBookie) -> Step:
        return f"b{index} {said}", state._replace(bookies=with_bookie(state, index, changed))

    if bookie.stage == MARKED:
        yield step("serves", bookie._replace(stage=UP, plain=0))
        if space.upgrades:
            yield step("serves, and makes no touches", bookie._replace(stage=UP, plain=1))
        return
    if guards.BOUND_AFTER_CLAIM in space.off and bookie.stage == LOST and state.phase == ABSENT and not bookie.seen:
        yield step("reads its bound before its claim", bookie._replace(seen=BOUND_TOO_EARLY))
    if bookie.stage == LOST and guards.CLAIM not in space.off:
        old = (*bookie.old[:2], 0) if bookie.old else ()
        yield step("claims its identity", bookie._replace(stage=CLAIMED, old=old))
        return
    if bookie.stage != UNMARKED and guards.MARKS_BEFORE_SERVING in space.off:
        yield step("serves before its marks", bookie._replace(stage=UNMARKED))
    if (
        state.phase == ABSENT
        or (space.doubts and bookie.stage != UNCLEAN)
        or (space.touches and bookie.stage == UNCLEAN and believes_touches(bookie, space))
    ):
        yield from (step(said, changed._replace(stage=MARKED)) for said, changed in doubts.boots(state, bookie, space))
        return
    records = [(state.phase, bookie.names)]
    if guards.SYNC_BEFORE_READ in space.off:
        records += [(phase, names) for (phase, _), names in zip(state.older, bookie.named, strict=True)]
    for phase, names in records:
        marked = _marked(bookie, phase, names, space)
        marked = marked._replace(stage=UP if bookie.stage == UNMARKED else MARKED)
        what = f"{'fence' if marked.fenced else 'no fence'}, {'limbo' if marked.limbo else 'no limbo'}"
        state_word = ("OPEN", "IN_RECOVERY", "CLOSED")[phase]
        yield step(f"reads {state_word}{'' if names else ', which does not name it'}, and marks: {what}", marked)


def believes_touches(bookie: ModelBookie, space: Space) -> bool:
    """Return True when what has no touch lost nothing: the marker says that the life which crashed made touches."""
    return not bookie.plain or guards.TOUCH_MARKER in space.off


def _marked(bookie: ModelBookie, phase: int, names: int, space: Space) -> ModelBookie:
    """The table of docs/INTEGRITY.md, "Phase one"."""
    has_lost_fences = bookie.stage != UNCLEAN
    in_recovery = phase == IN_RECOVERY and guards.LIMBO_IN_RECOVERY not in space.off
    limbo = bool(names) or in_recovery
    if phase == CLOSED and guards.LIMBO_CLOSED in space.off:
        limbo = False
    fence = phase != OPEN and has_lost_fences and guards.FENCE_OF_PHASE_ONE not in space.off
    soft = (SOFT_FENCE * fence | SOFT_LIMBO * limbo) if guards.MARKS_DURABLE in space.off else 0
    return bookie._replace(fenced=bookie.fenced | int(fence), limbo=bookie.limbo | int(limbo), soft=bookie.soft | soft)


def _repair(state: ModelState, index: int, space: Space) -> Iterator[Step]:
    """Phase two, and garbage collection."""
    bookie = state.bookies[index]
    if not bookie.limbo:
        if bookie.doubt == UNEXAMINED and guards.COLLECTOR_LEAVES_DOUBT not in space.off:
            return
        if space.collects and state.phase == CLOSED and not bookie.names and (bookie.has or bookie.fenced):
            kept = 0 if guards.COLLECTOR_KEEPS_FENCES in space.off else bookie.fenced
            if bookie.has or kept != bookie.fenced:
                gone = bookie._replace(has=0, memory=0, fenced=kept, gave=0)
                yield f"b{index} collects the ledger", state._replace(bookies=with_bookie(state, index, gone))
        return
    ours = bookie.names & ((1 << (state.last if state.phase == CLOSED else state.first)) - 1)
    is_sealed = state.phase == CLOSED or (state.phase == OPEN and not bookie.names & space.tail)
    if not is_sealed and guards.CLEAR_SEALED not in space.off:
        return
    missing = ours & ~bookie.has
    found = 0
    for other, it in enumerate(state.bookies):
        if other != index and serves(it):
            found |= holds(it) & it.names & missing
    if guards.COPY_BEFORE_CLEAR in space.off:
        found = missing = 0
    if missing & ~found:
        return  # blocked: listed with its reason
    is_closed = state.phase == CLOSED
    whole = bookie._replace(has=bookie.has | found, limbo=0, fenced=bookie.fenced | int(is_closed), soft=0)
    if guards.FENCE_OF_PHASE_ONE in space.off:
        whole = whole._replace(fenced=bookie.fenced)
    said = f"b{index} has fetched what it misses, and leaves limbo" if found else f"b{index} leaves limbo"
    yield said, state._replace(bookies=with_bookie(state, index, whole))
