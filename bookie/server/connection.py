"""Serves one client connection: one task reads, and one write per loop turn sends all answers of that turn.

No task and no write per entry: the requests of a chunk are handled in one go, and the completions of one group commit
become one write. Must never hold a rule of the protocol; those are in `wire.session` and `processor`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.units import KIB, NS_PER_S
from bookie.ports.doors import Doors
from bookie.ports.network import ByteStream
from bookie.server.admission import Admission
from bookie.server.connections import LOOK_NS, Connections, host_of
from bookie.server.guard import Guard
from bookie.server.metrics import ServerMetrics
from bookie.server.processor import Processor
from bookie.server.reads import Replier
from bookie.server.security import Security
from bookie.server.unsent import SMALL_DEBT_BYTES
from bookie.storage.pause import pause
from bookie.storage.store import EntryStore
from bookie.wire import limits, session
from bookie.wire.messages import AddMix, AddRun, Buffer, Incoming, Outgoing, ReadRun, StartTlsRequest, StartTlsResponse

log = logging.getLogger(__name__)

# Small answers are joined (30 ns each) rather than handed over one by one; larger ones are passed on uncopied.
_JOIN_BYTES_MAX = 256 * KIB
# Answers of one chunk beyond this wait for the client to take some: requests are small, answers need not be.
_UNSENT_BYTES_MAX = 4096 * KIB
# Writes of less than this count as one with the write before: small answers cost no record each.
_WRITE_BYTES_MIN = 64 * KIB
# A chunk of at most this is handled in the call that brings it, before anything else that waits for the loop.
_AT_ONCE_BYTES_MAX = 16 * KIB
_PLAIN = (AddRun, AddMix, ReadRun)
# Reads that wait for the disk, per connection: each may come back with an entry of any size.
_SLOW_READS_MAX = 256
# What one connection may do in one turn of the loop, some milliseconds: with a hundred connections that are never done
# the others wait for some hundred milliseconds, not for seconds. A request weighs 1 (up to 30 us), a run by its length.
_TURN_WEIGHT_MAX = 64
_READS_OF_A_WEIGHT = 8
_ADDS_OF_A_WEIGHT = 32
# From the answer to START_TLS to the end of the handshake; Java waits 10 s (Netty's default).
_HANDSHAKE_NS_MAX = 10 * NS_PER_S
# From the first byte to the proof of who it is; clients begin with it at once.
_PROOF_S_MAX = 30.0


def _weight(request: Incoming) -> int:
    if type(request) is AddRun or type(request) is AddMix:
        return 1 + len(request.txns) // _ADDS_OF_A_WEIGHT
    return 1 + len(request.txns) // _READS_OF_A_WEIGHT if type(request) is ReadRun else 1


class Backpressure:
    """Stops reading while the bookie has taken in more than it may: connections wait here before they read on."""

    def __init__(self, admission: Admission, store: EntryStore) -> None:
        self._admission = admission
        self._store = store
        self._room = asyncio.Event()

    def open(self) -> None:
        """Let the waiting connections read on: there is room again for requests in flight."""
        self._room.set()

    @property
    def is_closed(self) -> bool:
        return self._admission.is_full or self._store.is_congested

    async def wait(self) -> None:
        """Return at once while there is room for requests in flight and for entries in the write cache."""
        while True:
            if self._admission.is_full:
                self._room.clear()
                await self._room.wait()
            elif self._store.is_congested:
                await self._store.room()
            else:
                return


class _Write(NamedTuple):
    """The bytes of one write, counted from the first byte of the connection."""

    start: int
    end: int


class ServerConnection:
    """Serves one stream until it ends."""

    def __init__(
        self,
        stream: ByteStream,
        processor: Processor,
        backpressure: Backpressure,
        metrics: ServerMetrics,
        frame_bytes_max: int,
        doors: Doors,
        connections: Connections,
        security: Security | None = None,
        may_answer: Callable[[], bool] | None = None,
    ) -> None:
        """`may_answer`: called before answers are sent; None: always allowed (docs/INTEGRITY.md, the lease)."""
        self._stream = stream
        self._doors = doors
        self._connections = connections
        self._unfinished = connections.unfinished
        self._all_unsent = connections.unsent
        self._claimed_bytes = 0  # for the frame that has begun
        self._written_bytes = 0
        self._writes: deque[_Write] = deque()  # those that the client has not taken whole
        self.has_spoken = False
        self.peer = stream.peer
        self._processor = processor
        self._backpressure = backpressure
        self._metrics = metrics
        self._may_answer = may_answer
        self._tls = None if security is None else security.tls
        self._handle: Callable[[Incoming, Replier], Sequence[AddRun] | None] = processor.handle
        self._guard: Guard | None = None
        self._wrong_passwords = None if security is None else security.wrong_passwords
        if security is not None and not security.is_open:
            self._guard = Guard(security, stream.peer, self._passed)
            self._handle = self._guard.handle
        self._frame_bytes_max = frame_bytes_max
        unproven_max = min(frame_bytes_max, limits.UNPROVEN_FRAME_BYTES_MAX)
        self._session = session.ServerSession(frame_bytes_max if self._guard is None else unproven_max)
        loop = asyncio.get_running_loop()
        self._call_soon = loop.call_soon
        self._proof_timer = None if self._guard is None else loop.call_later(_PROOF_S_MAX, self._proof_is_late)
        self._unsent: list[Buffer] = []
        self._unsent_bytes = 0
        self._is_flush_due = False
        self._is_open = True
        self._is_tls_wanted = False
        self._is_shaking_hands = False
        self._slow_reads = 0
        self._turn_weight = 0  # of the requests since the other connections had their turn
        self._caught_up = asyncio.Event()
        self._rest: Sequence[Incoming] | None = None  # of the chunk that `_take_at_once` left to the task
        self._failure: Exception | None = None  # of that chunk
        stream.on_room = self._on_room
        stream.on_chunk = self._take_at_once

    async def run(self) -> None:
        """Serve until the client closes, the stream breaks or the client sends something that is no request."""
        self._metrics.connections += 1
        self._metrics.connections_total += 1
        self._connections.join(self)
        try:
            await self._serve()
        except errors.BookieUnavailable as error:
            log.debug("connection lost peer=%s reason=%s", self._stream.peer, error)
        except errors.Unauthorized as error:
            self._metrics.refused_clients += 1
            if self._wrong_passwords is not None:
                self._wrong_passwords.failed(host_of(self.peer), self._processor.clock.monotonic_ns())
            self._flush()  # the client is told, as far as its protocol has a word for it
            self._doors.refused("proof", error, self.peer)
        except errors.BadInput as error:
            # No answer: there is none that the client could match (spec/wire.md#W2).
            self._doors.refused("frame", error, self.peer)
        except Exception as error:
            self._doors.failed("connection", error, self.peer)
        finally:
            self._is_open = False
            self._unsent, self._unsent_bytes = [], 0
            self._metrics.connections -= 1
            if self._proof_timer is not None:
                self._proof_timer.cancel()
            self._connections.leave(self)
            self._processor.forget(self)
            self._stream.on_room = self._stream.on_chunk = None  # or the two would hold each other
            # What is still to leave gets a moment for that, unless others need its memory.
            if self._all_unsent.is_full:
                self._stream.abort()
            else:
                self._stream.close()

    async def _serve(self) -> None:
        stream = self._stream
        while chunk := await stream.read():
            if self._backpressure.is_closed:  # others were faster
                await self._backpressure.wait()
            incoming = self._begin(chunk)
            await self._take(incoming)
            while self._session.has_more:
                await self._take(self._session.receive_more())
            if self._is_tls_wanted:  # by the last request of the chunk
                await self._encrypt()
            needed_bytes = self._session.frames.needed_bytes
            if incoming or needed_bytes != self._claimed_bytes:
                if incoming and not self.has_spoken and self._guard is None:
                    self.has_spoken = True
                    self._connections.spoke(self)
                await self._claim(needed_bytes)
            await stream.drained()
            while self._all_unsent.is_full and stream.unsent_bytes > SMALL_DEBT_BYTES:
                await self._processor.clock.sleep_until(self._processor.clock.monotonic_ns() + LOOK_NS)
            await self._backpressure.wait()

    def _take_at_once(self, chunk: Buffer) -> bool:
        """See ByteStream.on_chunk. Handle a small chunk of plain requests, and send the answers that are there already,
        while the task waits in `read`: a read beside a load of adds waits for what runs, not for the task's turn behind
        it and for a third one to be answered in (docs/SPEED.md). Where anything must wait, the task goes on."""
        if (
            len(chunk) > _AT_ONCE_BYTES_MAX
            or not self.has_spoken  # it has, so it is known who it is
            or self._claimed_bytes
            or self._slow_reads > _SLOW_READS_MAX
            or not self.takes_answers
            or self._backpressure.is_closed
            or self._all_unsent.is_full
        ):
            return False
        self._is_flush_due = True  # below
        try:
            self._rest = self._take_plain(self._session.receive(chunk))
        except Exception as error:
            self._failure = error
        self._flush_soon()
        if self._failure is not None or self._rest or not self._session.is_between_frames:
            return False
        self._rest = None
        return True

    def _take_plain(self, incoming: Sequence[Incoming]) -> Sequence[Incoming]:
        """Handle requests up to the first that may have to wait; return the others. The poll of the sockets is a turn
        for everybody, so the weight begins anew."""
        self._turn_weight = 0
        for place, request in enumerate(incoming):
            is_heavy = self._turn_weight >= _TURN_WEIGHT_MAX or self._unsent_bytes > _UNSENT_BYTES_MAX
            if type(request) not in _PLAIN or is_heavy or self._slow_reads > _SLOW_READS_MAX:
                return incoming[place:]
            self._turn_weight += _weight(request)
            left = self._handle(request, self)
            if left:
                return [*left, *incoming[place + 1 :]]
        return ()

    def _begin(self, chunk: Buffer) -> Sequence[Incoming]:
        """Return the first part of the requests of `chunk`, or what `_take_at_once` has left of it."""
        if self._failure is not None:
            raise self._failure
        if self._rest is None:
            return self._session.receive(chunk)
        rest, self._rest = self._rest, None
        return rest

    async def _take(self, incoming: Sequence[Incoming]) -> None:
        """Handle one part of a chunk. A chunk of tiny requests can take a second: let other connections run in between,
        by the work of all parts and chunks together, as each alone may be less than a turn's."""
        for request in incoming:
            if type(request) is StartTlsRequest and self._tls is not None:
                self._check_nothing_follows(request, incoming[-1])
            if self._guard is not None and self._guard.looks_at(request):
                await self._wait_turn()
            left = self._handle(request, self)
            if left:
                await self._take(left)
            if self._is_tls_wanted:
                # The last request of the chunk. Nothing may be awaited before the handshake: its answer could leave,
                # and the client's first TLS bytes would be read as plain ones.
                return
            if self._unsent_bytes > _UNSENT_BYTES_MAX or self._slow_reads > _SLOW_READS_MAX:
                await self._catch_up()
            self._turn_weight += _weight(request)
            if self._turn_weight >= _TURN_WEIGHT_MAX:
                await self._give_turn_away()

    async def _give_turn_away(self) -> None:
        self._turn_weight = 0
        await pause()
        if not self._is_open:
            raise errors.BookieUnavailable("the client is gone")

    async def _claim(self, needed_bytes: int) -> None:
        """Reserve room for the frame that has begun; release the room of the frame before."""
        if not needed_bytes and not self._claimed_bytes:
            return
        self._claimed_bytes = needed_bytes
        now_ns = self._processor.clock.monotonic_ns()
        room = self._unfinished.claim(self, needed_bytes, self._session.frames.kept_bytes, now_ns)
        if room is not None:
            await room

    def cut(self, reason: str) -> None:
        """See unfinished.FrameHolder and unsent.Debtor."""
        self._doors.refused("budget", reason, self.peer)
        self._stream.abort()  # closed in order, it would hold for a second what it is cut off for

    @property
    def untaken_bytes(self) -> int:
        """See unsent.Debtor. The loop holds all buffers of a write until the client has taken the last byte of it."""
        taken_bytes, writes = self.taken_bytes, self._writes
        while writes and writes[0].end <= taken_bytes:
            writes.popleft()
        start = min(taken_bytes, writes[0].start) if writes else taken_bytes
        return self._unsent_bytes + self._written_bytes - start

    @property
    def taken_bytes(self) -> int:
        """See unsent.Debtor."""
        return self._written_bytes - self._stream.unsent_bytes

    async def _catch_up(self) -> None:
        """Wait until the client has taken the answers it asked for before it may ask for more."""
        self._flush()
        while self._slow_reads > _SLOW_READS_MAX // 2:
            if not self._is_open:
                raise errors.BookieUnavailable("the client is gone")
            self._caught_up.clear()
            await self._caught_up.wait()
        await self._stream.drained()

    def slow_reads_began(self, count: int) -> None:
        self._slow_reads += count

    def slow_reads_ended(self, count: int) -> None:
        self._slow_reads -= count
        if self._slow_reads <= _SLOW_READS_MAX // 2:
            self._caught_up.set()

    # ---- TLS and authentication

    def start_tls(self, request: StartTlsRequest) -> None:
        """See reads.Replier. Rule: spec/wire.md#W41."""
        if self._tls is None:  # not configured, or begun already
            self.reply(StartTlsResponse(request.txn, request.version, Status.EBADREQ))
            return
        self.reply(StartTlsResponse(request.txn, request.version, Status.EOK))
        self._is_tls_wanted = True

    def _check_nothing_follows(self, request: StartTlsRequest, last: Incoming) -> None:
        """Refuse plain bytes behind START_TLS:
        anybody may have inserted them, and they would count as the client's own."""
        if last is not request or not self._session.is_between_frames:
            raise errors.BadInput("the client sent plain bytes behind START_TLS")

    async def _encrypt(self) -> None:
        assert self._tls is not None
        self._is_tls_wanted = False
        self._flush()
        self._is_shaking_hands = True
        deadline_ns = self._processor.clock.monotonic_ns() + _HANDSHAKE_NS_MAX
        try:
            certificate = await self._stream.start_tls(self._tls, deadline_ns)
        except errors.BookieUnavailable as error:
            self._metrics.refused_clients += 1
            self._doors.refused("TLS", error, self.peer)
            raise
        self._is_shaking_hands = False
        self._tls = None
        self._flush()
        if self._guard is not None:
            self._guard.encrypted(certificate)

    async def _wait_turn(self) -> None:
        """Wait until a password may be checked: longer after many wrong ones from this address."""
        assert self._wrong_passwords is not None
        clock = self._processor.clock
        now_ns = clock.monotonic_ns()
        at_ns = self._wrong_passwords.attempt(host_of(self.peer), now_ns)
        if at_ns > now_ns + _PROOF_S_MAX * NS_PER_S:
            raise errors.Unauthorized("too many password attempts from this address wait for their turn; try later")
        if at_ns > now_ns:
            await clock.sleep_until(at_ns)

    def _passed(self) -> None:
        """Let the client do everything: it has proven its identity."""
        assert self._proof_timer is not None
        self._proof_timer.cancel()
        self._guard = None
        self._handle = self._processor.handle
        self._session.frames.limit_bytes = self._frame_bytes_max

    def _proof_is_late(self) -> None:
        """Close the connection of a client that has not proven its identity in time."""
        try:
            self._metrics.refused_clients += 1
            self._doors.refused("proof", f"the client did not prove who it is within {_PROOF_S_MAX:.0f} s", self.peer)
            self._stream.close()
        except Exception as error:
            self._doors.failed("connection", error, self.peer)

    # ---- answers

    def reply(self, response: Outgoing) -> None:
        """Queue one answer for the write at the end of this turn."""
        if not self._is_open:
            return
        buffers = session.pack_response(response)
        self._unsent += buffers
        self._unsent_bytes += len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        if self._unsent_bytes > _JOIN_BYTES_MAX:
            # At once: many connections may answer in this turn, and each must see what the others hold.
            self._all_unsent.note(self, self.untaken_bytes)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._call_soon(self._flush_soon)

    @property
    def queued_bytes(self) -> int:
        """See readers.Reader."""
        return self._unsent_bytes

    @property
    def takes_answers(self) -> bool:
        """See readers.Reader."""
        return self._unsent_bytes <= _UNSENT_BYTES_MAX and not self._stream.is_stuffed

    def break_off(self) -> None:
        """See boundary.Requester."""
        self._stream.close()

    def _on_room(self) -> None:
        """Handle that the stream takes bytes again, or is closed: a closed one reads nothing more."""
        if not self._stream.is_over:
            self._processor.resume(self)
        elif self._is_open:
            self._is_open = False
            self._unsent, self._unsent_bytes = [], 0
            self._processor.forget(self)
            self._caught_up.set()

    def _flush_soon(self) -> None:
        """Write the answers of this turn at its end; the loop calls this."""
        try:
            self._flush()
            if self._slow_reads:
                self._processor.resume(self)
        except Exception as error:
            self._doors.failed("connection", error, self.peer)
            self.break_off()

    def _flush(self) -> None:
        self._is_flush_due = False
        # Answers that come during a handshake wait for its end: in plain they would break it.
        if not self._unsent or not self._is_open or self._is_shaking_hands:
            return
        if self._may_answer is not None and not self._may_answer():
            # Another process may be this bookie by now, so the answers may be wrong: none leaves.
            self._unsent.clear()
            self._stream.close()
            return
        is_large = self._unsent_bytes > _JOIN_BYTES_MAX
        self._stream.write(self._unsent if is_large else [b"".join(self._unsent)])
        start, self._written_bytes = self._written_bytes, self._written_bytes + self._unsent_bytes
        self._unsent, self._unsent_bytes = [], 0
        if self._stream.unsent_bytes:
            self._not_taken_at_once(start)
        elif is_large:
            self._all_unsent.note(self, 0)

    def _not_taken_at_once(self, start: int) -> None:
        """Note that the client has not taken the bytes from `start` on whole."""
        if self._writes and self._written_bytes - self._writes[-1].start <= _WRITE_BYTES_MIN:
            start = self._writes.pop().start
        self._writes.append(_Write(start, self._written_bytes))
        self._all_unsent.note(self, self.untaken_bytes)
