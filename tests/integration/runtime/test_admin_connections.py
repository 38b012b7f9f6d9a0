"""The admin port has a bound of connections: those that are silent go, those that speak stay."""

import asyncio
import contextlib
import os
import resource
import socket
from pathlib import Path

import pytest

import wait_support
from admin_node_support import WillingNode
from bookie.ports.doors import NoDoors
from bookie.ports.http import HttpAnswer, HttpRequest
from bookie.ports.network import Address
from bookie.runtime import admin, admin_connections, admin_secure, admin_tls, http, http_tls
from tls_support import Authority


def pairs(
    listener: socket.socket, count: int, stack: contextlib.ExitStack
) -> list[tuple[socket.socket, socket.socket]]:
    found = []
    for _ in range(count):
        ours = stack.enter_context(socket.create_connection(listener.getsockname()))
        accepted = stack.enter_context(listener.accept()[0])
        ours.settimeout(20)
        found.append((ours, accepted))
    return found


def test_beyond_the_bound_the_silent_are_shut_and_nothing_else_is_touched() -> None:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        other = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        silent, speaking = pairs(listener, 10, stack), pairs(listener, 4, stack)
        elsewhere = pairs(other, 5, stack)
        ports = frozenset([listener.getsockname()[1]])

        def has_waited() -> bool:
            for ours, accepted in speaking:
                ours.sendall(b"x")
                accepted.recv(1)
            silences = sorted(milliseconds for milliseconds, _ in admin_connections._silences(ports))
            return silences[4] > silences[3] + 100

        wait_support.wait_until(has_waited, "the silent ones to be silent", timeout_s=20)
        before = set(os.listdir("/proc/self/fd"))

        assert admin_connections.shut_silent(ports, 6) == 8

        assert sum(_is_shut(ours) for ours, _ in silent) == 8
        assert not any(_is_shut(ours) for ours, _ in (*speaking, *elsewhere))
        assert set(os.listdir("/proc/self/fd")) == before
        assert not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def test_without_a_descriptor_left_the_silent_are_shut_too() -> None:
    """That is what many connections are for: nobody else is to have a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        silent = pairs(listener, 10, stack)
        ports = frozenset([listener.getsockname()[1]])
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, hard))
        with contextlib.suppress(OSError):
            while True:
                stack.callback(os.close, os.open("/dev/null", os.O_RDONLY))

        assert admin_connections.shut_silent(ports, 6) == 4

        assert sum(_is_shut(ours) for ours, _ in silent) == 4


class Telling(NoDoors):
    """Doors that tell of the first refusal."""

    def __init__(self) -> None:
        self.told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        if not self.told.done():
            self.told.set_result(f"{door}: {reason}")


@pytest.mark.parametrize("which", ["http", "admin", "admin in plain"])
def test_the_ports_over_tls_are_bounded_as_well(tmp_path: Path, which: str) -> None:
    """Who begins no handshake is no connection yet to gRPC or asyncio, and has a descriptor of this process."""
    authority = Authority()
    for path, name in zip(authority.issue("bookie").pem(tmp_path), (admin_tls.KEY, admin_tls.CERTIFICATE), strict=True):
        Path(path).rename(tmp_path / name)
    Path(authority.pem(tmp_path)).rename(tmp_path / admin_tls.AUTHORITIES)
    (tmp_path / admin_tls.CLIENTS).write_text("nobody")
    certificates, anywhere = admin_tls.Certificates(str(tmp_path)), Address("127.0.0.1", 0)

    async def story() -> str:
        doors, tls = Telling(), admin_secure.Secured(anywhere, certificates)
        async with contextlib.AsyncExitStack() as stack:
            if which == "http":
                known = http.Known(frozenset(), http_tls.context(str(tmp_path)))
                port = await stack.enter_async_context(http.serve(unasked, anywhere, doors, known))
            else:
                plain = await stack.enter_async_context(admin.serve(WillingNode(), anywhere, None, doors, tls=tls))
                port = plain if which == "admin in plain" else tls.bound
            for _ in range(admin_connections.CONNECTIONS_MAX + 12):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                await asyncio.sleep(0)  # so that the server takes it
            async with asyncio.timeout(30):
                return await doors.told

    assert asyncio.run(story()).startswith(f"{which.split()[0]}: more than {admin_connections.CONNECTIONS_MAX} conn")


async def unasked(request: HttpRequest) -> HttpAnswer:
    raise AssertionError("nobody asks")


def _is_shut(stream: socket.socket) -> bool:
    stream.setblocking(False)
    try:
        return stream.recv(1) == b""
    except BlockingIOError:
        return False
