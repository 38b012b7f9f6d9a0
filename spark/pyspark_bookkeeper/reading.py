"""Does the work of a task: reads and verifies its pieces of ledgers, and gives record batches.

Ledgers that are open are read without recovery, up to the entry that was confirmed when the query was planned: a writer
is never fenced and notices nothing. The client verifies digests, replica after replica; this module decides what a
query does when no good replica is left.
"""

import logging
from collections.abc import Iterator

import pyarrow as pa

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.base.text import one_line
from bookie.blocking import BlockingClient, BlockingReader
from bookie.metadata.lost_entries import Act
from pyspark_bookkeeper import selection
from pyspark_bookkeeper.options import OnCorrupt, SourceOptions
from pyspark_bookkeeper.partitions import Piece
from pyspark_bookkeeper.rows import ROWS_MAX, Corrupt, RowBatcher, RowRun

log = logging.getLogger(__name__)


def read_ids(pieces: tuple[Piece, ...], schema: pa.Schema, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query that needs nothing of the entries themselves: from the plan, without a connection.

    These are the acknowledged entries, by the rule that a ledger holds every entry up to its last. The audit checks
    whether replicas have them.
    """
    batcher = RowBatcher(schema, options.batch_bytes_max)
    for piece in pieces:
        for start in range(piece.start, piece.end, ROWS_MAX):
            yield from batcher.add(RowRun(piece, range(start, min(start + ROWS_MAX, piece.end))))
    yield from batcher.take()


def read_entries(
    client: BlockingClient, pieces: tuple[Piece, ...], schema: pa.Schema, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the entries of `pieces`, in order. Raises a BookieError whose text is one sentence for a person."""
    batcher = RowBatcher(schema, options.batch_bytes_max)
    left_out = LeftOut()
    for piece in pieces:
        try:
            reader = _open(client, piece)
        except errors.LedgerMissing:
            if options.fail_on_data_loss:
                raise selection.deleted(piece.ledger_id) from None
            left_out.add(piece.ledger_id, piece.start, piece.entries, "the ledger is gone")
            continue
        with reader:
            yield from _read_piece(client, reader, piece, batcher, options, left_out)
    yield from batcher.take()
    left_out.tell()


class LeftOut:
    """Counts the entries that a task leaves out, as its options allow, and logs one line when the task ends."""

    def __init__(self) -> None:
        self.entries = 0
        self._first = ""

    def add(self, ledger_id: LedgerId, entry_id: int, count: int, why: str) -> None:
        self._first = self._first or f"ledger {ledger_id} entry {entry_id}: {why}"
        self.entries += count

    def tell(self) -> None:
        if self.entries:
            log.warning("%d entries are left out, as the options allow; the first: %s", self.entries, self._first)


def _open(client: BlockingClient, piece: Piece) -> BlockingReader:
    return client.open_no_recovery(piece.ledger_id, administrative=True, confirmed=EntryId(piece.last_confirmed))


def _read_piece(
    client: BlockingClient,
    reader: BlockingReader,
    piece: Piece,
    batcher: RowBatcher,
    options: SourceOptions,
    left_out: LeftOut,
) -> Iterator[pa.RecordBatch]:
    """Read a piece; go on behind each entry that cannot be read, as far as the query allows."""
    next_entry = piece.start
    while next_entry < piece.end:
        batches = reader.read_batches(
            next_entry, piece.end - 1, count_max=batcher.room_rows, bytes_max=batcher.room_bytes
        )
        try:
            for entries in batches:
                next_entry = entries[-1].entry_id + 1
                yield from batcher.add(RowRun(piece, entries))
        except errors.DigestMismatch as error:
            said = (
                f"ledger {piece.ledger_id} entry {next_entry} is corrupt on every replica that answered: {error}; "
                "to read on, set onCorrupt=skip or onCorrupt=emit"
            )
            match options.on_corrupt:
                case OnCorrupt.FAIL:
                    raise errors.DigestMismatch(said) from error
                case OnCorrupt.EMIT:
                    yield from batcher.add(RowRun(piece, [Corrupt(next_entry, str(error))]))
                case OnCorrupt.SKIP:
                    left_out.add(piece.ledger_id, next_entry, 1, str(error))
            next_entry += 1
        except BookieError as error:
            if _is_deleted(client, piece.ledger_id):
                if options.fail_on_data_loss:
                    raise selection.deleted(piece.ledger_id) from error
                left_out.add(piece.ledger_id, next_entry, piece.end - next_entry, "the ledger is gone")
                return
            if not isinstance(error, errors.NoSuchEntry | errors.NoSuchLedger):
                raise _unreadable(piece.ledger_id, next_entry, error) from error
            act = reader.metadata.loss_of(EntryId(next_entry))
            if options.fail_on_data_loss:
                raise errors.NoSuchEntry(_lost(piece.ledger_id, next_entry, act)) from error
            why = "every replica denies having it" if act is None else f"it was declared lost by {one_line(act.by)}"
            left_out.add(piece.ledger_id, next_entry, 1, why)
            next_entry += 1


def _is_deleted(client: BlockingClient, ledger_id: LedgerId) -> bool:
    """Return True when the ledger was deleted: its bookies then drop its entries, which explains a failed read."""
    try:
        client.metadata(ledger_id)
    except errors.LedgerMissing:
        return True
    except BookieError:
        return False  # nobody knows: the first failure tells more
    return False


def _lost(ledger_id: LedgerId, entry_id: int, act: Act | None) -> str:
    """Say that an entry is gone for good. Of what a person declared lost, the audit has no more to tell."""
    told = f"ledger {ledger_id} entry {entry_id} was acknowledged, and "
    if act is None:
        return f"{told}every replica denies having it: run the audit; to read on, set failOnDataLoss=false"
    return f"{told}declared lost by {one_line(act.by)}: {one_line(act.reason)}; to read on, set failOnDataLoss=false"


def _unreadable(ledger_id: LedgerId, entry_id: int, error: BookieError) -> BookieError:
    """Return `error` with the entry named."""
    return type(error)(f"ledger {ledger_id} entry {entry_id} cannot be read now: {error}")
