"""Ledger directories are added to a store with data: old and new ledgers are found, whatever is cut and wherever."""

import contextlib
from typing import Any

import pytest

import volumes_support
from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, LedgerId
from bookie.ports.ordered_store import PutRow
from bookie.sim.disk_image import apply_batch
from bookie.sim.node import ProcessEnd
from bookie.storage import inspect, shapes
from bookie.storage.shapes import Shape
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, entry, run
from story_support import story

OLD, GROWN = ("/ledgers", "/index"), ("/ledgers", "/index", "/added")


class GrowthBench(Bench):
    """Two ledger directories on volumes of their own, and a volume that may be added."""

    def __init__(self, seed: int | str = 1, **changes: Any) -> None:
        super().__init__(seed, ledger_dirs=OLD, index_dirs=(), **changes)
        self.node.image.add_volume("/added")
        self._rest = changes

    def grow(self, directories: tuple[str, ...] = GROWN) -> None:
        """Configure these ledger directories from the next life on."""
        self.change(ledger_dirs=directories, index_dirs=(), **self._rest)

    async def history(self, directory: str) -> shapes.History | None:
        async def look() -> shapes.History | None:
            async with inspect.open_index(self.node.world.ordered_stores, directory) as view:
                return view.history()

        return await self.look(look())


async def nothing(store: EntryStore) -> None:
    """A life without a request."""


async def fill(bench: Bench, store: EntryStore, ledger_ids: range) -> None:
    for ledger_id in ledger_ids:
        await bench.put_all(store, ledger_id, [0, 1])


async def check(bench: Bench, store: EntryStore, ledger_ids: range) -> None:
    for ledger_id in ledger_ids:
        for entry_id in (0, 1):
            assert await bench.read(store, ledger_id, entry_id) == entry(ledger_id, entry_id)
        assert await store.entry_ranges(LedgerId(ledger_id)) == [(0, 1)]


def homes(store: EntryStore) -> dict[int, set[int]]:
    """The ledgers in the index of each directory."""
    return {partition.number: {ledger_id for ledger_id, _ in partition.index.rows()} for partition in store.partitions}


async def with_old_ledgers(bench: Bench, *, end: ProcessEnd = ProcessEnd.EXIT) -> None:
    """Ledgers 0 to 5 in two directories: the first three in the index, the others in the journal when killed."""

    async def work(store: EntryStore) -> None:
        await fill(bench, store, range(3))
        await store.flush()
        await fill(bench, store, range(3, 6))

    await bench.life(work, end=end)


@story(run, bench=GrowthBench)
async def test_old_ledgers_stay_where_they_are_and_new_ones_use_all_directories(bench: GrowthBench) -> None:
    await with_old_ledgers(bench, end=ProcessEnd.KILL)  # what was written in the old shape is replayed in it
    bench.grow()

    async def grown(store: EntryStore) -> None:
        await check(bench, store, range(6))
        await fill(bench, store, range(6, 12))
        await bench.put_all(store, 1, [2])
        await store.flush()
        assert homes(store) == {0: {0, 2, 4, 6, 9}, 1: {1, 3, 5, 7, 10}, 2: {8, 11}}

    async def later(store: EntryStore) -> None:
        await check(bench, store, range(0, 12, 2))
        await bench.fence(store, 100)
        assert store.facts(LedgerId(4)) is not None

    await bench.life(grown, must_exist=True, grow_from=2, end=ProcessEnd.POWER_CUT)
    await bench.life(later, must_exist=True)
    for directory in GROWN:
        assert await bench.history(directory) == (Shape(0, 2), Shape(6, 3))


@story(run, bench=GrowthBench)
async def test_an_added_index_asks_for_no_journal_file_from_before_it(bench: GrowthBench) -> None:
    await with_old_ledgers(bench)
    await bench.life(nothing)
    bench.grow()
    await bench.life(nothing, must_exist=True, grow_from=2, end=ProcessEnd.KILL)
    assert not bench.paths("0001.journal")

    await bench.life(lambda store: check(bench, store, range(6)), must_exist=True)


