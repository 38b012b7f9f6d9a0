"""The ledgers that still name a bookie that leaves: which of them is tried when, and when none is left. Pure.

Emptiness is never counted down: only a complete look that found nothing shows it (spec/metadata.md#M41).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bookie.base.ids import LedgerId
from bookie.base.units import NS_PER_MS, NS_PER_S
from bookie.client.repair.naming import AffectedLedger
from bookie.ports.admin import BlockedLedger

# After a failure, doubled each time up to the second: other bookies come, and other repairs end, within minutes.
_PAUSE_MS, _PAUSE_MS_MAX = 1_000, 300_000
# A writer closes its ledger, or replaces the bookie, at a time of its own.
_OPEN_PAUSE_MS, _OPEN_PAUSE_MS_MAX = 2_000, 60_000
BLOCKED_SHOWN_MAX = 20
_REASON_CHARS_MAX = 400


@dataclass(slots=True)
class _Left:
    """One ledger that names the bookie. `reason`: why it could not be moved yet; "" before the first attempt."""

    due_ns: int
    failures: int = 0
    reason: str = ""
    is_open: bool = False


class DrainList:
    """What one drain has still to move. Times are of the caller's clock, in ns."""

    def __init__(self) -> None:
        self.is_empty = False  # a complete look, begun after the last change, found nothing
        self.has_looked = False  # before that nobody knows what is left
        self.moved_count = 0
        self._left: dict[LedgerId, _Left] = {}

    @property
    def left_count(self) -> int:
        return len(self._left)

    @property
    def open_count(self) -> int:
        """Return how many ledgers wait for their writers."""
        return sum(left.is_open for left in self._left.values())

    @property
    def blocked_count(self) -> int:
        return sum(bool(left.reason) for left in self._left.values())

    def looked(self, found: Iterable[AffectedLedger], now_ns: int, *, is_proof: bool) -> None:
        """Take in a complete look. What it did not find was moved, or deleted, by us or another. `is_proof`: when it
        began, nobody could name the bookie any more."""
        self.has_looked = True
        now_named = {each.ledger_id: each for each in found}
        for ledger_id in [one for one in self._left if one not in now_named]:
            self.moved(ledger_id)
        for ledger_id in now_named:
            self._left.setdefault(ledger_id, _Left(due_ns=now_ns))
        self.is_empty = is_proof and not self._left

    def moved(self, ledger_id: LedgerId) -> None:
        """Note that a ledger does not name the bookie any more."""
        if self._left.pop(ledger_id, None) is not None:
            self.moved_count += 1

    def blocked(self, ledger_id: LedgerId, reason: str, now_ns: int, *, is_open: bool) -> bool:
        """Note why a ledger cannot be moved now; it is due again after a pause, which grows. Return True when the
        reason is a new one."""
        left = self._left[ledger_id]
        if left.is_open != is_open:
            left.failures = 0
        pause_ms, most_ms = (_OPEN_PAUSE_MS, _OPEN_PAUSE_MS_MAX) if is_open else (_PAUSE_MS, _PAUSE_MS_MAX)
        left.due_ns = now_ns + min(pause_ms << min(left.failures, 16), most_ms) * NS_PER_MS
        left.failures += 1
        is_news = left.reason == ""
        left.reason, left.is_open = reason[:_REASON_CHARS_MAX], is_open
        return is_news

    def due(self, now_ns: int) -> list[LedgerId]:
        """Return the ledgers to try now, by id."""
        return sorted(ledger_id for ledger_id, left in self._left.items() if left.due_ns <= now_ns)

    def next_due_ns(self) -> int | None:
        return min((left.due_ns for left in self._left.values()), default=None)

    def shown(self) -> tuple[BlockedLedger, ...]:
        """Return the first blocked ledgers with their reasons, by id."""
        blocked = sorted((ledger_id, left.reason) for ledger_id, left in self._left.items() if left.reason)
        return tuple(BlockedLedger(*each) for each in blocked[:BLOCKED_SHOWN_MAX])


def look_again_ns(began_ns: int, ended_ns: int) -> int:
    """Return when to look at all ledgers again: a writer with an old list of bookies may have named this one. Looking
    takes a fifth of the time at most."""
    return ended_ns + max(30 * NS_PER_S, 4 * (ended_ns - began_ns))
