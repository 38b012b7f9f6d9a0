"""Bounds the answers that clients have not taken: how many bytes in all, and which client is closed above that.

Each connection has a bound of its own (`connection`). Where all of them together are too many, the bookie reads no
more from clients that have not taken their answers, and after a moment cuts off those that take none. Pure.
"""

from dataclasses import dataclass
from typing import Protocol

from bookie.base.units import KIB, NS_PER_S

# While there is too much, a client that takes less than this in so long a time is cut off.
_TAKEN_BYTES_MIN = 64 * KIB
_PATIENCE_NS = 2 * NS_PER_S
# The same from half of the limit on, where nobody is kept out yet, but few reads run at once.
_PATIENCE_TIGHT_NS = 30 * NS_PER_S

# While all clients together have too much, one that has no more than this to take is read and served from memory on.
SMALL_DEBT_BYTES = 64 * KIB


class Debtor(Protocol):
    """A connection with answers that its client has not taken."""

    @property
    def untaken_bytes(self) -> int:
        """Return the bytes that its answers hold in memory: one of which a part was taken is there whole."""
        ...

    @property
    def taken_bytes(self) -> int:
        """Return the bytes that the client has taken since it connected."""
        ...

    def cut(self, reason: str) -> None: ...


@dataclass(slots=True, eq=False)
class _Debt:
    """What one client has not taken."""

    size: int
    taken: int = 0
    since_ns: int = -1  # it has been watched from then on; -1: it is not


class Unsent:
    """The untaken answers of all connections."""

    def __init__(self, limit_bytes: int) -> None:
        self.total_bytes = 0
        self._limit_bytes = limit_bytes
        self._debts: dict[Debtor, _Debt] = {}

    @property
    def is_full(self) -> bool:
        return self.total_bytes > self._limit_bytes

    @property
    def is_tight(self) -> bool:
        """Return True while there is more than half of too much."""
        return self.total_bytes > self._limit_bytes // 2

    def note(self, debtor: Debtor, size: int) -> None:
        """Note that `debtor` has `size` bytes of untaken answers now."""
        debt = self._debts.get(debtor)
        if debt is None:
            if size:
                self._debts[debtor] = _Debt(size)
                self.total_bytes += size
            return
        self.total_bytes += size - debt.size
        debt.size = size
        if not size:
            del self._debts[debtor]

    def look(self, now_ns: int) -> None:
        """Measure all debtors again; close those that take nothing while there is (nearly) too much."""
        for debtor in list(self._debts):
            self.note(debtor, debtor.untaken_bytes)
        deaf = [debtor for debtor, debt in self._debts.items() if self._is_deaf(debtor, debt, now_ns)]
        # Down to half of the limit and not just below it: room for one answer is filled by the next client that takes
        # none, and whoever does take his would wait for as many patiences as there are of those.
        for debtor in sorted(deaf, key=lambda debtor: -self._debts[debtor].size):
            if self.is_tight:
                debtor.cut("the client does not take its answers, and there is no room for more")
                self.note(debtor, 0)

    def _is_deaf(self, debtor: Debtor, debt: _Debt, now_ns: int) -> bool:
        """Watch a debtor while there is too much; return True when it took next to nothing in the time it has."""
        if not self.is_tight:
            debt.since_ns = -1
        elif debt.since_ns < 0:
            debt.since_ns, debt.taken = now_ns, debtor.taken_bytes
        elif now_ns - debt.since_ns >= (_PATIENCE_NS if self.is_full else _PATIENCE_TIGHT_NS):
            if debtor.taken_bytes - debt.taken < min(_TAKEN_BYTES_MIN, debt.size):
                return True
            debt.since_ns, debt.taken = now_ns, debtor.taken_bytes
        return False
