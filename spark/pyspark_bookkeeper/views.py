"""The metadata views show the metadata store's records and the registrations as tables. They read no entry.

`replicas` is what the metadata promises: which bookie should hold which entries. The audit checks whether it does.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import div_ceil
from bookie.client import Client, DigestType
from bookie.client.net.watcher import BookieRecord
from bookie.metadata.ledger import LedgerMetadata
from pyspark_bookkeeper import fleet, planning, schema
from pyspark_bookkeeper.options import SourceOptions, View
from pyspark_bookkeeper.rows import time_of

# A metadata store gives a client some thousand records a second: a task of a second.
LEDGERS_PER_PARTITION = 5_000
ROWS_PER_BATCH = 2_000

# A state that the metadata does not know: nobody can read the record.
UNREADABLE = "UNREADABLE"

Row = Mapping[str, Any]


class ViewPartition(InputPartition):
    """The ledgers of one task; None: the view is not about ledgers."""

    def __init__(self, ledger_ids: list[LedgerId] | None) -> None:
        super().__init__(None)
        self.ledger_ids = ledger_ids


class ViewReader(DataSourceReader):
    """Reads `view=ledgers|bookies|replicas`. Like EntryReader, it takes no filters."""

    def __init__(self, options: SourceOptions, wanted: StructType) -> None:
        schema.check(options, wanted)
        self._options = options
        self._schema = schema.arrow_schema(wanted)

    def partitions(self) -> list[InputPartition]:
        if self._options.view is View.BOOKIES:
            return [ViewPartition(None)]
        unreadable: dict[LedgerId, str] = {}
        selected = [one for one, _, _ in planning.select(self._options, unreadable)]
        if self._options.view is View.LEDGERS:
            selected = sorted([*selected, *unreadable])
        count = max(self._options.partitions_min, div_ceil(len(selected), LEDGERS_PER_PARTITION))
        size = max(1, div_ceil(len(selected), count))
        return [ViewPartition(selected[start : start + size]) for start in range(0, len(selected), size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ViewPartition):
            return
        rows = self._rows(partition)
        wanted = self._schema.names
        while batch := list(itertools.islice(rows, ROWS_PER_BATCH)):
            columns = {name: [row[name] for row in batch] for name in wanted}
            yield pa.RecordBatch.from_pydict(columns, schema=self._schema)

    def _rows(self, partition: ViewPartition) -> Iterator[Row]:
        if partition.ledger_ids is None:
            yield from _bookies(self._options)
            return
        rows_of: Callable[[LedgerId, LedgerMetadata, int], Iterable[Row]]
        rows_of = ledger_rows if self._options.view is View.LEDGERS else replica_rows
        unreadable: dict[LedgerId, str] = {}
        found = fleet.client(self._options.connection).snapshot(partition.ledger_ids, unreadable=unreadable)
        gone = dict.fromkeys(partition.ledger_ids)
        for ledger_id, metadata, version in found:
            gone.pop(ledger_id, None)
            yield from rows_of(ledger_id, metadata, version)
        if self._options.view is View.LEDGERS:
            yield from (unreadable_row(*one) for one in unreadable.items())
        planning.check_still_there(self._options, gone, unreadable)


# ---- rows ------------------------------------------------------------------------------------------------------------


def ledger_rows(ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> Iterable[Row]:
    """Return one row. `last_entry` and `length` are null while the ledger is not closed."""
    return [
        {
            "ledger_id": ledger_id,
            "state": metadata.state.name,
            "ensemble_size": metadata.ensemble_size,
            "write_quorum": metadata.write_quorum,
            "ack_quorum": metadata.ack_quorum,
            "digest": _digest_name(metadata.digest_type),
            "ctime": time_of(metadata.ctime_ms),
            "last_entry": metadata.last_entry if metadata.is_closed else None,
            "length": metadata.length if metadata.is_closed else None,
            "segments": [
                {"first_entry": segment.first_entry, "bookies": list(segment.bookies)} for segment in metadata.segments
            ],
            "custom": list(metadata.custom),
            "version": version,
            "error": None,
        }
    ]


def unreadable_row(ledger_id: LedgerId, reason: str) -> Row:
    """Return the row of a ledger whose record exists but cannot be read."""
    names = schema.names_of(View.LEDGERS)
    return {**dict.fromkeys(names), "ledger_id": ledger_id, "state": UNREADABLE, "error": reason}


def replica_rows(ledger_id: LedgerId, metadata: LedgerMetadata, _: int) -> Iterable[Row]:
    """Yield one row for each segment and position of its ensemble. `last_entry` and `entries` are null without an
    end; `entries` leaves out what was declared lost, which nobody owes (spec/metadata.md#M57)."""
    owed: dict[EntryId, list[tuple[EntryId, EntryId]]] = {}
    for segment, first, last in metadata.owed_ranges():
        if last is not None:
            owed.setdefault(segment.first_entry, []).append((first, last))
    for segment, first, last in metadata.segment_ranges():
        for position, bookie_id in enumerate(segment.bookies):
            yield {
                "ledger_id": ledger_id,
                "bookie_id": bookie_id,
                "position": position,
                "first_entry": first,
                "last_entry": last,
                "entries": None
                if last is None
                else sum(_entries_at(metadata, position, *one) for one in owed.get(first, ())),
            }


def _entries_at(metadata: LedgerMetadata, position: int, first: EntryId, last: EntryId) -> int:
    """Return how many of the entries `first`..`last` belong on `position`: entry e does when (position - e) mod E < W
    (CONFORMANCE.md#P7)."""
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    cycles, rest = divmod(last - first + 1, size)
    return cycles * quorum + sum((position - entry) % size < quorum for entry in range(first, first + rest))


def bookie_rows(
    known: Iterable[BookieId], alive: Iterable[BookieRecord], disks: Mapping[BookieId, tuple[int, int]]
) -> Iterable[Row]:
    """Yield one row for each bookie that has a cookie or is registered. `disks`: (total, free) bytes, where a bookie
    answered."""
    records = {record.bookie_id: record for record in alive}
    for bookie_id in sorted({*known, *records}):
        record = records.get(bookie_id)
        total, free = disks.get(bookie_id, (None, None))
        yield {
            "bookie_id": bookie_id,
            "state": "gone" if record is None else "read-only" if record.is_read_only else "writable",
            "address": None if record is None or record.address is None else str(record.address),
            "zone": None if record is None or not record.zone else record.zone,
            "total_bytes": total,
            "free_bytes": free,
        }


def _bookies(options: SourceOptions) -> Iterable[Row]:
    alive = fleet.bookies(options.connection)
    disks = fleet.client(options.connection).run(lambda client: _ask_disks(client, [one.bookie_id for one in alive]))
    return bookie_rows(fleet.known_bookies(options.connection), alive, disks)


async def _ask_disks(client: Client, bookies: list[BookieId]) -> dict[BookieId, tuple[int, int]]:
    async def ask(bookie_id: BookieId) -> tuple[int, int] | None:
        try:
            return await client.bookies.info(bookie_id)
        except BookieError:
            return None  # the row says so: null

    answers = await asyncio.gather(*map(ask, bookies))
    return {one: answer for one, answer in zip(bookies, answers, strict=True) if answer is not None}


def _digest_name(digest_type: int) -> str:
    try:
        return DigestType(digest_type).name
    except ValueError:
        return str(digest_type)
