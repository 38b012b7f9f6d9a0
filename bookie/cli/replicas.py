"""Looks at what single bookies hold of a ledger: reads from one bookie, and checks that every replica is there.

No quorum stands behind these answers. Nothing is recovered, fenced or changed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, LAST_ENTRY, BookieId, EntryId, IdRange, LedgerId
from bookie.cli import output
from bookie.client import Client, Entry
from bookie.client.shared import digest_of
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum.shares import Group, Share, Stretch, entries_from
from bookie.wire.digest import Digest, DigestType

COLUMNS = {
    "firstEntry": "FROM",
    "lastEntry": "TO",
    "bookie": "BOOKIE",
    "expected": "EXPECTED",
    "held": "HELD",
    "missing": "MISSING",
    "read": "READ",
    "corrupt": "CORRUPT",
    "outcome": "OUTCOME",
    "problem": "PROBLEM",
}
READS_AT_ONCE = 32
ABSENT_MAX = 1_000
"""Entries in a row that a bookie does not have, after which its list is asked for."""
TROUBLES_MAX = 1_000
"""Of one bookie's share, after which no more is read of it: a list may claim more entries than anybody can ask for."""
ANSWERED = (errors.UnknownLedgerState, errors.StorageFailed, errors.DigestMismatch)
"""By which a bookie answers for an entry that it does not give; it may still give the next one."""


@dataclass(frozen=True, slots=True)
class NotGiven:
    """What a bookie answered for an entry, instead of giving or denying it. LAST_ENTRY: for its highest one."""

    entry_id: EntryId
    error: BookieError


class Tally:
    """Counts what one bookie gave of what it was asked for. `owed`: what it should hold; none: each entry counts."""

    def __init__(self, owed: Sequence[Stretch]) -> None:
        self.given = self.not_known = self.corrupt = 0
        self.lacking = sum(each.size for each in owed)  # of those owed; what was not asked for too
        self.is_cut_short = False
        self._owed = owed

    def counts(self, entry_id: EntryId) -> bool:
        """Return True for an entry that the bookie should have, or when it should have none."""
        return not self._owed or self._is_owed(entry_id)

    def add(self, found: "Entry | NotGiven") -> None:
        """Count an entry that was given, or what was answered in its place."""
        if isinstance(found, Entry):
            self.given += 1
            self.lacking -= self._is_owed(found.entry_id)
        elif found.entry_id != LAST_ENTRY and self.counts(found.entry_id):
            is_corrupt = isinstance(found.error, errors.DigestMismatch)
            self.corrupt += is_corrupt
            self.not_known += not is_corrupt
            self.is_cut_short = self.corrupt + self.not_known >= TROUBLES_MAX

    @property
    def outcome(self) -> str:
        """Return DAMAGE for a bad copy, or one that was denied and is owed; NOT_KNOWN where nothing was proven."""
        is_denied = not self.is_cut_short and self.lacking > self.corrupt + self.not_known
        if self.corrupt or (self._owed and is_denied):
            return output.DAMAGE
        return output.NOT_KNOWN if self.not_known else output.WHOLE

    def _is_owed(self, entry_id: EntryId) -> bool:
        return any(each.first <= entry_id <= each.last and each.share.count(entry_id, entry_id) for each in self._owed)


