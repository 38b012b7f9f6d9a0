"""Surplus that was given up: the entries go, all else of the ledger stays, and what is gone is unknown, never absent
(spec/metadata.md#M56)."""

import asyncio
import struct
from collections.abc import Callable

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage import index, partition, protection
from bookie.storage.collect.collector import collect, drop_dead_logs
from bookie.storage.collect.survey import survey
from bookie.storage.ledgers import GIVEN_UP
from bookie.storage.store import EntryStore
from storage_support import KEY, OTHER_KEY, Bench, Outcome, entry, explicit_lac, put, run, watched
from story_support import story

GONE, OTHER = LedgerId(7), LedgerId(8)
TWO_OF_EACH = {
    "journal_dirs": ("/journal", "/journal/2"),
    "ledger_dirs": ("/ledgers", "/ledgers/2"),
    "index_dirs": ("/index", "/index/2"),
}


async def give_up(store: EntryStore, ledger_id: LedgerId = GONE, *, flush: bool = True) -> None:
    store.watch_surplus(ledger_id)
    await store.mark_given_up([ledger_id])
    assert store.give_up(ledger_id)
    if flush:
        await store.flush()


async def is_unknown(store: EntryStore, ledger_id: LedgerId = GONE, *, entry_id: int = 0, lists: bool = False) -> None:
    """No question about what is not here is answered with a no, with "nothing more", or, without `lists`, a list."""
    asked: list[Callable[[], object]] = [
        lambda: store.read_nowait(ledger_id, EntryId(entry_id)),
        lambda: store.read_nowait(ledger_id, EntryId(-1)),
    ]
    for ask in asked:
        with pytest.raises(errors.UnknownLedgerState):
            ask()
    with pytest.raises(errors.UnknownLedgerState):
        await store.read(ledger_id, EntryId(entry_id))
    with pytest.raises(errors.UnknownLedgerState):
        await store.read_lac(ledger_id)
    if not lists:
        with pytest.raises(errors.UnknownLedgerState):
            await store.whole_list(ledger_id, lambda runs: None)
    assert [type(error) for error in await store.read_many(ledger_id, [EntryId(entry_id)])] == [
        errors.UnknownLedgerState
    ]
    assert store.is_in_doubt(ledger_id)


def is_fenced_with_its_key(store: EntryStore, ledger_id: LedgerId = GONE) -> None:
    facts = store.facts(ledger_id)
    assert facts is not None
    assert (facts.is_fenced, facts.is_state_lost, facts.is_limbo, facts.master_key) == (True, False, False, KEY)
    assert facts.is_given_up
    with pytest.raises(errors.LedgerFenced):
        put(store, ledger_id, 90)
    with pytest.raises(errors.Unauthorized):
        store.fence(ledger_id, OTHER_KEY, Outcome())


@pytest.mark.parametrize("is_flushed", [False, True])
@story(run)
async def test_what_was_given_up_is_unknown_and_its_fence_key_and_lac_stay(bench: Bench, *, is_flushed: bool) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0, 1, 2])
        lac = Outcome()
        store.write_lac(GONE, explicit_lac(GONE, 1), KEY, lac)
        await bench.settle(lac)
        if is_flushed:
            await store.flush()
        await give_up(store)
        assert not store.has_entries(GONE)

    async def look(store: EntryStore) -> None:
        await is_unknown(store)
        is_fenced_with_its_key(store)
        assert store.last_confirmed(GONE) == 1
        facts = store.facts(GONE)
        assert facts is not None
        assert facts.explicit_lac == explicit_lac(GONE, 1)

    async def both(store: EntryStore) -> None:
        await work(store)
        await look(store)

    await bench.life(both)
    await bench.life(look)


@pytest.mark.parametrize("seed", range(6))  # what a power cut leaves of writes that were not flushed is drawn
@story(run, given=("seed",))
async def test_the_mark_alone_denies_nothing_and_gives_what_is_here(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0, 1])
        await store.mark_given_up([GONE, OTHER])
        assert store.facts(OTHER) is None

    async def look(store: EntryStore) -> None:
        assert await bench.read(store, GONE, 1) == entry(GONE, 1)
        with pytest.raises(errors.UnknownLedgerState):
            await store.read(GONE, EntryId(2))
        is_fenced_with_its_key(store)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(look)


COMINGS: dict[str, Callable[[EntryStore], None]] = {
    "add of a recovery": lambda store: store.add(
        GONE, [EntryId(9)], [entry(GONE, 9)], KEY, is_recovery=True, done=Outcome()
    ),
    "copy": lambda store: store.add_copied(GONE, EntryId(9), entry(GONE, 9), KEY),
    "fence": lambda store: store.fence(GONE, KEY, Outcome()),
    "LAC": lambda store: store.write_lac(GONE, explicit_lac(GONE, 1), KEY, Outcome()),
}


