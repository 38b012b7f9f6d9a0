"""Which files come when, and what goes into them (CONFORMANCE.md#O26, O27, O31, B2)."""

from bookie.sim.node import ProcessEnd
from bookie.storage.store import EntryStore
from storage_support import Bench, entry, put, run
from story_support import story


@story(run)
async def test_each_life_writes_its_own_journal_file_and_entry_log(bench: Bench) -> None:
    """CONFORMANCE.md#O26, O27: no life appends to a file of the one before."""

    journals: list[str] = []
    logs: list[str] = []

    async def work(store: EntryStore) -> None:
        number = len(journals)
        await bench.put_all(store, 7, [number])
        journals.append(bench.paths(".journal")[-1])
        await store.flush()
        logs.append(bench.paths(".log")[-1])

    for end in (ProcessEnd.EXIT, ProcessEnd.KILL, ProcessEnd.POWER_CUT, ProcessEnd.EXIT):
        await bench.life(work, end=end)

    assert journals == sorted(set(journals))
    assert logs == sorted(set(logs))


@story(run, journal_write_data=False)
async def test_without_data_in_the_journal_an_entry_is_written_once(bench: Bench) -> None:
    """CONFORMANCE.md#B2: the journal has the keys and fences, the entry log has the bytes."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(20), payload=bytes(10_000))
        await store.flush()
        assert store.stats.journal_bytes < 10_000
        assert 200_000 < sum(len(bench.image(path).data) for path in bench.paths(".log")) < 210_000
        assert await bench.read(store, 7, 19) == entry(7, 19, payload=bytes(10_000))

    await bench.life(work)


@story(run, write_cache_bytes_max=16_384, flush_interval_ms=3_600_000)
async def test_a_full_write_cache_and_the_clock_each_begin_a_checkpoint(bench: Bench) -> None:
    """CONFORMANCE.md#O31."""

    async def by_pressure(store: EntryStore) -> None:
        before = store.stats.checkpoints
        for number in range(20):
            await bench.put_all(store, 7, [number], payload=bytes(4000))
            await store.room()
        assert store.stats.checkpoints > before

    async def by_clock(store: EntryStore) -> None:
        await bench.put_all(store, 8, [0])
        before = store.stats.checkpoints
        await bench.simulation.loop.sleep_ns(700_000_000_000)
        assert store.stats.checkpoints == before + 1
        assert store.stats.entries_flushed == 1

    await bench.life(by_pressure)
    bench.change(flush_interval_ms=600_000)
    await bench.life(by_clock)


@story(run, write_cache_bytes_max=128_000, flush_interval_ms=3_600_000)
async def test_a_checkpoint_of_many_ledgers_begins_later_than_one_of_few(bench: Bench) -> None:
    async def most_bytes(store: EntryStore, ledgers: int) -> int:
        """Return what the write cache held at most before a checkpoint took it, with entries to `ledgers` in turn."""
        (partition,), before, found = store.partitions, store.stats.checkpoints, 0
        for number in range(1_000):
            outcome = put(store, number % ledgers, number // ledgers, payload=bytes(1000))
            found = max(found, partition.active.size_bytes)
            await bench.settle(outcome)
            if store.stats.checkpoints > before:
                break
        return found

    async def first(store: EntryStore) -> None:
        assert 64_000 < await most_bytes(store, 10) < 70_000

    async def second(store: EntryStore) -> None:
        assert 96_000 < await most_bytes(store, 100) < 102_000

    await bench.life(first)
    await bench.life(second)
