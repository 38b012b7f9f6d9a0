"""The simulated metadata store: sessions expire, answers get lost, watches are late; commits are exact."""

import asyncio

import pytest

from bookie.base import errors
from bookie.ports.metadata_store import CheckOp, CreateOp, PutOp, Session
from sim_support import Machine, on_machine
from story_support import story

URI = "zk+hierarchical://zk:2181/ledgers"


@story(on_machine)
async def test_a_session_of_a_dead_process_expires_and_its_ephemeral_nodes_go(machine: Machine) -> None:
    life = machine.loop.begin_life("bookie")
    stores = machine.begin(life, name="bookie").metadata_stores
    observer = await machine.begin(name="observer").metadata_stores.connect(URI)
    store = await machine.loop.spawn(life, stores.connect(URI, session_timeout_ms=10_000))
    await machine.loop.spawn(life, store.create("/available", b""))
    await machine.loop.spawn(life, store.create("/available/bookie", b"", ephemeral=True))
    machine.loop.end_life(life)
    await asyncio.sleep(5)
    assert await observer.children("/available") == ["bookie"]
    await asyncio.sleep(15)
    assert await observer.children("/available") == []


@story(on_machine)
async def test_a_partition_suspends_a_session_then_loses_it_and_a_new_one_begins(machine: Machine) -> None:
    store = await machine.begin(name="bookie").metadata_stores.connect(URI, session_timeout_ms=9_000)
    states: list[Session] = []
    store.on_session(states.append)
    first = store.session_id
    machine.fabric.hold("bookie", "zk")
    await asyncio.sleep(30)
    with pytest.raises(errors.MetadataError):
        await store.get("/")
    machine.fabric.release("bookie", "zk")
    await asyncio.sleep(10)
    assert states == [Session.SUSPENDED, Session.LOST, Session.CONNECTED]
    assert store.session_id != first
    await store.create("/after", b"")


@pytest.mark.parametrize("dial", ["lost_request_per_million", "lost_answer_per_million"])
def test_a_lost_answer_is_neither_success_nor_failure(dial: str) -> None:
    machine = Machine()

    async def story() -> bool:
        store = await machine.begin().metadata_stores.connect(URI)
        setattr(machine.keeper.faults, dial, 1_000_000)
        with pytest.raises(errors.OutcomeUnknown):
            await store.create("/node", b"")
        return "/node" in machine.keeper.tree.nodes

    assert machine.run(story) is (dial == "lost_answer_per_million")


@story(on_machine)
async def test_a_failed_transaction_changes_nothing(machine: Machine) -> None:
    store = await machine.begin().metadata_stores.connect(URI)
    await store.create("/a", b"1")
    with pytest.raises(errors.VersionConflict):
        await store.transact([PutOp("/a", b"2", 0), CreateOp("/b", b""), CheckOp("/a", 7)])
    stored = await store.get("/a")
    assert (stored.data, stored.version) == (b"1", 0)
    assert await store.children("/") == ["a"]


@story(on_machine)
async def test_changes_while_a_watch_is_on_its_way_coalesce_and_the_last_one_is_told(machine: Machine) -> None:
    watcher = await machine.begin(name="watcher").metadata_stores.connect(URI)
    writer = await machine.begin(name="writer").metadata_stores.connect(URI)
    await writer.create("/a", b"")
    told: list[float] = []
    watcher.watch("/a", lambda: told.append(machine.loop.time()))
    for version in range(10):
        await writer.put("/a", b"", version)
    last_change = machine.loop.time()
    await asyncio.sleep(5)
    assert 1 <= len(told) <= 10
    assert told[-1] >= last_change - 0.003
