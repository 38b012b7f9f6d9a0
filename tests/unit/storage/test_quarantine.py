"""What checks and makes no sense costs one ledger its voice here, and no other ledger anything: the store opens, that
ledger never says no and takes nothing, and the integrity check brings it back."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.ordered_store import DeleteRow, PutRow
from bookie.sim.disk_image import apply_batch
from bookie.sim.node import ProcessEnd
from bookie.storage import inspect, ledgers, partition, replay
from bookie.storage.index import block_key, ledger_key, quarantine_key
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.batch import GroupPacker
from bookie.storage.journal.format import ENTRIES, ENTRY, FENCE, KEY, LAC, Header, WholeRecord
from bookie.storage.store import EntryStore
from storage_support import KEY as MASTER_KEY
from storage_support import Bench, Outcome, entry, explicit_lac, put, run, watched
from story_support import story

Raw = tuple[int, int, int, bytes]  # kind, ledger, entry, body
HEALTHY = LedgerId(90)
ODD = LedgerId(7)
WELL: list[Raw] = [
    (KEY, HEALTHY, -1, MASTER_KEY),
    *((ENTRY, HEALTHY, number, entry(HEALTHY, number)) for number in range(3)),
    (FENCE, 91, -1, MASTER_KEY),
    (LAC, HEALTHY, -1, explicit_lac(HEALTHY, 1)),
]


def journal_of(records: Sequence[Raw], *, group_count: int = 3) -> bytes:
    """A journal's first file, as our writer packs it, whatever the records say."""
    header = Header(1, b"saltsalt", 0)
    batcher = GroupPacker(journal_format.seed_of(header), journal_format.FIRST_GROUP)
    parts = [journal_format.pack_head_block(header)]
    for number, (kind, ledger, number_of_entry, body) in enumerate(records, 1):
        batcher.put(kind, LedgerId(ledger), EntryId(number_of_entry), body, None)
        if number % group_count == 0:
            parts += batcher.cut().buffers
    parts += batcher.cut().buffers
    return b"".join(parts)


async def replaying(bench: Bench, records: Sequence[Raw]) -> None:
    """Leave a journal on the disk, and nothing else: as a bookie that was killed before its first checkpoint."""
    disk = bench.node.begin().disk

    async def write() -> None:
        await disk.make_dir("/journal/current")
        file = await disk.open("/journal/current/0000000000000001.journal", create=True)
        await file.append_and_sync([journal_of(records)])
        await disk.sync_dir("/journal/current")
        await disk.sync_dir("/journal")
        await file.close()

    await bench.node.do(write())
    bench.node.end(ProcessEnd.EXIT)


async def healthy_is_served(bench: Bench, store: EntryStore) -> None:
    assert HEALTHY not in store.quarantined
    for number in range(3):
        assert await bench.read(store, HEALTHY, number) == entry(HEALTHY, number)
    with pytest.raises(errors.NoSuchEntry):
        await store.read(HEALTHY, EntryId(3))
    facts = store.facts(HEALTHY)
    assert facts is not None
    assert (facts.master_key, facts.explicit_lac, facts.is_limbo) == (MASTER_KEY, explicit_lac(HEALTHY, 1), False)
    fenced = store.facts(LedgerId(91))
    assert fenced is not None
    assert fenced.is_fenced


