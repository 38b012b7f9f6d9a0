"""The metadata store on ZooKeeper, through kazoo.

kazoo lives in threads of its own. Every answer and event is bounced onto our loop with `call_soon_threadsafe`; nothing
of ours runs in kazoo's threads, and nothing here blocks the loop. Each call has a deadline of its own: kazoo's queue
would otherwise hold it for as long as the servers are away. Translation of answers:

    lost connection, lost session or deadline passed   a write: OutcomeUnknown     a read: MetadataError, SessionLost
    no connection when the call begins                 wait for one until the deadline, then MetadataError: nothing sent

Never: a blind repetition of a write; nor a read that sees less than an earlier one of this process saw, also across
sessions. Rules: metadata.md 16; ports.metadata_store.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from bookie.base import errors
from bookie.metadata import paths
from bookie.ports.metadata_store import ANY_VERSION, CheckOp, CreateOp, DeleteOp, Op, PutOp, Session, Stored

log = logging.getLogger(__name__)

_RECONNECT_DELAY_MAX_S = 2.0  # a server that comes back is found within this time
_STOP_DEADLINE_S = 5.0

_LOST_ANSWERS = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.SessionExpiredError,
    kazoo_errors.OperationTimeoutError,
    kazoo_errors.CancelledError,
)
_SESSIONS = {
    KazooState.CONNECTED: Session.CONNECTED,
    KazooState.SUSPENDED: Session.SUSPENDED,
    KazooState.LOST: Session.LOST,
}


class ZooKeeperStores:
    """`ports.metadata_store.MetadataStores` for the real world."""

    async def connect(self, uri: str, *, session_timeout_ms: int = 30_000) -> "ZooKeeperStore":
        """Open a session. Raises BadInput for the URI, MetadataError naming the address when nobody answers in time."""
        parsed = paths.parse_uri(uri)
        store = ZooKeeperStore(parsed.hosts, session_timeout_ms)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(store.close)
            await store.open()
            undo.pop_all()
        return store


class ZooKeeperStore:
    """One session (`ports.metadata_store.MetadataStore`); after a lost one, the next begins by itself."""

    def __init__(self, hosts: str, session_timeout_ms: int) -> None:
        self._hosts = hosts
        self._deadline_s = session_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._listeners: dict[object, Callable[[Session], None]] = {}
        self._watches: dict[object, _Watch] = {}
        self._closed = False
        self._session_id = 0
        retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=_RECONNECT_DELAY_MAX_S)
        self.kazoo = _Kazoo(hosts=hosts, timeout=self._deadline_s, connection_retry=retry)
        self.kazoo.add_listener(self._on_kazoo_state)

    async def open(self) -> None:
        """Wait for the first connection."""
        self.kazoo.start_async()
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._connected.wait()
        except TimeoutError:
            raise errors.MetadataError(
                f"the metadata store at {self._hosts} did not answer within {self._deadline_s:g} s: "
                "is ZooKeeper running there, and is the metadata service URI right?"
            ) from None

    @property
    def session_id(self) -> int:
        """Of the current session; while it is suspended too, for its ephemeral nodes still stand."""
        return self._session_id

    # ---- calls -------------------------------------------------------------------------------------------------------

    async def get(self, path: str) -> Stored:
        data, stat = await self._read(f"reading {path}", lambda: self.kazoo.get_async(path))
        return Stored(data, stat.version, stat.ctime, stat.ephemeralOwner, stat.mtime)

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self._read(f"listing {path}", lambda: self.kazoo.get_children_async(path))
        return sorted(names)

    async def sync(self, path: str) -> None:
        await self._read(f"sync of {path}", lambda: self.kazoo.sync_async(path))

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        made: str = await self._write(
            f"creating {path}",
            lambda: self.kazoo.create_async(path, data, ephemeral=ephemeral, sequence=sequential, makepath=parents),
        )
        return made

    async def put(self, path: str, data: bytes, version: int) -> int:
        stat = await self._write(f"writing {path}", lambda: self.kazoo.set_async(path, data, version))
        return int(stat.version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._write(f"deleting {path}", lambda: self.kazoo.delete_async(path, version))

    async def transact(self, ops: Sequence[Op]) -> None:
        what = "a transaction on " + ", ".join(op.path for op in ops)
        for result in await self._write(what, lambda: self._transaction(ops).commit_async()):
            # Every operation but the one to blame answers "rolled back".
            if isinstance(result, Exception) and not isinstance(result, _NOT_TO_BLAME):
                raise _translated(result, what, wrote=False) from result

    def _transaction(self, ops: Sequence[Op]) -> Any:
        transaction = self.kazoo.transaction()
        for op in ops:
            match op:
                case CreateOp():
                    transaction.create(op.path, op.data, ephemeral=op.ephemeral)
                case PutOp():
                    transaction.set_data(op.path, op.data, op.version)
                case DeleteOp():
                    transaction.delete(op.path, op.version)
                case CheckOp():
                    transaction.check(op.path, op.version)
        return transaction

    # ---- events ------------------------------------------------------------------------------------------------------

    def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._watches[key] = watch = _Watch(self, path, on_change)
        watch.arm()

        def cancel() -> None:
            watch.cancelled = True
            self._watches.pop(key, None)

        return cancel

    def on_session(self, on_state: Callable[[Session], None]) -> Callable[[], None]:
        key = object()
        self._listeners[key] = on_state
        return lambda: self._listeners.pop(key, None) and None

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._watches.clear()
        self._listeners.clear()
        # kazoo joins its threads when it stops, and one that waits for a server's first word does so for a session
        # time-out. That is waited for elsewhere, and not to the end: a thread of the loop's own would keep the process.
        stopped = asyncio.Event()
        threading.Thread(target=self._stop, args=(stopped,), name="zookeeper stop", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_DEADLINE_S):
                await stopped.wait()

    def _stop(self, stopped: asyncio.Event) -> None:
        try:
            self.kazoo.stop()
            self.kazoo.close()
        finally:
            self.on_loop(stopped.set)

    # ---- the bridge between kazoo's threads and the loop -------------------------------------------------------------

    def on_loop(self, call: Callable[..., None], *args: Any) -> None:
        """Run `call` on our loop; from any thread. Dropped when the loop has ended, with everything else of ours."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *args)

    def _on_kazoo_state(self, state: str) -> None:
        self.on_loop(self._on_state, _SESSIONS[state])

    def _on_state(self, state: Session) -> None:
        if self._closed:
            return
        if state is Session.CONNECTED:
            self._session_id = int(self.kazoo.client_id[0]) if self.kazoo.client_id else 0
            self._connected.set()
            for watch in list(self._watches.values()):
                watch.fire()  # whatever changed meanwhile was not reported
        else:
            self._connected.clear()
        log.info("metadata store session %s session_id=%#x", state.value, self._session_id)
        for on_state in list(self._listeners.values()):
            on_state(state)

    async def _read(self, what: str, start: Callable[[], Any]) -> Any:
        return await self._call(what, start, wrote=False)

    async def _write(self, what: str, start: Callable[[], Any]) -> Any:
        return await self._call(what, start, wrote=True)

    async def _call(self, what: str, start: Callable[[], Any], *, wrote: bool) -> Any:
        sent = False
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._connected.wait()
                sent = True
                return await self._answer(start())
        except TimeoutError:
            kind = errors.OutcomeUnknown if wrote and sent else errors.MetadataError
            raise kind(
                f"{what}: the metadata store at {self._hosts} gave no answer in {self._deadline_s:g} s"
            ) from None
        except kazoo_errors.KazooException as error:
            raise _translated(error, what, wrote=wrote) from error

    def _answer(self, result: Any) -> Awaitable[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()

        def settle() -> None:
            if future.done():
                return  # its caller has gone
            if result.exception is None:
                future.set_result(result.value)
            else:
                future.set_exception(result.exception)

        result.rawlink(lambda _: self.on_loop(settle))
        return future


class _Kazoo(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A session that follows a lost one begins only at a server that knows at least what this client has seen.

    kazoo forgets that with the session. Then a `sync` in one session said nothing about a read in the next, which a
    server that lags behind may answer: a ledger that is being recovered would still look OPEN, one made just now as if
    it had been deleted.
    """

    def _reset(self) -> None:
        seen_zxid = getattr(self, "last_zxid", 0)
        super()._reset()
        self.last_zxid = seen_zxid


class _Watch:
    """A watch that is set again after each event, before its owner is told: so nothing is missed in between."""

    def __init__(self, store: ZooKeeperStore, path: str, on_change: Callable[[], None]) -> None:
        self._store = store
        self._path = path
        self._on_change = on_change
        self._is_due = False
        self.cancelled = False

    def arm(self) -> None:
        """Ask for events of data, existence and children. Lost requests are made up for at the next connection."""
        if not self.cancelled:
            self._store.kazoo.exists_async(self._path, watch=self._on_event)
            self._store.kazoo.get_children_async(self._path, watch=self._on_event)

    def fire(self) -> None:
        """Something may have changed: tell the owner once, however often this is called until then."""
        if not self.cancelled and not self._is_due:
            self._is_due = True
            self._store.on_loop(self._tell)

    def _on_event(self, _: Any) -> None:
        self._store.on_loop(self.fire)

    def _tell(self) -> None:
        self._is_due = False
        if not self.cancelled:
            # One session's requests are answered in order: whatever the owner reads now is read under the new watch.
            self.arm()
            self._on_change()


_NOT_TO_BLAME = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)


def _translated(error: Exception, what: str, *, wrote: bool) -> errors.MetadataError:
    """The one place where kazoo's exceptions become ours."""
    match error:
        case kazoo_errors.NoNodeError():
            return errors.NodeMissing(f"{what}: there is no such node")
        case kazoo_errors.NodeExistsError():
            return errors.NodeExists(f"{what}: it exists already")
        case kazoo_errors.BadVersionError():
            return errors.VersionConflict(f"{what}: somebody else changed it")
    if isinstance(error, _LOST_ANSWERS):
        if wrote:
            return errors.OutcomeUnknown(f"{what}: the answer was lost ({type(error).__name__})")
        if isinstance(error, kazoo_errors.SessionExpiredError):
            return errors.SessionLost(f"{what}: the session is gone")
    return errors.MetadataError(f"{what}: {type(error).__name__} {error}".rstrip())
