"""What an operator process saw of the ends of pods, and what it cannot have seen."""

import asyncio
from typing import Any

import pytest

import operator_support as make
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.gateways import endings
from bookie_operator.gateways.endings import Endings
from bookie_operator.model.status import Process
from bookie_operator.model.values import format_time
from bookie_operator.offline import Recording
from bookie_operator.plan import fleet
from bookie_operator.status import render

NOW = format_time(make.NOW_MS)


def completed(memory: Endings, known: tuple[Process, ...]) -> BookieCase:
    """The first bookie, whose pod is now pod-1, under a status that knows `known`."""
    before = render.render(fleet.decide(make.observation()))
    first = before.bookies[0].model_copy(update={"processes": known})
    status = before.model_copy(update={"bookies": (first, *before.bookies[1:])})
    (case,), _ = asyncio.run(endings.with_endings(Recording([]), memory, make.cluster(status), [make.bookie_case()]))
    return case


@pytest.mark.parametrize(
    ("known", "has_seen", "is_unwatched"),
    [
        ({"pod_uid": "pod-0"}, False, True),
        ({"pod_uid": "pod-0"}, True, False),  # this operator watched the old pod
        ({"pod_uid": "pod-0", "gone_since": NOW}, False, False),  # an earlier operator saw that it went
        ({"pod_uid": "pod-1"}, False, False),  # it is the pod that runs
    ],
)
def test_a_pod_that_was_replaced_before_this_operator_watched_is_known_as_such(
    known: dict[str, Any], *, has_seen: bool, is_unwatched: bool
) -> None:
    memory = Endings()
    if has_seen:
        memory.note("pod-0", has_ended=False)

    assert completed(memory, (Process(node="node-a", **known),)).was_replaced_unwatched is is_unwatched


def test_an_end_that_was_told_once_stays_told() -> None:
    """The event of a deletion may have the state of before."""
    memory = Endings()
    memory.note("pod-0", has_ended=True)

    memory.note("pod-0", has_ended=False)

    assert completed(memory, (Process(pod_uid="pod-0", node="node-a"),)).ended == frozenset({"pod-0"})
