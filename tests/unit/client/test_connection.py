"""One connection and the link around it: correlation, deadlines, breaks, back-off (spec/wire.md#W42, W43, W46)."""

import asyncio
import itertools
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError, Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import ClientOptions
from bookie.client.net.add_frames import AddFrames
from bookie.client.net.calls import AddBatch, Call
from bookie.client.net.connection import Connection
from bookie.wire import messages, session, v2, v3
from bookie.wire.digest import Digest, DigestType
from bookie.wire.framing import FRAME_LIMIT_BYTES
from bookie.wire.messages import Buffer, Response
from client_support import BREAK, MUTE, Fleet, obey, tell
from sim_support import Machine
from story_support import story

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


class Reset(Wire):
    """A stream that the other side breaks off."""

    async def read(self) -> Buffer:
        raise errors.BookieUnavailable("connection with scripted broke: reset")


@pytest.mark.parametrize("answered", [False, True])
def test_a_break_before_the_first_answer_says_what_may_be_the_matter(*, answered: bool) -> None:
    async def whole() -> None:
        wire: Any = Reset()
        connection = Connection(BookieId("b"), wire, FRAME_LIMIT_BYTES, version=3, doubt=": it may not accept us")
        connection.answered = answered

        await connection.run()

        doubt = "" if answered else ": it may not accept us"
        assert str(connection.ended_by) == f"connection with scripted broke: reset{doubt}"

    asyncio.run(whole())


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


def run(story: Any, *, version: int = 3) -> None:
    async def whole() -> None:
        wire, answers = Wire(), Answers()
        connection = Connection(BookieId("b0"), wire, FRAME_LIMIT_BYTES, version=version)
        task = asyncio.ensure_future(connection.run())
        await story(wire, connection, answers)
        connection.close(errors.BookieUnavailable("the test is over"))
        task.cancel()

    Machine().run(whole)


def send(connection: Connection, txn: int, answers: Answers, timeout_ms: int = 5_000) -> None:
    request = messages.ReadRequest(txn, 3, LEDGER, EntryId(txn))
    connection.send(Call(request, connection.version, answers, txn, timeout_ms))


@story(run)
async def test_requests_of_one_turn_leave_in_one_write(wire: Wire, connection: Connection, answers: Answers) -> None:
    for txn in (1, 2, 3):
        send(connection, txn, answers)
    assert not wire.writes
    await asyncio.sleep(0.01)

    assert wire.writes == [b"".join(b"".join(read_frame(txn)) for txn in (1, 2, 3))]