async def never_says_no(store: EntryStore, ledger_id: LedgerId) -> None:
    assert ledger_id in store.quarantined
    for entry_id in (0, 5, 2**63 - 1):
        (found,) = await store.read_many(ledger_id, [EntryId(entry_id)])
        assert not isinstance(found, BookieError) or found.answer is errors.Answer.UNKNOWN
    for question in (
        store.read_lac(ledger_id),
        store.whole_list(ledger_id, lambda runs: None),
        store.read(ledger_id, EntryId(-1)),
    ):
        with pytest.raises(errors.UnknownLedgerState):
            await question
    for key in (MASTER_KEY, b"another"):
        for is_recovery in (False, True):
            with pytest.raises(errors.UnknownLedgerState):
                put(store, ledger_id, 3, key=key, is_recovery=is_recovery)
        with pytest.raises(errors.UnknownLedgerState):
            store.fence(ledger_id, key, Outcome())
        with pytest.raises(errors.UnknownLedgerState):
            store.write_lac(ledger_id, explicit_lac(ledger_id, 1), key, Outcome())
    with pytest.raises(errors.UnknownLedgerState):
        store.force(ledger_id, Outcome())


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ((KEY, ODD, -1, bytes(70_000)), "a master key of 70000 bytes"),
        ((FENCE, ODD, -1, bytes(65_536)), "a master key of 65536 bytes"),
        ((LAC, ODD, -1, explicit_lac(ODD, 3) + bytes(65_536)), "an explicit LAC of 65556 bytes"),
        ((LAC, ODD, -1, b"short"), "an explicit LAC of 5 bytes"),
        ((LAC, ODD, -1, explicit_lac(8, 3)), "that is another's"),
        ((ENTRY, ODD, 3, b"short"), "an entry of 5 bytes"),
        ((ENTRY, ODD, 3, entry(ODD, 4)), "says that it is 4 of 7"),
        ((ENTRY, ODD, -4, entry(ODD, -4)), "says that it is -4 of 7"),
        ((ENTRY, ODD, 3, entry(8, 3)), "says that it is 3 of 8"),
        ((ENTRIES, ODD, -1, struct.pack(">II", 9, 9)), "not laid out so"),
        ((ENTRIES, ODD, -1, b""), "not laid out so"),
        ((200, ODD, -1, b"what"), "a record of kind 200"),
        ((0, ODD, -1, b""), "a record of kind 0"),
        ((KEY, ODD, -1, b"another key than it had"), "another master key"),
        ((FENCE, ODD, -1, b"another key than it had"), "another master key"),
    ],
)
@story(run)
async def test_a_record_that_makes_no_sense_quarantines_its_ledger_and_the_others_are_served(
    bench: Bench, *, odd: Raw, reason: str
) -> None:
    first = [(KEY, ODD, -1, MASTER_KEY), (ENTRY, ODD, 0, entry(ODD, 0))]

    await replaying(bench, [*first, odd, *WELL, (ENTRY, ODD, 1, entry(ODD, 1))])

    async def look(store: EntryStore) -> None:
        assert reason in store.quarantined[ODD]
        await healthy_is_served(bench, store)
        await never_says_no(store, ODD)
        for number in (0, 1):
            assert await bench.read(store, ODD, number) == entry(ODD, number)

    # The journal is trimmed by the first life, so what the second knows is in the index.
    await bench.life(look, end=ProcessEnd.POWER_CUT)
    await bench.life(look)
    await bench.life(look)
    assert bench.was_clean


def test_a_cut_at_any_operation_of_such_a_start_forgets_no_quarantine() -> None:
    def is_cut_at(operation: int) -> bool:
        async def story(bench: Bench) -> bool:
            await replaying(bench, [(ENTRY, ODD, 3, entry(8, 3)), (KEY, 9, -1, bytes(70_000)), *WELL])
            died = await bench.dies(lambda store: store.flush(), operation=operation, how=ProcessEnd.POWER_CUT)
            await bench.life(look)
            return died

        async def look(store: EntryStore) -> None:
            assert sorted(store.quarantined) == [7, 8, 9]

        # Ledgers 7 and 8 live in different directories, whose checkpoints are not durable together.
        return run(story, Bench(operation, ledger_dirs=("/ledgers", "/index"), index_dirs=("/index", "/journal")))

    operation = 1
    while is_cut_at(operation):
        operation += 1
    assert operation > 15


@story(run)
async def test_a_record_that_names_no_ledger_at_all_is_refused_by_file_and_offset(bench: Bench) -> None:
    await replaying(bench, [*WELL, (KEY, -5, -1, MASTER_KEY)])

    with pytest.raises(errors.CorruptFile, match=r"1.journal: the record that ends at offset \d+ checks, but names"):
        await bench.life(lambda store: store.flush())


