"""Unfinished frames: who is let in, who waits, and who goes, whatever happens in whatever order."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from bookie.base.units import KIB, MIB, NS_PER_S
from bookie.server.unfinished import CONTENDED_NS, DEADLINE_NS, SMALL_BYTES, WAITING_SHARE, Unfinished
from story_support import story

LIMIT = 10 * MIB
LARGE = 5 * MIB


class Guest:
    """A connection that leaves when it is cut."""

    def __init__(self, unfinished: Unfinished) -> None:
        self._unfinished = unfinished
        self.reason = ""

    def cut(self, reason: str) -> None:
        self.reason = reason
        self._unfinished.leave(self)


def guests(count: int) -> tuple[Unfinished, list[Guest]]:
    unfinished = Unfinished(LIMIT)
    return unfinished, [Guest(unfinished) for _ in range(count)]


def run(story: object) -> None:
    asyncio.run(story())  # type: ignore[operator]


@story(run)
async def test_large_frames_wait_in_line_and_are_let_in_as_others_end() -> None:
    unfinished, (one, two, three, four) = guests(4)
    assert unfinished.claim(one, LARGE, KIB, 0) is None
    assert unfinished.claim(two, LARGE, KIB, 0) is None
    third, fourth = (unfinished.claim(guest, LARGE, KIB, 0) for guest in (three, four))
    assert third is not None
    assert fourth is not None
    assert (unfinished.used_bytes, unfinished.waiting_bytes) == (LIMIT, 2 * KIB)

    unfinished.claim(one, 0, 0, 1)

    assert (third.done(), fourth.done()) == (True, False)
    assert (unfinished.used_bytes, unfinished.waiting_bytes) == (LIMIT, KIB)


@story(run)
async def test_small_frames_never_wait() -> None:
    unfinished, found = guests(4)
    for guest in found[:3]:
        unfinished.claim(guest, LARGE, KIB, 0)

    assert unfinished.claim(found[3], SMALL_BYTES, KIB, 0) is None


@story(run)
async def test_a_frame_that_is_larger_than_all_room_is_let_in_alone() -> None:
    unfinished, (one, two) = guests(2)

    assert unfinished.claim(one, 3 * LIMIT, KIB, 0) is None
    assert unfinished.claim(two, LARGE, KIB, 0) is not None


@story(run)
async def test_nobody_is_let_in_before_those_who_wait_because_his_frame_is_smaller() -> None:
    """Else a stream of smaller ones keeps a large one out for ever."""
    unfinished, (one, two, three) = guests(3)
    unfinished.claim(one, LARGE, KIB, 0)
    first = unfinished.claim(two, LARGE + MIB, KIB, 1)
    second = unfinished.claim(three, MIB, KIB, 2)
    assert first is not None
    assert second is not None

    unfinished.claim(one, 0, 0, 3)

    assert (first.done(), second.done()) == (True, True)  # all that there is room for
    assert (unfinished.used_bytes, unfinished.waiting_bytes) == (LARGE + 2 * MIB, 0)


@story(run)
async def test_who_waits_for_room_is_not_late_before_his_deadline() -> None:
    unfinished, (one, two, waiting) = guests(3)
    unfinished.claim(one, SMALL_BYTES, KIB, 0)
    assert unfinished.claim(waiting, LIMIT, KIB, 0) is not None
    unfinished.claim(two, SMALL_BYTES, KIB, CONTENDED_NS)  # one small frame after the other
    unfinished.claim(one, 0, 0, CONTENDED_NS)

    unfinished.look(CONTENDED_NS + 1)
    assert waiting.reason == ""

    unfinished.look(DEADLINE_NS + 1)
    assert waiting.reason != ""


@story(run)
async def test_who_does_not_finish_makes_room_for_those_who_wait_the_oldest_first() -> None:
    unfinished, (one, two, three) = guests(3)
    unfinished.claim(one, LARGE, KIB, 0)
    unfinished.claim(two, LARGE, KIB, 1)
    waits = unfinished.claim(three, LARGE, KIB, 2)
    assert waits is not None

    unfinished.look(CONTENDED_NS)
    assert not waits.done()
    unfinished.look(CONTENDED_NS + 3)

    assert waits.done()
    assert [bool(guest.reason) for guest in (one, two, three)] == [True, False, False]


@story(run)
async def test_where_nobody_waits_a_frame_has_until_its_deadline() -> None:
    unfinished, (one, two) = guests(2)
    unfinished.claim(one, LARGE, KIB, 0)
    unfinished.claim(two, 100, 1, NS_PER_S)

    unfinished.look(DEADLINE_NS)
    assert not one.reason
    unfinished.look(DEADLINE_NS + 1)

    assert one.reason
    assert not two.reason
    assert unfinished.used_bytes == 100


@story(run)
async def test_too_many_that_wait_are_refused_the_newest_first() -> None:
    unfinished, found = guests(100)
    for guest in found:
        unfinished.claim(guest, LARGE, 256 * KIB, 0)

    refused = [bool(guest.reason) for guest in found]
    assert any(refused)
    assert refused == sorted(refused)
    assert unfinished.waiting_bytes <= WAITING_SHARE * LIMIT


_STEPS = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from([0, 4, KIB, SMALL_BYTES, MIB, LARGE, 2 * LIMIT]), st.integers(0, 70)),
    max_size=60,
)


@given(_STEPS)
def test_what_is_counted_is_what_is_there_and_who_waits_is_let_in_at_last(steps: list[tuple[int, int, int]]) -> None:
    async def story() -> None:
        unfinished, found = guests(8)
        now_ns, waits = 0, {}
        for number, needed, seconds in steps:
            now_ns += seconds * NS_PER_S
            unfinished.look(now_ns)
            room = unfinished.claim(found[number], needed, min(needed, 256 * KIB), now_ns)
            if room is not None:
                waits[room] = number
            small = 8 * SMALL_BYTES
            assert 0 <= unfinished.used_bytes <= max(LIMIT, 2 * LIMIT) + small
            assert 0 <= unfinished.waiting_bytes <= WAITING_SHARE * LIMIT

        for _ in range(len(steps) + 1):
            now_ns += DEADLINE_NS + NS_PER_S
            unfinished.look(now_ns)

        assert (unfinished.used_bytes, unfinished.waiting_bytes) == (0, 0)
        assert all(room.done() for room in waits)

    run(story)
