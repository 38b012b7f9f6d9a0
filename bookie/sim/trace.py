"""The events of a run, in order: a log, its digest for the determinism check, and a table by node for people.

Events count towards the digest; notes (log lines of the product) are for people only.
"""

import hashlib
from dataclasses import dataclass

from bookie.base.units import NS_PER_S

MARKS = {
    "start": "▲",
    "ready": "●",
    "stop": "▽",
    "kill": "✗",
    "power cut": "✗",
    "pause": "‖",
    "resume": "▷",
    "wipe": "◌",
    "violation": "!",
}


@dataclass(frozen=True, slots=True)
class TraceEvent:
    at_ns: int
    node: str
    text: str
    mark: str


class Trace:
    """The event log of one run. With `keep` the events stay for `table`; without, only the digest does."""

    def __init__(self, *, keep: bool = False) -> None:
        self.keep = keep
        self.events: list[TraceEvent] = []
        self.count = 0
        self._hash = hashlib.blake2b(digest_size=12)

    def event(self, at_ns: int, node: str, what: str, facts: str = "") -> None:
        """Add an event that every run of this seed must repeat exactly. `facts` must not depend on the hash seed."""
        self.count += 1
        self._hash.update(f"{at_ns} {node} {what} {facts}\n".encode())
        if self.keep:
            self.events.append(TraceEvent(at_ns, node, f"{what} {facts}".rstrip(), MARKS.get(what, "*")))

    def note(self, at_ns: int, node: str, text: str) -> None:
        """Add a note for the reader; it does not count towards the digest."""
        if self.keep:
            self.events.append(TraceEvent(at_ns, node, text, "·"))

    def digest(self) -> str:
        return self._hash.hexdigest()

    def table(self) -> list[str]:
        """Return one line per event: time, node, one lane per node with the event's mark in it, text."""
        nodes = sorted(dict.fromkeys(event.node for event in self.events))
        width = max((len(node) for node in nodes), default=4)
        lines = [f"{'seconds':>12}  {'node':<{width}}  lanes: " + " ".join(nodes)]
        for event in self.events:
            lanes = "".join(event.mark if node == event.node else "│" for node in nodes)
            lines.append(f"{event.at_ns / NS_PER_S:12.6f}  {event.node:<{width}}  {lanes}  {event.text}")
        return lines
