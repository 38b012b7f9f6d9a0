"""Who may be given up, and what counts then as a denial (spec/metadata.md#M49)."""

import dataclasses

import pytest

from bookie.base import errors
from bookie.base.errors import Answer, BookieError
from bookie.base.ids import BookieId, BootEpoch, EntryId, Incarnation
from bookie.metadata import cookie
from bookie.metadata.cookie import IncarnationRecord
from bookie.ports.metadata_store import Stored
from bookie.quorum import given_up
from bookie.quorum.given_up import GivenUp, Hearing

A, B, C = (BookieId(f"{name}:1") for name in "abc")
DOUBT = errors.UnknownLedgerState("may have lost it")
SILENT = errors.RequestTimedOut("no answer")
EMPTIED = Hearing(A, is_named=True, is_registered=True, remains="its cookie", has_begun_anew=True, answer=DOUBT)


def why_not(after_crash: bool = False, **changes: object) -> str:
    return given_up.why_not(dataclasses.replace(EMPTIED, **changes), after_crash=after_crash)  # type: ignore[arg-type]


# It began anew once, over the cookie that was made by change 7: by change 12, after the ledger (9).
RECORD = IncarnationRecord("i", Incarnation(2), BootEpoch(5), cookie_created_zxid=7, cookie_version=1)
COOKIE = Stored(b"5", 1, created_zxid=7, modified_zxid=12)
LEDGER = Stored(b"", 0, created_zxid=9, modified_zxid=20)


def has_begun_anew(life: bytes | None = None, identity: Stored | None = COOKIE, made: Stored | None = LEDGER) -> bool:
    record = Stored(cookie.dump_incarnation(RECORD) if life is None else life, 3)
    return given_up.has_begun_anew(record, identity, made)


def test_a_bookie_has_begun_anew_whose_cookie_is_just_the_one_that_its_last_new_identity_left() -> None:
    assert has_begun_anew()
    assert has_begun_anew(cookie.forgotten(cookie.dump_incarnation(RECORD))), "a note for people changes nothing"


@pytest.mark.parametrize(
    ("identity", "made"),
    [
        (dataclasses.replace(COOKIE, version=2, modified_zxid=14), LEDGER),  # written over: a volume more
        (dataclasses.replace(COOKIE, version=0), LEDGER),  # the record is of a later backup than the cookie
        (dataclasses.replace(COOKIE, created_zxid=13, modified_zxid=15), LEDGER),  # made anew and written over once
        (COOKIE, dataclasses.replace(LEDGER, created_zxid=13)),  # of before the ledger was made
        (COOKIE, dataclasses.replace(LEDGER, created_zxid=12)),
        (COOKIE, dataclasses.replace(LEDGER, created_zxid=13, created_ms=-60_000)),  # under a leader with a late clock
        (None, LEDGER),
        (COOKIE, None),
    ],
)
def test_a_cookie_of_any_other_write_proves_no_new_beginning(identity: Stored | None, made: Stored | None) -> None:
    assert not has_begun_anew(identity=identity, made=made)


@pytest.mark.parametrize(
    "life",
    [
        b'{"instance_id": "i", "incarnation": 2, "boot_epoch": 5}',
        cookie.dump_incarnation(dataclasses.replace(RECORD, cookie_created_zxid=0)),
        b"not a record",
    ],
)
def test_a_record_that_notes_no_cookie_proves_no_new_beginning(life: bytes) -> None:
    """One of an older release, whatever its count says; that of a first life, also where the store tells no number; and
    one that nobody can read."""
    for identity in (COOKIE, dataclasses.replace(COOKIE, created_zxid=0), dataclasses.replace(COOKIE, version=0)):
        assert not has_begun_anew(life, identity)
    assert not given_up.has_begun_anew(None, COOKIE, LEDGER)


def test_an_emptied_bookie_that_says_so_may_be_given_up_and_one_without_any_identity() -> None:
    assert why_not() == ""
    assert why_not(is_registered=False, remains="", answer=None) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"is_named": False}, "nothing to give up"),
        ({"is_registered": False}, "its cookie stands: its disks may be whole"),
        ({"is_registered": False, "remains": "the record of its lives"}, "the record of its lives stands"),
        ({"answer": None}, "answers for this ledger"),
        ({"answer": errors.NoSuchLedger("no")}, "answers for this ledger"),
        ({"answer": SILENT}, "may still answer"),
        ({"answer": errors.StorageFailed("EIO")}, "lists the entry as bad (`bookie node scrub`)"),
        ({"has_begun_anew": False}, "may be on a disk of it that has failed"),
        ({"has_begun_anew": False}, "before its cookie or the ledger's record was put back"),
    ],
)
def test_whoever_might_still_answer_is_not_given_up(changes: dict[str, object], reason: str) -> None:
    assert reason in why_not(**changes)


def test_what_is_no_copy_whatever_follows_may_be_given_up_and_what_cannot_be_read_if_a_person_says_so() -> None:
    unreadable = dataclasses.replace(EMPTIED, answer=errors.StorageFailed("EIO"))

    assert why_not(answer=errors.DigestMismatch("bad")) == ""
    assert given_up.why_not(unreadable, after_crash=False, corrupt=True) == ""


def test_behind_an_end_each_of_256_entries_is_looked_for_and_then_a_stripe_at_distances_that_double() -> None:
    found = list(given_up.behind(EntryId(10), 3))

    assert found[:256] == list(range(11, 267))
    assert found[256:] == [10 + (1 << power) + each for power in range(9, 25) for each in range(3)]


def test_a_person_may_say_that_it_lost_them_in_a_crash() -> None:
    assert why_not(after_crash=True, has_begun_anew=False) == ""


@pytest.mark.parametrize(
    ("bookie", "error", "counts_as"),
    [
        (A, DOUBT, Answer.NEGATIVE),
        (A, SILENT, Answer.UNKNOWN),
        (A, errors.DigestMismatch("bad"), Answer.UNKNOWN),
        (B, SILENT, Answer.NEGATIVE),
        (C, DOUBT, Answer.UNKNOWN),
        (C, errors.NoSuchEntry("no"), Answer.NEGATIVE),
    ],
)
def test_only_the_doubt_of_named_bookies_counts_as_no_and_silence_only_of_the_gone(
    bookie: BookieId, error: BookieError, counts_as: Answer
) -> None:
    accepted = GivenUp(in_doubt=frozenset({A}), gone=frozenset({B}))

    assert accepted.judged(bookie, error).answer is counts_as
