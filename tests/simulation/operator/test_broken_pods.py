"""A whole pass over a pod that does not come up: which kind of trouble the status says, in whose words.

The words of kubelet and scheduler alone are told apart in tests/unit/operator/gateways/test_facts.py; here a pass reads
pods and events as the API server has them, and each kind has its own reason (docs/OPERATOR.md).
"""

import asyncio
from typing import Any

import pytest

from bookie_operator.model import names
from bookie_operator.model.status import BookieStatus
from bookie_operator.model.values import format_time
from operator_world_support import KEY, World

POD = "ledgers-zone-c-0"


def broken(world: World, age_s: int = 60, **status: Any) -> str:
    """Its container, or the whole pod, is as `status` says for `age_s` seconds; return the pod's uid."""
    live = world.objects[("Pod", POD)]
    address = next(door for door, one in world.bookies.items() if one.name == POD)
    del world.bookies[address]
    since = {"creationTimestamp": format_time(world.now_ms - age_s * 1_000)}
    world.put(live | {"metadata": live["metadata"] | since, "status": {"phase": "Pending"} | status})
    return str(live["metadata"]["uid"])


def event(world: World, reason: str, note: str, uid: str, *, when: str = "2027-01-15T08:00:00Z") -> None:
    world.serial += 1
    about = {"kind": "Pod", "name": POD, "uid": uid}
    metadata = {"name": f"{reason}-{world.serial}", "namespace": "data"}
    told = {"reason": reason, "note": note, "regarding": about, "deprecatedLastTimestamp": when}
    world.put({"kind": "Event", "metadata": metadata, **told})


def looked_at(world: World) -> BookieStatus:
    """What one pass says of the pod."""
    asyncio.run(world.operator().reconcile(KEY))
    entry = world.status().bookie(POD)
    assert entry is not None
    return entry


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": names.CONTAINER, "state": state}]}


CREATING = container(waiting={"reason": "ContainerCreating"})


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/4 nodes fit"}]}, "NotScheduled"),
        (container(waiting={"reason": "ImagePullBackOff", "message": "no such image"}), "ImageNotPulled"),
        (container(waiting={"reason": "CreateContainerConfigError", "message": "no secret"}), "ContainerNotMade"),
        ({"phase": "Running"} | container(waiting={"reason": "CrashLoopBackOff"}), "Crashing"),
        ({"phase": "Running"} | container(terminated={"reason": "OOMKilled", "exitCode": 137}), "Crashing"),
        ({"phase": "Running", "podIP": "10.9.9.9"} | container(running={}), "SlowStart"),
        (CREATING, "PodNotRunning"),
        ({"phase": "Running", "podIP": "10.9.9.9", "conditions": [{"type": "Ready", "status": "True"}]}, "NoReport"),
    ],
)
def test_each_kind_of_trouble_has_its_own_reason(world: World, status: dict[str, Any], reason: str) -> None:
    broken(world, **status)

    assert looked_at(world).reason == reason


def test_a_volume_that_does_not_come_is_told_in_the_newest_words_of_the_events_about_that_very_pod(
    world: World,
) -> None:
    uid = broken(world, **CREATING)
    event(world, "FailedAttachVolume", "an older word", uid, when="2027-01-15T07:00:00Z")
    event(world, "FailedMount", "no such device", uid)
    event(world, "FailedMount", "of the pod before", "another-uid", when="2027-01-15T09:00:00Z")

    entry = looked_at(world)

    assert entry.reason == "VolumeNotMounted"
    assert "no such device" in entry.message


@pytest.mark.parametrize(
    "spoiled",
    [
        {"age_s": 10, **CREATING},  # a pod that is being made is no news yet
        {"age_s": 60, **container(waiting={"reason": "ImagePullBackOff"})},  # the kubelet has a nearer word
    ],
    ids=["young", "another trouble"],
)
def test_events_are_looked_up_only_where_a_pod_waits_for_long_and_says_nothing(
    world: World, spoiled: dict[str, Any]
) -> None:
    uid = broken(world, **spoiled)
    event(world, "FailedMount", "no such device", uid)

    assert looked_at(world).reason != "VolumeNotMounted"


def test_an_operator_that_may_not_read_events_says_less_and_goes_on(world: World) -> None:
    uid = broken(world, **CREATING)
    event(world, "FailedMount", "no such device", uid)
    world.forbidden = "Event"

    assert looked_at(world).reason == "PodNotRunning"


RUNS = {"phase": "Running", "podIP": "10.9.9.9"} | container(running={})


@pytest.mark.parametrize(
    ("status", "state"), [(RUNS, "Unreachable"), (CREATING, "Missing")], ids=["runs", "is being made"]
)
def test_a_machine_that_is_down_is_named_and_not_what_the_api_server_last_heard_of_the_pod(
    world: World, status: dict[str, Any], state: str
) -> None:
    broken(world, **status)
    node = str(world.objects[("Pod", POD)]["spec"]["nodeName"])
    world.switch_off(node)

    entry = looked_at(world)

    assert (entry.state, entry.reason) == (state, "NodeNotReady")
    assert f"its node {node} is not ready since {format_time(world.now_ms)}" in entry.message


def test_a_pod_that_cannot_end_since_its_machine_is_down_says_so(world: World) -> None:
    broken(world, **RUNS)
    live = world.objects[("Pod", POD)]
    world.put(live | {"metadata": live["metadata"] | {"deletionTimestamp": format_time(world.now_ms)}})
    world.switch_off(str(live["spec"]["nodeName"]))

    entry = looked_at(world)

    assert (entry.state, entry.reason) == ("Stopping", "NodeNotReady")
    assert "is being deleted; its node" in entry.message


def test_a_pod_whose_node_was_deleted_says_so_until_kubernetes_drops_it(world: World) -> None:
    broken(world, **RUNS)
    node = str(world.objects[("Pod", POD)]["spec"]["nodeName"])
    del world.objects[("Node", node)]

    entry = looked_at(world)

    assert (entry.state, entry.reason) == ("Unreachable", "NodeNotReady")
    assert f"its node {node} was deleted" in entry.message


def test_an_operator_that_may_not_read_nodes_says_what_the_pod_says(world: World) -> None:
    broken(world, **RUNS)
    world.switch_off(str(world.objects[("Pod", POD)]["spec"]["nodeName"]))
    world.forbidden = "Node"

    assert looked_at(world).reason == "SlowStart"
