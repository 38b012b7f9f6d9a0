"""One live look at one cluster. Reads only; nothing from a cache, because a grant may follow from it."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from bookie_operator.evidence.facts import (
    BookieCase,
    ClaimFacts,
    Contents,
    PersistentVolumeFacts,
    PodFacts,
    Report,
    State,
    VolumeCase,
)
from bookie_operator.gateways import facts
from bookie_operator.gateways.bookies import Bookies, BookieUnreachable
from bookie_operator.gateways.kube import Kube, KubeError, Manifest
from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.status import VolumeRecord
from bookie_operator.plan.observation import Leadership, Observation

_CHILD_KINDS = ("ServiceAccount", "ConfigMap", "Service", "PodDisruptionBudget", "Job", "StatefulSet")
_ABOUT_REPAIR = (State.FENCING, State.STAMPING, State.REPAIRING)


async def look(
    kube: Kube, bookies: Bookies, cluster: Cluster, leadership: Leadership, *, now_ms: int, image: str, version: str
) -> Observation:
    """Read everything that a plan for `cluster` may depend on. Raises KubeError when the API server does not answer."""
    try:
        return await _look_at_all(kube, bookies, cluster, leadership, now_ms=now_ms, image=image, version=version)
    except* KubeError as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def _look_at_all(
    kube: Kube, bookies: Bookies, cluster: Cluster, leadership: Leadership, *, now_ms: int, image: str, version: str
) -> Observation:
    namespace = cluster.namespace
    of_cluster = f"{names.LABEL_CLUSTER}={cluster.name}"
    async with asyncio.TaskGroup() as group:
        children = [group.create_task(kube.list(kind, namespace, of_cluster)) for kind in _CHILD_KINDS]
        pods_task = group.create_task(kube.list("Pod", namespace, of_cluster))
        claims_task = group.create_task(kube.list("PersistentVolumeClaim", namespace, of_cluster))
    pods = {manifest["metadata"]["name"]: facts.pod(manifest) for manifest in pods_task.result()}
    claims = {manifest["metadata"]["name"]: facts.claim(manifest) for manifest in claims_task.result()}
    volumes = _Volumes(kube)
    bare = _cases(cluster, pods, claims)
    async with asyncio.TaskGroup() as group:
        cases = [group.create_task(_complete(bookies, volumes, cluster, case)) for case in bare]
    return Observation(
        cluster=cluster,
        now_ms=now_ms,
        leadership=leadership,
        image=cluster.spec.image or image,
        bookies=tuple(task.result() for task in cases),
        children={
            (kind, manifest["metadata"]["name"]): manifest
            for kind, task in zip(_CHILD_KINDS, children, strict=True)
            for manifest in task.result()
        },
        old_volumes=volumes.old,
        can_read_volumes=volumes.is_readable,
        has_marked_claims=any(claim.marks is not None for claim in claims.values()),
        operator_version=version,
    )


def _cases(cluster: Cluster, pods: dict[str, PodFacts], claims: dict[str, ClaimFacts]) -> Iterable[BookieCase]:
    """One bare case per desired bookie, in the order of pools and ordinals."""
    for pool, zone, replicas in cluster.spec.pools():
        for ordinal in range(replicas):
            name = names.pod(cluster.name, pool, ordinal)
            recorded = _recorded(cluster, name)
            yield BookieCase(
                name=name,
                bookie_id=names.bookie_id(cluster.namespace, cluster.name, pool, ordinal),
                pool=pool,
                zone=zone.name if zone is not None else None,
                pod=pods.get(name),
                volumes=tuple(
                    VolumeCase(
                        name=volume.name,
                        role=role,
                        is_local_disk=volume.is_local_disk,
                        shares_filesystem=volume.shares_filesystem,
                        claim_name=names.claim(volume.name, name),
                        claim=claims.get(names.claim(volume.name, name)),
                        recorded=recorded.get(volume.name),
                    )
                    for role, volume in cluster.spec.storage.by_role()
                ),
            )


def _recorded(cluster: Cluster, bookie: str) -> dict[str, VolumeRecord]:
    entry = cluster.status.bookie(bookie)
    if entry is None:
        return {}
    return {volume.name: volume.recorded for volume in entry.volumes if volume.recorded is not None}


async def _complete(bookies: Bookies, volumes: "_Volumes", cluster: Cluster, case: BookieCase) -> BookieCase:
    """`case` with its persistent volumes and what its bookie says."""
    report, repair, problem = None, None, ""
    pod = case.pod
    if pod is not None and pod.ip and pod.phase == "Running" and not pod.is_terminating:
        address = f"{pod.ip}:{cluster.spec.network.ports.admin}"
        try:
            report = await _look(bookies, address, case)
            entry = cluster.status.bookie(case.name)
            if report.state in _ABOUT_REPAIR or (entry is not None and entry.grant is not None):
                repair = await bookies.repair(address)
        except BookieUnreachable as error:
            problem = str(error)
    completed = [await volumes.complete(volume, report) for volume in case.volumes]
    return replace(case, volumes=tuple(completed), report=report, repair=repair, report_problem=problem)


async def _look(bookies: Bookies, address: str, case: BookieCase) -> Report:
    """The bookie's report; a fresh inspection where something may be concluded from it."""
    report = await bookies.report(address, fresh=False)
    is_marked = all(
        volume.claim is not None
        and volume.claim.marks is not None
        and volume.claim.marks.incarnation == report.incarnation
        for volume in case.volumes
    )
    if report.state.serves and is_marked:
        return report
    report = await bookies.report(address, fresh=True)
    if report.state.serves and any(volume.contents is not Contents.VALID for volume in report.volumes):
        # It may have begun to serve while it was looking, and then the cookie is of before and the volumes of after.
        report = await bookies.report(address, fresh=True)
    return report


class _Volumes:
    """Persistent volumes of one pass. A claim's binding never changes: what we recorded for the same claim holds."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.is_readable = True
        self.old: dict[str, PersistentVolumeFacts] = {}

    async def complete(self, volume: VolumeCase, report: Report | None) -> VolumeCase:
        if volume.is_replaced and volume.recorded is not None and volume.recorded.pv_name:
            old = await self._read(volume.recorded.pv_name)
            if old is not None:
                self.old[old.name] = old
        reported = report.volume(volume.name) if report is not None else None
        return replace(volume, pv=await self._live(volume), report=reported)

    async def _live(self, volume: VolumeCase) -> PersistentVolumeFacts | None:
        claim, recorded = volume.claim, volume.recorded
        if claim is None or not claim.pv_name:
            return None
        if recorded is not None and recorded.pvc_uid == claim.uid and recorded.pv_uid:
            return PersistentVolumeFacts(claim.pv_name, recorded.pv_uid)
        return await self._read(claim.pv_name)

    async def _read(self, name: str) -> PersistentVolumeFacts | None:
        if not self.is_readable:
            return None
        try:
            manifest: Manifest | None = await self._kube.get("PersistentVolume", "", name)
        except KubeError as error:
            if not error.is_forbidden:
                raise
            self.is_readable = False
            return None
        return facts.persistent_volume(manifest) if manifest is not None else None
