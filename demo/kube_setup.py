"""The demo's namespace and the operator beside it: installed, applied, looked into, removed. As a user would do it."""

from __future__ import annotations

from pathlib import Path

import kube_images
import kube_load
import kube_tools
from kube_errors import ClusterError
from kube_talk import step

ROOT = Path(__file__).resolve().parents[1]
NAMESPACE, OPERATOR_NAMESPACE = "bookie-demo", "bookie-system"
CRD_RELEASE, OPERATOR_RELEASE = "bookie-operator-crds", "bookie-operator"
KIND = "bookieclusters.bookie.dev"


def remove_remains() -> None:
    """Remove what an earlier run left: its namespace, and its operator, whose image may be an older one."""
    with step("removing what an earlier run left"):
        kube_tools.helm(
            "uninstall", OPERATOR_RELEASE, "--namespace", OPERATOR_NAMESPACE, "--ignore-not-found", "--wait"
        )
        kube_tools.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout_s=300.0)


def uninstall() -> None:
    """Remove everything of ours from a cluster that is not ours."""
    remove_remains()
    with step("removing the CRD chart"):
        kube_tools.helm("uninstall", CRD_RELEASE, "--ignore-not-found")


def install_operator(charts: Path = ROOT / "charts", image: str = kube_images.BOOKIE_IMAGE) -> None:
    """Install or upgrade both charts; return once the operator's Deployment is rolled out."""
    repository, _, tag = kube_load.name_in_cluster(image).rpartition(":")
    # It watches the demo's namespace only: another operator of this cluster keeps its own.
    values = [f"image.repository={repository}", f"image.tag={tag}", f"watch.namespaces={{{NAMESPACE}}}"]
    # Else no loss of a shared disk's volume, and no end of a pod deleted by force, could be proven.
    values += ["persistentVolumes.read=true", "nodes.read=true"]
    settings = [word for value in values for word in ("--set", value)]
    with step("helm install: CRDs and operator"):
        kube_tools.helm("upgrade", "--install", CRD_RELEASE, charts / CRD_RELEASE, *_crd_flags())
        kube_tools.helm(
            "upgrade", "--install", OPERATOR_RELEASE, charts / OPERATOR_RELEASE,
            "--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout", "180s", *settings,
        )  # fmt: skip


def _crd_flags() -> list[str]:
    """A CRD that somebody applied without Helm is taken over; Helm refuses that unless it is told."""
    shown = kube_tools.kubectl("get", "crd", KIND, "--ignore-not-found", "-o", "jsonpath={.kind} {.metadata.labels}")
    return ["--take-ownership"] if shown.strip() and "Helm" not in shown else []


def apply(manifest: Path) -> None:
    """Apply one of the examples with plain kubectl; only names of images change, where the cluster needs it."""
    apply_text(manifest.read_text(encoding="utf-8"))


def apply_text(text: str) -> None:
    """Apply a manifest's text as `apply` does."""
    for image in (kube_images.BOOKIE_IMAGE, kube_images.SPARK_IMAGE, kube_images.ZOOKEEPER_IMAGE):
        # Also where a variable names the image of pods that the pod itself makes (examples/audit-executors.yaml).
        for key in ("image: ", 'value: "'):
            text = text.replace(f"{key}{image}", f"{key}{kube_load.name_in_cluster(image)}")
    kube_tools.kubectl("apply", "--namespace", NAMESPACE, "-f", "-", text_in=text)


def diagnose(path: Path) -> str:
    """Write down what a person would look at first; return where."""
    questions: list[tuple[str, ...]] = [
        ("get", "all,pvc", "--namespace", NAMESPACE, "-o", "wide"),
        ("get", KIND, "--namespace", NAMESPACE, "-o", "yaml"),
        ("get", "events.events.k8s.io", "--namespace", NAMESPACE),
        ("describe", "pods", "--namespace", NAMESPACE),
        ("get", "pods", "--namespace", OPERATOR_NAMESPACE),
        ("logs", "--namespace", OPERATOR_NAMESPACE, f"deployment/{OPERATOR_RELEASE}", "--tail=300"),
        ("logs", "--namespace", NAMESPACE, "-l", "app.kubernetes.io/component=bookie", "--tail=80", "--prefix"),
    ]
    with path.open("w", encoding="utf-8") as file:
        for question in questions:
            try:
                told = kube_tools.kubectl(*question, timeout_s=60.0)
            except ClusterError as error:
                told = str(error)
            file.write(f"$ kubectl {' '.join(question)}\n{told}\n")
    return str(path)
