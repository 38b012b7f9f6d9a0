"""A year with a fleet (docs/OPERATIONS.md): each command as printed, in its order, on a real Kubernetes, under writers
that note every acknowledged entry. Nothing acknowledged is lost by any of it, and the status tells the truth.

The last by its name, for the reason that `test_upgrade` gives, and because the fleet has another shape afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kube_engine
import kube_home
import kube_images
import kube_kind
import kube_load
import kube_tools
import pages_support
import proof
import stage_support
from fleet_kubernetes import CLUSTER, KubernetesStage
from kube_setup import NAMESPACE
from oracle import Oracle
from pages_support import Block
from waiting import wait_for

pytestmark = pytest.mark.cluster

BEGIN = """KEPT={kubeconfig}
eval "$(.venv/bin/python tests/cluster/cluster.py env)"
export KUBECONFIG=$KEPT
PATH="$PWD/.venv/bin:$PATH"
NAME={cluster}
"""
NEXT_IMAGE = "bookie:next"
BLOCK_TIMEOUT_S = 900.0
SETTLED_TIMEOUT_S = 240.0


class Year:
    """A person's shell over the fleet's namespace, the writers, and what was ever seen that must not be."""

    def __init__(self, stage: KubernetesStage, writers: Oracle, kubeconfig: str, *, kept: str) -> None:
        """`kept`: the node of ZooKeeper, the operator and the writers, which dies last."""
        self.stage = stage
        self.writers = writers
        self._kubeconfig = kubeconfig
        self._kept = kept

    def does(self, what: Block) -> str:
        """Run a block of the page as printed; return what it prints."""
        before = self.writers.acknowledged
        begin = BEGIN.format(kubeconfig=self._kubeconfig, cluster=CLUSTER)
        try:
            told = pages_support.run(
                begin + what.text, timeout_s=BLOCK_TIMEOUT_S, environment={"KUBECONFIG": self._kubeconfig}
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- the fleet then: {self.sight()}") from None
        print(f"--- {what.name}\n{told}")
        self._wait(f"writers to go on after {what.name}", lambda: self.writers.acknowledged > before + 50)
        return told

    def pods(self) -> dict[str, dict[str, Any]]:
        selector = f"bookie.dev/cluster={CLUSTER},app.kubernetes.io/component=bookie"
        found = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pods", "--selector", selector)["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def claims(self) -> set[str]:
        found = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pvc")["items"]
        return {claim["metadata"]["name"] for claim in found}

    def condition(self, kind: str) -> dict[str, Any]:
        return next((one for one in self.stage.status()["conditions"] if one["type"] == kind), {})

    def sight(self) -> str:
        """Return who is away, what is not as it should be and where each pod is, in few lines: CI prints no more."""
        status = self.stage.status()
        away = [str(entry) for entry in status["bookies"] if entry["state"] != "Serving"]
        bad = ("Degraded", "RepairInProgress", "Reconciling", "Stalled", "Ready")
        words = [f"{one['type']}={one['status']}: {one['message']}" for one in map(self.condition, bad) if one]
        pods = kube_tools.kubectl("--namespace", NAMESPACE, "get", "pods", "--output=wide", "--no-headers")
        return "\n".join([*away, *words, pods])

    def machine(self) -> tuple[str, list[str]]:
        """Return a node with bookies and no other pod of ours, and the names of those bookies."""
        places = {name: str(pod["spec"]["nodeName"]) for name, pod in self.pods().items()}
        node = next(node for node in sorted(set(places.values())) if node != self._kept and "control-plane" not in node)
        return node, [name for name, where in places.items() if where == node]

    def spreads_over_machines(self) -> None:
        """Close, as a reader does, each ledger that nobody closed and that has two copies on that machine.

        A writer that could use no other zone leaves such ones; when the machine dies nobody may say where they end,
        and the page says so. This story is about all others.
        """
        _, bookies = self.machine()

        ids = {entry["bookieId"] for entry in self.stage.status()["bookies"] if entry["name"] in bookies}

        def is_crowded(ledger: int) -> bool:
            shown = self._ledger(bookies[0], "show", str(ledger))
            return shown["state"] != "CLOSED" and len(ids.intersection(shown["segments"][-1]["bookies"])) > 1

        def are_spread() -> bool:
            named = [set(self._ledger(bookies[0], "list", "--naming", one)) for one in ids]
            shared = sorted(set.intersection(*named)) if len(named) > 1 else []
            crowded = [one for one in shared if is_crowded(one)]
            for one in crowded:
                self._ledger(bookies[0], "recover", str(one))
            return not crowded

        self._wait("ledgers to have one copy at most on that machine", are_spread)

    def _ledger(self, pod: str, verb: str, *arguments: str) -> Any:
        """Run `bookie ledger` in a bookie's pod; return what it prints."""
        told = self.stage.kubectl(
            "exec",
            pod,
            "--",
            "bookie",
            "ledger",
            verb,
            "--json",
            "--config",
            "/etc/bookie/bookie.properties",
            *arguments,
        )
        return json.loads(told)

    def loses_a_machine(self) -> list[str]:
        """Cut the power of that machine; return the names of its bookies once they are missed."""
        lost, on_it = self.machine()
        kube_engine.docker("kill", lost)

        def are_missed() -> bool:
            states = {entry["name"]: entry["state"] for entry in self.stage.status()["bookies"]}
            return all(states[name] != "Serving" for name in on_it)

        def is_known() -> bool:
            answer = kube_tools.kubectl("get", "node", lost, "--no-headers")
            return "NotReady" in answer

        self._wait(f"{lost} to be missed", are_missed)
        self._wait("Kubernetes to know", is_known)
        return on_it

    def settles(self) -> None:
        """Wait until every bookie serves and the operator has nothing left to do."""

        def is_settled() -> bool:
            resource = self.stage.resource()
            status = resource["status"]
            words = {one["type"]: one["status"] for one in status["conditions"]}
            serve = all(entry["state"] == "Serving" for entry in status["bookies"])
            is_seen = status["observedGeneration"] == resource["metadata"]["generation"]
            return is_seen and serve and words["Degraded"] == "False" and words["Reconciling"] == "False"

        self._wait("the fleet to settle", is_settled)

    def _wait(self, what: str, look: Callable[[], bool]) -> None:
        wait_for(
            what,
            lambda: True if look() else None,
            timeout_s=SETTLED_TIMEOUT_S,
            look_at="kubectl get bookiecluster -o yaml",
            detail=lambda: (
                "; ".join(str(entry) for entry in self.stage.status().get("bookies", ()) if entry["state"] != "Serving")
                or str(self.condition("Reconciling"))
            ),
            poll_s=1.0,
        )


