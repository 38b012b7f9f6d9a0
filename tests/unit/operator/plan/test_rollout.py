"""Gates before a voluntary stop: each closed on its own, by its own sentence (spec/operator.md#Q1 to Q8)."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, get_args

import pytest

import operator_support as make
from bookie.base.ids import BootEpoch
from bookie.ports.admin import Member, State, Verdict
from bookie_operator.evidence.facts import LOOK_AGE_MS_MAX, BookieCase, Door, VolumeCase
from bookie_operator.model.base import Model
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.status import (
    BookieClusterStatus,
    BookieStatus,
    Departure,
    EvictionStatus,
    EvictionTurn,
    HistoryEntry,
    LeavingStatus,
    RolloutStatus,
    RolloutStep,
)
from bookie_operator.model.storage import VolumeSpec
from bookie_operator.model.values import format_time
from bookie_operator.plan import ephemeral, fleet, leaving, rollout, stop_gates
from bookie_operator.plan.actions import ResumeBookie, StopBookie
from bookie_operator.plan.gates import DAY_MS
from bookie_operator.plan.observation import Hindrance, Leadership, Observation
from bookie_operator.plan.rollout import Rollout
from bookie_operator.plan.stages import Assessed
from bookie_operator.resources import common, inputs
from bookie_operator.status import conditions

FIRST, LAST = "ledgers-zone-a-0", "ledgers-zone-c-0"
AUTOMATIC = {"strategy": "Automatic", "soakSeconds": 10}
DOOR = Door("10.0.0.1:3184", "cluster-uid")
EPOCH = 7
LONG_AGO_MS = make.NOW_MS - 3_600_000


def serving(case: BookieCase, **pod: Any) -> BookieCase:
    """`case`, registered, ready for long, of the newest revision and of an older edit of the spec."""
    assert case.pod is not None
    known = {"ready_since_ms": LONG_AGO_MS, "inputs": "v1-older", "resource_version": "5"}
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    return replace(case, pod=replace(case.pod, **(known | pod)), member=member)


def bookies(**changed: BookieCase) -> tuple[BookieCase, ...]:
    """The first is of an older revision, the others of the newest."""
    first, *others = make.fleet()
    every = (serving(first, revision="rev-0"), *(serving(one) for one in others))
    return tuple(changed.get(one.name.replace("-", "_"), one) for one in every)


def seen(
    cases: tuple[BookieCase, ...] | None = None, *, spec: dict[str, Any] | None = None, **changes: Any
) -> Observation:
    status = changes.pop("status", {})
    wanted = {"rollout": AUTOMATIC} | (spec or {})
    known = BookieClusterStatus(observed_generation=1, instance_id="instance", **status)
    children = make.rolled_out(**wanted)
    return make.observation(
        bookies() if cases is None else cases, status=known, spec_changes=wanted, children=children, **changes
    )  # fmt: skip


def decided(seen: Observation) -> Rollout:
    return fleet.decide(seen).rollout


def with_pod(case: BookieCase, **changes: Any) -> BookieCase:
    assert case.pod is not None
    return replace(case, pod=replace(case.pod, **changes))


def with_report(case: BookieCase, **changes: Any) -> BookieCase:
    assert case.report is not None
    return replace(case, report=replace(case.report, **changes))


def but(name: str, change: Any, **arguments: Any) -> tuple[BookieCase, ...]:
    return tuple(change(one, **arguments) if one.name == name else one for one in bookies())


def with_claim(case: BookieCase, **changes: Any) -> BookieCase:
    """`case`, the claim of whose ledger volume is otherwise."""
    volumes = []
    for one in case.volumes:
        assert one.claim is not None
        volumes.append(replace(one, claim=replace(one.claim, **changes)) if one.name == "ledgers" else one)
    return replace(case, volumes=tuple(volumes))


def without_claim(case: BookieCase) -> BookieCase:
    volumes = tuple(replace(one, claim=None) if one.name == "ledgers" else one for one in case.volumes)
    return replace(case, volumes=volumes)


def prepared(case: BookieCase, *, is_announced: bool = True, **report: Any) -> BookieCase:
    """It refuses writes because it is its turn, and its registration says so."""
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=not is_announced)
    refusing = {"state": State.READ_ONLY, "read_only": True, "has_turn": True}
    return replace(with_report(case, **(refusing | report)), member=member)


def turn(**changes: Any) -> dict[str, Any]:
    known = {"bookie": FIRST, "pod_uid": "pod-1", "begun_at": format_time(make.NOW_MS - 5_000)}
    step = RolloutStep(**(known | changes))
    return {"rollout": RolloutStatus(inputs="new", desired=4, updated=3, step=step)}


def test_with_all_gates_open_the_older_pod_is_stopped_after_its_turn_is_noted() -> None:
    found = decided(seen())

    assert found.action == StopBookie(FIRST, "pod-1", "5", DOOR, EPOCH, may_delete=False)
    assert found.status.step is not None
    assert (found.status.step.bookie, found.status.step.was_writable) == (FIRST, True)
    assert (found.status.updated, found.status.desired, found.halted) == (3, 4, "")


def brake(*, ago_ms: int = 1_000) -> dict[str, Any]:
    entry = HistoryEntry(
        grant_id="g", bookie=LAST, incarnation=2, profile="Full", granted_at=format_time(make.NOW_MS - ago_ms)
    )
    return {"history": (entry,)}


@pytest.mark.parametrize(
    ("situation", "word"),
    [
        (seen(spec={"rollout": {"strategy": "Manual"}}), ""),
        (seen(spec={"rollout": AUTOMATIC | {"paused": True}}), "rollout.paused"),
        (seen(spec={"lifecycle": {"paused": True, "terminationGrace": "2m"}}), "lifecycle.paused"),
        (seen(leadership=Leadership("operator-1", 7, is_held=False)), "lease"),
        (seen(but(FIRST, with_report, operator_epoch_seen=8)), "newer operator"),
        (seen(but(FIRST, with_report, metadata_reachable=False)), "metadata store"),
        (seen(but(FIRST, with_report, instance_id="another")), "another"),
        (seen(members_problem="nobody answers"), "nobody answers"),
        (seen(but(FIRST, with_pod, has_certificates=False)), "without TLS"),
        (seen(but(FIRST, with_report, directories_failed=("/data/ledgers",))), "/data/ledgers"),
        (seen(but(LAST, with_report, state=State.REPAIRING)), "is Limbo"),
        (seen(but(LAST, with_report, state=State.READ_ONLY)), "is ReadOnly"),
        (seen(but(LAST, with_report, state=State.STARTING)), f"{LAST} is"),
        (seen(but(LAST, with_report, quarantined_count=1)), "cannot judge 1"),
        (seen(but(LAST, with_report, inspection_age_ms=LOOK_AGE_MS_MAX + 1)), "lately"),
        (seen(but(LAST, replace, report=None, report_problem="no answer")), "no answer"),
        (seen(but(LAST, replace, member=Member("data.ledgers.zone-c.0", True, True, False))), "registered"),
        (seen(but(LAST, with_pod, is_ready=False)), "ready"),
        (seen(but(LAST, with_pod, ready_since_ms=None)), "ready"),
        (seen(but(LAST, with_pod, is_terminating=True)), "being deleted"),
        (seen(but(LAST, with_claim, is_terminating=True)), "is being deleted, and volume ledgers goes"),
        (seen(but(LAST, with_claim, uid="another")), "is not proven"),
        (seen(but(LAST, without_claim)), "has no claim"),
        (seen(but(FIRST, with_claim, is_terminating=True)), "ReplaceVolume"),
        (seen(but(LAST, with_pod, ready_since_ms=make.NOW_MS - 9_000)), "soakSeconds"),
        (seen(spec={"repair": {"stabilization": "6s", "maxPerDay": 1}}, status=brake()), "maxPerDay"),
        (seen(record_problem="no JSON"), "RecordUnreadable"),
    ],
)  # fmt: skip
def test_one_closed_gate_keeps_the_bookie_and_says_why(situation: Observation, word: str) -> None:
    found = decided(situation)

    assert (found.action, found.status.step) == (None, None)
    assert word in (found.status.waiting_for or "")


@pytest.mark.parametrize(("ago_ms", "is_stopped"), [(DAY_MS - 1_000, False), (DAY_MS, True)])
def test_the_brake_counts_the_regenerations_of_one_day(ago_ms: int, *, is_stopped: bool) -> None:
    spec = {"repair": {"stabilization": "6s", "maxPerDay": 1}}

    assert (decided(seen(spec=spec, status=brake(ago_ms=ago_ms))).action is not None) is is_stopped


def test_nobody_is_stopped_beside_one_that_goes_and_that_the_spec_does_not_name() -> None:
    """It serves until its pod ends, and may have the only other copy of an entry."""
    beyond = replace(serving(make.sibling("zone-c", 1)), is_desired=False)

    found = decided(seen((*bookies(), with_pod(beyond, is_terminating=True))))

    assert decided(seen((*bookies(), beyond))).action is not None
    assert found.action is None
    assert "pod ledgers-zone-c-1 is being deleted" in (found.status.waiting_for or "")


def test_what_is_not_applied_or_not_seen_by_its_controller_is_not_rolled_out() -> None:
    settled = seen()
    unapplied = replace(settled, children={key: one for key, one in settled.children.items() if key[0] != "ConfigMap"})
    untold = {key: one | {"status": {}} for key, one in settled.children.items()}

    assert decided(unapplied).action is None
    assert decided(replace(settled, children=untold)).action is None


@pytest.mark.parametrize("is_writable", [True, False])
def test_a_bookie_of_another_fleet_must_take_writes_too(is_writable: bool) -> None:
    """It may have flushed for a roll-out of its own cluster in the same metadata store."""
    found = decided(seen((*bookies(), stranger("other.fleet.zone-a.0", is_writable=is_writable))))

    assert (found.action is not None) is is_writable


def test_a_turn_that_was_noted_is_ended_by_whoever_comes_next() -> None:
    found = decided(seen(but(FIRST, prepared), status=turn()))

    assert found.action == StopBookie(FIRST, "pod-1", "5", DOOR, EPOCH)
    assert found.status.step == turn()["rollout"].step


def test_a_pod_is_deleted_only_by_a_pass_that_saw_its_bookie_refuse_writes_already() -> None:
    """What closed a gate while it flushed is in what this pass saw."""
    at_first = fleet.decide(seen())
    again = fleet.decide(seen(status=turn()))
    by_a_disk = fleet.decide(seen(but(FIRST, prepared, has_turn=False), status=turn()))
    unannounced = fleet.decide(seen(but(FIRST, prepared, is_announced=False), status=turn()))
    refusing = fleet.decide(seen(but(FIRST, prepared), status=turn()))

    actions = [one.rollout.action for one in (at_first, again, by_a_disk, unannounced, refusing)]
    assert [isinstance(one, StopBookie) and one.may_delete for one in actions] == [False] * 4 + [True]
    assert at_first.requeue_ms < refusing.requeue_ms, "the next look comes at once"


@pytest.mark.parametrize(
    "hidden",
    [{"report": None, "report_problem": "no answer"}, {"report": make.report(pod_uid="pod-before")}],
    ids=["unreachable for one look", "a report of another pod"],
)
def test_a_turn_is_kept_while_nobody_knows_whether_its_bookie_refuses_writes(hidden: dict[str, Any]) -> None:
    found = decided(seen(but(FIRST, replace, **hidden), status=turn()))

    assert (found.action, found.status.step) == (None, turn()["rollout"].step)


def test_a_bookie_in_limbo_that_refuses_writes_for_its_turn_takes_them_again() -> None:
    limbo = but(FIRST, prepared, state=State.REPAIRING)

    found = decided(seen(limbo, status=turn()))

    assert found.action == ResumeBookie(FIRST, DOOR, EPOCH)
    assert found.status.step is not None


def closed_by_the_last(change: Any, **arguments: Any) -> tuple[BookieCase, ...]:
    changed = but(FIRST, change, **arguments)
    return tuple(with_pod(one, is_ready=False) if one.name == LAST else one for one in changed)


def test_a_turn_is_given_back_when_somebody_deletes_the_claim_of_another() -> None:
    going = tuple(with_claim(one, is_terminating=True) if one.name == LAST else one for one in but(FIRST, prepared))

    assert decided(seen(going, status=turn())).action == ResumeBookie(FIRST, DOOR, EPOCH)


def test_a_turn_is_given_back_when_a_gate_closes_before_the_pod_is_gone() -> None:
    found = decided(seen(closed_by_the_last(prepared), status=turn()))
    again = decided(seen(but(LAST, with_pod, is_ready=False), status=turn()))

    assert found.action == ResumeBookie(FIRST, DOOR, EPOCH)
    assert found.status.step is not None, "until it is seen to write again"
    assert (again.action, again.status.step) == (None, None)


def test_a_bookie_that_a_disk_made_read_only_is_asked_to_resume_only_while_its_turn_is_on() -> None:
    """It keeps the mode that it had: whoever takes it back ends its turn, and nothing else."""
    on = decided(seen(closed_by_the_last(prepared), status=turn(was_writable=False)))
    over = decided(seen(closed_by_the_last(prepared, has_turn=False), status=turn()))

    assert on.action == ResumeBookie(FIRST, DOOR, EPOCH)
    assert (over.action, over.status.step) == (None, None)


def test_a_bookie_of_a_release_without_turns_that_was_read_only_before_stays_so() -> None:
    old: dict[str, Any] = {"capabilities": ("limbo", "regeneration"), "has_turn": False}

    before = decided(seen(closed_by_the_last(prepared, **old), status=turn(was_writable=False)))
    asked = decided(seen(closed_by_the_last(prepared, **old), status=turn()))

    assert (before.action, before.status.step) == (None, None)
    assert asked.action == ResumeBookie(FIRST, DOOR, EPOCH)


def stranger(bookie_id: str, *, is_writable: bool) -> BookieCase:
    member = Member(bookie_id, has_cookie=True, is_registered=True, is_writable=is_writable)
    return BookieCase(bookie_id, bookie_id, "", None, (), is_desired=False, is_ours=False, member=member)


@pytest.mark.parametrize(
    ("bookie_id", "seconds", "is_kept"),
    [("other.fleet.zone-a.0", 5, True), ("a.fleet.zone-a.0", 5, False), ("other.fleet.zone-a.0", 31, False)],
    ids=["ours is first", "theirs is first", "too long"],
)
def test_of_two_clusters_that_flushed_at_once_the_second_by_id_gives_way(
    bookie_id: str, seconds: int, *, is_kept: bool
) -> None:
    """spec/operator.md#Q13."""
    theirs = stranger(bookie_id, is_writable=False)
    began = turn(begun_at=format_time(make.NOW_MS - seconds * 1_000))

    found = decided(seen((*but(FIRST, prepared), theirs), status=began))

    assert found.action == (None if is_kept else ResumeBookie(FIRST, DOOR, EPOCH))
    assert found.status.step is not None
    assert bool(found.status.step.given_back_for) is not is_kept
    assert found.status.step.model_copy(update={"given_back_for": None}) == began["rollout"].step


