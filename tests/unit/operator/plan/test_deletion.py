"""Claims go with a BookieCluster only when that is said twice, and told before (spec/operator.md#C1 to C3)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model import names
from bookie_operator.model.status import BookieClusterStatus, DeletionStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.deletion import Deletion
from bookie_operator.status import render, warnings

DELETE = {"deletionPolicy": "Delete", "deletionProtection": False, "terminationGrace": "2m"}
TOLD = DeletionStatus(bookies=4, claims=12, bytes=1, going=0, since="2026-01-01T00:00:00Z", waiting_for="a second word")
SAID = {names.DELETE_DATA: "cluster-uid"}


def bookies(*, owners: frozenset[str] = frozenset(), is_labelled: bool = True) -> tuple[BookieCase, ...]:
    out = []
    for one in make.fleet():
        volumes = []
        for volume in one.volumes:
            assert volume.claim is not None
            volumes.append(replace(volume, claim=replace(volume.claim, owners=owners, is_labelled=is_labelled)))
        out.append(replace(one, volumes=tuple(volumes)))
    return tuple(out)


def decided(
    lifecycle: dict[str, Any],
    annotations: dict[str, str],
    told: DeletionStatus | None,
    cases: tuple[BookieCase, ...] | None = None,
    **spec: Any,
) -> Deletion:
    status = BookieClusterStatus(observed_generation=1, instance_id="instance", deletion=told)
    seen = make.observation(cases or bookies(), status=status, spec_changes={"lifecycle": lifecycle} | spec)
    seen = replace(seen, cluster=replace(seen.cluster, annotations=annotations))
    return fleet.decide(seen).deletion


def test_said_twice_and_told_before_all_claims_get_the_cluster_as_their_owner() -> None:
    found = decided(DELETE, SAID, TOLD)

    assert len(found.actions) == 12
    assert {str((one.owner or {})["uid"]) for one in found.actions} == {"cluster-uid"}
    assert all("controller" not in (one.owner or {}) for one in found.actions)
    assert found.status is not None
    assert (found.status.bookies, found.status.claims, found.status.waiting_for) == (4, 12, None)


@pytest.mark.parametrize(
    ("lifecycle", "annotations", "told", "why"),
    [
        (DELETE | {"deletionProtection": True}, SAID, TOLD, "deletionProtection is true"),
        (DELETE, {}, TOLD, "bookie.dev/delete-data is missing"),
        (DELETE, {names.DELETE_DATA: ""}, TOLD, "bookie.dev/delete-data is missing"),
        (DELETE, {names.DELETE_DATA: "uid-of-one-before"}, TOLD, "names uid-of-one-before, which is another one"),
        (DELETE, SAID, None, "first tells what would be lost"),
    ],
)
def test_while_one_word_is_missing_no_claim_goes_and_those_that_would_are_taken_back(
    lifecycle: dict[str, Any], annotations: dict[str, str], told: DeletionStatus | None, why: str
) -> None:
    found = decided(lifecycle, annotations, told)
    taken_back = decided(lifecycle, annotations, told, bookies(owners=frozenset({"cluster-uid", "another"})))

    assert found.actions == ()
    assert found.status is not None
    assert why in (found.status.waiting_for or "")
    assert [one.owner for one in taken_back.actions] == [None] * 12


@pytest.mark.parametrize("lifecycle", [{"terminationGrace": "2m"}, DELETE | {"deletionPolicy": "Retain"}])
def test_by_default_nothing_goes_whatever_an_annotation_says(lifecycle: dict[str, Any]) -> None:
    found = decided(lifecycle, SAID, TOLD)
    taken_back = decided(lifecycle, SAID, TOLD, bookies(owners=frozenset({"cluster-uid"})))

    assert found == Deletion(None)
    assert [one.owner for one in taken_back.actions] == [None] * 12


def test_paused_nothing_new_goes_and_what_is_taken_back_is_taken_back() -> None:
    paused = DELETE | {"paused": True}

    assert decided(paused, SAID, TOLD).actions == ()
    assert len(decided(paused, {}, TOLD, bookies(owners=frozenset({"cluster-uid"}))).actions) == 12


def test_a_claim_that_a_person_made_by_hand_stays() -> None:
    found = decided(DELETE, SAID, TOLD, bookies(is_labelled=False))
    taken_back = decided(DELETE, SAID, TOLD, bookies(is_labelled=False, owners=frozenset({"cluster-uid"})))

    assert found.actions == ()
    assert found.status is not None
    assert found.status.claims == 0
    assert taken_back.status is not None
    assert taken_back.status.going == 0
    assert [one.owner for one in taken_back.actions] == [None] * 12


def test_claims_that_have_the_owner_get_it_once_and_what_is_told_keeps_its_time_until_it_changes() -> None:
    armed = decided(DELETE, SAID, TOLD, bookies(owners=frozenset({"cluster-uid"})))
    still, anew = decided(DELETE, {}, TOLD), decided(DELETE, SAID, TOLD)

    assert armed.actions == ()
    assert armed.status is not None
    assert still.status is not None
    assert anew.status is not None
    assert armed.status.going == 12
    assert (still.status.since, anew.status.since) == (TOLD.since, format_time(make.NOW_MS))


def test_of_a_fleet_whose_volumes_go_with_its_pods_nothing_is_told_but_what_a_claim_of_before_makes_known() -> None:
    storage = make.spec()["storage"]
    for role in ("journal", "ledgers", "index"):
        storage[role] = {"volumes": [one | {"kind": "Ephemeral"} for one in storage[role]["volumes"]]}
    by_hand = bookies(is_labelled=False, owners=frozenset({"cluster-uid"}))
    bare = [replace(one, volumes=tuple(replace(each, is_ephemeral=True) for each in one.volumes)) for one in bookies()]

    nothing = decided(DELETE, {}, None, tuple(bare), storage=storage)
    of_before = decided(DELETE, {}, None, bookies(), storage=storage)
    taken_back = decided(DELETE, SAID, TOLD, by_hand, storage=storage)

    assert nothing == Deletion(None)
    assert of_before.status is not None
    assert [one.owner for one in taken_back.actions] == [None] * 12, "who made it by hand keeps it"


def test_a_claim_that_no_volume_of_the_spec_has_goes_and_is_taken_back_like_the_others() -> None:
    """Its volume left the spec, and what is on it may be all that is left."""

    def with_another(owners: frozenset[str]) -> tuple[BookieCase, ...]:
        first, *others = bookies(owners=owners)
        claim = first.volumes[0].claim
        assert claim is not None
        return (replace(first, other_claims=(replace(claim, name="of-before", uid="of-before"),)), *others)

    found = decided(DELETE, SAID, TOLD, with_another(frozenset()))
    taken_back = decided(DELETE, {}, TOLD, with_another(frozenset({"cluster-uid"})))

    assert "of-before" in [one.name for one in found.actions]
    assert found.status is not None
    assert found.status.claims == 13
    assert {one.name: one.owner for one in taken_back.actions}["of-before"] is None
    assert len(taken_back.actions) == 13


def test_what_would_be_lost_is_told_as_a_warning_before_and_after() -> None:
    status = BookieClusterStatus(observed_generation=1, instance_id="instance")
    seen = make.observation(bookies(), status=status, spec_changes={"lifecycle": DELETE})
    before = render.render(fleet.decide(seen))
    (asks,) = [one for one in warnings.standing(before, make.NOW_MS) if one.reason == "DeletionDeletesData"]
    assert before.deletion is not None
    ready = before.model_copy(update={"deletion": before.deletion.model_copy(update={"waiting_for": None})})
    (told,) = [one for one in warnings.standing(ready, make.NOW_MS) if one.reason == "DeletionDeletesData"]

    assert asks.is_warning
    assert "12 claims of 4 bookies" in asks.message
    assert "annotate bookiecluster ledgers bookie.dev/delete-data=cluster-uid" in asks.message
    assert "whoever deletes this BookieCluster deletes 12 claims of 4 bookies" in told.message
    assert asks.key != told.key


def test_a_claim_that_goes_already_is_neither_counted_nor_given_an_owner() -> None:
    first, *others = bookies()
    volumes = tuple(replace(one, claim=replace(one.claim, is_terminating=True)) for one in first.volumes if one.claim)

    found = decided(DELETE, SAID, TOLD, (replace(first, volumes=volumes), *others))

    assert len(found.actions) == 9
    assert found.status is not None
    assert found.status.claims == 9
