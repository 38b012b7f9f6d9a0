"""What stands around a scenario of a fleet's life (`tests/nightly`), and fleets of a scenario's own."""

from __future__ import annotations

import contextlib
import copy
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import kube_setup
from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from kube_setup import KIND
from short_lives_support import dying_after_every_write, dying_every

# Short, because these fleets are for playing. None of it reaches a pod.
QUICK = {"rollout": {"soakSeconds": 2}, "scaleDown": {"proofInterval": "10s", "openLedgers": "Recover"}}
FAILED = pytest.StashKey[bool]()  # of a test's node, once it was called


def under_writers(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """The fleet under writers; the verdict after the scenario. For a fixture to yield from."""
    fleet.settled()
    spec = fleet.resource()["spec"]
    with as_the_operator_lives(request), fleet.writing():
        yield fleet
        if request.node.stash.get(FAILED, True):
            fleet.puts_back(spec)  # or the scenarios to come would fail because of this one
        else:
            fleet.settled()


@contextlib.contextmanager
def as_the_operator_lives(request: pytest.FixtureRequest) -> Iterator[None]:
    """The operator of a scenario: as it is, or (`DIES=1`) one that dies after every write of the scenario, or
    (`DIES=30`) every thirty seconds, unless that needs one that lives, or one that stays on its node."""
    lives = request.node.get_closest_marker("operator_lives") or "beside_zookeeper" in request.fixturenames
    seconds = int(os.environ.get("DIES") or 0)
    if lives or not seconds:
        yield
        return
    with dying_after_every_write() if seconds == 1 else dying_every(seconds) as deaths:
        yield
        print(f"{request.node.name}: the operator died {deaths()} times (since its pod last moved)")


@contextlib.contextmanager
def own_fleet(stage: KubernetesStage, folder: Path, name: str, **spec: Any) -> Iterator[Fleet]:
    """A BookieCluster `name` like the example's, but for these parts of its spec (None: without that part); it and its
    claims go afterwards.

    It has a path of its own in the same metadata store. Nobody has waited for it yet.
    """
    made = yaml.safe_load((kube_setup.ROOT / "examples" / "bookiecluster.yaml").read_text())
    made["metadata"]["name"] = name
    example = copy.deepcopy(made["spec"])
    uri = f"zk+hierarchical://zookeeper:2181/{name}-{secrets.token_hex(4)}"  # an old one has cookies
    said = example | QUICK | {"metadataService": example["metadataService"] | {"uri": uri}} | spec
    made["spec"] = {key: value for key, value in said.items() if value is not None}
    own = KubernetesStage(stage.logs, name)
    try:
        # As YAML again, because what applies it looks for `image: NAME`.
        kube_setup.apply_text(yaml.safe_dump(made))
        yield Fleet(own, folder)
    finally:
        (stage.logs / f"{name}.json").write_text(own.kubectl("get", KIND, name, "-o", "json", "--ignore-not-found"))
        own.kubectl("delete", KIND, name, "--ignore-not-found")
        own.kubectl("delete", "pods,pvc,configmap", "--selector", f"bookie.dev/cluster={name}", "--ignore-not-found")


def is_complete(fleet: Fleet, operation: str) -> None:
    """Wait until this BookieOperation is done."""
    fleet.sees(f"{operation} to be done", lambda: "Complete" in fleet.phase(operation),
               detail=lambda: fleet.phase(operation))  # fmt: skip
