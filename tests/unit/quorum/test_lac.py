"""Combining last-add-confirmed answers (spec/wire.md#W51, W52; CONFORMANCE.md#B12 to B14, P30)."""

from bookie.base import errors
from bookie.base.ids import EntryId
from bookie.quorum.lac import LacQuery
from bookie.quorum.schedule import Schedule


def query(floor: int = -1) -> LacQuery:
    return LacQuery(Schedule(3, 3, 2), floor=EntryId(floor))


def test_the_greatest_answer_wins_once_no_ack_quorum_is_unknown() -> None:
    lac = query()

    lac.found(0, EntryId(4))
    early = lac.is_covered
    lac.found(1, EntryId(7))

    assert (early, lac.is_covered, lac.lac) == (False, True, 7)
    lac.found(2, EntryId(5))
    assert lac.lac == 7


def test_a_lower_answer_never_lowers_what_is_known() -> None:
    """CONFORMANCE.md#P30."""
    lac = query(floor=9)

    lac.found(0, EntryId(4))
    lac.failed(1, errors.NoSuchLedger("nothing here"))

    assert (lac.is_covered, lac.lac) == (True, 9)


def test_a_bookie_without_entries_covers_since_it_is_fenced_all_the_same() -> None:
    """CONFORMANCE.md#B14."""
    lac = query()

    lac.failed(0, errors.NoSuchEntry("none"))
    lac.failed(1, errors.NoSuchEntry("none"))

    assert (lac.is_covered, lac.lac) == (True, -1)


def test_an_ack_quorum_of_unknown_answers_ends_the_question_without_an_answer() -> None:
    """CONFORMANCE.md#B13."""
    lac = query()

    lac.failed(0, errors.UnknownLedgerState("limbo"))
    undecided = lac.error
    lac.failed(1, errors.RequestTimedOut("silence"))

    assert undecided is None
    assert isinstance(lac.error, errors.QuorumNotReached)
    assert "limbo" in str(lac.error)


def test_a_bad_digest_is_no_knowledge() -> None:
    """Stricter than Java, where the slot of such a reply already counts as known (spec/wire.md#W51)."""
    lac = query()

    lac.found(0, EntryId(1))
    lac.failed(1, errors.DigestMismatch("rot"))

    assert not lac.is_covered


def test_a_bookie_that_refuses_the_key_is_unknown_and_a_wrong_password_is_told_when_hope_ends() -> None:
    """spec/wire.md#W58: in Java the first refusal ends it, so a stranger's key on one bookie would."""
    lac, refused = query(), query()

    lac.failed(0, errors.Unauthorized("a stranger's key"))
    assert lac.error is None
    lac.found(1, EntryId(1))
    lac.found(2, EntryId(1))
    for slot in range(3):
        refused.failed(slot, errors.Unauthorized("wrong password"))

    assert lac.is_covered
    assert isinstance(refused.error, errors.Unauthorized)
    assert not refused.is_covered
