"""Every manifest that a user finds here (`examples/`, blocks of the pages) before a real API server: it takes each, and
knows each field. A dry run: the stage applies what a demo needs, and no machine here has the disks of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import cluster_support
import kube_tools
import pages_support
from bookie_operator.model import names

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "bookie-manifests"


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    """A cluster with the committed CRDs, and a namespace that no operator watches."""
    cluster_support.kubeconfig_or_skip()
    for plural in (names.PLURAL, names.OPERATION_PLURAL):
        kube_tools.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds" / f"{plural}.yaml"))
        kube_tools.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{plural}.{names.GROUP}")
    kube_tools.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    kube_tools.kubectl("create", "namespace", NAMESPACE)
    yield NAMESPACE
    kube_tools.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.mark.parametrize("found", pages_support.manifests(), ids=lambda found: found[0])
def test_the_api_server_takes_each_manifest_that_we_print(namespace: str, found: tuple[str, str]) -> None:
    told = kube_tools.kubectl(
        "create", f"--namespace={namespace}", "--dry-run=server", "--validate=strict", "-f", "-", text_in=found[1]
    )

    assert "created (server dry run)" in told
