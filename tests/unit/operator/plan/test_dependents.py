"""Which bookies may be away, or without their data, together (spec/operator.md#N8)."""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import DiskFormat, Member
from bookie_operator.evidence.facts import BookieCase, NodeFacts
from bookie_operator.model.status import BookieClusterStatus, Departure, LeavingStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import dependents, eviction, fleet, gates
from bookie_operator.plan.observation import DependentsLook, Observation
from bookie_operator.plan.stages import Assessed

NAMES = [f"ledgers-big-{number}" for number in range(6)]
PAIR = tuple(NAMES[:2])
LONG_AGO_MS = make.NOW_MS - 3_600_000
JOURNALED = {**make.spec()["storage"], "journalWriteData": True}
ON_DRAIN = ("Restart", "ReadOnlyFirst")


def bookie(number: int, *, drained: str = "") -> BookieCase:
    """One of six, two a node, that serves."""
    case = make.sibling("big", number)
    assert case.pod is not None
    node = NodeFacts(f"n-{number // 2}", f"uid-{number // 2}", drained=drained)
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    pod = replace(case.pod, node=node.name, ready_since_ms=LONG_AGO_MS)
    return replace(case, pod=pod, member=member, is_listed=True, nodes={node.name: node})


def waiting(case: BookieCase) -> BookieCase:
    """Its pod has no node to go to."""
    assert case.pod is not None
    pod = replace(case.pod, node="", ip="", phase="Pending", is_ready=False, ready_since_ms=None)
    return replace(case, pod=pod, report=None, member=Member(case.bookie_id, has_cookie=True, is_registered=False))


def empty(case: BookieCase) -> BookieCase:
    """It waits for a grant, on claims that were made anew."""
    lost = make.lost_case()
    assert lost.report is not None
    assert case.pod is not None
    report = replace(lost.report, bookie_id=case.bookie_id, pod_uid=case.pod.uid)
    member = Member(case.bookie_id, has_cookie=True, is_registered=False)
    return replace(case, volumes=lost.volumes, report=report, pod=replace(case.pod, is_ready=False), member=member)


def seen(
    cases: Sequence[BookieCase], looks: tuple[DependentsLook, ...] = (), *, per_node: int = 2, **spec: Any
) -> Observation:
    pools = [{"name": "big", "replicas": 6, "perNode": per_node}]
    shape = {"replicas": None, "zones": None, "pools": pools, "storage": JOURNALED}
    status = BookieClusterStatus(observed_generation=1, instance_id="instance")
    return make.observation(tuple(cases), status=status, spec_changes=shape | spec, dependents=looks)


def looked(of: Observation, write_sets: Sequence[Sequence[str]]) -> Observation:
    """`of` after every question was answered truly, for entries that two of three had to acknowledge."""
    looks = []
    for one in fleet.questions(of):
        count = sum(len(set(each) & set(one.bookies)) >= 2 for each in write_sets)
        looks.append(
            DependentsLook(one.bookies, one.marks, of.now_ms, of.now_ms, count, "ledger 7: x" if count else "")
        )
    return replace(of, dependents=(*of.dependents, *looks))


APART = [(NAMES[a], NAMES[b], NAMES[c]) for a, b, c in itertools.product((0, 1), (2, 3), (4, 5))]


def drained_pair(on_drain: str = "Restart") -> Observation:
    """The first has left its node, which is drained, and waits; the second is still there."""
    return seen(
        [waiting(bookie(0)), bookie(1, drained="cordoned"), *(bookie(number) for number in range(2, 6))],
        disruption={"onDrain": on_drain},
    )


def told(of: Observation) -> eviction.Eviction:
    return eviction.decide(of, fleet.assess(of))


@pytest.mark.parametrize("on_drain", ON_DRAIN)
def test_the_other_bookie_of_a_drained_node_has_its_turn_when_no_ledger_depends_on_both(on_drain: str) -> None:
    before = drained_pair(on_drain)
    after = looked(before, APART)

    assert told(before).stopped == ""
    assert [one.bookies for one in fleet.questions(before)] == [PAIR]
    assert told(after).stopped == PAIR[1]
    assert fleet.questions(after) == (), "asked once"


def losing(case: BookieCase) -> BookieCase:
    """Somebody deletes its claims: its volumes go with its pod."""
    claims = (replace(one.claim, is_terminating=True) for one in case.volumes if one.claim)
    volumes = (replace(one, claim=claim) for one, claim in zip(case.volumes, claims, strict=True))
    return replace(case, volumes=tuple(volumes))


def on_a_node(case: BookieCase) -> BookieCase:
    """A node took its pod, which may serve any moment, or fails there."""
    assert case.pod is not None
    return replace(case, pod=replace(case.pod, node="elsewhere"))


