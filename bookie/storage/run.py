"""Entries to be written to an entry log: the write cache makes them, the checkpoint writes them. Pure.

In columns, not a record for each ledger: with ten thousand ledgers of three entries each, six containers a ledger cost
more than the entries, and the garbage collector looked at all of them (docs/SPEED.md).
"""

from typing import NamedTuple

from bookie.base.ids import EntryId, LedgerId


class EntryBatch(NamedTuple):
    """Entries of any ledgers, ascending by ledger and id; the columns have one length."""

    ledger_ids: list[LedgerId]
    entry_ids: list[EntryId]
    bodies: list[bytes]


class Placed(NamedTuple):
    """Entries of any ledgers, ascending by ledger and id, and their packed locations: columns of one length."""

    ledger_ids: list[LedgerId]
    entry_ids: list[EntryId]
    locations: list[bytes]


def part(placed: Placed, start: int, end: int) -> Placed:
    """Return what is between two places; `placed` itself where that is all of it."""
    ledger_ids, entry_ids, locations = placed
    if start == 0 and end == len(entry_ids):
        return placed
    return Placed(ledger_ids[start:end], entry_ids[start:end], locations[start:end])


# What was written of one ledger: the bytes, and a range (inclusive) that contains the entries. A plain tuple: there is
# one for each ledger in the log being written, and the garbage collector never lets go of a named one.
Held = tuple[int, EntryId, EntryId]


def count_use(batch: EntryBatch, overhead_bytes: int, known: dict[LedgerId, Held], fresh: dict[LedgerId, Held]) -> None:
    """Put into `fresh` what a log holds of the batch's ledgers: what `fresh`, else `known`, says of it, and the batch.

    `overhead_bytes` are added for each entry. Of other ledgers nothing changes; of `known` nothing at all.
    """
    ledger_ids, entry_ids, bodies = batch
    start, count = 0, len(bodies)
    while start < count:
        ledger_id = ledger_ids[start]
        size, end = 0, start
        while end < count and ledger_ids[end] == ledger_id:
            size += len(bodies[end]) + overhead_bytes
            end += 1
        first, last = entry_ids[start], entry_ids[end - 1]
        held = fresh.get(ledger_id)
        if held is None:
            held = known.get(ledger_id)
        if held is not None:
            size += held[0]
            first, last = min(first, held[1]), max(last, held[2])
        fresh[ledger_id] = (size, first, last)
        start = end
