"""The group that is being gathered while the one before it is on its way to the disk. Pure.

Policy: a group is everything put since the last cut; the writer cuts as soon as the sync before has ended. So a lone
add waits for nothing, and under load the groups grow by themselves: no timer, no threshold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.storage.journal import format as journal_format

# Called once on the loop when the outcome is known; never inside the call that it was handed to.
Completion = Callable[[BookieError | None], None]


class JournalPosition(NamedTuple):
    """A place in one journal. As a mark: the state that carries it contains all records before it. (0, 0): none."""

    file_id: int
    offset: int


NOTHING = JournalPosition(0, 0)


@dataclass(slots=True, eq=False)
class Group:
    """Records that become durable by one sync. `start` is the offset of the first byte."""

    start: int
    size_bytes: int = 0
    count: int = 0
    buffers: list[bytes] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + self.size_bytes


class GroupPacker:
    """Packs records into the pending group. Owned by the journal's writer; `put` is the hot path."""

    __slots__ = ("_seed", "pending")

    def __init__(self, seed: int, start: int) -> None:
        self._seed = seed
        self.pending = Group(start)

    def put(self, kind: int, ledger_id: LedgerId, entry_id: EntryId, body: bytes, done: Completion | None) -> None:
        """Add one record; `body` must not change afterwards (it is bytes)."""
        group = self.pending
        buffers = group.buffers
        buffers.append(journal_format.pack_record(self._seed, group.start, kind, ledger_id, entry_id, body))
        buffers.append(body)
        group.size_bytes += journal_format.RECORD_HEAD_SIZE + len(body)
        group.count += 1
        if done is not None:
            group.completions.append(done)

    def put_run(
        self, ledger_id: LedgerId, entry_ids: Sequence[EntryId], bodies: Sequence[bytes], done: Completion
    ) -> None:
        """Add entries of one ledger as one record, with one head and one completion for all."""
        group = self.pending
        head, size = journal_format.pack_run(self._seed, group.start, ledger_id, entry_ids, bodies)
        group.buffers.append(head)
        group.buffers += bodies
        group.size_bytes += size
        group.count += 1
        group.completions.append(done)

    def put_mix(
        self, ledger_ids: Sequence[LedgerId], entry_ids: Sequence[EntryId], bodies: Sequence[bytes], done: Completion
    ) -> None:
        """Add entries, each of any ledger and as a record of its own, with one completion for all."""
        group = self.pending
        seed, group_start, buffers = self._seed, group.start, group.buffers
        size = 0
        for ledger_id, entry_id, body in zip(ledger_ids, entry_ids, bodies, strict=True):
            buffers.append(
                journal_format.pack_record(seed, group_start, journal_format.ENTRY, ledger_id, entry_id, body)
            )
            buffers.append(body)
            size += journal_format.RECORD_HEAD_SIZE + len(body)
        group.size_bytes += size
        group.count += len(bodies)
        group.completions.append(done)

    def pad(self) -> Group:
        """Pad the pending group to whole blocks, which `cut` needs; return it."""
        group = self.pending
        padding = journal_format.pack_padding(self._seed, group.start, group.size_bytes)
        if padding:
            group.buffers.append(padding)
            group.size_bytes += len(padding)
        return group

    def cut(self, next_seed: int | None = None) -> Group:
        """Take the pending group, padded.
        With `next_seed` the next group opens a new file, else it follows in this file."""
        group = self.pad()
        if next_seed is None:
            self.pending = Group(group.end)
        else:
            self._seed = next_seed
            self.pending = Group(journal_format.FIRST_GROUP)
        return group
