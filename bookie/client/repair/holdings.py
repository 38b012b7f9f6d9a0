"""Asks bookies what they hold of one ledger: by their lists of entries, or entry by entry where they give no list.

An official bookie on DbLedgerStorage never answers a question for a list (spec/wire.md#W15). Such a bookie is noted, so
that not every ledger waits for a time-out; a caller that has reason to look (a marked ledger) may have it read instead.

A list says what a bookie means to have: it comes from its index. So a caller may have its share *probed* as well: the
lowest and the highest entry of each segment are read and verified, as Java's auditor does.

Never: "nothing" for a bookie that did not say (limbo, a time-out): that is a `Holding` without groups, or one whose
reason tells what is not known.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.net.bookies import BookieClient
from bookie.client.shared import Shared, digest_of
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum import mending
from bookie.quorum.mending import Holding
from bookie.quorum.shares import Group
from bookie.wire.digest import Digest

_READS_AT_ONCE = 16
# After a list that never came.
_NO_LISTS_MS = 600_000
# Ledgers in a row whose reads are never answered, before a bookie is left alone for a while by a caller that looks at
# every ledger: what it skips it reads a week later.
_TIMEOUTS_MAX = 3
_SILENT_MS = 60_000
# Ledgers whose ends are read of one bookie at once: each read may move the arm of a disk that clients wait for.
_PROBED_AT_ONCE = 2


class Holdings:
    """Asks, and remembers who gives no lists."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._bookies = BookieClient(shared.pool)
        self._no_lists_until_ns: dict[BookieId, int] = {}
        self._silent_until_ns: dict[BookieId, int] = {}
        self._timeouts: Counter[BookieId] = Counter()  # ledgers in a row whose reads were never answered
        self._probed: dict[BookieId, asyncio.Semaphore] = {}

    async def ask(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        bookies: Iterable[BookieId],
        *,
        reads: bool,
        probes: bool = False,
    ) -> dict[BookieId, Holding]:
        """Return what each of `bookies` says. `reads`: read the entries one by one of a bookie that gives no list.
        `probes`: read the ends of what it lists, or should have."""
        asked = list(bookies)
        found = await asyncio.gather(*(self._ask(ledger_id, metadata, each, reads, probes) for each in asked))
        return dict(zip(asked, found, strict=True))

    async def damaged(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie_id: BookieId, entries: Iterable[EntryId]
    ) -> list[EntryId]:
        """Return those of `entries` of which the bookie gives no good copy. Raises BookieError when it does not say."""
        verifier = digest_of(metadata) if metadata.has_password else None  # else nobody knows what is good
        found: list[EntryId] = []
        left = iter(entries)
        while batch := list(itertools.islice(left, _READS_AT_ONCE)):
            answers = await asyncio.gather(*(self._gives(bookie_id, ledger_id, each, verifier) for each in batch))
            found += [each for each, is_given in zip(batch, answers, strict=True) if not is_given]
        return found

    async def _ask(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie_id: BookieId, reads: bool, probes: bool
    ) -> Holding:
        listed = await self._list(ledger_id, bookie_id)
        if listed.groups is None and reads and self._gives_no_lists(bookie_id):
            return await self._read(ledger_id, metadata, bookie_id)
        if not probes or (listed.groups is None and not self._gives_no_lists(bookie_id)):
            return listed
        try:
            ends = mending.ends_of(metadata, bookie_id, listed.groups)
            async with self._probed.setdefault(bookie_id, asyncio.Semaphore(_PROBED_AT_ONCE)):
                if not reads and self._silent_until_ns.get(bookie_id, 0) > self._shared.world.clock.monotonic_ns():
                    return Holding(listed.groups, listed.reason or "it did not answer when it was read")
                damaged = await self.damaged(ledger_id, metadata, bookie_id, ends)
            self._timeouts[bookie_id] = 0
            return Holding(listed.groups, listed.reason, damaged)
        except BookieError as error:
            if isinstance(error, errors.RequestTimedOut):
                self._timeouts[bookie_id] += 1
            if self._timeouts[bookie_id] >= _TIMEOUTS_MAX:
                self._timeouts[bookie_id] = 0
                self._silent_until_ns[bookie_id] = self._shared.world.clock.monotonic_ns() + _SILENT_MS * NS_PER_MS
            return Holding(listed.groups, listed.reason or str(error))

    def _gives_no_lists(self, bookie_id: BookieId) -> bool:
        return self._no_lists_until_ns.get(bookie_id, 0) > self._shared.world.clock.monotonic_ns()

    async def _list(self, ledger_id: LedgerId, bookie_id: BookieId) -> Holding:
        if not self._gives_no_lists(bookie_id):
            try:
                return Holding(await self._bookies.list_groups(bookie_id, ledger_id))
            except errors.NoSuchLedger:
                return Holding(())
            except errors.RequestTimedOut:
                now_ns = self._shared.world.clock.monotonic_ns()
                self._no_lists_until_ns[bookie_id] = now_ns + _NO_LISTS_MS * NS_PER_MS
            except BookieError as error:
                return _silent(error)
        return Holding(None, "it gives no list of its entries (an official bookie on DbLedgerStorage gives none)")

    async def _read(self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie_id: BookieId) -> Holding:
        held: list[Group] = []
        share = mending.missing_entries(metadata, bookie_id, ())  # the whole of it
        try:
            while batch := list(itertools.islice(share, _READS_AT_ONCE)):
                lacking = await self.damaged(ledger_id, metadata, bookie_id, batch)
                held += [(each, each, 1, 0) for each in batch if each not in lacking]
        except BookieError as error:
            return _silent(error)
        return Holding(held)

    async def _gives(
        self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId, verifier: Digest | None
    ) -> bool:
        """Return whether the bookie gives a good copy. An I/O error for an entry that the ledger has is a "no" like a
        wrong digest: what follows is a good copy, for that bookie."""
        try:
            body = await self._bookies.read(bookie_id, ledger_id, entry_id)
            if verifier is not None:
                verifier.open(body, ledger_id, entry_id)
        except (errors.NoSuchEntry, errors.NoSuchLedger, errors.StorageFailed, errors.DigestMismatch):
            return False
        return True


def _silent(error: BookieError) -> Holding:
    return Holding(None, str(error), in_limbo=isinstance(error, errors.UnknownLedgerState))
