"""Looks at one cluster, live. Reads only; nothing from a cache, because a grant may follow from it.

`glance` is the exception, and nothing follows from it but a look.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bookie.base.groups import ungrouped
from bookie.ports.admin import Contents, DrainStatus, Member, State, StorageReport
from bookie_operator import discover
from bookie_operator.evidence.facts import (
    LOOK_AGE_MS_MAX,
    BookieCase,
    Door,
    PersistentVolumeFacts,
    PodFacts,
    VolumeCase,
)
from bookie_operator.gateways import facts, pod_types
from bookie_operator.gateways.bookies import BookieReader, BookieUnreachable
from bookie_operator.gateways.kube import KubeError, KubeForbidden, KubeReader, Manifest
from bookie_operator.model import names, operation
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.operation import BookieOperation
from bookie_operator.model.values import parse_time
from bookie_operator.plan import children as children_of
from bookie_operator.plan import doors, epoch, leaving, ownership, replacing
from bookie_operator.plan import marks as plan_marks
from bookie_operator.plan.dependents import Question
from bookie_operator.plan.observation import DependentsLook, MarksLook, Observation, Term

_CHILD_KINDS = ("ServiceAccount", "ConfigMap", "Service", "PodDisruptionBudget", "Job", "StatefulSet", "Deployment")
_MEMBERS_ATTEMPTS = 3
_LOOK_AGAIN_MS = LOOK_AGE_MS_MAX // 3  # so that one answer that is lost makes nothing unknown
_LEDGERS_SHOWN_MAX = 3
_STUCK_MS = 30_000  # a pod that is being made for so long waits for something
_ABOUT_REPAIR = (State.FENCING, State.STAMPING, State.REPAIRING)


@ungrouped(KubeError)
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
        operations_task = group.create_task(operations_of(kube, namespace, cluster.name))
    labelled = {
        (kind, manifest["metadata"]["name"]): manifest
        for kind, task in zip(_CHILD_KINDS, tasks, strict=True)
        for manifest in task.result()
    }
    children, strangers = _parted(cluster, labelled)
    pods = {manifest["metadata"]["name"]: facts.pod(manifest) for manifest in pods_task.result()}
    pods = {name: await _with_mounts(kube, cluster, pod, now_ms) for name, pod in pods.items()}
    claims = discover.claims_by_pod(cluster, claims_task.result())
    stateful_sets = [manifest for (kind, _), manifest in children.items() if kind == "StatefulSet"]
    asked, asked_problem = operations_task.result()
    to_retire = replacing.to_retire(cluster, asked, now_ms)
    pools = discover.pools(cluster, stateful_sets, claims, pods, to_retire)
    volumes = _Volumes(kube)
    bare = discover.cases(cluster, pools, pods, claims)
    async with asyncio.TaskGroup() as group:
        cases = [group.create_task(_complete(bookies, volumes, cluster, case)) for case in bare]
    completed = tuple(task.result() for task in cases)
    members, members_problem = await _members(bookies, cluster, completed)
    known = await _with_references(bookies, cluster, discover.with_members(cluster, completed, members), now_ms)
    seen = [case.report.operator_epoch_seen for case in completed if case.report is not None]
    return Observation(
        cluster=cluster,
        now_ms=now_ms,
        leadership=epoch.lead(term, cluster.status.operator, seen),
        image=cluster.spec.image or image,
        pools=pools,
        bookies=known,
        members_problem=members_problem,
        record_problem=record_problem,
        children=children,
        strangers=strangers,
        foreign_claims=discover.foreign_claims(cluster, pools, claims_task.result()),
        mounted=_mounted(pods_task.result(), revisions_task.result(), children),
        templates=_templates(revisions_task.result()),
        old_volumes=volumes.old,
        can_read_volumes=_has_no_volumes(cluster, claims) or await volumes.can_read(claims),
        said={**_said(pods_task.result(), children), **await _failed_creates(kube, cluster, pools, pods)},
        has_marked_claims=any(claim.marks is not None for found in claims.values() for claim in found.values()),
        template_problems=pod_types.problems(cluster.spec.pod_template),
        operator_version=version,
        operations=asked,
        operations_problem=asked_problem,
    )


async def by_name(kube: KubeReader, seen: Observation) -> Observation:
    """Return `seen` with what has the name of a child that its label did not find. Raises KubeError."""
    namespace, keys = seen.cluster.namespace, children_of.absent(seen)
    async with ungrouped(KubeError), asyncio.TaskGroup() as group:
        tasks = [group.create_task(kube.list(kind, namespace, fields=f"metadata.name={name}")) for kind, name in keys]
    found = {key: manifest for key, task in zip(keys, tasks, strict=True) for manifest in task.result()}
    children, strangers = _parted(seen.cluster, found)
    return replace(seen, children={**seen.children, **children}, strangers={**seen.strangers, **strangers})


def _parted(
    cluster: Cluster, found: Mapping[tuple[str, str], Manifest]
) -> tuple[dict[tuple[str, str], Manifest], dict[tuple[str, str], str]]:
    """Return (children, why each of the others is none). The record has no owner, and says itself whose it is."""
    record = ("ConfigMap", names.record(cluster.name))
    whys = {key: ownership.stranger(one, cluster) for key, one in found.items() if key != record}
    strangers = {key: why for key, why in whys.items() if why}
    return {key: one for key, one in found.items() if key not in strangers}, strangers


def _has_no_volumes(cluster: Cluster, claims: discover.Claims) -> bool:
    """Return True where there is nothing to read: what every bookie has goes with its pod."""
    return not claims and all(shape.storage.is_ephemeral for _, shape in cluster.spec.shapes())


async def glance(bookies: BookieReader, seen: Observation, term: Term, *, now_ms: int) -> Observation | None:
    """Return `seen` with what its bookies say now, and all else as it was read then; None when only a full look can
    tell. Nothing may follow from it but that look (`rests.py`)."""
    cluster = seen.cluster
    async with asyncio.TaskGroup() as group:
        cases = [group.create_task(_heard(bookies, cluster, case)) for case in seen.bookies]
    heard = tuple(_with_reports(task.result()) for task in cases)
    members, problem = await _members(bookies, cluster, heard)
    if problem != seen.members_problem:
        return None
    known = heard if members is None else discover.with_members(cluster, heard, members)
    if leaving.questions(cluster, known, now_ms):
        return None
    epochs = [case.report.operator_epoch_seen for case in heard if case.report is not None]
    leadership = epoch.lead(term, cluster.status.operator, epochs)
    return replace(seen, now_ms=now_ms, leadership=leadership, bookies=known)


def _with_reports(case: BookieCase) -> BookieCase:
    report = case.report
    volumes = (replace(one, report=report.volume(one.name) if report is not None else None) for one in case.volumes)
    return replace(case, volumes=tuple(volumes))


async def operations_of(kube: KubeReader, namespace: str, cluster: str) -> tuple[tuple[BookieOperation, ...], str]:
    """Return the operations on one cluster, and why they could not be read, or "". A fleet is cared for also where the
    CRD or the right to read operations is missing (an older chart)."""
    try:
        found = await kube.list(names.OPERATION_KIND, namespace)
    except KubeError as error:
        if isinstance(error, KubeForbidden) or error.http_status == 404:
            return (), str(error)
        raise
    mine = [one for one in found if operation.cluster_name(one) == cluster]
    return tuple(operation.parse(one) for one in mine if "deletionTimestamp" not in one["metadata"]), ""


def _said(pods: Iterable[Manifest], children: Mapping[tuple[str, str], Manifest]) -> dict[str, str]:
    """Return why the Job that formats the metadata does not end, and why auto-recovery does not run: in the words of
    their controllers and their pods."""
    out = {}
    for (kind, name), live in children.items():
        told = []
        if kind == "Job":
            told = [facts.job_problem(live)]
            told += [facts.pod(pod).problem for pod in pods if facts.is_of_job(pod, name)]
        if kind == "Deployment":
            told = [facts.deployment_problem(live)]
            told += [facts.pod(pod).problem for pod in pods if facts.is_of_autorecovery(pod)]
        if words := "; ".join(dict.fromkeys(word for word in told if word)):
            out[f"{kind} {name}"] = words
    return out


async def _failed_creates(
    kube: KubeReader, cluster: Cluster, pools: tuple[BookiePool, ...], pods: Mapping[str, PodFacts]
) -> dict[str, str]:
    """Return why a StatefulSet that lacks pods cannot make them (a quota, a policy): the newest word of its
    controller. Events last an hour: of a fleet that wakes, words of before its sleep say nothing."""
    out = {}
    asleep = cluster.status.hibernation
    since_ms = parse_time(asleep.since) if asleep is not None else 0
    for pool in pools:
        name = names.stateful_set(cluster.name, pool.name)
        if all(names.pod(cluster.name, pool.name, ordinal) in pods for ordinal in range(pool.replicas)):
            continue
        try:
            fields = f"reason=FailedCreate,regarding.kind=StatefulSet,regarding.name={name}"
            events = await kube.list("Event", cluster.namespace, fields=fields)
        except KubeForbidden:
            return {}  # an operator that may not read events says less
        if words := facts.newest_note(events, since_ms=since_ms):
            out[f"StatefulSet {name}"] = words
    return out


def _templates(revisions: Iterable[Manifest]) -> dict[str, Manifest]:
    newest_first = sorted(revisions, key=lambda one: int(one.get("revision") or 0), reverse=True)
    return {one["metadata"]["name"]: facts.template(one.get("data")) for one in newest_first}


async def _with_mounts(kube: KubeReader, cluster: Cluster, pod: PodFacts, now_ms: int) -> PodFacts:
    """Return `pod` with the words about a volume that does not come to it: a pod's status says only that its container
    is being created."""
    is_stuck = bool(pod.node) and pod.phase == "Pending" and not pod.problem and now_ms - pod.created_ms > _STUCK_MS
    if not is_stuck or pod.is_terminating:
        return pod
    try:
        fields = f"regarding.kind=Pod,regarding.name={pod.name},regarding.uid={pod.uid}"
        words = facts.mount_problem(await kube.list("Event", cluster.namespace, fields=fields))
    except KubeForbidden:
        return pod  # an operator that may not read events says less
    return replace(pod, problem=words, trouble="VolumeNotMounted") if words else pod


def _mounted(
    pods: Iterable[Manifest], revisions: Iterable[Manifest], children: Mapping[tuple[str, str], Manifest]
) -> frozenset[str]:
    """Return the ConfigMaps that may still be read: by a pod at its next container restart, by a StatefulSet or a
    Deployment in its next pod."""
    specs = [pod.get("spec") or {} for pod in pods]
    holders = [revision.get("data") for revision in revisions]
    holders += [one for (kind, _), one in children.items() if kind in ("StatefulSet", "Deployment")]
    specs += [facts.template(one).get("spec") for one in holders]
    return frozenset(name for spec in specs for name in facts.config_maps(spec))


async def _members(
    bookies: BookieReader, cluster: Cluster, cases: tuple[BookieCase, ...]
) -> tuple[tuple[Member, ...] | None, str]:
    """Return every cookie and registration of this cluster's store, from a bookie that has a session there; or why
    there is no list.

    It does not ask a bookie that is in another store than the rest: that would list the bookies of another cluster.
    """
    problem = "no bookie that has a session with the metadata store answers"
    expected = cluster.expected_instance_id
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


async def _with_references(
    bookies: BookieReader, cluster: Cluster, cases: tuple[BookieCase, ...], now_ms: int
) -> tuple[BookieCase, ...]:
    """Return `cases` with what bookies found that were asked now which ledgers name one that leaves. Who does not
    answer found nothing out."""
    found = {}
    for case, reader in leaving.questions(cluster, cases, now_ms):
        assert reader.pod is not None
        with contextlib.suppress(BookieUnreachable):
            references = await bookies.find_references(doors.of(cluster, reader.pod), case.bookie_id)
            found[case.name] = replace(case, references=references, references_by=reader.name)
    return tuple(found.get(case.name, case) for case in cases)


async def dependents(
    bookies: BookieReader, cluster: Cluster, questions: Iterable[Question], now_ms: int
) -> tuple[DependentsLook, ...]:
    """Return what bookies found that were asked now which ledgers depend on others."""
    found = []
    for one in questions:
        assert one.reader.pod is not None
        count, first, began_ms, problem = 0, "", now_ms, ""
        try:
            told = await bookies.find_dependents(doors.of(cluster, one.reader.pod), one.ids)
            count, began_ms = told.count, now_ms - told.age_ms
            first = "; ".join(f"ledger {each.ledger_id}: {each.reason}" for each in told.first[:_LEDGERS_SHOWN_MAX])
        except BookieUnreachable as error:
            problem = str(error)
        found.append(DependentsLook(one.bookies, one.marks, began_ms, now_ms, count, first, problem))
    return tuple(found)


async def marks(bookies: BookieReader, cluster: Cluster, question: plan_marks.MarksQuestion, now_ms: int) -> MarksLook:
    """Return what a bookie found that was asked now which ledgers auto-recovery has marked."""
    reader = question.reader
    assert reader.pod is not None
    try:
        told = await bookies.find_marked(doors.of(cluster, reader.pod), question.ids)
    except BookieUnreachable as error:
        return MarksLook(question.ids, now_ms, now_ms, reader=reader.name, problem=str(error))
    if told.age_ms > plan_marks.VALID_MS:
        problem = f"the look took {told.age_ms // 1000} s, for {told.marks} marks"
        return MarksLook(question.ids, now_ms, now_ms, reader=reader.name, problem=problem)
    held = {one.bookie_id: {int(each.ledger_id): each.reason for each in one.first} for one in told.held}
    return MarksLook(question.ids, now_ms - told.age_ms, now_ms, held, reader.name)


async def _complete(bookies: BookieReader, volumes: "_Volumes", cluster: Cluster, case: BookieCase) -> BookieCase:
    """Return `case` with its persistent volumes and its bookie's report."""
    case, pod = await _heard(bookies, cluster, case), case.pod
    is_adrift = pod is None or not pod.node
    completed = [await volumes.complete(volume, case.report, is_adrift=is_adrift) for volume in case.volumes]
    return replace(case, volumes=tuple(completed))


