"""What the entry logs of one directory hold, and who in them is still alive. Given back to the loop between pieces.

Only logs that are never written again are looked at: the index knows everything of those. Never says "dead" of a ledger
whose deletion is not durable yet: after a crash that one would be back.
"""

from collections.abc import AsyncGenerator

from bookie.base import errors
from bookie.base.units import MIB
from bookie.storage.collect.plan import LogUsage
from bookie.storage.entrylog.logs import Place, in_pieces
from bookie.storage.partition import Partition
from bookie.storage.pause import pause

# Of one piece of live entries: what one read fetches, and what waits in memory for the throttle.
PIECE_BYTES = 1 * MIB


async def survey(partition: Partition) -> list[LogUsage]:
    """Every log that is never written again, ascending. Raises StorageFailed when one cannot be looked at."""
    found = []
    for log_id in sorted(log_id for log_id in partition.logs.ids if log_id < partition.first_open_log):
        live_bytes = ledgers = 0
        async for uses in partition.index.walk_use(log_id):
            for ledger_id, use in uses:
                if partition.table.may_be_here(ledger_id):
                    live_bytes += use.size
                    ledgers += 1
        try:
            total_bytes = await partition.logs.size_of(log_id) if ledgers else 0
        except errors.CorruptFile:
            total_bytes = live_bytes  # its head is damaged: nothing can be copied out of it
        found.append(LogUsage(log_id, total_bytes, live_bytes, ledgers))
        await pause()
    return found


async def live_places(partition: Partition, log_id: int) -> AsyncGenerator[list[Place], None]:
    """What the index has in that log, in pieces of about `PIECE_BYTES`, each ascending by offset.

    Close it when you leave early (`contextlib.aclosing`).
    """
    found: list[Place] = []
    size = 0
    async for uses in partition.index.walk_use(log_id):
        for ledger_id, use in uses:
            if not partition.table.may_be_here(ledger_id):
                continue
            async for rows in partition.index.walk_locations(ledger_id, use.first, use.last):
                for entry_id, location in rows:
                    if location.log_id == log_id:
                        found.append(Place(ledger_id, entry_id, location))
                        size += location.size
                if size >= PIECE_BYTES:
                    for piece in in_pieces(sorted(found, key=_offset), PIECE_BYTES):
                        yield piece
                    found, size = [], 0
    for piece in in_pieces(sorted(found, key=_offset), PIECE_BYTES):
        yield piece


def _offset(place: Place) -> int:
    return place.location.offset


async def drop(partition: Partition, log_id: int) -> None:
    """Remove a log that nothing points into.

    CRASH: its records of use go first; a log without them is one that nothing points into, and goes the next time.
    """
    partition.index.forget_use(log_id)
    await partition.logs.remove(log_id)
