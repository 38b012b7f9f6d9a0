"""Lists of entries: few at a time, beside all other reads, ended with their client, and whole or refused."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import server_support
from bookie.base.errors import Status
from bookie.base.ids import EntryId, IdRange, LedgerId
from bookie.base.units import MIB
from bookie.server import lists
from bookie.server.admission import Admission
from bookie.server.boundary import Boundary
from bookie.server.metrics import ServerMetrics
from bookie.server.processor import Processor
from bookie.server.readers import Readers
from bookie.server.unsent import Unsent
from bookie.storage.reads import TakeRanges
from bookie.storage.store import EntryStore
from bookie.wire import availability
from bookie.wire.framing import FRAME_LIMIT_BYTES, frame
from bookie.wire.messages import ListEntriesRequest, ListEntriesResponse, Outgoing, ReadLacRequest, ReadLacResponse
from bookie.wire.v3 import pack_response
from server_support import LEDGER, Asker
from story_support import story

TURNS = 300


class LongLists:
    """A store whose lists go on until they are let end; the rest is `store`."""

    def __init__(self, store: EntryStore) -> None:
        self._store = store
        self.may_end = False
        self.begun = self.under_way = self.most_under_way = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def whole_list(self, ledger_id: LedgerId, take: TakeRanges) -> None:
        self.begun += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            while not self.may_end:
                take([])
                await asyncio.sleep(0)
        finally:
            self.under_way -= 1


class Scattered(LongLists):
    """One whose list is `count` runs, no three of them in one step."""

    count = 0

    async def whole_list(self, ledger_id: LedgerId, take: TakeRanges) -> None:
        for number in range(0, self.count, 1000):
            take([_run(place) for place in range(number, min(number + 1000, self.count))])


def _run(place: int) -> IdRange:
    first = EntryId(place * (place + 3))
    return first, first


def serving(
    asker: Asker, store: Any, frame_bytes_max: int = FRAME_LIMIT_BYTES, *, unsent: Unsent | None = None
) -> Processor:
    boundary, clock = Boundary(server_support.StrictDoors()), asker.processor.clock
    readers, listers = Readers(boundary, Unsent(64 * MIB)), lists.listers(boundary, unsent or Unsent(64 * MIB))
    asker.node.spawn(readers.run(), "readers")
    asker.node.spawn(listers.run(), "listers")
    return Processor(store, readers, listers, Admission(), ServerMetrics(), clock, boundary, frame_bytes_max)


def clients(asker: Asker, processor: Processor, count: int, *, host: str = "") -> list[Asker]:
    """At `host`, or each at an address of its own."""
    found = [Asker(asker.node, processor, asker.admission) for _ in range(count)]
    for number, client in enumerate(found):
        client.peer = f"{host or f'10.0.0.{number}'}:{number}"
    return found


def send_lists(client: Asker, count: int) -> list[int]:
    return [client.send(ListEntriesRequest(0, 3, LEDGER)) for _ in range(count)]


def _noted(client: Asker, order: list[Asker]) -> Callable[[Outgoing], None]:
    reply = client.reply

    def noted(response: Outgoing) -> None:
        order.append(client)
        reply(response)

    return noted


async def settled() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def statuses(client: Asker) -> list[Status]:
    return [answer.status for answer in client.answers.values() if isinstance(answer, ListEntriesResponse)]


@story(server_support.run)
async def test_a_lac_is_read_while_lists_of_many_strangers_are_under_way(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    long = LongLists(store)
    processor = serving(asker, long)
    strangers = clients(asker, processor, 8)
    for stranger in strangers:
        send_lists(stranger, 30)
    (honest,) = clients(asker, processor, 1)
    await settled()
    assert (long.under_way, long.most_under_way) == (lists.LISTS, lists.LISTS)

    honest.send(ReadLacRequest(0, 3, LEDGER))
    await settled()

    (answer,) = honest.answers.values()
    assert isinstance(answer, ReadLacResponse)
    assert answer.status is Status.EOK
    assert long.under_way == lists.LISTS
    long.may_end = True
    await asker.node.simulation.until(lambda: all(len(one.answers) == 30 for one in strangers), "all lists")
    assert {status for stranger in strangers for status in statuses(stranger)} == {Status.EOK}


@story(server_support.run)
async def test_one_client_has_one_list_under_way(asker: Asker, store: EntryStore) -> None:
    long = LongLists(store)
    (stranger,) = clients(asker, serving(asker, long), 1)
    send_lists(stranger, 30)
    await settled()
    assert long.most_under_way == 1

    long.may_end = True
    await asker.node.simulation.until(lambda: len(stranger.answers) == 30, "all lists")
    assert long.most_under_way == 1


@story(server_support.run)
async def test_a_list_ends_with_its_client_and_leaves_its_place_to_others(asker: Asker, store: EntryStore) -> None:
    long = LongLists(store)
    processor = serving(asker, long)
    gone = clients(asker, processor, lists.LISTS)
    for client in gone:
        send_lists(client, 30)
    await settled()
    assert long.under_way == lists.LISTS

    for client in gone:
        processor.forget(client)
    await settled()
    assert (long.under_way, long.begun) == (0, lists.LISTS)
    assert [client.answers for client in gone] == [{}] * lists.LISTS

    (other,) = clients(asker, processor, 1)
    send_lists(other, 1)
    await settled()
    assert long.under_way == 1
    long.may_end = True
    await settled()
    assert statuses(other) == [Status.EOK]


@story(server_support.run)
async def test_a_client_that_takes_answers_again_gets_its_list(asker: Asker, store: EntryStore) -> None:
    processor = serving(asker, store)
    (client,) = clients(asker, processor, 1)
    client.takes_answers = False
    send_lists(client, 1)
    await settled()
    assert statuses(client) == []

    client.takes_answers = True
    processor.resume(client)

    await asker.node.simulation.until(lambda: bool(client.answers), "the list")


@story(server_support.run)
async def test_lists_that_were_held_up_by_what_others_do_not_take_go_on(asker: Asker, store: EntryStore) -> None:
    unsent = Unsent(64 * MIB)
    processor = serving(asker, store, unsent=unsent)
    deaf, client = clients(asker, processor, 2)
    unsent.note(deaf, 100 * MIB)  # type: ignore[arg-type]
    send_lists(client, 1)
    await settled()
    assert statuses(client) == []

    unsent.note(deaf, 0)  # type: ignore[arg-type]
    processor.look()

    await asker.node.simulation.until(lambda: bool(client.answers), "the list")


@story(server_support.run)
async def test_lists_beyond_what_may_wait_are_refused_and_never_stop_the_reading_of_a_socket(
    asker: Asker, store: EntryStore
) -> None:
    long = LongLists(store)
    processor = serving(asker, long)
    (stranger,) = clients(asker, processor, 1)
    send_lists(stranger, 1000)

    await settled()

    # A connection with 256 slow reads is not read, so its end would not be seen (connection.py).
    assert set(statuses(stranger)) == {Status.ETOOMANYREQUESTS}
    assert 100 < stranger.slow_reads < 256
    (other,) = clients(asker, processor, 1, host="10.0.1.1")
    send_lists(other, 1)
    await settled()
    assert (statuses(other), long.under_way) == ([], 2)

    long.may_end = True
    await asker.node.simulation.until(lambda: len(stranger.answers) == 1000, "all answers")


@story(server_support.run)
async def test_an_address_of_many_connections_has_half_of_the_lists_under_way_and_half_of_those_that_wait(
    asker: Asker, store: EntryStore
) -> None:
    """They counted for each connection: nine of one address took every place, and the tenth address was refused."""

    long = LongLists(store)
    processor = serving(asker, long)
    strangers = clients(asker, processor, 20, host="10.0.1.1")
    for stranger in strangers:
        send_lists(stranger, 100)
    await settled()
    assert long.under_way == lists.LISTS // 2
    refused = [status for stranger in strangers for status in statuses(stranger)]
    assert refused == [Status.ETOOMANYREQUESTS] * (20 * 100 - 512)

    (honest,) = clients(asker, processor, 1, host="10.0.2.2")
    send_lists(honest, 1)
    await settled()
    assert (statuses(honest), long.under_way) == ([], lists.LISTS)  # it has its place at once
    long.may_end = True
    await settled()
    assert statuses(honest) == [Status.EOK]


@story(server_support.run)
async def test_addresses_take_turns_however_many_connections_one_has(asker: Asker, store: EntryStore) -> None:
    long = LongLists(store)
    processor = serving(asker, long)
    (first,) = clients(asker, processor, 1, host="10.0.3.3")
    strangers = clients(asker, processor, 200, host="10.0.1.1")
    for stranger in [first, *strangers]:
        send_lists(stranger, 2)
    await settled()
    (honest,) = clients(asker, processor, 1, host="10.0.2.2")
    send_lists(honest, 2)
    order: list[Asker] = []
    for client in (honest, *strangers):
        client.reply = _noted(client, order)  # type: ignore[method-assign]

    long.may_end = True
    await asker.node.simulation.until(lambda: len(statuses(honest)) == 2, "the honest lists")

    assert order.index(honest) < order.index(honest, order.index(honest) + 1) < 20
    await asker.node.simulation.until(lambda: not any(one.slow_reads for one in strangers), "all lists")


@pytest.mark.parametrize("frame_bytes_max", [FRAME_LIMIT_BYTES, 1 * MIB])
@story(server_support.run)
async def test_a_list_fits_a_frame_or_is_unknown_and_is_never_cut(
    asker: Asker, store: EntryStore, *, frame_bytes_max: int
) -> None:
    """Also the frame of a bookie that was told a smaller one: what its clients take."""

    scattered = Scattered(store)
    (client,) = clients(asker, serving(asker, scattered, frame_bytes_max), 1)
    fitting = 2 * ((frame_bytes_max - lists.FRAME_REST_BYTES - 64) // 24)  # two runs are one group
    for count, status in ((fitting, Status.EOK), (fitting + 1, Status.EIO), (600_000, Status.EIO)):
        scattered.count = count
        answer = await client.ask(ListEntriesRequest(0, 3, LEDGER))

        assert isinstance(answer, ListEntriesResponse)
        assert answer.status is status, count
        assert (answer.availability is not None) == (status is Status.EOK), count
        assert sum(map(len, frame(pack_response(answer)))) <= frame_bytes_max
        if answer.availability is not None:
            assert availability.decode(answer.availability) == [_run(place) for place in range(count)]
