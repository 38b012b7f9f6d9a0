"""Phase two per ledger: which steps, in which order, and what if one fails (spec/bp46.md#R20, T13, T18;
CONFORMANCE.md#B39, B42)."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

import integrity_support as build
from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.throttle import Throttle
from bookie.base.units import NS_PER_MS
from bookie.integrity.means import RepairMeans
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.options import IntegrityOptions
from bookie.integrity.phase_two import LimboRepair
from bookie.integrity.progress import BootProgress
from bookie.metadata.ledger import LedgerMetadata
from bookie.wire.digest import Digest, DigestType

ONE, TWO = LedgerId(1), LedgerId(2)
OPEN = build.a_ledger()
CLOSED = OPEN.closed(EntryId(1), 14)
MOVED_ON = OPEN.with_ensemble(EntryId(2), (BookieId("b3"), BookieId("b1"), BookieId("b2")))
DIGEST = Digest(DigestType.CRC32C, b"")


class Village:
    """Clock, store, metadata and peers in one, writing down what is done."""

    def __init__(self, **ledgers: LedgerMetadata | None) -> None:
        self.metadata = {LedgerId(int(name[1:])): metadata for name, metadata in ledgers.items()}
        self.limbo = dict.fromkeys(self.metadata)
        self.quarantined: dict[LedgerId, str] = {}
        self.log: list[str] = []
        self.now_ns = 0
        self.fails: list[errors.BookieError] = []  # of the next recoveries or reads, in turn
        self.is_full: list[errors.BookieError] = []  # so many flushes find no room
        self.refused: dict[str, int] = {}  # how often the journal has no room for a "copy" or a "mark"
        self.lac = 0
        self.writer_stops_at_ns = 0
        self.progress: BootProgress | None = None
        self.told: list[dict[LedgerId, str]] = []  # what is blocked, whenever the repair waits
        self.root = ""
        self.clock = self.store = self

    # clock

    def monotonic_ns(self) -> int:
        return self.now_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        if self.progress is not None:
            self.told.append(dict(self.progress.blocked))
        self.now_ns = max(self.now_ns, deadline_ns)
        await asyncio.sleep(0)

    # metadata store

    def path(self, ledger_id: LedgerId) -> str:
        return ""

    async def sync(self, path: str) -> None:
        return

    async def get(self, ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
        metadata = self.metadata[ledger_id]
        if metadata is None:
            raise errors.LedgerMissing("deleted")
        return metadata, 1

    # the bookie's own store

    async def ledgers(self) -> Any:
        for ledger_id in list(self.limbo):
            yield ledger_id

    def facts(self, ledger_id: LedgerId) -> Any:
        return type("Facts", (), {"is_limbo": ledger_id in self.limbo, "master_key": None})()

    @property
    def bad_entries(self) -> Any:
        return SimpleNamespace(of=lambda _ledger_id: [], more=frozenset())

    async def entry_ranges(self, ledger_id: LedgerId) -> list[tuple[EntryId, EntryId]]:
        return []

    async def room(self) -> None:
        return

    def add_copied(self, ledger_id: LedgerId, entry_id: EntryId, body: bytes, master_key: bytes) -> None:
        self.ask_journal("copy")
        self.log.append(f"keep {ledger_id}/{entry_id}")

    def ask_journal(self, what: str) -> None:
        left = self.refused.get(what, 0)
        self.refused[what] = max(0, left - 1)
        if left:
            raise errors.BookieReadOnly("no space left in its journal")

    async def flush(self) -> None:
        if self.is_full:
            raise self.is_full.pop()
        self.log.append("flush")

    async def protect(self, wanted: Any) -> None:
        self.ask_journal("mark")
        for ledger_id, fence, limbo, _ in wanted:
            assert (fence, limbo) == (True, False)
            self.log.append(f"fence {ledger_id}")

    def clear_limbo(self, ledger_id: LedgerId) -> None:
        self.log.append(f"clear {ledger_id}")
        self.limbo.pop(ledger_id, None)

    # peers, and a client

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        if self.fails:
            raise self.fails.pop(0)
        return b"".join(bytes(part) for part in DIGEST.seal(ledger_id, entry_id, -1, 7, b"payload"))

    async def recover(self, ledger_id: LedgerId) -> None:
        self.log.append(f"recover {ledger_id} at {self.now_ns // NS_PER_MS}")
        if self.fails:
            raise self.fails.pop(0)
        self.metadata[ledger_id] = CLOSED

    async def last_confirmed(self, ledger_id: LedgerId) -> EntryId:
        if self.now_ns < self.writer_stops_at_ns:
            self.lac += 1
        return EntryId(self.lac)

    def repair(self) -> BootProgress:
        everything: Any = self
        progress = self.progress = BootProgress(everything)
        means = RepairMeans(
            everything,
            everything,
            build.ME,
            everything,
            everything,
            IntegrityOptions(open_ledger_grace_ms=5_000),
            everything,
            MetadataRetry(everything),
            Throttle(None),
        )
        repair = LimboRepair(means, progress, verify=False)
        asyncio.run(asyncio.wait_for(repair.run(), 10))
        return progress


def test_a_closed_ledger_is_copied_flushed_fenced_cleared_and_flushed_in_this_order() -> None:
    village = Village(l1=CLOSED)

    progress = village.repair()

    assert village.log == ["keep 1/0", "keep 1/1", "flush", "fence 1", "clear 1", "flush"]
    assert (progress.done_count, progress.pending, progress.limbo, progress.blocked) == (1, 0, 0, {})


def test_nothing_in_limbo_is_nothing_to_do() -> None:
    village = Village()

    village.repair()

    assert village.log == []


def test_a_sealed_fragment_of_an_open_ledger_is_copied_and_its_writer_left_alone() -> None:
    village = Village(l1=MOVED_ON)

    village.repair()

    assert village.log == ["keep 1/0", "keep 1/1", "flush", "clear 1", "flush"]


@pytest.mark.parametrize("metadata", [None, build.a_ledger((0, "b3 b1 b2"))])
def test_a_ledger_that_is_gone_or_no_longer_ours_is_only_cleared(metadata: LedgerMetadata | None) -> None:
    village = Village(l1=metadata)

    village.repair()

    assert village.log == ["flush", "clear 1", "flush"]


def test_a_recovery_that_somebody_began_is_taken_over_at_once() -> None:
    village = Village(l1=OPEN.in_recovery())

    village.repair()

    assert village.log[0] == "recover 1 at 0"
    assert village.log[-4:] == ["flush", "fence 1", "clear 1", "flush"]


def test_a_silent_writers_ledger_is_recovered_after_the_grace_time() -> None:
    village = Village(l1=OPEN)

    village.repair()

    assert village.log[0] == "recover 1 at 5000"


def test_a_writer_that_still_confirms_entries_is_given_more_time() -> None:
    village = Village(l1=OPEN)
    village.writer_stops_at_ns = 20_000 * NS_PER_MS

    village.repair()

    recovered_at_ms = int(village.log[0].rpartition(" ")[2])
    assert 24_000 <= recovered_at_ms <= 26_000


def test_a_ledger_that_fails_is_told_tried_again_later_and_later_and_stops_no_other() -> None:
    village = Village(l1=OPEN.in_recovery(), l2=None)
    village.fails = [errors.QuorumNotReached(f"try {number}") for number in range(4)]

    progress = village.repair()

    tries = [int(line.rpartition(" ")[2]) for line in village.log if line.startswith("recover")]
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert gaps == sorted(gaps)
    assert len(set(gaps)) > 1
    assert progress.done_count == 2
    assert village.log.index("clear 2") < village.log.index("clear 1")


def test_a_ledger_that_cannot_be_repaired_is_told_with_the_newest_reason() -> None:
    """CONFORMANCE.md#B37."""
    village = Village(l1=OPEN.in_recovery())
    village.fails = [errors.QuorumNotReached("two are away"), errors.LedgerRecoveryFailed("one denies it")]

    progress = village.repair()

    told = [blocked[LedgerId(1)] for blocked in village.told if blocked]
    assert list(dict.fromkeys(told)) == ["two are away", "one denies it"]
    assert not progress.blocked


