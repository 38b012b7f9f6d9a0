"""Remembers which pods this process saw, and for which of them the kubelet reported the end.

A new process remembers nothing. A kubelet that ends a pod for good reports a terminal phase with every container
terminated, and only then lets the object go. A pod that goes without this report was deleted by force.
"""

from collections.abc import Iterable
from dataclasses import replace

from bookie_operator.evidence import processes
from bookie_operator.evidence.facts import BookieCase, NodeFacts
from bookie_operator.gateways import facts
from bookie_operator.gateways.kube import KubeForbidden, KubeReader, Manifest
from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster

_REMEMBERED_MAX = 20_000  # pod uids: bounds memory, far above what a fleet goes through in an operator's life


class Endings:
    """Remembers the ends of pods. Pod events and live lists feed it; each pass reads it once."""

    def __init__(self) -> None:
        self._has_ended: dict[str, bool] = {}  # by pod uid, oldest first

    def saw(self, pod: Manifest) -> None:
        """Note an event of a pod, also its deletion. `pod`: its state at the event."""
        self.note(pod["metadata"]["uid"], has_ended=facts.has_ended(pod))

    def note(self, uid: str, *, has_ended: bool) -> None:
        self._has_ended[uid] = self._has_ended.get(uid, False) or has_ended
        while len(self._has_ended) > _REMEMBERED_MAX:
            del self._has_ended[next(iter(self._has_ended))]

    def has_seen(self, uid: str) -> bool:
        return uid in self._has_ended

    def has_ended(self, uid: str) -> bool:
        return self._has_ended.get(uid, False)


async def with_endings(
    kube: KubeReader, endings: Endings, cluster: Cluster, cases: Iterable[BookieCase]
) -> tuple[tuple[BookieCase, ...], bool]:
    """Return `cases` with the known ends of their older processes; and False when Nodes may not be read."""
    nodes = _Nodes(kube)
    words = cluster.annotations.get(names.CONFIRMED_ENDED, "").split(",")
    confirmed = frozenset(word.strip() for word in words)
    return tuple([await _complete(endings, nodes, cluster, confirmed, case) for case in cases]), nodes.is_readable


async def _complete(
    endings: Endings, nodes: "_Nodes", cluster: Cluster, confirmed: frozenset[str], case: BookieCase
) -> BookieCase:
    entry = cluster.status.bookie(case.name)
    known = (entry.processes or ()) if entry is not None else ()
    live = case.pod.uid if case.pod is not None else ""
    if case.pod is not None:
        endings.note(live, has_ended=case.pod.has_ended)
    ended = {one.pod_uid for one in known if endings.has_ended(one.pod_uid) or one.pod_uid in confirmed}
    if processes.unseen(case) in confirmed:
        ended.add(processes.UNSEEN)
    wanted = {one.node for one in known if one.pod_uid not in ended | {live} and one.node}
    is_new = live not in {one.pod_uid for one in known if one.node_uid}
    # Whoever says nothing may be on a machine that is down: that is to be told (plan/stages.py).
    if case.pod is not None and case.pod.node and (is_new or case.report is None or _matters(cluster)):
        wanted.add(case.pod.node)
    # Whether the nodes of its local disks are gone decides about them; of disks that it had before, for how long they
    # are waited for.
    waits = case.pod is None or not case.pod.node
    local = [volume for volume in case.volumes if volume.is_local_disk and (waits or volume.is_replaced)]
    wanted |= {volume.recorded.node for volume in local if volume.recorded is not None and volume.recorded.node}
    return replace(
        case,
        ended=frozenset(ended),
        nodes=await nodes.read(wanted),
        was_replaced_unwatched=any(one.gone_since is None and not endings.has_seen(one.pod_uid) for one in known),
    )


def _matters(cluster: Cluster) -> bool:
    """Return True when each pass must know what becomes of the nodes. Otherwise it costs a call for each bookie and
    pass, for nothing."""
    has_local_disks = any(
        volume.is_local_disk or volume.is_ephemeral
        for _, shape in cluster.spec.shapes()
        for _, volume in shape.storage.by_role()
    )
    # Of a node that is drained all its bookies go (spec/operator.md#N8), whatever their disks are.
    is_shared = cluster.spec.shares_nodes
    # Who must not be evicted makes the others go one by one (spec/operator.md#Q21).
    is_one_by_one = cluster.spec.disruption.on_drain == "ReadOnlyFirst" or cluster.status.eviction is not None
    return has_local_disks or is_shared or is_one_by_one


class _Nodes:
    """The Nodes of one pass, each read once."""

    def __init__(self, kube: KubeReader) -> None:
        self._kube = kube
        self._found: dict[str, NodeFacts | None] = {}
        self.is_readable = True

    async def read(self, wanted: Iterable[str]) -> dict[str, NodeFacts | None]:
        """Return those of `wanted` that could be read; None where there is no such Node."""
        for name in sorted(set(wanted) - set(self._found)):
            if self.is_readable:
                await self._read(name)
        return {name: self._found[name] for name in wanted if name in self._found}

    async def _read(self, name: str) -> None:
        try:
            manifest = await self._kube.get("Node", "", name)
        except KubeForbidden:
            self.is_readable = False
            return
        self._found[name] = facts.node(manifest) if manifest is not None else None
