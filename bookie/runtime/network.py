"""TCP as `ports.network`: asyncio protocols as ByteStreams, with backpressure in both directions.

When a reader does not read, the kernel's buffers fill and the sender waits: nothing here grows for ever.
"""

import asyncio
import errno
import socket
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from bookie.base import errors
from bookie.base.units import KIB, NS_PER_S
from bookie.ports.clock import Clock
from bookie.ports.disk import Buffer
from bookie.ports.network import Address, OnConnect
from bookie.ports.time_limit import TimeLimit
from bookie.ports.tls import Certificate, Tls, TlsOptions
from bookie.runtime.tls import SslTls, certificate_of, certificate_remedy

# Read but not yet taken by the owner: beyond this the socket is not read any more.
_READ_AHEAD_BYTES_MAX = 1024 * KIB
# The same of all streams together: beyond it only sockets are read whose owner waits for bytes.
_ALL_READ_AHEAD_BYTES_MAX = 64 * 1024 * KIB
# Written but not yet taken by the kernel: `drained` waits above it.
_WRITE_AHEAD_BYTES_MAX = 1024 * KIB
# Queued answers get this long to leave after `close`.
_LINGER_S = 1.0
# Accepted in one go, before anybody can refuse them: no more than the descriptors that are kept for storage.
_BACKLOG = 128
EVERYWHERE = "::"
# All that the loop tells of another side that went in the middle of a handshake: it sends no alert, and shows none.
_BROKEN_OFF = "the other side broke the handshake off; it may not accept this side's certificate, and its log says why"
# Of the loop, in which it tells the end of a connection to TLS and to us.
_FAREWELL_TURNS = 3


class _Live:
    """The open streams, and how many bytes they hold that their owners have not read."""

    __slots__ = ("ahead_bytes", "is_tight", "streams")

    def __init__(self) -> None:
        self.streams: dict[_Stream, None] = {}
        self.ahead_bytes = 0
        self.is_tight = False

    def tighten(self) -> None:
        """Stop reading from every stream whose owner does not wait for bytes: too many bytes are buffered."""
        self.is_tight = True
        for stream in self.streams:
            stream.hold()


