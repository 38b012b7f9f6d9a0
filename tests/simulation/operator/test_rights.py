"""RBAC: what the operator asks of an API server in the stories of a fleet is what its chart allows, and nothing more.

A right that no story uses goes, or gets a story here; a call that no rule covers needs a rule with its reason.
"""

import asyncio
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator import watch
from bookie_operator.lease import LeaderLease
from bookie_operator.model import names
from operator_world_support import World
from rights_support import VERBS, Right, covers, declared, resource

# Asked for by the API server itself, or by kopf's watches (tests/unit/operator/test_rights.py).
ASKED_BY_OTHERS: dict[Right, str] = {
    ("update", "bookie.dev/bookieclusters/finalizers"): "OwnerReferencesPermissionEnforcement",
    **{(verb, f"{group}/{plural}"): "kopf" for group, _, plural in watch.CHILDREN for verb in ("list", "watch")},
    **{(verb, resource(kind)): "kopf" for kind in (names.KIND, names.OPERATION_KIND) for verb in ("list", "watch")},
}


def record(world: World, used: set[tuple[str, str, str]]) -> World:
    """Note (verb, resource, name) of each call to `world` as an API server."""

    def noted(method: str) -> Any:
        call = getattr(world, method)

        async def ask(*arguments: Any, **options: Any) -> Any:
            first = arguments[0]
            if isinstance(first, str):
                kind, name = first, arguments[2] if len(arguments) > 2 and method != "list" else ""
            else:
                kind, name = first["kind"], first["metadata"]["name"]
            what = resource(kind, "status" if method == "replace_status" else "")
            if method == "create":
                name = ""  # a POST names nothing in its path: a rule with names does not allow it
            used.add((VERBS[method], what, name))
            if method == "apply" and (kind, name) not in world.objects:
                used.add(("create", what, name))
            return await call(*arguments, **options)

        return ask

    for method in VERBS:
        setattr(world, method, noted(method))
    return world


def go(world: World, passes: int = 6) -> None:
    asyncio.run(world.run(world.operator(), passes=passes))


def stories(used: set[tuple[str, str, str]]) -> None:
    """A fleet is made, loses a volume, is rolled out, loses what the spec switches off, and is deleted."""
    world = record(worlds.world(image=worlds.BROKEN_IMAGE, autorecovery={"enabled": True}), used)
    go(world)  # the Job fails
    world.objects["Job", "ledgers-metadata"]["metadata"]["labels"] = {}  # by somebody: it gets them again
    go(world, 1)
    world.edit(image="bookie:right")
    go(world, 14)
    assert world.is_quiet(), world.status()
    for kind, name in (("ServiceAccount", "ledgers-bookie"), ("Service", "ledgers-bookies")):
        world.objects[kind, name]["metadata"]["labels"] = {}
    go(world, 2)
    world.lose("ledgers-zone-a-0")
    go(world, 30)
    world.is_scheduling = False
    world.edit(replicas=5)
    go(world, 3)
    world.edit(replicas=4)  # a typing error: its claims go
    go(world, 8)
    world.is_scheduling = True
    world.edit(config={"flushInterval": "777"}, rollout={"strategy": "Automatic", "soakSeconds": 0})
    go(world, 60)
    world.edit(config={"flushInterval": "888"}, disruption={"pdb": False}, autorecovery={"enabled": False})
    go(world, 60)
    storage = worlds._copy(world.spec()["storage"])
    storage["ledgers"]["volumes"][0]["size"] = "3Gi"
    world.edit(storage=storage)
    world.edit(security={"tls": {"mode": "Permissive"}})
    world.ask("by-hand", "Restart", target={"bookie": "ledgers-zone-c-0"})
    go(world, 40)
    for number in range(1, 9):  # more than a StatefulSet has revisions
        world.edit(config={"flushInterval": f"{number}000"}, rollout={"strategy": "Manual"})
        go(world, 2)
    for pod in [one["metadata"]["name"] for one in world.of_kind("Pod")]:
        world.kill(pod)
    go(world)
    world.over_quota = "ledgers-zone-b"
    world.kill("ledgers-zone-b-0")
    go(world)
    del world.objects[(names.KIND, "ledgers")]
    go(world, 1)
    asyncio.run(leads(record(World(), used)))
    loses_a_node(used)
    sleeps_and_is_made_anew(used)


def sleeps_and_is_made_anew(used: set[tuple[str, str, str]]) -> None:
    """A fleet sleeps and wakes, a node is cordoned, a bookie is fenced off, claims of another class come by rebuilding,
    and the data is to go with the resource."""
    world = record(worlds.world(scaleDown={"proofInterval": "2s"}), used)
    go(world, 14)
    world.edit(lifecycle={"hibernate": True, "terminationGrace": "2m"})
    go(world, 8)
    assert world.of_kind("Pod") == []
    world.edit(lifecycle={"terminationGrace": "2m"}, disruption={"onDrain": "ReadOnlyFirst"})
    go(world, 12)
    world.add_node("elsewhere")
    world.cordon("node")
    go(world, 4)
    world.cordon("node", is_cordoned=False)
    for name, kind in (("out", "Fence"), ("back", "Unfence")):
        world.now_ms += 60_000
        world.ask(name, kind, target={"bookie": "ledgers-zone-a-0"}, reason="its disk clicks")
        go(world, 12)
    assert world.is_quiet(), world.status()
    storage = worlds._copy(world.spec()["storage"]) | {"layoutChange": "RollingRebuild"}
    storage["ledgers"]["volumes"][0]["storageClassName"] = "fast"
    world.edit(storage=storage)
    go(world, 60)
    assert world.forgotten, world.status().rebuild
    delete = {"deletionPolicy": "Delete", "deletionProtection": False, "terminationGrace": "2m"}
    world.edit(lifecycle=delete, storage=storage)
    go(world, 2)
    assert world.status().deletion is not None


def loses_a_node(used: set[tuple[str, str, str]]) -> None:
    """A fleet on local disks loses the node of one bookie, whose claims are replaced."""
    storage = worlds.make.spec()["storage"]
    for role in ("journal", "ledgers", "index"):
        storage[role]["volumes"][0]["kind"] = "LocalDisk"
    lost_node = {"policy": "Replace", "after": "2s"}
    world = record(worlds.world(storage=storage, repair={"stabilization": "6s", "lostNode": lost_node}), used)
    world.has_local_disks, world.places = True, {"ledgers-zone-b-0": "gone"}
    world.add_node("gone")
    go(world, 14)
    world.switch_off("gone")
    world.delete_node("gone")
    go(world, 8)


async def leads(world: World) -> None:
    lease = LeaderLease(world, "system", "bookie-operator", "operator-1")
    await lease.acquire()
    await lease.release()


@pytest.mark.slow
def test_recorded_calls_are_what_the_rules_allow_both_ways() -> None:
    used: set[tuple[str, str, str]] = set()
    rights = declared()

    stories(used)

    refused = sorted(call for call in used if covers(rights, *call) is None)
    assert refused == [], "no rule covers these: add them to charts/bookie-operator/templates, each with its reason"
    allowed = {covers(rights, *call) for call in used} | set(ASKED_BY_OTHERS)
    assert sorted(set(rights) - allowed) == [], "no story uses these rights: take them away, or tell the story"
