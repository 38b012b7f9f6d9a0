"""Turns raw Kubernetes objects into facts. Annotations and statuses are outside input: unreadable ones count as
absent."""

from collections.abc import Iterable

from bookie.base.errors import BadInput
from bookie_operator.evidence.facts import (
    ClaimFacts,
    ClaimMarks,
    ClaimSize,
    NodeFacts,
    PersistentVolumeFacts,
    PodFacts,
)
from bookie_operator.model import names
from bookie_operator.model.values import parse_quantity, parse_time_or_0
from bookie_operator.resources.common import Manifest

_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_OF_CONFIG_MAPS = ("configMap", "configMapRef", "configMapKeyRef")
# By these a cluster-autoscaler and Karpenter (present and older releases) say that a node goes.
_DRAIN_TAINTS = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption")
_HOSTNAME = "kubernetes.io/hostname"
# By the kubelet's words for a container that does not run.
TROUBLES = {
    **dict.fromkeys(
        ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"),
        "ImageNotPulled",
    ),
    **dict.fromkeys(("CreateContainerConfigError", "CreateContainerError", "RunContainerError"), "ContainerNotMade"),
    **dict.fromkeys(("CrashLoopBackOff", "Error", "OOMKilled", "StartError"), "Crashing"),
}
_MOUNT_EVENTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_LAST_WORDS_MAX = 300  # of what a container said before it ended: the end of it has the error
_DIGITS_MAX = 18  # of an incarnation; Python reads no number of thousands of digits
_WAITING_IS_NORMAL = ("ContainerCreating", "PodInitializing")


def pod(manifest: Manifest) -> PodFacts:
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    conditions = {entry["type"]: entry for entry in status.get("conditions") or ()}
    return PodFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        created_ms=parse_time_or_0(metadata.get("creationTimestamp")),
        node=(manifest.get("spec") or {}).get("nodeName") or "",
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "Pending",
        is_ready=(conditions.get("Ready") or {}).get("status") == "True",
        is_terminating="deletionTimestamp" in metadata,
        evicted_by=_evicted_by(conditions.get("DisruptionTarget") or {}),
        revision=(metadata.get("labels") or {}).get("controller-revision-hash") or "",
        grace_s=int((manifest.get("spec") or {}).get("terminationGracePeriodSeconds") or 30),
        has_ended=has_ended(manifest),
        finalizers=tuple(metadata.get("finalizers") or ()),
        problem=_problem(status, conditions),
        trouble=_trouble(status, conditions),
        has_certificates=any(
            volume.get("name") == names.ADMIN_VOLUME for volume in (manifest.get("spec") or {}).get("volumes") or ()
        ),
        resource_version=metadata.get("resourceVersion") or "",
        ready_since_ms=_ready_since_ms(conditions.get("Ready") or {}),
        inputs=(metadata.get("annotations") or {}).get(names.INPUTS) or "",
        said=(metadata.get("annotations") or {}).get(names.SAID) or "",
        mounts=names.data_volumes(manifest.get("spec") or {}),
        is_of_set=(metadata.get("labels") or {}).get(names.LABEL_POD_NAME) == metadata["name"],
        is_bookie_running=any(
            container.get("name") == names.CONTAINER and "running" in (container.get("state") or {})
            for container in status.get("containerStatuses") or ()
        ),
    )


def _evicted_by(disruption: Manifest) -> str:
    """Return who is about to delete the pod (the eviction API, the scheduler, the taint manager); "" = nobody.
    Kubernetes takes the condition back when nothing comes of it."""
    return str(disruption.get("reason") or "DisruptionTarget") if disruption.get("status") == "True" else ""


def _ready_since_ms(ready: Manifest) -> int | None:
    """Return when the pod became ready; None while it is not, or its kubelet does not say since when."""
    return (parse_time_or_0(ready.get("lastTransitionTime")) or None) if ready.get("status") == "True" else None


def has_ended(pod: Manifest) -> bool:
    """Return True when its kubelet said that this pod has ended for good: terminal phase, and every container
    terminated.

    A phase alone may be another controller's word; a terminated container alone may be started again.
    """
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    return (
        status.get("phase") in ("Succeeded", "Failed")
        and len(containers) > 0
        and all("terminated" in (container.get("state") or {}) for container in containers)
    )


