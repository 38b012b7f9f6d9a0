"""Makes the run of a failing seed small: fewer faults, fewer applications, less time, and the same promise broken.

A run has parts (`SeedOutcome.parts`), and can be run without any of them: the draws of the others do not change. So
this leaves parts out, many at a time, then one by one, as long as the defect stays (delta debugging).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bookie.sim.run import SeedOutcome

_PROMISE = re.compile(r"at [0-9.]+ s: (\w+):")
_GRAVEST = ("S2", "S1", "S3", "S5")
# Looked for when a run has ended (`replicas`, `fleet_recovery`): a replica that is not there is what any other broken
# promise leaves behind, so a run made small for it alone may have lost the denial, or the loss, that mattered.
_MILDEST = ("HOLES", "KEPT", "UNMENDED")
# Tried in this order: a short run is cheap, so it is looked for first.
_FAULTS_S = (2.0, 5.0, 10.0, 15.0, 20.0)


class Run(Protocol):
    """Runs the seed without some of its parts, with faults for so long."""

    def __call__(self, *, without: frozenset[str], faults_s: float) -> SeedOutcome: ...


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest failing run that was found, after `runs` runs; `parts` are left of the `begun` that it had."""

    without: frozenset[str]
    faults_s: float
    outcome: SeedOutcome
    runs: int
    begun: int

    @property
    def why(self) -> str:
        """The text of the gravest defect."""
        return next(iter(broken(self.outcome).values()))

    @property
    def parts(self) -> list[str]:
        return self.outcome.parts


def broken(outcome: SeedOutcome) -> dict[str, str]:
    """Return what broke, the gravest first, with the text that says so: promises, or else the class of the error."""
    if outcome.defect is None:
        return {}
    found: dict[str, str] = {}
    for text in outcome.violations:
        if promise := _PROMISE.match(text):
            found.setdefault(promise[1], text)
    return dict(sorted(found.items(), key=_rank)) or {outcome.defect.partition(":")[0]: outcome.defect}


def _rank(broken: tuple[str, str]) -> tuple[int, str]:
    """Losses come before what led to them, and replicas that are not there at the end after everything else."""
    promise = broken[0]
    if promise in _GRAVEST:
        return _GRAVEST.index(promise), promise
    return len(_GRAVEST) + (promise in _MILDEST), promise


def shrink(run: Run, faults_s: float, *, runs_max: int, say: Callable[[str], None]) -> Shrunk | None:
    """Return the smallest failing run that `runs_max` runs find; None when the seed does not fail."""
    search = _Search(run, faults_s, runs_max, say)
    if search.kind is None:
        return None
    for shorter in _FAULTS_S:
        if shorter < faults_s and search.still_fails(search.without, shorter):
            break
    size = max(1, len(search.outcome.parts) // 2)
    while True:
        is_smaller = search.leave_out(size)
        if search.runs >= runs_max or (size == 1 and not is_smaller):
            break
        size = max(1, size // 2)
    return Shrunk(search.without, search.faults_s, search.outcome, search.runs, search.begun)


class _Search:
    """The smallest failing run until now."""

    def __init__(self, run: Run, faults_s: float, runs_max: int, say: Callable[[str], None]) -> None:
        self._run = run
        self._runs_max = runs_max
        self._say = say
        self.without: frozenset[str] = frozenset()
        self.faults_s = faults_s
        self.outcome = run(without=self.without, faults_s=faults_s)
        self.runs = 1
        self.begun = len(self.outcome.parts)
        self.kind = next(iter(broken(self.outcome)), None)

    def leave_out(self, size: int) -> bool:
        """Try to leave out each `size` neighbours among the parts, the last ones first; True when any could be."""
        found, end = False, len(self.outcome.parts)
        while end > 0 and self.runs < self._runs_max:
            parts = self.outcome.parts
            end = min(end, len(parts))
            if self.still_fails(self.without | frozenset(parts[max(0, end - size) : end]), self.faults_s):
                found = True
            end -= size
        return found

    def still_fails(self, without: frozenset[str], faults_s: float) -> bool:
        if self.runs >= self._runs_max:
            return False
        self.runs += 1
        outcome = self._run(without=without, faults_s=faults_s)
        if self.kind not in broken(outcome):
            return False
        self.without, self.faults_s, self.outcome = without, faults_s, outcome
        self._say(f"run {self.runs}: {len(outcome.parts)} of {self.begun} parts in {faults_s:g} s, still {self.kind}")
        return True
