"""What strangers say to a living bookie ends at its door: it serves on, starts again, and keeps its word."""

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import hostile_support
import local_support
import server_support
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import codes
from bookie.wire.messages import AddRequest, BookieInfoRequest
from local_support import LocalBookie, LocalFleet

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
HTTP = [
    b"GET //[ HTTP/1.1\r\n\r\n",
    b"GET //[::1 HTTP/1.1\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"GET /metrics?" + b"&".join(b"a%d=1" % number for number in range(1000)) + b" HTTP/1.1\r\n\r\n",
    b"PUT /metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\n\xff\xfe\xfd\xfc",
    b"GET /%ff%00%0a\xff HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 2000,
    b"\x00" * 20_000,
    b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"GET /metrics HTTP/1.1\r\n\r\n" * 500,
    b"POST /metrics HTTP/1.1\r\nContent-Length: 60000\r\n\r\n" + b"[" * 60_000,
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("doors")
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=1) as fleet:
        yield fleet


@pytest.fixture
def bookie(fleet: LocalFleet) -> LocalBookie:
    return fleet.bookies[0]


def said(bookie: LocalBookie) -> str:
    return Path(bookie.facts["log"]).read_text(encoding="utf-8")


def http(port: int, data: bytes) -> bytes:
    """What is answered to `data`, as far as it comes."""
    found = b""
    with contextlib.closing(hostile_support.connected(port)) as stream, contextlib.suppress(ConnectionError):
        stream.sendall(data)
        while chunk := stream.recv(65536):
            found += chunk
    return found


def is_alive(bookie: LocalBookie) -> bool:
    try:
        os.kill(bookie.pid, 0)
    except ProcessLookupError:
        return False
    return hostile_support.add_s(bookie.port, 0) < DEADLINE_S


@pytest.mark.parametrize("request_", HTTP, ids=range(len(HTTP)))
def test_no_http_request_ends_a_bookie(request_: bytes, bookie: LocalBookie) -> None:
    answer = http(bookie.metrics_port, request_)

    assert answer[:5] in (b"HTTP/", b"")
    assert is_alive(bookie)
    assert http(bookie.metrics_port, b"GET /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("size", [65, 70_000, 1_000_000])
def test_a_master_key_that_nothing_can_keep_is_refused(size: int, bookie: LocalBookie) -> None:
    request = server_support.add(0, ledger_id=LedgerId(900 + size), master_key=bytes(size))
    request.body = server_support.body(0, ledger_id=900 + size)

    assert hostile_support.ask(bookie.port, request).status is Status.EBADREQ
    assert is_alive(bookie)


@pytest.mark.parametrize("size", range(24, 32))
def test_a_deferred_add_of_a_head_alone_is_answered(size: int, bookie: LocalBookie) -> None:
    """Its length was looked for behind its end, in the journal's own task: the node ended."""
    ledger_id, entry_id = LedgerId(5000 + size), EntryId(0)
    body = struct.pack(">qqqq", ledger_id, entry_id, -1, 0)[:size]
    request = AddRequest(0, 3, ledger_id, entry_id, server_support.KEY, body, is_deferred=True)

    assert hostile_support.ask(bookie.port, BookieInfoRequest(0, 3, codes.INFO_LIFE)).status is Status.EOK
    assert hostile_support.ask(bookie.port, request).status is Status.EOK
    assert is_alive(bookie)


@pytest.mark.parametrize("data", [b"\xff" * 4, bytes(4), b"\x00\x00\x00\x01\x0a", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_frame_closes_one_connection(data: bytes, bookie: LocalBookie) -> None:
    with contextlib.closing(hostile_support.connected(bookie.port)) as stream:
        stream.sendall(data)

        assert stream.recv(1) == b""

    assert is_alive(bookie)


def test_lines_of_strangers_are_few(bookie: LocalBookie) -> None:
    before = len(said(bookie))

    for _ in range(500):
        with contextlib.closing(hostile_support.connected(bookie.port)) as stream:
            stream.sendall(b"\xff" * 4)
            assert stream.recv(1) == b""

    assert len(said(bookie)) - before < 10_000


def test_after_all_that_it_stops_in_order_and_starts_again(fleet: LocalFleet, bookie: LocalBookie) -> None:
    """The last of these: what strangers left behind is written, and read back."""
    hostile_support.add_s(bookie.port, 0)
    local_support.stop(bookie)
    assert "stopped bookie_id=" in said(bookie)

    with local_support.again(bookie):
        answer = hostile_support.ask(bookie.port, server_support.read(0))

    assert answer.status is Status.EOK
