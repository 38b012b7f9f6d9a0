"""What a real ZooKeeper rarely does when one wants it: answers that never come, come twice or too late, sessions that
end and begin, watches that are lost. kazoo is played; what is asked of a real one stands in tests/integration."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest
from kazoo import exceptions as kazoo_errors
from kazoo.protocol.states import KazooState

from bookie.base import errors
from bookie.ports.metadata_store import Session
from bookie.runtime.zookeeper import ZooKeeperStore
from story_support import in_a_loop

NEVER_MS = 60_000
SOON_MS = 20


class Answer:
    """What kazoo gives for a request; it calls back each time it is settled."""

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: Exception | None = None
        self._call: Callable[[Any], None] = lambda _: None

    def rawlink(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def settle(self, value: Any = None, error: Exception | None = None) -> None:
        self.value, self.exception = value, error
        self._call(self)


class PlayedKazoo:
    """The part of kazoo's client that the store uses. Nothing is answered by itself."""

    def __init__(self, _: object, on_trouble: Callable[[str], None], **options: Any) -> None:
        self.refuse = on_trouble
        self.stops = 0
        self.client_id: tuple[int, bytes] | None = (1, b"")
        self.asked: list[tuple[str, str, Answer]] = []
        self.watches: list[Callable[[object], None]] = []

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self.tell = listener

    def __getattr__(self, name: str) -> Callable[..., Answer]:
        if not name.endswith("_async"):
            raise AttributeError(name)

        def ask(path: str, *_: object, watch: Callable[[object], None] | None = None, **__: object) -> Answer:
            self.asked.append((name.removesuffix("_async"), path, answer := Answer()))
            self.watches += [watch] if watch is not None else []
            return answer

        return ask

    def start_async(self) -> None:
        pass

    def stop(self) -> None:
        self.stops += 1

    def close(self) -> None:
        pass

    def asked_of(self, path: str) -> list[str]:
        return [name for name, asked, _ in self.asked if asked == path]

    def last(self) -> Answer:
        return self.asked[-1][2]


def a_store(*, timeout_ms: int = NEVER_MS, hosts: str = "zk:2181") -> tuple[ZooKeeperStore, PlayedKazoo]:
    store = ZooKeeperStore(hosts, timeout_ms, client=PlayedKazoo)
    return store, cast(PlayedKazoo, store.kazoo)


async def connected(*, timeout_ms: int = NEVER_MS) -> tuple[ZooKeeperStore, PlayedKazoo]:
    store, kazoo = a_store(timeout_ms=timeout_ms)
    kazoo.tell(KazooState.CONNECTED)
    await settled()
    return store, kazoo


async def settled() -> None:
    """Let everything run that waits for nothing but its turn."""
    for _ in range(10):
        await asyncio.sleep(0)


async def outcome(call: Coroutine[Any, Any, object]) -> object:
    (found,) = await asyncio.gather(call, return_exceptions=True)
    return found


@in_a_loop
async def test_a_write_that_is_never_answered_may_have_happened_and_a_read_is_an_error() -> None:
    store, kazoo = await connected(timeout_ms=SOON_MS)

    assert isinstance(await outcome(store.put("/x", b"", 0)), errors.OutcomeUnknown)
    assert isinstance(await outcome(store.delete("/x")), errors.OutcomeUnknown)
    read = await outcome(store.get("/x"))

    assert isinstance(read, errors.MetadataError)
    assert not isinstance(read, errors.OutcomeUnknown)
    assert kazoo.asked_of("/x") == ["set", "delete", "get"], "each was asked once: nothing is repeated blindly"


@in_a_loop
async def test_a_silent_store_is_an_error_also_to_whose_task_group_failed_before() -> None:
    """In Python 3.11.2 the task was cancelled instead: a bookie's repair, or its fill, ended without a word."""
    store, _ = await connected(timeout_ms=SOON_MS)

    async def fails() -> None:
        raise ValueError

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
    with pytest.raises(errors.MetadataError, match="gave no answer"):
        await store.get("/x")


