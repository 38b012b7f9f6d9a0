"""A small HTTP/1.1 server for `/metrics` and a few admin paths: one short request a connection, everything bounded.

No keep-alive, no chunked bodies: probes and scripts of operators, not browsers (docs/decisions/0008-http.md). The
server knows a caller by an address of this machine or by a certificate, never by what the caller claims.
An error that a request causes is answered 500 and ends here: `Doors` counts it. A client that lets us wait, for the
rest of its request or until it takes its answer, gives way to later clients: a whole request is always answered.
"""

import asyncio
import contextlib
import dataclasses
import http
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator

from bookie.base.errors import BookieError
from bookie.ports.doors import Doors, NoDoors
from bookie.ports.http import Handler, HttpAnswer, HttpRequest
from bookie.ports.network import Address
from bookie.ports.time_limit import TimeLimit
from bookie.runtime import admin_connections
from bookie.runtime.network import plain_host, refused, where

# A request is one small packet; who takes longer is no scraper, and who sends more is no script.
_REQUEST_TIMEOUT_S = 5.0
# Who does not take its answer, which may be a list of every ledger, is no script either.
_ANSWER_TIMEOUT_S = 30.0
_HEAD_BYTES_MAX = 16 * 1024
_BODY_BYTES_MAX = 64 * 1024
# Clients that let us wait: strangers, those of one address, and those whom we know, whose places no stranger takes.
_STRANGERS_MAX = 64
_OF_ONE_MAX = 24
_KNOWN_MAX = 16
# Answers under way get this long to leave when the server ends.
_LINGER_S = 1.0
# More digits than any length has; `int` refuses thousands of them by an error of its own.
_SIZE_DIGITS_MAX = 9
_FIELDS_MAX = 100
_BACKLOG = 128


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """Which callers the server knows. `hosts`: addresses of this machine whose callers are "local"; none in a pod,
    where a proxy beside us calls from there for everybody. `tls`: speak TLS; `name_of`: of the certificate, PEM, that a
    caller may show.
    """

    hosts: frozenset[str] = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
    tls: ssl.SSLContext | None = None
    name_of: Callable[[bytes], str | None] = lambda certificate: None

    def caller(self, writer: asyncio.StreamWriter) -> str:
        """Return the name of the caller at the other end; "" for a stranger."""
        tunnel = writer.get_extra_info("ssl_object")
        shown = tunnel.getpeercert(binary_form=True) if tunnel is not None else None
        if shown and (name := self.name_of(ssl.DER_cert_to_PEM_cert(shown).encode())):
            return name
        return "local" if _host_of(writer) in self.hosts else ""


class _Bad(Exception):
    """A request that cannot be answered as asked; the status says why."""

    def __init__(self, status: int) -> None:
        super().__init__(http.HTTPStatus(status).phrase)
        self.status = status


