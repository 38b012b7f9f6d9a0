"""Keeps a place free among the ledgers that a worker works on at once: one bookie is filled by all but one of them.

So a bookie that is slow, or has had its share of the copies (`base.throttle.Throttles`), holds up no ledger of another.
Never: a ledger that waits while no place of its bookie is taken: nobody would call it.
"""

from bookie.base.ids import BookieId, LedgerId


class Places:
    """Of ledgers that fill a bookie. `at_once`: how many ledgers a worker works on."""

    def __init__(self, at_once: int) -> None:
        self._most = max(1, at_once - 1)
        self._taken: dict[BookieId, int] = {}
        self._waiting: dict[BookieId, dict[LedgerId, None]] = {}  # in the order in which they came

    def enter(self, bookie_id: BookieId, ledger_id: LedgerId) -> bool:
        """Take a place. Return False when all are taken: then the ledger waits for `leave` to return it."""
        taken = self._taken.get(bookie_id, 0)
        if taken >= self._most:
            self._waiting.setdefault(bookie_id, {})[ledger_id] = None
            return False
        self._taken[bookie_id] = taken + 1
        return True

    def leave(self, bookie_id: BookieId) -> LedgerId | None:
        """Give a place back. Return the ledger whose turn it is now; it enters as any other."""
        self._taken[bookie_id] -= 1
        waiting = self._waiting.get(bookie_id)
        if not waiting:
            return None
        called = next(iter(waiting))
        del waiting[called]
        return called

    def is_waiting(self, ledger_id: LedgerId) -> bool:
        return any(ledger_id in each for each in self._waiting.values())

    def forget_waiting(self) -> None:
        """Nobody waits any more: the next look at the queue finds them."""
        self._waiting.clear()
