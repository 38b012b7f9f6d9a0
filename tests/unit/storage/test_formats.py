"""What a program says of the formats that it reads and writes is what it does with files of them."""

import struct

import pytest

from bookie.base import errors
from bookie.ports.admin import DiskFormat
from bookie.ports.ordered_store import PutRow
from bookie.sim.disk_image import apply_batch
from bookie.sim.node import ProcessEnd
from bookie.storage import formats, partition
from bookie.storage.store import EntryStore
from storage_support import Bench, run
from story_support import story

OLD, GROWN = ("/ledgers", "/index"), ("/ledgers", "/index", "/added")
FLAGS = 0x100 | 0x200 | 0x400  # the doubt, what was given up, the deltas: as programs that were released know them


class TwoBench(Bench):
    def __init__(self, seed: int | str = 1) -> None:
        super().__init__(seed, ledger_dirs=OLD, index_dirs=())
        self.node.image.add_volume("/added")

    def numbers(self) -> dict[str, set[int]]:
        """The format of each kind of file, as it stands on the disks."""
        heads = {kind: self.image(suffix).data for kind, suffix in (("journal", ".journal"), ("entry log", ".log"))}
        found = {kind: {struct.unpack_from(">I", data, 8)[0]} for kind, data in heads.items()}
        rows = [
            values[b"Mformat"]
            for name in self.node.image.volumes
            for store in self.node.image.volumes[name].root.stores()
            for values in (store.values,)
            if b"Mformat" in values
        ]
        return found | {"index": {int.from_bytes(row, "big") & ~FLAGS for row in rows}}

    def set_index(self, number: int) -> None:
        for name in OLD:
            for store in self.node.image.volumes[name].root.stores():
                for values in (store.values, store.durable):
                    apply_batch(values, [PutRow(b"Mformat", struct.pack(">I", number))])


def written(*, has_history: bool) -> dict[str, set[int]]:
    return {one.name: {one.writes} for one in formats.known(has_history=has_history) if one.name != "index flags"}


async def fill(bench: Bench, store: EntryStore) -> None:
    await bench.put_all(store, 7, range(3))
    await bench.put_all(store, 8, range(3))
    await store.flush()
    await bench.put_all(store, 7, range(3, 6))


@story(run, bench=TwoBench)
async def test_the_files_on_the_disks_have_the_numbers_that_the_program_says_it_writes(bench: TwoBench) -> None:
    async def work(store: EntryStore) -> None:
        assert not store.has_history
        await fill(bench, store)

    await bench.life(work, end=ProcessEnd.KILL)

    assert bench.numbers() == written(has_history=False)


@pytest.mark.parametrize("touches", [False, True])
def test_a_journal_has_the_format_that_is_said_to_be_written(*, touches: bool) -> None:
    """Older programs read it only where it holds no touch."""

    async def tale(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            assert store.may_hold_touches == touches
            await fill(bench, store)

        await bench.life(work, end=ProcessEnd.KILL)

    bench = TwoBench()
    bench.change(ledger_dirs=OLD, index_dirs=(), journal_write_data=False, touch_unjournaled_ledgers=touches)
    run(tale, bench)
    (told,) = [one for one in formats.known(has_history=False, may_hold_touches=touches) if one.name == "journal"]
    assert bench.numbers()["journal"] == {told.writes}
    assert (told.reads_from, told.reads_to) == (3, 4)


@story(run, bench=TwoBench)
async def test_where_a_directory_was_added_the_index_is_of_the_grown_format_and_said_to_be(bench: TwoBench) -> None:
    async def later(store: EntryStore) -> None:
        assert store.has_history
        await fill(bench, store)

    await bench.life(lambda store: fill(bench, store))
    bench.change(ledger_dirs=GROWN, index_dirs=())
    await bench.life(later, must_exist=True, grow_from=2)
    await bench.life(later, must_exist=True)

    assert bench.numbers()["index"] == written(has_history=True)["index"]
    assert written(has_history=True)["index"] != written(has_history=False)["index"]


@pytest.mark.parametrize("has_history", [False, True])
def test_a_program_reads_what_it_writes(*, has_history: bool) -> None:
    both = [formats.known(has_history=has_history, may_hold_touches=touches) for touches in (False, True)]
    for one in (*both[0], *both[1]):
        assert one.reads(one.writes)
        assert one.reads_from <= one.reads_to


def test_the_ends_of_what_is_read_count_and_what_is_beyond_does_not() -> None:
    one = DiskFormat("index", 2, 4, 3)

    assert [number for number in range(7) if one.reads(number)] == [2, 3, 4]


@story(run, bench=TwoBench)
async def test_an_index_beyond_what_is_said_to_be_read_is_refused(bench: TwoBench) -> None:
    (told,) = [one for one in formats.known(has_history=False) if one.name == "index"]
    await bench.life(lambda store: fill(bench, store))

    for number in (told.reads_from - 1, told.reads_to + 1):
        bench.set_index(number)
        with pytest.raises(errors.RefusedToStart):
            await bench.life(never_reached)


@story(run, bench=TwoBench)
async def test_every_flag_that_is_known_is_counted_and_another_one_refused(bench: TwoBench) -> None:
    (told,) = [one for one in formats.known(has_history=False) if one.name == "index flags"]
    await bench.life(lambda store: fill(bench, store))

    assert sum(partition.FLAGS) == FLAGS
    assert (told.reads_from, told.reads_to, told.writes) == (0, 3, 3)
    bench.set_index(partition.FORMAT_VERSION | max(partition.FLAGS) << 1)
    with pytest.raises(errors.RefusedToStart):
        await bench.life(never_reached)


async def never_reached(store: EntryStore) -> None:
    pytest.fail("it opened")
