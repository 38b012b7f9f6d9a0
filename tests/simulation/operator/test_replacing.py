"""A bookie that a person names is replaced: drained, proven empty, begun anew on new claims (spec/operator.md#U11)."""

import asyncio
import random

import pytest

from bookie_operator.gateways.kube import KubeForbidden
from bookie_operator.model.operation import OperationPhase
from bookie_operator.model.status import Departure
from bookie_operator.reconcile import Reconciler
from operator_world_support import DeathAtEveryThird, World

NAMED, NAMED_ID = "ledgers-zone-a-0", "data.ledgers.zone-a.0"  # in the middle of its pool
MATE = "ledgers-zone-a-1"
PASSES = 120


def claims(world: World) -> "dict[str, str]":
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("PersistentVolumeClaim")}


def check(world: World) -> None:
    assert (world.wrong, world.lost_entries(), world.thin_entries(), world.past_tolerance) == ([], [], [], [])
    assert world.uncounted() == []


def until(world: World, state: Departure | None) -> None:
    """Run until the bookie is that far; None: until the operation is complete."""
    operator = world.operator()
    for _ in range(PASSES):
        if state is None and world.operation("swap").phase is OperationPhase.COMPLETE:
            return
        entry = world.status().bookie(NAMED)
        if entry is not None and entry.leaving is not None and entry.leaving.state is state:
            return
        asyncio.run(world.run(operator, passes=1))
    raise AssertionError(f"{NAMED} never was {state}: {world.operation('swap')} {world.status()}")


@pytest.fixture
def busy(world: World) -> World:
    world.edit(scaleDown={"proofInterval": "5s"})
    world.write(40, random.Random(1))
    asyncio.run(world.run(world.operator(), passes=3))
    world.now_ms += 60_000
    world.ask("swap", "Replace", target={"bookie": NAMED})
    return world


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_exactly_its_claims_are_new_whichever_writes_are_the_operators_last(busy: World, first: int) -> None:
    """`first` 0: nobody dies. Otherwise every third write is the last of its operator."""
    before = claims(busy)

    is_done, crashes = _until_complete(busy, "swap", first)

    assert is_done, (busy.operation("swap"), busy.status())
    assert (crashes > 10) is bool(first)
    after = claims(busy)
    assert {name for name in before if after.get(name) != before[name]} == {n for n in before if n.endswith(NAMED)}
    assert after.keys() == before.keys()
    assert (busy.forgotten, busy.cookies[NAMED_ID]) == ([NAMED_ID], [0, 2])
    check(busy)


def test_a_finished_one_whose_status_was_lost_replaces_nobody_again(busy: World) -> None:
    until(busy, None)
    known = claims(busy)
    del busy.objects[("BookieOperation", "swap")]["status"]

    asyncio.run(busy.run(busy.operator(), passes=30))

    assert (claims(busy), busy.forgotten) == (known, [NAMED_ID])
    assert busy.operation("swap").phase is OperationPhase.COMPLETE


@pytest.mark.parametrize(
    "state", [Departure.DRAINING, Departure.DRAINED, Departure.RETIRING], ids=lambda one: one.value
)
def test_deleted_before_the_cookie_goes_the_bookie_stays_with_all_its_data(busy: World, state: Departure) -> None:
    known = claims(busy)
    until(busy, state)
    assert busy.operation("swap").phase is OperationPhase.RUNNING
    del busy.objects[("BookieOperation", "swap")]

    asyncio.run(busy.run(busy.operator(), passes=25))

    assert (claims(busy), busy.forgotten) == (known, [])
    assert busy.bookie(NAMED).is_draining is False
    assert (busy.is_quiet(), len(busy.of_kind("StatefulSet"))) == (True, 3), busy.status()
    check(busy)


def refusing(world: World) -> None:
    """The API server takes the right to delete claims away."""
    world.no_claim_deletion = KubeForbidden("delete PersistentVolumeClaim", 403, "forbidden")