@pytest.mark.parametrize("seconds", [1, 61])
def test_a_deletion_that_is_refused_stalls_and_is_tried_again_after_a_while(seconds: int) -> None:
    refused = Hindrance("PermissionMissing: no right", "PermissionMissing", make.NOW_MS - seconds * 1_000)

    plan = fleet.decide(seen(but(FIRST, prepared), status=turn(), hindrances={"pod-1": refused}))

    assert (plan.rollout.action is not None) is (seconds > 60)
    stalled = next(one for one in conditions.of(plan) if one.type == "Stalled")
    assert (stalled.is_true, stalled.reason, stalled.message) == (True, "PermissionMissing", refused.text)


@pytest.mark.parametrize("why", ["paused", "another gate"])
def test_a_turn_is_not_kept_for_the_sake_of_another_cluster_where_something_else_closes_a_gate(why: str) -> None:
    cases = closed_by_the_last(prepared) if why == "another gate" else but(FIRST, prepared)
    spec = {"rollout": AUTOMATIC | {"paused": True}} if why == "paused" else {}

    found = decided(seen((*cases, stranger("other.fleet.zone-a.0", is_writable=False)), spec=spec, status=turn()))

    assert found.action == ResumeBookie(FIRST, DOOR, EPOCH)


def test_a_turn_is_not_over_while_the_new_pod_is_being_deleted() -> None:
    """It serves still, and does not for long."""
    known = turn(bookie=LAST, pod_uid="pod-before")

    assert decided(seen(status=known)).status.step is None
    found = decided(seen(but(LAST, with_pod, is_terminating=True), status=known))

    assert (found.action, found.status.step) == (None, known["rollout"].step)


