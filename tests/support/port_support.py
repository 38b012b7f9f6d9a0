"""Ports of the loopback interface for servers that begin to listen later, and ports at which nobody listens.

They lie below those that the kernel gives to connections (ip_local_port_range, from 32768 on). Any connection beside a
test may take one of those before its server has it; and a client that goes on calling a server which is down may reach
itself there, and keep the port from the server that comes back.
"""

from __future__ import annotations

import functools
import os
import random
import socket

_START, _END = 10_240, 20_480


class _Part:
    """The ports of one worker of a run, in turn. Another run on this machine begins somewhere else."""

    def __init__(self) -> None:
        count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        size = (_END - _START) // count
        self._start = _START + number * size
        self._end = self._start + size
        self._next = random.SystemRandom().randrange(self._start, self._end)

    def block(self, count: int) -> int:
        for _ in range(self._end - self._start):
            first, end = self._next, self._next + count
            self._next = self._next + 1 if self._next + 1 < self._end else self._start
            if end <= self._end and all(map(_is_free, range(first, end))):
                self._next = end if end < self._end else self._start
                return first
        raise AssertionError(f"no {count} free ports in a row from {self._start} to {self._end}")


_part = functools.cache(_Part)


def free_block(count: int) -> int:
    """The first of `count` ports in a row that are free."""
    return _part().block(count)


def free_port() -> int:
    return free_block(1)


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
