"""One connection: answers of a turn leave in one write, and a client that does not keep up is not read any more."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

import server_support
from bookie.base import errors
from bookie.base.budgets import Budgets
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.secret import Secret
from bookie.base.units import MIB, NS_PER_MS, NS_PER_S
from bookie.ports.disk import Buffer
from bookie.ports.doors import Doors
from bookie.ports.tls import Certificate, Tls
from bookie.server import connection as of_client
from bookie.server import wrong_passwords
from bookie.server.connection import Backpressure, ServerConnection
from bookie.server.connections import Connections
from bookie.server.metrics import ServerMetrics
from bookie.server.reads import Replier
from bookie.server.security import ByCertificate, ByPassword, Security
from bookie.storage.store import EntryStore
from bookie.wire import sasl, session, v3
from bookie.wire.framing import FRAME_LIMIT_BYTES, FrameSplitter
from bookie.wire.messages import (
    AddRun,
    AuthRequest,
    AuthResponse,
    BookieInfoRequest,
    Incoming,
    ReadLacRequest,
    ReadResponse,
    Request,
    StartTlsRequest,
    StartTlsResponse,
)
from client_session import ClientSession
from server_support import Asker
from story_support import story

BUDGETS = Budgets()
HANDSHAKE = b"(from here on encrypted)"


class FakeTls:
    is_server = True


@dataclass
class ScriptedStream:
    """Gives chunks in order; remembers every write. `drained` waits while `waits`."""

    chunks: list[bytes]
    peer: str = "test"
    writes: list[bytes] = field(default_factory=list)
    reads: int = 0
    is_closed: bool = False
    is_aborted: bool = False
    unstuffed: asyncio.Event = field(default_factory=asyncio.Event)
    waits: bool = False
    certificate: Certificate | None = None
    on_room: Callable[[], None] | None = None
    on_chunk: Callable[[Buffer], bool] | None = None
    unsent_bytes: int = 0
    shook_hands: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> Buffer:
        self.reads += 1
        if self.chunks:
            return self.chunks.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    def write(self, buffers: Sequence[Buffer]) -> None:
        self.writes.append(b"".join(buffers))

    is_over: bool = False

    @property
    def is_stuffed(self) -> bool:
        return False

    def goes(self) -> None:
        """The client is gone: the kernel says so, whether or not anybody reads."""
        self.is_over = True
        if self.on_room is not None:
            self.on_room()

    async def drained(self) -> None:
        if self.waits:
            await self.unstuffed.wait()

    async def start_tls(self, tls: Tls, deadline_ns: int) -> Certificate | None:
        self.writes.append(HANDSHAKE)
        await self.shook_hands.wait()
        return self.certificate

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


def chunk(*requests: Request) -> bytes:
    client: ClientSession[int] = ClientSession()
    return b"".join(b"".join(client.send(request, 0)) for request in requests)


def connection_of(
    asker: Asker,
    store: EntryStore,
    stream: ScriptedStream,
    security: Security | None = None,
    doors: Doors | None = None,
    budgets: Budgets = BUDGETS,
) -> ServerConnection:
    backpressure = Backpressure(asker.admission, store)
    asker.processor.on_room = backpressure.open
    doors = doors or server_support.StrictDoors()
    connections = Connections(budgets, asker.processor.clock, doors)
    return ServerConnection(
        stream, asker.processor, backpressure, ServerMetrics(), FRAME_LIMIT_BYTES, doors, connections, security
    )


def serve(asker: Asker, store: EntryStore, stream: ScriptedStream, security: Security | None = None) -> None:
    asker.node.spawn(connection_of(asker, store, stream, security).run(), "connection")


def statuses_in(data: bytes) -> list[Status]:
    return [v3.unpack_response(frame).status for frame in FrameSplitter().feed(data)]


def answers_in(data: bytes) -> int:
    return len(statuses_in(data))


@story(server_support.run)
async def test_the_answers_of_one_group_commit_leave_in_one_write(asker: Asker, store: EntryStore) -> None:
    stream = ScriptedStream([chunk(*(server_support.add(number) for number in range(500)))])
    serve(asker, store, stream)

    await asker.node.simulation.until(
        lambda: sum(map(answers_in, stream.writes)) == 500, "five hundred answers", timeout_s=10
    )

    assert len(stream.writes) <= store.stats.journal_groups


@pytest.mark.parametrize("of_a_chunk", [5_000, 50])
@story(server_support.run)
async def test_tiny_requests_leave_the_others_their_turns(asker: Asker, store: EntryStore, *, of_a_chunk: int) -> None:
    """A mebibyte of them, in one chunk or in many that have gathered, held the loop for seconds: probes and honest
    clients ran into their time-outs."""
    count = 5_000

    requests = [BookieInfoRequest(number, 3, 2) for number in range(count)]
    chunks = [chunk(*requests[start : start + of_a_chunk]) for start in range(0, count, of_a_chunk)]
    stream = ScriptedStream(chunks)
    connection = connection_of(asker, store, stream)
    asker.node.spawn(connection.run(), "connection")
    most = told = 0
    while told < count:
        await asyncio.sleep(0)
        now = sum(map(answers_in, stream.writes))
        most, told = max(most, now - told), now

    assert most <= 100


def test_a_chunk_of_short_runs_leaves_the_others_their_turns() -> None:
    """Each part of such a chunk weighs less than a turn; nobody counted them together."""
    count = 5_000

    async def story(asker: Asker, store: EntryStore) -> None:
        adds = [server_support.add(number, is_deferred=True) for number in range(count)]
        connection = connection_of(asker, store, ScriptedStream([chunk(*adds)]))
        asker.node.spawn(connection.run(), "connection")
        most = taken = 0
        while taken < count:
            await asyncio.sleep(0)
            now = store.stats.adds
            most, taken = max(most, now - taken), now

        assert most <= 2_500

    server_support.run(story)


@pytest.mark.parametrize("kind", ["of new ledgers", "refused", "one of them wrong"])
@story(server_support.run)
async def test_adds_that_must_be_handled_one_by_one_leave_the_others_their_turns(
    asker: Asker, store: EntryStore, *, kind: str
) -> None:
    """Adds of two thousand ledgers came together, and were handled in one go: 150 ms where the index alone knew the
    ledgers. So were those of one ledger with a wrong one among them."""
    count = 2_000
    places = [(7, number) if kind == "one of them wrong" else (number, 0) for number in range(count)]
    adds = [
        server_support.add(entry, ledger_id=LedgerId(ledger), body=server_support.body(entry, ledger_id=ledger))
        for ledger, entry in places
    ]
    if kind == "one of them wrong":
        adds[-1].body = server_support.body(count, ledger_id=7)
    store.health.set_read_only(kind == "refused")
    stream = ScriptedStream([chunk(*adds)])
    serve(asker, store, stream)
    refused = most = handled = 0
    while handled < count:
        await asyncio.sleep(0)
        refused += sum(status is not Status.EOK for data in stream.writes for status in statuses_in(data))
        stream.writes.clear()
        now = store.stats.adds + refused
        most, handled = max(most, now - handled), now

    assert most <= 100


@story(server_support.run)
async def test_nothing_more_of_a_chunk_is_done_for_a_client_that_is_gone(asker: Asker, store: EntryStore) -> None:
    stream = ScriptedStream([chunk(*(BookieInfoRequest(number, 3, 2) for number in range(5_000)))])
    serve(asker, store, stream)
    while not stream.writes:  # noqa: ASYNC110, no event tells that: it is a turn of the loop that counts
        await asyncio.sleep(0)

    stream.goes()
    await asker.node.simulation.until(lambda: stream.is_closed, "the end")

    assert sum(map(answers_in, stream.writes)) < 1_000


@story(server_support.run, in_flight_bytes_max=1000)
async def test_while_too_much_is_in_flight_nothing_more_is_read(asker: Asker, store: EntryStore) -> None:
    first, second = (chunk(server_support.add(number), server_support.add(number + 1)) for number in (0, 2))
    stream = ScriptedStream([first, second])
    serve(asker, store, stream)

    await asyncio.sleep(0)
    assert asker.admission.is_full
    assert stream.reads == 1

    await asker.node.simulation.until(lambda: sum(map(answers_in, stream.writes)) == 4, "all answers")


@story(server_support.run)
async def test_a_client_that_does_not_take_its_answers_is_not_read_any_more(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    request = server_support.read(0)
    stream = ScriptedStream([chunk(request), chunk(request)], waits=True)
    serve(asker, store, stream)

    await asker.node.simulation.until(lambda: len(stream.writes) == 1, "the first answer")
    assert stream.reads == 1
    stream.waits = False
    stream.unstuffed.set()

    await asker.node.simulation.until(lambda: len(stream.writes) == 2, "the second answer")


@story(server_support.run)
async def test_nothing_is_read_for_a_client_that_is_gone_however_much_it_asked_for(
    asker: Asker, store: EntryStore
) -> None:
    """Nobody read its socket meanwhile, so its end was not seen: 20 of them went on for all their 8,000 entries."""

    await asker.add(0)
    may_read, reads = asyncio.Event(), [0]

    async def read_lac(ledger_id: LedgerId) -> tuple[bytes | None, Buffer | None]:
        reads[0] += 1
        await may_read.wait()
        return None, server_support.body(0)

    store.read_lac = read_lac  # type: ignore[method-assign]
    stream = ScriptedStream([chunk(*(ReadLacRequest(0, 3, server_support.LEDGER) for _ in range(400)))])
    connection = connection_of(asker, store, stream)
    asker.node.spawn(connection.run(), "connection")
    await asker.node.simulation.until(lambda: reads[0] > 0, "reads under way")
    under_way = reads[0]

    stream.goes()
    await asker.node.simulation.until(lambda: stream.is_closed, "the connection's end")
    may_read.set()
    await asyncio.sleep(1)

    assert (reads[0], stream.writes, connection.untaken_bytes) == (under_way, [], 0)
    assert connection.queued_bytes == 0


@story(server_support.run)
async def test_a_connection_that_says_nonsense_is_closed_and_the_next_one_served(
    asker: Asker, store: EntryStore
) -> None:
    bad = ScriptedStream([bytes(4)])
    good = ScriptedStream([chunk(server_support.add(0))])
    serve(asker, store, bad)
    serve(asker, store, good)

    await asker.node.simulation.until(lambda: bool(good.writes), "the good one's answer")

    assert bad.is_closed
    assert bad.writes == []


@story(server_support.run)
async def test_a_reset_is_nobody_s_error(asker: Asker, store: EntryStore) -> None:
    class Broken(ScriptedStream):
        async def read(self) -> Buffer:
            raise errors.BookieUnavailable("reset by peer")

    stream = Broken([])
    serve(asker, store, stream)

    await asker.node.simulation.until(lambda: stream.is_closed, "the connection ended")


@pytest.mark.parametrize("error", [AssertionError, RecursionError, MemoryError, OverflowError, UnicodeError])
@story(server_support.run)
async def test_whatever_a_connection_raises_ends_that_connection_and_nothing_else(
    asker: Asker, store: EntryStore, *, error: type[Exception]
) -> None:
    class Wrong(ScriptedStream):
        async def read(self) -> Buffer:
            raise error("ours")

    stream, met = Wrong([]), server_support.MetDoors()

    await connection_of(asker, store, stream, doors=met).run()

    assert stream.is_closed
    assert [(door, type(seen)) for door, seen in met.met] == [("connection", error)]


# ---- chunks handled in the call that brings them


@dataclass
class LiveStream(ScriptedStream):
    """Gives chunks when they come, as a socket does: first to whoever takes them at once."""

    came: asyncio.Event = field(default_factory=asyncio.Event)
    is_waiting: bool = False

    async def read(self) -> Buffer:
        while not self.chunks:
            self.came.clear()
            self.is_waiting = True
            await self.came.wait()
        self.is_waiting = False
        return self.chunks.pop(0)

    def comes(self, data: bytes) -> bool:
        """Return True when the chunk was taken at once."""
        assert self.on_chunk is not None
        if self.is_waiting and not self.chunks and self.on_chunk(data):
            return True
        self.chunks.append(data)
        self.came.set()
        return False


async def live_stream(
    asker: Asker, store: EntryStore, doors: Doors | None = None, budgets: Budgets = BUDGETS
) -> tuple[LiveStream, ServerConnection]:
    """A connection whose client has asked something, been answered, and is waited for."""
    stream = LiveStream([chunk(BookieInfoRequest(99, 3, 2))])
    connection = connection_of(asker, store, stream, doors=doors, budgets=budgets)
    asker.node.spawn(connection.run(), "connection")
    await asker.node.simulation.until(lambda: bool(stream.writes) and stream.is_waiting, "the first answer")
    stream.writes.clear()
    return stream, connection


def sent(client: ClientSession[int], *requests: Request) -> bytes:
    """Return frames of one client, which numbers its requests from 1 on."""
    return b"".join(b"".join(client.send(request, 0)) for request in requests)


def txns_in(writes: Sequence[bytes]) -> list[int]:
    return [v3.unpack_response(frame).txn for data in writes for frame in FrameSplitter().feed(data)]


def add_of(entry_id: int, ledger_id: int = server_support.LEDGER) -> Request:
    body = server_support.body(entry_id, ledger_id=ledger_id)
    return server_support.add(entry_id, ledger_id=LedgerId(ledger_id), body=body)


@story(server_support.run)
async def test_a_read_is_answered_in_the_call_that_brings_it(asker: Asker, store: EntryStore) -> None:
    """It waited for three turns of the loop, each as long as what all adds of a load need: the task's, one for the
    answer, and the one it came in."""
    await asker.add(0)
    stream, _ = await live_stream(asker, store)

    assert stream.comes(chunk(server_support.read(0)))

    assert [statuses_in(data) for data in stream.writes] == [[Status.EOK]]


@story(server_support.run)
async def test_adds_that_are_taken_at_once_are_answered_after_their_sync(asker: Asker, store: EntryStore) -> None:
    await asker.add(0, ledger_id=LedgerId(7), body=server_support.body(0, ledger_id=7))
    await asker.add(0, ledger_id=LedgerId(8), body=server_support.body(0, ledger_id=8))
    stream, _ = await live_stream(asker, store)
    groups, added = store.stats.journal_groups, store.stats.adds

    assert stream.comes(chunk(add_of(1, 7), add_of(1, 8)))

    assert (stream.writes, store.stats.adds, store.stats.journal_groups) == ([], added + 2, groups)
    await asker.node.simulation.until(lambda: sum(map(answers_in, stream.writes)) == 2, "the answers")
    assert store.stats.journal_groups > groups


@story(server_support.run, in_flight_bytes_max=100)
async def test_nothing_is_taken_at_once_while_too_much_is_in_flight(asker: Asker, store: EntryStore) -> None:
    other, _ = await live_stream(asker, store)
    stream, _ = await live_stream(asker, store)
    added = store.stats.adds
    other.comes(chunk(add_of(0)))
    assert asker.admission.is_full

    assert not stream.comes(chunk(add_of(1)))
    await asyncio.sleep(0)

    assert store.stats.adds == added + 1
    await asker.node.simulation.until(lambda: bool(stream.writes), "the answer, when there is room")


@pytest.mark.parametrize("is_begun", [False, True])
@story(server_support.run)
async def test_what_cannot_be_taken_at_once_is_answered_by_the_task_each_once_and_in_order(
    asker: Asker, store: EntryStore, *, is_begun: bool
) -> None:
    await asker.add(0)
    stream, _ = await live_stream(asker, store)
    client: ClientSession[int] = ClientSession()
    info = BookieInfoRequest(0, 3, 2)
    first = sent(client, server_support.read(0), info, add_of(0, 7), add_of(0, 8), info)
    last = sent(client, add_of(0, 9))
    size = len(last) // 2 if is_begun else len(last)

    assert not stream.comes(first + last[:size])
    assert txns_in(stream.writes) == [1]
    count = 5 if is_begun else 6
    await asker.node.simulation.until(lambda: len(txns_in(stream.writes)) == count, "answers to those that came")
    stream.comes(last[size:] + sent(client, info))

    await asker.node.simulation.until(lambda: len(txns_in(stream.writes)) == 7, "the other answers")
    assert sorted(txns_in(stream.writes)) == [1, 2, 3, 4, 5, 6, 7]
    assert [txn for txn in txns_in(stream.writes) if txn in (1, 2, 5, 7)] == [1, 2, 5, 7]
    assert store.stats.adds == 4


@story(server_support.run)
async def test_a_frame_that_has_begun_is_counted_however_its_chunk_came(asker: Asker, store: EntryStore) -> None:
    stream, connection = await live_stream(asker, store)
    connections = connection._connections
    frame = chunk(add_of(0))

    stream.comes(frame[:20])
    await asker.node.simulation.until(lambda: connections.unfinished.used_bytes == len(frame), "it is counted")
    stream.comes(frame[20:])
    await asker.node.simulation.until(lambda: bool(stream.writes), "the answer")

    assert (connections.unfinished.used_bytes, sum(map(answers_in, stream.writes))) == (0, 1)


@story(server_support.run)
async def test_nonsense_that_is_taken_at_once_ends_the_connection_as_elsewhere(asker: Asker, store: EntryStore) -> None:
    met = server_support.MetDoors()
    stream, _ = await live_stream(asker, store, met)

    assert not stream.comes(bytes(4))
    await asker.node.simulation.until(lambda: stream.is_closed, "the end")

    assert (met.met, stream.writes) == ([], [])


@story(server_support.run)
async def test_an_error_of_ours_at_once_ends_that_connection_alone(asker: Asker, store: EntryStore) -> None:
    met = server_support.MetDoors()
    stream, connection = await live_stream(asker, store, met)

    def fail(request: Incoming, to: Replier) -> Sequence[AddRun] | None:
        raise IndexError("ours")

    connection._handle = fail

    assert not stream.comes(chunk(server_support.read(0)))
    await asker.node.simulation.until(lambda: stream.is_closed, "the end")

    assert [(door, type(seen)) for door, seen in met.met] == [("connection", IndexError)]


@story(server_support.run)
async def test_what_is_taken_at_once_is_no_more_than_a_turn_s_work(asker: Asker, store: EntryStore) -> None:
    stream, _ = await live_stream(asker, store)
    count = 2 * of_client._TURN_WEIGHT_MAX  # each weighs 1
    adds = chunk(
        *(
            server_support.add(
                0, ledger_id=LedgerId(number), body=server_support.body(0, ledger_id=number), is_deferred=True
            )
            for number in range(count)
        )
    )
    assert len(adds) <= of_client._AT_ONCE_BYTES_MAX

    assert not stream.comes(adds)

    assert 0 < store.stats.adds <= of_client._TURN_WEIGHT_MAX
    await asker.node.simulation.until(lambda: sum(map(answers_in, stream.writes)) == count, "all answers")


@story(server_support.run)
async def test_of_a_client_that_has_said_nothing_yet_nothing_is_taken_at_once(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    stream = LiveStream([])
    asker.node.spawn(connection_of(asker, store, stream).run(), "connection")
    await asker.node.simulation.until(lambda: stream.is_waiting, "it is waited for")

    assert not stream.comes(chunk(server_support.read(0)))

    await asker.node.simulation.until(lambda: bool(stream.writes), "the answer")


# ---- START_TLS and authentication


@story(server_support.run)
async def test_start_tls_is_answered_in_plain_and_everything_after_it_encrypted(
    asker: Asker, store: EntryStore
) -> None:
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


@story(server_support.run)
async def test_the_handshake_follows_the_answer_to_start_tls_in_the_same_turn_of_the_loop(
    asker: Asker, store: EntryStore
) -> None:
    """A client that has the answer sends its first TLS bytes: read in between, they would count as plain ones."""
    before = [BookieInfoRequest(number, 3, 2) for number in range(63)]  # with START_TLS they fill a turn
    stream = ScriptedStream([chunk(*before, StartTlsRequest(0, 3))])
    serve(asker, store, stream, Security(FakeTls()))

    while not stream.writes:  # noqa: ASYNC110, no event tells that: it is a turn of the loop that counts
        await asyncio.sleep(0)

    assert [answers_in(write) if write != HANDSHAKE else write for write in stream.writes] == [64, HANDSHAKE]


@story(server_support.run)
async def test_answers_that_come_during_the_handshake_wait_for_its_end(asker: Asker, store: EntryStore) -> None:
    stream = ScriptedStream([chunk(server_support.add(0), StartTlsRequest(0, 3))])
    serve(asker, store, stream, Security(FakeTls()))
    await asker.node.simulation.until(lambda: stream.writes[-1:] == [HANDSHAKE], "the handshake")
    await asker.node.simulation.until(lambda: store.stats.journal_groups == 1, "the add on disk")
    await asker.read(0)  # a turn later: its completion has been called

    assert [answers_in(write) for write in stream.writes if write != HANDSHAKE] == [1]
    stream.shook_hands.set()
    await asker.node.simulation.until(lambda: stream.writes[-1] != HANDSHAKE, "the add's answer")

    assert answers_in(stream.writes[-1]) == 1


@pytest.mark.parametrize("behind", [b"\x00", chunk(server_support.read(0))])
@story(server_support.run)
async def test_plain_bytes_behind_start_tls_close_the_connection_unanswered(
    asker: Asker, store: EntryStore, *, behind: bytes
) -> None:
    stream = ScriptedStream([chunk(StartTlsRequest(0, 3)) + behind])
    serve(asker, store, stream, Security(FakeTls()))

    await asker.node.simulation.until(lambda: stream.is_closed, "the end of the connection")

    assert stream.writes == []


@story(server_support.run)
async def test_tls_cannot_be_started_where_it_is_not_configured_nor_twice(asker: Asker, store: EntryStore) -> None:
    plain = ScriptedStream([chunk(StartTlsRequest(0, 3), StartTlsRequest(0, 3))])
    serve(asker, store, plain)
    twice = ScriptedStream([chunk(StartTlsRequest(0, 3)), chunk(StartTlsRequest(0, 3))])
    twice.shook_hands.set()
    serve(asker, store, twice, Security(FakeTls()))

    await asker.node.simulation.until(lambda: len(plain.writes) + len(twice.writes) == 4, "all answers")

    assert statuses_in(plain.writes[0]) == [Status.EBADREQ, Status.EBADREQ]
    assert statuses_in(twice.writes[2]) == [Status.EBADREQ]


@story(server_support.run)
async def test_nothing_is_done_for_a_client_before_its_proof_and_everything_after_it(
    asker: Asker, store: EntryStore
) -> None:
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
    assert await store.entry_ranges(server_support.LEDGER) == [(1, 1)]


@story(server_support.run)
async def test_only_a_whole_request_of_somebody_proven_keeps_a_place(asker: Asker, store: EntryStore) -> None:
    request = chunk(server_support.read(0))
    security = Security(FakeTls(), authentication=ByCertificate(("writer",), ()))
    half, whole, unproven = (ScriptedStream([data]) for data in (request[:-1], request, request))
    proven = ScriptedStream([chunk(StartTlsRequest(0, 3))], certificate=Certificate("me", ("0:writer",)))
    proven.shook_hands.set()
    guests = [connection_of(asker, store, stream) for stream in (half, whole)]
    guests += [connection_of(asker, store, stream, security) for stream in (unproven, proven)]
    for guest in guests:
        asker.node.spawn(guest.run(), "connection")

    await asker.node.simulation.until(lambda: len(proven.writes) == 2 and unproven.reads > 1, "all are read")

    assert [guest.has_spoken for guest in guests] == [False, True, False, True]


@story(server_support.run)
async def test_a_client_whose_proof_fails_is_told_and_closed(asker: Asker, store: EntryStore) -> None:
    security = Security(authentication=ByCertificate(("writer",), ()))
    stream = ScriptedStream([chunk(AuthRequest(0, 3, "BookieAuthZFactory", b"let me in"))])
    connection = connection_of(asker, store, stream, security)

    await connection.run()

    assert statuses_in(stream.writes[0]) == [Status.EUA]
    assert stream.is_closed
    assert connection._metrics.refused_clients == 1


@story(server_support.run)
async def test_a_client_that_proves_nothing_for_half_a_minute_is_closed_and_one_that_did_is_not(
    asker: Asker, store: EntryStore
) -> None:
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


@story(server_support.run)
async def test_before_its_proof_a_client_sends_small_frames_and_large_ones_after_it(
    asker: Asker, store: EntryStore
) -> None:
    large = server_support.add(0)
    large.body = server_support.body(0, payload=bytes(100_000))

    security = Security(FakeTls(), authentication=ByCertificate(("writer",), ()))
    met = server_support.MetDoors()
    frame = chunk(large)
    early = ScriptedStream([frame])
    proven = ScriptedStream([chunk(StartTlsRequest(0, 3)), frame], certificate=Certificate("me", ("0:writer",)))
    proven.shook_hands.set()

    await connection_of(asker, store, early, security, met).run()
    serve(asker, store, proven, security)
    await asker.node.simulation.until(lambda: len(proven.writes) == 3, "the answer to the add")

    assert early.is_closed
    assert not early.writes
    assert await store.entry_ranges(server_support.LEDGER) == [(0, 0)]


class Guesser(ScriptedStream):
    """A client that answers the bookie's challenge with a wrong password."""

    async def read(self) -> Buffer:
        if self.chunks or self.is_closed:
            return self.chunks.pop(0) if self.chunks else b""
        await asyncio.sleep(0)  # its challenge leaves at the end of the turn
        await asyncio.sleep(0)
        answer = v3.unpack_response(FrameSplitter().feed(self.writes[0])[0])
        assert isinstance(answer, AuthResponse)
        guess = sasl.DigestClient("bookkeeper", Secret("a guess"), "cnonce").answer(answer.payload)
        assert guess is not None
        self.is_closed = True
        return chunk(AuthRequest(2, 3, sasl.PLUGIN, guess))