@pytest.mark.parametrize("lost", [None, KazooState.SUSPENDED, KazooState.LOST])
@in_a_loop
async def test_without_a_connection_nothing_is_sent_and_a_write_has_not_happened(*, lost: str | None) -> None:
    store, kazoo = a_store(timeout_ms=SOON_MS)
    if lost is not None:
        kazoo.tell(KazooState.CONNECTED)
        kazoo.tell(lost)
        await settled()

    found = await outcome(store.put("/x", b"", 0))

    assert isinstance(found, errors.MetadataError)
    assert not isinstance(found, errors.OutcomeUnknown)
    assert kazoo.asked == []


@in_a_loop
async def test_a_call_that_began_without_a_connection_is_sent_once_there_is_one() -> None:
    store, kazoo = await connected()
    kazoo.tell(KazooState.SUSPENDED)
    await settled()
    listing = asyncio.create_task(store.children("/x"))
    await settled()
    assert kazoo.asked == []

    kazoo.tell(KazooState.CONNECTED)
    await settled()
    kazoo.last().settle(["b", "a"])

    assert await listing == ["a", "b"]


@in_a_loop
async def test_an_answer_that_comes_twice_or_after_its_caller_has_gone_disturbs_nobody() -> None:
    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
    store, kazoo = await connected()
    listing = asyncio.create_task(store.children("/x"))
    await settled()
    kazoo.last().settle(["a"])
    await settled()
    kazoo.last().settle(["b"])
    assert await listing == ["a"]

    gone = asyncio.create_task(store.children("/x"))
    await settled()
    gone.cancel()
    kazoo.last().settle(error=kazoo_errors.ConnectionLoss())
    kazoo.last().settle(["late"])
    await settled()

    assert gone.cancelled()
    assert troubles == []


@in_a_loop
async def test_the_session_is_that_of_the_last_connection_and_stands_while_it_is_suspended() -> None:
    store, kazoo = await connected()
    states: list[Session] = []
    store.on_session(states.append)
    kazoo.tell(KazooState.SUSPENDED)
    kazoo.client_id = (0, b"")  # as kazoo has it while it is asking for the next one
    await settled()
    assert store.session_id == 1

    kazoo.tell(KazooState.SUSPENDED)
    kazoo.tell(KazooState.LOST)
    kazoo.client_id = (2, b"")
    kazoo.tell(KazooState.CONNECTED)
    await settled()

    assert store.session_id == 2
    assert states == [Session.SUSPENDED, Session.LOST, Session.CONNECTED], "the same state is told once"


@in_a_loop
async def test_a_session_that_went_and_came_before_anybody_looked_is_told_as_a_new_one() -> None:
    """Who has ephemeral nodes must make them again."""
    store, kazoo = await connected()
    sessions: list[int] = []
    store.on_session(lambda _: sessions.append(store.session_id))

    kazoo.client_id = (2, b"")
    kazoo.tell(KazooState.CONNECTED)
    await settled()

    assert sessions == [2]


@in_a_loop
async def test_a_change_is_told_once_after_its_watch_was_set_again() -> None:
    store, kazoo = await connected()
    seen: list[int] = []
    store.watch("/x", lambda: seen.append(len(kazoo.watches)))
    assert sorted(kazoo.asked_of("/x")) == ["exists", "get_children"]
    by_data, by_children = kazoo.watches

    by_data(object())
    by_children(object())
    await settled()
    assert seen == [4], "told once, under the new watches"

    kazoo.watches[-1](object())
    await settled()
    assert seen == [4, 6]


