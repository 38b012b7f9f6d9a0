"""Our registration in the metadata store: under `available` while writable, under `available/readonly` otherwise.

It is ephemeral: it says "alive", and dies with our session. When a session was lost the record is made again in the
mode of the moment, and only while this process is known to be the bookie: it follows the sign of `integrity.holder`, in
one transaction with a check of it. A record left by an earlier session of this very id is waited out (in the list of
the other mode left alone), never deleted: its owner may still be alive and serving (spec/metadata.md#M25, M26).
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS, NS_PER_S
from bookie.metadata import paths
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import CheckOp, CreateOp, MetadataStore, Session, find
from bookie.ports.time_limit import TimeLimit
from bookie.server.metrics import ServerMetrics

log = logging.getLogger(__name__)

# Between attempts while the metadata store does not answer. We go on serving meanwhile: clients know our address.
_RETRY_NS = NS_PER_S
# Added to the session time-out when waiting for an old record: servers expire sessions in ticks.
_EXPIRY_SLACK_MS = 10_000


class Registration:
    """Keeps one bookie registered. `run` does the work; the other methods tell it what is wanted."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        bookie_id: BookieId,
        info: bytes,
        clock: Clock,
        metrics: ServerMetrics,
        *,
        session_timeout_ms: int,
        while_held: Callable[[], Awaitable[Sequence[CheckOp]]],
    ) -> None:
        """`while_held`: waits until this process may be the bookie, and returns checks that hold
        exactly as long as it is."""
        self._store = store
        self._while_held = while_held
        self._bookie_id = bookie_id
        self._writable = f"{paths.available(root)}/{bookie_id}"
        self._readonly_parent = paths.readonly(root)
        self._readonly = f"{self._readonly_parent}/{bookie_id}"
        self._info = info
        self._clock = clock
        self._metrics = metrics
        self._wait_ns = (session_timeout_ms + _EXPIRY_SLACK_MS) * NS_PER_MS
        self._is_read_only = False
        self._changed = asyncio.Event()
        self._is_due = True  # a record is to be made, or to be moved
        self._mended_ns = -_RETRY_NS  # when `_is_deleted` last found our record not as it is to be, or had no answer
        self.registered = asyncio.Event()

    def set_read_only(self, is_read_only: bool) -> None:
        """Ask for the record to be moved; `run` does so soon."""
        if is_read_only != self._is_read_only:
            self._is_read_only = is_read_only
            self._is_due = True
            self._changed.set()

    async def run(self) -> None:
        """Register, and stay registered until cancelled.
        Raises RefusedToStart when the id belongs to another bookie."""
        ends = [self._store.on_session(self._on_session)]
        ends += [self._store.watch(path, self._changed.set) for path in (self._writable, self._readonly)]
        try:
            while True:
                self._changed.clear()
                if self._is_due or await self._is_deleted():
                    self._is_due = False
                    await self._register_until_done()
                await self._changed.wait()
        finally:
            for end in ends:
                end()

    async def _is_deleted(self) -> bool:
        """Return True when somebody deleted our record while our session went on: nobody would use this bookie any
        more, and an auditor would take it for lost. What another left in its place stays, and is told. What was
        written over ours is put right. A stranger that does so all the time costs a look a second."""
        await self._clock.sleep_until(self._mended_ns + _RETRY_NS)
        path = self._readonly if self._is_read_only else self._writable
        try:
            found = await find(self._store, path)
            if found is None or found.data != self._info:
                self._mended_ns = self._clock.monotonic_ns()
                owner = 0 if found is None else found.owner
                log.warning("our record was deleted or replaced path=%s owner=%#x", path, owner)
            if found is not None and found.owner == self._store.session_id and found.data != self._info:
                await self._store.put(path, self._info, found.version)
        except errors.MetadataError as error:
            log.debug("our record not looked at path=%s reason=%s", path, error)
            self._mended_ns = self._clock.monotonic_ns()
            self._changed.set()
            return False
        return found is None

    def _on_session(self, state: Session) -> None:
        if state is Session.LOST:
            self.registered.clear()
            self._is_due = True
            self._changed.set()

    async def _register_until_done(self) -> None:
        deadline_ns = self._clock.monotonic_ns() + self._wait_ns
        while True:
            try:
                await self._register(deadline_ns, is_read_only=self._is_read_only)
            except errors.MetadataDenied:
                raise
            except errors.MetadataError as error:
                log.warning("registration not possible now bookie_id=%s reason=%s", self._bookie_id, error)
                await self._clock.sleep_until(self._clock.monotonic_ns() + _RETRY_NS)
                deadline_ns = self._clock.monotonic_ns() + self._wait_ns  # an unreachable store expires nobody
            else:
                self._metrics.registrations += 1
                self.registered.set()
                return

    async def _register(self, deadline_ns: int, *, is_read_only: bool) -> None:
        """Make the wanted record, then remove the other: clients take a bookie in both lists for alive."""
        if is_read_only:
            with contextlib.suppress(errors.NodeExists):
                await self._store.create(self._readonly_parent, b"", parents=True)
        wanted, other = (self._readonly, self._writable) if is_read_only else (self._writable, self._readonly)
        await self._create(wanted, deadline_ns)
        await self._remove(other)
        log.info("registered bookie_id=%s path=%s", self._bookie_id, wanted)

    async def _remove(self, path: str) -> None:
        """Remove our record at `path`, or one that lives through no session. Whose session goes on may be alive."""
        found = await find(self._store, path)
        if found is None:
            return
        if found.owner not in (0, self._store.session_id):
            log.warning("another session holds a record of our id, left alone path=%s session=%#x", path, found.owner)
            return
        with contextlib.suppress(errors.NodeMissing):
            await self._store.delete(path)

    async def _create(self, path: str, deadline_ns: int) -> None:
        while True:
            try:
                await self._store.transact((*await self._while_held(), CreateOp(path, self._info, ephemeral=True)))
            except errors.NodeExists:
                pass
            else:
                return
            try:
                found = await self._store.get(path)
            except errors.NodeMissing:
                continue  # it went just now
            if found.owner == self._store.session_id:
                return  # ours: an answer that was lost, or a session that came back
            log.warning(
                "another session holds our record, waiting for it to end path=%s session=%#x", path, found.owner
            )
            await self._wait_gone(path, deadline_ns)

    async def _wait_gone(self, path: str, deadline_ns: int) -> None:
        changed = asyncio.Event()
        cancel = self._store.watch(path, changed.set)
        try:
            while True:
                changed.clear()
                try:
                    await self._store.get(path)
                except errors.NodeMissing:
                    return
                remaining_ns = deadline_ns - self._clock.monotonic_ns()
                if remaining_ns <= 0:
                    raise errors.RefusedToStart(
                        f"{path} is still held by another session after {self._wait_ns // NS_PER_S} s: another process"
                        f" runs as bookie {self._bookie_id}. Stop it, or give this one an id of its own"
                    )
                with contextlib.suppress(TimeoutError):  # the deadline is checked after one last look
                    async with TimeLimit(remaining_ns / NS_PER_S):
                        await changed.wait()
        finally:
            cancel()
