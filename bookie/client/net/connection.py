"""One connection to one bookie, in one encoding: sends requests in one write per turn, and matches the answers.

Answers may come in any order (spec/wire.md#W42, W43). v3 matches them by transaction id. v2 has none, so the answers to
two questions about one entry look alike: the second question waits until the first is answered, and a question that
timed out keeps its place until its answer comes. Else a late answer to a plain read could pass for proof of fencing.

Adds, three per entry written, take a shorter path: see `add_frames`. Deadlines cost nothing per request: one timer per
connection ticks while requests wait for answers. A connection that breaks fails all of them with BookieUnavailable; it
never retries by itself.
"""

import asyncio
from collections import deque
from itertools import islice
from typing import Any

from bookie.base import errors
from bookie.base.errors import BookieError, Status
from bookie.base.ids import BookieId, EntryId
from bookie.base.units import KIB, div_ceil
from bookie.client.net import add_frames
from bookie.client.net.calls import AddBatch, AddOwner, Call, Key, key_of
from bookie.ports.network import ByteStream
from bookie.wire import v2, v3
from bookie.wire.framing import PREFIX_SIZE, FrameSplitter
from bookie.wire.messages import AddResponse, Buffer, ErrorResponse, Response

# A request that times out does so up to one tick late.
TICK_MS = 250
# No answer "done" to an add is longer.
ACK_SIZE_MAX = 64
# When a bookie owes more answers than this (v2, past their deadlines), the client closes the connection.
OWED_MAX = 1_000
# Frames are joined up to this size: one buffer is cheaper to write than many.
JOIN_BYTES_MAX = 256 * KIB

_NEVER = 1 << 62
# Of statuses that people meet and nobody can guess.
_MEANS = {Status.EUNKNOWNLEDGERSTATE: " (it may have lost entries of this ledger, so it denies none)"}


