"""What the demo claims at its end, decided from what was seen. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stage import Observation, Proof


def nothing_lost(verdict: dict[str, Any]) -> Proof:
    counts = f"{verdict['verified']} of {verdict['acknowledged']} in {verdict['ledgers']} ledgers"
    seen = f"{counts}, {verdict['recovered']} of them recovered first; lost {verdict['lost']}"
    if verdict["problems"]:
        seen += "; " + "; ".join(verdict["problems"][:3])
    holds = verdict["lost"] == 0 and verdict["verified"] == verdict["acknowledged"] > 0
    return Proof("every acknowledged entry of every ledger reads back with the same bytes", holds, seen)


def copies_are_back(bookie_id: str, verdict: dict[str, Any]) -> Proof:
    checked, missing = verdict["replicas_checked"], verdict["replicas_missing"]
    seen = f"{checked} copies read from {bookie_id} alone; {missing} missing or different"
    holds = missing == 0 and checked > 0
    return Proof("the bookie holds again every copy that metadata assigns to it", holds, seen)


def protected_before_cookie(history: Sequence[Observation], at_once: dict[str, Any], at_last: dict[str, Any]) -> Proof:
    """Two witnesses: the order the bookie reported, and each ledger asked on the wire to take an entry.

    `at_once`: the answers when the bookie began to serve again, about the ledgers that were open on it when it was
    lost; `at_last`: the same after the heal. A fence and a limbo mark both refuse a writer (docs/INTEGRITY.md); a
    ledger that has "moved" was rid of the bookie by its writer's ensemble change.
    """
    claim = "ledgers that were open on the lost bookie were closed to writers there before its cookie came back"
    order = _order(history, protected_min=at_once["fenced"] + at_once["refused"])
    probes = [f"{when}: {_answers(probe)}" for when, probe in (("at once", at_once), ("at last", at_last))]
    holds = order.holds and all(not probe["unfenced"] and not probe["unknown"] for probe in (at_once, at_last))
    return Proof(claim, holds, f"{order.seen}; asked to take an entry as a writer would {'; '.join(probes)}")


def _order(history: Sequence[Observation], *, protected_min: int) -> Proof:
    """Phase one had ended, with enough ledgers protected, when the bookie first told of a cookie or of a new life."""
    old = max((seen.incarnation for seen in history if seen.state == "WAITING_GRANT"), default=0)
    stamped = [seen for seen in history if seen.phase in ("cookie", "two", "done") or 0 < old < seen.incarnation]
    if not stamped:
        return Proof("order", False, "the bookie never reported the end of phase one")
    first = stamped[0]
    protected, limbo = max(first.ledgers_fenced, 0), max(first.ledgers_limbo, 0)
    seen = f"{protected} ledgers protected, {limbo} in limbo, durable when the cookie was replaced"
    late = any(seen.state == "FENCING" for seen in history[history.index(first) :])
    if late:
        seen += ", AND phase one ran after that"
    return Proof("order", not late and protected >= protected_min, seen)


def _answers(probe: dict[str, Any]) -> str:
    words = [f"{probe[name]} {name}" for name in ("fenced", "refused", "moved") if probe[name]]
    words += [f"TAKEN by ledgers {probe['unfenced'][:5]}"] if probe["unfenced"] else []
    words += [f"not known: {probe['unknown'][:3]}"] if probe["unknown"] else []
    return ", ".join(words) or "no ledger was open on it"


def audits(bookie_id: str, told: dict[str, dict[str, Any]]) -> list[Proof]:
    """What the audits before the heal had ended and after it prove; nothing where there were none."""
    if not told:
        return []
    return [audit_named_the_loss(bookie_id, told["before"]), audit_is_clean(told["after"])]


def audit_named_the_loss(bookie_id: str, before: dict[str, Any]) -> Proof:
    """`before`: the summary of the audit that looked before the heal had ended."""
    lacking = {name: _lacking(bookie) for name, bookie in before["bookies"].items() if _lacking(bookie)}
    promised = before["bookies"].get(bookie_id, {"expected": 0})["expected"]
    lost = lacking.pop(bookie_id, 0)
    seen = f"{lost} of {promised} copies of {bookie_id} were not there or not to be seen"
    seen += f"; and of others: {lacking}" if lacking else "; of every other bookie all were"
    claim = "before the heal had ended the audit named what was lost, and nothing else"
    return Proof(claim, 0 < lost <= promised and not lacking, seen)


def audit_is_clean(after: dict[str, Any]) -> Proof:
    """`after`: the summary of the audit of the healed fleet."""
    copies, ledgers = after["copies"], after["ledgers"]
    seen = f"{copies['expected']} copies in {ledgers['closed'] + ledgers['open']} ledgers: {copies['missing']} missing"
    seen += f", {copies['unreachable']} not to be seen, {copies['read']} read"
    holds = copies["expected"] > 0 and after["outcome"] == "whole"
    return Proof("the audit sees every replica that metadata promises", holds, seen)


def _lacking(bookie: dict[str, Any]) -> int:
    return int(bookie["missing"]) + int(bookie["corrupt"]) + int(bookie["unreachable"])


def writer_lived(before: dict[str, Any], after: dict[str, Any]) -> Proof:
    """`before`: the sample at the loss; `after`: one once the fleet had healed."""
    same = before["steady_ledger"] == after["steady_ledger"] >= 0
    more = after["steady_acknowledged"] - before["steady_acknowledged"]
    seen = (
        f"ledger {after['steady_ledger']}: {more} entries since the loss, same ledger, same writer"
        if same
        else f"ledger {before['steady_ledger']} was given up ({after['last_failure']})"
    )
    return Proof("the writer that lived through it is still writing", same and more > 0, seen)
