"""Looks at one cluster, live. Reads only; nothing from a cache, because a grant may follow from it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace

from bookie.ports.admin import Contents, Member, State, StorageReport
from bookie_operator import discover
from bookie_operator.evidence.facts import (
    LOOK_AGE_MS_MAX,
    BookieCase,
    Door,
    PersistentVolumeFacts,
    PodFacts,
    VolumeCase,
)
from bookie_operator.gateways import facts
from bookie_operator.gateways.bookies import BookieReader, BookieUnreachable
from bookie_operator.gateways.kube import KubeError, KubeForbidden, KubeReader, Manifest
from bookie_operator.model import names
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.cluster import Cluster
from bookie_operator.plan import doors, epoch
from bookie_operator.plan.observation import Observation, Term

_CHILD_KINDS = ("ServiceAccount", "ConfigMap", "Service", "PodDisruptionBudget", "Job", "StatefulSet")
_MEMBERS_ATTEMPTS = 3
_LOOK_AGAIN_MS = LOOK_AGE_MS_MAX // 3  # so that one answer that is lost makes nothing unknown
_ABOUT_REPAIR = (State.FENCING, State.STAMPING, State.REPAIRING)


@contextlib.asynccontextmanager
async def _first_of_group() -> AsyncIterator[None]:
    """Raise the first KubeError of tasks that ran together, instead of their group."""
    try:
        yield
    except* KubeError as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


@_first_of_group()
async def look(
    kube: KubeReader,
    bookies: BookieReader,
    cluster: Cluster,
    term: Term,
    *,
    now_ms: int,
    image: str,
    version: str,
    record_problem: str = "",
) -> Observation:
    """Read everything that a plan for `cluster` may depend on. Raises KubeError when the API server does not answer.

    `record_problem`: why `cluster.status` may lack entries of the record (`resources/record.py`).
    """
    namespace = cluster.namespace
    of_cluster = f"{names.LABEL_CLUSTER}={cluster.name}"
    async with asyncio.TaskGroup() as group:
        revisions_task = group.create_task(kube.list("ControllerRevision", namespace, of_cluster))
        tasks = [group.create_task(kube.list(kind, namespace, of_cluster)) for kind in _CHILD_KINDS]
        pods_task = group.create_task(kube.list("Pod", namespace, of_cluster))
        # Without a selector: a claim that a person made by hand, to bring a volume back, has none of our labels.
        claims_task = group.create_task(kube.list("PersistentVolumeClaim", namespace))
    children = {
        (kind, manifest["metadata"]["name"]): manifest
        for kind, task in zip(_CHILD_KINDS, tasks, strict=True)
        for manifest in task.result()
    }
    pods = {manifest["metadata"]["name"]: facts.pod(manifest) for manifest in pods_task.result()}
    claims = discover.claims_by_pod(cluster, claims_task.result())
    stateful_sets = [manifest for (kind, _), manifest in children.items() if kind == "StatefulSet"]
    pools = discover.pools(cluster, stateful_sets, claims)
    volumes = _Volumes(kube)
    bare = discover.cases(cluster, pools, pods, claims)
    async with asyncio.TaskGroup() as group:
        cases = [group.create_task(_complete(bookies, volumes, cluster, case)) for case in bare]
    completed = tuple(task.result() for task in cases)
    members, members_problem = await _members(bookies, cluster, completed)
    seen = [case.report.operator_epoch_seen for case in completed if case.report is not None]
    return Observation(
        cluster=cluster,
        now_ms=now_ms,
        leadership=epoch.lead(term, cluster.status.operator, seen),
        image=cluster.spec.image or image,
        pools=pools,
        bookies=discover.with_members(cluster, completed, members),
        members_problem=members_problem,
        record_problem=record_problem,
        children=children,
        mounted=_mounted(pods_task.result(), revisions_task.result(), children),
        old_volumes=volumes.old,
        can_read_volumes=await volumes.can_read(claims),
        said={**_said(pods_task.result(), children), **await _failed_creates(kube, cluster, pools, pods)},
        has_marked_claims=any(claim.marks is not None for found in claims.values() for claim in found.values()),
        operator_version=version,
    )


def _said(pods: Iterable[Manifest], children: Mapping[tuple[str, str], Manifest]) -> dict[str, str]:
    """Return why the Job that formats the metadata does not end, in its own words and its pods'."""
    out = {}
    for (kind, name), live in children.items():
        if kind == "Job":
            told = [facts.job_problem(live)]
            told += [facts.pod(pod).problem for pod in pods if facts.is_of_job(pod, name)]
            if words := "; ".join(dict.fromkeys(word for word in told if word)):
                out[f"{kind} {name}"] = words
    return out


