"""Telling the metadata store how far the journals reached, and asking at the next boot whether they still do.

    sync of a group ──► position, at most once a second ──► the next boot compares

A position is a lower bound: written after the syncs it tells of, so disks that never went back are never behind it,
however late it is, and whatever was lost on the way. Must never: hold up an add, fail one, or end a bookie because the
metadata store is away; then the last position stands, and says less.
"""

import logging

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_S
from bookie.metadata import paths
from bookie.metadata.cookie import IncarnationRecord
from bookie.metadata.position import Position, dump_position, load_position
from bookie.ports import World
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import MetadataStore, Stored
from bookie.storage import dirs
from bookie.storage.journal import ends
from bookie.storage.journal.batch import JournalPosition
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

_LOOK_NS = NS_PER_S
# Within one journal file this often: what was synced since is what a set-back can hide.
_RENEW_NS = 10 * NS_PER_S


async def is_behind(
    world: World, storage: StorageOptions, stored: Stored | None, record: IncarnationRecord | None
) -> bool:
    """True when a journal holds less than this incarnation told. One that cannot be read tells nothing."""
    if stored is None or record is None:
        return False
    try:
        position = load_position(stored.data)
    except errors.BadInput as error:
        log.warning("the stored journal position cannot be read and is ignored reason=%s", error)
        return False
    if (position.instance_id, position.incarnation) != (record.instance_id, record.incarnation):
        return False
    for directory, mark in zip(storage.journal_dirs, position.journals, strict=False):
        if not await ends.reaches(world.disk, dirs.current(directory), JournalPosition(*mark)):
            return True
    return False


class PositionKeeper:
    """Tells the position, as one task beside serving."""

    def __init__(
        self, store: EntryStore, metadata: MetadataStore, root: str, bookie_id: BookieId, record: IncarnationRecord
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._path = paths.position(root, bookie_id)
        self._record = record
        self._told: tuple[JournalPosition, ...] = ()
        self._told_ns = 0

    async def run(self, clock: Clock) -> None:
        """Tell the position whenever it is due, until cancelled."""
        while True:
            now_ns = clock.monotonic_ns()
            marks = self._store.journaled
            if self._is_due(marks, now_ns):
                try:
                    await self._tell(marks)
                except errors.MetadataError as error:
                    log.debug("position not told reason=%s", error)
                else:
                    self._told, self._told_ns = marks, now_ns
            await clock.sleep_until(clock.monotonic_ns() + _LOOK_NS)

    def _is_due(self, marks: tuple[JournalPosition, ...], now_ns: int) -> bool:
        if [mark.file_id for mark in marks] != [mark.file_id for mark in self._told]:
            return True
        return marks != self._told and now_ns - self._told_ns >= _RENEW_NS

    async def _tell(self, marks: tuple[JournalPosition, ...]) -> None:
        """Raises MetadataError; then it may be told or not, and is told again."""
        journals = tuple((mark.file_id, mark.offset) for mark in marks)
        data = dump_position(Position(self._record.instance_id, self._record.incarnation, journals))
        try:
            stored = await self._metadata.get(self._path)
        except errors.NodeMissing:
            await self._metadata.create(self._path, data, parents=True)
        else:
            await self._metadata.put(self._path, data, stored.version)
