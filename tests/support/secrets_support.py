"""Secrets of a fleet on a real Kubernetes: made, changed, read, and seen to arrive in running pods. For
`tests/nightly`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import yaml

import kube_tools
from fleet_support import Fleet
from kube_setup import NAMESPACE


def put(name: str, files: Mapping[str, bytes]) -> None:
    """Make or change the Secret `name`: these are all of its files."""
    data = {file: base64.b64encode(text).decode() for file, text in files.items()}
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}
    kube_tools.apply(json.dumps(made))


def files_of(name: str, namespace: str = NAMESPACE) -> dict[str, bytes]:
    """The files of a Secret; none while it is not there."""
    shown = kube_tools.kubectl("--namespace", namespace, "get", "secret", name, "-o", "json", "--ignore-not-found")
    data = (json.loads(shown) if shown.strip() else {}).get("data") or {}
    return {file: base64.b64decode(text) for file, text in data.items()}


def change(name: str, files: Mapping[str, bytes], namespace: str = NAMESPACE) -> None:
    """Change these files of a Secret that is there; its others stay."""
    patch = {"data": {file: base64.b64encode(text).decode() for file, text in files.items()}}
    kube_tools.kubectl("--namespace", namespace, "patch", "secret", name, "--type=merge", "--patch", json.dumps(patch))


def remove(*names: str) -> None:
    kube_tools.kubectl("--namespace", NAMESPACE, "delete", "secret", *names, "--ignore-not-found")


def arrives(fleet: Fleet, pods: Iterable[str], path: str, text: bytes) -> None:
    """Wait until the file `path` of these pods is `text`: the kubelet brings it in a minute or two."""

    def has(pod: str) -> Callable[[], bool]:
        return lambda: fleet.stage.kubectl("exec", pod, "--", "cat", path).encode() == text

    for pod in pods:
        fleet.sees(f"{path} in {pod} to be new", has(pod))


def writers_have(fleet: Fleet, volume: Mapping[str, Any], path: str, environment: Mapping[str, str]) -> None:
    """Have the fleet's writers, from their next start on, see this source of a volume at `path` and these variables."""

    def equip(text: str) -> str:
        pod = yaml.safe_load(text)
        (container,) = pod["spec"]["containers"]
        pod["spec"]["volumes"].append({"name": "trust", **volume})
        container["volumeMounts"].append({"name": "trust", "mountPath": path, "readOnly": True})
        container.setdefault("env", []).extend({"name": key, "value": word} for key, word in environment.items())
        return yaml.safe_dump(pod)

    fleet.stage.equip_writers = equip


def restarts(fleet: Fleet) -> dict[str, tuple[str, int]]:
    """The uid of each bookie's pod, and how often its container has begun again."""
    return {
        name: (pod["metadata"]["uid"], sum(one["restartCount"] for one in pod["status"]["containerStatuses"]))
        for name, pod in fleet.pods().items()
    }
