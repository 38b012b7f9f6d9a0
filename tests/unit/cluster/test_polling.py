"""The one waiting loop: what it returns, when it gives up, whom it tells meanwhile."""

import pytest

import kube_wait
import polling
import wait_support


def test_the_first_thing_seen_is_returned_and_waiting_is_told() -> None:
    looks = iter([None, None, 7])
    told: list[float] = []

    found = polling.first(lambda: next(looks), timeout_s=60, poll_s=0, meanwhile=told.append)

    assert found == 7
    assert len(told) == 2
    assert told == sorted(told)


def test_there_is_a_look_after_the_time_is_up() -> None:
    looks: list[int] = []

    assert polling.first(lambda: looks.append(1), timeout_s=-1, poll_s=0) is None  # type: ignore[func-returns-value]
    assert looks == [1]


def test_false_and_nought_are_things_to_see() -> None:
    assert polling.first(lambda: 0, timeout_s=-1, poll_s=0) == 0


def test_a_wait_in_vain_names_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match="for the moon"):
        wait_support.wait_until(lambda: False, "the moon", timeout_s=-1)


def test_a_wait_on_the_cluster_tells_what_was_seen_last() -> None:
    def look() -> int:
        raise kube_wait.NotYet("half of it")

    with pytest.raises(kube_wait.NeverCame, match="last seen: half of it"):
        kube_wait.wait_for("all of it", look, timeout_s=-1)
    assert kube_wait.wait_for("nought", lambda: 0, timeout_s=1) == 0
