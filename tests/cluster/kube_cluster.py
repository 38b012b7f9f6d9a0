"""Bring this checkout's cluster up, take it down, say how it is.

`up` is safe to repeat: a whole and healthy cluster is used again, the remains of a killed run are
removed first. `down` removes what `up` started and nothing else.
"""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import kube_cache
import kube_engine
import kube_errors
import kube_home
import kube_host
import kube_kind
import kube_node_image
import kube_parts
import kube_talk
import kube_tools
import kube_volumes
import kube_wait

ANSWER_TIMEOUT_S = 60.0
"""How long a cluster that should be there may take to answer before it is made anew."""

READY_TIMEOUT_S = 300.0
READY = (
    ("nodes are ready", ("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=20s")),
    ("names resolve", ("rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=20s")),
    (
        "volumes are made",
        ("rollout", "status", "-n", "local-path-storage", "deployment/local-path-provisioner", "--timeout=20s"),
    ),
)
"""What a new cluster must do before it is handed out, and what kubectl is asked about it."""


def up() -> Path:
    """Make or reuse a cluster and return the path of its kubeconfig.

    Raises NoClusterHere when none can be had on this machine, ClusterError when making it failed.
    """
    match kube_home.mode():
        case kube_home.Mode.NONE:
            raise kube_errors.NoClusterHere("CLUSTER=none asks for no cluster")
        case kube_home.Mode.EXISTING:
            _check_existing()
        case kube_home.Mode.KIND:
            home = kube_home.this()
            with kube_cache.lock(home.name):
                kube_engine.ensure()
                _remove_abandoned()
                kube_host.ensure_bookies_may_write(
                    Path(kube_engine.docker("info", "--format={{.DockerRootDir}}").strip())
                )
                if not _is_reusable(home):
                    _make_anew(home)
    return kube_tools.kubeconfig()


def prepare() -> None:
    """Build what `up` needs and the cache does not have, minutes the first time; nothing where `up` makes no cluster.
    Raises as `up` does."""
    if kube_home.mode() is not kube_home.Mode.KIND:
        return
    kube_tools.helm_path()  # these two first: tests without a cluster use them
    kube_parts.ensure("kstatus")
    kube_engine.ensure()
    _built()


def down() -> None:
    """Remove this checkout's cluster, its volumes, and the engine if we started it and it idles."""
    home = kube_home.this()
    with kube_cache.lock(home.name):
        if home.folder.exists() and not kube_engine.answers():
            kube_engine.ensure()  # its stopped nodes would come back with it one day
        if kube_engine.answers():
            kube_kind.remove(home.name)
        _forget(home)
    kube_engine.stop_if_ours()


def status() -> dict[str, object]:
    """Return what is known about the cluster in use, ready to be printed as JSON."""
    home = kube_home.this()
    engine = kube_engine.answers()
    return {
        "mode": kube_home.mode().value,
        "name": home.name,
        "engine": engine,
        "nodes": dict(kube_kind.nodes(home.name)) if engine else {},
        "whole": home.made_from.exists(),
        "answers": _answers(timeout_s=10.0) if engine and home.made_from.exists() else False,
        "kubeconfig": str(kube_tools.kubeconfig()),
    }


def wanted_key() -> str:
    """Return the key of what a cluster made now would be made from."""
    return kube_cache.key(kube_kind.config(), kube_parts.KIND_MODULE, kube_node_image.key())


def _check_existing() -> None:
    try:
        kube_tools.kubectl("get", "nodes", timeout_s=ANSWER_TIMEOUT_S)
    except kube_errors.CommandFailed as error:
        raise kube_errors.ClusterError(
            "CLUSTER=existing, but the cluster of the current kubectl context does not answer"
            f" (kubeconfig {kube_tools.kubeconfig()}): {error.stderr.strip().splitlines()[-1]}"
        ) from error


def _is_reusable(home: kube_home.Home) -> bool:
    if not home.made_from.exists() or home.made_from.read_text() != wanted_key():
        return False
    if len(kube_kind.nodes(home.name)) != kube_kind.NODE_COUNT:
        return False
    kube_kind.start(home.name)
    with kube_talk.step(f"asking the cluster {home.name} whether it is well"):
        return _answers(timeout_s=ANSWER_TIMEOUT_S)


def _answers(*, timeout_s: float) -> bool:
    """Tell whether every node is ready now or soon."""
    timeout = f"--timeout={timeout_s:.0f}s"
    try:
        kube_tools.kubectl("wait", "--for=condition=Ready", "nodes", "--all", timeout,
                           timeout_s=timeout_s + 10.0)  # fmt: skip
    except kube_errors.ClusterError:
        return False
    return True


def _remove_abandoned() -> None:
    """Remove the clusters of checkouts that are gone: nobody else would, and they start with the engine."""
    for home in kube_home.abandoned():
        with kube_cache.lock(home.name):
            kube_kind.remove(home.name)
            _forget(home)


def _forget(home: kube_home.Home) -> None:
    # CRASH: volumes first, since only this folder names them; its nodes are gone already.
    kube_volumes.release_all(home)
    shutil.rmtree(home.folder, ignore_errors=True)


def _built() -> str:
    """Return the node image; it, kind and helm are there then, and what served to build them is gone."""
    image = kube_node_image.ensure()
    kube_parts.ensure("kind")
    kube_tools.helm_path()
    kube_parts.forget_build_cache()
    return image


def _make_anew(home: kube_home.Home) -> None:
    image = _built()
    # CRASH: the record goes first and comes last, so a cluster without it is remains of a run.
    home.made_from.unlink(missing_ok=True)
    kube_kind.remove(home.name)
    kube_volumes.release_all(home)
    home.folder.mkdir(parents=True, exist_ok=True)
    home.made_for.write_text(str(kube_home.CHECKOUT))
    kube_kind.create(home.name, image=image, kubeconfig=home.kubeconfig, logs=home.logs)
    _install_kubectl(home)
    for what, arguments in READY:
        kube_wait.wait_for(what, functools.partial(kube_tools.kubectl, *arguments), timeout_s=READY_TIMEOUT_S)
    home.made_from.write_text(wanted_key())


def _install_kubectl(home: kube_home.Home) -> None:
    """Take kubectl from the control plane, so that it is of the cluster's own version."""
    home.kubectl.parent.mkdir(exist_ok=True)
    home.kubectl.unlink(missing_ok=True)
    (control_plane,) = (node for node in kube_kind.nodes(home.name) if "control-plane" in node)
    kube_engine.docker("cp", "--follow-link", f"{control_plane}:/usr/bin/kubectl", home.kubectl)
