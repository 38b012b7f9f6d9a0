"""What the gate of the old process stands on: a process is over when something proves it, and only then."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import State
from bookie_operator.evidence import processes
from bookie_operator.evidence.facts import BookieCase, NodeFacts
from bookie_operator.evidence.processes import KEPT_MAX, KUBELET_MARGIN_MS, UNSEEN
from bookie_operator.model.status import BookieStatus, Process
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.status import render

GRACE_S = 120
GONE = Process(pod_uid="old", node="node", node_uid="machine", grace_s=GRACE_S, gone_since=format_time(make.NOW_MS))
DUE_MS = make.NOW_MS + GRACE_S * 1000 + KUBELET_MARGIN_MS


def node(**changes: Any) -> NodeFacts:
    return NodeFacts(**({"name": "node", "uid": "machine", "ready_since_ms": 0} | changes))


def is_over(seen: NodeFacts | None, now_ms: int = make.NOW_MS, one: Process = GONE) -> bool:
    return processes.is_over(one, {"node": seen}, now_ms)


def test_a_node_that_is_gone_or_another_machine_proves_the_end() -> None:
    assert is_over(None)
    assert is_over(node(uid="another machine"))
    assert not is_over(node())


def test_a_node_out_of_service_proves_the_end_only_while_it_is_not_ready() -> None:
    assert is_over(node(is_out_of_service=True, is_ready=False))
    assert not is_over(node(is_out_of_service=True))
    assert not is_over(node(is_ready=False))


def test_a_kubelet_in_touch_for_the_grace_and_some_more_proves_the_end() -> None:
    assert not is_over(node(), DUE_MS - 1)
    assert is_over(node(), DUE_MS)


def test_the_time_counts_from_when_both_the_pod_was_gone_and_the_node_was_ready() -> None:
    came_back = node(ready_since_ms=make.NOW_MS + 60_000)

    assert not is_over(came_back, DUE_MS + 59_999)
    assert is_over(came_back, DUE_MS + 60_000)


@pytest.mark.parametrize(
    "changes", [{"node": ""}, {"node": "unread"}, {"gone_since": None}], ids=["no node", "unread node", "not gone"]
)
def test_without_a_node_that_was_read_or_while_the_pod_is_there_nothing_proves_the_end(changes: dict[str, Any]) -> None:
    one = GONE.model_copy(update=changes)

    assert not processes.is_over(one, {"node": None}, 10 * DUE_MS)


def test_a_machine_whose_uid_was_never_read_proves_nothing_by_being_ready_or_another() -> None:
    unknown = GONE.model_copy(update={"node_uid": ""})

    assert not is_over(node(), 10 * DUE_MS, unknown)
    assert not is_over(node(is_ready=False), 10 * DUE_MS)
    assert is_over(None, make.NOW_MS, unknown)


def status(**changes: Any) -> BookieStatus:
    entry = render.render(fleet.decide(make.observation())).bookies[0]
    return entry.model_copy(update=changes)


def follow(case: BookieCase, previous: BookieStatus | None, now_ms: int = make.NOW_MS) -> list[Process]:
    found = processes.follow(case, previous, now_ms)
    assert found is not None
    return list(found)


def test_a_pod_keeps_the_time_at_which_it_was_first_found_gone() -> None:
    before = status(processes=(GONE, Process(pod_uid="next", node="node", node_uid="machine")))

    found = {one.pod_uid: one.gone_since for one in follow(make.lost_case(), before, make.NOW_MS + 60_000)}

    assert found["old"] == GONE.gone_since
    assert found["next"] == format_time(make.NOW_MS + 60_000)
    assert found["pod-2"] is None


def test_the_machine_of_a_live_pod_is_noted_as_soon_as_it_can_be_read() -> None:
    live = make.pod()
    before = status(processes=(Process(pod_uid=live.uid, node=live.node),))
    case = make.bookie_case(nodes={live.node: node(name=live.node)})

    assert [one.node_uid for one in follow(case, before)] == ["machine"]


def test_a_pod_that_is_there_is_followed_whatever_became_of_its_node() -> None:
    """What proves the end of a pod that is gone says nothing of one that is not; and one that is gone is over."""
    live = make.pod()
    known = Process(pod_uid=live.uid, node=live.node, node_uid="machine", gone_since=format_time(make.NOW_MS))
    case = make.bookie_case(nodes={live.node: None, "node": None})

    assert [one.pod_uid for one in follow(case, status(processes=(GONE, known)))] == [live.uid]


def test_who_has_no_cookie_is_new_only_where_cookies_were_listed() -> None:
    silent = make.unborn(make.bookie_case())

    assert processes.follow(silent, None, make.NOW_MS) is None
    assert processes.follow(replace(silent, is_listed=True), None, make.NOW_MS) == ()


def test_who_has_a_mark_on_a_claim_is_not_new_though_the_store_knows_nothing_of_it() -> None:
    """Its cookie was deleted, or this is another store: a process of it may run that nobody here saw."""
    marked = replace(make.bookie_case(report=None), is_listed=True)

    assert processes.follow(marked, None, make.NOW_MS) is None


def test_a_pod_that_has_no_node_runs_nothing() -> None:
    waiting = replace(make.bookie_case(), pod=replace(make.pod(), node=""))

    assert follow(waiting, status(processes=())) == []


def test_of_more_than_anybody_can_follow_the_newest_stay_and_one_stands_for_the_rest() -> None:
    many = tuple(GONE.model_copy(update={"pod_uid": f"old-{number}"}) for number in range(2 * KEPT_MAX))

    found = [one.pod_uid for one in follow(make.lost_case(), status(processes=many))]

    assert len(found) == KEPT_MAX
    assert (found[0], found[-1]) == (UNSEEN, "pod-2")
    assert found[1:-1] == [one.pod_uid for one in many[-KEPT_MAX + 2 :]]


def test_a_bookie_of_which_nothing_is_remembered_may_have_run_unseen_unless_it_is_new_or_serves() -> None:
    new = make.lost_case(incarnation=0)

    assert [one.pod_uid for one in follow(make.lost_case(), None)] == [UNSEEN, "pod-2"]
    assert [one.pod_uid for one in follow(new, None)] == ["pod-2"]
    assert [one.pod_uid for one in follow(make.bookie_case(), None)] == ["pod-1"]
    assert processes.follow(make.bookie_case(report=None), None, make.NOW_MS) is None


@pytest.mark.parametrize(
    ("report", "is_unwatched", "is_unseen"),
    [
        ({"boot_epoch": 2}, True, True),
        ({"boot_epoch": 2}, False, False),  # an operator saw every pod of it
        ({"boot_epoch": 1}, True, False),  # nobody registered meanwhile
        ({"boot_epoch": 2, "state": State.FENCING}, True, False),  # the pod that was granted registers itself
    ],
)
def test_a_pod_that_came_and_went_unwatched_is_told_by_the_boot_epoch(
    report: dict[str, Any], *, is_unwatched: bool, is_unseen: bool
) -> None:
    base = make.lost_case(**report)
    case = make.bookie_case(volumes=base.volumes, pod=base.pod, report=base.report, was_replaced_unwatched=is_unwatched)

    found = follow(case, status(processes=(), boot_epoch=1))

    assert (UNSEEN in [one.pod_uid for one in found]) is is_unseen


def test_a_persons_word_ends_what_was_seen_and_what_was_not() -> None:
    lost = make.lost_case()
    said = make.bookie_case(volumes=lost.volumes, pod=lost.pod, report=lost.report, ended=frozenset({"old", UNSEEN}))

    assert [one.pod_uid for one in follow(said, status(processes=(GONE,)))] == ["pod-2"]
    assert [one.pod_uid for one in follow(said, None)] == ["pod-2"]


def test_the_word_for_what_nobody_saw_is_good_for_one_life_of_one_bookie() -> None:
    first, later = make.lost_case(), make.lost_case(incarnation=2)

    assert processes.unseen(first) != processes.unseen(later)
    (doubt,) = processes.doubts(first, None)
    assert f"bookie.dev/confirmed-ended={processes.unseen(first)}" in doubt


def test_each_older_process_is_a_doubt_and_the_live_one_is_none() -> None:
    live = Process(pod_uid="pod-2")

    (doubt,) = processes.doubts(make.lost_case(), (GONE, live))

    assert "uid old" in doubt
    assert "nodes cannot be read" in doubt


def test_a_node_that_is_ready_is_not_asked_back_and_the_doubt_says_when_it_will_do() -> None:
    lost = make.lost_case()

    def doubt(seen: NodeFacts) -> str:
        (said,) = processes.doubts(make.bookie_case(volumes=lost.volumes, nodes={"node": seen}), (GONE,))
        return said

    assert f"counts as proof at {format_time(DUE_MS)}" in doubt(node())
    assert f"counts as proof at {format_time(DUE_MS + 60_000)}" in doubt(node(ready_since_ms=make.NOW_MS + 60_000))
    for away in (node(is_ready=False), node(uid="another machine")):
        assert "bring the node back" in doubt(away)
