"""Keeps what a bookie collected in the last day in the index of each ledger directory: restarts do not reset it."""

import logging
from collections.abc import Sequence

from bookie.base import errors
from bookie.ports.clock import Clock
from bookie.storage.collect import brake
from bookie.storage.collect.brake import Amount, Window
from bookie.storage.partition import Partition

log = logging.getLogger(__name__)

_NAME = "collected"
# More than any bookie holds.
_USED_UP = Amount(1 << 40, 1 << 60)


class DailyCounts:
    """One window for each ledger directory. A window that cannot be read counts as full: nothing is collected for a
    day, and the node goes on.

    CRASH: the index has a count before it has the deletions, and what of it a crash leaves is a prefix of what was
    written: never deletions without their count. A count whose deletions a crash undid is counted again: less goes
    that day.
    """

    def __init__(self, partitions: Sequence[Partition], clock: Clock) -> None:
        self._clock = clock
        self._partitions = partitions
        now_ns = clock.monotonic_ns()
        self._saved = [partition.index.get_meta(_NAME) for partition in partitions]
        self._windows = [_load(saved, now_ns) for saved in self._saved]

    def total(self) -> Amount:
        """Return what was collected in the day that ends now."""
        now_ns = self._clock.monotonic_ns()
        return brake.total(window.at(now_ns) for window in self._windows)

    def count(self, number: int, amount: Amount) -> None:
        """Count `amount` as collected now in ledger directory `number`."""
        self._windows[number].at(self._clock.monotonic_ns())
        self._windows[number].count(amount)
        self._save(number)

    def keep_time(self) -> None:
        """Store which hours have passed, or a restarted bookie would hold for longer than a day. Durable with the next
        checkpoint that writes anything: a bookie that forgets an hour holds for longer, which is safe."""
        self.total()
        for partition in self._partitions:
            if partition.failure is None and self._saved[partition.number] is not None:
                self._save(partition.number)

    def _save(self, number: int) -> None:
        data = self._windows[number].dump()
        if data != self._saved[number]:
            self._partitions[number].index.put_meta(_NAME, data)
            self._saved[number] = data


def _load(saved: bytes | None, now_ns: int) -> Window:
    try:
        return Window.load(saved, now_ns)
    except errors.CorruptFile as error:
        log.warning("the counts of collected ledgers cannot be read: no ledger is collected for a day reason=%s", error)
        return Window(now_ns, [_USED_UP])