@story(run)
async def test_answers_in_any_order_and_any_chunks_find_their_requests(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    for txn in (1, 2, 3):
        send(connection, txn, answers)
    for byte in answer(3) + answer(1) + answer(2, Status.ENOENTRY):
        wire.says(bytes([byte]))
    await asyncio.sleep(0.01)

    assert [context for context, _ in answers.got] == [3, 1, 2]
    assert isinstance(answers.got[2][1], errors.NoSuchEntry)


@story(run)
async def test_an_answer_to_another_operation_or_to_nobody_is_dropped(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    """Wire 9.2: key = (txn, operation)."""

    send(connection, 1, answers)
    wire.says(b"".join(v3.pack_response(messages.AddResponse(1, 3, Status.EOK, LEDGER, EntryId(1)))))
    wire.says(answer(99))
    await asyncio.sleep(0.01)
    assert not answers.got

    wire.says(answer(1))
    await asyncio.sleep(0.01)
    assert len(answers.got) == 1


@story(run)
async def test_a_request_that_is_not_answered_times_out_alone_and_a_late_answer_is_dropped(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    """Wire 9.3: the connection stays open."""

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


@pytest.mark.parametrize("end", [b"", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x03abc"])
@story(run)
async def test_a_connection_that_ends_or_talks_nonsense_fails_everything_outstanding(
    wire: Wire, connection: Connection, answers: Answers, *, end: bytes
) -> None:
    """Wire 9.5; one cause, one error: BookieUnavailable."""

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


@story(tell)
async def test_requests_wait_for_the_connection_and_then_go_in_order(fleet: Fleet) -> None:
    async with fleet.client() as client:
        asks = [
            client.shared.pool.ask(BookieId("b0"), messages.ReadRequest(0, 3, LEDGER, EntryId(number)))
            for number in range(5)
        ]
        await asyncio.wait(asks)

        assert [read.entry_id for read in fleet["b0"].asked(messages.ReadRequest)] == list(range(5))
        assert all(isinstance(ask.exception(), errors.NoSuchLedger) for ask in asks)


@story(tell)
async def test_a_bookie_that_cannot_be_dialed_is_left_alone_for_the_back_off_and_found_again_after_it(
    fleet: Fleet,
) -> None:
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


@story(tell)
async def test_a_bookie_that_closes_before_any_answer_is_told_of_so_in_the_back_off_too(fleet: Fleet) -> None:
    fleet["b0"].script = lambda _: BREAK
    async with fleet.client() as client:
        for _ in range(3):  # the first one dials, the others come in the back-off
            with pytest.raises(errors.BookieUnavailable, match=r"closed the connection before it answered anything$"):
                await client.bookies.read(BookieId("b0"), LEDGER, EntryId(0))


@story(tell)
async def test_a_bookie_that_moved_is_found_at_its_new_address(fleet: Fleet) -> None:
    """Kubernetes gives a restarted pod a new address under the old bookie id (spec/metadata.md#M24)."""

    async with fleet.client() as client:
        assert client.shared.watcher.address(BookieId("b0")) == ("b0", 3181)
        await fleet["b0"].stop()
        await fleet["b0"].start(port=4181)
        await fleet.until(lambda: client.shared.watcher.address(BookieId("b0")) == ("b0", 4181), "the new address")

        with pytest.raises(errors.NoSuchLedger):
            await client.bookies.read(BookieId("b0"), LEDGER, EntryId(0))


@story(tell)
async def test_read_only_bookies_are_dialed_and_not_chosen(fleet: Fleet) -> None:
    await fleet["b0"].stop()
    await fleet["b0"].start(read_only=True)
    async with fleet.client() as client:
        with pytest.raises(errors.NotEnoughBookies, match="there are 2"):
            await client.create()
        with pytest.raises(errors.NoSuchLedger):
            await client.bookies.read(BookieId("b0"), LEDGER, EntryId(0))
        assert [record.is_read_only for record in await client.admin.bookies()] == [True, False, False]


@story(tell)
async def test_cancelling_a_call_forgets_its_answer_and_nothing_else(fleet: Fleet) -> None:
    async with fleet.client() as client:
        fleet["b0"].script = lambda request: MUTE
        call = asyncio.ensure_future(client.bookies.read(BookieId("b0"), LEDGER, EntryId(0)))
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.wait([call])
        fleet["b0"].script = obey

        with pytest.raises(errors.NoSuchLedger):
            await client.bookies.read(BookieId("b0"), LEDGER, EntryId(0))


@story(tell)
async def test_leaving_the_client_ends_everything_it_began(fleet: Fleet) -> None:
    async with fleet.client() as client:
        fleet["b0"].script = lambda request: BREAK
        writer = await client.create()
        pending = writer.append_nowait(b"x")
        await asyncio.sleep(0.1)
    await asyncio.wait([pending])

    assert len(asyncio.all_tasks()) <= 1 + len([t for t in asyncio.all_tasks() if "connection from" in t.get_name()])


def test_unusable_options_are_all_told_at_once() -> None:
    with pytest.raises(errors.BadInput) as caught:
        ClientOptions("nonsense", request_timeout_ms=0, long_poll_ms=-1)

    for word in ("nonsense", "request_timeout_ms", "long_poll_ms"):
        assert word in str(caught.value)


# ---- adds ------------------------------------------------------------------------------------------------------------


class Owner:
    """Sends adds, and collects what it is told of them."""

    def __init__(self) -> None:
        self.acked: list[int] = []
        self.turns: list[int] = []
        self.errors: list[BookieError] = []
        self._digest = Digest(DigestType.CRC32C, b"")
        self._next_txn = itertools.count(1).__next__

    def batch(self, entry_ids: Iterable[int], *, version: int = 3, timeout_ms: int = 5_000) -> AddBatch:
        frames = AddFrames(LEDGER, self._digest, self._next_txn, version=version)
        adds: dict[bytes, Any] = {}
        sent: list[bytes] = []
        for entry_id in entry_ids:
            frame, done = frames.pack(EntryId(entry_id), -1, 0, b"payload")
            adds[done] = SimpleNamespace(owner=self, entry_id=entry_id)
            sent.append(frame)
        return AddBatch(self, adds, sent, sum(map(len, sent)), timeout_ms)

    def on_acks(self, origin: object, adds: list[Any]) -> None:
        self.acked += [add.entry_id for add in adds]
        self.turns.append(len(adds))

    def on_failed(self, origin: object, error: BookieError) -> None:
        self.errors.append(error)


def framed(done: bytes) -> bytes:
    return len(done).to_bytes(4, "big") + done


@pytest.mark.parametrize("version", [2, 3])
@story(run, given=("version",))
async def test_the_answers_to_a_turn_of_adds_are_told_at_once_in_one_piece_or_in_many(
    wire: Wire, connection: Connection, answers: Answers, *, version: int
) -> None:
    owner = Owner()
    batch = owner.batch(range(300), version=version)  # ids of one and of two bytes
    connection.send_adds(batch)
    assert wire.writes == [b"".join(batch.frames)]
    said = b"".join(map(framed, batch.adds))

    wire.says(said[:2_000])
    wire.says(said[2_000:2_001])
    wire.says(said[2_001:])
    await asyncio.sleep(0.01)

    assert owner.acked == list(range(300))
    assert len(owner.turns) <= 3
    assert not owner.errors


@story(run)
async def test_answers_to_adds_come_in_any_order_and_between_others(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    one, other = Owner(), Owner()
    first, second = one.batch([0, 1, 2]), other.batch([7])
    connection.send_adds(first)
    connection.send_adds(second)
    send(connection, 1_000, answers)
    zero, middle, last = map(framed, first.adds)

    wire.says(last + framed(next(iter(second.adds))) + answer(1_000) + middle)
    await asyncio.sleep(0.01)
    assert (one.acked, other.acked, len(answers.got)) == ([2, 1], [7], 1)

    wire.says(zero + zero)
    await asyncio.sleep(0.01)
    assert one.acked == [2, 1, 0]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("status", sorted(set(Status) - {Status.EOK, Status.EUNKNOWNLEDGERSTATE}))
@story(run, given=("version",))
async def test_an_add_that_is_refused_is_told_to_its_owner_and_no_other(
    wire: Wire, connection: Connection, answers: Answers, *, version: int, status: Status
) -> None:
    owner, other = Owner(), Owner()
    connection.send_adds(owner.batch([0], version=version))
    connection.send_adds(other.batch([1], version=version))
    txn = 1 if version == 3 else 0
    refused = messages.AddResponse(txn, version, status, LEDGER, EntryId(0))
    wire.says(b"".join(session.pack_response(refused)))
    await asyncio.sleep(0.01)

    assert [type(error) for error in owner.errors] == [errors.BY_STATUS[status]]
    assert not owner.acked
    assert not other.errors


@story(run)
async def test_a_done_add_in_another_form_than_the_usual_counts_too(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    """A status of its own length is legal protobuf, though nobody writes it (header, then the rest)."""

    owner = Owner()
    batch = owner.batch([5])
    connection.send_adds(batch)
    usual = next(iter(batch.adds))
    wire.says(framed(usual.replace(b"\x10\x00\xaa\x06", b"\x10\x80\x00\xaa\x06")))
    await asyncio.sleep(0.01)

    assert owner.acked == [5]


@pytest.mark.parametrize("version", [2, 3])
@story(run, given=("version",))
async def test_adds_that_are_not_answered_in_time_fail_their_owner_once_and_are_forgotten(
    wire: Wire, connection: Connection, answers: Answers, *, version: int
) -> None:
    owner, patient = Owner(), Owner()
    batch = owner.batch([0, 1, 2], version=version, timeout_ms=1_000)
    connection.send_adds(batch)
    connection.send_adds(patient.batch([3], version=version, timeout_ms=60_000))
    wire.says(framed(next(iter(batch.adds))))
    await asyncio.sleep(0.9)
    assert not owner.errors
    await asyncio.sleep(0.7)
    assert [type(error) for error in owner.errors] == [errors.RequestTimedOut]

    wire.says(b"".join(map(framed, batch.adds)))
    await asyncio.sleep(0.01)
    assert owner.acked == [0]
    assert not wire.is_closed
    assert not patient.errors


@story(run)
async def test_adds_that_were_answered_do_not_stay_in_memory(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    owner = Owner()
    for turn in range(40):
        batch = owner.batch(range(turn * 100, turn * 100 + 100))
        connection.send_adds(batch)
        wire.says(b"".join(map(framed, batch.adds)))
        await asyncio.sleep(0.05)

    assert len(owner.acked) == 4_000
    assert not connection._adds
    assert len(connection._deadlines) <= 6


@story(run)
async def test_a_connection_that_breaks_tells_every_owner_of_adds_once(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    one, other = Owner(), Owner()
    for number in range(3):
        connection.send_adds(one.batch([number]))
    connection.send_adds(other.batch([9]))
    wire.says(b"")
    await asyncio.sleep(0.01)
    assert [len(owner.errors) for owner in (one, other)] == [1, 1]

    connection.send_adds(one.batch([10]))
    await asyncio.sleep(0.01)
    assert isinstance(one.errors[1], errors.BookieUnavailable)


# ---- version 2: answers without transaction ids ----------------------------------------------------------------------


def v2_read(entry_id: int, *, fencing: bool = False) -> messages.ReadRequest:
    return messages.ReadRequest(0, 2, LEDGER, EntryId(entry_id), b"k" * 20 if fencing else None, is_fencing=fencing)


def v2_answer(entry_id: int, status: Status = Status.EOK) -> bytes:
    body = b"body" if status is Status.EOK else None
    return b"".join(v2.pack_response(messages.ReadResponse(0, 2, status, LEDGER, EntryId(entry_id), body)))


@story(run, version=2)
async def test_on_v2_a_second_question_of_the_same_entry_waits_for_the_answer_to_the_first(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    """Wire 9.2 and trap 8: a plain read and a fencing one cannot be told apart by their answers."""

    connection.send(Call(v2_read(5), 2, answers, "plain", 5_000))
    connection.send(Call(v2_read(5, fencing=True), 2, answers, "fencing", 5_000))
    connection.send(Call(v2_read(6), 2, answers, "other", 5_000))
    await asyncio.sleep(0.01)
    assert b"".join(wire.writes) == b"".join(v2.pack_request(v2_read(5)) + v2.pack_request(v2_read(6)))

    wire.says(v2_answer(5, Status.ENOENTRY))
    await asyncio.sleep(0.01)
    assert [context for context, _ in answers.got] == ["plain"]
    assert wire.writes[-1] == b"".join(v2.pack_request(v2_read(5, fencing=True)))
    wire.says(v2_answer(5))
    await asyncio.sleep(0.01)
    assert [context for context, _ in answers.got] == ["plain", "fencing"]


@story(run, version=2)
async def test_on_v2_the_late_answer_to_a_plain_read_is_not_taken_for_proof_of_fencing(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    connection.send(Call(v2_read(5), 2, answers, "plain", 500))
    await asyncio.sleep(1.5)
    assert [type(said) for _, said in answers.got] == [errors.RequestTimedOut]
    connection.send(Call(v2_read(5, fencing=True), 2, answers, "fencing", 5_000))

    wire.says(v2_answer(5, Status.ENOENTRY))
    await asyncio.sleep(0.01)
    assert len(answers.got) == 1
    wire.says(v2_answer(5, Status.EIO))
    await asyncio.sleep(0.01)

    assert [type(said) for _, said in answers.got[1:]] == [errors.StorageFailed]


@story(run, version=2)
async def test_on_v2_a_question_that_waits_for_anothers_answer_times_out_too(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    connection.send(Call(v2_read(5), 2, answers, "first", 1_000))
    connection.send(Call(v2_read(5), 2, answers, "second", 1_000))
    await asyncio.sleep(1.6)

    assert [(context, type(said)) for context, said in answers.got] == [
        ("first", errors.RequestTimedOut),
        ("second", errors.RequestTimedOut),
    ]


@story(run, version=2)
async def test_on_v2_an_add_that_a_recovery_of_this_client_sends_again_ends_the_writers_hope(
    wire: Wire, connection: Connection, answers: Answers
) -> None:
    writer, recovery = Owner(), Owner()
    connection.send_adds(writer.batch([0, 1], version=2))
    again = recovery.batch([1], version=2)
    connection.send_adds(again)
    wire.says(framed(next(iter(again.adds))))
    await asyncio.sleep(0.01)

    assert (recovery.acked, writer.acked) == ([1], [])
    assert [type(error) for error in writer.errors] == [errors.RequestTimedOut]