@story(run, bench=GrowthBench)
async def test_a_store_that_never_grew_has_no_history(bench: GrowthBench) -> None:
    await with_old_ledgers(bench)

    rows = [row for image in bench.node.image.volumes["/ledgers"].root.stores() for row in image.durable]

    assert {row for row in rows if row.startswith(b"M")} == {b"Mformat", b"Mmarks", b"Mnext-log", b"Mshape"}


@story(run, bench=GrowthBench)
async def test_without_permission_another_number_of_directories_is_refused(bench: GrowthBench) -> None:
    await with_old_ledgers(bench)
    bench.grow()

    with pytest.raises(
        errors.RefusedToStart, match=r"ledger directory 1 of 2 .* configured as 1 of 3|has 2 directories"
    ):
        await bench.life(nothing)


@story(run, bench=GrowthBench)
async def test_fewer_directories_than_there_were_are_refused(bench: GrowthBench) -> None:
    await with_old_ledgers(bench)
    bench.grow()
    await bench.life(nothing, must_exist=True, grow_from=2)
    bench.grow(OLD)

    for grow_from in (None, 2):
        with pytest.raises(errors.RefusedToStart, match="was ledger directory 1 of 3"):
            await bench.life(nothing, grow_from=grow_from)


@story(run, bench=GrowthBench)
async def test_a_directory_that_holds_ledgers_is_not_added(bench: GrowthBench) -> None:
    await with_old_ledgers(bench)
    bench.grow(("/added",))
    await with_old_ledgers(bench)
    bench.grow()

    with pytest.raises(errors.BookieError, match=r"was ledger directory 1 of 1|holds ledgers"):
        await bench.life(nothing, must_exist=True, grow_from=2)


@pytest.mark.parametrize("lost", ["/added", "/fourth"])
def test_half_a_directory_that_held_ledgers_is_not_added(lost: str) -> None:
    """Its logs are gone and its index is there, or the other way round."""

    async def story(bench: GrowthBench) -> None:
        bench.node.image.add_volume("/fourth")
        await with_old_ledgers(bench)
        before = [volumes_support.snapshot(bench.node.image, volume) for volume in ("/ledgers", "/index", "/journal")]
        bench.change(ledger_dirs=GROWN, index_dirs=(*OLD, "/fourth"))
        await bench.life(lambda store: fill(bench, store, range(6, 12)), must_exist=True, grow_from=2)
        for volume in before:
            volumes_support.put_back(bench.node.image, volume)
        bench.node.image.wipe(lost)

        with pytest.raises(errors.CorruptFile, match="directory 3 is to be added, but it holds ledgers"):
            await bench.life(nothing, must_exist=True, grow_from=2)

    run(story, GrowthBench(lost))  # type: ignore[arg-type]


@story(run, bench=GrowthBench)
async def test_what_all_old_directories_forgot_is_looked_for_where_it_is(bench: GrowthBench) -> None:
    """They were set back to before the change; the metadata store knows that the added directory is this bookie's."""
    await with_old_ledgers(bench)
    before = [volumes_support.snapshot(bench.node.image, volume) for volume in OLD]
    bench.grow()
    await bench.life(lambda store: fill(bench, store, range(6, 12)), must_exist=True, grow_from=2)
    for volume in before:
        volumes_support.put_back(bench.node.image, volume)

    async def set_back(store: EntryStore) -> None:
        for ledger_id in (8, 11):
            await check(bench, store, range(ledger_id, ledger_id + 1))

    await bench.life(set_back, accept_loss=True, must_exist=True, grow_from=3, end=ProcessEnd.POWER_CUT)
    await bench.life(set_back, must_exist=True)
    for directory in GROWN:
        assert await bench.history(directory) == (Shape(0, 2), Shape(6, 3))