@pytest.mark.parametrize("lost", [KazooState.SUSPENDED, KazooState.LOST])
@in_a_loop
async def test_after_a_lost_connection_every_watch_is_set_again_and_its_owner_told(*, lost: str) -> None:
    store, kazoo = await connected()
    changes: list[str] = []
    for path in ("/x", "/y"):
        store.watch(path, lambda path=path: changes.append(path))  # type: ignore[misc]
    cancel = store.watch("/z", lambda: changes.append("/z"))
    cancel()

    kazoo.tell(lost)
    await settled()
    assert changes == []
    kazoo.tell(KazooState.CONNECTED)
    await settled()

    assert changes == ["/x", "/y"]
    assert [len(kazoo.asked_of(path)) for path in ("/x", "/y", "/z")] == [4, 4, 2]


@in_a_loop
async def test_an_owner_that_cancels_while_an_event_is_on_its_way_hears_nothing_of_it() -> None:
    store, kazoo = await connected()
    changes: list[str] = []
    cancel = store.watch("/x", lambda: changes.append("/x"))
    kazoo.watches[0](object())
    await asyncio.sleep(0)  # the event is here, and its owner's turn comes next
    cancel()
    await settled()

    assert changes == []
    assert len(kazoo.watches) == 2


@in_a_loop
async def test_a_store_that_was_closed_tells_nobody_anything(*, caplog: pytest.LogCaptureFixture) -> None:
    """Not even the log: a session that ends with its process is no news that anybody should read."""
    caplog.set_level("INFO")
    store, kazoo = await connected()
    told: list[object] = []
    store.on_session(told.append)
    store.watch("/x", lambda: told.append("/x"))
    before = len(kazoo.asked)
    caplog.clear()

    kazoo.tell(KazooState.LOST)  # on its way while we close
    await store.close()
    await store.close()
    kazoo.tell(KazooState.CONNECTED)
    await settled()

    assert told == []
    assert len(kazoo.asked) == before
    assert caplog.text == ""
    assert kazoo.stops == 1


@in_a_loop
async def test_one_server_that_refuses_us_is_no_reason_while_another_may_take_us() -> None:
    store, kazoo = a_store(hosts="zk1:2181,zk2:2181")
    opening = asyncio.create_task(store.open())
    await settled()
    kazoo.refuse("zk1 does not know us")
    await settled()
    kazoo.refuse("")  # zk2 took us, and went before there was a session
    kazoo.refuse("zk1 does not know us")
    await settled()
    assert not opening.done()

    kazoo.refuse("")
    kazoo.tell(KazooState.CONNECTED)
    await settled()
    assert kazoo.asked_of("/") == ["sync"], "kazoo says that it is connected before it knows what it was granted"
    assert not opening.done()
    kazoo.last().settle()

    await opening


@in_a_loop
async def test_servers_that_all_refuse_us_end_the_wait_with_what_the_last_one_said() -> None:
    store, kazoo = a_store(hosts="zk1:2181,zk2:2181")
    opening = asyncio.create_task(store.open())
    await settled()
    kazoo.refuse("zk1 does not know us")
    kazoo.refuse("zk2 does not know us")

    with pytest.raises(errors.MetadataDenied, match="zk2 does not know us"):
        await opening


LOST = (
    kazoo_errors.ConnectionLoss(),
    kazoo_errors.ConnectionClosedError(),
    kazoo_errors.SessionExpiredError(),
    kazoo_errors.OperationTimeoutError(),
    kazoo_errors.CancelledError(),
)


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
@in_a_loop
async def test_an_answer_that_was_lost_on_its_way_leaves_a_write_unknown_and_a_read_an_error(
    *, error: Exception
) -> None:
    store, kazoo = await connected()
    calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: store.create("/x", b""),
        lambda: store.put("/x", b"", 0),
        lambda: store.delete("/x"),
        lambda: store.get("/x"),
    )
    found = []
    for call in calls:
        running = asyncio.ensure_future(call())
        await settled()
        kazoo.last().settle(error=error)
        found += await asyncio.gather(running, return_exceptions=True)

    *writes, read = found
    assert {type(each) for each in writes} == {errors.OutcomeUnknown}
    is_gone = isinstance(error, kazoo_errors.SessionExpiredError)
    assert type(read) is (errors.SessionLost if is_gone else errors.MetadataError)
