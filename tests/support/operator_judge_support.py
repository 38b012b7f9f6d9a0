"""A judge of statuses: what was looked at, by its own reading of the facts, against what the conditions say.

It knows nothing of the rules that made the status. A finding is a sentence: a condition that says more than was seen.
"""

from collections.abc import Iterator

from bookie.ports.admin import Contents, MountProof, State
from bookie_operator.evidence.facts import LOOK_AGE_MS_MAX, BookieCase
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan.observation import Observation

WRITABLE = (State.SERVING, State.REPAIRING)
MOVING = (State.FENCING, State.STAMPING, State.REPAIRING)


def contradictions(seen: Observation, status: BookieClusterStatus) -> list[str]:
    """What `status` says that nobody saw in `seen`."""
    said = {one.type: (one.status, one.reason) for one in status.conditions}
    return [f"{said.get(sentence.split()[0])}: {sentence}" for sentence in _all(seen, status, said)]


def _all(seen: Observation, status: BookieClusterStatus, said: dict[str, tuple[str, str]]) -> Iterator[str]:
    ours = [case for case in seen.bookies if case.is_ours]
    desired = [case for case in ours if case.is_desired]
    answering = [case for case in ours if _answers(case)]
    silent = [case for case in ours if case.pod is not None and case.pod.phase == "Running" and not _answers(case)]
    writable = [case for case in answering if case.report and case.report.state in WRITABLE]
    ensemble = seen.cluster.spec.quorum.ensemble_size
    yield from _of_data(seen, said, ours, silent)
    for kind in ("Ready", "Available"):
        if said[kind][0] == "True" and len(writable) < ensemble:
            yield f"{kind} needs {ensemble} writable bookies, {len(writable)} were seen"
        is_counted = said[kind] == ("False", "NotEnoughWritable")
        if is_counted and len(writable) + len([case for case in silent if not _is_going(case)]) >= ensemble:
            yield f"{kind} is refused, and {len(silent)} bookies nobody could ask"
    if said["Ready"][0] == "True" and not any(case.report and case.report.metadata_reachable for case in answering):
        yield "Ready without a metadata store that anybody reaches"
    sets = {name: live for (kind, name), live in seen.children.items() if kind == "StatefulSet"}
    if said["UpToDate"][0] == "True" and not all(_is_newest(case, sets) for case in desired):
        yield "UpToDate without a pod of the newest revision for each bookie"
    if said["Reconciling"][0] == "False" and (not sets or seen.cluster.spec.lifecycle.paused):
        yield "Reconciling is over without StatefulSets, or paused"
    if said["Stalled"][0] == "False" and any(not case.pod.is_terminating for case in silent if case.pod):
        yield "Stalled is denied, and a bookie that may be held nobody could ask"
    if said["LimitedVisibility"][0] == "False" and not seen.can_read_volumes:
        yield "LimitedVisibility is denied, and no volume was read"
    if status.metadata is not None and status.metadata.reachable is not None and not answering:
        yield "metadata.reachable is told, and nobody answered"
    counts = (status.writable_replicas, status.held_bookies, status.limbo_bookies)
    if not [case for case in answering if case.is_desired] and 0 in counts:
        yield f"counts {counts} of bookies that nobody saw"


def _of_data(
    seen: Observation, said: dict[str, tuple[str, str]], ours: list[BookieCase], silent: list[BookieCase]
) -> Iterator[str]:
    desired = [case for case in ours if case.is_desired and not case.is_leaving]
    if said["StorageHealthy"][0] == "True" and not all(_is_proven(case) for case in ours):
        yield "StorageHealthy without a valid, fresh report of every bookie"
    if said["DeletionHeld"][0] == "False" and not all(_told_of_garbage(case) for case in desired):
        yield "DeletionHeld is denied, and of a bookie nobody knows what it keeps"
    fine = [kind for kind in ("Degraded", "DataAtRisk", "RepairInProgress") if said[kind][0] == "False"]
    for kind in fine:
        if silent:
            yield f"{kind} is denied, and {len(silent)} bookies nobody could ask"
        if seen.members_problem:
            yield f"{kind} is denied, and nobody read which bookies there are"
        if not any(_answers(case) for case in ours):
            yield f"{kind} is denied, and nobody answered"
        if (
            any(case.report and _answers(case) and case.report.state in MOVING for case in ours)
            and kind != "DataAtRisk"
        ):
            yield f"{kind} is denied while a bookie repairs"


def _answers(case: BookieCase) -> bool:
    report, pod = case.report, case.pod
    return report is not None and pod is not None and report.pod_uid == pod.uid


def _told_of_garbage(case: BookieCase) -> bool:
    return _answers(case) and case.report is not None and case.report.garbage_held_ledgers >= 0


def _is_going(case: BookieCase) -> bool:
    return case.pod is not None and (case.pod.is_terminating or bool(case.pod.problem))


def _is_proven(case: BookieCase) -> bool:
    report = case.report
    if report is None or not _answers(case) or report.inspection_age_ms > LOOK_AGE_MS_MAX:
        return False
    if report.directories_failed or report.quarantined_count:
        return False
    return all(
        volume.report is not None
        and volume.report.contents is Contents.VALID
        and volume.report.mount.proof in (MountProof.PROVEN, MountProof.SHARED)
        for volume in case.volumes
    )


def _is_newest(case: BookieCase, sets: dict[str, dict[str, object]]) -> bool:
    status = sets.get(case.name.rsplit("-", 1)[0], {}).get("status")
    newest = status.get("updateRevision") if isinstance(status, dict) else None
    return case.pod is not None and case.pod.revision == newest
