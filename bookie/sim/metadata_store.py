"""The metadata store as simulated machines see it: sessions expire, answers get lost, watches fire late.

`Keeper` is the service: one tree, always up, reached over the fabric's links to the host "zk". `SimMetadataStore` is
one session of one process. A request that was sent and not answered raises OutcomeUnknown, done or not. A session's
reads may be `lag_ns` old (`bookie.sim.history`), until it asks for a `sync`.
"""

import enum
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bookie.base import errors
from bookie.base.units import NS_PER_MS
from bookie.ports.metadata_store import ANY_VERSION, Op, Session, Stored
from bookie.sim.clock import WALL_START_MS
from bookie.sim.history import TreeHistory
from bookie.sim.loop import SimLoop, SimProcess
from bookie.sim.network import RETRY_NS, Fabric
from bookie.sim.znodes import Tree

T = TypeVar("T")

KEEPER_HOST = "zk"


@dataclass(slots=True)
class MetadataFaults:
    """Dials of the metadata service."""

    latency_ns: int = 2 * NS_PER_MS
    lost_request_per_million: int = 0  # a change is not done, and the caller is not told
    lost_answer_per_million: int = 0  # a change is done, and the caller is not told
    late_watch_ns: int = 20 * NS_PER_MS
    lag_ns: int = 0  # how far the server of a session may be behind; drawn for each read


class Strike(enum.Enum):
    """What happens to one change and to the session that asked for it (`Keeper.strike`); the caller is not told."""

    REQUEST_LOST = "the change is not done, and the session lives"
    ANSWER_LOST = "the change is done, and the session lives"
    EXPIRES_BEFORE = "the session expires before the change"
    EXPIRES_AFTER = "the change is done, and the session expires"


class Keeper:
    """The metadata service. `on_event(node, what, facts)` goes to the trace."""

    def __init__(
        self,
        loop: SimLoop,
        fabric: Fabric,
        faults: MetadataFaults,
        random_: random.Random,
        on_event: Callable[[str, str, str], None] = lambda node, what, facts: None,
    ) -> None:
        self.loop = loop
        self.fabric = fabric
        self.faults = faults
        self.random = random_
        self.on_event = on_event
        self.tree = Tree(self._changed)
        self.history = TreeHistory(self.tree) if faults.lag_ns else None
        self.sessions: dict[int, SimMetadataStore] = {}
        self.calls = 0  # asked of the service since the beginning, by all sessions
        self.observers: list[Callable[[str], None]] = []  # told of every committed change, at once
        # Asked about every change of a living session, by the machine and what it asks for.
        self.strike: Callable[[str, str], Strike | None] = lambda host, what: None
        self._next_session = 0x5E55_0000

    def now_ms(self) -> int:
        return WALL_START_MS + self.loop.now_ns // NS_PER_MS

    def begin_session(self, client: "SimMetadataStore") -> int:
        self._next_session += 1
        self.sessions[self._next_session] = client
        return self._next_session

    def end_session(self, session_id: int) -> None:
        """End a session that was closed or expired: its ephemeral nodes go at once. A living process learns it with its
        next pulse."""
        if self.sessions.pop(session_id, None) is not None:
            self.on_event(KEEPER_HOST, "session ended", f"id={session_id:x}")
            self.tree.delete_owned_by(session_id)

    def _changed(self, path: str) -> None:
        if self.history is not None:
            self.history.note(path, self.loop.now_ns)
        for observer in self.observers:
            observer(path)
        for client in list(self.sessions.values()):
            client.path_changed(path)


@dataclass(frozen=True, slots=True)
class _View:
    """The tree as one session sees it."""

    history: TreeHistory
    commits: int

    def get(self, path: str) -> Stored:
        return self.history.get(path, self.commits)

    def children(self, path: str) -> list[str]:
        return self.history.children(path, self.commits)


@dataclass(slots=True, eq=False)
class _SimWatch:
    on_change: Callable[[], None]
    is_pending: bool = False
    is_ended: bool = False