@pytest.mark.parametrize("what", list(COMINGS))
@story(run)
async def test_a_ledger_for_which_anything_came_since_it_is_watched_is_kept(bench: Bench, *, what: str) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0, 1])
        assert not store.watch_surplus(GONE)
        assert store.watch_surplus(GONE)
        await store.mark_given_up([GONE])
        COMINGS[what](store)

        assert not store.give_up(GONE)
        assert await bench.read(store, GONE, 0) == entry(GONE, 0)
        assert not store.watch_surplus(GONE)  # it is watched anew

    await bench.life(work)


@story(run, ledgers_cached_max=1)
async def test_an_add_is_noticed_after_the_ledger_had_left_the_memory(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0])
        await store.flush()
        store.watch_surplus(GONE)
        for other in range(20, 24):
            await bench.put_all(store, other, [0])
        await store.flush()
        assert GONE not in store.partitions[0].table.known
        assert store.watch_surplus(GONE)
        await bench.put_all(store, GONE, [1])
        assert not store.watch_surplus(GONE)

    await bench.life(work)


@story(run)
async def test_what_nobody_watched_or_what_is_in_limbo_is_not_given_up(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0])
        await store.mark_given_up([GONE])
        assert not store.give_up(GONE)
        store.watch_surplus(GONE)
        await store.protect([(GONE, True, True, None)], epoch=1)
        assert not store.give_up(GONE)
        assert not store.give_up(OTHER)
        assert await bench.read(store, GONE, 0) == entry(GONE, 0)

    await bench.life(work)


@pytest.mark.parametrize("flushed", [False, True])
@story(run)
async def test_copies_that_come_later_are_kept_and_the_rest_stays_unknown(bench: Bench, *, flushed: bool) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0, 1, 2])
        await give_up(store, flush=flushed)
        store.add_copied(GONE, EntryId(1), entry(GONE, 1), KEY)
        forced = Outcome()
        store.force(GONE, forced)  # who copies must learn when the copies are durable
        await bench.settle(forced)
        assert forced.is_ok
        await store.flush()

    async def look(store: EntryStore) -> None:
        assert await bench.read(store, GONE, 1) == entry(GONE, 1)
        await is_unknown_but_for_one(store)

    async def is_unknown_but_for_one(store: EntryStore) -> None:
        for number in (0, 2):
            with pytest.raises(errors.UnknownLedgerState):
                await store.read(GONE, EntryId(number))
        assert await store.entry_ranges(GONE) == [(1, 1)]

    await bench.life(work)
    await bench.life(look)


@story(run)
async def test_a_ledger_named_again_tells_its_list_and_denies_nothing_all_the_same(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0, 1, 2])
        await give_up(store)
        store.named_again(GONE)
        store.named_again(OTHER)
        await store.flush()

    async def look(store: EntryStore) -> None:
        runs: list[tuple[EntryId, EntryId]] = []
        await store.whole_list(GONE, runs.extend)
        assert runs == []
        assert not store.may_be_lost(GONE)
        await is_unknown(store, lists=True)
        # And once more: the mark of the next time takes the list away again.
        store.add_copied(GONE, EntryId(1), entry(GONE, 1), KEY)
        store.watch_surplus(GONE)
        await store.mark_given_up([GONE])
        await is_unknown(store)

    await bench.life(work)
    await bench.life(look)


@story(run)
async def test_a_given_up_ledger_is_collected_when_it_is_gone(bench: Bench) -> None:
    async def gone(ledger_id: LedgerId) -> bool:
        return ledger_id == GONE

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0])
        await give_up(store)
        assert (await collect(store, gone)).ledgers_deleted == 1
        assert store.facts(GONE) is None
        with pytest.raises(errors.NoSuchLedger):
            await store.read(GONE, EntryId(0))

    await bench.life(work)


