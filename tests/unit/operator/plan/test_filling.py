"""Nobody is stopped while another bookie may lack what was written in its absence (spec/operator.md#Q9)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.base.ids import LedgerId
from bookie.ports.admin import BlockedLedger, FillStatus, Member, State
from bookie_operator.evidence.facts import BookieCase, Door
from bookie_operator.model.status import BookieClusterStatus, HibernationState, HibernationStatus
from bookie_operator.plan import filling, fleet
from bookie_operator.plan.actions import FillHoles, StopBookie
from bookie_operator.plan.observation import Leadership, Observation
from bookie_operator.plan.rollout import Rollout
from bookie_operator.plan.stages import Assessed
from bookie_operator.status import conditions

FIRST, LAST = "ledgers-zone-a-0", "ledgers-zone-c-0"
AUTOMATIC = {"strategy": "Automatic", "soakSeconds": 10}
DOOR = Door("10.0.0.1:3184", "cluster-uid")
BLOCKED = FillStatus(
    began_ms_ago=70_000,
    ended_ms_ago=5_000,
    blocked=(BlockedLedger(LedgerId(7), "entry 5: data.ledgers.zone-b.0: it has it not"),),
    blocked_count=1,
)
WHOLE = FillStatus(began_ms_ago=70_000, ended_ms_ago=60_000, is_whole=True)


def bookies() -> tuple[BookieCase, ...]:
    """All serve, registered and ready for long; the first is of an older revision and spec."""
    out = []
    for one in make.fleet():
        assert one.pod is not None
        ready = {"ready_since_ms": make.NOW_MS - 3_600_000, "inputs": "v1-older", "resource_version": "5"}
        older = {"revision": "rev-0"} if one.name == FIRST else {}
        member = Member(one.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
        out.append(replace(one, pod=replace(one.pod, **(ready | older)), member=member))
    return tuple(out)


def seen(cases: tuple[BookieCase, ...], *, spec: dict[str, Any] | None = None, **changes: Any) -> Observation:
    wanted = {"rollout": AUTOMATIC} | (spec or {})
    status = BookieClusterStatus(observed_generation=1, instance_id="instance")
    children = make.rolled_out(**wanted)
    return make.observation(cases, status=status, spec_changes=wanted, children=children, **changes)


def decided(observed: Observation) -> Rollout:
    return fleet.decide(observed).rollout


def with_pod(case: BookieCase, **changes: Any) -> BookieCase:
    assert case.pod is not None
    return replace(case, pod=replace(case.pod, **changes))


def with_fill(name: str, status: FillStatus | None, *, is_whole: bool | None = False) -> tuple[BookieCase, ...]:
    def changed(case: BookieCase) -> BookieCase:
        assert case.report is not None
        return replace(case, report=replace(case.report, whole_since_boot=is_whole), fill=status)

    return tuple(changed(one) if one.name == name else one for one in bookies())


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "has yet to look"),
        (FillStatus(is_waiting=True), "has yet to look"),
        (FillStatus(is_running=True, entries_missing=12), "12 entries so far"),
        (BLOCKED, "ledger 7: entry 5: data.ledgers.zone-b.0: it has it not"),
    ],
)
def test_nobody_is_stopped_before_every_other_bookie_is_whole(status: FillStatus | None, words: str) -> None:
    found = decided(seen(with_fill(LAST, status)))

    assert found.action is None
    assert found.status.waiting_for is not None
    assert LAST in found.status.waiting_for
    assert words in found.status.waiting_for


def only(case: BookieCase) -> Assessed:
    """The first bookie, as this pass assesses it."""
    return next(one for one in fleet.decide(seen((case, *bookies()[1:]))).fleet if one.case.name == FIRST)


def test_what_a_bookie_lacks_is_told_in_one_sentence() -> None:
    def told(status: FillStatus | None) -> str:
        return filling.lacks(only(with_fill(FIRST, status)[0]))

    yet = f"{FIRST} has yet to look for what was written while it was away"
    assert told(None) == told(FillStatus()) == told(FillStatus(is_running=True)) == yet
    assert told(FillStatus(is_running=True, entries_missing=12)) == f"{yet}, 12 entries so far"
    assert told(BLOCKED) == (
        f"{FIRST} lacks entries of 1 ledgers that it cannot fetch: ledger 7: entry 5: data.ledgers.zone-b.0: it has it"
        " not"
    )


def test_of_many_ledgers_that_cannot_be_filled_three_are_told_and_the_others_counted() -> None:
    def told(count: int) -> str:
        blocked = tuple(BlockedLedger(LedgerId(number), "why") for number in range(count))
        return filling.stuck(only(with_fill(FIRST, replace(BLOCKED, blocked=blocked, blocked_count=count))[0]))

    three = "that it cannot fetch: ledger 0: why; ledger 1: why; ledger 2: why"
    assert told(3).endswith(three)
    assert told(5).endswith(f"{three}; and 2 more")


@pytest.mark.parametrize("is_whole", [True, None], ids=["whole", "a release that cannot say"])
def test_what_was_blocked_before_a_bookie_was_whole_is_over(is_whole: bool | None) -> None:
    """Its last run may be older than what it says of itself."""
    one = only(with_fill(FIRST, BLOCKED, is_whole=is_whole)[0])

    assert (filling.lacks(one), filling.stuck(one)) == ("", "")
    assert decided(seen(with_fill(LAST, BLOCKED, is_whole=is_whole))).halted == ""
    idle = replace(BLOCKED, began_ms_ago=65_000, ended_ms_ago=60_000)
    assert fleet.decide(seen(with_fill(FIRST, idle, is_whole=is_whole))).fills == ()


def test_who_gives_no_report_is_held_up_elsewhere() -> None:
    one = only(replace(with_fill(FIRST, BLOCKED)[0], report=None))

    assert (filling.lacks(one), filling.stuck(one)) == ("", "")
    assert filling.to_ask(seen(bookies()), (one,)) == ()


@pytest.mark.parametrize("changes", [{"is_ours": False}, {"pod": None}], ids=["another's", "no pod"])
def test_who_cannot_be_asked_is_not_asked(changes: dict[str, Any]) -> None:
    one = only(with_fill(FIRST, FillStatus())[0])
    observed = seen(bookies())
    assert [each.bookie for each in filling.to_ask(observed, (one,))] == [FIRST]

    assert filling.to_ask(observed, (replace(one, case=replace(one.case, **changes)),)) == ()


@pytest.mark.parametrize("is_whole", [True, None], ids=["whole", "a release that cannot say"])
def test_a_whole_bookie_and_one_of_a_release_that_cannot_say_it_hold_nobody_up(is_whole: bool | None) -> None:
    found = decided(seen(with_fill(LAST, None, is_whole=is_whole)))

    assert isinstance(found.action, StopBookie)


def test_what_the_one_whose_turn_it_is_lacks_is_no_reason_to_let_it_run() -> None:
    found = decided(seen(with_fill(FIRST, BLOCKED)))

    assert isinstance(found.action, StopBookie)
    assert found.halted == ""


def test_a_bookie_that_cannot_fill_a_ledger_halts_the_roll_out_with_the_ledger_and_what_each_replica_said() -> None:
    observed = seen(with_fill(LAST, BLOCKED))

    found = decided(observed)

    assert "lacks entries of 1 ledgers that it cannot fetch: ledger 7: entry 5" in found.halted
    assert "1 bookies are left as they were" in found.halted
    stalled = next(one for one in conditions.of(fleet.decide(observed)) if one.type == "Stalled")
    assert (stalled.status, stalled.reason) == ("True", "RolloutHalted")


def test_a_run_that_is_under_way_halts_nothing() -> None:
    assert decided(seen(with_fill(LAST, FillStatus(is_running=True)))).halted == ""


def test_without_anything_to_roll_out_a_blocked_ledger_halts_nothing() -> None:
    cases = tuple(with_pod(one, revision="rev-1") if one.name == FIRST else one for one in with_fill(LAST, BLOCKED))

    assert decided(seen(cases)).halted == ""


@pytest.mark.parametrize(
    ("status", "is_asked"),
    [
        (None, False),
        (FillStatus(), True),  # its settings switch it off after a start
        (FillStatus(is_waiting=True), False),
        (FillStatus(is_running=True, began_ms_ago=999_999), False),
        (BLOCKED, False),
        (replace(BLOCKED, ended_ms_ago=0), False),  # it has only just ended
        (replace(BLOCKED, began_ms_ago=64_999, ended_ms_ago=59_999), False),
        (replace(BLOCKED, began_ms_ago=65_000, ended_ms_ago=60_000), True),
        (replace(BLOCKED, began_ms_ago=500_000, ended_ms_ago=100_000), False),  # a run takes longer than the pause
        (replace(BLOCKED, began_ms_ago=800_001, ended_ms_ago=400_001), True),
    ],
)
def test_who_is_not_whole_is_asked_to_look_again_after_a_pause_as_long_as_its_run(
    status: FillStatus | None, is_asked: bool
) -> None:
    found = fleet.decide(seen(with_fill(FIRST, status)))

    assert found.fills == ((FillHoles(FIRST, DOOR),) if is_asked else ())


@pytest.mark.parametrize(
    "changes",
    [
        {"leadership": Leadership("operator-1", 7, is_held=False)},
        {"spec": {"rollout": AUTOMATIC, "lifecycle": {"paused": True}}},
    ],
    ids=["without the lease", "paused"],
)
def test_nobody_is_asked_without_the_lease_or_while_paused(changes: dict[str, Any]) -> None:
    assert fleet.decide(seen(with_fill(FIRST, FillStatus()), **changes)).fills == ()


@pytest.mark.parametrize("state", [State.STARTING, State.HELD])
def test_a_bookie_that_does_not_serve_is_not_asked(state: State) -> None:
    cases = tuple(
        replace(one, report=replace(one.report, state=state)) if one.name == FIRST and one.report else one
        for one in with_fill(FIRST, FillStatus())
    )

    assert fleet.decide(seen(cases)).fills == ()


def test_a_port_without_tls_is_not_asked() -> None:
    cases = tuple(
        with_pod(one, has_certificates=False) if one.name == FIRST else one for one in with_fill(FIRST, FillStatus())
    )

    assert fleet.decide(seen(cases)).fills == ()


def test_the_bookie_itself_is_asked_over_its_own_door() -> None:
    (found,) = fleet.decide(seen(with_fill(FIRST, FillStatus()))).fills

    assert found.door == Door(f"10.0.0.1:{3184}", make.observation().cluster.uid)


def test_nobody_is_asked_to_look_again_while_the_fleet_wakes_up() -> None:
    """Whose turn was begun takes writes again first."""
    last, *others = reversed(with_fill(FIRST, FillStatus()))
    assert last.report is not None
    found = seen((*reversed(others), replace(last, report=replace(last.report, has_turn=True))))
    waking = HibernationStatus(state=HibernationState.WAKING, since="2027-01-15T08:00:00Z")
    status = found.cluster.status.model_copy(update={"hibernation": waking})

    assert fleet.decide(found).fills == (FillHoles(FIRST, DOOR),)
    assert fleet.decide(replace(found, cluster=replace(found.cluster, status=status))).fills == ()