@story(run)
async def test_a_ledger_that_was_repaired_says_no_again_and_is_not_in_quarantine_after_a_restart(bench: Bench) -> None:
    await replaying(bench, [(KEY, ODD, -1, bytes(70_000)), *WELL])

    async def repair(store: EntryStore) -> None:
        store.add_copied(ODD, EntryId(0), entry(ODD, 0), MASTER_KEY)
        await store.flush()
        store.clear_limbo(ODD)
        await store.flush()
        await look(store)

    async def look(store: EntryStore) -> None:
        assert store.quarantined == {}
        facts = store.facts(ODD)
        assert facts is not None
        assert (facts.is_limbo, facts.is_state_lost, facts.master_key) == (False, True, MASTER_KEY)
        assert await bench.read(store, ODD, 0) == entry(ODD, 0)
        with pytest.raises(errors.NoSuchEntry):
            await store.read(ODD, EntryId(1))
        with pytest.raises(errors.UnknownLedgerState):  # a fence of it may have been in what was lost
            put(store, ODD, 1)

    await bench.life(repair)
    await bench.life(look)


@story(run)
async def test_a_deleted_ledger_takes_its_quarantine_along(bench: Bench) -> None:
    await replaying(bench, [(KEY, ODD, -1, bytes(70_000)), *WELL])

    async def delete(store: EntryStore) -> None:
        store.clear_limbo(ODD)
        store.delete_ledger(ODD)
        await store.flush()
        assert store.quarantined == {}
        await bench.put_all(store, ODD, [0])

    async def look(store: EntryStore) -> None:
        assert store.quarantined == {}
        assert await bench.read(store, ODD, 0) == entry(ODD, 0)

    await bench.life(delete)
    await bench.life(look)


@story(run)
async def test_a_quarantine_that_ends_while_a_checkpoint_is_flushed_is_over_after_the_next(bench: Bench) -> None:
    await replaying(bench, [(KEY, ODD, -1, bytes(70_000)), *WELL])

    async def repair(store: EntryStore) -> None:
        (directory,) = store.partitions
        await bench.put_all(store, HEALTHY, [3])
        store.clear_limbo(ODD)
        directory.table.quarantine(ODD, "again")
        running = asyncio.ensure_future(store.flush())
        while directory.flushing is None or partition.stored_marks(directory.index) != directory.flushing_marks:
            await bench.simulation.loop.sleep_ns(1_000)
        store.clear_limbo(ODD)
        assert directory.flushing is not None, "it is being flushed"
        await running
        await store.flush()

    async def look(store: EntryStore) -> None:
        assert store.quarantined == {}
        facts = store.facts(ODD)
        assert facts is not None
        assert not facts.is_limbo

    await bench.life(repair, end=ProcessEnd.POWER_CUT)
    await bench.life(look)


@story(run)
async def test_a_ledger_whose_row_is_saved_is_in_quarantine_after_a_restart_too(bench: Bench) -> None:
    """As for a record of the journal that makes no sense: of the ledger itself nothing else changes."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        await bench.put_all(store, ODD, [0])
        await store.flush()
        directory.table.quarantine(ODD, "its journal holds nonsense")
        await store.flush()

    async def look(store: EntryStore) -> None:
        assert store.quarantined == {ODD: "its journal holds nonsense"}
        await never_says_no(store, ODD)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(look)


@pytest.mark.parametrize("count", [1, 20], ids=["by a delta", "at once"])
@story(run)
async def test_a_quarantine_is_in_the_index_before_the_row_that_cannot_be_read_is_replaced(
    bench: Bench, *, count: int
) -> None:
    """CRASH: of what is not flushed a prefix survives. Without the mark, what that row had said would be denied."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        found: list[bytes | None] = []

        def look(pairs: Sequence[tuple[bytes, bytes]]) -> None:
            if any(key == block_key(ODD, EntryId(0)) for key, _ in pairs):
                found.append(directory.index.store.get(quarantine_key(ODD)))

        await bench.put_all(store, ODD, range(40))
        await store.flush()
        await store.flush()  # no delta says it besides
        directory.index.put_many([(block_key(ODD, EntryId(0)), b"rot")])
        directory.index.store = watched(directory.index.store, look)
        for entry_id in range(count):
            store.add_copied(ODD, EntryId(entry_id), entry(ODD, entry_id), MASTER_KEY)
        await store.flush()
        await store.flush()
        assert len(found) == 1
        assert None not in found

    await bench.life(work)


