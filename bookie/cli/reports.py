"""Shows a bookie's report and its repair to people, says what a grant would do, and makes the grant for a report."""

import uuid

from bookie.base import units
from bookie.base.ids import Incarnation
from bookie.ports.admin import Contents, DiskFormat, FillStatus, Grant, RepairStatus, State, StorageReport, Verdict

_GRANT_TTL_MS = 300_000
# The verdict is about the volumes; what a bookie lost before, or never heard of, is another matter.
_REPAIRING = (
    "  it is not whole: of ledgers that it may have lost something of it says that it does not know, until they are"
    " repaired (`bookie integrity status`)"
)


def describe(report: StorageReport) -> list[str]:
    """Return the report as lines."""
    lines = [
        f"bookie {report.bookie_id}: {report.state.value}, verdict {verdict_of(report)}",
        f"  {report.reason or 'no remarks'}",
        *([_REPAIRING] if report.state is State.REPAIRING else []),
        f"  incarnation {report.incarnation}, boot {report.boot_epoch}, "
        f"cookie {f'version {report.cookie_version}' if report.cookie_present else 'absent'}, "
        f"cluster {report.instance_id or '?'}",
    ]
    for volume in report.volumes:
        lines.append(
            f"  {volume.role:8} {volume.name:16} {volume.contents.value:16} mount {volume.mount.proof.value}"
            f"{f': {volume.why}' if volume.why else ''}"
        )
    lines += [f"  {path}: takes no writes until a restart" for path in report.directories_failed]
    if report.quarantined_count:
        lines.append(
            f"  {report.quarantined_count} ledgers are quarantined: this bookie cannot read what it has of them:"
        )
        lines += [f"    ledger {ledger.ledger_id}: {ledger.reason}" for ledger in report.quarantined]
    if report.garbage_held_ledgers > 0:
        lines.append(
            f"  {report.garbage_held_ledgers} ledgers are held, although the metadata store no longer has them: "
            "see `bookie node release-garbage --dry-run`"
        )
    lines += [f"  {sentence}" for sentence in report.certificates_due]
    if report.formats:
        lines.append(f"  formats on disk: {', '.join(_format(one) for one in report.formats)}")
    lines.append(f"  evidence {report.evidence_hash or '-'}")
    return lines


def _format(one: DiskFormat) -> str:
    """Return `index 2 (reads 2 to 3)`, or `journal 3` where that is all that it reads."""
    only = one.reads_from == one.reads_to == one.writes
    return f"{one.name} {one.writes}{'' if only else f' (reads {one.reads_from} to {one.reads_to})'}"


def verdict_of(report: StorageReport) -> str:
    return report.verdict.value if report.verdict else "VERDICT_UNSPECIFIED"


def why_not(report: StorageReport, *, gives_up_stale: bool = False) -> str | None:
    """Return why this bookie must not be given a grant, as one sentence; None when it may be given one.
    `gives_up_stale`: the caller knows that volumes went back in time, and gives up what they lack."""
    if report.verdict is Verdict.STALE and gives_up_stale:
        return None
    if report.verdict is Verdict.STALE:
        return (
            f"bookie {report.bookie_id} is held ({verdict_of(report)}): {report.reason}. Bring the newer volume"
            " back; if there is none, --give-up-stale goes on with what this one has"
        )
    if report.verdict is not None and report.verdict.is_held:
        return f"bookie {report.bookie_id} is held ({verdict_of(report)}): {report.reason}"
    if report.state is not State.WAITING_GRANT or report.verdict is not Verdict.LOST:
        return f"bookie {report.bookie_id} waits for no grant: it is {report.state.value} ({report.reason})"
    return None


def plan(report: StorageReport, *, is_stopped: bool = False) -> list[str]:
    """Return what a grant will do, before it is done. `is_stopped`: to a bookie that a person starts afterwards."""
    lost = ", ".join(volume.name for volume in report.volumes if volume.contents is not Contents.VALID)
    if report.verdict is Verdict.STALE:
        copied, better = f"keep what is on {lost}, and copy back from its peers what they lack", "newer volumes of it"
    else:
        copied, better = f"and copy back from its peers what {lost} held", "the volumes that had its data"
    return [
        *describe(report),
        "plan:",
        f"  1. fence and put in limbo every ledger that bookie {report.bookie_id} may have lost something of",
        f"  2. replace its cookie (version {report.cookie_version}); incarnation {report.incarnation} -> "
        f"{report.incarnation + 1}",
        f"  3. {'end; once it is started, ' if is_stopped else ''}serve, {copied}",
        f"  If {better} still exist, attach them instead: after a grant nobody can use them.",
    ]


def progress_line(status: RepairStatus) -> str:
    """Return one line about a repair."""
    line = (
        f"{status.state.value:14} phase {status.phase or '-':6} ledgers {status.ledgers_done} done, "
        f"{status.ledgers_pending} pending, {status.ledgers_limbo} in limbo; "
        f"{status.entries_copied} entries, {units.format_bytes(status.bytes_copied)} copied"
    )
    if status.bytes_per_second:
        line += f", {units.format_bytes(status.bytes_per_second)}/s"
    if status.blocked:
        first = status.blocked[0]
        line += f"; ledger {first.ledger_id}: {first.reason}"
        line += f" (and {len(status.blocked) - 1} more)" if len(status.blocked) > 1 else ""
    return line


def left_of_repair(status: RepairStatus) -> str:
    """Return what a repair that is not done waits for, and the next thing to try."""
    if status.state is State.WAITING_GRANT:
        return "it waits for a grant: `bookie integrity grant` shows what that does, and with --yes gives it"
    if status.state is State.HELD:
        return "it is held until a person acts: `bookie integrity report` says why, and what helps"
    left = "the repair is not done; --watch follows it to its end"
    if status.blocked:
        first = status.blocked[0].ledger_id
        left += f"; `bookie autorecovery explain {first}` says what ledger {first} waits for, and what helps"
    return left


def fill_line(status: FillStatus) -> str:
    """Return what a fill found and did; one more line for each blocked ledger that it names."""
    if status.is_running or status.is_waiting:
        state = "looks" if status.is_running else "waits"
    elif status.ended_ms_ago < 0:
        state = "not begun"
    else:
        state = f"{'whole' if status.is_whole else 'not whole'}, as seen {status.ended_ms_ago // 1000} s ago"
    lines = [
        f"{state}: {status.ledgers_done} of {status.ledgers_total} ledgers looked at, {status.entries_missing} entries"
        f" missing; {status.entries_copied} entries, {units.format_bytes(status.bytes_copied)} fetched"
        f"{f'; {status.reason}' if status.reason else ''}"
    ]
    lines += [f"  ledger {ledger.ledger_id}: {ledger.reason}" for ledger in status.blocked]
    if status.blocked_count > len(status.blocked):
        lines.append(f"  and {status.blocked_count - len(status.blocked)} more ledgers")
    return "\n".join(lines)


def grant_for(report: StorageReport, issued_by: str, given_by: str = "", *, accepts_stale: bool = False) -> Grant:
    """Return a grant for exactly what `report` shows."""
    return Grant(
        grant_id=f"cli-{uuid.uuid4()}",
        bookie_id=report.bookie_id,
        pod_uid=report.pod_uid,
        evidence_hash=report.evidence_hash,
        cookie_version=report.cookie_version,
        new_incarnation=Incarnation(report.incarnation + 1),
        operator_epoch=report.operator_epoch_seen,
        ttl_ms=_GRANT_TTL_MS,
        issued_by=issued_by,
        given_by=given_by,
        accepts_stale=accepts_stale,
    )
