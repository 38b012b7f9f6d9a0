"""Volumes that grow: which claims are asked for the size of the spec now, and what stands in the way. Pure.

A claim is compared with the spec as both are now, so nothing is remembered between passes. One bookie at a time, in the
order of pools and ordinals: the first is the canary, and when its storage cannot grow, no other claim is touched
(spec/operator.md#X2). A claim is never asked for less than its volume has, and no claim is ever made or deleted here. A
volume that grows is the same volume: identity, marks and evidence do not change with its size (#X4).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from bookie_operator.evidence.facts import BookieCase, ClaimFacts, ClaimSize, RefusedSize
from bookie_operator.model.values import format_quantity, parse_quantity
from bookie_operator.plan import rebuild
from bookie_operator.plan.actions import ResizeClaim
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed, Stage

# A kubelet grows a file system that is in use within a minute or two; a driver that cannot needs another start.
FILE_SYSTEM_MS = 5 * 60_000
# What the API server refused is asked for again after this: a quota may have been raised meanwhile.
ASK_AGAIN_MS = 60_000

_INFEASIBLE = ("ControllerResizeInfeasible", "NodeResizeInfeasible", "ControllerResizeFailed", "NodeResizeFailed")
_NODE_STEPS = ("NodeResizePending", "NodeResizeInProgress")
_ERRORS = ("ControllerResizeError", "NodeResizeError")


class GrowthState(Enum):
    """How far one claim is with the size that the spec asks for."""

    DONE = "Done"
    TO_ASK = "ToAsk"  # its request is another one, and may be changed
    UNREADY = "Unready"  # it has no volume yet, or is going: nothing can be asked
    WAITING = "Waiting"  # Kubernetes is at it, or will be
    NEEDS_START = "NeedsStart"  # its file system grows when its pod starts anew
    INFEASIBLE = "Infeasible"  # Kubernetes, the class or the quota cannot do it


@dataclass(frozen=True, slots=True)
class Growth:
    """One claim that does not have the size of the spec yet. `wanted`: a quantity, as the spec says it."""

    bookie: str
    volume: str
    claim: ClaimFacts
    wanted: str
    state: GrowthState
    message: str = ""


@dataclass(frozen=True, slots=True)
class Expansion:
    """Everything about sizes in one pass."""

    growing: tuple[Growth, ...] = ()  # of desired bookies; whatever is done is not listed
    bookies_done: int = 0
    bookies: int = 0
    actions: tuple[ResizeClaim, ...] = ()
    waiting_for: str = ""  # why nothing further is asked for now
    infeasible: str = ""  # what a person must decide

    @property
    def is_going_on(self) -> bool:
        return bool(self.growing)

    @property
    def to_start(self) -> Mapping[str, str]:
        """Return the bookies whose pods must start anew for their file systems to grow, and why."""
        return {one.bookie: one.message for one in self.growing if one.state is GrowthState.NEEDS_START}


def decide(seen: Observation, fleet: tuple[Assessed, ...]) -> Expansion:
    """Return which claims to ask for another size now, if any, and how far all are."""
    desired = [one for one in fleet if _takes_part(one)]
    growing = tuple(growth for one in desired for growth in _of_bookie(seen, one.case))
    if not growing:
        return Expansion(bookies_done=len(desired), bookies=len(desired))
    behind = {growth.bookie for growth in growing}
    infeasible = next((growth for growth in growing if growth.state is GrowthState.INFEASIBLE), None)
    closed = tuple(_closed(seen, fleet, behind))
    # One that is stuck before it has a volume holds up no other.
    able = [growth for growth in growing if growth.state is not GrowthState.UNREADY]
    begun = [growth.bookie for growth in able if growth.state is not GrowthState.TO_ASK]
    turn = next((growth.bookie for growth in able if not begun or growth.bookie == begun[0]), "")
    asked = [growth for growth in able if growth.bookie == turn and growth.state is GrowthState.TO_ASK]
    retried = [infeasible] if infeasible is not None and _may_retry(seen, infeasible) else []
    actions = () if closed else tuple(_resize(growth) for growth in (retried if infeasible is not None else asked))
    waits = [growth.message for growth in growing if growth.state is not GrowthState.TO_ASK]
    return Expansion(
        growing=growing,
        bookies_done=len(desired) - len(behind),
        bookies=len(desired),
        actions=actions,
        waiting_for="; ".join((*closed, *waits)),
        infeasible=_told(seen, infeasible) if infeasible is not None else "",
    )


def classify(
    claim: ClaimFacts,
    wanted: Decimal,
    now_ms: int,
    refused: RefusedSize | None = None,
    *,
    pod_since_ms: int | None = None,
) -> GrowthState:
    """Return how far `claim` is with `wanted` bytes. The first row that fits decides. `pod_since_ms`: when the pod that
    uses it was made; None: there is none."""
    size = claim.size
    for state, fits in _rows(claim, size, wanted, now_ms, refused, pod_since_ms):
        if fits:
            return state
    return GrowthState.WAITING


def _rows(
    claim: ClaimFacts,
    size: ClaimSize | None,
    wanted: Decimal,
    now_ms: int,
    refused: RefusedSize | None,
    pod_since_ms: int | None,
) -> Iterator[tuple[GrowthState, bool]]:
    yield GrowthState.UNREADY, size is None or claim.is_terminating
    if size is None:
        return
    # A claim without a volume gets one of at least its request; Kubernetes changes no request before.
    yield GrowthState.DONE, not size.is_bound and size.requested >= wanted
    yield GrowthState.UNREADY, not size.is_bound
    yield GrowthState.DONE, size.capacity >= wanted
    is_refused = refused is not None and parse_quantity(refused.size) == wanted
    yield GrowthState.INFEASIBLE, size.requested != wanted and is_refused
    yield GrowthState.TO_ASK, size.requested != wanted
    # A step that is about another size than the one asked for now is of a request that was corrected since.
    is_of_this = size.step_size is None or size.step_size == wanted
    yield GrowthState.INFEASIBLE, size.step in _INFEASIBLE and is_of_this
    pending_ms = size.pending_since_ms
    # One start, and not one after the other: a pod that began after that would have grown it.
    is_older = pending_ms is not None and pod_since_ms is not None and pod_since_ms < pending_ms
    yield GrowthState.NEEDS_START, is_older and pending_ms is not None and now_ms - pending_ms >= FILE_SYSTEM_MS


def is_done(claim: ClaimFacts | None, wanted: str) -> bool:
    """Return True when nothing keeps a claim template of `wanted` from being that of this claim. A claim that does not
    exist is made from the template."""
    return claim is None or classify(claim, parse_quantity(wanted), 0) is GrowthState.DONE


def floor(growing: Iterable[Growth]) -> dict[str, str]:
    """Return, by volume, the least that any of its claims has: what the spec may be set back to (#X1)."""
    least: dict[str, Decimal] = {}
    for growth in growing:
        size = growth.claim.size
        if size is not None and size.capacity:
            least[growth.volume] = min(least.get(growth.volume, size.capacity), size.capacity)
    return {volume: format_quantity(capacity) for volume, capacity in least.items()}


def _takes_part(one: Assessed) -> bool:
    """Return False for a bookie whose claims nobody needs again: it left, or is between its proof and its end. Its pod
    is gone or goes, so that no kubelet would end what is asked for (spec/operator.md#X2)."""
    if not one.case.is_desired or one.stage is Stage.RETIRED:
        return False
    return one.leaving is None or not (one.leaving.state.is_near_its_end or one.leaving.state.is_gone)


def is_kept(case: BookieCase, claim: ClaimFacts) -> bool:
    """Return True for a claim of a bookie that left, which only waits for its deletion."""
    return bool(claim.retired_at) and case.pod is None


def _of_bookie(seen: Observation, case: BookieCase) -> Iterator[Growth]:
    spec = seen.cluster.spec.of(case.pool)
    wanted = {volume.name: volume.size for _, volume in spec.storage.by_role()}
    if rebuild.is_to_be_rebuilt(seen.cluster.spec, case):
        return  # its claims are made anew, with the size of the spec
    for volume in case.volumes:
        if volume.claim is None or volume.claim.size is None or volume.name not in wanted:
            continue
        if is_kept(case, volume.claim):
            continue
        size, refused = wanted[volume.name], seen.refused_sizes.get(volume.claim.uid)
        since_ms = case.pod.created_ms if case.pod is not None else None
        state = classify(volume.claim, parse_quantity(size), seen.now_ms, refused, pod_since_ms=since_ms)
        if state is not GrowthState.DONE:
            message = _message(volume.claim, size, state, refused)
            yield Growth(case.name, volume.name, volume.claim, size, state, message)


def _message(claim: ClaimFacts, wanted: str, state: GrowthState, refused: RefusedSize | None) -> str:
    size = claim.size
    assert size is not None, "what cannot be read is not listed"
    if claim.is_terminating:
        return f"claim {claim.name} is being deleted"
    if not size.is_bound:
        return f"claim {claim.name} has no volume yet"
    way = f"claim {claim.name} ({format_quantity(size.capacity)}, to become {wanted})"
    if state is GrowthState.INFEASIBLE and refused is not None and size.requested != parse_quantity(wanted):
        return f"{way}: {refused.words}"
    error = next((f": {kind}: {words}" for kind, words in size.conditions.items() if kind in _ERRORS), "")
    if state is GrowthState.INFEASIBLE:
        return f"{way}: {size.step}{error}"
    if state is GrowthState.NEEDS_START:
        return f"{way}: its volume has grown, its file system grows when its pod starts anew"
    if state is GrowthState.TO_ASK:
        return f"{way} is not asked for it yet"
    if "FileSystemResizePending" in size.conditions or size.step in _NODE_STEPS:
        return f"{way}: its volume has grown, the kubelet has yet to enlarge the file system{error}"
    if "Resizing" in size.conditions or size.step:
        return f"{way}: its volume is being enlarged{error}"
    return f"{way}: no controller has begun to enlarge its volume (the driver of its class needs a resizer){error}"


def _closed(seen: Observation, fleet: tuple[Assessed, ...], behind: set[str]) -> Iterator[str]:
    """Return why no claim may be asked for another size now."""
    if seen.cluster.spec.lifecycle.paused:
        yield "spec.lifecycle.paused is true"
    if not seen.leadership.is_held:
        yield "this operator does not hold the lease"
    for one in fleet:
        if one.is_dataless:
            yield f"{one.case.name} is without its data"
        elif _takes_part(one) and one.case.name not in behind and one.has_lived and not one.stage.serves:
            # The canary above all: what grew must be seen to serve before the next one grows.
            yield f"{one.case.name}, whose volumes have their size, is {one.stage.value}"


def _may_retry(seen: Observation, growth: Growth) -> bool:
    refused = seen.refused_sizes.get(growth.claim.uid)
    is_asked = growth.claim.size is not None and growth.claim.size.requested == parse_quantity(growth.wanted)
    return refused is not None and not is_asked and seen.now_ms - refused.at_ms >= ASK_AGAIN_MS


def _resize(growth: Growth) -> ResizeClaim:
    claim = growth.claim
    return ResizeClaim(claim.name, claim.uid, claim.resource_version, growth.wanted)


def _told(seen: Observation, growth: Growth) -> str:
    size = growth.claim.size
    assert size is not None, "what cannot be read is not listed"
    before = format_quantity(size.capacity)
    rest = "no other claim was touched after it"
    return (
        f"{growth.message}; {rest}: correct the class, the quota or the size of volume {growth.volume} in spec.storage;"
        f" setting it back to {before} is enough (claims that have grown stay larger, and harm nobody)"
    )
