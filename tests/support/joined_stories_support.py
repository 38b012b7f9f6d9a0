"""Stories of the operator's own loop over the bookie's own classes that more than one test file tells
(`joined_support`), each with the fate of the operator's writes, or of its calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import joined_support as joined
from bookie.sim import retirement
from bookie.sim.cluster import SimCluster
from bookie.sim.node import ProcessEnd
from bookie.sim.replicas import Replicas
from bookie_operator.model.operation import OperationPhase
from joined_support import Application, Fate, JoinedWorld, PodBookie, healed, in_service

LOST, ITS_ID = "ledgers-zone-b-0", "data.ledgers.zone-b.0"
PEERS = [f"data.ledgers.{pod}" for pod in ("zone-a.0", "zone-a.1", "zone-c.0")]
NAMED, NAMED_ID = "ledgers-zone-a-0", "data.ledgers.zone-a.0"  # in the middle of its pool
FAST = {"proofInterval": "4s"}
IN_LIMBO = 10  # seconds
PASSES, PATIENT_PASSES = 150, 600  # seconds; who did not hear of a pod's end waits four minutes


async def volumes_are_lost(cluster: SimCluster, *, fate: Fate | None = None) -> JoinedWorld:
    world = await in_service(cluster)
    application = Application(cluster)
    await world.run(world.operator(), passes=10)

    for peer in PEERS:
        cluster.partition(ITS_ID, peer)
    world.lose(LOST)
    world.fate = fate or Fate()
    operator = world.operator()
    await world.run(operator, passes=PASSES, until=lambda: world.bookie(LOST).state.serves)
    await world.run(operator, passes=IN_LIMBO)  # it serves, and can copy nothing yet
    cluster.heal()
    await world.run(operator, passes=PASSES, until=world.is_quiet)
    world.fate = Fate()

    await healed(cluster, world, application)
    return world


async def busy(cluster: SimCluster, **spec_changes: Any) -> tuple[JoinedWorld, Application]:
    """A fleet in service, and an application that goes on from now."""
    world = await in_service(cluster)
    storage = world.spec()["storage"] | {"retention": {"onScaleDown": "Delete", "keepFor": "4s"}}
    world.edit(storage=storage, scaleDown=FAST, **spec_changes)
    application = Application(cluster)
    await world.run(world.operator(), passes=10)
    return world, application


async def goes_on(
    world: JoinedWorld,
    fate: Fate,
    leaders: int,
    until: Callable[[], bool],
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Operators work until it is done; from now on fate may strike one of them."""
    operators = [world.operator() for _ in range(leaders)]
    world.fate, passes = fate, PATIENT_PASSES if fate.how else PASSES
    await world.run(*operators, passes=passes, until=lambda: until() or bool(world.wrong), meanwhile=meanwhile)
    world.fate = Fate()
    assert world.wrong == []
    assert until(), world.status()


def claims(world: JoinedWorld) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("PersistentVolumeClaim")}


async def a_bookie_is_replaced(
    cluster: SimCluster, fate: Fate, leaders: int, *, kills: random.Random | None = None
) -> JoinedWorld:
    """One in the middle of its zone moves all away, ends, is forgotten, and begins anew on new claims; no other is
    touched. `kills`: of which processes end meanwhile, and when."""
    copied = Replicas(cluster.simulation.violation, lambda name: retirement.entry_store(cluster.bookies[name]))
    cluster.ledger_observers.append(copied.metadata_changed)
    world, application = await busy(cluster)
    assert world.ledgers_of(NAMED_ID)
    lives = {name: (await bookie.report()).incarnation for name, bookie in cluster.bookies.items()}
    starts = {name: bookie.node.starts for name, bookie in cluster.bookies.items()}
    world.ask("swap", "Replace", target={"bookie": NAMED})
    before = claims(world)

    def kill() -> None:
        if kills is not None and not kills.randrange(12):
            one = cluster.bookies[kills.choice(sorted(cluster.bookies))]
            one.crash(kills.choice([ProcessEnd.KILL, ProcessEnd.POWER_CUT]))

    def is_replaced() -> bool:
        return world.operation("swap").phase is OperationPhase.COMPLETE and world.is_quiet()

    await goes_on(world, fate, leaders, is_replaced, kill)

    anew = {name for name, uid in claims(world).items() if before[name] != uid}
    assert anew == {name for name in before if name.endswith(NAMED)}
    assert (world.forgotten, world.grants) == ([NAMED_ID], 0)
    assert copied.promised, "no ledger was moved"
    changed = [name for name, bookie in cluster.bookies.items() if (await bookie.report()).incarnation != lives[name]]
    assert changed == [NAMED_ID]
    if kills is None:
        assert [name for name, bookie in cluster.bookies.items() if bookie.node.starts != starts[name]] == [NAMED_ID]
    await healed(cluster, world, application)
    return world


# ---- volumes that go with their pods --------------------------------------------------------------------------------


def ephemeral(seed: int, **settings: object) -> SimCluster:
    return joined.cluster(seed, shares_filesystem=True, **settings)


async def busy_on_ephemeral(cluster: SimCluster, *lost: str) -> tuple[JoinedWorld, Application]:
    """A fleet in service, with `lost` on a node of their own, and an application that goes on from now."""
    world = await in_service(cluster, *lost)
    world.edit(scaleDown={"proofInterval": "4s"})
    application = Application(cluster)
    await world.run(world.operator(), passes=10)
    return world, application


def die(world: JoinedWorld, *pods: str) -> None:
    """A node loses its power, and somebody deletes it in Kubernetes; its pods are made anew elsewhere."""
    for pod in pods:
        dead = world.bookie(pod)
        assert isinstance(dead, PodBookie)
        dead.node.crash(ProcessEnd.POWER_CUT)
    world.places = {}
    world.delete_node("elsewhere")


def cut_off(cluster: SimCluster) -> None:
    """No peer answers LOST, which can copy nothing."""
    for peer in [name for name in cluster.bookies if name != ITS_ID]:
        cluster.partition(ITS_ID, peer)


async def a_node_dies(cluster: SimCluster, fate: Fate) -> JoinedWorld:
    """Its bookie comes back empty, hears that all it had is doubtful, is granted a new life and copies."""
    world, application = await busy_on_ephemeral(cluster, LOST)
    cut_off(cluster)
    die(world, LOST)
    world.fate, operator, passes = fate, world.operator(), PATIENT_PASSES if fate.how else PASSES
    await world.run(operator, passes=passes, until=lambda: world.bookie(LOST).state.serves)
    await world.run(operator, passes=IN_LIMBO)  # it serves, and can copy nothing yet
    cluster.heal()
    await world.run(operator, passes=passes, until=world.is_quiet)
    world.fate = Fate()

    assert (world.forgotten, world.status().history[-1].result) == ([], "Healed")
    await healed(cluster, world, application)
    return world
