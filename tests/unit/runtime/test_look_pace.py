"""When looks into an index are slow: soon after they wait for the disk, not for one stall, and not for ever."""

from bookie.runtime.look_pace import LOOK_NS_MAX, TIMED_ONE_IN, TRIED_ONE_IN, LookPace

MEMORY_NS, DISK_NS, STALL_NS = 3_000, 110_000, 5_000_000


def look(pace: LookPace, elapsed_ns: int) -> bool:
    """Look once, as an index does, which asks first; return whether a thread had to prepare it: then it is fast."""
    must_wait = pace.must_wait()
    if pace.is_timed:
        pace.took(MEMORY_NS if must_wait else elapsed_ns, 1)
    return must_wait


def slow() -> LookPace:
    pace = LookPace()
    while not pace.is_slow:
        look(pace, DISK_NS)
    return pace


def test_looks_are_fast_until_something_else_is_seen() -> None:
    pace = LookPace()
    assert not any(look(pace, MEMORY_NS) for _ in range(1000))


def test_a_few_looks_at_the_disk_are_enough() -> None:
    pace = LookPace()
    for _ in range(1000):
        look(pace, MEMORY_NS)
    assert sum(not look(pace, DISK_NS) for _ in range(TRIED_ONE_IN - 1)) < 10 * TIMED_ONE_IN


def test_one_stall_of_the_machine_changes_nothing() -> None:
    pace = LookPace()
    for _ in range(10):
        look(pace, STALL_NS)
        assert not any(look(pace, MEMORY_NS) for _ in range(100))


def test_many_keys_count_as_what_one_of_them_took() -> None:
    pace = LookPace()
    for _ in range(100):
        pace.took(100 * MEMORY_NS, 100)
        pace.took(0, 0)
    assert not pace.is_slow
    for _ in range(100):
        pace.took(100 * DISK_NS, 100)
    assert pace.is_slow


def test_what_a_thread_prepared_says_nothing_about_the_disk() -> None:
    pace = slow()
    waited = [look(pace, DISK_NS) for _ in range(10 * TRIED_ONE_IN)]
    assert waited.count(False) == 10, "one in so many is tried"
    assert pace.is_slow


def test_looks_that_are_fast_again_are_noticed() -> None:
    pace = slow()
    for _ in range(100):
        look(pace, LOOK_NS_MAX)
    for _ in range(40 * TRIED_ONE_IN):
        look(pace, MEMORY_NS)
    assert not pace.is_slow
    assert not any(look(pace, MEMORY_NS) for _ in range(TRIED_ONE_IN))
