"""What keeps a bookie from beginning to leave, and from losing its pod (spec/operator.md#J4, X7)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member, State, Verdict
from bookie_operator.evidence.facts import BookieCase, PodFacts
from bookie_operator.model.status import (
    BookieClusterStatus,
    Departure,
    HibernationState,
    HibernationStatus,
    LeavingStatus,
)
from bookie_operator.plan import fleet
from bookie_operator.plan.departure import hindrances, stateful_sets
from bookie_operator.plan.observation import Leadership, Observation

ONE, MATE, OTHER = "ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0"


def serving(case: BookieCase, **report: Any) -> BookieCase:
    """A bookie that takes writes, and says so to its kubelet and to the metadata store."""
    assert case.report is not None
    said = replace(case.report, **report)
    member = Member(case.bookie_id, True, True, is_writable=said.state is State.SERVING)
    return replace(case, report=said, member=member, is_listed=True)


def bookies(changes: dict[str, dict[str, Any]] | None = None, **reports: dict[str, Any]) -> tuple[BookieCase, ...]:
    """Four that serve; ONE is to leave. `changes`, by name: facts of a bookie; `one`, `other`: of their reports."""
    by_name = {ONE: reports.get("one", {}), OTHER: reports.get("other", {})}
    found = (serving(case, **by_name.get(case.name, {})) for case in make.fleet())
    known = {ONE: {"is_leaving": True}}
    return tuple(replace(case, **(known.get(case.name, {}) | (changes or {}).get(case.name, {}))) for case in found)


def look(cases: tuple[BookieCase, ...], **changes: Any) -> Observation:
    status = BookieClusterStatus(observed_generation=1, instance_id="instance", **changes.pop("status", {}))
    spec = changes.pop("spec", {})
    return make.observation(
        cases, status=status, spec_changes=spec, **({"children": make.rolled_out(**spec)} | changes)
    )


def closed(seen: Observation) -> str:
    every = fleet.assess(seen)
    return "; ".join(hindrances.of(seen, every, every[0]))


def closed_at_first(seen: Observation) -> str:
    every = fleet.assess(seen)
    return "; ".join(hindrances.to_begin(seen, every, every[0]))


def test_nothing_keeps_a_bookie_of_a_fleet_that_is_well() -> None:
    assert (closed(look(bookies())), closed_at_first(look(bookies()))) == ("", "")


REPAIRS = {"state": State.REPAIRING, "verdict": Verdict.UNCLEAN}


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (look(bookies(), spec={"lifecycle": {"paused": True, "terminationGrace": "2m"}}), "paused"),
        (look(bookies(), leadership=Leadership("operator-1", 7, is_held=False)), "lease"),
        (look(bookies(), record_problem="the record is damaged"), "the record is damaged"),
        (look(bookies(one={"operator_epoch_seen": 8})), "newer operator"),
        (look(bookies(one={"instance_id": "another"})), "metadata store another"),
        (look(bookies({ONE: {"is_listed": False}})), "no bookie"),
        (look(bookies(other=REPAIRS)), f"{OTHER} repairs itself first"),
        (look(bookies(other=REPAIRS | {"verdict": Verdict.LOST})), f"{OTHER} is without its data"),
    ],
    ids=["paused", "lease", "record", "epoch", "store", "unlisted", "limbo", "dataless"],
)
def test_nobody_loses_its_pod_while_one_gate_is_closed(seen: Observation, words: str) -> None:
    assert words in closed(seen)


SLEEPS = {"hibernation": HibernationStatus(state=HibernationState.WAITING, since="2027-01-15T08:00:00Z")}
READS_ALONE = {"state": State.READ_ONLY, "read_only": True}


def stranger() -> BookieCase:
    """One of another fleet in the same metadata store, which takes writes: nothing of ours may be moved there."""
    theirs = Member("theirs", has_cookie=True, is_registered=True, is_writable=True)
    return BookieCase("theirs", "theirs", "", None, (), is_desired=False, is_ours=False, member=theirs, is_listed=True)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (look(bookies(), spec={"lifecycle": {"hibernate": True, "terminationGrace": "2m"}}), "hibernates"),
        (look(bookies(), status=SLEEPS), "hibernates"),
        (look(bookies(one=REPAIRS)), "only a bookie that serves can leave"),
        (look(bookies({ONE: {"pod": make.pod(has_certificates=False)}})), "without TLS"),
        (look(bookies(other=READS_ALONE)), "2 other bookies take writes, and an ensemble needs 3"),
        (look((*bookies(other=READS_ALONE), stranger())), "2 other bookies take writes, and an ensemble needs 3"),
    ],
    ids=["asked to sleep", "sleeps", "not serving", "no TLS", "too few", "too few of ours"],
)
def test_nobody_begins_to_leave_while_one_gate_is_closed(seen: Observation, words: str) -> None:
    assert words in closed_at_first(seen)


def unready() -> PodFacts:
    """The pod of OTHER, which its kubelet does not call ready (yet)."""
    (pod,) = [case.pod for case in make.fleet() if case.name == OTHER and case.pod is not None]
    return replace(pod, is_ready=False)


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({}, True),
        ({"pod": unready()}, False),
        ({"member": Member("data.ledgers.zone-b.0", True, True, is_writable=False)}, False),
        ({"pod": unready(), "is_leaving": True}, True),  # nobody waits for who leaves for good
    ],
)
def test_nobody_begins_to_be_rebuilt_before_all_others_are_in_full_service(
    changes: dict[str, Any], is_open: bool
) -> None:
    spec = {"quorum": {"ensembleSize": 2, "writeQuorum": 2, "ackQuorum": 2}}
    seen = look(bookies({ONE: {"is_leaving": True, "is_rebuilt": True}, OTHER: changes}), spec=spec)

    assert (OTHER not in closed_at_first(seen)) is is_open


def test_a_stateful_set_that_is_not_there_says_nothing_of_how_many_bookies_it_runs() -> None:
    """Somebody may be making it anew over the same pods."""
    seen = look(bookies())
    away = replace(seen, children={})
    mate = next(case for case in seen.bookies if case.name == MATE)
    (live,) = [one for (kind, name), one in seen.children.items() if name == "ledgers-zone-a" and kind == "StatefulSet"]
    fewer = {("StatefulSet", "ledgers-zone-a"): live | {"spec": live["spec"] | {"replicas": 1}}}

    assert not stateful_sets.is_lowered(seen, mate)
    assert stateful_sets.is_lowered(replace(seen, children=fewer), mate)
    assert not stateful_sets.is_lowered(away, mate)


def test_who_is_rebuilt_is_off_only_when_its_pod_goes_and_no_stateful_set_makes_another() -> None:
    seen = look(bookies({ONE: {"is_leaving": True, "is_rebuilt": True}}))
    one = fleet.assess(seen)[0]
    stored = LeavingStatus(state=Departure.RETIRING, since="2027-01-15T08:00:00Z", rebuilds=True)
    goes = replace(one, case=replace(one.case, pod=make.pod(is_terminating=True)))
    away = replace(seen, children={})

    assert stateful_sets.is_removed(away, goes, stored)
    assert not stateful_sets.is_removed(seen, goes, stored)
    assert not stateful_sets.is_removed(away, one, stored), "its pod is still to be taken away"
