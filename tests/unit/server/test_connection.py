"""One connection: answers of a turn leave in one write, and a client that does not keep up is not read any more."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

import server_support
from bookie.base import errors
from bookie.ports.disk import Buffer
from bookie.server.connection import Connection, Gate
from bookie.server.metrics import ServerMetrics
from bookie.storage.store import EntryStore
from bookie.wire import session, v3
from bookie.wire.framing import FRAME_LIMIT_BYTES
from bookie.wire.messages import Request
from server_support import Asker


@dataclass
class ScriptedStream:
    """Gives chunks in order; remembers every write. `drained` waits while `is_stuffed`."""

    chunks: list[bytes]
    peer: str = "test"
    writes: list[bytes] = field(default_factory=list)
    reads: int = 0
    is_closed: bool = False
    unstuffed: asyncio.Event = field(default_factory=asyncio.Event)
    is_stuffed: bool = False

    async def read(self) -> Buffer:
        self.reads += 1
        if self.chunks:
            return self.chunks.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    def write(self, buffers: Sequence[Buffer]) -> None:
        self.writes.append(b"".join(buffers))

    async def drained(self) -> None:
        if self.is_stuffed:
            await self.unstuffed.wait()

    def close(self) -> None:
        self.is_closed = True


def chunk(*requests: Request) -> bytes:
    client: session.ClientSession[int] = session.ClientSession()
    return b"".join(b"".join(client.send(request, 0)) for request in requests)


def connection_of(asker: Asker, store: EntryStore, stream: ScriptedStream) -> Connection:
    gate = Gate(asker.admission, store)
    asker.processor.on_room = gate.open
    return Connection(stream, asker.processor, gate, ServerMetrics(), FRAME_LIMIT_BYTES)


def serve(asker: Asker, store: EntryStore, stream: ScriptedStream) -> None:
    asker.node.spawn(connection_of(asker, store, stream).run(), "connection")


def answers_in(data: bytes) -> int:
    count = 0
    while data:
        size = int.from_bytes(data[:4], "big")
        v3.unpack_response(data[4 : 4 + size])
        data = data[4 + size :]
        count += 1
    return count


def test_the_answers_of_one_group_commit_leave_in_one_write() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        stream = ScriptedStream([chunk(*(server_support.add(number) for number in range(500)))])
        serve(asker, store, stream)

        await asker.node.simulation.until(
            lambda: sum(map(answers_in, stream.writes)) == 500, "five hundred answers", timeout_s=10
        )

        assert len(stream.writes) <= store.stats.journal_groups

    server_support.run(story)


def test_while_too_much_is_in_flight_nothing_more_is_read() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        first, second = (chunk(server_support.add(number), server_support.add(number + 1)) for number in (0, 2))
        stream = ScriptedStream([first, second])
        serve(asker, store, stream)

        await asyncio.sleep(0)
        assert asker.admission.is_full
        assert stream.reads == 1

        await asker.node.simulation.until(lambda: sum(map(answers_in, stream.writes)) == 4, "all answers")

    server_support.run(story, in_flight_bytes_max=1000)


def test_a_client_that_does_not_take_its_answers_is_not_read_any_more() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        await asker.add(0)
        request = server_support.read(0)
        stream = ScriptedStream([chunk(request), chunk(request)], is_stuffed=True)
        serve(asker, store, stream)

        await asker.node.simulation.until(lambda: len(stream.writes) == 1, "the first answer")
        assert stream.reads == 1
        stream.is_stuffed = False
        stream.unstuffed.set()

        await asker.node.simulation.until(lambda: len(stream.writes) == 2, "the second answer")

    server_support.run(story)


def test_a_connection_that_says_nonsense_is_closed_and_the_next_one_served() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        bad = ScriptedStream([bytes(4)])
        good = ScriptedStream([chunk(server_support.add(0))])
        serve(asker, store, bad)
        serve(asker, store, good)

        await asker.node.simulation.until(lambda: bool(good.writes), "the good one's answer")

        assert bad.is_closed
        assert bad.writes == []

    server_support.run(story)


def test_a_reset_is_nobody_s_error() -> None:
    class Broken(ScriptedStream):
        async def read(self) -> Buffer:
            raise errors.BookieUnavailable("reset by peer")

    async def story(asker: Asker, store: EntryStore) -> None:
        stream = Broken([])
        serve(asker, store, stream)

        await asker.node.simulation.until(lambda: stream.is_closed, "the connection ended")

    server_support.run(story)


def test_a_broken_assumption_of_ours_is_not_swallowed() -> None:
    class Wrong(ScriptedStream):
        async def read(self) -> Buffer:
            raise AssertionError("ours")

    async def story(asker: Asker, store: EntryStore) -> None:
        with pytest.raises(AssertionError, match="ours"):
            await connection_of(asker, store, Wrong([])).run()

    server_support.run(story)