class _Stream(asyncio.Protocol):
    """One connection, `ports.network.ByteStream`."""

    def __init__(
        self,
        clock: Clock,
        live: _Live,
        on_open: "Callable[[_Stream], None] | None" = None,
        *,
        dialled: Address | None = None,
    ) -> None:
        """`live`: the set that holds this stream until its connection is lost."""
        self.peer = "?"
        self._clock = clock
        self._live = live
        self._on_open = on_open
        self._dialled = dialled
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._raw: asyncio.Transport | None = None  # under TLS: the socket's own queue, where encrypted bytes wait
        self._chunks: deque[bytes] = deque()
        self._chunks_bytes = 0
        self._is_paused = False
        self._is_over = False
        self._is_lost = False  # nothing is queued any more
        self._broken: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._can_write = True
        self.on_room: Callable[[], None] | None = None
        self.on_chunk: Callable[[Buffer], bool] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()

    # ---- what the owner calls

    async def read(self) -> Buffer:
        """See ports.network. One reader at a time."""
        while not self._chunks:
            if self._is_paused and not self._is_over:
                self._is_paused = False
                self._transport.resume_reading()
            if self._broken is not None:
                raise errors.BookieUnavailable(f"connection with {self.peer} broke: {self._broken}")
            if self._is_over:
                return b""
            assert self._reader is None, "one task reads a stream"
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        # As they came: joined, what gathers under load would be copied once more, into memory that is fresh each time.
        chunk = self._chunks.popleft()
        self._chunks_bytes -= len(chunk)
        live = self._live
        live.ahead_bytes -= len(chunk)
        if live.is_tight and live.ahead_bytes <= _ALL_READ_AHEAD_BYTES_MAX // 2:
            live.is_tight = False
        if self._is_paused and not self._chunks and not live.is_tight and not self._is_over:
            self._is_paused = False
            self._transport.resume_reading()
        return chunk

    def hold(self) -> None:
        """Read no more from the socket until the owner asks for bytes."""
        if not self._is_paused and self._reader is None and not self._is_over and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _forget_chunks(self) -> None:
        self._live.ahead_bytes -= self._chunks_bytes
        self._chunks.clear()
        self._chunks_bytes = 0

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def is_stuffed(self) -> bool:
        return not self._can_write and not self._is_over

    @property
    def unsent_bytes(self) -> int:
        if self._is_lost:
            return 0
        encrypted = 0 if self._raw is None else self._raw.get_write_buffer_size()
        return self._transport.get_write_buffer_size() + encrypted

    def write(self, buffers: Sequence[Buffer]) -> None:
        if not self._is_over:
            self._transport.writelines(buffers)

    async def drained(self) -> None:
        if self._can_write or self._is_over:
            return
        waiter = self._loop.create_future()
        self._writers.append(waiter)
        await waiter

    async def start_tls(self, tls: Tls, deadline_ns: int) -> Certificate | None:
        assert isinstance(tls, SslTls), "made by load_tls of this network"
        assert self._reader is None, "a task reads this stream"
        if self._chunks:
            self.close()
            raise errors.BadInput("plain bytes where TLS was to begin")
        timeout_s = max(0.0, (deadline_ns - self._clock.monotonic_ns()) / NS_PER_S)
        transport: asyncio.Transport | None = None
        try:
            async with TimeLimit(timeout_s):
                # From here to the first suspension no byte can come in: the loop switches protocols before it reads.
                transport = await self._loop.start_tls(
                    self._transport,
                    self,
                    tls.context(),
                    server_side=tls.is_server,
                    server_hostname=None if tls.is_server or self._dialled is None else self._dialled.host,
                )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            self._broken = self._broken or error
            self.close()
            reason = "no handshake in time" if isinstance(error, TimeoutError) else _reason(error, tls)
            raise errors.BookieUnavailable(f"TLS with {self.peer}: {reason}") from None
        finally:
            if transport is None:  # closed by the loop, which does not always tell us
                self._live.streams.pop(self, None)
                self._is_lost = True
        if transport is None:  # the connection went during the handshake
            raise errors.BookieUnavailable(f"TLS with {self.peer}: {_BROKEN_OFF}")
        self._raw, self._transport = self._transport, transport
        self._transport.set_write_buffer_limits(high=_WRITE_AHEAD_BYTES_MAX)
        return certificate_of(transport.get_extra_info("peercert"))

    def close(self) -> None:
        self._forget_chunks()
        if not self._is_over:
            self._is_over = True
            self._transport.close()
            self._loop.call_later(_LINGER_S, self._transport.abort)
            self._wake()

    def abort(self) -> None:
        """Close without waiting for the other side; an orderly close would first send TLS's close message."""
        self._is_over = True
        self._forget_chunks()
        self._transport.abort()
        self._wake()

    # ---- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class
        self._live.streams[self] = None
        self._transport.set_write_buffer_limits(high=_WRITE_AHEAD_BYTES_MAX)
        name = transport.get_extra_info("peername")
        self.peer = f"{plain_host(name[0])}:{name[1]}" if isinstance(name, tuple) else str(name)
        found = transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self.on_chunk is not None and self._reader is not None and not self._chunks and self.on_chunk(data):
            return
        size, live = len(data), self._live
        self._chunks.append(data)
        self._chunks_bytes += size
        live.ahead_bytes += size
        if live.is_tight or self._chunks_bytes > _READ_AHEAD_BYTES_MAX:
            self.hold()
        elif live.ahead_bytes > _ALL_READ_AHEAD_BYTES_MAX:
            live.tighten()
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._wake_writers()
        if self.on_room is not None:
            self.on_room()

    def connection_lost(self, error: Exception | None) -> None:
        self._live.streams.pop(self, None)
        self._is_over = self._is_lost = True
        self._broken = error
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        self._wake_writers()
        if self.on_room is not None:
            self.on_room()

    def _wake_writers(self) -> None:
        while self._writers:
            waiter = self._writers.popleft()
            if not waiter.done():
                waiter.set_result(None)


