"""Meshes, policies and other controllers write into our children: the operator neither fights nor loops."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.model import names
from operator_world_support import World

Manifest = dict[str, Any]
LOST = "ledgers-zone-b-0"


def pod_specs(manifest: Manifest) -> list[Manifest]:
    template = manifest.get("spec", {}).get("template")
    return [template["spec"]] if template else []


def add(items: list[Any], item: Any) -> None:
    if item not in items:
        items.append(item)


def sidecar(manifest: Manifest) -> Manifest:
    for spec in pod_specs(manifest):
        add(spec["containers"], {"name": "mesh", "image": "mesh:1"})
        add(spec.setdefault("initContainers", []), {"name": "mesh-init", "image": "mesh:1"})
        add(spec["volumes"], {"name": "mesh", "emptyDir": {}})
    return manifest


def sidecar_in_front(manifest: Manifest) -> Manifest:
    for spec in pod_specs(manifest):
        if spec["containers"][0]["name"] != "mesh":
            spec["containers"].insert(0, {"name": "mesh", "image": "mesh:1"})
    return manifest


def container_parts(manifest: Manifest) -> Manifest:
    for spec in pod_specs(manifest):
        for container in spec["containers"]:
            add(container.setdefault("env", []), {"name": "PROXY", "value": "x"})
            add(container.setdefault("ports", []), {"name": "mesh", "containerPort": 15020})
            add(container.setdefault("volumeMounts", []), {"name": "mesh", "mountPath": "/mesh"})
    return manifest


def tolerations(manifest: Manifest) -> Manifest:
    for spec in pod_specs(manifest):
        add(spec.setdefault("tolerations", []), {"key": "spot", "operator": "Exists"})
        add(spec.setdefault("imagePullSecrets", []), {"name": "corporate"})
        add(spec.setdefault("topologySpreadConstraints", []), {"maxSkew": 1})
    return manifest


def labels_and_owners(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    metadata.setdefault("labels", {})["team"] = "storage"
    metadata.setdefault("annotations", {})["policy"] = "seen"
    add(metadata.setdefault("finalizers", []), "policy/finalizer")
    add(metadata.setdefault("ownerReferences", []), {"kind": "Application", "name": "all", "uid": "app"})
    return manifest


def service_ports(manifest: Manifest) -> Manifest:
    if manifest["kind"] == "Service":
        add(manifest["spec"]["ports"], {"name": "mesh", "port": 15020})
        manifest["spec"]["ipFamilies"] = ["IPv4"]
    if manifest["kind"] == "ServiceAccount":
        add(manifest.setdefault("imagePullSecrets", []), {"name": "corporate"})
    return manifest


def image_from_a_mirror(manifest: Manifest) -> Manifest:
    for spec in pod_specs(manifest):
        for container in spec["containers"]:
            if not container["image"].startswith("mirror/"):
                container["image"] = f"mirror/{container['image']}"
    return manifest


def scalars_rewritten(manifest: Manifest) -> Manifest:
    for spec in pod_specs(manifest):
        spec["automountServiceAccountToken"] = True
        for container in spec["containers"]:
            container["imagePullPolicy"] = "Always"
            container["securityContext"]["capabilities"] = {"drop": ["ALL", "NET_RAW"]}
            container["args"] = [*container["args"], "--by-policy"] if "--by-policy" not in container["args"] else []
    return manifest


def labels_taken_away(manifest: Manifest) -> Manifest:
    manifest["metadata"]["labels"].pop("app.kubernetes.io/managed-by", None)
    return manifest


HANDS: list[Callable[[Manifest], Manifest]] = [
    sidecar,
    sidecar_in_front,
    container_parts,
    tolerations,
    labels_and_owners,
    service_ports,
    image_from_a_mirror,
    scalars_rewritten,
    labels_taken_away,
]


@pytest.mark.parametrize("admit", HANDS)
def test_what_admission_adds_or_rewrites_is_not_patched_for_ever(admit: Callable[[Manifest], Manifest]) -> None:
    world = worlds.world()
    world.admit = admit
    operator = world.operator()
    asyncio.run(world.run(operator, passes=12))
    world.writes.clear()

    asyncio.run(world.run(operator, passes=6))

    assert world.is_quiet(), world.status()
    assert world.writes == []


@pytest.mark.parametrize("hand", HANDS)
def test_what_another_controller_does_once_is_answered_once_at_most(
    world: World, hand: Callable[[Manifest], Manifest]
) -> None:
    operator = world.operator()
    asyncio.run(world.run(operator, passes=3))
    for (kind, _), one in list(world.objects.items()):
        if kind in ("StatefulSet", "Service", "ServiceAccount", "ConfigMap", "PodDisruptionBudget", "Job"):
            hand(one)
            world.put(one)
    world.writes.clear()

    asyncio.run(world.run(operator, passes=6))

    children = [write for write in world.writes if not write.startswith("BookieCluster")]
    assert len(children) == len(set(children)), children


@pytest.mark.parametrize("hand", [sidecar, container_parts, tolerations, labels_and_owners, service_ports])
def test_items_of_others_in_our_lists_are_left_in_peace(world: World, hand: Callable[[Manifest], Manifest]) -> None:
    for (kind, _), one in list(world.objects.items()):
        if kind in ("StatefulSet", "Service", "ServiceAccount", "ConfigMap", "PodDisruptionBudget", "Job"):
            world.put(hand(one))
    world.writes.clear()

    asyncio.run(world.run(world.operator(), passes=4))

    assert set(world.writes) <= {"BookieCluster/ledgers/status"}


def test_who_changes_a_child_after_every_write_is_answered_more_and_more_seldom(world: World) -> None:
    operator = world.operator()
    asyncio.run(world.run(operator, passes=3))
    world.writes.clear()

    world.step_ms = 5_000

    for _ in range(60):
        world.objects[("Service", "ledgers-bookies")]["spec"]["publishNotReadyAddresses"] = False
        asyncio.run(world.run(operator, passes=1))

    assert world.writes.count("Service/ledgers-bookies") <= 12


def test_an_edit_of_ours_is_put_right_as_before(world: World) -> None:
    operator = world.operator()
    asyncio.run(world.run(operator, passes=3))
    world.writes.clear()

    world.objects[("StatefulSet", "ledgers-zone-b")]["spec"]["template"]["spec"]["containers"][0]["args"] = ["sh"]
    asyncio.run(world.run(operator, passes=3))

    assert "StatefulSet/ledgers-zone-b" in world.writes


def test_a_budget_that_a_policy_keeps_open_forbids_the_grant(world: World) -> None:
    def kept_open(manifest: Manifest) -> Manifest:
        if manifest["kind"] == "PodDisruptionBudget":
            manifest["spec"]["maxUnavailable"] = 1
        return manifest

    world.admit = kept_open
    world.lose(LOST)

    asyncio.run(world.run(world.operator(), passes=30))

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert (stalled.reason, world.accepted) == ("ApplyRefused", [])
    assert "admission policy" in stalled.message


def in_a_turn(world: World) -> None:
    world.edit(image="bookie:2", rollout={"strategy": "Automatic", "onFailure": "Rollback"})


def in_a_loss(world: World) -> None:
    world.lose(LOST)


def in_a_departure(world: World) -> None:
    world.write(200, random.Random(1))
    world.edit(replicas=3)


def in_an_eviction(world: World) -> None:
    world.edit(disruption={"onDrain": "ReadOnlyFirst"})
    world.cordon("node")


def asleep(world: World) -> None:
    world.edit(lifecycle={"hibernate": True}, autorecovery={"enabled": True})


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every text."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from texts(part, (*path, key))
    if isinstance(value, str):
        yield path


def put_in(value: Any, path: tuple[Any, ...], text: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text


@pytest.mark.slow
@pytest.mark.parametrize("story", [in_a_turn, in_a_loss, in_a_departure, in_an_eviction, asleep])
@pytest.mark.parametrize("edited", ["nonsense", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_no_text_of_the_status_that_somebody_edits_breaks_a_pass(
    world: World, story: Callable[[World], None], edited: str
) -> None:
    """Nothing that is stored in the resource is more than what somebody may have written there."""
    story(world)
    for _ in range(9):
        asyncio.run(world.run(world.operator(), passes=1))
    stored = world.objects[("BookieCluster", "ledgers")]["status"]
    kinds = {tuple(key for key in path if isinstance(key, str)): path for path in texts(stored)}
    assert len(kinds) > 50
    for path in kinds.values():
        copy = worlds.clone(world)
        put_in(copy.objects[("BookieCluster", "ledgers")]["status"], path, edited)
        asyncio.run(copy.run(copy.operator(), passes=1))
        assert len(copy.status().bookies) == len(world.status().bookies), path


def owners(world: World) -> dict[str, list[Any]]:
    """What says that a child goes with its cluster, of all that the operator made for it."""
    kinds = ("StatefulSet", "Service", "ServiceAccount", "ConfigMap", "PodDisruptionBudget")
    return {
        f"{kind} {name}": one["metadata"].get("ownerReferences") or []
        for (kind, name), one in world.objects.items()
        if kind in kinds and name != "ledgers-record"
    }


def test_a_child_whose_owner_somebody_removed_is_owned_again(world: World) -> None:
    """Settings too: else they stay when the cluster goes, one ConfigMap for each edit that there was."""
    operator = world.operator()
    asyncio.run(world.run(operator, passes=3))
    wanted = owners(world)
    assert all(wanted.values()), wanted
    for (kind, _), one in list(world.objects.items()):
        if kind != "Secret":
            one["metadata"].pop("ownerReferences", None)
    world.writes.clear()

    asyncio.run(world.run(operator, passes=6))

    assert owners(world) == wanted
    children = [write for write in world.writes if not write.startswith("BookieCluster")]
    assert len(children) == len(set(children)), children
    assert world.is_quiet()


@pytest.mark.parametrize("later_ms", [0, 700_000])
def test_a_budget_that_a_finalizer_of_others_keeps_in_deletion_is_closed_before_a_grant(
    world: World, later_ms: int
) -> None:
    """It counts for every eviction until it is gone."""
    operator = world.operator()
    asyncio.run(world.run(operator, passes=3))
    budget = world.objects[("PodDisruptionBudget", "ledgers-bookies")]
    gone_at = {"deletionTimestamp": worlds.values.format_time(world.now_ms), "finalizers": ["policy/finalizer"]}
    world.put(budget | {"metadata": budget["metadata"] | gone_at})
    assert budget["spec"]["maxUnavailable"] == 1
    world.now_ms += later_ms

    world.lose(LOST)
    asyncio.run(world.run(operator, passes=8))

    assert world.objects[("PodDisruptionBudget", "ledgers-bookies")]["spec"]["maxUnavailable"] == 0


@pytest.mark.parametrize("kind", ["Service", "StatefulSet", "ConfigMap"])
def test_a_child_that_a_finalizer_of_others_keeps_in_deletion_for_ever_is_told(world: World, kind: str) -> None:
    operator = world.operator()
    asyncio.run(world.run(operator, passes=3))
    child = next(one for one in world.of_kind(kind) if one["metadata"]["name"] != "ledgers-record")
    gone_at = {"deletionTimestamp": worlds.values.format_time(world.now_ms), "finalizers": ["policy/finalizer"]}
    world.put(child | {"metadata": child["metadata"] | gone_at})

    asyncio.run(world.run(operator, passes=4))
    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert stalled.status == "False", "what is on its way is not told"
    world.now_ms += 700_000
    asyncio.run(world.run(operator, passes=4))

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "ApplyRefused")
    assert f"{kind} {child['metadata']['name']}" in stalled.message
    assert "policy/finalizer" in stalled.message


@pytest.mark.parametrize("kind", ["StatefulSet", "Service", "ServiceAccount", "ConfigMap", "PodDisruptionBudget"])
def test_a_child_whose_label_somebody_removed_gets_it_again_and_nobody_is_stopped(world: World, kind: str) -> None:
    """Without it the operator does not see the child, and makes what is there already."""
    operator = world.operator()
    asyncio.run(world.run(operator, passes=3))
    pods = {one["metadata"]["uid"] for one in world.of_kind("Pod")}
    children = [one for one in world.of_kind(kind) if one["metadata"]["name"] != "ledgers-record"]
    labels = [dict(one["metadata"]["labels"]) for one in children]
    for one in children:
        del one["metadata"]["labels"][worlds.names.LABEL_CLUSTER]

    asyncio.run(world.run(operator, passes=4))

    now = [world.objects[(kind, one["metadata"]["name"])]["metadata"]["labels"] for one in children]
    assert now == labels
    assert {one["metadata"]["uid"] for one in world.of_kind("Pod")} == pods
    assert world.is_quiet()
    assert world.accepted == []


def test_a_part_of_the_status_that_somebody_removed_is_there_again_though_nothing_happened(world: World) -> None:
    """The record has it; without this it would stay away until something changes."""
    operator = world.operator()
    asyncio.run(world.run(operator, passes=2))
    before = world.objects[(names.KIND, "ledgers")]["status"].pop("instanceId")

    asyncio.run(world.run(operator, passes=2))

    assert world.objects[(names.KIND, "ledgers")]["status"]["instanceId"] == before


def copied(world: World, kind: str, name: str, to: str, **spec: Any) -> Manifest:
    """Put a copy of an object there, under another name and with all its labels, as `kubectl get -o yaml` has it."""
    found = world.objects[(kind, name)]
    metadata = {"name": to, "namespace": "data", "labels": dict(found["metadata"]["labels"])}
    return world.put({"kind": kind, "metadata": metadata, "spec": worlds._copy(found["spec"]) | spec, "status": {}})


def replicas(world: World) -> dict[str, int]:
    return {one["metadata"]["name"]: one["spec"]["replicas"] for one in world.of_kind("StatefulSet")}


@pytest.mark.parametrize("name", ["ledgers-debug-7", "ledgers-debug-149"])
def test_a_pod_that_somebody_copied_with_its_labels_is_no_bookie_and_makes_none(world: World, name: str) -> None:
    """`kubectl debug ledgers-zone-a-0 --copy-to=ledgers-debug-7 --keep-labels`: the operator made a pool of eight."""
    operator, before = world.operator(), replicas(world)
    copied(world, "Pod", "ledgers-zone-a-0", name, nodeName="")

    asyncio.run(world.run(operator, passes=10))

    assert replicas(world) == before
    assert len(world.status().bookies) == 4
    assert ("Pod", name) in world.objects, "it is somebody else's"


@pytest.mark.parametrize("owner", ["", "somebody"])
def test_a_stateful_set_that_somebody_copied_with_its_labels_makes_no_pool_larger(world: World, owner: str) -> None:
    """Under another name, from a backup say, with nine pods: the operator gave its pool nine bookies."""
    operator, before = world.operator(), replicas(world)
    made = copied(world, "StatefulSet", "ledgers-zone-a", "copy-of-ledgers", replicas=0)
    if owner:
        made["metadata"]["ownerReferences"] = [{"kind": "Backup", "name": owner, "uid": owner, "controller": True}]
    world.put(made | {"spec": made["spec"] | {"replicas": 9}})
    world.writes.clear()

    asyncio.run(world.run(operator, passes=10))

    assert replicas(world) == before | {"copy-of-ledgers": 9}
    assert len(world.status().bookies) == 4


def test_a_stateful_set_that_another_controls_is_not_deleted_although_its_labels_say_that_it_is_ours(
    world: World,
) -> None:
    operator = world.operator()
    made = copied(world, "StatefulSet", "ledgers-zone-a", "ledgers-other", replicas=0)
    made["metadata"]["labels"][names.LABEL_POOL] = "other"
    made["metadata"]["ownerReferences"] = [{"kind": "Fleet", "name": "it", "uid": "another", "controller": True}]
    world.put(made)

    asyncio.run(world.run(operator, passes=10))

    assert ("StatefulSet", "ledgers-other") in world.objects
    assert len(world.status().bookies) == 4


def test_a_claim_that_somebody_copied_with_its_marks_makes_no_pool_larger(world: World) -> None:
    """It says whose it was: the operator made six bookies up to the number in its name."""
    operator, before = world.operator(), replicas(world)
    found = world.objects[("PersistentVolumeClaim", "ledgers-ledgers-zone-a-0")]
    kept = {key: dict(found["metadata"][key]) for key in ("labels", "annotations")}
    world.put(found | {"metadata": {"name": "ledgers-ledgers-zone-a-7", "namespace": "data"} | kept})

    asyncio.run(world.run(operator, passes=10))

    assert replicas(world) == before
    assert len(world.status().bookies) == 4
    assert ("PersistentVolumeClaim", "ledgers-ledgers-zone-a-7") in world.objects, "it is somebody else's"
