"""Evacuation: copies the entries of bookies that leave to other bookies, and names those in the metadata instead.

For bookies that are dead for good or that are to leave. It needs nothing from them: it reads every entry from any
replica, verifies it, and writes it as a recovery does; it asks the leaving bookies last. It recovers a ledger whose end
is not decided first. Rules: spec/metadata.md#M20, M34. Java re-seals each copy; we copy the stored bytes as they are,
so that replicas stay equal.

Order: lock, copy, force, then one transaction: the new bookies are named, provided that at this very moment

    the ledger's metadata is what it was derived from   nobody closed, deleted or moved it meanwhile, and the fragment
                                                        has the ensemble and the end that were copied
    each new bookie is in the life that acknowledged    it lost nothing since: a life that begins without the disks of
                                                        the one before says so first, and then looks who names it
    the lock was ours since before the first copy       nobody threw the copies away as surplus: Java's bookies do
                                                        (spec/metadata.md#M39), ours never

The first check is enough against clients that change the same ledger, with a lock or without (writers, recoveries,
another evacuation). The other two guard what metadata does not show: that the copies are still there. CRASH: before the
transaction the metadata names the old bookies, and the copies are surplus; after it every entry stands on disk at the
new bookie. An evacuation may stop at any point and begin again.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId, Life
from bookie.base.throttle import Throttles
from bookie.client.ledgers import told_as_defect
from bookie.client.net.bookies import BookieClient
from bookie.client.repair import naming, recovery
from bookie.client.repair.naming import AffectedLedger
from bookie.client.repair.replica_copier import CONCURRENCY, OnCopied, ReplicaCopier
from bookie.client.repair.replication_lock import Later, ReplicationLock, locked
from bookie.client.shared import Shared, schedule_of
from bookie.metadata import cookie, paths
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import CheckOp
from bookie.quorum import leaving as rules
from bookie.quorum.leaving import Fragment

log = logging.getLogger(__name__)

# Small ledgers cost a few answers of the metadata store each, and it gives many at a time.
LEDGERS_AT_ONCE = 16
# How often a fragment is begun again because another client or a new bookie changed meanwhile.
_ATTEMPTS = 20
_TOKEN_BYTES = 8


# A ledger's record and its version.
StoredLedger = tuple[LedgerMetadata, int]


class _Lived(NamedTuple):
    """A bookie's life, and what holds while it lasts; None for a bookie that tells of none."""

    life: Life | None
    check: CheckOp | None


class LedgerStillOpen(BookieError):
    """The ledger is not closed, and the caller did not allow a recovery."""