@pytest.mark.parametrize("beside", [False, True])
@story(run, entry_log_bytes_max=4096)
async def test_the_space_of_a_log_comes_back_once_nothing_in_it_is_located(bench: Bench, *, beside: bool) -> None:
    async def work(store: EntryStore) -> None:
        (partition,) = store.partitions
        for first in range(0, 16, 4):  # a log is followed by another where a flush finds it too large
            await bench.put_all(store, GONE, range(first, first + 4), payload=bytes(700))
            if beside:
                await bench.put_all(store, OTHER, range(first, first + 4), payload=bytes(700))
            await store.flush()
        await bench.put_all(store, 30, range(8), payload=bytes(700))
        await store.flush()
        await give_up(store, flush=False)
        before = len(partition.logs.ids)

        assert await drop_dead_logs(store) == 0  # a crash would bring the entries back
        await store.flush()
        dropped = await drop_dead_logs(store)
        assert dropped == (0 if beside else before - 1)
        if beside:  # of each log half is live: what compaction asks
            assert all(usage.share < 0.6 for usage in await survey(partition))
            for number in range(16):
                assert await bench.read(store, OTHER, number) == entry(OTHER, number, payload=bytes(700))

    await bench.life(work)
    await bench.life(lambda store: is_unknown(store))


@story(run)
async def test_each_index_tells_of_the_mark_before_a_checkpoint_may_write_one(bench: Bench) -> None:
    """One is flushed while the other's ledger is marked in memory already."""
    bench.change(**TWO_OF_EACH)

    async def work(store: EntryStore) -> None:
        homes = {ledger_id: store.partitions[ledger_id % 2] for ledger_id in (GONE, OTHER)}
        for ledger_id in homes:
            await bench.put_all(store, ledger_id, [0])
        marked = set()

        async def flush(_: partition.Partition) -> None:
            for ledger_id, home in homes.items():
                ledger = home.table.find(ledger_id)
                assert ledger is not None
                if ledger.flags & GIVEN_UP:
                    marked.add(ledger_id)
                    assert partition.has_given_up(home.index)

        await protection.mark_given_up(store.partitions, lambda ledger_id: ledger_id % 2, homes, flush=flush)
        assert marked == set(homes)

    await bench.life(work)


@pytest.mark.parametrize("is_in_doubt", [False, True])
@story(run)
async def test_an_index_with_such_a_mark_is_refused_by_an_older_program(bench: Bench, *, is_in_doubt: bool) -> None:
    formats: list[bytes | None] = []

    async def work(store: EntryStore) -> None:
        index = store.partitions[0].index
        await bench.put_all(store, GONE, [0])
        formats.append(index.get_meta("format"))
        if is_in_doubt:
            await store.doubt_below(5, epoch=1)
        await store.mark_given_up([GONE])
        formats.append(index.get_meta("format"))
        if is_in_doubt:
            await store.settle([], rest=0)
        formats.append(index.get_meta("format"))

    async def reopened(store: EntryStore) -> None:
        assert store.is_given_up(GONE)
        assert not store.is_given_up(OTHER)

    await bench.life(work)
    plain = partition.FORMAT_VERSION
    marked = plain + 0x200
    assert [struct.unpack(">I", data or b"")[0] for data in formats] == [
        plain,
        marked + (0x100 if is_in_doubt else 0),
        marked,
    ]
    await bench.life(reopened)


class Told:
    """What the dead process had done to one ledger, as far as it had returned."""

    def __init__(self) -> None:
        self.is_acknowledged = self.is_marked = False
        self.copied = False

    async def work(self, bench: Bench, store: EntryStore) -> None:
        await bench.put_all(store, GONE, range(6))
        await bench.put_all(store, OTHER, range(3))
        await store.flush()
        await bench.put_all(store, GONE, [6])  # in the journal alone
        self.is_acknowledged = True
        store.watch_surplus(GONE)
        await store.mark_given_up([GONE])
        self.is_marked = True
        assert store.give_up(GONE)
        await bench.put_all(store, OTHER, [3])
        await store.flush()
        await drop_dead_logs(store)
        store.add_copied(GONE, EntryId(2), entry(GONE, 2), KEY)
        await store.flush()
        self.copied = True

    async def check(self, bench: Bench, store: EntryStore) -> None:
        if not self.is_acknowledged:
            return
        for number in range(3):
            assert await bench.read(store, OTHER, number) == entry(OTHER, number)
        for number in range(7):
            if self.copied and number == 2:
                assert await bench.read(store, GONE, 2) == entry(GONE, 2)
                continue
            try:
                assert await bench.read(store, GONE, number) == entry(GONE, number)
            except errors.UnknownLedgerState:
                assert store.is_given_up(GONE)
        facts = store.facts(GONE)
        assert facts is not None
        assert facts.master_key == KEY
        if self.is_marked:
            assert facts.is_fenced
            assert facts.is_given_up


@pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT])
def test_a_cut_at_any_disk_operation_leaves_each_entry_here_or_unknown(how: ProcessEnd) -> None:
    operation, died = 0, True
    while died:
        operation += 1
        died = run_cut_at(operation, how)
    assert operation > 15, "the life was too short to say anything"