@story(run)
async def test_a_row_of_a_deleted_ledger_that_cannot_be_read_makes_no_ledger(bench: Bench) -> None:
    """A limbo that comes out of nothing would never be collected."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        await bench.put_all(store, ODD, range(40))
        await store.flush()
        await store.flush()  # no delta says it besides
        directory.index.put_many([(block_key(ODD, EntryId(0)), b"rot")])
        store.delete_ledger(ODD)
        assert [entry_id for entry_id, _ in directory.index.locations(ODD)] == list(range(32, 40))  # as a scrub does

        assert (store.facts(ODD), store.quarantined) == (None, {})
        with pytest.raises(errors.NoSuchLedger):
            await store.read(ODD, EntryId(0))

    async def look(store: EntryStore) -> None:
        assert (store.facts(ODD), store.quarantined) == (None, {})

    await bench.life(work)
    await bench.life(look)


@story(run)
async def test_whoever_looks_into_a_stopped_bookie_is_told_of_such_records_and_ledgers(bench: Bench) -> None:
    await replaying(bench, [(KEY, ODD, -1, bytes(70_000)), *WELL])

    async def look() -> None:
        disk = bench.node.world.disk
        found = [each async for each in inspect.journal_records(disk, "/journal", 1, is_last=True)]
        (damage,) = [each for each in found if isinstance(each, inspect.Damage)]
        assert damage.reason == "the record checks, but a master key of 70000 bytes"
        assert len(found) == 1 + len(WELL)

    async def look_at_index() -> None:
        async with inspect.open_index(bench.node.world.ordered_stores, "/index") as index:
            assert list(index.entries(HEALTHY))
            assert [ledger_id for ledger_id, _ in index.ledgers()] == [ODD, HEALTHY, 91]
            assert index.quarantined() == {
                ODD: "its journal holds a master key of 70000 bytes",
                8: "index: the row of ledger 8 has 3 bytes",
                HEALTHY: "index: a row of 3 bytes that says it has 12 locations",
            }

    await bench.look(look())
    await bench.life(lambda store: store.flush())
    change_rows(bench, PutRow(ledger_key(LedgerId(8)), b"odd"), PutRow(block_key(HEALTHY, EntryId(99)), b"odd"))
    await bench.look(look_at_index())


# ---- rows of the index ----------------------------------------------------------------------------------------------


def change_rows(bench: Bench, *changes: PutRow | DeleteRow) -> None:
    """Replace rows of the index durably, behind everybody's back."""
    (store,) = bench.node.image.volumes["/index"].root.stores()
    for values in (store.values, store.durable):
        apply_batch(values, list(changes))


async def two_ledgers(bench: Bench, *, end: ProcessEnd = ProcessEnd.EXIT) -> None:
    async def work(store: EntryStore) -> None:
        for ledger_id in (ODD, HEALTHY):
            await bench.put_all(store, ledger_id, range(3))
            await bench.write_lac(store, ledger_id, 1)
        await bench.fence(store, 91)
        await store.flush()
        await bench.put_all(store, ODD, [40])

    await bench.life(work, end=end)


FIRST_QUESTIONS: dict[str, Callable[[EntryStore], Awaitable[object]]] = {
    "the LAC": lambda store: store.read_lac(ODD),
    "the last entry": lambda store: store.read(ODD, EntryId(-1)),
    "an entry": lambda store: store.read(ODD, EntryId(2)),
    "the list": lambda store: store.whole_list(ODD, lambda runs: None),
}


