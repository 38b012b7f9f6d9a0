"""Fills holes in place: fetches what this bookie should hold and does not, because it was away when it was written.

An entry is acknowledged by AQ of its WQ bookies. One that is silent for some seconds (a restart, a cut network) lacks
what was written meanwhile, for good: nobody lost anything, so no mark says so, and its writer has gone on. While the
hole is there, a loss or a stop of other bookies costs more than the write quorum promises (spec/bp46.md#R24 to R28).

A run looks at every ledger whose metadata names us, after a sync, and compares the list of what is here with our share
of the write sets: ranges, never entry by entry. A ledger that lacks something is read again before anything is fetched.
The copies are phase two's (`copier`): from any replica, digest and ids verified, durable after a flush, then counted.

Up to where. A sealed segment is ours to its end; of a segment without an end, what the LAC confirms. What lies behind
is undecided: a copy of it, made after we denied it to a recovery, would be a second answer to one question. Of an open
ledger the LAC is read first and its metadata afterwards: a writer changes the metadata before it confirms an entry to
the changed ensemble, so the later record knows the bookies of every entry up to the earlier LAC.

Never (spec/bp46.md#R26): a fence, a recovery, a change of metadata, a deletion, a mark cleared; nor a ledger in limbo,
which is phase two's. A run ends by itself (spec/bp46.md#R28): what cannot be filled is tried `_LOOKS_MAX` times, then
it is listed with its reason.
"""

import logging

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, BootEpoch, EntryId, LedgerId
from bookie.base.throttle import Throttle
from bookie.base.units import MIB, NS_PER_MS
from bookie.integrity import ledgers as rules
from bookie.integrity.copier import EntriesUnavailable
from bookie.integrity.fill_progress import FillProgress
from bookie.integrity.means import LEDGERS_AT_ONCE, RepairMeans
from bookie.integrity.scan import Scanned, scan
from bookie.integrity.together import together
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum.shares import Stretch

log = logging.getLogger(__name__)

# Looks in one run at a ledger that is blocked, or that is still written. The pause before each look after the first,
# doubled: 15 s in all. The first pause is longer than an idle writer takes to tell its LAC (`explicit_lac_ms`).
_LOOKS_MAX = 5
_PAUSE_MS = 1_000
# A flush is a checkpoint of the whole bookie: so much is copied between two of them.
_FLUSH_ENTRIES = 65_536
_FLUSH_BYTES = 32 * MIB


_IN_DOUBT = "this bookie may have lost entries of it: its repair (phase two) comes first; see `bookie integrity status`"


