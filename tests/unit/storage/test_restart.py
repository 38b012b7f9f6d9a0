"""Opening after a stop, a kill, a power cut, or damage."""

import pytest

import volumes_support
from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import BLOCK_BYTES
from bookie.sim.node import ProcessEnd
from bookie.storage.store import EntryStore
from storage_support import KEY, OTHER_KEY, Bench, Outcome, entry, explicit_lac, put, run
from story_support import story

LEDGER = LedgerId(7)


async def nothing(store: EntryStore) -> None:
    """A life without work."""


def fenced(store: EntryStore, ledger_id: int) -> bool:
    facts = store.facts(LedgerId(ledger_id))
    return facts is not None and facts.is_fenced


@story(run)
async def test_facts_and_entries_survive_a_power_cut_before_any_checkpoint(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(5))
        outcome = Outcome()
        store.write_lac(LEDGER, explicit_lac(7, 4), KEY, outcome)
        await bench.settle(outcome)
        await bench.fence(store, 7)
        assert store.stats.checkpoints == 0

    async def second(store: EntryStore) -> None:
        assert store.stats.entries_replayed == 5
        assert fenced(store, 7)
        assert store.last_confirmed(LEDGER) == 4
        assert await store.read_lac(LEDGER) == (explicit_lac(7, 4), entry(7, 4))
        assert [await bench.read(store, 7, entry_id) for entry_id in range(5)] == [entry(7, e) for e in range(5)]

    async def third(store: EntryStore) -> None:
        assert store.stats.entries_replayed == 0
        await second_again(store)

    async def second_again(store: EntryStore) -> None:
        assert fenced(store, 7)
        assert await bench.read(store, 7, 4) == entry(7, 4)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second, end=ProcessEnd.POWER_CUT)
    await bench.life(third)


@pytest.mark.parametrize("end", [ProcessEnd.KILL, ProcessEnd.POWER_CUT, ProcessEnd.EXIT])
@story(run)
async def test_a_fence_survives_an_idle_checkpoint_whatever_end_follows(bench: Bench, *, end: ProcessEnd) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        await bench.fence(store, 7)
        await store.flush()

    async def second(store: EntryStore) -> None:
        assert fenced(store, 7)
        with pytest.raises(errors.LedgerFenced):
            put(store, 7, 1)

    await bench.life(first, end=end)
    await bench.life(second)


@pytest.mark.parametrize("end", [ProcessEnd.KILL, ProcessEnd.POWER_CUT, ProcessEnd.EXIT])
@story(run)
async def test_an_explicit_lac_survives_an_idle_checkpoint_whatever_end_follows(
    bench: Bench, *, end: ProcessEnd
) -> None:
    """CONFORMANCE.md#A5: the checkpoint trims the journal that has it, and the ledger has its row already."""

    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        await store.flush()
        await bench.write_lac(store, 7, 2)
        await store.flush()

    async def second(store: EntryStore) -> None:
        assert await store.read_lac(LEDGER) == (explicit_lac(7, 2), entry(7, 2))
        assert store.last_confirmed(LEDGER) == 2

    await bench.life(first, end=end)
    await bench.life(second)


