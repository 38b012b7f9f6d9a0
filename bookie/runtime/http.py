"""A small HTTP/1.1 server for `/metrics` and a few admin paths: one short request a connection, everything bounded.

No keep-alive, no chunked bodies, no TLS: probes and scripts of operators, not browsers (docs/decisions/0008-http.md).
"""

import asyncio
import contextlib
import http
import ipaddress
import logging
import urllib.parse
from collections.abc import AsyncIterator

from bookie.base.errors import BookieError
from bookie.ports.http import Answer, Handler, Request
from bookie.ports.network import Address
from bookie.runtime.network import refused

log = logging.getLogger(__name__)

# A request is one small packet; who takes longer is no scraper, and who sends more is no script.
_REQUEST_TIMEOUT_S = 5.0
_HEAD_BYTES_MAX = 16 * 1024
_BODY_BYTES_MAX = 64 * 1024
_CONNECTIONS_MAX = 64


class _Bad(Exception):
    """A request that cannot be answered as asked; the status says why."""

    def __init__(self, status: int) -> None:
        super().__init__(http.HTTPStatus(status).phrase)
        self.status = status


@contextlib.asynccontextmanager
async def serve(handler: Handler, address: Address) -> AsyncIterator[int]:
    """Let `handler` answer at `address`; give the port. Raises RefusedToStart when it is in use."""
    open_now = 0

    async def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        try:
            if open_now > _CONNECTIONS_MAX:
                answer = Answer(503, b"too many connections\n")
            else:
                answer = await _answer(handler, reader, writer)
            writer.write(_dump(answer))
            await writer.drain()
        except (TimeoutError, OSError, EOFError):
            pass  # whoever asked is gone, or never asked
        finally:
            open_now -= 1
            writer.close()

    try:
        server = await asyncio.start_server(on_connect, address.host, address.port, limit=_HEAD_BYTES_MAX)
    except OSError as error:
        raise refused(address, error) from error
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def _answer(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Answer:
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            request = await _read(reader, writer)
    except _Bad as bad:
        return Answer(bad.status, f"{bad}\n".encode())
    try:
        return await handler(request)
    except BookieError as error:
        log.warning("http request failed path=%s reason=%s", request.path, error)
        return Answer(500, f"{error}\n".encode())


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    """One request. Raises _Bad, EOFError when the peer went away in the middle."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        raise _Bad(431) from None
    line, *fields = head.rstrip("\r\n").split("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise _Bad(400)
    headers = {name.strip().lower(): text.strip() for name, _, text in (field.partition(":") for field in fields)}
    if "transfer-encoding" in headers:
        raise _Bad(501)
    size = headers.get("content-length", "0")
    if not size.isascii() or not size.isdigit():
        raise _Bad(400)
    if int(size) > _BODY_BYTES_MAX:
        raise _Bad(413)
    body = await reader.readexactly(int(size))
    target = urllib.parse.urlsplit(words[1])
    query = dict(urllib.parse.parse_qsl(target.query))
    return Request(words[0], urllib.parse.unquote(target.path), query, body, is_local=_is_local(writer))


def _is_local(writer: asyncio.StreamWriter) -> bool:
    peer = writer.get_extra_info("peername")
    try:
        return bool(peer) and ipaddress.ip_address(peer[0]).is_loopback
    except ValueError:
        return False


def _dump(answer: Answer) -> bytes:
    phrase = http.HTTPStatus(answer.status).phrase
    head = (
        f"HTTP/1.1 {answer.status} {phrase}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + answer.body
