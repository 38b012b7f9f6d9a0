"""How the answers of replicas combine into one (spec/wire.md#W59; CONFORMANCE.md#B9 to B11, B16, B17)."""

import itertools

import pytest

from bookie.base import errors
from bookie.base.errors import Answer, BookieError
from bookie.quorum.reads import ReadOutcome, ReadPlan

NO = errors.NoSuchEntry("no")
LIMBO = errors.UnknownLedgerState("limbo")
GONE = errors.BookieUnavailable("gone")
ROT = errors.DigestMismatch("rotten")


def test_replicas_are_asked_in_the_order_given_and_once_each() -> None:
    plan = ReadPlan((2, 0, 1), negatives_needed=3)

    assert [plan.next_replica() for _ in range(4)] == [2, 0, 1, None]
    assert plan.outstanding == 3


def test_a_reader_is_told_no_only_when_every_replica_said_no() -> None:
    """CONFORMANCE.md#B10."""
    plan = ReadPlan((0, 1, 2), negatives_needed=3)
    while plan.next_replica() is not None:
        pass

    outcomes = [plan.failed(error) for error in (NO, LIMBO, NO)]

    assert outcomes == [ReadOutcome.OPEN, ReadOutcome.OPEN, ReadOutcome.UNDECIDED]
    assert plan.error is LIMBO


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ((ROT, ROT, ROT), errors.DigestMismatch),
        ((ROT, NO, NO), errors.DigestMismatch),
        ((ROT, GONE, NO), errors.BookieUnavailable),
        ((ROT, LIMBO, ROT), errors.UnknownLedgerState),
        ((ROT, GONE, LIMBO), errors.UnknownLedgerState),
        ((NO, NO, NO), errors.NoSuchEntry),
    ],
)
def test_damage_is_told_only_when_no_replica_is_left_that_could_have_the_entry(
    answers: tuple[BookieError, ...], kind: type[BookieError], order: tuple[int, ...]
) -> None:
    """Who leaves damaged entries out (onCorrupt=skip) must not leave out one that is merely out of reach."""
    plan = ReadPlan((0, 1, 2), negatives_needed=3)
    while plan.next_replica() is not None:
        pass

    for place in order:
        plan.failed(answers[place])

    assert type(plan.error) is kind
    assert ("rotten" in str(plan.error)) is (ROT in answers)


def test_recovery_finds_the_end_with_negatives_from_all_but_an_ack_quorum_and_waits_for_no_other() -> None:
    """CONFORMANCE.md#B16: WQ-AQ+1 negatives, the third replica silent."""
    plan = ReadPlan((0, 1, 2), negatives_needed=2)
    for _ in range(3):
        plan.next_replica()

    assert plan.failed(NO) is ReadOutcome.OPEN
    assert plan.failed(NO) is ReadOutcome.ABSENT
    assert plan.outstanding == 1


def test_unavailable_yields_to_an_error_that_says_more() -> None:
    """Wire 10.5, step 3."""
    plan = ReadPlan((0, 1), negatives_needed=2)
    plan.next_replica()
    plan.next_replica()

    plan.failed(GONE)
    plan.failed(LIMBO)

    assert plan.error is LIMBO


@pytest.mark.parametrize("needed", [1, 2, 3])
def test_all_answers_together_mean_what_the_table_says(needed: int) -> None:
    """CONFORMANCE.md#B10, B11, B17, for every combination of three answers."""
    for answers in itertools.product((NO, LIMBO, GONE), repeat=3):
        plan = ReadPlan((0, 1, 2), negatives_needed=needed)
        outcome = ReadOutcome.OPEN
        given: list[BookieError] = []
        for error in answers:
            if outcome is ReadOutcome.OPEN:
                plan.next_replica()
                outcome = plan.failed(error)
                given.append(error)

        negatives = sum(error.answer is Answer.NEGATIVE for error in given)
        assert outcome is (ReadOutcome.ABSENT if negatives >= needed else ReadOutcome.UNDECIDED)
        assert (plan.error.answer is Answer.NEGATIVE) == (outcome is ReadOutcome.ABSENT)
