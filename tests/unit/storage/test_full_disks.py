"""What is still served, and taken again, when a disk has no space: nobody waits for it who does not need it."""

from typing import cast

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB, NS_PER_MS, NS_PER_S
from bookie.ports.disk import Disk
from bookie.sim.disk import WriteFault
from bookie.sim.node import Defect, ProcessEnd
from bookie.storage.collect import collector
from bookie.storage.journal import writer
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, Outcome, ShortDisk, entry, put, run
from story_support import story

LEDGER = LedgerId(7)


def open_files(bench: Bench) -> list[str]:
    return [file.path for file in bench.node.disk.open_files if file.path.endswith(".journal")]


async def recover_until_refused(store: EntryStore, bench: Bench, first: int) -> int:
    """Recovery adds, which a full bookie takes for as long as it can keep them; return the id after the last."""
    outcomes: list[Outcome] = []
    try:
        while len(outcomes) < 1_000:
            outcomes.append(put(store, 7, first + len(outcomes), payload=bytes(KIB), is_recovery=True))
    except errors.TooManyRequests:
        pass
    await bench.settle(*outcomes)
    return first + len(outcomes)


@story(run, write_cache_bytes_max=64 * KIB)
async def test_who_reads_is_not_made_to_wait_while_a_checkpoint_waits_for_space(bench: Bench) -> None:
    # Connections read on only while there is `room`: without an end to the wait a full disk would take the reads too.
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        bench.fill("/ledgers")
        end = await recover_until_refused(store, bench, 3)
        await bench.simulation.until(lambda: store.is_read_only, "read-only")
        await bench.simulation.until(lambda: "waits for space: free some" in store.health.why_read_only, "what waits")
        assert "a write to /ledgers" in store.health.why_read_only

        end = await recover_until_refused(store, bench, end)
        assert 100 < end < 1_000
        await bench.simulation.until(lambda: not store.is_congested, "room for readers")
        assert await bench.read(store, 7, 1) == entry(7, 1)

        bench.make_room("/ledgers")
        await store.flush()
        assert await store.entry_ranges(LEDGER) == [(0, end - 1)]
        await bench.put_all(store, 7, [end])

    await bench.life(work)


@pytest.mark.parametrize("journal_write_data", [True, False])
@story(run)
async def test_a_store_without_space_for_its_last_checkpoint_says_that_it_did_not_end_well(
    bench: Bench, *, journal_write_data: bool
) -> None:
    """CONFORMANCE.md#B31: what it acknowledged may be in memory alone, so the marker must stay."""
    bench.change(journal_write_data=journal_write_data)

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        bench.fill("/ledgers")

    await bench.life(work)

    assert bench.was_clean is False


@story(run, journal_file_bytes_max=4 * KIB)
async def test_a_journal_that_was_full_and_behind_takes_adds_again(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "Behind" was taken back by the next group only, and no group came: every add was refused before it.
    monkeypatch.setattr(writer, "PENDING_BYTES_MAX", 16 * KIB)

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3), payload=bytes(2 * KIB))
        bench.fill("/journal", room=10)
        bench.node.disk_faults.write_latency_ns = 1_000 * NS_PER_MS
        before = bench.node.disk.operations
        refused = [put(store, 7, 3)]
        await bench.simulation.until(lambda: bench.node.disk.operations > before, "the next file being opened")
        refused += [put(store, 7, 4 + number, payload=bytes(KIB)) for number in range(16)]
        with pytest.raises(errors.TooManyRequests, match="journal"):
            put(store, 7, 50)
        await bench.settle(*refused)
        assert all(isinstance(outcome.error, errors.DiskFull) for outcome in refused)

        bench.make_room("/journal")
        await store.flush()

        await bench.put_all(store, 7, range(100, 110))

    await bench.life(work)


