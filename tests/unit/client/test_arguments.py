"""Any value in any argument: it works, or is refused before anything changed, and the same client goes on (CLIENT.md).

An entry that had its id and could not be packed made its writer wait for ever; one malformed frame cost all ledgers of
the client their connections.
"""

import asyncio
import fractions
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.base.secret import Secret
from bookie.client import Client, ClientOptions, DigestType, LedgerReader, LedgerWriter, arguments
from bookie.client.options import FRAME_LIMIT_MIN_BYTES
from bookie.metadata.ledger import LedgerState
from bookie.ports.tls import TlsOptions
from client_support import BREAK, URI, Fleet, tell
from story_support import story

# No call here waits for more than its bookies' time-outs.
DEADLINE_S = 120
LARGE = 6_000_000  # bytes: more than a frame holds
INTS = memoryview(array("i", [1, 2, 3]))
GAPS = memoryview(b"abcdef")[::2]


def released() -> memoryview:
    view = memoryview(b"gone")
    view.release()
    return view


ODD: list[Any] = [
    *(None, True, False, -1, -2, -(2**70), 2**31, 2**40, 2**63, 2**64, 2**20_000),
    *(0.5, 3.0, float("nan"), float("inf"), 1 + 1j, fractions.Fraction(1, 3)),
    *(
        "",
        "text",
        "7",
        "\ud800",
        "a" * 5_000,
        "DigestType.CRC32",
        b"",
        b"bytes",
        b"7" * LARGE,
        bytearray(b"array"),
    ),
    *(INTS, GAPS, memoryview(b"abcd").cast("B", (2, 2)), memoryview(array("d", [0.5])), released(), array("H", [1])),
    *([], [1], ["text"], [b"fine", "text"], [b"fine", None], (b"x", INTS), {}, {"a": "b"}, {1: b"x"}, {"\ud800": b""}),
    *(
        {"a": INTS},
        {"a": b"x" * LARGE},
        {b"x"},
        object(),
        int,
        len,
        DigestType.HMAC,
        Secret("hunter2"),
        iter([b"x"]),
    ),
]


class Story:
    """One client, a writer that is at work, and a closed ledger that is read."""

    def __init__(self, client: Client, writer: LedgerWriter, reader: LedgerReader) -> None:
        self.client = client
        self.writer = writer
        self.reader = reader


