"""Filling holes in place: what is fetched, up to where, when it counts, and what is never touched (spec/bp46.md#R24 to
R28)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

import integrity_support as build
from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, EntryId, IdRange, LedgerId
from bookie.base.throttle import Throttle
from bookie.base.units import NS_PER_S
from bookie.integrity import fill
from bookie.integrity.fill import HoleFiller
from bookie.integrity.fill_progress import FillProgress
from bookie.integrity.means import RepairMeans
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.options import IntegrityOptions
from bookie.metadata import serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.admin import FillStatus
from bookie.storage.ledgers import LedgerFacts
from bookie.wire.digest import Digest, DigestType

ONE, TWO = LedgerId(1), LedgerId(2)
B1, B2 = BookieId("b1"), BookieId("b2")
OPEN = build.a_ledger()
CLOSED = OPEN.closed(EntryId(3), 28)
DIGEST = Digest(DigestType.CRC32C, b"")
GARBAGE = b"no record, but bookie-0 is in it"


def sealed(ledger_id: int, entry_id: int) -> bytes:
    return b"".join(bytes(part) for part in DIGEST.seal(LedgerId(ledger_id), EntryId(entry_id), -1, 7, b"payload"))


class Place:
    """A bookie's store, its clock, the metadata and the other bookies in one, writing down what is done.

    What a fill must never do is not there: a call of it is an AttributeError.
    """

    def __init__(self, **ledgers: LedgerMetadata | bytes | errors.MetadataDenied) -> None:
        self.records: dict[LedgerId, LedgerMetadata | bytes | errors.MetadataDenied] = {
            LedgerId(int(name[1:])): metadata for name, metadata in ledgers.items()
        }
        self.held: dict[LedgerId, set[int]] = {}
        self.durable: dict[LedgerId, set[int]] = {}
        self.replicas: Callable[[BookieId, LedgerId, EntryId], bytes] = lambda _, ledger, entry: sealed(ledger, entry)
        self.lac: Callable[[], int] = lambda: 1
        self.in_doubt: set[LedgerId] = set()
        self.bad: dict[LedgerId, list[EntryId]] = {}
        self.more: set[LedgerId] = set()
        self.quarantined: dict[LedgerId, str] = {}
        self.log: list[str] = []
        self.now_ns = 0
        self.flush_error: errors.BookieError | None = None
        self.progress = FillProgress(self)
        self.root = "/ledgers"
        self.at_flush: list[FillStatus] = []
        self.on_read: Callable[[], None] = lambda: None

    # clock

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0

    async def sleep_until(self, deadline_ns: int) -> None:
        self.now_ns = max(self.now_ns, deadline_ns)
        await asyncio.sleep(0)

    # metadata

    @property
    def store(self) -> Place:
        return self

    def path(self, ledger_id: LedgerId) -> str:
        return f"/ledgers/{ledger_id}"

    async def sync(self, path: str) -> None:
        self.log.append(f"sync {path}")

    async def iterate(self) -> AsyncIterator[LedgerId]:
        await self.sync(self.root)
        for ledger_id in sorted(self.records):
            yield ledger_id

    async def stored(self, ledger_id: LedgerId) -> Any:
        self.log.append(f"metadata {ledger_id}")
        if ledger_id not in self.records:
            raise errors.LedgerMissing("deleted")
        record = self.records[ledger_id]
        if isinstance(record, errors.MetadataDenied):
            raise record
        data = record if isinstance(record, bytes) else serde.dump_ledger(record)
        return SimpleNamespace(data=data, created_ms=0, version=1)

    async def get(self, ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
        found = await self.stored(ledger_id)
        return serde.load_ledger(found.data, found.created_ms), found.version

    # the bookie's own store

    def may_be_lost(self, ledger_id: LedgerId) -> bool:
        return ledger_id in self.in_doubt

    def facts(self, ledger_id: LedgerId) -> LedgerFacts | None:
        return None

    async def entry_ranges(self, ledger_id: LedgerId) -> list[IdRange]:
        if ledger_id not in self.held:
            raise errors.NoSuchLedger("unknown here")
        return [(EntryId(entry), EntryId(entry)) for entry in sorted(self.held[ledger_id])]

    @property
    def bad_entries(self) -> Place:
        return self

    def of(self, ledger_id: LedgerId) -> list[EntryId]:
        return self.bad.get(ledger_id, [])

    async def check_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        return entry_id not in self.bad.get(ledger_id, [])

    async def room(self) -> None:
        return

    def add_copied(self, ledger_id: LedgerId, entry_id: EntryId, body: bytes, master_key: bytes) -> None:
        self.log.append(f"keep {ledger_id}/{entry_id}")
        self.held.setdefault(ledger_id, set()).add(entry_id)
        self.bad = {each: [bad for bad in entries if bad != entry_id] for each, entries in self.bad.items()}
        assert body == sealed(ledger_id, entry_id), "kept what fails its check"

    async def flush(self) -> None:
        self.at_flush.append(self.progress.snapshot())
        if self.flush_error is not None:
            raise self.flush_error
        self.log.append("flush")
        self.durable = {ledger_id: set(entries) for ledger_id, entries in self.held.items()}

    # other bookies

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        self.on_read()
        return self.replicas(bookie_id, ledger_id, entry_id)

    async def last_confirmed(self, ledger_id: LedgerId) -> EntryId:
        self.log.append(f"lac {ledger_id}")
        return EntryId(self.lac())

    # ---- what a test asks ----

    def fill(self) -> FillStatus:
        everything: Any = self
        everything.clock = self
        means = RepairMeans(
            everything,
            everything,
            build.ME,
            everything,
            everything,
            IntegrityOptions(fill_scan_concurrency=2),
            everything,
            MetadataRetry(self),
            Throttle(None),
        )
        filler = HoleFiller(means, self.progress)
        asyncio.run(asyncio.wait_for(filler.run(BootEpoch(7)), 20))
        return self.progress.snapshot()

    def kept(self) -> list[str]:
        return [line.removeprefix("keep ") for line in self.log if line.startswith("keep ")]


def test_what_is_missing_of_a_closed_ledger_is_fetched_made_durable_and_counted() -> None:
    place = Place(l1=CLOSED)
    place.held[ONE] = {0, 2}

    status = place.fill()

    assert place.kept() == ["1/1", "1/3"]
    assert place.durable[ONE] == {0, 1, 2, 3}
    assert (status.entries_copied, status.entries_missing, status.blocked_count, status.is_whole) == (2, 0, 0, True)
    assert (status.ledgers_total, status.ledgers_done, status.boot_epoch) == (1, 1, 7)
    assert status.bytes_copied == len(sealed(1, 1)) + len(sealed(1, 3))


def test_an_entry_that_is_known_to_be_bad_is_missing_until_its_copy_is_durable() -> None:
    place = Place(l1=CLOSED)
    place.held[ONE] = {0, 1, 2, 3}
    place.bad[ONE] = [EntryId(2)]

    done = place.fill()

    assert place.kept() == ["1/2"]
    assert [status.entries_missing for status in place.at_flush] == [1]
    assert (done.entries_copied, done.entries_missing, done.is_whole) == (1, 0, True)


def test_a_bad_entry_that_nobody_gives_blocks_its_ledger() -> None:
    place = Place(l1=CLOSED)
    place.held[ONE] = {0, 1, 2, 3}
    place.bad[ONE] = [EntryId(2)]

    def nothing(*_: object) -> bytes:
        raise errors.NoSuchEntry("not here either")

    place.replicas = nothing
    done = place.fill()

    assert (done.entries_missing, done.blocked_count, done.is_whole) == (1, 1, False)
    assert "entry 2" in done.blocked[0].reason


def test_a_ledger_this_bookie_has_never_heard_of_is_filled_too() -> None:
    place = Place(l1=CLOSED)

    place.fill()

    assert place.durable == {ONE: {0, 1, 2, 3}}


def test_where_nothing_is_missing_nobody_is_asked_and_nothing_is_flushed() -> None:
    place = Place(l1=CLOSED)
    place.held[ONE] = {0, 1, 2, 3}

    status = place.fill()

    assert place.log == ["sync /ledgers", "metadata 1"]
    assert status.is_whole


def test_metadata_that_does_not_name_this_bookie_costs_one_read() -> None:
    place = Place(l1=build.a_ledger((0, "b3 b1 b2")).closed(EntryId(3), 28), l2=build.a_ledger((0, "b3 b1 b2")))

    status = place.fill()

    assert place.log == ["sync /ledgers", "metadata 1", "metadata 2"]
    assert (status.ledgers_total, status.is_whole) == (0, True)


def test_only_what_the_write_sets_give_this_bookie_is_fetched() -> None:
    place = Place(l1=build.a_ledger((0, "bookie-0 b1 b2"), write=2).closed(EntryId(5), 28))

    place.fill()

    assert place.durable == {ONE: {0, 2, 3, 5}}  # entry 1 and 4 are b1's and b2's


@pytest.mark.parametrize("metadata", [OPEN, OPEN.in_recovery()])
def test_of_a_ledger_without_an_end_nothing_behind_the_lac_is_fetched(metadata: LedgerMetadata) -> None:
    """Its replicas would give more: entries that nobody has confirmed, which a recovery may decide not to be there."""
    place = Place(l1=metadata)
    place.lac = lambda: 1

    status = place.fill()

    assert place.durable == {ONE: {0, 1}}
    assert status.is_whole


def test_of_an_open_ledger_the_lac_is_read_before_the_metadata_that_says_whose_the_entries_are() -> None:
    """While the LAC is read, the writer changes its ensemble at entry 2 and confirms to 5: those are not ours."""
    place = Place(l1=OPEN)

    def moves_on() -> int:
        place.records[ONE] = OPEN.with_ensemble(EntryId(2), (BookieId("b3"), B1, B2))
        return 5

    place.lac = moves_on

    place.fill()

    assert place.durable == {ONE: {0, 1}}
    lac = place.log.index("lac 1")
    assert place.log[lac + 1 : lac + 3] == ["sync /ledgers", "metadata 1"]


def test_a_sealed_segment_of_an_open_ledger_is_filled_to_its_end_without_asking_its_writer() -> None:
    place = Place(l1=OPEN.with_ensemble(EntryId(2), (BookieId("b3"), B1, B2)))

    place.fill()

    assert place.durable == {ONE: {0, 1}}
    assert "lac 1" not in place.log


def test_nothing_counts_before_it_is_durable() -> None:
    place = Place(l1=CLOSED)

    place.fill()

    (before,) = place.at_flush
    assert (before.entries_copied, before.bytes_copied, before.entries_missing, before.is_whole) == (0, 0, 4, False)


def test_a_flush_that_fails_ends_the_run_and_nothing_counts() -> None:
    place = Place(l1=CLOSED)
    place.flush_error = errors.DiskFull("no space left")

    with pytest.raises(errors.DiskFull):
        place.fill()

    status = place.progress.snapshot()
    assert (status.entries_copied, status.entries_missing, status.is_whole, status.is_running) == (0, 4, False, False)
    assert "no space left" in status.reason


@pytest.mark.parametrize("wrong", [sealed(1, 1)[:-1] + b"X", sealed(1, 2), sealed(2, 1), b""])
def test_bytes_that_fail_their_check_are_not_kept_and_the_next_replica_is_asked(wrong: bytes) -> None:
    place = Place(l1=CLOSED)
    place.held[ONE] = {2, 3}
    place.replicas = lambda bookie, ledger, entry: wrong if bookie == B1 else sealed(ledger, entry)

    status = place.fill()  # of entries 0 and 1, b1 is asked first for one

    assert place.kept() == ["1/0", "1/1"]
    assert status.is_whole


def test_an_entry_that_nobody_gives_blocks_its_ledger_with_what_each_replica_said_and_stops_no_other() -> None:
    place = Place(l1=CLOSED, l2=CLOSED)

    def answer(bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bytes:
        if (ledger, entry) == (ONE, 2):
            raise errors.NoSuchEntry("not here") if bookie == B1 else errors.UnknownLedgerState("limbo here")
        return sealed(ledger, entry)

    place.replicas = answer

    status = place.fill()

    assert place.durable == {ONE: {0, 1, 3}, TWO: {0, 1, 2, 3}}
    assert (status.entries_copied, status.entries_missing, status.blocked_count, status.is_whole) == (7, 1, 1, False)
    (blocked,) = status.blocked
    assert blocked.ledger_id == ONE
    for words in ("entry 2", "b1: not here", "b2: limbo here"):
        assert words in blocked.reason


def test_a_blocked_ledger_is_tried_a_few_times_with_growing_pauses_and_then_the_run_ends() -> None:
    place = Place(l1=CLOSED)
    asked: list[int] = []

    def answer(bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bytes:
        if (bookie, entry) == (B1, 0):
            asked.append(place.now_ns // NS_PER_S)
        raise errors.BookieUnavailable("down")

    place.replicas = answer

    status = place.fill()

    looks = sorted(set(asked))
    assert looks == [0, 1, 3, 7, 15]
    assert (status.is_running, status.is_whole, status.blocked_count) == (False, False, 1)


def test_what_was_blocked_and_is_given_at_a_later_look_is_whole() -> None:
    place = Place(l1=CLOSED)

    def answer(bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bytes:
        if place.now_ns < 3 * NS_PER_S:
            raise errors.BookieUnavailable("restarts")
        return sealed(ledger, entry)

    place.replicas = answer

    status = place.fill()

    assert (status.is_whole, status.blocked, status.entries_copied) == (True, (), 4)


def test_a_ledger_in_limbo_is_left_to_phase_two_and_told() -> None:
    place = Place(l1=CLOSED)
    place.in_doubt = {ONE}

    status = place.fill()

    assert place.kept() == []
    assert (status.is_whole, status.blocked_count) == (False, 1)
    assert "phase two" in status.blocked[0].reason


def test_a_ledger_that_was_quarantined_during_the_run_keeps_the_bookie_from_being_whole() -> None:
    place = Place(l1=CLOSED)
    place.on_read = lambda: place.quarantined.setdefault(TWO, "its row cannot be read")

    assert not place.fill().is_whole


def test_a_ledger_that_is_deleted_while_its_entries_are_asked_for_is_no_hole() -> None:
    place = Place(l1=CLOSED)

    def answer(bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bytes:
        place.records.pop(ONE, None)
        raise errors.NoSuchLedger("deleted")

    place.replicas = answer

    status = place.fill()

    assert (status.is_whole, status.entries_missing, place.kept()) == (True, 0, [])


def test_a_ledger_that_was_deleted_since_the_walk_read_it_is_not_brought_back() -> None:
    """Its replicas still have it, until they collect it."""
    place = Place(l1=CLOSED)
    read = place.stored

    async def read_and_deleted(ledger_id: LedgerId) -> Any:
        found = await read(ledger_id)
        place.records.pop(ledger_id)
        return found

    place.stored = read_and_deleted  # type: ignore[method-assign]

    status = place.fill()

    assert (status.is_whole, place.kept()) == (True, [])


def test_a_record_that_nobody_lets_us_read_blocks_its_ledger_and_keeps_no_other_from_being_filled() -> None:
    place = Place(l1=errors.MetadataDenied("/ledgers/1: no permission"), l2=CLOSED)

    status = place.fill()

    assert place.durable == {TWO: {0, 1, 2, 3}}
    assert [(one.ledger_id, one.reason) for one in status.blocked] == [(1, "/ledgers/1: no permission")]
    assert (status.is_whole, status.reason) == (False, "1 ledgers are blocked")


def test_a_record_that_cannot_be_read_and_may_name_this_bookie_is_told() -> None:
    place = Place(l1=GARBAGE, l2=b"another stranger")

    status = place.fill()

    assert [blocked.ledger_id for blocked in status.blocked] == [ONE]
    assert not status.is_whole


def test_a_writer_that_goes_on_without_this_bookie_is_told() -> None:
    """It confirms an entry a second, and each of them is missing here: the next ones will be, too."""
    place = Place(l1=OPEN)
    place.lac = lambda: place.now_ns // NS_PER_S

    status = place.fill()

    assert place.durable == {ONE: set(range(16))}
    assert not status.is_whole
    assert "its writer does not send to it" in status.blocked[0].reason


def test_a_writer_that_is_back_is_no_reason_to_wait_though_its_last_entry_is_under_way() -> None:
    place = Place(l1=OPEN)

    def confirms() -> int:
        lac = place.now_ns // NS_PER_S * 10
        place.held.setdefault(ONE, set()).update(range(2, lac))  # all but the last one arrived by themselves
        return max(1, lac)

    place.lac = confirms

    status = place.fill()

    assert (status.is_whole, status.blocked) == (True, ())


def test_the_last_entry_before_the_return_is_filled_once_the_writer_has_told_that_it_is_confirmed() -> None:
    place = Place(l1=OPEN)
    place.lac = lambda: 4 if place.now_ns else 3

    status = place.fill()

    assert place.durable == {ONE: {0, 1, 2, 3, 4}}
    assert status.is_whole


def test_a_lac_that_cannot_be_known_blocks_the_ledger() -> None:
    place = Place(l1=OPEN)

    def unknown() -> int:
        raise errors.QuorumNotReached("too many bookies cannot say")

    place.lac = unknown

    status = place.fill()

    assert (place.kept(), status.is_whole) == ([], False)
    assert "too many bookies cannot say" in status.blocked[0].reason


def test_a_failing_disk_ends_the_node() -> None:
    place = Place(l1=CLOSED)

    async def failing(ledger_id: LedgerId) -> list[IdRange]:
        raise errors.DiskFailed("the disk")

    place.entry_ranges = failing  # type: ignore[method-assign]

    with pytest.raises(errors.DiskFailed):
        place.fill()


def test_a_run_reads_no_more_ledgers_in_a_second_than_its_pace_allows() -> None:
    place = Place(**{f"l{number}": build.a_ledger((0, "b3 b1 b2")) for number in range(2_000)})

    place.fill()

    assert 1.5 * NS_PER_S < place.now_ns < 2.5 * NS_PER_S


def test_a_walk_that_the_metadata_store_refuses_proves_nothing() -> None:
    place = Place(l1=CLOSED)
    place.held[ONE] = {0, 1, 2, 3}

    async def refused(ledger_id: LedgerId) -> Any:
        raise errors.final(errors.MetadataError("not allowed"))

    place.stored = refused  # type: ignore[method-assign]

    with pytest.raises(errors.MetadataError):
        place.fill()

    status = place.progress.snapshot()
    assert (status.is_whole, status.is_running) == (False, False)
    assert "not allowed" in status.reason


def test_what_was_found_missing_and_was_never_copied_is_missing_in_the_end() -> None:
    progress = FillProgress(Place())
    progress.begin(BootEpoch(1))
    progress.found(ONE, 3)
    progress.end()

    assert not progress.is_whole


def test_a_blocked_ledger_stays_listed_until_the_next_run_has_looked_at_it_or_is_over() -> None:
    place = Place(l1=CLOSED, l2=CLOSED)
    good = place.replicas

    def denied(bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bytes:
        raise errors.NoSuchEntry("gone")

    place.replicas = denied
    assert place.fill().blocked_count == 2
    seen: list[FillStatus] = []
    place.records.pop(TWO)
    place.replicas = good
    place.on_read = lambda: seen.append(place.progress.snapshot())

    status = place.fill()

    assert [one.ledger_id for one in seen[0].blocked] == [ONE, TWO]
    assert (status.is_whole, status.blocked, status.reason) == (True, (), "")


def test_the_result_of_the_last_run_stands_until_the_next_one_has_ended() -> None:
    place = Place(l1=CLOSED)
    assert place.fill().is_whole
    seen: list[FillStatus] = []
    place.held[ONE].remove(0)
    place.on_read = lambda: seen.append(place.progress.snapshot())

    def denied(bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bytes:
        raise errors.NoSuchEntry("gone")

    place.replicas = denied

    assert not place.fill().is_whole
    assert seen[0].is_running
    assert seen[0].is_whole


def test_what_one_look_leaves_missing_is_what_is_missing_and_not_what_was_when_it_began() -> None:
    place = Place(l1=CLOSED)
    place.held[ONE] = {2, 3}

    def at_the_last_look(bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bytes:
        if entry == 1 or place.now_ns < 15 * NS_PER_S:
            raise errors.NoSuchEntry("gone")
        return sealed(ledger, entry)

    place.replicas = at_the_last_look

    status = place.fill()

    assert place.kept() == ["1/0"]
    assert (status.entries_copied, status.entries_missing, status.blocked_count) == (1, 1, 1)


def test_a_ledger_that_is_looked_at_several_times_counts_once() -> None:
    place = Place(l1=CLOSED, l2=OPEN)
    place.held[TWO] = {0, 1}

    def denied(bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bytes:
        raise errors.NoSuchEntry("gone")

    place.replicas = denied

    status = place.fill()

    assert place.log.count("metadata 1") > 2
    assert (status.ledgers_total, status.ledgers_done) == (2, 2)


@pytest.mark.parametrize(("entries", "size"), [(8, 1 << 30), (1 << 30, 8 * len(sealed(1, 0)))])
def test_copies_are_made_durable_before_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch, entries: int, size: int
) -> None:
    """A flush is a checkpoint of the whole bookie: neither after each ledger, nor only in the end."""
    monkeypatch.setattr(fill, "_FLUSH_ENTRIES", entries)
    monkeypatch.setattr(fill, "_FLUSH_BYTES", size)
    place = Place(**{f"l{number}": CLOSED for number in range(1, 6)})

    assert place.fill().is_whole

    flushes = [line for line in place.log if line == "flush" or line.startswith("keep")]
    assert [place for place, line in enumerate(flushes) if line == "flush"] == [8, 17, 22]


def test_later_looks_keep_the_pace_too() -> None:
    place = Place(**{f"l{number}": OPEN for number in range(200)})
    place.held = {LedgerId(number): {0, 1} for number in range(200)}

    place.fill()

    assert place.log.count("lac 7") == 2
    assert 1.25 * NS_PER_S < place.now_ns < 1.35 * NS_PER_S, "the second time too, after a second between"