@story(run, journal_file_bytes_max=4 * KIB, flush_interval_ms=60_000)
async def test_a_full_journal_is_trimmed_at_once_and_then_as_often_as_ever(bench: Bench) -> None:
    # It waited for the next checkpoint: up to ten seconds without fences and recovery adds, for want of a trim.
    async def work(store: EntryStore) -> None:
        others = await bench.node.world.disk.open("/journal/others", create=True)
        await others.append([bytes(4_096 * KIB)])
        for entry_id in range(8):
            await bench.put_all(store, 7, [entry_id], payload=bytes(4 * KIB))
        assert len(bench.paths(".journal")) > 3
        bench.fill("/journal", room=10)
        refused = put(store, 7, 8)
        await bench.settle(refused)
        assert isinstance(refused.error, errors.DiskFull)

        await bench.simulation.until(lambda: takes_fences(store), "the journal takes records", timeout_s=2)
        assert len(bench.paths(".journal")) <= 2
        assert store.is_read_only  # there is too little room for adds
        bench.fill("/journal", room=100)
        refused, before = put(store, 7, 9, payload=bytes(4 * KIB), is_recovery=True), store.stats.checkpoints
        await bench.settle(refused)
        assert isinstance(refused.error, errors.DiskFull)
        with pytest.raises(Defect, match="the journal takes records"):
            await bench.simulation.until(lambda: takes_fences(store), "the journal takes records", timeout_s=30)
        assert store.stats.checkpoints == before
        bench.make_room("/journal")
        await bench.simulation.until(lambda: not store.is_read_only, "adds are taken", timeout_s=61)

    await bench.life(work)


def takes_fences(store: EntryStore) -> bool:
    try:
        store.fence(LedgerId(8), KEY, Outcome())
    except errors.BookieReadOnly:
        return False
    return True


@pytest.mark.parametrize("is_marked", [False, True])
@pytest.mark.parametrize("journaled", [False, True])
@story(run)
async def test_a_copy_whose_ledger_has_no_key_yet_waits_while_the_journal_is_full(
    bench: Bench, *, journaled: bool, is_marked: bool
) -> None:
    # Its key went to the journal, which wrote again although it was suspended, and stopped the node.
    bench.change(journal_file_bytes_max=4 * KIB, journal_write_data=journaled)
    ids = LedgerId(9), EntryId(0)

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3), payload=bytes(2 * KIB))
        if is_marked:
            await store.protect([(LedgerId(9), True, True, None)])
        bench.fill("/journal", room=10)
        refused = Outcome()
        store.fence(LEDGER, KEY, refused)
        await bench.settle(refused)
        assert isinstance(refused.error, errors.DiskFull)

        with pytest.raises(errors.BookieReadOnly):
            store.add_copied(*ids, entry(9, 0), KEY)
        store.add_copied(LEDGER, EntryId(3), entry(7, 3), KEY)  # its key is known: nothing of it is for the journal
        await bench.simulation.loop.sleep_ns(NS_PER_S)
        assert not bench.failures
        with pytest.raises(errors.BookieReadOnly):
            await bench.put_all(store, 8, [0])
        assert store.writes_refused == 1, "whoever wrote it went on without us: it is fetched once there is room"

        bench.make_room("/journal")
        await store.flush()
        store.add_copied(*ids, entry(9, 0), KEY)
        await store.flush()
        await bench.put_all(store, 10, range(3))

    await bench.life(work, end=ProcessEnd.POWER_CUT)

    async def look(store: EntryStore) -> None:
        facts = store.facts(LedgerId(9))
        assert facts is not None
        assert facts.master_key == KEY
        assert await store.read(*ids) == entry(9, 0)

    await bench.life(look, accept_loss=True)


