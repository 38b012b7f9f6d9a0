"""Cookie and incarnation record in the metadata store: which bookie this is, and in which incarnation.

Changed by compare-and-set only, cookie and record in one transaction: that commit is where a new incarnation begins
(spec/operator.md#K8). The record carries the random id of the process that wrote it, so that a lost answer can be
settled by looking, and so that the older of two processes with one id learns that it was overtaken and stops: every
boot begins with a claim, which writes that id and makes the sign of `IdHolder`, before it looks at what it relies on.
"""

import asyncio
import dataclasses
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.base.units import NS_PER_MS
from bookie.client import cluster
from bookie.integrity.asides import load_aside
from bookie.integrity.holder import SETTLE_MS, IdHolder
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.metadata import cookie, paths
from bookie.metadata.cookie import Cookie, IncarnationRecord
from bookie.ports.admin import Aside
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import CheckOp, CreateOp, MetadataStore, Op, PutOp, Session, Stored, absent, find

log = logging.getLogger(__name__)

ABSENT = -1
_NOT_BEGUN = Incarnation(0)  # in the claim of a bookie that has no incarnation yet
_CLAIM_POLL_MS = 250  # while another process stands in the way


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """What the metadata store holds. Versions are ABSENT where there is no node. `cookie_created_zxid`: tells the
    cookie's node from another one that was made in its place; 0: there is none.

    `record` None: no incarnation of this bookie in this cluster. One left by an earlier cluster in the same place
    (metaformat does not know it) counts as none, but keeps its version; so does the claim of a first one not yet begun.
    `boot_id`: of the process that wrote the record last. `record_path`: the record's node.
    """

    instance_id: str
    cookie: Cookie | None
    cookie_problem: str
    cookie_version: int
    cookie_digest: str
    record: IncarnationRecord | None
    record_version: int
    record_path: str
    boot_id: str = ""
    record_problem: str = ""  # why the record cannot be read; `cookie_problem` says so too
    aside: Aside | None = None  # the last order that took this bookie out of service, or back
    cookie_created_zxid: int = 0


