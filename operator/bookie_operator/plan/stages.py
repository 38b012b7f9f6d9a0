"""Where one bookie stands on the road of operators.md 3.4, from its evidence and what our status remembers."""

from dataclasses import dataclass
from enum import Enum

from bookie_operator.evidence import bookie as bookie_evidence
from bookie_operator.evidence.bookie import Evidence
from bookie_operator.evidence.facts import BookieCase, Claimed, Contents, Mount, Report, State
from bookie_operator.evidence.volume import Verdict
from bookie_operator.model.status import BookieStatus, Grant, Suspicion
from bookie_operator.model.values import parse_time

OBSERVATIONS_NEEDED = 3


class Stage(Enum):
    PROVISIONING = "Provisioning"  # no pod yet, or none that runs; has never held data
    MISSING = "Missing"  # has held data, and there is no pod
    UNREACHABLE = "Unreachable"  # a pod, and no report
    INSPECTING = "Inspecting"
    BOOTSTRAPPING = "Bootstrapping"
    SUSPECTED = "Suspected"
    CONFIRMED = "Confirmed"
    GRANTED = "Granted"
    HELD = "Held"
    FENCING = "Fencing"
    STAMPING = "Stamping"
    REPAIRING = "Repairing"  # after a loss
    LIMBO = "Limbo"  # after an unclean stop; the data is there
    SERVING = "Serving"
    READ_ONLY = "ReadOnly"
    STOPPING = "Stopping"

    @property
    def serves(self) -> bool:
        """Reads, and (but for ReadOnly) new ledgers."""
        return self in (Stage.SERVING, Stage.READ_ONLY, Stage.REPAIRING, Stage.LIMBO)

    @property
    def is_writable(self) -> bool:
        return self in (Stage.SERVING, Stage.REPAIRING, Stage.LIMBO)


_HEALING = (Stage.GRANTED, Stage.FENCING, Stage.STAMPING, Stage.REPAIRING)


@dataclass(frozen=True, slots=True)
class Assessed:
    """One bookie with everything concluded about it in this pass."""

    case: BookieCase
    evidence: Evidence
    stage: Stage
    reason: str
    message: str
    previous: BookieStatus | None
    has_loss: bool  # a volume was lost and is not yet repaired
    suspicion: Suspicion | None = None
    grant: Grant | None = None

    @property
    def incarnation(self) -> int:
        """The highest incarnation that we know of; 0 = has never held data."""
        seen = self.case.report.incarnation if self.case.report is not None else 0
        return max(seen, self.previous.incarnation if self.previous is not None else 0)

    @property
    def is_dataless(self) -> bool:
        """In L of operators.md 3.5: counted as having lost its data, also before it can say so itself."""
        if self.stage in (Stage.SERVING, Stage.READ_ONLY, Stage.LIMBO):
            return False
        return self.has_loss

    @property
    def is_unavailable(self) -> bool:
        """In U: presumed intact, and not there. A bookie that never held data is missed by nobody."""
        return not self.stage.serves and not self.is_dataless and self.incarnation > 0

    @property
    def is_healing(self) -> bool:
        """Between grant and the end of its repair (gate G7 counts these)."""
        return self.stage in _HEALING and self.has_loss

    @property
    def since_ms(self) -> int | None:
        """Since when it is in this stage; None when it was in another before."""
        if self.previous is None or self.previous.state != self.stage.value:
            return None
        return parse_time(self.previous.since)


def assess(case: BookieCase, previous: BookieStatus | None, *, now_ms: int, stabilization_ms: int) -> Assessed:
    """Conclude about one bookie. `previous` is what our last status said; it may be lost."""
    evidence = bookie_evidence.weigh(case)
    stage, reason, message = _stage(case, evidence, previous)
    suspicion = None
    if stage is Stage.SUSPECTED:
        suspicion = _suspicion(evidence, previous, now_ms, stabilization_ms)
        if suspicion.observations >= OBSERVATIONS_NEEDED:
            stage = Stage.CONFIRMED
    grant = _grant(case, evidence, stage, previous, now_ms)
    if grant is not None and stage is Stage.CONFIRMED:
        stage = Stage.GRANTED
    has_loss = _has_loss(case, stage, grant)
    return Assessed(case, evidence, stage, reason, message, previous, has_loss, suspicion, grant)


