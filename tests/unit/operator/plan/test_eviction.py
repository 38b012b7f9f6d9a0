"""Who may be evicted from a drained node, and how large the disruption budget is (spec/operator.md#N1 to N3)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member, State
from bookie_operator.evidence.facts import BookieCase, Door, NodeFacts
from bookie_operator.model.status import (
    BookieClusterStatus,
    EvictionStatus,
    EvictionTurn,
    RolloutStatus,
    RolloutStep,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import Apply, FlushBookie, ResumeBookie
from bookie_operator.plan.eviction import Eviction
from bookie_operator.plan.observation import Hindrance, Leadership, Observation

FIRST, SPARE = "ledgers-zone-a-0", "ledgers-zone-c-0"
DOOR = Door("10.0.0.1:3184", "cluster-uid")
READ_ONLY_FIRST = {"disruption": {"onDrain": "ReadOnlyFirst"}}
LONG_AGO_MS = make.NOW_MS - 3_600_000


def serving(case: BookieCase, drained: str = "") -> BookieCase:
    assert case.pod is not None
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    node = NodeFacts(case.pod.node, "node-uid", drained=drained)
    pod = replace(case.pod, ready_since_ms=LONG_AGO_MS)
    return replace(case, pod=pod, member=member, nodes={node.name: node})


def bookies(**changed: Any) -> tuple[BookieCase, ...]:
    """Four that serve; the first on a node that is cordoned. `first`, `spare`: facts of their reports."""
    first, *others = make.fleet()
    every = [serving(first, "cordoned"), *(serving(one) for one in others)]
    for place, name in ((0, "first"), (3, "spare")):
        report = every[place].report
        assert report is not None
        facts = changed.get(name, {})
        member = Member(report.bookie_id, True, True, is_writable=not facts.get("read_only", False))
        every[place] = replace(every[place], report=replace(report, **facts), member=member)
    return tuple(every)


def turn(**changes: Any) -> EvictionTurn:
    known = {"bookie": FIRST, "pod_uid": "pod-1", "node": "node-a", "begun_at": format_time(make.NOW_MS - 5_000)}
    return EvictionTurn(**(known | changes))


def seen(cases: tuple[BookieCase, ...] | None = None, **changes: Any) -> Observation:
    spec = READ_ONLY_FIRST | changes.pop("spec", {})
    status = BookieClusterStatus(observed_generation=1, instance_id="instance", **changes.pop("status", {}))
    return make.observation(
        bookies() if cases is None else cases,
        status=status,
        spec_changes=spec,
        children=make.rolled_out(**spec),
        **changes,
    )


def decided(seen: Observation) -> Eviction:
    return fleet.decide(seen).eviction


STORED = {"eviction": EvictionStatus(turn=turn())}
OPENED = {"eviction": EvictionStatus(turn=turn(is_open=True))}
REFUSING = {"first": {"state": State.READ_ONLY, "read_only": True, "has_turn": True}}


def unannounced() -> tuple[BookieCase, ...]:
    """FIRST refuses writes, and the metadata store lists it as one that takes them: another cluster in the same store,
    which reads that, may stop one of its own beside it (spec/operator.md#Q13)."""
    first, *others = bookies(**REFUSING)
    assert first.member is not None
    return replace(first, member=replace(first.member, is_writable=True)), *others


def writing_again() -> tuple[BookieCase, ...]:
    """FIRST takes writes (its turn ended by itself), and the metadata store lists it as one that does not."""
    first, *others = bookies()
    assert first.member is not None
    return replace(first, member=replace(first.member, is_writable=False)), *others


def test_the_bookie_of_a_drained_node_gets_its_turn_and_flushes_before_anybody_may_evict_it() -> None:
    found = decided(seen())

    assert (found.max_unavailable, found.evictable) == (0, "")
    assert found.action == FlushBookie(FIRST, "pod-1", DOOR, 7)
    assert found.status is not None
    assert found.status.turn is not None
    assert (found.status.turn.bookie, found.status.turn.node, found.status.turn.is_open) == (FIRST, "node-a", False)


def test_a_bookie_that_flushed_and_refuses_writes_is_outside_of_the_budget_alone() -> None:
    plan = fleet.decide(seen(bookies(**REFUSING), status=STORED, flushed=frozenset({"pod-1"})))

    (budget,) = [
        one.manifest["spec"]
        for one in plan.actions
        if isinstance(one, Apply) and one.manifest["kind"] == "PodDisruptionBudget"
    ]
    assert plan.eviction.evictable == FIRST
    assert plan.eviction.action == FlushBookie(FIRST, "pod-1", DOOR, 7), "or its turn would end by itself"
    assert budget["maxUnavailable"] == 0
    assert budget["selector"]["matchExpressions"] == [
        {"key": "statefulset.kubernetes.io/pod-name", "operator": "NotIn", "values": [FIRST]}
    ]
    assert plan.rollout.action is None, "one turn at a time"


@pytest.mark.parametrize(
    "situation",
    [
        seen(bookies(**REFUSING), status=OPENED),  # nobody of this process heard that it flushed
        seen(status=OPENED, flushed=frozenset({"pod-1"})),  # it takes writes (again)
        seen(bookies(**REFUSING), status=OPENED, flushed=frozenset({"another-pod"})),
        seen(writing_again(), status=OPENED, flushed=frozenset({"pod-1"})),
        seen(unannounced(), status=OPENED, flushed=frozenset({"pod-1"})),
    ],
)
def test_without_proof_of_the_flush_it_flushes_again_and_stays_inside(situation: Observation) -> None:
    found = decided(situation)

    assert (found.evictable, found.max_unavailable) == ("", 0)
    assert found.action == FlushBookie(FIRST, "pod-1", DOOR, 7)
    assert found.status is not None
    assert found.status.turn == turn(is_open=False), "nobody reads that the drain may come"


def test_where_nobody_could_take_its_writes_it_goes_on_writing_until_it_is_evicted() -> None:
    found = decided(seen(spec={"quorum": {"ensembleSize": 4, "writeQuorum": 3, "ackQuorum": 2}}))

    assert (found.evictable, found.action, found.max_unavailable) == (FIRST, None, 0)
    assert found.status is not None
    assert found.status.turn is not None, "its turn is stored all the same"


def stepping() -> dict[str, Any]:
    step = RolloutStep(bookie=SPARE, pod_uid="pod-ledgers-zone-c-0", begun_at=format_time(make.NOW_MS))
    return {"rollout": RolloutStatus(inputs="new", desired=4, updated=3, step=step)}


GATES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"spare": {"state": State.REPAIRING}}, {}, "is Limbo"),
    ({"spare": {"state": State.READ_ONLY}}, {}, "is ReadOnly"),
    ({"spare": {"directories_failed": ("/bookie/ledgers",)}}, {}, "cannot write"),
    ({}, {"members_problem": "nobody answers"}, "nobody answers"),
    ({}, {"leadership": Leadership("operator-1", 7, is_held=False)}, ""),
    ({}, {"status": stepping()}, "it is the turn of ledgers-zone-c-0"),
    ({"first": {"metadata_reachable": False}}, {}, "metadata store"),
    ({}, {"record_problem": "no JSON"}, "does not know the past regenerations"),
]


