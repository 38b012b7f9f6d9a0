"""Evidence about a whole bookie: worst member wins, two opinions that differ are held, no report proves nothing."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import HELD, Contents, MountProof, State, Verdict
from bookie_operator.evidence import bookie
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.evidence.reasons import Conclusion


def with_volume(case: BookieCase, index: int, **report_changes: Any) -> BookieCase:
    volumes = list(case.volumes)
    reported = volumes[index].report
    assert reported is not None
    volumes[index] = replace(volumes[index], report=make.changed(reported, **report_changes))
    return replace(case, volumes=tuple(volumes))


def test_a_healthy_bookie_is_healthy() -> None:
    evidence = bookie.weigh(make.bookie_case())

    assert evidence.conclusion is Conclusion.HEALTHY
    assert len(evidence.volumes) == 3


def test_a_bookie_with_all_volumes_replaced_has_lost_them() -> None:
    evidence = bookie.weigh(make.lost_case())

    assert (evidence.conclusion, evidence.profile) == (Conclusion.LOST_VOLUME, "Full")


@pytest.mark.parametrize(
    ("lost", "profile"), [((0,), "JournalLoss"), ((1,), "Partial"), ((2,), "IndexRebuild"), ((0, 2), "Partial")]
)
def test_the_repair_profile_follows_the_lost_roles(lost: tuple[int, ...], profile: str) -> None:
    whole = make.bookie_case()
    volumes = tuple(make.replaced(one) if index in lost else one for index, one in enumerate(whole.volumes))
    case = replace(whole, volumes=volumes, report=make.report(state=State.WAITING_GRANT, verdict=Verdict.LOST))

    assert bookie.weigh(case).profile == profile


def adding(case: BookieCase) -> BookieCase:
    """The same bookie with one ledger volume more, which it adds."""
    volume = make.volume_case("ledgers-1", "ledgers")
    assert volume.claim is not None
    assert volume.report is not None
    fresh = replace(volume, claim=replace(volume.claim, marks=None), recorded=None)
    reported = make.changed(volume.report, contents=Contents.ADDED, sentinel=None)
    return replace(case, volumes=(*case.volumes, replace(fresh, report=reported)))


@pytest.mark.parametrize("claimed", [Verdict.HEALTHY, Verdict.UNCLEAN])
def test_a_volume_that_the_bookie_adds_is_no_loss_and_no_health(claimed: Verdict) -> None:
    case = adding(make.bookie_case(report=make.report(state=State.STARTING, verdict=claimed)))

    evidence = bookie.weigh(case)

    assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.ADDING, "AddedVolume")
    assert evidence.profile == ""


def test_a_volume_that_is_added_beside_lost_ones_changes_neither_the_loss_nor_its_profile() -> None:
    evidence = bookie.weigh(adding(make.lost_case()))

    assert (evidence.conclusion, evidence.profile) == (Conclusion.LOST_VOLUME, "Full")


def test_a_bookie_that_adds_a_volume_and_calls_itself_lost_is_held() -> None:
    case = adding(make.bookie_case(report=make.report(state=State.WAITING_GRANT, verdict=Verdict.LOST)))

    assert bookie.weigh(case).finding.reason == "Disagreement"


def test_one_held_volume_holds_the_bookie_whatever_the_others_say() -> None:
    case = with_volume(make.lost_case(), 1, contents=Contents.FOREIGN)

    evidence = bookie.weigh(case)

    assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.HELD, "ForeignVolume")


def test_a_missing_mount_beats_lost_neighbours() -> None:
    evidence = bookie.weigh(with_volume(make.lost_case(), 2, proof=MountProof.MISSING))

    assert evidence.conclusion is Conclusion.MOUNT_MISSING


def test_without_pod_nothing_is_known() -> None:
    evidence = bookie.weigh(make.bookie_case(pod=None))

    assert (evidence.conclusion, evidence.finding.reason, evidence.digest) == (Conclusion.UNKNOWN, "PodMissing", "")


def test_an_unreachable_bookie_is_never_inferred_to_be_empty() -> None:
    evidence = bookie.weigh(replace(make.lost_case(), report=None, report_problem="admin port 10.0.0.1: UNAVAILABLE"))

    assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.UNKNOWN, "NoReport")
    assert "UNAVAILABLE" in evidence.finding.message


def test_a_report_of_another_pod_behind_the_same_address_counts_for_nothing() -> None:
    for uid in ("pod-9", ""):
        evidence = bookie.weigh(make.lost_case(pod_uid=uid))

        assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.UNKNOWN, "ReportOfAnotherPod")


def test_a_bookie_with_another_name_is_held() -> None:
    evidence = bookie.weigh(make.bookie_case(report=make.report(bookie_id="data.other.zone-a.0")))

    assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.HELD, "WrongIdentity")


@pytest.mark.parametrize(
    ("claimed", "verdict", "reason"),
    [
        (Verdict.STALE, Conclusion.HELD, "StaleVolume"),
        (Verdict.FOREIGN, Conclusion.HELD, "ForeignVolume"),
        (Verdict.MOUNT_MISSING, Conclusion.MOUNT_MISSING, "MountMissing"),
        (Verdict.UNKNOWN_CONTENT, Conclusion.HELD, "UnknownContent"),
        (Verdict.COOKIE_MISSING, Conclusion.HELD, "CookieMissingInMetadata"),
    ],
)
def test_what_the_bookie_holds_itself_for_holds_it_here_too(claimed: Verdict, verdict: Conclusion, reason: str) -> None:
    evidence = bookie.weigh(make.bookie_case(report=make.report(state=State.HELD, verdict=claimed, reason="because")))

    assert (evidence.conclusion, evidence.finding.reason) == (verdict, reason)


@pytest.mark.parametrize("claimed", [verdict for verdict in Verdict if verdict.is_held])
def test_whatever_verdict_holds_the_bookie_holds_it_here_with_the_bookies_own_sentence(claimed: Verdict) -> None:
    evidence = bookie.weigh(make.bookie_case(report=make.report(state=State.HELD, verdict=claimed, reason="because")))

    assert evidence.conclusion in (Conclusion.HELD, Conclusion.MOUNT_MISSING)
    assert evidence.finding.reason == HELD[claimed].reason
    assert evidence.finding.message == "because"


def test_a_bookie_that_holds_itself_without_a_word_we_know_is_held() -> None:
    evidence = bookie.weigh(make.bookie_case(report=make.report(state=State.HELD, verdict=Verdict.HEALTHY)))

    assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.HELD, "HeldByBookie")


def test_a_bookie_that_is_still_inspecting_is_unknown() -> None:
    report = make.report(state=State.STARTING, verdict=None)

    assert bookie.weigh(make.bookie_case(report=report)).finding.reason == "Inspecting"


@pytest.mark.parametrize("claimed", [Verdict.HEALTHY, Verdict.BOOTSTRAP, Verdict.UNCLEAN])
def test_lost_volumes_that_the_bookie_does_not_call_lost_are_held(claimed: Verdict) -> None:
    evidence = bookie.weigh(make.lost_case(verdict=claimed))

    assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.HELD, "Disagreement")


def test_lost_volumes_of_a_bookie_that_says_they_went_back_in_time_are_held() -> None:
    """Only what the operator itself sees to have gone back in time is given up for that word."""
    evidence = bookie.weigh(make.lost_case(verdict=Verdict.STALE))

    assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.HELD, "StaleVolume")


def test_a_bookie_that_waits_for_a_grant_over_valid_volumes_is_held() -> None:
    report = make.report(state=State.WAITING_GRANT, verdict=Verdict.LOST)

    assert bookie.weigh(make.bookie_case(report=report)).finding.reason == "Disagreement"


def test_a_bookie_that_starts_over_valid_volumes_and_calls_itself_lost_is_held() -> None:
    report = make.report(state=State.STARTING, verdict=Verdict.LOST)

    assert bookie.weigh(make.bookie_case(report=report)).finding.reason == "Disagreement"


def test_the_conclusion_at_boot_is_history_once_the_bookie_serves() -> None:
    report = make.report(state=State.REPAIRING, verdict=Verdict.LOST)

    assert bookie.weigh(make.bookie_case(report=report)).conclusion is Conclusion.HEALTHY


def test_new_volumes_of_a_bookie_that_calls_itself_healthy_are_held() -> None:
    volumes = tuple(replace(make.replaced(one), recorded=None) for one in make.bookie_case().volumes)
    report = make.report(cookie_present=False, ledgers_naming_me=0, incarnation=0, verdict=Verdict.HEALTHY)

    evidence = bookie.weigh(make.bookie_case(volumes=volumes, report=report))

    assert evidence.finding.reason == "Disagreement"


def test_unknown_volumes_stay_unknown_whatever_the_bookie_says() -> None:
    volumes = (replace(make.volume_case("journal", "journal"), claim=None),)

    assert bookie.weigh(make.bookie_case(volumes=volumes)).finding.reason == "ClaimMissing"


def test_the_evidence_hash_is_the_same_for_the_same_facts() -> None:
    assert bookie.weigh(make.lost_case()).digest == bookie.weigh(make.lost_case()).digest


@pytest.mark.parametrize(
    "change",
    [
        {"cookie_version": 3},
        {"cookie_digest": "other"},
        {"incarnation": 2},
        {"instance_id": "other"},
        {"evidence_hash": "other"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_evidence_hash_changes_with_every_fact_of_the_report(change: dict[str, Any]) -> None:
    assert bookie.weigh(make.lost_case(**change)).digest != bookie.weigh(make.lost_case()).digest


def test_the_evidence_hash_changes_with_pod_claim_and_volume() -> None:
    lost = make.lost_case()
    claim = lost.volumes[0].claim
    assert lost.pod is not None
    assert lost.report is not None
    assert claim is not None
    other_pod = replace(lost, pod=replace(lost.pod, uid="pod-3"), report=replace(lost.report, pod_uid="pod-3"))
    other_claim = replace(
        lost, volumes=(replace(lost.volumes[0], claim=replace(claim, uid="claim-3")), *lost.volumes[1:])
    )
    other_volume = replace(lost, volumes=(replace(lost.volumes[0], pv=None), *lost.volumes[1:]))
    other_name = replace(
        lost, volumes=(replace(lost.volumes[0], claim=replace(claim, pv_name="pv-3")), *lost.volumes[1:])
    )
    other_files = with_volume(lost, 0, fsid="fs-3")

    cases = (lost, other_pod, other_claim, other_volume, other_name, other_files)

    assert len({bookie.weigh(case).digest for case in cases}) == len(cases)


def test_a_bookie_that_is_stamping_is_not_held_for_what_does_not_match_yet() -> None:
    report = make.report(state=State.STAMPING, verdict=Verdict.BOOTSTRAP, cookie_present=False, incarnation=0)

    evidence = bookie.weigh(make.bookie_case(report=report))

    assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.UNKNOWN, "InTransition")


def set_back(**report_changes: Any) -> BookieCase:
    """Its ledgers went back to the first boot, and the spec gives up what they lack."""
    case = with_volume(make.bookie_case(), 1, contents=Contents.STALE)
    volumes = tuple(replace(one, may_be_stale=True) for one in case.volumes)
    assert case.report is not None
    told = {"state": State.HELD, "verdict": Verdict.STALE, "boot_epoch": 2} | report_changes
    return replace(case, volumes=volumes, report=replace(case.report, **told))


def test_what_went_back_in_time_and_is_given_up_has_a_repair_of_its_own_that_both_agree_on() -> None:
    evidence = bookie.weigh(set_back())

    assert (evidence.conclusion, evidence.finding.reason) == (Conclusion.LOST_VOLUME, "StaleVolumeGivenUp")
    assert evidence.profile == bookie.ROLLBACK


@pytest.mark.parametrize("claimed", sorted(set(HELD) - {Verdict.STALE}, key=lambda one: one.value))
def test_a_volume_is_given_up_only_while_nothing_else_holds_its_bookie(claimed: Verdict) -> None:
    assert bookie.weigh(set_back(verdict=claimed)).conclusion in (Conclusion.HELD, Conclusion.MOUNT_MISSING)


def test_a_volume_is_given_up_beside_no_other_that_is_held() -> None:
    case = with_volume(set_back(), 2, contents=Contents.FOREIGN)

    assert bookie.weigh(case).conclusion is Conclusion.HELD