def _stage(case: BookieCase, evidence: Evidence, previous: BookieStatus | None) -> tuple[Stage, str, str]:
    finding = evidence.finding
    if not evidence.digest:
        return _without_report(case, evidence, previous)
    assert case.report is not None
    stage = _reported(case.report, evidence.verdict, has_grant=previous is not None and previous.grant is not None)
    if stage in (Stage.SERVING, Stage.REPAIRING, Stage.LIMBO, Stage.FENCING, Stage.STAMPING, Stage.READ_ONLY):
        return stage, stage.value, case.report.reason
    return stage, finding.reason, finding.message


def _without_report(case: BookieCase, evidence: Evidence, previous: BookieStatus | None) -> tuple[Stage, str, str]:
    """No report is never read as "empty": the bookie is missing or unreachable, and that is all we know."""
    has_lived = previous is not None and previous.incarnation > 0
    pod = case.pod
    if pod is None:
        return (Stage.MISSING if has_lived else Stage.PROVISIONING), "PodMissing", evidence.finding.message
    if pod.is_terminating:
        return Stage.STOPPING, "PodTerminating", f"pod {pod.name} is being deleted"
    if pod.phase != "Running" or pod.problem:
        stage = Stage.MISSING if has_lived else Stage.PROVISIONING
        return stage, "PodNotRunning", pod.problem or f"pod {pod.name} is {pod.phase or 'Pending'}"
    return Stage.UNREACHABLE, evidence.finding.reason, evidence.finding.message


def _reported(report: Report, verdict: Verdict, *, has_grant: bool) -> Stage:
    if verdict in (Verdict.HELD, Verdict.MOUNT_MISSING):
        return Stage.HELD
    lost = has_grant or report.claimed in (Claimed.LOST, Claimed.RESUME)
    match report.state:
        case State.SERVING:
            return Stage.SERVING
        case State.READ_ONLY:
            return Stage.READ_ONLY
        case State.REPAIRING:
            return Stage.REPAIRING if lost else Stage.LIMBO
        case State.FENCING:
            return Stage.FENCING
        case State.STAMPING:
            return Stage.STAMPING
        case State.STOPPING:
            return Stage.STOPPING
        case State.WAITING_GRANT if verdict is Verdict.LOST_VOLUME:
            return Stage.SUSPECTED
        case _:
            return Stage.BOOTSTRAPPING if verdict is Verdict.BOOTSTRAP else Stage.INSPECTING


def _suspicion(evidence: Evidence, previous: BookieStatus | None, now_ms: int, stabilization_ms: int) -> Suspicion:
    """The same evidence, seen once more. Observations count at 0, half and the whole of the stabilization time, so
    that looking often is not looking long; a fact that changes starts again."""
    before = previous.suspicion if previous is not None else None
    if before is None or before.evidence != evidence.digest:
        return Suspicion(evidence=evidence.digest, observations=1, since_ms=now_ms)
    due_ms = before.since_ms + before.observations * stabilization_ms // (OBSERVATIONS_NEEDED - 1)
    if before.observations >= OBSERVATIONS_NEEDED or now_ms < due_ms:
        return before
    return before.model_copy(update={"observations": before.observations + 1})


def _grant(
    case: BookieCase, evidence: Evidence, stage: Stage, previous: BookieStatus | None, now_ms: int
) -> Grant | None:
    """The grant of record, while it still means something. A grant for other facts or another pod is void."""
    grant = previous.grant if previous is not None else None
    if grant is None:
        return None
    if stage in (Stage.SUSPECTED, Stage.CONFIRMED):
        fits = case.pod is not None and grant.pod_uid == case.pod.uid and grant.evidence == evidence.digest
        return grant if fits and now_ms < parse_time(grant.expires_at) else None
    if stage in (Stage.SERVING, Stage.READ_ONLY):
        is_done = case.repair is None or case.repair.done
        return None if is_done else grant
    return grant


def _has_loss(case: BookieCase, stage: Stage, grant: Grant | None) -> bool:
    if grant is not None or stage in (Stage.SUSPECTED, Stage.CONFIRMED, Stage.GRANTED, Stage.REPAIRING):
        return True
    # What lies under a missing mount says nothing about the volume: it is presumed intact, and unavailable.
    empty = any(
        volume.report is not None
        and volume.report.contents in (Contents.EMPTY, Contents.REGENERATING)
        and volume.report.mount in (Mount.PROVEN, Mount.SHARED)
        for volume in case.volumes
    )
    has_lived = any(volume.recorded is not None and volume.recorded.incarnation > 0 for volume in case.volumes)
    if stage is Stage.HELD:
        return empty
    return any(volume.is_replaced for volume in case.volumes) or (empty and has_lived)
