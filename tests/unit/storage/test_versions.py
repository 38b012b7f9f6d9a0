"""Files of another version of this program are refused in one sentence, before a byte of them is changed."""

import struct
from collections.abc import Callable

import google_crc32c
import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.ordered_store import PutRow
from bookie.sim.disk_image import apply_batch
from bookie.sim.node import ProcessEnd
from bookie.storage import inspect, ledgers, partition, versions
from bookie.storage.entrylog import format as log_format
from bookie.storage.journal import format as journal_format
from bookie.storage.ledgers import Ledger
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, run
from story_support import story


async def filled(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        await store.flush()
        await bench.put_all(store, 7, range(3, 6))

    await bench.life(work, end=ProcessEnd.KILL)


def set_version(bench: Bench, path: str, version: int, fields_size: int) -> None:
    """Rewrite a header with another version, its checksum right: as another version of this program writes it."""
    image = bench.image(path)
    for data in (image.data, image.durable):
        struct.pack_into(">I", data, 8, version)
        struct.pack_into(">I", data, fields_size, google_crc32c.value(bytes(data[:fields_size])))


def journal(bench: Bench, version: int) -> None:
    set_version(bench, ".journal", version, journal_format.HEADER_SIZE - 4)


def entry_log(bench: Bench, version: int) -> None:
    set_version(bench, ".log", version, log_format.HEADER_SIZE - 4)


def index(bench: Bench, version: int) -> None:
    for store in bench.node.image.volumes["/index"].root.stores():
        for values in (store.values, store.durable):
            apply_batch(values, [PutRow(b"Mformat", struct.pack(">I", version))])


@pytest.mark.parametrize(
    ("change", "oldest", "newest", "named"),
    [
        (journal, journal_format.VERSION, journal_format.TOUCH_VERSION, ".journal"),
        (entry_log, log_format.VERSION, log_format.VERSION, "00000000.log"),
        (index, partition.FORMAT_VERSION, partition.FORMAT_VERSION, "the index of ledger directory 1"),
    ],
)
@pytest.mark.parametrize("step", [-1, 1, 7])
def test_another_format_is_refused_and_left_as_it_is(
    change: Callable[[Bench, int], None], oldest: int, newest: int, named: str, step: int
) -> None:
    known = newest if step > 0 else oldest

    async def story(bench: Bench) -> None:
        await filled(bench)
        change(bench, known + step)
        before = {path: bytes(bench.image(path).data) for path in bench.paths()}

        with pytest.raises(errors.RefusedToStart) as caught:
            await bench.life(never_reached)

        text = str(caught.value)
        assert named in text
        assert f"format {known + step}, this one knows {known}" in text
        assert ("newer" in text) == (step > 0)
        assert {path: bytes(bench.image(path).data) for path in bench.paths()} == before
        change(bench, oldest)
        await bench.life(all_there)

    async def never_reached(store: EntryStore) -> None:
        pytest.fail("it opened")

    async def all_there(store: EntryStore) -> None:
        assert await store.entry_ranges(LedgerId(7)) == [(0, 5)]

    run(story)


@pytest.mark.parametrize("magic", [b"BKJOURNX", b"SOMEELSE"])
def test_a_file_of_another_kind_is_no_other_version_of_this_one(magic: bytes) -> None:
    assert len(magic) == len(journal_format.MAGIC)
    size = journal_format.HEADER_SIZE
    head = bytearray(magic + struct.pack(">I", 99)).ljust(size - 4, b"\0")
    head += google_crc32c.value(bytes(head)).to_bytes(4, "big")

    assert versions.other_format(bytes(head), magic, (1,), size) == 99
    assert versions.other_format(bytes(head), journal_format.MAGIC, (1,), size) is None


def test_a_rotten_version_is_damage_and_not_another_version() -> None:
    async def story(bench: Bench) -> None:
        await filled(bench)
        bench.rot(".journal", 11)
        with pytest.raises(errors.CorruptFile, match="header"):
            await bench.life(nothing)
        bench.rot(".journal", 11)
        bench.rot(".log", 11)
        await bench.life(unreadable)

    async def nothing(store: EntryStore) -> None:
        return

    async def unreadable(store: EntryStore) -> None:
        with pytest.raises(errors.CorruptFile):
            await store.read(LedgerId(7), EntryId(0))

    run(story)


def test_facts_of_another_version_are_one_damaged_row_since_a_newer_index_is_refused_as_a_whole() -> None:
    row = bytearray(Ledger(LedgerId(9), KEY).pack())
    row[0] = ledgers.VERSION + 1

    with pytest.raises(errors.CorruptFile, match=r"ledger 9 .version 2. is not one of ours"):
        ledgers.unpack_row(LedgerId(9), bytes(row))


@story(run)
async def test_looking_into_an_index_of_another_format_says_so(bench: Bench) -> None:
    await filled(bench)
    index(bench, 9)

    async def look() -> None:
        with pytest.raises(errors.RefusedToStart, match="/index/current/index was written by a newer"):
            async with inspect.open_index(bench.node.world.ordered_stores, "/index"):
                pass

    await bench.look(look())


def test_what_is_said_names_the_way_out() -> None:
    assert "start that version here" in str(versions.refusal("x", 3, 2))
    assert "hand its ledgers over" in str(versions.refusal("x", 1, 2))


def test_a_file_that_ends_within_its_header_is_of_no_other_version() -> None:
    """It is damage, which each reader judges; and no error of Python's ends a start."""
    header = b"BKMAGIC1" + (9).to_bytes(4, "big")
    whole = header + google_crc32c.value(header).to_bytes(4, "big")

    assert versions.other_format(whole + b"more", b"BKMAGIC1", (2,), len(whole)) == 9
    assert all(versions.other_format(whole[:size], b"BKMAGIC1", (2,), len(whole)) is None for size in range(len(whole)))