@story(run)
async def test_attempts_to_begin_a_journal_file_on_a_full_disk_leave_no_file_open(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        before = open_files(bench)
        bench.fill("/journal", room=10)
        refused = put(store, 7, 3)
        await bench.settle(refused)
        for _ in range(5):
            with pytest.raises(errors.DiskFull):
                await store.flush()

        assert open_files(bench) == before

    await bench.life(work)


@pytest.mark.parametrize("cache_bytes", [8 * KIB, 1024 * KIB], ids=["while it replays", "when it has replayed"])
@pytest.mark.parametrize("end", [ProcessEnd.KILL, ProcessEnd.POWER_CUT, ProcessEnd.EXIT])
@story(run)
async def test_a_bookie_starts_on_a_full_disk_and_serves_what_it_has(
    bench: Bench, *, cache_bytes: int, end: ProcessEnd
) -> None:
    async def first(store: EntryStore) -> None:
        bench.fill("/ledgers")
        await bench.put_all(store, 7, range(40), payload=bytes(KIB))
        await bench.fence(store, 8)

    async def on_a_full_disk(store: EntryStore) -> None:
        assert store.is_read_only
        assert not store.is_congested
        with pytest.raises((errors.BookieReadOnly, errors.TooManyRequests)):
            put(store, 7, 40)
        for entry_id in range(40):
            assert await bench.read(store, 7, entry_id) == entry(7, entry_id, payload=bytes(KIB))
        with pytest.raises(errors.DiskFull):
            await store.flush()

    async def with_room(store: EntryStore) -> None:
        await store.flush()
        assert not store.is_read_only
        await bench.put_all(store, 7, [40])
        assert await store.entry_ranges(LEDGER) == [(0, 40)]
        facts = store.facts(LedgerId(8))
        assert facts is not None
        assert facts.is_fenced

    bench.change(write_cache_bytes_max=1024 * KIB)
    await bench.life(first, end=ProcessEnd.KILL)
    bench.change(write_cache_bytes_max=cache_bytes)
    for _ in range(3):
        await bench.life(on_a_full_disk, end=end)
    bench.make_room("/ledgers")
    await bench.life(with_room, end=end)
    await bench.life(with_room)
    assert not bench.failures


@pytest.mark.parametrize("is_deleted_before", [True, False])
@story(run, entry_log_bytes_max=16 * KIB)
async def test_deleted_ledgers_make_room_on_a_disk_that_is_full(bench: Bench, *, is_deleted_before: bool) -> None:
    # A deletion that waited for the checkpoint, which waited for space, would wait for ever.
    gone = (6, 7)

    async def is_absent(ledger_id: LedgerId) -> bool:
        return ledger_id in gone

    async def first(store: EntryStore) -> None:
        for ledger_id in gone:
            await bench.put_all(store, ledger_id, range(20), payload=bytes(KIB))
            await store.flush()
        await bench.put_all(store, 8, range(10), payload=bytes(KIB))
        if is_deleted_before:
            for ledger_id in gone:
                store.delete_ledger(LedgerId(ledger_id))
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()
        assert await bench.read(store, 8, 3) == entry(8, 3, payload=bytes(KIB))

        await collector.collect(store, is_absent)

        assert store.facts(LedgerId(6)) is None
        await bench.put_all(store, 8, [10])

    async def second(store: EntryStore) -> None:
        assert [store.facts(LedgerId(ledger_id)) for ledger_id in gone] == [None, None]
        assert await store.entry_ranges(LedgerId(8)) == [(0, 10)]
        assert await bench.read(store, 8, 3) == entry(8, 3, payload=bytes(KIB))

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)
    assert not bench.failures


@pytest.mark.parametrize("journal_write_data", [True, False])
@story(run)
async def test_what_was_deleted_out_of_a_full_write_cache_on_a_full_disk_makes_room_in_it(
    bench: Bench, *, journal_write_data: bool
) -> None:
    """The deletion was durable alone, so there was nothing left to write, and a cache of which nothing is written
    stayed full: adds were refused, and checkpoints of nothing ran without a rest, until a restart."""
    # The checkpoint that waits begins a second log: it leaves no delta, of which the next one would have to make rows.
    sizes = {"write_cache_bytes_max": 64 * KIB, "entry_log_bytes_max": 4 * KIB}
    bench.change(journal_write_data=journal_write_data, **sizes)

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        await bench.put_all(store, 8, range(3), payload=bytes(3 * KIB))
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()
        await recover_until_refused(store, bench, 1)
        store.delete_ledger(LEDGER)
        with pytest.raises(errors.DiskFull):
            await store.flush()
        bench.make_room("/ledgers")
        await store.flush()

        await bench.put_all(store, 8, [3])
        assert not store.is_congested
        await store.flush()
        turns = store.stats.checkpoints
        await bench.simulation.loop.sleep_ns(NS_PER_S // 2)
        assert store.stats.checkpoints == turns
        assert await store.entry_ranges(LedgerId(8)) == [(0, 3)]

    await bench.life(work)


@story(run, entry_log_bytes_max=16 * KIB, journal_dirs=("/ledgers/journal",), ledger_dirs=("/ledgers/ledgers",))
async def test_deleted_ledgers_make_room_on_a_full_disk_that_has_the_journal_too(bench: Bench) -> None:
    # No deletion was taken while the journal had suspended itself for want of the very room that deletions make.
    gone = (6, 7)

    async def is_absent(ledger_id: LedgerId) -> bool:
        return ledger_id in gone

    async def first(store: EntryStore) -> None:
        for ledger_id in gone:
            await bench.put_all(store, ledger_id, range(20), payload=bytes(KIB))
            await store.flush()
        await bench.put_all(store, 8, range(10), payload=bytes(KIB))
        bench.fill("/ledgers")
        refused = put(store, 8, 10)
        await bench.settle(refused)
        assert isinstance(refused.error, errors.DiskFull)
        assert not takes_fences(store)

        await collector.collect(store, is_absent)

        assert takes_fences(store)
        await bench.put_all(store, 8, [11], is_recovery=True)

    async def second(store: EntryStore) -> None:
        assert [store.facts(LedgerId(ledger_id)) for ledger_id in gone] == [None, None]
        assert await bench.read(store, 8, 3) == entry(8, 3, payload=bytes(KIB))
        assert await bench.read(store, 8, 11) == entry(8, 11)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)
    assert not bench.failures


