"""One auditor among processes of ours and Java's: the lowest living vote leads (spec/metadata.md#M45)."""

import asyncio

from bookie.base.ids import BookieId
from bookie.client.repair.election import Election
from bookie.metadata import paths
from bookie.ports.metadata_store import MetadataStore
from sim_support import Machine, on_machine
from story_support import story

URI = "zk+hierarchical://zk:2181/ledgers"
VOTES = paths.auditor_votes("/ledgers")


async def process(machine: Machine, name: str) -> "tuple[MetadataStore, Election]":
    store = await machine.begin(name=name).metadata_stores.connect(URI, session_timeout_ms=9_000)
    return store, Election(store, "/ledgers", BookieId(name))


@story(on_machine)
async def test_only_the_lowest_vote_leads_and_the_next_one_when_it_is_withdrawn(machine: Machine) -> None:
    _, first = await process(machine, "first")
    _, second = await process(machine, "second")

    assert [await one.leads() for one in (first, second, first, second)] == [True, False, True, False]
    await first.withdraw()
    assert [await second.leads(), await first.leads()] == [True, False], "who votes anew stands behind"


@story(on_machine)
async def test_who_lost_its_session_leads_no_more_and_votes_behind_all_others(machine: Machine) -> None:
    store, first = await process(machine, "first")
    _, second = await process(machine, "second")
    assert [await first.leads(), await second.leads()] == [True, False]
    machine.fabric.hold("first", "zk")
    await asyncio.sleep(30)
    assert await second.leads()
    machine.fabric.release("first", "zk")
    await asyncio.sleep(10)

    assert [await first.leads(), await second.leads()] == [False, True]
    assert len(await store.children(VOTES)) == 2


@story(on_machine)
async def test_a_vote_of_ours_that_a_stranger_wrote_over_is_ours_still(machine: Machine) -> None:
    store, first = await process(machine, "first")
    assert await first.leads()
    (name,) = await store.children(VOTES)
    await store.put(f"{VOTES}/{name}", b"\xff", -1)

    assert [await first.leads() for _ in range(3)] == [True, True, True]
    assert await store.children(VOTES) == [name]


@story(on_machine)
async def test_who_leads_stands_in_the_parent_of_the_votes_as_java_does(machine: Machine) -> None:
    store, first = await process(machine, "first")
    _, second = await process(machine, "second")
    assert [await first.leads(), await second.leads()] == [True, False]

    await first.announce()
    assert (await store.get(VOTES)).data == b'bookieId: "first"\n'
    await first.withdraw()
    await second.announce()
    assert (await store.get(VOTES)).data == b'bookieId: "second"\n'


@story(on_machine)
async def test_a_vote_whose_answer_was_lost_is_found_and_no_second_one_is_made(machine: Machine) -> None:
    store, first = await process(machine, "first")
    await store.create(VOTES, b"", parents=True)
    machine.keeper.faults.lost_answer_per_million = 1_000_000
    await first._vote()
    machine.keeper.faults.lost_answer_per_million = 0

    assert await first.leads()
    assert len(await store.children(VOTES)) == 1
