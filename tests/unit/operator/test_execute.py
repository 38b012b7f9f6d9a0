"""What the API server fails at twice, and took in between, is told as little as what it failed at once."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import operator_support as make
from bookie_operator.crash import CrashPoint
from bookie_operator.execute.executor import Executor
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import DeleteChild, DetachPool, RetireBookie, ScalePool
from bookie_operator.plan.doors import Door
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.recorder import Recorder

NAME = "ledgers-zone-a-0"
POOL = ScalePool("ledgers-zone-a", "sts-uid", "7", 1)
CLAIM = DeleteChild("PersistentVolumeClaim", f"journal-{NAME}", "claim-uid", "7", "its node is lost")
RETIRE = RetireBookie(NAME, "pod-uid", Door("10.0.0.1:3184", NAME), 1, POOL)
DETACH = DetachPool(NAME, "ledgers-zone-a", "sts-uid", "7")
# By step: the plan that does nothing else after the status was written.
PLANS = {
    "replace": lambda plan: replace(plan, lost_nodes=replace(plan.lost_nodes, actions=(CLAIM,))),
    "scale": lambda plan: replace(plan, leaving=replace(plan.leaving, steps=(RETIRE,))),
    "take": lambda plan: replace(plan, leaving=replace(plan.leaving, steps=(DETACH,))),
}


class Kube:
    """An API server that takes everything, while it is down only status and record."""

    is_down = False

    async def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        if self.is_down and manifest["kind"] != "ConfigMap":
            raise KubeError("PATCH", 500, "failed calling webhook")
        return manifest

    async def replace_status(self, manifest: Manifest, *, manager: str) -> Manifest:
        return manifest

    async def create(self, manifest: Manifest) -> Manifest:
        return manifest

    async def delete(self, *_: object, **__: object) -> None:
        if self.is_down:
            raise KubeError("DELETE", 500, "failed calling webhook")


class Bookies:
    """They flush at once."""

    async def prepare_shutdown(self, *_: object) -> tuple[bool, str]:
        return True, ""


class Passes:
    """An executor that is given the same plan again and again."""

    def __init__(self, plan: FleetPlan, folder: Path) -> None:
        self.plan, self.kube, self.now_s = plan, Kube(), 1_000.0
        kube: Any = self.kube
        bookies: Any = Bookies()
        recorder = Recorder(kube, "test", lambda: self.now_s)
        self.executor = Executor(
            kube, bookies, recorder, CrashPoint(0, str(folder)), may_act=lambda: True, loop_s=lambda: self.now_s
        )

    def run(self, *, is_down: bool, after_s: float) -> str:
        """What one pass tells of its last step; "repeated" where it is to be made again soon."""
        self.kube.is_down = is_down
        self.now_s += after_s
        try:
            asyncio.run(self.executor.run(self.plan))
        except KubeError:
            return "repeated"
        found = self.executor.hindrances(self.plan.observation.cluster)
        return " ".join(one.text for one in found.values())


@pytest.fixture(params=PLANS)
def passes(request: pytest.FixtureRequest, tmp_path: Path) -> Passes:
    plan = fleet.decide(make.observation())
    return Passes(PLANS[request.param](replace(plan, actions=(), observation=plan.observation)), tmp_path)


def test_a_failure_that_lasts_is_told(passes: Passes) -> None:
    assert passes.run(is_down=True, after_s=0) == "repeated"
    assert "failed calling webhook" in passes.run(is_down=True, after_s=31)


def test_two_failures_with_a_success_between_them_are_no_lasting_one(passes: Passes) -> None:
    assert passes.run(is_down=True, after_s=0) == "repeated"
    assert passes.run(is_down=False, after_s=10) == ""
    assert passes.run(is_down=True, after_s=25) == "repeated"
