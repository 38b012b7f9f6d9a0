"""Bring built images to the cluster's nodes, and only what a node does not have yet.

A node is sent the layers that it does not hold (an OCI layout that leaves out content already
there), so a changed source reaches three nodes in seconds.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import kube_archive
import kube_base
import kube_cache
import kube_engine
import kube_errors
import kube_home
import kube_kind
import kube_parts
import kube_shell
import kube_talk
import kube_tools

DEFAULT_DOMAIN = "docker.io"
"""What Kubernetes puts before a short image name; a part of names here, never contacted."""

CTR = ("ctr", "--namespace=k8s.io")


def load(images: Sequence[str]) -> None:
    """Make `images` runnable on every node of the cluster in use.

    Raises ClusterError when an image was not built, or no way to the nodes is known.
    """
    for image in images:
        if not kube_base.is_present(image):
            raise kube_errors.ClusterError(f"the engine has no image {image}; build it first (`cluster.py image`)")
    match kube_home.mode():
        case kube_home.Mode.EXISTING:
            _load_existing(images)
        case _:
            _load_ours(images, list(kube_kind.nodes(kube_home.this().name)))


def load_on_one(image: str) -> str:
    """Make a large `image` runnable on one node and return its name; empty: on every node, where they are not ours.

    Raises as `load`.
    """
    if kube_home.mode() is kube_home.Mode.EXISTING:
        load([image])
        return ""
    if not kube_base.is_present(image):
        raise kube_errors.ClusterError(f"the engine has no image {image}; build it first (`cluster.py image`)")
    node = sorted(kube_kind.nodes(kube_home.this().name))[-1]
    _load_ours([image], [node])
    return node


def name_in_cluster(image: str) -> str:
    """Return the name that pods use for `image` once it is loaded."""
    registry = os.environ.get("IMAGE_REGISTRY")
    if kube_home.mode() is kube_home.Mode.EXISTING and registry:
        return f"{registry.rstrip('/')}/{image}"
    return image


def _load_existing(images: Sequence[str]) -> None:
    context = kube_tools.kubectl("config", "current-context").strip()
    if os.environ.get("IMAGE_REGISTRY"):
        for image in images:
            kube_engine.docker("tag", image, name_in_cluster(image))
            with kube_talk.step(f"pushing {name_in_cluster(image)}"):
                kube_engine.docker("push", name_in_cluster(image))
    elif context.startswith("kind-"):
        name = context.removeprefix("kind-")
        with kube_talk.step(f"loading {', '.join(images)} into kind's cluster {name}"):
            kind = kube_parts.ensure("kind")
            kube_shell.run(kind, "load", "docker-image", "--name", name, *images)
    else:
        raise kube_errors.ClusterError(
            f"nothing is known about how images reach the nodes of context {context}; set"
            " IMAGE_REGISTRY to a registry that this machine can push to and the nodes can pull from"
        )


def _load_ours(images: Sequence[str], nodes: Sequence[str]) -> None:
    home = kube_home.this()
    if not nodes:
        raise kube_errors.ClusterError("there is no cluster to load into; run `cluster.py up` first")
    with kube_cache.lock(f"{home.name}-load"):
        for image in images:
            image_id = kube_engine.docker("image", "inspect", "--format", "{{.Id}}", image).strip()
            behind = [node for node in nodes if not _has(node, image, image_id)]
            if behind:
                with kube_talk.step(f"loading {image} into {len(behind)} nodes"):
                    _send(image, behind)


def _send(image: str, nodes: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="bookie-load-") as folder:
        archive = Path(folder) / "image.tar"
        kube_engine.docker("save", "--output", archive, image)
        with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(lambda node: _import(node, image, archive), nodes))


def _import(node: str, image: str, archive: Path) -> None:
    argv = ["docker", "exec", "--interactive", node, *CTR, "images", "import", "--all-platforms", "-"]
    held = frozenset(kube_shell.lines("docker", "exec", node, *CTR, "content", "list", "--quiet"))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        with contextlib.suppress(BrokenPipeError):  # it ended early; its own complaint says why
            kube_archive.write_missing(archive, process.stdin, reference=reference_of(image), held=held)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        complaint = process.stderr.read().decode(errors="replace")
    if process.returncode != 0:
        raise kube_errors.CommandFailed(argv, process.returncode, complaint)


def _has(node: str, image: str, image_id: str) -> bool:
    """Tell whether `node` knows `image` and means the same build by it."""
    try:
        shown = kube_engine.docker("exec", node, "crictl", "inspecti", "--output=json", reference_of(image))
    except kube_errors.CommandFailed:
        return False
    return bool(json.loads(shown)["status"]["id"] == image_id)


def reference_of(image: str) -> str:
    """Return the full reference that a node keeps for `image`, as Kubernetes expands names."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"{DEFAULT_DOMAIN}/{image}" if slash else f"{DEFAULT_DOMAIN}/library/{image}"
