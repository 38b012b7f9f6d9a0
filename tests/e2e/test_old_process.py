"""A pod that is deleted by force has not ended for that: its successor waits for a proof (spec/operator.md#G12,
decision 0017).

What a kubelet's last word looks like in the watch, and that it comes before the object goes, only a real one can show:
the story's heal (test_story.py) is quick because of it.
"""

import time
from typing import Any

import pytest

import kube_view
from fleet_kubernetes import CLUSTER, KubernetesStage
from kube_setup import KIND
from waiting import wait_for

pytestmark = pytest.mark.cluster

TIMEOUT_S = 240.0
NODE_PROOF_S = 240.0  # the termination grace of the example, and two minutes


def wait_until(stage: KubernetesStage, pod: str, what: str, is_true: Any) -> dict[str, Any]:
    def entry() -> dict[str, Any]:
        return kube_view.entry_of(stage.status(), pod) or {}

    return wait_for(
        what,
        lambda: found if is_true(found := entry()) else None,
        timeout_s=TIMEOUT_S,
        look_at="kubectl get bookiecluster -o yaml",
        detail=lambda: f"{entry().get('state')} {entry().get('gates')} {entry().get('processes')}",
        poll_s=1.0,
    )


def test_a_pod_that_its_kubelet_ended_is_followed_before_its_node_could_prove_anything(stage: KubernetesStage) -> None:
    before = dict(stage.status()["bookies"][1])
    pod, claims = before["name"], [volume["claim"] for volume in before["volumes"]]
    began_s = time.monotonic()

    stage.kubectl("delete", "pvc", *claims, "--wait=false")
    stage.kubectl("delete", "pod", pod, "--grace-period=1", "--wait=false")
    healed = wait_until(
        stage, pod, "Serving again", lambda entry: _serves(entry) and entry.get("podUID") != before["podUID"]
    )

    assert time.monotonic() - began_s < NODE_PROOF_S
    assert healed["incarnation"] == before["incarnation"] + 1
    assert [one["podUID"] for one in healed["processes"]] == [healed["podUID"]]


def _serves(entry: dict[str, Any]) -> bool:
    return entry.get("state") == "Serving"


def test_a_force_deleted_pod_is_followed_only_when_somebody_says_that_it_ended(stage: KubernetesStage) -> None:
    before = dict(stage.status()["bookies"][0])
    pod, claims = before["name"], [volume["claim"] for volume in before["volumes"]]

    stage.kubectl("delete", "pvc", *claims, "--wait=false")
    stage.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
    blocked = wait_until(
        stage, pod, "gate G12", lambda entry: [one["name"] for one in entry.get("gates", ())] == ["G12-OldProcess"]
    )
    assert before["podUID"] in blocked["gates"][0]["message"]
    assert not blocked.get("grant")
    assert blocked["incarnation"] == before["incarnation"]

    stage.kubectl("annotate", KIND, CLUSTER, f"bookie.dev/confirmed-ended={before['podUID']}")
    try:
        healed = wait_until(stage, pod, "Serving again", _serves)
    finally:
        stage.kubectl("annotate", KIND, CLUSTER, "bookie.dev/confirmed-ended-")
    assert healed["incarnation"] == before["incarnation"] + 1
