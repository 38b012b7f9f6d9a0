"""Counts and logs the errors that boundaries of this node caught; an error in our own state stops the node as well."""

import logging
from collections.abc import Callable, Iterator
from types import TracebackType

from bookie.base import text
from bookie.base.line_limit import LineLimit
from bookie.ports.clock import Clock
from bookie.ports.metrics import Sample

log = logging.getLogger(__name__)

# An assert of these packages is about what this node keeps, not about what was asked.
_OWN_STATE = ("bookie.storage", "bookie.integrity")


class NodeDoors:
    """Implements `ports.doors.Doors`. `fail` stops the node in order."""

    def __init__(self, clock: Clock, fail: Callable[[BaseException], None]) -> None:
        self._clock = clock
        self._fail = fail
        self._lines = LineLimit()
        self._failed: dict[str, int] = {}
        self._refused: dict[str, int] = {}

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        """See ports.doors. Stops the node when an invariant of our own state is broken:
        it must not go on from there."""
        self._failed[door] = self._failed.get(door, 0) + 1
        kept_back = self._lines.take(f"{door} {type(error).__name__}", self._clock.monotonic_ns())
        if kept_back is not None:
            log.error("error of ours door=%s peer=%s more_before=%d", door, peer, kept_back, exc_info=error)
        if is_of_our_state(error):
            self._fail(error)

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        """See ports.doors."""
        self._refused[door] = self._refused.get(door, 0) + 1
        kept_back = self._lines.take(door, self._clock.monotonic_ns())
        if kept_back is not None:
            reason = text.one_line(reason)
            log.warning("refused door=%s peer=%s reason=%s more_before=%d", door, peer, reason, kept_back)

    def tell_rest(self) -> None:
        """Log how many lines were suppressed in floods that are over; call it now and then."""
        for kind, count in self._lines.due(self._clock.monotonic_ns()).items():
            log.warning("lines kept back door=%s count=%d", kind, count)

    def samples(self) -> Iterator[Sample]:
        for name, counts, what in (
            ("errors", self._failed, "Errors of ours, stopped at a door."),
            ("refusals", self._refused, "Turned away, by door."),
        ):
            for door, count in counts.items():
                yield Sample(f"bookie_door_{name}_total", "counter", what, count, (("door", door),))


def is_of_our_state(error: BaseException, *, anywhere: bool = False) -> bool:
    """Return True for a failed assert of the storage engine or of integrity:
    an assumption about our own data is broken.

    `anywhere`: for what reached the loop, where any error that passed through them counts: their work was cut off.
    """
    passed = list(_modules_of(error.__traceback__))
    if anywhere:
        return any(name.startswith(_OWN_STATE) for name in passed)
    return isinstance(error, AssertionError) and bool(passed) and passed[-1].startswith(_OWN_STATE)


def _modules_of(trace: TracebackType | None) -> Iterator[str]:
    """Yield the modules that an error passed through, down to the one that raised it."""
    while trace is not None:
        yield str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
