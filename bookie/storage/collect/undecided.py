"""Remembers ledgers for which the metadata store cannot say whether they may be deleted. Pure.

One record that cannot be read, one part of the metadata store that does not answer for it: that ledger is kept, listed
with the reason, and asked about again after pauses that grow; all others are collected. Only when no question
is answered any more, the store itself counts as one that cannot be asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bookie.base.ids import LedgerId

# So many in a row without an answer: the metadata store is away, and the rest would only wait for its time-outs.
IN_A_ROW_MAX: Final = 8
# Runs that pass before a ledger is asked about again double up to this: a day, of runs a quarter of an hour apart.
PAUSE_RUNS_MAX: Final = 96
LISTED_MAX: Final = 10_000  # beyond this the metadata store is taken for one that cannot be asked


@dataclass(slots=True)
class _Case:
    reason: str
    failures: int = 0
    pause_runs: int = 0


class Undecided:
    """The undecided ledgers, kept from run to run. Call `begin` for each run; `is_due` before and `failed` or `decided`
    after each question."""

    def __init__(self) -> None:
        self._cases: dict[LedgerId, _Case] = {}
        self._in_a_row = 0
        self._has_answer = self._has_failed = False

    def begin(self, *, all_due: bool = False) -> None:
        """Begin a run. `all_due`: a person asks, so no ledger's question is put off."""
        self._in_a_row, self._has_answer, self._has_failed = 0, False, False
        for case in self._cases.values():
            case.pause_runs = 0 if all_due else max(0, case.pause_runs - 1)

    def is_due(self, ledger_id: LedgerId) -> bool:
        case = self._cases.get(ledger_id)
        return case is None or not case.pause_runs

    def decided(self, ledger_id: LedgerId) -> None:
        """Forget the ledger: the metadata store has said whether it may go."""
        self._in_a_row, self._has_answer = 0, True
        self._cases.pop(ledger_id, None)

    def failed(self, ledger_id: LedgerId, reason: str, *, is_answer: bool = False) -> bool:
        """Note that the store gave no answer about the ledger; `is_answer`: that it refused one, so it is not away.
        Return True when the run must end: the store seems silent."""
        case = self._cases.setdefault(ledger_id, _Case(reason))
        case.reason = reason
        case.pause_runs = min(PAUSE_RUNS_MAX, 1 << min(case.failures, 10))
        case.failures += 1
        self._has_failed = True
        self._in_a_row = 0 if is_answer else self._in_a_row + 1
        return self._in_a_row >= IN_A_ROW_MAX or len(self._cases) > LISTED_MAX

    @property
    def is_silent(self) -> bool:
        """Return True when this run asked questions and got no answer to any of them."""
        return self._has_failed and not self._has_answer

    @property
    def is_unasked(self) -> bool:
        """Return True when this run asked nothing, because all questions there are were put off: it says nothing of the
        store."""
        return bool(self._cases) and not self._has_failed and not self._has_answer

    def __iter__(self) -> Iterator[tuple[LedgerId, str]]:
        """Iterate over the undecided ledgers, ascending, with the reason of each."""
        return ((ledger_id, self._cases[ledger_id].reason) for ledger_id in sorted(self._cases))

    def __len__(self) -> int:
        return len(self._cases)
