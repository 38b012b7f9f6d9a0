"""Reads that wait for the disk: clients take turns, and who takes no answers holds up himself."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import server_support
from bookie.base.ids import EntryId
from bookie.base.units import MIB
from bookie.server.boundary import Boundary
from bookie.server.readers import KEPT, READERS, READERS_TIGHT, WIDTH_FIRST, Readers
from bookie.server.unsent import SMALL_DEBT_BYTES, Unsent
from bookie.wire.messages import Outgoing, ReadRequest
from server_support import LEDGER
from story_support import story


class Client:
    """One that counts what is under way for it."""

    def __init__(self, name: str = "client") -> None:
        self.peer = name
        self.queued_bytes = 0
        self.untaken_bytes = 0
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


class CountingUnsent(Unsent):
    """Counts how often somebody asks whether there is much; who asks without end is told that there is not."""

    asked = 0

    @property
    def is_tight(self) -> bool:
        self.asked += 1
        return super().is_tight and self.asked < 10_000


def run(
    story: Callable[[Readers, Any], Any],
    *,
    queue_max: int = 1000,
    unsent: Callable[[int], Unsent] = Unsent,
    **more: int,
) -> server_support.MetDoors:
    met, answers = server_support.MetDoors(), unsent(MIB)

    async def main() -> None:
        readers = Readers(Boundary(met), answers, queue_max=queue_max, **more)
        task = asyncio.create_task(readers.run())
        await story(readers, answers)
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
    assert not client.answered

    unsent.note(deaf, 0)  # type: ignore[arg-type]
    readers.look()
    await settled()
    assert client.answered == [1]


@story(run)
async def test_while_all_together_have_too_much_unsent_few_bytes_may_be_answered_to_who_takes_his(
    readers: Readers, unsent: Unsent
) -> None:
    client, deaf = Client(), Client("deaf")
    client.untaken_bytes = 1000
    assert readers.room_bytes(client, MIB) == MIB
    unsent.note(deaf, 2 * MIB)  # type: ignore[arg-type]

    assert readers.room_bytes(client, MIB) == SMALL_DEBT_BYTES - 1000
    assert readers.room_bytes(client, 10) == 10
    client.untaken_bytes = SMALL_DEBT_BYTES
    assert readers.room_bytes(client, 10) == 0


@story(run)
async def test_while_half_of_the_room_is_taken_few_reads_run_and_then_all_again(
    readers: Readers, unsent: Unsent
) -> None:
    """What 32 readers brought came on top of all that clients had not taken."""
    debtor = Client("debtor")
    unsent.note(debtor, MIB // 2 + 1)
    clients = [Client(f"client{number}") for number in range(READERS)]
    under_way, go = [0], asyncio.Event()

    async def slow(request: ReadRequest, to: Client) -> bool:
        under_way[0] += 1
        await go.wait()
        return True

    for client in clients:
        assert readers.submit(client.read(0), client, slow)
    for _ in range(100):
        await asyncio.sleep(0)
    assert under_way == [READERS_TIGHT]

    unsent.note(debtor, 0)
    readers.look()
    for _ in range(100):
        await asyncio.sleep(0)
    assert under_way == [READERS]
    go.set()


@story(run)
async def test_after_such_a_time_who_took_his_answers_is_read_for_first(readers: Readers, unsent: Unsent) -> None:
    order: list[str] = []

    async def note(_: ReadRequest, to: Client) -> bool:
        order.append(to.peer)
        return True

    unsent.note(deaf := Client(), 2 * MIB)  # type: ignore[arg-type]
    clients = [Client(f"host{number}:1") for number in range(READERS + 1)]
    for number, client in enumerate(clients):
        client.untaken_bytes = READERS - number
        readers.submit(client.read(1), client, note)
    await settled()
    assert not order

    unsent.note(deaf, 0)  # type: ignore[arg-type]
    readers.look()
    await settled()
    assert order == [client.peer for client in reversed(clients)]


@story(run)
async def test_reads_that_wait_for_nothing_let_the_loop_turn(readers: Readers, unsent: Unsent) -> None:
    """400 of each of twenty clients, of 4 MiB each, ran in one turn: nobody saw that the clients were gone."""
    client, order = Client(), []

    async def at_once(request: ReadRequest, _: Client) -> bool:
        order.append(request.txn)
        if len(order) == 1:
            asyncio.get_running_loop().call_soon(readers.forget, client)
        return True

    for number in range(400):
        readers.submit(client.read(number), client, at_once)
    await settled()

    assert 0 < len(order) <= READERS


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


@story(run, queue_max=10)
async def test_who_asks_for_little_is_taken_however_much_the_others_wait_for(readers: Readers, unsent: Unsent) -> None:
    greedy, modest = Client("one"), Client("one")
    greedy.takes_answers = modest.takes_answers = False
    while readers.submit(greedy.read(0), greedy, answer):
        pass

    taken = [readers.submit(modest.read(number), modest, answer) for number in range(KEPT + 1)]

    assert taken == [True] * KEPT + [False]
    modest.takes_answers = True
    readers.resume(modest)
    await settled()
    assert len(modest.answered) == KEPT


@story(run)
async def test_who_waits_behind_a_client_of_his_address_that_went_deaf_is_read_for(
    readers: Readers, unsent: Unsent
) -> None:
    deaf, other = Client("10.0.0.1:1"), Client("10.0.0.1:2")
    for client in (deaf, other):
        readers.submit(client.read(0), client, answer)
    deaf.takes_answers = False  # before a worker had its turn

    await settled()

    assert (deaf.answered, other.answered) == ([], [0])


@story(run, address_width=1)
async def test_who_waits_behind_a_client_of_his_address_that_left_while_he_was_read_for_is_read_for(
    readers: Readers, unsent: Unsent
) -> None:
    go = asyncio.Event()

    async def slow(request: ReadRequest, to: Client) -> bool:
        await go.wait()
        return True

    gone, other = Client("10.0.0.1:1"), Client("10.0.0.1:2")
    readers.submit(gone.read(0), gone, slow)
    readers.submit(other.read(1), other, answer)
    await settled()
    assert other.answered == []

    readers.forget(gone)
    go.set()
    await settled()

    assert other.answered == [1]


@story(run)
async def test_who_has_had_his_answers_leaves_nothing_behind(readers: Readers, unsent: Unsent) -> None:
    """Also no address: the next client there would be counted apart from this one."""
    clients = [Client(f"10.0.0.{number}:1") for number in range(5)]
    for client in clients:
        for number in range(10):
            readers.submit(client.read(number), client, answer)
    readers.forget(clients[0])

    await settled()

    assert [len(client.answered) for client in clients[1:]] == [10] * 4
    assert (readers.count, readers._lanes, readers._addresses) == (0, {}, {})


@story(run, unsent=CountingUnsent)
async def test_readers_that_wait_for_room_a_second_time_ask_no_more_than_the_first(
    readers: Readers, unsent: CountingUnsent
) -> None:
    """What they waited for the first time was still told: they asked without end, and nothing else had its turn."""
    debtor, clients = Client("debtor"), [Client(f"client{number}") for number in range(READERS)]
    readers.look()  # there is room
    unsent.note(debtor, MIB // 2 + 1)  # type: ignore[arg-type]
    unsent.asked = 0

    for client in clients:
        readers.submit(client.read(0), client, answer)
    await settled()

    assert [client.answered for client in clients] == [[0]] * READERS
    assert unsent.asked < 10 * READERS


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