class _Places:
    """Connections that wait for their clients. When there are too many, the address with most loses its oldest."""

    def __init__(self, most: int, of_one: int, doors: Doors) -> None:
        self._most = most
        self._of_one = of_one
        self._doors = doors
        self._waiting: dict[str, dict[asyncio.StreamWriter, None]] = {}  # by address, the oldest first

    @contextlib.contextmanager
    def taken(self, host: str, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Hold a place while the server waits for the client."""
        waiting = self._waiting.setdefault(host, {})
        waiting[writer] = None
        try:
            if len(waiting) > self._of_one:
                self._end_oldest(host)
            elif sum(map(len, self._waiting.values())) > self._most:
                self._end_oldest(max(self._waiting, key=lambda one: len(self._waiting[one])))
            yield
        finally:
            self._leave(host, writer)

    def _end_oldest(self, host: str) -> None:
        writer = next(iter(self._waiting[host]))
        self._leave(host, writer)
        writer.transport.abort()
        self._doors.refused("http", "this client made the server wait, and others needed its place", host)

    def _leave(self, host: str, writer: asyncio.StreamWriter) -> None:
        waiting = self._waiting.get(host, {})
        waiting.pop(writer, None)
        if not waiting:
            self._waiting.pop(host, None)


class _Server:
    """Answers connections."""

    def __init__(self, handler: Handler, doors: Doors, known: Known) -> None:
        self._known = known
        self._handler = handler
        self._doors = doors
        self._strangers = _Places(_STRANGERS_MAX, _OF_ONE_MAX, doors)
        self._known_ones = _Places(_KNOWN_MAX, _KNOWN_MAX, doors)

    async def on_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; called by the loop."""
        host = _host_of(writer)
        try:
            await self._serve(reader, writer, host)
        except (OSError, EOFError):
            pass  # whoever asked is gone, or never asked, or took too long
        except Exception as error:
            self._doors.failed("http", error, host)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        caller = self._known.caller(writer)
        places = self._known_ones if caller else self._strangers
        writer.transport.set_write_buffer_limits(high=0)  # what is drained is the kernel's, and costs us nothing
        with places.taken(host, writer):
            asked = await self._request(reader, caller, host)
        answer = asked if isinstance(asked, HttpAnswer) else await self._answer(asked, host)
        with places.taken(host, writer):
            try:
                async with TimeLimit(_ANSWER_TIMEOUT_S):
                    writer.write(_dump(answer))
                    await writer.drain()
            except TimeoutError:
                writer.transport.abort()  # closed, it would hold the answer for as long as the client likes
                raise

    async def _request(self, reader: asyncio.StreamReader, caller: str, host: str) -> HttpRequest | HttpAnswer:
        try:
            async with TimeLimit(_REQUEST_TIMEOUT_S):
                return await _read(reader, caller)
        except _Bad as bad:
            return HttpAnswer(bad.status, f"{bad}\n".encode())
        except (OSError, EOFError):
            raise
        except Exception as error:
            self._doors.failed("http", error, host)
            return HttpAnswer(400, b"this request cannot be read\n")

    async def _answer(self, request: HttpRequest, host: str) -> HttpAnswer:
        try:
            return await self._handler(request)
        except BookieError as error:
            self._doors.refused("http", f"{request.method} {request.path}: {error}", host)
            return HttpAnswer(500, f"{error}\n".encode(errors="backslashreplace"))
        except Exception as error:
            self._doors.failed("http", error, host)
            return HttpAnswer(500, b"an error of ours: see the log\n")


@contextlib.asynccontextmanager
async def serve(
    handler: Handler, address: Address, doors: Doors | None = None, known: Known | None = None
) -> AsyncIterator[int]:
    """Let `handler` answer at `address`; give the port. Raises RefusedToStart when it is in use."""
    known, doors = known or Known(), doors or NoDoors()
    serving = _Server(handler, doors, known)
    try:
        server = await asyncio.start_server(
            serving.on_connect,
            **where(address),
            limit=_HEAD_BYTES_MAX,
            backlog=_BACKLOG,
            ssl=known.tls,
            ssl_handshake_timeout=_REQUEST_TIMEOUT_S if known.tls is not None else None,
            ssl_shutdown_timeout=_REQUEST_TIMEOUT_S if known.tls is not None else None,
        )
    except OSError as error:
        raise refused(address, error) from error
    port = server.sockets[0].getsockname()[1]
    try:
        # Of handshakes the loop tells us when they are over.
        async with admin_connections.bounded((port,) if known.tls is not None else (), doors, door="http"):
            yield port
    finally:
        server.close()
        with contextlib.suppress(TimeoutError):
            # Python's own loop waits since 3.12 for the connections too, and one may wait for what never answers. Those
            # that are left end with the loop.
            async with TimeLimit(_LINGER_S):
                await server.wait_closed()


async def _read(reader: asyncio.StreamReader, caller: str) -> HttpRequest:
    """Read one request. Raises _Bad, and EOFError when the peer closed the connection in the middle."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        raise _Bad(431) from None
    line, *fields = head.rstrip("\r\n").split("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise _Bad(400)
    if len(fields) > _FIELDS_MAX:
        raise _Bad(431)
    headers = {name.strip().lower(): text.strip() for name, _, text in (field.partition(":") for field in fields)}
    if "transfer-encoding" in headers:
        raise _Bad(501)
    size = headers.get("content-length", "0")
    if not size.isascii() or not size.isdigit():
        raise _Bad(400)
    if len(size) > _SIZE_DIGITS_MAX or int(size) > _BODY_BYTES_MAX:
        raise _Bad(413)
    body = await reader.readexactly(int(size))
    try:
        target = urllib.parse.urlsplit(words[1])
        query = dict(urllib.parse.parse_qsl(target.query, max_num_fields=_FIELDS_MAX))
    except ValueError:  # "//[" begins an address of IPv6, and there is none
        raise _Bad(400) from None
    return HttpRequest(words[0], urllib.parse.unquote(target.path), query, body, caller)


def _host_of(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return plain_host(str(peer[0])) if isinstance(peer, tuple) and peer else "?"


def _dump(answer: HttpAnswer) -> bytes:
    phrase = http.HTTPStatus(answer.status).phrase
    head = (
        f"HTTP/1.1 {answer.status} {phrase}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + answer.body
