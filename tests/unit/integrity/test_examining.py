"""Examining what a boot left in doubt: which marks, in which order, and what if it is cut, full, or unanswered
(docs/decisions/0021-phase-one-in-constant-time.md, rule 3)."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import integrity_support as build
from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, EntryId, LedgerId
from bookie.base.rounds import Rounds
from bookie.base.throttle import Throttle
from bookie.integrity import phase_one
from bookie.integrity.examining import Examiner
from bookie.integrity.ledgers import Loss
from bookie.integrity.means import RepairMeans
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.options import IntegrityOptions
from bookie.integrity.progress import BootProgress
from bookie.metadata import serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.metadata_store import Stored
from bookie.sim.node import ProcessEnd
from bookie.storage.store import EntryStore
from bookie.wire import digest
from storage_support import Bench, put, run
from story_support import story

OTHERS = (BookieId("b7"), BookieId("b8"), BookieId("b9"))
OURS = build.a_ledger()
THEIRS = build.a_ledger((0, "b7 b8 b9"))
CLOSED_OURS, CLOSED_THEIRS = OURS.closed(EntryId(3), 40), THEIRS.closed(EntryId(3), 40)
EPOCH = BootEpoch(7)


class Records:
    """Ledgers in a metadata store. `log`: what was asked, in order."""

    root = "/ledgers"

    def __init__(self, ledgers: dict[int, LedgerMetadata | bytes | errors.MetadataError]) -> None:
        self.ledgers = {LedgerId(number): one for number, one in ledgers.items()}
        self.store = self
        self.session_id = 1
        self.log: list[object] = []
        self.session_ends_at: LedgerId | None = None  # when this one is read
        self.listing_fails: list[errors.MetadataError] = []
        self.listings_end_sessions = 0  # so many of the next ones, at their ends

    async def sync(self, path: str) -> None:
        self.log.append("sync")

    async def bound(self) -> int:
        return max(self.ledgers, default=-1) + 1

    async def iterate(self) -> AsyncGenerator[LedgerId, None]:
        for ledger_id in sorted(self.ledgers):
            yield ledger_id

    async def iterate_down(self) -> AsyncGenerator[LedgerId, None]:
        for ledger_id in sorted(self.ledgers, reverse=True):
            if self.listing_fails and ledger_id < 50:
                raise self.listing_fails.pop(0)
            yield ledger_id
        if self.listings_end_sessions:
            self.listings_end_sessions -= 1
            self.session_id += 1

    async def stored(self, ledger_id: LedgerId) -> Stored:
        self.log.append(ledger_id)
        await asyncio.sleep(0)
        if self.session_ends_at == ledger_id:
            self.session_ends_at = None
            self.session_id += 1
        found = self.ledgers.get(ledger_id)
        if found is None:
            raise errors.LedgerMissing(f"{ledger_id}")
        if isinstance(found, errors.MetadataError):
            raise found
        return Stored(found if isinstance(found, bytes) else serde.dump_ledger(found), 0)

    @property
    def read(self) -> list[object]:
        return [one for one in self.log if one != "sync"]


def means_of(bench: Bench, store: EntryStore, records: Records, **options: Any) -> RepairMeans:
    world: Any = bench.node.world
    ledgers: Any = records
    nobody: Any = None
    made = IntegrityOptions(examine_ledgers_per_s=1_000_000, **options)
    return RepairMeans(
        store, ledgers, build.ME, nobody, nobody, made, world, MetadataRetry(world.clock), Throttle(None)
    )


def examiner(bench: Bench, store: EntryStore, records: Records, **options: Any) -> Examiner:
    means = means_of(bench, store, records, **options)
    return Examiner(means, BootProgress(means.world.clock))


async def doubt(bench: Bench, store: EntryStore, records: Records) -> None:
    means = means_of(bench, store, records)
    await phase_one.bound(means.ledgers, store, means.retry, BootProgress(means.world.clock), epoch=EPOCH)


def marks_of(store: EntryStore, ledger_id: int) -> tuple[bool, bool] | None:
    """(fence, limbo); None: the ledger is not known here."""
    facts = store.facts(LedgerId(ledger_id))
    return None if facts is None else (facts.is_fenced, facts.is_limbo)


TABLE: list[tuple[str, LedgerMetadata | bytes | errors.MetadataError, tuple[bool, bool] | None]] = [
    ("open, ours", OURS, (False, True)),
    ("open, moved on", OURS.with_ensemble(EntryId(2), OTHERS), (False, True)),
    ("open, theirs", THEIRS, None),
    ("in recovery, ours", OURS.in_recovery(), (True, True)),
    ("in recovery, theirs", THEIRS.in_recovery(), (True, True)),
    ("closed, ours", CLOSED_OURS, (True, True)),
    ("closed, theirs", CLOSED_THEIRS, (True, False)),
    ("unreadable, with our id", b"??? " + build.ME.encode(), (True, True)),
    ("unreadable", b"???", (True, False)),
    ("withheld", errors.MetadataDenied("not for you"), (True, True)),
]


@pytest.mark.parametrize(("record", "wanted"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
@story(run)
async def test_what_follows_from_a_record_is_what_phase_one_makes_of_it(
    bench: Bench, *, record: Any, wanted: tuple[bool, bool] | None
) -> None:
    records = Records({4: record})

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        assert store.is_in_doubt(LedgerId(4))
        await examiner(bench, store, records).run()

    await bench.life(work, end=ProcessEnd.POWER_CUT)

    async def then(store: EntryStore) -> None:
        assert store.doubt.is_over
        assert marks_of(store, 4) == wanted
        facts = store.facts(LedgerId(4))
        if isinstance(record, LedgerMetadata) and facts is not None:
            assert facts.master_key == digest.master_key(record.password)

    await bench.life(then)


@story(run)
async def test_phase_one_marks_every_ledger_although_one_record_is_withheld(bench: Bench) -> None:
    """Else one ledger of a stranger, whose record this bookie may not read, would keep it from ever serving again."""
    records = Records({1: OURS, 2: errors.MetadataDenied("not for you"), 3: OURS, 4: THEIRS})

    async def work(store: EntryStore) -> None:
        means = means_of(bench, store, records)
        progress = BootProgress(means.world.clock)
        await phase_one.run(
            means.ledgers, store, build.ME, Loss.VOLUMES, means.options, means.retry, progress, epoch=EPOCH
        )
        assert [marks_of(store, number) for number in (1, 2, 3, 4)] == [
            (False, True),
            (True, True),
            (False, True),
            None,
        ]

    await bench.life(work)


@story(run)
async def test_phase_one_marks_the_ledgers_of_every_batch(bench: Bench, *, monkeypatch: pytest.MonkeyPatch) -> None:
    """CONFORMANCE.md#B34, B41: those that share a flush with others, and those of the last flush, which are fewer."""
    records = Records(dict.fromkeys(range(7), CLOSED_OURS))
    monkeypatch.setattr(phase_one, "_MARKS_PER_FLUSH", 2)

    async def work(store: EntryStore) -> None:
        means = means_of(bench, store, records, scan_concurrency=3)
        progress = BootProgress(means.world.clock)
        await phase_one.run(
            means.ledgers, store, build.ME, Loss.VOLUMES, means.options, means.retry, progress, epoch=EPOCH
        )

    async def then(store: EntryStore) -> None:
        assert [marks_of(store, ledger_id) for ledger_id in range(7)] == [(True, True)] * 7
        facts = [store.facts(LedgerId(ledger_id)) for ledger_id in range(7)]
        assert [each.limbo_epoch for each in facts if each] == [EPOCH] * 7

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@story(run)
async def test_the_newest_comes_first_and_one_that_is_asked_for_before_its_turn(bench: Bench) -> None:
    records = Records(dict.fromkeys(range(9), THEIRS))

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        records.log.clear()
        with pytest.raises(errors.UnknownLedgerState):
            store.read_nowait(LedgerId(1), EntryId(0))
        await examiner(bench, store, records, scan_concurrency=2).run()
        assert records.read == [1, 8, 7, 6, 5, 4, 3, 2, 1, 0]
        assert records.log[0] == "sync"
        assert records.log.count("sync") == 1

    await bench.life(work)


