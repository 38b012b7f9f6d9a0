"""Driver of garbage collection: forget ledgers that are proven gone, then drop entry logs that held only such.

Must never delete on a doubt: a ledger in limbo, a store that is not proven yet, a metadata store that does not answer.
A ledger directory that takes no writes any more is left as it is, to the restart; the others are collected beside it.
"""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.storage.collect import plan, survey
from bookie.storage.partition import Partition
from bookie.storage.store import EntryStore

# Answers True only when the metadata store has confirmed that the ledger does not exist. Raises when it cannot tell.
IsAbsent = Callable[[LedgerId], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Collected:
    """What one run did."""

    ledgers_seen: int
    ledgers_deleted: int
    logs_dropped: int


async def collect(store: EntryStore, is_absent: IsAbsent) -> Collected:
    """One run over every ledger in directories that take writes. Raises what `is_absent` raises, before anything more
    is deleted.

    CRASH: logs are dropped only after the flush that made their ledgers' deletion durable; before it, the ledgers are
    back after a restart and the next run finds them again.
    """
    seen = deleted = 0
    async with contextlib.aclosing(_ledgers(store)) as ledgers:
        async for ledger_id in ledgers:
            facts = store.facts(ledger_id)
            if facts is None or facts.is_limbo or store.is_doubtful:
                continue
            seen += 1
            if await is_absent(ledger_id):
                store.delete_ledger(ledger_id)
                deleted += 1
    try:
        await store.flush()
    except errors.PartitionFailed:
        # The others' checkpoints went on (`Checkpointer.checkpoint_all`). If one of those had no space, its deletions
        # may not be durable: the survey takes such ledgers for alive.
        return Collected(seen, deleted, await drop_dead_logs(store))
    except errors.DiskFull:
        # Deletions are durable all the same where the index had space (`checkpoint`): what they leave dead makes room.
        dropped = await drop_dead_logs(store)
        if not dropped:
            raise
        await store.flush()
        return Collected(seen, deleted, dropped)
    return Collected(seen, deleted, await drop_dead_logs(store))


async def _ledgers(store: EntryStore) -> AsyncGenerator[LedgerId, None]:
    for partition in _that_take_writes(store):
        async with contextlib.aclosing(partition.table.walk()) as found:
            async for ledger_id in found:
                yield ledger_id


def _that_take_writes(store: EntryStore) -> list[Partition]:
    return [partition for partition in store.partitions if partition.failure is None]


async def drop_dead_logs(store: EntryStore) -> int:
    """Remove entry logs that hold nothing of a ledger that is here; how many."""
    dropped = 0
    for partition in _that_take_writes(store):
        for log_id in plan.dead(await survey.survey(partition)):
            await survey.drop(partition, log_id)
            dropped += 1
    return dropped
