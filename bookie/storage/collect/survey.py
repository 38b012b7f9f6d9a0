"""Finds what the entry logs of one directory hold, and which of their ledgers still exist. Lets other tasks run in
between.

Only logs that are never written again are looked at: the index knows everything of those. Never says "dead" of a ledger
whose deletion is not durable yet: after a crash that one would be back.
"""

import contextlib
import logging
from collections.abc import AsyncGenerator, Container

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.base.units import MIB
from bookie.storage.collect.plan import LogUsage
from bookie.storage.entrylog.logs import EntryPlace, in_pieces, offset_of
from bookie.storage.log_use import Use
from bookie.storage.partition import Partition
from bookie.storage.pause import pause

log = logging.getLogger(__name__)

# Of one piece of live entries: what one read fetches, and what waits in memory for the throttle.
PIECE_BYTES = 1 * MIB


async def survey(partition: Partition) -> list[LogUsage]:
    """Return every log that is no longer written, ascending. A log that cannot be examined counts as wholly live, so
    that it is kept."""
    found = []
    for log_id in sorted(log_id for log_id in partition.logs.ids if log_id < partition.first_open_log):
        try:
            found.append(await _usage(partition, log_id))
        except errors.StorageFailed as error:
            if error.fatal:
                raise
            log.warning("entry log kept, it cannot be looked at log_id=%d reason=%s", log_id, error)
            found.append(LogUsage(log_id, 1, 1, 1))
        await pause()
    return found


async def _usage(partition: Partition, log_id: int) -> LogUsage:
    live_bytes = ledgers = 0
    async for uses in partition.index.walk_use(log_id):
        for ledger_id, use in uses:
            if partition.table.may_be_here(ledger_id):
                size_bytes = await _live_bytes(partition, log_id, ledger_id, use)
                if size_bytes is not None:
                    live_bytes += size_bytes
                    ledgers += 1
    try:
        total_bytes = await partition.logs.size_of(log_id) if ledgers else 0
    except errors.CorruptFile:
        total_bytes = live_bytes  # its head is damaged: nothing can be copied out of it
    return LogUsage(log_id, total_bytes, live_bytes, ledgers)


async def _live_bytes(partition: Partition, log_id: int, ledger_id: LedgerId, use: Use) -> int | None:
    """Return the bytes of a ledger in the log. Of one whose entries were given up only what the index locates there
    counts; None when that is nothing."""
    if not partition.table.is_given_up(ledger_id) or ledger_id in partition.table.quarantined:
        return use.size
    found = 0
    async for rows in partition.index.walk_locations(ledger_id, use.first, use.last):
        found += sum(location.size for _, location in rows if location.log_id == log_id)
    # CRASH: asked afterwards, since the deletion may have begun meanwhile: until it is durable the entries may be back.
    return (found or None) if partition.table.is_in_index(ledger_id) else use.size


async def sizes(partition: Partition, chosen: Container[LedgerId]) -> tuple[int, int]:
    """Return the bytes in logs of ledgers that still exist: of all, and of the chosen ones. Entries not yet flushed are
    in no log; a log that cannot be examined counts as 0."""
    total_bytes = chosen_bytes = 0
    for log_id in sorted(partition.logs.ids):
        with contextlib.suppress(errors.CorruptFile):
            async for uses in partition.index.walk_use(log_id):
                for ledger_id, use in uses:
                    if partition.table.may_be_here(ledger_id):
                        total_bytes += use.size
                        chosen_bytes += use.size if ledger_id in chosen else 0
    return total_bytes, chosen_bytes


async def holds_quarantined(partition: Partition, log_id: int) -> bool:
    """Return True when the log holds entries of a quarantined ledger, whose rows in the index may be incomplete."""
    async for uses in partition.index.walk_use(log_id):
        if any(ledger_id in partition.table.quarantined for ledger_id, _ in uses):
            return True
    return False


async def live_places(partition: Partition, log_id: int) -> AsyncGenerator[list[EntryPlace], None]:
    """Yield the entries that the index locates in that log, in pieces of about `PIECE_BYTES`, each ascending by offset.

    Close it when you leave early (`contextlib.aclosing`).
    """
    found: list[EntryPlace] = []
    size = 0
    async for uses in partition.index.walk_use(log_id):
        for ledger_id, use in uses:
            if not partition.table.may_be_here(ledger_id):
                continue
            async for rows in partition.index.walk_locations(ledger_id, use.first, use.last):
                for entry_id, location in rows:
                    if location.log_id == log_id:
                        found.append(EntryPlace(ledger_id, entry_id, location))
                        size += location.size
                if size >= PIECE_BYTES:
                    for piece in in_pieces(sorted(found, key=offset_of), PIECE_BYTES):
                        yield piece
                    found, size = [], 0
    for piece in in_pieces(sorted(found, key=offset_of), PIECE_BYTES):
        yield piece


async def drop(partition: Partition, log_id: int) -> None:
    """Remove a log that no index row names.

    CRASH: its records of use go first; a log without them is one that nothing points into, and goes the next time.
    """
    partition.index.forget_use(log_id)
    await partition.logs.remove(log_id)
