"""What the API server fails at is told when it lasts (operator/bookie_operator/failures.py)."""

import pytest

from bookie_operator.failures import Failures
from bookie_operator.gateways.kube import KubeError

STEP = ("write", "data", "ledgers")
DOWN = KubeError("PATCH", 500, "failed calling webhook")


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def fails(failures: Failures, clock: Clock, times_s: list[float]) -> list[str]:
    """What is told of each failure at these times; "" where it repeats the pass."""
    told = []
    for now_s in times_s:
        clock.now_s = 1_000.0 + now_s
        try:
            with failures.step(*STEP) as step:
                told.append(step.reason(DOWN))
        except KubeError:
            told.append("")
    return told


def test_a_failure_is_told_after_half_a_minute() -> None:
    clock = Clock()

    assert fails(Failures(clock), clock, [0, 10, 29, 30, 31]) == ["", "", "", "ApplyRefused", "ApplyRefused"]


def test_what_failed_long_ago_is_over() -> None:
    clock = Clock()

    assert fails(Failures(clock), clock, [0, 60, 120, 400]) == ["", "ApplyRefused", "ApplyRefused", ""]


def test_a_step_that_went_well_begins_to_count_anew() -> None:
    clock = Clock()
    failures = Failures(clock)
    fails(failures, clock, [0, 29])

    with failures.step(*STEP):
        pass

    assert fails(failures, clock, [35]) == [""]


@pytest.mark.parametrize(("status", "retry_after_ms"), [(410, 0), (429, 7_000), (503, 7_000)])
def test_an_api_server_that_has_too_much_to_do_is_told_too_and_is_left_alone(status: int, retry_after_ms: int) -> None:
    clock = Clock()
    failures, busy = Failures(clock), KubeError("LIST", status, "too many requests", retry_after_ms)
    with pytest.raises(KubeError), failures.step(*STEP) as step:
        step.reason(busy)
    clock.now_s += 31

    with failures.step(*STEP) as step:
        assert step.reason(busy, lasting="ReadFailed") == "ReadFailed"

    assert step.asked_to_wait is (busy if retry_after_ms else None)


@pytest.mark.parametrize("status", [409, 404, 429])
def test_what_another_look_may_change_repeats_the_pass(status: int) -> None:
    with pytest.raises(KubeError), Failures(Clock()).step(*STEP) as step:
        step.reason(KubeError("PATCH", status, "not now"))


def test_a_call_that_must_wait_keeps_no_other_call_of_its_step() -> None:
    clock = Clock()
    failures, busy = Failures(clock), KubeError("PATCH", 503, "too many requests", 7_000)
    with pytest.raises(KubeError), failures.step(*STEP) as step:
        step.reason(busy, what="apply StatefulSet one")
    clock.now_s += 31
    with failures.step(*STEP) as step:
        step.reason(busy, what="apply StatefulSet one")

        step.check_may_try("apply StatefulSet two")
        with pytest.raises(KubeError) as told:
            step.check_may_try("apply StatefulSet one")
    assert told.value is busy