@story(run)
async def test_what_a_replay_brings_of_a_ledger_with_a_row_survives_the_next_power_cut(bench: Bench) -> None:
    """CONFORMANCE.md#P26, A5: opening ends in a checkpoint, after which the journal is trimmed."""

    async def before(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        await store.flush()

    async def first(store: EntryStore) -> None:
        await bench.write_lac(store, 7, 2)
        await bench.fence(store, 7)

    async def last(store: EntryStore) -> None:
        assert fenced(store, 7)
        assert await store.read_lac(LEDGER) == (explicit_lac(7, 2), entry(7, 2))

    await bench.life(before)
    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(nothing, end=ProcessEnd.POWER_CUT)
    await bench.life(last)


@story(run)
async def test_the_lac_that_entries_brought_is_replayed_with_them(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(5))
        assert store.last_confirmed(LEDGER) == 3

    async def second(store: EntryStore) -> None:
        assert store.stats.entries_replayed == 5
        assert store.last_confirmed(LEDGER) == 3

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_the_lac_that_entries_of_a_known_ledger_brought_is_told_after_a_restart(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        await bench.put_all(store, 7, range(1, 5))
        await store.flush()
        assert store.last_confirmed(LEDGER) == 3

    async def second(store: EntryStore) -> None:
        assert store.stats.entries_replayed == 0
        assert store.last_confirmed(LEDGER) == 3

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@pytest.mark.parametrize("end", [ProcessEnd.KILL, ProcessEnd.POWER_CUT, ProcessEnd.EXIT])
@story(run)
async def test_the_fence_of_a_ledger_never_seen_survives(bench: Bench, *, end: ProcessEnd) -> None:
    async def first(store: EntryStore) -> None:
        await bench.fence(store, 7)

    async def second(store: EntryStore) -> None:
        facts = store.facts(LEDGER)
        assert facts is not None
        assert (facts.is_fenced, facts.master_key) == (True, KEY)
        with pytest.raises(errors.LedgerFenced):
            put(store, 7, 0)

    await bench.life(first, end=end)
    await bench.life(second)


@story(run)
async def test_the_key_that_a_second_fence_brings_first_survives_a_power_cut(bench: Bench) -> None:
    """CONFORMANCE.md#B14: else whoever comes first afterwards may set another one."""

    async def first(store: EntryStore) -> None:
        await bench.fence(store, 7, key=b"")
        await bench.fence(store, 7)

    async def second(store: EntryStore) -> None:
        facts = store.facts(LEDGER)
        assert facts is not None
        assert (facts.is_fenced, facts.master_key) == (True, KEY)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_protection_is_durable_when_it_returns(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await store.protect([(LedgerId(number), True, number % 2 == 0, None) for number in range(2000)], epoch=3)

    async def second(store: EntryStore) -> None:
        for number in range(2000):
            facts = store.facts(LedgerId(number))
            assert facts is not None
            assert (facts.is_fenced, facts.is_limbo) == (True, number % 2 == 0)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@pytest.mark.parametrize("seed", range(8))
def test_protection_is_durable_in_every_directory_when_it_returns(seed: int) -> None:
    """CONFORMANCE.md#B34, B41: what was not flushed may be there after a power cut, or not."""

    async def first(store: EntryStore) -> None:
        await store.protect([(LedgerId(number), True, True, None) for number in range(20)], epoch=3)
        assert len(store.partitions) == 2

    async def second(store: EntryStore) -> None:
        for number in range(20):
            facts = store.facts(LedgerId(number))
            assert facts is not None
            assert (facts.is_fenced, facts.is_limbo) == (True, True)

    async def both(bench: Bench) -> None:
        await bench.life(first, end=ProcessEnd.POWER_CUT)
        await bench.life(second)

    run(both, seed=seed, ledger_dirs=("/ledgers", "/index"), index_dirs=())


@story(run)
async def test_a_ledger_that_comes_into_limbo_again_is_of_the_newer_epoch(bench: Bench) -> None:
    """CONFORMANCE.md#B34, B41: repaired since or not."""

    repaired, blocked = LedgerId(1), LedgerId(2)

    async def first(store: EntryStore) -> None:
        await store.protect([(repaired, True, True, None), (blocked, True, True, None)], epoch=3)
        store.clear_limbo(repaired)
        await store.flush()

    async def second(store: EntryStore) -> None:
        await store.protect([(repaired, True, True, None), (blocked, True, True, None)], epoch=4)

    async def third(store: EntryStore) -> None:
        for ledger_id in (repaired, blocked):
            facts = store.facts(ledger_id)
            assert facts is not None
            assert (facts.is_limbo, facts.limbo_epoch) == (True, 4)

    await bench.life(first)
    await bench.life(second, end=ProcessEnd.POWER_CUT)
    await bench.life(third)


@pytest.mark.parametrize("end", [ProcessEnd.KILL, ProcessEnd.POWER_CUT, ProcessEnd.EXIT])
@story(run)
async def test_limbo_once_cleared_and_flushed_does_not_come_back(bench: Bench, *, end: ProcessEnd) -> None:
    async def first(store: EntryStore) -> None:
        await store.protect([(LEDGER, True, True, KEY)])
        await store.flush()
        store.clear_limbo(LEDGER)
        await store.flush()

    async def second(store: EntryStore) -> None:
        facts = store.facts(LEDGER)
        assert facts is not None
        assert (facts.is_limbo, facts.is_fenced) == (False, True)
        with pytest.raises(errors.NoSuchEntry):
            store.read_nowait(LEDGER, EntryId(0))

    await bench.life(first, end=end)
    await bench.life(second)


@story(run, journal_write_data=False, unjournaled_flush_interval_ms=3_600_000)
async def test_an_unjournaled_ledger_is_known_with_its_key_once_an_entry_is_acknowledged(bench: Bench) -> None:
    """CONFORMANCE.md#B30: else whoever comes first after a crash may set another key, and the writer is locked out."""

    class Acknowledged(Outcome):
        journaled: tuple[object, ...] = ()

        def __call__(self, error: errors.BookieError | None) -> None:
            super().__call__(error)
            self.journaled = stores[0].journaled

    stores: list[EntryStore] = []

    async def first(store: EntryStore) -> None:
        stores.append(store)
        before, added = store.journaled, [Acknowledged(), Acknowledged()]
        for number, done in enumerate(added):  # the second finds the ledger known, and its key still on its way
            store.add(LEDGER, [EntryId(number)], [entry(7, number)], KEY, is_recovery=False, done=done)
        await bench.settle(*added)
        assert [done.journaled > before for done in added] == [True, True]

    async def second(store: EntryStore) -> None:
        facts = store.facts(LEDGER)
        assert facts is not None
        assert facts.master_key == KEY

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_a_copied_entry_is_durable_after_a_flush(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await store.protect([(LEDGER, True, True, KEY)])
        store.add_copied(LEDGER, EntryId(3), entry(7, 3), KEY)
        await store.flush()
        store.clear_limbo(LEDGER)
        await store.flush()

    async def second(store: EntryStore) -> None:
        assert await bench.read(store, 7, 3) == entry(7, 3)
        assert await store.entry_ranges(LEDGER) == [(3, 3)]

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_the_journal_option_may_change_across_a_crash(before: bool, after: bool) -> None:
    # spec/bp46.md#T20, the storage half: what the journal holds is replayed whatever the option says now.
    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            await bench.put_all(store, 7, range(3))
            if not before:
                await store.flush()
            await bench.fence(store, 7)
            await bench.put_all(store, 8, [0])

        async def second(store: EntryStore) -> None:
            assert await bench.read(store, 7, 2) == entry(7, 2)
            assert fenced(store, 7)
            facts = store.facts(LedgerId(8))
            assert facts is not None
            assert facts.master_key == KEY
            assert store.has_entry(LedgerId(8), EntryId(0)) == before

        await bench.life(first, end=ProcessEnd.POWER_CUT)
        bench.change(journal_write_data=after)
        await bench.life(second)

    run(story, Bench(journal_write_data=before))


# ---- the journal's tail and its damage -------------------------------------------------------------------------------


async def journal_of_three_groups(bench: Bench) -> int:
    """A life that ended by kill -9 with entries 0..2 of ledger 7, one group each; the size of its journal."""

    async def first(store: EntryStore) -> None:
        for entry_id in range(3):
            await bench.put_all(store, 7, [entry_id])

    await bench.life(first, end=ProcessEnd.KILL)
    return len(bench.image(".journal").data)


@pytest.mark.slow
@story(run)
async def test_a_tail_torn_at_any_byte_loses_only_the_last_group(bench: Bench) -> None:
    size = await journal_of_three_groups(bench)
    image = bench.image(".journal")
    whole = bytes(image.data)
    last_group, record = size - BLOCK_BYTES, 32 + len(entry(7, 2))
    snapshot = {path: volumes_support.snapshot(bench.node.image, path) for path in ("/journal", "/ledgers", "/index")}
    in_padding = (last_group + record, last_group + record + 1, size - 1)  # what it was to end is whole
    for cut in (*range(last_group, last_group + record), *in_padding):
        for tail in (b"", bytes(size - cut)):
            for volume in snapshot.values():
                volumes_support.put_back(bench.node.image, volume)
            image = bench.image(".journal")
            image.data[:] = whole[:cut] + tail
            image.durable[:] = image.data

            async def after(store: EntryStore, last: int = 2 if cut in in_padding else 1) -> None:
                assert await store.entry_ranges(LEDGER) == [(0, last)]

            await bench.life(after)
            await bench.life(after)


@pytest.mark.slow
@pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT])
@story(run)
async def test_a_restart_over_a_torn_tail_may_itself_be_cut_anywhere(bench: Bench, *, how: ProcessEnd) -> None:
    await journal_of_three_groups(bench)
    del bench.image(".journal").data[-5:]
    snapshot = [volumes_support.snapshot(bench.node.image, path) for path in ("/journal", "/ledgers", "/index")]

    async def after(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) in ([(0, 1)], [(0, 2)])

    operation, died = 0, True
    while died:
        operation += 1
        for volume in snapshot:
            volumes_support.put_back(bench.node.image, volume)
        died = await bench.dies(after, operation=operation, how=how)
        await bench.life(after)
    assert operation > 10


@story(run)
async def test_what_a_start_found_in_the_page_cache_alone_stays_when_the_power_fails_next(bench: Bench) -> None:
    """A kill came between a group's write and its sync; the start has no space for a checkpoint, and serves the group
    from memory: then nobody else makes it durable."""
    size = await journal_of_three_groups(bench)
    image = bench.image(".journal")
    group = bytes(image.data[size - BLOCK_BYTES :])
    for data in (image.data, image.durable):
        del data[size - BLOCK_BYTES :]
    image.write(size - BLOCK_BYTES, group)

    async def after(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 2)]

    bench.fill("/ledgers")
    await bench.life(after, end=ProcessEnd.KILL)
    image.pending.clear()
    image.data[:] = image.durable  # the power failed, and the disk kept nothing that it need not
    bench.make_room("/ledgers")
    await bench.life(after)


@story(run)
async def test_rot_before_a_synced_record_is_refused_with_file_and_offset(bench: Bench) -> None:
    size = await journal_of_three_groups(bench)
    rotten = size - 2 * BLOCK_BYTES  # the last group but one
    bench.rot(".journal", rotten + 5)

    with pytest.raises(errors.CorruptFile, match=rf"0001\.journal: the record at offset {rotten} "):
        await bench.life(nothing)
    # Refused again: nothing was cut off, nothing skipped.
    with pytest.raises(errors.CorruptFile):
        await bench.life(nothing)


@story(run)
async def test_rot_in_the_header_of_a_journal_that_holds_records_is_refused(bench: Bench) -> None:
    await journal_of_three_groups(bench)
    bench.rot(".journal", 20)

    with pytest.raises(errors.CorruptFile, match="header at offset 0"):
        await bench.life(nothing)


@story(run)
async def test_a_journal_file_that_was_never_begun_is_begun_again(bench: Bench) -> None:
    await journal_of_three_groups(bench)
    image = bench.image(".journal")
    for size in (0, 10, 40):
        fresh = type(image)(image.volume, bytes(size))
        current = bench.node.image.volumes["/journal"].root.names["current"]
        current.names["%016x.journal" % (int(bench.paths(".journal")[-1][-24:-8], 16) + 1)] = fresh  # type: ignore[union-attr]
        current.durable = dict(current.names)  # type: ignore[union-attr]

        async def after(store: EntryStore) -> None:
            assert await store.entry_ranges(LEDGER) == [(0, 2)]

        await bench.life(after, end=ProcessEnd.KILL)


@story(run)
async def test_a_missing_journal_file_is_refused_unless_the_loss_was_granted(bench: Bench) -> None:
    await journal_of_three_groups(bench)
    bench.node.image.wipe("/journal")

    with pytest.raises(errors.CorruptFile, match=r"0001\.journal is missing"):
        await bench.life(nothing)
    await bench.life(nothing, accept_loss=True, end=ProcessEnd.KILL)
    await bench.life(nothing)


@story(run, journal_file_bytes_max=12_288)
async def test_a_file_cut_short_between_two_records_is_seen_by_the_file_after_it(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        for entry_id in range(12):
            await bench.put_all(store, 7, [entry_id], payload=bytes(900))

    await bench.life(first, end=ProcessEnd.KILL)
    names = bench.paths(".journal")
    assert len(names) > 2
    image = bench.image(names[0])
    del image.data[-BLOCK_BYTES:]
    image.durable[:] = image.data

    with pytest.raises(errors.CorruptFile, match="when the next file was begun"):
        await bench.life(nothing)


@story(run)
async def test_an_index_that_went_back_in_time_is_refused(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))

    await bench.life(work)
    old = volumes_support.snapshot(bench.node.image, "/index")
    await bench.life(work)
    await bench.life(work)
    volumes_support.put_back(bench.node.image, old)

    with pytest.raises(errors.CorruptFile, match="missing"):
        await bench.life(nothing)


@story(run, ledger_dirs=("/ledgers/a", "/ledgers/b"), index_dirs=())
async def test_other_directories_or_another_order_are_refused(bench: Bench) -> None:
    await bench.life(nothing)
    bench.change(ledger_dirs=("/ledgers/b", "/ledgers/a"), index_dirs=())

    with pytest.raises(errors.RefusedToStart, match="was ledger directory 2 of 2"):
        await bench.life(nothing)


# ---- damage of entry logs --------------------------------------------------------------------------------------------


@story(run)
async def test_a_flipped_bit_anywhere_in_an_entry_is_an_error_and_never_a_no(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0, 1])

    await bench.life(first)
    record = 8 + len(entry(7, 1))
    start = BLOCK_BYTES + record

    async def after(store: EntryStore) -> None:
        for offset in range(start, start + record):
            bench.rot(".log", offset)
            with pytest.raises(errors.CorruptFile, match=r"00000000\.log: the record of entry 1 of ledger 7"):
                await bench.read(store, 7, 1)
            assert not await store.check_entry(LEDGER, EntryId(1))
            assert await store.check_entry(LEDGER, EntryId(0))
            bench.rot(".log", offset)
        assert await bench.read(store, 7, 1) == entry(7, 1)

    await bench.life(after)


