"""What became of a bookie that is not registered, as far as the metadata store can tell."""

import dataclasses

import pytest

from bookie.base.ids import BootEpoch, Incarnation
from bookie.metadata import cookie
from bookie.metadata.cookie import IncarnationRecord
from bookie.ports.metadata_store import Stored
from bookie.quorum import whereabouts
from bookie.quorum.whereabouts import Whereabouts

COOKIE = Stored(b"5", 1, created_zxid=7, modified_zxid=12)
LEDGER = Stored(b"", 0, created_zxid=9, modified_zxid=9)
FIRST = IncarnationRecord("i", Incarnation(1), BootEpoch(3))
LIFE = cookie.dump_incarnation(FIRST)
AGAIN = cookie.dump_incarnation(
    dataclasses.replace(FIRST, incarnation=Incarnation(2), cookie_created_zxid=7, cookie_version=1)
)
CLAIM = cookie.dump_incarnation(dataclasses.replace(FIRST, incarnation=Incarnation(0)))


@pytest.mark.parametrize(
    ("identity", "life", "signs", "found"),
    [
        (None, None, (), Whereabouts.NEVER),
        (None, CLAIM, (), Whereabouts.NEVER),  # its first process ended before it began
        (None, CLAIM, ("sign",), Whereabouts.STARTING),
        (COOKIE, LIFE, ("sign",), Whereabouts.STARTING),
        (COOKIE, LIFE, ("position",), Whereabouts.AWAY),
        (COOKIE, None, (), Whereabouts.AWAY),  # one of Java's
        (COOKIE, AGAIN, ("position",), Whereabouts.EMPTIED),
        (None, LIFE, (), Whereabouts.NO_COOKIE),
        (None, None, ("position",), Whereabouts.NO_COOKIE),
        (None, b"spoilt", (), Whereabouts.NO_COOKIE),
        (None, cookie.forgotten(LIFE), (), Whereabouts.FORGOTTEN),
        (COOKIE, cookie.forgotten(LIFE), (), Whereabouts.AWAY),  # somebody put its cookie back since
    ],
)
def test_what_became_of_a_bookie(
    identity: Stored | None, life: bytes | None, signs: tuple[str, ...], found: Whereabouts
) -> None:
    stored = None if life is None else Stored(life, 3)

    judged = whereabouts.judge(identity, stored, LEDGER, has_sign="sign" in signs, has_position="position" in signs)

    assert judged is found


def test_a_new_beginning_of_before_the_ledger_is_no_emptying_of_it() -> None:
    later = dataclasses.replace(LEDGER, created_zxid=20)

    found = whereabouts.judge(COOKIE, Stored(AGAIN, 3), later, has_sign=False, has_position=False)

    assert found is Whereabouts.AWAY


@pytest.mark.parametrize("found", list(Whereabouts))
def test_each_has_a_sentence_and_none_calls_a_bookie_lost(found: Whereabouts) -> None:
    assert whereabouts.sentence(found)
    assert "lost" not in found.value


def test_of_an_emptied_bookie_is_not_said_that_it_has_nothing() -> None:
    """A loss of one disk of several is a new beginning too, and what came after it may be there alone."""
    assert "may have entries all the same" in whereabouts.sentence(Whereabouts.EMPTIED)
