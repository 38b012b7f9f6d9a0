"""What happened when: events and samples against one clock that starts with the demo."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """`at_s` seconds after the start; `kind` groups events on the page: step, loss, state, operator, proof."""

    at_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the writers and at the bookie that lost its volumes."""

    at_s: float
    rate_per_s: float
    acknowledged: int


@dataclass(frozen=True, slots=True)
class Progress:
    at_s: float
    ledgers_pending: int
    bytes_copied: int


@dataclass(slots=True)
class Timeline:
    say: Callable[[str], None]
    started_s: float = field(default_factory=time.monotonic)
    events: list[Event] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    def now_s(self) -> float:
        return time.monotonic() - self.started_s

    def tell(self, kind: str, text: str) -> Event:
        """Remember an event and say it."""
        event = Event(self.now_s(), kind, text)
        self.events.append(event)
        self.say(f"{event.at_s:6.1f} s  {text}")
        return event
