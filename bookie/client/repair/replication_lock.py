"""The lock that Java's replication workers take: one repairer of a ledger at a time, among ours and Java's.

Java's bookies delete their entries of a closed ledger that does not name them, except while its lock is held
(spec/metadata.md#M39). So a repairer that copies entries to a bookie holds the lock without a break until the metadata
names that bookie: in a break, Java's bookie may delete the copies, and compare-and-set would not notice.

All locks look alike, and each ends with its session. So a sign with a name of its own stands beside our lock, made in
the same transaction: `held` makes a change depend on both, `give_back` removes both or neither. Never: remove a lock
that may be another's. (Java's workers do, since they cannot tell: ZkLedgerUnderreplicationManager.) A node of no
session is nobody's: it is removed, with a word, or its ledger is never repaired again.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LedgerId
from bookie.base.units import NS_PER_S
from bookie.client.tasks import Tasks
from bookie.metadata import paths, repair
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import (
    ANY_VERSION,
    CheckOp,
    CreateOp,
    DeleteOp,
    MetadataStore,
    Stored,
    create_if_missing,
)
from bookie.ports.time_limit import TimeLimit

log = logging.getLogger(__name__)

_ATTEMPTS = 5
_GIVE_WAY_STEPS = 3  # as many as a removal has
_GIVE_BACK_ATTEMPTS = 2  # each may take as long as a session does to end
_GIVE_BACK_S = 1.0  # for both, when the work was cancelled
_LATER_NS = 1 * NS_PER_S  # between two later attempts, each of which waits for the store


class LockLost(BookieError):
    """The lock is no longer ours: the change that depended on it did not happen."""

    retryable = True


@dataclass(frozen=True, slots=True)
class ReplicationLock:
    """The lock of one ledger, taken by us. It may be lost at any time, with our session."""

    ledger_id: LedgerId
    path: str
    sign: str
    _store: MetadataStore

    @property
    def held(self) -> tuple[CheckOp, ...]:
        """Return checks for a transaction: it fails with NodeMissing unless the lock has been ours without a break."""
        return CheckOp(self.sign, ANY_VERSION), CheckOp(self.path, ANY_VERSION)

    async def confirm(self) -> None:
        """Check that the lock is still ours. Raises LockLost, MetadataError."""
        await self._store.sync(self.path)  # an older view would show the lock of a session that has ended
        try:
            for check in self.held:
                await self._store.get(check.path)
        except errors.NodeMissing:
            raise LockLost(
                f"ledger {self.ledger_id}: its lock ended with our session in the metadata store. Java's bookies may"
                " have deleted copies meanwhile: begin again with this ledger"
            ) from None

    async def take(self, holder: str) -> None:
        """Take the lock. Raises TooManyRequests when another repairs the ledger, MetadataError."""
        ops = (
            CreateOp(self.sign, b"", ephemeral=True),
            CreateOp(self.path, repair.dump_lock(holder), ephemeral=True),
        )
        for _ in range(_ATTEMPTS):
            try:
                await self._store.transact(ops)
                return
            except errors.NodeMissing:
                for path in (self.path, self.sign):
                    await create_if_missing(self._store, path.rpartition("/")[0], parents=True)
                continue
            except (errors.NodeExists, errors.OutcomeUnknown):
                pass
            try:
                found = await self._store.get(self.path)
            except errors.NodeMissing:
                continue  # it was released, or the lost change did not happen
            other = holder_in(found)
            if not found.owner:
                await self._remove(found, other)
                continue
            if other == holder:
                return
            raise errors.TooManyRequests(
                f"ledger {self.ledger_id} is being repaired by {other or 'another process'}"
            ) from None
        raise errors.OutcomeUnknown(
            f"locking ledger {self.ledger_id}: the lock kept changing, or the metadata store gave no answer: look, then"
            " try again"
        )

    async def _remove(self, found: Stored, other: str) -> None:
        """Remove the node of no session that was `found` in our lock's place, unless it changed. Raises TooManyRequests
        when nobody may, OutcomeUnknown.

        A lock that somebody takes meanwhile is never removed: it has version 0 again, and what we remove was written
        to, and looked at after that. That its version counts one more harms no lock: nobody goes by it, Java neither.
        """
        try:
            version = await self._store.put(self.path, found.data, found.version)
            now = await self._store.get(self.path)
            if now.owner or now.version != version:
                await self._give_way()
                return
            await self._store.delete(self.path, version)
        except (errors.NodeMissing, errors.VersionConflict, errors.OutcomeUnknown):
            await self._give_way()
            return  # the next look says what happened
        except errors.MetadataError as error:
            if error.retryable:
                raise
            raise errors.TooManyRequests(
                f"ledger {self.ledger_id} cannot be repaired: its lock {self.path} (holder {other or 'not named'})"
                f" belongs to no session, so no repairer has it, and it cannot be removed ({error}): delete it by hand"
            ) from None
        log.warning(
            "lock of no session removed: no repairer has it ledger_id=%d path=%s holder=%s made_ms=%d",
            self.ledger_id,
            self.path,
            other,
            found.created_ms,
        )

    async def _give_way(self) -> None:
        """Let another that removes the same node come to its end: each that writes to it makes the others' looks void,
        so that of many, none would."""
        for _ in range(_GIVE_WAY_STEPS):
            await self._store.sync(self.path)

    async def give_back(self) -> bool:
        """Remove the lock, if it was not lost. Return False when it may be there still, since the store gave no
        answer: our session may outlive that."""
        for _ in range(_GIVE_BACK_ATTEMPTS):
            try:
                await self._store.transact((DeleteOp(self.sign, ANY_VERSION), DeleteOp(self.path, ANY_VERSION)))
            except errors.OutcomeUnknown:
                continue
            except errors.MetadataError as error:
                return not error.retryable
            return True
        return False

    async def give_back_later(self, clock: Clock) -> None:
        """Remove a lock that may be there still, as soon as the store answers. A process may live for months, and until
        its session ends nobody else, nor itself, would repair this ledger."""
        session_id = self._store.session_id
        while self._store.session_id == session_id:  # the next session has no lock of this one
            if await self.give_back():
                return
            await clock.sleep_until(clock.monotonic_ns() + _LATER_NS)


def holder_in(found: Stored) -> str:
    """Return who a lock says that it belongs to, for people; "" when it does not say."""
    try:
        return repair.load_lock(found.data)
    except errors.BadInput:
        return ""


@dataclass(frozen=True, slots=True)
class Later:
    """What gives locks back that the store did not take back in time, as long as the process lives."""

    tasks: Tasks
    clock: Clock

    def give_back(self, lock: ReplicationLock) -> None:
        self.tasks.spawn(lock.give_back_later(self.clock), f"lock of ledger {lock.ledger_id}")


@contextlib.asynccontextmanager
async def locked(
    store: MetadataStore, root: str, ledger_id: LedgerId, holder: str, later: Later | None
) -> AsyncIterator[ReplicationLock]:
    """Hold the lock of `ledger_id` for the body. `holder` names this one lock, and no other ever. `later`: None only
    for who ends the session soon.

    Raises TooManyRequests when another repairs the ledger, MetadataError.
    """
    sign = paths.replication_holder(root, holder)
    lock = ReplicationLock(ledger_id, paths.replication_lock(root, ledger_id), sign, store)
    patience_s = None
    try:
        await lock.take(holder)
        yield lock
    except asyncio.CancelledError:
        # Whoever cancels us may be a bookie that stops and has yet to flush: it cannot wait for a silent store.
        patience_s = _GIVE_BACK_S
        raise
    finally:
        is_given_back = False
        try:
            with contextlib.suppress(TimeoutError):
                async with TimeLimit(patience_s):
                    is_given_back = await lock.give_back()
        finally:  # who waits for a silent store may be cancelled then
            if not is_given_back and later is not None:
                later.give_back(lock)
