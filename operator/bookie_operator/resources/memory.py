"""Computes how much memory a bookie of this spec needs, whatever its clients do: the default limit of its container.

Without a limit one bookie may take a node's memory from all others on it; with a lower one the kernel ends it under a
load that it was made to bear. Rule: `bookie.base.budgets`.
"""

from bookie.base import budgets, units
from bookie.base.units import MIB
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.values import parse_quantity

_KEY = "memory"


def limits(spec: BookieClusterSpec) -> dict[str, str]:
    """Return the container's limits: the user's, and one for memory if the user gave none, which covers the request."""
    given = dict(spec.resources.limits)
    if _KEY in given:
        return given
    requested = parse_quantity(spec.resources.requests.get(_KEY, "0"))
    return given | {_KEY: f"{-(-max(need_bytes(spec), int(requested)) // MIB)}Mi"}


def shortage(spec: BookieClusterSpec) -> str:
    """Return why the memory limit of `spec` is too small, with both figures and what to try; "" when it is large
    enough."""
    limit, need = int(parse_quantity(limits(spec)[_KEY])), need_bytes(spec)
    if limit >= need:
        return ""
    return (
        f"spec.resources.limits.memory is {units.format_bytes(limit)}, and the caches and clients of a bookie may take"
        f" {units.format_bytes(need)} (the kernel ends a bookie that takes more than its limit): raise the limit to"
        f" {-(-need // MIB)}Mi, or set smaller caches in spec.config (dbStorage_writeCacheMaxSizeMb,"
        " dbStorage_readAheadCacheMaxSizeMb)"
    )


def problems(spec: BookieClusterSpec) -> tuple[str, ...]:
    """Return one sentence for each resource that the pods would request more of than their limit allows them: the API
    server refuses such a StatefulSet, after it has taken the children before it."""
    requests, most = spec.resources.requests, spec.resources.limits
    return tuple(
        f"spec.resources.requests.{name} is {requests[name]} and spec.resources.limits.{name} is {limit}: Kubernetes"
        " refuses a pod that requests more than its limit. Lower the request or raise the limit; the operator"
        " rolls nothing of the spec out meanwhile"
        for name, limit in sorted(most.items())
        if name in requests and parse_quantity(requests[name]) > parse_quantity(limit)
    )


def need_bytes(spec: BookieClusterSpec) -> int:
    """Return the need, from the volumes and the sizes of caches and frames in `config`. Total sizes in `config` are for
    all directories."""
    directories = len(spec.storage.ledgers.volumes)
    write_mib, read_mib = (
        _number(spec, "dbStorage_writeCacheMaxSizeMb"),
        _number(spec, "dbStorage_readAheadCacheMaxSizeMb"),
    )
    # What is said of the write cache is for the two generations that fill and are written (cli/storage_settings).
    write = budgets.WRITE_CACHE_BYTES if write_mib is None else write_mib * MIB // (2 * directories)
    read = budgets.READ_CACHE_BYTES if read_mib is None else read_mib * MIB // directories
    frame = _number(spec, "nettyMaxFrameSizeBytes")
    return budgets.memory_need_bytes(
        ledger_dirs=directories,
        journal_dirs=len(spec.storage.journal.volumes),
        write_cache_bytes=write,
        read_cache_bytes=read,
        frame_bytes_max=budgets.FRAME_BYTES if frame is None else frame,
    )


def _number(spec: BookieClusterSpec, key: str) -> int | None:
    """Return the number in `config`; None if it is absent or no number, which `model/config` refuses."""
    text = (spec.config or {}).get(key, "")
    return int(text) if text.isascii() and text.isdigit() else None
