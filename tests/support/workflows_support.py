"""What people ask of a fleet, workflow by workflow, and when it is so: stories to be told beside whatever may go wrong
(an operator that dies, an API server that fails or lags)."""

import asyncio
import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import operator_support as make
import operator_world_support as worlds
from bookie.ports.admin import Contents
from bookie_operator.model import names
from bookie_operator.model.operation import OperationPhase
from bookie_operator.plan.live_settings import FIELDS
from meeting_support import Fleet, Judge, has_volumes, with_volumes
from operator_world_support import World
from rolling_support import AUTOMATIC, PODS, images

ENOUGH = 400  # passes
ZONES = [{"name": one} for one in ("zone-a", "zone-b", "zone-c")]
BIG = {"name": "big", "zone": "zone-b", "replicas": 1}
REPAIR = {"stabilization": "6s", "maxPerDay": 20}
AS_POOLS = tuple(one | {"zone": one["name"], "replicas": 1 + (one["name"] == "zone-a")} for one in ZONES)
WHY = "a person wants it so, and says why"
Ask = Callable[[World], object]
IsDone = Callable[[World], bool]


def same(world: World) -> World:
    return world


def nothing(_: World, __: Judge) -> None:
    return None


@dataclass(frozen=True)
class Story:
    """`asks`: one edit or order after the other, each when the one before is done. `spec`: the fleet begins with it.
    `grants`: how many it takes. `made`: the fleet that it is told of, of a copy of the one in service. `meanwhile`:
    what others do before each pass."""

    asks: tuple[tuple[Ask, IsDone], ...]
    spec: dict[str, Any] = field(default_factory=dict)
    grants: int = 0
    made: Callable[[World], World] = same
    meanwhile: Callable[[World, Judge], None] = nothing


def begin(story: Story, world: World) -> World:
    """Return the fleet of `story`, at rest, with entries. `world`: one in service, which nobody else uses."""
    world = story.made(world)
    spec = {"rollout": AUTOMATIC, "repair": REPAIR, "scaleDown": {"proofInterval": "5s"}} | story.spec
    world.edit(**spec | {"storage": copy.deepcopy(world.spec()["storage"]) | story.spec.get("storage", {})})
    world.write(60, random.Random(1))
    world.boot_epochs = dict.fromkeys(world.cookies, 2)
    before = Fleet(world)
    for _ in range(ENOUGH):
        before.run(4)
        if is_whole(world):
            break
    assert is_whole(world), world.status()
    return world


def wrong(world: World, judge: Judge) -> list[Any]:
    return [*judge.wrong, *world.wrong, *world.past_tolerance, *world.lost_entries(), *world.refused]


# ---- when something is so --------------------------------------------------------------------------------------------


def is_whole(world: World) -> bool:
    done = world.status().condition("Reconciling")
    generation = world.objects[(names.KIND, "ledgers")]["metadata"]["generation"]
    is_seen = world.status().observed_generation == generation
    return is_seen and done is not None and done.status == "False" and world.is_quiet()


def said(world: World, line: str, *, is_there: bool = True) -> bool:
    """Whether all bookies of a whole fleet began with this setting, or without it."""
    return is_whole(world) and {line in one.settings for one in world.bookies.values()} == {is_there}


def runs(image: str) -> IsDone:
    return lambda world: is_whole(world) and set(images(world).values()) == {image}


def is_complete(kind: str) -> IsDone:
    return lambda world: world.operation(kind.lower()).phase is OperationPhase.COMPLETE


def is_complete_and_whole(kind: str) -> IsDone:
    return lambda world: is_complete(kind)(world) and is_whole(world)


def is_confirmed(world: World) -> bool:
    entry = world.status().bookie(PODS[0])
    return entry is not None and entry.state == "Confirmed" and any(gate.name == "G9-Policy" for gate in entry.gates)


def is_held(world: World) -> bool:
    entry = world.status().bookie(PODS[0])
    return entry is not None and entry.state == "Held"


def is_gone(pool: str) -> IsDone:
    return lambda world: (
        is_whole(world) and not [one for one in world.of_kind("Pod") if pool in one["metadata"]["name"]]
    )


def is_healed(world: World) -> bool:
    return bool(world.accepted) and is_whole(world)


def is_confirmed_and_healed(world: World) -> bool:
    return is_complete("ConfirmLoss")(world) and is_healed(world)