class IdentityStore:
    """Reads and writes the two nodes of one bookie, and the node that marks this process as that bookie."""

    def __init__(
        self, store: MetadataStore, root: str, bookie_id: BookieId, retry: MetadataRetry, clock: Clock, *, boot_id: str
    ) -> None:
        """`boot_id`: random, drawn by this process."""
        self.holder = IdHolder(store, root, bookie_id, retry, boot_id=boot_id)
        self._record_version = ABSENT  # at which `hold` last saw the record as ours
        self.held = asyncio.Event()  # the record and the sign are ours, as far as `hold` knows
        self._boot_id = boot_id
        self._clock = clock
        self._store = store
        self._root = root
        self._bookie_id = bookie_id
        self._retry = retry
        self._cookie_path = paths.cookie(root, bookie_id)
        self._record_path = paths.incarnation(root, bookie_id)
        self._aside_path = paths.aside(root, bookie_id)

    async def read(self) -> StoredIdentity:
        """Read these nodes, linearizably: after a sync. Raises RefusedToStart when there is no cluster here."""
        read = self._retry.read
        await read(lambda: self._store.sync(self._root))
        instance_id = await read(lambda: cluster.instance_id(self._store, self._root))
        stored_cookie = await read(lambda: find(self._store, self._cookie_path))
        stored_record = await read(lambda: find(self._store, self._record_path))
        stored_aside = await read(lambda: find(self._store, self._aside_path))
        found, problem = _load_cookie(stored_cookie, self._cookie_path)
        record, boot_id, broken = _load_record(stored_record, instance_id)
        broken = broken and f"{self._record_path}: {broken}"
        return StoredIdentity(
            instance_id=instance_id,
            cookie=found,
            cookie_problem=problem or broken,
            cookie_version=ABSENT if stored_cookie is None else stored_cookie.version,
            cookie_digest="" if stored_cookie is None else hashlib.sha256(stored_cookie.data).hexdigest(),
            record=record,
            record_version=ABSENT if stored_record is None else stored_record.version,
            record_path=self._record_path,
            boot_id=boot_id,
            record_problem=broken,
            aside=None if stored_aside is None else load_aside(stored_aside.data),
            cookie_created_zxid=0 if stored_cookie is None else stored_cookie.created_zxid,
        )

    async def position(self) -> Stored | None:
        """Return the record of how far our disks reached; None: there is none. `read` has synced before."""
        path = paths.position(self._root, self._bookie_id)
        return await self._retry.read(lambda: find(self._store, path))

    async def claim(
        self, seen: StoredIdentity, *, wait_ms: int, on_wait: Callable[[str], None] = lambda _: None
    ) -> tuple[StoredIdentity, bool]:
        """Become the one process of this id: make our node and write our boot id into the record, in one transaction.

        From then on the process that wrote the record before, if it lives, knows that it is this bookie no more: the
        record is not its own. What others copied here for that process can no longer be published either, as
        the record's version moved on (`client.repair.evacuation`). So the marks, made after the claim, see all of it.

        An earlier process that is registered or holds the sign is waited out for `wait_ms`: its session ends, or it is
        alive; `on_wait` is told whom, for people. Returns what stands now, and whether it was waited for anybody.
        Raises VersionConflict when one stays, or when cookie or record were changed meanwhile.
        """
        deadline_ns = self._clock.monotonic_ns() + wait_ms * NS_PER_MS
        change = _change(self._record_path, self._claim_of(seen), seen.record_version)
        for parent in (paths.processes(self._root), paths.incarnations(self._root), paths.readonly(self._root)):
            await self._ensure(parent)
        waited = False
        while True:
            try:
                await self._store.transact((*await self.holder.taking(), change))
            except (errors.OutcomeUnknown, errors.VersionConflict, errors.NodeExists, errors.NodeMissing):
                pass  # the look below says what happened
            except errors.MetadataError as error:
                if not error.retryable:
                    raise
            now = await self.read()
            if now.boot_id == self._boot_id and now.record_version == seen.record_version + 1:
                if not _is_same_cookie(now, seen) or not await self.holder.take_back(
                    CheckOp(self._record_path, now.record_version)
                ):
                    raise self._overtaken()
                return now, waited
            if not _is_same_cookie(now, seen) or now.record_version != seen.record_version:
                raise self._overtaken()
            reason = await self.holder.in_the_way()
            if reason and self._clock.monotonic_ns() >= deadline_ns:
                raise errors.VersionConflict(f"another process runs as bookie {self._bookie_id} and stays: {reason}")
            if reason and not waited:
                log.warning("waiting for the end of another process of this id reason=%s", reason)
                on_wait(reason)
            waited |= bool(reason)
            await self._retry.pause(_CLAIM_POLL_MS if reason else SETTLE_MS)

    def _claim_of(self, seen: StoredIdentity) -> bytes:
        """Return the record as it stood, with our boot id in it: older versions compare that id alone."""
        none = IncarnationRecord(seen.instance_id, _NOT_BEGUN, BootEpoch(0))
        return cookie.dump_incarnation(dataclasses.replace(seen.record or none, boot_id=self._boot_id))

    def _overtaken(self) -> errors.VersionConflict:
        return errors.VersionConflict(
            f"another process changed the cookie or the record of bookie {self._bookie_id} meanwhile"
        )

    async def begin_incarnation(self, seen: StoredIdentity, new_cookie: Cookie, record: IncarnationRecord) -> None:
        """Replace cookie and record, both unchanged since our claim (`seen`), by the new ones in
        one durable transaction.

        Only while our sign stands and nobody is registered under this id: what another acknowledges now is not among
        the marks. Raises VersionConflict when somebody else acted since.
        """
        await self._ensure(paths.cookies(self._root))
        await self._refuse_another_cookie(seen)
        data = cookie.dump_cookie(new_cookie)
        ops = (
            *self.holder.nobody_registered,
            _change(self._cookie_path, data, seen.cookie_version),
            _change(self._record_path, cookie.dump_incarnation(record), seen.record_version),
        )
        await self._commit(ops, seen, record)

    async def restore_cookie(self, seen: StoredIdentity, old_cookie: Cookie) -> None:
        """Make the cookie again that stood here, on condition that there is none, that the record is as in `seen`, and
        that no process has this id. Raises VersionConflict when one of these is not so (any more).

        CRASH: without the write the next look finds what this one found; with it the boot goes on.
        """
        assert seen.cookie is None
        for parent in (paths.cookies(self._root), paths.processes(self._root), paths.readonly(self._root)):
            await self._ensure(parent)
        ops = (
            *self.holder.nobody_registered,
            *absent(self.holder.path),
            CheckOp(self._record_path, seen.record_version),
            CreateOp(self._cookie_path, cookie.dump_cookie(old_cookie)),
        )
        try:
            await self._store.transact(ops)
        except (errors.OutcomeUnknown, errors.VersionConflict, errors.NodeExists, errors.NodeMissing) as error:
            now = await self.read()  # our own write may stand in our way
            if now.cookie != old_cookie or now.record_version != seen.record_version:
                raise self._overtaken() from error

    async def begin_growth(self, seen: StoredIdentity, new_cookie: Cookie, record: IncarnationRecord) -> None:
        """Begin the incarnation's next boot with a cookie that has more directories, in one transaction. Raises
        VersionConflict when somebody else changed the cookie or the record."""
        await self._refuse_another_cookie(seen)
        change = _change(self._cookie_path, cookie.dump_cookie(new_cookie), seen.cookie_version)
        boot = _change(self._record_path, cookie.dump_incarnation(record), seen.record_version)
        await self._commit((change, boot), seen, record)

    async def _refuse_another_cookie(self, seen: StoredIdentity) -> None:
        """Raise VersionConflict unless the cookie is that of `seen`, by its node too: one that was removed and made
        again may have the same version, which is all that a transaction compares. Phase one lies between, and takes
        long."""
        await self._retry.read(lambda: self._store.sync(self._root))
        stored = await self._retry.read(lambda: find(self._store, self._cookie_path))
        now = (ABSENT, 0) if stored is None else (stored.version, stored.created_zxid)
        if now != (seen.cookie_version, seen.cookie_created_zxid):
            raise self._overtaken()

    async def begin_boot(self, seen: StoredIdentity, record: IncarnationRecord) -> None:
        """Begin the incarnation's next boot. Raises VersionConflict when another process of this id was quicker, or
        somebody changed or removed the cookie by which this boot was judged."""
        boot = _change(self._record_path, cookie.dump_incarnation(record), seen.record_version)
        judged_by = () if seen.cookie is None else (CheckOp(self._cookie_path, seen.cookie_version),)
        await self._commit((*judged_by, boot), seen, record)

    async def hold(self, record: IncarnationRecord) -> None:
        """Never return; raise RefusedToStart once another process is this bookie.

        That is so when the record is no longer the one this process wrote. A sign that went with our session is made
        again, and we go on: as long as nobody claimed the record, nobody was this bookie meanwhile.
        """
        changed = asyncio.Event()
        ends = [self._store.watch(path, changed.set) for path in (self._record_path, self.holder.path)]

        def on_session(state: Session) -> None:
            if state is Session.LOST:
                self.held.clear()
                changed.set()

        ends.append(self._store.on_session(on_session))
        try:
            while True:
                changed.clear()
                stored = await self._retry.read(lambda: find(self._store, self._record_path))
                if stored is None or _load_record(stored, record.instance_id)[0] != record:
                    break
                self._record_version = stored.version
                if await self.holder.take_back(CheckOp(self._record_path, stored.version)):
                    self.held.set()
                    await changed.wait()
                elif await self.holder.is_another():
                    break
        finally:
            self.held.clear()
            for end in ends:
                end()
        raise errors.RefusedToStart(
            f"another process took over bookie {self._bookie_id}, or somebody changed or removed its record: this one"
            f" stops; see {self._record_path} and {self.holder.path} in the metadata store"
        )

    async def while_held(self) -> Sequence[CheckOp]:
        """Wait until `hold` has found the record and our node; return checks that make a transaction require both."""
        await self.held.wait()
        return CheckOp(self._record_path, self._record_version), self.holder.check

    async def _commit(self, ops: Sequence[Op], seen: StoredIdentity, record: IncarnationRecord) -> None:
        """Commit `ops`, one of which changes the record, on condition that our node exists."""
        while True:
            try:
                await self._store.transact((self.holder.check, *ops))
            except (errors.OutcomeUnknown, errors.VersionConflict, errors.NodeExists, errors.NodeMissing) as error:
                # After a lost answer our own change may stand in our way: look before judging.
                now = await self.read()
                if now.record == record:
                    return
                if not _is_same_cookie(now, seen) or now.record_version != seen.record_version:
                    raise self._overtaken() from error
                if reason := await self.holder.in_the_way():
                    raise errors.VersionConflict(
                        f"another process runs as bookie {self._bookie_id}: {reason}"
                    ) from error
                if not await self.holder.take_back(CheckOp(self._record_path, seen.record_version)):
                    raise self._overtaken() from error
                await self._retry.pause(SETTLE_MS)
            except errors.MetadataError as error:
                if not error.retryable:
                    raise
                await self._retry.pause(SETTLE_MS)
            else:
                return

    async def _ensure(self, path: str) -> None:
        while await self._retry.read(lambda: find(self._store, path)) is None:
            try:
                await self._store.create(path, b"", parents=True)
            except errors.MetadataDenied:
                raise
            except errors.MetadataError:
                await self._retry.pause(SETTLE_MS)


