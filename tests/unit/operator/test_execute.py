"""What the API server fails at twice, and took in between, is told as little as what it failed at once."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.crash import CrashPoint
from bookie_operator.execute.executor import Executor
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import DeleteChild, DetachPool, ResizeClaim, RetireBookie, ScalePool
from bookie_operator.plan.doors import Door
from bookie_operator.plan.expansion import Growth, GrowthState
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
    retry_after_ms = 0
    refused = told = 0  # calls, statuses

    async def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        if manifest["kind"] != "ConfigMap":
            self.check("PATCH")
        return manifest

    async def replace_status(self, manifest: Manifest, *, manager: str) -> Manifest:
        self.told += 1
        return manifest

    async def create(self, manifest: Manifest) -> Manifest:
        return manifest

    async def delete(self, *_: object, **__: object) -> None:
        self.check("DELETE")

    def check(self, verb: str) -> None:
        if self.is_down:
            self.refused += 1
            raise KubeError(verb, 503, "failed calling webhook", self.retry_after_ms)


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


def test_what_is_told_is_not_tried_again_before_the_time_that_the_api_server_asked_for(passes: Passes) -> None:
    passes.kube.retry_after_ms = 7_000
    assert passes.run(is_down=True, after_s=0) == "repeated"
    told = passes.run(is_down=True, after_s=31)
    assert "failed calling webhook" in told
    assert passes.kube.refused == 2

    assert passes.run(is_down=False, after_s=6) == told, "not asked, and not called well"
    assert passes.run(is_down=True, after_s=0.9) == told
    assert passes.kube.refused == 2
    assert passes.run(is_down=True, after_s=0.2) == told, "the time is over, however often it was told since"
    assert passes.kube.refused == 3
    assert passes.run(is_down=False, after_s=7) == ""


def test_a_size_that_is_told_is_not_asked_for_again_before_that_time_either(tmp_path: Path) -> None:
    plan = fleet.decide(make.observation())
    claim: Any = SimpleNamespace(uid="claim-uid", size=None)
    growing = Growth(NAME, "journal", claim, "4Gi", GrowthState.TO_ASK)
    asked = replace(plan.expansion, growing=(growing,), actions=(ResizeClaim(CLAIM.name, "claim-uid", "7", "4Gi"),))
    passes = Passes(replace(plan, actions=(), expansion=asked), tmp_path)
    passes.kube.retry_after_ms = 7_000
    assert passes.run(is_down=True, after_s=0) == "repeated"

    for after_s, refused in ((31, 2), (6, 2), (2, 3)):
        passes.run(is_down=True, after_s=after_s)
        assert passes.kube.refused == refused
        assert "claim-uid" in passes.executor.refused_sizes(plan.observation.cluster)


def test_a_write_that_the_api_server_has_no_time_for_is_told_and_the_next_pass_is_no_sooner_than_it_asks(
    tmp_path: Path,
) -> None:
    passes = Passes(fleet.decide(make.observation()), tmp_path)
    passes.kube.retry_after_ms = 7_000

    assert (passes.run(is_down=True, after_s=0), passes.kube.told) == ("repeated", 0), "it may pass by itself"
    passes.now_s += 31
    with pytest.raises(KubeError) as asked:
        asyncio.run(passes.executor.run(passes.plan))

    assert (asked.value.retry_after_ms, passes.kube.told) == (7_000, 1)
