"""Volatile per-ledger state: who waits for a ledger's LAC to move (long poll, wire-protocol.md 7.6).

A wait ends when the LAC passes the one the client knows, when the ledger is fenced, at its time-out, or with its
connection. A time-out is no error: the answer says where the LAC stands.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from bookie.base.ids import EntryId, LedgerId
from bookie.wire.messages import ReadRequest

# (request, was woken by a LAC that moved)
OnEnd = Callable[[ReadRequest, bool], None]
WatchLac = Callable[[LedgerId, Callable[[EntryId], None]], Callable[[], None]]

# A bound on clients' patience, so that a forgotten poll does not stay for ever.
WAIT_MS_MAX = 3_600_000
POLLS_MAX = 100_000


class _Poll:
    __slots__ = ("on_end", "owner", "request", "timer", "unwatch")

    def __init__(self, request: ReadRequest, owner: object, on_end: OnEnd) -> None:
        self.request = request
        self.owner = owner
        self.on_end = on_end
        self.timer: asyncio.TimerHandle | None = None
        self.unwatch: Callable[[], None] | None = None


class LongPolls:
    """All waiting long polls of one bookie. Callbacks only; it owns no task."""

    def __init__(self, watch_lac: WatchLac) -> None:
        self._watch_lac = watch_lac
        self._waiting: dict[LedgerId, dict[_Poll, None]] = {}
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count >= POLLS_MAX

    def wait(self, request: ReadRequest, owner: object, on_end: OnEnd) -> None:
        """Call `on_end` once, when the wait is over; never if `forget(owner)` comes first.

        Whether the LAC has moved already is the caller's to check, in the same turn of the loop.
        """
        assert request.timeout_ms is not None
        poll = _Poll(request, owner, on_end)
        self._waiting.setdefault(request.ledger_id, {})[poll] = None
        self.count += 1
        delay_s = max(0, min(request.timeout_ms, WAIT_MS_MAX)) / 1000
        poll.timer = asyncio.get_running_loop().call_later(delay_s, self._end, poll, False)
        poll.unwatch = self._watch_lac(request.ledger_id, partial(self._on_lac, poll))

    def wake(self, ledger_id: LedgerId) -> None:
        """End all waits for one ledger: it was fenced."""
        for poll in list(self._waiting.get(ledger_id, ())):
            self._end(poll, False)

    def forget(self, owner: object) -> None:
        """Drop the waits of a connection that is gone."""
        for polls in list(self._waiting.values()):
            for poll in [poll for poll in polls if poll.owner is owner]:
                self._remove(poll)

    def _on_lac(self, poll: _Poll, lac: EntryId) -> None:
        assert poll.request.previous_lac is not None
        if lac > poll.request.previous_lac:
            self._end(poll, True)

    def _end(self, poll: _Poll, is_lac_update: bool) -> None:
        if self._remove(poll):
            poll.on_end(poll.request, is_lac_update)

    def _remove(self, poll: _Poll) -> bool:
        polls = self._waiting.get(poll.request.ledger_id)
        if polls is None or poll not in polls:
            return False
        del polls[poll]
        if not polls:
            del self._waiting[poll.request.ledger_id]
        self.count -= 1
        if poll.timer is not None:
            poll.timer.cancel()
        if poll.unwatch is not None:
            poll.unwatch()
        return True
