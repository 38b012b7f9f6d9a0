"""Asks an ensemble for the last add confirmed (LAC), without fencing.

Rules: spec/wire.md#W63, W35; `quorum.lac` combines the answers. Only LACs that the writer sent count, never the id of
the highest stored entry; and only when so many bookies have answered that they cover the ensemble.
"""

import asyncio

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.client.shared import Shared, digest_of, schedule_of
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum.lac import LacQuery
from bookie.wire import v3
from bookie.wire.digest import Digest
from bookie.wire.messages import ReadLacRequest, ReadLacResponse, Response


async def read_lac(shared: Shared, ledger_id: LedgerId, metadata: LedgerMetadata, *, floor: EntryId) -> EntryId:
    """Return the greatest LAC that a covering set of the last ensemble knows, at least `floor`. Raises
    QuorumNotReached.

    Every entry before the last segment is confirmed: an ensemble change begins the segment right after the LAC.
    """
    first = metadata.last_segment.first_entry
    query = LacQuery(schedule_of(metadata), floor=EntryId(max(floor, first - 1)))
    digest = digest_of(metadata)
    decided = asyncio.Event()

    def on_answer(slot: int, response: Response | None, error: BookieError | None) -> None:
        if decided.is_set():
            return
        try:
            query.found(slot, _lac_in(digest, ledger_id, response, error))
        except BookieError as unusable:
            query.failed(slot, unusable)
        if query.is_covered or query.error is not None:
            decided.set()

    for slot, bookie_id in enumerate(metadata.last_segment.bookies):
        shared.pool.send(bookie_id, ReadLacRequest(0, v3.VERSION, ledger_id), on_answer, slot)
    await decided.wait()  # every request ends by its deadline, and then the question is decided
    if query.error is not None:
        raise query.error
    return query.lac


def _lac_in(digest: Digest, ledger_id: LedgerId, response: Response | None, error: BookieError | None) -> EntryId:
    """Return the LAC that one answer proves. Raises the error that any other answer means.

    A Java bookie with an explicit LAC and no entry answers EIO with a good LAC body (spec/wire.md#W35).
    """
    if not isinstance(response, ReadLacResponse) or (response.lac_body is None and response.last_entry_body is None):
        raise error or errors.NoSuchEntry(f"ledger {ledger_id}: the bookie has no LAC")
    lac = -1
    if response.lac_body is not None:
        lac = digest.open_lac(response.lac_body, ledger_id)
    if response.last_entry_body is not None:
        header, _ = digest.open(response.last_entry_body, ledger_id, None)
        lac = max(lac, header.lac)
    return EntryId(lac)