def node(manifest: Manifest) -> NodeFacts:
    conditions = {entry["type"]: entry for entry in (manifest.get("status") or {}).get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    since_ms = parse_time_or_0(ready.get("lastTransitionTime"))
    return NodeFacts(
        name=manifest["metadata"]["name"],
        uid=manifest["metadata"]["uid"],
        is_ready=ready.get("status") == "True" and since_ms > 0,
        ready_since_ms=since_ms,
        is_out_of_service=any(
            taint.get("key") == _OUT_OF_SERVICE for taint in (manifest.get("spec") or {}).get("taints") or ()
        ),
        hostname=(manifest["metadata"].get("labels") or {}).get(_HOSTNAME) or "",
        boot_id=((manifest.get("status") or {}).get("nodeInfo") or {}).get("bootID") or "",
        drained=_drained(manifest.get("spec") or {}),
    )


def _drained(spec: Manifest) -> str:
    """Return by what the pods of a node are to leave it; "" when they may stay."""
    found = [
        taint["key"] for taint in spec.get("taints") or () if taint.get("key") in (*_DRAIN_TAINTS, _OUT_OF_SERVICE)
    ]
    return f"tainted {found[0]}" if found else "cordoned" if spec.get("unschedulable") else ""


def template(holder: object) -> Manifest:
    """Return the pod template in `holder`: a StatefulSet, a Deployment, or what a ControllerRevision holds. {} where
    there is none: to the API server what a revision holds is anything, and anybody may label one as ours."""
    for field in ("spec", "template"):
        holder = holder.get(field) if isinstance(holder, dict) else None
    spec = holder.get("spec") if isinstance(holder, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    is_template = isinstance(containers, list) and all(isinstance(one, dict) for one in containers)
    return holder if isinstance(holder, dict) and is_template else {}


def config_maps(spec: object) -> set[str]:
    """Return the names of the ConfigMaps that a pod of this spec reads, wherever they stand (volumes, projected,
    env)."""
    found: set[str] = set()
    left = [spec]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            for key, one in part.items():
                if key in _OF_CONFIG_MAPS and isinstance(one, dict) and isinstance(one.get("name"), str):
                    found.add(one["name"])
                if isinstance(one, dict | list):
                    left.append(one)
        elif isinstance(part, list):
            left += part
    return found


def _problem(status: Manifest, conditions: dict[str, Manifest]) -> str:
    """Return what is wrong with the pod, in the words of the scheduler or the kubelet; "" while nothing is."""
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', '')}"
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        waiting, ended = state.get("waiting"), state.get("terminated")
        last = _end((container.get("lastState") or {}).get("terminated") or {})
        if waiting and waiting.get("reason") not in _WAITING_IS_NORMAL:
            return f"{waiting.get('reason', 'Waiting')}: {waiting.get('message', '')}{last}"
        if waiting and last:
            return f"restarts{last}"
        if ended and ended.get("exitCode"):
            return f"{ended.get('reason', 'Error')}{_end(ended)}"
    return f"{status.get('reason')}: {status.get('message', '')}" if status.get("reason") else ""


def _trouble(status: Manifest, conditions: dict[str, Manifest]) -> str:
    """Return in one word what keeps the pod's containers from running; "" when nothing is known to."""
    if (conditions.get("PodScheduled") or {}).get("status") == "False":
        return "NotScheduled"
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if word := TROUBLES.get(waiting.get("reason") or "") or TROUBLES.get(ended.get("reason") or ""):
            return word
        if waiting and ((container.get("lastState") or {}).get("terminated") or {}).get("exitCode"):
            return "Crashing"
    return ""


def mount_problem(events: Iterable[Manifest]) -> str:
    """Return the newest word of the kubelet or the attacher about a volume that it cannot bring to a pod; "" when there
    is none."""
    return newest_note(one for one in events if one.get("reason") in _MOUNT_EVENTS)


def _end(terminated: Manifest) -> str:
    """Return how a container ended last: its exit code, and its own last words; "" when it has not ended."""
    if terminated.get("exitCode") is None:
        return ""
    words = " ".join(str(terminated.get("message") or terminated.get("reason") or "").split())[-_LAST_WORDS_MAX:]
    return f" (last exit code {terminated['exitCode']}{': ' + words if words else ''})"


def job_problem(manifest: Manifest) -> str:
    """Return what the Job controller says of a Job that failed or cannot make its pods."""
    for entry in (manifest.get("status") or {}).get("conditions") or ():
        if entry.get("type") in ("Failed", "FailureTarget") and entry.get("status") == "True":
            return f"{entry.get('reason', 'Failed')}: {entry.get('message', '')}"
    return ""


def deployment_problem(manifest: Manifest) -> str:
    """Return what the Deployment controller says of one that cannot make its pods (a quota, a policy)."""
    for entry in (manifest.get("status") or {}).get("conditions") or ():
        if entry.get("type") == "ReplicaFailure" and entry.get("status") == "True":
            return f"{entry.get('reason', 'ReplicaFailure')}: {entry.get('message', '')}"
    return ""


def is_of_autorecovery(pod: Manifest) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return bool(labels.get(names.LABEL_COMPONENT) == names.COMPONENT_AUTORECOVERY)


def is_of_job(pod: Manifest, job: str) -> bool:
    return any(
        owner.get("kind") == "Job" and owner.get("name") == job
        for owner in pod["metadata"].get("ownerReferences") or ()
    )


def newest_note(events: Iterable[Manifest], *, since_ms: int = 0) -> str:
    """Return the note of the newest event, of those that are not older than `since_ms`; "" when there is none."""

    def when(event: Manifest) -> str:
        series = event.get("series") or {}
        return str(
            series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or event.get("eventTime") or ""
        )

    newest = max((one for one in events if parse_time_or_0(when(one)) >= since_ms), key=when, default=None)
    return str(newest.get("note") or "") if newest is not None else ""


def claim(manifest: Manifest) -> ClaimFacts:
    metadata = manifest["metadata"]
    return ClaimFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        created_ms=parse_time_or_0(metadata.get("creationTimestamp")),
        is_terminating="deletionTimestamp" in metadata,
        is_lost=(manifest.get("status") or {}).get("phase") == "Lost",
        pv_name=(manifest.get("spec") or {}).get("volumeName") or "",
        marks=_marks(metadata.get("annotations") or {}),
        retired_at=(metadata.get("annotations") or {}).get(names.RETIRED_AT) or "",
        contents_found=(metadata.get("annotations") or {}).get(names.CONTENTS_FOUND) or "",
        is_labelled=names.LABEL_CLUSTER in (metadata.get("labels") or {}),
        size=_size(manifest.get("spec") or {}, manifest.get("status") or {}),
        storage_class=(manifest.get("spec") or {}).get("storageClassName") or "",
        access_modes=tuple((manifest.get("spec") or {}).get("accessModes") or ()),
        resource_version=metadata.get("resourceVersion") or "",
        owners=frozenset(str(one.get("uid")) for one in metadata.get("ownerReferences") or ()),
    )


def _size(spec: Manifest, status: Manifest) -> ClaimSize | None:
    """Return the sizes of a claim; None when one of them is no quantity that the operator can read."""
    conditions = {one.get("type"): one for one in status.get("conditions") or () if one.get("status") == "True"}
    tried = (status.get("allocatedResources") or {}).get("storage")
    pending = conditions.get("FileSystemResizePending")
    try:
        return ClaimSize(
            requested=parse_quantity(str(((spec.get("resources") or {}).get("requests") or {})["storage"])),
            capacity=parse_quantity(str((status.get("capacity") or {}).get("storage") or "0")),
            is_bound=status.get("phase") == "Bound",
            step=str((status.get("allocatedResourceStatuses") or {}).get("storage") or ""),
            step_size=parse_quantity(str(tried)) if tried is not None else None,
            conditions={str(kind): str(one.get("message") or "") for kind, one in conditions.items()},
            pending_since_ms=parse_time_or_0(pending.get("lastTransitionTime")) if pending is not None else None,
        )
    except (BadInput, KeyError):
        return None


def _marks(annotations: dict[str, str]) -> ClaimMarks | None:
    """Return the identity record. A claim with an incarnation that is no number still counts as initialised, to be
    careful."""
    incarnation = annotations.get(names.MARK_INCARNATION)
    if incarnation is None:
        return None
    is_number = incarnation.isascii() and incarnation.isdigit() and len(incarnation) <= _DIGITS_MAX
    return ClaimMarks(
        incarnation=int(incarnation) if is_number else 0,
        bookie_id=annotations.get(names.MARK_BOOKIE_ID, ""),
        instance_id=annotations.get(names.MARK_INSTANCE_ID, ""),
        fsid=annotations.get(names.MARK_FSID, ""),
        pv_uid=annotations.get(names.MARK_PV_UID, ""),
        claim_uid=annotations.get(names.MARK_CLAIM_UID, ""),
    )


def persistent_volume(manifest: Manifest) -> PersistentVolumeFacts:
    return PersistentVolumeFacts(
        name=manifest["metadata"]["name"],
        uid=manifest["metadata"]["uid"],
        phase=(manifest.get("status") or {}).get("phase") or "",
        reclaim_policy=(manifest.get("spec") or {}).get("persistentVolumeReclaimPolicy") or "Retain",
        hostnames=_hostnames(manifest.get("spec") or {}),
        is_terminating="deletionTimestamp" in manifest["metadata"],
    )


def _hostnames(spec: Manifest) -> tuple[str, ...]:
    """Return the host names that a volume is tied to: those of a rule that names hosts, and nothing else, in each
    term. () where it is told in any other way: who relies on a volume's place must then know nothing."""
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    found: list[str] = []
    for term in terms:
        rules: list[Manifest] = term.get("matchExpressions") or []
        if len(rules) != 1 or term.get("matchFields"):
            return ()
        if rules[0].get("key") != _HOSTNAME or rules[0].get("operator") != "In":
            return ()
        found += rules[0].get("values") or ()
    return tuple(dict.fromkeys(found))