def test_nobody_is_stopped_until_the_one_before_is_back_in_full_service() -> None:
    """The turn of the last one is on: its pod is another already, and everybody else looks fine."""
    starting = but(LAST, with_report, state=State.STARTING)

    found = decided(seen(starting, status=turn(bookie=LAST, pod_uid="pod-before")))

    assert found.action is None
    assert found.status.step is not None
    assert found.status.next == FIRST


def not_running(case: BookieCase, **pod: Any) -> BookieCase:
    broken = {"is_ready": False, "phase": "Pending", "problem": "ImagePullBackOff: no such image"}
    return with_pod(replace(case, report=None), **({"created_ms": LONG_AGO_MS} | broken | pod))


def down(*names: str, **pod: Any) -> tuple[BookieCase, ...]:
    """All bookies; `names` do not run, and `pod` says more of theirs."""
    return tuple(not_running(one, **pod) if one.name in names else one for one in bookies())


def away(*names: str, for_s: int = 31) -> dict[str, Any]:
    """A status by which `names` have not served for so long."""
    began = format_time(make.NOW_MS - for_s * 1_000)
    told = {
        "bookie_id": "data.ledgers",
        "pool": "zone-a",
        "state": "Missing",
        "verdict": "",
        "reason": "",
        "since": began,
    }
    return {"bookies": tuple(BookieStatus(name=name, away_since=began, **told) for name in names)}


def test_a_pod_of_an_older_revision_that_does_not_run_is_replaced_with_closed_gates() -> None:
    """Two of four are down, and both are of an older revision: nobody knows anything bad of the newest."""
    found = decided(seen(down(FIRST, LAST, revision="rev-0", inputs="v1-older"), status=away(FIRST, LAST)))

    assert found.action == StopBookie(FIRST, "pod-1", "5", None, EPOCH)


def test_one_that_is_down_is_left_while_another_is_taken_away() -> None:
    """It may be back in a moment, with the copies that are missed by then."""
    of = seen(down(FIRST), status=away(FIRST))
    cases = fleet.assess(of)
    evicted = EvictionStatus(
        turn=EvictionTurn(bookie=LAST, pod_uid="pod-x", node="node-c", begun_at=format_time(make.NOW_MS))
    )
    with_turn = of.cluster.status.model_copy(update={"eviction": evicted})
    beside = replace(of, cluster=replace(of.cluster, status=with_turn))

    assert rollout.decide(of, cases, "").action == StopBookie(FIRST, "pod-1", "5", None, EPOCH)
    assert rollout.decide(beside, cases, "").action is None, "one leaves a drained node"
    assert rollout.decide(of, drained(of, LAST), "").action is None, "one is drained"


