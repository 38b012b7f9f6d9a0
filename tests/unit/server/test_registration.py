"""Our record in the metadata store, with others around it (spec/metadata.md#M25, M26)."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.metadata import paths
from bookie.ports import World
from bookie.ports.metadata_store import CheckOp, MetadataStore, Session, find
from bookie.server.metrics import ServerMetrics
from bookie.server.registration import Registration
from bookie.sim.node import Simulation
from story_support import story

URI = "zk+hierarchical://zk:2181/ledgers"
AVAILABLE = f"{paths.available('/ledgers')}/b"
READ_ONLY = f"{paths.readonly('/ledgers')}/b"
TIMEOUT_MS = 6_000

Story = Callable[[World, MetadataStore, Registration], Coroutine[Any, Any, None]]


class Troubled:
    """A metadata store that answers neither transactions nor looks as long as it is told so, and notes what is deleted
    while which records are there."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.trouble: errors.MetadataError | None = None
        self.there_at_deletions: list[list[str]] = []
        self.tell_of_session: Callable[[Session], None] = lambda state: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def on_session(self, callback: Callable[[Session], None]) -> Callable[[], None]:
        self.tell_of_session = callback
        return self._store.on_session(callback)

    async def get(self, path: str) -> Any:
        if self.trouble is not None:
            raise self.trouble
        return await self._store.get(path)

    async def transact(self, operations: Sequence[Any]) -> Any:
        if self.trouble is not None:
            raise self.trouble
        return await self._store.transact(operations)

    async def delete(self, path: str) -> None:
        self.there_at_deletions.append(
            [each for each in (AVAILABLE, READ_ONLY) if await find(self._store, each) is not None]
        )
        await self._store.delete(path)


def run(story: Story) -> None:
    simulation = Simulation(1)

    async def on_node(world: World) -> None:
        real = await world.metadata_stores.connect(URI, session_timeout_ms=TIMEOUT_MS)
        store = cast(MetadataStore, Troubled(real))
        await store.create(paths.available("/ledgers"), b"", parents=True)
        registration = Registration(
            store,
            "/ledgers",
            BookieId("b"),
            b"info",
            world.clock,
            ServerMetrics(),
            session_timeout_ms=TIMEOUT_MS,
            while_held=nothing,
        )
        await story(world, store, registration)

    async def director() -> None:
        node = simulation.node("bookie")
        world = node.begin()
        await node.do(on_node(world))
        node.end()

    simulation.run(director())


async def nothing() -> Sequence[CheckOp]:
    """This process is the bookie, whatever happens."""
    return ()


async def twin(world: World) -> MetadataStore:
    """Another session that holds our record."""
    other = await world.metadata_stores.connect(URI, session_timeout_ms=TIMEOUT_MS)
    await other.create(AVAILABLE, b"other", ephemeral=True)
    return other


@story(run)
async def test_a_record_of_an_older_session_is_waited_out(
    world: World, store: MetadataStore, registration: Registration
) -> None:
    other = await twin(world)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await world.clock.sleep_until(world.clock.monotonic_ns() + 3_000_000_000)
        assert not registration.registered.is_set()

        await other.close()
        await registration.registered.wait()
        task.cancel()

    stored = await store.get(AVAILABLE)
    assert (stored.data, stored.owner) == (b"info", store.session_id)


@story(run)
async def test_an_id_that_somebody_else_lives_under_is_told_and_left_alone(
    world: World, store: MetadataStore, registration: Registration
) -> None:
    await twin(world)

    with pytest.raises(errors.RefusedToStart, match="give this one an id of its own"):
        await registration.run()

    assert (await store.get(AVAILABLE)).data == b"other"


@pytest.mark.parametrize("read_only", [False, True])
@story(run)
async def test_a_record_that_somebody_deletes_is_made_again_once_a_second_at_most(
    world: World, store: MetadataStore, registration: Registration, *, read_only: bool
) -> None:
    path = f"{paths.readonly('/ledgers')}/b" if read_only else AVAILABLE
    registration.set_read_only(read_only)
    stranger = await world.metadata_stores.connect(URI, session_timeout_ms=TIMEOUT_MS)
    began_ns, deleted = world.clock.monotonic_ns(), 0
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await registration.registered.wait()

        while world.clock.monotonic_ns() < began_ns + 5_000_000_000:
            if await find(store, path) is not None:
                await stranger.delete(path)
                deleted += 1
            await world.clock.sleep_until(world.clock.monotonic_ns() + 50_000_000)
        await world.clock.sleep_until(world.clock.monotonic_ns() + 2_000_000_000)
        stored = await store.get(path)
        task.cancel()

    assert (stored.data, stored.owner) == (b"info", store.session_id)
    assert 3 <= deleted <= 6


@pytest.mark.parametrize("ephemeral", [False, True])
@story(run)
async def test_what_a_stranger_puts_in_the_place_of_a_living_record_stays_and_ends_nothing(
    world: World, store: MetadataStore, registration: Registration, *, ephemeral: bool
) -> None:
    stranger = await world.metadata_stores.connect(URI, session_timeout_ms=TIMEOUT_MS)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await registration.registered.wait()
        await stranger.delete(AVAILABLE)
        await stranger.create(AVAILABLE, b"mine", ephemeral=ephemeral)

        await world.clock.sleep_until(world.clock.monotonic_ns() + 60_000_000_000)
        assert not task.done()
        assert (await store.get(AVAILABLE)).data == b"mine"

        await stranger.delete(AVAILABLE)
        await world.clock.sleep_until(world.clock.monotonic_ns() + 3_000_000_000)
        stored = await store.get(AVAILABLE)
        task.cancel()

    assert (stored.data, stored.owner) == (b"info", store.session_id)