@pytest.mark.parametrize("question", FIRST_QUESTIONS)
@story(run)
async def test_of_a_ledger_with_such_a_row_no_first_question_is_answered_as_if_it_had_nothing(
    bench: Bench, *, question: str
) -> None:
    """Each look must tell by itself what it met: nobody has looked before it."""
    await two_ledgers(bench)
    change_rows(bench, *(PutRow(block_key(ODD, EntryId(each)), b"odd") for each in (0, 40)))

    async def work(store: EntryStore) -> None:
        assert not store.quarantined
        with pytest.raises(errors.UnknownLedgerState):
            await FIRST_QUESTIONS[question](store)
        await healthy_is_served(bench, store)

    await bench.life(work)


@pytest.mark.parametrize("end", [ProcessEnd.EXIT, ProcessEnd.KILL])
@pytest.mark.parametrize(
    "change",
    [
        PutRow(ledger_key(ODD), b""),
        PutRow(ledger_key(ODD), b"\1"),
        PutRow(ledger_key(ODD), b"\7" + bytes(21)),
        PutRow(ledger_key(ODD), b"\1\xff" + bytes(20)),
        PutRow(ledger_key(ODD), ledgers.Ledger(ODD, MASTER_KEY).pack() + b"more"),
        PutRow(block_key(ODD, EntryId(0)), b""),
        PutRow(block_key(ODD, EntryId(0)), bytes(4)),
        PutRow(block_key(ODD, EntryId(0)), b"\xff" * 400),
    ],
)
@story(run)
async def test_a_row_that_cannot_be_read_quarantines_its_ledger_and_the_others_are_served(
    bench: Bench, *, change: PutRow, end: ProcessEnd
) -> None:
    await two_ledgers(bench, end=end)
    change_rows(bench, change)

    async def look(store: EntryStore) -> None:
        for entry_id in (0, 3, 40):
            (found,) = await store.read_many(ODD, [EntryId(entry_id)])
            if isinstance(found, BookieError):
                assert found.answer is errors.Answer.UNKNOWN, entry_id
            else:
                assert (entry_id != 3, found) == (True, entry(ODD, entry_id))
        await never_says_no(store, ODD)
        await healthy_is_served(bench, store)
        await store.flush()

    for _ in range(3):
        await bench.life(look, end=end)


def test_what_is_copied_into_a_row_that_cannot_be_read_replaces_it_and_never_before_the_mark() -> None:
    def is_cut_at(operation: int) -> bool:
        async def story(bench: Bench) -> bool:
            await two_ledgers(bench)
            change_rows(bench, PutRow(block_key(ODD, EntryId(0)), b"odd"))
            # The row is met by the checkpoint of a copy alone.
            died = await bench.dies(copy, operation=operation, how=ProcessEnd.POWER_CUT)
            await bench.life(look)
            return died

        return run(story, Bench(operation))

    async def copy(store: EntryStore) -> None:
        store.add_copied(ODD, EntryId(1), entry(ODD, 1), MASTER_KEY)
        await store.flush()
        assert await store.entry_ranges(ODD) == [(1, 1), (40, 40)]

    async def look(store: EntryStore) -> None:
        with pytest.raises(errors.UnknownLedgerState):
            await store.read(ODD, EntryId(0))
        assert ODD in store.quarantined

    operation = 1
    while is_cut_at(operation):
        operation += 1
    assert operation > 15


# ---- any value ------------------------------------------------------------------------------------------------------

