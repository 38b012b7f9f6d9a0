"""Every bookie that the metadata store knows is named: one that is left out would be let go with data on it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_S
from bookie.integrity.members import members
from bookie.metadata import paths
from bookie.ports import World
from bookie.ports.admin import Member
from bookie.ports.metadata_store import MetadataStore
from bookie.sim.faults import Dials
from bookie.sim.metadata_store import MetadataFaults
from bookie.sim.node import SimNode, Simulation
from bookie.sim.znodes import Tree
from one_life_support import one_life
from story_support import story

ROOT = "/ledgers"


def make(tree: Tree, nodes: Iterable[str]) -> None:
    for path in nodes:
        tree.create(path, b"", now_ms=0, owner=0, sequential=False, parents=True)


def run(tell: Callable[[Tree, MetadataStore], Awaitable[None]], *, lag_ns: int = 0) -> None:
    simulation = Simulation(1, dials=Dials(metadata=MetadataFaults(lag_ns=lag_ns)))

    async def whole(world: World, _: SimNode) -> None:
        store = await world.metadata_stores.connect("zk+hierarchical://zk:2181/ledgers")
        await tell(simulation.keeper.tree, store)

    one_life(simulation, whole)


@story(run)
async def test_a_bookie_is_known_by_its_cookie_or_by_either_list(tree: Tree, store: MetadataStore) -> None:
    cookies = [paths.cookie(ROOT, BookieId(name)) for name in ("a", "b", "c")]
    writable = [f"{paths.available(ROOT)}/{name}" for name in ("b", "d")]
    make(tree, [*cookies, *writable, *(f"{paths.readonly(ROOT)}/{name}" for name in ("c", "e"))])
    tree.put(paths.cookie(ROOT, BookieId("b")), b"", -1, now_ms=0)

    assert await members(store, ROOT) == (
        Member("a", has_cookie=True, is_registered=False, is_writable=False, cookie_version=0),
        Member("b", has_cookie=True, is_registered=True, is_writable=True, cookie_version=1),
        Member("c", has_cookie=True, is_registered=True, is_writable=False, cookie_version=0),
        Member("d", has_cookie=False, is_registered=True, is_writable=True, cookie_version=-1),
        Member("e", has_cookie=False, is_registered=True, is_writable=False, cookie_version=-1),
    )


@story(run)
async def test_a_cluster_without_bookies_has_none(tree: Tree, store: MetadataStore) -> None:
    assert await members(store, ROOT) == ()
    make(tree, [paths.readonly(ROOT)])
    assert await members(store, ROOT) == (), "the folder of those that are read-only is no bookie"


@story(run, lag_ns=3_600 * NS_PER_S)
async def test_a_bookie_of_a_moment_ago_is_named_though_the_server_of_this_session_is_behind(
    tree: Tree, store: MetadataStore
) -> None:
    make(tree, [paths.cookie(ROOT, BookieId("a"))])

    assert [one.bookie_id for one in await members(store, ROOT)] == ["a"]


class Leaving:
    """A store in which the cookie of "a" goes as soon as it was listed."""

    def __init__(self, store: MetadataStore, tree: Tree) -> None:
        self._store, self._tree = store, tree

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def children(self, path: str) -> list[str]:
        found = await self._store.children(path)
        if path == paths.cookies(ROOT):
            self._tree.delete(paths.cookie(ROOT, BookieId("a")), -1)
        return found


@story(run)
async def test_a_cookie_that_goes_between_list_and_look_is_none(tree: Tree, store: MetadataStore) -> None:
    make(tree, [paths.cookie(ROOT, BookieId(name)) for name in ("a", "b")])

    assert [one.bookie_id for one in await members(cast(MetadataStore, Leaving(store, tree)), ROOT)] == ["b"]


class Withholding:
    """A store that lets nobody read the cookie of "a"."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, path: str) -> Any:
        if path == paths.cookie(ROOT, BookieId("a")):
            raise errors.MetadataDenied("no permission")
        return await self._store.get(path)


@story(run)
async def test_a_cookie_that_nobody_lets_us_read_is_there_and_hides_no_other(tree: Tree, store: MetadataStore) -> None:
    """Else one stranger's cookie would keep the operator from seeing any bookie."""
    make(tree, [paths.cookie(ROOT, BookieId(name)) for name in ("a", "b")])

    found = await members(cast(MetadataStore, Withholding(store)), ROOT)

    assert [(one.bookie_id, one.has_cookie, one.cookie_version) for one in found] == [("a", True, -1), ("b", True, 0)]