class _Listener:
    """`ports.network.Listener`: owns the connections it accepted, and the task of each."""

    def __init__(self, on_connect: OnConnect) -> None:
        self.port = 0
        self.server: asyncio.Server | None = None
        self._on_connect = on_connect
        self._tasks: dict[asyncio.Task[None], _Stream] = {}

    def accept(self, stream: _Stream) -> None:
        """Start the task of one accepted connection."""
        coroutine = self._serve(stream)
        task = asyncio.get_running_loop().create_task(coroutine, name=f"connection {stream.peer}")
        self._tasks[task] = stream
        task.add_done_callback(self._forget)

    async def _serve(self, stream: _Stream) -> None:
        try:
            await self._on_connect(stream)
        finally:
            stream.close()

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and task.exception() is not None:
            message = f"{task.get_name()}: its task failed"
            task.get_loop().call_exception_handler({"message": message, "exception": task.exception(), "task": task})

    async def close(self) -> None:
        assert self.server is not None
        self.server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.server.wait_closed()


class TcpNetwork:
    """`ports.network.Network` on TCP."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._live = _Live()

    async def close(self) -> None:
        """End every connection that is still open, also those that linger: the loop is closing."""
        for stream in list(self._live.streams):
            stream.abort()
        for _ in range(_FAREWELL_TURNS):
            await asyncio.sleep(0)
        self._live.streams.clear()

    async def dial(self, address: Address, deadline_ns: int) -> _Stream:
        timeout_s = max(0.0, (deadline_ns - self._clock.monotonic_ns()) / NS_PER_S)
        loop = asyncio.get_running_loop()
        try:
            async with TimeLimit(timeout_s):
                _, stream = await loop.create_connection(
                    lambda: _Stream(self._clock, self._live, dialled=address), address.host, address.port
                )
        except TimeoutError:
            raise errors.BookieUnavailable(f"{address} did not answer within {timeout_s:.1f} s") from None
        except OSError as error:
            raise errors.BookieUnavailable(f"cannot connect to {address}: {error.strerror or error}") from error
        return stream

    async def listen(self, address: Address, on_connect: OnConnect) -> _Listener:
        listener = _Listener(on_connect)
        loop = asyncio.get_running_loop()
        try:
            starting: Coroutine[object, object, asyncio.Server] = loop.create_server(
                lambda: _Stream(self._clock, self._live, listener.accept), **where(address), backlog=_BACKLOG
            )
            listener.server = await starting
        except OSError as error:
            raise refused(address, error) from error
        listener.port = listener.server.sockets[0].getsockname()[1]
        return listener

    def load_tls(self, options: TlsOptions, *, is_server: bool) -> SslTls:
        return SslTls(options, is_server=is_server)


def where(address: Address) -> dict[str, Any]:
    """Return the arguments by which an asyncio server listens at `address`. Raises OSError when "::" is in use."""
    if address.host != EVERYWHERE:
        return {"host": address.host, "port": address.port}
    return {"sock": everywhere(address.port, has_ipv6=socket.has_dualstack_ipv6())}


def everywhere(port: int, *, has_ipv6: bool) -> socket.socket:
    """Return a socket that listens on all addresses: of both families, or of IPv4 where the kernel has no IPv6."""
    if not has_ipv6:
        return socket.create_server(("", port), backlog=_BACKLOG)
    return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)


def plain_host(host: str) -> str:
    """Return `host` as its own family writes it: a socket of both shows 10.0.0.1 as ::ffff:10.0.0.1."""
    return host.removeprefix("::ffff:") if "." in host else host


def _reason(error: OSError, tls: SslTls) -> str:
    """Return why a handshake failed, and what to try: OpenSSL's reason, without its source lines."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = error.verify_message.rstrip(".")
        return f"the other side's certificate: {message}: {certificate_remedy(error.verify_code, tls.options)}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return str(error.reason).lower().replace("_", " ")
    return error.strerror or str(error) or _BROKEN_OFF  # a reset that the loop found has no text


def refused(address: Address, error: OSError) -> errors.RefusedToStart:
    """Return one sentence on why this process cannot listen at `address`."""
    if error.errno == errno.EADDRINUSE:
        why = "the port is in use: stop the other process, or choose another port"
    elif error.errno == errno.EACCES:
        why = "not allowed: ports below 1024 belong to root"
    elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        why = f"this machine has no such address ({error.strerror}): name one that it has, or none, to listen on all"
    else:
        why = f"{error.strerror or error}"
    return errors.RefusedToStart(f"cannot listen on {address}: {why}")
