"""Entries of one ledger on their way to an entry log: made by the write cache, written by the checkpoint. Pure."""

from typing import NamedTuple

from bookie.base.ids import EntryId, LedgerId


class EntryRun(NamedTuple):
    """Ascending ids; the columns have one length."""

    ledger_id: LedgerId
    entry_ids: list[EntryId]
    bodies: list[bytes]
