"""What single bookies hold of a ledger: read from one of them, and a check of every replica's presence.

No quorum stands behind these answers. Nothing is recovered, fenced or changed.
"""

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from bookie.base import errors
from bookie.base.ids import INVALID_ENTRY_ID, LAST_ENTRY, BookieId, EntryId, LedgerId

if TYPE_CHECKING:
    from bookie.client import Client, Entry

COLUMNS = {
    "firstEntry": "FROM",
    "lastEntry": "TO",
    "bookie": "BOOKIE",
    "expected": "EXPECTED",
    "held": "HELD",
    "missing": "MISSING",
    "problem": "PROBLEM",
}


async def read(
    client: "Client", ledger_id: LedgerId, bookie_id: BookieId, first: int, last: int | None
) -> "AsyncIterator[Entry]":
    """The entries from `first` to `last` (default: all) that this bookie holds, each verified by its digest.

    Asked for one by one: an official bookie on DbLedgerStorage cannot list them.
    """
    from bookie.client import Entry
    from bookie.wire.digest import Digest, DigestType

    metadata = await client.metadata(ledger_id)
    digest = Digest(DigestType(metadata.digest_type), metadata.password)

    async def entry_of(entry_id: EntryId) -> "Entry | None":
        try:
            body = await client.bookies.read(bookie_id, ledger_id, entry_id)
        except (errors.NoSuchEntry, errors.NoSuchLedger):
            return None
        header, payload = digest.open(body, ledger_id, None if entry_id == LAST_ENTRY else entry_id)
        return Entry(header.entry_id, bytes(payload), header.length)

    highest = await entry_of(LAST_ENTRY)
    end = INVALID_ENTRY_ID if highest is None else highest.entry_id
    for number in range(first, (end if last is None else min(end, last)) + 1):
        entry = await entry_of(EntryId(number))
        if entry is not None:
            yield entry


async def check(client: "Client", ledger_id: LedgerId) -> list[dict[str, Any]]:
    """A row for each bookie of each segment: how many entries it should hold and does. Raises BadInput unless closed.

    `missing` None: the bookie did not say.
    """
    metadata = await client.metadata(ledger_id)
    if not metadata.is_closed:
        raise errors.BadInput(
            f"ledger {ledger_id} is {metadata.state.name}: it has no end yet; close it first (`bookie ledger recover`)"
        )
    rows = []
    for segment, first, end in metadata.segment_ranges():
        last = INVALID_ENTRY_ID if end is None else end
        for bookie_id in segment.bookies:
            wanted = {entry for entry in range(first, last + 1) if bookie_id in metadata.write_set(EntryId(entry))}
            rows.append({"firstEntry": first, "lastEntry": last, "bookie": bookie_id, "expected": len(wanted)})
            rows[-1] |= await _held(client, ledger_id, bookie_id, wanted)
    return rows


async def _held(client: "Client", ledger_id: LedgerId, bookie_id: BookieId, wanted: set[int]) -> dict[str, Any]:
    try:
        held = _entries(await client.bookies.list_entries(bookie_id, ledger_id))
    except errors.NoSuchLedger:
        held = set()
    except errors.BookieError as error:
        return {"held": None, "missing": None, "problem": str(error)}
    missing = sorted(wanted - held)
    problem = f"first missing entry {missing[0]}" if missing else ""
    return {"held": len(wanted & held), "missing": len(missing), "problem": problem}


def _entries(runs: Iterable[tuple[int, int]]) -> set[int]:
    return {entry for first, last in runs for entry in range(first, last + 1)}
