"""Before a metadata store that was emptied or set back nothing is granted, stopped, evicted (spec/operator.md#G13); and
the brake of one zone (spec/operator.md#G8)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus, HistoryEntry
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.status import conditions


def holding(*held: int) -> tuple[BookieCase, ...]:
    """The four bookies, each keeping so many ledgers that the store no longer has; -1: it did not look."""
    return tuple(
        replace(one, report=replace(one.report, garbage_held_ledgers=count))  # type: ignore[type-var]
        for one, count in zip(make.fleet(), held, strict=True)
    )


def stalled(plan: FleetPlan) -> str:
    return next(one.reason for one in conditions.of(plan) if one.type == "Stalled")


@pytest.mark.parametrize(
    ("held", "is_collapsed"),
    [
        ((0, 0, 0, 0), False),
        ((9, 0, 0, 0), False),
        ((9, 9, 0, 0), True),
        ((9, -1, -1, -1), True),
        ((9, 9, 9, 9), True),
        ((-1, -1, -1, -1), False),
    ],
)
def test_half_of_those_that_looked_make_a_collapse(held: tuple[int, ...], is_collapsed: bool) -> None:
    plan = fleet.decide(make.observation(holding(*held)))

    assert (stalled(plan) == "MetadataCollapsed") is is_collapsed
    assert (plan.max_unavailable == 0) is is_collapsed


def test_a_report_of_another_pod_makes_no_collapse_and_prevents_none() -> None:
    one, two, three, four = holding(9, 9, 0, 0)

    def of_before(case: BookieCase) -> BookieCase:
        assert case.report is not None
        return replace(case, report=replace(case.report, pod_uid="the pod before"))

    assert stalled(fleet.decide(make.observation((of_before(one), of_before(two), three, four)))) != "MetadataCollapsed"
    assert stalled(fleet.decide(make.observation((one, *holding(9, 0, 0, 0)[1:])))) != "MetadataCollapsed"
    assert stalled(fleet.decide(make.observation((one, two, of_before(three), four)))) == "MetadataCollapsed"


def waiting(**changes: Any) -> FleetPlan:
    """The first bookie lost its volumes, and waits for a grant with proof enough."""
    before = fleet.decide(make.observation(make.fleet(make.lost_case()))).fleet[0]
    suspicion = {"evidence": before.evidence.digest, "observations": 3, "since_ms": make.NOW_MS - 90_000}
    entry = {
        "name": before.case.name,
        "bookie_id": before.case.bookie_id,
        "pool": "zone-a",
        "state": "Confirmed",
        "verdict": "LostVolume",
        "reason": "EmptyVolume",
        "since": format_time(make.NOW_MS - 90_000),
        "incarnation": 1,
        "has_lived": True,
        "processes": (),
        "suspicion": suspicion,
        "volumes": [
            {"name": one.name, "role": one.role, "claim": one.claim_name, "recorded": one.recorded}
            for one in before.case.volumes
        ],
    }
    status = BookieClusterStatus.model_validate(
        {"instance_id": "instance", "bookies": [entry], "history": changes.pop("history", ())}
    )
    others = changes.pop("others", make.fleet()[1:])
    return fleet.decide(make.observation((make.lost_case(), *others), status=status, **changes))


def closed(plan: FleetPlan) -> dict[str, str]:
    return {gate.name: gate.message for gates in plan.closed.values() for gate in gates}


def test_a_collapse_closes_the_gate_of_the_metadata() -> None:
    assert "G2-Metadata" not in closed(waiting())
    assert "no longer has" in closed(waiting(others=holding(0, 9, 9, 9)[1:]))["G2-Metadata"]


def entry(bookie: str, *, ago_ms: int = 1_000) -> HistoryEntry:
    granted = format_time(make.NOW_MS - ago_ms)
    return HistoryEntry(grant_id=bookie, bookie=bookie, incarnation=2, profile="Full", granted_at=granted)


@pytest.mark.parametrize(
    ("history", "is_closed"),
    [
        ((entry("ledgers-zone-a-1"),), True),
        ((entry("ledgers-zone-b-0"),), False),
        ((entry("ledgers-zone-a-1", ago_ms=25 * 3_600_000),), False),
    ],
)
def test_the_brake_of_a_zone_counts_that_zone_alone(history: tuple[HistoryEntry, ...], is_closed: bool) -> None:
    limited = {"repair": {"stabilization": "6s", "maxPerDayPerZone": 1}}

    found = closed(waiting(history=history, spec_changes=limited))

    assert ("G8-Brake" in found) is is_closed
    assert "G8-Brake" not in closed(waiting(history=history))


def test_a_failed_disk_is_told_with_the_one_command_that_replaces_it() -> None:
    first = make.bookie_case()
    assert first.report is not None
    failed = replace(first, report=replace(first.report, directories_failed=("/data/ledgers/current",)))

    plan = fleet.decide(make.observation(make.fleet(failed)))

    (told,) = [one for one in conditions.of(plan) if one.type == "StorageHealthy"]
    assert told.reason == "DirectoryFailed"
    assert "a BookieOperation ReplaceVolume of ledgers, or without" in told.message
    assert "`kubectl delete --wait=false pvc/ledgers-ledgers-zone-a-0 pod/ledgers-zone-a-0`" in told.message
    assert plan.max_unavailable == 0