@story(server_support.run)
async def test_each_wrong_password_makes_the_next_one_of_that_address_wait_longer(
    asker: Asker, store: EntryStore
) -> None:
    users = {"bookkeeper": Secret("the password")}
    security = Security(authentication=ByPassword(users, ".*", asker.node.world.entropy))
    clock, took_ns = asker.processor.clock, []
    for peer in ["10.0.0.1:1"] * 12 + ["10.0.0.2:1"]:
        stream, met = Guesser([chunk(AuthRequest(1, 3, sasl.PLUGIN, b""))], peer), server_support.MetDoors()
        began_ns = clock.monotonic_ns()
        connection = connection_of(asker, store, stream, security, met)
        await connection.run()
        took_ns.append(clock.monotonic_ns() - began_ns)
        assert not met.met
        assert statuses_in(stream.writes[-1])[-1] is Status.EUA

    *first, other = took_ns
    assert max(first[: wrong_passwords.FREE]) < 10 * NS_PER_MS
    assert first[-1] > NS_PER_S
    assert first[wrong_passwords.FREE + 1 :] == sorted(first[wrong_passwords.FREE + 1 :])
    assert other < 10 * NS_PER_MS


LARGE = bytes(4 * MIB)


def large(txn: int) -> ReadResponse:
    return ReadResponse(txn, 3, Status.EOK, server_support.LEDGER, EntryId(0), LARGE)


