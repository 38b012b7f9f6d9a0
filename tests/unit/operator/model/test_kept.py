"""Kept answers: for the very objects that were asked about, and for no others."""

import gc
import itertools
import weakref
from collections.abc import Callable

from bookie_operator.model import kept


class Asked:
    """Equal to every other one, as two specs that say the same."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asked)

    __hash__ = object.__hash__


def numbering() -> Callable[..., int]:
    """How often it was asked in earnest."""
    numbers = itertools.count(1)

    @kept.by_identity
    def number(*_: Asked) -> int:
        return next(numbers)

    return number


def test_an_answer_is_made_once_for_the_same_objects() -> None:
    number = numbering()
    one, other = Asked(), Asked()

    assert [number(one, other), number(one, other)] == [1, 1]


def test_each_of_the_arguments_counts_and_equal_objects_are_others() -> None:
    number = numbering()
    one, other, third = Asked(), Asked(), Asked()

    assert [number(one, other), number(one, third), number(third, other), number(one)] == [1, 2, 3, 4]


def test_nobody_gets_the_answer_of_an_object_that_is_gone_and_had_the_same_id() -> None:
    number = numbering()

    assert [number(Asked()) for _ in range(500)] == list(range(1, 501))


def test_what_nobody_asked_about_for_long_is_let_go() -> None:
    number = numbering()
    first = Asked()
    gone = weakref.ref(first)
    number(first)
    del first
    for _ in range(64):
        number(Asked())
    gc.collect()

    assert gone() is None
