"""Which claims are asked for another size, and what stops it: row by row, over any fleet (spec/operator.md#X1, X2)."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import operator_support as make
from bookie.ports.admin import State
from bookie_operator.evidence.facts import BookieCase, ClaimFacts, ClaimSize, RefusedSize
from bookie_operator.gateways import facts
from bookie_operator.model.status import HibernationState, HibernationStatus
from bookie_operator.plan import expansion, fleet
from bookie_operator.plan.expansion import FILE_SYSTEM_MS, Expansion, GrowthState
from bookie_operator.plan.observation import Leadership, Observation

GI = Decimal(1024**3)
WANTED = 4 * GI
LONG_AGO = make.NOW_MS - FILE_SYSTEM_MS


def claim(requested: Decimal, capacity: Decimal, **changes: Any) -> ClaimFacts:
    is_terminating = changes.pop("is_terminating", False)
    return ClaimFacts(
        "ledgers-x", "uid", 0, is_terminating=is_terminating, size=ClaimSize(requested, capacity, **changes)
    )


REFUSED = RefusedSize("4Gi", "exceeded quota", make.NOW_MS)


@pytest.mark.parametrize(
    ("found", "refused", "state"),
    [
        (replace(claim(WANTED, WANTED), size=None), None, GrowthState.UNREADY),
        (claim(2 * GI, 2 * GI, is_terminating=True), None, GrowthState.UNREADY),
        (claim(2 * GI, Decimal(0), is_bound=False), None, GrowthState.UNREADY),
        (claim(WANTED, Decimal(0), is_bound=False), None, GrowthState.DONE),
        (claim(WANTED, WANTED), None, GrowthState.DONE),
        (claim(2 * GI, 5 * GI), None, GrowthState.DONE),  # a disk that is larger than asked for
        (claim(9 * GI, WANTED, step="ControllerResizeInfeasible"), None, GrowthState.DONE),  # taken back
        (claim(2 * GI, 2 * GI), None, GrowthState.TO_ASK),
        (claim(2 * GI, 2 * GI), REFUSED, GrowthState.INFEASIBLE),
        (claim(2 * GI, 2 * GI), replace(REFUSED, size="3Gi"), GrowthState.TO_ASK),  # another size was refused
        (claim(9 * GI, 2 * GI, step="ControllerResizeInfeasible"), None, GrowthState.TO_ASK),  # corrected to less
        (claim(WANTED, 2 * GI), None, GrowthState.WAITING),
        (claim(WANTED, 2 * GI, conditions={"Resizing": ""}), None, GrowthState.WAITING),
        (claim(WANTED, 2 * GI, conditions={"ControllerResizeError": "later"}), None, GrowthState.WAITING),
        (claim(WANTED, 2 * GI, step="NodeResizePending"), None, GrowthState.WAITING),
        (claim(WANTED, 2 * GI, pending_since_ms=LONG_AGO + 1), None, GrowthState.WAITING),
        (claim(WANTED, 2 * GI, pending_since_ms=LONG_AGO), None, GrowthState.NEEDS_START),
        # Its pod began since: another start would help no more.
        (claim(WANTED, 2 * GI, pending_since_ms=LONG_AGO - 10), None, GrowthState.WAITING),
        (claim(WANTED, 2 * GI, step="ControllerResizeInfeasible"), None, GrowthState.INFEASIBLE),
        (claim(WANTED, 2 * GI, step="NodeResizeInfeasible", step_size=WANTED), None, GrowthState.INFEASIBLE),
        (claim(WANTED, 2 * GI, step="NodeResizeFailed"), None, GrowthState.INFEASIBLE),
        # Of a request that was corrected since.
        (claim(WANTED, 2 * GI, step="ControllerResizeInfeasible", step_size=9 * GI), None, GrowthState.WAITING),
    ],
)
def test_what_kubernetes_says_of_a_claim_is_classified(
    found: ClaimFacts, refused: RefusedSize | None, state: GrowthState
) -> None:
    assert expansion.classify(found, WANTED, make.NOW_MS, refused, pod_since_ms=LONG_AGO - 1) is state


def test_without_a_pod_nothing_is_to_be_started() -> None:
    found = claim(WANTED, 2 * GI, pending_since_ms=LONG_AGO)

    assert expansion.classify(found, WANTED, make.NOW_MS) is GrowthState.WAITING


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "ledgers-x", "uid": "uid", "resourceVersion": "7"},
        "spec": {"resources": {"requests": {"storage": "4Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}} | changes,
    }


def test_a_claim_is_read_as_kubernetes_writes_it() -> None:
    pending = {
        "type": "FileSystemResizePending",
        "status": "True",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
        "message": "m",
    }
    over = {"type": "Resizing", "status": "False"}
    found = facts.claim(
        manifest(
            conditions=[pending, over],
            allocatedResources={"storage": "4Gi"},
            allocatedResourceStatuses={"storage": "NodeResizePending"},
        )
    )

    assert found.resource_version == "7"
    assert found.size == ClaimSize(
        4 * GI,
        2 * GI,
        step="NodeResizePending",
        step_size=4 * GI,
        conditions={"FileSystemResizePending": "m"},
        pending_since_ms=make.NOW_MS,
    )


def test_a_size_that_cannot_be_read_proves_nothing_and_asks_for_nothing() -> None:
    odd = facts.claim(manifest(capacity={"storage": "much"}))

    assert odd.size is None
    assert not expansion.is_done(odd, "1Gi")


# ---- a fleet ---------------------------------------------------------------------------------------------------------


def sized(case: BookieCase, **sizes: ClaimSize) -> BookieCase:
    """`case` with these sizes, by volume; the others as the spec of `seen` says."""
    volumes = []
    for volume in case.volumes:
        size = sizes.get(volume.name, ClaimSize(GI if volume.name != "ledgers" else WANTED, WANTED))
        assert volume.claim is not None
        volumes.append(replace(volume, claim=replace(volume.claim, size=size, resource_version="1")))
    return replace(case, volumes=tuple(volumes))


SMALL = ClaimSize(2 * GI, 2 * GI)
RUNNING = ClaimSize(WANTED, 2 * GI, conditions={"Resizing": ""})
HOPELESS = ClaimSize(WANTED, 2 * GI, step="ControllerResizeInfeasible")


def seen(*ledgers: ClaimSize, **changes: Any) -> Observation:
    """A fleet whose ledger volumes have these sizes, in the order of bookies; the spec asks for 4Gi."""
    storage = make.spec()["storage"] | {"ledgers": {"volumes": [{"name": "ledgers", "size": "4Gi"}]}}
    cases = [sized(case, ledgers=size) for case, size in zip(make.fleet(), ledgers, strict=True)]
    spec = {"storage": storage} | changes.pop("spec", {})
    return make.observation(tuple(cases), spec_changes=spec, **changes)


def decided(found: Observation) -> Expansion:
    return fleet.decide(found).expansion


def asked(found: Observation) -> list[str]:
    return [action.name for action in decided(found).actions]


FIRST, SECOND = "ledgers-ledgers-zone-a-0", "ledgers-ledgers-zone-a-1"
DONE = ClaimSize(WANTED, WANTED)


def test_the_first_bookie_is_asked_alone() -> None:
    found = decided(seen(SMALL, SMALL, SMALL, SMALL))

    assert [(one.name, one.size, one.uid, one.resource_version) for one in found.actions] == [
        (FIRST, "4Gi", "claim-ledgers-1", "1")
    ]
    assert (found.bookies_done, found.bookies) == (0, 4)


@pytest.mark.parametrize("busy", [RUNNING, HOPELESS])
def test_nobody_else_is_asked_before_the_first_has_the_size(busy: ClaimSize) -> None:
    assert asked(seen(busy, SMALL, SMALL, SMALL)) == []
    assert asked(seen(SMALL, busy, SMALL, SMALL)) == []


def test_the_next_follows_when_the_one_before_has_the_size() -> None:
    assert asked(seen(DONE, SMALL, SMALL, SMALL)) == [SECOND]


def test_the_next_waits_until_the_canary_serves() -> None:
    found = seen(DONE, SMALL, SMALL, SMALL)
    canary, *others = found.bookies
    assert canary.report is not None
    down = replace(canary, report=replace(canary.report, state=State.STARTING, verdict=None))
    status = fleet_status(found)

    waiting = decided(replace(found, bookies=(down, *others), cluster=replace(found.cluster, status=status)))

    assert waiting.actions == ()
    assert "ledgers-zone-a-0, whose volumes have their size, is" in waiting.waiting_for


def fleet_status(found: Observation) -> Any:
    from bookie_operator.status import render

    return render.render(fleet.decide(found))


def test_nothing_grows_while_a_bookie_is_without_its_data() -> None:
    found = seen(SMALL, SMALL, SMALL, SMALL)
    others = found.bookies[1:]

    assert asked(replace(found, bookies=(sized(make.lost_case(), ledgers=SMALL), *others))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"lifecycle": {"paused": True, "terminationGrace": "2m"}}},
        {"leadership": Leadership("operator-1", 7, is_held=False)},
    ],
)
def test_nothing_grows_while_paused_or_without_the_lease(changes: dict[str, Any]) -> None:
    assert asked(seen(SMALL, SMALL, SMALL, SMALL, **changes)) == []


def test_what_cannot_grow_says_why_and_the_size_to_set_back_to() -> None:
    found = decided(seen(HOPELESS, SMALL, SMALL, SMALL))

    assert "ControllerResizeInfeasible" in found.infeasible
    assert "setting it back to 2Gi is enough" in found.infeasible
    assert expansion.floor(found.growing) == {"ledgers": "2Gi"}


def test_a_refusal_is_told_at_once_and_asked_again_after_a_minute() -> None:
    found = seen(SMALL, SMALL, SMALL, SMALL)
    early = replace(found, refused_sizes={"claim-ledgers-1": REFUSED})
    late = replace(found, refused_sizes={"claim-ledgers-1": replace(REFUSED, at_ms=make.NOW_MS - 60_000)})

    assert ("exceeded quota" in decided(early).infeasible, asked(early)) == (True, [])
    assert ("exceeded quota" in decided(late).infeasible, asked(late)) == (True, [FIRST])


def test_a_claim_without_a_volume_holds_up_nobody() -> None:
    stuck = ClaimSize(2 * GI, Decimal(0), is_bound=False)

    assert asked(seen(stuck, SMALL, SMALL, SMALL)) == [SECOND]


def retired(found: Observation, *, has_pod: bool) -> Observation:
    """The claims of the first bookie are marked as those of one that left."""
    case, *others = found.bookies
    volumes = []
    for volume in case.volumes:
        assert volume.claim is not None
        volumes.append(replace(volume, claim=replace(volume.claim, retired_at=LONG_AGO)))
    left = replace(case, volumes=tuple(volumes))
    return replace(found, bookies=(left if has_pod else replace(left, pod=None, report=None), *others))


def test_a_claim_that_only_waits_for_its_deletion_does_not_grow_and_holds_up_nobody() -> None:
    """One whose mark was left on it, and whose bookie runs, does."""
    found = seen(SMALL, DONE, DONE, DONE)

    assert decided(retired(found, has_pod=False)).growing == ()
    assert asked(retired(found, has_pod=True)) == [FIRST]


def test_what_was_refused_and_is_asked_for_meanwhile_is_not_asked_for_again() -> None:
    """Somebody else asked for it, and the controller of volumes cannot do it either."""
    late = {"claim-ledgers-1": replace(REFUSED, at_ms=make.NOW_MS - 60_000)}
    found = replace(seen(HOPELESS, SMALL, SMALL, SMALL), refused_sizes=late)

    assert "ControllerResizeInfeasible" in decided(found).infeasible
    assert asked(found) == []


sizes = st.builds(
    ClaimSize,
    requested=st.sampled_from([GI, 2 * GI, WANTED, 9 * GI]),
    capacity=st.sampled_from([Decimal(0), GI, 2 * GI, WANTED, 9 * GI]),
    is_bound=st.booleans(),
    step=st.sampled_from(["", "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizePending"]),
    step_size=st.sampled_from([None, 2 * GI, WANTED]),
    pending_since_ms=st.sampled_from([None, LONG_AGO, make.NOW_MS]),
)


@given(st.tuples(sizes, sizes, sizes, sizes))
def test_whatever_the_claims_say_one_bookie_is_asked_and_never_for_less_than_it_has(
    found: tuple[ClaimSize, ClaimSize, ClaimSize, ClaimSize],
) -> None:
    observation = seen(*found)
    by_name = {
        volume.claim_name: volume.claim.size
        for case in observation.bookies
        for volume in case.volumes
        if volume.claim is not None
    }

    actions = decided(observation).actions

    assert len({action.name.split("-", 1)[1] for action in actions}) <= 1
    for action in actions:
        size = by_name[action.name]
        assert size is not None
        assert size.is_bound
        assert size.capacity < WANTED
        assert size.requested != WANTED
    under_way = [one for one in found if one.is_bound and one.requested == WANTED > one.capacity]
    busy = [name for name, one in by_name.items() if one in under_way]
    assert all(action.name.split("-", 1)[1] == busy[0].split("-", 1)[1] for action in actions if busy)


def test_nothing_grows_while_the_fleet_wakes_up() -> None:
    """Whose turn was begun takes writes again first."""
    found = seen(SMALL, SMALL, SMALL, SMALL)
    last = found.bookies[-1]
    assert last.report is not None
    found = replace(found, bookies=(*found.bookies[:-1], replace(last, report=replace(last.report, has_turn=True))))
    waking = HibernationStatus(state=HibernationState.WAKING, since="2027-01-15T08:00:00Z")
    status = found.cluster.status.model_copy(update={"hibernation": waking})

    assert asked(found) == [FIRST]
    assert asked(replace(found, cluster=replace(found.cluster, status=status))) == []
