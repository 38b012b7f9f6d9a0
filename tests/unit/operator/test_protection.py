"""What a pass does not do where the record, the budget or a child of a cluster could not be written: nothing that rests
on it (spec/operator.md#Y2, X3, K13)."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import operator_support as make
from bookie_operator.crash import CrashPoint
from bookie_operator.execute.executor import Executor
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.model import names
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import Action, Apply, DeleteChild, MarkClaim
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.recorder import Recorder

REFUSED = KubeError("PATCH", 422, "a policy says no")
LOST = DeleteChild("PersistentVolumeClaim", "journal-ledgers-zone-a-0", "claim-uid", "7", "its node is lost")
ANEW = DeleteChild("StatefulSet", "ledgers-zone-a", "sts-uid", "7", "made anew", is_orphaning=True)
RETIRED = MarkClaim("index-ledgers-zone-a-0", "claim", {names.RETIRED_AT: "x"}, names.RETIREMENT_MANAGER)
PROVEN = MarkClaim("journal-ledgers-zone-a-0", "claim", {names.MARK_FSID: "fs"})


class Kube:
    """An API server that notes what it is asked, refuses what is of the kinds in `refuses`, and stores of the budget
    what `budget` says, if anything."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuses: set[str] = set()
        self.budget: Manifest | None = None

    async def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        return self._written(manifest)

    async def replace_status(self, manifest: Manifest, *, manager: str) -> Manifest:
        return self._written(manifest, "/status")

    async def create(self, manifest: Manifest) -> Manifest:
        return self._written(manifest)

    def _written(self, manifest: Manifest, part: str = "") -> Manifest:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        self.asked.append(f"{kind}{part} {name}")
        if kind in self.refuses:
            raise REFUSED
        return self.budget if kind == "PodDisruptionBudget" and self.budget is not None else manifest

    async def delete(self, kind: str, _: str, name: str, **__: object) -> None:
        self.asked.append(f"delete {kind} {name}")


@pytest.fixture
def kube() -> Kube:
    return Kube()


def budget() -> Apply:
    return next(
        one
        for one in fleet.decide(make.observation()).actions
        if isinstance(one, Apply) and one.manifest["kind"] == "PodDisruptionBudget"
    )


def plan(*actions: Action, **seen: Any) -> FleetPlan:
    """A plan that does this before the status is written, and deletes a claim of a lost node after it."""
    found = fleet.decide(make.observation(**seen))
    return replace(found, actions=actions, lost_nodes=replace(found.lost_nodes, actions=(LOST,)))


def done(kube: Kube, what: FleetPlan, folder: Path) -> list[str]:
    any_kube: Any = kube
    bookies: Any = None
    crash = CrashPoint(0, str(folder))
    executor = Executor(
        any_kube, bookies, Recorder(any_kube, "test", lambda: 1_000.0), crash, lambda: True, lambda: 1_000.0
    )
    asyncio.run(executor.run(what))
    return [one for one in kube.asked if not one.startswith("Event ")]


STATUS, RECORD, CLAIM = "BookieCluster/status ledgers", "ConfigMap ledgers-record", f"delete {LOST.kind} {LOST.name}"
BUDGET = "PodDisruptionBudget ledgers-bookies"


def test_the_record_comes_first_and_what_rests_on_the_status_last(kube: Kube, tmp_path: Path) -> None:
    assert done(kube, plan(budget()), tmp_path) == [RECORD, BUDGET, STATUS, CLAIM]


def test_while_the_budget_is_refused_no_claim_goes_and_that_is_told(kube: Kube, tmp_path: Path) -> None:
    kube.refuses = {"PodDisruptionBudget"}

    assert done(kube, plan(budget()), tmp_path) == [RECORD, BUDGET, STATUS]


def test_a_budget_that_somebody_changed_as_it_was_stored_is_none(kube: Kube, tmp_path: Path) -> None:
    kube.budget = budget().manifest | {"spec": {"maxUnavailable": 4}}

    assert done(kube, plan(budget()), tmp_path) == [RECORD, BUDGET, STATUS]


def test_without_its_record_a_pass_takes_nothing_away_and_gives_up_no_claim(kube: Kube, tmp_path: Path) -> None:
    kube.refuses = {"ConfigMap"}
    gone = DeleteChild("PersistentVolumeClaim", "old", "uid", "7", "it left")

    found = done(kube, plan(gone, RETIRED, PROVEN), tmp_path)

    assert found == [RECORD, f"PersistentVolumeClaim {PROVEN.name}", STATUS]


def test_a_record_that_cannot_be_read_is_not_written_over(kube: Kube, tmp_path: Path) -> None:
    assert RECORD not in done(kube, plan(record_problem="it is damaged"), tmp_path)


def test_no_stateful_set_is_taken_away_to_be_made_anew_while_anything_else_is_refused(
    kube: Kube, tmp_path: Path
) -> None:
    assert f"delete StatefulSet {ANEW.name}" in done(kube, plan(budget(), ANEW), tmp_path)
    kube.asked.clear()
    kube.refuses = {"PodDisruptionBudget"}

    assert done(kube, plan(budget(), ANEW), tmp_path) == [RECORD, BUDGET, STATUS]
