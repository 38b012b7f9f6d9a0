"""The brake on mass deletion: how many ledgers one bookie forgets in a day without a person. Pure.

The metadata store alone says that a ledger was deleted, so a person who empties it, points a bookie at the wrong
part of it, or sets it back to an old backup would have every bookie delete what it holds. A day's worth of ordinary
deletions passes; more than that is held *whole*, until a person has looked: of a thousand ledgers that are suddenly
gone not one is collected.

The day is counted in hours that this process lived, never by wall clocks, which may jump: a bookie that is down, or
that starts again, waits longer and never shorter. The counts live in the index of the ledgers that they count
(`load`, `dump`), written before those are deleted: a disk that goes back in time brings both back.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple, Self

from bookie.base import errors, units
from bookie.base.units import HOUR_MS, NS_PER_MS
from bookie.storage.collect_options import BrakeOptions

_HOUR_NS = HOUR_MS * NS_PER_MS
# 24 whole hours and the one that runs.
_HOURS = 25
_COUNT = struct.Struct(">QQ")


class Amount(NamedTuple):
    """A number of ledgers, and the bytes that they hold in entry logs."""

    ledgers: int = 0
    size_bytes: int = 0

    def plus(self, more: "Amount") -> "Amount":
        return Amount(self.ledgers + more.ledgers, self.size_bytes + more.size_bytes)


def total(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of all amounts."""
    found = Amount()
    for amount in amounts:
        found = found.plus(amount)
    return found


class Window:
    """The amounts collected in the last day, by hours, newest first."""

    def __init__(self, now_ns: int, hours: Iterable[Amount] = ()) -> None:
        self._hours = [*hours][:_HOURS]
        self._hours += [Amount()] * (_HOURS - len(self._hours))
        self._began_ns = now_ns

    def at(self, now_ns: int) -> Amount:
        """Return the sum of the day that ends now; first move the window on by the hours that have ended."""
        passed = (now_ns - self._began_ns) // _HOUR_NS
        assert passed >= 0, "a monotonic clock went back"
        self._hours = ([Amount()] * min(passed, _HOURS) + self._hours)[:_HOURS]
        self._began_ns += passed * _HOUR_NS
        return total(self._hours)

    def count(self, amount: Amount) -> None:
        """Count an amount that is being collected now (call `at` before)."""
        self._hours[0] = self._hours[0].plus(amount)

    def dump(self) -> bytes:
        """Pack for each hour, newest first: ledgers u64, bytes u64, big-endian."""
        return b"".join(_COUNT.pack(*hour) for hour in self._hours)

    @classmethod
    def load(cls, data: bytes | None, now_ns: int) -> Self:
        """Load what `dump` wrote; None: nothing was collected yet. The newest hour begins again now.
        Raises CorruptFile."""
        if data is None:
            return cls(now_ns)
        if len(data) != _HOURS * _COUNT.size:
            raise errors.CorruptFile(f"index: counts of collected ledgers of {len(data)} bytes")
        return cls(now_ns, (Amount(*pair) for pair in _COUNT.iter_unpack(data)))


class Ruling(NamedTuple):
    """The brake's answer. `reason` "": every ledger found may be collected. Otherwise none may."""

    reason: str
    allowed: Amount  # in this day, beside what was collected in it already


def rule(found: Amount, held: Amount, collected: Amount, options: BrakeOptions) -> Ruling:
    """Decide whether `found`, ledgers that the metadata store no longer has, may be collected
    without a person's consent.

    `held`: all that is here, `found` included; `collected`: in the day that ends now. A few ledgers (`ledgers_min`)
    pass a day whatever their share; for more than those the share counts in ledgers and in bytes.
    """
    day, share = held.plus(collected), options.share_max
    few = options.ledgers_min - collected.ledgers
    allowed = Amount(
        max(0, few, int(share * day.ledgers) - collected.ledgers),
        max(0, int(share * day.size_bytes) - collected.size_bytes),
    )
    if share < 1 and found.ledgers > few:
        for count, limit, unit in zip(found, allowed, ("ledgers", "bytes"), strict=True):
            if count > limit:
                return Ruling(_reason(found, f"{limit} {unit} more may", share), allowed)
    return Ruling("", allowed)


def _reason(found: Amount, limit: str, share: float) -> str:
    return (
        f"the metadata store no longer has {found.ledgers} ledgers ({units.format_bytes(found.size_bytes)}) that are "
        f"here, and {limit} go today (gcDailyShareMax={share:g}): all of them are kept. If nobody deleted so many, the "
        "store was emptied, swapped or set back: restore it. If somebody did: `bookie node release-garbage`"
    )
