"""Scrubs in the background: reads and checks every entry's bytes, at a bounded rate, over and over.

Rot is silent until somebody reads, and by then the other copies may be gone too. What is found is noted
(`bad_entries`) and nothing else: the entry answers an I/O error as before, which no quorum takes for a "no", and the
fill gets it back from other bookies. Must never repair, mark or delete anything.

Where it is stands in the index (`scrub`), so that a restart does not begin anew; so does how much of the rest between
two passes is over (`scrub-rest`), or a bookie that starts again each week would never scrub. Both are hints, and not
waited for.
"""

import asyncio
import contextlib
import itertools
import logging
import struct
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.base.throttle import Throttle
from bookie.base.units import KIB
from bookie.ports.admin import ScrubReport
from bookie.ports.clock import Clock
from bookie.ports.time_limit import TimeLimit
from bookie.storage.bad_entries import BadEntries
from bookie.storage.entrylog.logs import EntryPlace, in_pieces
from bookie.storage.partition import Partition
from bookie.storage.scrub_options import ScrubOptions
from bookie.storage.stats import StorageStats

log = logging.getLogger(__name__)

_NAME = "scrub"
_POSITION = struct.Struct(">qq")
_REST_NAME = "scrub-rest"
_RESTED = struct.Struct(">Q")  # milliseconds
_REST_PIECES = 168  # an hour of a week: so much of a rest is forgotten at a restart
_BEGIN = LedgerId(0), EntryId(0)
_DONE = LedgerId(LEDGER_ID_MAX), EntryId(0)  # this directory, in a pass that goes on in others
# Read, checked and waited for together.
PIECE_BYTES = 512 * KIB


@dataclass(slots=True)
class _Pass:
    """The state of one pass over all entries."""

    entries: int = 0
    bytes: int = 0


