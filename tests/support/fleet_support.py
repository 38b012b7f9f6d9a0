"""A fleet on a real Kubernetes as a person has it: a shell with kubectl, and the status. For `tests/nightly`.

`Fleet.settled` is the one criterion of every scenario: all serve, and what the status says is what pods, claims,
disruption budget and the bookies themselves say. The oracle (`writing`) adds: nothing acknowledged is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import kube_setup
import kube_tools
import pages_support
import proof
from fleet_kubernetes import KubernetesStage
from kube_errors import ClusterError
from kube_setup import NAMESPACE
from oracle import Oracle
from waiting import wait_for

BEGIN = """KEPT=$KUBECONFIG
eval "$(.venv/bin/python tests/cluster/cluster.py env)"
export KUBECONFIG=$KEPT
PATH="$PWD/.venv/bin:$PATH"
NAME={cluster}
"""
TIMEOUT_S = 420.0  # of one wait: the machine may be busy with other things
# An operator that dies again and again (`DIES`) hears no kubelet's last word of a pod: four minutes more for each stop.
PATIENCE = 4.0 if os.environ.get("DIES") else 1.0
ENTRIES_MIN = 300  # the writers are well under way
BOOKIES = "app.kubernetes.io/component=bookie"

Seen = TypeVar("Seen")


class Fleet:
    oracle: Oracle  # of the scenario under way

    def __init__(self, stage: KubernetesStage, folder: Path) -> None:
        """`folder` gets the kubeconfig of a person whose context is the fleet's namespace."""
        self.stage = stage
        path = folder / "kubeconfig"
        path.write_text(kube_tools.kubectl("config", "view", "--raw", "--minify", "--flatten"))
        kube_tools.kubectl("--kubeconfig", str(path), "config", "set-context", "--current", f"--namespace={NAMESPACE}")
        self._environment = {"KUBECONFIG": str(path)}

    # ---- what a person does ------------------------------------------------------------------------------------------

    def types(self, commands: str, *, timeout_s: float = 600.0) -> str:
        """Run `commands` in a person's shell; return what they print. Raises AssertionError where one fails."""
        begin = BEGIN.format(cluster=self.stage.cluster)
        return pages_support.run(begin + commands, timeout_s=timeout_s, environment=self._environment)

    def edits(self, **spec: Any) -> None:
        """`kubectl patch` of these parts of the spec; None takes a part away."""
        patch = json.dumps({"spec": spec})
        self.types(f"kubectl patch bookiecluster $NAME --type=merge --patch {shlex.quote(patch)}")

    def applies(self, resource: dict[str, Any]) -> None:
        """`kubectl apply` of a resource of this kind and spec under the fleet's name."""
        made = resource | {"metadata": {"name": self.stage.cluster}}
        self.types(f"kubectl apply -f - <<'END'\n{json.dumps(made)}\nEND")

    def puts_back(self, spec: dict[str, Any]) -> None:
        """Make the whole spec what it was, whatever a scenario that failed made of it."""
        patch = json.dumps([{"op": "replace", "path": "/spec", "value": spec}])
        self.types("kubectl uncordon --selector kubernetes.io/os=linux")
        self.types(f"kubectl patch bookiecluster $NAME --type=json --patch {shlex.quote(patch)}")

    def is_refused(self, commands: str) -> str:
        """Return why the API server refuses `commands`."""
        told = self.types(f"{commands} && echo WAS-TAKEN || true")
        assert "WAS-TAKEN" not in told, f"was taken: {commands}\n{told}"
        return told

    def loses(self, pod: str, *claims: str) -> None:
        """Delete claims of a bookie, all or those named, and its pod."""
        every = [volume["claim"] for volume in self.bookie(pod)["volumes"]]
        self.types(
            f"kubectl delete pvc {' '.join(claims or every)} --wait=false; kubectl delete pod {pod} --grace-period=1"
        )

    def orders(self, **spec: Any) -> str:
        """`kubectl create` of a BookieOperation with this spec; return its name."""
        made = {
            "apiVersion": "bookie.dev/v1alpha1",
            "kind": "BookieOperation",
            "metadata": {"generateName": "nightly-"},
            "spec": {"clusterRef": {"name": self.stage.cluster}, **spec},
        }
        name = self.types(f"kubectl create -o name -f - <<'END'\n{json.dumps(made)}\nEND").strip()
        return name.rpartition("/")[2]

    def phase(self, operation: str) -> str:
        """Phase and message of a BookieOperation."""
        words = "-o jsonpath='{.status.phase} {.status.message}'"
        return self.types(f"kubectl get bookieoperation {operation} {words}")

    @contextlib.contextmanager
    def writing(self) -> Iterator[Oracle]:
        """Writers that note each acknowledged entry; in the end all of them are read back."""
        oracle = self.stage.start_workload()
        oracle.start()
        try:
            self.sees("the first entries", lambda: oracle.acknowledged > ENTRIES_MIN)
            self.oracle = oracle
            yield oracle
            if not oracle.latest.get("stopped"):
                self.is_written_to()
                oracle.stop_writing()
            verdict = proof.nothing_lost(oracle.ask("verify", "--json"))
            assert verdict.holds, verdict.seen
        finally:
            oracle.close()
            self.stage.kubectl(
                "delete", "pod", self.stage.writers, "--ignore-not-found", "--wait=false", "--grace-period=1"
            )

    def is_written_to(self) -> None:
        before = self.oracle.acknowledged
        self.sees("writers to go on", lambda: self.oracle.acknowledged > before + 50)

    # ---- what it sees ------------------------------------------------------------------------------------------------

    def resource(self) -> dict[str, Any]:
        return self.stage.resource()

    def status(self) -> dict[str, Any]:
        return self.stage.status()

    def condition(self, kind: str) -> dict[str, Any]:
        """Return a condition that is of the newest spec, else {}."""
        resource = self.resource()
        status = resource.get("status", {})
        if status.get("observedGeneration") != resource["metadata"]["generation"]:
            return {}
        return next((one for one in status["conditions"] if one["type"] == kind), {})

    def says(self, kind: str, reason: str) -> str:
        """Wait until condition `kind` has `reason`; return its message."""

        def told() -> dict[str, Any] | None:
            found = self.condition(kind)
            return found if found.get("reason") == reason else None

        return str(self.sees(f"{kind}/{reason}", told)["message"])

    def bookie(self, name: str) -> dict[str, Any]:
        status = self.status()
        entries = [*status.get("bookies", ()), *status.get("orphans", ())]
        return next((entry for entry in entries if entry["name"] == name), {})

    def names(self) -> list[str]:
        return [entry["name"] for entry in self.status()["bookies"]]

    def pods(self) -> dict[str, dict[str, Any]]:
        return self._named("pods", f"{self._ours},{BOOKIES}")

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def claims(self) -> dict[str, dict[str, Any]]:
        return self._named("pvc", self._ours)

    def claim_uids(self) -> dict[str, str]:
        return {name: claim["metadata"]["uid"] for name, claim in self.claims().items()}

    def incarnations(self) -> dict[str, int]:
        """The incarnation of every bookie, by the name of its pod."""
        return {entry["name"]: int(entry["incarnation"]) for entry in self.status()["bookies"]}

    @property
    def _ours(self) -> str:
        return f"bookie.dev/cluster={self.stage.cluster}"

    @staticmethod
    def _named(kind: str, selector: str) -> dict[str, dict[str, Any]]:
        found = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", kind, "--selector", selector)["items"]
        return {one["metadata"]["name"]: one for one in found}

    def sees(
        self, what: str, look: Callable[[], Seen | None], *, timeout_s: float = TIMEOUT_S,
        detail: Callable[[], str] | None = None,
    ) -> Seen:  # fmt: skip
        """Return the first thing that `look` finds to be so."""

        def found() -> Seen | None:
            try:
                return look() or None
            except ClusterError:
                return None  # the API server is away, or what is looked for

        look_at = "kubectl get bookiecluster -o yaml"
        timeout_s *= PATIENCE
        return wait_for(what, found, timeout_s=timeout_s, look_at=look_at, detail=detail or self._detail, poll_s=0.7)

    def _detail(self) -> str:
        try:
            status = self.status()
        except ClusterError as error:
            return str(error)
        away = [entry for entry in status.get("bookies", ()) if entry["state"] != "Serving" or entry.get("leaving")]
        words = [
            " ".join(str(entry.get(key, "")) for key in ("name", "state", "reason", "gates", "leaving"))
            for entry in away
        ]
        rolled = status.get("rollout") or {}
        words += [str(rolled.get("waitingFor") or "")]
        words += [
            f"{one['type']}={one['status']} {one['reason']}: {one['message'][:200]}"
            for one in status.get("conditions", ())
            if one["type"] in ("Stalled", "Reconciling") and one["status"] == "True"
        ]
        return "; ".join(word for word in words if word)

    # ---- the verdict -------------------------------------------------------------------------------------------------

    def settled(self) -> None:
        """Wait until every bookie serves and nothing is left to do, and the status says nothing but the truth."""
        self.sees("the fleet to settle", lambda: not self._unsettled())
        self.sees(
            "the status to be the truth", lambda: not self._untruths(), detail=lambda: "; ".join(self._untruths())
        )

    def _unsettled(self) -> list[str]:
        resource = self.resource()
        status = resource.get("status", {})
        if not {"conditions", "bookies"} <= status.keys():
            return ["nothing is told yet"]  # it was applied a moment ago; the generation is told first
        words = {one["type"]: one["status"] for one in status["conditions"]}
        wanted = {"Ready": "True", "Degraded": "False", "Reconciling": "False", "Stalled": "False", "UpToDate": "True"}
        wrong = [f"{kind} is {words.get(kind)}" for kind, word in wanted.items() if words.get(kind) != word]
        if status["observedGeneration"] != resource["metadata"]["generation"]:
            wrong.append("the newest spec was not seen")
        spec = resource["spec"]
        wanted_bookies = sum(pool["replicas"] for pool in spec["pools"]) if "pools" in spec else spec["replicas"]
        if len(status["bookies"]) != wanted_bookies:
            wrong.append("the number of bookies")
        return wrong + [entry["name"] for entry in status["bookies"] if entry["state"] != "Serving"]

    def _untruths(self) -> list[str]:
        """What the status says otherwise than pods, claims, the budget and the bookies."""
        status, pods = self.status(), self.pods()
        entries = {entry["name"]: entry for entry in status["bookies"]}
        wrong = [] if set(entries) == set(pods) else [f"bookies {sorted(entries)}, pods {sorted(pods)}"]
        for name, pod in pods.items():
            if entries.get(name, {}).get("podUID") != pod["metadata"]["uid"]:
                wrong.append(f"{name} has another pod")
            if not _is_ready(pod):
                wrong.append(f"{name} is Serving, and its pod is not ready")
        count = len(pods)
        told = [status["summary"], status["replicas"], status["readyReplicas"], status.get("writableReplicas")]
        if told != [f"{count}/{count}", count, count, count]:
            wrong.append(f"{count} pods, and the status counts {told}")
        known = {
            volume["claim"] for entry in (*status["bookies"], *status.get("orphans", ())) for volume in entry["volumes"]
        }
        if not set(self.claims()) <= known:
            wrong.append(f"claims that nobody tells of: {sorted(set(self.claims()) - known)}")
        budget = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pdb", f"{self.stage.cluster}-bookies")[
            "spec"
        ]
        if budget.get("maxUnavailable") != status["budget"]["effectiveMaxUnavailable"]:
            wrong.append(f"budget {budget}, and the status says {status['budget']}")  # minAvailable: a set is away
        return wrong


def _is_ready(pod: dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))


@contextlib.contextmanager
def operator_away() -> Iterator[None]:
    """No operator runs while the body does."""
    deployment = f"deployment/{kube_setup.OPERATOR_RELEASE}"
    kube_tools.kubectl("--namespace", kube_setup.OPERATOR_NAMESPACE, "scale", deployment, "--replicas=0")
    try:
        yield
    finally:
        kube_tools.kubectl("--namespace", kube_setup.OPERATOR_NAMESPACE, "scale", deployment, "--replicas=1")
