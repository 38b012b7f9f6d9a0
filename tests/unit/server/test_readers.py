"""Reads that wait for the disk: clients take turns, and who takes no answers holds up himself."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import server_support
from bookie.base.ids import EntryId
from bookie.base.units import MIB
from bookie.server.boundary import Boundary
from bookie.server.readers import READERS, WIDTH_FIRST, Readers
from bookie.server.unsent import Unsent
from bookie.wire.messages import Outgoing, ReadRequest
from server_support import LEDGER
from story_support import story


class Client:
    """One that counts what is under way for it."""

    def __init__(self, name: str = "client") -> None:
        self.peer = name
        self.queued_bytes = 0
        self.takes_answers = True
        self.under_way = 0
        self.most_under_way = 0
        self.answered: list[int] = []

    def reply(self, response: Outgoing) -> None:
        self.answered.append(-1)

    def break_off(self) -> None:
        raise AssertionError

    def read(self, number: int) -> ReadRequest:
        return ReadRequest(number, 3, LEDGER, EntryId(number))


async def answer(request: ReadRequest, to: Client) -> bool:
    to.under_way += 1
    to.most_under_way = max(to.most_under_way, to.under_way)
    await asyncio.sleep(0)
    to.under_way -= 1
    to.answered.append(request.txn)
    return True


def run(story: Callable[[Readers, Unsent], Any], *, queue_max: int = 1000) -> server_support.MetDoors:
    met, unsent = server_support.MetDoors(), Unsent(MIB)

    async def main() -> None:
        readers = Readers(Boundary(met), unsent, queue_max=queue_max)
        task = asyncio.create_task(readers.run())
        await story(readers, unsent)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    return met


async def settled(turns: int = 300) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


@story(run)
async def test_who_takes_no_answers_is_read_nothing_and_the_others_are(readers: Readers, unsent: Unsent) -> None:
    deaf, client = Client("deaf"), Client()
    deaf.takes_answers = False
    for number in range(100):
        assert readers.submit(deaf.read(number), deaf, answer)
        assert readers.submit(client.read(number), client, answer)

    await settled()
    assert (deaf.answered, sorted(client.answered)) == ([], list(range(100)))

    deaf.takes_answers = True
    readers.resume(deaf)
    await settled()
    assert sorted(deaf.answered) == list(range(100))
    assert readers.count == 0


@story(run)
async def test_one_client_begins_narrow_grows_and_never_has_more_than_all_readers(
    readers: Readers, unsent: Unsent
) -> None:
    client = Client()
    for number in range(500):
        readers.submit(client.read(number), client, answer)
    await settled(2)
    assert client.most_under_way <= 2 * WIDTH_FIRST

    await settled()
    assert WIDTH_FIRST < client.most_under_way <= READERS


@story(run)
async def test_whose_answers_are_large_gets_one_at_a_time(readers: Readers, unsent: Unsent) -> None:
    async def large(request: ReadRequest, to: Client) -> bool:
        to.queued_bytes = 5 * MIB
        return await answer(request, to)

    client = Client()
    for number in range(20):
        readers.submit(client.read(number), client, large)
    await settled(20)
    client.most_under_way = client.under_way
    await settled()

    assert client.most_under_way <= 1
    assert sorted(client.answered) == list(range(20))


@story(run)
async def test_while_all_together_have_too_much_unsent_nothing_is_read_and_then_it_goes_on(
    readers: Readers, unsent: Unsent
) -> None:
    client, deaf = Client(), Client("deaf")
    unsent.note(deaf, 2 * MIB)  # type: ignore[arg-type]
    readers.submit(client.read(1), client, answer)
    await settled()
    assert readers.is_held_up
    assert not client.answered

    unsent.note(deaf, 0)  # type: ignore[arg-type]
    readers.look()
    await settled()
    assert client.answered == [1]


@story(run)
async def test_a_client_that_is_gone_is_read_nothing_and_counts_no_more(readers: Readers, unsent: Unsent) -> None:
    gone = Client()
    for number in range(100):
        readers.submit(gone.read(number), gone, answer)

    readers.forget(gone)
    await settled()

    assert not gone.answered
    assert readers.count == 0


@story(run, queue_max=10)
async def test_beyond_the_bound_a_read_is_not_taken(readers: Readers, unsent: Unsent) -> None:
    client = Client()
    client.takes_answers = False

    taken = [readers.submit(client.read(number), client, answer) for number in range(12)]

    assert taken == [True] * 10 + [False] * 2


@story(run)
async def test_a_job_that_answers_in_parts_comes_again_before_the_others(readers: Readers, unsent: Unsent) -> None:
    parts = [1, 2, 3]

    async def in_parts(request: ReadRequest, to: Client) -> bool:
        to.answered.append(100 + parts.pop(0))
        return not parts

    client = Client()
    client.takes_answers = False
    readers.submit(client.read(0), client, in_parts)
    client.takes_answers = True
    readers.resume(client)

    await settled()
    assert client.answered == [101, 102, 103]
    assert readers.count == 0


@pytest.mark.parametrize("error", [AssertionError, RecursionError, MemoryError])
def test_whatever_a_job_raises_ends_that_job(error: type[Exception]) -> None:
    async def broken(request: ReadRequest, to: Client) -> bool:
        raise error("ours")

    async def story(readers: Readers, unsent: Unsent) -> None:
        client = Client()
        for number in range(2 * READERS):
            readers.submit(client.read(number), client, broken)
        readers.submit(client.read(99), client, answer)

        await settled()

        assert client.answered == [-1] * 2 * READERS + [99]

    assert len(run(story).met) == 2 * READERS
