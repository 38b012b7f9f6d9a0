"""Decides whether looks into an index wait for its disk, by what they took.

RocksDB keeps the interpreter's lock while it looks for one key. From memory a look takes 2 to 12 µs, from the system's
page cache too; from a flash disk a hundred, and all that a bookie does waits for it.
"""

# Above it a look costs more than a hop to a thread and back, and the look after it (docs/SPEED.md).
SLOW_NS = 40_000
# What a look is taken for at most: the system may have given the core to others meanwhile.
LOOK_NS_MAX = 5 * SLOW_NS
# Of looks one in so many is timed: two looks at the clock cost a twentieth of one that finds its row in memory.
TIMED_ONE_IN = 4
# While threads prepare them one in so many is made without, and timed, to see whether looks are fast again.
TRIED_ONE_IN = 64
_WEIGHT = 1 / 16


class LookPace:
    """The mean time of looks that no thread has prepared, the latest with the most weight. Pure: it reads no clock."""

    def __init__(self) -> None:
        self.is_slow = False
        self.is_timed = True  # the next look: one that no thread has prepared
        self._mean_ns = 0.0
        self._asked = 0

    def must_wait(self) -> bool:
        """Return True when a thread must prepare the next look."""
        self._asked += 1
        self.is_timed = self._asked % (TRIED_ONE_IN if self.is_slow else TIMED_ONE_IN) == 0
        return self.is_slow and not self.is_timed

    def took(self, elapsed_ns: int, count: int) -> None:
        """Count a look for `count` keys together; only where `is_timed`."""
        if count:
            self._mean_ns += (min(elapsed_ns // count, LOOK_NS_MAX) - self._mean_ns) * _WEIGHT
            self.is_slow = self._mean_ns > SLOW_NS
            self.is_timed = not self.is_slow
