"""Marks and steps of one ledger (spec/bp46.md#R7 to R9, R20; CONFORMANCE.md#B33, B34, B42)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import integrity_support as build
from bookie.base.ids import BookieId, EntryId
from bookie.integrity import ledgers
from bookie.integrity.ledgers import LedgerMarks, Loss, Step
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.quorum.shares import entries_from
from bookie.quorum.silence import Silence

ME = build.ME
OPEN, IN_RECOVERY, CLOSED = LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED
LAST, EARLIER, NOWHERE = ((0, "bookie-0 b1 b2"),), ((0, "bookie-0 b1 b2"), (5, "b3 b1 b2")), ((0, "b3 b1 b2"),)


def in_state(state: LedgerState, *segments: tuple[int, str]) -> LedgerMetadata:
    made = build.a_ledger(*segments)
    return made.closed(EntryId(9), 90) if state is CLOSED else made.in_recovery() if state is IN_RECOVERY else made


@pytest.mark.parametrize(
    ("state", "segments", "fence", "limbo"),
    [
        (OPEN, LAST, False, True),
        (OPEN, EARLIER, False, True),
        (OPEN, NOWHERE, False, False),
        (IN_RECOVERY, LAST, True, True),
        (IN_RECOVERY, EARLIER, True, True),
        (IN_RECOVERY, NOWHERE, True, True),
        (CLOSED, LAST, True, True),
        (CLOSED, EARLIER, True, True),
        (CLOSED, NOWHERE, True, False),
    ],
)
def test_after_the_loss_of_volumes(
    state: LedgerState, segments: tuple[tuple[int, str], ...], fence: bool, limbo: bool
) -> None:
    """A fence may be lost wherever a recovery began before the loss: also where the metadata no longer names us."""
    assert ledgers.marks(in_state(state, *segments), ME, Loss.VOLUMES) == LedgerMarks(fence, limbo)


def test_after_a_crash_that_kept_the_journal_ledgers_that_name_us_or_may_come_to_name_us_are_marked() -> None:
    """A recovery names the bookies that it brought in only when it closes the ledger."""
    for state in LedgerState:
        may_hold = state is IN_RECOVERY
        assert ledgers.marks(in_state(state, *NOWHERE), ME, Loss.UNFLUSHED) == LedgerMarks(may_hold, may_hold)
        assert ledgers.marks(in_state(state, *LAST), ME, Loss.UNFLUSHED).limbo


def test_the_guards_can_be_switched_off_one_by_one_in_simulation() -> None:
    closed, opened = in_state(CLOSED, *LAST), in_state(OPEN, *LAST)

    assert ledgers.marks(closed, ME, Loss.VOLUMES, guard_fence=False) == LedgerMarks(False, False)
    assert ledgers.marks(opened, ME, Loss.VOLUMES, guard_fence=False) == LedgerMarks(False, True)
    assert ledgers.marks(opened, ME, Loss.VOLUMES, guard_limbo=False) == LedgerMarks(True, False)
    assert ledgers.marks(closed, ME, Loss.VOLUMES, guard_limbo=False) == LedgerMarks(True, False)


def test_an_unreadable_record_is_about_us_only_if_it_contains_our_id() -> None:
    assert ledgers.unreadable_marks(b"...bookie-0:3181...", ME).limbo
    assert not ledgers.unreadable_marks(b"...b1...", ME).limbo


@pytest.mark.parametrize(
    ("metadata", "step"),
    [
        (None, Step.CLEAR),
        (in_state(OPEN, *NOWHERE), Step.CLEAR),
        (in_state(CLOSED, *LAST), Step.COPY),
        (in_state(OPEN, *EARLIER), Step.COPY),
        (in_state(IN_RECOVERY, *EARLIER), Step.RECOVER),
        (in_state(IN_RECOVERY, *NOWHERE), Step.RECOVER),
        (in_state(IN_RECOVERY, *LAST), Step.RECOVER),
        (in_state(OPEN, *LAST), Step.WAIT),
    ],
)
def test_each_state_has_its_next_step(metadata: LedgerMetadata | None, step: Step) -> None:
    assert ledgers.next_step(metadata, ME, may_have_writer=True) is step


def test_a_ledger_without_a_living_writer_is_recovered() -> None:
    assert ledgers.next_step(in_state(OPEN, *LAST), ME, may_have_writer=False) is Step.RECOVER


def test_a_writer_is_silent_only_while_nothing_moves() -> None:
    silence = Silence(0, EntryId(5), 1)

    assert silence.seen(90, EntryId(5), 1).is_over(100, grace_ns=100)
    assert not silence.seen(90, EntryId(6), 1).is_over(100, grace_ns=100)
    assert not silence.seen(90, EntryId(5), 2).is_over(189, grace_ns=100)


def parts(metadata: LedgerMetadata, *held: int) -> tuple[list[int], list[int]]:
    """What is missing of ours, and what is held."""
    runs: list[tuple[EntryId, EntryId]] = []
    for entry in sorted(set(held)):
        if runs and runs[-1][1] + 1 == entry:
            runs[-1] = (runs[-1][0], EntryId(entry))
        else:
            runs.append((EntryId(entry), EntryId(entry)))
    found: tuple[list[int], list[int]] = ([], [])
    for stretch, is_held in ledgers.stretches(metadata, ME, runs):
        entries = list(entries_from([stretch], EntryId(0)))
        assert stretch.size == len(entries)
        found[is_held].extend(entries)
    return found


def missing(metadata: LedgerMetadata, *held: int) -> list[int]:
    return parts(metadata, *held)[0]


def test_entries_of_an_unsealed_segment_are_nobodys_yet() -> None:
    assert missing(in_state(OPEN, *LAST)) == []
    assert missing(in_state(OPEN, *EARLIER)) == [0, 1, 2, 3, 4]


def test_a_closed_ledger_ends_at_its_last_entry_even_before_its_last_segment() -> None:
    closed = build.a_ledger((0, "bookie-0 b1 b2"), (5, "b3 b1 bookie-0")).closed(EntryId(3), 30)

    assert missing(closed) == [0, 1, 2, 3, 4]


@st.composite
def sealed_ledgers(draw: st.DrawFn) -> LedgerMetadata:
    size = draw(st.integers(1, 5))
    ensembles = [
        draw(st.lists(st.sampled_from([ME, "b1", "b2", "b3", "b4", "b5"]), min_size=size, max_size=size, unique=True))
        for _ in range(draw(st.integers(1, 3)))
    ]
    starts = [0, *sorted(draw(st.sets(st.integers(1, 30), min_size=2, max_size=2)))]
    segments = [(start, " ".join(names)) for start, names in zip(starts, ensembles, strict=False)]
    last = EntryId(draw(st.integers(-1, 40)))
    return build.a_ledger(*segments, write=draw(st.integers(1, size)), ack=1).closed(last, 1)


@settings(deadline=None)  # a loaded machine is no defect
@given(metadata=sealed_ledgers(), held=st.sets(st.integers(0, 50)))
def test_what_is_missing_is_what_the_write_sets_name_and_the_disk_has_not(
    metadata: LedgerMetadata, held: set[int]
) -> None:
    ends = [last for _, _, last in metadata.segment_ranges()]
    sealed = [
        entry
        for (_, first, _), last in zip(metadata.segment_ranges(), ends, strict=True)
        for entry in range(first, (-1 if last is None else last) + 1)
    ]
    ours = [entry for entry in sealed if ME in metadata.write_set(EntryId(entry))]

    assert parts(metadata, *held) == (
        [entry for entry in ours if entry not in held],
        [entry for entry in ours if entry in held],
    )


def test_a_ledger_of_2_to_the_62_entries_is_a_few_stretches() -> None:
    metadata = build.a_ledger((0, "bookie-0 b1 b2"), write=2).closed(EntryId(2**62 - 1), 1)

    found = list(ledgers.stretches(metadata, ME, [(EntryId(5), EntryId(6))]))

    assert [(stretch.size, is_held) for stretch, is_held in found[:2]] == [(3, False), (2, True)]
    assert sum(stretch.size for stretch, _ in found) == (2**62 - 1) * 2 // 3 + 1
    assert len(found) == 3


def test_peers_are_asked_in_turn_and_those_that_fail_last() -> None:
    metadata = in_state(CLOSED, *LAST)
    b1, b2 = BookieId("b1"), BookieId("b2")

    assert ledgers.sources(metadata, ME, EntryId(0), {}) != ledgers.sources(metadata, ME, EntryId(1), {})
    assert ledgers.sources(metadata, ME, EntryId(0), {b1: 1}) == [b2, b1]
    assert ledgers.sources(metadata, ME, EntryId(1), {b2: 1}) == [b1, b2]
