"""The metadata store on ZooKeeper, through kazoo.

kazoo lives in threads of its own. Every answer and event is bounced onto our loop with `call_soon_threadsafe`; nothing
of ours runs in kazoo's threads, and nothing here blocks the loop. Each call has a deadline of its own: kazoo's queue
would otherwise hold it for as long as the servers are away. Translation of answers:

    lost connection, lost session or deadline passed   a write: OutcomeUnknown     a read: MetadataError, SessionLost
    no connection when the call begins                 wait for one until the deadline, then MetadataError: nothing sent

Never: a blind repetition of a write; nor a read that sees an older state than an earlier read of this process, also
across sessions. Rule: spec/metadata.md#M40.
"""

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Permissions, make_digest_acl_credential

from bookie.base import errors
from bookie.metadata import paths
from bookie.ports.metadata_store import (
    ANY_VERSION,
    CheckOp,
    CreateOp,
    DeleteOp,
    MetadataSecurity,
    Op,
    PutOp,
    Session,
    Stored,
)
from bookie.ports.time_limit import TimeLimit
from bookie.runtime.zookeeper_access import Kazoo

log = logging.getLogger(__name__)
# kazoo warns at each attempt to connect, naming no address: for who set up a log. Python prints it for all others.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

# Made with ACLs by nobody, also by Java with zkEnableSecurity=true: any client must be able to go on with them.
_ALWAYS_OPEN = re.compile(r"/idgen-long(/HOB-\d+)?$|/underreplication/lostBookieRecoveryDelay$")
_EVERYBODY = "world:anyone:cdrwa"
_RECONNECT_DELAY_MAX_S = 2.0  # a server that comes back is found within this time
_STOP_DEADLINE_S = 5.0

_LOST_ANSWERS = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.SessionExpiredError,  # ConnectionClosedError is one
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

    def __init__(self, security: MetadataSecurity | None = None) -> None:
        self._security = security or MetadataSecurity()

    async def connect(self, uri: str, *, session_timeout_ms: int = 30_000) -> "ZooKeeperStore":
        """Open a session. Raises BadInput for the URI and for keys that cannot be used, MetadataError naming the
        address when nobody answers in time, MetadataDenied when we are refused."""
        parsed = paths.parse_uri(uri)
        store = ZooKeeperStore(parsed.hosts, session_timeout_ms, self._security)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(store.close)
            await store.open()
            undo.pop_all()
        return store


