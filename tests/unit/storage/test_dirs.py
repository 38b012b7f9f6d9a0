"""Directories: layout, locks, and the DIRTY marker."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bookie.base import errors
from bookie.ports.disk import Disk
from bookie.sim.node import ProcessEnd, Simulation
from bookie.storage import dirs
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore
from storage_support import VOLUMES, Bench, entry, options, run
from story_support import story

JOURNALED = options()
UNJOURNALED = options(journal_write_data=False)


def lives(
    *works: Callable[[Disk], Awaitable[Any]], seed: int = 3, first_end: ProcessEnd = ProcessEnd.POWER_CUT
) -> None:
    """Each work is one life on the same machine; each ends by a power cut, the first one by `first_end`."""
    simulation = Simulation(seed)
    node = simulation.node("bookie", VOLUMES)

    async def story() -> None:
        for work in works:
            world = node.begin()

            async def run(disk: Disk = world.disk, work: Callable[[Disk], Awaitable[Any]] = work) -> None:
                await work(disk)

            await node.do(run())
            node.end(first_end if work is works[0] else ProcessEnd.POWER_CUT)

    simulation.run(story())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("depth", ["", "/a", "/a/b", "/a/b/c/"])
def test_a_directory_is_durable_however_far_down_it_was_made(depth: str, seed: int) -> None:
    """Nothing of the store outlives a power cut that takes the name of a directory above it."""
    deep = options(
        journal_dirs=(f"/journal{depth}",), ledger_dirs=(f"/ledgers{depth}",), index_dirs=(f"/index{depth}",)
    )

    async def serve(bench: Bench) -> None:
        await bench.life(lambda store: bench.put_all(store, 7, range(3)), end=ProcessEnd.POWER_CUT)

        async def later(store: EntryStore) -> None:
            assert await bench.read(store, 7, 2) == entry(7, 2)

        await bench.life(later)

    bench = Bench(seed)
    bench.options = deep
    run(serve, bench)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("made", ["/ledgers/a", "/ledgers/a/b", "/ledgers/a/b/current"])
def test_a_directory_whose_maker_was_killed_before_its_name_was_durable_is_made_so(made: str, seed: int) -> None:
    """By the life after it, which finds it there: a power cut takes no directory in which that life keeps something."""
    deep = options(ledger_dirs=("/ledgers/a/b",))

    async def is_killed(disk: Disk) -> None:
        above = made.rpartition("/")[0]
        await disk.make_dir(above)
        while above:  # as `prepare`: nothing is made below a name that is not durable
            above = above.rpartition("/")[0]
            await disk.sync_dir(above or "/")
        await disk.make_dir(made)

    async def serves(disk: Disk) -> None:
        await dirs.prepare(disk, deep)
        await dirs.mark_dirty(disk, deep)

    async def is_back(disk: Disk) -> None:
        assert await disk.exists(f"/ledgers/a/b/current/{dirs.DIRTY}")

    lives(is_killed, serves, is_back, seed=seed, first_end=ProcessEnd.KILL)


@story(lives)
async def test_no_lock_is_held_by_who_did_not_get_all_of_them(disk: Disk) -> None:
    await dirs.prepare(disk, JOURNALED)
    other = await disk.lock("/index/current/LOCK")
    with pytest.raises(errors.RefusedToStart):
        await dirs.lock(disk, JOURNALED)
    other.release()

    assert len(await dirs.lock(disk, JOURNALED)) == 3


@story(lives)
async def test_looking_creates_nothing(disk: Disk) -> None:
    assert not await dirs.is_dirty(disk, JOURNALED)
    assert not await dirs.may_have_lost(disk, JOURNALED)
    assert await disk.list("/ledgers") == []


@pytest.mark.parametrize("seed", range(12))
def test_the_marker_is_durable_when_set_and_when_cleared(seed: int) -> None:
    """What was not synced may be there after a power cut, or not: so it is tried more than once."""

    async def mark(disk: Disk) -> None:
        await dirs.prepare(disk, JOURNALED)
        await dirs.mark_dirty(disk, JOURNALED)

    async def clear(disk: Disk) -> None:
        assert await dirs.is_dirty(disk, JOURNALED)
        assert not await dirs.may_have_lost(disk, JOURNALED)
        await dirs.clear_dirty(disk, JOURNALED)

    async def look(disk: Disk) -> None:
        assert not await dirs.is_dirty(disk, JOURNALED)

    lives(mark, clear, look, seed=seed)


def test_a_life_without_journaled_data_stays_marked_as_such_when_the_option_changes() -> None:
    # spec/bp46.md#T20: journalWriteData flipped to true after a dirty stop.
    async def unjournaled(disk: Disk) -> None:
        await dirs.prepare(disk, UNJOURNALED)
        await dirs.mark_dirty(disk, UNJOURNALED)

    async def flipped(disk: Disk) -> None:
        assert await dirs.may_have_lost(disk, JOURNALED)
        await dirs.mark_dirty(disk, JOURNALED)

    async def look(disk: Disk) -> None:
        assert await dirs.may_have_lost(disk, JOURNALED)
        await dirs.clear_dirty(disk, JOURNALED)
        await dirs.mark_dirty(disk, JOURNALED)
        assert not await dirs.may_have_lost(disk, JOURNALED)

    lives(unjournaled, flipped, look)


@story(lives)
async def test_a_marker_that_cannot_be_read_counts_as_the_worse_case(disk: Disk) -> None:
    await dirs.prepare(disk, JOURNALED)
    file = await disk.open("/ledgers/current/DIRTY", create=True)
    await file.close()
    assert await dirs.may_have_lost(disk, JOURNALED)
    await dirs.mark_dirty(disk, JOURNALED)
    assert await dirs.may_have_lost(disk, JOURNALED)


@pytest.mark.parametrize("lost", ["/ledgers", "/ledgers2"])
@story(lives)
async def test_every_ledger_directory_has_the_marker(disk: Disk, *, lost: str) -> None:
    """CONFORMANCE.md#B27: whichever is replaced by an empty one, the others still say what the last life did."""
    both = options(journal_write_data=False, ledger_dirs=("/ledgers", "/ledgers2"), index_dirs=())
    await dirs.prepare(disk, both)
    await dirs.mark_dirty(disk, both)

    await disk.remove(f"{lost}/current/{dirs.DIRTY}")

    assert await dirs.is_dirty(disk, both)
    assert await dirs.may_have_lost(disk, both)