BODIES = st.one_of(
    st.binary(max_size=50),
    st.sampled_from([bytes(70_000), entry(ODD, 2), entry(8, 0), explicit_lac(ODD, 5), MASTER_KEY]),
    st.builds(lambda ledger, number: entry(ledger, number), st.integers(-1, 9), st.integers(-1, 9)),
)
RAW = st.tuples(
    st.integers(0, 255).filter(lambda kind: kind != journal_format.PADDING),
    st.integers(-2, 9),
    st.integers(-2, 9),
    BODIES,
)
SENSIBLE_KINDS = st.tuples(
    st.sampled_from([ENTRY, KEY, FENCE, LAC, ENTRIES]), st.integers(0, 9), st.integers(-1, 9), BODIES
)


@settings(max_examples=150, deadline=None)
@given(odd=st.lists(st.one_of(RAW, SENSIBLE_KINDS), min_size=1, max_size=6), places=st.randoms(use_true_random=False))
def test_whatever_valid_records_say_the_store_opens_or_names_no_single_ledger(odd: list[Raw], places: object) -> None:
    records = list(WELL)
    for record in odd:
        records.insert(places.randint(0, len(records)), record)  # type: ignore[attr-defined]

    async def story(bench: Bench) -> None:
        await replaying(bench, records)

        async def look(store: EntryStore) -> None:
            await healthy_is_served(bench, store)
            for ledger_id in sorted(store.quarantined):
                await never_says_no(store, ledger_id)
            await store.flush()

        if any(replay.complaint(each) and not list(replay.named(each)) for each in map(as_read, odd)):
            with pytest.raises(errors.CorruptFile, match="nobody can say whose it is"):
                await bench.life(look)
            return
        await bench.life(look, end=ProcessEnd.KILL)
        await bench.life(look)
        assert bench.was_clean

    run(story)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
@story(run)
async def test_whatever_rows_of_one_ledger_say_the_others_are_served(bench: Bench, *, data: st.DataObject) -> None:
    await two_ledgers(bench, end=data.draw(st.sampled_from([ProcessEnd.EXIT, ProcessEnd.KILL])))
    (index,) = bench.node.image.volumes["/index"].root.stores()
    mine = [key for key in sorted(index.durable) if key[:1] in b"ELG" and ODD.to_bytes(8, "big") in key]
    for key in data.draw(st.lists(st.sampled_from(mine), min_size=1, unique=True)):
        value = index.durable[key]
        odd = st.one_of(
            st.binary(max_size=60),
            st.integers(0, len(value)).map(lambda end, value=value: value[:end]),
            st.integers(0, 8 * len(value) - 1).map(lambda bit, value=value: flipped(value, bit)),
        )
        change_rows(bench, PutRow(key, data.draw(odd)))

    async def look(store: EntryStore) -> None:
        await healthy_is_served(bench, store)
        for entry_id in (0, 1, 2, 40, 3):
            try:
                assert await store.read(ODD, EntryId(entry_id)) == entry(ODD, entry_id)
            except BookieError:
                continue
        for ledger_id in sorted(store.quarantined):
            await never_says_no(store, ledger_id)
        await store.flush()

    await bench.life(look, end=ProcessEnd.KILL)
    await bench.life(look)
    assert bench.was_clean


@settings(max_examples=100, deadline=None)
@given(data=st.data())
@story(run)
async def test_whatever_the_few_rows_of_the_whole_disk_say_the_store_opens_or_refuses_in_words(
    bench: Bench, *, data: st.DataObject
) -> None:
    await two_ledgers(bench, end=ProcessEnd.KILL)
    (index,) = bench.node.image.volumes["/index"].root.stores()
    key = data.draw(st.sampled_from([key for key in sorted(index.durable) if key[:1] == b"M"]))
    change_rows(bench, PutRow(key, data.draw(st.one_of(st.binary(max_size=40), st.just(b"\xff" * 16)))))

    try:
        await bench.life(lambda store: healthy_is_served(bench, store))
    except (errors.CorruptFile, errors.RefusedToStart):
        return


def as_read(raw: Raw) -> WholeRecord:
    kind, ledger, number, body = raw
    return WholeRecord(kind, LedgerId(ledger), EntryId(number), body, 0)


def flipped(value: bytes, bit: int) -> bytes:
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