@story(run)
async def test_an_entry_log_that_is_gone_is_an_error_and_its_entries_are_not_counted(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))

    await bench.life(first)
    bench.node.image.wipe("/ledgers")

    async def after(store: EntryStore) -> None:
        with pytest.raises(errors.CorruptFile, match="missing"):
            await bench.read(store, 7, 1)
        assert not store.has_entry(LEDGER, EntryId(1))
        assert not await store.check_entry(LEDGER, EntryId(1))
        assert await store.entry_ranges(LEDGER) == []
        store.add_copied(LEDGER, EntryId(1), entry(7, 1), KEY)
        await store.flush()
        assert await bench.read(store, 7, 1) == entry(7, 1)
        assert await store.entry_ranges(LEDGER) == [(1, 1)]
        with pytest.raises(errors.CorruptFile):
            await bench.read(store, 7, 2)

    await bench.life(after)
    assert [path.rsplit("/", 1)[1] for path in bench.paths(".log")] == ["00000001.log"]  # ids never come back


@story(run, ledger_dirs=("/ledgers", "/index/ledgers"), index_dirs=("/index", "/index/2"))
async def test_what_a_directory_has_checkpointed_is_not_replayed_because_another_one_has_not(bench: Bench) -> None:
    """The journal is read from the least mark on. A fence and a key in it may be those of a ledger that was deleted
    since, and made anew."""

    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 6, [0])
        await bench.put_all(store, 7, [0])  # lives in the second directory
        await bench.fence(store, 7)
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()
        store.delete_ledger(LedgerId(7))
        with pytest.raises(errors.DiskFull):
            await store.flush()
        await bench.put_all(store, 7, [1], key=OTHER_KEY, is_recovery=True)
        with pytest.raises(errors.DiskFull):
            await store.flush()

    async def second(store: EntryStore) -> None:
        facts = store.facts(LedgerId(7))
        assert facts is not None
        assert (facts.master_key, facts.is_fenced) == (OTHER_KEY, False)
        assert store.quarantined == {}
        assert await store.entry_ranges(LedgerId(7)) == [(1, 1)]
        assert await bench.read(store, 6, 0) == entry(6, 0)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    bench.make_room("/ledgers")
    await bench.life(second)


