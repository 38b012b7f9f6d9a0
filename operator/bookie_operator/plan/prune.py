"""Finds children to delete: switched off, made from a spec that was corrected, or no longer read by any pod.

Only what this cluster owns by its uid; never a StatefulSet (bookies with data), never a claim (no child at all), and
never a ConfigMap that a pod could still read when its container restarts.
"""

from collections.abc import Iterator, Mapping

from bookie_operator.model import names
from bookie_operator.model.values import parse_time_or_0
from bookie_operator.plan.actions import DeleteChild
from bookie_operator.plan.observation import Observation
from bookie_operator.resources.common import Manifest

# A formatting Job that gave up is made again after this: its store may be there by now.
JOB_RETRY_MS = 5 * 60_000
_KEPT = ("StatefulSet",)

Wanted = Mapping[tuple[str, str], Manifest]  # by (kind, name)


def stale(observation: Observation, wanted: Wanted) -> Iterator[DeleteChild]:
    """Return the children to delete, given everything that the cluster should have."""
    for (kind, name), live in sorted(observation.children.items(), key=lambda item: item[0]):
        if kind in _KEPT or "deletionTimestamp" in live["metadata"] or not _is_ours(observation, live):
            continue
        if reason := _why(observation, live, wanted.get((kind, name))):
            metadata = live["metadata"]
            yield DeleteChild(kind, name, metadata.get("uid", ""), metadata.get("resourceVersion", ""), reason)


def conditions(job: Manifest) -> dict[str, Manifest]:
    """Return the conditions of a Job by type: Complete, Failed."""
    entries = (job.get("status") or {}).get("conditions") or ()
    return {entry["type"]: entry for entry in entries if entry.get("status") == "True"}


def is_complete(job: Manifest) -> bool:
    return "Complete" in conditions(job) or int((job.get("status") or {}).get("succeeded") or 0) > 0


def is_made_from(job: Manifest, wanted: Manifest) -> bool:
    """Return True when `job` was applied as exactly `wanted`; a Job's template cannot change, so the hash tells."""
    return _mark(job) == _mark(wanted)


def _why(observation: Observation, live: Manifest, wanted: Manifest | None) -> str:
    """Return why `live` must be deleted; "" when it stays."""
    kind, name = live["kind"], live["metadata"]["name"]
    if kind == "Job":
        return _why_job(observation, live, wanted)
    if kind == "ConfigMap" and wanted is not None:
        return "its contents are not what its name says" if live.get("data") != wanted["data"] else ""
    if wanted is not None:
        return ""
    if kind == "ConfigMap":
        return "" if name in observation.mounted else "no pod and no revision reads it"
    return "the spec does not ask for it any more"


def _why_job(observation: Observation, live: Manifest, wanted: Manifest | None) -> str:
    """Return why a Job must be deleted. One that is done stays, whatever changes: it is the record of the one
    formatting."""
    if wanted is None:
        is_record = is_complete(live) and observation.cluster.spec.metadata_service.initialize == "IfAbsent"
        return "" if is_record else "nothing is to be initialised"
    if not is_made_from(live, wanted):
        return "what it was made from has changed"
    failed = conditions(live).get("Failed")
    if failed is not None and observation.now_ms >= parse_time_or_0(failed.get("lastTransitionTime")) + JOB_RETRY_MS:
        return "it failed a while ago, and is tried again"
    return ""


def _is_ours(observation: Observation, live: Manifest) -> bool:
    owners = live["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("uid") == observation.cluster.uid for owner in owners)


def _mark(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("annotations") or {}).get(names.APPLIED_HASH, ""))
