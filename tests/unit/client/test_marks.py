"""Marks and votes in Java's forms (spec/metadata.md#M31, M45, M48), with lost answers and beside others."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import underreplicated_support
from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.client.repair.election import Election
from bookie.client.repair.marks import Marks
from bookie.ports.metadata_store import MetadataStore, find_children
from sim_support import Machine
from story_support import story

ROOT = "/ledgers"
AT = f"{ROOT}/underreplication"
SEVEN = LedgerId(12_345)
PATH = f"{AT}/ledgers/0000/0000/0000/3039/urL0000012345"
A, B = BookieId("a:1"), BookieId("b:1")


def tell(story: Callable[[MetadataStore, MetadataStore], Coroutine[Any, Any, None]]) -> None:
    """With two sessions of one metadata store."""
    machine = Machine()

    async def whole() -> None:
        world = machine.begin()
        stores = [await world.metadata_stores.connect("zk+hierarchical://zk:2181/ledgers") for _ in range(2)]
        await story(*stores)
        for store in stores:
            await store.close()

    machine.run(whole)


@story(tell)
async def test_a_mark_has_javas_path_and_form_and_takes_in_more_bookies(
    store: MetadataStore, another: MetadataStore
) -> None:
    marks = Marks(store, ROOT)
    await marks.prepare()

    assert await marks.mark(SEVEN, [B], 1_700_000_000_000)
    assert (await store.get(PATH)).data == underreplicated_support.mark(["b:1"], 1_700_000_000_000)
    assert not await marks.mark(SEVEN, [B], 1_700_000_000_001)
    assert (await store.get(PATH)).version == 0  # untouched
    assert await marks.mark(SEVEN, [A, B], 1_700_000_000_002)
    assert (await store.get(PATH)).data == underreplicated_support.mark(["b:1", "a:1"], 1_700_000_000_002)
    assert (await store.get(f"{AT}/LAYOUT")).data == b'type: "BASIC"\nversion: 1\n'


@story(tell)
async def test_a_mark_that_changed_since_it_was_read_stays(store: MetadataStore, another: MetadataStore) -> None:
    marks = Marks(store, ROOT)
    await marks.mark(SEVEN, [A], 1)
    found = await marks.find(SEVEN)
    assert found is not None
    await marks.mark(SEVEN, [B], 2)

    assert not await marks.done(SEVEN, found.version)

    again = await marks.find(SEVEN)
    assert again is not None
    assert again.record.missing == (A, B)
    assert await marks.done(SEVEN, again.version)
    assert await marks.find(SEVEN) is None
    assert await find_children(store, f"{AT}/ledgers") == []  # no empty directories are left


@story(tell)
async def test_a_queue_of_another_form_is_refused(store: MetadataStore, another: MetadataStore) -> None:
    await store.create(f"{AT}/LAYOUT", b'type: "FANCY"\nversion: 2\n', parents=True)

    with pytest.raises(errors.RefusedToStart, match="FANCY"):
        await Marks(store, ROOT).prepare()


@story(tell)
async def test_the_lowest_vote_leads_javas_or_ours_and_a_vote_that_vanished_is_cast_again(
    store: MetadataStore, java: MetadataStore
) -> None:
    election = Election(store, ROOT, A)
    vote = await java.create(
        f"{AT}/auditorelection/V_", b'bookieId: "j:1"\n', ephemeral=True, sequential=True, parents=True
    )

    assert not await election.leads()
    assert not await election.leads()
    votes = await find_children(store, f"{AT}/auditorelection")
    assert len(votes) == 2  # ours once
    await java.delete(vote)
    assert await election.leads()
    ours = f"{AT}/auditorelection/{votes[1]}"
    assert (await store.get(ours)).data == b'bookieId: "a:1"\n'

    await java.create(f"{AT}/auditorelection/V_", b'bookieId: "j:1"\n', ephemeral=True, sequential=True)
    await java.delete(ours)
    assert not await election.leads()  # behind Java's now
    await election.withdraw()
    assert len(await find_children(store, f"{AT}/auditorelection")) == 1
