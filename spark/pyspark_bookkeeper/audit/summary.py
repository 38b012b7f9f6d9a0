"""The audit in one JSON object: what the command prints, what the report is drawn from. Pure."""

from collections.abc import Sequence
from typing import Any

from pyspark_bookkeeper.audit import tally
from pyspark_bookkeeper.audit.compare import KINDS, Finding
from pyspark_bookkeeper.audit.plan import Plan
from pyspark_bookkeeper.audit.tally import Figures

EXAMPLES_MAX = 100

Summary = dict[str, Any]


def summarize(plan: Plan, findings: Sequence[Finding], figures: Figures, *, finished_ms: int) -> Summary:
    """`bookies` has every bookie that is registered, has a cookie, or is named by a ledger that was audited."""
    tree = tally.nested(figures)
    told = tree.get("bookies", {})
    names = sorted({*told, *plan.zones, *plan.known})
    return {
        "metadataServiceUri": plan.uri,
        "startedMs": plan.started_ms,
        "finishedMs": finished_ms,
        "ledgers": {name: tree.get("ledgers", {}).get(name, 0) for name in (*tally.STATES, *KINDS)},
        "entries": tree.get("entries", 0),
        "copies": {name: tree.get("copies", {}).get(name, 0) for name in ("expected", *KINDS)},
        "findings": {kind: sum(one.kind == kind for one in findings) for kind in KINDS},
        "bookies": {
            name: {
                "zone": plan.zones.get(name, ""),
                "registered": name in plan.zones,
                **{what: told.get(name, {}).get(what, 0) for what in ("expected", *KINDS)},
            }
            for name in names
        },
        "replicas": tree.get("replicas", {}),
        "zones": tree.get("zones", {}),
        "reasons": tree.get("reasons", {}),
        "examples": [_row(one) for one in _worst_first(findings)[:EXAMPLES_MAX]],
    }


def _row(one: Finding) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "ledger": one.ledger,
        "bookie": one.bookie,
        "first": one.first,
        "last": one.last,
        "count": one.count,
        "reason": one.reason,
    }


def _worst_first(findings: Sequence[Finding]) -> list[Finding]:
    rank = {"missing": 0, "unreachable": 1, "unexpected": 2}
    return sorted(findings, key=lambda one: (rank[one.kind], -one.count, one))


def is_clean(summary: Summary, fail_on: Sequence[str]) -> bool:
    """Nothing of these kinds was found, and no record was unreadable."""
    return not any(summary["findings"][kind] for kind in fail_on) and not summary["ledgers"][tally.UNREADABLE]


def sentence(summary: Summary) -> str:
    """The audit in one line, for people."""
    ledgers, copies = summary["ledgers"], summary["copies"]
    audited = ledgers[tally.CLOSED] + ledgers[tally.OPEN]
    text = f"{audited:,} ledgers, {copies['expected']:,} copies: {copies['missing']:,} missing"
    text += f", {copies['unreachable']:,} not to be seen, {copies['unexpected']:,} unexpected"
    skipped = [f"{ledgers[state]:,} {state}" for state in tally.STATES[2:] if ledgers[state]]
    return text + (f"; not audited: {', '.join(skipped)}" if skipped else "")
