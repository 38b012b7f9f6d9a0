"""A fleet is ended only in a pass that saw every bookie refuse writes, all gates open (spec/operator.md#Z1 to Z4)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member, State
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.gateways.kube import Manifest
from bookie_operator.model.status import (
    BookieClusterStatus,
    Departure,
    HibernationState,
    HibernationStatus,
    LeavingStatus,
    RolloutStatus,
    RolloutStep,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet, hibernation
from bookie_operator.plan.actions import Apply, DeleteChild
from bookie_operator.plan.hibernation import Hibernation
from bookie_operator.plan.observation import Hindrance, Leadership, Observation
from bookie_operator.plan.stages import Assessed

FIRST, LAST, SET = "ledgers-zone-a-0", "ledgers-zone-c-0", ("StatefulSet", "ledgers-zone-c")
NOW, LONG_AGO_MS = format_time(make.NOW_MS), make.NOW_MS - 3_600_000
ASLEEP = {"hibernate": True, "terminationGrace": "2m"}
Change = Callable[[BookieCase], BookieCase]


def with_report(case: BookieCase, **changes: Any) -> BookieCase:
    assert case.report is not None
    return replace(case, report=replace(case.report, **changes))


def serving(case: BookieCase) -> BookieCase:
    assert case.pod is not None
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    return replace(case, pod=replace(case.pod, ready_since_ms=LONG_AGO_MS), member=member, is_listed=True)


def refusing(case: BookieCase) -> BookieCase:
    """It flushed for its turn, and its registration says that it takes no writes."""
    said = with_report(case, state=State.READ_ONLY, read_only=True, has_turn=True)
    return replace(said, member=Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=False))


def bookies(how: Change = serving, last: Change | None = None) -> tuple[BookieCase, ...]:
    """All as `how` says, and the last besides as `last` does."""
    found = tuple(how(serving(one)) for one in make.fleet())
    return tuple(last(one) if last is not None and one.name == LAST else one for one in found)


def seen(
    cases: tuple[BookieCase, ...] | None = None,
    state: HibernationState | None = None,
    *,
    lifecycle: dict[str, Any] | None = None,
    children: dict[tuple[str, str], Manifest] | None = None,
    status: dict[str, Any] | None = None,
    **changes: Any,
) -> Observation:
    """A fleet that is to sleep, and whose stored state is `state`."""
    stored = HibernationStatus(state=state, since=NOW) if state is not None else None
    known = BookieClusterStatus(observed_generation=1, instance_id="instance", hibernation=stored, **(status or {}))
    return make.observation(
        bookies() if cases is None else cases,
        status=known,
        spec_changes={"lifecycle": ASLEEP if lifecycle is None else lifecycle},
        children=make.rolled_out() if children is None else children,
        **changes,
    )


def decided(of: Observation, change: Callable[[Assessed], Assessed] = lambda one: one) -> Hibernation:
    every = tuple(change(one) if one.case.name == LAST else one for one in fleet.assess(of))
    return hibernation.decide(of, every, of.pools)


def ended(found: Hibernation) -> list[str]:
    return [one.stateful_set for one in found.action.scales] if found.action is not None else []


ALL = ["ledgers-zone-a", "ledgers-zone-b", "ledgers-zone-c"]
STOPPING = HibernationState.STOPPING


def test_all_flush_in_one_pass_and_end_in_another_that_saw_them_refuse_writes() -> None:
    first, second = decided(seen()), decided(seen(bookies(refusing), STOPPING))

    assert first.action is not None
    assert (len(first.action.flushes), ended(first), first.state) == (4, [], STOPPING)
    assert (ended(second), second.state) == (ALL, STOPPING)


def writing(case: BookieCase) -> BookieCase:
    """Its turn ended by itself, and the list of registrations is of before that."""
    return with_report(case, state=State.SERVING, read_only=False, has_turn=False)


def unannounced(case: BookieCase) -> BookieCase:
    assert case.member is not None
    return replace(case, member=replace(case.member, is_writable=True))


@pytest.mark.parametrize(
    "of",
    [
        seen(bookies(refusing)),
        seen(bookies(refusing, writing), STOPPING),
        seen(bookies(refusing, unannounced), STOPPING),
    ],
    ids=["not stored yet", "one takes writes again", "one is listed as writable"],
)
def test_nobody_ends_while_one_word_of_it_is_missing(of: Observation) -> None:
    found = decided(of)

    assert ended(found) == []
    assert found.action is not None, "they flush once more"


def without(case: BookieCase) -> BookieCase:
    """Nobody knows that the claim of its ledger volume holds its data."""
    volumes = []
    for one in case.volumes:
        assert one.claim is not None
        bare = replace(one, recorded=None, claim=replace(one.claim, marks=None))
        volumes.append(bare if one.name == "ledgers" else one)
    return replace(case, volumes=tuple(volumes))


def evicted(case: BookieCase) -> BookieCase:
    assert case.pod is not None
    return replace(case, pod=replace(case.pod, evicted_by="PreemptionByScheduler"))


def holding(case: BookieCase) -> BookieCase:
    """It keeps ledgers that the metadata store has no more."""
    return with_report(case, garbage_held_ledgers=3)


def of(change: Change, *, all_of_them: bool = False) -> dict[str, Any]:
    """The last one is so, or all are."""
    return {"change": change, "all_of_them": all_of_them}


STEP = RolloutStep(bookie=LAST, pod_uid=f"pod-{LAST}", begun_at=NOW)
NO_SET = {key: one for key, one in make.rolled_out().items() if key != SET}
GATES: dict[str, tuple[dict[str, Any], str]] = {
    "paused": ({"lifecycle": ASLEEP | {"paused": True}}, "paused"),
    "no lease": ({"leadership": Leadership("operator-1", 7, is_held=False)}, "lease"),
    "no record": ({"record_problem": "the record is damaged"}, "the record is damaged"),
    "nobody listed": ({"members_problem": "nobody answers"}, "nobody answers"),
    "a turn": ({"status": {"rollout": RolloutStatus(inputs="", desired=4, updated=3, step=STEP)}}, "the turn of"),
    "repairs": (of(lambda case: with_report(case, state=State.REPAIRING)), "is Limbo"),
    "an emptied store": (of(holding, all_of_them=True), "no longer has"),
    "a newer operator": (of(lambda case: with_report(case, operator_epoch_seen=8)), "newer operator"),
    "another store": (of(lambda case: with_report(case, instance_id="another")), "metadata store another"),
    "no StatefulSet": ({"children": NO_SET}, "no StatefulSet runs"),
    "about to go": (of(evicted), "is about to be deleted"),
    "no claim of its own": (of(without), "not known to hold its data"),
}


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("how", [serving, refusing])
def test_with_one_gate_closed_nobody_flushes_and_nobody_ends(gate: str, how: Change) -> None:
    """Whose turn was begun takes writes again, but where this operator may do nothing."""
    changes, word = GATES[gate]
    state = STOPPING if how is refusing else None
    facts = {key: one for key, one in changes.items() if key not in ("change", "all_of_them")}
    cases = bookies(how, changes.get("change"))
    if changes.get("all_of_them"):
        cases = tuple(changes["change"](one) for one in cases)

    found = decided(seen(cases, state, **facts))

    assert found.action is None
    assert found.status is not None
    assert word in (found.status.waiting_for or "")
    assert bool(found.resumes) == (how is refusing and gate not in ("paused", "no lease"))


def test_a_bookie_that_leaves_or_is_without_its_data_is_waited_for() -> None:
    drains = LeavingStatus(state=Departure.DRAINING, since=NOW)

    leaving = decided(seen(), lambda one: replace(one, leaving=drains))
    empty = decided(seen(), lambda one: replace(one, stage=fleet.Stage.REPAIRING, has_loss=True))

    for found, word in ((leaving, "leaves the fleet"), (empty, "heals first")):
        assert found.action is None
        assert found.status is not None
        assert word in (found.status.waiting_for or "")


# ---- waking up ----------------------------------------------------------------------------------------------------


def sets(replicas: int | None, **metadata: str) -> dict[tuple[str, str], Manifest]:
    """The StatefulSet of the last zone runs so many."""
    found = make.rolled_out()
    live = found[SET]
    return found | {
        SET: live | {"spec": live["spec"] | {"replicas": replicas}, "metadata": live["metadata"] | metadata}
    }


def test_only_numbers_that_were_lowered_are_raised() -> None:
    off = bookies(last=lambda case: replace(case, pod=None, report=None))
    awake = {"terminationGrace": "2m"}

    def raised(children: dict[tuple[str, str], Manifest]) -> list[tuple[str, int]]:
        found = decided(seen(off, HibernationState.HIBERNATED, lifecycle=awake, children=children))
        return [(one.stateful_set, one.replicas) for one in found.scales]

    assert raised(sets(0)) == [("ledgers-zone-c", 1)]
    assert raised(sets(1)) == []
    assert raised(sets(0, deletionTimestamp=NOW)) == [], "what goes is made anew"


# ---- which state -----------------------------------------------------------------------------------------------------

HIBERNATED, WAKING, AWAKE = HibernationState.HIBERNATED, HibernationState.WAKING, {"terminationGrace": "2m"}


def off(case: BookieCase) -> BookieCase:
    return replace(case, pod=None, report=None)


def going(case: BookieCase) -> BookieCase:
    case = refusing(case)
    assert case.pod is not None
    return replace(case, pod=replace(case.pod, is_terminating=True))


def all_sets(replicas: int) -> dict[tuple[str, str], Manifest]:
    return {
        key: live | {"spec": live["spec"] | {"replicas": replicas}} if key[0] == "StatefulSet" else live
        for key, live in make.rolled_out().items()
    }


@pytest.mark.parametrize(
    ("how", "runs", "was", "expected"),
    [
        (off, 0, STOPPING, HIBERNATED),
        (off, 0, HIBERNATED, HIBERNATED),
        (off, 0, None, HIBERNATED),
        (off, 0, WAKING, STOPPING),
        (going, 0, STOPPING, STOPPING),
        (off, 1, STOPPING, WAKING),
        (refusing, 1, STOPPING, STOPPING),
    ],
    ids=["no pod is left", "asleep", "no word of it is left", "it woke", "pods end", "nobody ended them", "all refuse"],
)
def test_a_fleet_is_asleep_when_no_pod_is_there_and_none_will_come(
    how: Change, runs: int, was: HibernationState | None, expected: HibernationState
) -> None:
    assert decided(seen(bookies(how), was, children=all_sets(runs))).state is expected


def test_a_state_keeps_its_beginning_and_another_begins_now() -> None:
    long_ago = format_time(LONG_AGO_MS)

    def since(was: HibernationState) -> str:
        of = seen(bookies(off), was, children=all_sets(0))
        stored = HibernationStatus(state=was, since=long_ago)
        status = of.cluster.status.model_copy(update={"hibernation": stored})
        found = decided(replace(of, cluster=replace(of.cluster, status=status))).status
        assert found is not None
        return found.since

    assert (since(HIBERNATED), since(STOPPING)) == (long_ago, NOW)


@pytest.mark.parametrize(
    "of", [seen(members_problem="nobody answers"), seen(bookies(last=off))], ids=["nobody listed", "one is away"]
)
def test_a_gate_that_is_closed_at_the_beginning_lets_nobody_wake_and_nobody_wait(of: Observation) -> None:
    found = decided(of)

    assert (found.state, found.has_the_turn, found.resumes) == (HibernationState.WAITING, False, ())


@pytest.mark.parametrize("state", [Departure.LEAVING, Departure.FORGOTTEN])
def test_who_has_yet_to_begin_to_leave_and_who_has_left_keep_nobody_awake(state: Departure) -> None:
    leaving = LeavingStatus(state=state, since=NOW)

    assert decided(seen(), lambda one: replace(one, leaving=leaving)).action is not None


def test_who_is_stopped_is_asked_for_nothing_and_what_runs_none_is_not_scaled() -> None:
    found = decided(seen(bookies(refusing, going), STOPPING, children=sets(0)))

    assert found.action is not None
    assert LAST not in {one.bookie for one in found.action.flushes}
    assert ended(found) == ["ledgers-zone-a", "ledgers-zone-b"]
    assert found.off == {LAST}


def test_why_a_bookie_does_not_flush_is_told_in_its_own_words() -> None:
    why = Hindrance(f"{LAST} cannot flush: no space left on device")

    found = decided(seen(hindrances={f"pod-{LAST}": why}))

    assert found.status is not None
    assert found.status.waiting_for == why.text


def test_awake_is_a_fleet_whose_pods_are_all_there_and_take_writes() -> None:
    def woken(*cases: BookieCase, **changes: Any) -> Hibernation:
        return decided(seen(cases, WAKING, lifecycle=AWAKE, **changes))

    *others, last = bookies()
    assert woken(*others, last).status is None
    assert woken(*others, off(last)).off == {LAST}
    assert woken(*others, going(last)).off == {LAST}
    refuses = woken(*others, refusing(last))
    assert (refuses.state, [one.bookie for one in refuses.resumes]) == (WAKING, [LAST])


def test_nobody_who_wakes_waits_for_a_set_that_must_not_be_there() -> None:
    of = seen(bookies(last=off), WAKING, lifecycle=AWAKE, children=NO_SET)
    every = fleet.assess(of)

    assert hibernation.decide(of, every, of.pools, {"zone-c"}).status is None
    assert hibernation.decide(of, every, of.pools).anew == {"ledgers-zone-c"}


def test_a_set_that_can_make_no_pod_is_made_as_the_spec_says_and_not_scaled_besides() -> None:
    of = seen(bookies(last=off), WAKING, lifecycle=AWAKE, children=sets(0), said={"StatefulSet ledgers-zone-c": "no"})

    found = decided(of)

    assert (found.anew, found.scales) == ({"ledgers-zone-c"}, ())
    anew, other = (Apply({"kind": "StatefulSet", "metadata": {"name": name}}) for name in ("ledgers-zone-c", ALL[0]))
    gone = DeleteChild("StatefulSet", "ledgers-zone-c", "uid", "1", "it goes")
    assert [found.may_change(one) for one in (anew, other, gone)] == [True, False, False]
    assert found.may_change(Apply({"kind": "Service", "metadata": {"name": "ledgers-zone-c"}}))
    assert hibernation.Hibernation().may_change(gone)


@pytest.mark.parametrize(
    ("state", "has_begun", "is_asleep"),
    [
        (None, False, False),
        (HibernationState.WAITING, False, False),
        (STOPPING, True, True),
        (HIBERNATED, True, True),
        (WAKING, True, False),
    ],
)
def test_what_a_stored_state_says(state: HibernationState | None, has_begun: bool, is_asleep: bool) -> None:
    status = seen(state=state).cluster.status

    assert (hibernation.has_begun(status), hibernation.is_asleep(status)) == (has_begun, is_asleep)


def test_who_is_away_by_himself_was_not_put_to_sleep() -> None:
    """His StatefulSet runs him."""
    unasked = decided(seen(bookies(last=off), STOPPING, lifecycle=ASLEEP | {"paused": True}))
    without_set = decided(seen(bookies(last=off), STOPPING, lifecycle=ASLEEP | {"paused": True}, children=NO_SET))

    assert (unasked.off, without_set.off) == (frozenset(), {LAST})