async def _failed_creates(
    kube: KubeReader, cluster: Cluster, pools: tuple[BookiePool, ...], pods: Mapping[str, PodFacts]
) -> dict[str, str]:
    """Return why a StatefulSet that lacks pods cannot make them (a quota, a policy): the newest word of its
    controller."""
    out = {}
    for pool in pools:
        name = names.stateful_set(cluster.name, pool.name)
        if all(names.pod(cluster.name, pool.name, ordinal) in pods for ordinal in range(pool.replicas)):
            continue
        try:
            fields = f"reason=FailedCreate,regarding.kind=StatefulSet,regarding.name={name}"
            events = await kube.list("Event", cluster.namespace, fields=fields)
        except KubeForbidden:
            return {}  # an operator that may not read events says less
        if words := facts.newest_note(events):
            out[f"StatefulSet {name}"] = words
    return out


def _mounted(
    pods: Iterable[Manifest], revisions: Iterable[Manifest], children: Mapping[tuple[str, str], Manifest]
) -> frozenset[str]:
    """Return the ConfigMaps that may still be read: by a pod at its next container restart, by a StatefulSet in its
    next pod."""
    specs = [pod.get("spec") or {} for pod in pods]
    holders = [revision.get("data") or {} for revision in revisions]
    holders += [one for (kind, _), one in children.items() if kind == "StatefulSet"]
    specs += [((one.get("spec") or {}).get("template") or {}).get("spec") or {} for one in holders]
    return frozenset(name for spec in specs for name in facts.config_maps(spec))


async def _members(
    bookies: BookieReader, cluster: Cluster, cases: tuple[BookieCase, ...]
) -> tuple[tuple[Member, ...] | None, str]:
    """Return every cookie and registration of this cluster's store, from a bookie that has a session there; or why
    there is no list.

    It does not ask a bookie that is in another store than the rest: that would list the bookies of another cluster.
    """
    problem = "no bookie that has a session with the metadata store answers"
    expected = cluster.spec.metadata_service.expected_instance_id or cluster.status.instance_id
    able = [
        case
        for case in cases
        if case.report is not None and case.report.metadata_reachable and expected in (None, case.report.instance_id)
    ]
    for case in sorted(able, key=lambda case: not (case.report and case.report.state.serves))[:_MEMBERS_ATTEMPTS]:
        assert case.pod is not None
        try:
            return await bookies.members(doors.of(cluster, case.pod)), ""
        except BookieUnreachable as error:
            problem = str(error)
    return None, problem


async def _complete(bookies: BookieReader, volumes: "_Volumes", cluster: Cluster, case: BookieCase) -> BookieCase:
    """Return `case` with its persistent volumes and its bookie's report."""
    report, repair, problem = None, None, ""
    pod = case.pod
    if pod is not None and pod.ip and pod.phase == "Running" and not pod.is_terminating:
        door = doors.of(cluster, pod)
        try:
            report = await _look(bookies, door, case)
            entry = cluster.status.bookie(case.name)
            if report.state in _ABOUT_REPAIR or (entry is not None and entry.grant is not None):
                repair = await bookies.repair(door)
        except BookieUnreachable as error:
            problem = str(error)
    completed = [await volumes.complete(volume, report) for volume in case.volumes]
    return replace(case, volumes=tuple(completed), report=report, repair=repair, report_problem=problem)


async def _look(bookies: BookieReader, door: Door, case: BookieCase) -> StorageReport:
    """Return the bookie's report; have the bookie look at its volumes anew when a conclusion may follow."""
    report = await bookies.report(door, fresh=False)
    is_marked = all(
        volume.claim is not None
        and volume.claim.marks is not None
        and volume.claim.marks.incarnation == report.incarnation
        for volume in case.volumes
    )
    if report.state.serves and is_marked and report.inspection_age_ms <= _LOOK_AGAIN_MS:
        return report
    report = await bookies.report(door, fresh=True)
    is_whole = report.cookie_present and all(volume.contents is Contents.VALID for volume in report.volumes)
    if report.state.serves and not is_whole:
        # It may have begun to serve while it was looking, and then the cookie is of before and the volumes of after.
        report = await bookies.report(door, fresh=True)
    return report


class _Volumes:
    """The persistent volumes of one pass. A claim's binding never changes: what we recorded for the same claim
    holds."""

    def __init__(self, kube: KubeReader) -> None:
        self._kube = kube
        self.is_readable = True
        self._has_tried = False
        self.old: dict[str, PersistentVolumeFacts] = {}

    async def complete(self, volume: VolumeCase, report: StorageReport | None) -> VolumeCase:
        if volume.is_replaced and volume.recorded is not None and volume.recorded.pv_name:
            old = await self._read(volume.recorded.pv_name)
            if old is not None:
                self.old[old.name] = old
        reported = report.volume(volume.name) if report is not None else None
        return replace(volume, pv=await self._live(volume), report=reported)

    async def can_read(self, claims: discover.Claims) -> bool | None:
        """Return whether the operator may read volumes. None: there is no volume yet that it could try to read."""
        bound = (claim.pv_name for found in claims.values() for claim in found.values() if claim.pv_name)
        if not self._has_tried and (name := next(bound, None)) is not None:
            await self._read(name)
        return self.is_readable if self._has_tried else None

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
        self._has_tried = True
        try:
            manifest: Manifest | None = await self._kube.get("PersistentVolume", "", name)
        except KubeForbidden:
            self.is_readable = False
            return None
        return facts.persistent_volume(manifest) if manifest is not None else None
