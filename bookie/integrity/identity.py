"""Cookie and incarnation record in the metadata store: who this bookie is, and which of its lives is the current one.

Changed by compare-and-set only, cookie and record in one transaction: that commit is the linearization point of a new
life (operators.md 3.6, 6). The record carries the random id of the process that wrote it, so that a lost answer can be
settled by looking, and so that the older of two processes with one id learns that it was overtaken and stops.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.client import cluster
from bookie.integrity.patience import Patience
from bookie.metadata import cookie, paths
from bookie.metadata.cookie import Cookie, IncarnationRecord
from bookie.ports.metadata_store import CreateOp, MetadataStore, Op, PutOp, Stored

ABSENT = -1
_SETTLE_MS = 100  # between attempts at a change whose answer was lost


@dataclass(frozen=True, slots=True)
class Identity:
    """What the store says. Versions are ABSENT where there is no node.

    `record` None: no life of this bookie in this cluster. One left by an earlier cluster in the same place (metaformat
    does not know it) counts as none, but keeps its version.
    """

    instance_id: str
    cookie: Cookie | None
    cookie_problem: str
    cookie_version: int
    cookie_digest: str
    record: IncarnationRecord | None
    record_version: int


class IdentityStore:
    """The two nodes of one bookie."""

    def __init__(self, store: MetadataStore, root: str, bookie_id: BookieId, patience: Patience) -> None:
        self._store = store
        self._root = root
        self._bookie_id = bookie_id
        self._patience = patience
        self._cookie_path = paths.cookie(root, bookie_id)
        self._record_path = paths.incarnation(root, bookie_id)

    async def read(self) -> Identity:
        """Linearizable: a sync goes first. Raises RefusedToStart when there is no cluster here."""
        read = self._patience.read
        await read(lambda: self._store.sync(self._root))
        instance_id = await read(lambda: cluster.instance_id(self._store, self._root))
        stored_cookie = await read(lambda: self._get(self._cookie_path))
        stored_record = await read(lambda: self._get(self._record_path))
        found, problem = _load_cookie(stored_cookie)
        record, broken = _load_record(stored_record, instance_id)
        return Identity(
            instance_id=instance_id,
            cookie=found,
            cookie_problem=problem or broken,
            cookie_version=ABSENT if stored_cookie is None else stored_cookie.version,
            cookie_digest="" if stored_cookie is None else hashlib.sha256(stored_cookie.data).hexdigest(),
            record=record,
            record_version=ABSENT if stored_record is None else stored_record.version,
        )

    async def end_life(self, seen: Identity) -> Identity:
        """Move the record's version on, and nothing else: what is copied to this bookie because the life it tells of
        took it can no longer be published (`client.evacuation`). So phase one, begun after it, sees all that was.

        Another process of this id may do it instead of us; it makes no difference. Raises VersionConflict when cookie
        or record were changed meanwhile.
        """
        if seen.record is None:
            return seen
        op = PutOp(self._record_path, cookie.dump_incarnation(seen.record), seen.record_version)
        while True:
            with contextlib.suppress(errors.MetadataError):  # the next look says what happened
                await self._store.transact((op,))
            now = await self.read()
            if (now.cookie_version, now.record) != (seen.cookie_version, seen.record):
                raise errors.VersionConflict(
                    f"cookie or record of bookie {self._bookie_id} was changed by somebody else meanwhile"
                )
            if now.record_version != seen.record_version:
                return now
            await self._patience.pause(_SETTLE_MS)

    async def begin_life(self, seen: Identity, new_cookie: Cookie, record: IncarnationRecord) -> None:
        """Cookie and record, both as they were `seen`, become the new ones: all or nothing, durably.

        Raises VersionConflict when somebody else acted since.
        """
        for parent in (paths.cookies(self._root), paths.incarnations(self._root)):
            await self._ensure(parent)
        data = cookie.dump_cookie(new_cookie)
        ops = (
            _change(self._cookie_path, data, seen.cookie_version),
            _change(self._record_path, cookie.dump_incarnation(record), seen.record_version),
        )
        await self._commit(ops, seen, record)

    async def begin_boot(self, seen: Identity, record: IncarnationRecord) -> None:
        """The same life, the next boot. Raises VersionConflict when another process of this id was quicker."""
        await self._commit(
            (_change(self._record_path, cookie.dump_incarnation(record), seen.record_version),), seen, record
        )

    async def is_registered_elsewhere(self) -> bool:
        """Is a process other than ours registered under this id, in either list?"""
        for parent in (paths.available(self._root), paths.readonly(self._root)):
            found = await self._patience.read(lambda path=f"{parent}/{self._bookie_id}": self._get(path))  # type: ignore[misc]
            if found is not None and found.owner != self._store.session_id:
                return True
        return False

    async def hold(self, record: IncarnationRecord) -> None:
        """Return never; raise RefusedToStart once the record is no longer the one this process wrote."""
        changed = asyncio.Event()
        cancel = self._store.watch(self._record_path, changed.set)
        try:
            while True:
                changed.clear()
                stored = await self._patience.read(lambda: self._get(self._record_path))
                if stored is None or cookie.load_incarnation(stored.data) != record:
                    raise errors.RefusedToStart(
                        f"another process took over bookie {self._bookie_id}, or its record was removed: this one stops"
                    )
                await changed.wait()
        finally:
            cancel()

    async def _commit(self, ops: Sequence[Op], seen: Identity, record: IncarnationRecord) -> None:
        while True:
            try:
                await self._store.transact(ops)
            except (errors.OutcomeUnknown, errors.VersionConflict, errors.NodeExists, errors.NodeMissing) as error:
                # After a lost answer our own change may stand in our way: look before judging.
                now = await self.read()
                if now.record == record:
                    return
                if (now.cookie_version, now.record_version) == (seen.cookie_version, seen.record_version):
                    await self._patience.pause(_SETTLE_MS)
                    continue
                raise errors.VersionConflict(
                    f"cookie or record of bookie {self._bookie_id} was changed by somebody else meanwhile"
                ) from error
            except errors.MetadataError as error:
                if not error.retryable:
                    raise
                await self._patience.pause(_SETTLE_MS)
            else:
                return

    async def _ensure(self, path: str) -> None:
        while await self._patience.read(lambda: self._get(path)) is None:
            try:
                await self._store.create(path, b"", parents=True)
            except errors.MetadataError:
                await self._patience.pause(_SETTLE_MS)

    async def _get(self, path: str) -> Stored | None:
        try:
            return await self._store.get(path)
        except errors.NodeMissing:
            return None


def _load_record(stored: Stored | None, instance_id: str) -> tuple[IncarnationRecord | None, str]:
    if stored is None:
        return None, ""
    try:
        record = cookie.load_incarnation(stored.data)
    except errors.BadInput as error:
        return None, str(error)
    return (record, "") if record.instance_id == instance_id else (None, "")


def _change(path: str, data: bytes, version: int) -> Op:
    return CreateOp(path, data) if version == ABSENT else PutOp(path, data, version)


def _load_cookie(stored: Stored | None) -> tuple[Cookie | None, str]:
    if stored is None:
        return None, ""
    try:
        return cookie.load_cookie(stored.data), ""
    except errors.BadInput as error:
        return None, f"the cookie in the metadata store: {error}"
