"""Copies entries to new bookies: reads them from any replica, and stores them as a recovery does.

Never: bytes that were not checked against the digest in the metadata.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.rate import Rate
from bookie.base.throttle import Throttle, Throttles
from bookie.client.net.bookies import BookieClient
from bookie.client.shared import Shared, digest_of
from bookie.metadata.ledger import LedgerMetadata
from bookie.wire import digest

# Entries on their way at once, of all ledgers together: at the frame limit 160 MiB.
CONCURRENCY = 32

OnCopied = Callable[[LedgerId, int], None]


class ReplicaCopier:
    """Copies entries. `entries` and `bytes` count what was copied so far, each copy once; `rate` says how fast. It asks
    the `leaving` bookies last."""

    def __init__(
        self,
        shared: Shared,
        bookies: BookieClient,
        leaving: Collection[BookieId],
        bytes_per_s: int | Throttles[BookieId] | None,
        *,
        entries_at_once: int = CONCURRENCY,
        on_copied: OnCopied | None = None,
    ) -> None:
        """`bytes_per_s`: of all copies together, or one of each taker. `on_copied`: hears of each copy, with the ledger
        and the bytes."""
        self._on_copied = on_copied
        self.entries = 0
        self.bytes = 0
        self.rate = Rate()
        self._shared = shared
        self._bookies = bookies
        self._leaving = leaving
        if isinstance(bytes_per_s, Throttles):
            self._take = bytes_per_s.take
        else:
            together = Throttle(bytes_per_s)
            self._take = lambda key, size, now_ns: together.take(size, now_ns)
        self._room = asyncio.Semaphore(entries_at_once)

    async def copy(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, entry_id: EntryId, targets: Sequence[BookieId]
    ) -> BookieError | None:
        """Copy one entry to `targets`; return the error if that failed."""
        try:
            async with self._room:
                body = await self._fetch(ledger_id, metadata, entry_id)
                clock = self._shared.world.clock
                for target in targets:
                    await clock.sleep_until(self._take(target, len(body), clock.monotonic_ns()))
                    await self._store(target, ledger_id, entry_id, body, digest.master_key(metadata.password))
        except BookieError as error:
            return error
        return None

    async def _fetch(self, ledger_id: LedgerId, metadata: LedgerMetadata, entry_id: EntryId) -> bytes:
        """Return the stored bytes, verified, from any replica; asks the leaving bookies last."""
        said: list[str] = []
        verifier = digest_of(metadata)
        bookies = sorted(self._shared.pool.by_health(metadata.write_set(entry_id)), key=self._leaving.__contains__)
        for bookie_id in bookies:
            try:
                body = await self._bookies.read(bookie_id, ledger_id, entry_id)
                verifier.open(body, ledger_id, entry_id)
            except BookieError as error:
                said.append(f"{bookie_id}: {error}")
                if isinstance(error, errors.BookieUnavailable | errors.RequestTimedOut):
                    self._shared.pool.quarantine(bookie_id, error)  # asked last from now on
                continue
            return body
        raise errors.QuorumNotReached(
            f"ledger {ledger_id} entry {entry_id}: no bookie gave a good copy, so the ledger keeps its bookies:"
            f" {'; '.join(said)}"
        )

    async def _store(
        self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId, body: bytes, master_key: bytes
    ) -> None:
        with self.blaming(bookie_id):
            await self._bookies.add(bookie_id, ledger_id, entry_id, body, master_key, is_recovery=True)
        self.entries += 1
        self.bytes += len(body)
        self.rate.add(len(body), self._shared.world.clock.monotonic_ns())
        if self._on_copied is not None:
            self._on_copied(ledger_id, len(body))

    @contextlib.contextmanager
    def blaming(self, taker: BookieId) -> Iterator[None]:
        """After an error inside the `with` block, quarantine `taker`, so that the next attempt draws another bookie."""
        try:
            yield
        except BookieError as error:
            self._shared.pool.quarantine(taker, error)
            raise