class Connection:
    """Owns one ByteStream. `run` is its task; everything else is synchronous."""

    __slots__ = (
        "_adds",
        "_behind",
        "_bookie_id",
        "_closed",
        "_deadlines",
        "_doubt",
        "_flush_scheduled",
        "_frames",
        "_loop",
        "_origin",
        "_outgoing",
        "_outstanding",
        "_owed",
        "_partial_bytes",
        "_soonest",
        "_stream",
        "_tick",
        "_timer",
        "_unpack",
        "answered",
        "version",
    )

    def __init__(
        self,
        bookie_id: BookieId,
        stream: ByteStream,
        frame_limit_bytes: int,
        *,
        version: int,
        origin: object = None,
        doubt: str = "",
    ) -> None:
        """`origin`: what the owners of adds get with every answer. `doubt`: what may be the matter (": …") when the
        bookie closes before it answered anything."""
        self.version = version
        self.answered = False  # at least one answer came: the other side is a bookie and lives
        self._bookie_id = bookie_id
        self._stream = stream
        self._origin = origin
        self._doubt = doubt
        self._loop = asyncio.get_running_loop()
        self._unpack = v3.unpack_response if version == v3.VERSION else v2.unpack_response
        self._frames = FrameSplitter(frame_limit_bytes)
        self._partial_bytes = 0  # of a frame that has not come whole yet
        self._outgoing: list[Buffer] = []
        self._flush_scheduled = False
        self._outstanding: dict[Key, Call] = {}
        self._behind: dict[Key, deque[Call]] = {}  # v2: calls that wait for the answer to the one before them
        self._owed = 0  # v2: calls that are over and still keep their place
        self._adds: dict[bytes, Any] = {}  # by the answer that says "done", in the order in which they were sent
        # Tick, owner and adds of each batch; the soonest first.
        self._deadlines: deque[tuple[int, AddOwner, dict[bytes, Any]]] = deque()
        self._tick = 0
        self._soonest = _NEVER  # no call expires before this tick
        self._timer: asyncio.TimerHandle | None = None
        self._closed: BookieError | None = None

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def ended_by(self) -> BookieError | None:
        """Why it is closed; None while it is open."""
        return self._closed

    # ---- out ---------------------------------------------------------------------------------------------------------

    def send(self, call: Call) -> None:
        """Send `call`, in the write at the end of this turn. Its key must be unique on v3."""
        if self._closed is not None:
            self._loop.call_soon(call.on_answer, call.context, None, self._closed)
            return
        call.expires = expires = self._expiry(call.timeout_ms)
        if expires < self._soonest:
            self._soonest = expires
        if self.version != v3.VERSION and call.key in self._outstanding:
            self._behind.setdefault(call.key, deque()).append(call)
        else:
            self._outstanding[call.key] = call
            self._outgoing += call.frame
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def send_adds(self, batch: AddBatch) -> None:
        """Send `batch` now, behind the requests that wait to be sent: it holds a whole turn's adds already."""
        if self._closed is not None:
            self._loop.call_soon(batch.owner.on_failed, self._origin, self._closed)
            return
        if self.version != v3.VERSION and not self._adds.keys().isdisjoint(batch.adds):
            self._supersede(batch)
        self._adds.update(batch.adds)
        self._deadlines.append((self._expiry(batch.timeout_ms), batch.owner, batch.adds))
        if batch.size <= JOIN_BYTES_MAX:
            self._outgoing.append(b"".join(batch.frames))
        else:
            self._outgoing += batch.frames
        self._flush()

    def forget_adds(self, owner: AddOwner) -> None:
        """Drop all answers to adds of `owner` that still come."""
        for done in [done for done, add in self._adds.items() if add.owner is owner]:
            del self._adds[done]
        self._deadlines = deque(due for due in self._deadlines if due[1] is not owner)

    def _supersede(self, batch: AddBatch) -> None:
        """Fail the first owner of an entry that `batch` sends again, a writer whose ledger this client recovers. On v2
        the answers to the two look alike, so the earlier owner gets none."""
        owners = {id(add.owner): add.owner for done in batch.adds if (add := self._adds.get(done)) is not None}
        for owner in owners.values():
            if owner is not batch.owner:
                self.forget_adds(owner)
                reason = errors.RequestTimedOut(
                    f"bookie {self._bookie_id}: a recovery of this client sends the same entry, so version 2 cannot"
                    " match the answer"
                )
                self._loop.call_soon(owner.on_failed, self._origin, reason)

    def _expiry(self, timeout_ms: int) -> int:
        if self._timer is None:
            self._timer = self._loop.call_later(TICK_MS / 1000, self._on_tick)
        # One tick more: the current one may be about to end.
        return self._tick + div_ceil(timeout_ms, TICK_MS) + 1

    def _flush(self) -> None:
        self._flush_scheduled = False
        outgoing, self._outgoing = self._outgoing, []
        if outgoing and self._closed is None:
            self._stream.write(outgoing)

    # ---- in ----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Deliver answers until the connection ends, for whatever reason; then fail all requests without an answer."""
        reason: BookieError = errors.ClientClosed("the client is closed")  # nothing else cancels this
        try:
            while chunk := await self._stream.read():
                self._receive(chunk)
            early = "" if self.answered else f" before it answered anything{self._doubt}"
            reason = errors.BookieUnavailable(f"bookie {self._bookie_id} closed the connection{early}")
        except errors.BookieUnavailable as error:
            # It is a reset, and no orderly end, where a bookie that does not take us has not read our request.
            early = "" if self.answered else self._doubt
            reason = errors.BookieUnavailable(f"{error}{early}") if early else error
        except errors.BadInput as error:
            reason = errors.BookieUnavailable(f"bookie {self._bookie_id} sent bytes that are no answer: {error}")
        finally:
            self.close(reason)

    def close(self, reason: BookieError) -> None:
        """Close the stream and fail all requests without an answer with `reason`. Idempotent."""
        if self._closed is not None:
            return
        self._closed = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._outgoing.clear()
        self._stream.close()
        calls = list(self._outstanding.values())
        for waiting in self._behind.values():
            calls += waiting
        owners = {id(owner): owner for _, owner, _ in self._deadlines}
        self._outstanding.clear()
        self._behind.clear()
        self._adds.clear()
        self._deadlines.clear()
        for call in calls:
            if not call.is_over:
                call.on_answer(call.context, None, reason)
        for owner in owners.values():
            owner.on_failed(self._origin, reason)

    def _receive(self, chunk: Buffer) -> None:
        acked: list[Any] = []
        adds = self._adds
        if adds and not self._partial_bytes:
            chunk = self._take_in_order(chunk, acked)
        received = self._partial_bytes + len(chunk)
        try:
            for frame in self._frames.feed(chunk) if chunk else ():
                size = len(frame)
                received -= PREFIX_SIZE + size
                add = adds.pop(bytes(frame), None) if size <= ACK_SIZE_MAX else None
                if add is None:
                    self._deliver(self._unpack(frame))
                else:
                    acked.append(add)
        finally:
            self._partial_bytes = received
            if acked:
                self._deliver_acks(acked)

    def _take_in_order(self, chunk: Buffer, acked: list[Any]) -> Buffer:
        """Move the oldest adds into `acked` if `chunk` begins with exactly their answers, in order, as most chunks do;
        return the rest of `chunk`. One comparison replaces a look at every frame."""
        adds = self._adds
        size = len(next(iter(adds)))
        prefix = size.to_bytes(PREFIX_SIZE, "big")
        oldest = list(islice(adds, len(chunk) // (PREFIX_SIZE + size)))
        expected = prefix + prefix.join(oldest)  # as long as each other, or they will not match
        data = chunk if type(chunk) is bytes else bytes(chunk)
        if not oldest or not data.startswith(expected):
            return chunk
        acked += map(adds.pop, oldest)
        return memoryview(data)[len(expected) :]

    def _deliver_acks(self, acked: list[Any]) -> None:
        """Tell each owner of its adds, a run of one owner at a time."""
        self.answered = True
        start = 0
        while start < len(acked):
            owner = acked[start].owner
            end = start + 1
            while end < len(acked) and acked[end].owner is owner:
                end += 1
            owner.on_acks(self._origin, acked[start:end])
            start = end

    def _deliver(self, response: Response) -> None:
        key = key_of(response, self.version)
        call = self._outstanding.get(key)
        if call is None or not isinstance(response, (call.expected, ErrorResponse)):
            # The call's deadline has passed, the answer is of another operation (spec/wire.md#W43), or it is an add's.
            if isinstance(response, AddResponse):
                self._deliver_add(response)
            return
        self.answered = True
        del self._outstanding[key]
        if self._behind:
            self._send_next(key)
        if call.is_over:
            self._owed -= 1
        elif response.status is Status.EOK:
            call.on_answer(call.context, response, None)
        else:
            call.on_answer(call.context, response, self._error(response))

    def _send_next(self, key: Key) -> None:
        waiting = self._behind.get(key)
        if waiting is None:
            return
        call = self._outstanding[key] = waiting.popleft()
        self._outgoing += call.frame
        self._loop.call_soon(self._flush)
        if not waiting:
            del self._behind[key]

    def _deliver_add(self, response: AddResponse) -> None:
        """Deliver the answer to an add of a batch that is not the plain "done"."""
        done = add_frames.done(self.version, response.txn, response.ledger_id, response.entry_id)
        add = self._adds.pop(done, None)
        if add is None:
            return
        self.answered = True
        if response.status is Status.EOK:
            add.owner.on_acks(self._origin, [add])
            if response.last_synced is not None:
                add.owner.on_synced(self._origin, EntryId(response.last_synced))
        else:
            add.owner.on_failed(self._origin, self._error(response))

    def _error(self, response: Response) -> BookieError:
        meaning = _MEANS.get(response.status, "")
        return errors.BY_STATUS[response.status](f"bookie {self._bookie_id} answered {response.status.name}{meaning}")

    # ---- time --------------------------------------------------------------------------------------------------------

    def _on_tick(self) -> None:
        self._timer = None
        self._tick += 1
        if self._soonest <= self._tick:
            self._expire()
        while self._deadlines and self._closed is None:
            due, owner, adds = self._deadlines[0]
            if self._adds.keys().isdisjoint(adds):
                self._deadlines.popleft()
            elif due <= self._tick:
                self.forget_adds(owner)  # it gives up on this bookie
                owner.on_failed(self._origin, self._too_late())
            else:
                break
        if (self._outstanding or self._deadlines) and self._closed is None and self._timer is None:
            self._timer = self._loop.call_later(TICK_MS / 1000, self._on_tick)

    def _expire(self) -> None:
        late = [call for call in self._outstanding.values() if call.expires <= self._tick and not call.is_over]
        for call in late:
            if self.version == v3.VERSION:
                del self._outstanding[call.key]
            else:
                call.is_over = True
                self._owed += 1
        for key, waiting in list(self._behind.items()):
            late += [call for call in waiting if call.expires <= self._tick]
            self._behind[key] = still = deque(call for call in waiting if call.expires > self._tick)
            if not still:
                del self._behind[key]
        for call in late:
            call.on_answer(call.context, None, self._too_late())
        calls = [*self._outstanding.values(), *(call for waiting in self._behind.values() for call in waiting)]
        self._soonest = min((call.expires for call in calls if not call.is_over), default=_NEVER)
        if self._owed > OWED_MAX:
            self.close(errors.BookieUnavailable(f"bookie {self._bookie_id} owes {self._owed} answers"))

    def _too_late(self) -> BookieError:
        return errors.RequestTimedOut(f"bookie {self._bookie_id} did not answer in time")
