"""Looking into stopped directories: everything that is there is shown, damage is named, nothing is changed."""

import copy
import struct
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.ordered_store import PutRow
from bookie.sim.disk_image import apply_batch
from bookie.sim.node import ProcessEnd
from bookie.storage import block, inspect
from bookie.storage.inspect import Damage, JournalRecord, LogEntry
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, entry, explicit_lac, put, run
from story_support import story


async def fill(bench: Bench, *, flush: bool) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        await bench.fence(store, 8)
        await bench.write_lac(store, 7, 1)
        if flush:
            await store.flush()

    await bench.life(work, end=ProcessEnd.KILL)


async def journal_of(bench: Bench) -> list[JournalRecord | Damage]:
    disk = bench.node.world.disk
    ids = await inspect.journal_ids(disk, "/journal")
    return [
        found
        for file_id in ids
        async for found in inspect.journal_records(disk, "/journal", file_id, is_last=file_id == ids[-1])
    ]


async def log_of(bench: Bench) -> list[LogEntry | Damage]:
    disk = bench.node.world.disk
    ids = await inspect.log_ids(disk, "/ledgers")
    return [found for log_id in ids async for found in inspect.log_entries(disk, "/ledgers", log_id)]


def contents(bench: Bench) -> dict[str, Any]:
    """Every byte of every file, and every row of every index."""
    volumes = bench.node.image.volumes.values()
    found: dict[str, Any] = {
        path: bytes(file.data) for volume in volumes for path, file in volume.root.files(volume.path)
    }
    found["rows"] = [copy.copy(store.values) for volume in volumes for store in volume.root.stores()]
    return found


@story(run)
async def test_a_journal_shows_its_records_in_order_with_their_kinds(bench: Bench) -> None:
    await fill(bench, flush=False)
    before = contents(bench)

    async def look() -> None:
        found = await journal_of(bench)
        assert [(type(one), getattr(one, "kind", "")) for one in found] == [
            (JournalRecord, kind) for kind in ("key", "entry", "entry", "entry", "fence", "lac")
        ]
        bodies = [one.body for one in found if isinstance(one, JournalRecord)]
        assert bodies == [KEY, *(entry(7, number) for number in range(3)), KEY, explicit_lac(7, 1)]

    await bench.look(look())
    assert contents(bench) == before


