"""Draws the conclusion on one bookie from all its volumes, and compares it with the bookie's own verdict.

The worst volume decides for the bookie, and Held beats every other conclusion (spec/operator.md#V8). When operator and
bookie conclude differently, the bookie is Held.
"""

import hashlib
import json
from dataclasses import dataclass, replace

from bookie.ports.admin import HELD, Contents, MountProof, State, StorageReport, Verdict
from bookie_operator.evidence import reasons, volume
from bookie_operator.evidence.facts import BookieCase, VolumeCase
from bookie_operator.evidence.reasons import Conclusion, Finding

# Worst first.
_RANK = (
    Conclusion.MOUNT_MISSING,
    Conclusion.HELD,
    Conclusion.UNKNOWN,
    Conclusion.LOST_VOLUME,
    Conclusion.BOOTSTRAP,
    Conclusion.ADDING,
    Conclusion.HEALTHY,
)
assert set(_RANK) == set(Conclusion)

_GIVEN_UP = "StaleVolumeGivenUp"
ROLLBACK = "Rollback"  # the profile of a repair that keeps what volumes have that went back in time

_IN_TRANSITION = (State.FENCING, State.STAMPING, State.REPLAYING)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is proven about one bookie, and a hash over everything that the proof stands on."""

    finding: Finding
    volumes: tuple[Finding, ...]  # in the order of the case's volumes; () when nothing could be judged
    profile: str = ""  # of the repair, when volumes are lost
    digest: str = ""

    @property
    def conclusion(self) -> Conclusion:
        return self.finding.conclusion


def weigh(case: BookieCase) -> Evidence:
    """Return the evidence about `case`. Without a report of exactly this pod there is none, whatever else is seen."""
    pod, report = case.pod, case.report
    if pod is None:
        return _nothing("PodMissing", f"pod {case.name} does not exist")
    if report is None:
        return _nothing("NoReport", case.report_problem or f"pod {case.name} gives no storage report yet")
    if report.pod_uid != pod.uid:
        return _nothing("ReportOfAnotherPod", f"the report comes from pod {report.pod_uid or '?'}, not {pod.uid}")
    if report.bookie_id != case.bookie_id:
        held = reasons.finding(
            "WrongIdentity", f"pod {case.name} calls itself bookie {report.bookie_id}, not {case.bookie_id}"
        )
        return Evidence(held, (), digest=_digest(case, report, ()))
    node = case.nodes.get(pod.node)
    findings = tuple(volume.judge(one, report, pod_created_ms=pod.created_ms, node=node) for one in case.volumes)
    group = min(findings, key=lambda finding: _RANK.index(finding.conclusion))
    is_given_up = any(finding.reason == _GIVEN_UP for finding in findings)
    group = _compared(group, report, is_given_up=is_given_up)
    profile = _profile(case, findings) if group.conclusion is Conclusion.LOST_VOLUME else ""
    digest = _digest(case, report, findings)
    if group in findings and group.reason == HELD[Verdict.UNREADABLE].reason:
        what = f"if what it had is lost for good, create a BookieOperation ConfirmLoss with evidence {digest}"
        group = replace(group, message=f"{group.message}; mend the disk, or {what}")
    return Evidence(group, findings, profile, digest)


def _nothing(reason: str, message: str) -> Evidence:
    return Evidence(reasons.finding(reason, message), ())


def _compared(group: Finding, report: StorageReport, *, is_given_up: bool) -> Finding:
    """Return `group`, or something more careful where the bookie's own verdict asks for it. `is_given_up`: a volume
    went back in time, and the spec gives up what it lacks; its bookie holds itself until a grant says so too."""
    if group.conclusion is Conclusion.HELD and report.state in _IN_TRANSITION:
        # It acts on its own verdict this moment; cookie and volumes are read one after the other and may not match yet.
        return reasons.finding("InTransition", f"the bookie is {report.state.name}; {group.message}")
    if group.conclusion in (Conclusion.MOUNT_MISSING, Conclusion.HELD):
        return group
    if is_given_up and group.conclusion is Conclusion.LOST_VOLUME and report.verdict is Verdict.STALE:
        return group
    if report.verdict is not None and report.verdict.is_held:
        return reasons.finding(HELD[report.verdict].reason, report.reason)
    if report.state is State.HELD:
        return reasons.finding("HeldByBookie", report.reason or "the bookie holds itself, and gives no reason")
    if group.conclusion is Conclusion.UNKNOWN or report.verdict is None:
        # Still inspecting. Valid volumes need no second opinion to be called unknown for a moment.
        unknown = reasons.finding("Inspecting", report.reason or "the bookie is inspecting its volumes")
        return group if group.conclusion is Conclusion.UNKNOWN else unknown
    agreed = {
        Conclusion.LOST_VOLUME: (Verdict.LOST, Verdict.RESUME),
        Conclusion.BOOTSTRAP: (Verdict.BOOTSTRAP,),
        Conclusion.ADDING: (Verdict.HEALTHY, Verdict.UNCLEAN),
        Conclusion.HEALTHY: (Verdict.HEALTHY, Verdict.UNCLEAN),
    }[group.conclusion]
    if report.verdict in agreed:
        return group
    if group.conclusion is Conclusion.HEALTHY and report.state not in (State.WAITING_GRANT, State.STARTING):
        return group  # its conclusion at boot is history: since then it has stamped the volumes we find valid
    return reasons.finding(
        "Disagreement",
        f"the operator concludes {group.conclusion.value} ({group.message}), the bookie {report.verdict.name}"
        f" ({report.reason})",
    )


def _profile(case: BookieCase, findings: tuple[Finding, ...]) -> str:
    """Return which repair the lost roles need (spec/operator.md#V9), for people and for the bookie's log."""
    if any(finding.reason == _GIVEN_UP for finding in findings):
        return ROLLBACK
    lost = {one.role for one, finding in zip(case.volumes, findings, strict=True) if _is_lost(finding)}
    # What is being added held nothing: a bookie that lost the others has lost all it had.
    if all(_is_lost(finding) or finding.conclusion is Conclusion.ADDING for finding in findings):
        return "Full"
    if lost == {"index"}:
        return "IndexRebuild"
    if lost == {"journal"}:
        return "JournalLoss"
    return "Partial"


def _is_lost(finding: Finding) -> bool:
    return finding.conclusion is Conclusion.LOST_VOLUME


def _digest(case: BookieCase, report: StorageReport, findings: tuple[Finding, ...]) -> str:
    """Return thirty-two hex digits over every fact of the proof, so that an approval or grant for yesterday's facts
    fits no longer."""
    facts = {
        "bookie": case.bookie_id,
        "pod": report.pod_uid,
        "instance": report.instance_id,
        "cookie": [report.cookie_present, report.cookie_version, report.cookie_digest],
        "incarnation": report.incarnation,
        "report": report.evidence_hash,
        "volumes": [_volume_facts(one) for one in case.volumes],
        "findings": [[finding.conclusion.value, finding.reason] for finding in findings],
    }
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _volume_facts(one: VolumeCase) -> list[object]:
    claim, pv, report = one.claim, one.pv, one.report
    marks = claim.marks if claim is not None else None
    mount = report.mount.proof if report is not None else MountProof.UNSPECIFIED
    contents = report.contents if report is not None else Contents.UNSPECIFIED
    return [
        one.name,
        one.role,
        claim.uid if claim is not None else "",
        claim.pv_name if claim is not None else "",
        pv.uid if pv is not None else "",
        marks.incarnation if marks is not None else 0,
        mount.value,
        contents.value,
        report.mount.fsid if report is not None else "",
    ]
