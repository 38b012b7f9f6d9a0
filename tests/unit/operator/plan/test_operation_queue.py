"""Which operations may do something, and which of those that take a bookie away has its turn (spec/operator.md#U2)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationStatus, OperationType
from bookie_operator.plan import operation_queue
from bookie_operator.plan.observation import Observation

A = "ledgers-zone-a-0"
HOUR_MS = 3_600_000
NOW_MS = make.NOW_MS


def asks(name: str, created_ms: int = NOW_MS, kind: str = "Restart", **status: Any) -> BookieOperation:
    return make.operation(name, type=kind, created_ms=created_ms, status=OperationStatus(**status))


def seen(*found: BookieOperation, taking: str | None = None, **spec: Any) -> Observation:
    return make.observation(make.fleet(), operations=found, taking=taking, spec_changes=spec)


def names(found: list[BookieOperation]) -> list[str]:
    return [one.name for one in found]


def test_the_oldest_comes_first_and_of_one_second_the_first_by_name_and_what_is_over_not_at_all() -> None:
    over = asks("over", NOW_MS - 9, phase=OperationPhase.COMPLETE)

    found = operation_queue.unfinished(seen(asks("c"), asks("b"), asks("d", NOW_MS - 1), over))

    assert names(found) == ["d", "b", "c"]


def test_of_those_that_take_a_bookie_away_one_has_the_turn_and_the_others_all_go_on() -> None:
    """Also those that are older and take nobody away."""
    swap, old, young = asks("swap", NOW_MS - 3, kind="Replace"), asks("old", NOW_MS - 2), asks("young", NOW_MS - 1)
    assert len({old.uid, young.uid, swap.uid}) == 3

    def found(taking: str | None = None) -> list[str]:
        return names(operation_queue.with_a_turn(seen(young, swap, old, taking=taking)))

    assert found() == ["swap", "old"]
    assert found(taking=young.uid) == ["swap", "young"]
    assert found(taking="") == ["swap"], "nobody can have it yet"
    assert names(operation_queue.to_take_away(seen(young, swap, old))) == ["old", "young"]


def test_while_the_cluster_is_paused_nothing_does_anything() -> None:
    paused = seen(asks("old"), asks("swap", kind="Replace"), lifecycle={"paused": True})

    assert operation_queue.with_a_turn(paused) == []
    assert operation_queue.of_type(paused, OperationType.REPLACE) == []


def test_those_of_one_type_are_told_with_their_specs() -> None:
    swap = asks("swap", kind="Replace")

    assert operation_queue.of_type(seen(asks("old"), swap), OperationType.REPLACE) == [(swap, swap.spec)]


def test_what_may_never_do_anything_takes_no_turn_from_who_may() -> None:
    expired = asks("expired", NOW_MS - 25 * HOUR_MS)
    unreadable = replace(asks("odd", NOW_MS - 3), spec=None, problem="spec.type is wrong")

    assert names(operation_queue.with_a_turn(seen(expired, unreadable, asks("new")))) == ["new"]
    assert names(operation_queue.to_take_away(seen(expired, unreadable, asks("new")))) == ["new"]
    assert operation_queue.refused(unreadable, NOW_MS) == (OperationPhase.FAILED, "spec.type is wrong")


@pytest.mark.parametrize(
    ("age_ms", "started_at", "is_over"),
    [
        (24 * HOUR_MS - 1, None, False),
        (24 * HOUR_MS, None, True),
        (25 * HOUR_MS, "2027-01-14T08:00:00Z", False),  # it had begun: it is not dropped in the middle
    ],
)
def test_what_did_not_begin_in_time_never_does(age_ms: int, started_at: str | None, *, is_over: bool) -> None:
    found = operation_queue.refused(asks("late", NOW_MS - age_ms, started_at=started_at), NOW_MS)

    assert (found is not None) is is_over
    assert found is None or found == (OperationPhase.EXPIRED, "it had not begun 24h after it was created")


@pytest.mark.parametrize(("created_ms", "is_refused"), [(NOW_MS - 1, True), (NOW_MS, False)])
def test_an_operation_of_an_earlier_cluster_of_this_name_never_does_anything(
    created_ms: int, *, is_refused: bool
) -> None:
    cluster = replace(make.cluster(), created_ms=NOW_MS)

    found = operation_queue.refused(asks("old", created_ms), NOW_MS, cluster)

    assert (found is not None) is is_refused
    assert found is None or (found[0], "older than BookieCluster ledgers" in found[1]) == (OperationPhase.FAILED, True)
    assert operation_queue.refused(asks("old", created_ms), NOW_MS) is None
