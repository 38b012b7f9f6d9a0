"""kubectl and helm, pointed at the cluster in use.

The callers of this module need to know neither where a tool came from nor which cluster it is.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import kube_errors
import kube_home
import kube_parts
import kube_shell


def kubectl(*arguments: str | Path, text_in: str | None = None, timeout_s: float = 300.0) -> str:
    """Run kubectl and return what it prints. Raises CommandFailed."""
    return kube_shell.run(kubectl_path(), *arguments, text_in=text_in, env=environment(), timeout_s=timeout_s)


def kubectl_json(*arguments: str, timeout_s: float = 60.0) -> Any:
    """Run kubectl with `-o json` and return what it says, parsed."""
    return json.loads(kubectl(*arguments, "-o", "json", timeout_s=timeout_s))


def helm(*arguments: str | Path, timeout_s: float = 600.0) -> str:
    """Run helm and return what it prints. Raises CommandFailed."""
    return kube_shell.run(helm_path(), *arguments, env=environment(), timeout_s=timeout_s)


def apply(manifest: str) -> str:
    """Apply a manifest with server-side apply, as a user with plain kubectl would."""
    return kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text_in=manifest)


def environment() -> dict[str, str]:
    """Return the environment that points kubectl, helm and client libraries at the cluster."""
    return {"KUBECONFIG": str(kubeconfig())}


def kubeconfig() -> Path:
    """Return the kubeconfig of the cluster in use; it is there after `up`."""
    if kube_home.mode() is kube_home.Mode.EXISTING:
        paths = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        return Path(paths)
    return kube_home.this().kubeconfig


def kubectl_path() -> Path:
    """Return the kubectl that came with our cluster, else the one on PATH."""
    ours = kube_home.this().kubectl
    if kube_home.mode() is not kube_home.Mode.EXISTING and ours.exists():
        return ours
    on_path = shutil.which("kubectl")
    if on_path is None:
        raise kube_errors.ClusterError("there is no kubectl here; run `cluster.py up` first")
    return Path(on_path)


def helm_path() -> Path:
    """Return the helm on PATH, else one built from its module (a minute, once)."""
    on_path = shutil.which("helm")
    return Path(on_path) if on_path is not None else kube_parts.ensure("helm")