@story(run, bench=GrowthBench)
async def test_an_added_directory_exchanged_before_it_served_begins_like_a_new_one(bench: GrowthBench) -> None:
    """The old indexes have the new shape already; its marks and its doubt are the others' all the same."""
    await with_old_ledgers(bench)
    await bench.life(lambda store: store.doubt_below(6, epoch=7))
    bench.grow()
    await bench.life(nothing, must_exist=True, grow_from=2)
    bench.node.image.wipe("/added")
    await bench.life(nothing, must_exist=True, grow_from=2, end=ProcessEnd.KILL)

    async def later(store: EntryStore) -> None:
        assert store.has_doubt_of(7)
        await check(bench, store, range(6))

    await bench.life(later, must_exist=True)


@story(run, bench=GrowthBench)
async def test_an_old_directory_that_is_empty_is_damage_while_another_is_added(bench: GrowthBench) -> None:
    await with_old_ledgers(bench)
    bench.node.image.wipe("/index")
    bench.grow()

    with pytest.raises(errors.CorruptFile, match="directory 2 is empty, though this volume has held one"):
        await bench.life(nothing, must_exist=True, grow_from=2)


@pytest.mark.parametrize("accept_loss", [False, True])
def test_where_indexes_must_exist_an_empty_one_is_damage_also_after_another_loss(accept_loss: bool) -> None:
    """What went back in time, or was being regenerated, is allowed to lack what it lacks; not a whole index besides."""

    async def story(bench: GrowthBench) -> None:
        await with_old_ledgers(bench)
        bench.node.image.wipe("/index")

        with pytest.raises(errors.CorruptFile, match="directory 2 is empty, though this volume has held one"):
            await bench.life(nothing, must_exist=True, accept_loss=accept_loss, grow_from=2 if accept_loss else None)

    run(story, GrowthBench(1))  # type: ignore[arg-type]


@story(run, bench=GrowthBench)
async def test_a_directory_added_earlier_that_is_empty_is_no_new_one(bench: GrowthBench) -> None:
    await with_old_ledgers(bench)
    bench.grow()
    await bench.life(nothing, must_exist=True, grow_from=2)
    bench.node.image.wipe("/added")
    bench.node.image.add_volume("/fourth")
    bench.grow((*GROWN, "/fourth"))

    with pytest.raises(errors.CorruptFile, match="directory 3 is empty, though this volume has held one"):
        await bench.life(nothing, must_exist=True, grow_from=3)


@story(run, bench=GrowthBench)
async def test_an_older_version_refuses_a_store_that_grew(bench: GrowthBench) -> None:
    await with_old_ledgers(bench)
    bench.grow()
    await bench.life(nothing, must_exist=True, grow_from=2)

    for directory in GROWN:
        for image in bench.node.image.volumes[directory].root.stores():
            assert image.durable[b"Mformat"] == (3).to_bytes(4)
            for values in (image.values, image.durable):  # a format that nobody writes with a history
                apply_batch(values, [PutRow(b"Mformat", (2).to_bytes(4))])
    with pytest.raises(errors.RefusedToStart, match="format 2, this one knows 3"):
        await bench.life(nothing)


@story(run, bench=GrowthBench)
async def test_what_was_served_without_the_added_directory_stays_where_it_is(bench: GrowthBench) -> None:
    """The change was cut off before an old index had it; the bookie went on without it; then it is done after all."""
    await with_old_ledgers(bench)
    before = [volumes_support.snapshot(bench.node.image, volume) for volume in ("/ledgers", "/index", "/journal")]
    bench.grow()
    await bench.life(nothing, must_exist=True, grow_from=2, end=ProcessEnd.KILL)
    for volume in before:
        volumes_support.put_back(bench.node.image, volume)
    bench.grow(OLD)
    await bench.life(lambda store: fill(bench, store, range(6, 12)))
    bench.grow()

    async def work(store: EntryStore) -> None:
        await check(bench, store, range(12))
        await fill(bench, store, range(12, 18))
        await store.flush()
        assert homes(store)[2] == {14, 17}

    await bench.life(work, must_exist=True, grow_from=2, end=ProcessEnd.KILL)
    await bench.life(lambda store: check(bench, store, range(18)), must_exist=True)