@pytest.mark.parametrize(("reports", "facts", "word"), GATES[:4] + GATES[5:])
def test_a_closed_gate_gives_nobody_a_turn_and_says_why(
    reports: dict[str, Any], facts: dict[str, Any], word: str
) -> None:
    found = decided(seen(bookies(**reports), **facts))

    assert (found.evictable, found.action, found.max_unavailable) == ("", None, 0)
    assert found.status is not None
    assert found.status.turn is None
    assert found.status.waiting == (FIRST,)
    assert word in (found.status.waiting_for or "")


@pytest.mark.parametrize(("reports", "facts", "word"), GATES[:4])
def test_a_gate_that_closes_takes_the_turn_back_and_the_bookie_writes_again(
    reports: dict[str, Any], facts: dict[str, Any], word: str
) -> None:
    known = {"status": {"eviction": EvictionStatus(turn=turn(is_open=True))}, "flushed": frozenset({"pod-1"})}

    found = decided(seen(bookies(**(REFUSING | reports)), **(known | facts)))

    assert found.evictable == ""
    assert found.action == ResumeBookie(FIRST, DOOR, 7)
    assert found.status is not None
    turned = found.status.turn
    assert turned is not None
    assert turned == turn(is_open=False, given_back_for=turned.given_back_for), "until it is seen to take writes"
    assert word in (turned.given_back_for or "")


