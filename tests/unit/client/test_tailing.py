"""Long polls over several bookies: who is asked, when, and what ends a round (spec/wire.md#W34, W64)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bookie.base.errors import Status
from bookie.base.ids import EntryId
from bookie.client import Entry, LedgerReader, LedgerWriter
from bookie.wire import messages
from bookie.wire.digest import Digest, DigestType
from bookie.wire.messages import Request
from client_support import BREAK, MUTE, FakeBookie, Fleet, tell
from story_support import story


def polls(bookie: FakeBookie) -> list[messages.ReadRequest]:
    return [request for request in bookie.asked(messages.ReadRequest) if request.timeout_ms is not None]


def is_poll(request: Request) -> bool:
    return isinstance(request, messages.ReadRequest) and request.timeout_ms is not None


async def waiting(reader: LedgerReader, entries: int) -> tuple[AsyncIterator[Entry], "asyncio.Future[Entry]"]:
    """A tail that has read all there is and waits for more."""
    tail = reader.tail()
    for _ in range(entries):
        await anext(tail)
    return tail, asyncio.ensure_future(anext(tail))  # type: ignore[arg-type]


async def started(fleet: Fleet, writer: LedgerWriter) -> None:
    await writer.append_many([b"x"] * 3)
    await fleet.until(lambda: all(b.lac(writer.id) == 2 for b in fleet.bookies), "the explicit LAC")


@story(tell)
async def test_while_its_bookie_answers_only_that_one_is_asked(fleet: Fleet) -> None:
    async with fleet.client(explicit_lac_ms=20) as client:
        writer = await client.create()
        await started(fleet, writer)
        async with await client.open_no_recovery(writer.id) as reader:
            _, entry = await waiting(reader, 3)
            await asyncio.sleep(1)
            await writer.append(b"news")

            assert (await entry).payload == b"news"
            asked = [len(polls(bookie)) for bookie in fleet.bookies]
            assert sum(asked) <= 2


@pytest.mark.parametrize("trouble", [MUTE, "behind"])
@story(tell)
async def test_a_bookie_that_is_silent_or_behind_does_not_hold_up_the_news_for_longer_than_the_silence(
    fleet: Fleet, *, trouble: str
) -> None:
    """1.5 s instead of the 3 s of a poll or the 5 s of a request."""

    async with fleet.client(explicit_lac_ms=20, request_timeout_ms=60_000) as client:
        writer = await client.create()
        await started(fleet, writer)
        first = fleet.first_asked(writer, 3)
        if trouble == MUTE:
            first.script = lambda request: MUTE if is_poll(request) else None
        else:
            first.script = lambda request: None if is_poll(request) else MUTE
        async with await client.open_no_recovery(writer.id) as reader:
            _, entry = await waiting(reader, 3)
            await asyncio.sleep(0.1)
            began_ns = fleet.machine.loop.now_ns
            await writer.append(b"news")

            assert (await entry).payload == b"news"
            assert fleet.machine.loop.now_ns - began_ns < 1_700_000_000


@pytest.mark.parametrize("trouble", [BREAK, Status.EIO, Status.ENOLEDGER])
@story(tell)
async def test_a_bookie_that_fails_hands_over_at_once(fleet: Fleet, *, trouble: str | Status) -> None:
    async with fleet.client(explicit_lac_ms=20) as client:
        writer = await client.create()
        await started(fleet, writer)
        async with await client.open_no_recovery(writer.id) as reader:
            fleet.first_asked(writer, 3).script = lambda request: trouble if is_poll(request) else None
            _, entry = await waiting(reader, 3)
            await asyncio.sleep(0.1)
            assert sum(len(polls(bookie)) for bookie in fleet.bookies) >= 2, "not after a pause, as when all fail"
            await writer.append(b"news")
            async with asyncio.timeout(1):
                assert (await entry).payload == b"news"


@story(tell)
async def test_rot_in_the_entry_that_a_poll_brings_is_passed_over(fleet: Fleet) -> None:
    async with fleet.client(explicit_lac_ms=20) as client:
        writer = await client.create()
        await started(fleet, writer)
        first = fleet.first_asked(writer, 3)
        async with await client.open_no_recovery(writer.id) as reader:
            _, entry = await waiting(reader, 3)
            await writer.append(b"news")
            body = bytearray(first.entries[writer.id, EntryId(3)])
            body[-1] ^= 1
            first.entries[writer.id, EntryId(3)] = bytes(body)

            assert (await entry).payload == b"news"


@story(tell)
async def test_an_entry_that_a_poll_brings_before_it_is_known_to_be_confirmed_is_kept_back(fleet: Fleet) -> None:
    """CONFORMANCE.md#O5: that came with no LAC that covers it, and a recovery may drop it."""

    async with fleet.client(explicit_lac_ms=20) as client:
        writer = await client.create()
        await started(fleet, writer)
        body = Digest(DigestType.CRC32C, b"").seal(writer.id, EntryId(3), 2, 4, b"early")
        for bookie in fleet.bookies:
            bookie.entries[writer.id, EntryId(3)] = b"".join(body)
            bookie.polls_early = True
        async with await client.open_no_recovery(writer.id) as reader:
            _, entry = await waiting(reader, 3)
            await asyncio.sleep(0.1)

            assert any(polls(bookie) for bookie in fleet.bookies)
            assert not entry.done()
            entry.cancel()


@story(tell)
async def test_when_there_is_no_news_a_round_ends_at_enough_empty_answers_and_the_next_begins_elsewhere(
    fleet: Fleet,
) -> None:
    async with fleet.client(explicit_lac_ms=20) as client:
        writer = await client.create()
        await started(fleet, writer)
        for bookie in fleet.bookies:
            bookie.requests.clear()
        async with await client.open_no_recovery(writer.id) as reader:
            _, entry = await waiting(reader, 3)
            await asyncio.sleep(30)
            entry.cancel()

            asked = [len(polls(bookie)) for bookie in fleet.bookies]
            assert all(asked), "every bookie has its turn"
            assert sum(asked) <= 30


@story(tell)
async def test_when_nobody_can_be_polled_it_is_tried_again_and_again_at_a_measured_pace(fleet: Fleet) -> None:
    async with fleet.client(explicit_lac_ms=20) as client:
        writer = await client.create()
        await started(fleet, writer)
        async with await client.open_no_recovery(writer.id) as reader:
            for bookie in fleet.bookies:
                bookie.script = lambda request: Status.EIO if is_poll(request) else None
            _, entry = await waiting(reader, 3)
            await asyncio.sleep(10)
            assert sum(len(polls(bookie)) for bookie in fleet.bookies) <= 130
            for bookie in fleet.bookies:
                bookie.script = lambda request: None
            await writer.append(b"news")

            assert (await entry).payload == b"news"
