"""Operations: whose turn it is, what is told of each, and that nothing is done twice."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import operator_support as make
from bookie.ports.admin import Member, State
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationStatus
from bookie_operator.model.status import BookieClusterStatus, BookieStatus, RolloutStatus, RolloutStep
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet, operations
from bookie_operator.plan.actions import ResumeBookie, StopBookie
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Observation

FIRST, SECOND, LAST = "ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-c-0"
LONG_AGO_MS = make.NOW_MS - 3_600_000


def serving(case: BookieCase, **pod: Any) -> BookieCase:
    """`case`, registered, ready for long, of the newest revision."""
    assert case.pod is not None
    known = {"ready_since_ms": LONG_AGO_MS, "created_ms": LONG_AGO_MS, "resource_version": "5"}
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    return replace(case, pod=replace(case.pod, **(known | pod)), member=member)


def bookies(**changed: BookieCase) -> tuple[BookieCase, ...]:
    return tuple(changed.get(one.name.replace("-", "_"), serving(one)) for one in make.fleet())


def younger(name: str, **changes: Any) -> dict[str, BookieCase]:
    """The bookie after its pod was made anew."""
    found = next(one for one in make.fleet() if one.name == name)
    pod = {"created_ms": make.NOW_MS - 50_000, "uid": "pod-new", "ready_since_ms": make.NOW_MS - 40_000}
    assert found.report is not None
    return {
        name.replace("-", "_"): replace(
            serving(found, **(pod | changes)), report=replace(found.report, pod_uid="pod-new")
        )
    }


def plan(*found: BookieOperation, cases: tuple[BookieCase, ...] | None = None, **changes: Any) -> FleetPlan:
    return fleet.decide(seen(*found, cases=cases, **changes))


def seen(
    *found: BookieOperation,
    cases: tuple[BookieCase, ...] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **changes: Any,
) -> Observation:
    wanted = {"rollout": {"strategy": "Manual", "soakSeconds": 10}} | (spec or {})
    return make.observation(
        bookies() if cases is None else cases,
        status=BookieClusterStatus(observed_generation=1, instance_id="instance", **(status or {})),
        spec_changes=wanted,
        children=make.rolled_out(**wanted),
        operations=found,
        **changes,
    )


def said(found: FleetPlan) -> list[tuple[str, str]]:
    return [(one.operation.name, one.status.phase.value if one.status.phase else "") for one in found.operations]


def only(found: FleetPlan) -> tuple[OperationPhase | None, str]:
    (one,) = found.operations
    return one.status.phase, one.status.message


def turn(**changes: Any) -> dict[str, Any]:
    known = {"bookie": FIRST, "pod_uid": "pod-1", "begun_at": format_time(make.NOW_MS - 5_000)}
    return {"rollout": RolloutStatus(inputs="x", desired=4, updated=4, step=RolloutStep(**(known | changes)))}


def test_a_restart_stops_the_newest_pod_too_and_where_a_person_ends_the_pods() -> None:
    found = plan(make.operation())

    assert isinstance(found.rollout.action, StopBookie)
    assert (found.rollout.action.bookie, found.rollout.action.may_delete) == (FIRST, False)
    assert only(found)[0] is OperationPhase.RUNNING
    assert (found.rollout.status.updated, found.rollout.waiting, found.rollout.halted) == (4, (), "")


def test_without_an_operation_nobody_is_stopped() -> None:
    assert plan().rollout.action is None


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"spec": {"lifecycle": {"paused": True, "terminationGrace": "2m"}}}, "lifecycle.paused"),
        ({"spec": {"rollout": {"strategy": "Manual", "paused": True}}}, "rollout.paused"),
        ({"members_problem": "nobody answers"}, "nobody answers"),
        ({"cases": bookies(ledgers_zone_c_0=replace(serving(make.sibling("zone-c", 0)), report=None))}, f"{LAST} is"),
    ],
)
def test_a_restart_waits_for_every_gate_of_the_roll_out_and_says_for_which(changes: dict[str, Any], word: str) -> None:
    found = plan(make.operation(), **changes)

    assert found.rollout.action is None
    assert only(found)[0] is OperationPhase.QUEUED
    assert word in only(found)[1]


def test_a_restart_is_done_when_the_pod_is_younger_and_in_service() -> None:
    found = plan(make.operation(), cases=bookies(**younger(FIRST)))

    assert found.rollout.action is None
    assert only(found)[0] is OperationPhase.COMPLETE
    assert "pod-new" in only(found)[1]


def test_a_restart_goes_on_until_the_new_pod_serves() -> None:
    new = younger(FIRST, is_ready=False, ready_since_ms=None)
    found = plan(make.operation(), cases=bookies(**new), status=turn())

    assert found.rollout.action is None
    assert only(found) == (OperationPhase.RUNNING, f"the kubelet does not call {FIRST} ready")


def test_a_restart_whose_status_was_lost_stops_nobody_twice() -> None:
    done = replace(make.operation(), status=OperationStatus())

    found = plan(done, cases=bookies(**younger(FIRST)))

    assert found.rollout.action is None


def test_what_is_over_is_never_looked_at_again() -> None:
    for phase in (one for one in OperationPhase if one.is_final):
        found = plan(make.operation(status=OperationStatus(phase=phase)))

        assert found.operations == ()
        assert found.rollout.action is None


def test_a_restart_that_is_withdrawn_in_its_turn_lets_the_bookie_write_again() -> None:
    flushed = serving(make.bookie_case(report=make.report(read_only=True, state=State.READ_ONLY, has_turn=True)))

    found = plan(cases=bookies(ledgers_zone_a_0=flushed), status=turn())

    assert isinstance(found.rollout.action, ResumeBookie)


def test_a_restart_that_waits_does_not_keep_a_broken_pod_from_its_correction() -> None:
    """The first does not come back from a bad revision; the spec was corrected; somebody wants the last restarted."""
    broken = make.pod(
        is_ready=False,
        created_ms=LONG_AGO_MS,
        phase="Pending",
        problem="ImagePullBackOff: no",
        revision="rev-0",
        inputs="v1-older",
        resource_version="5",
    )
    down = replace(make.bookie_case(pod=broken, report=None), member=Member("data.ledgers.zone-a.0", True, False))
    wanted = {"rollout": {"strategy": "Automatic", "soakSeconds": 10}}

    away = BookieStatus(
        name=FIRST,
        bookie_id="data.ledgers.zone-a.0",
        pool="zone-a",
        state="Missing",
        verdict="Unknown",
        reason="PodNotRunning",
        since=format_time(LONG_AGO_MS),
        away_since=format_time(LONG_AGO_MS),
    )

    found = plan(
        make.operation(bookie=LAST), cases=bookies(ledgers_zone_a_0=down), spec=wanted, status={"bookies": (away,)}
    )

    assert isinstance(found.rollout.action, StopBookie)
    assert found.rollout.action.bookie == FIRST
    assert only(found)[0] is OperationPhase.QUEUED


def test_an_operation_about_nobody_fails_and_names_who_there_is() -> None:
    phase, text = only(plan(make.operation(bookie="ledgers-zone-a-7")))

    assert phase is OperationPhase.FAILED
    assert "ledgers-zone-a-7" in text
    assert LAST in text


def test_an_operation_that_is_older_than_its_cluster_fails() -> None:
    looked = seen(make.operation())
    looked = replace(looked, cluster=replace(looked.cluster, created_ms=make.NOW_MS - 1_000))

    found = fleet.decide(looked)

    assert only(found)[0] is OperationPhase.FAILED
    assert found.rollout.action is None


def test_an_operation_that_has_not_begun_in_time_expires_and_one_that_has_goes_on() -> None:
    late = make.operation(created_ms=make.NOW_MS - 48 * 3_600_000)
    begun = replace(late, status=OperationStatus(phase=OperationPhase.RUNNING, started_at=format_time(LONG_AGO_MS)))
    old = bookies(**{FIRST.replace("-", "_"): serving(make.bookie_case(), created_ms=make.NOW_MS - 72 * 3_600_000)})

    assert only(plan(late, cases=old))[0] is OperationPhase.EXPIRED
    assert plan(late, cases=old).rollout.action is None
    assert only(plan(begun, cases=old))[0] is OperationPhase.RUNNING


def test_a_spec_that_cannot_be_used_fails_with_its_sentence() -> None:
    found = plan(replace(make.operation(), spec=None, problem="spec.type: unheard of"))

    assert only(found) == (OperationPhase.FAILED, "spec.type: unheard of")


def test_a_name_that_no_bookie_has_is_told_at_once_behind_any_other_operation() -> None:
    first = make.operation(name="b", created_ms=make.NOW_MS - 2_000, bookie=SECOND)
    second = make.operation(name="a", created_ms=make.NOW_MS - 1_000, bookie="ledgers-zone-a-9")

    found = plan(second, first)
    paused = plan(second, first, spec={"lifecycle": {"paused": True}})

    assert said(found) == [("b", "Running"), ("a", "Failed")]
    assert "asks for no bookie ledgers-zone-a-9; it asks for ledgers-zone-a-0" in found.operations[1].status.message
    assert dict(said(paused))["a"] == "Queued", "nothing is decided meanwhile"


def test_the_oldest_operation_has_its_turn_and_the_others_name_it() -> None:
    first = make.operation(name="b", created_ms=make.NOW_MS - 2_000, bookie=SECOND)
    second = make.operation(name="a", created_ms=make.NOW_MS - 1_000)

    found = plan(second, first)

    assert said(found) == [("b", "Running"), ("a", "Queued")]
    assert found.operations[1].status.message.startswith("b comes first")
    assert isinstance(found.rollout.action, StopBookie)
    assert found.rollout.action.bookie == SECOND


def going(case: BookieCase) -> BookieCase:
    """`case`, whose ledger volume goes with its pod: somebody deleted its claim."""
    volumes = [
        replace(one, claim=replace(one.claim, is_terminating=True)) if one.claim and one.name == "ledgers" else one
        for one in case.volumes
    ]
    return replace(case, volumes=tuple(volumes))


def ephemeral(case: BookieCase) -> BookieCase:
    """`case`, all of whose volumes go with its pod."""
    assert case.pod is not None
    volumes = []
    for one in case.volumes:
        assert one.report is not None
        assert one.claim is not None
        assert one.claim.marks is not None
        uid = case.pod.uid
        root = f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/{one.name}"
        report = replace(one.report, mount=replace(one.report.mount, root=root))
        claim = replace(one.claim, uid=uid, marks=replace(one.claim.marks, claim_uid=uid))
        recorded = one.recorded.model_copy(update={"pvc_uid": uid}) if one.recorded is not None else None
        volumes.append(replace(one, is_ephemeral=True, report=report, claim=claim, recorded=recorded))
    return replace(case, volumes=tuple(volumes))


def without_orders(case: BookieCase) -> BookieCase:
    """`case`, of a release that no Fence can keep out of service."""
    assert case.report is not None
    return replace(case, report=replace(case.report, capabilities=("turn",)))


@pytest.mark.parametrize(
    ("kind", "change", "word"),
    [("Restart", ephemeral, "create a BookieOperation Replace"), ("Fence", without_orders, "update its image")],
)
def test_an_operation_that_its_own_bookie_holds_up_lets_the_others_pass(
    kind: str, change: Callable[[BookieCase], BookieCase], word: str
) -> None:
    first = make.operation("first", type=kind, created_ms=make.NOW_MS - 2_000)
    second = make.operation("second", bookie=LAST, created_ms=make.NOW_MS - 1_000)

    found = plan(first, second, cases=bookies(ledgers_zone_a_0=change(serving(make.bookie_case()))))

    assert isinstance(found.rollout.action, StopBookie)
    assert found.rollout.action.bookie == LAST
    assert said(found) == [("first", "Queued"), ("second", "Running")]
    assert word in found.operations[0].status.message


def test_a_restart_that_asks_for_a_new_volume_first_lets_that_be_replaced() -> None:
    restart = make.operation("restart", created_ms=make.NOW_MS - 2_000)
    target = {"bookie": FIRST, "volume": "ledgers"}
    volume = make.operation("volume", type="ReplaceVolume", target=target, created_ms=make.NOW_MS - 1_000)

    found = plan(restart, volume, cases=bookies(ledgers_zone_a_0=going(serving(make.bookie_case()))))

    assert isinstance(found.rollout.action, StopBookie)
    assert found.rollout.action.bookie == FIRST
    assert said(found) == [("restart", "Running"), ("volume", "Running")], "one stop does both"


def down() -> tuple[tuple[BookieCase, ...], dict[str, Any]]:
    """All bookies, the first of which does not run; and the status that tells since when."""
    pod = make.pod(is_ready=False, created_ms=LONG_AGO_MS, phase="Pending", resource_version="5")
    case = replace(make.bookie_case(pod=pod, report=None), member=Member("data.ledgers.zone-a.0", True, False))
    ago = format_time(LONG_AGO_MS)
    told = {"bookie_id": case.bookie_id, "pool": "zone-a", "state": "Missing", "verdict": "Unknown", "reason": ""}
    return bookies(ledgers_zone_a_0=case), {"bookies": (BookieStatus(name=FIRST, since=ago, away_since=ago, **told),)}


def test_the_restart_of_a_bookie_that_is_down_comes_before_one_that_waits_for_it() -> None:
    cases, status = down()
    waits = make.operation("waits", bookie=LAST, created_ms=make.NOW_MS - 2_000)
    helps = make.operation("helps", created_ms=make.NOW_MS - 1_000)

    found = plan(waits, helps, cases=cases, status=status)

    assert isinstance(found.rollout.action, StopBookie)
    assert found.rollout.action.bookie == FIRST
    assert found.operations[0].status.message.startswith("helps comes first")


def test_a_bookie_that_is_on_its_way_back_keeps_its_turn() -> None:
    cases, _ = down()
    begun = OperationStatus(phase=OperationPhase.RUNNING, pod_uid="before", started_at=format_time(LONG_AGO_MS))
    comes = make.operation("comes", bookie=LAST, created_ms=make.NOW_MS - 1_000, status=begun)
    down_too = make.operation("down", created_ms=make.NOW_MS - 2_000)

    assert operations.with_turn(seen(comes, down_too, cases=cases), fleet.assess(seen(cases=cases))).taking == comes.uid


def ended(name: str, bookie_id: str, **pod: Any) -> BookieCase:
    """A bookie whose pod, of the newest revision, does not run and has not for an hour."""
    case = next(one for one in make.fleet() if one.name == name)
    known = {"is_ready": False, "created_ms": LONG_AGO_MS, "phase": "Pending", "resource_version": "5"}
    made = replace(make.pod(name=name, **(known | pod)))
    return replace(case, pod=made, report=None, member=Member(bookie_id, True, False))


def two_down(**pods: Any) -> tuple[tuple[BookieCase, ...], tuple[BookieStatus, ...]]:
    """All bookies, the first two of which do not run; `pods`: of the first."""
    ids = {FIRST: "data.ledgers.zone-a.0", SECOND: "data.ledgers.zone-a.1"}
    cases = {name: ended(name, ids[name], **(pods if name == FIRST else {})) for name in ids}
    told = {"pool": "zone-a", "state": "Missing", "verdict": "Unknown", "reason": "", "since": format_time(LONG_AGO_MS)}
    known = tuple(
        BookieStatus(name=name, bookie_id=ids[name], away_since=format_time(LONG_AGO_MS), **told) for name in ids
    )
    return bookies(**{name.replace("-", "_"): case for name, case in cases.items()}), known


def stopped(found: FleetPlan) -> str:
    action = found.rollout.action
    assert action is None or isinstance(action, StopBookie)
    return action.bookie if action is not None else ""


def test_of_two_that_are_down_on_one_revision_each_gets_another_pod_when_a_person_says_so() -> None:
    """Another pod of the revision that it runs takes nothing from a bookie that serves nobody."""
    cases, known = two_down()
    first, second = make.operation("first"), make.operation("second", bookie=SECOND, created_ms=make.NOW_MS + 1_000)

    found = plan(first, second, cases=cases, status={"bookies": known})

    assert stopped(found) == FIRST
    assert stopped(plan(second, cases=cases, status={"bookies": known})) == SECOND
    assert isinstance(found.rollout.action, StopBookie)
    assert found.rollout.action.door is None, "nobody is there to flush"


@pytest.mark.parametrize("revision", ["rev-1", "rev-0"])
def test_one_of_an_older_revision_waits_for_another_that_did_not_come_back_with_the_newest(revision: str) -> None:
    cases, known = two_down(revision=revision, inputs="v1-older")

    assert stopped(plan(make.operation(), cases=cases, status={"bookies": known})) == (
        FIRST if revision == "rev-1" else ""
    )


def test_one_that_may_lose_what_it_has_with_its_pod_keeps_it() -> None:
    cases, known = two_down()
    kept = tuple(going(one) if one.name == FIRST else one for one in cases)

    assert stopped(plan(make.operation(), cases=kept, status={"bookies": known})) == ""


@pytest.mark.parametrize(("pod_uid", "is_stopped"), [("of-before", True), ("pod-2", False)])
def test_one_that_is_down_takes_the_turn_over_from_another_that_was_replaced_and_has_not_come_back(
    pod_uid: str, *, is_stopped: bool
) -> None:
    cases, known = two_down(uid="pod-2")
    of_first = turn(pod_uid=pod_uid)

    found = plan(make.operation(bookie=SECOND), cases=cases, status=of_first | {"bookies": known})

    assert (stopped(found) == SECOND) is is_stopped
    if is_stopped:
        assert found.rollout.status.step is not None
        assert found.rollout.status.step.bookie == SECOND


def test_nobody_takes_the_turn_over_from_one_that_has_yet_to_get_a_correction() -> None:
    """The first did not come back from an edit that was put right since; the second hangs for another reason."""
    cases, known = two_down(uid="pod-2", revision="rev-0", inputs="v1-older")
    wanted = {"rollout": {"strategy": "Automatic", "soakSeconds": 10}}

    found = plan(
        make.operation(bookie=SECOND), cases=cases, spec=wanted, status=turn(pod_uid="of-before") | {"bookies": known}
    )

    assert stopped(found) == FIRST


@pytest.mark.parametrize(("minutes", "is_next"), [(29, False), (30, True)])
def test_a_restart_that_has_not_brought_its_bookie_back_for_long_lets_one_pass_that_is_down(
    minutes: int, *, is_next: bool
) -> None:
    cases, known = two_down(uid="pod-2")
    begun_ms = make.NOW_MS - minutes * 60_000
    status = OperationStatus(phase=OperationPhase.RUNNING, pod_uid="of-before", started_at=format_time(begun_ms))
    first = make.operation("first", created_ms=begun_ms, status=status)
    second = make.operation("second", bookie=SECOND)

    found = plan(first, second, cases=cases, status=turn(pod_uid="of-before") | {"bookies": known})

    assert stopped(found) == (SECOND if is_next else "")
    assert said(found) == [("first", "Running"), ("second", "Running" if is_next else "Queued")]
    assert FIRST in found.operations[0].status.message


def test_operations_without_a_cluster_wait_and_expire() -> None:
    late = make.operation(name="late", created_ms=make.NOW_MS - 48 * 3_600_000)
    over = make.operation(name="over", status=OperationStatus(phase=OperationPhase.COMPLETE))

    found = operations.without_cluster([make.operation(), late, over], "there is no such cluster", make.NOW_MS)

    assert [one.status.phase for one in found] == [OperationPhase.QUEUED, OperationPhase.EXPIRED]
    assert found[0].status.message == "there is no such cluster"


def test_a_status_that_is_stored_is_not_written_again() -> None:
    (first,) = plan(make.operation()).operations

    (again,) = plan(replace(make.operation(), status=first.status)).operations

    assert not first.is_stored
    assert again.is_stored


ANY = st.builds(
    make.operation,
    name=st.sampled_from(["a", "b", "c", "d", "e"]),
    bookie=st.sampled_from([FIRST, SECOND, LAST, "nobody"]),
    created_ms=st.integers(make.NOW_MS - 30 * 3_600_000, make.NOW_MS),
    status=st.sampled_from([OperationStatus(), *(OperationStatus(phase=one) for one in OperationPhase)]),
)


@given(st.lists(ANY, max_size=5, unique_by=lambda one: one.name))
def test_at_most_one_bookie_is_stopped_and_only_for_the_oldest_that_may(found: list[BookieOperation]) -> None:
    decided = plan(*found)

    running = [one for one in decided.operations if one.status.phase is OperationPhase.RUNNING]
    assert len(running) <= 1
    for one in running:
        waiting = [other for other in decided.operations if other.status.phase is OperationPhase.QUEUED]
        assert all(one.operation.created_ms <= other.operation.created_ms for other in waiting)
    assert not any(one.operation.is_over for one in decided.operations)
    if isinstance(decided.rollout.action, StopBookie):
        assert [one.operation.spec.target.bookie for one in running if one.operation.spec] == [
            decided.rollout.action.bookie
        ]


@given(st.lists(ANY, max_size=5, unique_by=lambda one: one.name))
def test_the_order_in_which_they_are_listed_decides_nothing(found: list[BookieOperation]) -> None:
    assert plan(*found).operations == plan(*reversed(found)).operations
