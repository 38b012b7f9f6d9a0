"""The end of a bookie that leaves: no order to forget it, and no claim deleted, while one word of the proof is missing
(spec/operator.md#J2, J5 to J8)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Contents, Member, References, State
from bookie_operator.evidence.facts import BookieCase, ClaimFacts
from bookie_operator.model import names
from bookie_operator.model.status import (
    BookieClusterStatus,
    BookieStatus,
    Departure,
    HibernationState,
    HibernationStatus,
    LeavingStatus,
    Process,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan import leaving as leaving_of
from bookie_operator.plan.actions import DeleteChild, ForgetBookie, MarkClaim, RemoveBookie
from bookie_operator.plan.departure import never_lived, reclaiming, retiring
from bookie_operator.plan.departure.state import Next
from bookie_operator.plan.observation import Leadership, Observation
from bookie_operator.plan.stages import Assessed

HOUR_MS = 3_600_000
READER = "ledgers-zone-b-0"
DELETES = {"retention": {"onScaleDown": "Delete", "keepFor": "1h"}}
COOKIE = Member("data.ledgers.zone-a.0", has_cookie=True, is_registered=False)


def look(**changes: Any) -> dict[str, Any]:
    clean = {"by": "b", "at": format_time(make.NOW_MS - HOUR_MS), "references": 0, "instance_id": "instance"}
    return clean | changes


def leaving(state: Departure, *looks: dict[str, Any], **changes: Any) -> LeavingStatus:
    """A departure with these looks; without any, with the two that are the proof."""
    told = {"state": state, "since": format_time(make.NOW_MS - HOUR_MS), "looks": looks or (look(), look(by="c"))}
    return LeavingStatus.model_validate(told | changes)


def gone(**changes: Any) -> BookieCase:
    """The first bookie of zone-a, without pod and cookie; its claims are marked as those of one that left."""
    case = make.bookie_case()
    when = format_time(make.NOW_MS - HOUR_MS)
    volumes = tuple(
        replace(one, claim=replace(one.claim, retired_at=when, is_labelled=True)) for one in case.volumes if one.claim
    )
    there = {"volumes": volumes, "pod": None, "report": None, "is_listed": True, "is_leaving": True}
    return replace(case, **(there | changes))


def with_claims(case: BookieCase, **changes: Any) -> BookieCase:
    volumes = (replace(one, claim=replace(one.claim, **changes)) for one in case.volumes if one.claim)
    return replace(case, volumes=tuple(volumes))


def sight(case: BookieCase, *, storage: dict[str, Any] | None = None, **changes: Any) -> Observation:
    spec = {"storage": make.spec()["storage"] | (DELETES if storage is None else storage)}
    known = BookieClusterStatus(observed_generation=1, instance_id="instance")
    return make.observation(make.fleet(case), status=known, spec_changes=spec, **changes)


def judged(seen: Observation, **changes: Any) -> tuple[tuple[Assessed, ...], Assessed]:
    first, *others = fleet.assess(seen)
    one = replace(first, **({"processes": ()} | changes))
    return (one, *others), one


def deleted(found: Next | None) -> set[str]:
    return {one.name for one in found.actions if isinstance(one, DeleteChild)} if found is not None else set()


# ---- claims of a bookie that left ---------------------------------------------------------------------------------

CLAIMS = {f"{name}-ledgers-zone-a-0" for _, name in make.ROLES}


def reclaimed(case: BookieCase | None = None, stored: LeavingStatus | None = None, **changes: Any) -> Next:
    seen = sight(case if case is not None else gone(), **changes)
    every, one = judged(seen)
    return reclaiming.step(seen, every, one, stored or forgotten())


def forgotten(*looks: dict[str, Any], ago_ms: int = HOUR_MS, **changes: Any) -> LeavingStatus:
    return leaving(Departure.FORGOTTEN, *looks, forgotten_at=format_time(make.NOW_MS - ago_ms), **changes)


def test_claims_of_a_bookie_that_left_by_proof_go_when_the_spec_and_the_time_say_so() -> None:
    found = reclaimed()

    assert deleted(found) == CLAIMS
    assert found.status is not None
    assert found.status.state is Departure.RECLAIMED
    unwanted = gone(name="ledgers-zone-a-7")
    assert deleted(reclaimed(unwanted)) == CLAIMS
    assert deleted(reclaimed(unwanted, forgotten(ago_ms=HOUR_MS - 1_000))) == set()
    of_a_smaller_pool = gone(name="ledgers-zone-b-1", pool="zone-b")
    assert deleted(reclaimed(of_a_smaller_pool, forgotten(ago_ms=HOUR_MS - 1_000))) == set()
    assert deleted(reclaimed(stored=forgotten(ago_ms=0))) == CLAIMS, "its number is wanted again"


@pytest.mark.parametrize(
    "doubt",
    [
        {"storage": {"retention": {"onScaleDown": "Retain"}}},
        {"case": gone(is_listed=False)},
        {"record_problem": "the record is damaged"},
        {"stored": forgotten(look())},
        {"stored": forgotten(look(), look())},
        {"stored": forgotten(look(), look(by="c", references=1))},
        {"stored": forgotten(look(unreadable=1), look(by="c"))},
        {"stored": forgotten(look(), look(by="c", instance_id="another"))},
        {"case": with_claims(gone(), retired_at="", marks=None)},
        {"case": gone(member=COOKIE)},
        {"case": gone(pod=make.pod())},
        {"case": gone(name="ledgers-zone-a-2"), "stored": forgotten(ago_ms=HOUR_MS - 1_000)},
    ],
    ids=[
        "kept by the spec",
        "nobody listed",
        "no record",
        "one look",
        "twice by the same",
        "named",
        "unreadable",
        "another store",
        "not marked",
        "its cookie is back",
        "its pod is back",
        "the first number that nobody wants, too early",
    ],
)
def test_no_claim_is_deleted_while_one_word_of_the_proof_is_missing(doubt: dict[str, Any]) -> None:
    assert deleted(reclaimed(**doubt)) == set()


def test_claims_are_marked_in_a_pass_before_they_go() -> None:
    found = reclaimed(with_claims(gone(), retired_at=""))

    assert {one.name for one in found.actions if isinstance(one, MarkClaim)} == CLAIMS
    assert deleted(found) == set()


def test_a_claim_that_goes_already_is_not_deleted_again() -> None:
    assert deleted(reclaimed(with_claims(gone(), is_terminating=True))) == set()


def test_one_without_claims_is_forgotten_when_somebody_has_looked_whether_its_cookie_is_gone() -> None:
    assert reclaimed(gone(volumes=())).status is None
    assert reclaimed(gone(volumes=(), is_listed=False)).status is not None


def test_a_paused_operator_deletes_no_claim_and_takes_no_pod() -> None:
    known = {"name": "ledgers-zone-a-0", "bookie_id": "data.ledgers.zone-a.0", "pool": "zone-a", "state": "Missing"}
    before = BookieStatus(**known, verdict="", reason="", since=format_time(make.NOW_MS), leaving=forgotten())
    status = BookieClusterStatus(observed_generation=1, instance_id="instance", bookies=(before,))
    storage = make.spec()["storage"] | DELETES

    def plan(*, paused: bool) -> list[str]:
        spec = {"storage": storage, "lifecycle": {"paused": paused, "terminationGrace": "2m"}}
        seen = make.observation(make.fleet(gone()), status=status, spec_changes=spec)
        _, found = leaving_of.decide(seen, fleet.assess(seen))
        return [str(one) for one in (*found.actions, *found.steps)]

    assert len(plan(paused=False)) == len(CLAIMS)
    assert plan(paused=True) == []


def test_no_claim_is_deleted_while_the_fleet_wakes_up() -> None:
    """Nobody else has the turn then, and nobody looks at the same fleet twice."""
    known = {"name": "ledgers-zone-a-0", "bookie_id": "data.ledgers.zone-a.0", "pool": "zone-a", "state": "Missing"}
    before = BookieStatus(**known, verdict="", reason="", since=format_time(make.NOW_MS), leaving=forgotten())
    spec = {"storage": make.spec()["storage"] | DELETES}

    def claims(asleep: HibernationStatus | None) -> set[str]:
        status = BookieClusterStatus(
            observed_generation=1, instance_id="instance", bookies=(before,), hibernation=asleep
        )
        children = make.rolled_out(**spec)
        seen = make.observation(make.fleet(gone()), status=status, spec_changes=spec, children=children)
        actions = fleet.decide(seen).actions
        return {one.name for one in actions if isinstance(one, DeleteChild) and one.kind == "PersistentVolumeClaim"}

    assert claims(None) == CLAIMS
    assert claims(HibernationStatus(state=HibernationState.WAKING, since=format_time(make.NOW_MS))) == set()


def rebuilt(**changes: Any) -> Next:
    return reclaimed(stored=forgotten(rebuilds=True), **({"storage": {}} | changes))


def test_the_claims_of_one_that_is_rebuilt_go_whatever_the_spec_keeps_and_by_the_same_proof() -> None:
    assert deleted(rebuilt()) == CLAIMS
    assert deleted(rebuilt(record_problem="the record is damaged")) == set()
    assert deleted(reclaimed(stored=forgotten(look(), rebuilds=True))) == set()


def test_the_claims_of_one_that_is_rebuilt_stay_while_its_process_may_run_or_another_needs_the_set() -> None:
    seen = sight(gone(), storage={})
    stored = forgotten(rebuilds=True)
    every, running = judged(seen, leaving=stored, processes=(Process(pod_uid="pod-1", node="node-a"),))
    assert deleted(reclaiming.step(seen, every, running, stored)) == set()

    every, one = judged(seen, leaving=stored)
    assert deleted(reclaiming.step(seen, every, one, stored)) == CLAIMS
    alone = (one, *(replace(mate, case=replace(mate.case, pod=None)) for mate in every[1:]))
    assert deleted(reclaiming.step(seen, alone, one, stored)) == set()


@pytest.mark.parametrize(
    "doubt",
    [
        {"case": gone(pod=make.pod(), is_listed=False)},
        {"record_problem": "the record is damaged"},
        {"leadership": Leadership("me", 7, is_held=False)},
    ],
    ids=["nobody listed", "no record", "no lease"],
)
def test_a_pod_that_came_back_on_old_claims_stays_while_nobody_knows_whose_it_is(doubt: dict[str, Any]) -> None:
    """Another one of the pool needed the StatefulSet, which made this pod as well."""
    there = {"case": gone(pod=make.pod())}

    assert [isinstance(one, RemoveBookie) for one in rebuilt(**there).steps] == [True]
    held = rebuilt(**(there | doubt))

    assert (held.steps, held.actions) == ((), ())
    assert held.status is not None


@pytest.mark.parametrize(
    ("marks", "is_ended"),
    [({"retired_at": ""}, True), ({"marks": None}, True), ({"retired_at": "", "marks": None}, False)],
    ids=["of one that lived", "of one that left", "new ones"],
)
def test_the_pod_of_one_that_is_rebuilt_goes_by_either_mark_of_its_claims(
    marks: dict[str, Any], *, is_ended: bool
) -> None:
    found = rebuilt(case=with_claims(gone(pod=make.pod()), **marks))

    assert [isinstance(one, RemoveBookie) for one in found.steps] == [True] * is_ended


@pytest.mark.parametrize(("node", "is_ended"), [("node-a", True), ("", False)])
def test_a_pod_that_waits_for_new_claims_stays_while_the_old_ones_go(node: str, *, is_ended: bool) -> None:
    """Kubernetes gives no node to one whose claims are being deleted."""
    found = rebuilt(case=with_claims(gone(pod=make.pod(node=node)), is_terminating=True))

    assert [isinstance(one, RemoveBookie) for one in found.steps] == [True] * is_ended
    assert found.status is not None
    assert found.status.waiting_for


def test_claims_are_marked_with_the_time_at_which_their_bookie_was_forgotten() -> None:
    stored = forgotten().model_copy(update={"forgotten_at": "2026-01-01T00:00:00Z", "since": "2026-02-02T00:00:00Z"})

    found = reclaimed(case=with_claims(gone(), retired_at=""), stored=stored)

    told = [dict(one.annotations) for one in found.actions if isinstance(one, MarkClaim)]
    assert told == [{names.RETIRED_AT: "2026-01-01T00:00:00Z"}] * len(CLAIMS)
    assert reclaimed(case=with_claims(gone(), retired_at="", marks=None)).actions == (), "nobody knows whose they are"


def test_one_that_left_and_whose_cookie_is_back_begins_to_leave_anew() -> None:
    back = gone(member=COOKIE)

    found = reclaimed(case=back)
    stays = reclaimed(case=replace(back, is_leaving=False))

    assert found.status is not None
    assert (found.status.state, found.actions, stays.status) == (Departure.LEAVING, (), None)


# ---- a bookie that never held data --------------------------------------------------------------------------------


def young(**changes: Any) -> BookieCase:
    case = gone(**changes)
    bare = with_claims(case, retired_at="", marks=None)
    return replace(bare, volumes=tuple(replace(one, report=None, recorded=None) for one in bare.volumes))


def of_the_young(
    case: BookieCase | None = None,
    *,
    pod_before: str | None = None,
    is_last: bool = True,
    processes: tuple[Process, ...] | None = (),
    **changes: Any,
) -> Next | None:
    seen = sight(case if case is not None else young(), **changes)
    _, one = judged(seen, processes=processes)
    known = {"name": one.case.name, "bookie_id": one.case.bookie_id, "pool": one.case.pool, "state": "Missing"}
    before = BookieStatus(**known, verdict="", reason="", since=format_time(make.NOW_MS), pod_uid=pod_before)
    stored = leaving(Departure.RETIRING, never_lived=True)
    return never_lived.step(seen, replace(one, previous=before), stored, is_last=is_last)


def test_claims_that_never_held_data_go_without_a_proof() -> None:
    assert deleted(of_the_young()) == CLAIMS


@pytest.mark.parametrize(
    "doubt",
    [
        {"pod_before": "pod-1"},
        {"processes": None},
        {"processes": (Process(pod_uid="pod-1", node="node-a"),)},
        {"is_last": False},
        {"record_problem": "the record is damaged"},
        {"leadership": Leadership("me", 7, is_held=False)},
        {"case": young(is_listed=False)},
        {"case": young(member=COOKIE)},
        {"case": young(pod=make.pod(phase="Pending", is_ready=False))},
        {"case": with_claims(young(), is_labelled=False)},
        {"case": with_claims(young(), marks=make.marks("claim", "fs"))},
        {"case": young(other_claims=(replace(gone().volumes[0].claim, name="renamed"),))},  # type: ignore[type-var]
    ],
    ids=[
        "its pod was there in the pass before",
        "nobody knows what ran",
        "a process may run",
        "not the last",
        "no record",
        "no lease",
        "nobody listed",
        "it has a cookie",
        "its pod is there",
        "a person's claims",
        "marked",
        "marked, and renamed",
    ],
)
def test_no_claim_of_a_young_bookie_is_deleted_while_it_may_hold_data(doubt: dict[str, Any]) -> None:
    assert deleted(of_the_young(**doubt)) == set()


def held_nothing(case: BookieCase, **previous: Any) -> bool:
    _, one = judged(sight(case))
    known = {"name": one.case.name, "bookie_id": one.case.bookie_id, "pool": one.case.pool, "state": "Missing"}
    before = BookieStatus(**known, verdict="", reason="", since=format_time(make.NOW_MS), **previous)
    return never_lived.never_held_data(replace(one, previous=before))


def test_a_bookie_held_nothing_only_where_nobody_knows_of_it_and_all_that_it_has_is_empty() -> None:
    nobody = Member("data.ledgers.zone-a.0", has_cookie=False, is_registered=True)
    full, recorded = make.bookie_case().volumes[0].report, make.bookie_case().volumes[0].recorded
    assert full is not None

    def having(**changes: Any) -> BookieCase:
        case = young()
        return replace(case, volumes=(replace(case.volumes[0], **changes), *case.volumes[1:]))

    assert held_nothing(young())
    assert held_nothing(having(report=make.changed(full, contents=Contents.EMPTY)))
    assert not held_nothing(having(report=full))
    assert not held_nothing(having(recorded=recorded))
    assert not held_nothing(having(claim=ClaimFacts("claim", "uid", 0, contents_found="UNKNOWN")))
    assert not held_nothing(young(is_listed=False))
    assert not held_nothing(young(member=nobody))
    assert not held_nothing(young(), has_lived=True)
    unstored = {"incarnation": 0, "volumes": ()}
    quiet = make.report(state=State.WAITING_GRANT, cookie_present=False, **unstored)
    assert held_nothing(young(report=quiet))
    assert not held_nothing(young(report=replace(quiet, cookie_present=True)))
    assert not held_nothing(young(report=replace(quiet, state=State.SERVING)))


def test_that_it_held_nothing_is_stored_before_anything_goes() -> None:
    seen = sight(young())
    _, one = judged(seen)

    found = never_lived.step(seen, one, leaving(Departure.LEAVING), is_last=True)

    assert found is not None
    assert (found.actions, found.steps) == ((), ())
    assert found.status is not None
    assert (found.status.state, found.status.never_lived) == (Departure.RETIRING, True)


# ---- the order to forget ------------------------------------------------------------------------------------------


def empty(count: int = 0, **changes: Any) -> BookieCase:
    """One whose pod is gone, and of which a peer has just looked which ledgers name it."""
    found = References("data.ledgers.zone-a.0", count, unreadable=changes.pop("unreadable", 0))
    return gone(**({"member": COOKIE, "references": found, "references_by": READER} | changes))


def orders(found: Next) -> list[str]:
    return [one.bookie for one in found.steps if isinstance(one, ForgetBookie)]


def retired(case: BookieCase | None = None, stored: LeavingStatus | None = None, **changes: Any) -> Next:
    processes = changes.pop("processes", ())
    seen = sight(case if case is not None else empty(), **changes)
    every, one = judged(seen, processes=processes)
    return retiring.retired(seen, every, one, stored or leaving(Departure.RETIRING))


def test_who_is_proven_and_has_ended_is_forgotten_and_that_is_stored_with_the_last_look() -> None:
    found = retired()

    assert orders(found) == ["ledgers-zone-a-0"]
    assert found.status is not None
    assert (found.status.state, [one.by for one in found.status.looks]) == (Departure.FORGETTING, ["b", "c", READER])


@pytest.mark.parametrize(
    "doubt",
    [
        {"case": empty(pod=make.pod())},
        {"processes": (Process(pod_uid="pod-1", node="node-a"),)},
        {"processes": None},
        {"case": empty(is_listed=False)},
        {"record_problem": "the record is damaged"},
        {"case": empty(member=replace(COOKIE, is_registered=True))},
        {"stored": leaving(Departure.RETIRING, look())},
        {"stored": leaving(Departure.RETIRING, look(), look())},
        {"stored": leaving(Departure.RETIRING, look(), look(by="c", instance_id="another"))},
        {"case": empty(references=None)},
        {"case": empty(1)},
        {"case": empty(1, unreadable=1)},
    ],
    ids=[
        "its pod is there",
        "a process may run",
        "nobody knows what ran",
        "nobody listed",
        "no record",
        "registered",
        "one look",
        "twice by the same",
        "another store",
        "no third look",
        "named",
        "unreadable",
    ],
)
def test_nobody_is_told_to_forget_while_one_word_of_the_proof_is_missing(doubt: dict[str, Any]) -> None:
    found = retired(**doubt)

    assert orders(found) == []
    assert found.status is not None
    assert found.status.state in (Departure.RETIRING, Departure.LEAVING)


def test_who_is_named_again_comes_back_and_leaves_anew() -> None:
    found = retired(empty(1))

    assert found.status is not None
    assert (found.status.state, found.status.looks) == (Departure.LEAVING, ())


def test_a_cookie_that_is_gone_is_forgotten_unless_a_process_runs_without_it() -> None:
    without = replace(COOKIE, has_cookie=False, is_registered=True)

    states = [
        found.status.state for case in (empty(member=None), empty(member=without)) if (found := retired(case)).status
    ]

    assert states == [Departure.FORGOTTEN, Departure.RETIRING]


def asked(case: BookieCase | None = None, *proof: dict[str, Any], ago_ms: int = 60_000, **changes: Any) -> Next:
    """A pass after a peer was asked to forget the bookie. `proof`: the first two looks, else clean ones."""
    third = look(by=READER, at=format_time(make.NOW_MS - ago_ms))
    stored = leaving(Departure.FORGETTING, *(proof or (look(), look(by="c"))), third, cookie_version=3)
    seen = sight(case if case is not None else empty(), **changes)
    every, one = judged(seen)
    return retiring.forgetting(seen, every, one, stored)


def test_a_peer_is_asked_again_only_with_another_clean_look() -> None:
    assert orders(asked()) == ["ledgers-zone-a-0"]
    for doubt in (empty(references=None), empty(1), empty(1, unreadable=1), empty(pod=make.pod())):
        assert orders(asked(doubt)) == []
    assert orders(asked(empty(member=replace(COOKIE, is_registered=True)))) == []
    assert orders(asked(empty(is_listed=False))) == orders(asked(record_problem="damaged")) == []


def test_a_proof_of_another_metadata_store_lets_no_peer_be_asked_again() -> None:
    """Whether its StatefulSet went with the resource or not."""
    elsewhere = (look(instance_id="another"), look(by="c", instance_id="another"))
    orphan = empty(is_desired=False, is_leaving=False)

    assert orders(asked(orphan)) == ["ledgers-zone-a-0"]
    assert orders(asked(orphan, *elsewhere)) == []
    assert orders(asked(empty(), *elsewhere)) == []


def test_who_is_wanted_again_comes_back_when_no_order_can_still_be_on_its_way() -> None:
    wanted = empty(is_leaving=False)
    settles = retiring.FORGET_SETTLES_MS

    early, due = asked(wanted, ago_ms=settles - 1_000), asked(wanted, ago_ms=settles)

    assert early.status is not None
    assert early.status.state is Departure.FORGETTING
    assert due.status is None
    assert orders(early) == orders(due) == []
    named = asked(empty(1), ago_ms=settles)
    assert named.status is not None
    assert named.status.state is Departure.LEAVING
