"""Where a bookie stands: its stages (spec/operator.md#K10), stabilization, and who counts as data-less."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Contents, Member, MountProof, RepairStatus, State, Verdict
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.evidence.reasons import Conclusion
from bookie_operator.model.status import BookieStatus, GrantRecord, Suspicion
from bookie_operator.model.values import format_time
from bookie_operator.plan import stages
from bookie_operator.plan.stages import Assessed, Stage


def before(**changes: Any) -> BookieStatus:
    known: dict[str, Any] = {
        "name": "ledgers-zone-a-0",
        "bookie_id": "data.ledgers.zone-a.0",
        "pool": "zone-a",
        "state": "Serving",
        "verdict": "Healthy",
        "reason": "Serving",
        "since": format_time(make.NOW_MS - 60_000),
        "incarnation": 1,
    }
    return BookieStatus(**(known | changes))


def assess(case: BookieCase, previous: BookieStatus | None = None, *, now_ms: int = make.NOW_MS) -> Assessed:
    return stages.assess(case, previous, now_ms=now_ms, stabilization_ms=6_000)


@pytest.mark.parametrize(
    ("state", "claimed", "stage"),
    [
        (State.SERVING, Verdict.HEALTHY, Stage.SERVING),
        (State.READ_ONLY, Verdict.HEALTHY, Stage.READ_ONLY),
        (State.REPAIRING, Verdict.LOST, Stage.REPAIRING),
        (State.REPAIRING, Verdict.UNCLEAN, Stage.LIMBO),
        (State.FENCING, Verdict.UNCLEAN, Stage.FENCING),
        (State.STAMPING, Verdict.LOST, Stage.STAMPING),
        (State.STOPPING, Verdict.HEALTHY, Stage.STOPPING),
        (State.REPLAYING, Verdict.HEALTHY, Stage.INSPECTING),
        (State.STARTING, None, Stage.INSPECTING),
        (State.UNSPECIFIED, Verdict.HEALTHY, Stage.INSPECTING),
        (State.HELD, Verdict.STALE, Stage.HELD),
    ],
)
def test_a_report_is_a_stage(state: State, claimed: Verdict, stage: Stage) -> None:
    assert assess(make.bookie_case(report=make.report(state=state, verdict=claimed))).stage is stage


def test_a_new_bookie_bootstraps() -> None:
    volumes = tuple(replace(make.replaced(one), recorded=None) for one in make.bookie_case().volumes)
    report = make.report(
        state=State.STARTING, verdict=Verdict.BOOTSTRAP, cookie_present=False, incarnation=0, ledgers_naming_me=0
    )

    assert assess(make.bookie_case(volumes=volumes, report=report)).stage is Stage.BOOTSTRAPPING


@pytest.mark.parametrize(
    ("state", "stage"),
    [(State.STARTING, Stage.INSPECTING), (State.FENCING, Stage.FENCING), (State.SERVING, Stage.SERVING)],
)
def test_a_bookie_that_adds_a_volume_has_lost_nothing(state: State, stage: Stage) -> None:
    case = make.bookie_case(report=make.report(state=state))
    more = replace(make.replaced(make.volume_case("ledgers-1", "ledgers")), recorded=None)
    assert more.report is not None
    more = replace(more, report=make.changed(more.report, contents=Contents.ADDED))

    one = assess(replace(case, volumes=(*case.volumes, more)), before())

    assert (one.stage, one.has_loss, one.suspicion) == (stage, False, None)
    assert one.evidence.conclusion is Conclusion.ADDING, "and so the next bookie's turn does not come"


def test_a_bookie_without_pod_is_provisioning_or_missing_by_its_past() -> None:
    case = make.bookie_case(pod=None, report=None)

    assert assess(make.unborn(case)).stage is Stage.PROVISIONING
    assert assess(case).stage is Stage.MISSING, "its claims are marked"
    assert assess(make.unborn(case), before()).stage is Stage.MISSING


def test_what_keeps_a_pod_from_running_is_said() -> None:
    pod = make.pod(phase="Pending", problem="ImagePullBackOff: no such image")

    one = assess(replace(make.unborn(make.bookie_case()), pod=pod))

    assert (one.stage, one.message) == (Stage.PROVISIONING, "ImagePullBackOff: no such image")


def test_a_pod_that_goes_is_stopping_and_one_without_report_unreachable() -> None:
    going = make.bookie_case(pod=make.pod(is_terminating=True), report=None)
    silent = make.bookie_case(report=None, report_problem="no answer")

    assert assess(going).stage is Stage.STOPPING
    assert assess(silent, before()).stage is Stage.UNREACHABLE
    assert assess(silent, before()).is_unavailable
    assert not assess(silent, before()).is_dataless


@pytest.mark.parametrize(("has_ended", "is_told"), [(True, True), (False, False)])
def test_what_keeps_a_pod_that_has_ended_is_told(has_ended: bool, is_told: bool) -> None:
    """Its StatefulSet makes no other before it is gone. While its processes end a finalizer is no news."""
    pod = make.pod(is_terminating=True, has_ended=has_ended, finalizers=("mesh/drain", "policy/audit"))

    one = assess(make.bookie_case(pod=pod, report=None), before())

    assert (one.stage, one.reason) == (Stage.STOPPING, "PodTerminating")
    assert ("mesh/drain, policy/audit" in one.message) is is_told


def test_the_first_sight_of_a_loss_is_a_suspicion() -> None:
    one = assess(make.lost_case(), before())

    assert one.stage is Stage.SUSPECTED
    assert one.suspicion is not None
    assert (one.suspicion.observations, one.suspicion.since_ms) == (1, make.NOW_MS)
    assert one.is_dataless


def seen(observations: int, ago_ms: int, evidence: str = "") -> BookieStatus:
    digest = evidence or assess(make.lost_case()).evidence.digest
    return before(
        state="Suspected",
        suspicion=Suspicion(evidence=digest, observations=observations, since_ms=make.NOW_MS - ago_ms),
    )


@pytest.mark.parametrize(
    ("observations", "ago_ms", "counted", "stage"),
    [
        (1, 2_999, 1, Stage.SUSPECTED),  # looking often is not looking long
        (1, 3_000, 2, Stage.SUSPECTED),
        (1, 60_000, 2, Stage.SUSPECTED),  # looking long is not looking often
        (2, 5_999, 2, Stage.SUSPECTED),
        (2, 6_000, 3, Stage.CONFIRMED),
        (3, 6_000, 3, Stage.CONFIRMED),
    ],
)
def test_a_loss_is_confirmed_by_three_observations_over_the_whole_time(
    observations: int, ago_ms: int, counted: int, stage: Stage
) -> None:
    one = assess(make.lost_case(), seen(observations, ago_ms))

    assert one.suspicion is not None
    assert (one.suspicion.observations, one.stage) == (counted, stage)


@pytest.mark.parametrize("observations", [1, 2, 3])
def test_a_clock_that_was_set_back_starts_the_suspicion_again(observations: int) -> None:
    one = assess(make.lost_case(), seen(observations, -1))

    assert one.suspicion is not None
    assert (one.stage, one.suspicion.observations, one.suspicion.since_ms) == (Stage.SUSPECTED, 1, make.NOW_MS)


def test_nobody_is_away_since_later_than_now() -> None:
    silent = make.bookie_case(report=None, report_problem="no answer")

    one = assess(silent, before(away_since=format_time(make.NOW_MS + 86_400_000)))

    assert one.away_since_ms == make.NOW_MS


def test_who_is_away_still_is_away_since_it_was_first_missed() -> None:
    silent = make.bookie_case(report=None, report_problem="no answer")

    assert assess(silent, before(away_since=format_time(make.NOW_MS - 60_000))).away_since_ms == make.NOW_MS - 60_000


def left_by_its_claims(*retired: bool, **changes: Any) -> Stage:
    """The stage of a bookie whose status was lost: it has no pod, and these of its three claims say that it left."""
    case = make.bookie_case(pod=None, report=None)
    volumes = tuple(
        replace(one, claim=replace(one.claim, retired_at=format_time(make.NOW_MS) if is_retired else ""))  # type: ignore[type-var]
        for one, is_retired in zip(case.volumes, retired, strict=True)
    )
    return assess(replace(case, volumes=volumes, **changes)).stage


def test_a_bookie_left_by_its_claims_alone_only_where_all_say_so_and_the_store_was_read() -> None:
    member = Member("data.ledgers.zone-a.0", has_cookie=True, is_registered=False, is_writable=False)

    assert left_by_its_claims(True, True, True, is_listed=True) is Stage.RETIRED
    assert left_by_its_claims(True, True, True, is_listed=False) is Stage.MISSING
    assert left_by_its_claims(True, True, False, is_listed=True) is Stage.MISSING
    assert left_by_its_claims(True, True, True, is_listed=True, member=member) is Stage.MISSING


def test_other_evidence_starts_the_suspicion_again() -> None:
    one = assess(make.lost_case(), seen(3, 60_000, evidence="of yesterday"))

    assert one.suspicion is not None
    assert (one.stage, one.suspicion.observations) == (Stage.SUSPECTED, 1)


def test_a_bookie_whose_claims_were_replaced_counts_as_dataless_before_it_can_speak() -> None:
    lost = make.lost_case()
    volumes = tuple(replace(one, report=None) for one in lost.volumes)
    starting = replace(lost, report=None, volumes=volumes, report_problem="no answer")
    gone = replace(starting, pod=None, volumes=tuple(replace(one, claim=None) for one in volumes))

    assert assess(starting, before()).is_dataless
    assert assess(gone, before()).is_dataless


def test_a_held_bookie_with_empty_volumes_counts_as_dataless_and_one_with_data_does_not() -> None:
    volumes = tuple(
        replace(one, report=replace(one.report, contents=Contents.EMPTY)) if one.report else one
        for one in make.bookie_case().volumes
    )
    wiped = make.bookie_case(volumes=volumes, report=make.report(state=State.HELD, verdict=Verdict.LOST))
    stale = make.bookie_case(report=make.report(state=State.HELD, verdict=Verdict.STALE))

    assert assess(wiped, before()).is_dataless
    assert not assess(stale, before()).is_dataless
    assert assess(stale, before()).is_unavailable


@pytest.mark.parametrize(
    ("contents", "proof"),
    [
        (Contents.EMPTY, MountProof.PROVEN),
        (Contents.EMPTY, MountProof.SHARED),
        (Contents.REGENERATING, MountProof.PROVEN),
        (Contents.STALE, MountProof.PROVEN),
    ],
)
def test_a_bookie_of_which_one_volume_lacks_what_it_had_is_without_its_data(
    contents: Contents, proof: MountProof
) -> None:
    first, *others = make.bookie_case().volumes
    assert first.report is not None
    lacking = replace(first, report=make.changed(first.report, contents=contents, proof=proof))
    report = make.report(state=State.STARTING, verdict=None)

    assert assess(make.bookie_case(volumes=(lacking, *others), report=report), before()).is_dataless


@pytest.mark.parametrize(
    ("changes", "contents"),
    [
        ({}, Contents.FOREIGN),
        ({"sentinel": make.sentinel("data.ledgers.zone-b.0", 1)}, Contents.VALID),
    ],
)
@pytest.mark.parametrize("proof", [MountProof.PROVEN, MountProof.MISSING])
def test_a_bookie_that_has_anothers_volume_in_place_of_its_own_is_without_its_data(
    changes: dict[str, Any], contents: Contents, proof: MountProof
) -> None:
    """Whoever mounted it may have written over its own. Under a mount that is missing stands what was there before."""
    first, *others = make.bookie_case().volumes
    assert first.report is not None
    foreign = replace(first, report=replace(make.changed(first.report, contents=contents, proof=proof), **changes))
    report = make.report(state=State.HELD, verdict=Verdict.FOREIGN)
    case = make.bookie_case(volumes=(foreign, *others), report=report)

    one = assess(case, before())

    assert one.stage is Stage.HELD
    assert (one.is_dataless, one.is_unavailable) == (proof is MountProof.PROVEN, proof is MountProof.MISSING)


def test_a_bookie_that_never_held_data_lacks_none_whoever_left_a_volume_to_it() -> None:
    volumes = tuple(
        replace(one, claim=replace(one.claim, marks=None), report=replace(one.report, contents=Contents.FOREIGN))
        for one in make.bookie_case().volumes
        if one.claim is not None and one.report is not None
    )
    report = make.report(state=State.HELD, verdict=Verdict.FOREIGN, incarnation=0, cookie_present=False)

    one = assess(make.bookie_case(volumes=volumes, report=report))

    assert (one.stage, one.has_lived, one.is_dataless) == (Stage.HELD, False, False)


def granted() -> BookieStatus:
    grant = GrantRecord(
        id="g",
        bookie_id="data.ledgers.zone-a.0",
        pod_uid="pod-1",
        evidence="e",
        report_evidence="r",
        cookie_version=0,
        new_incarnation=2,
        profile="Full",
        epoch=7,
        issued_at=format_time(make.NOW_MS - 60_000),
        expires_at=format_time(make.NOW_MS - 1),
        issued_by="me",
    )
    return before(grant=grant)


@pytest.mark.parametrize(
    ("repair", "is_kept"), [(RepairStatus(done=False), True), (RepairStatus(done=True), False), (None, False)]
)
@pytest.mark.parametrize("state", [State.SERVING, State.READ_ONLY])
def test_a_grant_counts_until_the_repair_of_whoever_serves_by_it_is_done(
    state: State, repair: RepairStatus | None, is_kept: bool
) -> None:
    """Who says nothing of a repair has none: a grant that stayed would keep every other bookie from its turn."""
    one = assess(make.bookie_case(report=make.report(state=state), repair=repair), granted())

    assert (one.grant is not None, one.has_loss) == (is_kept, is_kept)


@pytest.mark.parametrize(
    ("grant_id", "verdict", "stage"),
    [
        ("g", Verdict.UNCLEAN, Stage.REPAIRING),  # it restarted in the middle, and nobody remembers the grant
        ("g", Verdict.LOST, Stage.REPAIRING),
        ("", Verdict.RESUME, Stage.REPAIRING),
        ("healed", Verdict.UNCLEAN, Stage.LIMBO),
        ("bootstrap-1", Verdict.UNCLEAN, Stage.LIMBO),
        ("", Verdict.UNCLEAN, Stage.LIMBO),
    ],
)
def test_a_repair_is_of_a_loss_where_the_life_began_with_a_grant_that_nobody_saw_healed(
    grant_id: str, verdict: Verdict, stage: Stage
) -> None:
    case = make.bookie_case(report=make.report(state=State.REPAIRING, verdict=verdict, grant_id=grant_id))

    one = stages.assess(case, before(), now_ms=make.NOW_MS, stabilization_ms=6_000, healed=["healed"])

    assert (one.stage, one.is_dataless) == (stage, stage is Stage.REPAIRING)


def test_a_bookie_that_never_held_data_is_missed_by_nobody() -> None:
    assert not assess(make.unborn(make.bookie_case())).is_unavailable


def test_an_unmounted_volume_is_presumed_intact_so_its_bookie_is_unavailable_not_dataless() -> None:
    volumes = tuple(
        replace(one, report=make.changed(one.report, contents=Contents.EMPTY, proof=MountProof.MISSING))
        if one.report
        else one
        for one in make.bookie_case().volumes
    )
    report = make.report(state=State.HELD, verdict=Verdict.MOUNT_MISSING, reason="not mounted")

    one = assess(make.bookie_case(volumes=volumes, report=report), before())

    assert (one.stage, one.is_dataless, one.is_unavailable) == (Stage.HELD, False, True)


def test_a_bookie_whose_cookie_is_there_and_whose_claims_are_bare_counts_as_without_data_when_it_stays_silent() -> None:
    bare = make.unborn(make.bookie_case())
    known = replace(bare, pod=make.pod(), report_problem="no answer", member=Member(bare.bookie_id, True, False))
    silent = before(state="Unreachable", incarnation=0, since=format_time(make.NOW_MS - 61_000))

    assert not assess(known).is_dataless, "an answer may be lost"
    assert assess(known).is_unavailable
    assert assess(known, silent).is_dataless
    assert assess(replace(known, pod=None)).is_dataless
    assert not assess(bare).is_dataless


def test_a_new_bookie_whose_pod_is_still_called_pending_lost_nothing() -> None:
    """Its kubelet is slower than its cookie: a new fleet began with a Warning of volumes that nobody had lost."""
    bare = make.unborn(make.bookie_case())
    pending = make.pod(phase="Pending", is_ready=False)
    known = replace(bare, pod=pending, member=Member(bare.bookie_id, has_cookie=True, is_registered=True))
    starting = before(state="Missing", incarnation=0, since=format_time(make.NOW_MS - 5_000))
    stuck = before(state="Missing", incarnation=0, since=format_time(make.NOW_MS - 60_000))
    lived = before(state="Missing", incarnation=1, since=format_time(make.NOW_MS - 5_000))

    assert not assess(known).is_dataless, "seen for the first time"
    assert not assess(known, starting).is_dataless
    assert assess(known).is_unavailable, "and yet the gates count it"
    assert assess(known, stuck).is_dataless, "a pod that never comes"
    assert assess(known, lived).is_dataless, "we have seen its data"
    assert assess(replace(known, pod=replace(pending, problem="Unschedulable"))).is_dataless, "a pod that says why"