def is_left(node: str) -> IsDone:
    return lambda world: is_whole(world) and not _on(world, node)


def volumes(world: World) -> set[tuple[str, str]]:
    """(size, class) of every claim of a ledger volume."""
    claims = [one for one in world.of_kind("PersistentVolumeClaim") if one["metadata"]["name"].startswith("ledgers-")]
    return {(one["spec"]["resources"]["requests"]["storage"], one["spec"]["storageClassName"]) for one in claims}


def _on(world: World, node: str) -> list[str]:
    return [one["metadata"]["name"] for one in world.of_kind("Pod") if one["spec"].get("nodeName") == node]


def _to_go(world: World) -> int:
    """How many claims go with the resource."""
    return sum(bool(one["metadata"].get("ownerReferences")) for one in world.of_kind("PersistentVolumeClaim"))


# ---- what is asked for -----------------------------------------------------------------------------------------------


def edit(**changes: Any) -> Ask:
    return lambda world: world.edit(**copy.deepcopy(changes))


def tls(mode: str) -> Ask:
    return edit(security={"tls": {"mode": mode}})


def journal(is_on: bool) -> Ask:
    return lambda world: world.edit(storage=world.spec()["storage"] | {"journalWriteData": is_on})


def ledger_volume(layout: str = "Refuse", **changes: str) -> Ask:
    def ask(world: World) -> None:
        storage = copy.deepcopy(world.spec()["storage"]) | {"layoutChange": layout}
        storage["ledgers"]["volumes"][0] |= changes
        world.edit(storage=storage)

    return ask


def pools(*found: dict[str, Any]) -> Ask:
    def ask(world: World) -> None:
        for gone in ("replicas", "zones"):
            world.spec().pop(gone, None)
        world.edit(pools=list(found))

    return ask


def further_volumes(replicas: int) -> Ask:
    """A pool for each zone whose bookies have two ledger volumes, beside the ones of before with `replicas`."""

    def ask(world: World) -> None:
        storage = copy.deepcopy(world.spec()["storage"])
        (first,) = storage["ledgers"]["volumes"]
        storage = {role: storage[role] for role in ("journal", "ledgers")}
        storage["ledgers"]["volumes"] = [first, first | {"name": "more"}]
        old = [one | {"replicas": min(one["replicas"], replicas)} for one in AS_POOLS]
        new = [one | {"name": f"two-{one['name'][-1]}", "storage": storage} for one in AS_POOLS]
        pools(*old, *new)(world)

    return ask


def order(kind: str, target: dict[str, Any] | None = None, **how: Any) -> Ask:
    """A BookieOperation about the first bookie, or `target`."""

    def ask(world: World) -> None:
        world.now_ms += 60_000
        world.ask(kind.lower(), kind, target=target or {"bookie": PODS[0]}, reason=WHY, **how)

    return ask


def by_evidence(kind: str) -> Ask:
    """The same, about what the status has of it now."""

    def ask(world: World) -> None:
        (known,) = world.evidence(PODS[0])
        order(kind, evidence=known["evidence"])(world)

    return ask


def delete_data(*, is_said: bool) -> Ask:
    """kubectl annotate bookiecluster ledgers bookie.dev/delete-data=UID, or without it again."""

    def ask(world: World) -> None:
        live = world.objects[(names.KIND, "ledgers")]
        annotations = {names.DELETE_DATA: live["metadata"]["uid"]} if is_said else {}
        world.put(live | {"metadata": live["metadata"] | {"annotations": annotations}})

    return ask


def delete_cookie(world: World) -> None:
    """Somebody deletes a bookie's cookie, and its pod."""
    bookie = world.bookie(PODS[0])
    _, incarnation = world.cookies.pop(bookie.bookie_id)
    world.last_lives[bookie.bookie_id] = incarnation
    world.kill(PODS[0])


def wipe(world: World) -> None:
    """Somebody empties a bookie's volumes; pod and claims stay."""
    bookie = world.bookie(PODS[0])
    bookie.volumes = dict.fromkeys(bookie.volumes, Contents.EMPTY)
    world.fsids[bookie.bookie_id] = "fs"
    world.disks.pop(bookie.bookie_id, None)
    world.dataless.add(bookie.bookie_id)
    world.start_container(PODS[0])


def lose_node(node: str) -> Ask:
    """A machine is gone for good, and somebody says so."""

    def ask(world: World) -> None:
        world.switch_off(node)
        world.delete_node(node)

    return ask


