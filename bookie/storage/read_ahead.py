"""Reads entries of one directory's logs, and the entries after them when a client reads in order.

A checkpoint writes a ledger's entries one after the other, so one read of the disk fetches many. The index says which
bytes are theirs: what is kept is what a reader of each entry would have got, checked the same way.

Must never answer what the index does not say any more: a read that was under way when a checkpoint or a deletion moved
things (`ReadCache.epoch`) keeps nothing.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import Buffer
from bookie.storage.entrylog.logs import SPAN_GAP_BYTES, EntryLogs, EntryPlace, end_of, offset_of
from bookie.storage.index import Index
from bookie.storage.location import Location
from bookie.storage.read_cache import GAP_MAX, ReadCache, SequentialReaders
from bookie.storage.stats import StorageStats

# Entries of one read-ahead at most, however small they are (Java's dbStorage_readAheadCacheBatchSize is 100).
ENTRIES_MAX = 256
# One in four entries read singly, out of the page cache, is kept: what is asked for often gets in all the same, and of
# more entries than fit the others do not pay for what they push out (1 us of 8).
KEPT_MASK = 3


class Flight(NamedTuple):
    """A read-ahead that is under way, and the entries it brings (inclusive)."""

    first: EntryId
    last: EntryId
    landed: asyncio.Event


class DiskReadAhead:
    """Reads the logs of one partition. The caller has searched the caches and found the location in the index."""

    def __init__(
        self, index: Index, logs: EntryLogs, cache: ReadCache, stats: StorageStats, *, window_bytes_max: int
    ) -> None:
        self._index = index
        self._logs = logs
        self._cache = cache
        self._stats = stats
        self._window_bytes_max = window_bytes_max
        self._readers = SequentialReaders(window_bytes_max)
        self._flights: dict[LedgerId, Flight] = {}
        self._alone = 0  # reads of single entries out of the page cache

    def flight_with(self, ledger_id: LedgerId, entry_id: EntryId) -> asyncio.Event | None:
        """Return the event that a read under way sets when it has brought this entry; None when no read does."""
        flight = self._flights.get(ledger_id)
        return flight.landed if flight is not None and flight.first <= entry_id <= flight.last else None

    def read_nowait(self, place: EntryPlace) -> Buffer | None:
        """Return the entry's body, or None when the read would wait for the disk. Raises CorruptFile."""
        ledger_id, entry_id, location = place
        window_bytes = self._readers.window(ledger_id, entry_id)
        if not window_bytes:
            found = self._logs.read_nowait(location, ledger_id, entry_id)
            if found is None:
                return None
            self._readers.moved(ledger_id, entry_id, 0)
            self._keep_some(ledger_id, entry_id, found)
            return found
        places = self._places(place, window_bytes)
        bodies = self._logs.read_many_nowait(location.log_id, places)
        if bodies is None:
            return None
        self._readers.moved(ledger_id, places[-1].entry_id, window_bytes)
        self._keep(places, bodies)
        return self._asked_for(place, bodies[0])

    def read_run_nowait(self, ledger_id: LedgerId, wanted: Iterable[tuple[EntryId, Location]]) -> dict[EntryId, Buffer]:
        """Return the bodies of those `wanted` entries that the system's page cache has; the caller has searched our
        caches. An entry left out is on its way, needs the disk, or fails its check: `read_many` tells which. Raises
        StorageFailed."""
        found: dict[EntryId, Buffer] = {}
        flight = self._flights.get(ledger_id)
        expected, last = self._readers.expected(ledger_id), None
        has_read_ahead = False
        for entry_id, location in wanted:
            body: Buffer | None
            if has_read_ahead and (body := self._cache.get(ledger_id, entry_id)) is not None:
                found[entry_id] = body
                continue
            if flight is not None and flight.first <= entry_id <= flight.last:
                continue
            is_in_order = expected <= entry_id <= expected + GAP_MAX
            if is_in_order and last is not None:
                self._readers.moved(ledger_id, last, 0)
                last = None
            try:
                if is_in_order:
                    body = self.read_nowait(EntryPlace(ledger_id, entry_id, location))
                    expected = self._readers.expected(ledger_id)
                    has_read_ahead = True
                else:
                    body = self._logs.read_nowait(location, ledger_id, entry_id)
            except errors.CorruptFile:
                continue
            if body is None and is_in_order:
                break  # what follows is not there either; the disk brings all of it at once
            if body is None:
                continue
            found[entry_id] = body
            if not is_in_order:
                last, expected = entry_id, EntryId(entry_id + 1)
                self._keep_some(ledger_id, entry_id, body)
        if last is not None:
            self._readers.moved(ledger_id, last, 0)
        return found

    def _keep_some(self, ledger_id: LedgerId, entry_id: EntryId, body: Buffer) -> None:
        """Cache one in a few of the entries that are read alone (`KEPT_MASK`)."""
        self._alone += 1
        if not self._alone & KEPT_MASK:
            self._cache.put(ledger_id, entry_id, bytes(body))

    async def read(self, place: EntryPlace) -> Buffer:
        """Return the entry's body. Raises CorruptFile (also when the log was removed meanwhile), StorageFailed."""
        (body,) = await self.read_many([place])
        return self._asked_for(place, body)

    async def read_many(self, places: Sequence[EntryPlace]) -> list[bytes | None]:
        """Return the bodies of entries of one ledger, with one hop to the disk for each log; read ahead after those
        that are read in order. None for one that fails its check. Raises as `read`.
        """
        epoch = self._cache.epoch
        ledger_id = places[0].ledger_id
        planned, in_order = self._plan(places)
        flight = self._flights[ledger_id] = Flight(min(in_order), max(in_order), asyncio.Event())
        try:
            found = await self._fetch(planned.values())
            if self._cache.epoch == epoch:
                for entry_id, body in found.items():
                    self._cache.put(ledger_id, entry_id, body)
                self._stats.read_ahead_entries += max(0, len(planned) - len(places))
        finally:
            if self._flights.get(ledger_id) is flight:
                del self._flights[ledger_id]
            flight.landed.set()
        return [found.get(place.entry_id) for place in places]

    def _plan(self, places: Sequence[EntryPlace]) -> tuple[dict[EntryId, EntryPlace], list[EntryId]]:
        """Return what to read for `places`, by entry; and the entries that are read in order, at least the first."""
        planned: dict[EntryId, EntryPlace] = {}
        in_order: list[EntryId] = []
        room_bytes = self._window_bytes_max  # of all windows together
        for place in places:
            ledger_id, entry_id, _ = place
            if entry_id in planned:
                continue
            window_bytes = min(self._readers.window(ledger_id, entry_id), room_bytes)
            if not window_bytes:
                planned[entry_id] = place
                self._readers.moved(ledger_id, entry_id, 0)
                continue
            following = self._places(place, window_bytes)
            planned.update({each.entry_id: each for each in following})
            in_order += [each.entry_id for each in following]
            room_bytes -= min(room_bytes, end_of(following[-1].location) - place.location.offset)
            self._readers.moved(ledger_id, following[-1].entry_id, window_bytes)
        return planned, in_order or [places[0].entry_id]

    async def _fetch(self, places: Iterable[EntryPlace]) -> dict[EntryId, bytes]:
        """Return the bodies of the records at `places` that pass their check."""
        by_log: dict[int, list[EntryPlace]] = {}
        for place in places:
            by_log.setdefault(place.location.log_id, []).append(place)
        for each in by_log.values():
            each.sort(key=offset_of)
        fetched = await asyncio.gather(*(self._logs.read_many(log_id, each) for log_id, each in by_log.items()))
        return {
            place.entry_id: body
            for each, bodies in zip(by_log.values(), fetched, strict=True)
            for place, body in zip(each, bodies, strict=True)
            if body is not None
        }

    def _asked_for(self, place: EntryPlace, body: Buffer | None) -> Buffer:
        if body is None:
            raise errors.CorruptFile(self._logs.complaint(place))
        return body

    def _keep(self, places: list[EntryPlace], bodies: list[bytes | None]) -> None:
        for (ledger_id, entry_id, _), body in zip(places, bodies, strict=True):
            if body is not None:
                self._cache.put(ledger_id, entry_id, body)
        self._stats.read_ahead_entries += len(places) - 1

    def _places(self, place: EntryPlace, window_bytes: int) -> list[EntryPlace]:
        """Return `place` and those after it in its ledger and its log, as far as one read of `window_bytes` reaches."""
        ledger_id, entry_id, location = place
        places = [place]
        end, end_max = end_of(location), location.offset + window_bytes
        for next_id, following in self._index.locations(ledger_id, EntryId(entry_id + 1)):
            if not self._follows(location, following, end, end_max) or len(places) >= ENTRIES_MAX:
                break
            places.append(EntryPlace(ledger_id, next_id, following))
            end = end_of(following)
        return places

    def _follows(self, location: Location, following: Location, end: int, end_max: int) -> bool:
        return (
            following.log_id == location.log_id
            and end <= following.offset <= end + SPAN_GAP_BYTES
            and end_of(following) <= end_max
        )