@story(run)
async def test_padding_between_groups_and_appends_is_not_shown_and_hides_nothing(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for round_ in range(3):
            await bench.put_all(store, 7, [2 * round_, 2 * round_ + 1])
            await store.flush()

    await bench.life(work, end=ProcessEnd.KILL)
    kept = [entry(7, number) for number in range(6)]

    async def look() -> None:
        records = [one for one in await journal_of(bench) if isinstance(one, JournalRecord) and one.kind == "entry"]
        assert [one.body for one in records] == kept
        data = bytes(bench.image(".journal").data)
        assert [data[one.offset + 32 : one.offset + 32 + len(one.body)] for one in records] == kept
        logged = await log_of(bench)
        assert [one.body for one in logged if isinstance(one, LogEntry)] == kept
        assert len(logged) == len(kept)

    await bench.look(look())


@story(run)
async def test_a_torn_tail_and_rot_in_a_journal_are_told_apart(bench: Bench) -> None:
    await fill(bench, flush=False)

    async def look() -> None:
        image = bench.image(".journal")
        whole = bytes(image.data)
        image.data = bytearray(whole[: 12_288 + 5])  # in the lac, the only record of the third group
        *_, last = await journal_of(bench)
        assert isinstance(last, Damage)
        assert (last.is_tail, last.reason) == (True, "5 bytes of a torn tail")
        image.data = bytearray(whole[:10])
        (path,) = bench.paths(".journal")
        assert await journal_of(bench) == [Damage(path, 0, "the header was never whole", is_tail=True)]
        image.data = bytearray(whole)
        image.data[4096 + 60] ^= 1
        *_, last = await journal_of(bench)
        assert isinstance(last, Damage)
        assert not last.is_tail
        image.data[3] ^= 1
        (only,) = await journal_of(bench)
        assert isinstance(only, Damage)
        assert (only.offset, only.is_tail) == (0, False)

    await bench.look(look())


@story(run, journal_file_bytes_max=12_288, flush_interval_ms=3_600_000)
async def test_the_end_of_a_journal_file_is_a_torn_tail_only_where_no_file_follows(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for entry_id in range(8):
            await bench.put_all(store, 7, [entry_id], payload=bytes(3000))

    await bench.life(work, end=ProcessEnd.KILL)

    async def look() -> None:
        first, last = bench.paths(".journal")[0], bench.paths(".journal")[-1]
        assert first != last
        for path, is_tail in ((first, False), (last, True)):
            image = bench.image(path)
            whole = bytes(image.data)
            image.data = image.data[: 4096 + 5]
            (found,) = [found for found in await journal_of(bench) if isinstance(found, Damage)]
            assert (found.path, found.is_tail) == (path, is_tail)
            image.data = bytearray(whole)

    await bench.look(look())


@story(run)
async def test_entry_logs_and_index_show_the_same_entries_and_facts(bench: Bench) -> None:
    await fill(bench, flush=True)
    before = contents(bench)

    async def look() -> None:
        world = bench.node.world
        logged = [one for one in await log_of(bench) if isinstance(one, LogEntry)]
        assert [(one.ledger_id, one.entry_id, one.body) for one in logged] == [
            (7, number, entry(7, number)) for number in range(3)
        ]
        async with inspect.open_index(world.ordered_stores, "/index") as index:
            assert list(index.entries()) == [(one.ledger_id, one.entry_id, one.location) for one in logged]
            assert list(index.entries(LedgerId(9))) == []
            facts = dict(index.ledgers())
            assert (facts[LedgerId(7)].master_key, facts[LedgerId(7)].last_confirmed) == (KEY, 1)
            assert facts[LedgerId(8)].is_fenced
            assert index.facts(LedgerId(9)) is None
            assert index.shape() == (0, 1, 1)
            assert len(index.marks()) == 1
            assert index.history() is not None
            assert [(log_id, ledger_id) for log_id, ledger_id, _ in index.log_use()] == [(0, 7)]
        third = logged[2]
        body = await inspect.read_entry(world.disk, "/ledgers", third.location, LedgerId(7), EntryId(2))
        assert body == third.body

    await bench.look(look())
    assert contents(bench) == before


@story(run)
async def test_a_damaged_record_of_an_entry_log_is_named_and_the_next_ones_are_shown(bench: Bench) -> None:
    await fill(bench, flush=True)

    async def look() -> None:
        first, second, third = await log_of(bench)
        assert isinstance(second, LogEntry)
        assert isinstance(third, LogEntry)
        bench.rot(".log", second.location.offset + 30)
        damaged = Damage(second.path, second.location.offset, "the record does not check", is_tail=False)
        assert await log_of(bench) == [first, damaged, third]
        disk = bench.node.world.disk
        with pytest.raises(errors.CorruptFile):
            await inspect.read_entry(disk, "/ledgers", second.location, LedgerId(7), EntryId(1))
        image = bench.image(".log")
        del image.data[third.location.offset + 30 :]
        *_, tail = await log_of(bench)
        assert isinstance(tail, Damage)
        assert tail.is_tail

    await bench.look(look())


@story(run)
async def test_a_directory_without_an_index_is_named(bench: Bench) -> None:
    async def look() -> None:
        with pytest.raises(errors.FileMissing, match="/index"):
            async with inspect.open_index(bench.node.world.ordered_stores, "/index"):
                pass

    await bench.look(look())


@story(run)
async def test_a_long_log_is_read_in_pieces(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for number in range(50):
            put(store, 7, number, payload=bytes(60_000 + number))
        await store.flush()

    await bench.life(work)

    async def look() -> None:
        found = [one for one in await log_of(bench) if isinstance(one, LogEntry)]
        assert [one.body for one in found] == [entry(7, number, payload=bytes(60_000 + number)) for number in range(50)]

    await bench.look(look())


def put_row(bench: Bench, key: bytes, value: bytes) -> None:
    """Put a row into the index of the stopped bookie, past all that the bookie would ever write."""
    (rows,) = bench.node.image.volumes["/index"].root.stores()
    for values in (rows.values, rows.durable):
        apply_batch(values, [PutRow(key, value)])


@story(run)
async def test_a_ledger_whose_row_cannot_be_read_is_named_with_the_reason_and_all_else_is_shown(bench: Bench) -> None:
    await fill(bench, flush=True)
    put_row(bench, struct.pack(">cq", b"L", 7), b"odd")
    put_row(bench, struct.pack(">cq", b"Q", 9), b"its journal holds nonsense")

    async def look() -> None:
        async with inspect.open_index(bench.node.world.ordered_stores, "/index") as index:
            assert [ledger_id for ledger_id, _ in index.ledgers()] == [8]
            with pytest.raises(errors.CorruptFile) as caught:
                index.facts(LedgerId(7))
            assert index.quarantined() == {7: str(caught.value), 9: "its journal holds nonsense"}
            facts = index.facts(LedgerId(8))
            assert facts is not None
            assert facts.is_fenced
            assert [(ledger_id, entry_id) for ledger_id, entry_id, _ in index.entries(LedgerId(7))] == [
                (7, 0),
                (7, 1),
                (7, 2),
            ]

    await bench.look(look())


@story(run)
async def test_a_row_of_entries_that_cannot_be_read_costs_its_own_ledger_alone(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        await bench.put_all(store, 8, range(2))
        await store.flush()

    await bench.life(work)
    put_row(bench, block.KEY.pack(b"E", 7, 0), b"odd")

    async def look() -> None:
        async with inspect.open_index(bench.node.world.ordered_stores, "/index") as index:
            assert index.quarantined() == {}, "nobody has read it yet"
            assert [(ledger_id, entry_id) for ledger_id, entry_id, _ in index.entries()] == [(8, 0), (8, 1)]
            assert list(index.quarantined()) == [7]
            assert list(index.entries(LedgerId(7))) == []

    await bench.look(look())