def drain(world: World, judge: Judge) -> None:
    """`kubectl drain` of whatever node takes no pods: it asks for all of its pods, again and again."""
    closed = [one["metadata"]["name"] for one in world.of_kind("Node") if one["spec"].get("unschedulable")]
    for pod in [pod for node in closed for pod in _on(world, node)]:
        judge.evict(pod)


# ---- fleets of their own ---------------------------------------------------------------------------------------------


def local_disks(storage: dict[str, Any]) -> dict[str, Any]:
    """The same storage, on disks of the nodes."""
    for role in ("journal", "ledgers", "index"):
        for volume in storage[role]["volumes"]:
            volume["kind"] = "LocalDisk"
    return storage


def on_local_disks(places: dict[str, str], *, spare: str = "", passes: int = 14, **spec: Any) -> World:
    """A fleet in service on local disks. `places`: pod -> node; `spare`: a node that nobody is on."""
    world = worlds.world(**{"storage": local_disks(make.spec()["storage"])} | spec)
    world.has_local_disks, world.places = True, dict(places)
    world.mount = worlds.MountProof.PROVEN
    for name in sorted({*places.values(), *([spare] if spare else [])}):
        world.add_node(name)
    _run_in(world, passes)
    return world


def _of_machines(_: World) -> World:
    return on_local_disks({pod: f"n-{pod}" for pod in PODS}, spare="spare")


def _of_ephemeral(_: World) -> World:
    world = worlds.ephemeral(scaleDown={"proofInterval": "5s"}, rollout=AUTOMATIC)
    _run_in(world, 14)
    return world


def _with_spare_node(world: World) -> World:
    world.add_node("elsewhere")
    return world


def _of_live_settings(world: World) -> World:
    """Its release takes settings as it runs."""
    world.live_keys = tuple(FIELDS)
    for pod in PODS:
        world.start_container(pod)
    return world


def _run_in(world: World, passes: int) -> None:
    asyncio.run(world.run(world.operator(), passes=passes))
    assert world.is_quiet(), world.status()


# ---- the stories -----------------------------------------------------------------------------------------------------

