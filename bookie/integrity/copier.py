"""Fetches and verifies the entries of one ledger that this bookie should hold and lacks, from any peer that has them.

An entry is stored only after its digest and its ids were checked with what the metadata holds (spec/bp46.md#R21): a
corrupt peer costs one more question and spreads nothing. Nothing here clears a mark or decides an end.
"""

import asyncio
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, LAST_ENTRY, BookieId, EntryId, LedgerId
from bookie.base.throttle import Throttle
from bookie.integrity import ledgers as rules
from bookie.integrity.together import together
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.clock import Clock
from bookie.quorum.shares import Stretch, entries_from
from bookie.storage.pause import pause
from bookie.storage.store import EntryStore
from bookie.wire import digest, entry
from bookie.wire.digest import Digest, DigestType

# Entries in a row that nobody has, before the copier leaves a ledger for now. Where a bookie holds something behind
# them, they are a real loss, and the way to what is behind them is worth more.
_ROW_MAX = 2_048
_ROW_MAX_TO_HIGHEST = 1 << 18
_ASKED_FOR_HIGHEST_MAX = 64
# Looked at between two turns of the event loop: about a millisecond.
_STRETCHES_AT_ONCE = 512


class Peers(Protocol):
    """Gives another bookie's stored bytes of one entry, unverified (`client.bookies.BookieClient`)."""

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes: ...


class CopyCounts(Protocol):
    """Who counts what is copied. `entries_pending`: known to be missing and not copied yet; -1: not known."""

    entries_pending: int

    def copied(self, size: int) -> None:
        """Count one entry of `size` bytes that was fetched, verified and stored, not durably yet."""
        ...


class EntriesUnavailable(BookieError):
    """No bookie gave some entries, `count` of them; the text names the first and what each bookie said."""

    retryable = True

    def __init__(self, text: str, count: int) -> None:
        super().__init__(text)
        self.count = count


@dataclass(slots=True)
class _Attempt:
    """What one call of `copy` met. `is_over`: a peer did not answer, so further questions are useless now."""

    copied: int = 0
    failures: int = 0
    first_failure: str = ""
    is_over: bool = False


