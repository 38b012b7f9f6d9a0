"""The commands of the on-call page, as printed, on a fleet that runs: each works and says what the page promises."""

import json
import re

import pytest

import kube_tools
import pages_support
from fleet_kubernetes import KubernetesStage
from kube_setup import KIND, NAMESPACE

pytestmark = pytest.mark.cluster

PAGE = "docs/OPERATOR.md"


@pytest.fixture
def shell(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A person's shell: kubectl speaks of the fleet's namespace, as after `kubectl config set-context`."""
    config = kube_tools.kubectl("config", "view", "--raw", "--minify", "--flatten")
    path = tmp_path_factory.mktemp("shell") / "config"
    path.write_text(config)
    environment = {"KUBECONFIG": str(path)}
    pages_support.run(_with_tools(f"kubectl config set-context --current --namespace={NAMESPACE}"), timeout_s=60.0,
                      environment=environment)  # fmt: skip
    return environment


def _with_tools(commands: str) -> str:
    """The page's reader has kubectl on his path; this checkout's is where its cluster put it."""
    return (
        'KEPT=$KUBECONFIG\neval "$(.venv/bin/python tests/cluster/cluster.py env)"\nexport KUBECONFIG=$KEPT\n'
        + commands
    )


def test_the_commands_of_the_page_work_as_printed(shell: dict[str, str]) -> None:
    page = pages_support.block("docs/OPERATOR.md", "At night")

    told = pages_support.run(_with_tools(page.text), timeout_s=120.0, environment=shell)

    status = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", KIND, "ledgers")["status"]
    assert re.search(r"^NAME\s+READY\s+BOOKIES", told, re.MULTILINE), told
    for entry in status["bookies"]:
        assert re.search(rf"^{entry['name']}\t{entry['state']}\t", told, re.MULTILINE), told
    assert re.search(r"^Ready=True", told, re.MULTILINE), told
    # A fleet to which nothing happened has no events, and kubectl says so.
    assert re.search(r"bookiecluster/ledgers|No resources found", told), told


def test_the_approval_of_the_page_is_taken(shell: dict[str, str]) -> None:
    page = (pages_support.ROOT / PAGE).read_text()
    (command,) = re.findall(r"`(kubectl annotate bookiecluster [^`]*approved-evidence[^`]*)`", page)

    pages_support.run(_with_tools("NAME=ledgers HASH=0123456789abcdef\n" + command), timeout_s=60.0, environment=shell)
    live = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", KIND, "ledgers")

    assert live["metadata"]["annotations"]["bookie.dev/approved-evidence"] == "0123456789abcdef"
    patch = json.dumps({"metadata": {"annotations": {"bookie.dev/approved-evidence": None}}})
    kube_tools.kubectl("--namespace", NAMESPACE, "patch", KIND, "ledgers", "--type=merge", "--patch", patch)