class Scrubber:
    """Checks all entries, again and again. One task runs it (`run`); anybody may call `request` and `report`."""

    def __init__(
        self,
        partitions: Iterable[Partition],
        bad: BadEntries,
        stats: StorageStats,
        options: ScrubOptions,
        clock: Clock,
    ) -> None:
        self._partitions = tuple(partitions)
        self._bad = bad
        self._stats = stats
        self._options = options
        self._clock = clock
        self._bytes = Throttle(options.bytes_per_s)
        self._entries = Throttle(options.entries_per_s)
        self._asked = asyncio.Event()
        self._is_running = False
        self._at = _BEGIN
        self._rested_ms = _load_rested(self._partitions[0])  # since the last pass, in all lives
        self._pass = _Pass()
        self._given_up = ""  # why the last pass did not look at all; "" when it did

    def set_bytes_per_s(self, rate: int | None) -> None:
        """Check so many bytes a second from now on; None: no limit."""
        self._bytes.set_rate(rate)

    def set_entries_per_s(self, rate: int | None) -> None:
        self._entries.set_rate(rate)

    def request(self) -> None:
        """Ask for a whole pass from the beginning, now; a pass under way begins again."""
        for partition in self._partitions:
            _save(partition, *_BEGIN)
        self._asked.set()

    def report(self) -> ScrubReport:
        """Report what is known. Lists the known bad entries, except those that are good again."""
        return ScrubReport(
            is_running=self._is_running,
            passes_done=self._stats.scrub_passes,
            entries_checked=self._pass.entries,
            bytes_checked=self._pass.bytes,
            ledger_id=self._at[0],
            entry_id=self._at[1],
            bad_count=len(self._bad),
            bad=self._bad.listed(),
            given_up=self._given_up,
        )

    async def run(self) -> None:
        """Scrub until cancelled: a pass, then a rest for the interval; without an interval, only requested passes.

        Raises DiskFailed.
        """
        is_asked = self._options.interval_ms > 0 and any(_load(partition) for partition in self._partitions)
        while True:
            if not is_asked:
                await self._rest()
            self._asked.clear()
            is_asked = not await self._whole_pass()

    async def _rest(self) -> None:
        """Wait until a pass is due or requested: as long as this process and those before it have not rested yet."""
        interval_ms = self._options.interval_ms
        if not interval_ms:
            await self._asked.wait()
        while self._rested_ms < interval_ms and not self._asked.is_set():
            piece_ms = min(max(1, interval_ms // _REST_PIECES), interval_ms - self._rested_ms)
            with contextlib.suppress(TimeoutError):
                async with TimeLimit(piece_ms / 1000):
                    await self._asked.wait()
            self._has_rested(self._rested_ms + piece_ms)
        self._has_rested(0)

    def _has_rested(self, rested_ms: int) -> None:
        self._rested_ms = rested_ms
        self._partitions[0].keep_hint(_REST_NAME, _RESTED.pack(rested_ms))

    async def _whole_pass(self) -> bool:
        """Do one pass, from the saved position. Return False when a request makes it begin again."""
        self._is_running, self._pass, given_up = True, _Pass(), ""
        try:
            for partition in self._partitions:
                try:
                    if not await self._directory(partition):
                        return False
                except BookieError as error:
                    if error.fatal:
                        raise
                    given_up = given_up or f"{partition.logs.directory}: {error}"
                    log.warning("scrub of a directory given up until the next pass reason=%s", given_up)
            for partition in self._partitions:
                _save(partition, *_BEGIN)
        finally:
            self._is_running = False
        self._bad.forget_gone()
        self._given_up, self._stats.scrub_given_up = given_up, int(bool(given_up))
        if not given_up:
            self._stats.scrub_passes += 1
        log.info("scrubbed entries=%d bytes=%d bad=%d", self._pass.entries, self._pass.bytes, len(self._bad))
        return True

    async def _directory(self, partition: Partition) -> bool:
        """Check what the pass has not checked yet of one directory. Return False when a request makes it begin again.
        Raises StorageFailed where the index cannot be walked, and OutOfResources."""
        async with contextlib.aclosing(_pieces(partition)) as pieces:
            async for piece in pieces:
                if self._asked.is_set():
                    return False
                await self._wait_for_turn(piece)
                await self._check(partition, piece)
                self._at = piece[-1].ledger_id, piece[-1].entry_id
                _save(partition, self._at[0], EntryId(min(self._at[1] + 1, LEDGER_ID_MAX)))
        _save(partition, *_DONE)
        return True

    async def _wait_for_turn(self, piece: list[EntryPlace]) -> None:
        now_ns, size = self._clock.monotonic_ns(), sum(place.location.size for place in piece)
        await self._clock.sleep_until(max(self._bytes.take(size, now_ns), self._entries.take(len(piece), now_ns)))

    async def _check(self, partition: Partition, piece: list[EntryPlace]) -> None:
        """Check a piece, log by log, with few reads; check a bad entry once more by itself."""
        piece.sort(key=lambda place: place.location)
        for log_id, group in itertools.groupby(piece, key=lambda place: place.location.log_id):
            places = list(group)
            try:
                bodies = await partition.logs.read_many(log_id, places)
            except errors.OutOfResources:
                raise  # says nothing about any entry
            except errors.StorageFailed:  # the log is gone, or somewhere in it the disk cannot read
                bodies = [None] * len(places)
            for place, body in zip(places, bodies, strict=True):
                if body is None:
                    await self._look_again(partition, place)
                else:
                    self._bad.read_well(place.ledger_id, place.entry_id)
            self._pass.entries += len(places)
            self._stats.scrub_entries += len(places)
            size = sum(place.location.size for place in places)
            self._pass.bytes += size
            self._stats.scrub_bytes += size

    async def _look_again(self, partition: Partition, place: EntryPlace) -> None:
        try:
            await partition.logs.read(place.location, place.ledger_id, place.entry_id)
        except errors.OutOfResources:
            raise
        except errors.StorageFailed as error:
            self._bad.add(partition, place, error)


async def _pieces(partition: Partition) -> AsyncGenerator[list[EntryPlace], None]:
    """Yield all indexed entries from the saved position on, in slices of one ledger."""
    first_ledger, first_entry = _load(partition) or _BEGIN
    async for ledger_ids in partition.index.walk_ledgers(first_ledger):
        for ledger_id in ledger_ids:
            first = first_entry if ledger_id == first_ledger else EntryId(0)
            async for rows in partition.index.walk_locations(ledger_id, first):
                for piece in in_pieces([EntryPlace(ledger_id, *row) for row in rows], PIECE_BYTES):
                    yield piece


def _load(partition: Partition) -> tuple[LedgerId, EntryId] | None:
    """Load the position where the last pass stopped; None when it was complete, or there was none."""
    found = _stored(partition, _NAME, _POSITION)
    return None if found in (None, _BEGIN) else (LedgerId(found[0]), EntryId(found[1]))


def _load_rested(partition: Partition) -> int:
    (rested_ms,) = _stored(partition, _REST_NAME, _RESTED) or (0,)
    return rested_ms


def _stored(partition: Partition, name: str, layout: struct.Struct) -> tuple[int, ...] | None:
    """Return the numbers that an earlier pass kept under `name`; None, then the work begins anew, when there are none,
    or they cannot be read or make no sense."""
    data = partition.kept_hint(name)
    return layout.unpack(data) if data is not None and len(data) == layout.size else None


def _save(partition: Partition, ledger_id: LedgerId, entry_id: EntryId) -> None:
    partition.keep_hint(_NAME, _POSITION.pack(ledger_id, entry_id))
