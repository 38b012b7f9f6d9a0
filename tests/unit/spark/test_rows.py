"""Entries and metadata as rows: bounded batches, exact columns."""

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Entry
from bookie.client.net.watcher import BookieRecord
from bookie.metadata.ledger import LedgerMetadata, Segment, new_ledger
from bookie.ports.network import Address
from pyspark_bookkeeper import batch, options, rows, schema, views
from pyspark_bookkeeper.partitions import Piece
from pyspark_bookkeeper.rows import ROWS_MAX, Corrupt, RowBatcher, RowRun

NOWHERE = {"metadataServiceUri": "zk+hierarchical://127.0.0.1:1/ledgers"}
ALL = "ledger_id,entry_id,value,last_add_confirmed,length,ledger_ctime,error"


def piece(ledger_id: int, start: int, end: int, *, ctime_ms: int = 1_500) -> Piece:
    return Piece(LedgerId(ledger_id), start, end, 99, ctime_ms, 0, BookieId("a"))


def arrow(names: str) -> pa.Schema:
    return schema.arrow_schema(schema.of(options.parse({**NOWHERE, "columns": names})))


def entry(entry_id: int, size_bytes: int = 2) -> Entry:
    return Entry(EntryId(entry_id), b"x" * size_bytes, 2 * (entry_id + 1))


def gathered(batcher: RowBatcher, *runs: RowRun) -> Iterator[pa.RecordBatch]:
    for run in runs:
        yield from batcher.add(run)
    yield from batcher.take()


def test_a_batch_holds_runs_of_several_ledgers_and_every_column() -> None:
    first, second = piece(1, 0, 2), piece(2, 5, 6, ctime_ms=-1)
    batcher = RowBatcher(arrow(ALL), 1_000)

    (found,) = gathered(batcher, RowRun(first, [entry(0), entry(1)]), RowRun(second, [Corrupt(5, "rot")]))

    when = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC)
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (1, 0, b"xx", 99, 2, when, None),
        (1, 1, b"xx", 99, 4, when, None),
        (2, 5, None, 99, None, None, "rot"),
    ]


@pytest.mark.parametrize(("size_bytes", "sizes"), [(10, [3, 3, 1]), (40, [1] * 7), (1, [7])])
def test_a_batch_ends_with_the_entry_that_fills_it(size_bytes: int, sizes: list[int]) -> None:
    batcher = RowBatcher(arrow("value"), 30)

    found = gathered(batcher, *(RowRun(piece(1, 0, 7), [entry(number, size_bytes)]) for number in range(7)))

    assert [one.num_rows for one in found] == sizes


def test_a_batch_of_small_entries_is_bounded_by_rows() -> None:
    batcher = RowBatcher(arrow("entry_id"), 1 << 30)

    found = list(
        gathered(
            batcher, *(RowRun(piece(1, 0, 3 * ROWS_MAX), range(n * ROWS_MAX, (n + 1) * ROWS_MAX)) for n in range(3))
        )
    )

    assert [one.num_rows for one in found] == [ROWS_MAX] * 3
    assert found[2].column(0)[0].as_py() == 2 * ROWS_MAX
    assert batcher.room_rows == ROWS_MAX


def test_a_reader_of_ids_needs_no_fleet() -> None:
    wanted = schema.of(options.parse({**NOWHERE, "columns": "ledger_id,entry_id"}))
    reader = batch.EntryReader(options.parse({**NOWHERE, "columns": "ledger_id,entry_id"}), wanted)

    found = [row for one in reader.read(batch.EntryPartition((piece(7, 3, 6),))) for row in one.to_pylist()]

    assert found == [{"ledger_id": 7, "entry_id": one} for one in (3, 4, 5)]


def test_a_partition_of_sparks_own_making_is_empty() -> None:
    """What Spark reads when there is none of ours (plan_data_source_read.py)."""
    for given in (NOWHERE, {**NOWHERE, "view": "bookies"}):
        parsed = options.parse(given)
        kind = batch.EntryReader if parsed.view is options.View.ENTRIES else views.ViewReader

        assert list(kind(parsed, schema.of(parsed)).read(InputPartition(None))) == []


# ---- metadata views --------------------------------------------------------------------------------------------------


def ledger(*, ensemble: str, quorum: int, segments: tuple[Segment, ...] = ()) -> LedgerMetadata:
    made = new_ledger(
        ensemble_size=len(ensemble), write_quorum=quorum, ack_quorum=1, bookies=tuple(map(BookieId, ensemble))
    )
    for segment in segments:
        made = made.with_ensemble(segment.first_entry, segment.bookies)
    return made


@pytest.mark.parametrize("quorum", [1, 2, 3])
@pytest.mark.parametrize("last", [-1, 0, 4, 10, 11])
def test_replicas_are_counted_as_the_write_sets_say(quorum: int, last: int) -> None:
    made = ledger(ensemble="abc", quorum=quorum).closed(EntryId(last), 1)

    found = {str(row["bookie_id"]): row["entries"] for row in views.replica_rows(LedgerId(1), made, 0)}

    assert found == {bookie: sum(bookie in made.write_set(EntryId(one)) for one in range(last + 1)) for bookie in "abc"}


def test_a_segment_without_an_end_promises_an_unknown_number() -> None:
    changed = Segment(EntryId(6), tuple(map(BookieId, "abd")))
    made = ledger(ensemble="abc", quorum=3, segments=(changed,))

    found = [
        (row["bookie_id"], row["first_entry"], row["last_entry"], row["entries"])
        for row in views.replica_rows(LedgerId(1), made, 0)
    ]

    assert found == [
        *((bookie, 0, 5, 6) for bookie in "abc"),
        *((bookie, 6, None, None) for bookie in "abd"),
    ]


def test_an_open_ledger_has_no_end_in_its_row() -> None:
    (row,) = views.ledger_rows(LedgerId(1), ledger(ensemble="a", quorum=1), 3)

    assert (row["state"], row["last_entry"], row["length"], row["version"]) == ("OPEN", None, None, 3)


def test_a_bookie_that_is_only_known_by_its_cookie_is_gone() -> None:
    alive = BookieRecord(BookieId("b"), Address("10.0.0.2", 3181), "z1", is_read_only=True)

    found = list(views.bookie_rows([BookieId("a"), BookieId("b")], [alive], {BookieId("b"): (10, 4)}))

    assert [(row["bookie_id"], row["state"], row["zone"], row["free_bytes"]) for row in found] == [
        ("a", "gone", None, None),
        ("b", "read-only", "z1", 4),
    ]


def test_a_time_is_exact_to_the_millisecond_and_unknown_is_null() -> None:
    assert rows.time_of(-1) is None
    assert rows.time_of(1) == dt.datetime(1970, 1, 1, 0, 0, 0, 1_000, tzinfo=dt.UTC)
    assert rows.time_of(0) == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
