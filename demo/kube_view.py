"""A BookieCluster as the demo sees it: from its status and events to one look at one bookie. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stage import Observation

OPERATOR = "bookie-operator"  # reportingController of its events
# Stages of the operator (plan/stages.py) in the words of the bookie, which the story tells.
STATES = {
    "Inspecting": "STARTING",
    "Suspected": "WAITING_GRANT",
    "Confirmed": "WAITING_GRANT",
    "Granted": "WAITING_GRANT",
    "Fencing": "FENCING",
    "Stamping": "STAMPING",
    "Repairing": "REPAIRING",
    "Limbo": "REPAIRING",
    "Serving": "SERVING",
    "Held": "HELD",
}


def observation(
    status: Mapping[str, Any], bookie_name: str, notes: Sequence[str], *, incarnation_before: int
) -> Observation:
    """Return one look at a bookie: `status` of the BookieCluster, `notes` its events so far in sentences."""
    entry = entry_of(status, bookie_name)
    if entry is None:
        return Observation(notes=tuple(notes))
    progress, ledgers = entry.get("progress") or {}, entry.get("ledgers") or {}
    past = next((one for one in reversed(status.get("history", ())) if one["bookie"] == bookie_name), {})
    incarnation = int(entry.get("incarnation", 0))
    is_new = incarnation > incarnation_before > 0
    done = is_new and entry["state"] == "Serving"
    gates = [f"gate {gate['name']} closed: {gate['message']}" for gate in entry.get("gates", ())]
    return Observation(
        state=STATES.get(entry["state"], entry["state"].upper()),
        verdict=entry.get("verdict", ""),
        reason=entry.get("message") or entry.get("reason", ""),
        data_port_open=is_new and entry["state"] in ("Repairing", "Serving"),
        incarnation=incarnation,
        phase="done" if done else ("two" if is_new else progress.get("phase", "")),
        phase_one_ms=int(progress.get("phaseOneMs", past.get("phaseOneMs", -1))),
        ledgers_fenced=int(ledgers.get("fenced", -1)),
        ledgers_limbo=int(ledgers.get("limbo", -1)),
        ledgers_pending=int(ledgers.get("pendingRepair", -1)),
        ledgers_done=int(ledgers.get("done", past.get("ledgers", -1))),
        entries_copied=int(progress.get("entries", past.get("entries", -1))),
        bytes_copied=int(progress.get("bytes", past.get("bytes", -1))),
        bytes_per_second=float(progress.get("bytesPerSecond", 0)),
        done=done,
        notes=(*notes, *gates),
    )


def entry_of(status: Mapping[str, Any], bookie_name: str) -> dict[str, Any] | None:
    """Return the status of one bookie by the name of its pod."""
    return next((entry for entry in status.get("bookies", ()) if entry["name"] == bookie_name), None)


def sentences(events: Iterable[Mapping[str, Any]], bookie_name: str) -> list[str]:
    """Return the operator's events about `bookie_name` as sentences, oldest first, each once."""
    found: dict[str, None] = {}
    ours = [event for event in events if event.get("reportingController") == OPERATOR]
    for event in sorted(ours, key=_when):
        text = event.get("note") or event.get("message") or ""
        if bookie_name in text:
            found[f"operator: {event.get('reason', '')}: {text}"] = None
    return list(found)


def _when(event: Mapping[str, Any]) -> str:
    return str(event.get("eventTime") or event.get("firstTimestamp") or event["metadata"].get("creationTimestamp", ""))


def why_not_ready(status: Mapping[str, Any]) -> str:
    """Return what the status says of a fleet that is not Ready: how many bookies serve, and the condition's words."""
    words = [str(status.get("summary", "nothing yet")) + " bookies"]
    words += [
        f"Ready={condition['status']} {condition.get('reason', '')}: {condition.get('message', '')}"
        for condition in status.get("conditions", ())
        if condition["type"] == "Ready" and condition["status"] != "True"
    ]
    return "; ".join(words)


def is_ready(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
