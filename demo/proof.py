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


def fenced_before_cookie(history: Sequence[Observation], probe: dict[str, Any]) -> Proof:
    """Two witnesses: the order the bookie reported, and each ledger asked on the wire to take one more entry.

    `probe` says of the ledgers open on the bookie when it was lost: how many refuse adds as fenced there, how many have
    moved off it, and which took one.
    """
    claim = "ledgers that were open on the lost bookie were fenced before its cookie came back"
    with_new_cookie = [seen for seen in history if seen.phase in ("cookie", "two", "done") and seen.ledgers_fenced >= 0]
    old = next((seen.incarnation for seen in history if seen.state == "WAITING_GRANT"), 0)
    too_early = [seen for seen in history if seen.state == "FENCING" and 0 < old < seen.incarnation]
    seen_order = (
        f"{with_new_cookie[0].ledgers_fenced} fences durable when the cookie was replaced"
        if with_new_cookie
        else "the bookie never reported the end of phase one"
    )
    refused = f"{probe['fenced']} ledgers refuse an add there, {probe['moved']} had moved off it"
    unfenced, unknown = probe["unfenced"], probe["unknown"]
    seen = f"{seen_order}; {refused}" + (f"; NOT fenced: {unfenced[:5]}" if unfenced else "")
    seen += f"; not known: {unknown[:3]}" if unknown else ""
    seen += "; the cookie was replaced while phase one ran" if too_early else ""
    return Proof(claim, bool(with_new_cookie) and not too_early and not unfenced and not unknown, seen)


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