class SimMetadataStore:
    """bookie.ports.metadata_store.MetadataStore."""

    def __init__(self, keeper: Keeper, life: SimProcess, host: str, session_timeout_ms: int) -> None:
        self._keeper = keeper
        self._loop = keeper.loop
        self._life = life
        self._host = host
        self._timeout_ns = session_timeout_ms * NS_PER_MS
        self._watches: dict[str, list[_SimWatch]] = {}
        self._listeners: list[Callable[[Session], None]] = []
        self._state = Session.CONNECTED
        self._is_closed = False
        self._heard_ns = self._loop.now_ns
        self._commits = 0  # how many this session has seen
        self._arrives_ns = 0
        self._returns_ns = 0
        self._session_id = keeper.begin_session(self)
        self._schedule_pulse()

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._timeout_ns // NS_PER_MS

    # ---- reads ----------------------------------------------------------------------------------------------------

    async def get(self, path: str) -> Stored:
        return await self._call(lambda: self._seen().get(path))

    async def children(self, path: str) -> list[str]:
        return await self._call(lambda: self._seen().children(path))

    async def sync(self, path: str) -> None:
        await self._call(self._catch_up)

    def _seen(self) -> "Tree | _View":
        """Return the tree that this session's server holds at this moment, which may be an old view of it."""
        keeper = self._keeper
        if keeper.history is None:
            return keeper.tree
        behind_ns = keeper.random.randrange(keeper.faults.lag_ns + 1) if keeper.faults.lag_ns else 0
        self._commits = max(self._commits, keeper.history.commits_at(self._loop.now_ns - behind_ns))
        return _View(keeper.history, self._commits)

    def _catch_up(self) -> None:
        """Let every later read of this session see all commits until now."""
        self._commits = self._keeper.tree.commits

    # ---- changes --------------------------------------------------------------------------------------------------

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        keeper = self._keeper
        return await self._change(
            f"create {path}",
            lambda: keeper.tree.create(
                path,
                data,
                now_ms=keeper.now_ms(),
                owner=self._session_id if ephemeral else 0,
                sequential=sequential,
                parents=parents,
            ),
        )

    async def put(self, path: str, data: bytes, version: int) -> int:
        keeper = self._keeper
        return await self._change(f"put {path}", lambda: keeper.tree.put(path, data, version, now_ms=keeper.now_ms()))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._change(f"delete {path}", lambda: self._keeper.tree.delete(path, version))

    async def transact(self, ops: Sequence[Op]) -> None:
        keeper = self._keeper
        await self._change(
            "transact " + " ".join(op.path for op in ops),
            lambda: keeper.tree.transact(ops, now_ms=keeper.now_ms(), owner=self._session_id),
        )

    # ---- watches and sessions ---------------------------------------------------------------------------------------

    def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        self._life.check()
        watch = _SimWatch(on_change)
        self._watches.setdefault(path, []).append(watch)

        def end() -> None:
            watch.is_ended = True
            if watch in self._watches.get(path, ()):
                self._watches[path].remove(watch)

        return end

    def on_session(self, on_state: Callable[[Session], None]) -> Callable[[], None]:
        self._life.check()
        self._listeners.append(on_state)
        return lambda: self._listeners.remove(on_state) if on_state in self._listeners else None

    async def close(self) -> None:
        self._life.check()
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_reachable():
            self._keeper.end_session(self._session_id)
        await self._loop.sleep_ns(self._latency_ns())

    # ---- calls ----------------------------------------------------------------------------------------------------

    async def _call(self, action: Callable[[], T]) -> T:
        """Send the request, do `action`, bring the answer back. Raises MetadataError when the service cannot be reached
        before the session times out."""
        deadline_ns = self._loop.now_ns + self._timeout_ns
        await self._travel("_arrives_ns", deadline_ns, errors.MetadataError("the metadata store did not answer"))
        try:
            answer: T | errors.MetadataError = action()
        except errors.MetadataError as error:
            answer = error
        await self._travel("_returns_ns", deadline_ns, errors.MetadataError("the metadata store did not answer"))
        if isinstance(answer, errors.MetadataError):
            raise answer
        return answer

    async def _change(self, what: str, action: Callable[[], T]) -> T:
        keeper, faults = self._keeper, self._keeper.faults
        deadline_ns = self._loop.now_ns + self._timeout_ns
        await self._travel("_arrives_ns", deadline_ns, errors.OutcomeUnknown(f"{what}: no answer"))
        if keeper.random.random() * 1_000_000 < faults.lost_request_per_million:
            keeper.on_event(self._host, "lost request", what)
            raise errors.OutcomeUnknown(f"{what}: no answer")
        if self._session_id not in keeper.sessions:
            raise errors.SessionLost(f"{what}: the session has expired")
        strike = keeper.strike(self._host, what)
        if strike is Strike.EXPIRES_BEFORE:
            keeper.end_session(self._session_id)
        if strike in (Strike.EXPIRES_BEFORE, Strike.REQUEST_LOST):
            raise errors.OutcomeUnknown(f"{what}: {strike.value}")
        commits = keeper.tree.commits
        try:
            answer: T | errors.MetadataError = action()
            keeper.on_event(self._host, "store", what)
        except errors.MetadataError as error:
            answer = error
            if keeper.history is not None and keeper.tree.commits > commits:
                keeper.history.forget_after(commits)
        self._catch_up()  # its server has seen all that was before this change, whether that was refused or not
        if strike is not None:
            if strike is Strike.EXPIRES_AFTER:
                keeper.end_session(self._session_id)
            raise errors.OutcomeUnknown(f"{what}: {strike.value}")
        if keeper.random.random() * 1_000_000 < faults.lost_answer_per_million:
            keeper.on_event(self._host, "lost answer", what)
            raise errors.OutcomeUnknown(f"{what}: no answer")
        await self._travel("_returns_ns", deadline_ns, errors.OutcomeUnknown(f"{what}: no answer"))
        if isinstance(answer, errors.MetadataError):
            raise answer
        return answer

    async def _travel(self, lane: str, deadline_ns: int, late: errors.MetadataError) -> None:
        """Wait for a message to travel one way, behind everything this session sent before. Raises `late` at the
        deadline."""
        self._life.check()
        self._keeper.calls += lane == "_arrives_ns"
        if self._is_closed:
            raise errors.SessionLost("the session is closed")
        due_ns = max(self._loop.now_ns + self._latency_ns(), getattr(self, lane))
        setattr(self, lane, due_ns)
        await self._loop.sleep_ns(due_ns - self._loop.now_ns)
        while not self._is_reachable():
            if self._loop.now_ns >= deadline_ns:
                raise late
            await self._loop.sleep_ns(RETRY_NS)

    def _latency_ns(self) -> int:
        return int(self._keeper.faults.latency_ns * (0.25 + self._keeper.random.random()))

    def _is_reachable(self) -> bool:
        fabric = self._keeper.fabric
        return not (fabric.is_held(self._host, KEEPER_HOST) or fabric.is_held(KEEPER_HOST, self._host))

    # ---- the life of a session --------------------------------------------------------------------------------------

    def _schedule_pulse(self) -> None:
        """Send the next pulse after a third of the time-out, as ZooKeeper pings. Runs in the network, since it outlives
        the process."""
        at_ns = self._loop.now_ns + self._timeout_ns // 3
        self._loop.call_at_ns(at_ns, self._pulse, context=self._loop.director.context)

    def _pulse(self) -> None:
        if self._is_closed:
            self._keeper.end_session(self._session_id)
            return
        now_ns = self._loop.now_ns
        is_reachable = self._is_reachable() and not self._life.is_dead and not self._life.is_paused
        if is_reachable:
            self._heard_ns = now_ns
        elif now_ns - self._heard_ns >= self._timeout_ns:
            self._keeper.end_session(self._session_id)
            if self._life.is_dead:
                return
        self._schedule_pulse()
        if not self._life.is_dead and not self._life.is_paused:
            self._life.context.copy().run(self._update_state, is_reachable)

    def _update_state(self, is_reachable: bool) -> None:
        if not is_reachable:
            if self._state is Session.CONNECTED:
                self._enter(Session.SUSPENDED)
        elif self._session_id not in self._keeper.sessions:
            self._session_id = self._keeper.begin_session(self)
            self._enter(Session.LOST)
            self._enter(Session.CONNECTED)
            for path in list(self._watches):
                self.path_changed(path)
        elif self._state is not Session.CONNECTED:
            self._enter(Session.CONNECTED)

    def _enter(self, state: Session) -> None:
        self._state = state
        self._keeper.on_event(self._host, "session", state.value)
        for on_state in list(self._listeners):
            self._loop.call_soon(on_state, state, context=self._life.context)

    def path_changed(self, path: str) -> None:
        """Tell the watches of `path`, some time later, once for all changes until then."""
        for watch in self._watches.get(path, ()):
            if not watch.is_pending:
                watch.is_pending = True
                self._schedule_notice(watch, int(self._keeper.faults.late_watch_ns * self._keeper.random.random()))

    def _schedule_notice(self, watch: _SimWatch, delay_ns: int) -> None:
        at_ns = self._loop.now_ns + self._latency_ns() + delay_ns
        self._loop.call_at_ns(at_ns, self._notify, watch, context=self._life.context)

    def _notify(self, watch: _SimWatch) -> None:
        if watch.is_ended or self._is_closed:
            return
        if not self._is_reachable():
            self._schedule_notice(watch, RETRY_NS)
            return
        watch.is_pending = False
        self._catch_up()
        watch.on_change()


