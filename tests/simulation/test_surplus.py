"""Surplus is given up by real bookies in whole clusters: what a client with an old record hears, and what is filled
when a record names the bookie again. Random runs: `test_swarm`, with `surplus`."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client.repair.evacuation import Evacuation
from bookie.metadata import serde
from bookie.sim import retirement, workload
from bookie.sim.cluster import BookieNode, ClientNode, SimCluster
from bookie.sim.replicas import Replicas, check_whole
from sim_support import on_cluster
from story_support import story

ENTRIES = 20
SETTINGS = {"bookies": 4, "surplus_wait_ms": 10_000, "upkeep_interval_ms": 3_000}


class Stage:
    """One closed ledger on three bookies; whoever leaves it goes on to run."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.replicas = Replicas(
            cluster.simulation.violation, lambda name: retirement.entry_store(cluster.bookies[name])
        )
        cluster.ledger_observers.append(self.replicas.metadata_changed)
        self.mover: ClientNode
        self.ledger_id: LedgerId
        self.ensemble: tuple[BookieId, ...]

    async def set(self) -> Stage:
        writer_node = await self.cluster.client("writer")
        writer = await writer_node(writer_node.client.create())
        for number in range(ENTRIES):
            payload = b"entry %d" % number
            entry_id = await writer_node(writer.append(payload))
            self.cluster.oracle.acknowledged(writer.id, entry_id, payload)
        await writer_node(writer.close())
        self.ledger_id, self.ensemble = writer.id, writer.metadata.last_segment.bookies
        self.mover = await self.cluster.client("mover")
        return self

    async def moved(self, *leavers: BookieId) -> None:
        evacuation = Evacuation(self.mover.client.shared, leavers)
        await self.mover(evacuation.move(self.ledger_id))
        assert not set(leavers) & set(self.named())

    def named(self) -> tuple[BookieId, ...]:
        metadata = self.cluster.metadata_of(self.ledger_id)
        assert metadata is not None
        return metadata.last_segment.bookies

    def node(self, name: BookieId) -> BookieNode:
        return self.cluster.bookies[name]

    def held(self, name: BookieId) -> int:
        store = retirement.entry_store(self.node(name))
        return -1 if store is None else sum(store.has_entry(self.ledger_id, EntryId(it)) for it in range(ENTRIES))

    async def given_up(self, *names: BookieId) -> None:
        await self.cluster.until(lambda: not any(self.held(name) for name in names), "surplus is given up")

    async def asked(self, name: BookieId) -> str:
        """Ask a bookie for an entry as clients do; return the name of its error, "" when it has the entry."""
        store = retirement.entry_store(self.node(name))
        assert store is not None
        try:
            await self.node(name).node.do(store.read(self.ledger_id, EntryId(1)))
        except BookieError as error:
            return type(error).__name__
        return ""

    async def end(self) -> None:
        await self.cluster.until_repaired()
        self.replicas.check_all()
        await workload.verify(self.cluster, [self.ledger_id])


@pytest.mark.parametrize("end", ["power cut", "stop", None])
@story(on_cluster, 1, **{**SETTINGS, "bookies": 6, "journal_write_data": True})
async def test_a_reader_with_an_old_record_is_told_no_by_none_of_the_bookies_of_then(
    cluster: SimCluster, *, end: str | None
) -> None:
    stage = await Stage(cluster).set()
    late = await cluster.client("late")
    reader = await late(late.client.open(stage.ledger_id))
    await stage.moved(*stage.ensemble)
    await stage.given_up(*stage.ensemble)
    for name in stage.ensemble if end else ():
        bookie = stage.node(name)
        if end == "stop":
            bookie.stop()
            await cluster.until(lambda bookie=bookie: not bookie.is_running, "it has stopped")  # type: ignore[misc]
        else:
            bookie.crash()
        bookie.start()
    await cluster.until_repaired()
    cluster.partition("late", "zk")  # so it keeps the record that it has

    with pytest.raises(BookieError) as told:
        await late(reader.read(0, ENTRIES - 1))

    assert not isinstance(told.value, errors.NoSuchEntry | errors.NoSuchLedger)
    assert [await stage.asked(name) for name in stage.ensemble] == ["UnknownLedgerState"] * 3
    cluster.heal()
    await stage.end()


@story(on_cluster, 1, **SETTINGS)
async def test_a_bookie_that_gave_up_its_surplus_is_filled_and_named_again(cluster: SimCluster) -> None:
    """The repairer forces its copies there, though what was given up before is unknown for ever."""
    stage = await Stage(cluster).set()
    leaver = stage.ensemble[0]
    await stage.moved(leaver)
    (taker,) = set(stage.named()) - set(stage.ensemble)
    await stage.given_up(leaver)

    await stage.moved(taker)

    assert leaver in stage.named()
    assert stage.held(leaver) == ENTRIES
    await stage.given_up(taker)
    assert await stage.asked(taker) == "UnknownLedgerState"
    await stage.end()
    await check_whole(cluster, [stage.ledger_id])


@story(on_cluster, 1, **SETTINGS)
async def test_a_repairer_that_names_the_bookie_though_its_lock_was_lost_is_mended_in_place(
    cluster: SimCluster,
) -> None:
    """Java's workers may do so. The bookie says "unknown" until its fill, or a repairer, has brought the entries."""
    stage = await Stage(cluster).set()
    leaver = stage.ensemble[0]
    before = cluster.metadata_of(stage.ledger_id)
    assert before is not None
    await stage.moved(leaver)
    await stage.given_up(leaver)
    cluster.ledger_observers.remove(stage.replicas.metadata_changed)  # it would tell of this very accident
    ledgers = stage.mover.client.shared.ledgers

    async def name_it_again() -> None:
        path = ledgers.path(stage.ledger_id)
        stored = await ledgers.store.get(path)
        await ledgers.store.put(path, serde.dump_ledger(before), stored.version)

    await stage.mover(name_it_again())
    assert leaver in stage.named()
    assert await stage.asked(leaver) == "UnknownLedgerState"
    store = retirement.entry_store(stage.node(leaver))
    assert store is not None
    is_told = False
    for _ in range(30):  # the next run of the collection reads the record
        with contextlib.suppress(errors.UnknownLedgerState):
            await stage.node(leaver).node.do(store.whole_list(stage.ledger_id, lambda runs: None))
            is_told = True
            break
        await asyncio.sleep(1)
    assert is_told
    assert await stage.asked(leaver) == "UnknownLedgerState"
    await check_whole(cluster, [stage.ledger_id])
    assert stage.held(leaver) == ENTRIES
    await workload.verify(cluster, [stage.ledger_id])
