"""Finds the stage of one bookie, from its evidence and what our status remembers (spec/operator.md#K10)."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from bookie.ports.admin import Contents, MountProof, State, StorageReport, Verdict
from bookie_operator.evidence import bookie as bookie_evidence
from bookie_operator.evidence import processes
from bookie_operator.evidence.bookie import Evidence
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.evidence.reasons import Conclusion
from bookie_operator.model.status import BookieStatus, GrantRecord, LeavingStatus, Process, Suspicion
from bookie_operator.model.values import format_time, parse_time

OBSERVATIONS_NEEDED = 3
WITHOUT_DATA = "WithoutData"
_SILENCE_MS = 60_000
_FOREIGN = "ForeignVolume"
_BOOTSTRAP = "bootstrap-"  # what a first life has for a grant (bookie/integrity/gate.py)


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
    ELSEWHERE = "Elsewhere"  # registered, and no pod of ours: somebody else runs it
    RETIRED = "Retired"  # it left by proof; what its claims hold nobody needs

    @property
    def serves(self) -> bool:
        """Return True for stages that serve reads and (except ReadOnly) new ledgers."""
        return self in (Stage.SERVING, Stage.READ_ONLY, Stage.REPAIRING, Stage.LIMBO)

    @property
    def is_writable(self) -> bool:
        return self in (Stage.SERVING, Stage.REPAIRING, Stage.LIMBO)


HEALING = (Stage.GRANTED, Stage.FENCING, Stage.STAMPING, Stage.REPAIRING)
# The report's own reason is about its volumes, which are well again by then; no figures here, those are `progress`.
_REPAIRS = {
    Stage.REPAIRING: "it serves what it has, and copies back what it lost; ",
    Stage.LIMBO: "it serves, and reads again what an unclean stop put in doubt; ",
}


@dataclass(frozen=True, slots=True)
class Assessed:
    """One bookie with all that this pass concluded about it."""

    case: BookieCase
    evidence: Evidence
    stage: Stage
    reason: str
    message: str
    previous: BookieStatus | None
    has_loss: bool  # a volume was lost and is not yet repaired
    suspicion: Suspicion | None = None
    grant: GrantRecord | None = None
    away_since_ms: int | None = None  # since when nobody has seen it serve; None while it serves
    processes: tuple[Process, ...] | None = None  # that may run now; None: nothing is known yet
    leaving: LeavingStatus | None = None  # how far it is, if it leaves or comes back from it (plan/leaving.py)

    @property
    def incarnation(self) -> int:
        """Return the highest incarnation that we know of; 0 = none was seen, yet the bookie may have lived
        (`has_lived`)."""
        if self.stage is Stage.RETIRED:
            return 0  # that life is over: whoever comes next under this name begins anew
        seen: list[int] = [self.case.report.incarnation] if self.case.report is not None else []
        seen += [self.previous.incarnation] if self.previous is not None else []
        seen += [volume.claim.marks.incarnation for volume in self.case.volumes if volume.claim and volume.claim.marks]
        return max(seen, default=0)

    @property
    def has_lived(self) -> bool:
        """Return True when the bookie may hold data, or may have held data that is lost now."""
        return self.stage is not Stage.RETIRED and _has_lived(self.case, self.previous)

    @property
    def is_set_aside(self) -> bool:
        """Return True when the bookie of this very pod says that a person took it out of service, and nobody serves."""
        report = self.case.report
        if not self.evidence.digest or report is None or report.data_port_open:
            return False
        is_registered = self.case.member is not None and self.case.member.is_registered
        return report.state is State.HELD and report.verdict is Verdict.SET_ASIDE and not is_registered

    @property
    def is_dataless(self) -> bool:
        """Return True when the gates count the bookie as without its data (spec/operator.md#K11), also before it says
        so, and while it heals."""
        if self.stage in (Stage.SERVING, Stage.READ_ONLY, Stage.LIMBO):
            return False
        return self.has_loss

    @property
    def is_unavailable(self) -> bool:
        """Return True when the bookie does not serve and its data is presumed intact; never for one that has held no
        data."""
        is_there = self.stage.serves or self.stage is Stage.ELSEWHERE
        return not is_there and not self.is_dataless and self.has_lived

    @property
    def counted(self) -> str | None:
        """Return in one word how the gates count the bookie."""
        if self.is_dataless:
            return WITHOUT_DATA
        if self.is_unavailable:
            return "NotSeen" if self.stage is Stage.UNREACHABLE else "Away"
        return None

    @property
    def is_healing(self) -> bool:
        """Return True from the grant to the end of the repair (spec/operator.md#G7 counts these)."""
        return self.stage in HEALING and self.has_loss


def assess(
    case: BookieCase,
    previous: BookieStatus | None,
    *,
    now_ms: int,
    stabilization_ms: int,
    healed: Collection[str] = (),
    is_asleep: bool = False,
) -> Assessed:
    """Draw the conclusions about one bookie. `previous` is what our last status said; it may be lost. `healed`: grants
    whose repair we saw end. `is_asleep`: the fleet hibernates, and nobody waits for this bookie yet."""
    evidence = bookie_evidence.weigh(case)
    if _is_retired(case, previous):
        told = f"bookie {case.bookie_id} left by proof; its claims hold nothing that is needed"
        away_since_ms, ran = _away_since_ms(Stage.RETIRED, previous, now_ms), processes.follow(case, previous, now_ms)
        return Assessed(
            case, evidence, Stage.RETIRED, "Left", told, previous, False, away_since_ms=away_since_ms, processes=ran
        )
    stage, reason, message = _stage(case, evidence, previous, healed)
    suspicion = None
    if stage is Stage.SUSPECTED:
        suspicion = _suspicion(evidence, previous, now_ms, stabilization_ms)
        if suspicion.observations >= OBSERVATIONS_NEEDED:
            stage = Stage.CONFIRMED
    grant = _grant(case, evidence, stage, previous, now_ms)
    if grant is not None and stage is Stage.CONFIRMED:
        stage = Stage.GRANTED
    has_loss = _has_loss(case, evidence, stage, grant, previous)
    has_loss = has_loss or _is_blank(case, stage, previous, now_ms)
    away_since_ms = _away_since_ms(stage, previous, now_ms) if not is_asleep else None
    return Assessed(
        case,
        evidence,
        stage,
        reason,
        message,
        previous,
        has_loss,
        suspicion,
        grant,
        away_since_ms,
        processes.follow(case, previous, now_ms),
    )


def _is_retired(case: BookieCase, previous: BookieStatus | None) -> bool:
    """Return True when the bookie has left: by our status; or, where that was lost, by its claims, while the metadata
    store knows nothing of it."""
    if case.pod is not None or case.member is not None:
        return False
    if previous is not None and previous.leaving is not None and previous.leaving.state.is_gone:
        return True
    claims = [volume.claim for volume in case.volumes if volume.claim is not None] + list(case.other_claims)
    marked = [claim for claim in claims if claim.marks is not None]
    return case.is_listed and bool(marked) and all(claim.retired_at for claim in marked)


def _away_since_ms(stage: Stage, previous: BookieStatus | None, now_ms: int) -> int | None:
    """Return since when no operator saw the bookie serve; at most now, since a clock may have been set back. The stages
    of a crash loop do not begin this time anew."""
    if stage.serves:
        return None
    if previous is None or previous.away_since is None:
        return now_ms
    return min(parse_time(previous.away_since), now_ms)


def _stage(
    case: BookieCase, evidence: Evidence, previous: BookieStatus | None, healed: Collection[str]
) -> tuple[Stage, str, str]:
    finding = evidence.finding
    if not evidence.digest:
        return _without_report(case, evidence, previous)
    assert case.report is not None
    has_grant = previous is not None and previous.grant is not None
    # Its life began with a grant, and nobody saw it whole since: what it repairs now may be that loss (the record was
    # deleted, say).
    began = case.report.grant_id
    is_unseen = bool(began) and not began.startswith(_BOOTSTRAP) and began not in healed
    stage = _reported(case.report, evidence.conclusion, has_grant=has_grant or is_unseen)
    if stage in (Stage.SERVING, Stage.REPAIRING, Stage.LIMBO, Stage.FENCING, Stage.STAMPING, Stage.READ_ONLY):
        return stage, stage.value, f"{_REPAIRS.get(stage, '')}{case.report.reason}"
    return stage, finding.reason, finding.message


def _without_report(case: BookieCase, evidence: Evidence, previous: BookieStatus | None) -> tuple[Stage, str, str]:
    """Assess a bookie without a report. It never counts as "empty": it is missing or unreachable, and that is all we
    know."""
    has_lived = _has_lived(case, previous)
    pod = case.pod
    if pod is None and not case.is_desired:
        return _found(case, evidence)
    if pod is None:
        return (Stage.MISSING if has_lived else Stage.PROVISIONING), "PodMissing", evidence.finding.message
    cut_off = _cut_off(case)
    if pod.is_terminating:
        words = f"pod {pod.name} is being deleted"
        if pod.has_ended and pod.finalizers:
            words = f"{words}, has ended, and {kept_by(pod.finalizers)} before there is another pod"
        if cut_off:
            return Stage.STOPPING, "NodeNotReady", f"{words}; {cut_off}"
        return Stage.STOPPING, "PodTerminating", words
    if pod.phase != "Running" or pod.problem:
        stage = Stage.MISSING if has_lived else Stage.PROVISIONING
        words = pod.problem or f"pod {pod.name} is {pod.phase or 'Pending'}"
        if cut_off:
            return stage, "NodeNotReady", f"{words}; {cut_off}"
        return stage, pod.trouble or "PodNotRunning", words
    if cut_off:
        return Stage.UNREACHABLE, "NodeNotReady", f"{cut_off}; {evidence.finding.message}"
    # Until its start-up probe succeeds, a bookie that says nothing is starting; the kubelet ends it if that takes long.
    is_starting = pod.is_bookie_running and not pod.is_ready and evidence.finding.reason == "NoReport"
    return Stage.UNREACHABLE, "SlowStart" if is_starting else evidence.finding.reason, evidence.finding.message


def _cut_off(case: BookieCase) -> str:
    """Return the words for a pod on a node whose kubelet is not heard, so that what the API server says of the pod is
    old; "" otherwise, and where the node was not read."""
    if case.pod is None or case.pod.node not in case.nodes:
        return ""
    node = case.nodes[case.pod.node]
    if node is None:
        return f"its node {case.pod.node} was deleted, and Kubernetes has yet to drop the pod"
    if node.is_ready:
        return ""
    since = f" since {format_time(node.ready_since_ms)}" if node.ready_since_ms else ""
    return f"its node {node.name} is not ready{since}: bring the node back"


def _reported(report: StorageReport, conclusion: Conclusion, *, has_grant: bool) -> Stage:
    if conclusion in (Conclusion.HELD, Conclusion.MOUNT_MISSING):
        return Stage.HELD
    lost = has_grant or report.verdict in (Verdict.LOST, Verdict.RESUME)
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
        case State.WAITING_GRANT | State.HELD if conclusion is Conclusion.LOST_VOLUME:
            return Stage.SUSPECTED
        case _:
            return Stage.BOOTSTRAPPING if conclusion is Conclusion.BOOTSTRAP else Stage.INSPECTING


def _suspicion(evidence: Evidence, previous: BookieStatus | None, now_ms: int, stabilization_ms: int) -> Suspicion:
    """Count the same evidence once more. Observations count at 0, half and the whole of the stabilization time, so
    that looking often is not looking long; a fact that changes starts again, and so does a clock that was set back: it
    would have to reach the time of the first look once more."""
    before = previous.suspicion if previous is not None else None
    if before is None or before.evidence != evidence.digest or before.since_ms > now_ms:
        return Suspicion(evidence=evidence.digest, observations=1, since_ms=now_ms)
    due_ms = before.since_ms + before.observations * stabilization_ms // (OBSERVATIONS_NEEDED - 1)
    if before.observations >= OBSERVATIONS_NEEDED or now_ms < due_ms:
        return before
    return before.model_copy(update={"observations": before.observations + 1})


def _grant(
    case: BookieCase, evidence: Evidence, stage: Stage, previous: BookieStatus | None, now_ms: int
) -> GrantRecord | None:
    """Return the grant of record, while it still counts. A grant for other facts or another pod is void."""
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


def _found(case: BookieCase, evidence: Evidence) -> tuple[Stage, str, str]:
    """Assess a bookie that the spec does not ask for and that no pod of ours runs."""
    if case.member is not None and case.member.is_registered:
        return (
            Stage.ELSEWHERE,
            "Registered",
            f"bookie {case.bookie_id} is registered; no pod of ours runs it",
        )
    if not case.is_ours:
        text = (
            f"bookie {case.bookie_id} has a cookie in this metadata store and is not registered: it is another fleet's"
        )
        return Stage.MISSING, "NotRegistered", f"{text}, or it left without `bookie cluster recover-bookie`"
    return Stage.MISSING, "NotInSpec", f"the spec does not ask for bookie {case.bookie_id}, and it may hold data"


def _has_lived(case: BookieCase, previous: BookieStatus | None) -> bool:
    """Return True when the bookie may have data: it has a cookie or a mark on a claim, or an operator saw it serve."""
    if previous is not None and (previous.has_lived or previous.incarnation > 0):
        return True
    if case.report is not None and case.report.incarnation > 0:
        return True
    if case.member is not None and case.member.has_cookie:
        return True
    claims = [volume.claim for volume in case.volumes] + list(case.other_claims)
    return any(claim is not None and claim.marks is not None for claim in claims)


def kept_by(finalizers: Collection[str]) -> str:
    """Return the words for an object that is being deleted and does not go."""
    return f"finalizers keep it ({', '.join(finalizers)}): who set them must take them away"


def _has_loss(
    case: BookieCase, evidence: Evidence, stage: Stage, grant: GrantRecord | None, previous: BookieStatus | None
) -> bool:
    if grant is not None or stage in (Stage.SUSPECTED, Stage.CONFIRMED, Stage.GRANTED, Stage.REPAIRING):
        return True
    if evidence.conclusion is Conclusion.BOOTSTRAP:
        return False
    has_lived = _has_lived(case, previous)
    # What lies under a missing mount says nothing about the volume: it is presumed intact, and unavailable. What went
    # back in time lacks data, whoever is to decide about it.
    empty = any(
        volume.report is not None
        and volume.report.contents in (Contents.EMPTY, Contents.REGENERATING, Contents.STALE)
        and volume.report.mount.proof in (MountProof.PROVEN, MountProof.SHARED)
        for volume in case.volumes
    )
    # A disk of somebody else in place of its own: where its own is nobody knows, and it may be written over.
    empty = empty or (has_lived and any(one.reason == _FOREIGN for one in evidence.volumes))
    if stage is Stage.HELD:
        return empty
    if any(volume.is_replaced for volume in case.volumes):
        return True
    return empty and has_lived


def _is_blank(case: BookieCase, stage: Stage, previous: BookieStatus | None, now_ms: int) -> bool:
    """Return True when the bookie cannot be looked at, and had data, and has a claim that is gone or was never
    marked."""
    if case.report is not None or not _has_lived(case, previous):
        return False
    leaving = previous.leaving if previous is not None else None
    if leaving is not None and leaving.is_proven and case.is_leaving and case.is_ephemeral:
        return False  # what went with its pod was proven to be named by no ledger
    # A new bookie has a cookie a moment before its claims are marked, and before its kubelet says that the pod runs:
    # one answer that is lost then, or a pod that is still called Pending, is no loss.
    was_silent = previous is not None and previous.state == stage.value
    silent_ms = now_ms - parse_time(previous.since) if previous is not None and was_silent else 0
    is_new = case.pod is not None and not case.pod.problem and (previous is None or previous.incarnation == 0)
    if (stage is Stage.UNREACHABLE or (stage is Stage.MISSING and is_new)) and silent_ms < _SILENCE_MS:
        return False
    return any(not volume.is_initialised and not volume.is_new for volume in case.volumes)
