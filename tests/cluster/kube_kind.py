"""Drive kind: make the nodes, remove them, and look at what is there.

Nodes are known by kind's label on their containers, so that the remains of a killed run are seen
too. Nothing here may touch a container without the label of the cluster it was asked about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import kube_cache
import kube_engine
import kube_errors
import kube_host
import kube_parts
import kube_shell
import kube_talk

CONFIG = Path(__file__).parent / "kind.yaml"
NODE_COUNT = 3

CLUSTER_LABEL = "io.x-k8s.kind.cluster"
"""kind's own label (its pkg/cluster/internal/providers/docker/constants.go)."""

NO_WATCHES = "inotify_init: too many open files"
"""What a kubelet says and ends with; kind and kubeadm tell of a time-out only."""

OWNER_LABEL = "bookie.dev/test-cluster"
"""Our label on the container network: what bears it with our cluster's name is ours to remove."""


def create(name: str, *, image: str, kubeconfig: Path, logs: Path) -> None:
    """Make the cluster `name` from `image`, in a container network of its own.

    When it fails, the nodes' logs are left in `logs` and nothing else.
    """
    kind = kube_parts.ensure("kind")
    _create_network(name)
    written = kubeconfig.with_name("kind.yaml")
    written.write_text(config())
    try:
        with kube_talk.step("making three nodes"):
            kube_shell.run(
                kind, "create", "cluster", "--name", name, "--image", image, "--config", written,
                "--kubeconfig", kubeconfig, "--retain",
                env={"KIND_EXPERIMENTAL_DOCKER_NETWORK": name},
            )  # fmt: skip
    except kube_errors.CommandFailed as error:
        kube_shell.succeeds(kind, "export", "logs", "--name", name, logs, timeout_s=60.0)
        remove(name)
        why = why_no_node_began(logs)
        raise kube_errors.ClusterError(f"kind made no cluster: {error}; {why}logs are in {logs}") from error


def config() -> str:
    """Return what kind is told: CONFIG, as far as this machine can do it."""
    text = CONFIG.read_text()
    return text if kube_host.has_ipv6() else of_ipv4_alone(text)


def of_ipv4_alone(text: str) -> str:
    """Return kind's configuration `text` without its addresses of IPv6."""
    return re.sub(r"(Subnet: [0-9./]+),\S+", r"\1", text.replace("ipFamily: dual", "ipFamily: ipv4"))


def node_subnet(name: str) -> str:
    """Return the addresses of IPv6 of the nodes of cluster `name`: apart from those of other clusters."""
    return f"fd00:198:18:{kube_cache.key(name)[:4]}::/64"


def why_no_node_began(logs: Path) -> str:
    """Return the cause, and what to do, where a kubelet's log in `logs` has one that we know; else ""."""
    for log in sorted(logs.glob("*/kubelet.log")):
        if NO_WATCHES in log.read_text(errors="replace"):
            return (
                f"{log.parent.name}: {NO_WATCHES}: the clusters that run here use up this machine's"
                " fs.inotify.max_user_instances (about 50 a cluster); remove one, or raise it with sysctl; "
            )
    return ""


def nodes(name: str) -> Mapping[str, str]:
    """Return the state ("running", "exited", …) of each node container of cluster `name`."""
    shown = kube_shell.lines(
        "docker", "ps", "--all", "--filter", f"label={CLUSTER_LABEL}={name}",
        "--format", "{{.Names}} {{.State}}",
    )  # fmt: skip
    return {line.split()[0]: line.split()[1] for line in sorted(shown)}


def start(name: str) -> None:
    """Start the nodes of cluster `name` that do not run."""
    stopped = [node for node, state in nodes(name).items() if state != "running"]
    if stopped:
        with kube_talk.step(f"starting {', '.join(stopped)} again"):
            kube_engine.docker("start", *stopped)


def remove(name: str) -> bool:
    """Remove the nodes of cluster `name`, their disks and its network; True if there were any."""
    present = list(nodes(name))
    if present:
        with kube_talk.step(f"removing {len(present)} nodes"):
            kube_engine.docker("rm", "--force", "--volumes", *present)
    networks = kube_shell.lines("docker", "network", "ls", "--quiet", "--filter", f"label={OWNER_LABEL}={name}")
    if networks:
        kube_engine.docker("network", "rm", *networks)
    return bool(present)


def _create_network(name: str) -> None:
    """Make the network beforehand, so that it bears our label and lies in the engine's range."""
    ipv6 = ["--ipv6", f"--subnet={node_subnet(name)}"] if kube_host.has_ipv6() else []
    kube_engine.docker(
        "network", "create", "--driver=bridge", f"--label={OWNER_LABEL}={name}", *ipv6,
        "--opt=com.docker.network.bridge.enable_ip_masquerade=true",
        "--opt=com.docker.network.driver.mtu=1500", name,
    )  # fmt: skip
