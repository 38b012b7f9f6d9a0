"""spec/operator.md#G12: nobody takes an identity over while an older process of it may still run."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.gateways import facts
from bookie_operator.model import values
from operator_world_support import World

LOST = "ledgers-zone-b-0"
NODE = ("Node", "node")
WAIT_MS = (120 + 120) * 1000  # the pods' termination grace, and what a kubelet is given beyond


@pytest.fixture
def world(built: World) -> World:
    """A fleet in service whose one node has just stopped talking."""
    out = worlds.clone(built)
    unready(out)
    return out


def unready(world: World, *, is_ready: bool = False) -> None:
    condition = world.objects[NODE]["status"]["conditions"][0]
    condition |= {"status": "True" if is_ready else "Unknown", "lastTransitionTime": values.format_time(world.now_ms)}


def run(world: World, *, passes: int = 30, has_watched: bool = True) -> None:
    asyncio.run(world.run(world.operator(has_watched=has_watched), passes=passes, until_quiet=True))


def gates(world: World) -> dict[str, str]:
    entry = world.status().bookie(LOST)
    assert entry is not None
    return {gate.name: gate.message for gate in entry.gates}


def old_uid(world: World) -> str:
    entry = world.status().bookie(LOST)
    assert entry is not None
    assert entry.processes is not None
    return entry.processes[0].pod_uid


def test_a_pod_that_its_kubelet_ended_is_followed_at_once(world: World) -> None:
    world.lose(LOST)

    run(world)

    assert world.is_quiet()


def test_a_pod_that_was_deleted_by_force_is_never_followed_for_that_alone(world: World) -> None:
    world.lose(LOST, by_force=True)
    world.step_ms = 60_000

    run(world, passes=60)

    assert list(gates(world)) == ["G12-OldProcess"]
    assert world.accepted == []


def approve_old(world: World) -> None:
    metadata = world.objects[("BookieCluster", "ledgers")]["metadata"]
    metadata["annotations"] = {"bookie.dev/confirmed-ended": f"something, {old_uid(world)}"}


def remove_node(world: World) -> None:
    del world.objects[NODE]


def replace_node(world: World) -> None:
    world.objects[NODE]["metadata"]["uid"] = "another-machine"


def take_out_of_service(world: World) -> None:
    world.objects[NODE]["spec"]["taints"] = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]


def come_back_long_ago(world: World) -> None:
    unready(world, is_ready=True)
    world.now_ms += WAIT_MS


@pytest.mark.parametrize("proof", [approve_old, remove_node, replace_node, take_out_of_service, come_back_long_ago])
def test_each_proof_of_the_old_process_opens_the_gate(world: World, proof: Callable[[World], None]) -> None:
    world.lose(LOST, by_force=True)
    run(world)
    before = list(world.accepted)

    proof(world)
    run(world)

    assert before == []
    assert world.is_quiet()


def approve_another(world: World) -> None:
    metadata = world.objects[("BookieCluster", "ledgers")]["metadata"]
    metadata["annotations"] = {"bookie.dev/confirmed-ended": "yesterdays-pod"}


def come_back_just_now(world: World) -> None:
    unready(world, is_ready=True)
    world.now_ms += WAIT_MS - 60_000


def come_back_after_a_long_time(world: World) -> None:
    world.now_ms += 2 * WAIT_MS
    unready(world, is_ready=True)
    world.now_ms += 60_000


def taint_a_node_that_answers(world: World) -> None:
    take_out_of_service(world)
    unready(world, is_ready=True)


@pytest.mark.parametrize(
    "no_proof", [approve_another, come_back_just_now, come_back_after_a_long_time, taint_a_node_that_answers]
)
def test_what_proves_nothing_opens_nothing(world: World, no_proof: Callable[[World], None]) -> None:
    world.lose(LOST, by_force=True)
    run(world)

    no_proof(world)
    run(world)

    assert list(gates(world)) == ["G12-OldProcess"]


def test_without_the_right_to_read_nodes_only_a_person_can_open_it(world: World) -> None:
    world.forbidden = "Node"
    world.lose(LOST, by_force=True)
    come_back_long_ago(world)
    run(world)
    limited = world.status().condition("LimitedVisibility")
    assert limited is not None
    assert (limited.status, limited.reason) == ("True", "NoNodeRead")
    assert "nodes.read" in gates(world)["G12-OldProcess"]

    approve_old(world)
    run(world)

    assert world.is_quiet()


def test_an_operator_that_did_not_see_the_end_asks_the_node(world: World) -> None:
    world.lose(LOST)
    run(world, has_watched=False)
    before = list(gates(world))

    come_back_long_ago(world)
    run(world)

    assert before == ["G12-OldProcess"]
    assert world.is_quiet()


def test_a_lost_status_and_record_know_no_old_pod_and_so_ask_a_person(world: World) -> None:
    world.objects[("BookieCluster", "ledgers")].pop("status")
    del world.objects[("ConfigMap", "ledgers-record")]
    world.lose(LOST)
    world.mount = worlds.MountProof.PROVEN  # what shared disks need the status for is not the question here
    come_back_long_ago(world)

    run(world)
    (name,), (message,) = gates(world), gates(world).values()
    metadata = world.objects[("BookieCluster", "ledgers")]["metadata"]
    metadata["annotations"] = {"bookie.dev/confirmed-ended": message.rsplit("=", 1)[1]}
    run(world)

    assert name == "G12-OldProcess"
    assert world.is_quiet()


def test_a_pod_that_came_and_went_while_nobody_watched_is_not_forgotten(world: World) -> None:
    """It registered, which the boot epoch counts; the one that waits now has not."""
    world.lose(LOST, by_force=True)
    world.settle()
    world.kill(LOST, by_force=True)  # nobody has seen this one
    world.boot_epochs["data.ledgers.zone-b.0"] = 7
    world.settle()
    lost = world.bookie(LOST)
    lost.volumes = dict.fromkeys(lost.volumes, worlds.Contents.EMPTY)
    lost.start()
    come_back_long_ago(world)

    run(world, has_watched=False)

    assert "unseen" in gates(world)["G12-OldProcess"]


ENDED: dict[str, Any] = {"state": {"terminated": {"exitCode": 0}}}
RUNS: dict[str, Any] = {"state": {"running": {}}}


@pytest.mark.parametrize(
    ("status", "has_ended"),
    [
        ({"phase": "Failed", "containerStatuses": [ENDED]}, True),
        ({"phase": "Succeeded", "containerStatuses": [ENDED, ENDED]}, True),
        ({"phase": "Running", "containerStatuses": [ENDED]}, False),  # a crash: it is started again
        ({"phase": "Failed", "containerStatuses": [RUNS]}, False),  # some controller's word
        ({"phase": "Failed", "containerStatuses": [ENDED, RUNS]}, False),
        ({"phase": "Failed"}, False),
        ({}, False),
    ],
)
def test_only_a_terminal_phase_with_every_container_terminated_is_an_end(
    status: dict[str, Any], *, has_ended: bool
) -> None:
    assert facts.has_ended({"metadata": {"uid": "u"}, "status": status}) is has_ended