class Evacuation:
    """Takes the bookies `leaving` out of ledgers. Any number of ledgers may be moved at once.

    `may_end`: ledgers without an end are recovered, which fences off their writers. `copier` counts what was copied.
    `bytes_per_s`: a limit of all its copies, or one of each taker that others share. `ledgers_at_once`,
    `entries_at_once`: fewer where clients are served beside it. `may_hold`: ledgers IN_RECOVERY of which the bookies
    may hold entries are recovered too, although they do not name them yet (spec/metadata.md#M41).
    """

    def __init__(
        self,
        shared: Shared,
        leaving: Sequence[BookieId],
        *,
        bytes_per_s: int | Throttles[BookieId] | None = None,
        may_end: bool = True,
        ledgers_at_once: int = LEDGERS_AT_ONCE,
        entries_at_once: int = CONCURRENCY,
        may_hold: naming.MayHold | None = None,
        on_copied: OnCopied | None = None,
    ) -> None:
        self._shared = shared
        self._bookies = BookieClient(shared.pool)
        self._leaving = frozenset(leaving)
        self._may_end = may_end
        self._may_hold = may_hold
        self._ledgers_at_once = ledgers_at_once
        self._entries_at_once = entries_at_once
        self.copier = ReplicaCopier(
            shared, self._bookies, self._leaving, bytes_per_s, entries_at_once=entries_at_once, on_copied=on_copied
        )

    # ---- looking -----------------------------------------------------------------------------------------------------

    def look(self, *, beside_clients: Clock | None = None) -> AsyncIterator[AffectedLedger | None]:
        """Yield, for each ledger that existed before this call, what is to be done for it, or None (`naming.look`)."""
        return naming.look(self._shared.ledgers, self._leaving, beside_clients=beside_clients, may_hold=self._may_hold)

    async def look_at(self, ledger_id: LedgerId) -> AffectedLedger | None:
        """Return what is to be done for one ledger, or None."""
        return await naming.look_at(self._shared.ledgers, ledger_id, self._leaving, self._may_hold)

    # ---- moving ------------------------------------------------------------------------------------------------------

    async def move_many(
        self, ledger_ids: Iterable[LedgerId], on_moved: Callable[[LedgerId], None]
    ) -> dict[LedgerId, str]:
        """Move each ledger; return the reason for each that could not be moved. Calls `on_moved` for each of the
        others."""
        turns = iter(ledger_ids)
        left: dict[LedgerId, str] = {}

        async def keep_moving() -> None:
            for ledger_id in turns:
                try:
                    await self.move(ledger_id)
                except BookieError as error:
                    left[ledger_id] = str(error)
                except Exception as error:  # ours, at this ledger: the others are moved
                    log.exception("error of ours at one ledger ledger_id=%d", ledger_id)
                    left[ledger_id] = told_as_defect(error)
                else:
                    on_moved(ledger_id)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._ledgers_at_once):
                group.create_task(keep_moving())
        return left

    async def move(self, ledger_id: LedgerId) -> None:
        """Replace the leaving bookies in `ledger_id`; does nothing if the ledger does not name them, or is deleted. May
        be called again after any error.

        Raises LedgerStillOpen, NotEnoughBookies, QuorumNotReached (no replica gave an entry), TooManyRequests (another
        process repairs the ledger now), LockLost, MetadataError, and the errors of a recovery.
        """
        ledgers = self._shared.ledgers
        holder = f"bookie-evacuation-{self._shared.world.entropy.token(_TOKEN_BYTES).hex()}"
        with contextlib.suppress(errors.LedgerMissing):  # deleted meanwhile
            later = Later(self._shared.tasks, self._shared.world.clock)
            async with locked(ledgers.store, ledgers.root, ledger_id, holder, later) as lock:
                await self.move_under(lock)

    async def move_under(self, lock: ReplicationLock, known: StoredLedger | None = None) -> StoredLedger:
        """As `move`, for a caller that holds the ledger's lock; return the record in which nobody leaving is named.
        `known`: the record, where the caller has just read it. Raises LedgerMissing too."""
        ledger_id, failures = lock.ledger_id, 0
        while failures < _ATTEMPTS:
            found = await self._ended(ledger_id, known)
            fragment = next(rules.fragments(found[0], self._leaving), None)
            if fragment is None:
                return found
            known = await self._move_fragment(lock, found, fragment)
            if known is not None:
                failures = 0
                continue
            failures += 1
            log.warning("evacuation begins again: metadata or a new bookie changed ledger_id=%d", ledger_id)
        raise errors.MetadataError(f"ledger {ledger_id}: the metadata changed {_ATTEMPTS} times in a row: try again")

    async def _ended(self, ledger_id: LedgerId, known: StoredLedger | None) -> StoredLedger:
        """Return the record in which every segment of a leaving bookie has an end; recovers the ledger for that."""
        metadata, version = known or await self._shared.ledgers.get(ledger_id)
        if not rules.must_end_first(metadata, self._leaving):
            return metadata, version
        if not self._may_end:
            raise LedgerStillOpen(f"ledger {ledger_id} is {metadata.state.name}, not closed: it was left as it is")
        return await recovery.recover(self._shared, ledger_id)

    async def _move_fragment(
        self, lock: ReplicationLock, known: StoredLedger, fragment: Fragment
    ) -> StoredLedger | None:
        """Copy the fragment and name the new bookies in the metadata; return the new record. Return None when the
        caller must begin again: another client changed the ensemble meanwhile, or a new bookie restarted."""
        ledger_id, metadata = lock.ledger_id, known[0]
        schedule = schedule_of(metadata)
        replacements = self._shared.replacements(schedule, fragment.bookies, fragment.slots, without=self._leaving)
        if len(replacements) < len(fragment.slots):
            raise errors.NotEnoughBookies(
                f"ledger {ledger_id}: {len(fragment.slots)} of the bookies {', '.join(fragment.bookies)} must be"
                f" replaced, and only {len(replacements)} other writable ones are left: start more"
            )
        takers = tuple(dict.fromkeys(replacements.values()))
        lives = await self._lives(takers)
        copies = fragment.copies(schedule, replacements)
        while batch := list(itertools.islice(copies, self._entries_at_once)):
            problems = await asyncio.gather(*(self.copier.copy(ledger_id, metadata, *copy) for copy in batch))
            for problem in problems:
                if problem is not None:
                    raise problem
        # A bookie that does not journal acknowledges an entry before it is on disk, and the only other copy may be on a
        # bookie that leaves: so force first.
        for bookie_id in takers:
            with self.copier.blaming(bookie_id):
                await self._bookies.force(bookie_id, ledger_id)
        for bookie_id in takers:
            with self.copier.blaming(bookie_id):
                if await self._bookies.life(bookie_id) != lives[bookie_id].life:
                    # A life that began meanwhile answers the force with EOK, but does not know what the earlier one
                    # lost, since no ledger names it yet (spec/bp46.md#T17). One that is about to answer moves the
                    # record that the transaction checks.
                    return None
        checks = [each.check for each in lives.values() if each.check is not None]
        return await self._publish(lock, known, fragment, replacements, checks)

    async def _lives(self, bookies: Sequence[BookieId]) -> dict[BookieId, _Lived]:
        """Return the life of each bookie that answers now, with a check that holds while it lasts. Java's bookies need
        none: they have no such record.

        Raises BookieUnavailable when an earlier life answers: the registration will name the address of the new one.
        """
        ledgers = self._shared.ledgers
        found: dict[BookieId, _Lived] = {}
        for bookie_id in bookies:
            with self.copier.blaming(bookie_id):
                life = await self._bookies.life(bookie_id)
            if life is None:
                found[bookie_id] = _Lived(None, None)
                continue
            path = paths.incarnation(ledgers.root, bookie_id)
            try:
                stored = await ledgers.store.get(path)
                record = cookie.load_incarnation(stored.data)
                if Life(record.incarnation, record.boot_epoch) != life:
                    raise errors.BookieUnavailable(
                        f"bookie {bookie_id} has restarted, but its earlier process still answers: try again"
                    )
            except (errors.BookieUnavailable, errors.NodeMissing, *errors.UNREADABLE) as error:
                self._shared.pool.quarantine(bookie_id, error)  # or the next attempt may draw it again, for ever
                raise
            found[bookie_id] = _Lived(life, CheckOp(path, stored.version))
        return found

    async def _publish(
        self,
        lock: ReplicationLock,
        known: StoredLedger,
        fragment: Fragment,
        replacements: Mapping[int, BookieId],
        lives: Sequence[CheckOp],
    ) -> StoredLedger | None:
        """Name the new bookies in the record, beginning with the one that was copied from: the CAS says whether it
        still stands."""
        ledgers, ledger_id = self._shared.ledgers, lock.ledger_id
        (metadata, version), refused = known, -1
        for _ in range(_ATTEMPTS):
            changed = rules.replaced(metadata, fragment, replacements)
            # A version that was refused and still stands: it is not the ledger that changed, a new bookie's life is
            # over.
            if changed is None or version == refused or known[0].was_replaced_by(metadata):
                break
            try:
                new_version = await ledgers.put(ledger_id, changed, version, provided=(*lock.held, *lives))
            except (errors.VersionConflict, errors.SessionLost):
                await lock.confirm()
                refused = version
                metadata, version = await ledgers.get(ledger_id)
                continue
            log.info(
                "replicas moved ledger_id=%d from_entry=%d slots=%s bookies=%s",
                ledger_id,
                fragment.first,
                ",".join(map(str, fragment.slots)),
                ",".join(replacements[slot] for slot in fragment.slots),
            )
            return changed, new_version
        return None