@story(run, bench=GrowthBench)
async def test_where_logs_have_no_space_what_was_replayed_counts(bench: GrowthBench) -> None:
    """No checkpoint is possible where entry logs have no space: the ledgers are in memory and journal alone."""
    ledger_dirs, index_dirs = ("/ledgers/a", "/ledgers/b"), ("/index/a", "/index/b")
    bench.change(ledger_dirs=ledger_dirs, index_dirs=index_dirs)
    await bench.life(nothing)
    await bench.life(lambda store: fill(bench, store, range(6)), end=ProcessEnd.KILL)
    bench.fill("/ledgers")
    bench.change(ledger_dirs=(*ledger_dirs, "/added/ledgers"), index_dirs=(*index_dirs, "/added/index"))

    async def full(store: EntryStore) -> None:
        await check(bench, store, range(6))

    async def work(store: EntryStore) -> None:
        await check(bench, store, range(6))
        await fill(bench, store, range(6, 9))
        await store.flush()
        assert homes(store) == {0: {0, 2, 4, 6}, 1: {1, 3, 5, 7}, 2: {8}}

    await bench.life(full, must_exist=True, grow_from=2, end=ProcessEnd.KILL)
    bench.make_room("/ledgers")
    await bench.life(work, must_exist=True)


@story(run, bench=GrowthBench)
async def test_marks_of_an_attempt_that_was_given_up_do_not_count(bench: GrowthBench) -> None:
    """Cut off before an old index had the shape; the bookie went on without it, took no new ledger, and trimmed."""
    await with_old_ledgers(bench)
    before = [volumes_support.snapshot(bench.node.image, volume) for volume in ("/ledgers", "/index", "/journal")]
    bench.grow()
    await bench.life(nothing, must_exist=True, grow_from=2, end=ProcessEnd.KILL)
    for volume in before:
        volumes_support.put_back(bench.node.image, volume)
    bench.grow(OLD)
    for _ in range(3):
        await bench.life(nothing, must_exist=True)
    bench.grow()
    await bench.life(nothing, must_exist=True, grow_from=2, end=ProcessEnd.KILL)

    await bench.life(lambda store: check(bench, store, range(6)), must_exist=True)


@story(run, bench=GrowthBench)
async def test_after_an_attempt_with_two_directories_one_of_them_is_added(bench: GrowthBench) -> None:
    await with_old_ledgers(bench)
    bench.node.image.add_volume("/fourth")
    before = [volumes_support.snapshot(bench.node.image, volume) for volume in ("/ledgers", "/index", "/journal")]
    bench.grow((*GROWN, "/fourth"))
    await bench.life(nothing, must_exist=True, grow_from=2, end=ProcessEnd.KILL)
    for volume in before:
        volumes_support.put_back(bench.node.image, volume)
    bench.grow(OLD)
    await bench.life(nothing, must_exist=True)
    bench.grow()

    with pytest.raises(errors.RefusedToStart, match="was ledger directory 3 of 4"):
        await bench.life(nothing, must_exist=True)
    await bench.life(lambda store: fill(bench, store, range(6, 9)), must_exist=True, grow_from=2, end=ProcessEnd.KILL)
    await bench.life(lambda store: check(bench, store, range(9)), must_exist=True)
    assert await bench.history("/added") == (Shape(0, 2), Shape(6, 3))


