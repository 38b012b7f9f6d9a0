"""The events of a run, in order: a log, its digest for the determinism check, and a table by node for people.

Events count towards the digest; notes (log lines of the product) are for people only.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

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


# The mark of a log line.
NOTE = "·"


class TraceEvent(NamedTuple):
    at_ns: int
    node: str
    text: str
    mark: str
    target: str = ""  # of an arrow: whom the node answered


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
            self.events.append(TraceEvent(at_ns, node, text, NOTE))

    def arrow(self, at_ns: int, node: str, target: str, text: str) -> None:
        """Add an answer from `node` to `target` for the reader; it does not count towards the digest."""
        if self.keep:
            self.events.append(TraceEvent(at_ns, node, text, "●", target))

    def digest(self) -> str:
        return self._hash.hexdigest()

    def table(self, events: Sequence[TraceEvent] | None = None) -> list[str]:
        """Return one line for each of `events` (all by default): time, node, one lane per node, text.

        A lane has the mark of its node's event, or an arrow goes from one lane to another."""
        events = self.events if events is None else events
        nodes = sorted(dict.fromkeys(name for event in events for name in (event.node, event.target) if name))
        width = max([4, *map(len, nodes)])
        lines = [f"{'seconds':>12}  {'node':<{width}}  lanes: " + " ".join(nodes)]
        for event in events:
            lines.append(f"{event.at_ns / NS_PER_S:12.6f}  {event.node:<{width}}  {_lanes(event, nodes)}  {event.text}")
        return lines


def _lanes(event: TraceEvent, nodes: Sequence[str]) -> str:
    lanes = ["│"] * len(nodes)
    start = nodes.index(event.node)
    lanes[start] = event.mark
    if event.target:
        end = nodes.index(event.target)
        for between in range(min(start, end) + 1, max(start, end)):
            lanes[between] = "─"
        lanes[end] = "▶" if end > start else "◀"
    return "".join(lanes)
