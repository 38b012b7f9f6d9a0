"""The stage on a real Kubernetes: the built image, the charts and the examples, as a user would apply them.

Everything lives in a namespace of the demo's own; the operator in another. What a run leaves behind is removed by the
next one, by KEEP=0, or with the cluster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kube_cluster
import kube_home
import kube_images
import kube_load
import kube_tools
import kube_view
from kube_errors import ClusterError
from kube_talk import step
from oracle import Oracle
from stage import DemoFailed, Loss, LostVolume, Observation, Proof
from timeline import Timeline
from waiting import wait_for

ROOT = Path(__file__).resolve().parents[1]
NAMESPACE, OPERATOR_NAMESPACE = "bookie-demo", "bookie-system"
CRD_RELEASE, OPERATOR_RELEASE = "bookie-operator-crds", "bookie-operator"
KIND = "bookieclusters.bookie.dev"
MARK_INCARNATION = "bookie.dev/incarnation"
READY_TIMEOUT_S = 300.0
POD_TIMEOUT_S = 180.0


class KubernetesStage:
    title = ""
    not_shown = ""
    poll_s = 1.0  # one look is two requests to the API server

    def __init__(self, logs: Path, *, operator_values: Sequence[str] = ()) -> None:
        """`operator_values`: more `--set` for the operator's chart (tests crash it on purpose)."""
        self._logs = logs
        self._operator_values = list(operator_values)
        self._timeline: Timeline | None = None
        self._cluster_name = ""
        self._incarnation_before = 0

    # ---- up ----------------------------------------------------------------------------------------------------------

    def start(self, timeline: Timeline) -> None:
        self._timeline = timeline
        kube_cluster.up()
        os.environ["KUBECONFIG"] = str(kube_tools.kubeconfig())  # for every kubectl that is followed
        timeline.tell("step", "Kubernetes is up: three nodes in three zones")
        kube_load.load(kube_images.build_all())
        timeline.tell("step", "the image is built from the Dockerfile and on every node")
        self.remove_remains()
        kube_tools.kubectl("create", "namespace", NAMESPACE)
        self.install_operator()
        timeline.tell("step", "the CRD chart and the operator chart are installed")
        self.apply(ROOT / "examples" / "zookeeper.yaml")
        self.apply(ROOT / "examples" / "bookiecluster.yaml")
        self._wait_ready()
        timeline.tell("step", f"kubectl wait --for=condition=Ready: {self.status().get('summary', '?')} bookies serve")

    def remove_remains(self) -> None:
        """Remove what an earlier run left in the demo's namespace."""
        with step("removing what an earlier run left"):
            kube_tools.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout_s=300.0)

    def install_operator(self) -> None:
        """Install or upgrade both charts; return once the operator's Deployment is rolled out."""
        image = kube_load.name_in_cluster(kube_images.BOOKIE_IMAGE)
        repository, _, tag = image.rpartition(":")
        # It watches the demo's namespace only: another operator of this cluster keeps its own.
        scope = f"watch.namespaces={{{NAMESPACE}}}"
        values = [f"image.repository={repository}", f"image.tag={tag}", scope, *self._operator_values]
        settings = [word for value in values for word in ("--set", value)]
        with step("helm install: CRDs and operator"):
            kube_tools.helm("upgrade", "--install", CRD_RELEASE, ROOT / "charts" / CRD_RELEASE, *_crd_flags())
            kube_tools.helm(
                "upgrade", "--install", OPERATOR_RELEASE, ROOT / "charts" / OPERATOR_RELEASE,
                "--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout", "180s", *settings,
            )  # fmt: skip

    def apply(self, manifest: Path) -> None:
        """Apply one of the examples with plain kubectl; only names of images change, where the cluster needs it."""
        text = manifest.read_text()
        for image in (kube_images.BOOKIE_IMAGE, kube_images.ZOOKEEPER_IMAGE):
            text = text.replace(f"image: {image}", f"image: {kube_load.name_in_cluster(image)}")
        kube_tools.kubectl("apply", "--namespace", NAMESPACE, "-f", "-", text_in=text)

    def _wait_ready(self) -> None:
        def look() -> bool | None:
            return True if kube_view.is_ready(self.status()) else None

        wait_for(
            "condition=Ready of the BookieCluster",
            look,
            timeout_s=READY_TIMEOUT_S,
            look_at=str(self._logs / "kubernetes.txt"),
            detail=lambda: f"{self.status().get('summary', 'nothing yet')} bookies",
            poll_s=self.poll_s,
        )
        name = f"bookiecluster/{self._cluster_name}"
        self.kubectl("wait", "--for=condition=Ready", name, f"--timeout={READY_TIMEOUT_S:.0f}s")

    # ---- the fleet ---------------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, timeout_s: float = 300.0) -> str:
        return kube_tools.kubectl("--namespace", NAMESPACE, *arguments, timeout_s=timeout_s)

    def resource(self) -> dict[str, Any]:
        """Return the one BookieCluster of the demo; {} while there is none."""
        found: list[dict[str, Any]] = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", KIND)["items"]
        if found:
            self._cluster_name = found[0]["metadata"]["name"]
        return found[0] if found else {}

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.resource().get("status", {})
        return status

    def bookie_ids(self) -> Sequence[str]:
        return [entry["bookieId"] for entry in self.status().get("bookies", ())]

    def start_workload(self) -> Oracle:
        self.apply(ROOT / "examples" / "workload.yaml")
        with step("starting the workload pod"):
            self.kubectl("wait", "--for=condition=Ready", "pod/workload", f"--timeout={POD_TIMEOUT_S:.0f}s")
        kubectl = [str(kube_tools.kubectl_path()), "--namespace", NAMESPACE]
        command = [*kubectl, "exec", "workload", "--", "bookie", "workload"]
        uri = str(self.resource()["spec"]["metadataService"]["uri"])
        follow = [*kubectl, "logs", "--follow", "--tail=1", "workload"]
        return Oracle(follow, command, uri=uri, log="/oracle", talk=self._logs / "oracle.log", restarts=True)

    # ---- the accident ------------------------------------------------------------------------------------------------

    def destroy(self, bookie_id: str) -> Loss:
        """Delete the claims and the pod of one bookie; return once a new pod with new claims is there."""
        entry = self._entry(bookie_id)
        self._incarnation_before = int(entry["incarnation"])
        pod, claims = entry["name"], [volume["claim"] for volume in entry["volumes"]]
        wall_ms = time.time_ns() // 1_000_000
        old = self._uids(pod, claims)
        self.kubectl("delete", "pvc", *claims, "--wait=false")
        self.kubectl("delete", "pod", pod, "--grace-period=1", "--wait=false")

        def look() -> bool | None:
            new = self._uids(pod, claims)
            return True if new and not new & old and len(new) == len(old) else None

        wait_for("a new pod with new claims", look, timeout_s=POD_TIMEOUT_S, look_at="kubectl get pods,pvc", poll_s=0.5)
        volumes = [
            LostVolume(volume["name"], volume["role"], f"claim {volume['claim']} on {volume.get('pvName', '?')}")
            for volume in entry["volumes"]
        ]
        return Loss(bookie_id, wall_ms, tuple(volumes))

    def _uids(self, pod: str, claims: Sequence[str]) -> set[str]:
        """Return the UIDs of a pod and its claims, as far as they are there and stay."""
        names = [f"pod/{pod}", *(f"pvc/{claim}" for claim in claims)]
        found = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", *names, "--ignore-not-found")
        items = found.get("items", [found] if found.get("metadata", {}).get("uid") else [])
        return {item["metadata"]["uid"] for item in items if "deletionTimestamp" not in item["metadata"]}

    def watch(self, bookie_id: str) -> Observation:
        try:
            status = self.status()
            events = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "events.events.k8s.io")["items"]
        except ClusterError:
            return Observation()  # the API server was busy: the next look tells
        pod = self._pod_of(status, bookie_id)
        notes = kube_view.sentences(events, pod)
        return kube_view.observation(status, pod, notes, incarnation_before=self._incarnation_before)

    def decide(self, bookie_id: str, seen: Observation) -> None:
        """The operator decides."""

    # ---- the end -----------------------------------------------------------------------------------------------------

    def final_proofs(self, bookie_id: str, loss: Loss) -> list[Proof]:
        ready = self._wait_all_ready()
        entry = self._entry(bookie_id)
        marks = set()
        for volume in entry["volumes"]:
            claim = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pvc", volume["claim"])
            marks.add(claim["metadata"].get("annotations", {}).get(MARK_INCARNATION, "none"))
        new = str(entry["incarnation"])
        contents = {f"{volume['name']} {volume.get('contents', '?')}" for volume in entry["volumes"]}
        seen = f"metadata says {new} (before: {self._incarnation_before}), claims say {', '.join(sorted(marks))}; " + (
            ", ".join(sorted(contents))
        )
        right = marks == {new} and int(new) > self._incarnation_before
        claim_text = "the bookie's new incarnation is in the metadata and on its volumes"
        return [Proof(claim_text, right, seen), Proof("kubectl get bookiecluster,pods is all ready", *ready)]

    def _wait_all_ready(self) -> tuple[bool, str]:
        """Return whether the cluster and every pod of it is ready before the deadline, and what was seen."""
        try:
            wait_for(
                "everything to be ready",
                lambda: True if kube_view.is_ready(self.status()) and not self._unready_pods() else None,
                timeout_s=READY_TIMEOUT_S,
                look_at="kubectl get bookiecluster,pods",
                poll_s=self.poll_s,
            )
        except DemoFailed:
            return False, f"not ready: {', '.join(self._unready_pods()) or 'the BookieCluster'}"
        assert self._timeline is not None
        for line in self.kubectl("get", "bookiecluster,pods").splitlines():
            self._timeline.say(f"          {line}")
        return True, f"{self.status().get('summary', '?')} bookies, all pods ready"

    def _unready_pods(self) -> list[str]:
        pods = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pods")["items"]
        return [pod["metadata"]["name"] for pod in pods if not _is_ready(pod) and not _has_succeeded(pod)]

    def diagnose(self) -> str:
        """Write down what a person would look at first; return where."""
        path = self._logs / "kubernetes.txt"
        questions: list[tuple[str, ...]] = [
            ("get", "all,pvc", "--namespace", NAMESPACE, "-o", "wide"),
            ("get", KIND, "--namespace", NAMESPACE, "-o", "yaml"),
            ("get", "events.events.k8s.io", "--namespace", NAMESPACE),
            ("describe", "pods", "--namespace", NAMESPACE),
            ("logs", "--namespace", OPERATOR_NAMESPACE, f"deployment/{OPERATOR_RELEASE}", "--tail=300"),
            ("logs", "--namespace", NAMESPACE, "-l", "app.kubernetes.io/component=bookie", "--tail=80", "--prefix"),
        ]
        with path.open("w") as file:
            for question in questions:
                try:
                    told = kube_tools.kubectl(*question, timeout_s=60.0)
                except ClusterError as error:
                    told = str(error)
                file.write(f"$ kubectl {' '.join(question)}\n{told}\n")
        return str(path)

    def close(self, *, keep: bool) -> str:
        if keep:
            return (
                f"It stays up: export KUBECONFIG={kube_tools.kubeconfig()};"
                f" kubectl -n {NAMESPACE} get bookiecluster,pods; `make cluster-down` removes it"
            )
        if kube_home.mode() is kube_home.Mode.KIND:
            kube_cluster.down()
            return ""
        self.remove_remains()
        with step("removing the operator and its CRDs"):
            kube_tools.helm("uninstall", OPERATOR_RELEASE, "--namespace", OPERATOR_NAMESPACE, "--ignore-not-found")
            kube_tools.helm("uninstall", CRD_RELEASE, "--ignore-not-found")
        return ""

    def _entry(self, bookie_id: str) -> dict[str, Any]:
        status = self.status()
        entry = kube_view.entry_of(status, self._pod_of(status, bookie_id))
        assert entry is not None
        return entry

    @staticmethod
    def _pod_of(status: dict[str, Any], bookie_id: str) -> str:
        found = (entry["name"] for entry in status.get("bookies", ()) if entry["bookieId"] == bookie_id)
        return str(next(found, ""))


def _crd_flags() -> list[str]:
    """A CRD that somebody applied without Helm is taken over; Helm refuses that unless it is told."""
    found = kube_tools.kubectl(
        "get", "crd", KIND, "--ignore-not-found", "-o", "jsonpath={.metadata.name} {.metadata.labels}"
    )
    return ["--take-ownership"] if found.strip() and "Helm" not in found else []


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _has_succeeded(pod: dict[str, Any]) -> bool:
    return bool(pod["status"].get("phase") == "Succeeded")
