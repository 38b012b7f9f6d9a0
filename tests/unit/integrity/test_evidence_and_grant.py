"""Evidence that changes with anything relevant, and a grant that is refused for each thing that changed."""

import dataclasses
from typing import Any

import pytest

import integrity_support as build
from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.integrity import evidence, grant
from bookie.ports.admin import OPERATOR_EPOCH_MAX, Contents, MountProof, Verdict

FACTS: dict[str, Any] = {
    "bookie_id": build.ME,
    "pod_uid": "pod-1",
    "instance_id": build.INSTANCE,
    "cookie_version": 4,
    "cookie_digest": "abc",
    "record": build.RECORD,
    "volumes": (build.volume("journal", Contents.EMPTY), build.volume("ledgers", Contents.REGENERATING)),
}


def hash_of(**changes: Any) -> str:
    return evidence.digest(**{**FACTS, **changes})


def with_mount(**changes: Any) -> str:
    first, *rest = FACTS["volumes"]
    return hash_of(volumes=(dataclasses.replace(first, mount=dataclasses.replace(first.mount, **changes)), *rest))


def with_sentinel(**changes: Any) -> str:
    first, second = FACTS["volumes"]
    changed = dataclasses.replace(second, sentinel=dataclasses.replace(second.sentinel, **changes))
    return hash_of(volumes=(first, changed))


def test_the_same_situation_gives_the_same_evidence() -> None:
    assert hash_of() == hash_of()
    assert len(hash_of()) == 64


def test_sentences_free_space_and_sizes_do_not_change_evidence() -> None:
    first, *rest = FACTS["volumes"]

    assert hash_of(volumes=(dataclasses.replace(first, reason="said otherwise"), *rest)) == hash_of()
    assert with_mount(reason="said otherwise", total_bytes=5) == hash_of()


def test_anything_relevant_changes_evidence() -> None:
    record = build.RECORD
    changed = [
        hash_of(bookie_id=BookieId("bookie-1")),
        hash_of(pod_uid="pod-2"),
        hash_of(instance_id="other"),
        hash_of(cookie_version=5),
        hash_of(cookie_digest="abd"),
        hash_of(record=None),
        hash_of(record=dataclasses.replace(record, incarnation=Incarnation(4))),
        hash_of(record=dataclasses.replace(record, boot_epoch=BootEpoch(8))),
        hash_of(record=dataclasses.replace(record, grant_id="else")),
        hash_of(volumes=FACTS["volumes"][:1]),
        hash_of(volumes=(dataclasses.replace(FACTS["volumes"][0], contents=Contents.UNKNOWN), FACTS["volumes"][1])),
        hash_of(volumes=FACTS["volumes"][::-1]),
        with_mount(proof=MountProof.SHARED),
        with_mount(device="8:2"),
        with_mount(fsid="else"),
        with_mount(fstype="xfs"),
        with_mount(root="/else"),
        with_mount(source="/dev/sdz"),
        with_sentinel(incarnation=Incarnation(9)),
        with_sentinel(boot_epoch=BootEpoch(9)),
        with_sentinel(grant_id="else"),
        with_sentinel(fsid="else"),
        with_sentinel(volume="else"),
    ]

    assert len({hash_of(), *changed}) == len(changed) + 1


def test_a_grant_that_fits_is_accepted() -> None:
    grant.check(build.grant(), build.situation())


def test_a_grant_of_a_newer_operator_is_accepted() -> None:
    grant.check(build.grant(operator_epoch=6), build.situation())


@pytest.mark.parametrize(
    ("reason", "granted", "now"),
    [
        ("wrong_bookie", {"bookie_id": BookieId("bookie-1")}, {}),
        ("wrong_pod", {"pod_uid": "pod-0"}, {}),
        ("old_epoch", {"operator_epoch": 4}, {}),
        ("epoch_out_of_range", {"operator_epoch": OPERATOR_EPOCH_MAX + 1}, {}),
        ("epoch_out_of_range", {"operator_epoch": -1}, {}),
        ("mount_not_proven", {}, {"volumes": (build.volume("ledgers", Contents.EMPTY, proof=MountProof.SUSPECT),)}),
        ("mount_not_proven", {}, {"volumes": (build.volume("ledgers", Contents.EMPTY, proof=MountProof.MISSING),)}),
        ("not_waiting", {}, {"is_waiting": False}),
        ("not_waiting", {}, {"verdict": Verdict.HEALTHY}),
        ("not_waiting", {}, {"verdict": Verdict.STALE}),
        ("not_waiting", {}, {"verdict": Verdict.STALE, "is_stale_repairable": True}),
        ("not_waiting", {"accepts_stale": True}, {"verdict": Verdict.STALE}),
        ("not_waiting", {"accepts_stale": True}, {"verdict": Verdict.FOREIGN, "is_stale_repairable": True}),
        ("not_waiting", {}, {"verdict": None}),
        ("cookie_changed", {"cookie_version": 3}, {}),
        ("wrong_incarnation", {"new_incarnation": Incarnation(3)}, {}),
        ("wrong_incarnation", {"new_incarnation": Incarnation(5)}, {}),
        ("evidence_changed", {"evidence_hash": "evidence-0"}, {}),
        ("expired", {"ttl_ms": 10}, {"age_ms": 10}),
        ("expired", {"ttl_ms": 0}, {"age_ms": 0}),
    ],
)
def test_each_mismatch_is_refused_with_its_own_word(reason: str, granted: dict[str, Any], now: dict[str, Any]) -> None:
    with pytest.raises(errors.GrantRefused) as refused:
        grant.check(build.grant(**granted), build.situation(**now))

    assert refused.value.reason == reason
    assert "grant-4" in str(refused.value)


def test_volumes_that_went_back_in_time_are_granted_to_who_knows_that_they_did() -> None:
    now = build.situation(verdict=Verdict.STALE, is_stale_repairable=True)

    grant.check(build.grant(accepts_stale=True), now)


@pytest.mark.parametrize("proof", [MountProof.PROVEN, MountProof.SHARED, MountProof.UNCHECKED])
def test_a_proven_an_allowed_and_an_unchecked_mount_may_be_granted(proof: MountProof) -> None:
    grant.check(build.grant(), build.situation(volumes=(build.volume("ledgers", Contents.EMPTY, proof=proof),)))


def test_the_first_life_after_a_cookie_of_java_is_incarnation_one() -> None:
    grant.check(build.grant(new_incarnation=Incarnation(1)), build.situation(incarnation=Incarnation(0)))
