"""Keep what the cluster says about itself when a test or the demo fails.

Everything here is best effort: a cluster in trouble must still yield what it can.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kube_errors
import kube_talk
import kube_tools

TAIL_LINES = 15


def export(folder: Path, *, namespace: str | None = None) -> Path:
    """Write events, objects, and every pod's description and logs into `folder`; return it.

    All namespaces when `namespace` is None. Never raises for what the cluster refuses to tell.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scope = ["--all-namespaces"] if namespace is None else ["--namespace", namespace]
    _keep(folder / "events.txt", "get", "events", "--sort-by=.lastTimestamp", *scope)
    _keep(folder / "objects.txt", "get", "all,pvc,pdb,configmap", "-o", "wide", *scope)
    _keep(folder / "volumes.txt", "get", "pv,nodes", "-o", "wide")
    for pod in _pods(scope):
        name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
        whose = ["--namespace", space, name]
        _keep(folder / f"{space}.{name}.describe.txt", "describe", "pod", *whose)
        _keep(folder / f"{space}.{name}.log", "logs", "--all-containers", "--prefix", *whose)
        if restarts(pod):
            _keep(folder / f"{space}.{name}.before.log", "logs", "--all-containers", "-p", *whose)
    return folder


def say_failing(*, namespace: str | None = None) -> None:
    """Print on standard error why pods are not ready, and the last lines that they wrote."""
    scope = ["--all-namespaces"] if namespace is None else ["--namespace", namespace]
    for pod in _pods(scope):
        reason = why_not_ready(pod)
        if reason is None:
            continue
        name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
        kube_talk.say(f"pod {space}/{name}: {reason}")
        argv = ("logs", "--namespace", space, name, "--all-containers", f"--tail={TAIL_LINES}")
        for line in _told(*argv).splitlines():
            kube_talk.say(f"  | {line}")


def why_not_ready(pod: dict[str, Any]) -> str | None:
    """Return why a pod object (as the API gives it) is not ready, None when it is or is done."""
    status = pod.get("status", {})
    if status.get("phase") == "Succeeded":
        return None
    for container in status.get("containerStatuses", []):
        for state in ("waiting", "terminated"):
            found = container.get("state", {}).get(state)
            if found:
                detail = found.get("message", "")
                return f"container {container['name']}: {found.get('reason', state)} {detail}".strip()
    for condition in status.get("conditions", []):
        if condition["type"] in ("PodScheduled", "Ready") and condition["status"] != "True":
            return f"{condition['type']}: {condition.get('message') or condition.get('reason', '')}"
    return None


def restarts(pod: dict[str, Any]) -> int:
    """Return how often the containers of a pod object were restarted."""
    return sum(one.get("restartCount", 0) for one in pod.get("status", {}).get("containerStatuses", []))


def _pods(scope: list[str]) -> list[dict[str, Any]]:
    try:
        found = kube_tools.kubectl_json("get", "pods", *scope)
    except kube_errors.ClusterError as error:
        kube_talk.say(f"the cluster does not tell its pods: {error}")
        return []
    pods: list[dict[str, Any]] = found["items"]
    return pods


def _keep(path: Path, *arguments: str) -> None:
    path.write_text(_told(*arguments), encoding="utf-8")


def _told(*arguments: str) -> str:
    try:
        return kube_tools.kubectl(*arguments, timeout_s=60.0)
    except kube_errors.ClusterError as error:
        return f"{error}\n"
