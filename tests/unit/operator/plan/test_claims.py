"""Identity on claims is written only for what is proven, under the claim's uid."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Contents, State
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model import names
from bookie_operator.plan import claims, stages
from bookie_operator.plan.actions import MarkClaim


def marks(case: BookieCase) -> list[MarkClaim]:
    return list(claims.marks(stages.assess(case, None, now_ms=make.NOW_MS, stabilization_ms=6_000)))


def unmarked(**volume_changes: Any) -> BookieCase:
    """A healthy bookie whose first claim has no mark."""
    case = make.bookie_case()
    first = case.volumes[0]
    assert first.claim is not None
    bare = replace(first, claim=replace(first.claim, marks=None), recorded=None)
    return replace(case, volumes=(replace(bare, **volume_changes), *case.volumes[1:]))


def beside_one_that_is_added() -> BookieCase:
    """It serves, and another of its volumes is not its own yet."""
    case = unmarked()
    second = case.volumes[1]
    assert second.claim is not None
    added = make.volume_report("ledgers", "ledgers", contents=Contents.ADDED)
    young = replace(second, claim=replace(second.claim, marks=None), recorded=None, report=added)
    return replace(case, volumes=(case.volumes[0], young, case.volumes[2]))


def test_a_marked_claim_needs_nothing() -> None:
    assert marks(make.bookie_case()) == []


def test_a_valid_volume_on_an_unmarked_claim_is_marked() -> None:
    (mark,) = marks(unmarked())

    assert (mark.name, mark.uid) == ("journal-ledgers-zone-a-0", "claim-journal-1")
    assert mark.annotations == {
        names.MARK_INCARNATION: "1",
        names.MARK_BOOKIE_ID: "data.ledgers.zone-a.0",
        names.MARK_INSTANCE_ID: "instance",
        names.MARK_FSID: "fs-journal",
        names.MARK_PV_UID: "pv-uid-journal-1",
        names.MARK_CLAIM_UID: "claim-journal-1",
    }


@pytest.mark.parametrize(
    "was",
    [
        {"bookie_id": "data.other.zone-a.0"},
        {"claim_uid": "claim-before"},
        {"pv_uid": "pv-before"},
        {"fsid": "fs-before"},
    ],
    ids=["of another bookie", "copied with another claim", "of another volume", "of another file system"],
)
def test_a_mark_that_says_something_else_than_what_is_proven_is_written_anew(was: dict[str, str]) -> None:
    first = make.bookie_case().volumes[0]
    assert first.claim is not None
    assert first.claim.marks is not None

    (mark,) = marks(unmarked(claim=replace(first.claim, marks=replace(first.claim.marks, **was))))

    assert mark.annotations == next(iter(marks(unmarked()))).annotations


def test_a_claim_of_the_second_in_which_its_pod_was_made_is_older_than_that() -> None:
    """A StatefulSet makes the claims first, and times have seconds."""
    first, pod = make.bookie_case().volumes[0], make.bookie_case().pod
    assert first.claim is not None
    assert pod is not None
    same, later = (replace(first.claim, marks=None, created_ms=pod.created_ms + more) for more in (0, 1_000))

    assert len(marks(unmarked(claim=same))) == 1
    assert marks(unmarked(claim=later)) == []


def test_a_new_incarnation_is_marked_over_the_old() -> None:
    case = make.bookie_case()
    volumes = tuple(
        replace(one, report=replace(one.report, sentinel=make.sentinel(case.bookie_id, 2)))
        for one in case.volumes
        if one.report is not None
    )
    case = replace(case, volumes=volumes, report=make.report(incarnation=2))

    assert {mark.annotations[names.MARK_INCARNATION] for mark in marks(case)} == {"2"}


@pytest.mark.parametrize(
    "case",
    [
        replace(unmarked(), report=make.report(state=State.STARTING)),
        replace(unmarked(), report=make.report(incarnation=2)),
        unmarked(report=make.volume_report("journal", "journal", sentinel=None)),
        unmarked(report=make.volume_report("journal", "journal", contents=Contents.UNKNOWN)),
        unmarked(report=make.volume_report("journal", "journal", contents=Contents.ADDED)),
        unmarked(claim=replace(make.volume_case("journal", "journal").claim, marks=None, is_terminating=True)),  # type: ignore[type-var]
        unmarked(claim=replace(make.volume_case("journal", "journal").claim, marks=None, created_ms=make.NOW_MS)),  # type: ignore[type-var]
        replace(unmarked(), report=make.report(pod_uid="another pod")),
        beside_one_that_is_added(),
        unmarked(claim=None),
    ],
    ids=[
        "not serving",
        "sentinel of another life",
        "no sentinel",
        "unknown contents",
        "being added",
        "claim goes",
        "claim younger than the pod",
        "report of another pod",
        "another volume is being added",
        "no claim",
    ],
)
def test_what_is_not_proven_is_not_marked(case: BookieCase) -> None:
    assert marks(case) == []


def test_the_record_keeps_the_old_identity_until_the_new_one_is_proven() -> None:
    lost = make.lost_case()
    one = stages.assess(lost, None, now_ms=make.NOW_MS, stabilization_ms=6_000)

    assert [claims.record(one, volume) for volume in lost.volumes] == [volume.recorded for volume in lost.volumes]


def test_a_volume_that_cannot_be_read_keeps_the_uid_that_is_known_of_the_same_claim() -> None:
    case = make.bookie_case()
    blind = replace(case.volumes[0], pv=None)
    one = stages.assess(replace(case, volumes=(blind,)), None, now_ms=make.NOW_MS, stabilization_ms=6_000)

    record = claims.record(one, blind)

    assert record is not None
    assert record.pv_uid == "pv-uid-journal-1"


def test_a_volume_that_cannot_be_read_is_not_said_to_be_that_of_a_claim_before() -> None:
    case = make.bookie_case()
    known = case.volumes[0].recorded
    assert known is not None
    blind = replace(case.volumes[0], pv=None, recorded=known.model_copy(update={"pvc_uid": "claim-before"}))
    one = stages.assess(replace(case, volumes=(blind,)), None, now_ms=make.NOW_MS, stabilization_ms=6_000)

    record = claims.record(one, blind)

    assert record is not None
    assert (record.pvc_uid, record.pv_uid) == ("claim-journal-1", "")


def beginner(**volume_changes: Any) -> BookieCase:
    """A bookie that never lived; `volume_changes`: of its first volume."""
    case = make.bookie_case(report=make.report(state=State.HELD, incarnation=0, cookie_present=False), member=None)
    volumes = [
        replace(
            one,
            claim=replace(one.claim, marks=None),
            recorded=None,
            report=make.changed(one.report, contents=Contents.EMPTY),
        )
        for one in case.volumes
        if one.claim is not None and one.report is not None
    ]
    return replace(case, volumes=(replace(volumes[0], **volume_changes), *volumes[1:]))


def found(case: BookieCase) -> list[dict[str, str]]:
    one = stages.assess(case, None, now_ms=make.NOW_MS, stabilization_ms=6_000)
    return [dict(mark.annotations) for mark in claims.contents(one)]


@pytest.mark.parametrize("contents", list(Contents))
def test_what_a_beginner_s_volume_has_on_it_is_noted_on_its_claim(contents: Contents) -> None:
    case = beginner()
    report, claim, pod = case.volumes[0].report, case.volumes[0].claim, case.pod
    assert report is not None
    assert claim is not None
    assert pod is not None
    full = make.changed(report, contents=contents)

    is_data = contents not in (Contents.UNSPECIFIED, Contents.EMPTY, Contents.REGENERATING, Contents.ADDED)
    assert found(beginner(report=full)) == ([{names.CONTENTS_FOUND: contents.value}] if is_data else [])
    assert found(beginner(report=full, claim=replace(claim, contents_found="UNKNOWN"))) == []
    assert found(beginner(report=full, claim=replace(claim, is_terminating=True))) == []
    assert found(beginner(report=full, claim=replace(claim, created_ms=pod.created_ms + 1_000))) == []
    assert found(beginner(report=full, is_ephemeral=True)) == []


def test_what_the_volumes_of_a_bookie_that_lived_have_on_them_is_its_own() -> None:
    assert found(unmarked()) == []
