"""Plans a query on the driver: which ledgers, up to which entry of each, and which task reads what.

Runs once per query, in a Python process of Spark's driver. The only place that reads password files, id files and
environment variables; tasks get ids and ranges and nothing secret.
"""

import asyncio
import functools
import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bookie import connect
from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId, parse_ledger_id
from bookie.base.text import one_line
from bookie.base.units import GIB
from bookie.client import Client
from bookie.metadata.ledger import LedgerMetadata
from pyspark_bookkeeper import client_settings, fleet, partitions, ranges, selection
from pyspark_bookkeeper.options import OnUnreadableLedger, SourceOptions, View
from pyspark_bookkeeper.partitions import ENTRY_COST_BYTES, IDS_PER_PARTITION, Limits, Piece
from pyspark_bookkeeper.ranges import Ranges

log = logging.getLogger(__name__)

# More ids than any fleet has ledgers; what is longer is another kind of file.
_IDS_BYTES_MAX = GIB

Selected = tuple[LedgerId, LedgerMetadata, int]


def select(options: SourceOptions, unreadable: dict[LedgerId, str]) -> Iterator[Selected]:
    """Return (id, metadata, version) of the ledgers that the query's options select.

    `unreadable` gets the reason for each record that cannot be read: one such record, which any client can write, must
    not end every query over the fleet. Nothing of such a ledger can be read by anybody; it is told of in the driver's
    log and is a row of view=ledgers. Raises BadInput when the query names it, or says onUnreadableLedger=fail;
    LedgerMissing for a ledger that the query names and the fleet does not have, unless `failOnDataLoss` is off.
    """
    file_ids = None if options.ledger_ids_from is None else _ids_in(options.ledger_ids_from)
    wanted = selection.candidates(options, file_ids)
    missing = dict.fromkeys(selection.required(options, file_ids))
    listed = _listed(options, wanted)
    client = fleet.client(options.connection)
    ageless: list[LedgerId] = []
    for ledger_id, metadata, version in client.snapshot(listed, unreadable=unreadable):
        if options.view is View.ENTRIES and (why := selection.why_endless(metadata)):
            unreadable[ledger_id] = why
            continue
        missing.pop(ledger_id, None)
        if selection.is_selected(options, metadata):
            yield ledger_id, metadata, version
        elif options.starting_timestamp_ms is not None and metadata.ctime_ms < 0:
            ageless.append(ledger_id)
    _tell_unreadable(options, unreadable, named=missing)
    if ageless:
        log.warning(
            "%d ledgers are left out by startingTimestamp, since their records do not say when they were created (to "
            "read them, name them with ledgers): the first is ledger %d",
            len(ageless),
            min(ageless),
        )
    if missing and options.fail_on_data_loss:
        raise errors.LedgerMissing(
            f"ledger {min(missing)} does not exist in the cluster at {options.metadata_uri}: correct ledgers or "
            "ledgerIdsFrom, or set failOnDataLoss=false"
        )


def _tell_unreadable(
    options: SourceOptions, unreadable: Mapping[LedgerId, str], *, named: Collection[LedgerId]
) -> None:
    fatal = unreadable if options.on_unreadable_ledger is OnUnreadableLedger.FAIL else set(unreadable) & set(named)
    if fatal:
        first = min(fatal)
        raise errors.BadInput(f"the metadata of ledger {first} cannot be read: {unreadable[first]}")
    if unreadable:
        first = min(unreadable)
        log.warning(
            "%d ledgers are left out, since their metadata cannot be read (view=ledgers names them; "
            "onUnreadableLedger=fail refuses): the first is ledger %d: %s",
            len(unreadable),
            first,
            unreadable[first],
        )


def check_still_there(
    options: SourceOptions, planned: Collection[LedgerId], unreadable: Mapping[LedgerId, str]
) -> None:
    """In a task, judge the `planned` ledgers of which there is no record to read any more, as `select` does on the
    driver. `unreadable`: those whose records are there. Raises LedgerMissing, BadInput."""
    named = planned if options.ledger_ids_from is not None else set(selection.required(options, None)) & set(planned)
    if options.view is not View.LEDGERS:  # which has a row for each
        _tell_unreadable(options, unreadable, named=named)
    deleted = set(named) - set(unreadable)
    if deleted and options.fail_on_data_loss:
        raise selection.deleted(min(deleted))


def _listed(options: SourceOptions, wanted: Ranges) -> Iterable[LedgerId]:
    if ranges.size(wanted) <= selection.ASKED_ONE_BY_ONE_MAX:
        return [LedgerId(one) for each in wanted for one in each.ids]
    everything = fleet.client(options.connection).ledgers()
    return (one for one in everything if ranges.contains(wanted, one))


