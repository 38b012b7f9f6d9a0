"""Sums up the audit in one JSON object, which the command prints and the report draws. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from pyspark_bookkeeper.audit import tally
from pyspark_bookkeeper.audit.compare import CORRUPT, KINDS, MISSING, UNEXPECTED, UNREACHABLE, ReplicaFinding
from pyspark_bookkeeper.audit.plan import AuditPlan
from pyspark_bookkeeper.audit.tally import Figures

EXAMPLES_MAX = 100

WHOLE, DAMAGE, NOT_KNOWN = "whole", "damage", "not known"
EXIT_DAMAGE, EXIT_NOT_KNOWN = 5, 6
UNKNOWN_KINDS = (UNREACHABLE, *tally.UNKNOWN)
ALL_KINDS = (*KINDS, *tally.UNKNOWN)

Summary = dict[str, Any]


def summarize(plan: AuditPlan, findings: Sequence[ReplicaFinding], figures: Figures, *, finished_ms: int) -> Summary:
    """Return the summary. `bookies` has every bookie that is registered, has a cookie, or is named by an audited
    ledger."""
    tree = tally.nested(figures)
    told = tree.get("bookies", {})
    names = sorted({*told, *plan.zones, *plan.known})
    summary: Summary = {
        "metadataServiceUri": plan.uri,
        "startedMs": plan.started_ms,
        "finishedMs": finished_ms,
        "ledgers": {name: tree.get("ledgers", {}).get(name, 0) for name in (*tally.STATES, *KINDS)},
        "entries": tree.get("entries", 0),
        "lost": tree.get("lost", 0),
        "copies": {name: tree.get("copies", {}).get(name, 0) for name in ("expected", "read", *KINDS)},
        "findings": {kind: sum(one.kind == kind for one in findings) for kind in ALL_KINDS},
        "bookies": {
            name: {
                "zone": plan.zones.get(name, ""),
                "registered": name in plan.zones,
                **{what: told.get(name, {}).get(what, 0) for what in ("expected", "read", *KINDS, tally.UNANSWERED)},
            }
            for name in names
        },
        "replicas": tree.get("replicas", {}),
        "zones": tree.get("zones", {}),
        "reasons": tree.get("reasons", {}),
        "examples": [asdict(one) for one in _worst_first(findings)[:EXAMPLES_MAX]],
        "reads": plan.rules.reads,
    }
    return {"outcome": outcome(summary), "title": title(summary), **summary}


def _worst_first(findings: Sequence[ReplicaFinding]) -> list[ReplicaFinding]:
    rank = {kind: place for place, kind in enumerate((MISSING, CORRUPT, UNREACHABLE, *tally.UNKNOWN, UNEXPECTED))}
    return sorted(findings, key=lambda one: (rank[one.kind], -one.count, one))


# ---- what may be said ------------------------------------------------------------------------------------------------


def audited(summary: Summary) -> int:
    """Return how many ledgers were audited to their end."""
    return int(summary["ledgers"][tally.CLOSED] + summary["ledgers"][tally.OPEN])


def outcome(summary: Summary) -> str:
    """Return WHOLE, DAMAGE or NOT_KNOWN. DAMAGE outweighs NOT_KNOWN; WHOLE needs a look at everything."""
    if any(summary["findings"][kind] for kind in (MISSING, CORRUPT)):
        return DAMAGE
    return NOT_KNOWN if _is_unknown(summary, UNKNOWN_KINDS) else WHOLE


def exit_code(summary: Summary, fail_on: Collection[str]) -> int:
    """Return the exit code. `fail_on`: the kinds of findings that count."""
    if any(summary["findings"][kind] for kind in (MISSING, CORRUPT, UNEXPECTED) if kind in fail_on):
        return EXIT_DAMAGE
    is_unanswered = UNEXPECTED in fail_on and _unanswering(summary)
    return EXIT_NOT_KNOWN if is_unanswered or _is_unknown(summary, fail_on) else 0


def _is_unknown(summary: Summary, kinds: Collection[str]) -> bool:
    """Return True when findings of `kinds` leave something unknown, and for an audit that looked at nothing."""
    return not audited(summary) or any(summary["findings"][kind] for kind in UNKNOWN_KINDS if kind in kinds)


def _unanswering(summary: Summary) -> int:
    """Return how many bookies did not say whether they have copies that they do not owe."""
    return sum(bool(one.get(tally.UNANSWERED)) for one in summary["bookies"].values())  # an older summary has none


def title(summary: Summary) -> str:
    """Return the outcome in a few words, claiming no more than the audit saw."""
    copies, findings = summary["copies"], summary["findings"]
    match outcome(summary):
        case "damage":
            what = "missing" if findings[MISSING] else "damaged"
            what += " and damaged" if findings[MISSING] and findings[CORRUPT] else ""
            rest = "; not everything could be seen" if _is_unknown(summary, UNKNOWN_KINDS) else ""
            return f"Replicas are {what}{rest}"
        case "not known":
            return "Not every replica could be seen" if audited(summary) else "Nothing could be looked at"
    if not copies["expected"]:
        return "Every ledger is empty: no replica is promised"
    if copies["read"] >= copies["expected"]:
        return "Every replica is there: all were read"
    read = f"{copies['read']:,} of {copies['expected']:,} were read" if copies["read"] else "bytes were not read"
    return f"Every replica is listed; {read}"


def sentence(summary: Summary) -> str:
    """Return the audit in one line, for people."""
    ledgers, copies = summary["ledgers"], summary["copies"]
    text = (
        f"{title(summary)}. {audited(summary):,} ledgers, {copies['expected']:,} copies: {copies['missing']:,} missing"
    )
    text += f", {copies['corrupt']:,} corrupt, {copies['unreachable']:,} not to be seen"
    text += f", {copies['unexpected']:,} unexpected"
    if silent := _unanswering(summary):
        text += f" ({silent:,} {'bookie' if silent == 1 else 'bookies'} did not say)"
    lost = summary.get("lost", 0)  # a summary of an older release has none
    text += f", {lost:,} entries declared lost" if lost else ""
    unknown = [f"{ledgers[state]:,} {state}" for state in tally.UNKNOWN if ledgers[state]]
    return text + (f"; ledgers not known: {', '.join(unknown)}" if unknown else "")
