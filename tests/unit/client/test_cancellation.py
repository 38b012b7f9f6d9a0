"""Cancelling at every await of every operation: nothing acknowledged is lost, nothing is left behind, and the next
operation works.

Each story is told once undisturbed, counting the turns of the loop that its operation takes; then once per turn, and
the operation is cancelled at that turn. Whatever it waited for at that moment is where the cancellation strikes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.client import Client, LedgerWriter
from bookie.metadata.ledger import LedgerState
from client_support import Fleet, tell

# Given a fleet and a client, do what comes before; return the operation to be cancelled, and what must hold after it.
Prepared = tuple[Coroutine[Any, Any, Any], Callable[[bool], Awaitable[None]]]
Prepare = Callable[[Fleet, Client], Awaitable[Prepared]]

# A turn of the simulated loop is shorter than a message takes, and an operation takes a few messages.
TURN_S = 0.00005
TURNS_MAX = 6_000
# Moments at which each operation is cancelled, evenly over its time.
CUTS = 30


async def intact(fleet: Fleet, ledger_id: LedgerId, acknowledged: int, *, closed: bool | None = None) -> None:
    """Another client finds everything that was acknowledged, in order, and a ledger that it can close."""
    async with fleet.client("judge") as judge, await judge.open(ledger_id) as reader:
        assert reader.last_entry >= acknowledged - 1
        if reader.last_entry >= 0:
            read = [entry.payload for entry in await reader.read(0, reader.last_entry)]
            assert read == [b"%d" % number for number in range(reader.last_entry + 1)]
        metadata = await judge.metadata(ledger_id)
        assert metadata.state is LedgerState.CLOSED
        assert metadata.length == sum(len(b"%d" % number) for number in range(reader.last_entry + 1))


async def appended(writer: LedgerWriter, count: int, start: int = 0) -> None:
    await writer.append_many([b"%d" % number for number in range(start, start + count)])


async def append(fleet: Fleet, client: Client) -> Prepared:
    writer = await client.create()
    await appended(writer, 5)

    async def after(was_done: bool) -> None:
        pushed = writer._appender.adds.last_pushed + 1
        await appended(writer, 3, start=pushed)
        assert writer.last_confirmed == pushed + 2
        assert not writer._limit._waiters
        await intact(fleet, writer.id, pushed + 3)

    return appended(writer, 20, start=5), after


async def append_with_a_failing_bookie(fleet: Fleet, client: Client) -> Prepared:
    prepared = await append(fleet, client)
    fleet["b1"].script = lambda request: Status.EIO
    return prepared


async def close(fleet: Fleet, client: Client) -> Prepared:
    writer = await client.create()
    await appended(writer, 5)

    async def after(was_done: bool) -> None:
        await writer.close()
        await intact(fleet, writer.id, 5)

    return writer.close(), after


async def close_with_entries_under_way(fleet: Fleet, client: Client) -> Prepared:
    writer = await client.create()
    pending = [writer.append_nowait(b"%d" % number) for number in range(4)]

    async def after(was_done: bool) -> None:
        await writer.close()
        told = await asyncio.gather(*pending, return_exceptions=True)
        confirmed = [said for said in told if isinstance(said, int)]
        await intact(fleet, writer.id, len(confirmed))

    return writer.close(), after


async def force(fleet: Fleet, client: Client) -> Prepared:
    writer = await client.create(deferred_sync=True)
    await appended(writer, 5)

    async def after(was_done: bool) -> None:
        assert await writer.force() == 4
        await writer.close()
        await intact(fleet, writer.id, 5)

    return writer.force(), after


async def add_confirmed(fleet: Fleet, client: Client) -> Prepared:
    writer = await client.create()
    await appended(writer, 5)

    async def after(was_done: bool) -> None:
        pushed = writer._appender.adds.last_pushed + 1
        assert await writer.add_confirmed_entry(b"%d" % pushed) == pushed
        await intact(fleet, writer.id, pushed + 1)

    return writer.add_confirmed_entry(b"5"), after


async def recover(fleet: Fleet, client: Client) -> Prepared:
    """Of a ledger of which the last entry is on one bookie only, as if its writer had vanished right then."""
    async with fleet.client("writer") as writing:
        writer = await writing.create()
        await appended(writer, 40)
    holders = [bookie for bookie in fleet.bookies if 39 in bookie.ids(writer.id)]
    for bookie in holders[1:]:
        del bookie.entries[writer.id, EntryId(39)]

    async def after(was_done: bool) -> None:
        async with await client.open(writer.id) as reader:
            assert reader.last_entry == 39
        await intact(fleet, writer.id, 40)

    async def opened() -> None:
        await (await client.open(writer.id)).close()

    return opened(), after


async def recover_with_a_failing_bookie(fleet: Fleet, client: Client) -> Prepared:
    prepared = await recover(fleet, client)
    next(bookie for bookie in fleet.bookies if bookie.ids(LedgerId(0))[-1:] == [38]).script = lambda request: Status.EIO
    return prepared


async def open_and_tail(fleet: Fleet, client: Client) -> Prepared:
    writing = fleet.client("writer", explicit_lac_ms=20)
    await writing.__aenter__()
    writer = await writing.create()
    await appended(writer, 5)

    async def follow() -> None:
        async with await client.open_no_recovery(writer.id) as reader:
            async for entry in reader.tail():
                if entry.entry_id == 4:
                    return

    async def after(was_done: bool) -> None:
        await follow()
        await writing.__aexit__(None, None, None)
        await intact(fleet, writer.id, 5)

    return follow(), after


async def create(fleet: Fleet, client: Client) -> Prepared:
    before = [ledger async for ledger in client.ledgers()]

    async def after(was_done: bool) -> None:
        ledgers = [ledger async for ledger in client.ledgers()]
        assert len(ledgers) <= len(before) + 1
        for ledger in ledgers:  # one that was created before the cancellation struck is empty, and can be opened
            await intact(fleet, ledger, 0)
        async with await client.create() as writer:
            await appended(writer, 1)
        await intact(fleet, writer.id, 1)

    return client.create(), after


OPERATIONS = [
    append,
    append_with_a_failing_bookie,
    close,
    close_with_entries_under_way,
    force,
    add_confirmed,
    open_and_tail,
    recover,
    recover_with_a_failing_bookie,
    create,
]


def run(prepare: Prepare, turns: int | None) -> int:
    """Cancel the operation after `turns` turns; return how many it took if it was not."""

    async def story(fleet: Fleet) -> int:
        async with fleet.client(in_flight_entries_max=4, request_timeout_ms=4_000) as client:
            operation, after = await prepare(fleet, client)
            task = asyncio.ensure_future(operation)
            taken = 0
            if turns is not None:
                await asyncio.sleep(turns * TURN_S)
            while not task.done() and turns is None:
                await asyncio.sleep(TURN_S)
                taken += 1
                assert taken < TURNS_MAX, "the operation does not end"
            was_done = task.done()
            task.cancel()
            await asyncio.wait([task])
            if was_done:
                task.result()
            else:
                assert task.cancelled() or task.exception() is None or isinstance(task.exception(), errors.BookieError)
            for bookie in fleet.bookies:
                bookie.script = lambda request: None
            await after(was_done)
            return taken

    return tell(story, zones="abca")


@pytest.mark.parametrize("prepare", OPERATIONS, ids=lambda prepare: prepare.__name__)
def test_an_operation_that_is_cancelled_at_any_of_its_awaits_leaves_nothing_wrong(prepare: Prepare) -> None:
    turns = run(prepare, None)
    step = max(1, turns // CUTS)

    assert turns >= 3, "nothing to cancel"
    for turn in range(0, turns, step):
        run(prepare, turn)
