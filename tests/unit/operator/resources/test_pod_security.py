"""Every pod of ours runs where a namespace enforces the restricted profile (Pod Security Standards)."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import operator_support as make
from bookie_operator.resources import fleet
from pod_security_support import violations

ROOT = Path(__file__).resolve().parents[4]
Spec = dict[str, Any]
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CLUSTERS: dict[str, Spec] = {
    "as it comes": {},
    "with everything that mounts something": {
        "security": {
            "tls": {"mode": "Required", "secretName": "tls"},
            "authentication": {"mode": "Required", "secretName": "users"},
        },
        "metadataService": {
            "uri": "zk+hierarchical://zk:2181/ledgers",
            "initialize": "IfAbsent",
            "security": {"secretName": "zk", "tls": "Mutual"},
        },
    },
    "with a pod template": {
        "podTemplate": {
            "spec": {
                "containers": [
                    {"name": "bookie", "env": [{"name": "A", "value": "1"}]},
                    {"name": "logs", "image": "logs:1", "securityContext": RESTRICTED},
                ],
                "initContainers": [{"name": "wait", "image": "wait:1", "securityContext": RESTRICTED}],
                "volumes": [{"name": "more", "emptyDir": {}}],
            }
        }
    },
}


def pods(**changes: Any) -> list[Spec]:
    """The pod specs of everything that the operator makes for a cluster."""
    made = fleet.everything(make.cluster(**changes), make.IMAGE)
    return [one["spec"]["template"]["spec"] for one in made if "template" in one.get("spec", {})]


def operators_pod() -> Spec:
    """The pod spec of the operator's chart; what Helm would fill in stands there as a word."""
    path = ROOT / "charts" / "bookie-operator" / "templates" / "deployment.yaml"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not re.match(r"\s*\{\{.*\}\}\s*$", line)]
    found = yaml.safe_load("\n".join(re.sub(r"\{\{.*?\}\}", "x", line) for line in lines))
    out: Spec = found["spec"]["template"]["spec"]
    return out


@pytest.mark.parametrize("changes", CLUSTERS.values(), ids=CLUSTERS)
def test_bookies_and_the_metadata_job_keep_the_restricted_profile(changes: Spec) -> None:
    found = pods(**changes)

    assert len(found) == 4, "three zones and the Job"
    assert [violations(spec) for spec in found] == [[]] * 4


def test_the_operator_keeps_it_as_well() -> None:
    spec = operators_pod()

    assert [one["name"] for one in spec["containers"]] == ["operator"]
    assert violations(spec) == []


@pytest.mark.parametrize("container", [0, -1])
def test_no_container_of_ours_can_write_to_its_image_nor_has_a_bookie_a_token(container: int) -> None:
    for spec in (*pods(), operators_pod()):
        assert spec["containers"][container]["securityContext"]["readOnlyRootFilesystem"] is True
    assert [spec["automountServiceAccountToken"] for spec in pods()] == [False] * 4


def of_pod(**fields: Any) -> Callable[[Spec], None]:
    return lambda spec: spec["securityContext"].update(fields)


def of_container(**fields: Any) -> Callable[[Spec], None]:
    return lambda spec: spec["containers"][0]["securityContext"].update(fields)


@pytest.mark.parametrize(
    "damage",
    [
        of_pod(runAsNonRoot=False),
        lambda spec: spec["securityContext"].pop("runAsNonRoot"),
        lambda spec: spec["securityContext"].pop("seccompProfile"),
        of_pod(runAsUser=0),
        of_pod(seccompProfile={"type": "Unconfined"}),
        of_pod(sysctls=[{"name": "kernel.msgmax", "value": "1"}]),
        of_pod(appArmorProfile={"type": "Unconfined"}),
        of_pod(seLinuxOptions={"user": "root"}),
        of_container(allowPrivilegeEscalation=True),
        of_container(privileged=True),
        of_container(capabilities={"drop": []}),
        of_container(capabilities={"drop": ["ALL"], "add": ["SYS_PTRACE"]}),
        of_container(procMount="Unmasked"),
        of_container(runAsNonRoot=False),
        lambda spec: spec["containers"][0].pop("securityContext"),
        lambda spec: spec["containers"][0]["ports"][0].update(hostPort=3181),
        lambda spec: spec.update(hostNetwork=True),
        lambda spec: spec["volumes"].append({"name": "x", "hostPath": {"path": "/"}}),
        lambda spec: spec["containers"][0].update(livenessProbe={"tcpSocket": {"port": 1, "host": "10.0.0.1"}}),
    ],
)
def test_the_judge_sees_each_way_to_leave_the_profile(damage: Callable[[Spec], None]) -> None:
    spec = copy.deepcopy(pods()[-1])

    damage(spec)

    assert violations(spec)
