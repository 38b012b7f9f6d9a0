"""Operators of three kinds over one world, and a judge of what is stopped: for stories in which workflows meet."""

import asyncio
import contextlib
import copy
import random
from typing import Any

import operator_world_support as worlds
from bookie.ports.admin import Contents, State
from bookie_operator.gateways.kube import Kube, KubeError
from bookie_operator.model import names
from bookie_operator.reconcile import Reconciler
from operator_world_support import Crashed, DeathAtEveryThird, FakeBookie, World
from rolling_support import AUTOMATIC

LIVES = ("one", "dies", "two")  # an operator that lives on; one that dies at every third write; two that both lead
ZONES = [{"name": one} for one in ("zone-a", "zone-b", "zone-c")]


class Judge:
    """Tells what was stopped although the fleet could not do without it."""

    def __init__(self, world: World) -> None:
        self.world, self.wrong = world, list[str]()
        self._evicting = ""
        world.on_stop, world.on_lowered = self.stopped, self.lowered

    def evict(self, pod: str) -> bool:
        """A drain asks for the end of a pod; False: the disruption budget refuses. Who refuses writes has flushed, and
        need not have sealed: the operator does not know when the drain comes back."""
        self._evicting = pod
        try:
            return self.world.evict(pod)
        finally:
            self._evicting = ""

    def stopped(self, pod: str) -> None:
        """The operator deletes a pod, or a drain evicts it."""
        one = self._running(pod)
        if one is None or not one.state.serves:
            return  # nobody misses it
        has_ended_well = one.is_sealed or one.is_draining or pod == self._evicting
        if one.state is not State.READ_ONLY or not has_ended_well:
            self.wrong.append(f"{pod} was stopped before it had flushed")
        if away := self._away(but=one.bookie_id):
            self.wrong.append(f"{pod} was stopped while {away} did not serve")

    def lowered(self, pod: str) -> None:
        """Its StatefulSet runs fewer: it left, it sleeps with all others, or it never held anything."""
        one = self._running(pod)
        if one is None or not one.state.serves:
            return
        if one.state is not State.READ_ONLY:
            self.wrong.append(f"{pod} went with the number of its StatefulSet and took writes")
        loud = [other.name for other in self.world.bookies.values() if other.state is State.SERVING]
        if self.world.naming(one.bookie_id) and (loud or self.world.dataless):
            self.wrong.append(f"{pod} fell asleep while {loud} took writes and {self.world.dataless} were empty")

    def _running(self, pod: str) -> FakeBookie | None:
        return next((one for one in self.world.bookies.values() if one.name == pod), None)

    def _away(self, *, but: str) -> list[str]:
        """Bookies that hold entries and serve none of them."""
        serving = {one.bookie_id for one in self.world.bookies.values() if one.state.serves}
        here = {one for one in self.world.cookies if self.world.naming(one)}
        return sorted((here - serving - {but}) | self.world.dataless)


class Fleet:
    """A world and its operators. `life`: one of LIVES; `first`: of one that dies, how many writes it makes first.
    `api`: the API server as they see it, where that is not the world itself."""

    def __init__(self, world: World, life: str = "one", *, first: int = 2, api: Kube | None = None) -> None:
        self.world, self._api, first = world, api, first if life == "dies" else 0
        self.crash = DeathAtEveryThird(first)
        self.deaths = 0
        # Who did not watch needs a node's word that a pod ended, which takes minutes.
        world.step_ms = 10_000 if first else world.step_ms
        self.operators = [self.operator() for _ in range(2 if life == "two" else 1)]
        self.asked = 0

    def operator(self) -> Reconciler:
        owner = "system/bookie-operator"
        return self.world.operator(self.crash, owner=owner, has_watched=not self.deaths, kube=self._api)

    def run(self, passes: int) -> None:
        asyncio.run(self._run(passes))

    async def _run(self, passes: int) -> None:
        for _ in range(passes):
            has_ended = False
            for number, operator in enumerate(self.operators):
                has_ended = False
                try:
                    with contextlib.suppress(KubeError):  # a conflict: the other one was first
                        await operator.reconcile(worlds.KEY)
                        has_ended = True
                except Crashed:
                    self.deaths += 1
                    self.operators[number] = self.operator()
            self.world.settle()
            assert not has_ended or self.uncounted() == []

    def lives_on(self) -> None:
        """Nobody dies any more, and one leads: the other one has noticed by now that it lost its lease."""
        self.crash = DeathAtEveryThird(0)
        self.operators = [self.operator()]

    def uncounted(self) -> list[str]:
        """Pods, claims, cookies and registrations of the fleet that the status, once a pass has ended, does not
        name."""
        status = self.world.status()
        told = {one.bookie_id for one in (*status.bookies, *status.orphans)}
        found = dict.fromkeys(str(one.bookie_id) for one in self.world.own_members())
        for kind in ("Pod", "PersistentVolumeClaim"):
            for one in self.world.of_kind(kind):
                pod = one["metadata"]["name"] if kind == "Pod" else one["metadata"]["name"].partition("-")[2]
                parsed = names.parse_pod("ledgers", pod)
                assert parsed is not None
                found[names.bookie_id("data", "ledgers", *parsed)] = None
        return sorted(set(found) - told)

    def ask(self, kind: str, pod: str) -> None:
        self.asked += 1
        self.world.now_ms += 1_000
        self.world.ask(f"{kind.lower()}-{self.asked}", kind, target={"bookie": pod}, reason="a person wants it so")