def test_nobody_who_is_down_gets_a_revision_that_somebody_else_does_not_come_back_with() -> None:
    turned = turn(bookie=LAST, pod_uid="pod-before") | away(FIRST, LAST)

    with_turn = decided(seen(down(FIRST, LAST), status=turned))
    without_turn = decided(seen(down(FIRST, LAST), status=away(FIRST, LAST)))

    assert (with_turn.action, without_turn.action) == (None, None)
    assert with_turn.status.step == turned["rollout"].step, "the turn is not lost"


def test_a_turn_that_is_not_over_keeps_another_one_that_is_down() -> None:
    """The one whose turn it is has no pod yet."""
    cases = tuple(replace(one, pod=None, report=None) if one.name == LAST else one for one in down(FIRST))

    assert decided(seen(cases, status=turn(bookie=LAST, pod_uid="pod-before") | away(FIRST))).action is None


def test_a_correction_replaces_the_one_whose_turn_it_is_whatever_others_wait_for() -> None:
    """Another one lost its data meanwhile, and can be healed only by the one that is down."""
    limbo = tuple(with_report(one, state=State.REPAIRING) if one.name == LAST else one for one in down(FIRST))

    own_turn = decided(seen(limbo, status=turn(pod_uid="pod-before") | away(FIRST)))
    no_turn = decided(seen(limbo, status=away(FIRST)))

    assert own_turn.action == no_turn.action == StopBookie(FIRST, "pod-1", "5", None, EPOCH)
    assert own_turn.status.step is not None
    assert own_turn.status.step.was_writable, "as it was when its turn came"


def test_a_turn_that_waits_for_data_alone_passes_on_to_one_that_is_down() -> None:
    """Each would wait for the other: the grant of the empty one for the copies of the one that is down."""
    status = turn(bookie=LAST, pod_uid="pod-before") | away(FIRST)

    def of_last(**pod: Any) -> Rollout:
        limbo = (with_report(one, state=State.REPAIRING) if one.name == LAST else one for one in down(FIRST))
        cases = tuple(with_pod(one, **pod) if one.name == LAST else one for one in limbo)
        return decided(seen(cases, status=status))

    found = of_last()
    assert found.action == StopBookie(FIRST, "pod-1", "5", None, EPOCH)
    assert found.status.step is not None
    assert (found.status.step.bookie, found.status.step.was_writable) == (FIRST, False)

    assert of_last(revision="rev-0").action is None, "the one whose turn it is goes first"
    assert of_last(is_terminating=True).action is None
    assert of_last(uid="pod-before").action is None


def test_a_pod_that_goes_is_not_asked_to_stop_once_more() -> None:
    going = tuple(with_pod(one, is_terminating=True) if one.name == FIRST else one for one in but(FIRST, prepared))

    found = decided(seen(going, status=turn()))

    assert (found.action, found.status.step) == (None, turn()["rollout"].step)


def test_a_turn_ends_only_when_a_bookie_that_took_writes_takes_them_again() -> None:
    """Its pod is another already, and something keeps it read-only."""
    cases = but(LAST, with_report, state=State.READ_ONLY)

    def step(*, was_writable: bool) -> RolloutStep | None:
        return decided(
            seen(cases, status=turn(bookie=LAST, pod_uid="pod-before", was_writable=was_writable))
        ).status.step

    assert step(was_writable=True) is not None
    assert step(was_writable=False) is None


def test_a_flush_that_failed_a_moment_ago_is_tried_again_at_once() -> None:
    """Only what the API server refused waits."""
    failed = Hindrance("its disk is slow", told_ms=make.NOW_MS - 1_000)

    assert decided(seen(but(FIRST, prepared), status=turn(), hindrances={"pod-1": failed})).action is not None


def test_who_is_down_in_his_turn_keeps_the_pod_that_alone_keeps_a_volume() -> None:
    """spec/operator.md#Q19."""
    going = tuple(with_claim(one, is_terminating=True) if one.name == FIRST else one for one in down(FIRST))

    assert decided(seen(down(FIRST), status=turn() | away(FIRST))).action is not None
    assert decided(seen(going, status=turn() | away(FIRST))).action is None


@pytest.mark.parametrize(
    "said",
    [{"is_ready": True}, {"created_ms": make.NOW_MS - 29_000}],
    ids=["its kubelet calls it ready", "its pod is new"],
)
def test_who_starts_is_not_replaced_before_it_had_the_time(said: dict[str, Any]) -> None:
    """All the others are whole, and so is the one that starts, as far as anybody knows."""

    def starting(*, data_port_open: bool, **pod: Any) -> Rollout:
        cases = but(FIRST, with_report, state=State.STARTING, data_port_open=data_port_open)
        known = {"is_ready": False, "created_ms": LONG_AGO_MS, "revision": "rev-0"} | pod
        cases = tuple(with_pod(one, **known) if one.name == FIRST else one for one in cases)
        return decided(seen(cases, status=away(FIRST)))

    assert starting(data_port_open=False).action is not None
    assert starting(data_port_open=True).action is None
    assert starting(data_port_open=False, **said).action is None


@pytest.mark.parametrize("problem", ["", "CrashLoopBackOff: back-off"])
def test_a_bookie_that_went_away_a_moment_ago_is_not_replaced(problem: str) -> None:
    """Its pod is old; its container was killed for want of memory, and starts again."""
    cases = down(FIRST, problem=problem)

    assert decided(seen(cases, status=away(FIRST, for_s=3))).action is None
    assert decided(seen(cases)).action is None
    assert decided(seen(cases, status=away(FIRST))).action is not None


def test_a_bookie_beside_a_container_that_crashes_is_not_replaced_with_closed_gates() -> None:
    beside = down(FIRST, phase="Running", problem="CrashLoopBackOff: of a sidecar", is_bookie_running=True)

    assert decided(seen(beside, status=away(FIRST))).action is None


def test_a_pod_of_the_newest_revision_that_does_not_run_is_left_and_halts_the_rest() -> None:
    found = decided(seen(but(LAST, not_running, created_ms=make.NOW_MS - 31_000)))
    at_first = decided(seen(but(LAST, not_running, created_ms=make.NOW_MS - 1_000)))

    assert (found.action, at_first.action, at_first.halted) == (None, None, "")
    assert "no such image" in found.halted


def test_a_bookie_that_takes_too_long_halts_the_rest() -> None:
    late = turn(bookie=LAST, pod_uid="pod-before", begun_at=format_time(make.NOW_MS - 1_801_000))

    found = decided(seen(but(LAST, with_report, state=State.STARTING), status=late))

    assert LAST in found.halted


