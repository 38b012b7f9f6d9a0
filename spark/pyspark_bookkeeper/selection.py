"""Decides which ledgers, and which of their entries, a query reads. Pure: metadata in, decisions out."""

from collections.abc import Collection, Iterable

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.metadata.ledger import LedgerMetadata
from pyspark_bookkeeper import offsets, ranges
from pyspark_bookkeeper.options import SourceOptions
from pyspark_bookkeeper.ranges import Range, Ranges

# Asking for that many ids one by one is not dearer than listing all ledgers of a fleet.
ASKED_ONE_BY_ONE_MAX = 10_000


def candidates(options: SourceOptions, file_ids: Collection[LedgerId] | None) -> Ranges:
    """Return the ids to look at. `file_ids`: the ids in the file `ledgerIdsFrom`."""
    if file_ids is not None:
        return ranges.of_ids(file_ids)
    return ranges.EVERYTHING if options.ledgers is None else ranges.union(options.ledgers)


def required(options: SourceOptions, file_ids: Collection[LedgerId] | None) -> Iterable[LedgerId]:
    """Return the ledgers that the query names one by one: it fails when one of them does not exist."""
    if file_ids is not None:
        return file_ids
    return [LedgerId(one.start) for one in options.ledgers or () if one.is_one]


def is_selected(options: SourceOptions, metadata: LedgerMetadata) -> bool:
    """Apply the conditions that need the metadata: `ledgerFilter` and `startingTimestamp`."""
    custom = dict(metadata.custom)
    if any(custom.get(key) != value for key, value in options.ledger_filter):
        return False
    return options.starting_timestamp_ms is None or metadata.ctime_ms >= options.starting_timestamp_ms


def deleted(ledger_id: LedgerId) -> errors.LedgerMissing:
    """Return the error of a ledger that was there when the query was planned."""
    return errors.LedgerMissing(
        f"ledger {ledger_id} was deleted after the query was planned: load() the DataFrame again, since Spark keeps "
        "its plan, or set failOnDataLoss=false"
    )


def why_endless(metadata: LedgerMetadata) -> str:
    """Return why nobody can plan a read of this ledger: its record claims more entries than any has; "" when it does
    not. Any client can write such a record."""
    if metadata.last_entry < ranges.ENTRIES_MAX:
        return ""
    return f"it claims entries up to {metadata.last_entry}, more than any ledger has ({ranges.ENTRIES_MAX})"


def admit(options: SourceOptions, ledger_id: LedgerId, metadata: LedgerMetadata, password: bytes) -> None:
    """Check the password as every client does: raw bytes, compared with the metadata (`Client.open`). Raises
    Unauthorized.

    Called once, where the query is planned; tasks need no password and so carry none.
    """
    if not metadata.has_password or metadata.password == password:
        return
    if options.password_file is None and options.password_env is None:
        raise errors.Unauthorized(
            f"ledger {ledger_id} has a password: name the file that holds it with the option passwordFile, "
            "or the environment variable with passwordEnv"
        )
    where = options.password_file or f"the environment variable {options.password_env}"
    raise errors.Unauthorized(f"ledger {ledger_id}: the password in {where} is wrong")


def span(options: SourceOptions, ledger_id: LedgerId, last_confirmed: int) -> Range | None:
    """Return the entries to read of a ledger that is confirmed up to `last_confirmed` (-1: nothing); None for none.

    Raises NoSuchEntry when the query names entries that are not there and `failOnDataLoss` holds.
    """
    start = options.starting_offsets.of(ledger_id)
    end = options.ending_offsets.of(ledger_id)
    limit = last_confirmed + 1
    for name, offset in (("startingOffsets", start), ("endingOffsets", end)):
        if offset > limit and options.fail_on_data_loss:
            raise errors.NoSuchEntry(
                f"ledger {ledger_id} is confirmed up to entry {last_confirmed}, {name} says {offset}: correct it, or "
                "read what there is with failOnDataLoss=false"
            )
    start = 0 if start == offsets.EARLIEST else start
    end = limit if end == offsets.LATEST else min(end, limit)
    return Range(start, end) if start < end else None