def begin(world: World, *, on_drain: str, **said: Any) -> World:
    """Let `world` be a fleet at rest with entries, whose spec says all that an edit may set back: what it leaves out,
    an edit would leave behind. `said`: what its spec says otherwise."""
    storage = copy.deepcopy(world.spec()["storage"])
    storage |= {"layoutChange": "RollingRebuild", "retention": {"onScaleDown": "Delete", "keepFor": "5s"}}
    storage |= {"acknowledgeNoJournal": "IAcceptLossOnCorrelatedPowerFailure", "journalWriteData": True}
    for role in ("journal", "ledgers", "index"):
        for volume in storage[role]["volumes"]:
            volume |= {"storageClassName": "standard"} if volume.get("kind") != "Ephemeral" else {}
    world.add_node("elsewhere")
    for key in said:
        world.spec().pop(key, None)
    spec = {
        "image": "bookie:test",
        "config": {},
        "storage": storage,
        "rollout": AUTOMATIC,
        "zones": copy.deepcopy(ZONES),
        "repair": {"stabilization": "4s", "maxPerDay": 20},
        "scaleDown": {"proofInterval": "4s"},
        "disruption": {"pdb": True, "onDrain": on_drain},
        "lifecycle": {"hibernate": False, "paused": False, "terminationGrace": "2m"},
        "security": {"tls": {"mode": "Disabled"}},
    } | said
    world.edit(**{key: value for key, value in spec.items() if value is not None})
    Fleet(world).run(60)
    assert world.is_quiet(), world.status()
    world.write(80, random.Random(1))
    Fleet(world).run(10)
    return world


def with_volumes(storage: dict[str, Any]) -> dict[str, Any]:
    """One ledger volume more, with its index. Their names have no "-", so that a claim's says its pod."""
    more = {"ledgers": "more", "index": "moreindex"}
    return storage | {
        role: {"volumes": [*storage[role]["volumes"], storage[role]["volumes"][0] | {"name": name, "added": True}]}
        for role, name in more.items()
    }


def has_volumes(world: World, replicas: int) -> bool:
    having = [one for one in world.bookies.values() if one.volumes.get("more") is Contents.VALID]
    return len(having) == len(world.bookies) == replicas


def shape(world: World) -> dict[str, Any]:
    """What there is of a fleet, and what it runs."""
    pods = {one["metadata"]["name"]: one for one in world.of_kind("Pod")}
    images = {name: one["spec"]["containers"][0]["image"] for name, one in pods.items()}
    claims = world.of_kind("PersistentVolumeClaim")
    return {
        "images": dict(sorted(images.items())),
        "settings": {one.name: one.settings for one in sorted(world.bookies.values(), key=lambda one: one.name)},
        "classes": dict(sorted((one["metadata"]["name"], one["spec"]["storageClassName"]) for one in claims)),
        "sets": {one["metadata"]["name"]: one["spec"]["replicas"] for one in world.of_kind("StatefulSet")},
        "budgets": [one["spec"] for one in world.of_kind("PodDisruptionBudget")],
        "cookies": sorted(world.cookies),
    }
