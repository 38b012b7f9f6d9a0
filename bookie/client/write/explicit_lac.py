"""Tells bookies the LAC when no later entry does: the explicit LAC.

Rules: spec/wire.md#W65; CONFORMANCE.md#A3, A5. A writer that pauses or is stuck tells it by itself, best effort. When
the application asks (`tell`), success means that an ack quorum has it on disk.
"""

import asyncio
import logging

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, EntryId, LedgerId
from bookie.client.shared import Shared
from bookie.client.write.appender import Appender
from bookie.wire import v3
from bookie.wire.digest import Digest
from bookie.wire.messages import Response, WriteLacRequest

log = logging.getLogger(__name__)


class ExplicitLac:
    """Tells the LAC of one writer. Ticks every `explicit_lac_ms` while there is a LAC that bookies do not know."""

    def __init__(self, shared: Shared, ledger_id: LedgerId, digest: Digest, appender: Appender) -> None:
        self._shared = shared
        self._ledger_id = ledger_id
        self._digest = digest
        self._appender = appender
        self._interval_s = shared.options.explicit_lac_ms / 1000
        self._timer: asyncio.TimerHandle | None = None
        self._told = INVALID_ENTRY_ID
        self._at_last_tick = INVALID_ENTRY_ID

    def moved(self) -> None:
        """Note that the LAC moved."""
        if self._timer is None and self._interval_s:
            self._timer = self._shared.pool.loop.call_later(self._interval_s, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        """Tell the LAC if no entry on its way carries it, or if the entries on their way do not get confirmed."""
        self._timer = None
        appender, lac = self._appender, self._appender.lac
        if appender.error is not None or lac <= self._told:
            return
        if not appender.adds or lac == self._at_last_tick:
            self._send(lac, None)
        self._at_last_tick = lac
        self.moved()

    def tell(self) -> "asyncio.Future[None]":
        """Tell the LAC now. The future resolves when an ack quorum of the last entry's bookies has it on disk; else it
        raises QuorumNotReached."""
        told = _Told(self._shared.pool.loop.create_future(), self._appender.adds.schedule.ack_quorum)
        self._send(self._appender.lac, told)
        return told.done

    def _send(self, lac: EntryId, told: "_Told | None") -> None:
        self._told = lac
        body = self._digest.seal_lac(self._ledger_id, lac)
        bookies = self._appender.live_bookies(lac) if lac >= 0 else []
        if told is not None:
            told.expect(len(bookies))
        for bookie_id in bookies:
            request = WriteLacRequest(0, v3.VERSION, self._ledger_id, lac, self._digest.master_key, body)
            self._shared.pool.send(bookie_id, request, _on_answer, told)


class _Told:
    """Counts the answers to one explicit LAC that the application waits for."""

    def __init__(self, done: "asyncio.Future[None]", ack_quorum: int) -> None:
        self.done = done
        self._missing = ack_quorum
        self._outstanding = 0

    def expect(self, answers: int) -> None:
        self._outstanding = answers
        self._judge(None)

    def answer(self, error: BookieError | None) -> None:
        self._outstanding -= 1
        self._missing -= error is None
        self._judge(error)

    def _judge(self, error: BookieError | None) -> None:
        if self.done.done():
            return
        if self._missing <= 0:
            self.done.set_result(None)
        elif self._outstanding < self._missing:
            cause = f": {error}" if error is not None else ""
            self.done.set_exception(
                errors.QuorumNotReached(
                    "the entry is confirmed and will be in the ledger after any recovery, but too few bookies could "
                    f"be told so: readers that do not recover may not see it before the next entry{cause}"
                )
            )


def _on_answer(told: _Told | None, response: Response | None, error: BookieError | None) -> None:
    if told is not None:
        told.answer(error)
    elif error is not None:
        log.debug("explicit LAC was not taken reason=%s", error)