def test_a_failing_disk_ends_the_repair_and_the_node() -> None:
    village = Village(l1=OPEN.in_recovery())
    village.fails = [errors.DiskFailed("the disk")]

    with pytest.raises(errors.DiskFailed):
        village.repair()


def test_a_full_disk_delays_the_repair_and_ends_nothing() -> None:
    village = Village(l1=CLOSED, l2=None)
    village.is_full = [errors.DiskFull("no space left")] * 2

    progress = village.repair()

    assert progress.done_count == 2
    assert not village.limbo


@pytest.mark.parametrize("what", ["copy", "mark"])
def test_a_full_journal_delays_the_repair_and_ends_nothing(what: str) -> None:
    """It may fill up between the flush and the mark after it: that was no error of a disk, and stopped the node."""
    village = Village(l1=CLOSED, l2=None)
    village.refused[what] = 3

    progress = village.repair()

    assert progress.done_count == 2
    assert not village.limbo
    assert village.refused == {"copy": 0, "mark": 0}


def test_a_record_closed_at_2_to_the_40_is_told_stays_in_limbo_and_stops_no_other_ledger_and_no_end() -> None:
    huge = OPEN.closed(EntryId(2**40), 1)

    class Haunted(Village):
        """Of the huge ledger the peers have nothing but its first two entries."""

        async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
            if ledger_id == ONE and entry_id not in (0, 1):
                raise errors.NoSuchEntry("not here")
            return await super().read(bookie_id, ledger_id, entry_id)

    village = Haunted(l1=huge, l2=CLOSED)
    everything: Any = village
    turns = 0

    async def story() -> BootProgress:
        nonlocal turns
        progress = BootProgress(everything)
        means = RepairMeans(
            everything,
            everything,
            build.ME,
            everything,
            everything,
            IntegrityOptions(),
            everything,
            MetadataRetry(everything),
            Throttle(None),
        )
        repair = LimboRepair(means, progress, verify=False)
        task = asyncio.create_task(repair.run())
        async with asyncio.timeout(30):
            while TWO in village.limbo or ONE not in progress.blocked:
                await asyncio.sleep(0)
                turns += 1
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()
        return progress

    progress = asyncio.run(story())

    assert {"keep 1/0", "keep 1/1", "clear 2"} <= set(village.log)
    assert ONE in village.limbo
    assert "entry 2: b" in progress.blocked[ONE]
    assert "are asked for later" in progress.blocked[ONE]
    assert turns > 200  # a turn per batch of questions, not one for everything
