"""A ledger of which nobody can say whether it may go is kept and listed, and costs no other ledger anything."""

import struct

import pytest

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.ports.ordered_store import PutRow
from bookie.sim.disk_image import apply_batch
from bookie.storage.collect import collector
from bookie.storage.collect.undecided import IN_A_ROW_MAX, LISTED_MAX, PAUSE_RUNS_MAX, Undecided
from bookie.storage.store import EntryStore
from storage_support import Bench, run
from story_support import story

ODD = LedgerId(3)


class Metadata:
    """Knows that all but 100 are gone; of some it cannot tell."""

    def __init__(self, *cannot_tell: int) -> None:
        self.cannot_tell = set(cannot_tell)
        self.asked: list[int] = []
        self.error: type[errors.MetadataError] = errors.MetadataError

    async def is_absent(self, ledger_id: LedgerId) -> bool:
        self.asked.append(ledger_id)
        if ledger_id in self.cannot_tell:
            raise self.error(f"the record of ledger {ledger_id} cannot be read")
        return ledger_id != 100


async def fill(bench: Bench, store: EntryStore, ledger_ids: "list[int]") -> None:
    for ledger_id in ledger_ids:
        await bench.put_all(store, ledger_id, [0], payload=bytes(4000))
        await store.flush()
    await bench.put_all(store, 100, [0])
    await store.flush()


