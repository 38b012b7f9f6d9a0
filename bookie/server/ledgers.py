"""Long polls: the clients that wait for a ledger's LAC to advance (spec/wire.md#W34). Nothing here is durable.

A wait ends when the LAC passes the one the client knows, when the ledger is fenced, at its time-out, or with its
connection. A time-out is no error: the answer says where the LAC stands.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bookie.base.ids import EntryId, LedgerId
from bookie.wire.messages import ReadRequest

# (request, was woken by a LAC that moved)
OnEnd = Callable[[ReadRequest, bool], None]
WatchLac = Callable[[LedgerId, Callable[[EntryId], None]], Callable[[], None]]

# A bound on clients' patience, so that a forgotten poll does not stay for ever.
WAIT_MS_MAX = 3_600_000
# Some hundred bytes each. A poll beyond a bound is answered at once, as one whose time is over: its client asks again.
POLLS_MAX = 50_000
POLLS_OF_ONE_MAX = 10_000


@dataclass(slots=True, eq=False)
class _Poll:
    """One waiting client."""

    request: ReadRequest
    previous_lac: int
    owner: object
    on_end: OnEnd
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class _Waits:
    """The polls of one ledger, and the function that ends their one watch at the store."""

    unwatch: Callable[[], None]
    polls: dict[_Poll, None] = field(default_factory=dict)


class LongPolls:
    """All waiting long polls of one bookie. Uses callbacks only and owns no task. `on_end` must not raise."""

    def __init__(self, watch_lac: WatchLac) -> None:
        self._watch_lac = watch_lac
        self._waiting: dict[LedgerId, _Waits] = {}
        self._of_owner: dict[object, dict[_Poll, None]] = {}
        self.count = 0

    def has_room(self, owner: object) -> bool:
        return self.count < POLLS_MAX and len(self._of_owner.get(owner, ())) < POLLS_OF_ONE_MAX

    def wait(self, request: ReadRequest, owner: object, on_end: OnEnd) -> None:
        """Call `on_end` once, when the wait is over; never if `forget(owner)` comes first.

        Whether the LAC has moved already is the caller's to check, in the same turn of the loop.
        """
        assert request.timeout_ms is not None
        assert request.previous_lac is not None
        ledger_id = request.ledger_id
        waits = self._waiting.get(ledger_id)
        if waits is None:
            waits = self._waiting[ledger_id] = _Waits(self._watch_lac(ledger_id, partial(self._on_lac, ledger_id)))
        poll = _Poll(request, request.previous_lac, owner, on_end)
        waits.polls[poll] = None
        self._of_owner.setdefault(owner, {})[poll] = None
        self.count += 1
        delay_s = max(0, min(request.timeout_ms, WAIT_MS_MAX)) / 1000
        poll.timer = asyncio.get_running_loop().call_later(delay_s, self._end, poll, False)

    def wake(self, ledger_id: LedgerId) -> None:
        """End all waits for one ledger, because it was fenced."""
        waits = self._waiting.get(ledger_id)
        for poll in () if waits is None else list(waits.polls):
            self._end(poll, False)

    def forget(self, owner: object) -> None:
        """Drop the waits of a closed connection."""
        for poll in list(self._of_owner.get(owner, ())):
            self._remove(poll)

    def _on_lac(self, ledger_id: LedgerId, lac: EntryId) -> None:
        waits = self._waiting.get(ledger_id)
        for poll in () if waits is None else [poll for poll in waits.polls if lac > poll.previous_lac]:
            self._end(poll, True)

    def _end(self, poll: _Poll, is_lac_update: bool) -> None:
        if self._remove(poll):
            poll.on_end(poll.request, is_lac_update)

    def _remove(self, poll: _Poll) -> bool:
        waits = self._waiting.get(poll.request.ledger_id)
        if waits is None or poll not in waits.polls:
            return False
        del waits.polls[poll]
        if not waits.polls:
            del self._waiting[poll.request.ledger_id]
            waits.unwatch()
        mine = self._of_owner[poll.owner]
        del mine[poll]
        if not mine:
            del self._of_owner[poll.owner]
        self.count -= 1
        if poll.timer is not None:
            poll.timer.cancel()
        return True