def run_cut_at(operation: int, how: ProcessEnd) -> bool:
    bench, told = Bench(operation, journal_file_bytes_max=4096, entry_log_bytes_max=4096), Told()

    async def story(bench: Bench) -> bool:
        died = await bench.dies(lambda store: told.work(bench, store), operation=operation, how=how)
        await bench.life(lambda store: told.check(bench, store))
        await bench.life(lambda store: told.check(bench, store))
        return died

    return run(story, bench)


@story(run)
async def test_a_given_up_ledger_has_its_row_whatever_of_the_checkpoint_survives(bench: Bench) -> None:
    """CRASH: what is not flushed survives in part. Without the row a ledger that lost its entries is denied."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0, 1])
        await store.flush()
        (directory,) = store.partitions
        rows: list[bytes | None] = []

        def look(_: object) -> None:
            rows.append(directory.index.store.get(index.ledger_key(GONE)))

        await give_up(store, flush=False)
        directory.index.store = watched(directory.index.store, look)
        await store.flush()
        assert len(rows) > 2
        assert None not in rows

    await bench.life(work)


@story(run)
async def test_what_was_given_up_is_unknown_also_when_a_full_disk_let_the_deletion_through_alone(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0, 1])
        await store.flush()
        await bench.put_all(store, OTHER, [0])
        await give_up(store, flush=False)
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()

    async def look(store: EntryStore) -> None:
        await is_unknown(store)
        is_fenced_with_its_key(store)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    bench.make_room("/ledgers")
    await bench.life(look)


@story(run, ledgers_cached_max=1)
async def test_what_is_given_up_while_a_checkpoint_runs_is_unknown_after_it_too(bench: Bench) -> None:
    """The checkpoint ends by dropping ledgers from memory, and only the next one removes the entries."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0])
        store.watch_surplus(GONE)
        await store.mark_given_up([GONE])
        await store.flush()
        for ledger_id in range(20, 24):
            await bench.put_all(store, ledger_id, [0])
        running = asyncio.ensure_future(store.flush())
        while store.partitions[0].flushing is None:
            await bench.simulation.loop.sleep_ns(1_000)
        assert store.give_up(GONE)
        await running

        await is_unknown(store)
        is_fenced_with_its_key(store)

    await bench.life(work)


@story(run)
async def test_a_ledger_of_which_something_may_be_lost_is_never_ready_to_be_given_up(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, GONE, [0])
        await store.protect([(GONE, False, True, None)], epoch=1)

        assert [store.watch_surplus(GONE) for _ in range(3)] == [False] * 3

    await bench.life(work)


@story(run, entry_log_bytes_max=4096)
async def test_a_log_stays_while_the_deletion_of_what_was_given_up_in_it_is_on_its_way(bench: Bench) -> None:
    """The index has no entry in it any more, and a crash would bring all of them back."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        for first in (0, 4):
            await bench.put_all(store, GONE, range(first, first + 4), payload=bytes(700))
            await store.flush()
        await bench.put_all(store, OTHER, range(8), payload=bytes(700))
        await store.flush()
        await give_up(store, flush=False)
        whole = directory.index.flush
        dropped: list[int] = []

        async def flush() -> None:
            dropped.append(await drop_dead_logs(store))
            await whole()

        directory.index.flush = flush  # type: ignore[method-assign]
        await store.flush()
        assert dropped[0] == 0
        assert await drop_dead_logs(store) > 0

    await bench.life(work)


@story(run, entry_log_bytes_max=4096)
async def test_a_log_with_copies_stays_while_nobody_can_read_where_they_are(bench: Bench) -> None:
    """The ledger was given up, is here again, and was quarantined: what locates nothing does not say that nothing is
    there."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        await bench.put_all(store, GONE, range(4), payload=bytes(700))
        await store.flush()
        await give_up(store)
        for entry_id in range(8):
            store.add_copied(GONE, EntryId(entry_id), entry(GONE, entry_id, payload=bytes(700)), KEY)
        await store.flush()
        await store.flush()  # no delta says it besides
        location = directory.index.locate(GONE, EntryId(0))
        assert location is not None
        await bench.put_all(store, OTHER, range(8), payload=bytes(700))
        await store.flush()
        directory.index.put_many([(index.block_key(GONE, EntryId(0)), b"rot")])
        with pytest.raises(errors.UnknownLedgerState):
            await store.read(GONE, EntryId(0))
        await drop_dead_logs(store)
        assert location.log_id in directory.logs.ids

    await bench.life(work)
