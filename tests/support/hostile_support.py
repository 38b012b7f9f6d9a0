"""Clients that mean no good, or died: they say nothing, stop in the middle, or read no answers."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import server_support
import wait_support
from bookie.base.errors import Status
from bookie.base.units import MIB
from bookie.wire import v3
from bookie.wire.messages import Request, Response
from client_session import ClientSession

DEADLINE_S = 60.0
ANSWER_BYTES = 256 * 1024  # of each answer that a slow reader does not read
IDLE_BYTES_MAX = 64 * 1024
SLOW_BYTES_MAX = 16 * MIB
AGAIN_BYTES_MAX = 2 * MIB
SLOW_REQUESTS = 400  # of each slow reader: 100 MiB of answers


@dataclass(frozen=True, slots=True)
class Seen:
    """What hostile connections cost a bookie: bytes of its resident memory, seconds of the slowest add meanwhile.

    `again_bytes`: how much more the second wave of idle connections took than the first; a leak would show there.
    """

    idle: int
    idle_bytes_each: int
    cut: int
    slow: int
    slow_bytes_each: int
    add_idle_s: float
    add_slow_s: float
    again_bytes: int

    def problems(self) -> Iterator[str]:
        """What a bookie must not let them cost, where they did. Its limits, not its figures: those are far below."""
        if self.idle_bytes_each >= IDLE_BYTES_MAX:
            yield f"an idle connection costs {self.idle_bytes_each:,} bytes"
        if self.slow_bytes_each >= SLOW_BYTES_MAX:  # its answers must wait in its requests
            yield f"a client that does not read costs {self.slow_bytes_each:,} bytes"
        if self.again_bytes >= AGAIN_BYTES_MAX:
            yield f"memory of connections that are gone is not used again: {self.again_bytes:,} bytes more"

    def __str__(self) -> str:
        idle_ms, slow_ms = 1000 * self.add_idle_s, 1000 * self.add_slow_s
        return (
            f"{self.idle} idle connections: {self.idle_bytes_each:,} bytes each, an add took at most {idle_ms:.1f} ms\n"
            f"{self.slow} slow readers: {self.slow_bytes_each / MIB:.1f} MiB each, beside {self.cut} requests that were"
            f" cut; an add took at most {slow_ms:.1f} ms\n"
            f"as many idle ones again, after all had gone: {self.again_bytes / MIB:.1f} MiB more"
        )


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize()


def files_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def ask(port: int, request: Request) -> Response:
    """One request on a connection of its own."""
    session: ClientSession[str] = ClientSession()
    with connected(port) as stream:
        stream.sendall(b"".join(session.send(request, "asked")))
        while True:
            chunk = stream.recv(65536)
            assert chunk, "the bookie closed the connection"
            for _, response in session.receive(chunk):
                return response


def add_s(port: int, number: int, payload: bytes = b"payload") -> float:
    """Add an entry; return how long that took."""
    began = time.monotonic()
    request = server_support.add(number, body=server_support.body(number, payload=payload))
    assert ask(port, request).status is Status.EOK
    return time.monotonic() - began


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)


@contextlib.contextmanager
def many(port: int, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """`count` connections, each of which says `first`."""
    with contextlib.ExitStack() as stack:
        streams = []
        for _ in range(count):
            stream = stack.enter_context(connected(port))
            if first:
                stream.sendall(first)
            streams.append(stream)
        yield streams


def run(pid: int, port: int, *, idle: int, cut: int, slow: int) -> Seen:
    """Do all of it to one bookie; an honest client is served throughout. Raises AssertionError when it is not."""
    for number in range(20):
        add_s(port, number)
    add_s(port, 1000, bytes(ANSWER_BYTES))
    files, before = files_of(pid), resident_bytes(pid)
    request = b"".join(v3.pack_request(server_support.add(7)))
    greedy = b"".join(b"".join(v3.pack_request(server_support.read(1000, txn=txn))) for txn in range(1, SLOW_REQUESTS))
    with many(port, cut, request[: len(request) // 2]), many(port, slow, greedy) as readers:
        for reader in readers:
            assert reader.recv(1, socket.MSG_PEEK), "the bookie answers, and nobody reads on"
        add_slow_s = max(add_s(port, number) for number in range(20, 40))
        slow_bytes = resident_bytes(pid) - before
    _all_gone(pid, files)

    settled, peaks, add_idle_s = resident_bytes(pid), [0, 0], 0.0
    for wave in (0, 1):
        with many(port, idle):
            wait_support.wait_until(lambda: files_of(pid) >= files + idle, "the connections", timeout_s=DEADLINE_S)
            peaks[wave] = resident_bytes(pid) - settled
            add_idle_s = max(add_idle_s, *(add_s(port, number) for number in range(40, 60)))
        _all_gone(pid, files)
    return Seen(idle, peaks[0] // idle, cut, slow, slow_bytes // slow, add_idle_s, add_slow_s, peaks[1] - peaks[0])


def _all_gone(pid: int, files: int) -> None:
    wait_support.wait_until(lambda: files_of(pid) <= files + 2, "the connections to be gone", timeout_s=DEADLINE_S)
