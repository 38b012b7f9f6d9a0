"""Counts what a fill in place finds and copies; the admin service shows it. An entry counts once it is durable."""

from bookie.base.errors import BookieError
from bookie.base.ids import BootEpoch, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.ports.admin import BlockedLedger, FillStatus
from bookie.ports.clock import Clock

FILL_BLOCKED_SHOWN_MAX = 20  # admin.proto, FillStatus.blocked
_MISSING_MAX = 2**63 - 1  # an int64 there; what records claim to be missing may add up to more


class FillProgress:
    """The fills of one life, one after the other. Written by the fill, read by anybody. `entries_pending`: of the
    ledger that is being copied, for the copier."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ns = -1
        self._ended_ns = -1
        self._boot_epoch = BootEpoch(0)
        self._total = 0
        self._done = 0
        self._missing: dict[LedgerId, int] = {}
        self._left: dict[LedgerId, int] = {}  # of the ledgers looked at since the last flush
        self._fetched_entries = self._fetched_bytes = 0  # and not durable yet
        self._entries = self._bytes = 0
        self._reason = "no fill has begun since this bookie started"
        self._blocked: dict[LedgerId, str] = {}
        self._blocked_before: dict[LedgerId, None] = {}  # in the last run, and not looked at since
        self.entries_pending = 0
        self.is_running = False
        self._is_waiting = False
        self.is_whole = False  # the last fill that ended found nothing missing that is missing still

    def begin(self, boot_epoch: BootEpoch) -> None:
        """A run begins. `is_whole` stays what the last one found until this one ends."""
        assert not self.is_running
        self.is_running, self._is_waiting = True, False
        self._began_ns, self._ended_ns = self._clock.monotonic_ns(), -1
        self._boot_epoch = boot_epoch
        self._total = self._done = self._entries = self._bytes = 0
        self._fetched_entries = self._fetched_bytes = 0
        self._missing, self._left = {}, {}
        self._blocked_before = dict.fromkeys(self._blocked)
        self._reason = ""

    def end(self, error: BookieError | None = None) -> None:
        """The run is over: every ledger was looked at, or `error` ended it."""
        assert self.is_running
        self.is_running = False
        self._ended_ns = self._clock.monotonic_ns()
        if error is None:
            for ledger_id in self._blocked_before:  # deleted, or no longer ours
                del self._blocked[ledger_id]
        self._blocked_before = {}
        self.is_whole = error is None and not self._blocked and not self.entries_missing
        if error is not None:
            self._reason = f"the run ended before its end: {error}; start it again"
        elif self._blocked:
            self._reason = f"{len(self._blocked)} ledgers are blocked"

    def waits(self, reason: str) -> None:
        """Note that a run was asked for, and say why it has not begun."""
        self._is_waiting = True
        self._reason = reason

    def waits_no_more(self, error: BookieError) -> None:
        """Note that `error` ended the run that was asked for, if it did so before the run began."""
        if self._is_waiting:
            self._is_waiting = False
            self._reason = f"the run ended before it began: {error}; start it again"

    def named(self, count: int) -> None:
        """Count ledgers that name this bookie."""
        self._total += count

    def looked(self) -> None:
        """Count one ledger that was looked at."""
        self._done += 1

    def block(self, ledger_id: LedgerId, reason: str) -> bool:
        """A look could not fill a ledger. What was blocked stays listed until the next run has looked at it. Return
        False when the same was told before."""
        self._blocked_before.pop(ledger_id, None)
        before = self._blocked.get(ledger_id)
        self._blocked[ledger_id] = reason
        return before != reason

    def unblock(self, ledger_id: LedgerId) -> None:
        """A look left nothing of a ledger missing."""
        self._blocked_before.pop(ledger_id, None)
        self._blocked.pop(ledger_id, None)

    def found(self, ledger_id: LedgerId, missing: int) -> None:
        """A look found so many entries of a ledger missing; 0: none. What an earlier look found no longer counts."""
        self._left.pop(ledger_id, None)
        if missing:
            self._missing[ledger_id] = missing
        else:
            self._missing.pop(ledger_id, None)

    def left(self, ledger_id: LedgerId, missing: int) -> None:
        """So many are missing after the copies: true once those are durable."""
        self._left[ledger_id] = missing

    def copied(self, size: int) -> None:
        """Note one entry of `size` bytes that was fetched, verified and stored. It counts after `durable`."""
        self._fetched_entries += 1
        self._fetched_bytes += size

    @property
    def fetched(self) -> tuple[int, int]:
        """Return the entries and bytes that are stored here, and not durable yet."""
        return self._fetched_entries, self._fetched_bytes

    def durable(self) -> None:
        """Count what was fetched: a flush that began after it has ended (spec/bp46.md#R25)."""
        self._entries += self._fetched_entries
        self._bytes += self._fetched_bytes
        self._fetched_entries = self._fetched_bytes = 0
        left, self._left = self._left, {}
        for ledger_id, missing in left.items():
            self.found(ledger_id, missing)

    @property
    def entries_missing(self) -> int:
        """Return how many entries are known to be missing, or are here and not durable yet."""
        return min(sum(self._missing.values()), _MISSING_MAX)

    def snapshot(self) -> FillStatus:
        now_ns = self._clock.monotonic_ns()
        blocked = [BlockedLedger(ledger_id, reason) for ledger_id, reason in sorted(self._blocked.items())]
        return FillStatus(
            is_running=self.is_running,
            is_waiting=self._is_waiting,
            began_ms_ago=_ago_ms(now_ns, self._began_ns),
            ended_ms_ago=_ago_ms(now_ns, self._ended_ns),
            boot_epoch=self._boot_epoch,
            ledgers_total=self._total,
            ledgers_done=self._done,
            entries_missing=self.entries_missing,
            entries_copied=self._entries,
            bytes_copied=self._bytes,
            blocked=tuple(blocked[:FILL_BLOCKED_SHOWN_MAX]),
            blocked_count=len(blocked),
            is_whole=self.is_whole,
            reason=self._reason,
        )


def _ago_ms(now_ns: int, then_ns: int) -> int:
    return -1 if then_ns < 0 else (now_ns - then_ns) // NS_PER_MS