class ZooKeeperStore:
    """One session (`ports.metadata_store.MetadataStore`); after a lost session, the next one begins by itself."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        security: MetadataSecurity | None = None,
        *,
        client: Callable[..., Any] = Kazoo,
    ) -> None:
        self._hosts = hosts
        self._deadline_s = session_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._listeners: dict[object, Callable[[Session], None]] = {}
        self._watches: dict[object, _ZooKeeperWatch] = {}
        self._closed = False
        self._session_id = 0
        self._security = security = security or MetadataSecurity()
        self._trouble = ""  # why the last attempt to connect was refused
        self._refusals = 0
        self._untold: dict[str, None] | None = {}  # refusals while we open, in their order; None: we are open
        self._refused = asyncio.Event()
        self._state: Session | None = None
        retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=_RECONNECT_DELAY_MAX_S)
        self.kazoo: Kazoo = client(
            security,
            lambda reason: self.on_loop(self._on_trouble, reason),
            hosts=hosts,
            timeout=self._deadline_s,
            connection_retry=retry,
        )
        self.kazoo.add_listener(self._on_kazoo_state)

    async def open(self) -> None:
        """Wait for the first connection to a server that accepts our identity. Raises at once when a server refuses
        it."""
        self.kazoo.start_async()
        try:
            async with TimeLimit(self._deadline_s):
                await self._first_of(self._connected, self._refused)
                if not self._trouble:
                    # kazoo says "connected" before it notes what a server granted.
                    with contextlib.suppress(errors.MetadataError):
                        await self.sync("/")
        except TimeoutError:
            pass
        if self._trouble:
            raise errors.MetadataDenied(f"the metadata store: {self._trouble}")
        if not self._connected.is_set():
            raise errors.MetadataError(
                f"the metadata store at {self._hosts} did not answer within {self._deadline_s:g} s: "
                "is ZooKeeper running there, with a majority of its servers, and is the metadata service URI right?"
                " (Does it want TLS: zkTlsEnabled?)"
            )
        untold, self._untold = self._untold, None
        for reason in untold or ():  # of other servers than the one that takes us
            _log_refusal(reason)

    async def _first_of(self, *events: asyncio.Event) -> None:
        waiting = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    @property
    def session_id(self) -> int:
        """Return the id of the current session, also while it is suspended, for its ephemeral nodes still stand."""
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self.kazoo.granted_ms

    # ---- calls -------------------------------------------------------------------------------------------------------

    async def get(self, path: str) -> Stored:
        data, stat = await self._read(f"reading {path}", lambda: self.kazoo.get_async(path))
        return Stored(data, stat.version, stat.ctime, stat.ephemeralOwner, stat.mtime, stat.czxid, stat.mzxid)

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self._read(f"listing {path}", lambda: self.kazoo.get_children_async(path))
        return sorted(names)

    async def sync(self, path: str) -> None:
        await self._read(f"sync of {path}", lambda: self.kazoo.sync_async(path))

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        parent = path.rsplit("/", 1)[0]
        if parents and parent and self._acl(path) != self._acl(parent):
            with contextlib.suppress(errors.NodeExists):  # kazoo would give the parents what the node gets
                await self.create(parent, b"", parents=True)
        made: str = await self._write(
            f"creating {path}",
            lambda: self.kazoo.create_async(
                path, data, acl=self._acl(path), ephemeral=ephemeral, sequence=sequential, makepath=parents
            ),
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
                    transaction.create(op.path, op.data, acl=self._acl(op.path), ephemeral=op.ephemeral)
                case PutOp():
                    transaction.set_data(op.path, op.data, op.version)
                case DeleteOp():
                    transaction.delete(op.path, op.version)
                case CheckOp():
                    transaction.check(op.path, op.version)
        return transaction

    def _acl(self, path: str) -> list[Any] | None:
        """Return the ACL for a new node: ours alone, or None (everybody's), as Java leaves some nodes open whatever is
        set (spec/metadata.md#M2)."""
        return CREATOR_ALL_ACL if self._security.creator_acl and not _ALWAYS_OPEN.search(path) else None

    async def acl(self, path: str) -> list[str]:
        """Return who may do what with a node, as `scheme:id:rights` in ZooKeeper's letters. Raises NodeMissing, and
        MetadataDenied for a client that may neither read nor administer the node."""
        found, _ = await self._read(f"reading the ACL of {path}", lambda: self.kazoo.get_acls_async(path))
        return [f"{acl.id.scheme}:{acl.id.id}:{_rights(acl.perms)}" for acl in found]

    def is_as_made(self, path: str, acl: Sequence[str]) -> bool:
        """Return True for the ACL that `path` would get if we made it now. ZooKeeper may also know us by a certificate,
        and then adds that."""
        if self._acl(path) is None:
            return list(acl) == [_EVERYBODY]
        return _EVERYBODY not in acl and all(f"{name}:cdrwa" in acl for name in self.names)

    @property
    def creates_owned(self) -> bool:
        """Return True when the nodes that we make belong to us alone."""
        return self._security.creator_acl

    @property
    def names(self) -> list[str]:
        """Return how ACLs name us, as `scheme:id`."""
        names = [f"sasl:{self._security.sasl_user}"] if self._security.sasl_user else []
        if self._security.digest:
            names.append(f"digest:{make_digest_acl_credential(*self._security.digest.reveal().split(':', 1))}")
        return names

    async def take(self, path: str) -> None:
        """Give a node the ACL that it would have if we made it now. Raises as `acl`."""
        acl = self._acl(path) or OPEN_ACL_UNSAFE
        await self._write(f"writing the ACL of {path}", lambda: self.kazoo.set_acls_async(path, acl))

    # ---- events ------------------------------------------------------------------------------------------------------

    def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._watches[key] = watch = _ZooKeeperWatch(self, path, on_change)
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
            async with TimeLimit(_STOP_DEADLINE_S):
                await stopped.wait()

    def _stop(self, stopped: asyncio.Event) -> None:
        try:
            self.kazoo.stop()
            self.kazoo.close()
        finally:
            self.on_loop(stopped.set)

    # ---- the bridge between kazoo's threads and the loop -------------------------------------------------------------

    def on_loop(self, call: Callable[..., None], *args: Any) -> None:
        """Run `call` on our loop; from any thread. When the loop has ended, drop the call."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *args)

    def _on_trouble(self, reason: str) -> None:
        if reason and self._untold is not None:
            self._untold[reason] = None  # who opens is told by an error
        elif reason and reason != self._trouble:
            _log_refusal(reason)
        self._trouble = reason
        self._refusals = self._refusals + 1 if reason else 0
        if self._refusals >= self._hosts.count(",") + 1:  # every server was asked
            self._refused.set()
        else:
            self._refused.clear()
        if not reason and self._security.sasl_user:
            self._on_state(Session.CONNECTED)

    def _on_kazoo_state(self, state: str) -> None:
        if state == KazooState.CONNECTED and self._security.sasl_user:
            return  # not before the server takes us for who we say we are (`_on_trouble`)
        self.on_loop(self._on_state, _SESSIONS[state])

    def _on_state(self, state: Session) -> None:
        if self._closed or (state is self._state and state is not Session.CONNECTED):
            return
        self._state = state
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
            async with TimeLimit(self._deadline_s):
                await self._connected.wait()
                sent = True
                return await self._answer(start())
        except TimeoutError:
            kind = errors.OutcomeUnknown if wrote and sent else errors.MetadataError
            why = f" ({self._trouble})" if self._trouble else ""
            raise kind(
                f"{what}: the metadata store at {self._hosts} gave no answer in {self._deadline_s:g} s{why}"
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


def _rights(perms: int) -> str:
    bits = (Permissions.CREATE, Permissions.DELETE, Permissions.READ, Permissions.WRITE, Permissions.ADMIN)
    return "".join(letter for letter, bit in zip("cdrwa", bits, strict=True) if perms & bit)


class _ZooKeeperWatch:
    """A watch that is set again after each event, before its owner hears of the event: so no change is missed."""

    def __init__(self, store: ZooKeeperStore, path: str, on_change: Callable[[], None]) -> None:
        self._store = store
        self._path = path
        self._on_change = on_change
        self._is_due = False
        self.cancelled = False

    def arm(self) -> None:
        """Ask for events of data, existence and children. After a lost request, ask again at the next connection."""
        if not self.cancelled:
            self._store.kazoo.exists_async(self._path, watch=self._on_event)
            self._store.kazoo.get_children_async(self._path, watch=self._on_event)

    def fire(self) -> None:
        """Tell the owner, once, that something may have changed, however often this is called until then."""
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


def _log_refusal(reason: str) -> None:
    log.warning("metadata store does not take us reason=%s", reason)


def _translated(error: Exception, what: str, *, wrote: bool) -> errors.MetadataError:
    """Return our exception for one of kazoo's. No other function translates them."""
    match error:
        case kazoo_errors.NoNodeError():
            return errors.NodeMissing(f"{what}: there is no such node")
        case kazoo_errors.NodeExistsError():
            return errors.NodeExists(f"{what}: it exists already")
        case kazoo_errors.BadVersionError():
            return errors.VersionConflict(f"{what}: somebody else changed it")
        case kazoo_errors.NoAuthError():
            return errors.MetadataDenied(
                f"{what}: no permission. Do these nodes belong to another user than the one that saslJaasFile's section"
                " Client, or zkDigestFile, names here? See `bookie metadata acl`"
            )
        case kazoo_errors.InvalidACLError():
            return errors.MetadataDenied(
                f"{what}: zkEnableSecurity=true wants an owner, and the metadata store does not know who we are"
            )
        case kazoo_errors.AuthFailedError():
            return errors.MetadataDenied(f"{what}: the metadata store does not take our user and password")
        case kazoo_errors.QuotaExceededError():
            return errors.MetadataError(
                f"{what}: ZooKeeper's quota is used up there: raise it (zkCli.sh: listquota, setquota), or delete"
                " ledgers that nobody needs"
            )
    if isinstance(error, _LOST_ANSWERS):
        if wrote:
            return errors.OutcomeUnknown(f"{what}: the answer was lost ({type(error).__name__})")
        if isinstance(error, kazoo_errors.SessionExpiredError):
            return errors.SessionLost(f"{what}: the session is gone")
        return errors.MetadataError(
            f"{what}: the metadata store did not answer ({type(error).__name__}): is it up, and can it be reached?"
        )
    reason = f"{type(error).__name__} {error}".rstrip()
    return errors.MetadataError(f"{what}: the metadata store refused it ({reason}): the log of its servers may say why")
