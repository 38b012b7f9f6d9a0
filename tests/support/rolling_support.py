"""What stories about the operator's roll-out share: the pods of the fleet, a judge of each stop, looks at a world."""

import asyncio
from typing import NoReturn

from bookie.ports.admin import State
from bookie_operator.model.status import RolloutStep
from bookie_operator.reconcile import Reconciler
from operator_world_support import Crashed, World

PODS = ["ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0"]
AUTOMATIC = {"strategy": "Automatic", "soakSeconds": 3}
PASSES = 60  # seconds; a bookie takes about eight


def die(_: int) -> NoReturn:
    raise Crashed


class Watcher:
    """Judges each stop by the world itself, and knows nothing of the operator's rules."""

    def __init__(self, world: World) -> None:
        self.world, self.stops, self.wrong = world, list[str](), list[str]()
        world.on_stop = self

    def __call__(self, pod: str) -> None:
        self.stops.append(pod)
        running = {one.name: one for one in self.world.bookies.values()}
        if pod not in running:
            return  # it did not run: nobody misses it
        others = [one for one in self.world.of_kind("Pod") if one["metadata"]["name"] != pod]
        down = [one["metadata"]["name"] for one in others if one["metadata"]["name"] not in running]
        down += [name for name, one in running.items() if name != pod and one.state is not State.SERVING]
        if len(others) != len(PODS) - 1 or down or self.world.dataless:
            self.wrong.append(f"{pod} was stopped while {down or 'some'} did not serve, {self.world.dataless} empty")
        if running[pod].state is not State.READ_ONLY or not running[pod].is_sealed:
            self.wrong.append(f"{pod} was stopped before it had flushed, and for the last time")
        if self.world.has_lease is False:
            self.wrong.append(f"{pod} was stopped without the lease")


def run(world: World, operator: Reconciler | None = None, *, passes: int = PASSES) -> None:
    asyncio.run(world.run(operator or world.operator(), passes=passes))


def images(world: World) -> dict[str, str]:
    found = {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in world.of_kind("Pod")}
    return dict(sorted(found.items()))


def turn(world: World) -> RolloutStep | None:
    found = world.status().rollout
    return found.step if found is not None else None


def said(world: World, kind: str) -> tuple[str, str, str]:
    found = world.status().condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def forget_notes(world: World) -> None:
    """Its pods are of an operator that noted nothing on them."""
    for pod in world.of_kind("Pod"):
        pod["metadata"]["annotations"] = {}