class Copier:
    """Copies entries during one repair; remembers which peers fail."""

    def __init__(
        self,
        store: EntryStore,
        me: BookieId,
        peers: Peers,
        clock: Clock,
        throttle: Throttle,
        progress: CopyCounts,
        *,
        concurrency: int,
        verify: bool,
    ) -> None:
        """`concurrency`: entries under way together, of all ledgers. `verify`: read whatever is here, and fetch what
        does not check; else only what is known to be bad."""
        self._store = store
        self._me = me
        self._peers = peers
        self._clock = clock
        self._throttle = throttle
        self._progress = progress
        self._concurrency = concurrency
        self._under_way = asyncio.Semaphore(concurrency)
        self._verify = verify
        self._failed: dict[BookieId, int] = {}
        self._reached: dict[LedgerId, EntryId] = {}  # where a ledger that is too long for one attempt goes on

    async def missing(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, *, confirmed: EntryId = INVALID_ENTRY_ID
    ) -> list[Stretch]:
        """Return what `copy` would fetch, ascending. Asks nobody."""
        wanted, _ = await self._wanted(ledger_id, metadata, confirmed)
        return wanted

    async def copy(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, *, confirmed: EntryId = INVALID_ENTRY_ID
    ) -> int:
        """Copy the missing entries of the sealed fragments, and of the last one up to `confirmed`; return how many. Not
        durable before `flush`.

        Raises EntriesUnavailable after all others were copied; peers that do not answer end it at once, and so does a
        long row of entries that nobody has: a record may name more of them than anybody can ask for. Nothing is taken
        for absent by that: later attempts begin at the first missing entry again, and then go on where this one ended.
        """
        opener = _Opener(ledger_id, metadata, self._known_key(ledger_id))
        wanted, count = await self._wanted(ledger_id, metadata, confirmed)
        attempt, progress = _Attempt(), self._progress
        progress.entries_pending = max(0, progress.entries_pending) + count
        stopped = await self._copy_from(opener, entries_from(wanted, EntryId(0)), attempt, INVALID_ENTRY_ID)
        if stopped is not None:
            begin = max(stopped, self._reached.get(ledger_id, stopped))
            highest = await self._highest(opener)
            stopped = await self._copy_from(opener, entries_from(wanted, begin), attempt, highest)
        progress.entries_pending -= count - attempt.copied  # those of a failed attempt are counted again by the next
        if stopped is not None:
            self._reached[ledger_id] = stopped
        elif not attempt.is_over:
            self._reached.pop(ledger_id, None)
        if attempt.failures:
            more = f" and {attempt.failures - 1} more" if attempt.failures > 1 else ""
            rest = "" if stopped is None else f"; of {count} missing, those from entry {stopped} on are asked for later"
            raise EntriesUnavailable(f"{attempt.first_failure}{more}{rest}", attempt.failures)
        return attempt.copied

    async def _copy_from(
        self, opener: "_Opener", entries: Iterator[EntryId], attempt: "_Attempt", highest: EntryId
    ) -> EntryId | None:
        """Copy to the end and return None; or return where to go on, when too many entries in a row failed. Up to
        `highest` more of them may fail."""
        row = 0
        while not attempt.is_over and (batch := list(itertools.islice(entries, self._concurrency))):
            if row >= (_ROW_MAX_TO_HIGHEST if batch[0] <= highest else _ROW_MAX):
                return batch[0]
            answers = await together(self._copy_one(opener, entry_id) for entry_id in batch)
            trouble = [problem for problem in answers if problem is not None]
            row = row + len(batch) if len(trouble) == len(batch) else 0
            attempt.copied += len(batch) - len(trouble)
            self._progress.entries_pending -= len(batch) - len(trouble)
            attempt.failures += len(trouble)
            if trouble:
                attempt.first_failure = attempt.first_failure or trouble[0][0]
                attempt.is_over = any(is_passing for _, is_passing in trouble)
        return None

    async def _wanted(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, confirmed: EntryId
    ) -> tuple[list[Stretch], int]:
        """Return the stretches to fetch, ascending, and their count of entries: at most one stretch per run that we
        hold, or per entry that cannot be read."""
        try:
            runs = await self._store.entry_ranges(ledger_id)
        except errors.NoSuchLedger:
            runs = []
        bad = self._store.bad_entries.of(ledger_id)
        wanted, count = list[Stretch](), 0
        for number, (stretch, is_held) in enumerate(rules.stretches(metadata, self._me, runs, confirmed=confirmed)):
            if number % _STRETCHES_AT_ONCE == 0:
                await pause()
            if not is_held:
                found = [stretch] if stretch.size else []
            else:
                doubtful = self._doubtful(ledger_id, stretch, bad)
                unreadable = [one for one in doubtful if not await self._store.check_entry(ledger_id, one)]
                found = [Stretch(stretch.share, one, one) for one in unreadable]
            wanted += found
            count += sum(one.size for one in found)
        return wanted, count

    def _doubtful(self, ledger_id: LedgerId, held: Stretch, bad: Sequence[EntryId]) -> Iterator[EntryId]:
        """Return the entries that the index has and whose bytes may be missing or bad (spec/bp46.md#R22, R29)."""
        if self._verify or ledger_id in self._store.bad_entries.more:
            return held.share.entries(held.first, held.last)
        known = bad[bisect_left(bad, held.first) : bisect_right(bad, held.last)]
        return (entry_id for entry_id in known if held.share.count(entry_id, entry_id))

    async def _highest(self, opener: "_Opener") -> EntryId:
        """Return the highest entry that any other bookie of the ledger reports now; -1: none. It limits how long to go
        on asking; it never proves an entry absent."""
        peers = {peer for segment in opener.metadata.segments for peer in segment.bookies if peer != self._me}
        highest = INVALID_ENTRY_ID
        for peer in sorted(peers)[:_ASKED_FOR_HIGHEST_MAX]:
            try:
                highest = max(highest, opener.entry_of(await self._peers.read(peer, opener.ledger_id, LAST_ENTRY)))
            except BookieError as error:
                if error.fatal:
                    raise
        return highest

    async def _copy_one(self, opener: "_Opener", entry_id: EntryId) -> tuple[str, bool] | None:
        """Copy one entry. Return None on success; else the reason, and whether the reason may pass."""
        async with self._under_way:
            return await self._try_all(opener, entry_id)

    async def _try_all(self, opener: "_Opener", entry_id: EntryId) -> tuple[str, bool] | None:
        said: list[str] = []
        is_passing = False
        ledger_id = opener.ledger_id
        for peer in rules.sources(opener.metadata, self._me, entry_id, self._failed):
            try:
                body = await self._peers.read(peer, ledger_id, entry_id)
                opener.check(body, entry_id)
            except BookieError as error:
                said.append(f"{peer}: {error}")
                is_passing = is_passing or isinstance(error, errors.BookieUnavailable | errors.RequestTimedOut)
                self._failed[peer] = self._failed.get(peer, 0) + 1
                continue
            await self._keep(ledger_id, entry_id, body, opener.master_key)
            return None
        return f"entry {entry_id}: {'; '.join(said) or 'no other bookie was to hold it'}", is_passing

    async def _keep(self, ledger_id: LedgerId, entry_id: EntryId, body: bytes, master_key: bytes) -> None:
        await self._clock.sleep_until(self._throttle.take(len(body), self._clock.monotonic_ns()))
        while True:
            await self._store.room()
            try:
                self._store.add_copied(ledger_id, entry_id, body, master_key)
            except errors.TooManyRequests:
                await self._store.flush()
                continue
            self._progress.copied(len(body))
            return

    def _known_key(self, ledger_id: LedgerId) -> bytes:
        facts = self._store.facts(ledger_id)
        return (facts.master_key if facts else None) or b""


class _Opener:
    """Verifies entries of one ledger. Metadata from before 4.2 has no password: then only the ids are checked."""

    def __init__(self, ledger_id: LedgerId, metadata: LedgerMetadata, known_key: bytes) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self._digest: Digest | None = None
        self.master_key = known_key
        if metadata.has_password:
            self._digest = Digest(DigestType(metadata.digest_type), metadata.password)
            self.master_key = digest.master_key(metadata.password)

    def check(self, body: bytes, entry_id: EntryId) -> None:
        """Verify one entry. Raises DigestMismatch."""
        if self._digest is not None:
            self._digest.open(body, self.ledger_id, entry_id)
        elif len(body) < entry.HEADER_SIZE or entry.unpack_ids(body) != (self.ledger_id, entry_id):
            raise errors.DigestMismatch(f"ledger {self.ledger_id} entry {entry_id}: the answer holds another entry")

    def entry_of(self, body: bytes) -> EntryId:
        """Return the entry's id after checking its ledger. Raises DigestMismatch."""
        if self._digest is not None:
            return self._digest.open(body, self.ledger_id, None)[0].entry_id
        if len(body) < entry.HEADER_SIZE or entry.unpack_ids(body)[0] != self.ledger_id:
            raise errors.DigestMismatch(f"ledger {self.ledger_id}: the answer holds an entry of another ledger")
        return entry.unpack_ids(body)[1]