async def read(
    client: Client,
    metadata: LedgerMetadata,
    ledger_id: LedgerId,
    bookie_id: BookieId,
    first: int,
    last: int | None,
    owed: Sequence[Stretch] = (),
) -> AsyncIterator[Entry | NotGiven]:
    """Yield the entries from `first` to `last` (default: all) that this bookie holds, each verified by its digest, and
    its answer for each that it neither gives nor denies.

    It asks for them one by one, since an official bookie on DbLedgerStorage cannot list them; for its list only after
    ABSENT_MAX that it lacks in a row, for one stray entry may lie far beyond the others. A bookie that does not say
    which is its highest (a disk of it failed, or it is in limbo) is asked for what it should hold, `owed`, or up to
    `last`; of a closed ledger of which it should hold nothing, for nothing more. One that says a lower one than it
    should, for the owed ones behind it until it denies one.

    Raises RequestTimedOut where there is no list, StorageFailed where that names what the bookie does not have, and the
    answer for the highest entry where nothing says how far to read.
    """
    digest = Digest(DigestType(metadata.digest_type), metadata.password)

    async def entry_of(entry_id: EntryId) -> Entry | NotGiven | None:
        try:
            body = await client.bookies.read(bookie_id, ledger_id, entry_id)
            header, payload = digest.open(body, ledger_id, None if entry_id == LAST_ENTRY else entry_id)
        except (errors.NoSuchEntry, errors.NoSuchLedger):
            return None
        except ANSWERED as error:
            return NotGiven(entry_id, error)
        return Entry(header.entry_id, bytes(payload), header.length)

    with output.told_if_slow(f"bookie {bookie_id}"):
        highest = await entry_of(LAST_ENTRY)
    end = INVALID_ENTRY_ID if highest is None else highest.entry_id
    end = end if last is None else EntryId(min(end, last))
    numbers: Iterator[int] = iter(range(first, end + 1))
    if isinstance(highest, NotGiven):
        if not owed and last is None and not metadata.is_closed:
            output.tell(
                f"bookie {bookie_id} does not say which is its highest entry of ledger {ledger_id}, and nothing else"
                " says how far to read: name the entries (`--first`, `--last`)"
            )
            raise highest.error
        yield highest
        if not owed and last is None:
            return
        end = owed[-1].last if last is None else EntryId(last)
        numbers = entries_from(owed, EntryId(first)) if owed else iter(range(first, end + 1))
    absent, is_listed = 0, False
    while (number := next(numbers, None)) is not None:
        entry = await entry_of(EntryId(number))
        absent = 0 if entry is not None else absent + 1
        if entry is not None:
            yield entry
        elif absent >= ABSENT_MAX:
            if is_listed:
                raise errors.StorageFailed(
                    f"bookie {bookie_id} lists entries of ledger {ledger_id} and has none of {absent} in a row, up to"
                    f" entry {number}: look at its disks (`bookie node scrub`)"
                )
            with output.told_if_slow(f"bookie {bookie_id}"):
                groups = await client.bookies.list_groups(bookie_id, ledger_id)
            numbers, absent, is_listed = _listed(groups, number + 1, end), 0, True
    behind = iter(()) if isinstance(highest, NotGiven) else entries_from(owed, EntryId(max(first, end + 1)))
    for entry_id in behind:
        if (entry := await entry_of(entry_id)) is None:
            return
        yield entry


def _listed(groups: Sequence[Group], first: int, last: int) -> Iterator[int]:
    """Yield the entries of first..last that are in `groups`."""
    for start, last_start, size, period in groups:
        step = period or 1
        start += max(0, first - size - start) // step * step  # where `first` may be, not run by run up to there
        for begin in range(start, min(last_start, last) + 1, step):
            yield from range(max(begin, first), min(begin + size - 1, last) + 1)


def owed(metadata: LedgerMetadata, bookie_id: BookieId, first: int, last: int | None) -> list[Stretch]:
    """Return what the record of a closed ledger has this bookie hold of first..last (None: the end)."""
    found = []
    for segment, begin, end in metadata.owed_ranges():
        assert end is not None, "it is closed"
        low, high = max(begin, first), end if last is None else min(end, last)
        for index, one in enumerate(segment.bookies):
            if one == bookie_id and low <= high:
                share = Share(metadata.ensemble_size, metadata.write_quorum, index)
                found.append(Stretch(share, EntryId(low), EntryId(high)))
    return found