class HoleFiller:
    """One run over all ledgers. `run` returns when each was looked at; `FillProgress` says what became of it."""

    def __init__(self, means: RepairMeans, progress: FillProgress) -> None:
        self._store = means.store
        self._ledgers = means.ledgers
        self._me = means.me
        self._opener = means.opener
        self._options = means.options
        self._clock = means.world.clock
        self._retry = means.retry
        self._fresh = means.fresh()
        self._progress = progress
        self._pace = Throttle(means.options.fill_ledgers_per_s)
        self._confirmed: dict[LedgerId, EntryId] = {}  # of open ledgers, at the look before
        self._again: dict[LedgerId, None] = {}  # to be looked at once more in this run
        self._copier = means.copier(progress, verify=False)

    async def run(self, boot_epoch: BootEpoch) -> None:
        """Look at every ledger that names us (spec/bp46.md#R27), and fill what can be filled.

        Raises StorageFailed when what was fetched cannot be made durable, MetadataError when the store refuses to list
        the ledgers; waits for a store that does not answer.
        """
        self._progress.begin(boot_epoch)
        try:
            await self._walk()
            await self._look_again()
            for ledger_id in self._store.quarantined:  # met since its look
                self._block(ledger_id, _IN_DOUBT)
        except BookieError as error:
            self._progress.end(error)
            raise
        self._progress.end()
        done = self._progress.snapshot()
        log.info(
            "fill done ledgers=%d entries=%d missing=%d blocked=%d whole=%s",
            done.ledgers_done,
            done.entries_copied,
            done.entries_missing,
            done.blocked_count,
            done.is_whole,
        )

    async def _walk(self) -> None:
        concurrency = self._options.fill_scan_concurrency
        async for batch in scan(self._ledgers, self._retry, concurrency=concurrency, may_name=self._me):
            ours = [found for found in batch if _names(found, self._me)]
            self._progress.named(len(ours))
            await self._look_at({found.ledger_id: found for found in ours})
            await self._keep_pace(len(batch))
        await self._flush()

    async def _look_again(self) -> None:
        """Look again at what was blocked, and at what was open: its LAC was behind what had been written without us."""
        pause_ms = _PAUSE_MS
        for _ in range(_LOOKS_MAX - 1):
            if not self._again:
                return
            await self._clock.sleep_until(self._clock.monotonic_ns() + pause_ms * NS_PER_MS)
            pause_ms *= 2
            again, self._again = list(self._again), {}
            size = self._options.fill_scan_concurrency
            for start in range(0, len(again), size):
                batch = again[start : start + size]
                await self._look_at(dict.fromkeys(batch))
                await self._keep_pace(len(batch))
            await self._flush()

    async def _keep_pace(self, ledgers: int) -> None:
        await self._clock.sleep_until(self._pace.take(ledgers, self._clock.monotonic_ns()))

    async def _look_at(self, batch: dict[LedgerId, Scanned | None]) -> None:
        todo = iter(batch.items())

        async def worker() -> None:
            for ledger_id, found in todo:
                await self._look(ledger_id, found)

        await together(worker() for _ in range(min(LEDGERS_AT_ONCE, len(batch))))
        entries, size = self._progress.fetched
        if entries >= _FLUSH_ENTRIES or size >= _FLUSH_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        """Make the copies durable, then count them (spec/bp46.md#R25). Nothing is fetched meanwhile."""
        entries, _ = self._progress.fetched
        if entries:
            # CRASH: before this, copies may be gone after a start: they are missing again, and the fill after it finds
            # them. Nobody acknowledged them, and each denial of them that we gave before the copy is as true as then.
            await self._store.flush()
        self._progress.durable()

    async def _look(self, ledger_id: LedgerId, found: Scanned | None) -> None:
        """Look once at one ledger; note what is missing after it. Only what must stop the node is raised."""
        is_first = found is not None
        try:
            await self._fill(ledger_id, found)
        except BookieError as error:
            if error.fatal:
                raise
            self._block(ledger_id, str(error) or type(error).__name__)
        finally:
            if is_first:
                self._progress.looked()

    async def _fill(self, ledger_id: LedgerId, found: Scanned | None) -> None:
        """Fetch what is missing. Raises BookieError when some of it stays missing, or may."""
        if self._store.may_be_lost(ledger_id):
            raise errors.UnknownLedgerState(_IN_DOUBT)
        metadata = None if found is None else found.metadata
        is_fresh = metadata is None
        if metadata is None:
            metadata, _ = await self._fresh.get(ledger_id)
        confirmed = INVALID_ENTRY_ID
        if metadata is not None and rules.has_open_share(metadata, self._me):
            confirmed = await self._opener.last_confirmed(ledger_id)
            metadata, _ = await self._fresh.get(ledger_id)  # after the LAC: see the top
            is_fresh = True
        missing = await self._missing(ledger_id, metadata, confirmed)
        if missing and not is_fresh:
            metadata, _ = await self._fresh.get(ledger_id)  # deleted, or no longer ours, since the walk read it
            missing = await self._missing(ledger_id, metadata, confirmed)
        self._progress.found(ledger_id, _count(missing))
        if metadata is not None and missing:
            await self._copy(ledger_id, metadata, confirmed)
        self._progress.unblock(ledger_id)
        if metadata is not None and rules.has_open_share(metadata, self._me):
            self._still_open(ledger_id, metadata, confirmed, missing)

    async def _copy(self, ledger_id: LedgerId, metadata: LedgerMetadata, confirmed: EntryId) -> None:
        try:
            await self._copier.copy(ledger_id, metadata, confirmed=confirmed)
        except EntriesUnavailable:  # deleted or moved meanwhile, perhaps: another look reads its metadata again
            self._progress.left(ledger_id, _count(await self._missing(ledger_id, metadata, confirmed)))
            raise
        self._progress.left(ledger_id, 0)

    def _still_open(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, confirmed: EntryId, missing: list[Stretch]
    ) -> None:
        """Ask for another look at an open ledger after its first one, and for as long as its writer leaves us out."""
        before = self._confirmed.get(ledger_id)
        self._confirmed[ledger_id] = confirmed
        if before is None:
            self._again[ledger_id] = None
            return
        since = EntryId(before + 1)
        owed = rules.owed(metadata, self._me, since, confirmed)
        lacked = sum(one.share.count(max(one.first, since), one.last) for one in missing)
        if owed and lacked == owed:  # what is merely under way is never all of it
            self._block(
                ledger_id,
                f"entries {since} to {confirmed} were written without this bookie just now, and fetched: its writer"
                " does not send to it, so that more will be missing; see whether the writer reaches this bookie",
            )

    async def _missing(self, ledger_id: LedgerId, metadata: LedgerMetadata | None, confirmed: EntryId) -> list[Stretch]:
        return [] if metadata is None else await self._copier.missing(ledger_id, metadata, confirmed=confirmed)

    def _block(self, ledger_id: LedgerId, reason: str) -> None:
        self._again[ledger_id] = None
        if self._progress.block(ledger_id, reason):
            log.info("ledger not filled ledger_id=%d reason=%s", ledger_id, reason)


def _names(found: Scanned, me: BookieId) -> bool:
    """Return True when the record names us, or cannot be read and holds our id."""
    if found.metadata is None:
        return rules.unreadable_marks(found.data, me).limbo
    return found.metadata.names(me)


def _count(found: list[Stretch]) -> int:
    return sum(one.size for one in found)
