"""Fetch the entries of one ledger that this bookie should hold and does not: verified, from whichever peer has them.

An entry is stored only after its digest and its ids were checked with what the metadata holds (bp46.md T19): a corrupt
peer costs one more question and spreads nothing. Nothing here clears a mark or decides an end.
"""

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.throttle import Throttle
from bookie.integrity import ledgers as rules
from bookie.integrity.progress import Progress
from bookie.integrity.together import together
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.clock import Clock
from bookie.storage.store import EntryStore
from bookie.wire import digest, entry
from bookie.wire.digest import Digest, DigestType


class Peers(Protocol):
    """One bookie's stored bytes of one entry, unverified (`client.bookies.BookieClient`)."""

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes: ...


class EntriesUnavailable(BookieError):
    """Some entries could be had from nobody. `count` of them; the text names the first and who said what."""

    retryable = True

    def __init__(self, text: str, count: int) -> None:
        super().__init__(text)
        self.count = count


class Copier:
    """Copies for one repair; remembers which peers fail."""

    def __init__(
        self,
        store: EntryStore,
        me: BookieId,
        peers: Peers,
        clock: Clock,
        throttle: Throttle,
        progress: Progress,
        *,
        concurrency: int,
        verify: bool,
    ) -> None:
        self._store = store
        self._me = me
        self._peers = peers
        self._clock = clock
        self._throttle = throttle
        self._progress = progress
        self._concurrency = concurrency
        self._verify = verify
        self._failed: dict[BookieId, int] = {}

    async def copy(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> int:
        """Copy what is missing of the sealed fragments; return how many entries. Not durable before `flush`.

        Raises EntriesUnavailable after all others were copied; peers that do not answer end it at once.
        """
        opener = _Opener(ledger_id, metadata, self._known_key(ledger_id))
        wanted, count = await self._wanted(ledger_id, metadata)
        copied, failures = 0, list[str]()
        progress = self._progress
        progress.entries_pending = max(0, progress.entries_pending) + count
        while batch := list(itertools.islice(wanted, self._concurrency)):
            answers = await together(self._copy_one(opener, entry_id) for entry_id in batch)
            trouble = [problem for problem in answers if problem is not None]
            copied += len(batch) - len(trouble)
            progress.entries_pending -= len(batch) - len(trouble)
            failures += [text for text, _ in trouble]
            if any(is_passing for _, is_passing in trouble):
                break
        progress.entries_pending -= count - copied  # those of a failed attempt are counted again by the next
        if failures:
            more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
            raise EntriesUnavailable(f"{failures[0]}{more}", len(failures))
        return copied

    async def _wanted(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> tuple[Iterator[EntryId], int]:
        """Which entries to fetch, ascending, and how many. Held in memory only where disks must be read to know."""
        try:
            runs = await self._store.walk_entry_runs(ledger_id)
        except errors.NoSuchLedger:
            runs = []
        if self._verify:
            bad = [entry_id async for entry_id in self._unreadable(ledger_id, metadata, runs)]
            wanted = sorted({*bad, *rules.missing(metadata, self._me, runs)})
            return iter(wanted), len(wanted)
        count = sum(1 for _ in rules.missing(metadata, self._me, runs))
        return rules.missing(metadata, self._me, runs), count

    async def _unreadable(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, runs: list[tuple[EntryId, EntryId]]
    ) -> AsyncIterator[EntryId]:
        """Entries that the index has and the disk has not (bp46.md T15)."""
        absent = rules.missing(metadata, self._me, runs)
        skip = next(absent, None)
        for entry_id in rules.assigned(metadata, self._me):
            if entry_id == skip:
                skip = next(absent, None)
            elif not await self._store.check_entry(ledger_id, entry_id):
                yield entry_id

    async def _copy_one(self, opener: "_Opener", entry_id: EntryId) -> tuple[str, bool] | None:
        """None when copied; else why not, and whether it may pass."""
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
        return f"entry {entry_id}: {'; '.join(said) or 'nobody else was to hold it'}", is_passing

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
    """Checks entries of one ledger. A ledger from before 4.2 has no password in its metadata: then ids alone."""

    def __init__(self, ledger_id: LedgerId, metadata: LedgerMetadata, known_key: bytes) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self._digest: Digest | None = None
        self.master_key = known_key
        if metadata.has_password:
            self._digest = Digest(DigestType(metadata.digest_type), metadata.password)
            self.master_key = digest.master_key(metadata.password)

    def check(self, body: bytes, entry_id: EntryId) -> None:
        """Raises DigestMismatch."""
        if self._digest is not None:
            self._digest.open(body, self.ledger_id, entry_id)
        elif len(body) < entry.HEADER_SIZE or entry.unpack_ids(body) != (self.ledger_id, entry_id):
            raise errors.DigestMismatch(f"ledger {self.ledger_id} entry {entry_id}: the answer is another entry")
