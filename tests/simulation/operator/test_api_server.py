"""The world's API server answers as a real one where an operator leans on it: versions, generations, preconditions."""

import asyncio
from typing import Any

import pytest

from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.model import names
from operator_world_support import DATA_BYTES_MAX, World

LEASE: Manifest = {"kind": "Lease", "metadata": {"name": "lease", "namespace": "data"}, "spec": {"renewTime": "1"}}
SET = ("StatefulSet", "pool")


def applied(world: World, manifest: Manifest, *, manager: str = "one") -> dict[str, Any]:
    return asyncio.run(world.apply(manifest, manager=manager))


def told(world: World, manifest: Manifest) -> dict[str, Any]:
    return asyncio.run(world.replace_status(manifest, manager="one"))


def stateful_set(**spec: object) -> Manifest:
    return {"kind": SET[0], "metadata": {"name": SET[1], "namespace": "data"}, "spec": spec}


def status(error: pytest.ExceptionInfo[KubeError]) -> int:
    return error.value.http_status


def test_a_write_that_changes_nothing_keeps_the_version() -> None:
    world = World()
    first = asyncio.run(world.create(LEASE))

    same = asyncio.run(world.replace(first | {"spec": {"renewTime": "1"}}))
    other = asyncio.run(world.replace(first | {"spec": {"renewTime": "2"}}))

    versions = [one["metadata"]["resourceVersion"] for one in (first, same, other)]
    assert versions[0] == versions[1] != versions[2]


def test_who_replaces_what_changed_since_or_is_not_there_is_refused() -> None:
    world = World()
    old = asyncio.run(world.create(LEASE))
    asyncio.run(world.replace(old | {"spec": {"renewTime": "2"}}))

    with pytest.raises(KubeError) as changed:
        asyncio.run(world.replace(old | {"spec": {"renewTime": "3"}}))
    with pytest.raises(KubeError) as absent:
        asyncio.run(World().replace(old))

    assert (status(changed), status(absent)) == (409, 404)


def test_only_another_spec_is_another_generation_and_each_door_has_its_own_part() -> None:
    world = World()
    applied(world, stateful_set(replicas=3))

    told(world, stateful_set(replicas=3) | {"status": {"readyReplicas": 3}})
    applied(world, stateful_set(replicas=3) | {"status": {"readyReplicas": 9}})
    before = world.objects[SET]
    applied(world, stateful_set(replicas=4))

    assert (before["metadata"]["generation"], before["status"]) == (1, {"readyReplicas": 3})
    assert world.objects[SET]["metadata"]["generation"] == 2


def test_what_its_manager_applies_no_more_goes_unless_another_one_applied_it() -> None:
    world = World()
    applied(world, stateful_set(replicas=3, minReadySeconds=1, paused=True))
    applied(world, stateful_set(replicas=3), manager="another")

    applied(world, stateful_set(minReadySeconds=1))

    assert world.objects[SET]["spec"] == {"replicas": 3, "minReadySeconds": 1}


def test_a_status_of_nobody_and_what_is_too_large_are_refused() -> None:
    world = World()
    large = {"kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"text": "x" * DATA_BYTES_MAX}}
    noted = stateful_set() | {"metadata": {"name": "pool", "annotations": {names.SAID: "x" * 300_000}}}

    found = []
    for write, manifest in ((told, stateful_set() | {"status": {}}), (applied, large), (applied, noted)):
        with pytest.raises(KubeError) as refused:
            write(world, manifest)
        found.append(status(refused))

    assert found == [404, 422, 422]