def test_a_node_that_takes_pods_again_gives_the_turn_back() -> None:
    first, *others = bookies(**REFUSING)
    case = replace(first, nodes={"node-a": NodeFacts("node-a", "node-uid")})

    found = decided(seen((case, *others), status=STORED, flushed=frozenset({"pod-1"})))

    assert (found.evictable, found.action) == ("", ResumeBookie(FIRST, DOOR, 7))


def test_a_bookie_that_was_read_only_before_stays_so() -> None:
    stored = {"eviction": EvictionStatus(turn=turn(was_writable=False))}
    first, *others = bookies(first={"state": State.READ_ONLY, "read_only": True})
    case = replace(first, nodes={})

    found = decided(seen((case, *others), status=stored))

    assert (found.action, found.status) == (None, None)


@pytest.mark.parametrize("change", [{"can_read_nodes": False}, {"spec": {"disruption": {"onDrain": "Restart"}}}])
def test_without_nodes_to_look_at_the_budget_is_the_plain_one(change: dict[str, Any]) -> None:
    found = decided(seen(**change))

    assert (found.max_unavailable, found.evictable, found.action) == (1, "", None)


@pytest.mark.parametrize(
    ("reports", "status"),
    [
        ({"spare": {"state": State.REPAIRING}}, {}),
        ({"spare": {"directories_failed": ("/bookie/ledgers",)}}, {}),
        ({}, stepping()),
    ],
)
def test_nobody_may_be_evicted_beside_a_bookie_that_must_not_be_counted_on(
    reports: dict[str, Any], status: dict[str, Any]
) -> None:
    situation = seen(bookies(**reports), status=status, spec={"disruption": {"onDrain": "Restart"}})

    assert decided(situation).max_unavailable == 0


@pytest.mark.parametrize("on_drain", ["Restart", "ReadOnlyFirst"])
def test_nobody_may_be_evicted_while_the_metadata_store_is_away(on_drain: str) -> None:
    """No writer changes its ensemble then, and who was evicted cannot register again."""
    found = decided(seen(members_problem="no bookie has a session", spec={"disruption": {"onDrain": on_drain}}))

    assert (found.max_unavailable, found.evictable, found.action) == (0, "", None)


def test_a_turn_of_before_ends_with_read_only_first_only_when_the_bookie_writes_again() -> None:
    restart = {"spec": {"disruption": {"onDrain": "Restart"}}, "status": STORED}

    refusing, writing = decided(seen(bookies(**REFUSING), **restart)), decided(seen(**restart))

    assert (refusing.action, refusing.max_unavailable) == (ResumeBookie(FIRST, DOOR, 7), 0)
    assert (writing.action, writing.status, writing.max_unavailable) == (None, None, 1)


@pytest.mark.parametrize("on_drain", ["Restart", "ReadOnlyFirst"])
def test_a_turn_is_not_forgotten_while_nobody_knows_whether_its_bookie_refuses_writes(on_drain: str) -> None:
    """It would stay read-only for ever."""
    first, *others = bookies()
    silent = replace(first, report=None, nodes={})
    found = decided(seen((silent, *others), status=STORED, spec={"disruption": {"onDrain": on_drain}}))

    assert found.status is not None
    assert found.status.turn is not None
    assert found.status.turn.model_copy(update={"given_back_for": None}) == turn()
    assert (found.evictable, found.max_unavailable) == ("", 0)


