"""Who may take a bookie away of its own will: one table for all workflows (spec/operator.md#Y1). Pure.

A bookie that is stopped although it could serve has a *turn*, and a fleet has one turn at a time. A turn is stored
before its bookie hears of it, so the stored status, with what this pass has decided so far, tells all turns. The rule
is the same for everybody, so the table is short:

    asks                     has a turn: Departure         Eviction              Rollout
    Departure                the last of them goes on      waits                 waits
    Eviction                 gives back, or waits          the one bookie        gives back, or waits
    Rollout                  gives back, or waits          gives back, or waits  the one bookie

*Waits*: it begins nothing, and takes no further step. *Gives back*: a bookie that has its turn, and is still there,
takes writes again, and the turn is forgotten. A departure gives nothing back: nothing of it is away before its pod
goes, and then nobody needs it. What is given back is given back to its end, and after the sixth in a row comes a rest
(#Y5): a gate that opens and closes in each pass must not have a bookie flush for ever. So two turns that stand in one
status (restored from a backup, say) end one after the other.

A fleet that goes to sleep, sleeps or wakes (plan/hibernation.py) has the turn of all bookies, and `plan/fleet.py` asks
no other workflow for a step meanwhile; it begins only in a pass in which no turn is taken.

A workflow that is new joins in one of three ways. The first two need nothing here:

- a pod that ends and comes back with the same claims asks the roll-out: `rollout.decide(restart=..., to_start=...)`;
- a bookie that goes for good, or for a new life after its ledgers were moved away, goes through `plan/leaving.py`;
- any other gets a member of `Work`, its stored turn in `_taken`, asks `in_the_way` (with the gates of
  `stop_gates.closed`) before it begins and before each further step, is decided in `plan/fleet.py` one after the
  other (what it began is in the status that the next one sees), and gives its stop to `at_most_one` there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from bookie_operator.model.status import (
    EvictionStatus,
    HibernationState,
    HibernationStatus,
    LeavingStatus,
    RolloutStatus,
    TakenBack,
)
from bookie_operator.model.values import format_time, parse_time
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

# A gate that closes now and then takes a turn back, which costs nothing but a flush. One that opens and closes in each
# pass (a bookie that says two things by turns) would have a bookie flush, and its writers go away, for ever.
_AT_ONCE = 5
_REST_MS, _REST_MS_MAX = 30_000, 15 * 60_000
_FORGOTTEN_MS = 60 * 60_000
_COUNT_MAX = 1_000
WHY_MAX = 256  # of the reason why a turn is taken back, as it is stored


class Work(Enum):
    """What takes bookies away of its own will."""

    DEPARTURE = "Departure"  # proven to be named by no ledger; from the proof to the end of its identity
    EVICTION = "Eviction"  # from a node that is drained
    ROLLOUT = "Rollout"  # for another pod: an edit of the spec, a Restart, a file system that grows at a start


@dataclass(frozen=True, slots=True)
class TakenTurn:
    """`words`: what the turn is, as the reason why others wait."""

    work: Work
    bookie: str
    words: str


def in_the_way(seen: Observation, fleet: Iterable[Assessed], asks: Work, bookie: str) -> str:
    """Return why `asks` must not take `bookie` away, or go on with it; "" when no turn is in its way."""
    taken = _taken(seen, fleet)
    own = next((one for one in taken if one.work is asks), None)
    if own is not None and own.bookie != bookie:
        return own.words
    return next((one.words for one in taken if one.work is not asks), "")


def is_any(seen: Observation, fleet: Iterable[Assessed], *, but: Work) -> bool:
    """Return True when somebody has a turn, beside those of `but`."""
    return any(one.work is not but for one in _taken(seen, fleet))


def told(seen: Observation, fleet: Iterable[Assessed]) -> tuple[str, ...]:
    """Return the words of every turn: a fleet does not go to sleep before they have ended (plan/hibernation.py)."""
    return tuple(one.words for one in _taken(seen, fleet))


def rest(seen: Observation, fleet: Iterable[Assessed], asks: Work) -> str:
    """Return why `asks` begins no turn yet: the last ones were all taken back. "" = it may, or has one."""
    return "" if any(one.work is asks for one in _taken(seen, fleet)) else rest_of_all(seen)


def rest_of_all(seen: Observation) -> str:
    """Return until when nobody begins a turn, and why; "" = somebody may."""
    known = seen.cluster.status.taken_back
    if known is None or known.count <= _AT_ONCE:
        return ""
    at_ms = parse_time(known.at)
    end_ms = at_ms + min(_REST_MS << min(known.count - _AT_ONCE - 1, 10), _REST_MS_MAX)
    if not at_ms <= seen.now_ms < end_ms:
        return ""
    return (
        f"{known.count} turns in a row were taken back, the last one that of {known.bookie} ({known.why}): no other"
        f" begins before {format_time(end_ms)}"
    )


def taken_back(
    seen: Observation,
    fleet: Iterable[Assessed],
    evicted: EvictionStatus | None,
    rolled: RolloutStatus,
    asleep: HibernationStatus | None,
) -> TakenBack | None:
    """Return what is to be remembered of turns that were taken back. `evicted`, `rolled`, `asleep`: after this pass."""
    status, known = seen.cluster.status, seen.cluster.status.taken_back
    left = evicted.turn if evicted is not None else None
    steps = (
        (status.eviction.turn if status.eviction else None, left, evicted.waiting_for if evicted is not None else None),
        (status.rollout.step if status.rollout else None, rolled.step, rolled.waiting_for),
    )
    ended = [
        (old, old.given_back_for or why or "a gate closed")
        for old, new, why in steps
        if old is not None and (new is None or new.pod_uid != old.pod_uid)
    ]
    there = [one.case.pod.uid for one in fleet if one.case.pod is not None and not one.case.pod.is_terminating]
    back = [(old.bookie, why) for old, why in ended if old.pod_uid in there]
    was, now = (one.state if one is not None else None for one in (status.hibernation, asleep))
    if was is HibernationState.STOPPING and now is HibernationState.WAKING and seen.cluster.spec.lifecycle.hibernate:
        back.append(("the whole fleet", (asleep and asleep.waiting_for) or "a gate closed"))
    if known is not None and seen.now_ms - parse_time(known.at) >= _FORGOTTEN_MS:
        known = None
    if not back:
        return None if ended else known
    bookie, why = back[0]
    count = min((known.count if known is not None else 0) + 1, _COUNT_MAX)
    return TakenBack(count=count, at=format_time(seen.now_ms), bookie=bookie, why=why[:WHY_MAX])


def at_most_one(stopped: Iterable[str]) -> None:
    """Assert that one pass takes at most one bookie away that could serve, whatever the workflows concluded.
    `stopped`: their names; "" for none."""
    found = sorted({one for one in stopped if one})
    assert len(found) <= 1, f"one pass takes {' and '.join(found)} away"


def _taken(seen: Observation, fleet: Iterable[Assessed]) -> tuple[TakenTurn, ...]:
    """Return the turns that are stored, or that this pass began."""
    status = seen.cluster.status
    found = [
        TakenTurn(Work.DEPARTURE, one.case.name, f"{one.case.name} leaves now, and is {leaving.state.value}")
        for one in sorted(fleet, key=_last_first, reverse=True)
        if (leaving := _leaving(one)) is not None and leaving.state.is_near_its_end and not leaving.never_lived
    ]
    evicted = status.eviction.turn if status.eviction is not None else None
    if evicted is not None:
        words = f"{evicted.bookie} leaves node {evicted.node}, which is drained"
        found.append(TakenTurn(Work.EVICTION, evicted.bookie, words))
    step = status.rollout.step if status.rollout is not None else None
    if step is not None:
        found.append(TakenTurn(Work.ROLLOUT, step.bookie, f"it is the turn of {step.bookie} in the roll-out"))
    return tuple(found)


def _last_first(one: Assessed) -> tuple[str, int, str]:
    """Sorts as bookies leave, backwards: by pool, then by number."""
    return one.case.pool, len(one.case.name), one.case.name


def _leaving(one: Assessed) -> LeavingStatus | None:
    """Return how far the bookie is by this pass, or as it is stored, where this pass has not decided that yet."""
    stored = one.previous.leaving if one.previous is not None else None
    return one.leaving if one.leaving is not None else stored