DRAINS = LeavingStatus(state=Departure.DRAINING, since=format_time(LONG_AGO_MS))
NO_WAITER: dict[str, Callable[[Assessed], Assessed]] = {
    "it leaves": lambda one: replace(one, leaving=DRAINS),
    "its volumes go with its pod": lambda one: replace(one, case=losing(one.case)),
    "a node took it": lambda one: replace(one, case=on_a_node(one.case)),
    "nobody listed whether a process runs": lambda one: replace(one, case=replace(one.case, is_listed=False)),
}


@pytest.mark.parametrize("on_drain", ON_DRAIN)
@pytest.mark.parametrize("why", NO_WAITER)
def test_nobody_follows_one_that_does_more_than_wait_for_a_node(on_drain: str, why: str) -> None:
    of = looked(drained_pair(on_drain), APART)
    every = tuple(NO_WAITER[why](one) if one.case.name == PAIR[0] else one for one in fleet.assess(of))

    assert eviction.decide(of, every).stopped == ""


@pytest.mark.parametrize("on_drain", ON_DRAIN)
@pytest.mark.parametrize(
    "look",
    [
        {"count": 1, "first": "ledger 7: here"},
        {"problem": "UNIMPLEMENTED"},
        {"ended_ms": make.NOW_MS - 600_000},
        {"ended_ms": make.NOW_MS + 86_400_000},
        {"began_ms": make.NOW_MS - 600_000},  # before the first stopped
        {"marks": ((PAIR[0], "another pod/1/0"),)},
        {"bookies": (PAIR[1], NAMES[2])},
    ],
    ids=[
        "a ledger",
        "no answer",
        "old",
        "of a clock that was set back",
        "begun before",
        "it was back since",
        "of others",
    ],
)
def test_without_a_look_that_proves_it_the_other_one_stays(on_drain: str, look: dict[str, Any]) -> None:
    before = drained_pair(on_drain)
    (known,) = looked(before, APART).dependents

    assert told(replace(before, dependents=(replace(known, **look),))).stopped == ""


def test_a_cluster_without_shared_nodes_asks_nothing_and_counts_bookies() -> None:
    cases = drained_pair().bookies

    alone = seen(cases, per_node=1)
    forged = DependentsLook(PAIR, (), make.NOW_MS, make.NOW_MS)

    assert fleet.questions(alone) == ()
    assert told(replace(alone, dependents=(forged,))).evictable == ""


def test_more_bookies_than_the_nodes_have_that_may_fail_are_never_one_loss() -> None:
    cases = [*(empty(bookie(number)) for number in range(3)), *(bookie(number) for number in range(3, 6))]
    of = seen(cases)
    forged = DependentsLook(tuple(NAMES[:3]), (), make.NOW_MS, make.NOW_MS)

    assert fleet.questions(of) == ()
    assert dependents.is_breached(replace(of, dependents=(forged,)), fleet.assess(of))


@pytest.mark.parametrize("shared", [0, 1])
def test_two_empty_bookies_are_one_loss_exactly_when_no_ledger_depends_on_both(shared: int) -> None:
    of = seen([empty(bookie(0)), empty(bookie(1)), *(bookie(number) for number in range(2, 6))])
    of = looked(of, APART + [(*PAIR, NAMES[4])] * shared)

    every = fleet.assess(of)

    for one in every[:2]:
        gate = [closed.message for closed in gates.closed(of, every, one) if closed.name == "G4-Tolerance"]
        assert [("ledger 7" in words) for words in gate] == [True] * shared
    assert dependents.is_breached(of, every) == bool(shared)


