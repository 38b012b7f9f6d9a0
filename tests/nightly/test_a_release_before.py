"""An operator of the release before is upgraded under a fleet that it made: no bookie restarts, and the next edit rolls
each of them once (spec/operator.md#Q14).

It comes first in its folder, on a fleet of its own, and leaves that fleet as the next stage's to remove.
"""

from __future__ import annotations

import contextlib
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cluster_support
import kube_cache
import kube_home
import kube_images
import kube_load
import kube_setup
import kube_shell
import kube_tools
import wait_support
from fleet_kubernetes import READY_TIMEOUT_S, KubernetesStage
from fleet_support import Fleet
from kube_talk import step
from scenario_support import as_the_operator_lives
from stage_support import LOGS

pytestmark = pytest.mark.cluster

BEFORE = "994a53f"  # the commit of the release before; its charts, its image and its example are used as they were
IMAGE = "bookie:before"


@pytest.fixture
def before(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of the release before, operator, CRDs and bookies."""
    cluster_support.kubeconfig_or_skip()
    os.environ["KUBECONFIG"] = str(kube_tools.kubeconfig())
    LOGS.mkdir(parents=True, exist_ok=True)
    tree = tmp_path / "tree"
    kube_shell.run("git", "-C", kube_home.CHECKOUT, "archive", "--output", tmp_path / "tree.tar", BEFORE)
    with tarfile.open(tmp_path / "tree.tar") as archive:
        archive.extractall(tree, filter="data")
    with kube_cache.lock(f"{kube_home.this().name}-stage"):
        kube_images.build_all()
        with step(f"building {IMAGE}"):
            kube_images.build_from(tree, IMAGE)
        kube_load.load([IMAGE, kube_images.BOOKIE_IMAGE, kube_images.ZOOKEEPER_IMAGE])
        kube_setup.remove_remains()
        kube_tools.kubectl("create", "namespace", kube_setup.NAMESPACE)
        kube_setup.install_operator(tree / "charts", IMAGE)
        image = f"image: {kube_load.name_in_cluster(IMAGE)}"
        kube_setup.apply(tree / "examples" / "zookeeper.yaml")
        kube_setup.apply_text(
            (tree / "examples" / "bookiecluster.yaml").read_text().replace("image: bookie:dev", image)
        )
        stage = KubernetesStage(LOGS)
        wait_support.wait_until(lambda: _all_serve(stage), "every bookie to serve", timeout_s=READY_TIMEOUT_S)
        yield Fleet(stage, tmp_path)
        stage.diagnose()


def _all_serve(stage: KubernetesStage) -> bool:
    bookies = stage.status().get("bookies", ())
    return len(bookies) == 4 and all(entry["state"] == "Serving" for entry in bookies)


def is_calm(fleet: Fleet) -> bool:
    """Whether all serve, and the status says that the pods take what the new operator makes of them when they end, or
    that it would make the same."""
    words = {kind: fleet.condition(kind).get("status") for kind in ("Ready", "Degraded", "Stalled")}
    updated = fleet.condition("UpToDate")
    is_told = updated.get("status") == "True" or "run an older revision" in str(updated.get("message"))
    return words == {"Ready": "True", "Degraded": "False", "Stalled": "False"} and is_told


@pytest.fixture
def upgrades(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Upgrades the operator; the new one lives as the scenario says."""
    with contextlib.ExitStack() as until_the_end:

        def upgrade() -> None:
            kube_setup.install_operator()
            until_the_end.enter_context(as_the_operator_lives(request))

        yield upgrade


def test_an_upgrade_of_the_operator_restarts_nobody_and_the_next_edit_rolls_each_once(
    before: Fleet, upgrades: Callable[[], None]
) -> None:
    with before.writing():
        pods, epoch = before.uids(), before.status()["operator"]["epoch"]
        upgrades()
        deployed = kube_tools.kubectl("--namespace", kube_setup.OPERATOR_NAMESPACE, "get", "pods", "-o",
                                      "jsonpath={.items[*].spec.containers[0].image}")  # fmt: skip
        assert kube_load.name_in_cluster(kube_images.BOOKIE_IMAGE) in deployed
        before.sees("the new operator to lead", lambda: before.status()["operator"]["epoch"] > epoch)
        before.sees("its bookies to wait until they end", lambda: is_calm(before))
        assert before.uids() == pods, "no bookie restarts because its operator is another one"

        starts: dict[str, set[str]] = {name: {uid} for name, uid in pods.items()}

        def rolled() -> bool:
            for name, uid in before.uids().items():
                starts[name].add(uid)
            return not before.uids().items() & pods.items()

        # That release had Manual as the default, and the API server stored it.
        rollout = {"strategy": "Automatic", "soakSeconds": 2}
        before.edits(image=kube_load.name_in_cluster(kube_images.BOOKIE_IMAGE), rollout=rollout)
        before.sees("all to run the new image", rolled, timeout_s=900.0)
        before.settled()
        rolled()
        assert all(len(uids) == 2 for uids in starts.values()), f"once each: {starts}"
        lives = {entry["name"]: entry["incarnation"] for entry in before.status()["bookies"]}
        assert set(lives.values()) == {1}, lives