def test_an_operators_own_other_rendering_stops_nobody() -> None:
    zone = make.cluster(rollout=AUTOMATIC).spec.zones
    assert zone is not None
    same = inputs.digest(make.cluster(rollout=AUTOMATIC).spec, zone[0])

    assert decided(seen(but(FIRST, with_pod, inputs=same))).action is None


def noted_of_before(regeneration: str) -> dict[str, str]:
    """What an operator of before noted on a pod, when it still told Gated from Manual."""
    was = make.cluster(repair={"stabilization": "6s"}).spec
    assert was.zones is not None
    marks = json.loads(inputs.fingerprints(was, was.zones[0]))
    marks["spec.repair.regeneration"] = common.digest(regeneration)[:8]
    return {"inputs": "v1-of-before", "said": json.dumps(marks)}


@pytest.mark.parametrize(
    ("before", "after", "is_stopped"),
    [
        ("Manual", "Manual", False),
        ("Manual", "Gated", False),
        ("BookieLocal", "Gated", True),
        ("Manual", "BookieLocal", True),
    ],
)
def test_who_lets_bookies_regenerate_is_the_operators_business_unless_they_do(
    before: str, after: str, *, is_stopped: bool
) -> None:
    spec: dict[str, Any] = {"repair": {"stabilization": "6s", "regeneration": after}}
    if after == "BookieLocal":
        spec["lifecycle"] = {"terminationGrace": "2m", "deletionProtection": False}

    found = decided(seen(but(FIRST, with_pod, **noted_of_before(before)), spec=spec))

    assert (found.action is not None) is is_stopped
    if is_stopped:
        assert found.status.changed == ("spec.repair.regeneration",)


def test_gated_and_manual_make_the_same_pod_and_bookie_local_another() -> None:
    made = []
    for regeneration in ("Gated", "Manual", "BookieLocal"):
        spec = {"repair": {"regeneration": regeneration}, "lifecycle": {"deletionProtection": False}}
        spec["lifecycle"]["terminationGrace"] = "2m"
        made.append(make.rolled_out(**spec)[("StatefulSet", "ledgers-zone-a")]["spec"]["template"])

    assert made[0] == made[1]
    assert made[0] != made[2]


def both(was: dict[str, Any], now: dict[str, Any], **changes: Any) -> Observation:
    """The first bookie's pod is of `was`, and the StatefulSets are of `now`."""
    before = make.cluster(**was).spec
    zone = before.zones[0] if before.zones is not None else None
    noted = {"inputs": inputs.digest(before, zone), "said": inputs.fingerprints(before, zone)}
    sets = [make.rolled_out(**spec)[("StatefulSet", "ledgers-zone-a")] for spec in (was, now)]
    templates = {f"rev-{at}": one["spec"]["template"] for at, one in enumerate(sets)}
    return seen(but(FIRST, with_pod, **noted), spec=now, templates=templates, **changes)


OF_ZONES = [{"name": f"zone-{one}", "nodeSelector": {"rack": one}} for one in "abc"]
LOUD = {
    role: {"volumes": [{"name": role, "size": size, "kind": "Claim"}]}
    for role, size in (("journal", "1Gi"), ("ledgers", "2Gi"), ("index", "1Gi"))
}


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({}, {"security": {"tls": {"secretName": "later"}}}),
        ({}, {"security": {"authentication": {"secretName": "later"}}}),
        ({"zones": OF_ZONES}, {"zones": OF_ZONES, "placement": {"topologyKey": "rack"}}),
        ({}, {"zones": [{"name": "zone-a", "nodeSelector": {"topology.kubernetes.io/zone": "zone-a"}}]}),
        ({}, {"network": {"ipFamilyPolicy": "SingleStack"}}),
        ({}, {"network": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}}),
        ({}, {"storage": make.spec()["storage"] | LOUD}),
    ],
    ids=[
        "a Secret for later",
        "another for later",
        "a key nobody asks",
        "labels aloud",
        "one family",
        "both families",
        "a kind aloud",
    ],
)
def test_an_edit_that_makes_the_same_pod_stops_nobody(was: dict[str, Any], now: dict[str, Any]) -> None:
    if "zones" in now and "zones" not in was:
        now = {"zones": [*now["zones"], {"name": "zone-b"}, {"name": "zone-c"}]}

    there, back = both(was, now), both(now, was)

    for observed in (there, back):
        found = decided(observed)
        assert (found.action, found.status.changed) == (None, ())
        assert found.status.updated == found.status.desired
    other = decided(both(was, now | {"lifecycle": {"terminationGrace": "9m"}}))
    assert other.action is not None
    assert "spec.lifecycle.terminationGrace" in other.status.changed


def test_a_fleet_whose_pods_would_be_the_same_counts_as_proven_with_what_is_said_now() -> None:
    """It is what a failure goes back to, and no later failure may find that nothing is known."""
    now = {"security": {"tls": {"secretName": "later"}}, "rollout": AUTOMATIC}
    observed = both({}, now)
    spec = observed.cluster.spec
    cases = [
        one
        if one.name == FIRST
        else with_pod(one, inputs=inputs.digest(spec, pool.zone), said=inputs.fingerprints(spec, pool.zone))
        for one in observed.bookies
        for pool in observed.pools
        if pool.name == one.pool
    ]

    found = decided(replace(observed, bookies=tuple(cases)))

    assert found.status.last_good is not None


def test_a_pod_whose_revision_is_gone_is_stopped_for_what_was_said() -> None:
    """Nobody can tell any more what another pod would have otherwise."""
    observed = both({}, {"security": {"tls": {"secretName": "later"}}})

    found = decided(replace(observed, templates={"rev-1": observed.templates["rev-1"]}))

    assert found.status.changed == ("spec.security.tls.secretName",)


def noteless(spec: dict[str, Any], **was: Any) -> tuple[str, ...]:
    """Why the first bookie, of an operator that noted nothing on pods, is stopped; its pod was made of `was`."""
    before, cases = make.rolled_out(**was), but(FIRST, with_pod, inputs="older")
    settled = seen(cases, spec=spec)
    template = before[("StatefulSet", "ledgers-zone-a")]["spec"]["template"]
    template["spec"]["containers"][0]["image"] = was.get("image", make.IMAGE)
    maps = {key: one for key, one in before.items() if key[0] == "ConfigMap"}
    found = decided(replace(settled, children=maps | dict(settled.children), templates={"rev-0": template}))
    assert (found.action is not None) is (found.status.step is not None)
    return found.status.step.changed if found.status.step is not None else ()


