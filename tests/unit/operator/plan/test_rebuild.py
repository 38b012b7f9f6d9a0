"""Which bookies are to be rebuilt, and whose turn it is (spec/operator.md#X7)."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import operator_support as make
from bookie_operator.evidence.facts import BookieCase, ClaimFacts, ClaimSize, Door, VolumeCase
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.status import BookieClusterStatus, BookieStatus, Departure, LeavingStatus
from bookie_operator.plan import fleet, leaving, rebuild
from bookie_operator.plan.actions import RemoveBookie
from bookie_operator.plan.departure import stateful_sets

GI = Decimal(1024**3)


def cluster(status: BookieClusterStatus | None = None, *, mode: str = "RollingRebuild", **volume: Any) -> Cluster:
    storage = make.spec()["storage"]
    ledgers = {"volumes": [{"name": "ledgers", "size": "2Gi"} | volume]}
    return make.cluster(status, storage=storage | {"ledgers": ledgers, "layoutChange": mode})


def case(name: str = "ledgers-zone-a-0", **claim: Any) -> BookieCase:
    known: dict[str, Any] = {
        "size": ClaimSize(2 * GI, 2 * GI),
        "storage_class": "standard",
        "access_modes": ("ReadWriteOncePod",),
    }
    its_claim = ClaimFacts(f"ledgers-{name}", "uid", 0, **(known | claim))
    volume = VolumeCase("ledgers", "ledgers", False, False, its_claim.name, claim=its_claim)
    serves = make.report()
    return BookieCase(name, f"data.{name}", name[8:14], name[8:14], (volume,), report=serves)


@pytest.mark.parametrize(
    ("volume", "claim", "words"),
    [
        ({}, {}, ""),
        ({"storageClassName": "standard"}, {}, ""),
        ({"storageClassName": "fast"}, {}, "is of class standard, and the spec says fast"),
        ({"storageClassName": "fast"}, {"storage_class": ""}, ""),  # it does not tell
        ({}, {"storage_class": "fast"}, ""),  # the spec does not tell
        ({"accessMode": "ReadWriteOnce"}, {}, "is ReadWriteOncePod, and the spec says ReadWriteOnce"),
        ({}, {"access_modes": ("ReadWriteMany",)}, ""),
        ({"size": "1Gi"}, {}, "asks for 2Gi, and the spec says 1Gi"),
        ({"size": "2048Mi"}, {}, ""),
        ({"size": "3Gi"}, {}, ""),  # it grows
        ({}, {"size": ClaimSize(2 * GI, 9 * GI)}, ""),  # a disk that is larger than asked for
        ({"size": "1Gi"}, {"size": None}, ""),  # nobody can read it
    ],
)
def test_what_of_a_claim_is_another_layout(volume: "dict[str, str]", claim: "dict[str, Any]", words: str) -> None:
    found = rebuild.differences(cluster(**volume).spec, case(**claim))

    assert "; ".join(found).removeprefix("claim ledgers-ledgers-zone-a-0 ") == words


def turn(made: Cluster, *cases: BookieCase) -> "list[str]":
    return [one.name for one in rebuild.marked(made, cases) if one.is_rebuilt]


FLEET = tuple(case(f"ledgers-zone-{zone}-0") for zone in "abc")
FAST = {"storageClassName": "fast"}


def under_way(name: str, state: Departure, *, rebuilds: bool = True) -> BookieClusterStatus:
    leaving = LeavingStatus(state=state, since="2027-01-15T08:00:00Z", rebuilds=rebuilds)
    known = {"pool": "zone-b", "state": "", "verdict": "", "reason": "", "since": "2027-01-15T08:00:00Z"}
    return BookieClusterStatus(bookies=(BookieStatus(name=name, bookie_id=name, leaving=leaving, **known),))  # type: ignore[arg-type]


def test_one_at_a_time_in_the_order_of_the_fleet_and_nobody_where_the_spec_refuses() -> None:
    assert turn(cluster(**FAST), *FLEET) == ["ledgers-zone-a-0"]
    assert turn(cluster(mode="Refuse", **FAST), *FLEET) == []
    assert turn(cluster(), *FLEET) == []


def test_who_began_goes_on_and_nobody_begins_before_it_is_back() -> None:
    assert turn(cluster(under_way("ledgers-zone-b-0", Departure.DRAINING), **FAST), *FLEET) == ["ledgers-zone-b-0"]
    # It waits, and has heard nothing: the first one's turn comes.
    assert turn(cluster(under_way("ledgers-zone-b-0", Departure.LEAVING), **FAST), *FLEET) == ["ledgers-zone-a-0"]
    # Its wrong claim is deleted, the others are going: it is as the spec says, and not back.
    gone = replace(FLEET[1], volumes=())
    known = cluster(under_way("ledgers-zone-b-0", Departure.RECLAIMED), **FAST)
    assert turn(known, FLEET[0], gone, FLEET[2]) == []


def test_nobody_begins_while_another_bookie_leaves_for_good() -> None:
    assert turn(cluster(**FAST), *FLEET[:2], replace(FLEET[2], is_leaving=True)) == []


def test_who_is_to_leave_for_good_after_all_is_rebuilt_no_more() -> None:
    """A person named it, it began, and then the spec asked for fewer: it needs no new claims."""
    made = cluster(under_way("ledgers-zone-b-0", Departure.DRAINING))
    stays, goes = FLEET, (FLEET[0], replace(FLEET[1], is_leaving=True), FLEET[2])

    for cases, wanted in ((stays, ["ledgers-zone-b-0"]), (goes, [])):
        marked = rebuild.marked(made, cases, named=["ledgers-zone-b-0"])
        assert [one.name for one in marked if one.is_rebuilt] == wanted


@pytest.mark.parametrize(
    ("state", "is_held"),
    [
        (Departure.LEAVING, False),
        (Departure.DRAINING, True),
        (Departure.FORGETTING, True),
        (Departure.FORGOTTEN, False),
    ],
)
def test_who_leaves_a_drained_node_waits_for_who_has_begun_to_leave_for_good(state: Departure, is_held: bool) -> None:
    first, leaves, _ = FLEET
    made = cluster(under_way(leaves.name, state, rebuilds=False))

    marked = rebuild.marked(made, (first, replace(leaves, is_leaving=True)), anew=[first.name], drained=[first.name])

    assert [one.name for one in marked if one.is_rebuilt] == ([] if is_held else [first.name])


def test_who_does_not_serve_comes_first_since_the_others_wait_for_it() -> None:
    assert turn(cluster(**FAST), *FLEET[:2], replace(FLEET[2], report=None)) == ["ledgers-zone-c-0"]


@pytest.mark.parametrize("ended", [False, True])
def test_a_mate_whose_pod_was_evicted_needs_the_stateful_set_back(ended: bool) -> None:
    """A pod that the kubelet ended stands as Failed until its StatefulSet makes it anew."""
    first, mate, *_ = [one for one in fleet.decide(make.observation(make.fleet())).fleet if one.case.pool == "zone-a"]
    assert mate.case.pod is not None
    pod = replace(mate.case.pod, phase="Failed" if ended else "Running", has_ended=ended)
    rebuilt = replace(first, case=replace(first.case, is_leaving=True, is_rebuilt=True))

    needs = list(stateful_sets.needs_its_set((rebuilt, replace(mate, case=replace(mate.case, pod=pod))), rebuilt))

    assert bool(needs) is ended


def test_who_is_taken_off_what_it_gave_up_is_nobody_who_could_serve() -> None:
    """A pass may stop another bookie beside it, which `turns.at_most_one` judges."""
    away = RemoveBookie("ledgers-zone-a-0", "uid", "1", None, 1)

    assert leaving.LeavingPlan((), steps=(away,)).stopped == ()
    assert leaving.LeavingPlan((), steps=(replace(away, door=Door("10.0.0.1:3184")),)).stopped == (away.bookie,)
