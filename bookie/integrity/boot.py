"""The boot of a bookie: nothing is served, registered or written before its answer. The order, and why it is safe:

    look ──► HEALTHY ───────────── open ──────────────── next sentinels ─► record CAS ─► DIRTY ─► serve
      │      UNCLEAN ── note ──── open ── phase one ─── next sentinels ─► record CAS ─► DIRTY ─► serve
      │      BOOTSTRAP ─ sentinels ── open ──────────── cookie+record CAS ─► cookies, sentinels ─► DIRTY ─► serve
      │      LOST, granted ─ sentinels, note ─ open ─ phase one ─ cookie+record CAS ─► cookies, sentinels ─► DIRTY
      │      RESUME ──── note ──── open ── phase one ── cookies, next sentinels ─► record CAS ─► DIRTY ─► serve
      └───── held, or LOST without a grant: wait, alive; write nothing; look again

Cut between any two arrows, the next boot looks again and goes on (docs/INTEGRITY.md has the table). Rules: bp46.md 2
and 10, operators.md 3.6. Must never: serve before the marks are durable, change the cookie before the marks are
durable, or write to a volume that the verdict does not allow.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.base.units import NS_PER_MS
from bookie.client import cluster
from bookie.client.client import Client
from bookie.client.ledgers import LedgerStore
from bookie.client.options import ClientOptions
from bookie.integrity import grant as grants
from bookie.integrity import notes, phase_one, stamps, volumes
from bookie.integrity.grant import Situation
from bookie.integrity.identity import IdentityStore
from bookie.integrity.inspection import Inspection, Inspector
from bookie.integrity.ledgers import Loss
from bookie.integrity.notes import Note
from bookie.integrity.options import IntegrityOptions
from bookie.integrity.patience import Patience
from bookie.integrity.phase_two import ClientOpener, Repair
from bookie.integrity.progress import Progress
from bookie.metadata import paths
from bookie.metadata.cookie import IncarnationRecord
from bookie.ports import World
from bookie.ports.admin import Contents, Grant, State, StorageReport, Verdict
from bookie.ports.metadata_store import MetadataStore
from bookie.storage import dirs, restart
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

CAPABILITIES = ("limbo", "regeneration", "partial-loss", "live-writers")
_TOKEN_SIZE = 8
_REGISTRATION_POLL_MS = 250


class Boot:
    """One boot of one bookie. `run` once; `report` and `grant` at any time; then `hold` and `repair` beside serving."""

    def __init__(
        self,
        bookie_id: BookieId,
        storage: StorageOptions,
        options: IntegrityOptions,
        world: World,
        metadata_uri: str,
    ) -> None:
        self.progress = Progress(world.clock)
        self.state = State.STARTING
        self.inspection: Inspection | None = None
        self.record: IncarnationRecord | None = None  # ours, once this boot is the current one
        self.store: EntryStore | None = None  # protected and open, from then on
        self._bookie_id = bookie_id
        self._storage = storage
        self._options = options
        self._world = world
        self._uri = paths.parse_uri(metadata_uri)
        self._metadata_uri = metadata_uri
        self._volumes = volumes.configured(storage)
        self._patience = Patience(world.clock)
        self._boot_id = world.entropy.token(_TOKEN_SIZE).hex()
        self._identities: IdentityStore | None = None
        self._inspector: Inspector | None = None
        self._ledgers: LedgerStore | None = None
        self._granted: Grant | None = None
        self._grant_expires_ns = 0
        self._operator_epoch = 0
        self._poke = asyncio.Event()
        self._on_state: Callable[[State], None] = lambda state: None

    # ---- the order of things -----------------------------------------------------------------------------------------

    async def run(
        self, metadata: MetadataStore, *, on_state: Callable[[State], None], fail: Callable[[BookieError], None]
    ) -> EntryStore:
        """Wait until this bookie may serve, and return its store, protected and open. May take for ever.

        Raises RefusedToStart (no cluster, another process of this id), CorruptFile, StorageFailed.
        """
        self._on_state = on_state
        self._enter(State.STARTING)
        self._ledgers = await self._patience.read(lambda: cluster.open_ledgers(metadata, self._uri))
        self._identities = IdentityStore(metadata, self._uri.root, self._bookie_id, self._patience)
        self._inspector = Inspector(
            self._bookie_id,
            self._storage,
            self._options,
            self._world,
            self._identities,
            self._ledgers,
            self._patience,
        )
        while True:
            seen, grant_id = await self._until_allowed()
            try:
                return await self._go(seen, grant_id, fail)
            except errors.VersionConflict as error:
                # Somebody else acted at the linearization point. What we wrote says "regenerating": look again.
                log.warning("cookie changed under us, looking again reason=%s", error)

    async def _go(self, seen: Inspection, grant_id: str, fail: Callable[[BookieError], None]) -> EntryStore:
        log.info("boot verdict=%s reason=%s", seen.decision.verdict, seen.decision.reason)
        match seen.decision.verdict:
            case Verdict.BOOTSTRAP | Verdict.LOST:
                return await self._new_life(seen, grant_id, fail)
            case Verdict.RESUME | Verdict.UNCLEAN | Verdict.HEALTHY:
                return await self._same_life(seen, fail)
            case _:
                raise AssertionError(f"verdict {seen.decision.verdict} allows nothing")

    async def _until_allowed(self) -> tuple[Inspection, str]:
        """Look until the verdict, or a grant, allows to go on; with the grant's id, "" when none is needed."""
        while True:
            self._poke.clear()
            seen = self.inspection = await self._look()
            self.progress.incarnation = seen.identity.record.incarnation if seen.identity.record else Incarnation(0)
            if seen.decision.is_held:
                self._enter(State.HELD)
            elif seen.decision.verdict is Verdict.BOOTSTRAP:
                return seen, f"bootstrap-{self._boot_id}"
            elif seen.decision.verdict is not Verdict.LOST:
                return seen, ""
            elif not self._options.waits_for_grant:
                return seen, f"local-{self._boot_id}"
            elif (granted := self._take_grant(seen)) is not None:
                return seen, granted.grant_id
            else:
                self._enter(State.WAITING_GRANT)
            await self._pause()

    def _take_grant(self, seen: Inspection) -> Grant | None:
        """The accepted grant, if it still fits what was seen this moment."""
        granted = self._granted
        if granted is None:
            return None
        is_late = self._world.clock.monotonic_ns() >= self._grant_expires_ns
        if is_late or granted.evidence_hash != seen.evidence_hash:
            log.warning("grant dropped grant_id=%s late=%s", granted.grant_id, is_late)
            self._granted = None
            return None
        return granted

    async def _new_life(self, seen: Inspection, grant_id: str, fail: Callable[[BookieError], None]) -> EntryStore:
        """Empty volumes become this bookie's: its first life, or the next after a loss."""
        before = seen.identity.record
        record = IncarnationRecord(
            instance_id=seen.identity.instance_id,
            incarnation=grants.next_incarnation(before.incarnation if before else Incarnation(0)),
            boot_epoch=_next(before.boot_epoch if before else BootEpoch(0)),
            grant_id=grant_id,
            operator_epoch=self._epoch_seen(before),
            boot_id=self._boot_id,
        )
        is_loss = seen.decision.verdict is Verdict.LOST
        # CRASH: until the cookie is changed these volumes say "regenerating" and the store does not know it: the next
        # boot finds LOST (or BOOTSTRAP) again, whatever is in `current` by then, and needs a grant again.
        await stamps.write_sentinels(
            self._world.disk,
            self._volumes,
            seen,
            incarnation=record.incarnation,
            boot_epoch=record.boot_epoch,
            grant_id=grant_id,
        )
        if is_loss:
            kept = any(volume.contents is not Contents.EMPTY for volume in seen.volumes)
            await self._note(seen.decision.reason, record.boot_epoch, verify=kept)
        store = await self._open(fail, accept_loss=is_loss)
        try:
            if is_loss:
                await self._protect(store, Loss.VOLUMES, record.boot_epoch)
            self._enter(State.STAMPING)
            self.progress.enter("cookie")
            assert self._identities is not None
            await self._until_unregistered()
            # The linearization point. CRASH: after it the next boot finds RESUME and needs no grant; all marks are
            # durable since before it, and are made again.
            await self._identities.begin_life(seen.identity, seen.master, record)
            await stamps.write_cookies(self._world.disk, self._volumes, seen)
            await stamps.write_sentinels(
                self._world.disk,
                self._volumes,
                seen,
                incarnation=record.incarnation,
                boot_epoch=record.boot_epoch,
            )
            return await self._served_from_now_on(store, record)
        except BaseException:
            await store.abandon()
            raise

    async def _until_unregistered(self) -> None:
        """A process that is still registered as this bookie may still serve. Its session ends soon, or it is alive.

        Raises VersionConflict when it stays: somebody else is this bookie.
        """
        assert self._identities is not None
        deadline_ns = self._world.clock.monotonic_ns() + self._options.registration_wait_ms * NS_PER_MS
        while await self._identities.is_registered_elsewhere():
            if self._world.clock.monotonic_ns() >= deadline_ns:
                raise errors.VersionConflict(f"another process is registered as bookie {self._bookie_id} and stays")
            await self._patience.pause(_REGISTRATION_POLL_MS)

    async def _same_life(self, seen: Inspection, fail: Callable[[BookieError], None]) -> EntryStore:
        """The volumes are those of the current life: whole, unclean, or stamped only in part."""
        before = seen.identity.record
        assert before is not None, "a life without a record is no verdict"
        record = dataclasses.replace(before, boot_epoch=_next(before.boot_epoch), boot_id=self._boot_id)
        is_resumed = seen.decision.verdict is Verdict.RESUME
        if seen.decision.verdict is not Verdict.HEALTHY:
            await self._note(seen.decision.reason, record.boot_epoch, verify=False)
        store = await self._open(fail, accept_loss=is_resumed)
        try:
            if seen.decision.verdict is not Verdict.HEALTHY:
                await self._protect(store, Loss.VOLUMES if is_resumed else Loss.UNFLUSHED, record.boot_epoch)
                # CRASH: the marks and the note are durable and outlive the marker; a boot that journals its data may
                # now say so (T20).
                await dirs.clear_dirty(self._world.disk, self._storage)
            if is_resumed:
                await stamps.write_cookies(self._world.disk, self._volumes, seen)
            # CRASH: sentinels go first, so a volume is ahead of the store by one boot at most and never behind it; a
            # volume that is behind went back in time.
            await stamps.write_sentinels(
                self._world.disk,
                self._volumes,
                seen,
                incarnation=record.incarnation,
                boot_epoch=record.boot_epoch,
            )
            await self._begin_boot(seen, record)
            return await self._served_from_now_on(store, record)
        except BaseException:
            await store.abandon()
            raise

    async def _begin_boot(self, seen: Inspection, record: IncarnationRecord) -> None:
        assert self._identities is not None
        try:
            await self._identities.begin_boot(seen.identity, record)
        except errors.VersionConflict as error:
            raise errors.RefusedToStart(
                f"another process booted as bookie {self._bookie_id} at the same time: only one may run"
            ) from error

    async def _served_from_now_on(self, store: EntryStore, record: IncarnationRecord) -> EntryStore:
        # CRASH: durable before the first request is served (B31).
        await dirs.mark_dirty(self._world.disk, self._storage)
        self.record = record
        self.inspection = None  # it is history: the next report looks again
        self.progress.incarnation = record.incarnation
        store.is_doubtful = False
        self.store = store
        return store

    async def _open(self, fail: Callable[[BookieError], None], *, accept_loss: bool) -> EntryStore:
        self._enter(State.REPLAYING)
        store = await restart.open_store(self._storage, self._world, fail=fail, accept_loss=accept_loss)
        store.is_doubtful = True
        return store

    async def _protect(self, store: EntryStore, loss: Loss, epoch: BootEpoch) -> None:
        self._enter(State.FENCING)
        assert self._ledgers is not None
        await phase_one.run(
            self._ledgers, store, self._bookie_id, loss, self._options, self._patience, self.progress, epoch=epoch
        )

    async def _note(self, reason: str, epoch: BootEpoch, *, verify: bool) -> None:
        await notes.write(self._world.disk, self._volumes, Note(reason, epoch, verify=verify))

    # ---- beside serving ----------------------------------------------------------------------------------------------

    async def hold(self) -> None:
        """Return never; raise RefusedToStart once another process has taken this identity over."""
        assert self._identities is not None
        assert self.record is not None
        await self._identities.hold(self.record)

    async def repair(self, store: EntryStore, metadata: MetadataStore) -> None:
        """Phase two; returns when nothing is left to repair. Run it beside serving: recoveries talk to us too."""
        note = await notes.read(self._world.disk, self._volumes)
        assert self._ledgers is not None
        async with Client(ClientOptions(metadata_uri=self._metadata_uri), self._world, store=metadata) as client:
            repair = Repair(
                store,
                self._ledgers,
                self._bookie_id,
                ClientOpener(client),
                client.bookies,
                self._options,
                self._world,
                self._patience,
                self.progress,
                verify=note is not None and note.verify,
            )
            await repair.run()
        if note is not None:
            await notes.remove(self._world.disk, self._volumes)
        self.progress.enter("done")

    async def ended_well(self) -> None:
        """The store was closed and said that everything is durable."""
        await dirs.clear_dirty(self._world.disk, self._storage)

    # ---- what others ask ---------------------------------------------------------------------------------------------

    async def report(self, *, fresh: bool = False) -> StorageReport:
        """Integrity's part of the storage report; the server fills in what it knows (data port, version, mode)."""
        seen = self.inspection
        if self._inspector is not None and self._patience.is_reachable and (fresh or seen is None):
            seen = self.inspection = await self._look()
        blank = StorageReport(
            bookie_id=self._bookie_id,
            pod_uid=self._world.host.pod_uid,
            state=self.state,
            verdict=None,
            reason="the metadata store has not answered yet" if seen is None else "",
            capabilities=CAPABILITIES,
            grant_id=self._grant_id(),
            journal_write_data=self._storage.journal_write_data,
            metadata_reachable=self._inspector is not None and self._patience.is_reachable,
        )
        if seen is None:
            return blank
        identity = seen.identity
        record = self.record or identity.record
        return dataclasses.replace(
            blank,
            verdict=seen.decision.verdict,
            reason=seen.decision.reason,
            instance_id=identity.instance_id,
            cookie_present=identity.cookie is not None,
            cookie_version=identity.cookie_version,
            cookie_digest=identity.cookie_digest,
            incarnation=record.incarnation if record else Incarnation(0),
            boot_epoch=record.boot_epoch if record else BootEpoch(0),
            operator_epoch_seen=self._epoch_seen(record),
            ledger_count=seen.ledger_count,
            ledgers_naming_me=seen.ledgers_naming_me,
            volumes=seen.volumes,
            evidence_hash=seen.evidence_hash,
            unclean_shutdown=seen.is_dirty and self.record is None,
        )

    async def grant(self, grant: Grant) -> None:
        """Accept, or raise GrantRefused. The same grant again is fine: its sender may not have heard the answer."""
        received_ns = self._world.clock.monotonic_ns()
        if grant.grant_id and grant.grant_id == self._grant_id():
            return
        if self.state is not State.WAITING_GRANT or self._inspector is None or self._identities is None:
            raise errors.GrantRefused("not_waiting", f"this bookie waits for no grant; it is {self.state.value}")
        if (grant.bookie_id, grant.pod_uid) == (self._bookie_id, self._world.host.pod_uid):
            self._operator_epoch = max(self._operator_epoch, grant.operator_epoch)
        seen = self.inspection = await self._look()
        record = seen.identity.record
        # Everything below happens in one step of the loop: what was checked is what is accepted.
        now_ns = self._world.clock.monotonic_ns()
        situation = Situation(
            bookie_id=self._bookie_id,
            pod_uid=self._world.host.pod_uid,
            is_waiting=self.state is State.WAITING_GRANT and self._granted is None,
            verdict=seen.decision.verdict,
            volumes=seen.volumes,
            evidence_hash=seen.evidence_hash,
            cookie_version=seen.identity.cookie_version,
            incarnation=record.incarnation if record else Incarnation(0),
            operator_epoch_seen=self._epoch_seen(record),
            age_ms=(now_ns - received_ns) // NS_PER_MS,
        )
        grants.check(grant, situation)
        self._granted = grant
        self._grant_expires_ns = received_ns + grant.ttl_ms * NS_PER_MS
        log.info("grant accepted grant_id=%s issued_by=%s", grant.grant_id, grant.issued_by)
        self._poke.set()

    def _epoch_seen(self, record: IncarnationRecord | None) -> int:
        return max(self._operator_epoch, record.operator_epoch if record else 0)

    def _grant_id(self) -> str:
        """The grant in force or last used; "" when there is none."""
        if self._granted is not None:
            return self._granted.grant_id
        record = self.record
        return record.grant_id if record is not None else ""

    # ---- helpers -----------------------------------------------------------------------------------------------------

    async def _look(self) -> Inspection:
        assert self._inspector is not None
        return await self._inspector.look(is_serving=self.record is not None)

    async def _pause(self) -> None:
        """Until the next look is due, or a grant came."""
        try:
            async with asyncio.timeout(self._options.inspect_interval_ms / 1000):
                await self._poke.wait()
        except TimeoutError:
            return

    def _enter(self, state: State) -> None:
        if state is not self.state:
            self.state = state
            self.progress.notify()
        self._on_state(state)


def _next(epoch: BootEpoch) -> BootEpoch:
    return BootEpoch(epoch + 1)