@pytest.mark.parametrize(
    ("spec", "was", "changed"),
    [
        ({}, {}, ()),
        ({"image": "bookie:new"}, {"image": "bookie:old"}, ("spec.image",)),
        ({"image": "bookie:new"}, {"image": "bookie:new"}, ()),
        ({}, {"image": "bookie:old"}, ()),
        ({"config": {"flushInterval": "777"}}, {}, ("spec.config.flushInterval",)),
        ({"config": {"flushInterval": "777"}}, {"config": {"flushInterval": "777", "gcWaitTime": "9000"}}, ()),
        ({"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "1000m"}}}, ()),
        ({"resources": {"requests": {"cpu": "2"}}}, {}, ("spec.resources.requests",)),
        ({"lifecycle": {"terminationGrace": "9m"}}, {}, ("spec.lifecycle.terminationGrace",)),
        ({"imagePullPolicy": "Always"}, {}, ("spec.imagePullPolicy",)),
    ],
)
def test_a_pod_without_notes_is_rolled_for_what_the_spec_says_and_it_lacks(
    spec: dict[str, Any], was: dict[str, Any], changed: tuple[str, ...]
) -> None:
    """Never by an operator's upgrade alone: what it renders otherwise, the user did not say."""
    assert noteless(spec, **was) == changed


def test_a_pod_of_which_nothing_is_known_is_left() -> None:
    assert decided(seen(but(FIRST, with_pod, inputs="older"), spec={"image": "bookie:new"})).action is None


def test_a_turn_names_the_fields_that_changed() -> None:
    was = make.cluster(config={"flushInterval": "1", "gcWaitTime": "9000"}, image="bookie:old").spec
    zones = was.zones
    assert zones is not None
    first = {"inputs": inputs.digest(was, zones[0]), "said": inputs.fingerprints(was, zones[0])}

    found = decided(seen(but(FIRST, with_pod, **first), spec={"config": {"flushInterval": "2"}}))

    assert found.status.step is not None
    assert found.status.step.changed == ("spec.config.flushInterval", "spec.config.gcWaitTime", "spec.image")
    assert found.status.changed == found.status.step.changed
    assert "bookie:old" not in first["said"], "no value leaves the spec"


def test_what_bookies_have_yet_to_restart_for_names_volumes_first_and_is_told_while_nothing_can_be_done() -> None:
    storage = make.spec()["storage"]
    other = {
        role: {"volumes": [one | {"accessMode": "ReadWriteOnce"} for one in storage[role]["volumes"]]}
        for role in storage
        if isinstance(storage[role], dict)
    }
    was = make.cluster(config={f"key{number}": "1" for number in range(40)}, storage=storage | other).spec
    assert was.zones is not None
    noted = {"inputs": inputs.digest(was, was.zones[0]), "said": inputs.fingerprints(was, was.zones[0])}

    found = decided(seen(but(FIRST, with_pod, **noted), spec={"rollout": {"paused": True}}))

    assert found.action is None
    assert found.status.changed[:3] == tuple(f"spec.storage.{role}.volumes" for role in ("index", "journal", "ledgers"))
    assert len(found.status.changed) == 32, "a rule of the spec reads it, so that it is bounded"


@pytest.mark.parametrize(
    ("change", "is_covered"),
    [
        ({"image": "bookie:next"}, True),
        ({"imagePullPolicy": "Always"}, True),
        ({"imagePullSecrets": [{"name": "registry"}]}, True),
        ({"config": {"flushInterval": "777"}}, True),
        ({"resources": {"requests": {"cpu": "1"}}}, True),
        ({"placement": {"tolerations": [{"operator": "Exists"}]}}, True),
        ({"network": {"clusterDomain": "other.local"}}, True),
        ({"metadataService": {"uri": "zk+hierarchical://other:2181/ledgers", "initialize": "IfAbsent"}}, True),
        ({"lifecycle": {"terminationGrace": "9m"}}, True),
        ({"podTemplate": {"metadata": {"labels": {"team": "a"}}}}, True),
        ({"podTemplate": {"spec": {"containers": [{"name": "shipper", "image": "shipper:1"}]}}}, True),
        ({"podTemplate": {}}, False),
        ({"network": {"ipFamilyPolicy": "PreferDualStack"}}, True),
        ({"security": {"tls": {"mode": "Permissive", "secretName": "tls"}}}, True),
        ({"security": {"authentication": {"mode": "Required", "secretName": "jaas"}}}, True),
        ({"repair": {"stabilization": "6s", "copyRate": "1Mi"}}, True),
        ({"replicas": 5}, False),
        ({"quorum": {"ensembleSize": 3, "writeQuorum": 2, "ackQuorum": 2}}, False),
        ({"repair": {"stabilization": "9s", "maxPerDay": 9}}, False),
        ({"disruption": {"pdb": False}}, False),
        ({"rollout": {"strategy": "Automatic"}}, False),
        ({"lifecycle": {"terminationGrace": "2m", "deletionProtection": False}}, False),
    ],
)  # fmt: skip
def test_the_digest_covers_what_reaches_a_pod_and_nothing_else(change: dict[str, Any], is_covered: bool) -> None:
    before, after = make.cluster().spec, make.cluster(**change).spec

    assert (inputs.digest(before, None) != inputs.digest(after, None)) is is_covered
    templates = [
        make.rolled_out(**one)[("StatefulSet", "ledgers-zone-a")]["spec"]["template"] for one in ({}, change)
    ]  # fmt: skip
    assert (templates[0] != templates[1]) is is_covered


@pytest.mark.parametrize(
    ("canary", "seconds", "is_stopped"),
    [
        ({"count": 3, "soakSeconds": 600}, 599, False),
        ({"count": 3, "soakSeconds": 600}, 600, True),
        ({"count": 4, "soakSeconds": 600}, 11, True),
        ({"count": 2, "soakSeconds": 600}, 599, False),
        ({"count": 0, "soakSeconds": 600}, 11, True),
    ],
    ids=["not soaked", "soaked", "the candidate is one of the first", "more than the first, none soaked", "none asked"],
)
def test_nobody_follows_the_first_bookies_until_they_have_soaked(
    canary: dict[str, int], seconds: int, *, is_stopped: bool
) -> None:
    """Three of four run what the spec says."""
    since = make.NOW_MS - seconds * 1_000
    cases = restarted(one if one.name == FIRST else with_pod(one, ready_since_ms=since) for one in bookies())

    found = decided(seen(cases, spec={"rollout": AUTOMATIC | {"canary": canary}}))

    assert (found.action is not None) is is_stopped
    assert ("canary" in (found.status.waiting_for or "")) is not is_stopped


def restarted(cases: Iterable[BookieCase]) -> tuple[BookieCase, ...]:
    return tuple(with_report(one, boot_epoch=BootEpoch(2)) for one in cases)


def test_a_bookie_that_is_new_is_none_of_the_first() -> None:
    """It was added by the same edit: it holds nothing that could show what a release breaks."""
    cases = restarted(with_pod(one, ready_since_ms=make.NOW_MS - 60_000) for one in bookies())
    first = tuple(with_pod(one, ready_since_ms=LONG_AGO_MS) if one.name == FIRST else one for one in cases)
    new = tuple(with_report(one, boot_epoch=BootEpoch(1)) if one.name != FIRST else one for one in first)

    found = [
        decided(seen(one, spec={"rollout": AUTOMATIC | {"canary": {"count": 1, "soakSeconds": 600}}})).action
        for one in (first, new)
    ]

    assert found[0] is None, "three restarted with it, and soak"
    assert found[1] is not None, "the first to show anything is the one whose turn it is"


def test_as_many_must_have_soaked_as_are_to_come_first() -> None:
    soaked = make.NOW_MS - 700_000
    cases = restarted(but(LAST, with_pod, ready_since_ms=soaked))
    young = tuple(
        with_pod(one, ready_since_ms=make.NOW_MS - 60_000) if one.name not in (FIRST, LAST) else one for one in cases
    )

    for count, is_stopped in ((1, True), (2, False)):
        canary = {"count": count, "soakSeconds": 600}
        assert (decided(seen(young, spec={"rollout": AUTOMATIC | {"canary": canary}})).action is not None) is is_stopped


def test_the_digest_of_a_spec_is_the_same_in_every_release() -> None:
    """Another value here restarts every bookie of every fleet whose operator is upgraded."""
    zones = make.cluster().spec.zones
    assert zones is not None

    assert inputs.digest(make.cluster().spec, zones[0]) == "v1-e972aa578d7f58cc"


FROZEN = {
    "spec.imagePullPolicy": "IfNotPresent",
    "spec.lifecycle.terminationGrace": "5m",
    "spec.metadataService.security.acls": True,
    "spec.metadataService.security.authentication": "SASL",
    "spec.metadataService.security.tls": "None",
    "spec.metadataService.sessionTimeout": "30s",
    "spec.network.clusterDomain": "cluster.local",
    "spec.network.ports.admin": 3182,
    "spec.network.ports.adminTls": 3184,
    "spec.network.ports.data": 3181,
    "spec.network.ports.metrics": 3183,
    "spec.placement.antiAffinity": "Required",
    "spec.placement.topologyKey": "topology.kubernetes.io/zone",
    "spec.placement.zoneSource": "Static",
    "spec.repair.regeneration": "Gated",
    "spec.resources.requests": {"cpu": "500m", "memory": "2Gi"},
    "spec.resources.tmpSize": "256Mi",
    "spec.security.authentication.mode": "Disabled",
    "spec.security.tls.clientCertificates": False,
    "spec.security.tls.mode": "Disabled",
    "spec.security.tls.verifyHostNames": False,
    "spec.storage.journalWriteData": True,
}


def test_no_line_of_the_defaults_of_a_digest_ever_changes() -> None:
    """Copied here on purpose: a field may be added to both, and nothing may change."""
    assert {path: inputs.DEFAULTS.get(path) for path in FROZEN} == FROZEN


def defaults(model: type[Model], path: str, parts: object = True) -> dict[str, object]:
    """By path, the default of every field in `model` that a digest covers, also of parts that may be absent."""
    out: dict[str, object] = {}
    for name, field in model.model_fields.items():
        if not isinstance(parts, bool) and name not in parts:  # type: ignore[operator]
            continue
        inner = [one for one in (field.annotation, *get_args(field.annotation)) if isinstance(one, type)]
        nested = next((one for one in inner if issubclass(one, Model)), None)
        here = f"{path}.{field.alias}"
        reaching = inputs.REACHING.get(name, False) if path == "spec" else True
        if nested is not None and reaching is not False:
            out |= defaults(nested, here, reaching)
        elif reaching is not False and not field.is_required():
            out[here] = inputs._plain(field.default)
    return out


def test_every_default_that_reaches_a_pod_stands_in_the_frozen_table() -> None:
    """A new field's default is added to it, or a later change of that default restarts every fleet. A default that a
    release has changed stays in the table as it was."""
    unsaid = (None, [], {})
    found = {path for path, value in defaults(BookieClusterSpec, "spec").items() if value not in unsaid}

    assert found - set(inputs.DEFAULTS) == set()


def test_a_release_that_changes_a_default_restarts_nobody() -> None:
    """The API server has stored the old default in every object; a new object gets the new one."""

    class Later(BookieClusterSpec):
        image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "Always"

    stored = make.spec(imagePullPolicy="IfNotPresent")
    before, after = BookieClusterSpec.model_validate(make.spec()), Later.model_validate(stored)

    assert inputs.digest(before, None) == inputs.digest(after, None)
    assert inputs.digest(Later.model_validate(make.spec()), None) != inputs.digest(after, None)


def test_every_field_of_the_spec_is_in_the_digest_or_left_out_on_purpose() -> None:
    """Of pools, the spec is digested as it is for each (`BookieClusterSpec.of`)."""
    left_out = {"replicas", "zones", "pools", "quorum", "disruption", "rollout", "scale_down", "autorecovery"}

    assert set(inputs.REACHING) | left_out == set(BookieClusterSpec.model_fields)


@pytest.mark.parametrize(
    ("field", "left_out"),
    [
        ("storage", {"acknowledge_no_journal", "layout_change", "retention"}),
        ("metadata_service", {"expected_instance_id", "initialize"}),
        (
            "repair",
            {
                "max_concurrent",
                "max_per_day",
                "stabilization",
                "peer_grace",
                "local_disk_reset",
                "lost_node",
                "max_per_day_per_zone",
                "reattach_grace",
                "stale_volume",
            },
        ),
        ("lifecycle", {"paused", "hibernate", "deletion_protection", "deletion_policy"}),
    ],
)
def test_every_part_of_a_field_is_in_the_digest_or_left_out_on_purpose(field: str, left_out: set[str]) -> None:
    """A part that reaches the pod and is forgotten would never be rolled out."""
    model = BookieClusterSpec.model_fields[field].annotation
    assert isinstance(model, type)
    assert issubclass(model, Model)
    reaching = inputs.REACHING[field]
    assert isinstance(reaching, set | dict)

    assert set(reaching) | left_out == set(model.model_fields)
    assert not set(reaching) & left_out


def test_every_part_of_a_volume_but_its_size_is_in_the_digest() -> None:
    """A volume grows under its pod (spec/operator.md#X4)."""
    known = dict[str, Any](
        name="ledgers",
        size="2Gi",
        kind="LocalDisk",
        storageClassName="a",
        accessMode="ReadWriteOnce",
        allowSharedFilesystem=True,
        added=True,
    )
    assert set(known) == {VolumeSpec.model_fields[field].alias for field in VolumeSpec.model_fields}
    left_out = [key for key in known if key not in ("name", "size")]
    digests = [volume_digest(known)]
    digests += [volume_digest({key: one for key, one in known.items() if key != gone}) for gone in left_out]

    assert len(set(digests)) == len(digests)
    assert volume_digest(known | {"size": "9Gi"}) == volume_digest(known)


def volume_digest(volume: dict[str, Any]) -> str:
    storage = make.spec()["storage"] | {"ledgers": {"volumes": [volume]}}
    return inputs.digest(make.cluster(storage=storage).spec, None)


def test_no_other_field_reaches_a_pod_in_parts() -> None:
    parts = {field for field, reaching in inputs.REACHING.items() if reaching is not True}

    assert parts == {"storage", "metadata_service", "repair", "lifecycle"}


# ---- whoever leaves, was set aside, or has its data only for as long as its pod is there -----------------------------


def drained(of: Observation, *names: str, state: Departure = Departure.DRAINING) -> tuple[Assessed, ...]:
    """The fleet of `of`, in which `names` leave."""
    going = LeavingStatus(state=state, since=format_time(make.NOW_MS))
    return tuple(replace(one, leaving=going) if one.case.name in names else one for one in fleet.assess(of))


def fifth(**changes: Any) -> BookieCase:
    return replace(serving(make.sibling("zone-b", 1)), **changes)


def test_nobody_is_stopped_beside_one_that_leaves_unless_an_ensemble_takes_writes_without_both() -> None:
    """spec/operator.md#J9."""
    of = seen((*bookies(), fifth()))
    four, five = drained(seen(), LAST), drained(of, LAST)

    assert "2 bookies beside ledgers-zone-a-0 take writes" in leaving.in_the_way_of_others(seen(), four, four[0])
    assert leaving.in_the_way_of_others(of, five, five[0]) == ""
    assert leaving.in_the_way_of_others(seen(), drained(seen(), LAST, state=Departure.LEAVING), four[0]) == ""
    assert leaving.in_the_way_of_others(seen(), drained(seen()), four[0]) == ""


def test_only_our_own_bookies_that_are_registered_as_writable_make_up_for_one_that_leaves() -> None:
    read_only = Member("data.ledgers.zone-b.1", has_cookie=True, is_registered=True, is_writable=False)
    for other in (fifth(is_ours=False), fifth(member=read_only), fifth(member=None)):
        of = seen((*bookies(), other))
        cases = drained(of, LAST)
        assert leaving.in_the_way_of_others(of, cases, cases[0])


def test_whoever_leaves_closes_the_gates_of_every_stop() -> None:
    cases = drained(seen(), LAST)

    assert [why for why in stop_gates.closed(seen(), cases, cases[0]) if f"while {LAST} leaves" in why]
    assert [why for why in stop_gates.missed_beside(seen(), cases, cases[0]) if f"while {LAST} leaves" in why]
    assert not list(stop_gates.missed_beside(seen(), drained(seen()), cases[0]))


def set_aside(case: BookieCase) -> BookieCase:
    """A person took it out of service, and its process waits for him."""
    told = with_report(case, state=State.HELD, verdict=Verdict.SET_ASIDE, data_port_open=False)
    return replace(told, member=Member(case.bookie_id, has_cookie=True, is_registered=False))


def test_the_turn_of_a_bookie_that_was_stopped_in_order_to_be_set_aside_ends_with_its_pod() -> None:
    cases = but(LAST, set_aside)

    assert decided(seen(cases, status=turn(bookie=LAST, pod_uid="pod-before"))).status.step is None
    held = but(LAST, with_report, state=State.HELD, verdict=Verdict.STALE, data_port_open=False)
    assert decided(seen(held, status=turn(bookie=LAST, pod_uid="pod-before"))).status.step is not None


def test_a_bookie_that_a_person_set_aside_halts_no_roll_out() -> None:
    late = away(LAST, for_s=3_600)

    assert decided(seen(but(LAST, set_aside), status=late)).halted == ""
    assert LAST in decided(seen(but(LAST, with_report, state=State.STARTING), status=late)).halted


def unlisted(case: BookieCase) -> BookieCase:
    """Its volumes go with its pod, and nobody knows whether it ever served."""
    volumes = tuple(replace(one, claim=None, pv=None, recorded=None, is_ephemeral=True) for one in case.volumes)
    return replace(case, volumes=volumes, member=None, is_listed=False)


def test_a_pod_that_may_have_the_only_copies_is_not_replaced_while_nobody_could_list_cookies() -> None:
    """spec/operator.md#X9: it may have served unseen, unless the fleet never did."""
    of = seen(tuple(unlisted(one) if one.name == FIRST else one for one in down(FIRST)), status=away(FIRST))
    known = of.cluster.status.model_copy(update={"instance_id": None})
    first, new = fleet.assess(of)[0], replace(of, cluster=replace(of.cluster, status=known))

    assert not first.has_lived
    assert "nobody could list cookies" in ephemeral.may_hold_data(of, first)
    assert ephemeral.may_hold_data(new, first) == ""
    listed = replace(first, case=replace(first.case, is_listed=True))
    assert ephemeral.may_hold_data(of, listed) == ""


def test_the_pod_of_a_bookie_that_has_lived_is_kept_unless_what_was_recorded_was_in_another() -> None:
    case = bookies()[0]
    first = fleet.assess(seen((replace(case, volumes=tuple(map(of_the_pod, case.volumes))), *bookies()[1:])))[0]
    before = replace(first, case=replace(first.case, volumes=tuple(map(make.replaced, first.case.volumes))))
    in_part = replace(first, case=replace(first.case, volumes=(before.case.volumes[0], *first.case.volumes[1:])))

    assert "go with its pod" in ephemeral.holds_data(first)
    assert ephemeral.holds_data(before) == ""
    assert ephemeral.holds_data(in_part) != "", "what is left of it is data"
    assert ephemeral.holds_data(replace(first, case=replace(first.case, pod=None))) == ""


def of_the_pod(volume: VolumeCase) -> VolumeCase:
    return replace(volume, is_ephemeral=True)
