"""From raw Kubernetes objects to facts. Annotations and statuses are outside input: what cannot be read is absent."""

from typing import Any

from bookie.base.errors import BadInput
from bookie_operator.evidence.facts import ClaimFacts, Marks, PersistentVolumeFacts, PodFacts
from bookie_operator.model import names
from bookie_operator.model.values import parse_time

Manifest = dict[str, Any]
_WAITING_IS_NORMAL = ("ContainerCreating", "PodInitializing")


def pod(manifest: Manifest) -> PodFacts:
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    conditions = {entry["type"]: entry for entry in status.get("conditions") or ()}
    return PodFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        created_ms=_created_ms(metadata),
        node=(manifest.get("spec") or {}).get("nodeName") or "",
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "Pending",
        is_ready=(conditions.get("Ready") or {}).get("status") == "True",
        is_terminating="deletionTimestamp" in metadata,
        revision=(metadata.get("labels") or {}).get("controller-revision-hash") or "",
        problem=_problem(status, conditions),
    )


def _problem(status: Manifest, conditions: dict[str, Manifest]) -> str:
    """What scheduler or kubelet say is wrong; "" while nothing is."""
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', '')}"
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in _WAITING_IS_NORMAL:
            last = ((container.get("lastState") or {}).get("terminated") or {}).get("exitCode")
            exit_code = f" (last exit code {last})" if last is not None else ""
            return f"{waiting.get('reason', 'Waiting')}: {waiting.get('message', '')}{exit_code}"
    return ""


def claim(manifest: Manifest) -> ClaimFacts:
    metadata = manifest["metadata"]
    return ClaimFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        created_ms=_created_ms(metadata),
        is_terminating="deletionTimestamp" in metadata,
        is_bound=(manifest.get("status") or {}).get("phase") == "Bound",
        pv_name=(manifest.get("spec") or {}).get("volumeName") or "",
        marks=_marks(metadata.get("annotations") or {}),
    )


def _marks(annotations: dict[str, str]) -> Marks | None:
    """The identity record; a mangled incarnation still says "initialised": the careful reading."""
    incarnation = annotations.get(names.MARK_INCARNATION)
    if incarnation is None:
        return None
    return Marks(
        incarnation=int(incarnation) if incarnation.isascii() and incarnation.isdigit() else 0,
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
    )


def _created_ms(metadata: Manifest) -> int:
    try:
        return parse_time(metadata["creationTimestamp"])
    except (KeyError, BadInput):
        return 0
