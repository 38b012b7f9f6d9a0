"""A Kubernetes for a test, or a reason why not: skipped on a laptop, failed where CI promised one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kube_cluster
import kube_errors


def kubeconfig_or_skip() -> Path:
    """Return the kubeconfig of this checkout's cluster, brought up when it is not. Skips the test where none can be."""
    try:
        return kube_cluster.up()
    except kube_errors.NoClusterHere as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no Kubernetes can be had here: {missing}")
