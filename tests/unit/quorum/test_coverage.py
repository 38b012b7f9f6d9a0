"""Schedule and coverage against brute force, for every quorum shape up to five (CONFORMANCE.md#P7, P8, B6, B7)."""

import itertools

import pytest

from bookie.base import errors
from bookie.base.errors import Answer
from bookie.base.ids import EntryId
from bookie.quorum.coverage import Coverage
from bookie.quorum.schedule import Schedule

SHAPES = [(e, w, a) for e in range(1, 6) for w in range(1, e + 1) for a in range(1, w + 1)]


def test_an_entry_is_striped_round_robin_as_in_the_paper() -> None:
    """The table of the replication protocol for E=4, WQ=3 (CONFORMANCE.md#P7)."""
    schedule = Schedule(4, 3, 2)

    table = [schedule.write_set(EntryId(entry)) for entry in range(6)]

    assert table == [(0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1), (0, 1, 2), (1, 2, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_there_are_only_as_many_write_sets_as_bookies(shape: tuple[int, int, int]) -> None:
    """CONFORMANCE.md#P8."""
    schedule = Schedule(*shape)

    assert {schedule.write_set(EntryId(entry)) for entry in range(50)} == set(schedule.write_sets)
    assert len(schedule.write_sets) == shape[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_striping_gives_each_bookie_its_equal_share(shape: tuple[int, int, int]) -> None:
    """CONFORMANCE.md#O2: of any number of entries, WQ/E of them and at most one write set more or less."""
    schedule = Schedule(*shape)
    size, write_quorum, _ = shape
    held = [0] * size

    for entry in range(101):
        for slot in schedule.write_set(EntryId(entry)):
            held[slot] += 1
        assert max(held) - min(held) <= min(write_quorum, size - write_quorum)

    assert sum(held) == 101 * write_quorum


@pytest.mark.parametrize("shape", [(2, 3, 2), (3, 2, 3), (3, 3, 0), (0, 0, 0)])
def test_quorums_that_do_not_nest_are_refused(shape: tuple[int, int, int]) -> None:
    """CONFORMANCE.md#P5."""
    with pytest.raises(errors.BadInput, match="must hold"):
        Schedule(*shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_negative_quorum_hits_every_ack_quorum_and_is_the_smallest_that_does(shape: tuple[int, int, int]) -> None:
    """CONFORMANCE.md#B6, by brute force over the subsets of one write set."""
    schedule = Schedule(*shape)
    members = range(schedule.write_quorum)

    def hits_all(size: int) -> bool:
        return all(
            set(negatives) & set(acked)
            for negatives in itertools.combinations(members, size)
            for acked in itertools.combinations(members, schedule.ack_quorum)
        )

    assert hits_all(schedule.negative_quorum)
    assert not hits_all(schedule.negative_quorum - 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_coverage_is_exactly_when_no_ack_quorum_is_wholly_unknown(shape: tuple[int, int, int]) -> None:
    """CONFORMANCE.md#B7, B12, B13: every assignment of known, unknown and silent to the slots, against the
    definition."""
    schedule = Schedule(*shape)
    ack_quorums = [
        set(subset)
        for write_set in schedule.write_sets
        for subset in itertools.combinations(write_set, schedule.ack_quorum)
    ]
    for facts in itertools.product((Answer.POSITIVE, Answer.UNKNOWN, None), repeat=schedule.ensemble_size):
        coverage = Coverage(schedule)

        for slot, answer in enumerate(facts):
            if answer is not None:
                coverage.answer(slot, answer)

        unproven = {slot for slot, answer in enumerate(facts) if answer is not Answer.POSITIVE}
        lost = {slot for slot, answer in enumerate(facts) if answer is Answer.UNKNOWN}
        assert coverage.is_covered == (not any(quorum <= unproven for quorum in ack_quorums))
        assert coverage.is_hopeless == any(quorum <= lost for quorum in ack_quorums)


def test_a_negative_answer_counts_as_known_and_a_later_error_does_not_undo_it() -> None:
    """spec/wire.md#W51: OK, NoSuchEntry and NoSuchLedger cover."""
    coverage = Coverage(Schedule(1, 1, 1))

    coverage.answer(0, Answer.NEGATIVE)
    coverage.answer(0, Answer.UNKNOWN)

    assert coverage.is_covered


@pytest.mark.parametrize(
    ("shape", "limbo", "possible"),
    [((3, 3, 2), 1, True), ((3, 3, 2), 2, False), ((2, 2, 1), 1, False), ((3, 3, 3), 2, True), ((3, 3, 3), 3, False)],
)
def test_limbo_bookies_block_fencing_as_the_table_says(shape: tuple[int, int, int], limbo: int, possible: bool) -> None:
    """spec/bp46.md#R2."""
    coverage = Coverage(Schedule(*shape))

    for slot in range(shape[0]):
        coverage.answer(slot, Answer.UNKNOWN if slot < limbo else Answer.NEGATIVE)

    assert coverage.is_covered is possible
    assert coverage.is_hopeless is not possible
