"""Many connections, many ledgers, entries of any size: adds straight onto one bookie's port, protocol version 2.

Version 2 because its frames are cheap to make: what grows shall be the bookie's cost, not ours. Digests are left zero,
since a bookie does not look at them, and ledgers are in no metadata, which it does not look at either.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from dataclasses import dataclass
from typing import cast

from bookie.wire import codes, v2

# Prefix, header, master key, then the entry: ids, LAC, length, digest.
_ADD = struct.Struct(f">IBBH{codes.MASTER_KEY_SIZE}sqqqqI")
_ANSWER = struct.Struct(">IBBHiqq")
_PREFIX_SIZE = 4
_KEY = b"\x01" * codes.MASTER_KEY_SIZE
IN_FLIGHT_MAX = 4000
IN_FLIGHT_BYTES_MAX = 16 << 20
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Shape:
    """What a swarm looks like. Adds go to `ledgers` ledgers in turn, the first of them `ledger_first`; at most
    `in_flight_max` at once."""

    connections: int
    ledgers: int
    size_bytes: int
    ledger_first: int
    in_flight_max: int = IN_FLIGHT_MAX

    @property
    def window(self) -> int:
        """Adds in flight on each connection."""
        total = min(self.in_flight_max, max(1, IN_FLIGHT_BYTES_MAX // self.size_bytes))
        return max(1, total // self.connections)


class Swarm:
    """Makes frames and counts answers, for all connections. Raises what a bookie answered other than OK."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.answered = 0
        self.is_sending = False
        self.failure: str | None = None
        self.changed = asyncio.Event()
        self._payload = bytes(shape.size_bytes)
        self.made = 0
        self._size = _ADD.size - _PREFIX_SIZE + shape.size_bytes

    def frames(self, count: int) -> bytes:
        """Return the next `count` adds."""
        pieces = []
        for turn in range(self.made, self.made + count):
            entry, ledger = divmod(turn, self.shape.ledgers)
            ids = (self.shape.ledger_first + ledger, entry, entry - 1, entry * self.shape.size_bytes)
            pieces += [_ADD.pack(self._size, v2.VERSION, codes.V2Opcode.ADDENTRY, 0, _KEY, *ids, 0), self._payload]
        self.made += count
        return b"".join(pieces)

    def answers(self, data: bytes) -> int:
        """Count whole answers."""
        for _, _, _, _, code, ledger, entry in _ANSWER.iter_unpack(data):
            if code != 0:
                self.fail(f"ledger {ledger} entry {entry} was answered {code}")
        count = len(data) // _ANSWER.size
        self.answered += count
        self.changed.set()
        return count

    def fail(self, reason: str) -> None:
        self.failure = self.failure or reason
        self.is_sending = False
        self.changed.set()


def acknowledges(port: int, ledger: int) -> bool:
    """True when a bookie on this machine takes an add to this ledger now."""
    swarm = Swarm(Shape(1, 1, 1, ledger))
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as probe:
            probe.sendall(swarm.frames(1))
            answer = probe.recv(_ANSWER.size, socket.MSG_WAITALL)
    except OSError:  # nobody there yet, or no longer
        return False
    return len(answer) == _ANSWER.size and swarm.answers(answer) == 1 and swarm.failure is None


class _Connection(asyncio.Protocol):
    def __init__(self, swarm: Swarm) -> None:
        self.transport: asyncio.Transport
        self._swarm = swarm
        self._kept = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not by isinstance: uvloop's transports are no asyncio ones.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data = self._kept + data
        end = len(data) - len(data) % _ANSWER.size
        self._kept = data[end:]
        count = self._swarm.answers(data[:end])
        if count and self._swarm.is_sending:
            self.transport.write(self._swarm.frames(count))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._swarm.is_sending:
            self._swarm.fail(f"the bookie ended a connection: {exc}")


class Running:
    """A connected swarm."""

    def __init__(self, swarm: Swarm, connections: list[_Connection]) -> None:
        self._swarm = swarm
        self._connections = connections

    async def send(self, *, seconds: float, adds_min: int = 0) -> tuple[int, float]:
        """Keep every connection's window full for `seconds` and at least `adds_min` adds; wait for all answers.

        Returns how many adds were acknowledged, and the seconds that took. Raises AssertionError if one failed.
        """
        swarm, window = self._swarm, self._swarm.shape.window
        began, began_s = swarm.answered, time.perf_counter()
        sent_before = swarm.made
        swarm.is_sending = True
        for connection in self._connections:
            connection.transport.write(swarm.frames(window))
        while swarm.is_sending:
            await self._wait_news()
            if time.perf_counter() - began_s >= seconds and swarm.answered - began >= adds_min:
                swarm.is_sending = False
        while swarm.failure is None and swarm.answered - began < swarm.made - sent_before:
            await self._wait_news()
        assert swarm.failure is None, swarm.failure
        return swarm.answered - began, time.perf_counter() - began_s

    async def _wait_news(self) -> None:
        self._swarm.changed.clear()
        async with asyncio.timeout(PATIENCE_S):
            await self._swarm.changed.wait()

    def close(self) -> None:
        for connection in self._connections:
            connection.transport.close()


async def connect(port: int, shape: Shape) -> Running:
    """Open all connections of a swarm to a bookie on this machine."""
    swarm = Swarm(shape)
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(shape.connections):
        _, connection = await loop.create_connection(lambda: _Connection(swarm), "127.0.0.1", port)
        connections.append(connection)
    return Running(swarm, connections)