async def _heard(bookies: BookieReader, cluster: Cluster, case: BookieCase) -> BookieCase:
    """Return `case` with all that its bookie says."""
    report, repair, drain, fill, problem = None, None, None, None, ""
    pod = case.pod
    if pod is not None and pod.ip and pod.phase == "Running" and not pod.is_terminating:
        door = doors.of(cluster, pod)
        try:
            report = await _look(bookies, door, case)
            entry = cluster.status.bookie(case.name)
            if report.state in _ABOUT_REPAIR or (entry is not None and entry.grant is not None):
                repair = await bookies.repair(door)
            # One that drains and of which nothing is stored: the operator's word was lost, or a person began it.
            if report.is_draining or (entry is not None and entry.leaving is not None):
                drain = await _drain(bookies, door)
            if report.state.serves and report.whole_since_boot is False:
                with contextlib.suppress(BookieUnreachable):  # its report stands: it has not said that it is whole
                    fill = await bookies.fill(door)
        except BookieUnreachable as error:
            problem = str(error)
    return replace(case, report=report, repair=repair, drain=drain, fill=fill, report_problem=problem)


async def _drain(bookies: BookieReader, door: Door) -> DrainStatus | None:
    """Return how far a bookie is that leaves; None when it cannot say: that is no word about its storage."""
    try:
        return await bookies.look_at_drain(door)
    except BookieUnreachable:
        return None


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

    async def complete(self, volume: VolumeCase, report: StorageReport | None, *, is_adrift: bool) -> VolumeCase:
        if volume.is_replaced and volume.recorded is not None and volume.recorded.pv_name:
            old = await self._read(volume.recorded.pv_name)
            if old is not None:
                self.old[old.name] = old
        reported = report.volume(volume.name) if report is not None else None
        return replace(volume, pv=await self._live(volume, is_adrift=is_adrift), report=reported)

    async def can_read(self, claims: discover.Claims) -> bool | None:
        """Return whether the operator may read volumes. None: there is no volume yet that it could try to read."""
        bound = (claim.pv_name for found in claims.values() for claim in found.values() if claim.pv_name)
        if not self._has_tried and (name := next(bound, None)) is not None:
            await self._read(name)
        return self.is_readable if self._has_tried else None

    async def _live(self, volume: VolumeCase, *, is_adrift: bool) -> PersistentVolumeFacts | None:
        claim, recorded = volume.claim, volume.recorded
        if claim is None or not claim.pv_name:
            return None
        if recorded is not None and recorded.pvc_uid == claim.uid and recorded.pv_uid:
            known = PersistentVolumeFacts(claim.pv_name, recorded.pv_uid)
            # Where its disk is matters when its node is gone; else its claim's binding is enough, and that is fixed.
            return (await self._read(claim.pv_name)) if volume.is_local_disk and is_adrift else known
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
