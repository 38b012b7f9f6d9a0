"""A read is repeated until it is answered, slower and slower; whether the store answers is told as it is."""

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from bookie.base import errors
from bookie.base.units import NS_PER_MS
from bookie.integrity.metadata_retry import MetadataRetry

AWAY, REFUSED = errors.MetadataError("no answer"), errors.NodeMissing("no such node")


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0

    async def sleep_until(self, deadline_ns: int) -> None:
        assert deadline_ns > self.now_ns, "it asks without a pause"
        self.now_ns = deadline_ns


def reading(*answers: errors.BookieError | str, was_reachable: bool = True) -> tuple[object, bool, Sequence[int]]:
    """What a read gives (or raises) whose calls are answered so, whether the store counts as reachable then, and when
    each call was made, in ms."""
    clock = Clock()
    retry = MetadataRetry(clock)
    retry.is_reachable = was_reachable
    left, asked = list(answers), []

    async def call() -> str:
        asked.append(clock.now_ns // NS_PER_MS)
        assert asked[-1] == 0 or not retry.is_reachable, "it did not answer"
        answer = left.pop(0)
        if isinstance(answer, errors.BookieError):
            raise answer
        return answer

    async def story() -> object:
        try:
            return await retry.read(call)
        except errors.BookieError as error:
            return error

    return asyncio.run(story()), retry.is_reachable, asked


@pytest.mark.parametrize("was_reachable", [True, False])
def test_an_answer_and_a_refusal_both_say_that_the_store_is_there(*, was_reachable: bool) -> None:
    assert reading("yes", was_reachable=was_reachable) == ("yes", True, [0])
    assert reading(REFUSED, was_reachable=was_reachable) == (REFUSED, True, [0])


def test_a_store_that_is_away_is_asked_again_with_growing_pauses_that_have_a_bound() -> None:
    answer, is_reachable, asked = reading(*[AWAY] * 8, "yes")

    assert (answer, is_reachable) == ("yes", True)
    assert [after - before for before, after in itertools.pairwise(asked)] == [
        *(200, 400, 800, 1_600, 3_200),
        *(5_000, 5_000, 5_000),
    ]


def test_what_is_refused_in_the_end_is_not_asked_again() -> None:
    final = errors.final(AWAY)

    assert reading(AWAY, AWAY, REFUSED)[:2] == (REFUSED, True)
    assert reading(final)[0] is final
