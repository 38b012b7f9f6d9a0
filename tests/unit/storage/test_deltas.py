"""Deltas of the index: with them it says what it would say with rows alone, and also after a crash at any place."""

import asyncio
import contextlib
import struct
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bookie.base.errors import CorruptFile, DiskFull
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.sim.disk_image import StoreImage, apply_batch
from bookie.sim.node import ProcessEnd
from bookie.storage import deltas, inspect, ledgers, location, partition, shapes
from bookie.storage.deltas import Deltas
from bookie.storage.index import Index
from bookie.storage.ledgers import Ledger
from bookie.storage.location import Location
from bookie.storage.log_use import Use
from bookie.storage.pause import pause
from bookie.storage.run import Held, Placed, part
from bookie.storage.store import EntryStore
from sim_support import Machine, on_machine
from storage_support import Bench, entry, run, watched
from story_support import story

LEDGERS = range(6)
Model = dict[tuple[int, int], Location]


def placed_of(places: Model) -> Placed:
    ordered = sorted(places)
    return Placed(
        [LedgerId(ledger) for ledger, _ in ordered],
        [EntryId(entry) for _, entry in ordered],
        [location.pack(*places[of]) for of in ordered],
    )


class Story:
    """An index, and beside it what it must say."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.places: Model = {}
        self.use: dict[int, dict[int, Use]] = {}
        self.lacs: dict[int, int] = {}
        self.turn = 0
        # Batches of the store after which the index says: the places before a step, those after it, ledgers that go.
        self.steps: list[tuple[int, Model, Model, set[int]]] = []

    async def begin(self) -> None:
        self.stores = self.machine.begin().ordered_stores
        self.index = Index(await self.stores.open("/data/index"))
        for ledger in LEDGERS:
            self.put_row(ledger)

    def put_row(self, ledger: int) -> None:
        self.index.put_many([(struct.pack(">cq", b"L", ledger), Ledger(LedgerId(ledger), b"key").pack())])

    @property
    def image(self) -> StoreImage:
        node = self.machine.disk.find_dir("/data/index")
        assert node is not None
        assert node.store is not None
        return node.store

    def done(self, before: Model, gone: set[int]) -> None:
        self.steps.append((len(self.image.batches), before, dict(self.places), gone))

    def checkpoint(self, entries: set[tuple[int, int]]) -> None:
        before = dict(self.places)
        self.turn += 1
        places = {of: Location(self.turn % 3, self.turn * 10_000 + at, 9) for at, of in enumerate(sorted(entries))}
        use = self.use.setdefault(1, {})
        for ledger, number in entries:
            held = use.get(ledger, Use(0, EntryId(number), EntryId(number)))
            use[ledger] = Use(held.size + 1, EntryId(min(held.first, number)), EntryId(max(held.last, number)))
            self.lacs[ledger] = max(self.lacs.get(ledger, -1), number)
        touched = sorted({ledger for ledger, _ in entries})
        items = [(LedgerId(ledger), tuple(use[ledger])) for ledger in touched]
        self.index.change_use(1, items, [EntryId(self.lacs[ledger]) for ledger in touched])
        assert self.index.change_entries(placed_of(places)) == len(places)
        self.places |= places
        self.done(before, set())

    def forget(self, ledger: int) -> None:
        before = dict(self.places)
        self.index.forget(LedgerId(ledger))
        self.put_row(ledger)  # made anew
        self.places = {of: place for of, place in self.places.items() if of[0] != ledger}
        self.lacs.pop(ledger, None)
        self.done(before, {ledger})

    async def write_rows(self) -> None:
        before = dict(self.places)
        await self.index.write_changed_rows(self.index.lac_pairs)
        self.check(self.index)
        self.index.drop_deltas()
        self.done(before, set())

    async def again(self) -> None:
        """A process that ended, and the next one."""
        await self.index.close()
        self.index = Index(await self.stores.open("/data/index"))
        self.index.load_deltas()

    def check(self, index: Index) -> None:
        assert {(ledger, entry): place for ledger, entry, place in index.all_locations()} == self.places
        assert {(log, ledger): use for log, ledger, use in index.all_use()} == {
            (log, ledger): use for log, ledgers in self.use.items() for ledger, use in ledgers.items()
        }
        assert index.greatest_ledger() == max(LEDGERS)
        rows = dict(index.rows())
        for ledger in map(LedgerId, LEDGERS):
            ids = [EntryId(entry) for of, entry in sorted(self.places) if of == ledger]
            assert index.last_entry(ledger) == max(ids, default=None)
            assert [entry for entry, _ in index.locations(ledger)] == ids, "ascending, each once"
            assert [entry for entry, _ in index.locations(ledger, EntryId(3), EntryId(33))] == [
                entry for entry in ids if 3 <= entry <= 33
            ]
            asked = [*ids, EntryId(99)]
            found = [self.places.get((ledger, entry)) for entry in asked]
            assert index.locate_many(ledger, asked) == found == [index.locate(ledger, entry) for entry in asked]
            assert ledgers.unpack_row(ledger, rows[ledger]).lac == self.lacs.get(ledger, -1)
            assert index.row(ledger) == rows[ledger]

    async def check_walks(self) -> None:
        for ledger in map(LedgerId, LEDGERS):
            walked = [entry async for slice_ in self.index.walk_locations(ledger) for entry, _ in slice_]
            assert walked == [entry for of, entry in sorted(self.places) if of == ledger]
        uses = [found async for slice_ in self.index.walk_use(1) for found in slice_]
        assert uses == sorted(self.use.get(1, {}).items())


STEPS = st.lists(
    st.one_of(
        st.sets(st.tuples(st.sampled_from(LEDGERS), st.integers(0, 70)), min_size=1),  # a checkpoint of these entries
        st.tuples(st.sampled_from(LEDGERS), st.integers(16, 64)).map(  # many of one ledger: they go into rows
            lambda one: {(one[0], entry) for entry in range(one[1] - 16, one[1])}
        ),
        st.sampled_from(LEDGERS),  # it is deleted and made anew
        st.sampled_from(["rows", "again"]),
    ),
    max_size=12,
)


MOVED: list[set[tuple[int, int]] | int | str] = [{(0, 0)}, {(0, entry_id) for entry_id in range(16)}, "again"]


async def take(story: Story, steps: list[set[tuple[int, int]] | int | str]) -> None:
    await story.begin()
    for step in steps:
        if step == "rows":
            await story.write_rows()
        elif step == "again":
            await story.again()
        elif isinstance(step, int):
            story.forget(step)
        else:
            assert isinstance(step, set)
            story.checkpoint(step)


@given(steps=STEPS)
@example(steps=MOVED)
def test_an_index_with_deltas_says_what_one_with_rows_alone_would(
    steps: list[set[tuple[int, int]] | int | str],
) -> None:
    async def on(machine: Machine) -> None:
        story = Story(machine)
        await take(story, steps)
        story.check(story.index)
        await story.check_walks()

    on_machine(on)


@given(steps=STEPS)
@example(steps=[*MOVED, 0])
@settings(max_examples=60)
def test_a_crash_at_any_place_loses_no_entry_that_a_checkpoint_had_put(
    steps: list[set[tuple[int, int]] | int | str],
) -> None:
    """Each prefix of the writes is what a crash may leave. Its entries are those of the last whole step, some of them
    at the place that the next step gives them."""

    async def on(machine: Machine) -> None:
        story = Story(machine)
        await take(story, steps)
        values: dict[bytes, bytes] = {}
        done = 0
        for number, batch in enumerate(story.image.batches, 1):
            apply_batch(values, batch)
            while done < len(story.steps) and story.steps[done][0] < number:
                done += 1
            if done == len(story.steps):
                break
            _, before, after, gone = story.steps[done]
            directory = f"/data/after-{number}"
            machine.disk.make_dir_now(directory).store = StoreImage(values=dict(values))
            index = Index(await story.stores.open(directory))
            index.load_deltas()
            found = {(ledger, entry): place for ledger, entry, place in index.all_locations()}
            for of, place in found.items():
                assert place in (before.get(of), after.get(of)), f"{of} after {number} writes"
            missing = {of for of in before if of not in found and of[0] not in gone}
            assert not missing, f"after {number} writes"

    on_machine(on)


def test_a_log_that_goes_while_rows_are_written_takes_its_use_with_it() -> None:
    """After a start on a full disk deltas name logs that the collector may drop at any time."""

    async def on(machine: Machine) -> None:
        story = Story(machine)
        await story.begin()
        for log_id in (1, 2, 3):
            story.index.change_use(log_id, [(LedgerId(1), (5, EntryId(0), EntryId(1)))], [EntryId(-1)])
        writing = asyncio.ensure_future(story.index.write_changed_rows(story.index.lac_pairs))
        await pause()
        assert not writing.done()
        for log_id in (1, 2):
            story.index.forget_use(log_id)
        await writing
        story.index.drop_deltas()
        assert [log_id for log_id, _, _ in story.index.all_use()] == [3]

    on_machine(on)


def test_no_step_of_a_checkpoint_makes_rows_of_many_entries() -> None:
    """Ledgers that get entries in turn may be full at the same checkpoint (as these are, by their ids): what they have
    is more than one step may make rows of."""
    steps: list[int] = []

    def note(pairs: Sequence[tuple[bytes, bytes]]) -> None:
        steps.append(sum(len(row) // location.SIZE for key, row in pairs if key.startswith(b"E")))

    async def on(machine: Machine) -> None:
        index = Index(watched(await machine.begin().ordered_stores.open("/data/index"), note))
        many, halves = range(0, 16_000, 32), (range(0, 8_000, 32), range(8_000, 16_000, 32))
        for turn in range(4):  # eight entries each: 32 are in deltas then
            for half in halves:
                index.change_entries(
                    placed_of({(ledger, turn * 8 + at): Location(1, turn, 9) for ledger in half for at in range(8)})
                )
        assert not any(steps)
        one_more = placed_of({(ledger, 32): Location(1, 9, 9) for ledger in many})
        done = 0
        while done < len(many):
            done += index.change_entries(part(one_more, done, len(many)))
        assert sum(steps) == 33 * len(many)
        for turn in range(4):
            for half in halves:
                index.change_entries(
                    placed_of({(ledger, 64 + turn * 8 + at): Location(1, 1, 9) for ledger in half for at in range(8)})
                )
        await index.write_changed_rows(index.lac_pairs)
        assert sum(steps) == 65 * len(many)
        assert max(steps) <= 4_096 + 64

    on_machine(on)


def test_ledgers_that_get_entries_in_turn_have_their_rows_at_different_checkpoints() -> None:
    """All at once is a checkpoint that lasts so long that adds wait for it."""
    rows: list[int] = []

    async def on(machine: Machine) -> None:
        made: list[int] = []

        def note(pairs: Sequence[tuple[bytes, bytes]]) -> None:
            made.append(sum(key.startswith(b"E") for key, _ in pairs))

        index = Index(watched(await machine.begin().ordered_stores.open("/data/index"), note))
        for turn in range(150):
            made.clear()
            placed = placed_of({(ledger, turn): Location(1, turn, 9) for ledger in range(320)})
            assert index.change_entries(placed) == 320
            rows.append(sum(made))
        for ledger in (0, 31, 319):
            assert all(index.locate(LedgerId(ledger), EntryId(turn)) == Location(1, turn, 9) for turn in range(150))

    on_machine(on)
    assert sum(rows) >= 320 * 2, "each had its rows a few times"
    assert max(rows) <= 4 * 320 // 10, "at most a tenth of the ledgers at a time, of three or four rows each"


# ---- what is in them ------------------------------------------------------------------------------------------------

IDS = st.integers(0, LEDGER_ID_MAX)
COLUMNS = st.lists(st.tuples(IDS, IDS, st.binary(min_size=12, max_size=12)), min_size=1, max_size=9)


def columns(rows: list[tuple[int, int, bytes]]) -> Placed:
    ordered = sorted(rows, key=lambda row: row[:2])
    return Placed(
        [LedgerId(ledger) for ledger, _, _ in ordered],
        [EntryId(entry_id) for _, entry_id, _ in ordered],
        [packed for _, _, packed in ordered],
    )


def every_kind(placed: Placed) -> list[bytes]:
    use: list[tuple[LedgerId, Held]] = [(ledger, (5, EntryId(0), EntryId(9))) for ledger in placed.ledger_ids]
    ids = placed.ledger_ids
    return [
        deltas.pack_entries(placed),
        deltas.pack_use(3, use, placed.entry_ids),
        deltas.pack_written(ids),
        deltas.pack_forgotten(ids),
    ]


@given(rows=COLUMNS, kind=st.integers(0, 3), data=st.data())
def test_a_delta_that_is_not_whole_is_an_error_and_never_half_a_change(
    rows: list[tuple[int, int, bytes]], kind: int, data: st.DataObject
) -> None:
    whole = every_kind(columns(rows))[kind]
    Deltas().apply(whole)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for broken in (whole[:cut], whole + b"\0", b"\0" + whole[1:], b"\5" + whole[1:]):
        found = Deltas()
        with pytest.raises(CorruptFile, match="is no change that this program knows"):
            found.apply(broken)
        assert [found.ledgers(), found.lacs, found.use] == [[], {}, {}]


def test_an_id_in_the_bytes_of_a_location_is_not_taken_for_an_entry() -> None:
    found = Deltas()
    packed = location.pack(0, 0, 7)  # ends like the id 7, and so does entry 0 with what precedes it
    found.take_entries(columns([(1, 0, packed), (1, 0, packed), (1, 1, packed)]))

    assert [found.find(LedgerId(1), EntryId(entry_id)) for entry_id in (0, 1, 7)] == [
        Location(0, 0, 7),
        Location(0, 0, 7),
        None,
    ]


@given(rows=COLUMNS, asked=IDS)
def test_the_newest_place_of_an_entry_is_found(rows: list[tuple[int, int, bytes]], asked: int) -> None:
    found = Deltas()
    newest: dict[tuple[int, int], bytes] = {}
    for row in rows:
        found.take_entries(columns([row]))
        newest[row[0], row[1]] = row[2]
    for (ledger, entry_id), packed in newest.items():
        assert found.find(LedgerId(ledger), EntryId(entry_id)) == location.unpack(packed)
    assert (found.find(LedgerId(rows[0][0]), EntryId(asked)) is None) == ((rows[0][0], asked) not in newest)


def test_a_ledger_with_many_entries_goes_into_rows_with_what_deltas_had_of_it() -> None:
    found = Deltas()
    packed = location.pack(1, 2, 3)

    def split(ledger: int, entry_ids: range) -> tuple[int, int, int]:
        few, many, named, _ = found.split(columns([(ledger, entry_id, packed) for entry_id in entry_ids]))
        found.take_entries(few)
        found.take_written(named)
        return len(few.entry_ids), len(many.entry_ids), len(named)

    assert split(32, range(15)) == (15, 0, 0)
    assert split(32, range(15, 30)) == (15, 0, 0)
    assert split(32, range(30, 33)) == (0, 33, 1), "more than one row holds"
    assert split(32, range(33, 34)) == (1, 0, 0)
    assert split(32, range(34, 50)) == (0, 17, 1), "many at once"
    assert split(2, range(16)) == (0, 16, 0)


def test_deltas_of_so_many_ledgers_or_numbers_should_become_rows() -> None:
    """They are in memory, and a start reads them: nothing else bounds what one full checkpoint after the other adds."""
    most = [LedgerId(ledger) for ledger in range(131_072)]
    packed = location.pack(1, 2, 3)
    entries, lacs, numbers = Deltas(), Deltas(), Deltas()
    entries.take_entries(Placed(most, [EntryId(0)] * len(most), [packed] * len(most)))
    lacs.take_use(1, [(ledger, (1, EntryId(0), EntryId(0))) for ledger in most], [EntryId(0)] * len(most))
    numbers.next_number = 4_096
    assert [found.are_many for found in (entries, lacs, numbers)] == [False, False, False]
    entries.take_entries(Placed([LedgerId(131_072)], [EntryId(0)], [packed]))
    lacs.take_use(1, [(LedgerId(131_072), (1, EntryId(0), EntryId(0)))], [EntryId(0)])
    numbers.next_number += 1
    assert [found.are_many for found in (entries, lacs, numbers)] == [True, True, True]


def test_a_lac_in_deltas_never_goes_back() -> None:
    found = Deltas()
    for lac in (5, 3, -1):
        found.take_use(1, [(LedgerId(7), (1, EntryId(0), EntryId(6)))], [EntryId(lac)])
    assert found.lacs == {7: 5}


def test_a_directory_added_beside_one_with_deltas_does_not_hide_them_from_its_format() -> None:
    """A start on a full disk leaves the deltas of the life before, and directories may be added at it."""

    async def on(machine: Machine) -> None:
        index = Index(await machine.begin().ordered_stores.open("/data/index"))
        partition.begin_index(index, number=0, history=shapes.plain(1), journals=1)
        index.change_entries(placed_of({(1, 0): Location(1, 2, 3)}))
        partition.begin_index(index, number=0, history=shapes.grown(shapes.plain(1), 2, 5), journals=1)
        assert int.from_bytes(index.get_meta("format") or b"", "big") == partition.GROWN_FORMAT_VERSION + HAS_DELTAS
        partition.begin_reading(index, "the index")

    on_machine(on)


def test_the_greatest_ledger_may_be_one_that_only_a_delta_names() -> None:
    """A crash in a checkpoint may leave the deltas alone, and no directory that is added may get a ledger below it."""

    async def on(machine: Machine) -> None:
        index = Index(await machine.begin().ordered_stores.open("/data/index"))
        index.change_entries(placed_of({(9, 0): Location(1, 2, 3), (12, 0): Location(1, 2, 3)}))
        assert index.greatest_ledger() == 12

    on_machine(on)


# ---- in a store -----------------------------------------------------------------------------------------------------


def version_of(store: EntryStore) -> int:
    return int.from_bytes(store.partitions[0].index.get_meta("format") or b"", "big")


def has_deltas(bench: Bench) -> bool:
    (image,) = bench.node.image.volumes["/index"].root.stores()
    return any(key.startswith(b"D") for key in image.durable)


HAS_DELTAS = 0x400  # what is added to the format, as docs/decisions/0028 has it


@story(run)
async def test_what_a_checkpoint_put_into_deltas_is_there_after_a_kill(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for ledger in (7, 8, 9):
            await bench.put_all(store, ledger, range(3))
        await store.flush()
        assert version_of(store) == partition.FORMAT_VERSION + HAS_DELTAS

    async def look() -> None:
        async with inspect.open_index(bench.node.world.ordered_stores, "/index") as view:
            assert [(ledger, entry_id) for ledger, entry_id, _ in view.entries()] == [
                (ledger, entry_id) for ledger in (7, 8, 9) for entry_id in range(3)
            ]
            assert {ledger: facts.last_confirmed for ledger, facts in view.ledgers()} == {7: 1, 8: 1, 9: 1}
            assert [ledger for _, ledger, _ in view.log_use()] == [7, 8, 9]

    async def again(store: EntryStore) -> None:
        assert store.stats.entries_replayed == 0, "the marks cover them"
        assert version_of(store) == partition.FORMAT_VERSION, "a start makes rows of them"
        for ledger in (7, 8, 9):
            for entry_id in range(3):
                assert await bench.read(store, ledger, entry_id) == entry(ledger, entry_id)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    assert has_deltas(bench)
    await bench.look(look())
    await bench.life(again)


@story(run)
async def test_an_orderly_stop_and_an_idle_turn_leave_no_deltas(bench: Bench) -> None:
    async def idle(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        assert has_deltas(bench)
        await store.flush()
        assert not has_deltas(bench)
        assert version_of(store) == partition.FORMAT_VERSION

    async def stopped(store: EntryStore) -> None:
        await bench.put_all(store, 7, [1])
        await store.flush()
        await bench.put_all(store, 7, [2])

    await bench.life(idle)
    await bench.life(stopped)
    assert not has_deltas(bench)


@story(run)
async def test_the_format_tells_of_deltas_of_a_doubt_and_of_what_was_given_up(bench: Bench) -> None:
    """Each of the three may begin and end while the others stand."""
    in_doubt, gave_up = 0x100, 0x200

    async def work(store: EntryStore) -> None:
        def told() -> int:
            return version_of(store) - partition.FORMAT_VERSION

        await bench.put_all(store, 7, [0])
        await store.flush()
        assert told() == HAS_DELTAS
        await store.doubt_below(5, epoch=1)
        assert told() == HAS_DELTAS + in_doubt
        await store.mark_given_up([LedgerId(7)])
        assert told() == HAS_DELTAS + in_doubt + gave_up
        await store.flush()
        await store.flush()
        assert told() == in_doubt + gave_up
        await bench.put_all(store, 8, [0])
        await store.flush()
        assert told() == HAS_DELTAS + in_doubt + gave_up

    async def again(store: EntryStore) -> None:
        assert version_of(store) - partition.FORMAT_VERSION == in_doubt + gave_up
        await bench.put_all(store, 8, [1])
        await store.flush()
        await store.settle([], rest=0)
        assert version_of(store) - partition.FORMAT_VERSION == HAS_DELTAS + gave_up

    await bench.life(work, end=ProcessEnd.KILL)
    await bench.life(again)


@story(run)
async def test_an_orderly_stop_takes_back_what_the_format_says_of_deltas(bench: Bench) -> None:
    """A crash between the last delta's end and that of what the format says, or before the first one."""

    async def begun(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        await store.flush()
        (directory,) = store.partitions
        assert version_of(store) == partition.FORMAT_VERSION
        directory.begin_deltas()
        await directory.index.flush()

    async def nothing(store: EntryStore) -> None:
        assert version_of(store) == partition.FORMAT_VERSION

    await bench.life(begun, end=ProcessEnd.KILL)
    await bench.life(nothing)


@story(run)
async def test_what_the_format_says_of_deltas_goes_after_a_failure_too(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        (directory,) = store.partitions
        whole = directory.index.store

        def refuse(pairs: Sequence[tuple[bytes, bytes]]) -> None:
            if any(key == b"Mformat" for key, _ in pairs):
                raise DiskFull("no space")

        directory.index.store = watched(whole, refuse)
        with pytest.raises(DiskFull):
            await store.flush()
        directory.index.store = whole
        assert version_of(store) == partition.FORMAT_VERSION + HAS_DELTAS

    async def again(store: EntryStore) -> None:
        assert await bench.read(store, 7, 0) == entry(7, 0)

    await bench.life(work)
    (image,) = bench.node.image.volumes["/index"].root.stores()
    assert int.from_bytes(image.durable[b"Mformat"], "big") == partition.FORMAT_VERSION
    await bench.life(again)


@story(run, entry_log_bytes_max=5_000)
async def test_deltas_name_no_log_that_the_collector_looks_at(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        logs = set()
        for turn in range(20):
            await bench.put_all(store, turn % 3, [turn], payload=bytes(900))
            await store.flush()
            named = directory.index.deltas.use
            assert all(log_id >= directory.first_open_log for log_id in named)
            logs.add(directory.first_open_log)
            for log_id in range(directory.first_open_log):
                stored = directory.index.store.range(
                    struct.pack(">cI", b"G", log_id), struct.pack(">cI", b"G", log_id + 1)
                )
                assert list(stored), f"nobody is known to have entries in log {log_id}"
        assert len(logs) > 3

    await bench.life(work)


@story(run, entry_log_bytes_max=5_000)
async def test_rows_are_made_of_deltas_once_the_write_cache_has_room_and_before_the_collector_looks(
    bench: Bench,
) -> None:
    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        seen: list[tuple[bool, bool]] = []

        def note(pairs: Sequence[tuple[bytes, bytes]]) -> None:
            if any(key.startswith(b"E") for key, _ in pairs):
                named = min(directory.index.deltas.use)
                seen.append((directory.flushing is None, directory.first_open_log <= named))

        directory.index.store = watched(directory.index.store, note)
        for turn in range(12):
            await bench.put_all(store, turn % 3, [turn], payload=bytes(900))
            await store.flush()
        assert seen
        assert seen == [(True, True)] * len(seen)

    await bench.life(work)


@story(run, entry_log_bytes_max=5_000)
async def test_a_disk_that_takes_no_rows_of_deltas_does_not_keep_the_collector_away(bench: Bench) -> None:
    """It may be what makes the room. Nothing of the deltas is lost meanwhile, and rows are made when there is some."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        whole = directory.index.store

        def refuse(pairs: Sequence[tuple[bytes, bytes]]) -> None:
            if any(key.startswith(b"E") for key, _ in pairs):
                raise DiskFull("no space")

        directory.index.store = watched(whole, refuse)
        put = 0
        with contextlib.suppress(DiskFull):
            for put in range(1, 13):
                await bench.put_all(store, 7, [put], payload=bytes(900))
                await store.flush()
        assert 1 < put < 12
        assert directory.flushing is None, "what was flushed is durable"
        assert directory.first_open_log == directory.writer.first_open_id
        directory.index.store = whole
        await bench.put_all(store, 8, [0])
        await store.flush()
        assert set(directory.index.deltas.use) <= {directory.writer.current_id}
        for each in range(1, put + 1):
            assert await bench.read(store, 7, each) == entry(7, each, payload=bytes(900))

    await bench.life(work)


@story(run)
async def test_deltas_become_rows_after_some_checkpoints(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        numbers = []
        for turn in range(40):
            await bench.put_all(store, turn % 20, [turn])
            await store.flush()
            numbers.append(store.partitions[0].index.deltas.checkpoints)
        assert numbers == [*range(1, 32), 0, *range(1, 9)]

    await bench.life(work)


@story(run)
async def test_deletions_of_many_ledgers_let_others_run(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for ledger in range(700):
            await bench.put_all(store, ledger, [0])
        await store.flush()
        steps = [0]

        def note(pairs: Sequence[tuple[bytes, bytes]]) -> None:
            if not steps[-1]:
                asyncio.get_running_loop().call_soon(steps.append, 0)
            steps[-1] += sum(key.startswith(b"E") for key, _ in pairs)

        (directory,) = store.partitions
        directory.index.store = watched(directory.index.store, note)
        for ledger in range(700):
            store.delete_ledger(LedgerId(ledger))
        await store.flush()
        assert sum(steps) == 700
        assert max(steps) <= 256

    await bench.life(work)


@story(run)
async def test_the_format_tells_of_deltas_whatever_of_a_checkpoint_survives(bench: Bench) -> None:
    """CRASH: before the first delta, and until the last one is gone: an older program would miss what they say."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        whole = directory.index.store
        told: list[bool] = []

        def look(pairs: Sequence[tuple[bytes, bytes]]) -> None:
            # Before a delta is put, and before all are removed (a range).
            if any(key.startswith(b"D") for key, _ in pairs):
                told.append(bool(version_of(store) & HAS_DELTAS))

        directory.index.store = watched(whole, look)
        await bench.put_all(store, 7, [0])
        await store.flush()
        assert len(told) == 2, "one of use, one of entries"
        await store.flush()
        assert told == [True] * 3
        directory.index.store = whole

    await bench.life(work)


@pytest.mark.parametrize("is_in_memory", [False, True])
@story(run)
async def test_the_lac_that_deltas_had_is_in_the_row_once_they_are_gone(bench: Bench, *, is_in_memory: bool) -> None:
    bench.change(ledgers_cached_max=100 if is_in_memory else 1)

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        await store.flush()
        await bench.put_all(store, 7, range(1, 4))  # no fact of it changes but the LAC
        await bench.put_all(store, 8, [0])
        await store.flush()
        (directory,) = store.partitions
        assert has_deltas(bench)
        if not is_in_memory:
            for ledger in (8, 9):
                await bench.put_all(store, ledger, [1])
                await bench.write_lac(store, ledger, 0)
            await store.flush()
            assert LedgerId(7) not in directory.table.known
        await store.flush()
        assert not has_deltas(bench)

    async def again(store: EntryStore) -> None:
        assert store.last_confirmed(LedgerId(7)) == 2

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(again)
