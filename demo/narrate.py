"""What changed between two looks at a bookie, in sentences for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from stage import Observation

STATES = {
    "MISSING": "has no pod",
    "PROVISIONING": "its pod is being made",
    "UNREACHABLE": "its pod does not answer yet",
    "STARTING": "looks at its volumes; nothing is written",
    "WAITING_GRANT": "waits for a grant: alive, not ready, data port closed",
    "HELD": "is held: a person must look",
    "FENCING": "phase one: fences and puts in limbo every ledger it may have lost",
    "STAMPING": "replaces its cookie by compare-and-set and stamps its volumes",
    "REPLAYING": "opens its storage",
    "REPAIRING": "phase two: serves again, recovers and copies",
    "SERVING": "serves",
    "READ_ONLY": "serves reads only",
    "STOPPING": "stops",
}


def changes(before: Observation, after: Observation) -> Iterator[tuple[str, str]]:
    """Give (kind, sentence) for everything worth telling."""
    for note in after.notes:
        if note not in before.notes:
            yield "operator", note
    if after.verdict and after.verdict != before.verdict:
        yield "state", f"verdict {after.verdict}: {after.reason}"
    if after.state and after.state != before.state:
        yield "state", f"{after.state}: {STATES.get(after.state, 'see docs/INTEGRITY.md')}"
    if after.phase_one_ms >= 0 and after.phase in ("cookie", "two", "done") and before.phase in ("", "one"):
        marks = f"{max(after.ledgers_fenced, 0)} ledgers closed to writers, {max(after.ledgers_limbo, 0)} in limbo"
        yield "state", f"phase one took {after.phase_one_ms / 1000:.2f} s: {marks}, durable before the cookie"
    if before.incarnation and after.incarnation > before.incarnation:
        yield "state", f"new cookie: incarnation {before.incarnation} -> {after.incarnation}"
    if after.done and not before.done:
        yield "state", f"done: {copied(after)}; no ledger is in limbo"


def copied(seen: Observation) -> str:
    """Return what phase two has done so far."""
    if seen.entries_copied < 0:
        return "nothing reported yet"
    size_mb = seen.bytes_copied / 1e6
    return f"{seen.ledgers_done} ledgers repaired, {seen.entries_copied} entries copied ({size_mb:.1f} MB)"


def progress(seen: Observation) -> str:
    """Return one line of phase two: how far, how fast."""
    rate = f" at {seen.bytes_per_second / 1e6:.1f} MB/s" if seen.bytes_per_second else ""
    return f"{copied(seen)}{rate}, {max(seen.ledgers_pending, 0)} ledgers to go"