@story(run, bench=GrowthBench)
async def test_what_is_deleted_comes_not_back_in_an_added_directory(bench: GrowthBench) -> None:
    """The journal has it still, for a directory that is full; its own directory's mark is beyond that."""
    ledger_dirs, index_dirs = ("/ledgers/a", "/index/ledgers-b"), ("/index/a", "/index/b")
    bench.change(ledger_dirs=ledger_dirs, index_dirs=index_dirs)

    async def deleted(store: EntryStore) -> None:
        await fill(bench, store, range(6))
        await bench.fence(store, 11)
        store.delete_ledger(LedgerId(11))
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()

    async def grown(store: EntryStore) -> None:
        await check(bench, store, range(6))
        assert store.facts(LedgerId(11)) is None

    await bench.life(nothing)
    await bench.life(deleted, end=ProcessEnd.KILL)
    bench.change(ledger_dirs=(*ledger_dirs, "/added/ledgers"), index_dirs=(*index_dirs, "/added/index"))
    await bench.life(grown, must_exist=True, grow_from=2, end=ProcessEnd.KILL)
    await bench.life(grown, must_exist=True)


@pytest.mark.parametrize("lost", GROWN)
def test_after_the_loss_of_a_directory_the_others_find_their_ledgers(lost: str) -> None:
    async def story(bench: GrowthBench) -> None:
        await with_old_ledgers(bench)
        bench.grow()
        await bench.life(lambda store: fill(bench, store, range(6, 12)), must_exist=True, grow_from=2)
        bench.node.image.wipe(lost)

        async def after(store: EntryStore) -> None:
            found = homes(store)
            found.pop(GROWN.index(lost))  # what the journal still had of it
            for ledger_ids in found.values():
                for ledger_id in ledger_ids:
                    await check(bench, store, range(ledger_id, ledger_id + 1))
            await store.protect([(LedgerId(each), True, True, KEY) for each in range(12)], epoch=1)
            assert homes(store) == {0: {0, 2, 4, 6, 9}, 1: {1, 3, 5, 7, 10}, 2: {8, 11}}

        async def marked(store: EntryStore) -> None:
            for ledger_id in range(12):
                facts = store.facts(LedgerId(ledger_id))
                assert facts is not None
                assert facts.is_limbo
                assert facts.is_fenced

        await bench.life(after, accept_loss=True, grow_from=3, end=ProcessEnd.POWER_CUT)
        await bench.life(marked, must_exist=True)

    run(story, GrowthBench(lost))  # type: ignore[arg-type]


@story(run, bench=GrowthBench)
async def test_ids_that_leave_no_room_above_are_said(bench: GrowthBench, *, caplog: pytest.LogCaptureFixture) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LEDGER_ID_MAX, [0, 1])

    async def grown(store: EntryStore) -> None:
        await check(bench, store, range(LEDGER_ID_MAX, LEDGER_ID_MAX + 1))
        await fill(bench, store, range(3))

    await bench.life(work)
    bench.grow()
    await bench.life(grown, must_exist=True, grow_from=2)
    await bench.life(lambda store: check(bench, store, range(3)), must_exist=True)

    assert "added directories stay empty" in caplog.text
    assert await bench.history("/added") == (Shape(0, 2), Shape(2**63, 3))


@story(run, bench=GrowthBench)
async def test_what_was_in_doubt_stays_in_doubt_when_a_directory_is_added(bench: GrowthBench) -> None:
    """Nobody knows yet what was lost of ledgers below 100: none may be asked of a directory that would say no."""

    async def doubt(store: EntryStore) -> None:
        await fill(bench, store, range(3))
        await store.doubt_below(100, epoch=7)
        await store.settle([], [LedgerId(41)], rest=60)

    async def grown(store: EntryStore) -> None:
        assert store.has_doubt_of(7)
        assert (store.doubt.epoch, store.doubt.rest) == (7, 60)
        in_doubt = {ledger_id for ledger_id in range(100) if store.is_in_doubt(LedgerId(ledger_id))}
        assert in_doubt == {*range(60)} - {41}
        await fill(bench, store, range(60, 66))
        await store.flush()
        assert homes(store)[2] == {62, 65}

    async def settled(store: EntryStore) -> None:
        await grown_doubt(store)
        await store.settle([(LedgerId(31), True, True, KEY), (LedgerId(300), True, True, KEY)], rest=0)
        assert not any(store.is_in_doubt(LedgerId(ledger_id)) for ledger_id in range(100) if ledger_id != 31)

    async def grown_doubt(store: EntryStore) -> None:
        assert {each for each in range(100) if store.is_in_doubt(LedgerId(each))} == {*range(60)} - {41}

    async def later(store: EntryStore) -> None:
        assert store.doubt.is_over
        for ledger_id in (31, 300):
            facts = store.facts(LedgerId(ledger_id))
            assert facts is not None
            assert facts.is_limbo
        await check(bench, store, range(60, 66))

    await bench.life(doubt)
    bench.grow()
    await bench.life(grown, must_exist=True, grow_from=2, end=ProcessEnd.POWER_CUT)
    await bench.life(settled, must_exist=True)
    await bench.life(later, must_exist=True)


