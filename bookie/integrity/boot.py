"""The boot of a bookie: it serves, registers and writes nothing before the boot has decided.
The order, and why it is safe:

    look ──► may go on ──► CLAIM: record and sign, once no other process has them; look again if we waited
      │        HEALTHY ───────────── open ──────────────── next sentinels ─► record CAS ─► DIRTY ─► serve
      │           and volumes added: their sentinels ─ open ─ the others' ─► cookie+record CAS ─► cookies, theirs ─► …
      │        UNCLEAN ── note ──── open ── phase one ─── next sentinels ─► record CAS ─► DIRTY ─► serve
      │        BOOTSTRAP ─ sentinels ── open ─ phase one ─ cookie+record CAS ─► cookies, sentinels ─► DIRTY ─► serve
      │        LOST, granted ─ sentinels, note ─ open ─ phase one ─ cookie+record CAS ─► cookies, … DIRTY ─► serve
      │        STALE, granted ─ the same; what the volumes have is kept, and believed only where it is read
      │        RESUME ──── note ──── open ── phase one ── cookies, next sentinels ─► record CAS ─► DIRTY ─► serve
      └───── held, or LOST without a grant: wait, alive; write nothing; look again

Each CAS requires the sign of this process (`holder`). An earlier process of this id stops at the claim; so all that it
was ever asked for after the claim is refused by clients that ask who is registered, and the marks see all before it.

Cut between any two arrows, the next boot looks again and goes on (docs/INTEGRITY.md has the table). Rules:
spec/bp46.md#R6, S17; spec/operator.md#K4, K7, K8. Must never: serve before the marks are durable, change the cookie
before the marks are durable, or write to a volume that the verdict does not allow.
"""

import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.base.rounds import Rounds
from bookie.base.throttle import Throttle
from bookie.client import cluster
from bookie.client.client import Client
from bookie.client.ledgers import LedgerStore
from bookie.client.options import ClientOptions
from bookie.integrity import asides, members, notes, phase_one, sentinel, stamps, volumes
from bookie.integrity import grant as grants
from bookie.integrity.examining import Examiner
from bookie.integrity.fill import HoleFiller
from bookie.integrity.fill_progress import FillProgress
from bookie.integrity.gate import BootGate, BootPhase
from bookie.integrity.identity import IdentityStore
from bookie.integrity.inspection import BookieInspector, Inspection
from bookie.integrity.ledgers import Loss
from bookie.integrity.means import RepairMeans
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.notes import Note
from bookie.integrity.opener import ClientOpener
from bookie.integrity.options import BOUND, IntegrityOptions
from bookie.integrity.phase_two import LimboRepair
from bookie.integrity.progress import BootProgress
from bookie.metadata import paths
from bookie.metadata.cookie import IncarnationRecord
from bookie.ports import World
from bookie.ports.admin import Aside, Contents, Grant, Member, State, StorageReport, Verdict
from bookie.ports.metadata_store import CheckOp, MetadataStore
from bookie.storage import dirs, restart
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

_TOKEN_SIZE = 8

Fail = Callable[[BookieError], None]