@story(run)
async def test_what_is_asked_for_is_out_of_doubt_long_before_the_rest(bench: Bench) -> None:
    records = Records(dict.fromkeys(range(500), CLOSED_THEIRS))

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        with pytest.raises(errors.UnknownLedgerState):
            store.read_nowait(LedgerId(3), EntryId(0))
        seen: list[int] = []
        was = records.stored

        async def stored(ledger_id: LedgerId) -> Stored:
            if not store.is_in_doubt(LedgerId(3)):
                seen.append(store.doubt.rest)
            return await was(ledger_id)

        records.stored = stored  # type: ignore[method-assign]
        await examiner(bench, store, records, scan_concurrency=8).run()
        assert seen[0] == 500
        assert marks_of(store, 3) == (True, False)

    await bench.life(work)


@story(run)
async def test_ledgers_that_are_gone_leave_doubt_without_a_row(bench: Bench) -> None:
    records = Records({3: THEIRS, 9: THEIRS})

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        with pytest.raises(errors.UnknownLedgerState):
            store.read_nowait(LedgerId(5), EntryId(0))
        await examiner(bench, store, records).run()
        with pytest.raises(errors.NoSuchLedger):
            store.read_nowait(LedgerId(5), EntryId(0))
        assert marks_of(store, 5) is None

    await bench.life(work)


