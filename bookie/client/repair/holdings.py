"""Asks bookies what they hold of one ledger: by their lists of entries, or entry by entry where they give no list.

An official bookie on DbLedgerStorage never answers a question for a list (spec/wire.md#W15). Such a bookie is noted, so
that not every ledger waits for a time-out; a caller that has reason to look (a marked ledger) may have it read instead.
Never: "nothing" for a bookie that did not say (limbo, a time-out): that is a `Holding` without groups.
"""

import asyncio
import itertools
from collections.abc import Iterable

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.net.bookies import BookieClient
from bookie.client.shared import Shared
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum import mending
from bookie.quorum.mending import Holding
from bookie.quorum.shares import Group

_READS_AT_ONCE = 16
# After a list that never came.
_NO_LISTS_MS = 600_000


class Holdings:
    """Asks, and remembers who gives no lists."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._bookies = BookieClient(shared.pool)
        self._no_lists_until_ns: dict[BookieId, int] = {}

    async def ask(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, bookies: Iterable[BookieId], *, reads: bool
    ) -> dict[BookieId, Holding]:
        """Return what each of `bookies` says. `reads`: read the entries one by one of a bookie that gives no list."""
        asked = list(bookies)
        found = await asyncio.gather(*(self._ask(ledger_id, metadata, each, reads=reads) for each in asked))
        return dict(zip(asked, found, strict=True))

    async def _ask(self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie_id: BookieId, *, reads: bool) -> Holding:
        now_ns = self._shared.world.clock.monotonic_ns()
        if self._no_lists_until_ns.get(bookie_id, 0) <= now_ns:
            try:
                return Holding(await self._bookies.list_groups(bookie_id, ledger_id))
            except errors.NoSuchLedger:
                return Holding(())
            except errors.RequestTimedOut:
                self._no_lists_until_ns[bookie_id] = now_ns + _NO_LISTS_MS * NS_PER_MS
            except BookieError as error:
                return Holding(None, str(error))
        if not reads:
            return Holding(None, "it gives no list of its entries (an official bookie on DbLedgerStorage gives none)")
        return await self._read(ledger_id, metadata, bookie_id)

    async def _read(self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie_id: BookieId) -> Holding:
        held: list[Group] = []
        wanted = mending.missing_entries(metadata, bookie_id, ())  # its whole share
        try:
            while batch := list(itertools.islice(wanted, _READS_AT_ONCE)):
                answers = await asyncio.gather(*(self._has(bookie_id, ledger_id, each) for each in batch))
                held += [(each, each, 1, 0) for each, is_there in zip(batch, answers, strict=True) if is_there]
        except BookieError as error:
            return Holding(None, str(error))
        return Holding(held)

    async def _has(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        try:
            await self._bookies.read(bookie_id, ledger_id, entry_id)
        except (errors.NoSuchEntry, errors.NoSuchLedger):
            return False
        return True
