"""One connection to one bookie: requests out in one write per turn, answers back to whoever asked.

Answers are matched by (transaction id, operation) and may come in any order (wire 9.1, 9.2). Deadlines cost nothing
per request: one timer per connection ticks while something is outstanding, and a request knows the tick at which it is
too late. A connection that breaks fails everything outstanding with BookieUnavailable; it never retries by itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from bookie.base import errors
from bookie.base.errors import BookieError, Status
from bookie.base.ids import BookieId
from bookie.base.units import div_ceil
from bookie.client import acks
from bookie.ports.network import ByteStream
from bookie.wire import messages, v3
from bookie.wire.framing import FrameSplitter
from bookie.wire.messages import Buffer, ErrorResponse, Request, Response

# A request that times out does so up to one tick late.
TICK_MS = 250

_NEVER = 1 << 62


class Ack(messages.AddResponse):
    """Expected in place of AddResponse by who needs no response record: the appender, three times per entry."""

    __slots__ = ()


# Called once per request, on the loop, never from within `send`. The response is given with an error status too; a
# request that expects Ack is answered (context, None, None) when it is done.
OnAnswer = Callable[[Any, Response | None, BookieError | None], None]

RESPONSE_OF: dict[type[Request], type[Response]] = {
    messages.AddRequest: messages.AddResponse,
    messages.ReadRequest: messages.ReadResponse,
    messages.WriteLacRequest: messages.WriteLacResponse,
    messages.ReadLacRequest: messages.ReadLacResponse,
    messages.ForceRequest: messages.ForceResponse,
    messages.ListEntriesRequest: messages.ListEntriesResponse,
    messages.BookieInfoRequest: messages.BookieInfoResponse,
}


class Connection:
    """Owns one ByteStream. `run` is its task; everything else is synchronous."""

    __slots__ = (
        "_bookie_id",
        "_closed",
        "_flush_scheduled",
        "_frames",
        "_loop",
        "_outgoing",
        "_outstanding",
        "_soonest",
        "_stream",
        "_tick",
        "_timer",
        "answered",
    )

    def __init__(self, bookie_id: BookieId, stream: ByteStream, frame_limit_bytes: int) -> None:
        self._bookie_id = bookie_id
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._frames = FrameSplitter(frame_limit_bytes)
        self._outgoing: list[Buffer] = []
        self._flush_scheduled = False
        self._outstanding: dict[int, tuple[type[Response], OnAnswer, Any, int]] = {}
        self._tick = 0
        self._soonest = _NEVER  # no request expires before this tick
        self._timer: asyncio.TimerHandle | None = None
        self._closed: BookieError | None = None
        self.answered = False  # at least one answer came: the other side is a bookie and lives

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def send(
        self,
        txn: int,
        frame: Sequence[Buffer],
        expected: type[Response],
        on_answer: OnAnswer,
        context: Any,
        timeout_ms: int,
    ) -> None:
        """Queue one request's frame. `txn` must not be outstanding here; `frame` must not change any more."""
        if self._closed is not None:
            self._loop.call_soon(on_answer, context, None, self._closed)
            return
        # One tick more: the current one may be about to end.
        expires = self._tick + div_ceil(timeout_ms, TICK_MS) + 1
        self._outstanding[txn] = (expected, on_answer, context, expires)
        if expires < self._soonest:
            self._soonest = expires
        self._outgoing += frame
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)
            if self._timer is None:
                self._timer = self._loop.call_later(TICK_MS / 1000, self._on_tick)

    async def run(self) -> None:
        """Deliver answers until the connection ends, for whatever reason; then fail what is outstanding."""
        reason: BookieError = errors.BookieUnavailable(f"the connection to bookie {self._bookie_id} was closed here")
        try:
            while chunk := await self._stream.read():
                for frame in self._frames.feed(chunk):
                    txn = acks.plain_ack_txn(frame)
                    if txn == acks.NOT_PLAIN or not self._deliver_ack(txn):
                        self._deliver(v3.unpack_response(frame))
            reason = errors.BookieUnavailable(f"bookie {self._bookie_id} closed the connection")
        except errors.BookieUnavailable as error:
            reason = error
        except errors.BadInput as error:
            reason = errors.BookieUnavailable(f"bookie {self._bookie_id} sent what is no answer: {error}")
        finally:
            self.close(reason)

    def close(self, reason: BookieError) -> None:
        """Close the stream and fail everything outstanding with `reason`. Idempotent."""
        if self._closed is not None:
            return
        self._closed = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._outgoing.clear()
        self._stream.close()
        outstanding, self._outstanding = self._outstanding, {}
        for _, on_answer, context, _ in outstanding.values():
            on_answer(context, None, reason)

    def _flush(self) -> None:
        self._flush_scheduled = False
        outgoing, self._outgoing = self._outgoing, []
        if outgoing and self._closed is None:
            self._stream.write(outgoing)

    def _deliver_ack(self, txn: int) -> bool:
        """True when the request wanted to know only that its add is done."""
        waiting = self._outstanding.get(txn)
        if waiting is None or waiting[0] is not Ack:
            return False
        del self._outstanding[txn]
        self.answered = True
        waiting[1](waiting[2], None, None)
        return True

    def _deliver(self, response: Response) -> None:
        waiting = self._outstanding.get(response.txn)
        if waiting is None:
            return  # the deadline passed before the answer came
        expected = messages.AddResponse if waiting[0] is Ack else waiting[0]
        if type(response) is not expected and not isinstance(response, ErrorResponse):
            return  # it answers another operation (wire 9.2)
        del self._outstanding[response.txn]
        self.answered = True
        if response.status is Status.EOK:
            waiting[1](waiting[2], response, None)
        else:
            error = errors.BY_STATUS[response.status](f"bookie {self._bookie_id} answered {response.status.name}")
            waiting[1](waiting[2], response, error)

    def _on_tick(self) -> None:
        self._timer = None
        self._tick += 1
        if self._soonest <= self._tick:
            self._expire()
        if self._outstanding and self._closed is None and self._timer is None:
            self._timer = self._loop.call_later(TICK_MS / 1000, self._on_tick)

    def _expire(self) -> None:
        late = [txn for txn, waiting in self._outstanding.items() if waiting[3] <= self._tick]
        for txn in late:
            waiting = self._outstanding.pop(txn, None)
            if waiting is not None:
                waiting[1](waiting[2], None, errors.RequestTimedOut(f"bookie {self._bookie_id} did not answer in time"))
        self._soonest = min((waiting[3] for waiting in self._outstanding.values()), default=_NEVER)
