"""The whole client on protocol version 2, as Pulsar's brokers use it: what it writes, reads, fences and recovers."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import LedgerId
from bookie.client import ClientOptions
from bookie.metadata.ledger import LedgerState
from bookie.wire import messages
from client_support import URI, Fleet, tell
from story_support import story


@story(tell)
async def test_entries_go_and_come_back_as_version_two(fleet: Fleet) -> None:
    async with fleet.client(protocol_version=2) as client:
        payloads = [b"%d" % number for number in range(300)]
        async with await client.create(password=b"secret") as writer:
            await writer.append_many(payloads)
        async with await client.open(writer.id, b"secret") as reader:
            assert [entry.payload for entry in await reader.read(0, 299)] == payloads

        asked = [*fleet["b0"].asked(messages.AddRequest), *fleet["b0"].asked(messages.ReadRequest)]
        assert {request.version for request in asked} == {2}


@story(tell)
async def test_what_version_two_cannot_say_goes_as_three_beside_it(fleet: Fleet) -> None:
    """Wire 2: LACs, long polls."""

    async with fleet.client(protocol_version=2) as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 3)
        await fleet.until(lambda: all(b.lac(writer.id) == 2 for b in fleet.bookies), "the explicit LAC")

        async with await client.open_no_recovery(writer.id) as reader:
            tail = reader.tail()
            assert [(await anext(tail)).entry_id for _ in range(3)] == [0, 1, 2]
            waiting = asyncio.ensure_future(anext(tail))
            await asyncio.sleep(0.5)
            await writer.append(b"y")
            assert (await waiting).payload == b"y"


@story(tell)
async def test_a_recovery_over_version_two_stops_the_writer_and_keeps_what_it_acknowledged(fleet: Fleet) -> None:
    async with fleet.client(protocol_version=2) as writing, fleet.client("other", protocol_version=2) as client:
        writer = await writing.create()
        await writer.append_many([b"x"] * 40)

        reader = await client.open(writer.id)

        assert reader.last_entry == 39
        with pytest.raises((errors.LedgerFenced, errors.LedgerClosed)):
            await writer.append_many([b"late"] * 3)


@story(tell)
async def test_a_client_that_recovers_its_own_open_ledger_over_version_two_ends_its_writer(fleet: Fleet) -> None:
    """Both send the same entries over one connection, and v2 answers do not say which of them is meant."""

    async with fleet.client(protocol_version=2) as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 40)
        pending = [writer.append_nowait(b"late") for _ in range(20)]

        reader = await client.open(writer.id)
        told = await asyncio.gather(*pending, return_exceptions=True)

        confirmed = [said for said in told if isinstance(said, int)]
        assert reader.last_entry >= max(confirmed, default=39)
        assert (await client.metadata(writer.id)).state is LedgerState.CLOSED


@story(tell)
async def test_a_bookie_in_limbo_answers_an_error_that_is_no_denial(fleet: Fleet) -> None:
    """Wire 5.2: v2 has no safe code for limbo; EIO is as unknown."""

    async with fleet.client(protocol_version=2) as client:
        async with await client.create() as writer:
            await writer.append_many([b"x"] * 3)
        for bookie in fleet.bookies:
            bookie.script = lambda request: Status.EUNKNOWNLEDGERSTATE
        async with await client.open(writer.id) as reader:
            with pytest.raises(errors.StorageFailed):
                await reader.read(0, 0)


@story(tell, zones="abca")
async def test_a_bookie_that_fails_is_replaced_over_version_two_too(fleet: Fleet) -> None:
    async with fleet.client(protocol_version=2) as client:
        writer = await client.create()
        await writer.append_many([b"early"] * 10)
        victim = str(writer.metadata.last_segment.bookies[0])
        fleet[victim].script = lambda request: Status.EIO

        assert await writer.append_many([b"late"] * 10) == range(10, 20)
        await fleet.until(lambda: len(writer.metadata.segments) == 2, "the ensemble change")
        await writer.close()

        async with await client.open(LedgerId(writer.id)) as reader:
            assert len(await reader.read(0, 19)) == 20


def test_other_versions_are_refused_in_one_sentence() -> None:
    with pytest.raises(errors.BadInput, match="protocol_version must be 2 or 3, not 4"):
        ClientOptions(URI, protocol_version=4)
