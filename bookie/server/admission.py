"""Decides when to stop reading sockets: a budget of request bytes that were received and not yet answered.

A bookie that cannot keep up lets TCP slow its clients down. An early ETOOMANYREQUESTS would make the Java writer
replace this bookie (spec/wire.md#W45), so refusing is the storage engine's last resort, not ours.
"""

from bookie.base.units import MIB

# Twice what one group commit of a fast disk takes at the frame limit; more would only sit in memory.
IN_FLIGHT_BYTES_MAX = 64 * MIB
# What one request costs besides its body: records, closures, its answer.
REQUEST_OVERHEAD_BYTES = 512


class Admission:
    """Counts what is in flight over all connections. Full above the limit; has room again below half of it."""

    __slots__ = ("_limit_bytes", "_reopen_bytes", "in_flight_bytes", "is_full")

    def __init__(self, limit_bytes: int = IN_FLIGHT_BYTES_MAX) -> None:
        self._limit_bytes = limit_bytes
        self._reopen_bytes = limit_bytes // 2
        self.in_flight_bytes = 0
        self.is_full = False

    def take(self, body_bytes: int, count: int) -> None:
        """Count `count` accepted requests, whose bodies have `body_bytes` together."""
        self.in_flight_bytes += body_bytes + count * REQUEST_OVERHEAD_BYTES
        if self.in_flight_bytes > self._limit_bytes:
            self.is_full = True

    def give(self, body_bytes: int, count: int) -> bool:
        """Count the same requests as answered; return True exactly when reading may go on again."""
        self.in_flight_bytes -= body_bytes + count * REQUEST_OVERHEAD_BYTES
        assert self.in_flight_bytes >= 0, "answered more than was accepted"
        if self.is_full and self.in_flight_bytes <= self._reopen_bytes:
            self.is_full = False
            return True
        return False
