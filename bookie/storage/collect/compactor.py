"""Runs compaction: copies the live entries of a log into the current log, then drops the old one.

The copies take the way that copied entries take: write cache, entry log, sync, index, flush. So there is one order of
durability, and one place that argues it (`checkpoint`). Only then is the old log removed.

CRASH, at any point: until the flush has returned the durable index points into the old log, which is untouched; after
it nothing does. Copies that no index row reached are bytes that nothing points at. A fence, a limbo mark, a key is a
fact of a ledger and not of its entries: compaction sees none and changes none.

Must never: copy over an entry that was written anew meanwhile; bring back a ledger that was deleted meanwhile; drop a
log of which one live entry could not be read (its error must stay an error, and other bookies have copies).
"""

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.throttle import Throttle
from bookie.base.units import NS_PER_MS
from bookie.ports.clock import Clock
from bookie.ports.disk import Buffer
from bookie.storage.collect import plan, survey
from bookie.storage.collect.plan import Kind, LogUsage
from bookie.storage.collect_options import CompactionOptions
from bookie.storage.entrylog.logs import EntryPlace
from bookie.storage.partition import Partition
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

# Errors of the disks or the node, not of one log.
_ENDS_A_RUN = (errors.DiskFull, errors.OutOfResources, errors.PartitionFailed)


@dataclass(slots=True)
class Compacted:
    """What one run did. `refused`: why a ledger directory was skipped, "" when none was."""

    logs: int = 0
    entries: int = 0
    bytes: int = 0
    bytes_freed: int = 0
    logs_damaged: int = 0
    refused: str = ""


class Compactor:
    """Copies live entries out of logs. One task at a time uses it (`server.collection`): `run` on schedule, `compact`
    when a person asks."""

    def __init__(self, store: EntryStore, options: CompactionOptions, clock: Clock) -> None:
        self._store = store
        self._options = options
        self._clock = clock
        self._bytes = Throttle(options.bytes_per_s)
        self._entries = Throttle(options.entries_per_s)
        now_ns = clock.monotonic_ns()
        self._last_ns = {Kind.MINOR: now_ns, Kind.MAJOR: now_ns}

    async def run(self) -> Compacted | None:
        """Compact when a run is due; return None when none is. Raises as `compact`."""
        kind = plan.due(self._last_ns, self._clock.monotonic_ns(), self._options)
        return None if kind is None else await self.compact(kind)

    async def compact(self, kind: Kind, *, is_forced: bool = False) -> Compacted:
        """Compact all ledger directories once. Raises DiskFull (the remaining logs stay as they are), OutOfResources,
        and errors that stop the node."""
        now_ns = self._clock.monotonic_ns()
        self._last_ns[Kind.MINOR] = now_ns
        if kind is Kind.MAJOR:
            self._last_ns[Kind.MAJOR] = now_ns
        rule = plan.rule_of(kind, self._options)
        until_ns = now_ns + rule.time_max_ms * NS_PER_MS if rule.time_max_ms is not None else None
        done = Compacted()
        if self._store.failed_dirs:
            # A flush fails because of that one: it would not tell whether copies in the healthy ones are durable.
            done.refused = "a ledger directory has failed: nothing is rewritten until a restart"
            return done
        for partition in self._store.partitions:
            disk = self._store.health.disk_usage(partition.number)
            warn, full = self._store.options.disk_used_warn, self._store.options.disk_used_max
            refusal = plan.refusal(kind, disk, warn=warn, full=full, is_forced=is_forced, options=self._options)
            if refusal:
                done.refused = done.refused or refusal  # of the first directory; the others are compacted
                continue
            for usage in plan.candidates(await survey.survey(partition), rule.threshold):
                if until_ns is not None and self._clock.monotonic_ns() >= until_ns:
                    return done
                if plan.fits(usage, self._store.health.disk_usage(partition.number), full=full):
                    await self._compact_or_keep(partition, usage, done)
        return done

    async def _compact_or_keep(self, partition: Partition, usage: LogUsage, done: Compacted) -> None:
        """Compact one log. A log that cannot be read is kept, and the run goes on with the others."""
        try:
            await self._compact_log(partition, usage, done)
        except errors.StorageFailed as error:
            if error.fatal or isinstance(error, _ENDS_A_RUN):
                raise
            done.logs_damaged += 1
            log.warning("entry log kept log_id=%d reason=%s", usage.log_id, error)

    async def _compact_log(self, partition: Partition, usage: LogUsage, done: Compacted) -> None:
        log_id, is_whole = usage.log_id, True
        async with contextlib.aclosing(survey.live_places(partition, log_id)) as pieces:
            async for piece in pieces:
                await self._wait_for_turn(partition, piece)
                bodies = await _read(partition, log_id, piece)
                copied, size, is_readable = keep_copies(partition, piece, bodies)
                is_whole &= is_readable
                done.entries += copied
                done.bytes += size
                self._store.stats.entries_compacted += copied
                self._store.stats.compacted_bytes += size
        # Also when the log is kept: what could be copied is then no longer in a log that has bad spots.
        await self._store.flush()
        if partition.table.quarantined and await survey.holds_quarantined(partition, log_id):
            is_whole = False
        if not is_whole:
            done.logs_damaged += 1
            log.warning(
                "entry log kept, it holds entries that do not check, or more than the index knows log_id=%d", log_id
            )
            return
        await survey.drop(partition, log_id)
        done.logs += 1
        done.bytes_freed += usage.total_bytes
        self._store.stats.logs_compacted += 1

    async def _wait_for_turn(self, partition: Partition, piece: Sequence[EntryPlace]) -> None:
        """Wait as long as the configured rate demands, and while the write cache has no room to spare for copies."""
        now_ns = self._clock.monotonic_ns()
        size = sum(place.location.size for place in piece)
        await self._clock.sleep_until(max(self._bytes.take(size, now_ns), self._entries.take(len(piece), now_ns)))
        await self._store.room()
        if partition.active.size_bytes * 2 > self._store.options.write_cache_bytes_max:
            await self._store.flush()


async def _read(partition: Partition, log_id: int, piece: Sequence[EntryPlace]) -> Sequence[Buffer | None]:
    """Return the bodies at `piece`; None for each that the disk cannot read or that fails its check."""
    try:
        return await partition.logs.read_many(log_id, piece)
    except errors.OutOfResources:
        raise
    except errors.StorageFailed as error:
        if error.fatal or len(piece) == 1:
            return [None] * len(piece)
        return [body for place in piece for body in await _read(partition, log_id, [place])]


def keep_copies(
    partition: Partition, piece: Sequence[EntryPlace], bodies: Sequence[Buffer | None]
) -> tuple[int, int, bool]:
    """Put those entries into the write cache whose location has not changed since the read; return (entries, bytes,
    whether all were readable).

    One step that nothing can interrupt: a newer entry, here or in the index, is never replaced by the one read before.
    """
    copied = size = 0
    is_readable = True
    for place, body in zip(piece, bodies, strict=True):
        if not partition.is_current(place):
            continue
        if body is None:
            is_readable = False
            continue
        partition.active.put(place.ledger_id, place.entry_id, bytes(body))
        copied += 1
        size += len(body)
    return copied, size, is_readable
