"""The audit as a Job on the cluster: examples/audit.yaml or audit-executors.yaml, as a user would apply it.

Its image is large. Where nodes are ours it is sent to one of them, in the background, and the Job goes where it is.
"""

from __future__ import annotations

import concurrent.futures
from pathlib import Path
from typing import Any

import audit
import kube_images
import kube_load
import kube_setup
import kube_tools
from kube_errors import ClusterError
from kube_setup import NAMESPACE
from stage import DemoFailed

ALONE, WITH_EXECUTORS = "audit", "audit-executors"  # examples, and the names of the Jobs in them
ANYWHERE = "nodeSelector: {}"
LOAD_TIMEOUT_S = 900.0


class Image:
    """The Spark image on its way to a node."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="spark image")
        self._node = self._pool.submit(lambda: kube_load.load_on_one(kube_images.build_spark()))
        self._pool.shutdown(wait=False)

    def wait(self) -> str:
        """Return the node that has it, empty for any. Raises ClusterError."""
        return self._node.result(timeout=LOAD_TIMEOUT_S)


class JobAudit:
    """One Job; it is deleted once its answer is known, since a Job that found something counts as failed."""

    def __init__(self, name: str, node: str, logs: Path, example: str = ALONE) -> None:
        self._name = f"{example}-{name}"
        self._log = logs / f"{self._name}.log"
        self._answer: dict[str, Any] | None = None
        self._delete()
        text = (kube_setup.ROOT / "examples" / f"{example}.yaml").read_text()
        job = "kind: Job\nmetadata:\n  name: {}\n"
        text = text.replace(job.format(example), job.format(self._name))
        if node:
            text = text.replace(ANYWHERE, f"nodeSelector: {{kubernetes.io/hostname: {node}}}")
        kube_setup.apply_text(text)

    def answer(self) -> dict[str, Any] | None:
        if self._answer is None and self._has_ended():
            told = self._kubectl("logs", f"job/{self._name}")
            self._log.write_text(told)
            self._answer = audit.parsed(told, self._exit_code(), str(self._log))
            self._delete()
        return self._answer

    def _has_ended(self) -> bool:
        try:
            job = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "job", self._name)
        except ClusterError:
            return False  # a busy API server; the caller has a deadline
        conditions = job.get("status", {}).get("conditions", ())
        return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)

    def _exit_code(self) -> int:
        pods = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pods", "-l", f"job-name={self._name}")["items"]
        for status in (status for pod in pods for status in pod["status"].get("containerStatuses", ())):
            if "terminated" in status["state"]:
                return int(status["state"]["terminated"]["exitCode"])
        raise DemoFailed(f"the Job {self._name} ended and no container of it says how", str(self._log))

    def _delete(self) -> None:
        self._kubectl("delete", "job", self._name, "--ignore-not-found", "--cascade=foreground")

    @staticmethod
    def _kubectl(*words: str) -> str:
        return kube_tools.kubectl("--namespace", NAMESPACE, *words, timeout_s=120.0)