async def drained(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def awaited(started: Callable[[], "asyncio.Future[Any]"]) -> Any:
    return await started()


Call = Callable[[Story, Any], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "append": lambda to, odd: to.writer.append(odd),
    "append_nowait": lambda to, odd: awaited(lambda: to.writer.append_nowait(odd)),
    "append_many": lambda to, odd: to.writer.append_many(odd),
    "append_many, second": lambda to, odd: to.writer.append_many([b"first", odd, b"last"]),
    "add_confirmed_entry": lambda to, odd: to.writer.add_confirmed_entry(odd),
    "create, ensemble_size": lambda to, odd: to.client.create(ensemble_size=odd, write_quorum=1, ack_quorum=1),
    "create, write_quorum": lambda to, odd: to.client.create(write_quorum=odd, ack_quorum=1),
    "create, ack_quorum": lambda to, odd: to.client.create(ack_quorum=odd),
    "create, digest_type": lambda to, odd: to.client.create(digest_type=odd),
    "create, password": lambda to, odd: to.client.create(password=odd),
    "create, custom": lambda to, odd: to.client.create(custom=odd),
    "create, custom value": lambda to, odd: to.client.create(custom={"key": odd}),
    "create, deferred_sync": lambda to, odd: to.client.create(deferred_sync=odd),
    "create, ledger_id": lambda to, odd: to.client.create(ledger_id=odd),
    "open, id": lambda to, odd: to.client.open(odd),
    "open, password": lambda to, odd: to.client.open(to.reader.id, odd),
    "open, administrative": lambda to, odd: to.client.open(to.reader.id, administrative=odd),
    "open_no_recovery, id": lambda to, odd: to.client.open_no_recovery(odd),
    "open_no_recovery, confirmed": lambda to, odd: to.client.open_no_recovery(to.reader.id, confirmed=odd),
    "delete": lambda to, odd: to.client.delete(odd),
    "metadata": lambda to, odd: to.client.metadata(odd),
    "read, first": lambda to, odd: to.reader.read(odd, 2),
    "read, last": lambda to, odd: to.reader.read(0, odd),
    "read_stream": lambda to, odd: drained(to.reader.read_stream(odd, odd)),
    "read_unconfirmed, first": lambda to, odd: to.reader.read_unconfirmed(odd, 2),
    "read_unconfirmed, last": lambda to, odd: to.reader.read_unconfirmed(0, odd),
    "tail": lambda to, odd: drained(to.reader.tail(odd)),
    "admin.record": lambda to, odd: to.client.admin.record(odd),
    "admin.snapshot": lambda to, odd: drained(to.client.admin.snapshot([odd])),
    "admin.ledgers_naming": lambda to, odd: drained(to.client.admin.ledgers_naming(odd)),
    "admin.last_confirmed, id": lambda to, odd: to.client.admin.last_confirmed(odd, to.writer.metadata),
    "admin.last_confirmed, metadata": lambda to, odd: to.client.admin.last_confirmed(to.writer.id, odd),
    "bookies.add, bookie": lambda to, odd: to.client.bookies.add(odd, STRANGE, EntryId(0), b"body" * 20, b"k" * 20),
    "bookies.add, ledger": lambda to, odd: to.client.bookies.add(B0, odd, EntryId(0), b"body" * 20, b"k" * 20),
    "bookies.add, entry": lambda to, odd: to.client.bookies.add(B0, STRANGE, odd, b"body" * 20, b"k" * 20),
    "bookies.add, body": lambda to, odd: to.client.bookies.add(B0, STRANGE, EntryId(0), odd, b"k" * 20),
    "bookies.add, key": lambda to, odd: to.client.bookies.add(B0, STRANGE, EntryId(0), b"body" * 20, odd),
    "bookies.read, ledger": lambda to, odd: to.client.bookies.read(B0, odd, EntryId(0)),
    "bookies.read, entry": lambda to, odd: to.client.bookies.read(B0, STRANGE, odd),
    "bookies.read, key": lambda to, odd: to.client.bookies.read(B0, STRANGE, EntryId(0), fence_key=odd),
    "bookies.fence": lambda to, odd: to.client.bookies.fence(B0, odd, b"k" * 20),
    "bookies.read_lac": lambda to, odd: to.client.bookies.read_lac(B0, odd),
    "bookies.write_lac, lac": lambda to, odd: to.client.bookies.write_lac(B0, STRANGE, odd, b"b" * 20, b"k" * 20),
    "bookies.write_lac, body": lambda to, odd: to.client.bookies.write_lac(B0, STRANGE, EntryId(1), odd, b"k" * 20),
    "bookies.force": lambda to, odd: to.client.bookies.force(B0, odd),
    "bookies.life": lambda to, odd: to.client.bookies.life(odd),
}
B0: Any = "b0"
STRANGE = LedgerId(987_654)


@pytest.mark.parametrize("protocol_version", [3, 2])
@pytest.mark.parametrize("name", CALLS)
@story(tell)
async def test_a_client_that_is_given_odd_values_goes_on(fleet: Fleet, *, name: str, protocol_version: int) -> None:
    """Each is refused with a BookieError, or works; the writer that was there keeps its bookies, writes and closes."""

    async with fleet.client(protocol_version=protocol_version) as client:
        async with await client.create(ledger_id=LedgerId(10)) as other:
            await other.append_many([b"0", b"1", b"2"])
        writer = await client.create(ledger_id=LedgerId(11))
        await writer.append(b"before")
        with_all = Story(client, writer, await client.open(LedgerId(10)))

        for odd in ODD:
            try:
                async with asyncio.timeout(DEADLINE_S):
                    await CALLS[name](with_all, odd)
            except BookieError as error:
                assert "hunter2" not in str(error)  # noqa: PT017  # most are refused, not all

        last = await writer.append(b"after")
        await writer.close()
        reader = await client.open(LedgerId(11))
        read = await reader.read(0, reader.last_entry)
        assert (read[0].payload, read[-1].payload, len(read)) == (b"before", b"after", last + 1)
        assert len(writer.metadata.segments) == 1, "a bookie was lost"
        assert [entry.payload for entry in await with_all.reader.read(0, 2)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("payload", ["text", 7, None, [1], 0.5])
@story(tell)
async def test_an_entry_that_is_no_bytes_is_refused_by_name_and_the_writer_goes_on(
    fleet: Fleet, *, payload: Any
) -> None:
    async with fleet.client() as client:
        writer = await client.create()

        with pytest.raises(errors.BadInput, match="payload must be bytes, a bytearray or a memoryview, not "):
            await writer.append(payload)

        assert await writer.append(b"fine") == 0
        await writer.close()


@story(tell)
async def test_views_of_wider_items_and_with_gaps_are_written_byte_by_byte(fleet: Fleet) -> None:
    async with fleet.client() as client:
        async with await client.create() as writer:
            await writer.append_many([INTS, GAPS, array("H", [1, 2]), memoryview(b"abcd").cast("B", (2, 2)), b""])

        reader = await client.open(writer.id)

        found = [entry.payload for entry in await reader.read(0, 4)]
        assert found == [INTS.tobytes(), b"ace", array("H", [1, 2]).tobytes(), b"abcd", b""]
        assert (await client.metadata(writer.id)).length == 12 + 3 + 4 + 4


@story(tell)
async def test_of_many_entries_all_are_appended_or_none(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()

        for bad in ([b"a", "b", b"c"], [b"a", b"x" * LARGE, b"c"], "abc", b"abc", {"a": b"b"}, 7):
            with pytest.raises(errors.BadInput, match=r"payload|does not fit a frame"):
                await writer.append_many(bad)  # type: ignore[arg-type]

        assert await writer.append_many(iter([b"a", b"b"])) == range(2)  # type: ignore[arg-type]


@story(tell)
async def test_an_entry_may_change_once_it_was_handed_over(fleet: Fleet) -> None:
    async with fleet.client() as client:
        async with await client.create() as writer:
            buffer = bytearray(b"as it was")
            appended = writer.append_nowait(buffer)
            buffer[:] = b"x" * 100
            await appended

        (entry,) = await (await client.open(writer.id)).read(0, 0)
        assert entry.payload == b"as it was"


@story(tell)
async def test_a_ledger_of_no_entries_is_read_as_one_of_some(fleet: Fleet) -> None:
    """docs/CLIENT.md, "In one page": `read_stream(0, reader.last_entry)`."""

    async with fleet.client() as client:
        async with await client.create() as writer:
            pass
        async with await client.open(writer.id) as reader:
            assert [entry async for entry in reader.read_stream(0, reader.last_entry)] == []
            assert await reader.read(0, reader.last_entry) == []
            assert await reader.read_unconfirmed(0, -1) == []
            assert [entry async for entry in reader.tail()] == []


# ---- dead handles ----------------------------------------------------------------------------------------------------


@story(tell)
async def test_what_a_dead_writer_says_is_not_to_be_tried_again(fleet: Fleet) -> None:
    async with fleet.client(ensemble_timeout_ms=2_000) as client:
        writer = await client.create()
        for bookie in fleet.bookies:
            bookie.script = lambda request: BREAK

        with pytest.raises(errors.NotEnoughBookies) as first:
            await writer.append(b"x")
        with pytest.raises(errors.NotEnoughBookies) as second:
            await writer.append(b"y")

        assert (first.value.retryable, second.value.retryable) == (False, False)
        assert errors.NotEnoughBookies("of a create, say").retryable


@pytest.mark.parametrize("name", CALLS)
@story(tell)
async def test_a_closed_client_says_so_at_once(fleet: Fleet, *, name: str) -> None:
    async with fleet.client() as client:
        async with await client.create(ledger_id=LedgerId(10)) as other:
            await other.append_many([b"0", b"1", b"2"])
        writer = await client.create(ledger_id=LedgerId(11))
        await writer.append(b"before")
        with_all = Story(client, writer, await client.open(LedgerId(10)))

    for usual in (b"payload", 1, [b"x"], "b0"):
        try:
            async with asyncio.timeout(10):
                await CALLS[name](with_all, usual)
        except BookieError as error:
            assert not error.retryable, error  # noqa: PT017


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ClientOptions.__slots__ if name != "metadata_uri"])
def test_an_option_that_cannot_be_used_is_refused_by_its_name(name: str) -> None:
    usual = getattr(ClientOptions(URI), name)
    for odd in ODD:
        try:
            options = ClientOptions(URI, **{name: odd})
        except errors.BadInput as error:
            assert name in str(error)  # noqa: PT017  # most are refused, none may be in other words
            assert "hunter2" not in str(error)  # noqa: PT017
        else:
            assert isinstance(getattr(options, name), type(usual)) or name in ("tls", "locations")


def test_an_address_that_is_none_is_refused_and_never_shown_when_it_may_hold_a_password() -> None:
    for odd in [*ODD, "http://user:hunter2@host/ledgers", "zk://user:hunter2@host"]:
        with pytest.raises(errors.BadInput, match="metadata") as caught:
            ClientOptions(odd)
        assert "hunter2" not in str(caught.value)


def test_a_short_request_time_out_shortens_what_was_not_set() -> None:
    assert ClientOptions(URI, request_timeout_ms=1_000).long_poll_wait_ms == 600
    assert ClientOptions(URI).long_poll_wait_ms == 3_000
    with pytest.raises(errors.BadInput, match=r"long_poll_ms \(1000\) must be less than request_timeout_ms \(1000\)"):
        ClientOptions(URI, request_timeout_ms=1_000, long_poll_ms=1_000)


@story(tell)
async def test_the_smallest_frame_still_takes_entries(fleet: Fleet) -> None:
    async with fleet.client(frame_limit_bytes=FRAME_LIMIT_MIN_BYTES) as client:
        writer = await client.create()
        with pytest.raises(errors.BadInput, match=r"at most 768 \(frame_limit_bytes\)"):
            await writer.append(b"x" * 769)
        assert await writer.append(b"x" * 768) == 0
        await writer.close()
        assert (await client.metadata(writer.id)).state is LedgerState.CLOSED


# ---- secrets ---------------------------------------------------------------------------------------------------------


@story(tell)
async def test_no_password_is_in_any_repr(fleet: Fleet) -> None:
    secrets = {"sasl_user": "app", "sasl_password": Secret("hunter2")}
    async with fleet.client(tls=None, **secrets) as client:
        shown = [client, client.shared, client.shared.options, client.shared.pool.dialer.handshake, TlsOptions()]
        assert not [one for one in shown if "hunter2" in repr(one)]
    async with fleet.client() as client:
        writer = await client.create(password=b"hunter2")
        await writer.append(b"x")
        reader = await client.open_no_recovery(writer.id, b"hunter2")
        shown = [writer, reader, writer.metadata, reader.metadata, *fleet.bookies[0].requests]
        key = repr(arguments.password(b"hunter2"))
        assert not [one for one in shown if key in repr(one) or "hunter2" in repr(one)]
        with pytest.raises(errors.Unauthorized) as caught:
            await client.open(writer.id, b"hunter3")
        assert "hunter" not in repr(caught.value)
