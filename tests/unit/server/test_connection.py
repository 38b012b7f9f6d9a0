"""One connection: answers of a turn leave in one write, and a client that does not keep up is not read any more."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

import server_support
from bookie.base import errors
from bookie.base.errors import Status
from bookie.ports.disk import Buffer
from bookie.ports.tls import Certificate, Tls
from bookie.server.connection import Connection, Gate
from bookie.server.metrics import ServerMetrics
from bookie.server.security import ByCertificate, Security
from bookie.storage.store import EntryStore
from bookie.wire import session, v3
from bookie.wire.framing import FRAME_LIMIT_BYTES, FrameSplitter
from bookie.wire.messages import AuthRequest, Request, StartTlsRequest, StartTlsResponse
from server_support import Asker

HANDSHAKE = b"(from here on encrypted)"


class FakeTls:
    is_server = True


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
    certificate: Certificate | None = None
    shook_hands: asyncio.Event = field(default_factory=asyncio.Event)

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

    async def start_tls(self, tls: Tls, deadline_ns: int) -> Certificate | None:
        self.writes.append(HANDSHAKE)
        await self.shook_hands.wait()
        return self.certificate

    def close(self) -> None:
        self.is_closed = True


def chunk(*requests: Request) -> bytes:
    client: session.ClientSession[int] = session.ClientSession()
    return b"".join(b"".join(client.send(request, 0)) for request in requests)


def connection_of(
    asker: Asker, store: EntryStore, stream: ScriptedStream, security: Security | None = None
) -> Connection:
    gate = Gate(asker.admission, store)
    asker.processor.on_room = gate.open
    return Connection(stream, asker.processor, gate, ServerMetrics(), FRAME_LIMIT_BYTES, security)


def serve(asker: Asker, store: EntryStore, stream: ScriptedStream, security: Security | None = None) -> None:
    asker.node.spawn(connection_of(asker, store, stream, security).run(), "connection")


def statuses_in(data: bytes) -> list[Status]:
    return [v3.unpack_response(frame).status for frame in FrameSplitter().feed(data)]


def answers_in(data: bytes) -> int:
    return len(statuses_in(data))


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


# ---- START_TLS and authentication


def test_start_tls_is_answered_in_plain_and_everything_after_it_encrypted() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        await asker.add(0)
        stream = ScriptedStream([chunk(server_support.read(0), StartTlsRequest(0, 3)), chunk(server_support.read(0))])
        stream.shook_hands.set()
        serve(asker, store, stream, Security(FakeTls()))

        await asker.node.simulation.until(lambda: len(stream.writes) == 3, "an answer after the handshake")

        plain, handshake, encrypted = stream.writes
        assert answers_in(plain) == 2
        assert b"".join(session.pack_response(StartTlsResponse(2, 3, Status.EOK))) in plain
        assert handshake == HANDSHAKE
        assert answers_in(encrypted) == 1

    server_support.run(story)


def test_answers_that_come_during_the_handshake_wait_for_its_end() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        stream = ScriptedStream([chunk(server_support.add(0), StartTlsRequest(0, 3))])
        serve(asker, store, stream, Security(FakeTls()))
        await asker.node.simulation.until(lambda: stream.writes[-1:] == [HANDSHAKE], "the handshake")
        await asker.node.simulation.until(lambda: store.stats.journal_groups == 1, "the add on disk")
        await asker.read(0)  # a turn later: its completion has been called

        assert [answers_in(write) for write in stream.writes if write != HANDSHAKE] == [1]
        stream.shook_hands.set()
        await asker.node.simulation.until(lambda: stream.writes[-1] != HANDSHAKE, "the add's answer")

        assert answers_in(stream.writes[-1]) == 1

    server_support.run(story)


@pytest.mark.parametrize("behind", [b"\x00", chunk(server_support.read(0))])
def test_plain_bytes_behind_start_tls_close_the_connection_unanswered(behind: bytes) -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        stream = ScriptedStream([chunk(StartTlsRequest(0, 3)) + behind])
        serve(asker, store, stream, Security(FakeTls()))

        await asker.node.simulation.until(lambda: stream.is_closed, "the end of the connection")

        assert stream.writes == []

    server_support.run(story)


def test_tls_cannot_be_started_where_it_is_not_configured_nor_twice() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        plain = ScriptedStream([chunk(StartTlsRequest(0, 3), StartTlsRequest(0, 3))])
        serve(asker, store, plain)
        twice = ScriptedStream([chunk(StartTlsRequest(0, 3)), chunk(StartTlsRequest(0, 3))])
        twice.shook_hands.set()
        serve(asker, store, twice, Security(FakeTls()))

        await asker.node.simulation.until(lambda: len(plain.writes) + len(twice.writes) == 4, "all answers")

        assert statuses_in(plain.writes[0]) == [Status.EBADREQ, Status.EBADREQ]
        assert statuses_in(twice.writes[2]) == [Status.EBADREQ]

    server_support.run(story)


def test_nothing_is_done_for_a_client_before_its_proof_and_everything_after_it() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        security = Security(FakeTls(), authentication=ByCertificate(("writer",), ()))
        stream = ScriptedStream(
            [chunk(server_support.add(0)), chunk(StartTlsRequest(0, 3)), chunk(server_support.add(1))],
            certificate=Certificate("me", ("0:writer",)),
        )
        stream.shook_hands.set()
        serve(asker, store, stream, security)

        await asker.node.simulation.until(lambda: len(stream.writes) == 3, "the answer to the second add")

        assert statuses_in(stream.writes[0]) == [Status.EUA, Status.EOK]
        assert statuses_in(stream.writes[2]) == [Status.EOK]
        assert store.entry_runs(server_support.LEDGER) == [(1, 1)]

    server_support.run(story)


def test_a_client_whose_proof_fails_is_told_and_closed() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        security = Security(authentication=ByCertificate(("writer",), ()))
        stream = ScriptedStream([chunk(AuthRequest(0, 3, "BookieAuthZFactory", b"let me in"))])
        connection = connection_of(asker, store, stream, security)

        await connection.run()

        assert statuses_in(stream.writes[0]) == [Status.EUA]
        assert stream.is_closed
        assert connection._metrics.refused_clients == 1

    server_support.run(story)


def test_a_client_that_proves_nothing_for_half_a_minute_is_closed_and_one_that_did_is_not() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        security = Security(FakeTls(), authentication=ByCertificate(("writer",), ()))
        silent = ScriptedStream([])
        proven = ScriptedStream([chunk(StartTlsRequest(0, 3))], certificate=Certificate("me", ("0:writer",)))
        proven.shook_hands.set()
        open_to_all = ScriptedStream([])
        for stream in (silent, proven):
            serve(asker, store, stream, security)
        serve(asker, store, open_to_all)

        await asyncio.sleep(29)
        assert not silent.is_closed
        await asyncio.sleep(2)
        assert silent.is_closed
        await asyncio.sleep(600)

        assert not proven.is_closed
        assert not open_to_all.is_closed

    server_support.run(story)
