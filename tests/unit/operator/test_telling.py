"""What people are told: once, in whatever order things fail, and by the operator that leads alone."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.crash import CrashPoint
from bookie_operator.execute.hand import Hand, LostLease
from bookie_operator.execute.telling import Telling
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.model import names
from bookie_operator.model.cluster import ClusterRef
from bookie_operator.model.operation import OperationPhase, OperationStatus
from bookie_operator.model.status import BookieClusterStatus, Condition, ExpansionStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.operations import Told
from bookie_operator.plan.ownership import Refusal
from bookie_operator.recorder import Recorder
from bookie_operator.status.warnings import REPEAT_MS

CLUSTER = make.cluster().ref
STALLED = Condition(
    type="Stalled",
    status="True",
    reason="SpecInvalid",
    message="spec.replicas is 0",
    last_transition_time=format_time(make.NOW_MS),
    observed_generation=1,
)
STATUS = BookieClusterStatus(observed_generation=1, conditions=(STALLED,))
RUNNING = OperationStatus(phase=OperationPhase.RUNNING, message="it flushes")


@dataclass
class Kube:
    """An API server that refuses what is written to objects of the names in `refused`."""

    refused: tuple[str, ...] = ()
    retry_after_ms: int = 0
    applied: list[Manifest] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    asked: int = 0  # for what is refused

    async def replace_status(self, manifest: Manifest, *, manager: str) -> Manifest:
        assert manager == names.STATUS_MANAGER
        if manifest["metadata"]["name"] in self.refused:
            self.asked += 1
            if self.retry_after_ms:
                raise KubeError("PATCH", 429, "too many requests", self.retry_after_ms)
            raise KubeError("PATCH", 409, "the object has been modified")
        self.applied.append(manifest)
        return manifest | {"metadata": manifest["metadata"] | {"resourceVersion": "9"}}

    async def create(self, manifest: Manifest) -> Manifest:
        self.events.append(manifest["reason"])
        return manifest


class Desk:
    """A Telling, and all that it said."""

    def __init__(self, *, refused: tuple[str, ...] = (), has_lease: bool = True) -> None:
        self.now_s = 0.0
        self.kube, self.heard = Kube(refused), list[tuple[ClusterRef, BookieClusterStatus]]()
        kube: Any = self.kube
        bookies: Any = None  # people are told without them
        hand = Hand(kube, bookies, CrashPoint(0, ""), may_act=lambda: has_lease, loop_s=lambda: self.now_s)
        self.telling = Telling(hand, Recorder(kube, "test", hand.loop_s), lambda *said: self.heard.append(said))

    def run(self, said: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(said)


def told(name: str, status: OperationStatus, stored: OperationStatus | None = None) -> Told:
    return Told(replace(make.operation(name, status=stored)), status)


def plan(*found: Told) -> FleetPlan:
    return replace(fleet.decide(make.observation()), operations=found)


@pytest.mark.parametrize("is_stored", [False, True])
def test_whoever_listens_hears_of_each_pass_and_only_news_is_stored(is_stored: bool) -> None:
    desk = Desk()

    desk.run(desk.telling.say(CLUSTER, STATUS, is_stored=is_stored))

    assert desk.heard == [(CLUSTER, STATUS)]
    assert len(desk.kube.applied) == (0 if is_stored else 1)


def test_a_status_is_stored_over_exactly_what_was_read() -> None:
    desk = Desk()

    version = desk.run(desk.telling.write_status(CLUSTER, STATUS))

    (stored,) = desk.kube.applied
    assert (stored["metadata"]["resourceVersion"], version) == (CLUSTER.resource_version, "9")
    assert stored["status"] == STATUS.dump()


Say = Callable[[Telling], Coroutine[Any, Any, Any]]
SAID: dict[str, Say] = {
    "status": lambda one: one.write_status(CLUSTER, STATUS),
    "operation": lambda one: one.tell([told("restart", RUNNING)]),
}


@pytest.mark.parametrize("what", SAID)
def test_without_the_lease_nothing_is_stored(what: str) -> None:
    desk = Desk(has_lease=False)

    with pytest.raises(LostLease):
        desk.run(SAID[what](desk.telling))

    assert desk.kube.applied == []


def test_of_operations_only_news_is_stored_each_over_what_was_read() -> None:
    desk = Desk()

    desk.run(desk.telling.tell([told("a", RUNNING, RUNNING), told("b", RUNNING)]))

    (stored,) = desk.kube.applied
    metadata = stored["metadata"]
    assert (metadata["name"], metadata["uid"], metadata["resourceVersion"]) == ("b", "uid-b", "3")
    assert stored["status"] == RUNNING.dump()


def test_an_operation_that_somebody_changed_meanwhile_keeps_no_other_from_being_told() -> None:
    desk = Desk(refused=("a",))

    desk.run(desk.telling.tell([told("a", RUNNING), told("b", RUNNING)]))

    assert [one["metadata"]["name"] for one in desk.kube.applied] == ["b"]


def test_an_operation_is_told_again_when_the_api_server_wants_to_hear_of_it() -> None:
    desk = Desk(refused=("restart",))
    desk.kube.retry_after_ms = 7_000
    asked = []

    for desk.now_s in (0.0, 1.0, 6.9, 7.0):
        desk.run(desk.telling.tell([told("restart", RUNNING), told("other", RUNNING)]))
        asked.append(desk.kube.asked)

    assert asked == [1, 1, 1, 2]
    assert len(desk.kube.applied) == 4, "of others it did not ask that"


def test_a_pass_without_a_plan_warns_of_the_cluster() -> None:
    desk = Desk()

    desk.run(desk.telling.say_without_plan(CLUSTER, STATUS, make.NOW_MS, is_stored=True))

    assert desk.heard == [(CLUSTER, STATUS)]
    assert desk.kube.events == ["SpecInvalid"]


def test_a_pass_reports_what_lasts_what_changed_and_what_its_operations_do() -> None:
    desk, grows = Desk(), STATUS.model_copy(update={"expansion": ExpansionStatus(desired=4, done=0)})

    desk.run(desk.telling.report(plan(told("restart", RUNNING)), grows))

    assert desk.kube.events == ["SpecInvalid", "VolumeExpansionStarted", "OperationStarted"]
    assert [one["metadata"]["name"] for one in desk.kube.applied] == ["restart"]


def test_that_another_operator_keeps_a_cluster_is_told_once_and_again_before_kubernetes_forgets_it() -> None:
    desk, refusal = Desk(), Refusal("blue/operator", "kept by blue/operator", is_conflict=True)

    for now_ms in (0, 1_000, REPEAT_MS - 1, REPEAT_MS):
        desk.run(desk.telling.refuse(CLUSTER, refusal, "green/operator", now_ms))

    assert desk.kube.events == ["KeptByAnother"] * 2
    assert (desk.kube.applied, desk.heard) == ([], []), "its status is the other's"
