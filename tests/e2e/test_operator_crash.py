"""The operator dies after every single write of a heal, and the fleet heals all the same.

Its container runs it in a loop in which each life ends without warning, in turn right after its first and its second
write to the API server or to a bookie (`BOOKIE_OPERATOR_CRASH_AFTER`). A life begins with a status, in which its
lease's new epoch stands, unless there are claims to mark; so lives of one write die between a promise and its deed,
those of two between a deed and the next promise: between any two writes that the heal consists of. The loop stands in
for the kubelet, whose back-off between restarts would only make the test longer.
"""

import json
from typing import Any

import pytest

import kube_setup
import kube_tools
from fleet_kubernetes import KubernetesStage
from kube_talk import say
from story import Story
from timeline import Timeline

pytestmark = pytest.mark.cluster

SHORT_LIVES = """
writes=1
while true; do
  life=$(mktemp -d)
  TMPDIR=$life BOOKIE_OPERATOR_CRASH_AFTER=$writes bookie-operator run --watch-namespace={namespace}
  test -e $life/bookie-operator-crashed-after-$writes && echo "the operator died after $writes writes"
  rm -rf $life
  writes=$((3 - writes))
done
"""
DEATHS_MIN = 5  # suspicion, confirmation, grant, its sending, identity of the claims: each is a write of its own


def test_the_operator_is_killed_between_any_two_writes_of_a_heal(stage: KubernetesStage) -> None:
    before = stage.incarnations()
    _die_after_every_write(kube_setup.NAMESPACE)
    try:
        told = Story(stage, Timeline(say), look_at=str(stage.logs), with_audits=False).go_on()
        deaths = _deaths()
    finally:
        kube_setup.install_operator()

    assert deaths >= DEATHS_MIN
    assert [one.claim for one in told.proofs if not one.holds] == []
    after = stage.incarnations()
    assert told.loss is not None
    assert after == before | {told.loss.bookie_id: before[told.loss.bookie_id] + 1}


def _die_after_every_write(namespace: str) -> None:
    command = ["sh", "-c", SHORT_LIVES.format(namespace=namespace)]
    container: dict[str, Any] = {"name": "operator", "command": command, "args": []}
    # It is down most of the time, by design: probes would only kill the loop.
    container |= {"startupProbe": None, "livenessProbe": None, "readinessProbe": None}
    patch = json.dumps({"spec": {"template": {"spec": {"containers": [container]}}}})
    deployment = f"deployment/{kube_setup.OPERATOR_RELEASE}"
    kube_tools.kubectl(
        "--namespace", kube_setup.OPERATOR_NAMESPACE, "patch", deployment, "--type=strategic", "--patch", patch
    )
    kube_tools.kubectl("--namespace", kube_setup.OPERATOR_NAMESPACE, "rollout", "status", deployment, "--timeout=180s")


def _deaths() -> int:
    logs = kube_tools.kubectl(
        "--namespace", kube_setup.OPERATOR_NAMESPACE, "logs", f"deployment/{kube_setup.OPERATOR_RELEASE}", "--tail=-1"
    )
    return logs.count("the operator died after ")