class SimMetadataStores:
    """bookie.ports.metadata_store.MetadataStores of one process on the machine `host`."""

    def __init__(self, keeper: Keeper, life: SimProcess, host: str) -> None:
        self._keeper = keeper
        self._life = life
        self._host = host

    async def connect(self, uri: str, *, session_timeout_ms: int = 30_000) -> SimMetadataStore:
        self._life.check()
        scheme, _, rest = uri.partition("://")
        if not scheme.startswith("zk") or "/" not in rest:
            raise errors.BadInput(f"metadata service URI {uri!r} is not zk+hierarchical://host:port/root")
        fabric, loop = self._keeper.fabric, self._keeper.loop
        deadline_ns = loop.now_ns + session_timeout_ms * NS_PER_MS
        await loop.sleep_ns(fabric.latency_ns())
        hosts = rest.partition("/")[0]
        is_known = any(address.partition(":")[0] == KEEPER_HOST for address in hosts.split(";"))
        while not is_known or fabric.is_held(self._host, KEEPER_HOST) or fabric.is_held(KEEPER_HOST, self._host):
            if loop.now_ns >= deadline_ns:
                raise errors.MetadataError(f"no metadata store answers at {hosts}; check the URI and that it runs")
            await loop.sleep_ns(RETRY_NS)
        return SimMetadataStore(self._keeper, self._life, self._host, session_timeout_ms)