@story(server_support.run)
async def test_an_answer_of_which_a_part_was_taken_counts_whole(asker: Asker, store: EntryStore) -> None:
    """The loop holds a buffer to its last byte: 80 clients that took half of one answer held twice the bound."""
    stream = ScriptedStream([])
    connection = connection_of(asker, store, stream)

    for number in (1, 2):
        stream.unsent_bytes = number * 3 * MIB
        connection.reply(large(number))
        connection._flush()
    first = sum(map(len, stream.writes[:1]))

    for unsent, held in ((7 * MIB, 2 * first), (first + 1, 2 * first), (first, first), (1, first), (0, 0)):
        stream.unsent_bytes = unsent
        assert connection.untaken_bytes == held, unsent


@story(server_support.run)
async def test_a_large_answer_counts_before_the_turn_ends(asker: Asker, store: EntryStore) -> None:
    """A hundred connections that answer in one turn each saw that the others held nothing."""
    stream = ScriptedStream([])
    connection = connection_of(asker, store, stream)

    connection.reply(large(1))
    counted = connection._all_unsent.total_bytes
    connection._flush()

    assert counted > len(LARGE)
    assert connection._all_unsent.total_bytes == 0  # the kernel took it


@story(server_support.run)
async def test_who_is_cut_off_holds_nothing_and_who_is_closed_counts_until_all_has_left(
    asker: Asker, store: EntryStore
) -> None:
    cut, closed = ScriptedStream([]), ScriptedStream([b"this is no frame: its length is too large"])
    one, other = connection_of(asker, store, cut), connection_of(asker, store, closed, doors=server_support.MetDoors())

    one.cut("a reason")
    other._written_bytes = closed.unsent_bytes = MIB
    other._writes.append(of_client._Write(0, MIB))
    await other.run()

    assert (cut.is_aborted, closed.is_closed, closed.is_aborted) == (True, True, False)
    assert other._all_unsent.total_bytes == MIB
    closed.unsent_bytes = 0
    other._all_unsent.look(0)
    assert other._all_unsent.total_bytes == 0