@pytest.fixture
def year(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Year]:
    kube_engine.docker("tag", kube_images.BOOKIE_IMAGE, NEXT_IMAGE)
    kube_load.load([NEXT_IMAGE])
    path = tmp_path_factory.mktemp("shell") / "config"
    path.write_text(kube_tools.kubectl("config", "view", "--raw", "--minify", "--flatten"))
    kube_tools.kubectl("--kubeconfig", str(path), "config", "set-context", "--current", f"--namespace={NAMESPACE}")
    kept = stage_support.gather_beside_zookeeper()
    try:
        oracle = stage.start_workload()
    finally:
        stage_support.uncordon()
    oracle.start()
    try:
        wait_for(
            "the first entries",
            lambda: True if oracle.acknowledged > 500 else None,
            timeout_s=120.0,
            look_at="workload",
        )
        yield Year(stage, oracle, str(path), kept=kept)
    finally:
        oracle.close()
        kube_kind.start(kube_home.this().name)
        stage.kubectl("delete", "pod", "workload", "--ignore-not-found", "--wait=false")


def test_a_year_under_writers_loses_nothing(year: Year) -> None:
    told = year.does(pages_support.block("docs/OPERATIONS.md", "January: it is installed"))
    assert all(name in told for name in year.pods()), told

    before = year.uids()
    year.does(pages_support.block("docs/OPERATIONS.md", "March: another image"))
    year.settles()
    assert not before.items() & year.uids().items(), "every pod is another one"
    assert {pod["spec"]["containers"][0]["image"] for pod in year.pods().values()} == {NEXT_IMAGE}

    year.does(pages_support.block("docs/OPERATIONS.md", "May: the fleet grows"))
    year.settles()
    assert len(year.pods()) == 5

    lives, claims = year.stage.incarnations(), year.claims()
    year.spreads_over_machines()
    lost = year.loses_a_machine()
    told = year.does(pages_support.block("docs/OPERATIONS.md", "June: a machine dies"))
    said = [line for line in told.splitlines() if line.split() and line.split()[0] in lost]
    assert len(said) == len(lost), told
    assert not [line for line in said if "Serving" in line], told
    assert "NotReady" in told
    kube_kind.start(kube_home.this().name)
    year.does(pages_support.block("docs/OPERATIONS.md", "June: a machine dies", 2))
    year.settles()
    assert year.stage.incarnations() == lives, "nobody lost anything"
    assert year.claims() == claims

    node = year.pods()[f"{CLUSTER}-zone-c-0"]["spec"]["nodeName"]
    before = year.uids()
    year.does(pages_support.block("docs/OPERATIONS.md", "July: a node is serviced"))
    year.settles()
    moved = {name for name, uid in year.uids().items() if before[name] != uid}
    on_node = {name for name, pod in year.pods().items() if pod["spec"]["nodeName"] == node}
    assert moved <= on_node, "nobody but those of that node"
    assert f"{CLUSTER}-zone-c-0" in moved

    stayed = {name: uid for name, uid in year.uids().items() if "zone-c" not in name}
    year.does(pages_support.block("docs/OPERATIONS.md", "September: a zone is given back"))
    year.settles()
    assert set(year.pods()) == set(stayed)
    assert not [name for name in year.claims() if "zone-c" in name]
    assert not year.stage.status().get("orphans")

    year.does(pages_support.block("docs/OPERATIONS.md", "November: the operator is upgraded"))
    year.settles()
    assert year.uids() == stayed, "neither the retired zone nor the upgrade restarts a bookie that stays"

    lives, lost_one = year.stage.incarnations(), f"{CLUSTER}-zone-a-0"
    lost_id = next(entry["bookieId"] for entry in year.stage.status()["bookies"] if entry["name"] == lost_one)
    year.does(pages_support.block("docs/OPERATIONS.md", "December: a disk is lost"))
    year.settles()
    assert year.stage.incarnations() == lives | {lost_id: lives[lost_id] + 1}
    assert {name for name, uid in year.uids().items() if stayed[name] != uid} == {lost_one}

    year.writers.stop_writing()
    verdict = proof.nothing_lost(year.writers.ask("verify", "--json"))
    assert verdict.holds, verdict.seen
