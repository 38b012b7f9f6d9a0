"""A bookie that is rebuilt from the middle of its pool, and a pool that is to become smaller meanwhile: the highest
number goes first, and nobody goes before its proof (spec/operator.md#J6, X7)."""

import asyncio
import random

import pytest

import operator_world_support as worlds
from bookie.ports.admin import State
from bookie_operator.gateways.kube import KubeForbidden
from bookie_operator.model import names
from bookie_operator.model.status import Departure
from operator_world_support import World

OLD = ("ledgers-old-0", "ledgers-old-1", "ledgers-old-2")
FIRST, SECOND, LAST = OLD
PASSES = 200


class Leavers:
    """Judges by the world itself each pod that goes with the number of its StatefulSet."""

    def __init__(self, world: World) -> None:
        self.world, self.wrong = world, list[str]()
        world.on_lowered = self

    def __call__(self, pod: str) -> None:
        bookie = next((one for one in self.world.bookies.values() if one.name == pod), None)
        if bookie is None or bookie.bookie_id not in self.world.cookies:
            return
        if self.world.naming(bookie.bookie_id):
            self.wrong.append(f"{pod} went, and ledgers name it")
        if bookie.state is not State.READ_ONLY or not bookie.is_sealed:
            self.wrong.append(f"{pod} went before it had flushed for the last time")


def pools(old: int) -> "list[dict[str, object]]":
    return [{"name": "old", "replicas": old}, {"name": "young", "replicas": 3}]


@pytest.fixture(scope="module")
def built() -> World:
    world = worlds.world(replicas=None, zones=None, pools=pools(3), scaleDown={"proofInterval": "2s"})
    world.spec()["storage"] |= {"acknowledgeNoJournal": "IAcceptLossOnCorrelatedPowerFailure"}
    asyncio.run(world.run(world.operator(), passes=20))
    assert world.is_quiet(), world.status()
    world.write(60, random.Random(1))
    world.now_ms += 60_000
    return world


def pods(world: World, pool: str) -> "list[str]":
    return sorted(one["metadata"]["name"] for one in world.of_kind("Pod") if f"-{pool}-" in one["metadata"]["name"])


def replacing(built: World, name: str, state: Departure) -> World:
    """A fleet in which a bookie is replaced, and is that far."""
    world = worlds.clone(built)
    world.ask("swap", "Replace", target={"bookie": name})
    operator = world.operator()
    for _ in range(PASSES):
        entry = world.status().bookie(name)
        if entry is not None and entry.leaving is not None and entry.leaving.state is state:
            return world
        asyncio.run(world.run(operator, passes=1))
    raise AssertionError(f"{name} never was {state.value}: {world.status()}")


STATES = [one for one in Departure if one is not Departure.LEAVING]


@pytest.mark.slow
@pytest.mark.parametrize(("state", "name"), [*((one, FIRST) for one in STATES), (Departure.FORGOTTEN, SECOND)])
def test_a_pool_that_is_given_up_goes_one_by_one_by_proof_although_one_of_it_was_being_replaced(
    built: World, state: Departure, name: str
) -> None:
    world = replacing(built, name, state)
    operator, judge = world.operator(), Leavers(world)
    world.edit(pools=pools(0))

    fewest = 3
    for _ in range(PASSES):
        before = len(pods(world, "old"))
        asyncio.run(world.run(operator, passes=1))
        assert len(pods(world, "old")) >= before - 1, "one at a time"
        fewest = min(fewest, len(pods(world, "young")))
        if not pods(world, "old") and world.is_quiet():
            break

    status = world.status()
    assert (judge.wrong, world.wrong) == ([], [])
    assert (pods(world, "old"), fewest) == ([], 3), [(one.name, one.leaving) for one in status.bookies]
    assert {one for one in world.cookies if ".old." in one} == set()
    assert (world.lost_entries(), world.thin_entries(), world.uncounted()) == ([], [], [])


@pytest.mark.slow
def test_a_stateful_set_that_is_away_is_not_made_with_a_number_that_ends_a_pod_in_service(built: World) -> None:
    """The operation, the status and the record are gone, and the claims of a bookie that was forgotten are not."""
    world = replacing(built, FIRST, Departure.FORGOTTEN)
    world.no_claim_deletion = KubeForbidden("delete PersistentVolumeClaim", 403, "no")
    operator, judge = world.operator(), Leavers(world)
    asyncio.run(world.run(operator, passes=2))
    assert ("StatefulSet", "ledgers-old") not in world.objects
    del world.objects[(names.OPERATION_KIND, "swap")]
    world.objects[(names.KIND, "ledgers")].pop("status")
    del world.objects[("ConfigMap", "ledgers-record")]

    asyncio.run(world.run(world.operator(), passes=8))

    stalled = world.status().condition("Stalled")
    assert (judge.wrong, pods(world, "old")) == ([], [SECOND, LAST])
    assert stalled is not None
    assert stalled.reason == "RetiredClaims"
    world.delete_claims(FIRST)
    asyncio.run(world.run(world.operator(), passes=20))
    assert (judge.wrong, pods(world, "old"), world.is_quiet()) == ([], list(OLD), True)