def plan_entries(options: SourceOptions, *, is_fetching: bool) -> list[tuple[Piece, ...]]:
    """Return what each task reads. `is_fetching`: tasks read payloads."""
    password = read_password(options, os.environ)
    pieces: list[Piece] = []
    is_open: list[tuple[LedgerId, LedgerMetadata]] = []
    strangers = dict(reversed([*options.starting_offsets.named, *options.ending_offsets.named]))
    for ledger_id, metadata, _ in select(options, {}):
        strangers.pop(ledger_id, None)
        selection.admit(options, ledger_id, metadata, password)
        if metadata.is_closed:
            pieces += _piece(options, ledger_id, metadata, LedgerEnd(metadata.last_entry, metadata.length))
        else:
            is_open.append((ledger_id, metadata))  # few; of a closed ledger only its piece is kept
    if strangers and options.fail_on_data_loss:
        raise errors.BadInput(
            f"startingOffsets or endingOffsets names ledger {min(strangers)}, which the query does not read: it does "
            "not exist, or another option leaves it out; correct the option, or set failOnDataLoss=false"
        )
    for (ledger_id, metadata), end in zip(is_open, _ends(options, [one for one, _ in is_open]), strict=True):
        if end is not None:
            pieces += _piece(options, ledger_id, metadata, end)
    if is_fetching:
        limits = Limits(options.partition_bytes_max, options.partition_entries_max, options.partitions_min)
    else:
        limits = Limits(
            IDS_PER_PARTITION * ENTRY_COST_BYTES,
            options.partition_entries_max or IDS_PER_PARTITION,
            options.partitions_min,
        )
    return partitions.plan(pieces, limits)


class LedgerEnd(NamedTuple):
    """A ledger's last confirmed entry (-1: none), and its payload bytes up to that entry."""

    last_confirmed: int
    length: int


def _piece(options: SourceOptions, ledger_id: LedgerId, metadata: LedgerMetadata, end: LedgerEnd) -> list[Piece]:
    """Return the entries to read of one ledger; empty when the query wants none."""
    wanted = selection.span(options, ledger_id, end.last_confirmed)
    if wanted is None:
        return []
    piece = Piece(
        ledger_id=ledger_id,
        start=wanted.start,
        end=wanted.end,
        last_confirmed=end.last_confirmed,
        ctime_ms=metadata.ctime_ms,
        size_bytes=end.length * (wanted.end - wanted.start) // (end.last_confirmed + 1),
        bookie_id=metadata.write_set(EntryId(wanted.start))[0],
    )
    return [piece]


# ---- how far open ledgers are confirmed ------------------------------------------------------------------------------


def _ends(options: SourceOptions, ledger_ids: Sequence[LedgerId]) -> Iterator[LedgerEnd | None]:
    """Return the end of each open ledger, in order, asked of its bookies; None for a deleted one, if the query allows
    that."""
    client = fleet.client(options.connection)
    for start in range(0, len(ledger_ids), fleet.QUESTIONS_MAX):
        asked = ledger_ids[start : start + fleet.QUESTIONS_MAX]
        for ledger_id, answer in zip(asked, client.run(functools.partial(_ask_ends, asked)), strict=True):
            if isinstance(answer, errors.LedgerMissing) and not options.fail_on_data_loss:
                yield None
            elif isinstance(answer, BookieError):
                raise type(answer)(f"ledger {ledger_id} is open, and no quorum says what its last entry is: {answer}")
            else:
                yield answer


async def _ask_ends(ledger_ids: Sequence[LedgerId], client: Client) -> list[LedgerEnd | BookieError]:
    async def ask(ledger_id: LedgerId) -> LedgerEnd | BookieError:
        try:
            async with await client.open_no_recovery(ledger_id, administrative=True) as reader:
                last = reader.last_confirmed
                if last < 0:
                    return LedgerEnd(last, 0)
                try:
                    (entry,) = await reader.read(last, last)
                except BookieError:
                    return LedgerEnd(
                        last, (last + 1) * ENTRY_COST_BYTES
                    )  # a guess: the task that reads this entry gets the error
                return LedgerEnd(last, entry.length)
        except BookieError as error:
            return error

    return await asyncio.gather(*map(ask, ledger_ids))


# ---- files and environment -------------------------------------------------------------------------------------------


def read_password(options: SourceOptions, environment: Mapping[str, str]) -> bytes:
    """Return the password of the ledgers, empty if the query names none. A line end at the end of a file is not part of
    it.

    Raises BadInput naming what cannot be read, never its content.
    """
    if options.password_env is not None:
        found = environment.get(options.password_env)
        if found is None:
            is_name = re.fullmatch("[A-Z][A-Z0-9_]*", options.password_env)
            name = options.password_env if is_name else "that it names (not shown, it may be the password)"
            raise errors.BadInput(
                f"passwordEnv: the environment variable {name} is not set where the query is planned, "
                "the driver: export it there before Spark starts"
            )
        return found.encode()
    if options.password_file is None:
        return b""
    return client_settings.read_secret(options.password_file, "passwordFile")


def _ids_in(path: str) -> list[LedgerId]:
    """Return the ids of a text file, one a line, or of the column `ledger_id` of Parquet (a file or a folder)."""
    try:
        if path.endswith(".parquet") and Path(path).is_fifo():
            raise errors.BadInput("it is a pipe, and Parquet is read from its end: name a file")
        if path.endswith(".parquet") or Path(path).is_dir():
            import pyarrow.parquet

            found = pyarrow.parquet.read_table(path, columns=["ledger_id"])["ledger_id"].unique().to_pylist()
            if wrong := [one for one in found if type(one) is not int or not 0 <= one <= LEDGER_ID_MAX]:
                raise errors.BadInput(f"ledger id {wrong[0]!r} in column ledger_id is no number between 0 and 2^63-1")
            return [LedgerId(one) for one in found]
        lines = connect.read_file(path, bytes_max=_IDS_BYTES_MAX).decode("utf-8-sig").splitlines()
        return [parse_ledger_id(line.strip()) for line in lines if line.strip()]
    except (OSError, ValueError, errors.BadInput) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise errors.BadInput(f"ledgerIdsFrom: {one_line(path)} cannot be used: {reason}") from error
