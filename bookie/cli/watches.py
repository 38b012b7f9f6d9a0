"""Shows what a bookie does step by step, until that ends, or the bookie falls silent."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from bookie.base import errors

T = TypeVar("T")


def follow(steps: Iterable[T], show: Callable[[T], None]) -> tuple[list[T], str]:
    """Show each step. Return the last one, none where none came, and in words what cut the steps off, "" where they
    ended. Raises BookieUnavailable where the bookie never told: then the command has failed, and nothing is
    half-known."""
    last: list[T] = []
    try:
        for step in steps:
            last = [step]
            show(step)
    except errors.BookieUnavailable as error:
        if not last:
            raise
        return last, str(error)
    return last, ""
