"""The verdict on one bookie: its volumes together, compared with what the bookie says of itself.

Worst member wins, Hold beats everything (operators.md 3.3). Two opinions that differ are a third one: Held.
"""

import hashlib
import json
from dataclasses import dataclass

from bookie_operator.evidence import volume
from bookie_operator.evidence.facts import BookieCase, Claimed, Contents, Mount, Report, State, VolumeCase
from bookie_operator.evidence.volume import Finding, Verdict

# Worst first.
_RANK = (Verdict.MOUNT_MISSING, Verdict.HELD, Verdict.UNKNOWN, Verdict.LOST_VOLUME, Verdict.BOOTSTRAP, Verdict.HEALTHY)
assert set(_RANK) == set(Verdict)

_IN_TRANSITION = (State.FENCING, State.STAMPING, State.REPLAYING)

# What a bookie may hold itself for, in our words.
_HELD_REASONS = {
    Claimed.STALE: "StaleVolume",
    Claimed.FOREIGN: "ForeignVolume",
    Claimed.MOUNT_MISSING: "MountMissing",
    Claimed.UNKNOWN_CONTENT: "UnknownContent",
    Claimed.COOKIE_MISSING: "CookieMissingInMetadata",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is proven about one bookie, and a hash over everything that the proof stands on."""

    finding: Finding
    volumes: tuple[Finding, ...]  # in the order of the case's volumes; () when nothing could be judged
    profile: str = ""  # of the repair, when volumes are lost
    digest: str = ""

    @property
    def verdict(self) -> Verdict:
        return self.finding.verdict


def weigh(case: BookieCase) -> Evidence:
    """Evidence about `case`. Without a report of exactly this pod there is none, whatever else is seen."""
    pod, report = case.pod, case.report
    if pod is None:
        return _nothing("PodMissing", f"pod {case.name} does not exist")
    if report is None:
        return _nothing("NoReport", case.report_problem or f"pod {case.name} gives no storage report")
    if report.pod_uid != pod.uid:
        return _nothing("ReportOfAnotherPod", f"the report comes from pod {report.pod_uid or '?'}, not {pod.uid}")
    if report.bookie_id != case.bookie_id:
        held = Finding(Verdict.HELD, "WrongIdentity", f"pod {case.name} calls itself bookie {report.bookie_id}")
        return Evidence(held, (), digest=_digest(case, report, ()))
    findings = tuple(volume.judge(one, report, pod_created_ms=pod.created_ms) for one in case.volumes)
    group = min(findings, key=lambda finding: _RANK.index(finding.verdict))
    group = _compared(group, report)
    profile = _profile(case, findings) if group.verdict is Verdict.LOST_VOLUME else ""
    return Evidence(group, findings, profile, _digest(case, report, findings))


def _nothing(reason: str, message: str) -> Evidence:
    return Evidence(Finding(Verdict.UNKNOWN, reason, message), ())


def _compared(group: Finding, report: Report) -> Finding:
    """`group` next to the bookie's own conclusion. It may only make the verdict more careful."""
    if group.verdict is Verdict.HELD and report.state in _IN_TRANSITION:
        # It acts on its own verdict this moment; cookie and volumes are read one after the other and may not match yet.
        return Finding(Verdict.UNKNOWN, "InTransition", f"the bookie is {report.state.name}; {group.message}")
    if group.verdict in (Verdict.MOUNT_MISSING, Verdict.HELD):
        return group
    if report.claimed in _HELD_REASONS:
        verdict = Verdict.MOUNT_MISSING if report.claimed is Claimed.MOUNT_MISSING else Verdict.HELD
        return Finding(verdict, _HELD_REASONS[report.claimed], report.reason)
    if report.state is State.HELD:
        return Finding(Verdict.HELD, "HeldByBookie", report.reason or "the bookie holds itself, without a reason")
    if group.verdict is Verdict.UNKNOWN or report.claimed is Claimed.VERDICT_UNSPECIFIED:
        # Still inspecting. Valid volumes need no second opinion to be called unknown for a moment.
        unknown = Finding(Verdict.UNKNOWN, "Inspecting", report.reason or "the bookie is inspecting its volumes")
        return group if group.verdict is Verdict.UNKNOWN else unknown
    agreed = {
        Verdict.LOST_VOLUME: (Claimed.LOST, Claimed.RESUME),
        Verdict.BOOTSTRAP: (Claimed.BOOTSTRAP,),
        Verdict.HEALTHY: (Claimed.HEALTHY, Claimed.UNCLEAN),
    }[group.verdict]
    if report.claimed in agreed:
        return group
    if group.verdict is Verdict.HEALTHY and report.state not in (State.WAITING_GRANT, State.STARTING):
        return group  # its conclusion at boot is history: since then it has stamped the volumes we find valid
    return Finding(
        Verdict.HELD,
        "Disagreement",
        f"the operator concludes {group.verdict.value} ({group.message}), the bookie {report.claimed.name}"
        f" ({report.reason})",
    )


def _profile(case: BookieCase, findings: tuple[Finding, ...]) -> str:
    """Which repair the lost roles need (operators.md 3.3, profiles). For people and for the bookie's log."""
    lost = {one.role for one, finding in zip(case.volumes, findings, strict=True) if _is_lost(finding)}
    if all(_is_lost(finding) for finding in findings):
        return "Full"
    if lost == {"index"}:
        return "IndexRebuild"
    if lost == {"journal"}:
        return "JournalLoss"
    return "Partial"


def _is_lost(finding: Finding) -> bool:
    return finding.verdict is Verdict.LOST_VOLUME


def _digest(case: BookieCase, report: Report, findings: tuple[Finding, ...]) -> str:
    """Thirty-two hex digits over every fact of the proof; an approval or grant for yesterday's facts fits no longer."""
    facts = {
        "bookie": case.bookie_id,
        "pod": report.pod_uid,
        "instance": report.instance_id,
        "cookie": [report.cookie_present, report.cookie_version, report.cookie_digest],
        "incarnation": report.incarnation,
        "report": report.evidence_hash,
        "volumes": [_volume_facts(one) for one in case.volumes],
        "findings": [[finding.verdict.value, finding.reason] for finding in findings],
    }
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _volume_facts(one: VolumeCase) -> list[object]:
    claim, pv, report = one.claim, one.pv, one.report
    marks = claim.marks if claim is not None else None
    mount = report.mount if report is not None else Mount.PROOF_UNSPECIFIED
    contents = report.contents if report is not None else Contents.CONTENTS_UNSPECIFIED
    return [
        one.name,
        one.role,
        claim.uid if claim is not None else "",
        claim.pv_name if claim is not None else "",
        pv.uid if pv is not None else "",
        marks.incarnation if marks is not None else 0,
        mount.name,
        contents.name,
        report.fsid if report is not None else "",
    ]