def until_pod(world: World, operator: Reconciler, name: str, *, passes: int) -> None:
    for _ in range(passes):
        if ("Pod", name) in world.objects:
            return
        asyncio.run(world.run(operator, passes=1))
    raise AssertionError(f"{name} was not made anew: {world.status()}")


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_mate_that_ends_is_made_anew_while_old_claims_cannot_be_deleted(busy: World, is_paused: bool) -> None:
    """Nobody knows how long that lasts: a right is missing, or a person paused the cluster."""
    refusing(busy)
    known = claims(busy)
    until(busy, Departure.RECLAIMED)
    operator = busy.operator()
    asyncio.run(busy.run(operator, passes=5))
    if is_paused:
        busy.edit(lifecycle={"paused": True})
    assert (("StatefulSet", "ledgers-zone-a") in busy.objects, ("Pod", NAMED) in busy.objects) == (False, False)

    busy.kill(MATE)
    until_pod(busy, operator, MATE, passes=10)
    asyncio.run(busy.run(operator, passes=10))

    assert busy.bookie(MATE).state.serves
    assert claims(busy) == known
    assert is_paused or (("Pod", NAMED) not in busy.objects), "its old claims are nobody's again"
    assert NAMED_ID not in busy.cookies, "nobody lives on what was given up"
    check(busy)
    busy.no_claim_deletion = None
    busy.edit(lifecycle={})
    until(busy, None)
    assert {name for name in known if claims(busy)[name] != known[name]} == {n for n in known if n.endswith(NAMED)}
    check(busy)


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_mate_comes_back_beside_undeletable_claims_whichever_writes_are_the_last(busy: World, first: int) -> None:
    """Its pod ends again each time it serves; every third write is the last of its operator."""
    refusing(busy)
    known = claims(busy)
    until(busy, Departure.FORGOTTEN)
    crash, crashes, busy.step_ms = DeathAtEveryThird(first), 0, 10_000
    for _ in range(3):
        busy.kill(MATE)
        for _ in range(10):
            crashes += asyncio.run(busy.run(busy.operator(crash), passes=3, crash=crash))
            if ("Pod", MATE) in busy.objects and busy.bookie(MATE).state.serves:
                break
        assert busy.bookie(MATE).state.serves
        assert NAMED_ID not in busy.cookies
        check(busy)
    assert claims(busy) == known

    busy.no_claim_deletion = None
    is_done, died = _until_complete(busy, "swap", first)

    assert (is_done, crashes + died > 10) == (True, True), (busy.operation("swap"), busy.status())
    assert {name for name in known if claims(busy)[name] != known[name]} == {n for n in known if n.endswith(NAMED)}
    check(busy)


def test_the_stateful_set_stays_until_the_mate_has_its_pod_and_no_claim_goes_meanwhile(busy: World) -> None:
    """A quota holds up all pods of the pool for a while."""
    refusing(busy)
    until(busy, Departure.RECLAIMED)
    known, busy.over_quota = claims(busy), "ledgers-zone-a"
    busy.kill(MATE)
    busy.no_claim_deletion = None
    busy.writes.clear()

    asyncio.run(busy.run(busy.operator(), passes=6))

    assert ("StatefulSet", "ledgers-zone-a") in busy.objects
    assert [one for one in busy.writes if one.startswith("delete ")] == []
    assert claims(busy) == known
    busy.over_quota = ""
    until(busy, None)
    check(busy)


@pytest.fixture
def back(busy: World) -> World:
    """Its pod came back on its old claims, with the StatefulSet that a mate needed, and a pause keeps it there."""
    refusing(busy)
    until(busy, Departure.RECLAIMED)
    busy.edit(lifecycle={"paused": True})
    busy.kill(MATE)
    until_pod(busy, busy.operator(), NAMED, passes=10)
    busy.no_claim_deletion = None
    return busy


def test_claims_that_a_person_deletes_under_its_pod_go_with_it(back: World) -> None:
    """Kubernetes keeps a claim that is deleted until no pod uses it."""
    known = claims(back)
    for name in [one for one in known if one.endswith(NAMED)]:
        live = back.objects[("PersistentVolumeClaim", name)]
        live["metadata"]["deletionTimestamp"] = "2026-11-23T09:00:00Z"
    back.on_stop = lambda pod: back.delete_claims(pod) if pod == NAMED else None
    back.edit(lifecycle={})

    until(back, None)

    assert {name for name in known if claims(back)[name] != known[name]} == {n for n in known if n.endswith(NAMED)}
    assert [one for one in back.writes if one.startswith("delete PersistentVolumeClaim")] == []
    check(back)


