"""What `bookie cluster decommission` deletes at the end: a bookie's cookie and its position, both or none."""

from collections.abc import Callable, Coroutine

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.cli import evacuate
from bookie.metadata import paths
from bookie.ports.metadata_store import MetadataStore
from bookie.sim.node import Simulation
from story_support import story

ROOT, ID = "/ledgers", BookieId("bookie-1")
COOKIE, POSITION, RECORD = paths.cookie(ROOT, ID), paths.position(ROOT, ID), paths.incarnation(ROOT, ID)


def with_records(story: Callable[[MetadataStore], Coroutine[None, None, None]], *made: str) -> None:
    simulation = Simulation("forget")

    async def run() -> None:
        node = simulation.node("clerk")
        store = await node.do(node.begin().metadata_stores.connect(f"zk+hierarchical://zk:2181{ROOT}"))
        for path in made:
            await node.do(store.create(path, b"x", parents=True))
        await node.do(story(store))

    simulation.run(run())


async def stands(store: MetadataStore, path: str) -> bool:
    try:
        await store.get(path)
    except errors.NodeMissing:
        return False
    return True


@story(with_records, COOKIE, POSITION, RECORD)
async def test_cookie_and_position_go_and_the_record_of_lives_stays(store: MetadataStore) -> None:
    assert await evacuate.forget(store, ROOT, ID)

    assert [await stands(store, path) for path in (COOKIE, POSITION, RECORD)] == [False, False, True]


@story(with_records, COOKIE)
async def test_a_bookie_that_told_no_position_is_forgotten_too(store: MetadataStore) -> None:
    assert await evacuate.forget(store, ROOT, ID)

    assert not await stands(store, COOKIE)


@story(with_records, POSITION)
async def test_without_a_cookie_nothing_is_deleted(store: MetadataStore) -> None:
    assert not await evacuate.forget(store, ROOT, ID)

    assert await stands(store, POSITION)


class Busy:
    """A store in which a process of the bookie tells its position once more, after ours was read."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.get = store.get

    async def transact(self, ops: list[object]) -> None:
        stored = await self._store.get(POSITION)
        await self._store.put(POSITION, b"y", stored.version)
        await self._store.transact(ops)  # type: ignore[arg-type]


@story(with_records, COOKIE, POSITION)
async def test_a_position_that_moves_keeps_the_cookie(store: MetadataStore) -> None:
    with pytest.raises(errors.VersionConflict):
        await evacuate.forget(Busy(store), ROOT, ID)  # type: ignore[arg-type]

    assert [await stands(store, path) for path in (COOKIE, POSITION)] == [True, True]
