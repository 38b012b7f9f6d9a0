"""The stage: what the story needs of a fleet, whatever the fleet is made of.

Two fleets play it: processes (`fleet_local`) and pods (`fleet_kubernetes`). The story must never ask which one it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oracle import Oracle
from timeline import Timeline


class DemoFailed(Exception):
    """The story cannot go on; `look_at` says where a person should look."""

    def __init__(self, what: str, look_at: str) -> None:
        super().__init__(what)
        self.look_at = look_at


@dataclass(frozen=True, slots=True)
class LostVolume:
    name: str
    role: str
    where: str
    size_bytes: int = -1  # -1 = not known


@dataclass(frozen=True, slots=True)
class Loss:
    """What was taken from one bookie, and when by everybody's clock."""

    bookie_id: str
    wall_ms: int
    volumes: tuple[LostVolume, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of the bookie at one instant. Counters are -1 while nobody reported them."""

    state: str = ""
    verdict: str = ""
    reason: str = ""
    data_port_open: bool = False
    incarnation: int = 0
    cookie_version: int = -1
    phase: str = ""
    phase_one_ms: int = -1
    ledgers_fenced: int = -1
    ledgers_limbo: int = -1
    ledgers_pending: int = -1
    ledgers_done: int = -1
    entries_copied: int = -1
    bytes_copied: int = -1
    bytes_per_second: float = 0.0
    done: bool = False
    notes: tuple[str, ...] = ()  # of the operator: events, open and closed gates


@dataclass(frozen=True, slots=True)
class Proof:
    """One claim of the end, whether it holds, and what was seen."""

    claim: str
    holds: bool
    seen: str


@dataclass(slots=True)
class Outcome:
    """All the page and the last line need."""

    title: str
    loss: Loss | None = None
    healed_s: float = -1.0
    last: Observation = field(default_factory=Observation)
    verdict: dict[str, object] = field(default_factory=dict)
    proofs: list[Proof] = field(default_factory=list)
    not_shown: str = ""
    audits: dict[str, dict[str, Any]] = field(default_factory=dict)  # summaries: "before" the heal ended, "after" it


class Audit(Protocol):
    """A question that takes a while."""

    def answer(self) -> dict[str, Any] | None:
        """Return the summary, None while it is not there yet. Raises DemoFailed when none will come."""
        ...


class Fleet(Protocol):
    """Bookies with a writer beside them. Each call narrates what it does and raises DemoFailed when it cannot."""

    title: str  # goes into the last line
    not_shown: str  # one sentence, empty when everything was shown
    poll_s: float  # how often it may be looked at

    def start(self, timeline: Timeline) -> None:
        """Bring the fleet up, all bookies serving."""
        ...

    def start_workload(self) -> Oracle:
        """Start the writers; give what the oracle knows."""
        ...

    def bookie_ids(self) -> Sequence[str]: ...

    def destroy(self, bookie_id: str) -> Loss:
        """Take the bookie and everything it stored away, and let it come back empty."""
        ...

    def watch(self, bookie_id: str) -> Observation:
        """Return what is known now; never raises because the bookie cannot be reached."""
        ...

    def decide(self, bookie_id: str, seen: Observation) -> None:
        """Do what a person would do now; nothing where an operator decides."""
        ...

    def prepare_audit(self) -> None:
        """Return once an audit can begin at once."""
        ...

    def begin_audit(self, name: str) -> Audit:
        """Start an audit of all replicas; the caller polls it."""
        ...

    def final_proofs(self, bookie_id: str, loss: Loss) -> list[Proof]:
        """Look at the end of it with the fleet's own means: identity on the volumes, everything ready."""
        ...

    def diagnose(self) -> str:
        """After a failure: write down what a person would look at first, and say where."""
        ...

    def close(self, *, keep: bool) -> str:
        """End what was started, or keep it and say how to play with it. Safe to call twice."""
        ...