@pytest.mark.parametrize("on_drain", ["Restart", "ReadOnlyFirst"])
def test_a_turn_ends_with_its_pod_and_nothing_is_asked_of_it_any_more(on_drain: str) -> None:
    first, *others = bookies(**REFUSING)
    assert first.pod is not None
    going = replace(first, pod=replace(first.pod, is_terminating=True))
    spec = {"disruption": {"onDrain": on_drain}}

    found = decided(seen((going, *others), status=STORED, spec=spec, flushed=frozenset({"pod-1"})))

    assert (found.action, found.evictable) == (None, "")
    assert found.status is None or found.status.turn is None


def on_its_pod(case: BookieCase) -> BookieCase:
    """Its volumes go with its pod."""
    return replace(case, volumes=tuple(replace(one, is_ephemeral=True) for one in case.volumes))


def of_pods() -> dict[str, Any]:
    """The spec of a fleet whose volumes go with its pods."""
    storage = make.spec()["storage"]
    for role in ("journal", "ledgers", "index"):
        storage[role]["volumes"] = [one | {"kind": "Ephemeral"} for one in storage[role]["volumes"]]
    return {"storage": storage, "disruption": {"onDrain": "Restart"}}


PAUSED = {"lifecycle": {"paused": True, "deletionPolicy": "Delete"}}


def test_while_paused_nobody_flushes_and_the_budget_is_the_plain_one() -> None:
    """A pause must not keep a node from being serviced for ever."""
    found = decided(seen(spec=PAUSED))

    assert (found.max_unavailable, found.evictable, found.action) == (1, "", None)


@pytest.mark.parametrize("change", [{}, {"spec": PAUSED}, {"can_read_nodes": False}], ids=["", "paused", "no nodes"])
def test_nobody_is_evicted_with_its_data_whatever_else_is_so(change: dict[str, Any]) -> None:
    spec = of_pods() | change.get("spec", {"lifecycle": {"deletionPolicy": "Delete"}})

    found = decided(seen(tuple(map(on_its_pod, bookies())), **(change | {"spec": spec})))

    assert (found.max_unavailable, found.evictable, found.action, found.status) == (0, "", None, None)


def test_beside_bookies_that_no_drain_may_take_the_others_have_turns_whatever_the_spec_says_of_drains() -> None:
    *others, spare = bookies()

    found = decided(seen((*others, on_its_pod(spare)), spec=of_pods() | {"lifecycle": {"deletionPolicy": "Delete"}}))

    assert found.status is not None
    assert (found.status.waiting, found.max_unavailable) == ((FIRST,), 0)


def test_of_two_on_drained_nodes_the_one_that_takes_no_writes_goes_first() -> None:
    *others, spare = bookies(spare={"state": State.READ_ONLY, "read_only": True})
    assert spare.pod is not None
    found = decided(seen((*others, replace(spare, nodes={"node-a": NodeFacts("node-a", "u", drained="cordoned")}))))

    assert found.status is not None
    assert found.status.turn is not None
    assert (found.status.turn.bookie, found.status.turn.was_writable) == (SPARE, False)
    assert found.status.waiting == (FIRST,)


@pytest.mark.parametrize(
    ("capabilities", "action"), [(("limbo", "regeneration"), None), (make.CAPABILITIES, ResumeBookie(FIRST, DOOR, 7))]
)
def test_who_was_read_only_before_hears_of_the_end_of_its_turn_only_where_that_is_a_mode_of_its_own(
    capabilities: tuple[str, ...], action: ResumeBookie | None
) -> None:
    facts = REFUSING["first"] | {"capabilities": capabilities}
    stored = {"eviction": EvictionStatus(turn=turn(was_writable=False))}

    found = decided(seen(bookies(first=facts, spare={"state": State.REPAIRING}), status=stored))

    assert (found.evictable, found.action) == ("", action)
    assert found.status is not None
    assert (found.status.turn is None) is (action is None)


def test_why_a_bookie_does_not_flush_for_a_drain_is_told_in_its_own_words() -> None:
    why = Hindrance("ledgers-zone-a-0 cannot flush: no space left on device")

    found = decided(seen(status=STORED, hindrances={"pod-1": why}))

    assert found.status is not None
    assert found.status.waiting_for == why.text
