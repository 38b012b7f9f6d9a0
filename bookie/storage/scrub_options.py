"""ScrubOptions: how often and how fast entries are checked in the background."""

from dataclasses import dataclass

from bookie.base import errors
from bookie.base.units import HOUR_MS, MIB


@dataclass(frozen=True, slots=True)
class ScrubOptions:
    """Java's localScrubInterval and localScrubRateLimit; in Java the scrub is off by default.

    Once a week finds rot while other bookies still have copies; 8 MiB/s are 4.6 TiB in that week, and a small part of
    what the slowest disk gives.
    """

    interval_ms: int = 7 * 24 * HOUR_MS  # between two passes; 0: only when somebody asks
    entries_per_s: int | None = None
    bytes_per_s: int | None = 8 * MIB

    def __post_init__(self) -> None:
        for name, value, least in (
            ("localScrubInterval", self.interval_ms, 0),
            ("localScrubRateLimit", self.entries_per_s, 1),
            ("the scrub's bytes_per_s", self.bytes_per_s, 1),
        ):
            if value is not None and value < least:
                raise errors.BadInput(f"scrub options: {name} is {value}, at least {least}")
