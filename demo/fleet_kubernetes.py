"""The stage on a real Kubernetes: the built image, the charts and the examples, as a user would apply them.

Everything lives in a namespace of the demo's own; the operator in another. What a run leaves behind is removed by the
next one, by KEEP=0, or with the cluster.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kube_audit
import kube_cache
import kube_cluster
import kube_home
import kube_images
import kube_load
import kube_setup
import kube_tools
import kube_view
from kube_errors import ClusterError
from kube_setup import KIND, NAMESPACE
from kube_talk import step
from oracle import Oracle
from stage import DemoFailed, Loss, LostVolume, Observation, Proof
from steps import Steps, observed
from timeline import Timeline
from waiting import wait_for

CLUSTER = "ledgers"  # its name in examples/bookiecluster.yaml
EXAMPLE_URI = "zk+hierarchical://zookeeper:2181/ledgers"
MARK_INCARNATION = "bookie.dev/incarnation"
READY_TIMEOUT_S = 300.0
POD_TIMEOUT_S = 180.0


class KubernetesStage:
    title = ""
    not_shown = ""
    poll_s = 0.5  # one look is two requests to the API server

    def __init__(self, logs: Path, cluster: str = CLUSTER) -> None:
        self.logs = logs
        self.cluster = cluster  # metadata.name of the BookieCluster
        self.writers = "workload" if cluster == CLUSTER else f"workload-{cluster}"  # their pod
        self.equip_writers: Callable[[str], str] = str  # what becomes of their manifest before it is applied
        self._timeline: Timeline | None = None
        self._incarnation_before = 0
        self._pod_uid_before = ""
        self._events_before: set[str] = set()
        self._steps: Steps | None = None
        self._step: dict[str, Any] | None = None
        self._seen = Observation()
        self._stack = contextlib.ExitStack()
        self._spark: kube_audit.Image | None = None

    # ---- up ----------------------------------------------------------------------------------------------------------

    def start(self, timeline: Timeline) -> None:
        self._timeline = timeline
        # Two runs of one checkout would share the namespace: the second one waits for the first.
        self._stack.enter_context(kube_cache.lock(f"{kube_home.this().name}-stage"))
        kube_cluster.up()
        os.environ["KUBECONFIG"] = str(kube_tools.kubeconfig())  # for every kubectl that is followed
        timeline.tell("step", "Kubernetes is up: three nodes in three zones")
        kube_load.load(kube_images.build_all())
        self._spark = kube_audit.Image()
        timeline.tell("step", "the image is built from the Dockerfile and on every node")
        kube_setup.remove_remains()
        kube_tools.kubectl("create", "namespace", NAMESPACE)
        kube_setup.install_operator()
        timeline.tell("step", "the CRD chart and the operator chart are installed")
        kube_setup.apply(kube_setup.ROOT / "examples" / "zookeeper.yaml")
        kube_setup.apply(kube_setup.ROOT / "examples" / "bookiecluster.yaml")
        self._wait_ready()
        timeline.tell("step", f"kubectl wait --for=condition=Ready: {self.status().get('summary', '?')} bookies serve")

    def _wait_ready(self) -> None:
        def look() -> bool | None:
            return True if kube_view.is_ready(self.status()) else None

        wait_for(
            "condition=Ready of the BookieCluster",
            look,
            timeout_s=READY_TIMEOUT_S,
            look_at=str(self.logs / "kubernetes.txt"),
            detail=lambda: kube_view.why_not_ready(self.status()),
            poll_s=self.poll_s,
        )
        self.kubectl(
            "wait", "--for=condition=Ready", f"bookiecluster/{self.cluster}", f"--timeout={READY_TIMEOUT_S:.0f}s"
        )

    # ---- the fleet ---------------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, timeout_s: float = 300.0) -> str:
        return kube_tools.kubectl("--namespace", NAMESPACE, *arguments, timeout_s=timeout_s)

    def resource(self) -> dict[str, Any]:
        """Return the BookieCluster."""
        found: dict[str, Any] = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", KIND, self.cluster)
        return found

    @property
    def _kubectl(self) -> list[str]:
        """The command line that reaches the demo's namespace, for what is followed."""
        return [str(kube_tools.kubectl_path()), "--namespace", NAMESPACE]

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.resource().get("status", {})
        return status

    def bookie_ids(self) -> Sequence[str]:
        return [entry["bookieId"] for entry in self.status().get("bookies", ())]

    def incarnations(self) -> dict[str, int]:
        """Return the incarnation of every bookie, by its id."""
        return {entry["bookieId"]: int(entry["incarnation"]) for entry in self.status().get("bookies", ())}

    def start_workload(self) -> Oracle:
        with step("starting the workload pod"):
            self.kubectl("delete", "pod", self.writers, "--ignore-not-found")
            uri = str(self.resource()["spec"]["metadataService"]["uri"])
            text = (kube_setup.ROOT / "examples" / "workload.yaml").read_text()
            text = text.replace("metadata:\n  name: workload\n", f"metadata:\n  name: {self.writers}\n")
            kube_setup.apply_text(self.equip_writers(text.replace(f"={EXAMPLE_URI}\n", f"={uri}\n")))
            self.kubectl("wait", "--for=condition=Ready", f"pod/{self.writers}", f"--timeout={POD_TIMEOUT_S:.0f}s")
        command = [*self._kubectl, "exec", self.writers, "--", "bookie", "workload"]
        follow = [*self._kubectl, "logs", "--follow", "--tail=1", self.writers]
        return Oracle(follow, command, uri=uri, log="/oracle", talk=self.logs / "oracle.log", restarts=True)

    # ---- the accident ------------------------------------------------------------------------------------------------

    def prepare_audit(self) -> None:
        assert self._spark is not None, "start() comes first"
        self._spark.wait()

    def begin_audit(self, name: str, example: str = kube_audit.ALONE) -> kube_audit.JobAudit:
        assert self._spark is not None, "start() comes first"
        return kube_audit.JobAudit(name, self._spark.wait(), self.logs, example)

    def destroy(self, bookie_id: str) -> Loss:
        """Delete the claims and the pod of one bookie. The StatefulSet makes both anew, empty."""
        entry = self._entry(bookie_id)
        self._incarnation_before = int(entry["incarnation"])
        pod, claims = entry["name"], [volume["claim"] for volume in entry["volumes"]]
        events = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "events.events.k8s.io")["items"]
        self._events_before = {event["metadata"]["uid"] for event in events}
        wall_ms = time.time_ns() // 1_000_000
        self.kubectl("delete", "pvc", *claims, "--wait=false")
        self.kubectl("delete", "pod", pod, "--grace-period=1", "--wait=false")
        self._pod_uid_before = str(entry["podUID"])
        self._steps = self._step = None
        self._seen = Observation()
        volumes = [
            LostVolume(volume["name"], volume["role"], f"claim {volume['claim']} on {volume.get('pvName', '?')}")
            for volume in entry["volumes"]
        ]
        return Loss(bookie_id, wall_ms, tuple(volumes))

    def watch(self, bookie_id: str) -> Observation:
        if self._steps is not None and self._steps.has_more:
            self._step = self._steps.next()
        if self._steps is None or not self._steps.has_more:
            self._look(bookie_id)
        if self._step is None:
            return self._seen
        seen = observed(self._seen, self._step)
        # Whole when both say so: the bookie that its repair is done, the operator that it serves again.
        is_whole = seen.done and self._seen.done
        return dataclasses.replace(seen, done=is_whole, data_port_open=seen.phase in ("two", "done"))

    def _look(self, bookie_id: str) -> None:
        """Read the status and the operator's events; a busy API server leaves what was seen before."""
        try:
            status = self.status()
            events = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "events.events.k8s.io")["items"]
        except ClusterError:
            return
        pod = self._pod_of(status, bookie_id)
        entry = kube_view.entry_of(status, pod)
        if self._steps is None and entry is not None and entry.get("podUID") not in (None, self._pod_uid_before):
            watch = ["exec", pod, "--container", "bookie", "--", "bookie", "integrity", "status", "--watch", "--json"]
            self._steps = Steps([*self._kubectl, *watch], self.logs / "steps.log")
            self._stack.callback(self._steps.close)
        fresh = [event for event in events if event["metadata"]["uid"] not in self._events_before]
        notes = kube_view.sentences(fresh, pod)
        self._seen = kube_view.observation(status, pod, notes, incarnation_before=self._incarnation_before)

    def decide(self, bookie_id: str, seen: Observation) -> None:
        """Do nothing: the operator decides."""

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
        return kube_setup.diagnose(self.logs / "kubernetes.txt")

    def close(self, *, keep: bool) -> str:
        self._stack.close()
        if keep:
            return (
                f"It stays up: export KUBECONFIG={kube_tools.kubeconfig()};"
                f" kubectl -n {NAMESPACE} get bookiecluster,pods; `make cluster-down` removes it"
            )
        if kube_home.mode() is kube_home.Mode.KIND:
            kube_cluster.down()
        else:
            kube_setup.uninstall()
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


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _has_succeeded(pod: dict[str, Any]) -> bool:
    return bool(pod["status"].get("phase") == "Succeeded")
