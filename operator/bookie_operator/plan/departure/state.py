"""The stored state of a bookie that leaves: made, changed, or called proven (spec/operator.md#J3, J5). Pure."""

import math
from dataclasses import dataclass

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.status import Departure, LeavingLedger, LeavingStatus, ReferenceLook
from bookie_operator.model.values import format_time, parse_time
from bookie_operator.plan.actions import (
    DeleteChild,
    LeaveStep,
    MarkClaim,
)
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

_TOLD_MAX = 20


@dataclass(frozen=True, slots=True)
class Next:
    """What becomes of one bookie in this pass. `status` None: it stays, or nothing is left of it."""

    status: LeavingStatus | None
    actions: tuple[MarkClaim | DeleteChild, ...] = ()
    steps: tuple[LeaveStep, ...] = ()
    asks_for_turn: bool = False  # nothing but the turn of another cluster keeps it from beginning


def has_begun(stored: LeavingStatus) -> bool:
    """Return True from Draining until the cookie is gone."""
    return stored.state is not Departure.LEAVING and not stored.state.is_gone


def may_be_forgotten(stored: LeavingStatus) -> bool:
    """Return True from the first order to forget the bookie on."""
    return stored.state is Departure.FORGETTING or stored.state.is_gone


def stored(one: Assessed) -> LeavingStatus | None:
    """Return how far the bookie was by the last status."""
    return one.previous.leaving if one.previous is not None else None


def unlisted(seen: Observation) -> str:
    """Return why nobody knows of cookies and registrations."""
    return f"no bookie listed cookies and registrations: {seen.members_problem or 'nobody was asked'}"


def unclean(look: ReferenceLook) -> str:
    """Return the words for a look that is no proof."""
    found = f"{look.by} found {look.references} ledgers that name it"
    return f"{found}, {look.unreadable} of which nobody can read" if look.unreadable else found


def now(
    seen: Observation,
    state: Departure,
    *,
    never_lived: bool = False,
    looks: tuple[ReferenceLook, ...] = (),
    cookie_version: int = -1,
    forgotten_at: str | None = None,
) -> LeavingStatus:
    """Return a departure that gets to `state` in this pass."""
    return LeavingStatus(
        state=state,
        since=format_time(seen.now_ms),
        never_lived=never_lived,
        looks=looks,
        cookie_version=cookie_version,
        forgotten_at=forgotten_at,
    )


def since(seen: Observation, stored: LeavingStatus, state: Departure) -> LeavingStatus:
    """Return `stored`, which gets to `state` in this pass, with all that it has."""
    return stored.model_copy(update={"state": state, "since": format_time(seen.now_ms), "waiting_for": None})


def waits(status: LeavingStatus, why: str) -> LeavingStatus:
    """Return `status` with what it waits for; "" = nothing."""
    return status.model_copy(update={"waiting_for": why[:512] or None})


def is_proven(cluster: Cluster, stored: LeavingStatus) -> bool:
    """Return True when the stored looks are the proof, and both were into this cluster's metadata store."""
    return stored.is_proven and all(look.instance_id == cluster.status.instance_id for look in stored.looks[:2])


def look(seen: Observation, case: BookieCase) -> ReferenceLook:
    """Return what a bookie found in this pass that was asked which ledgers name this one."""
    assert case.references is not None
    reader = next((one.report for one in seen.bookies if one.name == case.references_by), None)
    return ReferenceLook(
        by=case.references_by,
        at=format_time(seen.now_ms),
        references=case.references.count,
        unreadable=case.references.unreadable,
        instance_id=reader.instance_id if reader is not None else "",
    )


def with_progress(seen: Observation, stored: LeavingStatus, one: Assessed) -> LeavingStatus:
    """Return `stored` with how far the drain is."""
    drain = one.case.drain
    assert drain is not None
    done = drain.ledgers_total - drain.ledgers_left
    elapsed_ms = seen.now_ms - parse_time(stored.since)
    is_known = drain.is_draining and done > 0 and drain.ledgers_left > 0
    return stored.model_copy(
        update={
            "ledgers_total": drain.ledgers_total,
            "ledgers_left": drain.ledgers_left,
            "open_ledgers": drain.open_ledgers,
            "entries_copied": drain.entries_copied,
            "bytes_copied": drain.bytes_copied,
            "bytes_per_second": int(drain.bytes_per_second),
            "minutes_left": math.ceil(elapsed_ms * drain.ledgers_left / done / 60_000) if is_known else None,
            "blocked_count": drain.blocked_count,
            "blocked": tuple(
                LeavingLedger(ledger=one.ledger_id, reason=one.reason[:256]) for one in drain.blocked[:_TOLD_MAX]
            ),
        }
    )
