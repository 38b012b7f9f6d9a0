"""The image of a cluster's nodes: the public one by digest, or one assembled on the spot.

Assembling takes kind's own files for a node (entry point, units, storage manifest) from kind's
module, as it ships them; nothing of them may be copied into this repository.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from pathlib import Path

import kube_base
import kube_cache
import kube_engine
import kube_errors
import kube_host
import kube_parts
import kube_shell
import kube_talk

PUBLIC_IMAGE = "kindest/node:v1.34.0@sha256:7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a"
"""The default node image of kind 0.30 (its pkg/apis/config/defaults/image.go)."""

FILES = Path(__file__).parent / "node"
PROGRAMS = ("kubernetes", "etcd", "pause", "coredns", "local-path-provisioner")
RECIPE = "1"
"""Counted up when this module puts the same inputs together differently."""

PROGRAMS_IMAGE = "bookie.test/node-programs:local"


def ensure() -> str:
    """Return the name of a node image that the engine has; minutes when nothing is cached."""
    assembled = f"bookie-node:{key()}"
    for image in (PUBLIC_IMAGE, assembled):
        if kube_base.is_present(image):
            return image
    if kube_base.pull(PUBLIC_IMAGE):
        return PUBLIC_IMAGE
    with kube_cache.lock("node-image"):
        if not kube_base.is_present(assembled):
            _assemble(assembled)
            _forget_others(assembled)
    return assembled


def key() -> str:
    """Return the key of everything that an assembled node image is made from."""
    parts = [kube_parts.PARTS[name].key() for name in PROGRAMS]
    return kube_cache.key(FILES, RECIPE, kube_parts.KIND_MODULE, *parts)


def _assemble(image: str) -> None:
    kube_talk.say("the public node image cannot be pulled: assembling one from Go modules")
    kube_host.ensure_disk_free(kube_cache.root(), size_bytes_min=8_000_000_000)
    programs = {name: kube_parts.ensure(name) for name in PROGRAMS}
    kube_base.ensure_base()
    with tempfile.TemporaryDirectory(prefix="bookie-node-") as name:
        context = Path(name)
        names = _fill_context(context, programs)
        with kube_talk.step("building the node's base image"):
            for target in ("programs", "coredns", "pause", "node"):
                _build(context, target)
        with kube_talk.step("putting the cluster's images into the node image"):
            _tag_programs(names)
            _preload(image, names)


def _forget_others(image: str) -> None:
    """Remove images that earlier versions of this were, except those that containers use."""
    repository, _, _ = image.partition(":")
    for other in kube_shell.lines("docker", "images", "--format", "{{.Repository}}:{{.Tag}}", repository):
        if other != image:
            kube_shell.succeeds("docker", "rmi", other)  # refused while a cluster runs on it: fine


def _fill_context(context: Path, programs: dict[str, Path]) -> list[str]:
    """Fill the build context; return the image names that kubeadm and kind's storage ask for."""
    module = kube_parts.module_folder(kube_parts.KIND_MODULE)
    (context / "programs").mkdir()
    for name, path in programs.items():
        shutil.copy(path, context / "programs" / name)
    kubeadm = context / "kubeadm"
    kubeadm.symlink_to(programs["kubernetes"])
    version = kube_parts.KUBERNETES_VERSION
    names = list(kube_shell.lines(kubeadm, "config", "images", "list", "--kubernetes-version", version))
    kubeadm.unlink()

    shutil.copytree(module / "images/base/files", context / "kind-files", copy_function=_copy_writable)
    storage, storage_names = storage_manifest((module / "pkg/build/nodeimage/const_storage.go").read_text())
    (context / "manifests").mkdir()
    (context / "manifests/default-storage.yaml").write_text(storage)
    network = (FILES / "pod-network.yaml").read_text().replace("@PROGRAMS_IMAGE@", PROGRAMS_IMAGE)
    (context / "manifests/default-cni.yaml").write_text(network)

    (pause,) = (name for name in names if "/pause:" in name)
    settings = (FILES / "containerd.toml").read_text().replace("@PAUSE_IMAGE@", pause)
    (context / "containerd.toml").write_text(settings)
    (context / "version").write_text(version)
    for name in ("crictl", "at-once"):
        shutil.copy(FILES / name, context / name)
    shutil.copy(FILES / "pod-network.sh", context / "pod-network")
    return [*names, *storage_names, PROGRAMS_IMAGE]


def storage_manifest(go_source: str) -> tuple[str, list[str]]:
    """Return kind's default storage manifest, and the images it names, from its Go source.

    There the manifest is one raw string, cut where the constants with the image names go in.
    """
    constants = dict(re.findall(r'^const (\w+) = "([^"]*)"$', go_source, re.MULTILINE))
    found = re.search(r"^const defaultStorageManifest = `(.*)`", go_source, re.MULTILINE | re.DOTALL)
    if found is None or not constants:
        raise kube_errors.ClusterError(f"{kube_parts.KIND_MODULE} keeps its storage manifest elsewhere")
    manifest = re.sub(r"` \+ (\w+) \+ `", lambda cut: constants[cut.group(1)], found.group(1))
    return manifest, list(constants.values())


def _copy_writable(source: str, target: str) -> None:
    """Copy content and execute bits only: the module cache is read-only, a context must not be."""
    shutil.copyfile(source, target)
    Path(target).chmod(0o755 if Path(target).read_bytes().startswith(b"#!") else 0o644)


def _stage(target: str) -> str:
    return f"bookie.test/node-{target}:local"


def _build(context: Path, target: str) -> None:
    kube_engine.docker(
        "build", "--quiet", "--network=host", "--target", target, "--tag", _stage(target),
        "--file", FILES / "Dockerfile", context,
    )  # fmt: skip


def _tag_programs(names: list[str]) -> None:
    for name in names:
        match name.rpartition(":")[0].rpartition("/")[2]:
            case "pause" | "coredns" as own:
                kube_engine.docker("tag", _stage(own), name)
            case _:
                kube_engine.docker("tag", _stage("programs"), name)


def _preload(image: str, names: list[str]) -> None:
    """Import `names` into the containerd of a throw-away node and commit that as `image`."""
    holder = kube_engine.docker(
        "run", "--detach", "--rm", "--network=none", "--security-opt=seccomp=unconfined",
        "--entrypoint=sleep", _stage("node"), "infinity",
    ).strip()  # fmt: skip
    try:
        kube_engine.docker("exec", "--detach", holder, "containerd")
        ctr = ["docker", "exec", "--interactive", holder, "ctr", "--namespace=k8s.io"]
        _wait_for_containerd(ctr)
        load = [*ctr, "images", "import", "--label=io.cri-containerd.pinned=pinned"]
        kube_shell.pipe(["docker", "save", *names], [*load, "--no-unpack", "-"])
        # containerd is asked to end, not killed, so that its database is whole in the image.
        kube_engine.docker("exec", holder, "bash", "-c", STOP_CONTAINERD)
        kube_engine.docker("commit", "--change", ENTRYPOINT, "--change", "CMD []", holder, image)
    finally:
        kube_engine.docker("rm", "--force", "--volumes", holder)


ENTRYPOINT = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
"""Put back at the commit, because the throw-away container ran something else."""

STOP_CONTAINERD = "pkill -x containerd; while pgrep -x containerd >/dev/null; do sleep 0.1; done"


def _wait_for_containerd(ctr: list[str]) -> None:
    for _ in range(100):
        if kube_shell.succeeds(*ctr, "version"):
            return
        time.sleep(0.1)
    raise kube_errors.ClusterError("containerd does not start inside the node image")
