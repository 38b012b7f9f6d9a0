"""Which pods are made with added volumes, and until when these can be taken back (spec/operator.md#X15, X16)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.evidence.facts import BookieCase, ClaimFacts, VolumeCase
from bookie_operator.model.status import BookieClusterStatus, RolloutStatus, RolloutStep
from bookie_operator.model.values import format_time
from bookie_operator.plan import adding, fleet
from bookie_operator.plan.observation import Observation

OLD = frozenset({"journal", "ledgers", "index"})
MORE = frozenset({"ledgers-2", "index-2"})
FIRST, SECOND = "ledgers-zone-a-0", "ledgers-zone-a-1"


def storage() -> dict[str, Any]:
    found: dict[str, Any] = make.spec()["storage"]
    for role in ("ledgers", "index"):
        found[role] = {"volumes": [*found[role]["volumes"], {"name": f"{role}-2", "size": "1Gi", "added": True}]}
    return found


def volume(name: str, pod: str, **changes: Any) -> VolumeCase:
    """An added volume of a bookie whose pod has it and which has not been seen with data there."""
    claim_name = f"{name}-{pod}"
    claim = ClaimFacts(claim_name, f"claim-{claim_name}", make.NOW_MS - 2_000, pv_name=f"pv-{claim_name}")
    bare = make.volume_case(name, name.removesuffix("-2"), claim_name=claim_name, recorded=None, is_added=True)
    return replace(bare, claim=replace(claim, **changes))


def bookie(name: str, *, grown: bool = False, **pod: Any) -> BookieCase:
    case = make.bookie_case(name=name, bookie_id=f"data.ledgers.zone-a.{name[-1]}")
    mounts = OLD | MORE if grown else OLD
    more = tuple(volume(one, name, marks=make.marks(f"claim-{one}-1", "fs")) for one in sorted(MORE)) if grown else ()
    return replace(case, volumes=(*case.volumes, *more), pod=make.pod(name, **({"mounts": mounts} | pod)))


def away(case: BookieCase) -> BookieCase:
    return replace(case, pod=None, report=None)


def seen(*bookies: BookieCase, status: BookieClusterStatus | None = None, **changes: Any) -> Observation:
    return make.observation(bookies, status=status, spec_changes={"storage": storage()}, **changes)


def withheld(found: Observation) -> frozenset[str]:
    return adding.between(found).cluster.withheld.get("zone-a", frozenset())


def turn_of(name: str) -> BookieClusterStatus:
    step = RolloutStep(bookie=name, pod_uid="pod-1", begun_at=format_time(make.NOW_MS))
    return BookieClusterStatus(rollout=RolloutStatus(inputs="", desired=2, updated=0, step=step))


BEFORE, AFTER, OTHER = bookie(FIRST), bookie(FIRST, grown=True), bookie(SECOND)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (seen(BEFORE, OTHER), frozenset()),
        (seen(AFTER, OTHER), frozenset()),
        (seen(AFTER, away(OTHER)), frozenset()),  # nobody who runs lacks it
        (seen(BEFORE, away(OTHER)), MORE),
        (seen(BEFORE, away(OTHER), status=turn_of(SECOND)), frozenset()),
        (seen(away(AFTER), OTHER), frozenset()),
        (seen(BEFORE, bookie(SECOND, is_terminating=True)), MORE),
        (seen(BEFORE, replace(OTHER, is_leaving=True)), MORE),
        (seen(away(AFTER), replace(OTHER, is_leaving=True)), frozenset()),
        (seen(replace(AFTER, pod=BEFORE.pod), replace(OTHER, is_leaving=True)), frozenset()),
    ],
    ids=[
        "all are there",
        "one has them",
        "who has none is away, and no pod lacks them",
        "who has none is away",
        "who has none is away in its turn",
        "who has them is away",
        "who has none ends",
        "one leaves",
        "one leaves, and who has them is away",
        "one leaves, and who has them was made without",
    ],
)
def test_the_template_follows_whoever_is_missing(found: Observation, expected: frozenset[str]) -> None:
    assert withheld(found) == expected


def test_the_number_of_a_pools_bookies_changes_by_the_old_template() -> None:
    live = {"metadata": {"name": "ledgers-zone-a"}, "spec": {"replicas": 1}}

    assert withheld(seen(BEFORE, OTHER, children={("StatefulSet", "ledgers-zone-a"): live})) == MORE


def new(**changes: Any) -> BookieCase:
    """A bookie whose pod was just made with the volumes."""
    return replace(
        BEFORE,
        volumes=(*BEFORE.volumes, *(volume(one, FIRST, **changes) for one in sorted(MORE))),
        pod=make.pod(FIRST, mounts=OLD | MORE),
    )


def half() -> BookieCase:
    """The same; one of its claims waits for a volume."""
    case = new()
    last = case.volumes[-1]
    assert last.claim is not None
    return replace(case, volumes=(*case.volumes[:-1], replace(last, claim=replace(last.claim, pv_name=""))))


@pytest.mark.parametrize(
    ("case", "is_taken"),
    [
        (BEFORE, False),
        (replace(BEFORE, other_claims=tuple(one.claim for one in new().volumes[3:] if one.claim)), False),
        (AFTER, True),
        (new(), True),
        (half(), False),
        (new(pv_name=""), False),
        (replace(new(), pod=make.pod(FIRST, mounts=OLD | MORE, node="")), False),
        (away(AFTER), True),
    ],
    ids=[
        "its pod lacks them",
        "its pod lacks them, and the controller made the claims",
        "marked",
        "placed, and all have a disk",
        "one has no disk",
        "none has a disk",
        "not placed",
        "marked, without pod",
    ],
)
def test_what_is_added_can_be_taken_back_until_a_bookie_may_have_data_there(case: BookieCase, is_taken: bool) -> None:
    assert set(adding.taken(seen(case, OTHER))) == (set(MORE) if is_taken else set())


def test_what_was_taken_stays_taken_and_is_seen_without_the_spec() -> None:
    known = BookieClusterStatus(added_volumes=("ledgers-2", "gone"))
    claims = tuple(one.claim for one in new().volumes[3:] if one.claim is not None)
    unsaid = replace(BEFORE, pod=make.pod(FIRST, mounts=OLD | MORE), other_claims=claims)

    assert adding.taken(seen(BEFORE, status=known)) == {"ledgers-2": ""}
    assert set(adding.taken(make.observation((unsaid,)))) == MORE


def test_a_bookie_that_cannot_be_seen_is_not_without_data_because_of_a_volume_that_it_was_to_get() -> None:
    silent = replace(new(), pod=None, report=None)
    (one,) = fleet.assess(seen(silent))
    lost = replace(silent, volumes=(make.replaced(silent.volumes[0]), *silent.volumes[1:]))
    (other,) = fleet.assess(seen(lost))

    assert not one.is_dataless
    assert other.is_dataless
