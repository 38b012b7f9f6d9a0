"""The note of entries that a person declared lost, and what its bookies then owe (spec/metadata.md#M57)."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId
from bookie.metadata import lost_entries
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.metadata.lost_entries import KEY, RUNS_MAX, Act
from bookie.quorum import mending

BOOKIES = tuple(BookieId(f"bookie-{number}") for number in range(4))


def act(*runs: tuple[int, int]) -> Act:
    return Act("ann", "the rack burnt", 12, BOOKIES[:2], tuple((EntryId(a), EntryId(b)) for a, b in runs))


def closed(last: int, *acts: Act) -> LedgerMetadata:
    made = new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=BOOKIES[:3])
    made = made.with_ensemble(EntryId(10), (BOOKIES[0], BOOKIES[3], BOOKIES[2]))
    return made.closed(EntryId(last), 100).with_custom(KEY, lost_entries.dump(acts))


runs_of = st.lists(st.integers(0, 60), unique=True, max_size=25).map(
    lambda entries: [(each, each) for each in sorted(entries)]
)


@given(runs_of)
def test_what_is_noted_is_read_again(runs: list[tuple[int, int]]) -> None:
    noted = act(*runs)
    assert lost_entries.load(lost_entries.dump([noted])) == (noted,)
    assert noted.count == len(runs)


def test_how_it_came_about_is_noted_too_and_a_note_of_before_says_nothing_of_that() -> None:
    noted = dataclasses.replace(act((1, 2)), tool="bookie 0.1.0", claims=("afterCrash",), gone=BOOKIES[1:2])
    value = lost_entries.dump([noted])
    assert lost_entries.load(value) == (noted,)
    (said,) = json.loads(value)
    assert (said["tool"], said["claims"], said["gone"]) == ("bookie 0.1.0", ["afterCrash"], ["bookie-1"])

    before = [{key: said[key] for key in ("by", "reason", "atMs", "bookies", "entries")}]
    assert lost_entries.load(json.dumps(before).encode()) == (act((1, 2)),)
    spoilt = json.dumps([said | {"claims": "afterCrash"}]).encode()
    assert lost_entries.load(spoilt) == ()


@given(st.lists(runs_of, max_size=4))
def test_the_runs_of_all_acts_are_in_order_and_none_touches_the_next(all_runs: list[list[tuple[int, int]]]) -> None:
    found = lost_entries.merged(act(*runs) for runs in all_runs)

    assert {entry for first, last in found for entry in range(first, last + 1)} == {
        entry for runs in all_runs for entry, _ in runs
    }
    assert all(last + 1 < first for (_, last), (first, _) in itertools.pairwise(found))


def test_every_third_entry_of_a_long_ledger_is_one_group() -> None:
    noted = act(*((entry, entry) for entry in range(1, 3 * RUNS_MAX, 3)))
    value = lost_entries.dump([noted])
    assert len(value) < 200
    assert json.loads(value)[0]["entries"] == [[1, 3 * RUNS_MAX - 2, 1, 3]]
    assert lost_entries.load(value) == (noted,)


def test_more_runs_than_a_record_takes_are_refused_and_declare_nothing() -> None:
    noted = act(*((entry, entry) for entry in range(0, 2 * RUNS_MAX + 2, 2)))
    with pytest.raises(errors.BadInput, match="more than 65536 runs"):
        lost_entries.dump([noted])
    said = [{"by": "a", "reason": "b", "atMs": 1, "bookies": [], "entries": [[0, 1 << 62, 1, 2]]}]
    assert lost_entries.load(json.dumps(said).encode()) == ()


def test_words_that_are_no_text_are_refused_as_that() -> None:
    with pytest.raises(errors.BadInput, match="not text"):
        lost_entries.dump([Act("ann", "it burnt \udcff", 12, BOOKIES[:2], ((EntryId(1), EntryId(1)),))])


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"{}",
        b"[1]",
        b"[{}]",
        b"[" * 100_000,
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[0,5]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[5,0,1,0]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[-5,0,1,1]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[0,0,0,0]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[["0",0,1,0]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[0,9,1,-1]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[0,0.5,1,1]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[0,NaN,1,1]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[0,5,true,1]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[0,9223372036854775807,1,1]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[0,0,1' + b"0" * 4000 + b",0]]}]",
        b'[{"by":"a","reason":"\\ud800","atMs":1,"bookies":[],"entries":[[0,5,1,1]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":["\\ud800"],"entries":[[0,5,1,1]]}]',
        b'[{"by":"a","reason":"b","atMs":true,"bookies":[],"entries":[[0,5,1,1]]}]',
        b'[{"by":"a","reason":"b","atMs":1,"bookies":[],"entries":[[0,5,1,1]]}' + b" " * (512 << 10) + b"]",
    ],
)
def test_a_strangers_note_declares_nothing(value: bytes) -> None:
    metadata = closed(19).with_custom(KEY, value)
    assert metadata.lost_runs() == []
    assert list(metadata.owed_ranges()) == list(metadata.segment_ranges())
    assert metadata.loss_of(EntryId(0)) is None


@given(runs_of, runs_of, st.integers(-1, 40))
def test_what_is_owed_is_all_but_what_was_declared_lost(
    first: list[tuple[int, int]], second: list[tuple[int, int]], last: int
) -> None:
    metadata = closed(max(last, 9), act(*first), act(*second))
    lost = {entry for entry, _ in (*first, *second)}
    owed = {
        (segment.bookies, entry)
        for segment, low, high in metadata.owed_ranges()
        for entry in range(low, (-1 if high is None else high) + 1)
    }
    everything = {
        (segment.bookies, entry)
        for segment, low, high in metadata.segment_ranges()
        for entry in range(low, (-1 if high is None else high) + 1)
    }
    assert owed == {(bookies, entry) for bookies, entry in everything if entry not in lost}
    assert all((metadata.loss_of(EntryId(entry)) is not None) == (entry in lost) for entry in range(41))


@given(runs_of, st.sets(st.integers(0, 40)), st.sampled_from(BOOKIES))
def test_a_bookie_lacks_what_it_owes_and_does_not_list(
    lost: list[tuple[int, int]], held: set[int], bookie_id: BookieId
) -> None:
    metadata = closed(35, act(*lost))
    gone = {entry for entry, _ in lost}
    wanted = [one for one in range(36) if one not in gone | held and bookie_id in metadata.write_set(EntryId(one))]

    found = mending.shortage_of(metadata, bookie_id, mending.Holding([(one, one, 1, 0) for one in sorted(held)]))

    assert found == (mending.Shortage(bookie_id, len(wanted), EntryId(wanted[0])) if wanted else None)


def test_a_ledger_without_an_end_owes_everything_whatever_its_maker_noted() -> None:
    made = new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=BOOKIES[:3])
    made = made.with_ensemble(EntryId(10), (BOOKIES[0], BOOKIES[3], BOOKIES[2]))  # the first segment has its end
    noted = made.with_custom(KEY, lost_entries.dump([act((0, 5))]))
    assert list(noted.owed_ranges()) == list(noted.segment_ranges())
    assert noted.loss_of(EntryId(3)) is None
