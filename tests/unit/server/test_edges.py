"""Any value of any field of a request is answered, and what was let in is read back by the next process."""

import itertools
from collections.abc import Iterator

import pytest

import server_support
from bookie.base.errors import Status
from bookie.base.ids import BootEpoch, EntryId, Incarnation, LedgerId, Life
from bookie.base.units import MIB
from bookie.ports import World
from bookie.server import lists
from bookie.server.admission import Admission
from bookie.server.boundary import Boundary
from bookie.server.metrics import ServerMetrics
from bookie.server.processor import Processor
from bookie.server.readers import Readers
from bookie.server.unsent import Unsent
from bookie.sim.node import SimNode, Simulation
from bookie.storage import restart
from bookie.storage.store import EntryStore
from bookie.wire import codes
from bookie.wire.messages import (
    AddRequest,
    BatchReadRequest,
    BookieInfoRequest,
    ForceRequest,
    ListEntriesRequest,
    ReadLacRequest,
    ReadRequest,
    Request,
    WriteLacRequest,
)
from server_support import Asker, StrictDoors
from story_support import story

LAST = 2**63 - 1
IDS = (-(2**63), -2, -1, 0, 7, 2**31, LAST - 1, LAST)
KEYS = (b"", server_support.KEY, bytes(64), bytes(65), bytes(65_536), bytes(70_000))
BODIES = (b"", bytes(15), bytes(16), bytes(23), bytes(24), bytes(31), bytes(32), bytes(70_000))
TIMES = (None, -(2**63), -1, 0, 1)
COUNTS = (-(2**31), -1, 0, 1, 2**31 - 1)
SIZES = (-(2**63), 0, 1, LAST)
FLAGS = (False, True)


def of(ledger_id: int, entry_id: int, lac: int, size: int) -> bytes:
    """The first `size` bytes of an entry that says who it is."""
    head = b"".join(number.to_bytes(8, "big", signed=True) for number in (ledger_id, entry_id, lac, 1))
    return head.ljust(size, b"x")[:size]


def adds() -> Iterator[Request]:
    for ledger_id, entry_id, is_deferred, is_recovery in itertools.product(IDS, IDS, FLAGS, FLAGS):
        for lac in (-(2**63), entry_id, LAST):
            body = of(ledger_id, entry_id, lac, 32)
            yield AddRequest(0, 3, LedgerId(ledger_id), EntryId(entry_id), b"", body, is_recovery, is_deferred)
    for number, key in enumerate(KEYS):
        yield AddRequest(0, 3, LedgerId(100 + number), EntryId(0), key, of(100 + number, 0, -1, 40))
    for size, is_deferred in itertools.product(range(33), FLAGS):
        yield AddRequest(0, 3, LedgerId(7), EntryId(1), b"", of(7, 1, 0, size), False, is_deferred)


def reads() -> Iterator[Request]:
    for ledger_id, entry_id in itertools.product(IDS, IDS):
        for version in (2, 3):
            yield ReadRequest(0, version, LedgerId(ledger_id), EntryId(entry_id))
            yield ReadRequest(0, version, LedgerId(ledger_id), EntryId(entry_id), b"", is_fencing=True)
        for count, size in itertools.product(COUNTS, SIZES):
            yield BatchReadRequest(0, 2, LedgerId(ledger_id), EntryId(entry_id), count, size)
        for previous, timeout_ms, is_piggyback in itertools.product(IDS, TIMES, FLAGS):
            ids = LedgerId(ledger_id), EntryId(entry_id)
            yield ReadRequest(0, 3, *ids, previous_lac=previous, timeout_ms=timeout_ms, is_piggyback=is_piggyback)
    for number, key in enumerate(KEYS):
        yield ReadRequest(0, 3, LedgerId(200 + number), EntryId(0), key, is_fencing=True)
        yield BatchReadRequest(0, 2, LedgerId(300 + number), EntryId(0), 1, 1, key, is_fencing=True)


def others() -> Iterator[Request]:
    for ledger_id in IDS:
        for kind in (ReadLacRequest, ForceRequest, ListEntriesRequest):
            yield kind(0, 3, LedgerId(ledger_id))
        for lac in IDS:
            body = b"".join(number.to_bytes(8, "big", signed=True) for number in (ledger_id, lac))
            yield WriteLacRequest(0, 3, LedgerId(ledger_id), lac, b"", body)
    for number, (key, body) in enumerate(itertools.product(KEYS, BODIES), 400):
        yield WriteLacRequest(0, 3, LedgerId(number), 0, key, number.to_bytes(8, "big") + body)
        yield WriteLacRequest(0, 3, LedgerId(number), 0, key, body)
    for requested in (-(2**63), 0, 3, LAST):
        yield BookieInfoRequest(0, 3, requested)