@story(run)
async def test_what_begins_a_new_incarnation_is_durable_or_does_not_begin(bench: Bench) -> None:
    """After a loss the marks of what is left are the only proof of what was there; read-only will not do."""

    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(6))

    async def second(store: EntryStore) -> None:
        assert await store.entry_ranges(LedgerId(7)) == [(0, 5)]

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    bench.fill("/ledgers")
    with pytest.raises(errors.DiskFull):
        await bench.life(second, accept_loss=True)
    await bench.life(second, end=ProcessEnd.KILL)  # without a loss it serves what it has, read-only
    bench.make_room("/ledgers")
    await bench.life(second, accept_loss=True)


@story(run, ledger_dirs=("/ledgers", "/index/ledgers"), index_dirs=("/index", "/index/2"))
async def test_a_start_keeps_the_journal_for_a_directory_that_had_no_space(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        for ledger_id in (6, 7):  # one in each directory
            await bench.put_all(store, ledger_id, range(6))

    async def second(store: EntryStore) -> None:
        for ledger_id in (6, 7):
            assert await store.entry_ranges(LedgerId(ledger_id)) == [(0, 5)]

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    bench.fill("/ledgers")
    await bench.life(second, end=ProcessEnd.KILL)
    bench.make_room("/ledgers")
    await bench.life(second)


@story(run)
async def test_after_a_loss_a_journal_that_ends_before_the_mark_is_read_as_far_as_it_goes(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(6))

    async def second(store: EntryStore) -> None:
        assert await store.entry_ranges(LedgerId(7)) == [(0, 5)]
        await bench.put_all(store, 7, [6])

    await bench.life(first)
    file = bench.image(".journal")
    for data in (file.data, file.durable):
        del data[4096:]
    with pytest.raises(errors.CorruptFile):
        await bench.life(second)
    await bench.life(second, accept_loss=True)