@pytest.mark.parametrize("on_drain", ON_DRAIN)
def test_no_voluntary_stop_leaves_an_ack_quorum_of_any_entry_on_bookies_that_are_away(on_drain: str) -> None:
    """Whoever is away, wherever copies are: the one that may go now never makes an entry's copies too few."""
    draw, stopped, base = random.Random(8), 0, seen((), disruption={"onDrain": on_drain})
    fresh = {on: [bookie(number, drained=on) for number in range(6)] for on in ("", "cordoned")}
    for _ in range(120):
        away = draw.sample(range(6), draw.choice((0, 1, 1, 2)))
        drained = draw.sample(range(3), draw.choice((1, 1, 2)))
        cases = [fresh["cordoned" if number // 2 in drained else ""][number] for number in range(6)]
        cases = [draw.choice((waiting, waiting, empty))(one) if at in away else one for at, one in enumerate(cases)]
        entries = draw.sample(APART, draw.randint(0, 8))
        entries += [tuple(draw.sample(NAMES, 3)) for _ in range(draw.choice((0, 0, 1)))]
        of = looked(replace(base, bookies=tuple(cases)), entries)

        budget = told(of)

        gone = {NAMES[number] for number in away} | ({budget.stopped} if budget.stopped else set())
        if budget.stopped and away:
            stopped += 1
            assert all(len(gone & set(one)) < 2 for one in entries), (gone, entries)
            assert not any(one.is_dataless for one in fleet.assess(of)), "K13"
    assert stopped > 5


@pytest.mark.parametrize("on_drain", ON_DRAIN)
def test_a_look_from_before_a_second_bookie_stopped_says_nothing_of_what_was_written_since(on_drain: str) -> None:
    """Three a node. One waits, and no ledger depends on the three; the second goes by that look. What was written
    between the look and its stop may be on the second and the third alone: only another look may let the third go."""
    trio, apart = tuple(NAMES[:3]), [(NAMES[0], NAMES[3], NAMES[4])]

    def at(number: int) -> BookieCase:
        one, node = bookie(number), NodeFacts(f"n-{number // 3}", "uid", drained="" if number > 2 else "cordoned")
        assert one.pod is not None
        return replace(one, pod=replace(one.pod, node=node.name), nodes={node.name: node})

    def three_a_node(away: Sequence[int], looks: tuple[DependentsLook, ...] = ()) -> Observation:
        cases = [waiting(at(number)) if number in away else at(number) for number in range(9)]
        pools = [{"name": "big", "replicas": 9, "perNode": 3}]
        return seen(cases, looks, pools=pools, disruption={"onDrain": on_drain})

    first = looked(three_a_node([0]), apart)
    assert told(first).stopped == trio[1]

    second = three_a_node([0, 1], first.dependents)

    assert told(second).stopped == ""
    assert [one.bookies for one in fleet.questions(second)] == [trio]
    assert told(looked(second, [(trio[1], trio[2], NAMES[4])])).stopped == ""
    assert told(looked(second, apart)).stopped == trio[2]


@pytest.mark.parametrize("on_drain", ON_DRAIN)
def test_who_is_registered_has_not_stopped_whatever_became_of_its_pod(on_drain: str) -> None:
    """Its pod was deleted by force, say: writers go on writing to its process, also after the look."""
    before = drained_pair(on_drain)
    runs_on = replace(
        before.bookies[0], member=Member(before.bookies[0].bookie_id, has_cookie=True, is_registered=True)
    )

    of = looked(replace(before, bookies=(runs_on, *before.bookies[1:])), APART)

    assert told(of).stopped == ""


def test_who_forbids_every_eviction_forbids_that_of_the_next_of_a_node_too() -> None:
    of = looked(replace(drained_pair(), cluster=seen((), disruption={"maxUnavailable": 0}).cluster), APART)

    assert told(of) == eviction.Eviction(0)


def test_who_would_not_start_elsewhere_keeps_nobody_from_being_the_next_of_a_node() -> None:
    """Paused: nobody is flushed, and the plain budget holds. The first by name is unfit."""

    def of_formats(case: BookieCase, revision: str, written: int) -> BookieCase:
        assert case.pod is not None
        assert case.report is not None
        known = DiskFormat("index", 2, written, written)
        return replace(case, pod=replace(case.pod, revision=revision), report=replace(case.report, formats=(known,)))

    unfit = of_formats(bookie(1, drained="cordoned"), "rev-0", 3)
    others = [of_formats(bookie(2), "rev-1", 2), of_formats(bookie(3, drained="cordoned"), "rev-1", 2)]
    cases = [waiting(bookie(0)), unfit, *others, *(of_formats(bookie(number), "rev-1", 2) for number in (4, 5))]
    images = {"rev-0": "bookie:next", "rev-1": "bookie:before"}
    templates = {name: {"spec": {"containers": [{"name": "bookie", "image": image}]}} for name, image in images.items()}
    live = {"metadata": {"name": "ledgers-big"}, "status": {"updateRevision": "rev-1"}}
    of = replace(
        seen(cases, lifecycle={"paused": True}), templates=templates, children={("StatefulSet", "ledgers-big"): live}
    )

    found = told(looked(of, []))

    assert found.evictable == NAMES[3]


@pytest.mark.parametrize("on_drain", ON_DRAIN)
def test_a_pod_that_is_being_deleted_waits_for_no_node(on_drain: str) -> None:
    """What becomes of its bookie is another pod's story; nobody else goes before it is told."""
    before = drained_pair(on_drain)
    assert before.bookies[0].pod is not None
    going = replace(before.bookies[0], pod=replace(before.bookies[0].pod, is_terminating=True))

    of = looked(replace(before, bookies=(going, *before.bookies[1:])), APART)

    assert told(of).stopped == ""


def test_only_bookies_of_a_release_that_knows_the_question_are_asked() -> None:
    cases = [bookie(number) for number in range(6)]
    assert cases[3].report is not None
    able = replace(cases[3], report=replace(cases[3].report, capabilities=("new",)))
    of = seen([*cases[:3], able, *cases[4:]])

    assert [case.name for case in of.readers("new")] == [NAMES[3]]
    assert [case.name for case in of.readers()] == NAMES