async def check(
    client: Client,
    metadata: LedgerMetadata,
    ledger_id: LedgerId,
    *,
    reads: bool,
    listed: str,
    on_read: Callable[[int], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Return a row for each bookie of each segment of a closed ledger: how many entries it should hold, and how many it
    lists.

    A list comes from the bookie's index: it proves which entries are missing, and nothing about their bytes. `reads`:
    also read every entry and verify its digest. `listed`: the outcome of a share that is listed and was not read.
    `missing` None: the bookie did not say. `on_read` counts the copies that were asked for.
    """
    with output.told_if_slow(f"the bookies of ledger {ledger_id}"):  # the reads after it have their own progress
        lists = await _lists(client, metadata, ledger_id)
    rows: list[dict[str, Any]] = []
    owed = {segment.first_entry: list[IdRange]() for segment in metadata.segments}
    for segment, first, end in metadata.owed_ranges():
        assert end is not None, "it is closed"
        owed[segment.first_entry].append((first, end))
    for segment, first, last in metadata.segment_ranges():
        for index, bookie_id in enumerate(segment.bookies):
            share = Share(metadata.ensemble_size, metadata.write_quorum, index)
            wanted = [Stretch(share, begin, end) for begin, end in owed[first]]
            rows.append({"firstEntry": first, "lastEntry": last, "bookie": bookie_id})
            rows[-1]["expected"] = sum(each.size for each in wanted)
            rows[-1] |= _held(lists[bookie_id], wanted)
            if reads and rows[-1]["held"] and not rows[-1]["missing"]:
                entries = entries_from(wanted, first)
                rows[-1] |= await _read_all(client, metadata, ledger_id, bookie_id, entries, on_read)
            rows[-1]["outcome"] = outcome(rows[-1], reads=reads, listed=listed)
    return rows


def outcome(row: Mapping[str, Any], *, reads: bool, listed: str) -> str:
    """Return what is known of one bookie's share of the entries."""
    if row["missing"] or row["corrupt"]:
        return output.DAMAGE
    if row["missing"] is None or (reads and row["read"] < row["expected"]):
        return output.NOT_KNOWN
    return output.WHOLE if reads or not row["expected"] else listed


def sentence(ledger_id: LedgerId, rows: Sequence[Mapping[str, Any]], *, reads: bool) -> tuple[str, str]:
    """Return a sentence on the outcome of all rows, and on how much it proves."""
    copies = sum(row["expected"] for row in rows)
    if any(row["outcome"] == output.DAMAGE for row in rows):
        return output.DAMAGE, f"ledger {ledger_id}: copies are missing or corrupt"
    if any(row["missing"] is None or (reads and row["outcome"] == output.NOT_KNOWN) for row in rows):
        return (
            output.NOT_KNOWN,
            f"ledger {ledger_id}: no damage was found, but some copies could not be seen (PROBLEM says why)",
        )
    if not copies:
        return output.WHOLE, f"ledger {ledger_id} has no entry that a bookie owes it: there is no copy to look at"
    if reads:
        return output.WHOLE, f"ledger {ledger_id}: every one of {copies} copies was read and matches its digest"
    said = f"ledger {ledger_id}: every one of {copies} copies is listed; bytes were not read"
    if any(row["outcome"] == output.NOT_KNOWN for row in rows):
        return output.NOT_KNOWN, f"{said}: --read reads them, --listed asks for the lists alone"
    return output.LISTED, said


async def _lists(
    client: Client, metadata: LedgerMetadata, ledger_id: LedgerId
) -> dict[BookieId, Sequence[Group] | BookieError]:
    """Ask each bookie once what it holds of the ledger, many at a time: one that does not answer takes seconds."""
    found: dict[BookieId, Sequence[Group] | BookieError] = {}

    async def ask(bookies: Iterator[BookieId]) -> None:
        for bookie_id in bookies:
            try:
                found[bookie_id] = await client.bookies.list_groups(bookie_id, ledger_id)
            except errors.NoSuchLedger:
                found[bookie_id] = []
            except BookieError as error:
                found[bookie_id] = error

    bookies = iter(dict.fromkeys(bookie_id for segment in metadata.segments for bookie_id in segment.bookies))
    async with asyncio.TaskGroup() as group:
        for _ in range(READS_AT_ONCE):
            group.create_task(ask(bookies))
    return found


async def _read_all(
    client: Client,
    metadata: LedgerMetadata,
    ledger_id: LedgerId,
    bookie_id: BookieId,
    wanted: Iterator[EntryId],
    on_read: Callable[[int], None],
) -> dict[str, Any]:
    digest, troubles = digest_of(metadata), 0
    found: dict[str, Any] = {"read": 0, "corrupt": 0, "problem": ""}

    async def work() -> None:
        nonlocal troubles
        for number in wanted:
            if troubles >= TROUBLES_MAX:
                return
            on_read(1)
            try:
                body = await client.bookies.read(bookie_id, ledger_id, number)
                digest.open(body, ledger_id, number)
            except (errors.DigestMismatch, errors.NoSuchEntry, errors.NoSuchLedger) as error:
                troubles += 1
                found["read"] += 1
                found["corrupt"] += 1
                found["problem"] = found["problem"] or f"the bookie lists entry {number} and does not have it: {error}"
            except BookieError as error:
                troubles += 1
                found["problem"] = found["problem"] or f"the bookie lists entry {number} and did not give it: {error}"
            else:
                found["read"] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(READS_AT_ONCE):
            group.create_task(work())
    if troubles >= TROUBLES_MAX:
        found["problem"] += f"; given up after {troubles} such entries"
    return found


def _held(groups: Sequence[Group] | BookieError, wanted: Sequence[Stretch]) -> dict[str, Any]:
    """Count which of the `wanted` entries a bookie lists; it may have said why not. It computes with ranges: a record
    or a bookie may name far too many entries to compare one by one."""
    if isinstance(groups, BookieError):
        return {"held": None, "missing": None, "read": 0, "corrupt": 0, "problem": str(groups)}
    held = sum(each.share.count_held(groups, each.first, each.last) for each in wanted)
    missing = sum(each.size for each in wanted) - held
    absent = (each.share.first_absent(groups, each.first, each.last) for each in wanted)
    problem = f"first missing entry {next(one for one in absent if one is not None)}" if missing else ""
    return {"held": held, "missing": missing, "read": 0, "corrupt": 0, "problem": problem}
