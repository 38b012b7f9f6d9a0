"""An API server whose lists are minutes old (a cache behind which it fell), while single objects are read live and
writes arrive: whatever an operator concludes from them, nobody is stopped whom the fleet needs, no claim goes without
proof, and with fresh lists all ends as it would have."""

import asyncio
import contextlib
import copy
from collections import deque
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.reconcile import Reconciler
from meeting_support import Judge, begin
from operator_world_support import World

LISTED = ("Pod", "PersistentVolumeClaim", "StatefulSet", "ControllerRevision", "ConfigMap", "PodDisruptionBudget")
WORKFLOWS = ("image", "down", "zone out", "class", "replace", "lose", "up")
END_PASSES = 300


class OldLists:
    """What stands between an operator and the API server: lists of some kinds are as they were `age` passes ago."""

    def __init__(self, world: World, kinds: tuple[str, ...], age: int) -> None:
        self.world, self.kinds, self.is_old = world, kinds, True
        self._kept: deque[dict[tuple[str, str], Manifest]] = deque(maxlen=age + 1)
        self.keep()

    def keep(self) -> None:
        self._kept.append({key: copy.deepcopy(one) for key, one in self.world.objects.items() if key[0] in self.kinds})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        if kind not in self.kinds or not self.is_old:
            return await self.world.list(kind, namespace, selector, fields=fields)
        return await World(objects=self._kept[0]).list(kind, namespace, selector, fields=fields)


@pytest.fixture(scope="module")
def begun() -> World:
    return begin(worlds.world(replicas=5), on_drain="Restart")


def happen(world: World, what: str) -> None:
    spec = world.spec()
    storage = copy.deepcopy(spec["storage"])
    storage["ledgers"]["volumes"][0]["storageClassName"] = "fast"
    edits: dict[str, dict[str, Any]] = {
        "image": {"image": "bookie:next"},
        "down": {"replicas": 4},
        "zone out": {"zones": spec["zones"][:2]},
        "class": {"storage": storage},
        "up": {"replicas": 6},
    }
    if what in edits:
        world.edit(**edits[what])
    elif what == "replace":
        world.now_ms += 1_000
        world.ask("anew", "Replace", target={"bookie": "ledgers-zone-a-0"}, reason="a person wants it so")
    else:
        world.lose("ledgers-zone-b-1")


def wrong(world: World, judge: Judge) -> list[Any]:
    return [*judge.wrong, *world.wrong, *world.past_tolerance, *world.lost_entries(), *world.refused]


def one_pass(operator: Reconciler) -> None:
    with contextlib.suppress(KubeError):  # a conflict: what was listed is not there any more
        asyncio.run(operator.reconcile(worlds.KEY))


KINDS = {
    "pods": ("Pod",),
    "claims": ("PersistentVolumeClaim",),
    "sets": ("StatefulSet",),
    "all": LISTED,
}
CASES = [
    (kinds, what, (4, 25)[(number + other) % 2])
    for number, kinds in enumerate(KINDS)
    for other, what in enumerate(WORKFLOWS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("kinds", "what", "age"), CASES)
def test_lists_that_are_old_cost_time_alone(begun: World, kinds: str, what: str, age: int) -> None:
    """One that leads sees the past; beside it another replica that does not know yet that it lost its lease."""
    world = worlds.clone(begun)
    judge, line = Judge(world), OldLists(world, KINDS[kinds], age)
    old = world.operator(owner="system/bookie-operator", kube=line)  # type: ignore[arg-type]
    fresh = world.operator(owner="system/bookie-operator")
    happen(world, what)

    for number in range(50):
        line.keep()
        one_pass(old)
        if number % 2:
            one_pass(fresh)
        world.settle()
        assert wrong(world, judge) == [], number
    line.is_old = False
    for _ in range(END_PASSES):
        one_pass(old)
        world.settle()
        assert wrong(world, judge) == []
        done = world.status().condition("Reconciling")
        if done is not None and done.status == "False" and world.is_quiet():
            return

    raise AssertionError(world.status())
