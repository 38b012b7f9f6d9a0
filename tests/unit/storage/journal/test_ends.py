"""Does a journal still hold what it held? Asked of whole, cut, trimmed and empty directories."""

import pytest

from bookie.sim.node import ProcessEnd
from bookie.storage.journal import ends
from bookie.storage.journal.batch import JournalPosition
from bookie.storage.store import EntryStore
from storage_support import Bench, run
from story_support import story

BLOCK = 4096


@pytest.mark.parametrize(
    ("mark", "is_there"),
    [
        (JournalPosition(1, BLOCK), True),
        (JournalPosition(1, 2 * BLOCK), True),
        (JournalPosition(1, 3 * BLOCK), True),
        (JournalPosition(1, 3 * BLOCK + 1), False),
        (JournalPosition(2, BLOCK), False),
        (JournalPosition(0, 0), True),
    ],
)
@story(run)
async def test_a_journal_reaches_as_far_as_its_last_whole_record(
    bench: Bench, *, mark: JournalPosition, is_there: bool
) -> None:
    async def work(store: EntryStore) -> None:
        for number in range(2):
            await bench.put_all(store, 7, [number])
        assert store.journaled == (JournalPosition(1, 3 * BLOCK),)

    async def look() -> None:
        assert await ends.reaches(bench.node.world.disk, "/journal/current", mark) == is_there

    await bench.life(work, end=ProcessEnd.KILL)
    await bench.look(look())


@story(run)
async def test_a_cut_record_is_not_reached_and_rot_is_left_to_the_replay(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for number in range(3):
            await bench.put_all(store, 7, [number])

    async def look(is_there: bool) -> None:
        reached = await ends.reaches(bench.node.world.disk, "/journal/current", JournalPosition(1, 4 * BLOCK))
        assert reached == is_there

    await bench.life(work, end=ProcessEnd.KILL)
    bench.rot(".journal", BLOCK + 50)
    await bench.look(look(True))
    bench.rot(".journal", BLOCK + 50)
    bench.rot(".journal", 3 * BLOCK + 50)
    await bench.look(look(False))


@story(run)
async def test_a_file_of_which_not_even_the_head_is_left_holds_nothing(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])

    async def look() -> None:
        assert not await ends.reaches(bench.node.world.disk, "/journal/current", JournalPosition(1, 2 * BLOCK))

    await bench.life(work, end=ProcessEnd.KILL)
    image = bench.image(".journal")
    del image.data[10:], image.durable[10:]
    await bench.look(look())
