"""A node with local disks is gone: nothing is deleted without proof, and with it the bookie lives elsewhere."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.crash import CrashPoint
from bookie_operator.gateways.kube import KubeError, KubeForbidden
from operator_world_support import Crashed, World
from workflows_support import on_local_disks

LOST, NODE = "ledgers-zone-b-0", "n-b"
PLACES = {"ledgers-zone-a-0": "n-a", "ledgers-zone-a-1": "n-a1", LOST: NODE, "ledgers-zone-c-0": "n-c"}
CLAIMS = [f"delete PersistentVolumeClaim/{volume}-{LOST}" for volume in ("journal", "ledgers", "index")]


@pytest.fixture(scope="module")
def local() -> World:
    """A fleet in service on local disks, a node for each bookie, and one to spare."""
    return on_local_disks(PLACES, spare="spare")


@pytest.fixture
def world(local: World) -> World:
    out = worlds.clone(local)
    out.edit(repair={"stabilization": "6s", "lostNode": {"policy": "Replace", "after": "20s"}})
    run(out, passes=3)
    out.writes.clear()
    return out


def run(world: World, *, passes: int = 40, **how: Any) -> None:
    asyncio.run(world.run(world.operator(**how), passes=passes, until_quiet=True))


def lose_node(world: World) -> None:
    world.switch_off(NODE)
    world.delete_node(NODE)
    world.objects.pop(("Node", "node"), None)


def deleted(world: World) -> list[str]:
    return [one for one in world.writes if one.startswith("delete PersistentVolumeClaim/")]


def told(world: World) -> str:
    entry = world.status().bookie(LOST)
    assert entry is not None
    return f"{entry.reason}: {entry.message}"


def test_after_the_timer_exactly_its_claims_go_and_the_bookie_lives_on_another_node(world: World) -> None:
    lose_node(world)
    began_ms = world.now_ms

    run(world, passes=60)

    assert deleted(world) == CLAIMS
    assert world.is_quiet(), world.status()
    assert world.objects[("Pod", LOST)]["spec"]["nodeName"] != NODE
    assert world.now_ms - began_ms > 20_000
    assert [one.bookie_id for one in world.accepted] == ["data.ledgers.zone-b.0"], "the usual way, by a grant"
    assert world.lost_entries() == []


def test_kept_volumes_of_a_machine_that_is_gone_are_not_waited_for_twice(world: World) -> None:
    """spec/operator.md#G6: `after` is over already; `reattachGrace` is a quarter of an hour."""
    for one in world.of_kind("PersistentVolume"):
        one["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
    lose_node(world)

    run(world, passes=60)

    kept = [one for one in world.of_kind("PersistentVolume") if one.get("status", {}).get("phase") == "Released"]
    assert (deleted(world), len(kept)) == (CLAIMS, 3)
    assert world.is_quiet(), world.status()
    assert world.lost_entries() == []


def test_while_it_waits_the_status_says_why_and_what_brings_it_back(world: World) -> None:
    world.edit(repair={"stabilization": "6s", "lostNode": {"policy": "Wait", "after": "20s"}})
    lose_node(world)

    run(world, passes=40)

    degraded = world.status().condition("Degraded")
    assert degraded is not None
    assert deleted(world) == []
    assert told(world).startswith(f"NodeLost: node {NODE} is gone since")
    for words in (degraded.message, told(world)):
        assert "a machine of that name with these disks brings the bookie back" in words


def come_back(world: World) -> None:
    world.add_node(NODE)


def another_is_down(world: World) -> None:
    world.bookie("ledgers-zone-c-0").is_reachable = False


def another_is_empty(world: World) -> None:
    world.lose("ledgers-zone-c-0")
    world.refuse_grants = "not yet"


def it_is_still_registered(world: World) -> None:
    world.still_registered.add("data.ledgers.zone-b.0")


def volume_is_not_tied_to_the_host(world: World) -> None:
    for one in world.of_kind("PersistentVolume"):
        one["spec"].pop("nodeAffinity", None)


def nobody_may_read_volumes(world: World) -> None:
    world.forbidden = "PersistentVolume"


def nobody_may_read_nodes(world: World) -> None:
    world.forbidden = "Node"


def is_paused(world: World) -> None:
    world.edit(lifecycle={"paused": True, "terminationGrace": "2m"})


def disks_vanish_too_often(world: World) -> None:
    repair = {"stabilization": "6s", "maxPerDay": 0, "lostNode": {"policy": "Replace", "after": "20s"}}
    world.edit(repair=repair)


@pytest.mark.parametrize(
    "doubt",
    [
        come_back,
        another_is_down,
        another_is_empty,
        it_is_still_registered,
        volume_is_not_tied_to_the_host,
        nobody_may_read_volumes,
        nobody_may_read_nodes,
        is_paused,
        disks_vanish_too_often,
    ],
)
def test_with_one_proof_missing_nothing_is_ever_deleted(world: World, doubt: Any) -> None:
    lose_node(world)
    doubt(world)

    run(world, passes=45)

    assert deleted(world) == []


def test_a_node_that_is_only_silent_is_not_gone_and_an_out_of_service_one_is(world: World) -> None:
    world.switch_off(NODE)
    run(world, passes=35)
    before = deleted(world)

    world.objects[("Node", NODE)]["spec"]["taints"] = [{"key": "node.kubernetes.io/out-of-service"}]
    world.cordon(NODE)
    world.kill(LOST, by_force=True)
    run(world, passes=60)

    assert before == []
    assert deleted(world) == CLAIMS
    assert world.is_quiet(), world.status()


def test_a_drained_node_with_local_disks_keeps_its_bookie_waiting_and_says_so(world: World) -> None:
    world.cordon(NODE)
    assert world.evict(LOST)

    run(world, passes=40)
    words = told(world)
    world.cordon(NODE, is_cordoned=False)
    run(world, passes=10)

    assert deleted(world) == []
    assert "kubectl uncordon n-b" in words
    assert world.is_quiet(), world.status()


@pytest.mark.parametrize("write", range(1, 9))
def test_whichever_write_was_the_operators_last_it_ends_well(world: World, write: int, tmp_path: Path) -> None:
    def end(_: int) -> None:
        raise Crashed

    lose_node(world)
    world.step_ms = 5_000
    run(world, passes=4)

    crash = CrashPoint(write, str(tmp_path), end)
    asyncio.run(world.run(world.operator(crash), passes=60, until_quiet=True))

    assert deleted(world) == CLAIMS
    assert world.is_quiet(), world.status()


def test_a_node_that_comes_back_between_two_deletions_keeps_what_is_left(world: World) -> None:
    def come_back_and_die(_: str) -> None:
        world.on_claim_gone = worlds.nothing
        world.add_node(NODE)
        raise Crashed

    world.on_claim_gone = come_back_and_die
    lose_node(world)

    run(world, passes=80)

    assert deleted(world) == CLAIMS[:1]
    assert world.objects[("Pod", LOST)]["spec"]["nodeName"] == NODE
    assert world.is_quiet(), world.status()


@pytest.mark.slow
@pytest.mark.parametrize(
    "refusal",
    [KubeForbidden("x", 403, "no right"), KubeError("x", 400, "a policy says no"), KubeError("x", 418, "no")],
    ids=["no right", "a policy", "any other word"],
)  # fmt: skip
def test_a_deletion_that_the_api_server_refuses_is_told_in_its_words(world: World, refusal: KubeError) -> None:
    world.no_claim_deletion = refusal
    lose_node(world)
    operator = world.operator()
    asyncio.run(world.run(operator, passes=60))
    degraded = world.status().condition("Degraded")
    assert degraded is not None
    before = (told(world), degraded.message)

    world.no_claim_deletion = None
    asyncio.run(world.run(operator, passes=60))

    for words in before:
        assert f"could not delete PersistentVolumeClaim journal-{LOST}" in words
        assert str(refusal) in words
    assert deleted(world) == CLAIMS
    assert world.is_quiet(), world.status()


@pytest.mark.slow
@pytest.mark.parametrize("http_status", [409, 429, 503])
def test_a_deletion_that_may_pass_by_itself_is_no_hindrance_yet(world: World, http_status: int) -> None:
    world.no_claim_deletion = KubeError("x", http_status, "later")
    lose_node(world)
    operator = world.operator()

    with pytest.raises(KubeError):
        asyncio.run(world.run(operator, passes=60))
    words = told(world)
    world.no_claim_deletion = None
    asyncio.run(world.run(operator, passes=60))

    assert "could not delete" not in words
    assert deleted(world) == CLAIMS


def test_a_claim_whose_deletion_a_finalizer_holds_is_told(world: World) -> None:
    lose_node(world)
    operator = world.operator()
    claim = world.objects[("PersistentVolumeClaim", f"index-{LOST}")]
    claim["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    world.no_claim_deletion = KubeError("delete", 409, "wait")
    for _ in range(60):
        with contextlib.suppress(KubeError):
            asyncio.run(world.run(operator, passes=1))
        world.settle()

    assert f"claim index-{LOST} is being deleted, and something holds it" in told(world)
