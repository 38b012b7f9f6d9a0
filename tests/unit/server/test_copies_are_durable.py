"""What a replicator was answered stays: it publishes this bookie as one that has the entry, and forgets where the entry
came from. So its adds are durable before they are answered, whether entry data goes through the journal or not."""

import dataclasses

import pytest

import server_support
from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import EntryId
from bookie.base.units import MIB
from bookie.ports import World
from bookie.server import lists
from bookie.server.admission import Admission
from bookie.server.boundary import Boundary
from bookie.server.metrics import ServerMetrics
from bookie.server.processor import Processor
from bookie.server.readers import Readers
from bookie.server.unsent import Unsent
from bookie.sim.node import ProcessEnd, SimNode, Simulation
from bookie.storage import restart
from bookie.storage.store import EntryStore
from server_support import LEDGER, Asker, body


@pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT])
@pytest.mark.parametrize("journaled", [True, False])
@pytest.mark.parametrize("version", [2, 3])
def test_what_a_replicator_was_answered_outlives_any_end(version: int, journaled: bool, how: ProcessEnd) -> None:
    told: dict[int, Status] = {}

    async def copy(asker: Asker, store: EntryStore) -> None:
        for number in range(3):
            told[number] = (await asker.add(number, version=version, is_recovery=True)).status

    async def look(asker: Asker, store: EntryStore) -> None:
        for number, status in told.items():
            assert status is Status.EOK
            assert bytes(await store.read(LEDGER, EntryId(number))) == body(number)

    lives(copy, look, journaled=journaled, how=how)


def test_an_urgent_recovery_and_a_writer_are_answered_as_fast_as_before() -> None:
    async def work(asker: Asker, store: EntryStore) -> None:
        await asker.add(0)  # the ledger's key goes through the journal
        before = store.stats.journal_records
        await asker.add(1)
        await asker.add(2, is_recovery=True, is_high_priority=True)
        assert store.stats.journal_records == before
        await asker.add(3, is_recovery=True)
        assert store.stats.journal_records == before + 1

    lives(work, journaled=False, how=ProcessEnd.EXIT)


def test_a_copy_that_cannot_be_made_durable_is_not_answered_as_if_it_were() -> None:
    async def work(asker: Asker, store: EntryStore) -> None:
        await asker.add(0)
        asker.node.image.volumes["/data"].total_bytes = asker.node.image.volumes["/data"].used_bytes
        assert (await asker.add(1, is_recovery=True)).status is not Status.EOK
        with pytest.raises(errors.BookieError):
            await store.flush()

    lives(work, journaled=False, how=ProcessEnd.KILL)


def lives(*stories: server_support.Story, journaled: bool, how: ProcessEnd) -> None:
    """One story in each life of one node, which ends as told."""
    storage = dataclasses.replace(
        server_support.STORAGE, journal_write_data=journaled, unjournaled_flush_interval_ms=3_600_000
    )
    simulation = Simulation(1)

    async def on_node(world: World, node: SimNode, story: server_support.Story) -> None:
        store = await restart.open_store(storage, world, fail=lambda error: None)
        admission, metrics = Admission(), ServerMetrics()
        boundary = Boundary(server_support.StrictDoors())
        readers = Readers(boundary, Unsent(MIB))
        node.spawn(readers.run(), "readers")
        listers = lists.listers(boundary, Unsent(MIB))
        processor = Processor(store, readers, listers, admission, metrics, world.clock, boundary)
        await story(Asker(node, processor, admission), store)

    async def director() -> None:
        node = simulation.node("bookie")
        for story in stories:
            world = node.begin()
            await node.do(on_node(world, node, story))
            node.end(how)

    simulation.run(director())
