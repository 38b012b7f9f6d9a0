"""Answers the admin service's questions as plain calls; `runtime.admin` is the gRPC shell. Knows the node's state."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import assert_never

import bookie
from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.client import Client
from bookie.client.repair import accepting_loss, declaring_lost, marked
from bookie.client.repair.forgetting import Forgetting, Surveys
from bookie.integrity.boot import Boot
from bookie.integrity.progress import BLOCKED_SHOWN_MAX
from bookie.metadata.loss_signature import SigningKey
from bookie.ports import World
from bookie.ports.admin import (
    Aside,
    BlockedLedger,
    Compaction,
    DrainAction,
    DrainStatus,
    FillAction,
    FillStatus,
    GarbageReport,
    Grant,
    Health,
    MarkedLedgers,
    Member,
    OpenLedgers,
    References,
    RepairStatus,
    ScrubReport,
    State,
    StopTurn,
    StorageReport,
)
from bookie.ports.disk import Usage
from bookie.server import kept_mode
from bookie.server.collection import Collection
from bookie.server.drain import Drain, order_of
from bookie.server.filling import Filling
from bookie.server.live import LiveSettings
from bookie.server.own_lease import OwnLease
from bookie.server.turn import Turn
from bookie.storage import formats
from bookie.storage.scrub import Scrubber
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)


class NodeAdmin:
    """`ports.admin.Admin` for one bookie; answers from the first second of the process.

    `store` is set while the data port is open; `registered` says while it is whether clients can find us.
    """

    def __init__(
        self,
        boot: Boot,
        world: World,
        live: LiveSettings,
        *,
        force_read_only: bool = False,
        mode_dirs: Sequence[str] = (),
        loss_key: SigningKey | None = None,
    ) -> None:
        """`mode_dirs`: where a mode set by hand is stored; none: it ends with the process. `loss_key`: signs the notes
        of losses that this bookie is told to accept."""
        self._live = live
        self.store: EntryStore | None = None
        self.collection: Collection | None = None  # once nothing is left to repair
        self.scrubber: Scrubber | None = None
        self.drains: tuple[Drain, Drain] | None = None  # of this bookie itself; of a dead one
        self.filling: Filling | None = None
        self._make_client: Callable[[], Client] | None = None
        self.registered = asyncio.Event()
        # A sentence for each certificate to be replaced now; whoever reads the files sets it.
        self.certificates_due: Callable[[], tuple[str, ...]] = tuple
        self._turn = Turn()
        self.lease = OwnLease(boot, world.clock)
        self._surveys = Surveys(world.clock)
        self._forgetting = Forgetting(world.clock)
        self._boot = boot
        self._world = world
        self._force_read_only = force_read_only
        self._mode_dirs = mode_dirs
        self._loss_key = loss_key
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
        """Return True when adds are refused: by hand, by settings, by a full disk, or for the turn to be stopped."""
        return self.store is not None and self.store.is_read_only

    @property
    def garbage_held(self) -> tuple[int, int] | None:
        """Return the ledgers and bytes that the brake on mass deletion kept in the last run; None before the first."""
        return None if self.collection is None else self.collection.held

    def usage(self) -> Usage:
        """Return the space of the ledger disks; zeros while the storage is not open."""
        return Usage(0, 0) if self.store is None else self.store.health.usage

    def serve(
        self,
        store: EntryStore,
        scrubber: Scrubber,
        drains: tuple[Drain, Drain],
        filling: Filling,
        registered: asyncio.Event,
        make_client: Callable[[], Client],
    ) -> None:
        """Answer for these parts while the data port is open, until `store` is None again. `make_client`: for what this
        bookie does to ledgers as a client would."""
        self.store, self.scrubber, self.drains, self.registered = store, scrubber, drains, registered
        self.filling, self._make_client = filling, make_client

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
        used, room = (-1, -1) if self.store is None else self.store.health.ledger_room()
        return dataclasses.replace(
            report,
            state=self.state,
            reason=report.reason if self.store is None else self.store.health.why_read_only or report.reason,
            data_port_open=self.store is not None,
            read_only=self.is_read_only,
            has_turn=self._turn.is_on,
            is_draining=self.store is not None and self.store.health.is_draining,
            version=bookie.__version__,
            process_uptime_ms=uptime_ms,
            garbage_held_ledgers=-1 if self.garbage_held is None else self.garbage_held[0],
            quarantined=tuple(BlockedLedger(*each) for each in sorted(quarantined.items())[:BLOCKED_SHOWN_MAX]),
            quarantined_count=len(quarantined),
            directories_failed=() if self.store is None else self.store.failed_dirs,
            whole_since_boot=self.store is not None and self.filling is not None and self.filling.is_whole,
            ledger_bytes_used=used,
            ledger_bytes_room=room,
            live_settings=self._live.told(),
            certificates_due=self.certificates_due(),
            formats=formats.known(
                has_history=self.store is not None and self.store.has_history,
                may_hold_touches=self.store is not None and self.store.may_hold_touches,
            ),
        )

    async def members(self) -> tuple[Member, ...]:
        return await self._boot.members()

    async def grant(self, grant: Grant) -> None:
        await self._boot.grant(grant)

    def repair_status(self, interval_ms: int) -> AsyncIterator[RepairStatus]:
        return self._boot.progress.watch(lambda: self.state, interval_ms)

    async def set_read_only(self, read_only: bool, *, operator_epoch: int = 0) -> State:
        self._heed(operator_epoch)
        if self._force_read_only and not read_only:
            raise errors.BadInput("this bookie was started with forceReadOnlyBookie=true and stays read-only")
        self._open_store().health.set_read_only(read_only)
        if not read_only:
            self._end_turn("somebody made this bookie writable")
            await self.lease.end()
        self._boot.progress.notify()
        await kept_mode.keep(self._world.disk, self._mode_dirs, read_only=read_only)
        return self.state

    async def prepare_shutdown(self, turn: StopTurn | None = None) -> str:
        """Refuse adds and flush, so that the process may be ended at any moment without loss or replay."""
        store = self._open_store()
        if turn is None:
            store.health.set_read_only(True)
            await self.lease.take()
            await store.flush()
            return "flushed; adds are refused from now on"
        if turn.pod_uid != self._world.host.pod_uid:
            raise errors.GrantRefused("wrong_pod", f"it is for pod {turn.pod_uid!r}, this is another one")
        self._heed(turn.operator_epoch)
        # One step of the loop: from here on nothing is admitted that the flush does not cover.
        self._turn.begin(self._world.clock.monotonic_ns(), turn.ttl_ms, is_sealed=turn.is_sealed)
        store.health.set_turn(True, is_sealed=turn.is_sealed)
        log.info("to be stopped operator_epoch=%d ttl_ms=%d last=%s", turn.operator_epoch, turn.ttl_ms, turn.is_sealed)
        await self.lease.take()
        await store.flush()
        if not self._turn.is_on or (turn.is_sealed and not self._turn.is_sealed):
            raise errors.StorageFailed("the turn ended before the flush did: adds were taken meanwhile")
        return f"flushed; adds are refused for {turn.ttl_ms} ms from the call"

    async def end_turn(self, *, operator_epoch: int) -> State:
        self._heed(operator_epoch)
        self._open_store()
        self._end_turn("its turn was taken back")
        await self.lease.end()
        return self.state

    def end_late_turn(self) -> None:
        """Take adds as before the turn, when its time is over and nobody stopped this bookie. To be called every
        second."""
        if self._turn.is_late(self._world.clock.monotonic_ns()):
            self._end_turn("its turn is over, and nobody stopped this bookie")

    def _end_turn(self, why: str) -> None:
        if self._turn.is_on:
            log.warning("takes adds as before its turn reason=%s", why)
            self._turn.end()
            self._open_store().health.set_turn(False, is_sealed=False)
            self._boot.progress.notify()

    def _heed(self, operator_epoch: int) -> None:
        """Refuse the late call of an operator that is not the newest (spec/operator.md#Q11); 0: by hand."""
        if operator_epoch:
            self._boot.heed(operator_epoch)

    async def flush(self) -> None:
        await self._open_store().flush()

    async def collect_garbage(
        self, compaction: Compaction, *, released: int = 0, looks_only: bool = False
    ) -> GarbageReport:
        self._open_store()
        if self.collection is None:
            raise errors.StorageFailed(f"no garbage is collected while this bookie is {self.state.value}; try later")
        return await self.collection.collect_now(compaction, released=released, looks_only=looks_only)

    async def fill_holes(self, action: FillAction) -> FillStatus:
        self._open_store()
        assert self.filling is not None, "the store is open, and nobody fills its holes"
        if action is FillAction.START:
            self.filling.start()
        return self.filling.status()

    async def scrub(self) -> None:
        self._open_scrubber().request()

    def scrub_report(self) -> ScrubReport:
        return self._open_scrubber().report()

    async def drain(
        self,
        action: DrainAction,
        *,
        operator_epoch: int = 0,
        bytes_per_second: int = 0,
        open_ledgers: OpenLedgers = OpenLedgers.WAIT,
        bookie_id: BookieId | None = None,
    ) -> DrainStatus:
        self._open_store()
        assert self.drains is not None, "the store is open, and nobody can drain it"
        whom = bookie_id or self._boot.bookie_id
        drain = self.drains[0 if whom == self._boot.bookie_id else 1]
        match action:
            case DrainAction.START:
                rate = self._boot.copy_rate_bytes_per_s
                order = order_of(whom, bytes_per_second, open_ledgers, default_bytes_per_s=rate)
                self._heed(operator_epoch)
                if drain.bookie_id not in (None, whom):
                    raise errors.TooManyRequests(
                        f"this bookie empties bookie {drain.bookie_id} now: ask another one, or end that with `bookie"
                        f" node drain --cancel --dead {drain.bookie_id}`"
                    )
                drain.start(dataclasses.replace(order, operator_epoch=operator_epoch))
            case DrainAction.CANCEL:
                self._heed(operator_epoch)
                if drain.bookie_id == whom:
                    drain.cancel()
            case DrainAction.LOOK:
                pass
            case _:
                assert_never(action)
        return drain.status() if drain.bookie_id == whom else DrainStatus()

    async def find_references(self, bookie_id: BookieId) -> References:
        return await self._surveys.find(self._boot.ledgers, bookie_id)

    async def find_dependents(self, bookies: tuple[BookieId, ...]) -> References:
        return await self._surveys.find_dependents(self._boot.ledgers, bookies)

    async def find_marked(self, bookies: tuple[BookieId, ...]) -> MarkedLedgers:
        return await marked.look(self._boot.ledgers, bookies, self._world.clock)

    async def forget_bookie(self, bookie_id: BookieId, *, cookie_version: int, operator_epoch: int = 0) -> str:
        self._heed(operator_epoch)
        if bookie_id == self._boot.bookie_id:
            raise errors.GrantRefused("itself", f"bookie {bookie_id} does not forget itself: ask another one")
        text = await self._forgetting.forget(self._boot.ledgers, bookie_id, cookie_version=cookie_version)
        log.warning("forgot bookie_id=%s said=%s", bookie_id, text)
        return text

    async def set_aside(self, bookie_id: BookieId, order: Aside, *, operator_epoch: int = 0) -> str:
        self._heed(operator_epoch)
        text = await self._boot.set_aside(bookie_id, order)
        log.warning("set aside bookie_id=%s order=%s said=%s", bookie_id, order, text)
        return text

    async def restore_cookie(self, *, evidence_hash: str, operator_epoch: int = 0) -> str:
        self._heed(operator_epoch)
        text = await self._boot.restore_cookie(evidence_hash=evidence_hash)
        log.warning("cookie restored said=%s", text)
        return text

    async def accept_ledger_loss(
        self, ledger_id: LedgerId, bookies: tuple[BookieId, ...], *, by: str, reason: str, operator_epoch: int = 0
    ) -> str:
        self._heed(operator_epoch)
        self._open_store()
        assert self._make_client is not None, "the store is open, and nobody can make a client"
        async with self._make_client() as client:
            metadata = await declaring_lost.settle(
                client.shared, ledger_id, bookies, by=by, reason=reason, key=self._loss_key
            )
        text = accepting_loss.told(ledger_id, metadata)
        log.warning("accepted a loss said=%s", text)
        return text

    async def change_settings(self, wanted: Mapping[str, str], *, operator_epoch: int = 0) -> None:
        self._heed(operator_epoch)
        self._live.change(wanted)

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