@story(run, disk_used_max=0.8, disk_used_again=0.7, disk_used_warn=0.5)
async def test_a_file_system_that_is_enlarged_under_a_full_bookie_is_used_without_a_restart(bench: Bench) -> None:
    # spec/operator.md#X4: the operator enlarges volumes online, and restarts nobody for it.
    async def work(store: EntryStore) -> None:
        volume = bench.node.image.volumes["/ledgers"]
        volume.total_bytes, volume.used_bytes = 1_000_000, 900_000
        await bench.put_all(store, 8, [0], is_recovery=True)
        await store.flush()
        assert store.is_read_only
        told = store.health.why_read_only
        assert "/ledgers was more than 80% full (diskUsageThreshold)" in told
        volume.used_bytes = 750_000
        await store.flush()
        assert store.health.why_read_only == told  # reports are compared: no figure that moves is in it

        volume.total_bytes = 2_000_000
        await bench.simulation.until(lambda: not store.is_read_only, "writable")
        assert store.health.why_read_only == ""

        assert store.health.disks["/ledgers"].total_bytes == 2_000_000
        await bench.put_all(store, 7, [0])

    await bench.life(work)


@story(run, flush_interval_ms=3_600_000, entry_log_bytes_max=4 * KIB)
async def test_a_checkpoint_without_a_descriptor_is_tried_again_soon_and_takes_no_disk_for_full_or_failed(
    bench: Bench,
) -> None:
    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        short = ShortDisk(directory.logs.disk)
        directory.logs.disk = cast(Disk, short)
        await bench.put_all(store, 7, [0])
        with pytest.raises(errors.OutOfResources):
            await store.flush()
        assert (store.is_read_only, store.failed_dirs) == (False, ())
        await bench.put_all(store, 7, [1])
        await bench.simulation.loop.sleep_ns(NS_PER_S)
        assert not store.is_read_only

        faults = bench.node.disk_faults
        faults.fails_as, faults.fails_path, faults.fails_for = WriteFault.FULL, ".log", 1_000_000  # a quota, say
        faults.fails_at_write = bench.node.disk.writes + 1
        short.is_short = False
        with pytest.raises(errors.DiskFull):
            await store.flush()
        assert store.is_read_only, "it waits for space now"
        faults.fails_at_write = 0
        await store.flush()
        assert not store.is_read_only
        assert await store.entry_ranges(LEDGER) == [(0, 1)]

        short.is_short = True
        await bench.put_all(store, 8, range(2), payload=bytes(5 * KIB))
        with pytest.raises(errors.OutOfResources):
            await store.flush()
        short.is_short = False
        await bench.simulation.loop.sleep_ns(NS_PER_S)
        assert store.stats.entries_flushed == 4

    await bench.life(work)


@story(run)
async def test_a_full_disk_and_its_end_are_told_once_each(bench: Bench, *, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        lines = [record.getMessage().split(" ", 2)[0] for record in caplog.records]
        return [line for line in lines if line in ("read-only", "writable")]

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        bench.fill("/ledgers")
        for _ in range(3):
            with pytest.raises(errors.DiskFull):
                await store.flush()
        assert told() == ["read-only"]
        bench.make_room("/ledgers")
        for _ in range(3):
            await store.flush()
        assert told() == ["read-only", "writable"]

    with caplog.at_level("INFO"):
        await bench.life(work)
