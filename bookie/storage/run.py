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


class Span(NamedTuple):
    """What a batch has of one ledger: its bytes, its first and its last entry (inclusive)."""

    ledger_id: LedgerId
    size_bytes: int
    first: EntryId
    last: EntryId


def spans(batch: EntryBatch, overhead_bytes: int) -> list[Span]:
    """Return what the batch has of each ledger, ascending; `overhead_bytes` are added for each entry."""
    found: list[Span] = []
    ledger_ids, entry_ids, bodies = batch
    start, size = 0, 0
    for place in range(len(bodies)):
        if ledger_ids[place] != ledger_ids[start]:
            found.append(Span(ledger_ids[start], size, entry_ids[start], entry_ids[place - 1]))
            start, size = place, 0
        size += len(bodies[place]) + overhead_bytes
    if bodies:
        found.append(Span(ledger_ids[start], size, entry_ids[start], entry_ids[-1]))
    return found
