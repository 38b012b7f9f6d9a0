"""What a task does: its pieces of ledgers, read and verified, as record batches.

Ledgers that are open are read without recovery, up to the entry that was confirmed when the query was planned: a writer
is never fenced and notices nothing. Digests are verified by the client, replica after replica; what is said here is
what a query does when none is left.
"""

from collections.abc import Iterator

import pyarrow as pa

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.blocking import BlockingClient, BlockingReader
from pyspark_bookkeeper.options import OnCorrupt, SourceOptions
from pyspark_bookkeeper.partitions import Piece
from pyspark_bookkeeper.rows import ROWS_MAX, Batcher, Corrupt, Run


def read_ids(pieces: tuple[Piece, ...], schema: pa.Schema, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a query that asks for nothing of the entries themselves: from the plan, without a connection.

    They are what was acknowledged, by the rule that a ledger holds every entry up to its last. Whether replicas have
    them is another question, which the audit answers.
    """
    batcher = Batcher(schema, options.batch_bytes_max)
    for piece in pieces:
        for start in range(piece.start, piece.end, ROWS_MAX):
            yield from batcher.add(Run(piece, range(start, min(start + ROWS_MAX, piece.end))))
    yield from batcher.take()


def read_entries(
    client: BlockingClient, pieces: tuple[Piece, ...], schema: pa.Schema, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """The entries of `pieces`, in order. Raises a BookieError whose text is one sentence for whoever runs the query."""
    batcher = Batcher(schema, options.batch_bytes_max)
    for piece in pieces:
        try:
            reader = _open(client, piece)
        except errors.LedgerMissing:
            if options.fail_on_data_loss:
                raise _deleted(piece.ledger_id) from None
            continue
        with reader:
            yield from _read_piece(client, reader, piece, batcher, options)
    yield from batcher.take()


def _open(client: BlockingClient, piece: Piece) -> BlockingReader:
    return client.open_no_recovery(piece.ledger_id, administrative=True, confirmed=EntryId(piece.last_confirmed))


def _read_piece(
    client: BlockingClient, reader: BlockingReader, piece: Piece, batcher: Batcher, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Read on behind each entry that cannot be read, as far as the query allows."""
    next_entry = piece.start
    while next_entry < piece.end:
        batches = reader.read_batches(
            next_entry, piece.end - 1, count_max=batcher.room_rows, bytes_max=batcher.room_bytes
        )
        try:
            for entries in batches:
                next_entry = entries[-1].entry_id + 1
                yield from batcher.add(Run(piece, entries))
        except errors.DigestMismatch as error:
            said = (
                f"ledger {piece.ledger_id} entry {next_entry} is corrupt on every replica that answered: {error}; "
                "to read on, set onCorrupt=skip or onCorrupt=emit"
            )
            match options.on_corrupt:
                case OnCorrupt.FAIL:
                    raise errors.DigestMismatch(said) from error
                case OnCorrupt.EMIT:
                    yield from batcher.add(Run(piece, [Corrupt(next_entry, str(error))]))
            next_entry += 1
        except BookieError as error:
            if _is_deleted(client, piece.ledger_id):
                if options.fail_on_data_loss:
                    raise _deleted(piece.ledger_id) from error
                return
            if not isinstance(error, errors.NoSuchEntry | errors.NoSuchLedger):
                raise _unreadable(piece.ledger_id, next_entry, error) from error
            if options.fail_on_data_loss:
                raise errors.NoSuchEntry(
                    f"ledger {piece.ledger_id} entry {next_entry} was acknowledged, and every replica denies having "
                    "it: run the audit; to read on, set failOnDataLoss=false"
                ) from error
            next_entry += 1


def _is_deleted(client: BlockingClient, ledger_id: LedgerId) -> bool:
    """Bookies drop the entries of a deleted ledger, so a failure may be no more than that."""
    try:
        client.metadata(ledger_id)
    except errors.LedgerMissing:
        return True
    except BookieError:
        return False  # nobody knows: the first failure tells more
    return False


def _deleted(ledger_id: LedgerId) -> errors.LedgerMissing:
    return errors.LedgerMissing(
        f"ledger {ledger_id} was deleted while it was read: run the query again, or set failOnDataLoss=false"
    )


def _unreadable(ledger_id: LedgerId, entry_id: int, error: BookieError) -> BookieError:
    """The same error, with the entry named."""
    return type(error)(f"ledger {ledger_id} entry {entry_id} cannot be read now: {error}")
