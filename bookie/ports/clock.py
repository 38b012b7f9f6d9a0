"""Time. No other source of time exists in product code."""

from typing import Protocol


class Clock(Protocol):
    """Monotonic time never goes back. Wall time may jump, and nodes disagree about it."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an arbitrary start; comparable within one process only."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch: for people and for `lacUpdateTimestamp`, never for a decision."""
        ...

    async def sleep_until(self, deadline_ns: int) -> None:
        """Suspend until `monotonic_ns() >= deadline_ns`; returns at once if it has passed."""
        ...
