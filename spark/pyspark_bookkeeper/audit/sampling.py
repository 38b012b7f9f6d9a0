"""Reads copies that bookies say they hold, and verifies their digests: what a list of entries cannot prove.

A bookie answers the list from its index; its entry log may be zeros all the same. It reads all copies, or one of each
ledger and bookie, drawn anew by each audit. An answer without the entry proves damage; no answer proves nothing.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from bookie.base import bitmaps, errors
from bookie.base.errors import Answer, BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client
from bookie.client.shared import digest_of
from bookie.metadata.ledger import LedgerMetadata
from pyspark_bookkeeper.audit import compare
from pyspark_bookkeeper.audit.compare import Bytes, Holding, Unknown

NOTHING, SAMPLE, ALL = "none", "sample", "all"
HOW = (NOTHING, SAMPLE, ALL)

READS_AT_ONCE = 32  # of a task: entries may be 5 MiB
BAD_MAX = 1_000  # of one copy: the audit then reads no further in it

SILENT_AFTER = 3  # reads of one copy without an answer

Chosen = Mapping[BookieId, Bytes]
"""The copies that an earlier look read and found bad."""


class Sampler:
    """Reads copies for one task. `how`: one of HOW."""

    def __init__(self, client: Client, how: str) -> None:
        self._client = client
        self._how = how
        self._at_once = asyncio.Semaphore(READS_AT_ONCE)

    async def read(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        end: int,
        holdings: Mapping[BookieId, Holding],
        chosen: Chosen | None,
    ) -> dict[BookieId, Bytes]:
        """Read copies of entries 0..end-1. `chosen`: the bad ones of an earlier look; no others are read."""
        if self._how == NOTHING:
            return {}
        copies = {bookie: held for bookie, held in holdings.items() if not isinstance(held, Unknown) and held}
        picks = {bookie: self._picks(metadata, end, bookie, held, chosen) for bookie, held in copies.items()}
        copies_read = await asyncio.gather(*(self._copy(ledger_id, metadata, *one) for one in picks.items()))
        found = dict(zip(picks, copies_read, strict=True))
        for bookie, before in (chosen or {}).items():
            if bookie in found and before.unread_from is not None:  # it was given up there, and nobody read on
                found[bookie].unread_from, found[bookie].why_unread = before.unread_from, before.why_unread
        return found

    def _picks(
        self, metadata: LedgerMetadata, end: int, bookie: BookieId, held: Holding, chosen: Chosen | None
    ) -> Iterator[int]:
        assert not isinstance(held, Unknown)
        windows = list(range(0, end, bitmaps.WINDOW))
        randrange = self._client.shared.world.entropy.randrange
        if chosen is None and self._how == SAMPLE and len(windows) > 1:
            first = randrange(len(windows))
            windows = [*windows[first:], *windows[:first]]
        for start in windows:
            stop = min(start + bitmaps.WINDOW, end)
            mask = compare.expected(metadata, start, stop).get(bookie, 0) & bitmaps.drawn(held, start, stop)
            if chosen is not None:
                bad = chosen[bookie].corrupt | chosen[bookie].unread if bookie in chosen else set()
                yield from (one for one in sorted(bad) if start <= one < stop and mask >> (one - start) & 1)
            elif self._how == ALL:
                yield from (start + bit for bit in members(mask))
            elif mask:
                yield start + drawn_from(mask, randrange)
                return

    async def _copy(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie: BookieId, picks: Iterator[int]
    ) -> Bytes:
        found = Bytes()
        silences = 0

        async def work() -> None:
            nonlocal silences
            for entry in picks:
                if len(found.corrupt) + len(found.unread) >= BAD_MAX or silences >= SILENT_AFTER:
                    found.unread_from = entry if found.unread_from is None else min(found.unread_from, entry)
                    return
                async with self._at_once:
                    was_silent = await self._one(ledger_id, metadata, bookie, entry, found)
                silences += was_silent

        async with asyncio.TaskGroup() as group:
            for _ in range(READS_AT_ONCE if self._how == ALL else 1):
                group.create_task(work())
        return found

    async def _one(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie: BookieId, entry: int, found: Bytes
    ) -> bool:
        """Read and verify one entry. Return True when the bookie did not answer at all."""
        try:
            digest = digest_of(metadata)  # without it nobody can verify anything
            body = await self._client.bookies.read(bookie, ledger_id, EntryId(entry))
            found.read += 1
            digest.open(body, ledger_id, EntryId(entry))
        except errors.DigestMismatch as error:
            found.corrupt.add(entry)
            found.why_corrupt = f"bookie {bookie} lists entry {entry}, and its bytes are not the entry: {error}"
        except BookieError as error:
            if error.answer is Answer.NEGATIVE:
                found.corrupt.add(entry)
                found.why_corrupt = f"bookie {bookie} lists entry {entry}, and denies it when it is read"
            else:
                found.unread.add(entry)
                found.why_unread = f"bookie {bookie} lists entry {entry}, and does not give it: {error}"
            return isinstance(error, errors.BookieUnavailable | errors.RequestTimedOut)
        return False


def members(mask: int) -> Iterator[int]:
    """Return the bits that are set, ascending."""
    text = format(mask, "b")[::-1]
    bit = text.find("1")
    while bit >= 0:
        yield bit
        bit = text.find("1", bit + 1)


def drawn_from(mask: int, randrange: Callable[[int], int]) -> int:
    """Return a bit that is set: the first at or behind a random place, or the first of all. `mask` is not 0."""
    place = randrange(mask.bit_length())
    rest = mask >> place
    return place + (rest & -rest).bit_length() - 1
