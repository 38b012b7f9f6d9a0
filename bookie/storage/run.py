"""Entries of one ledger to be written to an entry log: the write cache makes them, the checkpoint writes them. Pure."""

from typing import NamedTuple

from bookie.base.ids import EntryId, LedgerId


class EntryRun(NamedTuple):
    """Entries of one ledger with ascending ids; the columns have one length."""

    ledger_id: LedgerId
    entry_ids: list[EntryId]
    bodies: list[bytes]
