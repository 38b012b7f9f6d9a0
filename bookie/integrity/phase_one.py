"""Phase one: looks at every ledger and makes the marks durable, before the cookie changes and before the bookie serves.

Returns only when every mark is on disk (spec/storage.md#E5; CONFORMANCE.md#B33, B34). May be repeated at any time:
marks are only ever added.
"""

import logging

from bookie.base.ids import BookieId, BootEpoch
from bookie.client.ledgers import LedgerStore
from bookie.integrity import ledgers as rules
from bookie.integrity.ledgers import Loss
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.options import IntegrityOptions
from bookie.integrity.progress import BootProgress
from bookie.integrity.scan import Scanned, scan
from bookie.integrity.session_reads import SessionReads
from bookie.storage.protection import Mark
from bookie.storage.store import EntryStore
from bookie.wire import digest

log = logging.getLogger(__name__)

# Each `protect` is a flush; so many marks share one.
_MARKS_PER_FLUSH = 4096


async def run(
    ledgers: LedgerStore,
    store: EntryStore,
    me: BookieId,
    loss: Loss,
    options: IntegrityOptions,
    retry: MetadataRetry,
    progress: BootProgress,
    *,
    epoch: BootEpoch,
) -> None:
    """Fence and put in limbo, durably, the ledgers that `integrity.ledgers.marks` names.
    Each limbo mark keeps `epoch`."""
    progress.enter("one")
    waiting: list[Mark] = []
    async for batch in scan(ledgers, retry, concurrency=options.scan_concurrency, may_name=me):
        for found in batch:
            wanted = mark(found, me, loss, options, progress)
            if wanted is not None:
                waiting.append(wanted)
        progress.scanned += len(batch)
        progress.total = progress.scanned
        progress.notify()
        if len(waiting) >= _MARKS_PER_FLUSH:
            await store.protect(waiting, epoch=epoch)
            waiting = []
    await store.protect(waiting, epoch=epoch)
    progress.end_phase_one()
    log.info(
        "phase one done loss=%s ledgers=%d member=%d fenced=%d limbo=%d ms=%d",
        loss.value,
        progress.scanned,
        progress.member,
        progress.fenced,
        progress.limbo,
        progress.phase_one_ms,
    )


async def bound(
    ledgers: LedgerStore, store: EntryStore, retry: MetadataRetry, progress: BootProgress, *, epoch: BootEpoch
) -> None:
    """Doubt, durably, every ledger that exists now, instead of looking at each: `examining` makes its marks later.

    A ledger that is made after this read has lost nothing here: this process has claimed the id, and serves nothing
    yet.
    """
    progress.enter("one")
    found = await SessionReads(ledgers, retry).read(ledgers.bound)
    await store.doubt_below(found, epoch=epoch)
    progress.end_phase_one()
    log.info("phase one done by a bound bound=%d epoch=%d ms=%d", found, epoch, progress.phase_one_ms)


def mark(found: Scanned, me: BookieId, loss: Loss, options: IntegrityOptions, progress: BootProgress) -> Mark | None:
    """Return the marks that one ledger needs, None for none; count them in `progress`."""
    metadata = found.metadata
    if metadata is None:
        wanted, key = rules.unreadable_marks(found.data, me), None
        log.warning("ledger metadata cannot be read ledger_id=%d names_us=%s", found.ledger_id, wanted.limbo)
        progress.member += wanted.limbo
    else:
        wanted = rules.marks(metadata, me, loss, guard_fence=options.guard_fence, guard_limbo=options.guard_limbo)
        key = digest.master_key(metadata.password) if metadata.has_password else None
        progress.member += metadata.names(me)
    if not wanted.fence and not wanted.limbo:
        return None
    progress.fenced += 1  # both marks refuse normal adds
    progress.limbo += wanted.limbo
    return found.ledger_id, wanted.fence, wanted.limbo, key