def test_every_edge_of_every_field_is_answered_and_read_back() -> None:
    before = [request for edges in (adds(), reads(), others()) for request in edges]
    simulation = Simulation(1)

    async def opened(world: World, node: SimNode) -> tuple[Asker, EntryStore]:
        def fail(error: Exception) -> None:
            raise AssertionError(f"the store stopped the node: {error}")

        store = await restart.open_store(server_support.STORAGE, world, fail=fail)
        boundary = Boundary(StrictDoors())
        readers, admission = Readers(boundary, Unsent(64 * MIB)), Admission()
        node.spawn(readers.run(), "readers")
        listers = lists.listers(boundary, Unsent(64 * MIB))
        node.spawn(listers.run(), "listers")
        processor = Processor(store, readers, listers, admission, ServerMetrics(), world.clock, boundary)
        processor.life = Life(Incarnation(1), BootEpoch(1))
        return Asker(node, processor, admission), store

    async def first_life(world: World, node: SimNode) -> dict[int, object]:
        asker, store = await opened(world, node)
        await asker.ask(BookieInfoRequest(0, 3, codes.INFO_LIFE))
        for request in before:
            await asker.ask(request)
        await store.flush()
        facts = {ledger_id: store.facts(ledger_id) async for ledger_id in store.ledgers()}
        assert await store.close()
        return facts

    async def next_life(world: World, node: SimNode, facts: dict[int, object]) -> None:
        _, store = await opened(world, node)
        for ledger_id, known in facts.items():
            assert store.facts(LedgerId(ledger_id)) == known
        await store.close()

    async def director() -> None:
        node = simulation.node("bookie")
        world = node.begin()
        facts = await node.do(first_life(world, node))
        node.end()
        world = node.begin()
        await node.do(next_life(world, node, facts))
        node.end()

    simulation.run(director())


@pytest.mark.parametrize(
    "request_",
    [
        AddRequest(0, 3, LedgerId(5), EntryId(0), bytes(65), of(5, 0, -1, 40)),
        AddRequest(0, 3, LedgerId(5), EntryId(0), bytes(70_000), of(5, 0, -1, 40)),
        ReadRequest(0, 3, LedgerId(5), EntryId(0), bytes(65), is_fencing=True),
        WriteLacRequest(0, 3, LedgerId(5), 0, bytes(65), of(5, 0, 0, 36)),
        WriteLacRequest(0, 3, LedgerId(5), 0, server_support.KEY, of(5, 0, 0, 36).ljust(65)),
    ],
    ids=lambda request: type(request).__name__,
)
@story(server_support.run)
async def test_what_is_too_long_is_a_bad_request_and_leaves_nothing_behind(
    asker: Asker, store: EntryStore, *, request_: Request
) -> None:
    answer = await asker.ask(request_)

    assert answer.status is Status.EBADREQ
    assert store.facts(LedgerId(5)) is None


@pytest.mark.parametrize(
    "request_",
    [
        AddRequest(0, 3, LedgerId(5), EntryId(0), b"", of(5, 0, -1, 40)),
        AddRequest(0, 3, LedgerId(5), EntryId(0), b"", of(5, 0, -1, 40), is_recovery=True),
        ReadRequest(0, 3, LedgerId(5), EntryId(0), b"", is_fencing=True),
        WriteLacRequest(0, 3, LedgerId(5), 0, b"", of(5, 0, 0, 36)),
    ],
    ids=["add", "recovery add", "fence", "LAC"],
)
@pytest.mark.parametrize("is_known", [False, True])
@story(server_support.run)
async def test_who_has_no_key_writes_nothing_that_the_first_key_would_be_put_over(
    asker: Asker, store: EntryStore, *, request_: Request, is_known: bool
) -> None:
    """A ledger of which no key is known takes the next one: what came with none would then be its clients'."""
    if is_known:
        await store.protect([(LedgerId(5), False, False, None)])
    before = store.facts(LedgerId(5))

    answer = await asker.ask(request_)

    assert answer.status is Status.EUA
    assert store.facts(LedgerId(5)) == before
    if is_known:
        assert await store.entry_ranges(LedgerId(5)) == []
        assert list(store.not_plain([LedgerId(5)], [b""], [EntryId(0)], [of(5, 0, -1, 40)])) == [0]
