"""One client connection: a task that reads, and one write per turn of the loop for all answers of that turn.

No task and no write per entry: the requests of a chunk are handled in one go, and the completions of one group commit
become one write. Must never hold a rule of the protocol; those are in `wire.session` and `processor`.
"""

import asyncio
import logging

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.units import KIB, NS_PER_S
from bookie.ports.network import ByteStream
from bookie.server.admission import Admission
from bookie.server.guard import Guard
from bookie.server.metrics import ServerMetrics
from bookie.server.processor import Processor
from bookie.server.security import Security
from bookie.storage.store import EntryStore
from bookie.wire import session
from bookie.wire.messages import Buffer, Incoming, Outgoing, StartTlsRequest, StartTlsResponse

log = logging.getLogger(__name__)

# Small answers are joined (30 ns each) rather than handed over one by one; larger ones are passed on uncopied.
_JOIN_BYTES_MAX = 256 * KIB
# Answers of one chunk beyond this wait for the client to take some: requests are small, answers need not be.
_UNSENT_BYTES_MAX = 4096 * KIB
# Reads that wait for the disk, per connection: each may come back with an entry of any size.
_SLOW_READS_MAX = 256
# From the answer to START_TLS to the end of the handshake; Java waits 10 s (Netty's default).
_HANDSHAKE_NS_MAX = 10 * NS_PER_S
# From the first byte to the proof of who it is; clients begin with it at once.
_PROOF_S_MAX = 30.0


class Gate:
    """Closed while the bookie has taken in more than it may: connections wait here before they read on."""

    def __init__(self, admission: Admission, store: EntryStore) -> None:
        self._admission = admission
        self._store = store
        self._room = asyncio.Event()

    def open(self) -> None:
        """There is room again for what is in flight."""
        self._room.set()

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


class _TlsWanted(Exception):
    """Raised out of handling a chunk: what follows is encrypted."""


class Connection:
    """Serves one stream until it ends."""

    def __init__(
        self,
        stream: ByteStream,
        processor: Processor,
        gate: Gate,
        metrics: ServerMetrics,
        frame_bytes_max: int,
        security: Security | None = None,
    ) -> None:
        self._stream = stream
        self._processor = processor
        self._gate = gate
        self._metrics = metrics
        self._tls = None if security is None else security.tls
        self._handle = processor.handle
        self._guard: Guard | None = None
        if security is not None and not security.is_open:
            self._guard = Guard(security, stream.peer, self._passed)
            self._handle = self._guard.handle
        self._session = session.ServerSession(frame_bytes_max)
        loop = asyncio.get_running_loop()
        self._call_soon = loop.call_soon
        self._proof_timer = None if self._guard is None else loop.call_later(_PROOF_S_MAX, self._proof_is_late)
        self._unsent: list[Buffer] = []
        self._unsent_bytes = 0
        self._is_flush_due = False
        self._is_open = True
        self._is_shaking_hands = False
        self._slow_reads = 0
        self._caught_up = asyncio.Event()

    async def run(self) -> None:
        """Serve until the client goes, the stream breaks or the client says something that is no request."""
        self._metrics.connections += 1
        self._metrics.connections_total += 1
        try:
            await self._serve()
        except errors.BookieUnavailable as error:
            log.debug("connection lost peer=%s reason=%s", self._stream.peer, error)
        except errors.Unauthorized as error:
            self._metrics.refused_clients += 1
            self._flush()  # it is told, as far as its protocol has a word for it
            log.warning("client refused peer=%s reason=%s", self._stream.peer, error)
        except errors.BadInput as error:
            # No answer: there is none that the client could match (wire-protocol.md 1 and 2).
            log.warning("connection closed peer=%s reason=%s", self._stream.peer, error)
        except AssertionError:
            raise  # a broken assumption of ours stops the node
        except Exception:
            log.exception("connection closed by an error of ours peer=%s", self._stream.peer)
        finally:
            self._is_open = False
            self._metrics.connections -= 1
            if self._proof_timer is not None:
                self._proof_timer.cancel()
            self._processor.forget(self)
            self._stream.close()

    async def _serve(self) -> None:
        while True:
            try:
                await self._serve_chunks()
            except _TlsWanted:
                await self._encrypt()
            else:
                return

    async def _serve_chunks(self) -> None:
        stream = self._stream
        while chunk := await stream.read():
            incoming = self._session.receive(chunk)
            for request in incoming:
                if type(request) is StartTlsRequest and self._tls is not None:
                    self._check_nothing_follows(request, incoming[-1])
                self._handle(request, self)
                if self._unsent_bytes > _UNSENT_BYTES_MAX or self._slow_reads > _SLOW_READS_MAX:
                    await self._catch_up()
            await stream.drained()
            await self._gate.wait()

    async def _catch_up(self) -> None:
        """Let the client take what it asked for before it asks for more."""
        self._flush()
        while self._slow_reads > _SLOW_READS_MAX // 2:
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
        """See reads.Replier. Rule: wire-protocol.md 8.4."""
        if self._tls is None:  # not configured, or begun already
            self.reply(StartTlsResponse(request.txn, request.version, Status.EBADREQ))
            return
        self.reply(StartTlsResponse(request.txn, request.version, Status.EOK))
        raise _TlsWanted

    def _check_nothing_follows(self, request: StartTlsRequest, last: Incoming) -> None:
        """Plain bytes behind START_TLS may be anybody's: were they kept, they would count as the client's own."""
        if last is not request or not self._session.is_between_frames:
            raise errors.BadInput("plain bytes behind START_TLS")

    async def _encrypt(self) -> None:
        assert self._tls is not None
        self._flush()
        self._is_shaking_hands = True
        deadline_ns = self._processor.clock.monotonic_ns() + _HANDSHAKE_NS_MAX
        try:
            certificate = await self._stream.start_tls(self._tls, deadline_ns)
        except errors.BookieUnavailable as error:
            self._metrics.refused_clients += 1
            log.info("no TLS with a client peer=%s reason=%s", self._stream.peer, error)
            raise
        self._is_shaking_hands = False
        self._tls = None
        self._flush()
        if self._guard is not None:
            self._guard.encrypted(certificate)

    def _passed(self) -> None:
        """The client has proven who it is."""
        assert self._proof_timer is not None
        self._proof_timer.cancel()
        self._guard = None
        self._handle = self._processor.handle

    def _proof_is_late(self) -> None:
        """Who says nothing is not to hold a connection for ever."""
        self._metrics.refused_clients += 1
        log.info("client refused peer=%s reason=no proof of who it is within %.0f s", self._stream.peer, _PROOF_S_MAX)
        self._stream.close()

    # ---- answers

    def reply(self, response: Outgoing) -> None:
        """Queue one answer for the write at the end of this turn."""
        if not self._is_open:
            return
        buffers = session.pack_response(response)
        self._unsent += buffers
        self._unsent_bytes += len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        if not self._is_flush_due:
            self._is_flush_due = True
            self._call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        # Answers that come during a handshake wait for its end: in plain they would break it.
        if not self._unsent or not self._is_open or self._is_shaking_hands:
            return
        if self._unsent_bytes <= _JOIN_BYTES_MAX:
            self._stream.write([b"".join(self._unsent)])
        else:
            self._stream.write(self._unsent)
        self._unsent = []
        self._unsent_bytes = 0
