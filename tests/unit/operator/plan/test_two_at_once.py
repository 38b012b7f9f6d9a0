"""Whatever asks for a stop, nobody is stopped beside one that is about to be away or to lose a volume
(spec/operator.md#Q19)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import operator_support as make
from bookie.ports.admin import Member, State
from bookie_operator.evidence.facts import BookieCase, NodeFacts, PersistentVolumeFacts
from bookie_operator.model.operation import OperationStatus
from bookie_operator.model.status import BookieClusterStatus, BookieStatus, LostNode
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import StopBookie, StopFleet
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Observation

FIRST = "ledgers-zone-a-0"
LONG_AGO_MS = make.NOW_MS - 3_600_000
LONG_AGO = format_time(LONG_AGO_MS)
AUTOMATIC = {"rollout": {"strategy": "Automatic", "soakSeconds": 10}}
Change = Callable[[BookieCase], BookieCase]


def ready(case: BookieCase) -> BookieCase:
    """`case`, registered and ready for long, of a release that obeys orders."""
    assert case.pod is not None
    assert case.report is not None
    pod = replace(case.pod, ready_since_ms=LONG_AGO_MS, created_ms=LONG_AGO_MS, resource_version="5")
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    return replace(case, pod=pod, member=member, report=replace(case.report, capabilities=("turn", "aside")))


def with_pod(case: BookieCase, **changes: Any) -> BookieCase:
    assert case.pod is not None
    return replace(case, pod=replace(case.pod, **changes))


def with_volume(
    case: BookieCase, *, claim: dict[str, Any] | None = None, pv: dict[str, Any] | None = None
) -> BookieCase:
    volumes = []
    for one in case.volumes:
        assert one.claim is not None
        assert one.pv is not None
        changed = replace(one, claim=replace(one.claim, **(claim or {})), pv=replace(one.pv, **(pv or {})))
        volumes.append(changed if one.name == "ledgers" else one)
    return replace(case, volumes=tuple(volumes))


# Why a bookie that serves, and says that all is well, does not count; and the words for it.
RISKS: dict[str, tuple[Change, str]] = {
    "pod deleted": (lambda case: with_pod(case, is_terminating=True), "pod {} is being deleted"),
    "pod evicted": (lambda case: with_pod(case, evicted_by="PreemptionByScheduler"), "pod {} is about to be deleted"),
    "claim deleted": (lambda case: with_volume(case, claim={"is_terminating": True}), "goes with pod {}"),
    "claim lost": (lambda case: with_volume(case, claim={"is_lost": True}), "goes with pod {}"),
    "volume deleted": (lambda case: with_volume(case, pv={"is_terminating": True}), "goes with pod {}"),
}


def situation(first: Change = ready, operation: str = "", **changes: Any) -> Observation:
    """Four that serve, the first as it is made by `first`; `operation` asks something of that one."""
    spec = AUTOMATIC | changes.pop("spec", {})
    target: dict[str, Any] = {"bookie": FIRST} | ({"volume": "ledgers"} if operation == "ReplaceVolume" else {})
    asked = make.operation("asks", type=operation or "Restart", target=target, reason="so", status=OperationStatus())
    known = BookieClusterStatus(observed_generation=1, instance_id="instance", **changes.pop("status", {}))
    of_first, *others = make.fleet()
    return make.observation(
        (first(of_first), *(ready(one) for one in others)),
        status=known,
        spec_changes=spec,
        children=make.rolled_out(**spec),
        operations=(replace(asked, created_ms=make.NOW_MS - 1_000),) if operation else (),
        **changes,
    )


def older(case: BookieCase) -> BookieCase:
    return with_pod(ready(case), revision="rev-0", inputs="v1-older")


def failed(case: BookieCase) -> BookieCase:
    """Its ledger volume takes no writes."""
    found = ready(case)
    assert found.report is not None
    report = replace(found.report, state=State.READ_ONLY, directories_failed=("/data/ledgers/current",))
    return replace(found, report=report, member=Member(case.bookie_id, True, True, is_writable=False))


def drained(case: BookieCase) -> BookieCase:
    return replace(ready(case), nodes={"node-a": NodeFacts("node-a", "node-uid", drained="cordoned")})


def on_a_lost_node(case: BookieCase) -> BookieCase:
    """Its pod waits; its ledger disk is on a machine whose Node somebody deleted."""
    volumes = []
    for one in case.volumes:
        assert one.recorded is not None
        recorded = one.recorded.model_copy(update={"node": "node-a", "node_uid": "u", "hostname": "host-a"})
        pv = PersistentVolumeFacts(one.recorded.pv_name, one.recorded.pv_uid, hostnames=("host-a",))
        local = replace(one, is_local_disk=True, report=None, recorded=recorded, pv=pv)
        volumes.append(local if one.name == "ledgers" else replace(one, report=None))
    pod = make.pod(uid="pod-2", node="", is_ready=False, phase="Pending", resource_version="9")
    member = Member(case.bookie_id, has_cookie=True, is_registered=False)
    return replace(case, volumes=tuple(volumes), report=None, pod=pod, nodes={"node-a": None}, member=member)


def entry(**changes: Any) -> BookieStatus:
    """What the status remembers of the first, which has been down for long."""
    known: dict[str, Any] = {
        "name": FIRST,
        "bookie_id": "data.ledgers.zone-a.0",
        "pool": "zone-a",
        "state": "Missing",
        "verdict": "Unknown",
        "reason": "PodNotRunning",
        "since": LONG_AGO,
        "incarnation": 1,
        "has_lived": True,
        "processes": (),
    }
    return BookieStatus(**(known | changes))


def lost() -> Observation:
    spec = {"repair": {"stabilization": "6s", "lostNode": {"policy": "Replace", "after": "30m"}}}
    known = entry(lost_node=LostNode(node="node-a", since=LONG_AGO))
    return situation(on_a_lost_node, spec=spec, status={"bookies": (known,)})


# All that takes a bookie, or what it has, away although nobody forces it. Not a bookie that leaves: no ledger names it.
STOPS: dict[str, Observation] = {
    "roll-out": situation(older),
    "Restart": situation(operation="Restart"),
    "Fence": situation(operation="Fence"),
    "ReplaceVolume": situation(operation="ReplaceVolume"),
    "ReplaceVolume of a failed disk": situation(failed, operation="ReplaceVolume"),
    "drain": situation(drained, spec={"disruption": {"onDrain": "ReadOnlyFirst"}}),
    "hibernation": situation(spec={"lifecycle": {"hibernate": True, "terminationGrace": "2m"}}),
    "lost node": lost(),
}


def taken(plan: FleetPlan) -> list[object]:
    """Return what the plan takes away."""
    found: list[object] = [plan.rollout.action, plan.eviction.action, plan.eviction.evictable, *plan.lost_nodes.actions]
    found += [plan.hibernation.action] if isinstance(plan.hibernation.action, StopFleet) else []
    return [one for one in found if one]


@pytest.mark.parametrize("asks", STOPS)
def test_beside_bookies_that_stay_it_is_done(asks: str) -> None:
    assert taken(fleet.decide(STOPS[asks]))


@given(st.sampled_from(sorted(STOPS)), st.dictionaries(st.integers(1, 3), st.sampled_from(sorted(RISKS)), min_size=1))
def test_nobody_is_stopped_beside_one_that_goes(asks: str, risks: dict[int, str]) -> None:
    seen = STOPS[asks]
    cases = tuple(RISKS[risks[n]][0](one) if n in risks else one for n, one in enumerate(seen.bookies))

    assert taken(fleet.decide(replace(seen, bookies=cases))) == []


@pytest.mark.parametrize("risk", RISKS)
def test_the_status_says_for_whom_it_waits(risk: str) -> None:
    change, words = RISKS[risk]
    seen = STOPS["Restart"]
    cases = (*seen.bookies[:3], change(seen.bookies[3]))

    (told,) = fleet.decide(replace(seen, bookies=cases)).operations

    assert words.format("ledgers-zone-c-0") in told.status.message


@pytest.mark.parametrize("risk", sorted(set(RISKS) - {"pod deleted", "pod evicted"}))
def test_the_budget_lets_nobody_be_evicted_while_a_volume_would_go(risk: str) -> None:
    """Kubernetes itself counts pods that end; of claims it knows nothing."""
    seen = situation()
    cases = (*seen.bookies[:3], RISKS[risk][0](seen.bookies[3]))

    assert fleet.decide(seen).max_unavailable == 1
    assert fleet.decide(replace(seen, bookies=cases)).max_unavailable == 0


@pytest.mark.parametrize("risk", sorted(set(RISKS) - {"pod deleted"}))
def test_a_bookie_that_the_spec_does_not_name_counts_as_well(risk: str) -> None:
    seen = STOPS["Restart"]
    leaves = replace(RISKS[risk][0](seen.bookies[3]), is_desired=False)

    assert taken(fleet.decide(replace(seen, bookies=(*seen.bookies[:3], leaves)))) == []


def test_a_pod_that_does_not_run_is_kept_while_a_volume_would_go_with_it() -> None:
    """Its data is what a correction of the spec would bring back."""

    def down(case: BookieCase) -> BookieCase:
        crashing = {"is_ready": False, "ready_since_ms": None, "problem": "CrashLoopBackOff", "phase": "Running"}
        return replace(with_pod(older(case), **crashing), report=None)

    seen = situation(down, status={"bookies": (entry(away_since=LONG_AGO),)})
    going = with_volume(seen.bookies[0], claim={"is_terminating": True})

    action = fleet.decide(seen).rollout.action
    assert isinstance(action, StopBookie)
    assert action.door is None
    found = fleet.decide(replace(seen, bookies=(going, *seen.bookies[1:]))).rollout
    assert found.action is None
    assert "is being deleted" in (found.status.waiting_for or "")
