"""The small HTTP server on real sockets: one request, one answer, every bound kept."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from bookie.base import errors
from bookie.base.units import KIB, MIB
from bookie.ports.doors import Doors, NoDoors
from bookie.ports.http import Handler, HttpAnswer, HttpRequest
from bookie.ports.network import Address
from bookie.runtime import http

LOOPBACK = Address("127.0.0.1", 0)
Ask = Callable[[bytes], Awaitable[bytes]]


async def echo(request: HttpRequest) -> HttpAnswer:
    if request.path == "/broken":
        raise errors.StorageFailed("no disk")
    if request.path == "/named":
        raise errors.StorageFailed("no /disk/\udcff")
    if request.path == "/wrong":
        raise RecursionError("ours")
    told = f"{request.method} {request.path} {dict(request.query)} {request.body!r} {request.caller}"
    return HttpAnswer(200, told.encode())


class Noting(NoDoors):
    """Doors that remember what they were told."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.failures: list[Exception] = []

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        self.refusals.append(f"{door}: {reason}")

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        self.failures.append(error)


def answer_to(data: bytes, *, ends: bool = False, doors: Doors | None = None) -> bytes:
    """Send `data` to a new server; return all it answers."""

    async def story() -> bytes:
        async with http.serve(echo, LOOPBACK, doors) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            if ends:
                writer.write_eof()
            try:
                async with asyncio.timeout(60):
                    return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    return asyncio.run(story())


def test_each_newcomer_beyond_the_most_ends_another_one_that_waits() -> None:
    """Several may come before the first of those that were ended has gone."""
    ended: list[int] = []
    doors = Noting()

    class Waiting:
        def __init__(self, number: int) -> None:
            self.transport = SimpleNamespace(abort=lambda: ended.append(number))

    places = http._Places(most=3, of_one=3, doors=doors)
    with contextlib.ExitStack() as stack:
        for number in range(6):
            stack.enter_context(places.taken("10.0.0.1", cast(asyncio.StreamWriter, Waiting(number))))

    assert ended == [0, 1, 2]
    assert len(doors.refusals) == 3


@pytest.mark.parametrize(
    ("path", "size"),
    [(b"/", b"\xb2"), (b"/", b"abc"), (b"/", b"-5"), (b"//[", b"0"), (b"/?" + b"a=1&" * 101, b"0")],
)
def test_a_request_that_cannot_be_meant_is_the_caller_s_error_and_none_of_ours(path: bytes, size: bytes) -> None:
    doors = Noting()

    told = answer_to(b"GET " + path + b" HTTP/1.1\r\ncontent-length: " + size + b"\r\n\r\n", doors=doors)

    assert told.startswith(b"HTTP/1.1 400 ")
    assert not doors.failures


def test_an_error_that_is_expected_is_told_to_who_asked_and_at_the_door() -> None:
    doors = Noting()

    told = answer_to(b"GET /named HTTP/1.1\r\n\r\n", doors=doors)

    assert told.startswith(b"HTTP/1.1 500 ")
    assert told.endswith(b"no /disk/\\udcff\n"), "the name of a file need not be a text"
    assert doors.refusals == ["http: GET /named: no /disk/\udcff"]
    assert not doors.failures


def test_who_is_known_may_let_several_connections_wait() -> None:
    async def story() -> None:
        async with http.serve(echo, LOOPBACK) as port, asyncio.timeout(60):
            waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
            for reader, writer in waiting:
                writer.write(b"GET /x HTTP/1.1\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
                writer.close()

    asyncio.run(story())


def test_a_request_reaches_the_handler_whole() -> None:
    told = answer_to(b"PUT /a%20b?x=1&y=two HTTP/1.1\r\nHost: h\r\ncontent-LENGTH: 4\r\n\r\nbody")

    assert told.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in told
    assert told.endswith(b"PUT /a b {'x': '1', 'y': 'two'} b'body' local")


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
        (b"GET /wrong HTTP/1.1\r\n\r\n", 500),
        (b"GET //[ HTTP/1.1\r\n\r\n", 400),
        (b"GET //[::1 HTTP/1.1\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET /?" + b"&".join(b"a=1" for _ in range(500)) + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 101 + b"\r\n", 431),
    ],
)
def test_what_cannot_be_answered_is_told_why(data: bytes, status: int) -> None:
    assert answer_to(data).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_request_that_ends_in_the_middle_is_let_go() -> None:
    assert answer_to(b"GET / HT", ends=True) == b""


