"""The note that a repair is due: on every volume, and of several that differ the most careful one counts."""

import json

import pytest

from bookie.integrity import notes
from bookie.integrity.notes import Note
from bookie.integrity.volumes import REPAIR_FILE, ConfiguredVolume
from bookie.sim.node import ProcessEnd
from storage_support import VOLUMES, Bench, run
from story_support import story

ALL = tuple(ConfiguredVolume("ledger", path) for path in VOLUMES)
EASY, CAREFUL = Note("unclean", 3, verify=False), Note("lost", 2, verify=True, doubt_epoch=2)


@story(run)
async def test_it_is_durable_on_every_volume_and_gone_from_each_afterwards(bench: Bench) -> None:
    async def write() -> None:
        await notes.write(bench.node.world.disk, ALL, CAREFUL)

    async def check() -> None:
        disk = bench.node.world.disk
        for volume in ALL:
            assert await notes.read(disk, (volume,)) == CAREFUL
        await notes.remove(disk, ALL)

    async def gone() -> None:
        assert await notes.read(bench.node.world.disk, ALL) is None

    for step in (write, check):
        bench.node.begin()
        await bench.node.do(step())
        bench.node.end(ProcessEnd.POWER_CUT)
    await bench.look(gone())


@pytest.mark.parametrize("first", [EASY, CAREFUL])
@story(run)
async def test_a_later_note_takes_back_nothing_that_an_earlier_one_asked_for(bench: Bench, *, first: Note) -> None:
    async def work() -> None:
        disk, second = bench.node.world.disk, CAREFUL if first == EASY else EASY
        await notes.write(disk, ALL, first)
        await notes.write(disk, ALL, second)
        assert await notes.read(disk, ALL) == Note(second.reason, second.boot_epoch, verify=True, doubt_epoch=2)

    await bench.look(work())


@pytest.mark.parametrize("order", [1, -1])
@story(run)
async def test_of_notes_that_differ_the_most_careful_one_counts_with_the_latest_doubt(
    bench: Bench, *, order: int
) -> None:
    async def work() -> None:
        disk = bench.node.world.disk
        for volume, note in zip(
            ALL[::order], (EASY, CAREFUL, Note("doubt", 5, verify=False, doubt_epoch=5)), strict=True
        ):
            await notes.write(disk, (volume,), note)
        assert await notes.read(disk, ALL) == Note("lost", 2, verify=True, doubt_epoch=5)

    await bench.look(work())


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"reason": "x", "boot_epoch": "many", "verify": false}', b"\xff"]
)
@story(run)
async def test_a_note_that_cannot_be_read_asks_for_everything(bench: Bench, *, text: bytes) -> None:
    async def work() -> None:
        disk = bench.node.world.disk
        await notes.write(disk, ALL[1:], EASY)
        file = await disk.open(f"{ALL[0].path}/{REPAIR_FILE}", create=True)
        await file.append([text])
        found = await notes.read(disk, ALL)
        assert found is not None
        assert found.verify

    await bench.look(work())


@story(run)
async def test_without_a_doubt_it_is_as_earlier_versions_wrote_it(bench: Bench) -> None:
    async def work() -> None:
        disk = bench.node.world.disk
        await notes.write(disk, ALL, EASY)
        fields = json.loads(await disk.read(f"{ALL[0].path}/{REPAIR_FILE}"))
        assert fields == {"reason": "unclean", "boot_epoch": 3, "verify": False}

    await bench.look(work())
