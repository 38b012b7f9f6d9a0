"""One connection and the link around it: correlation, deadlines, breaks, back-off (wire 9.1, 9.2, 9.5)."""

import asyncio
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError, Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import ClientOptions
from bookie.client.connection import Connection
from bookie.wire import messages, v3
from bookie.wire.framing import FRAME_LIMIT_BYTES
from bookie.wire.messages import Buffer, Response
from client_support import BREAK, MUTE, Fleet, obey, tell
from sim_support import Machine

LEDGER = LedgerId(7)


class Wire:
    """A scripted stream: what the client wrote, and what it shall read."""

    def __init__(self) -> None:
        self.peer = "scripted"
        self.writes: list[bytes] = []
        self.is_closed = False
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()

    def says(self, data: bytes) -> None:
        self._chunks.put_nowait(data)

    async def read(self) -> Buffer:
        return await self._chunks.get()

    def write(self, buffers: Any) -> None:
        self.writes.append(b"".join(buffers))

    async def drained(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class Answers:
    """Collects what each request was told: (context, response or error)."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, Response | BookieError]] = []

    def __call__(self, context: Any, response: Response | None, error: BookieError | None) -> None:
        said = error or response
        assert said is not None
        self.got.append((context, said))


def read_frame(txn: int) -> list[Buffer]:
    return v3.pack_request(messages.ReadRequest(txn, 3, LEDGER, EntryId(txn)))


def answer(txn: int, status: Status = Status.EOK) -> bytes:
    response = messages.ReadResponse(txn, 3, status, LEDGER, EntryId(txn), b"body" if status is Status.EOK else None)
    return b"".join(v3.pack_response(response))


def run(story: Any) -> None:
    async def whole() -> None:
        wire, answers = Wire(), Answers()
        connection = Connection(BookieId("b0"), wire, FRAME_LIMIT_BYTES)
        task = asyncio.ensure_future(connection.run())
        await story(wire, connection, answers)
        connection.close(errors.BookieUnavailable("the test is over"))
        task.cancel()

    Machine().run(whole)


def send(connection: Connection, txn: int, answers: Answers, timeout_ms: int = 5_000) -> None:
    connection.send(txn, read_frame(txn), messages.ReadResponse, answers, txn, timeout_ms)


def test_requests_of_one_turn_leave_in_one_write() -> None:
    async def story(wire: Wire, connection: Connection, answers: Answers) -> None:
        for txn in (1, 2, 3):
            send(connection, txn, answers)
        assert not wire.writes
        await asyncio.sleep(0.01)

        assert wire.writes == [b"".join(b"".join(read_frame(txn)) for txn in (1, 2, 3))]

    run(story)


def test_answers_in_any_order_and_any_chunks_find_their_requests() -> None:
    async def story(wire: Wire, connection: Connection, answers: Answers) -> None:
        for txn in (1, 2, 3):
            send(connection, txn, answers)
        for byte in answer(3) + answer(1) + answer(2, Status.ENOENTRY):
            wire.says(bytes([byte]))
        await asyncio.sleep(0.01)

        assert [context for context, _ in answers.got] == [3, 1, 2]
        assert isinstance(answers.got[2][1], errors.NoSuchEntry)

    run(story)


def test_an_answer_to_another_operation_or_to_nobody_is_dropped() -> None:
    """Wire 9.2: key = (txn, operation)."""

    async def story(wire: Wire, connection: Connection, answers: Answers) -> None:
        send(connection, 1, answers)
        wire.says(b"".join(v3.pack_response(messages.AddResponse(1, 3, Status.EOK, LEDGER, EntryId(1)))))
        wire.says(answer(99))
        await asyncio.sleep(0.01)
        assert not answers.got

        wire.says(answer(1))
        await asyncio.sleep(0.01)
        assert len(answers.got) == 1

    run(story)


def test_a_request_that_is_not_answered_times_out_alone_and_a_late_answer_is_dropped() -> None:
    """Wire 9.3: the connection stays open."""

    async def story(wire: Wire, connection: Connection, answers: Answers) -> None:
        send(connection, 1, answers, timeout_ms=1_000)
        send(connection, 2, answers, timeout_ms=10_000)
        await asyncio.sleep(0.9)
        assert not answers.got
        await asyncio.sleep(0.7)
        assert [(context, type(said)) for context, said in answers.got] == [(1, errors.RequestTimedOut)]

        wire.says(answer(1) + answer(2))
        await asyncio.sleep(0.01)
        assert [context for context, _ in answers.got] == [1, 2]
        assert not wire.is_closed

    run(story)


@pytest.mark.parametrize("end", [b"", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x03abc"])
def test_a_connection_that_ends_or_talks_nonsense_fails_everything_outstanding(end: bytes) -> None:
    """Wire 9.5; one cause, one error: BookieUnavailable."""

    async def story(wire: Wire, connection: Connection, answers: Answers) -> None:
        send(connection, 1, answers)
        send(connection, 2, answers)
        wire.says(end)
        await asyncio.sleep(0.01)

        assert [(context, type(said)) for context, said in answers.got] == [
            (1, errors.BookieUnavailable),
            (2, errors.BookieUnavailable),
        ]
        assert wire.is_closed
        send(connection, 3, answers)
        await asyncio.sleep(0.01)
        assert isinstance(answers.got[-1][1], errors.BookieUnavailable)

    run(story)


def test_requests_wait_for_the_connection_and_then_go_in_order() -> None:
    async def story(fleet: Fleet) -> None:
        async with fleet.client() as client:
            asks = [
                client.shared.pool.ask(BookieId("b0"), messages.ReadRequest(0, 3, LEDGER, EntryId(number)))
                for number in range(5)
            ]
            await asyncio.wait(asks)

            assert [read.entry_id for read in fleet["b0"].asked(messages.ReadRequest)] == list(range(5))
            assert all(isinstance(ask.exception(), errors.NoSuchLedger) for ask in asks)

    tell(story)


def test_a_bookie_that_cannot_be_dialed_is_left_alone_for_the_back_off_and_found_again_after_it() -> None:
    async def story(fleet: Fleet) -> None:
        async with fleet.client() as client:
            await fleet["b0"].stop()

            async def ask() -> BookieError:
                with pytest.raises(errors.BookieError) as caught:
                    await client.bookies.read(BookieId("b0"), LEDGER, EntryId(0))
                return caught.value

            began_ns = fleet.machine.loop.now_ns
            assert all([isinstance(await ask(), errors.BookieUnavailable) for _ in range(50)])
            assert fleet.machine.loop.now_ns - began_ns < 1_000_000_000
            await fleet["b0"].start()
            await asyncio.sleep(6)

            assert isinstance(await ask(), errors.NoSuchLedger)

    tell(story)


def test_a_bookie_that_moved_is_found_at_its_new_address() -> None:
    """Kubernetes gives a restarted pod a new address under the old bookie id (metadata 6.2)."""

    async def story(fleet: Fleet) -> None:
        async with fleet.client() as client:
            assert client.shared.watcher.address(BookieId("b0")) == ("b0", 3181)
            await fleet["b0"].stop()
            await fleet["b0"].start(port=4181)
            await fleet.until(lambda: client.shared.watcher.address(BookieId("b0")) == ("b0", 4181), "the new address")

            with pytest.raises(errors.NoSuchLedger):
                await client.bookies.read(BookieId("b0"), LEDGER, EntryId(0))

    tell(story)


def test_read_only_bookies_are_dialed_and_not_chosen() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet["b0"].stop()
        await fleet["b0"].start(read_only=True)
        async with fleet.client() as client:
            with pytest.raises(errors.NotEnoughBookies, match="there are 2"):
                await client.create()
            with pytest.raises(errors.NoSuchLedger):
                await client.bookies.read(BookieId("b0"), LEDGER, EntryId(0))
            assert [record.is_read_only for record in await client.admin.bookies()] == [True, False, False]

    tell(story)


def test_cancelling_a_call_forgets_its_answer_and_nothing_else() -> None:
    async def story(fleet: Fleet) -> None:
        async with fleet.client() as client:
            fleet["b0"].script = lambda request: MUTE
            call = asyncio.ensure_future(client.bookies.read(BookieId("b0"), LEDGER, EntryId(0)))
            await asyncio.sleep(0.1)
            call.cancel()
            await asyncio.wait([call])
            fleet["b0"].script = obey

            with pytest.raises(errors.NoSuchLedger):
                await client.bookies.read(BookieId("b0"), LEDGER, EntryId(0))

    tell(story)


def test_leaving_the_client_ends_everything_it_began() -> None:
    async def story(fleet: Fleet) -> None:
        async with fleet.client() as client:
            fleet["b0"].script = lambda request: BREAK
            writer = await client.create()
            pending = writer.append_nowait(b"x")
            await asyncio.sleep(0.1)
        await asyncio.wait([pending])

        assert len(asyncio.all_tasks()) <= 1 + len(
            [t for t in asyncio.all_tasks() if "connection from" in t.get_name()]
        )

    tell(story)


def test_unusable_options_are_all_told_at_once() -> None:
    with pytest.raises(errors.BadInput) as caught:
        ClientOptions("nonsense", request_timeout_ms=0, long_poll_ms=10)

    for word in ("nonsense", "request_timeout_ms", "long_poll_ms"):
        assert word in str(caught.value)
