"""What a checkpoint that broke off takes back from the logs: all that it wrote, and nothing that was there before."""

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage import location
from bookie.storage.entrylog.writer import LogWriter
from bookie.storage.location import Location
from bookie.storage.store import EntryStore
from storage_support import Bench, entry, run
from story_support import story

BLOCK = 4096
L = LedgerId(7)


async def write(writer: LogWriter, *entry_ids: int, size: int = 0) -> list[Location]:
    """What a checkpoint appends in one batch; where it says that the entries are."""
    _, places = await writer.append([entry(L, entry_id, payload=bytes(size)) for entry_id in entry_ids])
    return [location.unpack(place) for place in places]


@story(run)
async def test_what_was_durable_before_stays_in_a_log_that_a_broken_checkpoint_went_on_with(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        (partition,) = store.partitions
        writer = partition.writer
        writer.begin()
        (kept,) = await write(writer, 0)
        await writer.sync()

        writer.begin()
        (gone,) = await write(writer, 1)
        await writer.roll_back()
        assert bytes(await partition.logs.read(kept, L, EntryId(0))) == entry(L, 0, payload=b"")
        with pytest.raises(errors.CorruptFile):
            await partition.logs.read(gone, L, EntryId(1))

        writer.begin()
        (again,) = await write(writer, 2)
        await writer.sync()
        assert again.offset == gone.offset, "nothing of the other is in between"
        assert writer.synced == (kept.log_id, again.offset + BLOCK)

    await bench.life(work, end=ProcessEnd.POWER_CUT)


@story(run, entry_log_bytes_max=BLOCK)
async def test_logs_that_a_broken_checkpoint_began_are_removed_and_their_ids_are_not_given_again(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        writer = store.partitions[0].writer
        writer.begin()
        (first,) = await write(writer, 0, size=BLOCK)
        await writer.sync()
        writer.begin()
        (second,) = await write(writer, 1, size=BLOCK)
        (third,) = await write(writer, 2, size=BLOCK)
        assert [one.log_id - first.log_id for one in (second, third)] == [1, 2]

        await writer.roll_back()

        logs = [name for name in await bench.node.world.disk.list("/ledgers/current") if name.endswith(".log")]
        assert logs == [f"{first.log_id:08x}.log"]
        assert (writer.current_id, writer.first_open_id) == (first.log_id, first.log_id)
        writer.begin()
        (fourth,) = await write(writer, 3, size=BLOCK)
        assert fourth.log_id == third.log_id + 1

    await bench.life(work, end=ProcessEnd.KILL)


@story(run)
async def test_a_roll_back_of_nothing_changes_nothing(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        writer = store.partitions[0].writer
        before = writer.next_id
        writer.begin()
        await writer.roll_back()
        assert (writer.current_id, writer.first_open_id, writer.next_id) == (-1, before, before)
        writer.begin()
        await write(writer, 0)
        await writer.roll_back()
        assert (writer.current_id, writer.first_open_id) == (-1, before + 1)

    await bench.life(work, end=ProcessEnd.KILL)
