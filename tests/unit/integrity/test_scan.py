"""Every ledger of the cluster is read once, in order, whatever breaks off meanwhile; none is left out unseen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

import integrity_support as build
from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.base.units import NS_PER_S
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.scan import Scanned, scan
from bookie.metadata import serde

RECORD = serde.dump_ledger(build.a_ledger())
GARBAGE = b"no record"


class Cluster:
    """The metadata of ledgers, and the clock. `breaks`: asked before each id of a listing; what it returns is raised.
    Nothing of the store answers before `down_until_ns`."""

    def __init__(self, *ledger_ids: int) -> None:
        self.records = dict.fromkeys(map(LedgerId, ledger_ids), RECORD)
        self.breaks: Callable[[LedgerId], errors.BookieError | None] = lambda ledger_id: None
        self.refuses: Callable[[LedgerId], errors.BookieError | None] = lambda ledger_id: None
        self.root, self.store = "/ledgers", self
        self.now_ns = self.down_until_ns = 0
        self.listings = self.reading = self.reading_max = 0
        self.read: list[LedgerId] = []

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0

    async def sleep_until(self, deadline_ns: int) -> None:
        self.now_ns = max(self.now_ns, deadline_ns)
        await asyncio.sleep(0)

    def answer(self) -> None:
        if self.now_ns < self.down_until_ns:
            raise errors.MetadataError("no answer")

    async def sync(self, path: str) -> None:
        assert path == self.root
        self.answer()

    async def iterate(self) -> AsyncIterator[LedgerId]:
        self.listings += 1
        assert self.listings < 10, "it asks without a pause"
        await self.sync(self.root)
        for ledger_id in sorted(self.records):
            self.answer()
            error = self.breaks(ledger_id)
            if error is not None:
                raise error
            yield ledger_id

    async def stored(self, ledger_id: LedgerId) -> Any:
        self.answer()
        error = self.refuses(ledger_id)
        if error is not None:
            raise error
        self.reading += 1
        self.reading_max = max(self.reading_max, self.reading)
        await asyncio.sleep(0)
        self.reading -= 1
        self.read.append(ledger_id)
        return SimpleNamespace(data=self.records[ledger_id], created_ms=77)

    def scan(self, *, concurrency: int = 2, may_name: BookieId | None = build.ME) -> list[list[Scanned]]:
        everything: Any = self
        retry = MetadataRetry(everything)

        async def look() -> list[list[Scanned]]:
            return [batch async for batch in scan(everything, retry, concurrency=concurrency, may_name=may_name)]

        return asyncio.run(asyncio.wait_for(look(), 20))

    def scanned(self) -> list[int]:
        return [found.ledger_id for batch in self.scan() for found in batch]


def once(error: errors.BookieError, at: int) -> Callable[[LedgerId], errors.BookieError | None]:
    left = [error]
    return lambda ledger_id: left.pop() if ledger_id == at and left else None


def test_all_ledgers_are_read_in_batches_and_no_more_at_once() -> None:
    cluster = Cluster(*range(7))

    batches = cluster.scan(concurrency=3)

    assert [[found.ledger_id for found in batch] for batch in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    assert cluster.reading_max == 3
    first = batches[0][0].metadata
    assert first is not None
    assert first == serde.load_ledger(RECORD, 77)


@pytest.mark.parametrize("at", range(6))
def test_a_listing_that_breaks_off_goes_on_behind_what_was_read_and_leaves_nothing_out(at: int) -> None:
    cluster = Cluster(*range(6))
    cluster.breaks = once(errors.MetadataError("no answer"), at)

    assert cluster.scanned() == list(range(6))
    assert cluster.read == list(range(6)), "each once"
    assert cluster.listings == 2


def test_a_store_that_does_not_answer_for_a_while_is_asked_again_after_pauses_and_not_at_once() -> None:
    cluster = Cluster(*range(6))

    def breaks(ledger_id: LedgerId) -> None:
        if ledger_id == 3 and not cluster.down_until_ns:
            cluster.down_until_ns = cluster.now_ns + 60 * NS_PER_S
            cluster.answer()

    cluster.breaks = breaks

    assert cluster.scanned() == list(range(6))
    assert cluster.listings == 2
    assert cluster.now_ns >= 60 * NS_PER_S


def test_a_refusal_for_good_ends_the_scan_and_is_not_the_end_of_the_list() -> None:
    cluster = Cluster(*range(6))
    cluster.breaks = once(errors.final(errors.MetadataError("not allowed")), 3)

    with pytest.raises(errors.MetadataError, match="not allowed"):
        cluster.scan()


def test_a_ledger_that_is_deleted_meanwhile_is_left_out_and_the_others_are_not() -> None:
    cluster = Cluster(*range(4))
    cluster.refuses = lambda ledger_id: errors.LedgerMissing("deleted") if ledger_id == 1 else None

    assert cluster.scanned() == [0, 2, 3]


def test_a_record_that_cannot_be_read_is_told_with_its_bytes() -> None:
    """It may name this bookie: nobody may take it for a ledger that is gone."""
    cluster = Cluster(*range(2))
    cluster.records[LedgerId(1)] = GARBAGE

    ((_, found),) = cluster.scan()

    assert found == Scanned(LedgerId(1), None, GARBAGE)


def test_a_record_that_nobody_lets_us_read_keeps_no_other_from_being_read_and_may_name_us() -> None:
    cluster = Cluster(*range(4))
    cluster.refuses = lambda ledger_id: errors.MetadataDenied("not for you") if ledger_id == 1 else None

    found = [one for batch in cluster.scan() for one in batch]

    assert cluster.read == [0, 2, 3]
    assert [one.ledger_id for one in found if one.metadata is None] == [1]
    assert found[1] == Scanned(LedgerId(1), None, build.ME.encode())


def test_where_such_a_record_leaves_nothing_to_conclude_the_scan_says_so() -> None:
    cluster = Cluster(*range(4))
    cluster.refuses = lambda ledger_id: errors.MetadataDenied("not for you") if ledger_id == 1 else None

    with pytest.raises(errors.MetadataDenied, match="not for you"):
        cluster.scan(may_name=None)