class Told:
    """What the dead process had told its clients."""

    def __init__(self) -> None:
        self.ledger_ids: list[int] = []
        self.fenced: list[int] = []
        self.limbo: list[int] = []

    async def work(self, bench: Bench, store: EntryStore) -> None:
        for _ in range(3):
            ledger_id = 10 + len(self.ledger_ids)
            await bench.put_all(store, ledger_id, [0, 1])
            self.ledger_ids.append(ledger_id)
        fenced = 100 + len(self.fenced)
        await bench.fence(store, fenced)
        self.fenced.append(fenced)
        for limbo in (
            3 + len(self.limbo) // 2,
            200 + len(self.limbo),
        ):  # of the old shape, if there was one, and of this
            await store.protect([(LedgerId(limbo), True, True, KEY)], epoch=1)
            self.limbo.append(limbo)

    async def check(self, bench: Bench, store: EntryStore) -> None:
        for ledger_id in self.ledger_ids:
            await check(bench, store, range(ledger_id, ledger_id + 1))
        for ledger_id in self.fenced:
            facts = store.facts(LedgerId(ledger_id))
            assert facts is not None
            assert facts.is_fenced
        for ledger_id in self.limbo:
            facts = store.facts(LedgerId(ledger_id))
            assert facts is not None
            assert facts.is_limbo


@pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT])
@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.slow
def test_a_cut_at_any_disk_operation_of_the_change_loses_nothing(how: ProcessEnd, stays: bool) -> None:
    """`stays`: the next start goes on with the change; else it has the old directories, while it may."""
    operation, went_back, died = 0, 0, True
    while died:
        operation += 1
        died, has_gone_back = change_cut_at(operation, how, stays=stays)
        went_back += has_gone_back
    assert operation > 30, "the change was too short to say anything"
    assert stays or 5 < went_back < operation - 5


def change_cut_at(operation: int, how: ProcessEnd, *, stays: bool) -> tuple[bool, bool]:
    bench, told = GrowthBench(operation, journal_file_bytes_max=12_288, entry_log_bytes_max=12_288), Told()

    async def story(bench: GrowthBench) -> tuple[bool, bool]:
        await bench.life(lambda store: told.work(bench, store), end=how)
        bench.grow()
        died = await bench.dies(
            lambda store: told.work(bench, store), operation=operation, how=how, must_exist=True, grow_from=2
        )
        went_back = False
        if not stays:
            bench.grow(OLD)
            with contextlib.suppress(errors.RefusedToStart):
                await bench.life(lambda store: told.work(bench, store), end=how, must_exist=True)
                went_back = True
            bench.grow()
        # The next attempt is cut too, somewhere else, before the one that is looked at.
        rules: dict[str, Any] = {"must_exist": True, "grow_from": 2}
        await bench.dies(lambda store: told.check(bench, store), operation=1 + operation % 23, how=how, **rules)

        async def whole(store: EntryStore) -> None:
            await told.check(bench, store)
            await told.work(bench, store)

        await bench.life(whole, end=how, **rules)
        await bench.life(lambda store: told.check(bench, store), must_exist=True)
        return died, went_back

    return run(story, bench)  # type: ignore[arg-type]
