"""Looks which ledgers that auto-recovery has marked might be undecidable while one bookie more is away.

An auditor, ours or Java's, marks a ledger with the bookies whose replicas it misses. Whoever wants to stop a bookie
asks here before (spec/metadata.md#M55). A mark that nobody can read, or that names nobody, counts as all bookies but
the one. Never: a change of a mark, or a lock; "none" for what could not be looked at: an error of the
metadata store goes to the caller.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.ledgers import LedgerStore, in_batches
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.metadata import paths, repair
from bookie.ports.admin import BlockedLedger, HeldBack, MarkedLedgers
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import find_data
from bookie.quorum import leaving as rules
from bookie.quorum import mending

# Few at once, and a rest as long as each batch took: the bookie serves clients beside it.
_BATCH = 64
# Of each bookie. Whoever waits for a ledger counts its time by its id, so three for the eye are not enough.
LISTED_MAX = 100
_REASON_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class _Marked:
    """A mark that counts: for whom, and the words about it."""

    ledger_id: LedgerId
    reasons: Mapping[BookieId, str]


async def look(ledgers: LedgerStore, bookies: Collection[BookieId], clock: Clock) -> MarkedLedgers:
    """Return, for each of `bookies`, which marked ledgers want it not to be stopped now, as the metadata store says
    after a sync. It ends early once each has as many as are listed. Raises MetadataError."""
    began_ns = clock.monotonic_ns()
    await ledgers.store.sync(ledgers.root)
    found: dict[BookieId, list[BlockedLedger]] = {one: [] for one in bookies}
    marks = 0
    async for batch in in_batches(AutoRecovery(ledgers.store, ledgers.root).ledgers(), _BATCH):
        batch_ns = clock.monotonic_ns()
        marks += len(batch)
        for one in await asyncio.gather(*(_look_at(ledgers, each, bookies) for each in batch)):
            for bookie_id, reason in one.reasons.items():
                if len(found[bookie_id]) < LISTED_MAX:
                    found[bookie_id].append(BlockedLedger(one.ledger_id, reason[:_REASON_CHARS_MAX]))
        if all(len(each) == LISTED_MAX for each in found.values()):
            break
        now_ns = clock.monotonic_ns()
        await clock.sleep_until(now_ns + (now_ns - batch_ns))
    held = tuple(HeldBack(bookie_id, tuple(each)) for bookie_id, each in found.items() if each)
    return MarkedLedgers(held, marks, (clock.monotonic_ns() - began_ns) // NS_PER_MS)


async def _look_at(ledgers: LedgerStore, ledger_id: LedgerId, bookies: Collection[BookieId]) -> _Marked:
    missing: tuple[BookieId, ...] = ()
    words = "its mark does not say whose replicas are missing"
    try:
        data = await find_data(ledgers.store, paths.underreplicated(ledgers.root, ledger_id))
        if data is None:
            return _Marked(ledger_id, {})  # it was repaired meanwhile
        if missing := repair.load_underreplicated(data).missing:
            words = f"replicas of {', '.join(missing)} are missing"
    except errors.UNREADABLE as error:
        words = f"its mark cannot be read: {error}"
    try:
        metadata, _ = await ledgers.get(ledger_id)
    except errors.LedgerMissing:
        return _Marked(ledger_id, {})
    except errors.UNREADABLE as error:
        return _Marked(ledger_id, dict.fromkeys(bookies, f"its record cannot be read: {error}"))
    away = missing or mending.named(metadata)
    held = [one for one in bookies if rules.is_undecidable_without(metadata, one, away)]
    return _Marked(ledger_id, dict.fromkeys(held, words))