@story(run)
async def test_what_a_stranger_writes_over_our_record_is_put_right(
    world: World, store: MetadataStore, registration: Registration
) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await registration.registered.wait()
        await (await world.metadata_stores.connect(URI, session_timeout_ms=TIMEOUT_MS)).put(AVAILABLE, b"\xff", -1)

        await world.clock.sleep_until(world.clock.monotonic_ns() + 3_000_000_000)
        stored = await store.get(AVAILABLE)
        task.cancel()

    assert (stored.data, stored.owner) == (b"info", store.session_id)


@story(run)
async def test_our_own_record_is_taken_as_it_is(world: World, store: MetadataStore, registration: Registration) -> None:
    await store.create(AVAILABLE, b"info", ephemeral=True)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await registration.registered.wait()
        task.cancel()


@story(run)
async def test_in_no_moment_of_a_change_of_mode_is_the_bookie_in_neither_list(
    world: World, store: MetadataStore, registration: Registration
) -> None:
    """An auditor that looks just then would take it for lost."""
    noted = cast(Troubled, store)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await registration.registered.wait()
        for is_read_only in (True, False):
            registration.set_read_only(is_read_only)
            await world.clock.sleep_until(world.clock.monotonic_ns() + 3_000_000_000)
            assert [await find(store, path) is not None for path in (AVAILABLE, READ_ONLY)] == [
                not is_read_only,
                is_read_only,
            ]
        task.cancel()
    assert noted.there_at_deletions == [[AVAILABLE, READ_ONLY], [AVAILABLE, READ_ONLY]]


@pytest.mark.parametrize("is_read_only", [False, True])
@story(run)
async def test_a_record_of_another_session_in_the_other_list_stays(
    world: World, store: MetadataStore, registration: Registration, *, is_read_only: bool
) -> None:
    """Its owner may be alive: who deletes it hides that from everybody who looks for the living."""
    stranger = await world.metadata_stores.connect(URI, session_timeout_ms=TIMEOUT_MS)
    wanted, other = (READ_ONLY, AVAILABLE) if is_read_only else (AVAILABLE, READ_ONLY)
    await stranger.create(other, b"other", ephemeral=True, parents=True)
    registration.set_read_only(is_read_only)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await registration.registered.wait()
        assert (await store.get(other)).data == b"other"
        assert (await store.get(wanted)).owner == store.session_id
        task.cancel()


@story(run)
async def test_a_record_that_lives_through_no_session_is_removed_from_the_other_list(
    world: World, store: MetadataStore, registration: Registration
) -> None:
    await store.create(READ_ONLY, b"left", parents=True)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await registration.registered.wait()
        assert await find(store, READ_ONLY) is None
        task.cancel()


@story(run)
async def test_while_the_metadata_store_is_out_of_reach_nobody_is_waited_for(
    world: World, store: MetadataStore, registration: Registration
) -> None:
    """A session that holds our record cannot expire meanwhile: its time begins when there are answers again."""
    other, noted = await twin(world), cast(Troubled, store)
    noted.trouble = errors.MetadataError("no answer")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await world.clock.sleep_until(world.clock.monotonic_ns() + 60_000_000_000)
        noted.trouble = None
        await world.clock.sleep_until(world.clock.monotonic_ns() + 5_000_000_000)
        await other.close()
        await registration.registered.wait()
        task.cancel()
    assert (await store.get(AVAILABLE)).data == b"info"


@story(run)
async def test_who_may_not_register_is_told_so_at_once(
    world: World, store: MetadataStore, registration: Registration
) -> None:
    cast(Troubled, store).trouble = errors.MetadataDenied("no right")
    with pytest.raises(errors.MetadataDenied):
        async with asyncio.timeout(30):
            await registration.run()


@story(run)
async def test_without_its_session_a_bookie_counts_as_not_registered(
    world: World, store: MetadataStore, registration: Registration
) -> None:
    noted = cast(Troubled, store)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await registration.registered.wait()
        noted.tell_of_session(Session.LOST)
        assert not registration.registered.is_set()
        await registration.registered.wait()
        task.cancel()


@story(run)
async def test_a_record_that_goes_while_nobody_answers_is_made_again(
    world: World, store: MetadataStore, registration: Registration
) -> None:
    noted, stranger = cast(Troubled, store), await world.metadata_stores.connect(URI, session_timeout_ms=TIMEOUT_MS)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(registration.run())
        await registration.registered.wait()
        noted.trouble = errors.MetadataError("no answer")
        await stranger.delete(AVAILABLE)
        await world.clock.sleep_until(world.clock.monotonic_ns() + 5_000_000_000)
        noted.trouble = None
        await world.clock.sleep_until(world.clock.monotonic_ns() + 3_000_000_000)
        stored = await store.get(AVAILABLE)
        task.cancel()

    assert (stored.data, stored.owner) == (b"info", store.session_id)
