"""One real Kubernetes with the charts installed and a fleet serving, for all tests of a run (a fixture for conftests).

Where no cluster can be had the tests are skipped with the reason in the last lines, and fail when CI is set. The
cluster stays for the next run (`make cluster-down` removes it); the demo's namespace is made anew by whoever comes,
unless STAGE=again says that the fleet of the run before is to be used as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cluster_support
import kube_setup
import kube_tools
import wait_support
from fleet_kubernetes import READY_TIMEOUT_S, KubernetesStage
from kube_talk import say
from timeline import Timeline

LOGS = Path(__file__).resolve().parents[2] / "var" / "e2e"


@pytest.fixture(scope="session")
def stage() -> Iterator[KubernetesStage]:
    """The demo's fleet, up and serving: same functions, same image, same charts, same examples."""
    cluster_support.kubeconfig_or_skip()
    LOGS.mkdir(parents=True, exist_ok=True)
    fleet = KubernetesStage(LOGS)
    try:
        if os.environ.get("STAGE") == "again":
            os.environ["KUBECONFIG"] = str(kube_tools.kubeconfig())
        else:
            fleet.start(Timeline(say))
        # Ready needs an ensemble, not every bookie: the last ones may still be starting, and change what tests compare.
        wait_support.wait_until(lambda: _all_serve(fleet.status()), "every bookie to serve", timeout_s=READY_TIMEOUT_S)
        yield fleet
    finally:
        fleet.diagnose()
        fleet.close(keep=True)


def gather_beside_zookeeper() -> str:
    """Cordon every node but ZooKeeper's and move the operator there; return that node. What starts next starts there,
    until `uncordon`: so that another node can die without what the scenario is not about."""
    kept = kube_tools.kubectl(
        "--namespace", kube_setup.NAMESPACE, "get", "pod", "zookeeper-0", "-o", "jsonpath={.spec.nodeName}"
    ).strip()
    kube_tools.kubectl("cordon", "--selector", f"kubernetes.io/hostname!={kept}")
    words = ["--namespace", kube_setup.OPERATOR_NAMESPACE, "rollout"]
    kube_tools.kubectl(*words, "restart", f"deployment/{kube_setup.OPERATOR_RELEASE}")
    kube_tools.kubectl(*words, "status", f"deployment/{kube_setup.OPERATOR_RELEASE}", "--timeout=180s")
    return kept


def uncordon() -> None:
    """Let every node take pods again."""
    kube_tools.kubectl("uncordon", "--selector", "kubernetes.io/os=linux")


def _all_serve(status: dict[str, Any]) -> bool:
    return bool(status["bookies"]) and all(entry["state"] == "Serving" for entry in status["bookies"])