@story(run, entry_log_bytes_max=4096)
async def test_one_ledger_that_nobody_can_decide_is_kept_with_the_reason_and_all_others_go(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await fill(bench, store, [1, 2, ODD, 4, 5])
        undecided = Undecided()

        found = await collector.collect(store, Metadata(ODD).is_absent, undecided=undecided)

        assert (found.ledgers_deleted, found.logs_dropped) == (4, 4)
        assert list(undecided) == [(ODD, "the record of ledger 3 cannot be read")]
        assert [ledger_id async for ledger_id in store.ledgers()] == [ODD, 100]
        found = await collector.collect(store, Metadata().is_absent, undecided=undecided, released=1)
        assert (found.ledgers_deleted, len(undecided)) == (1, 0)

    await bench.life(work)


@story(run)
async def test_it_is_asked_about_again_after_pauses_that_grow_and_at_once_when_a_person_asks(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await fill(bench, store, [ODD])
        undecided, metadata, turns = Undecided(), Metadata(ODD), list[int]()
        for turn in range(40):
            metadata.asked.clear()
            await collector.collect(store, metadata.is_absent, undecided=undecided)
            if ODD in metadata.asked:
                turns.append(turn)
        assert turns == [0, 1, 3, 7, 15, 31]
        metadata.asked.clear()
        await collector.collect(store, metadata.is_absent, undecided=undecided, looks_only=True)
        assert ODD in metadata.asked

    await bench.life(work)


def test_pauses_end_at_a_bound_and_one_answer_ends_the_case() -> None:
    undecided = Undecided()
    for _ in range(30):
        undecided.begin(all_due=True)
        assert not undecided.failed(ODD, "still")
    waited = 0
    while not undecided.is_due(ODD):
        undecided.begin()
        waited += 1
    undecided.decided(ODD)

    assert (waited, len(undecided)) == (PAUSE_RUNS_MAX, 0)


@story(run, entry_log_bytes_max=4096)
async def test_a_metadata_store_that_answers_nothing_ends_the_run_soon_and_what_is_dead_already_goes_all_the_same(
    bench: Bench,
) -> None:
    async def work(store: EntryStore) -> None:
        await fill(bench, store, list(range(1, 41)))
        store.delete_ledger(LedgerId(40))
        metadata = Metadata(*range(101))

        with pytest.raises(errors.MetadataError):
            await collector.collect(store, metadata.is_absent)

        assert len(metadata.asked) == 32, "those asked at once; none after them, though eight in a row end it"
        assert len(bench.paths(".log")) == 40
        assert len([ledger_id async for ledger_id in store.ledgers()]) == 40

    await bench.life(work)


@story(run, entry_log_bytes_max=4096)
async def test_records_that_are_withheld_are_no_silence_however_many_there_are_in_a_row(bench: Bench) -> None:
    """Of another owner in ZooKeeper: each run ended at the first eight that were due, and nothing behind them went."""

    async def work(store: EntryStore) -> None:
        await fill(bench, store, list(range(1, 41)))
        withheld = Metadata(*range(1, 31))
        withheld.error = errors.MetadataDenied

        found = await collector.collect(store, withheld.is_absent, undecided=(undecided := Undecided()))

        assert (found.ledgers_deleted, len(undecided)) == (10, 30)
        assert [ledger_id async for ledger_id in store.ledgers()] == [*range(1, 31), 100]

    await bench.life(work)


@pytest.mark.parametrize("kind", [errors.MetadataError, errors.MetadataDenied])
@story(run)
async def test_of_a_few_ledgers_nobody_tells_of_none_and_the_run_says_so(
    bench: Bench, *, kind: type[errors.MetadataError]
) -> None:
    """Fewer than end a run early: it would have reported that all is well, and nothing to collect."""

    async def work(store: EntryStore) -> None:
        await fill(bench, store, [1, 2])

        metadata = Metadata(1, 2, 100)
        metadata.error = kind
        with pytest.raises(errors.MetadataError, match="cannot be read"):
            await collector.collect(store, metadata.is_absent)
        found = await collector.collect(store, Metadata(1, 2).is_absent)

        assert found.ledgers_deleted == 0  # one answer: the store can be asked

    await bench.life(work)


def test_more_of_them_than_anybody_lists_are_a_metadata_store_that_cannot_be_asked() -> None:
    undecided = Undecided()
    for ledger_id in range(LISTED_MAX):
        assert not undecided.failed(LedgerId(ledger_id), "not readable")
        undecided.decided(LedgerId(LISTED_MAX + ledger_id))  # no row without an answer

    assert undecided.failed(LedgerId(-1), "not readable")


@pytest.mark.parametrize("key", [b"G" + struct.pack(">I", 0) + b"odd", b"Lodd", b"Eodd"])
@story(run, entry_log_bytes_max=4096)
async def test_a_row_whose_key_names_nothing_costs_at_most_its_log(bench: Bench, *, key: bytes) -> None:
    async def work(store: EntryStore) -> None:
        await fill(bench, store, [1, 2, 4])

    async def collect(store: EntryStore) -> None:
        found = await collector.collect(store, Metadata().is_absent)
        assert (found.ledgers_deleted, found.logs_dropped) == (3, 2 if key[:1] == b"G" else 3)

    await bench.life(work)
    (index,) = bench.node.image.volumes["/index"].root.stores()
    for values in (index.values, index.durable):
        apply_batch(values, [PutRow(key, b"odd")])
    await bench.life(collect)


def test_an_answer_of_an_earlier_run_is_none_in_this_one() -> None:
    undecided = Undecided()
    undecided.begin()
    undecided.decided(LedgerId(1))

    undecided.begin()
    assert not undecided.failed(LedgerId(2), "silent")

    assert undecided.is_silent


def test_the_newest_reason_is_told() -> None:
    undecided = Undecided()
    for reason in ("first", "second"):
        undecided.begin(all_due=True)
        undecided.failed(LedgerId(1), reason)

    assert list(undecided) == [(1, "second")]


def test_a_run_is_silent_only_when_it_asked_and_nobody_answered() -> None:
    undecided = Undecided()
    assert not undecided.is_silent, "it asked nothing yet"
    undecided.begin()
    undecided.decided(LedgerId(1))
    undecided.failed(LedgerId(9), "silent")
    assert not undecided.is_silent, "it was answered before"

    undecided.begin(all_due=True)
    assert not undecided.is_silent
    undecided.failed(LedgerId(9), "silent")
    undecided.failed(LedgerId(2), "silent")

    assert undecided.is_silent
    assert [ledger_id for ledger_id, _ in undecided] == [2, 9]


def test_one_answer_begins_the_row_without_answers_anew() -> None:
    undecided = Undecided()
    for _ in range(2):
        for number in range(IN_A_ROW_MAX - 1):
            assert not undecided.failed(LedgerId(number), "silent")
        undecided.decided(LedgerId(100))
    for number in range(IN_A_ROW_MAX - 1):
        assert not undecided.failed(LedgerId(number), "silent")

    assert undecided.failed(LedgerId(50), "silent")
