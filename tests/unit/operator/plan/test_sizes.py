"""How many bookies a StatefulSet runs while some leave: never fewer than may hold data (spec/operator.md#J1, J6)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.gateways.kube import Manifest
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.departure import sizes, stateful_sets
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

FIRST, LAST, SET = "ledgers-zone-a-0", "ledgers-zone-a-1", ("StatefulSet", "ledgers-zone-a")


def leaving(state: Departure, **changes: Any) -> LeavingStatus:
    return LeavingStatus.model_validate({"state": state, "since": format_time(make.NOW_MS)} | changes)


def retired(case: BookieCase) -> BookieCase:
    """`case` over the claims of one that left."""
    when = format_time(make.NOW_MS)
    volumes = (replace(one, claim=replace(one.claim, retired_at=when)) for one in case.volumes if one.claim)
    return replace(case, volumes=tuple(volumes))


def children(replicas: int | None) -> dict[tuple[str, str], Manifest]:
    """The StatefulSet of zone-a runs so many; None: it is not there."""
    found = make.rolled_out()
    live = found.pop(SET)
    return found | ({SET: live | {"spec": live["spec"] | {"replicas": replicas}}} if replicas is not None else {})


def told(
    replicas: int | None, changes: dict[str, dict[str, Any]], departures: dict[str, LeavingStatus]
) -> tuple[Observation, tuple[Assessed, ...]]:
    """A fleet in which these bookies are so, and so far on their way out."""
    cases = tuple(replace(case, is_listed=True, **changes.get(case.name, {})) for case in make.fleet())
    seen = make.observation(cases, children=children(replicas))
    every = tuple(replace(one, leaving=departures.get(one.case.name)) for one in fleet.assess(seen))
    return seen, every


def of_zone_a(
    replicas: int | None,
    changes: dict[str, dict[str, Any]] | None = None,
    departures: dict[str, LeavingStatus] | None = None,
) -> tuple[int, bool]:
    """Return (how many bookies zone-a is to run, whether its StatefulSet must stay away)."""
    pools, _, _, kept = sizes.to_run(*told(replicas, changes or {}, departures or {}))
    return next(one.replicas for one in pools if one.name == "zone-a"), "zone-a" in kept


OFF = {"pod": None, "report": None}
LEAVES = {"is_leaving": True}


def test_the_number_of_one_that_retires_is_lowered_by_its_flush_alone() -> None:
    """Not by an edit that is applied while it has yet to flush."""
    retires = {LAST: leaving(Departure.RETIRING)}

    assert of_zone_a(2, {LAST: LEAVES}, retires) == (2, False)
    assert of_zone_a(1, {LAST: LEAVES}, retires) == (1, False)
    assert of_zone_a(2, {LAST: LEAVES}, {LAST: leaving(Departure.RETIRING, never_lived=True)}) == (1, False)


def test_one_whose_set_is_away_is_not_lowered_and_its_pods_stay() -> None:
    assert of_zone_a(None, {LAST: LEAVES}, {LAST: leaving(Departure.RETIRING)}) == (2, False)


def test_a_number_behind_a_gap_is_not_begun_and_not_ended() -> None:
    """Kubernetes leaves no number out: what would start in the gap would find the claims of one that left."""
    gap = {FIRST: OFF | {"volumes": retired(make.bookie_case()).volumes}}

    assert of_zone_a(0, gap) == (0, False)
    assert of_zone_a(2, gap) == (2, False), "who runs behind it goes on"
    assert of_zone_a(None, gap) == (0, True), "a StatefulSet of none would end it"
    assert of_zone_a(None, gap | {LAST: OFF}) == (0, False)


def test_one_that_runs_on_claims_of_one_that_left_keeps_its_number() -> None:
    claims = {LAST: {"volumes": retired(make.sibling("zone-a", 1)).volumes}}

    assert of_zone_a(2, claims) == (2, False)
    assert of_zone_a(2, {LAST: claims[LAST] | OFF}) == (1, False)


def emptied(live: dict[str, Any] | None = None, left: dict[str, Any] | None = None, **pool: Any) -> list[str]:
    """The StatefulSets that go with zone-a, which is not in the spec any more, and whose last bookie is `left`."""
    old = BookiePool("zone-a", None, 0, 0, is_in_spec=False)
    found = children(0)
    found[SET] = found[SET] | (live or {})
    last = replace(make.bookie_case(), **(OFF | {"is_desired": False} | (left or {})))
    seen = make.observation(make.fleet(last)[:1], children=found, pools=(replace(old, **pool),))
    return [one.name for one in sizes.empty_sets(seen, fleet.assess(seen))]


@pytest.mark.parametrize(
    "doubt",
    [
        {"is_in_spec": True},
        {"replicas": 1},
        {"left": {"pod": make.pod()}},
        {"left": {"is_desired": True}},
        {"live": {"spec": {"replicas": 1}}},
        {"live": {"metadata": {"name": "ledgers-zone-a", "uid": "u", "deletionTimestamp": "2027-01-15T08:00:00Z"}}},
    ],
    ids=["in the spec", "it has ids", "a pod is there", "somebody wants it", "it runs one", "it goes already"],
)
def test_a_stateful_set_goes_with_its_zone_when_nothing_of_it_is_left(doubt: dict[str, Any]) -> None:
    assert emptied() == ["ledgers-zone-a"]
    assert emptied(**doubt) == []


def test_a_pod_that_goes_is_not_taken_a_second_time() -> None:
    seen = make.observation(children=children(None))
    case = make.bookie_case()

    assert stateful_sets.removal_of_pod(seen, case, door=None) is not None
    assert stateful_sets.removal_of_pod(seen, replace(case, pod=make.pod(is_terminating=True)), door=None) is None
