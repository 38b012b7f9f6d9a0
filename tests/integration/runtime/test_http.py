"""The small HTTP server on real sockets: one request, one answer, every bound kept."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bookie.base import errors
from bookie.ports.http import Answer, Request
from bookie.ports.network import Address
from bookie.runtime import http

LOOPBACK = Address("127.0.0.1", 0)
Ask = Callable[[bytes], Awaitable[bytes]]


async def echo(request: Request) -> Answer:
    if request.path == "/broken":
        raise errors.StorageFailed("no disk")
    told = f"{request.method} {request.path} {dict(request.query)} {request.body!r} {request.is_local}"
    return Answer(200, told.encode())


def answer_to(data: bytes, *, ends: bool = False) -> bytes:
    """Send `data` to a new server; return all it answers."""

    async def story() -> bytes:
        async with http.serve(echo, LOOPBACK) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            if ends:
                writer.write_eof()
            try:
                async with asyncio.timeout(20):
                    return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    return asyncio.run(story())


def test_a_request_reaches_the_handler_whole() -> None:
    told = answer_to(b"PUT /a%20b?x=1&y=two HTTP/1.1\r\nHost: h\r\ncontent-LENGTH: 4\r\n\r\nbody")

    assert told.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in told
    assert told.endswith(b"PUT /a b {'x': '1', 'y': 'two'} b'body' True")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / FTP/1.0\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", 413),
        (b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500),
    ],
)
def test_what_cannot_be_answered_is_told_why(data: bytes, status: int) -> None:
    assert answer_to(data).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_request_that_ends_in_the_middle_is_let_go() -> None:
    assert answer_to(b"GET / HT", ends=True) == b""


def test_more_connections_than_are_sane_are_turned_away() -> None:
    async def story() -> bytes:
        async with http.serve(echo, LOOPBACK) as port:
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(64)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            told = await reader.read()
            for _, each in [*idle, (reader, writer)]:
                each.close()
            return told

    assert asyncio.run(story()).startswith(b"HTTP/1.1 503 ")


def test_a_port_in_use_is_told() -> None:
    async def story() -> None:
        async with http.serve(echo, LOOPBACK) as port, http.serve(echo, Address("127.0.0.1", port)):
            raise AssertionError("two servers on one port")

    with pytest.raises(errors.RefusedToStart, match="the port is in use"):
        asyncio.run(story())