def test_no_claim_goes_before_the_process_that_began_on_it_is_proven_to_have_ended(back: World) -> None:
    known = claims(back)
    back.cut_off.add(NAMED)
    back.edit(lifecycle={})

    asyncio.run(back.run(back.operator(), passes=20))

    entry = back.status().bookie(NAMED)
    assert entry is not None
    assert entry.leaving is not None
    assert "went away without its kubelet's word" in (entry.leaving.waiting_for or "")
    assert claims(back) == known
    back.cut_off.clear()
    back.step_ms = 10_000
    until(back, None)
    check(back)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bookie", "first"), [("ledgers-zone-b-1", 0), ("ledgers-zone-b-0", 0), ("ledgers-zone-b-0", 2)]
)
def test_a_retired_bookie_goes_with_its_volumes_and_its_zone_becomes_smaller(
    world: World, bookie: str, first: int
) -> None:
    """Zone c would be the one, and of zone b the highest number goes: the other one is replaced after it."""
    world.edit(scaleDown={"proofInterval": "5s"}, replicas=6)
    asyncio.run(world.run(world.operator(), passes=12))
    assert world.is_quiet(), world.status()
    world.write(40, random.Random(2))
    world.now_ms += 60_000
    before = claims(world)
    world.edit(replicas=5)
    world.ask("out", "Retire", target={"bookie": bookie}, reason="its node is given back")
    is_done, crashes = _until_complete(world, "out", first)

    assert is_done, (world.operation("out"), world.status())
    assert (crashes > 10) is bool(first)
    after = claims(world)
    assert sorted(one["metadata"]["name"] for one in world.of_kind("Pod")) == [
        "ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0", "ledgers-zone-c-1"
    ]  # fmt: skip
    gone = ["data.ledgers.zone-b.1"] + (["data.ledgers.zone-b.0"] if bookie.endswith("0") else [])
    assert world.forgotten == gone
    renewed = {name for name in before if name in after and after[name] != before[name]}
    assert renewed == {name for name in after if name.endswith("b-0") and bookie.endswith("b-0")}
    check(world)


def test_a_retirement_whose_zone_is_being_made_smaller_does_not_expire(world: World) -> None:
    """The highest of the zone takes longer than `expiresAfter`: all that it moved would have been for nothing."""
    world.edit(scaleDown={"proofInterval": "5s"}, replicas=6)
    asyncio.run(world.run(world.operator(), passes=12))
    world.write(40, random.Random(2))
    world.now_ms, world.drain_rate = world.now_ms + 60_000, 0
    world.edit(replicas=5)
    world.ask(
        "out", "Retire", target={"bookie": "ledgers-zone-b-0"}, reason="its node is given back", expiresAfter="5m"
    )
    asyncio.run(world.run(world.operator(), passes=4))
    assert world.bookie("ledgers-zone-b-1").is_draining

    world.now_ms += 6 * 60_000
    asyncio.run(world.run(world.operator(), passes=4))

    assert world.bookie("ledgers-zone-b-1").is_draining, world.operation("out")
    assert not world.bookie("ledgers-zone-c-1").is_draining


@pytest.mark.parametrize("state", [Departure.FORGETTING, Departure.FORGOTTEN], ids=lambda one: one.value)
def test_a_retirement_that_is_deleted_at_its_end_moves_nobody_else(world: World, state: Departure) -> None:
    """The cookie of its bookie goes, or is gone: the fleet has as many as the spec says."""
    world.edit(scaleDown={"proofInterval": "5s"}, replicas=6)
    asyncio.run(world.run(world.operator(), passes=12))
    world.now_ms += 60_000
    world.edit(replicas=5)
    world.ask("out", "Retire", target={"bookie": "ledgers-zone-b-1"}, reason="its node is given back")
    operator = world.operator()
    for _ in range(PASSES):
        entry = world.status().bookie("ledgers-zone-b-1")
        if entry is not None and entry.leaving is not None and entry.leaving.state is state:
            break
        asyncio.run(world.run(operator, passes=1))
    del world.objects[("BookieOperation", "out")]

    asyncio.run(world.run(operator, passes=12))

    assert {one for one in world.writes if one.startswith("drain/")} == {"drain/ledgers-zone-b-1"}
    assert (world.forgotten, world.is_quiet()) == (["data.ledgers.zone-b.1"], True), world.status()


def _until_complete(world: World, name: str, first: int) -> "tuple[bool, int]":
    """Run until the operation is complete and the fleet quiet; `first` as above. Return (it is, how often the operator
    died)."""
    crash, crashes = DeathAtEveryThird(first), 0
    # With the watch of an operator the word of a kubelet dies: then a node must prove that the process ended.
    world.step_ms = 10_000 if first else world.step_ms
    for _ in range(2 * PASSES // 10):
        crashes += asyncio.run(world.run(world.operator(crash), passes=10, crash=crash))
        if world.operation(name).phase is OperationPhase.COMPLETE and world.is_quiet():
            return True, crashes
    return False, crashes
