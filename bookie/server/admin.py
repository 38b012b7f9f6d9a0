"""Answers the admin service's questions as plain calls; `runtime.admin` is the gRPC shell. Knows the node's state."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Sequence

import bookie
from bookie.base import errors
from bookie.base.units import NS_PER_MS
from bookie.integrity.boot import Boot
from bookie.integrity.progress import BLOCKED_SHOWN_MAX
from bookie.ports import World
from bookie.ports.admin import (
    BlockedLedger,
    Compaction,
    GarbageReport,
    Grant,
    Health,
    Member,
    RepairStatus,
    ScrubReport,
    State,
    StorageReport,
)
from bookie.ports.disk import Usage
from bookie.server import kept_mode
from bookie.server.collection import Collection
from bookie.storage.scrub import Scrubber
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)


class NodeAdmin:
    """`ports.admin.Admin` for one bookie; answers from the first second of the process.

    `store` is set while the data port is open; `registered` says while it is whether clients can find us.
    """

    def __init__(
        self, boot: Boot, world: World, *, force_read_only: bool = False, mode_dirs: Sequence[str] = ()
    ) -> None:
        """`mode_dirs`: where a mode set by hand is stored; none: it ends with the process."""
        self.store: EntryStore | None = None
        self.collection: Collection | None = None  # once nothing is left to repair
        self.scrubber: Scrubber | None = None
        self.registered = asyncio.Event()
        self._boot = boot
        self._world = world
        self._force_read_only = force_read_only
        self._mode_dirs = mode_dirs
        self._phase = State.STARTING
        self._began_ns = world.clock.monotonic_ns()

    @property
    def state(self) -> State:
        """Return the phase of boot or stop; while serving, what clients and operators can expect of this bookie."""
        if self.store is None or self._phase is State.STOPPING:
            return self._phase
        if not self._boot.progress.is_done:
            return State.REPAIRING
        return State.READ_ONLY if self.store.is_read_only else State.SERVING

    @property
    def is_read_only(self) -> bool:
        """Return True when adds are refused: by hand, by settings or by a full disk."""
        return self.store is not None and self.store.is_read_only

    @property
    def garbage_held(self) -> tuple[int, int] | None:
        """Return the ledgers and bytes that the brake on mass deletion kept in the last run; None before the first."""
        return None if self.collection is None else self.collection.held

    def usage(self) -> Usage:
        """Return the space of the ledger disks; zeros while the storage is not open."""
        return Usage(0, 0) if self.store is None else self.store.usage()

    def enter(self, phase: State) -> None:
        """Note that boot or stop has entered the next phase."""
        if phase is not self._phase:
            self._phase = phase
            log.info("state=%s", phase.value)

    def is_healthy(self, question: Health) -> bool:
        """Answer a health probe. A bookie that waits or is held is alive and must not be restarted:
        it is only not ready."""
        match question:
            case Health.PROCESS:
                return True
            case Health.STORAGE:
                return self.state.serves
            case Health.SERVING:
                return self.state.serves and self.registered.is_set()

    async def storage_report(self, *, fresh: bool = False) -> StorageReport:
        report = await self._boot.report(fresh=fresh)
        uptime_ms = (self._world.clock.monotonic_ns() - self._began_ns) // NS_PER_MS
        quarantined = {} if self.store is None else self.store.quarantined
        return dataclasses.replace(
            report,
            state=self.state,
            data_port_open=self.store is not None,
            read_only=self.is_read_only,
            version=bookie.__version__,
            process_uptime_ms=uptime_ms,
            garbage_held_ledgers=-1 if self.garbage_held is None else self.garbage_held[0],
            quarantined=tuple(BlockedLedger(*each) for each in sorted(quarantined.items())[:BLOCKED_SHOWN_MAX]),
            quarantined_count=len(quarantined),
            directories_failed=() if self.store is None else self.store.failed_dirs,
        )

    async def members(self) -> tuple[Member, ...]:
        return await self._boot.members()

    async def grant(self, grant: Grant) -> None:
        await self._boot.grant(grant)

    def repair_status(self, interval_ms: int) -> AsyncIterator[RepairStatus]:
        return self._boot.progress.watch(lambda: self.state, interval_ms)

    async def set_read_only(self, read_only: bool) -> State:
        if self._force_read_only and not read_only:
            raise errors.BadInput("this bookie was started with forceReadOnlyBookie=true and stays read-only")
        self._open_store().set_read_only(read_only)
        self._boot.progress.notify()
        await kept_mode.keep(self._world.disk, self._mode_dirs, read_only=read_only)
        return self.state

    async def prepare_shutdown(self) -> str:
        """Refuse adds and flush, so that the process may be ended at any moment without loss or replay."""
        store = self._open_store()
        store.set_read_only(True)
        await store.flush()
        return "flushed; adds are refused from now on"

    async def flush(self) -> None:
        await self._open_store().flush()

    async def collect_garbage(
        self, compaction: Compaction, *, released: int = 0, looks_only: bool = False
    ) -> GarbageReport:
        self._open_store()
        if self.collection is None:
            raise errors.StorageFailed(f"no garbage is collected while this bookie is {self.state.value}; try later")
        return await self.collection.collect_now(compaction, released=released, looks_only=looks_only)

    async def scrub(self) -> None:
        self._open_scrubber().request()

    def scrub_report(self) -> ScrubReport:
        return self._open_scrubber().report()

    def _open_scrubber(self) -> Scrubber:
        self._open_store()
        assert self.scrubber is not None, "the store is open, and nobody scrubs it"
        return self.scrubber

    def _open_store(self) -> EntryStore:
        if self.store is None:
            raise errors.StorageFailed(
                f"the storage of this bookie is not open while it is {self.state.value}; try later"
            )
        return self.store
