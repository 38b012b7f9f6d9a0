"""Marks and votes in Java's forms (spec/metadata.md#M31, M45, M48), with lost answers and beside others."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import underreplicated_support
from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.client.repair.election import Election
from bookie.client.repair.marks import Marks
from bookie.client.repair.replication_lock import locked
from bookie.ports.metadata_store import MetadataStore, find_children
from sim_support import Machine
from story_support import story

ROOT = "/ledgers"
AT = f"{ROOT}/underreplication"
SEVEN = LedgerId(12_345)
PATH = f"{AT}/ledgers/0000/0000/0000/3039/urL0000012345"
A, B, C = BookieId("a:1"), BookieId("b:1"), BookieId("c:1")


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


class After:
    """A metadata store that lets somebody act just after one node was read."""

    def __init__(self, store: MetadataStore, path: str, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._store = store
        self._path = path
        self._acts = [act]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, path: str) -> Any:
        found = await self._store.get(path)
        while path == self._path and self._acts:
            await self._acts.pop()()
        return found


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
async def test_a_mark_that_says_so_already_is_another_one_while_somebody_repairs_the_ledger(
    store: MetadataStore, another: MetadataStore
) -> None:
    """He may have looked before what the mark tells of the second time."""
    marks, his = Marks(store, ROOT), Marks(another, ROOT)
    await marks.mark(SEVEN, [A], 1)
    async with locked(another, ROOT, SEVEN, "he", None) as lock:
        found = await his.find(SEVEN)
        assert found is not None

        assert not await marks.mark(SEVEN, [A], 2)

        assert not await his.done(SEVEN, found.version, provided=lock.held)
        again = await his.find(SEVEN)
        assert again is not None
        assert again.record == found.record
        assert await his.done(SEVEN, again.version, provided=lock.held)


@story(tell)
async def test_a_loss_is_marked_though_the_mark_of_before_goes_while_it_is_looked_at(
    store: MetadataStore, another: MetadataStore
) -> None:
    marks, his = Marks(store, ROOT), Marks(another, ROOT)
    await marks.mark(SEVEN, [A], 1)

    async def repaired() -> None:
        assert await his.done(SEVEN, 0, provided=lock.held)
        await lock.give_back()

    async with locked(another, ROOT, SEVEN, "he", None) as lock:
        late: Any = After(store, PATH, repaired)

        assert await Marks(late, ROOT).mark(SEVEN, [A], 2)

    assert await marks.find(SEVEN) is not None


@story(tell)
async def test_a_mark_takes_nothing_away_that_another_noted_meanwhile(
    store: MetadataStore, another: MetadataStore
) -> None:
    await Marks(store, ROOT).mark(SEVEN, [A], 1)

    async def noted() -> None:
        await Marks(another, ROOT).mark(SEVEN, [B], 2)

    late: Any = After(store, PATH, noted)

    assert await Marks(late, ROOT).mark(SEVEN, [C], 3)

    found = await Marks(store, ROOT).find(SEVEN)
    assert found is not None
    assert found.record.missing == (A, B, C)


@story(tell)
async def test_who_has_lost_the_lock_removes_no_mark(store: MetadataStore, another: MetadataStore) -> None:
    """The next one may have it, and a mark that was made once more may have counted on that."""
    marks = Marks(store, ROOT)
    await marks.mark(SEVEN, [A], 1)
    async with locked(store, ROOT, SEVEN, "we", None) as lock:
        await another.delete(lock.path)

        assert not await marks.done(SEVEN, 0, provided=lock.held)

    assert await marks.find(SEVEN) is not None


@story(tell)
async def test_a_mark_that_is_gone_already_is_done(store: MetadataStore, another: MetadataStore) -> None:
    async with locked(store, ROOT, SEVEN, "we", None) as lock:
        assert await Marks(store, ROOT).done(SEVEN, 0, provided=lock.held)


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
