"""The restricted profile of Kubernetes' Pod Security Standards, as rules over a pod's spec.

From https://kubernetes.io/docs/concepts/security/pod-security-standards (baseline and restricted, Linux).
"""

from collections.abc import Iterator
from typing import Any

Spec = dict[str, Any]

VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
)
SE_LINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")


def violations(spec: Spec) -> list[str]:
    """One entry for each rule that the pod breaks; none: a namespace that enforces the profile admits it."""
    return list(_of(spec))


def _of(spec: Spec) -> Iterator[str]:
    pod = spec.get("securityContext") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    yield from (f"{name} is true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    for volume in spec.get("volumes") or ():
        if not any(kind in volume for kind in VOLUMES):
            yield f"volume {volume['name']} is of a kind that is not allowed"
    for sysctl in pod.get("sysctls") or ():
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    yield from _context("the pod", pod)
    for container in containers:
        name, own = container["name"], container.get("securityContext") or {}
        yield from _context(name, own)
        if own.get("privileged"):
            yield f"{name}: privileged"
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation is not false"
        if own.get("procMount", "Default") != "Default":
            yield f"{name}: procMount"
        capabilities = own.get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            yield f"{name}: does not drop ALL"
        if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
            yield f"{name}: adds capabilities"
        if not (own.get("runAsNonRoot") or ("runAsNonRoot" not in own and pod.get("runAsNonRoot"))):
            yield f"{name}: runAsNonRoot is not true"
        if (own.get("seccompProfile") or pod.get("seccompProfile") or {}).get("type") not in (
            "RuntimeDefault",
            "Localhost",
        ):
            yield f"{name}: seccompProfile"
        yield from (f"{name}: hostPort" for port in container.get("ports") or () if port.get("hostPort"))
        for place in ("livenessProbe", "readinessProbe", "startupProbe"):
            probe = container.get(place) or {}
            if any((probe.get(kind) or {}).get("host") for kind in ("httpGet", "tcpSocket")):
                yield f"{name}: {place} names a host"


def _context(name: str, context: Spec) -> Iterator[str]:
    """Yield what neither a pod nor a container may say."""
    if context.get("runAsUser") == 0:
        yield f"{name}: runAsUser is 0"
    if context.get("runAsNonRoot") is False:
        yield f"{name}: runAsNonRoot is false"
    if (context.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield f"{name}: seccompProfile is Unconfined"
    if (context.get("appArmorProfile") or {}).get("type") == "Unconfined":
        yield f"{name}: appArmorProfile is Unconfined"
    options = context.get("seLinuxOptions") or {}
    if options.get("type", "") not in SE_LINUX_TYPES or options.get("user") or options.get("role"):
        yield f"{name}: seLinuxOptions"
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield f"{name}: hostProcess"