HALF = b"GET / HTTP/1.1\r\nHost: "
WHOLE = b"GET / HTTP/1.1\r\n\r\n"
OURS = "127.0.9.9"  # where the callers are that these servers know
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def asks(port: int, data: bytes, host: str) -> Client:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0), limit=2**26)
    writer.write(data)
    return reader, writer


async def told_at_once(port: int, host: str, data: bytes = WHOLE) -> bytes:
    reader, writer = await asks(port, data, host)
    async with asyncio.timeout(4):  # less than any of our own deadlines
        told = await reader.read(13)
    writer.close()
    return told


async def let_wait(clients: Iterable[Client], port: int, hosts: Sequence[str]) -> list[bytes]:
    """What callers from `hosts` are told beside `clients`."""
    try:
        return [await told_at_once(port, host) for host in hosts]
    finally:
        for _, writer in clients:
            writer.transport.abort()


def serving(handler: Handler = echo) -> contextlib.AbstractAsyncContextManager[int]:
    return http.serve(handler, Address("0.0.0.0", 0), known=http.Known(frozenset({OURS})))


@pytest.mark.parametrize("addresses", [1, 3, 100])
def test_whoever_has_asked_is_answered_however_many_have_not(addresses: int) -> None:
    """24 halves of requests from each of three addresses shut out everybody, for 5 s at a time."""

    async def story() -> tuple[list[bytes], int]:
        async with serving() as port:
            hosts = [f"127.0.1.{number}" for number in range(1, addresses + 1)]
            halves = [await asks(port, HALF, host) for host in hosts for _ in range(max(4, 90 // addresses))]
            told = [await told_at_once(port, host) for host in ("127.0.2.1", hosts[0], hosts[-1], OURS, "127.0.2.1")]
            still_open = sum(not reader.at_eof() for reader, _ in halves)
            await let_wait(halves, port, [])
            return told, still_open

    told, still_open = asyncio.run(story())
    assert told == [b"HTTP/1.1 200 "] * 5
    assert 0 < still_open <= (24 if addresses == 1 else 64)


def test_whoever_takes_no_answer_keeps_nobody_out_either() -> None:
    async def much(request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, bytes(8 * MIB if request.path == "/much" else 0))

    async def story() -> list[bytes]:
        async with serving(much) as port:
            deaf = []
            for number in range(90):
                reader, writer = await asks(port, b"GET /much HTTP/1.1\r\n\r\n", f"127.0.1.{number % 3 + 1}")
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                deaf.append((reader, writer))
            return await let_wait(deaf, port, ["127.0.2.1", "127.0.1.1", OURS])

    assert asyncio.run(story()) == [b"HTTP/1.1 200 "] * 3


def narrow(writers: list[asyncio.StreamWriter]) -> http.Known:
    """Of what a caller is sent his kernel takes a few KiB at a time. The server's side goes into `writers`."""

    class Narrow(http.Known):
        def caller(self, writer: asyncio.StreamWriter) -> str:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * KIB)
            writers.append(writer)
            return ""

    return Narrow()


async def deaf(port: int) -> Client:
    """Somebody who asks, and takes no answer before he is told to."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=client)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(WHOLE)
    return reader, writer


def test_whoever_takes_no_answer_is_let_go_in_the_end_with_what_is_held_for_him(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """His place was free for the next one after 30 s, and his answer stayed in memory for as long as he liked."""
    monkeypatch.setattr(http, "_ANSWER_TIMEOUT_S", 0.05)
    writers: list[asyncio.StreamWriter] = []

    async def large(request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, bytes(MIB))

    async def story() -> int:
        async with http.serve(large, LOOPBACK, known=narrow(writers)) as port, asyncio.timeout(10):
            _, writer = await deaf(port)
            while not writers or not writers[0].is_closing():  # noqa: ASYNC110 - nobody tells it
                await asyncio.sleep(0)
            held = writers[0].transport.get_write_buffer_size()
            writer.transport.abort()
            return held

    assert asyncio.run(story()) == 0


def test_who_asks_half_is_let_go_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_REQUEST_TIMEOUT_S", 0.05)

    assert answer_to(HALF) == b""


def test_answers_that_nobody_takes_are_bounded_as_requests_are_that_nobody_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_OF_ONE_MAX", 2)
    writers: list[asyncio.StreamWriter] = []
    doors = Noting()

    async def large(request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, bytes(MIB))

    async def story() -> list[bool]:
        async with http.serve(large, LOOPBACK, doors, narrow(writers)) as port, asyncio.timeout(20):
            clients = []
            for count in range(1, 4):
                clients.append(await deaf(port))
                while len(writers) < count or not writers[-1].transport.get_write_buffer_size():  # noqa: ASYNC110
                    await asyncio.sleep(0)
            while not doors.refusals:  # noqa: ASYNC110 - nobody tells it
                await asyncio.sleep(0)
            for _, writer in clients:
                writer.transport.abort()
            return [writer.is_closing() for writer in writers]

    assert asyncio.run(story()) == [True, False, False]


def test_an_answer_of_any_size_is_given_once_its_client_takes_it_and_not_while_it_is_held_here() -> None:
    """Held here for clients that take nothing, answers would cost memory beyond every bound of places."""

    async def small(request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, bytes(60 * KIB))  # below what asyncio holds before it calls a connection full

    writers: list[asyncio.StreamWriter] = []

    async def story() -> tuple[bool, int]:
        async with http.serve(small, LOOPBACK, known=narrow(writers)) as port, asyncio.timeout(60):
            reader, writer = await deaf(port)
            while not writers or not writers[0].transport.get_write_buffer_size():  # noqa: ASYNC110 - nobody tells it
                await asyncio.sleep(0)
            is_done = writers[0].is_closing()
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            told = await reader.read()
            writer.close()
            return is_done, len(told.partition(b"\r\n\r\n")[2])

    assert asyncio.run(story()) == (False, 60 * KIB)


def test_no_stranger_takes_the_place_of_whom_we_know() -> None:
    """A slow probe of this machine; a stranger's of the same age goes."""

    async def story() -> tuple[bytes, bytes, int]:
        async with serving() as port:
            known, stranger = await asks(port, HALF, OURS), await asks(port, HALF, "127.0.1.1")
            halves = [await asks(port, HALF, f"127.0.1.{1 + number % 100}") for number in range(300)]
            told = []
            for reader, writer in (known, stranger):
                writer.write(b"here\r\n\r\n")
                try:
                    told.append(await reader.read(13))
                except ConnectionResetError:
                    told.append(b"")
            still_open = sum(not reader.at_eof() for reader, _ in halves)
            await let_wait([known, stranger, *halves], port, [])
            return told[0], told[1], still_open

    known, stranger, still_open = asyncio.run(story())
    assert (known, stranger) == (b"HTTP/1.1 200 ", b"")
    assert still_open <= 64


def test_a_port_in_use_is_told() -> None:
    async def story() -> None:
        async with http.serve(echo, LOOPBACK) as port, http.serve(echo, Address("127.0.0.1", port)):
            raise AssertionError("two servers on one port")

    with pytest.raises(errors.RefusedToStart, match="the port is in use"):
        asyncio.run(story())


def test_an_answer_that_never_comes_holds_up_no_end_of_the_server() -> None:
    """Python's own loop, without uvloop, waits since 3.12 for every connection when a server ends."""

    async def never(_: HttpRequest) -> HttpAnswer:
        asked.set()
        return await asyncio.Future()

    async def story() -> None:
        async with asyncio.timeout(60):
            async with http.serve(never, LOOPBACK) as port:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                await asked.wait()
            writer.close()

    asked = asyncio.Event()
    asyncio.run(story())
