"""Reports to the metadata store how far journals and entry logs reached, and checks that at the next boot.

    sync of a group, of a checkpoint's logs ──► position, at most once a second ──► the next boot compares

A position is a lower bound: written after the syncs it tells of, so disks that never went back are never behind it,
however late it is, and whatever was lost on the way. Must never: hold up an add, fail one, or end a bookie because the
metadata store is away; then the last position stands, and says less.
"""

import logging
from dataclasses import replace

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.rounds import Rounds
from bookie.base.units import NS_PER_S
from bookie.metadata import paths
from bookie.metadata.cookie import IncarnationRecord
from bookie.metadata.position import Position, dump_position, load_position
from bookie.ports import World
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import MetadataStore, Stored
from bookie.storage import dirs
from bookie.storage.entrylog.logs import EntryLogs
from bookie.storage.journal import ends
from bookie.storage.journal.batch import JournalPosition
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

_JOB = "report of the position"
_LOOK_NS = NS_PER_S
# Within one journal file or entry log this often: what was synced since is what a set-back can hide.
_RENEW_NS = 10 * NS_PER_S


async def is_behind(
    world: World, storage: StorageOptions, stored: Stored | None, record: IncarnationRecord | None
) -> bool:
    """Return True when a journal or a ledger directory holds less than this incarnation reported. An unreadable
    report proves nothing."""
    if stored is None or record is None:
        return False
    try:
        position = load_position(stored.data)
    except errors.BadInput as error:
        log.warning("the stored position cannot be read and is ignored reason=%s", error)
        return False
    if position.instance_id != record.instance_id or position.incarnation < record.incarnation:
        return False
    if position.incarnation > record.incarnation:  # the record went back, or was written by hand from older volumes
        return True
    for directory, mark in zip(storage.journal_dirs, position.journals, strict=False):
        if not await ends.reaches(world.disk, dirs.current(directory), JournalPosition(*mark)):
            return True
    for directory, (log_id, size_bytes) in zip(storage.ledger_dirs, position.logs, strict=False):
        if size_bytes and not await EntryLogs(world.disk, dirs.current(directory)).reaches(log_id, size_bytes):
            return True
    return False


class PositionKeeper:
    """Reports the position, as one task beside serving."""

    def __init__(
        self,
        store: EntryStore,
        metadata: MetadataStore,
        root: str,
        bookie_id: BookieId,
        record: IncarnationRecord,
        rounds: Rounds,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._path = paths.position(root, bookie_id)
        self._told = Position(record.instance_id, record.incarnation, ())
        self._told_ns = 0
        self._rounds = rounds

    async def run(self, clock: Clock) -> None:
        """Report the position whenever it is due, until cancelled."""
        while True:
            now_ns = clock.monotonic_ns()
            journals = tuple((mark.file_id, mark.offset) for mark in self._store.journaled)
            position = replace(self._told, journals=journals, logs=self._store.logged)
            if self._is_due(position, now_ns):
                try:
                    await self._tell(position)
                except errors.MetadataError as error:
                    if self._rounds.given_up(_JOB, error):
                        log.warning("position not told, tried again reason=%s", error)
                else:
                    self._rounds.came_to_end(_JOB)
                    self._told, self._told_ns = position, now_ns
            await clock.sleep_until(clock.monotonic_ns() + _LOOK_NS)

    def _is_due(self, position: Position, now_ns: int) -> bool:
        if _files(position) != _files(self._told):
            return True
        return position != self._told and now_ns - self._told_ns >= _RENEW_NS

    async def _tell(self, position: Position) -> None:
        """Report the position. Raises MetadataError: the write may have happened, and is repeated."""
        data = dump_position(position)
        try:
            stored = await self._metadata.get(self._path)
        except errors.NodeMissing:
            await self._metadata.create(self._path, data, parents=True)
        else:
            await self._metadata.put(self._path, data, stored.version)


def _files(position: Position) -> list[int]:
    return [file_id for file_id, _ in (*position.journals, *position.logs)]