@pytest.mark.parametrize("cut", ["", "/ledgers", "/ledgers2"])
@story(lives)
async def test_volumes_that_went_back_are_noted_until_that_is_cleared(disk: Disk, *, cut: str) -> None:
    """Also where the power failed before the note was in both directories, and after the bookie says that it serves."""
    both = options(ledger_dirs=("/ledgers", "/ledgers2"), index_dirs=())
    await dirs.prepare(disk, both)
    await dirs.mark_dirty(disk, both)
    assert not await dirs.is_set_back(disk, both)
    await dirs.mark_set_back(disk, both)
    if cut:
        await disk.remove(f"{cut}/current/{dirs.DIRTY}")

    for _ in range(2):
        assert await dirs.is_set_back(disk, both)
        assert await dirs.may_have_lost(disk, both)
        await dirs.mark_dirty(disk, both)

    await dirs.clear_dirty(disk, both)
    assert not await dirs.is_set_back(disk, both)


TOUCHING = options(journal_write_data=False, touch_unjournaled_ledgers=True)


@pytest.mark.parametrize("lost", ["", "/ledgers", "/ledgers2"])
@story(lives)
async def test_touches_are_believed_where_every_marker_says_so_and_nowhere_else(disk: Disk, *, lost: str) -> None:
    """Whatever the options of now say: what counts is the life that ended."""
    two = {"ledger_dirs": ("/ledgers", "/ledgers2"), "index_dirs": ()}
    touching = options(journal_write_data=False, touch_unjournaled_ledgers=True, **two)
    others = [
        options(journal_write_data=False, **two),
        options(**two),
        options(touch_unjournaled_ledgers=True, **two),  # it journals its data
    ]
    await dirs.prepare(disk, touching)
    assert not await dirs.has_touches(disk, touching)
    for other in others:
        await dirs.mark_dirty(disk, other)
        assert not await dirs.has_touches(disk, touching)
        await dirs.clear_dirty(disk, other)

    await dirs.mark_dirty(disk, touching)
    assert await dirs.may_have_lost(disk, others[1])
    assert await dirs.has_touches(disk, touching)
    assert all([await dirs.has_touches(disk, other) for other in others])

    if lost:
        await disk.remove(f"{lost}/current/{dirs.DIRTY}")
        assert await dirs.may_have_lost(disk, touching)
        assert not await dirs.has_touches(disk, touching)
        await dirs.mark_dirty(disk, others[0])
        assert not await dirs.has_touches(disk, touching)


@pytest.mark.parametrize("first", [JOURNALED, TOUCHING, UNJOURNALED])
@pytest.mark.parametrize("then", [JOURNALED, TOUCHING, UNJOURNALED])
@story(lives)
async def test_the_worse_of_two_markers_stays(disk: Disk, *, first: StorageOptions, then: StorageOptions) -> None:
    """Of a life whose losses no mark names yet, and the one after it."""
    await dirs.prepare(disk, first)
    await dirs.mark_dirty(disk, first)
    await dirs.mark_dirty(disk, then)

    assert await dirs.may_have_lost(disk, then) == any(not one.journal_write_data for one in (first, then))
    is_lossy = UNJOURNALED in (first, then)
    assert await dirs.has_touches(disk, then) == (TOUCHING in (first, then) and not is_lossy)