@pytest.mark.parametrize("record", [OURS, THEIRS, CLOSED_OURS, CLOSED_THEIRS], ids=["ours", "theirs", "closed", "gone"])
@story(run)
async def test_a_fence_that_came_while_a_ledger_was_examined_stays(bench: Bench, *, record: LedgerMetadata) -> None:
    """Also where the record that was read knew of no recovery yet."""
    records, key = Records({4: record}), digest.master_key(record.password)

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        was = records.stored

        async def stored(ledger_id: LedgerId) -> Stored:
            found = await was(ledger_id)
            await bench.fence(store, 4, key)
            return found

        records.stored = stored  # type: ignore[method-assign]
        await examiner(bench, store, records).run()
        facts = store.facts(LedgerId(4))
        assert facts is not None
        assert not facts.is_state_lost, "a lost state refuses writers too: it must not be all that does"

    await bench.life(work, end=ProcessEnd.POWER_CUT)

    async def then(store: EntryStore) -> None:
        with pytest.raises(errors.LedgerFenced):
            put(store, 4, 0, key=key)

    await bench.life(then)


@story(run)
async def test_a_session_that_ends_while_ledgers_are_listed_ends_no_doubt_by_that_listing(bench: Bench) -> None:
    records = Records(dict.fromkeys(range(12), THEIRS))
    records.session_ends_at = LedgerId(3)

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        records.log.clear()
        await examiner(bench, store, records, scan_concurrency=2).run()
        # Ledger 3 is read again in the new session, and so is all that was not settled before it ended.
        assert records.log.count("sync") == 2
        second = len(records.log) - 1 - records.log[::-1].index("sync")
        assert [one for one in records.log[second:] if one != "sync"][-12:] == list(range(11, -1, -1))
        assert store.doubt.is_over

    await bench.life(work)


@story(run)
async def test_a_session_that_ends_with_the_listing_ends_no_doubt_by_it(bench: Bench) -> None:
    """What it did not list may exist all the same, when its server was behind."""
    records = Records(dict.fromkeys(range(4), THEIRS))
    records.listings_end_sessions = 1

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        records.log.clear()
        await examiner(bench, store, records, scan_concurrency=2).run()
        assert records.log.count("sync") == 2
        assert records.read == [3, 2, 1, 0] * 2

    await bench.life(work)


@story(run)
async def test_a_listing_that_breaks_off_ends_no_doubt_and_is_tried_again(bench: Bench) -> None:
    records = Records(dict.fromkeys((7, 49, 51, 60), OURS))
    records.listing_fails = [errors.MetadataError("the connection broke"), errors.MetadataDenied("no")]

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        await examiner(bench, store, records).run()
        assert [marks_of(store, number) for number in (7, 49, 51, 60)] == [(False, True)] * 4

    await bench.life(work)


