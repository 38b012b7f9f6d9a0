"""Writes marks of ledgers, and the doubt, into the indexes, in bulk and durably on return.

In memory a mark stands before it is written, and a doubt ends only after its end is durable: whatever is cut or fails
in between, the bookie says "unknown" once too often, and never "no".
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from bookie.base.ids import LedgerId
from bookie.storage import limits
from bookie.storage.checkpoint import INDEX_BATCH_COUNT
from bookie.storage.doubt import Doubt
from bookie.storage.ledgers import DOUBT, FENCED, GIVEN_UP, LIMBO, NAMED_AGAIN, STATE_LOST, Ledger
from bookie.storage.partition import Partition
from bookie.storage.pause import pause

# A ledger, whether to fence it, whether it is in limbo, and its master key where that is known.
Mark = tuple[LedgerId, bool, bool, bytes | None]
FlushIndex = Callable[[Partition], Awaitable[None]]
NumberOf = Callable[[LedgerId], int]  # of a ledger's partition


async def protect(
    partitions: Sequence[Partition], number_of: NumberOf, wanted: Iterable[Mark], *, epoch: int, flush: FlushIndex
) -> None:
    """Fence and put in limbo (`EntryStore.protect`)."""
    for partition in await _mark(partitions, number_of, wanted, epoch=epoch):
        await flush(partition)


async def begin_doubt(partitions: Sequence[Partition], bound: int, *, epoch: int, flush: FlushIndex) -> None:
    """Doubt every ledger below `bound` (`EntryStore.doubt_below`).

    CRASH: in part of the indexes only: the cookie is not changed before this returns, so the next boot does it again.
    """
    doubt = Doubt(epoch, bound, bound)
    for partition in partitions:
        partition.table.begin_doubt(doubt)
        partition.save_doubt(doubt)
        await flush(partition)


async def settle(
    partitions: Sequence[Partition],
    number_of: NumberOf,
    wanted: Iterable[Mark],
    examined: Sequence[LedgerId],
    rest: int | None,
    *,
    flush: FlushIndex,
) -> None:
    """End the doubt about the ledgers that were examined (`EntryStore.settle`).

    CRASH: the marks go into each index before what ends the doubt there, and of what is not flushed a prefix survives:
    no ledger is out of doubt without its mark. An index that was flushed later than another has more left to examine.
    """
    doubt = max((partition.table.doubt for partition in partitions), key=lambda doubt: doubt.epoch)
    await _mark(partitions, number_of, wanted, epoch=doubt.epoch)
    for partition in partitions:
        found = partition.table.doubt
        early = [ledger_id for ledger_id in examined if number_of(ledger_id) == partition.number]
        early = [ledger_id for ledger_id in early if found.is_left(ledger_id)]
        left = found if rest is None else found.examined_down_to(rest)
        if left == found and not early:
            continue
        partition.table.settle(early)
        partition.index.put_examined(early, found.epoch)
        if left != found:
            partition.save_doubt(left)
        await flush(partition)
        partition.table.examined(left, early)


async def mark_given_up(
    partitions: Sequence[Partition], number_of: NumberOf, ledger_ids: Iterable[LedgerId], *, flush: FlushIndex
) -> None:
    """Mark ledgers whose entries are about to be given up (`EntryStore.mark_given_up`).

    CRASH: the mark is in the index alone, before an entry goes, so whatever is cut afterwards leaves the mark. A mark
    without a deletion costs a "no" about a closed ledger that does not name us.
    """
    marked: dict[int, list[Ledger]] = {}
    for ledger_id in ledger_ids:
        partition = partitions[number_of(ledger_id)]
        ledger = partition.table.find(ledger_id)
        if ledger is None:
            continue
        # CRASH: before the flag: a checkpoint may write this row while another partition is flushed below.
        partition.begin_giving_up()
        ledger.flags = (ledger.flags | GIVEN_UP | FENCED) & ~NAMED_AGAIN
        partition.table.changed(ledger)
        marked.setdefault(partition.number, []).append(ledger)
    for number in sorted(marked):
        await _put_rows(partitions[number], marked[number])
        await flush(partitions[number])


async def _mark(
    partitions: Sequence[Partition], number_of: NumberOf, wanted: Iterable[Mark], *, epoch: int
) -> list[Partition]:
    """Set the marks, and put their rows into the indexes, not flushed. Return the partitions concerned, ascending."""
    wanted = list(wanted)
    for ledger_id, _, _, master_key in wanted:
        limits.check_mark(ledger_id, master_key, epoch)
    marked: dict[int, list[Ledger]] = {}
    for count, (ledger_id, fence, limbo, master_key) in enumerate(wanted, 1):
        partition = partitions[number_of(ledger_id)]
        ledger = partition.table.find(ledger_id)
        if ledger is None:
            ledger = partition.table.create(ledger_id, master_key or b"")
        elif not ledger.master_key or (ledger.flags & DOUBT and master_key):
            # A key that came while the ledger was in doubt is the first comer's; the record has the right one.
            ledger.master_key = master_key or b""
        if fence:
            ledger.flags |= STATE_LOST
        if limbo:
            ledger.flags |= LIMBO
            ledger.limbo_epoch = epoch
        partition.table.changed(ledger)
        marked.setdefault(partition.number, []).append(ledger)
        if count % INDEX_BATCH_COUNT == 0:
            await pause()
    for number in sorted(marked):
        await _put_rows(partitions[number], marked[number])
    return [partitions[number] for number in sorted(marked)]


async def _put_rows(partition: Partition, marked: Sequence[Ledger]) -> None:
    """Put the rows of marked ledgers into the index; let other tasks run between batches.

    Each row is packed just before its write: one packed earlier would undo what came for the ledger meanwhile, a fence
    say, and what a checkpoint has written since with its mark moved past it. A ledger that has left memory since was
    written by such a checkpoint, or is deleted and must not come back.
    """
    known = partition.table.known
    for start in range(0, len(marked), INDEX_BATCH_COUNT):
        batch = marked[start : start + INDEX_BATCH_COUNT]
        present = [ledger for ledger in batch if known.get(ledger.ledger_id) is ledger]
        partition.index.put_many(partition.table.rows_of(present))
        await pause()
