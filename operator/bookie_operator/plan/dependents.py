"""Which bookies may be away, or without their data, together: more than the ack quorum survives. Pure.

A node that has several bookies (spec.pools[].perNode) takes all of them along: it is drained, or lost, as one. Counted
as bookies they are as many as an ack quorum; counted by what is written on them they may be one loss, since placement
keeps the copies of an entry on different machines (spec/metadata.md#M43). But it prefers and does not promise: few
nodes, an old ledger or a Java client may have put two copies there. So nothing here counts nodes. A bookie reads the
metadata of every ledger, after the bookies in question had stopped, and says whether any ledger depends on them
(spec/metadata.md#M54, spec/operator.md#N8). Only "none" opens anything; what nobody looked at yet, or not lately, stays
closed.

A look is kept in the memory of this operator process alone: whoever comes next looks again.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.plan.observation import DependentsLook, Observation
from bookie_operator.plan.stages import Assessed

# A look is made anew after this time, while its answer is still needed, and proves nothing after that.
_AGAIN_MS, _VALID_MS = 60_000, 180_000
_SHOWN_MAX = 4


@dataclass(frozen=True, slots=True)
class Question:
    """Whom to ask which ledgers depend on `bookies` (by name; `ids`: by id). `marks`: see `DependentsLook`."""

    reader: BookieCase
    bookies: tuple[str, ...]
    ids: tuple[str, ...]
    marks: tuple[tuple[str, str], ...]


def may_share(seen: Observation) -> bool:
    """Return True where bookies may share a node, and an entry has a second copy at all. False: nothing here is asked,
    and bookies are counted one by one."""
    spec = seen.cluster.spec
    return spec.shares_nodes and spec.tolerance > 0


def why_not(seen: Observation, fleet: tuple[Assessed, ...], bookies: Collection[str]) -> str:
    """Return why it is not proven that no ledger depends on `bookies`; "" when it is."""
    told = _names(bookies)
    if not may_share(seen) or len(bookies) > _most(seen):
        return f"{told} are more bookies than nodes that may fail together have"
    looks = [look for look in seen.dependents if _is_about(seen, fleet, look, bookies)]
    if not looks:
        return f"no bookie has looked yet which ledgers have an ack quorum of their copies on {told} alone"
    best = min(looks, key=lambda look: (bool(look.problem), look.count))
    if best.problem:
        return f"no bookie could look which ledgers have an ack quorum of their copies on {told} alone: {best.problem}"
    if best.count:
        return f"{best.count} ledgers may have an ack quorum of their copies on {told} alone ({best.first})"
    return ""


def to_ask(seen: Observation, fleet: tuple[Assessed, ...], sets: Iterable[Collection[str]]) -> tuple[Question, ...]:
    """Return what to ask now, of the sets of bookies that a plan needs to know of: what no look of a while ago
    answers."""
    if not may_share(seen):
        return ()
    by_name = {one.case.name: one for one in fleet}
    found: dict[tuple[str, ...], Question] = {}
    for bookies in (tuple(sorted(one)) for one in sets):
        reader = _reader(seen, bookies)
        if len(bookies) < 2 or len(bookies) > _most(seen) or reader is None or _is_known(seen, fleet, bookies):
            continue
        marks = tuple((name, _mark(by_name[name])) for name in bookies if _is_out(by_name[name]))
        found[bookies] = Question(reader, bookies, tuple(by_name[name].case.bookie_id for name in bookies), marks)
    return tuple(found.values())


def is_breached(seen: Observation, fleet: tuple[Assessed, ...]) -> bool:
    """Return True when acknowledged entries may be on no bookie any more, as far as anybody knows
    (spec/operator.md#G4)."""
    dataless = dataless_beyond(seen, fleet)
    return bool(dataless) and bool(why_not(seen, fleet, dataless))


def dataless_beyond(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[str, ...]:
    """Return the bookies without their data where they are more than the ack quorum survives; () where not."""
    dataless = tuple(one.case.name for one in fleet if one.is_dataless)
    return dataless if len(dataless) > seen.cluster.spec.tolerance else ()


def _most(seen: Observation) -> int:
    """Return how many bookies the nodes have together that the ack quorum survives."""
    spec = seen.cluster.spec
    return spec.tolerance * max((pool.node_max for pool in spec.pools or ()), default=1)


def _is_out(one: Assessed) -> bool:
    return not one.stage.serves


def _mark(one: Assessed) -> str:
    """Return what changes when the bookie serves again, whoever sees it."""
    pod = one.case.pod
    return f"{pod.uid if pod is not None else ''}/{one.incarnation}/{one.away_since_ms}"


def _is_about(seen: Observation, fleet: tuple[Assessed, ...], look: DependentsLook, bookies: Collection[str]) -> bool:
    """Return True when `look` says something of `bookies` as they are now: whoever of them is out was out since before
    it began, whoever was out then is out still, and it is no look of long ago. Of what is written after a look two that
    served then may have the only copies."""
    if not set(bookies) <= set(look.bookies):
        return False
    marks = dict(look.marks)
    for one in fleet:
        known = marks.get(one.case.name)
        if known is None and one.case.name in bookies and _is_out(one):
            return False
        if known is not None and (known != _mark(one) or look.began_ms < (one.away_since_ms or 0)):
            return False
    # One of the future is of a clock that was set back: nobody knows how long ago it was.
    return 0 <= seen.now_ms - look.ended_ms <= _VALID_MS


def _is_known(seen: Observation, fleet: tuple[Assessed, ...], bookies: tuple[str, ...]) -> bool:
    return any(
        len(bookies) == len(look.bookies)
        and _is_about(seen, fleet, look, bookies)
        and seen.now_ms - look.ended_ms < _AGAIN_MS
        for look in seen.dependents
    )


def _reader(seen: Observation, bookies: Collection[str]) -> BookieCase | None:
    """Return a bookie, none of `bookies`, that can look into the pinned metadata store."""
    return next((case for case in seen.readers() if case.name not in bookies), None)


def _names(bookies: Collection[str]) -> str:
    shown = sorted(bookies)[:_SHOWN_MAX]
    return " and ".join(shown) + (f" and {len(bookies) - len(shown)} more" if len(bookies) > len(shown) else "")