STORIES = {
    "TLS is offered and required": Story(
        (
            (tls("Permissive"), lambda world: said(world, "tlsProviderFactoryClass")),
            (tls("Required"), lambda world: said(world, "tlsRequired=true")),
        ),
    ),
    "the journal is switched on and off": Story(
        (
            (journal(True), lambda world: said(world, "journalWriteData=true")),
            (journal(False), lambda world: said(world, "journalWriteData=false")),
        ),
    ),
    "a zone goes": Story(
        ((edit(zones=ZONES[:2]), is_gone("zone-c")),),
        {"storage": {"acknowledgeNoJournal": "IAcceptLossOnCorrelatedPowerFailure"}},
    ),
    "a pool comes and goes": Story(
        (
            (pools(*AS_POOLS), is_whole),
            (pools(*AS_POOLS, BIG), lambda world: is_whole(world) and len(world.bookies) == 5),
            (pools(*AS_POOLS, BIG | {"replicas": 0}), is_gone("big")),
        ),
    ),
    "further ledger volumes come by other pools": Story(
        (
            (pools(*AS_POOLS), is_whole),
            (further_volumes(2), lambda world: is_whole(world) and len(world.bookies) == 8),
            (further_volumes(0), is_gone("zone-")),
        ),
    ),
    "a volume went back in time": Story(
        ((lambda world: world.set_back(PODS[2], kept=set(range(5))), is_healed),),
        {"repair": REPAIR | {"staleVolume": "Repair"}},
        grants=1,
    ),
    "a person approves": Story(
        (
            (lambda world: world.lose(PODS[0]), is_confirmed),
            (by_evidence("ApproveRegeneration"), is_whole),
        ),
        {"repair": REPAIR | {"regeneration": "Manual"}},
        grants=1,
    ),
    "one is fenced off and comes back": Story(
        (
            (order("Fence"), is_complete("Fence")),
            (order("Unfence"), is_complete_and_whole("Unfence")),
        ),
    ),
    "a canary, then the others": Story(
        ((edit(image="bookie:next"), runs("bookie:next")),),
        {"rollout": AUTOMATIC | {"canary": {"count": 1, "soakSeconds": 60}}},
    ),
}
# Files of their own let the operator die in these.
OTHERS = {
    "a bookie leaves": Story(
        (
            (
                edit(replicas=3),
                lambda world: (is_whole(world), world.status().summary, len(world.forgotten)) == (True, "3/3", 1),
            ),
        ),
    ),
    "a bookie is replaced": Story(((order("Replace"), is_complete_and_whole("Replace")),)),
    "volumes grow": Story(
        (
            (
                ledger_volume(size="4Gi"),
                lambda world: volumes(world) == {("4Gi", "standard")} and world.status().expansion is None,
            ),
        ),
    ),
    "another class": Story(
        (
            (
                ledger_volume("RollingRebuild", storageClassName="fast"),
                lambda world: volumes(world) == {("2Gi", "fast")} and world.status().rebuild is None,
            ),
        ),
    ),
    "a ledger volume is added": Story(
        (
            (
                lambda world: world.edit(storage=with_volumes(copy.deepcopy(world.spec()["storage"]))),
                lambda world: is_whole(world) and has_volumes(world, len(PODS)),
            ),
        ),
    ),
    "a volume is replaced": Story(
        ((order("ReplaceVolume", {"bookie": PODS[0], "volume": "ledgers"}), is_complete_and_whole("ReplaceVolume")),),
        grants=1,
    ),
    "it sleeps and wakes": Story(
        (
            (
                edit(lifecycle={"hibernate": True, "terminationGrace": "2m"}),
                lambda world: not world.of_kind("Pod"),
            ),
            (edit(lifecycle={"terminationGrace": "2m"}), is_whole),
        ),
    ),
    "a node is drained": Story(
        ((lambda world: world.cordon("node"), is_left("node")),),
        {"disruption": {"onDrain": "ReadOnlyFirst"}},
        made=_with_spare_node,
        meanwhile=drain,
    ),
    "a node is lost": Story(
        ((lose_node(f"n-{PODS[2]}"), is_healed),),
        {"repair": REPAIR | {"lostNode": {"policy": "Replace", "after": "20s"}}},
        grants=1,
        made=_of_machines,
    ),
    "a machine boots with empty disks": Story(
        ((lambda world: world.reset_disks(PODS[2], boot="boot-2"), is_healed),),
        {"repair": REPAIR | {"localDiskReset": "Auto"}},
        grants=1,
        made=_of_machines,
    ),
    "another image where volumes go with their pods": Story(
        ((edit(image="bookie:next"), runs("bookie:next")),),
        made=_of_ephemeral,
    ),
    "an image that does not start goes back": Story(
        (
            (
                edit(image=worlds.BROKEN_IMAGE),
                lambda world: (
                    world.is_quiet()
                    and (found := world.status().condition("Stalled")) is not None
                    and found.reason == "RolledBack"
                    and not any(one.restart_for for one in world.status().bookies)
                ),
            ),
            (edit(image="bookie:next"), runs("bookie:next")),
        ),
        {"rollout": AUTOMATIC | {"onFailure": "Rollback"}},
    ),
    "a setting that bookies take as they run": Story(
        (
            (
                edit(config={"logLevel": "DEBUG"}),
                lambda world: is_whole(world) and {one.live["logLevel"] for one in world.bookies.values()} == {"DEBUG"},
            ),
        ),
        made=_of_live_settings,
    ),
    "a cookie is made again": Story(
        ((delete_cookie, is_held), (by_evidence("RestoreCookie"), is_complete_and_whole("RestoreCookie"))),
    ),
    "a person confirms a loss": Story(
        (
            (wipe, is_held),
            (by_evidence("ConfirmLoss"), is_confirmed_and_healed),
        ),
        grants=1,
    ),
    "ledgers are given up": Story(
        (
            (
                order("AcceptLedgerLoss", {"ledgers": ["7", "8"], "givenUp": [PODS[0], PODS[2]]}),
                is_complete("AcceptLedgerLoss"),
            ),
        ),
    ),
    "data is to go with the resource, and is not": Story(
        (
            (
                edit(lifecycle={"deletionPolicy": "Delete", "deletionProtection": False, "terminationGrace": "2m"}),
                lambda world: world.status().deletion is not None and is_whole(world),
            ),
            (delete_data(is_said=True), lambda world: _to_go(world) == len(world.of_kind("PersistentVolumeClaim"))),
            (delete_data(is_said=False), lambda world: _to_go(world) == 0),
        ),
    ),
    "the resource is deleted and applied again": Story(((lambda world: world.delete_and_apply(), is_whole),)),
}
