"""Holds one generation of entries that are not yet in an entry log; sorts them when they are flushed. Pure.

A ledger directory has two: the active one takes adds, the other is being flushed; both serve reads. A generation is
dropped only after the checkpoint that covers it is durable (spec/storage.md#E3: never before, however often it failed).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from bookie.base.ids import EntryId, LedgerId
from bookie.storage.run import EntryBatch

# What a cached entry costs beside its bytes: bytes object, dict slot, int; measured roughly.
ENTRY_OVERHEAD_BYTES: Final = 160
# And what a ledger does: a dict of its own, its facts and key; many ledgers of one tiny entry are mostly that. With one
# entry of 100 B each, a ledger took 387 bytes besides, 177 of facts and key among them or not, of 560 that are counted.
LEDGER_OVERHEAD_BYTES: Final = 400
# Ledgers of less than this on average, five entries of 1 KiB, cost a checkpoint more than their entries do.
_SCATTERED_BYTES: Final = 16 * LEDGER_OVERHEAD_BYTES


@dataclass(slots=True, eq=False)
class CacheGeneration:
    """Holds entries by ledger and id, and counts their memory.

    `touches`: the ledgers that a journal names for the sake of this generation; False until that is durable. They are
    behind the mark of each earlier checkpoint, and go with this one: its mark moves past them.
    """

    ledgers: dict[LedgerId, dict[EntryId, bytes]] = field(default_factory=dict)
    size_bytes: int = 0
    touches: dict[LedgerId, bool] = field(default_factory=dict)

    def put(self, ledger_id: LedgerId, entry_id: EntryId, body: bytes) -> None:
        """Keep one entry; a second one of the same id replaces the first."""
        entries = self.ledgers.get(ledger_id)
        if entries is None:
            entries = self.ledgers[ledger_id] = {}
            self.size_bytes += LEDGER_OVERHEAD_BYTES
        entries[entry_id] = body
        self.size_bytes += len(body) + ENTRY_OVERHEAD_BYTES

    def put_run(
        self, ledger_id: LedgerId, entry_ids: Sequence[EntryId], bodies: Sequence[bytes], size_bytes: int
    ) -> None:
        """Keep entries of one ledger, whose bodies have `size_bytes` together."""
        entries = self.ledgers.get(ledger_id)
        if entries is None:
            entries = self.ledgers[ledger_id] = {}
            self.size_bytes += LEDGER_OVERHEAD_BYTES
        entries.update(zip(entry_ids, bodies, strict=True))
        self.size_bytes += size_bytes + len(bodies) * ENTRY_OVERHEAD_BYTES

    def get(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
        entries = self.ledgers.get(ledger_id)
        return entries.get(entry_id) if entries is not None else None

    @property
    def is_scattered(self) -> bool:
        """Return True while the ledgers hold little each: a checkpoint that waits for more of them is cheaper."""
        return len(self.ledgers) * _SCATTERED_BYTES > self.size_bytes

    def drop(self, ledger_id: LedgerId) -> None:
        """Forget a deleted ledger. Its memory counts until no ledger is left, or the generation goes."""
        self.ledgers.pop(ledger_id, None)
        if not self.ledgers:
            self.size_bytes = 0  # no checkpoint takes a generation that holds nothing

    def batches(self, size_bytes_max: int) -> Iterator[EntryBatch]:
        """Yield all entries sorted by (ledger, entry), in batches of about `size_bytes_max`. Meanwhile ledgers may
        leave the generation (`drop`), but no entry may be added."""
        batch = EntryBatch([], [], [])
        room = size_bytes_max
        for ledger_id in sorted(self.ledgers):
            entries = self.ledgers.get(ledger_id, {})
            entry_ids = sorted(entries)
            start = 0
            # Batch by batch: all of a ledger at once, a hundred thousand small entries, kept the loop for 20 ms.
            while start < len(entry_ids):
                start, room = _fill(batch, ledger_id, entries, entry_ids, start, room)
                if room <= 0:
                    yield batch
                    batch, room = EntryBatch([], [], []), size_bytes_max
        if batch.bodies:
            yield batch


def _fill(
    batch: EntryBatch,
    ledger_id: LedgerId,
    entries: dict[EntryId, bytes],
    entry_ids: list[EntryId],
    start: int,
    room: int,
) -> tuple[int, int]:
    """Add the ledger's entries from place `start` of `entry_ids` on until `room` bytes are used up or there are no
    more; return the place after the last one and the room that is left."""
    ledgers, ids, bodies = batch
    place = start
    while place < len(entry_ids) and room > 0:
        entry_id = entry_ids[place]
        body = entries[entry_id]
        ledgers.append(ledger_id)
        ids.append(entry_id)
        bodies.append(body)
        room -= len(body) + ENTRY_OVERHEAD_BYTES
        place += 1
    return place, room