class Boot:
    """One boot of one bookie. `run` once; `report` and `grant` at any time; then `hold` and `repair` beside serving."""

    def __init__(
        self,
        bookie_id: BookieId,
        storage: StorageOptions,
        options: IntegrityOptions,
        world: World,
        client: ClientOptions,
    ) -> None:
        """`client`: the cluster, and how this bookie reaches the other ones in it."""
        self.progress = BootProgress(world.clock)
        self.record: IncarnationRecord | None = None  # ours, once this boot is the current one
        self.store: EntryStore | None = None  # protected and open, from then on
        self.bookie_id = bookie_id
        self.options = options
        self._storage = storage
        self._world = world
        self._uri = paths.parse_uri(client.metadata_uri)
        self._client_options = client
        self._volumes = volumes.configured(storage)
        self._retry = MetadataRetry(world.clock)
        self.copy_rate_bytes_per_s = options.copy_rate_bytes_per_s
        self._throttle = Throttle(options.copy_rate_bytes_per_s)
        self._boot_id = world.entropy.token(_TOKEN_SIZE).hex()
        self._phase = BootPhase(self.progress)
        self._gate = BootGate(bookie_id, storage, options, world, self._retry, self._phase, boot_id=self._boot_id)
        self._identities: IdentityStore | None = None
        self._ledgers: LedgerStore | None = None
        self._metadata: MetadataStore | None = None

    def set_copy_rate(self, bytes_per_s: int | None) -> None:
        """Copy at this rate from now on; a drain that has begun keeps its own. None: no limit."""
        self.copy_rate_bytes_per_s = bytes_per_s
        self._throttle.set_rate(bytes_per_s)

    # ---- the order of things -----------------------------------------------------------------------------------------

    async def run(self, metadata: MetadataStore, *, on_state: Callable[[State], None], fail: Fail) -> EntryStore:
        """Wait until this bookie may serve, then return its store, protected and open. May wait for ever.

        Raises RefusedToStart (no cluster, another process of this id), CorruptFile, StorageFailed.
        """
        self._phase.on_state = on_state
        self._phase.enter(State.STARTING)
        async with self._telling_of_data():
            return await self._run(metadata, fail)

    async def _run(self, metadata: MetadataStore, fail: Fail) -> EntryStore:
        await self._attach(metadata)
        while True:
            seen, grant_id = await self._gate.until_allowed()
            log.info(
                "boot verdict=%s reason=%s", seen.decision.verdict and seen.decision.verdict.name, seen.decision.reason
            )
            self.progress.incarnation = seen.identity.record.incarnation if seen.identity.record else Incarnation(0)
            assert self._identities is not None
            try:
                seen = await self._claim(seen)
                match seen.decision.verdict:
                    case Verdict.BOOTSTRAP | Verdict.LOST | Verdict.STALE:
                        return await self._new_incarnation(seen, grant_id, fail)
                    case Verdict.RESUME | Verdict.UNCLEAN | Verdict.HEALTHY:
                        return await self._same_incarnation(seen, fail)
                    case _:
                        raise AssertionError(f"verdict {seen.decision.verdict} allows nothing")
            except errors.VersionConflict as error:
                # Somebody else acted at the linearization point. What we wrote says "regenerating": look again.
                log.warning("another process was quicker, looking again reason=%s", error)
                await self._identities.holder.let_go()  # a boot that waits, perhaps for ever, must hold up no other

    async def inspect(self, metadata: MetadataStore) -> StorageReport:
        """Report what `run` would decide on now; writes nothing. Raises what `run` raises."""
        async with self._telling_of_data():
            await self._attach(metadata)
        return await self.report(fresh=True)

    async def _attach(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._ledgers = await self._retry.read(lambda: cluster.open_ledgers(metadata, self._uri))
        self._identities = IdentityStore(
            metadata, self._uri.root, self.bookie_id, self._retry, self._world.clock, boot_id=self._boot_id
        )
        self._gate.inspector = BookieInspector(
            self.bookie_id,
            self._storage,
            self.options,
            self._world,
            self._identities,
            self._ledgers,
            self._retry,
        )

    async def _claim(self, seen: Inspection) -> Inspection:
        """Become the one process of this id, or raise VersionConflict. On return the facts seen before are still true.

        CRASH: nothing was written but the claim, and its sign goes with our session: the next boot finds what this one
        found. An earlier process, which stops at the claim, does so without a flush: its disks may be ours by now. What
        it acknowledged is in its journal, or it is UNCLEAN when it comes back.
        """
        assert self._identities is not None
        identity, waited = await self._identities.claim(
            seen.identity, wait_ms=self.options.registration_wait_ms, on_wait=self._gate.wait_for
        )
        self._gate.wait_for("")
        if not waited:
            return dataclasses.replace(seen, identity=identity)
        assert self._gate.inspector is not None
        now = await self._gate.inspector.look()
        if (now.decision.verdict, now.evidence_hash) != (seen.decision.verdict, seen.evidence_hash):
            raise errors.VersionConflict(
                "the cookie or the record changed while this boot waited for another process to end"
            )
        return now

    async def _new_incarnation(self, seen: Inspection, grant_id: str, fail: Fail) -> EntryStore:
        """Make empty volumes this bookie's: begin its first incarnation, or the next one after a loss."""
        before = seen.identity.record
        is_loss = seen.decision.verdict in (Verdict.LOST, Verdict.STALE)
        record = IncarnationRecord(
            instance_id=seen.identity.instance_id,
            incarnation=grants.next_incarnation(before.incarnation if before else Incarnation(0)),
            boot_epoch=_next(before.boot_epoch if before else BootEpoch(0)),
            grant_id=grant_id,
            operator_epoch=self._gate.epoch_seen(before),
            boot_id=self._boot_id,
            granted_by=self._gate.granted_by if is_loss else "",
            cookie_created_zxid=seen.identity.cookie_created_zxid,
            cookie_version=seen.identity.cookie_version + 1,
        )
        # CRASH: until the cookie is changed these volumes say "regenerating" and the store does not know it: the next
        # boot finds LOST (or BOOTSTRAP) again, whatever is in `current` by then, and needs a grant again.
        await self._stamp(seen, record, grant_id=grant_id)
        if is_loss:
            kept = any(volume.contents is not Contents.EMPTY for volume in seen.volumes)
            await self._note(seen, record, verify=kept)
        async with self._opened(seen, fail, record, accept_loss=is_loss, must_exist=False) as store:
            assert self._identities is not None
            # Also where no ledger names us and we are new: this id may have been another's, a Java bookie's too, which
            # leaves no record. No entry can be missed then; but a writer that hangs since before still has it in its
            # ensemble, and a fence would be forgotten.
            await self._protect(seen, store, Loss.VOLUMES, record, is_new=not is_loss)
            self._phase.enter(State.STAMPING)
            self.progress.enter("cookie")
            # The linearization point. CRASH: after it the next boot finds RESUME and needs no grant; all marks are
            # durable since before it, and are made again.
            await self._identities.begin_incarnation(seen.identity, seen.master, record)
            await stamps.write_cookies(self._world.disk, self._volumes, seen)
            await self._stamp(seen, record)
            await self._served_from_now_on(store, record)
        return store

    async def _same_incarnation(self, seen: Inspection, fail: Fail) -> EntryStore:
        """Go on with volumes of the current incarnation: whole, unclean, or stamped only in part."""
        before = seen.identity.record
        assert before is not None, "no verdict goes on with an incarnation that has no record"
        assert self._identities is not None
        record = dataclasses.replace(before, boot_epoch=_next(before.boot_epoch), boot_id=self._boot_id)
        is_resumed = seen.decision.verdict is Verdict.RESUME
        is_healthy = seen.decision.verdict is Verdict.HEALTHY
        is_set_back = seen.decision.verdict is Verdict.UNCLEAN and seen.is_set_back
        # CRASH: the first thing on a volume that is added says that it holds nothing, whatever is beside it by then.
        pending = stamps.pending(seen)
        await self._stamp(seen, record, grant_id=sentinel.ADDING, only=pending)
        if is_set_back:
            # CRASH: opening the store begins a journal file that reaches farther than the position: without this mark
            # the next boot, coming before phase one has ended, would find nothing amiss.
            await dirs.mark_set_back(self._world.disk, self._storage)
        if not is_healthy:
            await self._note(seen, record, verify=is_set_back)
        has_lost_volumes = is_resumed or is_set_back
        async with self._opened(seen, fail, record, accept_loss=has_lost_volumes, must_exist=True) as store:
            if not has_lost_volumes and not store.has_doubt_of(await self._noted_doubt()):
                # An index was lost since without its volume: it would deny what it should not.
                # CRASH: the note that names the doubt stands until the marks are there in another way.
                await self._note(seen, record, verify=True)
                is_healthy, has_lost_volumes = False, True
            if not is_healthy:
                await self._protect(seen, store, Loss.VOLUMES if has_lost_volumes else Loss.UNFLUSHED, record)
                # CRASH: the marks and the note are durable and outlive the marker; a boot that journals its data may
                # now say so (spec/bp46.md#T20).
                await dirs.clear_dirty(self._world.disk, self._storage)
            if seen.added:
                await self._grow(seen, record, pending)
            else:
                if is_resumed or pending:
                    await stamps.write_cookies(self._world.disk, self._volumes, seen)
                # CRASH: sentinels go first, so a volume is ahead of the store by one boot at most and never behind it;
                # a volume that is behind went back in time.
                await self._stamp(seen, record)
                await self._identities.begin_boot(seen.identity, record)
            await self._served_from_now_on(store, record)
        return store

    async def _grow(self, seen: Inspection, record: IncarnationRecord, pending: Collection[str]) -> None:
        """Make the added volumes this bookie's, once the store is durable in its new shape."""
        assert set(seen.added) <= set(pending), "a volume that is added is one that holds nothing"
        assert self._identities is not None
        await self._stamp(seen, record, only=[volume.path for volume in self._volumes if volume.path not in pending])
        # CRASH: before it the next boot finds the added volumes as this one did, or with the sentinel that says so, and
        # does it all again. After it some directories have the older cookie, and the next boot goes on from here. The
        # cookies of all directories name the added volumes before those say that they are whole, and so before the
        # first entry in them: without the metadata store, too, such a volume is known for lost when it is empty.
        await self._identities.begin_growth(seen.identity, seen.master, record)
        await stamps.write_cookies(self._world.disk, self._volumes, seen)
        await self._stamp(seen, record, only=pending)
        log.info("volumes added paths=%s", ",".join(seen.added))

    @contextlib.asynccontextmanager
    async def _opened(
        self, seen: Inspection, fail: Fail, record: IncarnationRecord, *, accept_loss: bool, must_exist: bool
    ) -> AsyncIterator[EntryStore]:
        """Open the store, which answers "unknown" instead of "no" at first;
        abandon it without a flush when the body fails."""
        self._phase.enter(State.REPLAYING)
        grow_from: int | None = None
        if seen.added:
            assert seen.identity.cookie is not None
            grow_from = len(seen.identity.cookie.ledger_dirs)
        elif accept_loss:
            grow_from = len(self._storage.ledger_dirs)  # all old indexes may be lost, or from before one was added
        store = await restart.open_store(
            self._storage,
            self._world,
            fail=fail,
            accept_loss=accept_loss,
            must_exist=must_exist,
            grow_from=grow_from,
            epoch=record.boot_epoch,
        )
        store.is_doubtful = True
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(store.abandon)
            yield store
            undo.pop_all()

    async def _protect(
        self, seen: Inspection, store: EntryStore, loss: Loss, record: IncarnationRecord, *, is_new: bool = False
    ) -> None:
        """Do phase one, in the form of the settings. A new bookie looks at every ledger all the same: while it doubts
        an open ledger it refuses the writer that brings it in, and from then on the record names it."""
        self._phase.enter(State.FENCING)
        assert self._ledgers is not None
        epoch = record.boot_epoch
        if loss is Loss.UNFLUSHED and await dirs.has_touches(self._world.disk, self._storage):
            # CRASH: what these ledgers lost was in memory, and they came into limbo with the store's opening. The index
            # says so durably, or the journal still does, and each replay finds it (decisions/0025).
            self.progress.enter("one")
            self.progress.end_phase_one()
            log.info("phase one looks at no ledger, the journal names them touches=%d", store.stats.touches_replayed)
            return
        if self.options.phase_one == BOUND and loss is Loss.VOLUMES and not is_new:
            await phase_one.bound(self._ledgers, store, self._retry, self.progress, epoch=epoch)
            # CRASH: the doubt is in every index before a note on every volume names it, and both are before the cookie
            # changes. So an index that lacks it later was lost, or went back in time.
            await self._note(seen, record, verify=False, doubt_epoch=epoch)
            return
        await phase_one.run(
            self._ledgers,
            store,
            self.bookie_id,
            loss,
            self.options,
            self._retry,
            self.progress,
            epoch=epoch,
        )
        if loss is Loss.VOLUMES and max(store.doubt.epoch, await self._noted_doubt()):
            # Every ledger was looked at since the claim: an earlier doubt is over, also where only some indexes have
            # it.
            await store.doubt_below(0, epoch=epoch)

    async def _stamp(
        self, seen: Inspection, record: IncarnationRecord, *, grant_id: str = "", only: Collection[str] | None = None
    ) -> None:
        await stamps.write_sentinels(self._world.disk, self._volumes, seen, record, grant_id=grant_id, only=only)

    async def _noted_doubt(self) -> int:
        """Return the epoch of the doubt that the notes name, 0 when there is none."""
        note = await notes.read(self._world.disk, self._volumes)
        return note.doubt_epoch if note is not None else 0

    async def _note(self, seen: Inspection, record: IncarnationRecord, *, verify: bool, doubt_epoch: int = 0) -> None:
        note = Note(seen.decision.reason, record.boot_epoch, verify=verify, doubt_epoch=doubt_epoch)
        await notes.write(self._world.disk, self._volumes, note)

    async def _served_from_now_on(self, store: EntryStore, record: IncarnationRecord) -> None:
        # CRASH: durable before the first request is served (CONFORMANCE.md#B31).
        await dirs.mark_dirty(self._world.disk, self._storage)
        self.record = record
        self.store = store
        self.progress.incarnation = record.incarnation
        self._gate.passed(record)
        store.is_doubtful = False

    # ---- beside serving ----------------------------------------------------------------------------------------------

    async def hold(self) -> None:
        """Never return; raise RefusedToStart once another process has taken this identity over."""
        assert self._identities is not None
        assert self.record is not None
        await self._identities.hold(self.record)

    async def while_held(self) -> Sequence[CheckOp]:
        """Wait until this process is known to be the bookie (`hold`); return checks that make a
        transaction fail when it is not."""
        assert self._identities is not None
        return await self._identities.while_held()

    async def repair(self, store: EntryStore, metadata: MetadataStore, rounds: Rounds) -> None:
        """Examine what is in doubt, then run phase two, until nothing is left to repair. Run it beside serving:
        recoveries need our answers too. `rounds`: told of what the examining comes to."""
        note = await notes.read(self._world.disk, self._volumes)
        async with self._client(metadata) as client:
            means = self._means(store, client)
            await Examiner(means, self.progress, rounds).run()
            await LimboRepair(means, self.progress, verify=note is not None and note.verify).run()
        if note is not None:
            await notes.remove(self._world.disk, self._volumes)
        self.progress.enter("done")

    async def fill(self, store: EntryStore, metadata: MetadataStore, progress: FillProgress) -> None:
        """Fill the holes of what was written while this bookie was away (`fill`). Run it beside serving, when the
        repair is done. Raises StorageFailed, MetadataError."""
        assert self.record is not None
        async with self._client(metadata) as client:
            await HoleFiller(self._means(store, client), progress).run(self.record.boot_epoch)

    def _means(self, store: EntryStore, client: Client) -> RepairMeans:
        assert self._ledgers is not None
        return RepairMeans(
            store,
            self._ledgers,
            self.bookie_id,
            ClientOpener(client),
            client.bookies,
            self.options,
            self._world,
            self._retry,
            self._throttle,
        )

    @contextlib.asynccontextmanager
    async def _client(self, metadata: MetadataStore) -> AsyncIterator[Client]:
        """Open a client of this bookie's own cluster, over its session."""
        async with contextlib.AsyncExitStack() as stack:
            # Entering changes nothing, so it may be repeated: a metadata store that is silent just now is no reason to
            # stop a bookie, which would lose what it has not flushed (found by the simulator).
            yield await self._retry.read(
                lambda: stack.enter_async_context(Client(self._client_options, self._world, store=metadata))
            )

    async def ended_well(self) -> None:
        """Record that the store was closed and reported everything durable."""
        await dirs.clear_dirty(self._world.disk, self._storage)

    # ---- what others ask ---------------------------------------------------------------------------------------------

    async def report(self, *, fresh: bool = False) -> StorageReport:
        """Return integrity's part of the storage report; the server adds the rest (data port, version, mode)."""
        async with self._telling_of_data():
            return await self._gate.report(fresh=fresh)

    def heed(self, operator_epoch: int) -> None:
        """Remember the epoch of an operator that asks for something. Raises GrantRefused: a newer one was here."""
        self._gate.heed(operator_epoch)

    @contextlib.asynccontextmanager
    async def _telling_of_data(self) -> AsyncIterator[None]:
        """Where there is no cluster, raise an error that names the data on our disks:
        a bookie with data is never new."""
        try:
            yield
        except errors.NoCluster as error:
            raise await volumes.told_of_data(self._world, self._storage, self._uri, error) from None

    async def members(self) -> tuple[Member, ...]:
        """Return every bookie that the metadata store knows. Raises MetadataError."""
        if self._metadata is None:
            raise errors.MetadataError("this bookie has no session with the metadata store yet")
        return await members.members(self._metadata, self._uri.root)

    @property
    def ledgers(self) -> LedgerStore:
        """Return the ledgers of the cluster. Raises MetadataError while we have no session yet."""
        if self._ledgers is None:
            raise errors.MetadataError("this bookie has no session with the metadata store yet")
        return self._ledgers

    async def set_aside(self, bookie_id: BookieId, order: Aside) -> str:
        """Write the order that keeps `bookie_id` out of service, or ends that (`asides`).

        Raises GrantRefused, BadInput, MetadataError.
        """
        if self._metadata is None:
            raise errors.MetadataError("this bookie has no session with the metadata store yet")
        said = await asides.set_aside(self._metadata, self._uri.root, bookie_id, order)
        if bookie_id == self.bookie_id:
            self._gate.look_again()
        return said

    async def restore_cookie(self, *, evidence_hash: str) -> str:
        """Make our cookie again, whose node somebody deleted, as whole disks have it (`cookie_restoring`); return a
        sentence. Raises GrantRefused, MetadataError."""
        seen = await self._gate.missing_cookie(evidence_hash=evidence_hash)
        assert self._identities is not None
        try:
            await self._identities.restore_cookie(seen.identity, seen.master)
        except errors.VersionConflict as error:
            raise errors.GrantRefused("overtaken", str(error)) from error
        self._gate.look_again()
        return f"bookie {self.bookie_id} has its cookie again, as its disks have it"

    async def grant(self, grant: Grant) -> None:
        """Accept the grant, or raise GrantRefused. Returning means accepted, not finished."""
        await self._gate.grant(grant)


def _next(epoch: BootEpoch) -> BootEpoch:
    return BootEpoch(epoch + 1)
