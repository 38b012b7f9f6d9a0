"""Phase one in constant time, on paper: a boot doubts every ledger below a bound and looks at each later. Pure.

The product does it with `phaseOne=bound` (`integrity.phase_one.bound`, `integrity.examining`), and the touches with
`touchUnjournaledLedgers` (`storage.store`, `storage.replay`). Rules: decisions/0021 and 0025.
"""

from collections.abc import Iterator

from bookie.sim.model import guards
from bookie.sim.model.states import (
    ABSENT,
    BOUND_TOO_EARLY,
    CLOSED,
    FENCES,
    IN_RECOVERY,
    NO_DOUBT,
    NOT_READ,
    OPEN,
    SEEN_BOTH,
    SEEN_CLEAN,
    SEEN_FENCES,
    SEEN_LIMBO,
    SOFT_DOUBT,
    SOFT_LIMBO,
    UNCLEAN,
    UNEXAMINED,
    ModelBookie,
    ModelState,
    Space,
    with_bookie,
)

_WORDS = ("OPEN", "IN_RECOVERY", "CLOSED")
_EXAMINED = {SEEN_CLEAN: "clean", SEEN_LIMBO: "limbo", SEEN_BOTH: "fence and limbo", SEEN_FENCES: "fence"}


def boots(state: ModelState, bookie: ModelBookie, space: Space) -> Iterator[tuple[str, ModelBookie]]:
    """Yield what a boot makes of the ledger without its record: rules 1 and 2 after a loss, rule 4 after a crash."""
    if bookie.stage == UNCLEAN and space.touches:
        limbo = bookie.limbo | bookie.touch | bookie.touch_flushing
        soft, touch = 0, 0
        if guards.TOUCH_OUTLIVES_REPLAY in space.off:
            soft = SOFT_LIMBO * limbo
        yield (
            ("finds its touch: limbo" if limbo else "finds no touch"),
            bookie._replace(limbo=limbo, soft=soft, touch=touch, touch_flushing=0),
        )
        return
    is_below = state.phase != ABSENT
    if is_below and bookie.seen == BOUND_TOO_EARLY:
        yield "uses its early bound, which the ledger is not below", bookie._replace(seen=NOT_READ)
        return
    if not is_below or not space.doubts:
        yield "finds no such ledger", bookie._replace(seen=NOT_READ)
        return
    soft = SOFT_DOUBT if guards.DOUBT_DURABLE in space.off else 0
    yield "doubts every ledger below the bound, this one too", bookie._replace(doubt=UNEXAMINED, soft=soft)


def examines(state: ModelState, index: int, space: Space) -> Iterator[tuple[str, ModelState]]:
    """Rule 3: one read after the claim, and later one write of what follows from it."""
    bookie = state.bookies[index]

    def step(said: str, changed: ModelBookie) -> tuple[str, ModelState]:
        return f"b{index} {said}", state._replace(bookies=with_bookie(state, index, changed))

    if bookie.seen == NOT_READ:
        records = [(state.phase, bookie.names)]
        if guards.EXAMINE_AFTER_CLAIM in space.off:
            records += [(phase, names) for (phase, _), names in zip(state.older, bookie.named, strict=True)]
        for phase, names in records:
            if phase == ABSENT:
                continue
            said = f"examines: {_WORDS[phase]}{'' if names else ', which does not name it'}"
            yield step(said, bookie._replace(seen=_seen(phase, names, space)))
        return
    limbo = bookie.seen in (SEEN_LIMBO, SEEN_BOTH)
    fence = bookie.seen == SEEN_BOTH
    kept = bookie.fenced if guards.EXAMINE_KEEPS_FENCE not in space.off else 0
    stays = FENCES if bookie.seen == SEEN_FENCES and guards.NOT_NAMED_STAYS_FENCED not in space.off else NO_DOUBT
    yield step(
        f"writes what it examined: {_EXAMINED[bookie.seen]}",
        bookie._replace(fenced=kept | fence, limbo=int(limbo), doubt=stays, seen=NOT_READ),
    )


def _seen(phase: int, names: int, space: Space) -> int:
    if phase == OPEN:
        return SEEN_LIMBO if names and guards.OPEN_NAMED_IS_LIMBO not in space.off else SEEN_CLEAN
    if phase == IN_RECOVERY:
        return SEEN_BOTH if names or guards.LIMBO_IN_RECOVERY not in space.off else SEEN_FENCES
    assert phase == CLOSED
    return SEEN_BOTH if names and guards.LIMBO_CLOSED not in space.off else SEEN_FENCES
