"""The admin port has a bound of connections: those that are silent go, those that speak stay."""

import contextlib
import os
import resource
import socket

import wait_support
from bookie.runtime import admin_connections


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


def _is_shut(stream: socket.socket) -> bool:
    stream.setblocking(False)
    try:
        return stream.recv(1) == b""
    except BlockingIOError:
        return False
