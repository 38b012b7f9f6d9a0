"""Marks ledgers that lack replicas, in Java's queue and Java's form, and removes the marks.

A mark is a hint that costs a look: workers, ours and Java's, judge the ledger anew before they copy anything. So a mark
too many is harmless, and one that is lost is made again by the next audit. Rules: spec/metadata.md#M30, M31, M48.
Never: the removal of a mark that changed since it was read, or by somebody who has lost the lock; a new mark, or one
that was made once more, may tell of a new loss.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.metadata import paths, repair
from bookie.metadata.repair import Underreplicated
from bookie.ports.metadata_store import CheckOp, DeleteOp, MetadataStore, Stored, create_if_missing, find

log = logging.getLogger(__name__)

_ATTEMPTS = 5
# ZkLedgerUnderreplicationManager refuses to work with any other.
_LAYOUT = b'type: "BASIC"\nversion: 1\n'
_LEVELS = 4


@dataclass(frozen=True, slots=True)
class FoundMark:
    """A mark as it stands; `version` tells it from a newer one."""

    record: Underreplicated
    version: int
    is_readable: bool = True  # else `record` names nobody


NOBODYS_MARK = FoundMark(Underreplicated(()), -1, is_readable=False)
"""Stands for one that may not be read."""


class Marks:
    """The queue of the cluster at `root`."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store = store
        self._root = root

    async def prepare(self) -> None:
        """Make what Java's auto-recovery makes at its start. Raises RefusedToStart for a queue of another form."""
        path = paths.replication_layout(self._root)
        await create_if_missing(self._store, path, _LAYOUT, parents=True)
        found = await find(self._store, path)
        if found is not None and found.data.split() != _LAYOUT.split():
            raise errors.RefusedToStart(
                f"{path} holds {found.data[:80]!r}: this queue of ledgers that lack replicas is of a form that nobody"
                " here knows; look who made it"
            )
        for parent in (paths.underreplicated_ledgers(self._root), paths.replication_locks(self._root)):
            await create_if_missing(self._store, parent, parents=True)

    async def mark(self, ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> bool:
        """Note that the ledger lacks the replicas of these bookies. Return False when the mark says so already: then it
        says the same afterwards, and is another one where somebody repairs the ledger now, since his look may be older
        than this loss (`done`). Raises MetadataError."""
        path, lock = paths.underreplicated(self._root, ledger_id), paths.replication_lock(self._root, ledger_id)
        for attempt in range(_ATTEMPTS):
            # After a loss of a bookie, most are new. The lock first: who takes it later than this looks later, too.
            is_repaired = bool(attempt) and await find(self._store, lock) is not None
            found = await find(self._store, path) if attempt else None
            try:
                if found is None:
                    data = repair.dump_underreplicated(Underreplicated(tuple(sorted(missing)), now_ms))
                    await self._store.create(path, data, parents=True)
                    return True
                before = _found(path, found).record.missing  # bytes that nobody can read are written over
                added = sorted(each for each in missing if each not in before)
                if not added and not is_repaired:
                    return False
                data = repair.dump_underreplicated(Underreplicated((*before, *added), now_ms))
                await self._store.put(path, data if added else found.data, found.version)
            except (errors.NodeExists, errors.NodeMissing, errors.VersionConflict, errors.OutcomeUnknown):
                continue  # the next look says what happened
            return bool(added)
        raise errors.OutcomeUnknown(f"marking ledger {ledger_id}: {path} kept changing: the next audit tries again")

    async def find(self, ledger_id: LedgerId) -> FoundMark | None:
        """Return the mark of one ledger; None when there is none. Raises MetadataError."""
        path = paths.underreplicated(self._root, ledger_id)
        found = await find(self._store, path)
        return None if found is None else _found(path, found)

    async def done(self, ledger_id: LedgerId, version: int, *, provided: Sequence[CheckOp] = ()) -> bool:
        """Remove the mark that was read at `version`. Return False when it changed since, or one of `provided` does not
        hold: then it stays."""
        path = paths.underreplicated(self._root, ledger_id)
        try:
            await self._store.transact((*provided, DeleteOp(path, version)))
        except errors.NodeMissing:
            return await find(self._store, path) is None
        except (errors.VersionConflict, errors.OutcomeUnknown):
            return False
        for _ in range(_LEVELS):  # as Java: the directories above, while they are empty
            path = path.rpartition("/")[0]
            try:
                await self._store.delete(path)
            except errors.MetadataError:
                break
        return True


def _found(path: str, found: Stored) -> FoundMark:
    """Return the mark in `found`. Of bytes that nobody can read, a stranger's, the hint alone is left: look."""
    try:
        return FoundMark(repair.load_underreplicated(found.data), found.version)
    except errors.BadInput as error:
        log.warning("a mark says nothing path=%s reason=%s", path, error)
        return FoundMark(Underreplicated(()), found.version, is_readable=False)
