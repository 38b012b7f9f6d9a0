"""Counts the progress of the repair: the phases advance the counters, the admin service shows them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from bookie.base.ids import Incarnation, LedgerId
from bookie.base.rate import Rate
from bookie.base.units import NS_PER_MS
from bookie.ports.admin import BlockedLedger, RepairStatus, State
from bookie.ports.clock import Clock
from bookie.ports.time_limit import TimeLimit

BLOCKED_SHOWN_MAX = 100  # admin.proto, RepairStatus.blocked
_PENDING_MAX = 2**63 - 1  # an int64 there; what records claim to be missing may add up to more


class BootProgress:
    """Written by one boot and its repair; read by anybody. Plain attributes, no rule."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ns = clock.monotonic_ns()
        self._phase_one_began_ns = 0  # while it runs
        self._ended_ns = 0
        self._rate = Rate()
        self._changed = asyncio.Event()
        self._done = asyncio.Event()
        self.phase = ""
        self.phase_one_ms = 0
        self.incarnation = Incarnation(0)
        self.scanned = 0
        self.total = 0
        self.member = 0
        self.fenced = 0
        self.limbo = 0
        self.pending = 0
        self.done_count = 0
        self.entries_copied = 0
        self.bytes_copied = 0
        self.entries_pending = -1
        self.blocked: dict[LedgerId, str] = {}
        self.is_done = False

    def enter(self, phase: str) -> None:
        """Enter a phase: "one", "cookie", "examining", "two" or "done"."""
        if phase == "one":
            self._phase_one_began_ns = self._clock.monotonic_ns()
        if phase in ("one", "examining"):
            self.scanned = self.total = self.member = self.fenced = self.limbo = 0
        self.phase = phase
        self.is_done = phase == "done"
        self._done.clear()
        if self.is_done:
            self._done.set()
            self.limbo = self.pending = 0
            self.entries_pending = 0
            self._ended_ns = self._clock.monotonic_ns()
        self.notify()

    @property
    def is_counted(self) -> bool:
        """Return False until all ledgers were looked at: `limbo` and `pending` are no number before that."""
        return self.phase in ("cookie", "two", "done")

    def end_phase_one(self) -> None:
        """Note that the marks are durable."""
        self.phase_one_ms = self._phase_one_so_far_ms()
        self._phase_one_began_ns = 0
        self.pending = self.limbo
        self.notify()

    def copied(self, size: int) -> None:
        """Count one entry of `size` bytes that was fetched, verified and stored."""
        self._rate.add(size, self._clock.monotonic_ns())
        self.entries_copied += 1
        self.bytes_copied += size

    def notify(self) -> None:
        """Wake the watchers to look at once."""
        self._changed.set()

    def snapshot(self, state: State) -> RepairStatus:
        now_ns = self._clock.monotonic_ns()
        phase_one_ms = self._phase_one_so_far_ms() if self._phase_one_began_ns else self.phase_one_ms
        blocked = [BlockedLedger(ledger_id, reason) for ledger_id, reason in sorted(self.blocked.items())]
        return RepairStatus(
            state=state,
            phase=self.phase,
            phase_one_ms=phase_one_ms,
            ledgers_scanned=self.scanned,
            ledgers_total=self.total,
            ledgers_member=self.member,
            ledgers_fenced=self.fenced,
            ledgers_limbo=self.limbo,
            ledgers_pending=self.pending,
            ledgers_done=self.done_count,
            entries_copied=self.entries_copied,
            bytes_copied=self.bytes_copied,
            entries_pending=min(self.entries_pending, _PENDING_MAX),
            bytes_per_second=0.0 if self.is_done else self._rate.per_second(now_ns),
            blocked=tuple(blocked[:BLOCKED_SHOWN_MAX]),
            done=self.is_done,
            incarnation=self.incarnation,
            elapsed_ms=((self._ended_ns or now_ns) - self._began_ns) // NS_PER_MS,
        )

    async def watch(self, state: Callable[[], State], interval_ms: int) -> AsyncIterator[RepairStatus]:
        """Yield a snapshot now, at each change, and at least every `interval_ms`, until the repair is done."""
        while True:
            self._changed.clear()
            status = self.snapshot(state())
            yield status
            if status.done:
                return
            with contextlib.suppress(TimeoutError):
                async with TimeLimit(interval_ms / 1000):
                    await self._changed.wait()

    async def until_done(self) -> None:
        """Return once nothing is left to repair."""
        await self._done.wait()

    def _phase_one_so_far_ms(self) -> int:
        return (self._clock.monotonic_ns() - self._phase_one_began_ns) // NS_PER_MS