@story(run)
async def test_what_interrupts_the_examining_is_told_until_a_round_comes_to_its_end(bench: Bench) -> None:
    """The bookie is REPAIRING for as long as it lasts; a log line was all that said why."""
    records, rounds, seen = Records(dict.fromkeys((7, 60), OURS)), Rounds(), list[dict[str, str]]()
    records.listing_fails = [errors.MetadataDenied("the ledgers may not be listed")]

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        means = means_of(bench, store, records)
        was = records.iterate_down

        def listed() -> AsyncGenerator[LedgerId, None]:
            seen.append(rounds.last())
            return was()

        records.iterate_down = listed  # type: ignore[method-assign]
        await Examiner(means, BootProgress(means.world.clock), rounds).run()

    await bench.life(work)
    assert seen == [{}, {"examining": "the ledgers may not be listed"}]
    assert rounds.last() == {"examining": ""}


@pytest.mark.parametrize("how", [ProcessEnd.POWER_CUT, ProcessEnd.KILL])
def test_examining_cut_anywhere_goes_on_and_ends_with_every_mark(how: ProcessEnd) -> None:
    cuts = 0
    for operation in range(1, 300):
        bench = Bench(5)
        if not bench.simulation.run(cut_examining(bench, operation, how)):
            break
        cuts += 1
    assert 2 < cuts < 299


async def cut_examining(bench: Bench, operation: int, how: ProcessEnd) -> bool:
    """Return True when it was cut."""
    every = [OURS, THEIRS, CLOSED_OURS, CLOSED_THEIRS, THEIRS.in_recovery()]
    wanted = [(False, True), None, (True, True), (True, False), (True, True)]
    records = Records({number: every[number % 5] for number in range(10)})

    async def begin(store: EntryStore) -> None:
        await doubt(bench, store, records)

    await bench.life(begin, end=ProcessEnd.KILL)

    async def work(store: EntryStore) -> None:
        with pytest.raises(errors.UnknownLedgerState):
            store.read_nowait(LedgerId(2), EntryId(0))
        await examiner(bench, store, records, scan_concurrency=3).run()

    died = await bench.dies(work, operation=operation, how=how)

    async def go_on(store: EntryStore) -> None:
        for number in range(10):
            ledger_id = LedgerId(number)
            if not store.is_in_doubt(ledger_id):
                assert marks_of(store, number) == wanted[number % 5]
        await examiner(bench, store, records, scan_concurrency=3).run()
        assert store.doubt.is_over
        assert [marks_of(store, number) for number in range(10)] == wanted * 2

    await bench.life(go_on)
    return died


@story(run)
async def test_a_full_disk_interrupts_examining_and_ends_no_doubt(bench: Bench) -> None:
    records = Records(dict.fromkeys(range(3), OURS))

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        index, fails = store.partitions[0].index, [1, 2]
        flush = index.flush

        async def full() -> None:
            if fails:
                fails.pop()
                raise errors.DiskFull("no space")
            await flush()

        index.flush = full  # type: ignore[method-assign]
        await examiner(bench, store, records).run()
        assert not fails
        assert store.doubt.is_over
        assert [marks_of(store, number) for number in range(3)] == [(False, True)] * 3

    await bench.life(work)


@story(run)
async def test_a_full_journal_disk_delays_examining_and_ends_no_repair(bench: Bench) -> None:
    records = Records(dict.fromkeys(range(3), OURS))

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        bench.fill("/journal")
        refused = put(store, 900, 0)
        await bench.settle(refused)
        assert refused.error is not None
        examining = asyncio.get_running_loop().create_task(examiner(bench, store, records).run())
        await bench.simulation.loop.sleep_ns(60 * 10**9)
        assert not examining.done()
        assert store.doubt.rest == 3
        bench.make_room("/journal")
        await store.flush()
        await examining
        assert store.doubt.is_over

    await bench.life(work)


@story(run)
async def test_a_ledger_made_behind_the_bound_is_not_examined(bench: Bench) -> None:
    records = Records({1: THEIRS})

    async def work(store: EntryStore) -> None:
        await doubt(bench, store, records)
        records.ledgers[LedgerId(2)] = OURS
        records.log.clear()
        await examiner(bench, store, records).run()
        assert records.read == [1]
        assert marks_of(store, 2) is None

    await bench.life(work)
