"""The README's Kubernetes commands, as printed, end with a fleet that is Ready.

This file comes first in its folder, before the demo's stage is set up, and leaves nothing behind: both use one cluster.
"""

import re
from collections.abc import Iterator

import pytest

import cluster_support
import kube_cache
import kube_home
import kube_setup
import kube_tools
import pages_support
import wait_support

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TIMEOUT_S = 1800.0  # images are built and loaded here, when nobody did it before
_MADE = "statefulsets,services,serviceaccounts,configmaps,poddisruptionbudgets,jobs,secrets"
UNDO = """
kubectl delete --ignore-not-found --wait -f examples/bookiecluster.yaml || echo "no such kind"
kubectl delete --ignore-not-found --wait -f examples/zookeeper.yaml
kubectl delete pvc,configmap --selector app.kubernetes.io/component=bookie --ignore-not-found --wait
helm uninstall bookie-operator --namespace bookie-system --ignore-not-found --wait
"""


@pytest.fixture
def alone() -> Iterator[None]:
    """This checkout's cluster, with nothing of ours on it, before and after."""
    cluster_support.kubeconfig_or_skip()
    with kube_cache.lock(f"{kube_home.this().name}-stage"):
        kube_setup.remove_remains()
        yield
        pages_support.run(_in_the_shell_of_the_page(UNDO), timeout_s=600.0)


def _in_the_shell_of_the_page(commands: str) -> str:
    return 'eval "$(.venv/bin/python tests/cluster/cluster.py env)"\n' + commands


def _summary() -> str:
    status = kube_tools.kubectl_json("get", kube_setup.KIND, "ledgers")["status"]
    return str(status["summary"])


def _managers() -> dict[str, set[str]]:
    """By kind of the fleet's objects: how their fields came there, what Kubernetes' own controllers note left out."""
    found = dict[str, set[str]]()
    ours = ("--selector", "app.kubernetes.io/managed-by=bookie-operator")
    for item in kube_tools.kubectl_json("get", _MADE, *ours, "--show-managed-fields")["items"]:
        for one in item["metadata"]["managedFields"]:
            if not one.get("subresource") and one["manager"] != "kube-controller-manager":
                found.setdefault(item["kind"], set()).add(one["operation"])
    return found


def test_the_kubernetes_commands_of_the_readme_end_with_a_fleet_that_is_ready(alone: None) -> None:
    page = pages_support.block("README.md", "On Kubernetes")

    told = pages_support.run(page.text, timeout_s=TIMEOUT_S)

    assert "condition met" in told, told[-3000:]
    # Ready needs an ensemble, three of the four: the last one may still be starting when the page's last line is run.
    assert re.search(r"[34]/4", told), told[-3000:]
    wait_support.wait_until(lambda: _summary() == "4/4", "all four bookies to serve", timeout_s=300.0)
    # An object that is made by a POST has another manager of its fields: they would stay when they are applied no more.
    managers = _managers()
    assert len(managers) == len(_MADE.split(",")), managers
    assert {operation for found in managers.values() for operation in found} == {"Apply"}, managers


def test_the_operators_page_prints_the_same_commands_as_the_readme() -> None:
    readme = pages_support.block("README.md", "On Kubernetes").text
    operator = pages_support.block("docs/OPERATOR.md", "Install").text

    assert operator in readme, "what is printed twice is the same twice: only the README's is run"
