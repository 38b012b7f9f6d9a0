"""Fleets at rest: what they cost an API server, and that nothing is ever done by what was read before
(spec/operator.md#K34, K35)."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import operator_world_support as worlds
from bookie.ports.admin import State
from bookie_operator import options, rests, watch
from bookie_operator.model import names
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.reconcile import Reconciler
from operator_world_support import World
from rolling_support import AUTOMATIC, PODS, Watcher

HOUR_S = 3_600
HOUR_MS = HOUR_S * 1_000
CALLS_A_SECOND_MAX = 5  # of 50 clusters that are idle
WRITES = ("apply", "create", "replace", "delete")
# What a plan rests on, so that each of them is read in every pass that does something.
DECIDING = {("get", names.KIND), ("get", "ConfigMap"), ("list", names.OPERATION_KIND)} | {
    ("list", kind) for kind in ("Pod", "PersistentVolumeClaim", "StatefulSet", "ControllerRevision", "ConfigMap", "Job")
}


class Api:
    """The calls to an API server, one pass after the other; and the orders that bookies got."""

    def __init__(self, world: World) -> None:
        self.calls: list[tuple[str, str]] = []
        self.orders: list[str] = []
        for verb in ("get", "list", *WRITES):
            self._note(world, verb, lambda first: first if isinstance(first, str) else str(first["kind"]))
        for order in ("grant", "prepare_shutdown", "resume", "drain", "forget_bookie", "set_aside", "fill_holes"):
            setattr(world, order, self._noted(getattr(world, order), lambda _, order=order: self.orders.append(order)))

    def _note(self, world: World, verb: str, kind: Callable[[Any], str]) -> None:
        setattr(world, verb, self._noted(getattr(world, verb), lambda first: self.calls.append((verb, kind(first)))))

    @staticmethod
    def _noted(call: Any, note: Callable[[Any], None]) -> Any:
        async def ask(*arguments: Any, **options: Any) -> Any:
            note(arguments[0])
            return await call(*arguments, **options)

        return ask

    def take(self) -> list[tuple[str, str]]:
        calls, self.calls, self.orders = self.calls, [], []
        return calls


def one_pass(world: World, operator: Reconciler) -> int:
    again_ms = asyncio.run(operator.reconcile(worlds.KEY))
    assert again_ms is not None
    return again_ms


def until_it_rests(world: World, operator: Reconciler, api: Api) -> None:
    for _ in range(60):
        api.take()
        one_pass(world, operator)
        world.settle()
        if not api.calls:
            return
    raise AssertionError(f"no rest in 60 passes: {world.status().summary}, calls {api.calls}")


@pytest.fixture
def world(built: World) -> World:
    out = worlds.clone(built)
    out.has_watches = True
    return out


def test_50_idle_fleets_of_12_bookies_ask_less_than_five_times_a_second() -> None:
    world = worlds.world(replicas=12)
    world.has_watches = True
    api, operator = Api(world), world.operator()
    until_it_rests(world, operator, api)
    calls: Counter[tuple[str, str]] = Counter()
    passes, end_ms = 0, world.now_ms + HOUR_MS // 4

    while world.now_ms < end_ms:
        world.step_ms = one_pass(world, operator)
        passes += 1
        calls.update(api.take())
        world.settle()

    assert passes >= HOUR_MS // 4 // fleet.QUIET_MS, "bookies are asked as often as ever"
    lease = 2 / options.LEASE_RENEW_S
    watches = (len(watch.CHILDREN) + 2) / watch.settings().watching.server_timeout
    a_second = calls.total() * 4 * 50 / HOUR_S + lease + watches + 1_000 / options.OperatorOptions("a", "b").resync_ms
    assert a_second < CALLS_A_SECOND_MAX, calls
    assert not [call for call in calls if call[0] in WRITES], "nothing changes, and nothing is written"
    assert calls["list", "Pod"] >= HOUR_MS // 4 // rests.FULL_LOOK_MS, "it looks by itself, also when no event came"


def test_what_a_bookie_says_otherwise_ends_the_rest_in_the_same_pass(world: World) -> None:
    world.is_heard = False
    api, operator = Api(world), world.operator()
    until_it_rests(world, operator, api)

    world.bookie(PODS[1]).state = State.HELD
    one_pass(world, operator)

    assert set(api.calls) >= DECIDING
    assert not world.is_quiet(), "its status says so in the same pass"


def test_a_bookie_that_does_not_answer_ends_the_rest(world: World) -> None:
    world.is_heard = False
    api, operator = Api(world), world.operator()
    until_it_rests(world, operator, api)
    world.bookie(PODS[1]).is_reachable = False

    one_pass(world, operator)

    assert set(api.calls) >= DECIDING


@pytest.mark.parametrize("kind", ["Service", "ServiceAccount", "PodDisruptionBudget", "StatefulSet"])
def test_a_child_that_somebody_deletes_is_back_after_the_next_pass(world: World, kind: str) -> None:
    api, operator = Api(world), world.operator()
    until_it_rests(world, operator, api)
    name = world.of_kind(kind)[0]["metadata"]["name"]

    del world.objects[(kind, name)]
    one_pass(world, operator)

    assert (kind, name) in world.objects


def test_a_lost_event_costs_no_more_than_the_time_between_two_full_looks(world: World) -> None:
    world.is_heard = False
    api, operator = Api(world), world.operator()
    until_it_rests(world, operator, api)
    (name, *_) = (one["metadata"]["name"] for one in world.of_kind("Service"))
    del world.objects[("Service", name)]
    began_ms = world.now_ms

    while ("Service", name) not in world.objects:
        assert world.now_ms - began_ms <= rests.FULL_LOOK_MS, "nobody looked"
        world.step_ms = one_pass(world, operator)
        world.settle()


def test_a_cordon_is_seen_within_a_quiet_pass(world: World) -> None:
    """Nodes are in no watch: where they matter, a glance asks for them."""
    world.add_node("elsewhere")
    world.edit(disruption={"onDrain": "ReadOnlyFirst"})
    api, operator = Api(world), world.operator()
    until_it_rests(world, operator, api)
    world.now_ms += fleet.QUIET_MS
    one_pass(world, operator)
    assert set(api.calls) == {("get", "Node")}, "a glance, and no more"
    world.settle()

    world.cordon("node")
    world.now_ms += fleet.QUIET_MS
    one_pass(world, operator)

    assert world.status().eviction is not None


def test_a_window_that_opens_stops_nobody_of_a_fleet_that_was_paused_unheard(world: World) -> None:
    """The gate that closed is known to the API server alone, and the event of it was lost."""
    begins = format_time(world.now_ms + 2 * HOUR_MS)
    window = {"schedule": f"{int(begins[14:16])} {int(begins[11:13])} * * *", "duration": "2h"}
    world.edit(rollout=AUTOMATIC | {"windows": [window]}, image="bookie:next")
    api, operator, watcher = Api(world), world.operator(), Watcher(world)
    until_it_rests(world, operator, api)
    world.now_ms += 2 * HOUR_MS - 4 * 60_000
    until_it_rests(world, operator, api)
    world.is_heard = False
    world.edit(lifecycle={"paused": True})

    world.now_ms += 4 * 60_000
    one_pass(world, operator)

    assert set(api.calls) >= DECIDING, "the clock ended the rest, and so everything was read"
    assert (api.orders, watcher.stops, watcher.wrong) == ([], [], [])


@pytest.mark.parametrize("seed", [0, 1, pytest.param(3, marks=pytest.mark.slow)])
def test_who_writes_or_gives_an_order_has_read_everything_in_the_same_pass(built: World, seed: int) -> None:
    """Whatever changes, heard of or not: no pass does anything by what an earlier one read."""
    rng = random.Random(seed)
    world = worlds.clone(built)
    world.has_watches = True
    api, operator, watcher = Api(world), world.operator(), Watcher(world)
    glances = 0
    accidents: list[Callable[[], Any]] = [
        lambda: world.lose(rng.choice(PODS)),
        lambda: world.kill(rng.choice(PODS)),
        lambda: world.edit(image=f"bookie:{rng.randrange(9)}", rollout=AUTOMATIC),
        lambda: world.edit(lifecycle={"paused": rng.random() < 0.5}),
        lambda: setattr(world.bookie(rng.choice(PODS)), "state", State.READ_ONLY),
        lambda: world.objects.pop(("Service", "ledgers-headless"), None),
    ]

    for number in range(90):
        world.is_heard = rng.random() < 0.7
        if number % 15 == 14:
            rng.choice(accidents)()
        world.step_ms = one_pass(world, operator) if rng.random() < 0.5 else 1_000
        calls, orders = api.calls, api.orders
        api.take()
        glances += not calls
        if orders or [call for call in calls if call[0] in WRITES]:
            assert set(calls) >= DECIDING, (seed, number, orders, sorted(set(calls)))
        world.settle()

    assert watcher.wrong == []
    assert glances, "this story never rested: it judges nothing"