def _load_record(stored: Stored | None, instance_id: str) -> tuple[IncarnationRecord | None, str, str]:
    """Return (the record, the boot id of the process that wrote it, why it cannot be read)."""
    if stored is None:
        return None, "", ""
    try:
        record = cookie.load_incarnation(stored.data)
    except errors.BadInput as error:
        return None, "", str(error)
    is_ours = record.incarnation != _NOT_BEGUN and record.instance_id == instance_id
    return (record if is_ours else None), record.boot_id, ""


def _is_same_cookie(now: StoredIdentity, seen: StoredIdentity) -> bool:
    """By its node too: one that was removed and made again may have the same version."""
    return (now.cookie_version, now.cookie_created_zxid) == (seen.cookie_version, seen.cookie_created_zxid)


def _change(path: str, data: bytes, version: int) -> Op:
    return CreateOp(path, data) if version == ABSENT else PutOp(path, data, version)


def _load_cookie(stored: Stored | None, path: str) -> tuple[Cookie | None, str]:
    if stored is None:
        return None, ""
    try:
        return cookie.load_cookie(stored.data), ""
    except errors.BadInput as error:
        return None, (
            f"the cookie in the metadata store, {path}: {error}; restore it from a backup, or delete this node: then"
            " `bookie cookie create`, with current/VERSION of one of this bookie's directories, makes it anew"
        )
