"""Who may leave, who is asked which ledgers name it, and whose drain it is (spec/operator.md#J1, J5, Y4)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import DrainStatus, Member, State
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus, BookieStatus, Departure, LeavingStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet, leaving
from bookie_operator.plan.actions import CancelDrain

FIRST, LAST, READER, OTHER = "ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0"
HOUR_MS = 3_600_000
DRAINS = DrainStatus(is_draining=True, is_empty=True)


def look(by: str, **changes: Any) -> dict[str, Any]:
    at = format_time(make.NOW_MS - HOUR_MS)
    return {"by": by, "at": at, "references": 0, "instance_id": "instance"} | changes


def stored(name: str, state: Departure, *looks: dict[str, Any], **changes: Any) -> BookieStatus:
    """What the last status said of one that leaves."""
    told = {"state": state, "since": format_time(make.NOW_MS - HOUR_MS), "looks": looks} | changes
    known = {"name": name, "bookie_id": f"data.{name}", "pool": "zone-a", "state": "ReadOnly", "verdict": "Clean"}
    since = format_time(make.NOW_MS)
    return BookieStatus(**known, reason="", since=since, leaving=LeavingStatus.model_validate(told), has_lived=True)


def bookies(**changes: dict[str, Any]) -> tuple[BookieCase, ...]:
    """Four that serve; `first`, `last`: changes of those of zone-a; `rest`: of the two others."""
    by_name = {FIRST: changes.get("first", {}), LAST: changes.get("last", {})}
    return tuple(
        replace(
            case,
            **{"member": Member(case.bookie_id, True, True, is_writable=True), "is_listed": True}
            | by_name.get(case.name, changes.get("rest", {})),
        )
        for case in make.fleet()
    )


def status(*of: BookieStatus) -> BookieClusterStatus:
    return BookieClusterStatus(observed_generation=1, instance_id="instance", bookies=of)


# ---- who is asked -------------------------------------------------------------------------------------------------


def asked(of: BookieStatus, **changes: dict[str, Any]) -> list[str]:
    """Who is asked which ledgers name the last of zone-a."""
    found = leaving.questions(make.cluster(status(of)), bookies(**changes), make.NOW_MS)
    return [reader.name for case, reader in found if case.name == LAST]


DRAINING = {"drain": DRAINS, "is_leaving": True}
OFF = {"pod": None, "report": None}


def test_the_second_look_is_anothers_and_only_that_one_may_be_its_own() -> None:
    first, second = stored(LAST, Departure.DRAINING), stored(LAST, Departure.DRAINING, look(FIRST))

    assert asked(first, last=DRAINING) == [FIRST]
    assert asked(second, last=DRAINING) == [READER], "never the same one twice"
    assert asked(first, last=DRAINING, first=OFF, rest=OFF) == [], "what it says of itself alone proves nothing"
    assert asked(second, last=DRAINING, rest=OFF) == [LAST]


def test_nobody_is_asked_the_third_time_before_the_pod_has_ended() -> None:
    """A look that a caller left unfinished goes on with what it read: it might be of a time when a process ran."""
    proven = stored(LAST, Departure.RETIRING, look(FIRST), look(READER))

    assert asked(proven, last={"is_leaving": True}) == []
    assert asked(proven, last={"is_leaving": True} | OFF) == [FIRST]


@pytest.mark.parametrize("drain", [None, replace(DRAINS, is_empty=False), replace(DRAINS, is_draining=False)])
def test_nobody_is_asked_while_it_is_not_empty_by_its_own_word(drain: DrainStatus | None) -> None:
    assert asked(stored(LAST, Departure.DRAINING), last={"drain": drain, "is_leaving": True}) == []


# ---- who may begin, and whose drain it is -------------------------------------------------------------------------


def decided(cases: tuple[BookieCase, ...], *of: BookieStatus) -> tuple[dict[str, LeavingStatus], tuple[Any, ...]]:
    seen = make.observation(cases, status=status(*of), children=make.rolled_out())
    every, plan = leaving.decide(seen, fleet.assess(seen))
    return {one.case.name: one.leaving for one in every if one.leaving is not None}, plan.steps


def test_of_two_that_leave_one_pool_the_highest_number_goes_first() -> None:
    found, steps = decided(bookies(first={"is_leaving": True}, last={"is_leaving": True}))

    assert found[FIRST].waiting_for == f"{LAST} leaves first"
    assert all(step.bookie != FIRST for step in steps)


@pytest.mark.parametrize(("epoch", "is_ours"), [(7, True), (0, False)], ids=["an operator's", "a person's"])
def test_a_drain_that_nobody_stored_is_cancelled_where_an_operator_began_it(epoch: int, is_ours: bool) -> None:
    """One that a person began by hand is his to cancel."""
    drain = replace(DRAINS, operator_epoch=epoch)
    report = make.report(state=State.READ_ONLY, read_only=True, is_draining=True)

    found, steps = decided(bookies(first={"drain": drain, "report": report}))

    assert [isinstance(step, CancelDrain) for step in steps] == ([True] if is_ours else [])
    assert (FIRST in found) == is_ours


def test_an_orphan_goes_on_by_a_proof_alone() -> None:
    """Its StatefulSet went with the resource: nothing would bring it back."""
    orphan = OFF | {"is_desired": False}
    clean, elsewhere = [look(FIRST), look(READER)], [look(FIRST), look(READER, instance_id="another")]

    proven, _ = decided(bookies(last=orphan), stored(LAST, Departure.RETIRING, *clean))
    unproven, _ = decided(bookies(last=orphan), stored(LAST, Departure.RETIRING, *elsewhere))

    assert (LAST in proven, LAST in unproven) == (True, False)
