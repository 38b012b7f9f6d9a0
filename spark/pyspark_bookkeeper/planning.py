"""Where a query is planned: the ledgers it selects, how far each is confirmed, and who reads what.

Runs once per query, in a Python process of Spark's driver. The only place that reads password files, id files and
environment variables; tasks get ids and ranges and nothing secret.
"""

import asyncio
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId, parse_ledger_id
from bookie.client import Client
from bookie.metadata.ledger import LedgerMetadata
from pyspark_bookkeeper import client_settings, fleet, partitions, ranges, selection
from pyspark_bookkeeper.options import SourceOptions
from pyspark_bookkeeper.partitions import ENTRY_COST_BYTES, IDS_PER_PARTITION, Limits, Piece
from pyspark_bookkeeper.ranges import Ranges

Selected = tuple[LedgerId, LedgerMetadata, int]


def select(options: SourceOptions, left: Ranges) -> Iterator[Selected]:
    """(id, metadata, version) of the ledgers that the query selects; `left`: what filters leave of their ids.

    Raises LedgerMissing for a ledger that the query names and the fleet does not have, unless `failOnDataLoss` is off.
    """
    file_ids = None if options.ledger_ids_from is None else _ids_in(options.ledger_ids_from)
    wanted = selection.candidates(options, left, file_ids)
    missing = dict.fromkeys(selection.required(options, wanted, file_ids))
    for ledger_id, metadata, version in fleet.snapshot(options.connection, _listed(options, wanted)):
        missing.pop(ledger_id, None)
        if selection.is_selected(options, metadata):
            yield ledger_id, metadata, version
    if missing and options.fail_on_data_loss:
        raise errors.LedgerMissing(
            f"ledger {min(missing)} does not exist in the cluster at {options.metadata_uri}: correct ledgers or "
            "ledgerIdsFrom, or set failOnDataLoss=false"
        )


def _listed(options: SourceOptions, wanted: Ranges) -> Iterable[LedgerId]:
    if ranges.size(wanted) <= selection.ASKED_ONE_BY_ONE_MAX:
        return [LedgerId(one) for each in wanted for one in each.ids]
    everything = fleet.ledger_ids(options.connection)
    return (one for one in everything if ranges.contains(wanted, one))


def plan_entries(
    options: SourceOptions, ledgers: Ranges, entries: Ranges, *, is_fetching: bool
) -> list[tuple[Piece, ...]]:
    """What each task reads. `ledgers`, `entries`: what filters leave of the ids. `is_fetching`: payloads are read."""
    password = read_password(options, os.environ)
    pieces: list[Piece] = []
    is_open: list[tuple[LedgerId, LedgerMetadata]] = []
    for ledger_id, metadata, _ in select(options, ledgers):
        selection.admit(options, ledger_id, metadata, password)
        if metadata.is_closed:
            pieces += _pieces(options, ledger_id, metadata, End(metadata.last_entry, metadata.length), entries)
        else:
            is_open.append((ledger_id, metadata))  # few: of the others only what is read of them is kept
    for (ledger_id, metadata), end in zip(is_open, _ends(options, [one for one, _ in is_open]), strict=True):
        if end is not None:
            pieces += _pieces(options, ledger_id, metadata, end, entries)
    if is_fetching:
        limits = Limits(options.partition_bytes_max, options.partition_entries_max, options.partitions_min)
    else:
        limits = Limits(
            IDS_PER_PARTITION * ENTRY_COST_BYTES,
            options.partition_entries_max or IDS_PER_PARTITION,
            options.partitions_min,
        )
    return partitions.plan(pieces, limits)


class End(NamedTuple):
    """How far a ledger is confirmed (-1: nothing), and the payload bytes up to there."""

    last_confirmed: int
    length: int


def _pieces(
    options: SourceOptions, ledger_id: LedgerId, metadata: LedgerMetadata, end: End, entries: Ranges
) -> list[Piece]:
    whole = selection.span(options, ledger_id, end.last_confirmed)
    if whole is None:
        return []
    return [
        Piece(
            ledger_id=ledger_id,
            start=first,
            end=behind,
            last_confirmed=end.last_confirmed,
            ctime_ms=metadata.ctime_ms,
            size_bytes=end.length * (behind - first) // (end.last_confirmed + 1),
            bookie_id=metadata.write_set(EntryId(first))[0],
        )
        for first, behind in ranges.intersection((whole,), entries)
    ]


# ---- how far open ledgers are confirmed ------------------------------------------------------------------------------


def _ends(options: SourceOptions, ledger_ids: Sequence[LedgerId]) -> Iterator[End | None]:
    """The bookies' word for each ledger, in order; None for one that is gone, where that is accepted."""
    client = fleet.client(options.connection)
    for start in range(0, len(ledger_ids), fleet.QUESTIONS_MAX):
        asked = ledger_ids[start : start + fleet.QUESTIONS_MAX]
        for ledger_id, answer in zip(asked, client.run(functools.partial(_ask_ends, asked)), strict=True):
            if isinstance(answer, errors.LedgerMissing) and not options.fail_on_data_loss:
                yield None
            elif isinstance(answer, BookieError):
                raise type(answer)(f"ledger {ledger_id} is open, and how far it is confirmed cannot be told: {answer}")
            else:
                yield answer


async def _ask_ends(ledger_ids: Sequence[LedgerId], client: Client) -> list[End | BookieError]:
    async def ask(ledger_id: LedgerId) -> End | BookieError:
        try:
            async with await client.open_no_recovery(ledger_id, administrative=True) as reader:
                last = reader.last_confirmed
                if last < 0:
                    return End(last, 0)
                try:
                    (entry,) = await reader.read(last, last)
                except BookieError:
                    return End(last, (last + 1) * ENTRY_COST_BYTES)  # a guess: whoever reads it meets the error
                return End(last, entry.length)
        except BookieError as error:
            return error

    return await asyncio.gather(*map(ask, ledger_ids))


# ---- files and environment -------------------------------------------------------------------------------------------


def read_password(options: SourceOptions, environment: Mapping[str, str]) -> bytes:
    """The password of the ledgers, empty if the query names none. A line end at the end of a file is not part of it.

    Raises BadInput naming what cannot be read; never with a content.
    """
    if options.password_env is not None:
        found = environment.get(options.password_env)
        if found is None:
            raise errors.BadInput(
                f"passwordEnv: the environment variable {options.password_env} is not set where the query is planned, "
                "the driver: export it there before Spark starts"
            )
        return found.encode()
    if options.password_file is None:
        return b""
    return client_settings.read_secret(options.password_file, "passwordFile")


def _ids_in(path: str) -> list[LedgerId]:
    """Ids from a text file, one a line, or from the column `ledger_id` of Parquet (a file or a folder)."""
    try:
        if path.endswith(".parquet") or Path(path).is_dir():
            import pyarrow.parquet

            found = pyarrow.parquet.read_table(path, columns=["ledger_id"])["ledger_id"].unique().to_pylist()
            return [LedgerId(one) for one in found]
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        return [parse_ledger_id(line.strip()) for line in lines if line.strip()]
    except (OSError, ValueError, errors.BadInput) as error:
        reason = getattr(error, "strerror", None) or error
        raise errors.BadInput(f"ledgerIdsFrom: {path} cannot be used: {reason}") from error
