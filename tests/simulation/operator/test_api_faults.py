"""An API server that answers 409, 410, 429, 5xx and nothing at all, before or after it did what it was asked, or that
answers with what was a while ago: the fleet is as safe as with a good one, and as whole afterwards."""

import asyncio
import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.model.operation import OperationPhase
from operator_world_support import KEY, World
from rolling_support import AUTOMATIC, PODS, Watcher, images

STATUSES = (409, 410, 429, 500, 503, 504, 0)


class Faulty:
    """An API server of which one call in `odds` fails; a write that fails may have been done."""

    def __init__(self, world: World, rng: random.Random, odds: int) -> None:
        self.world, self.rng, self.odds, self.failed = world, rng, odds, list[int]()

    def _error(self, what: str) -> KubeError | None:
        if self.odds == 0 or self.rng.randrange(self.odds):
            return None
        status = self.rng.choice(STATUSES)
        self.failed.append(status)
        return KubeError(what, status, "as the test wants it", 1_000 if status == 429 else 0)

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        if error := self._error(f"get {kind}"):
            raise error
        return await self.world.get(kind, namespace, name)

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        if error := self._error(f"list {kind}"):
            raise error
        return await self.world.list(kind, namespace, selector, fields=fields)

    async def apply(self, manifest: Manifest, **how: Any) -> Manifest:
        return await self._write(self.world.apply(manifest, **how), f"apply {manifest['kind']}")

    async def create(self, manifest: Manifest) -> Manifest:
        return await self._write(self.world.create(manifest), "create")

    async def merge(self, manifest: Manifest) -> Manifest:
        return await self._write(self.world.merge(manifest), "merge")

    async def replace(self, manifest: Manifest) -> Manifest:
        return await self._write(self.world.replace(manifest), "replace")

    async def delete(self, *what: Any, **how: Any) -> None:
        await self._write(self.world.delete(*what, **how), "delete")

    async def _write(self, call: Any, what: str) -> Any:
        error = self._error(what)
        if error is None or (error.http_status in (0, 504) and self.rng.random() < 0.5):
            done = await call
            if error is not None:
                raise error
            return done
        call.close()
        raise error


class Lagging(Faulty):
    """An API server of which one read in `odds` is answered by what one of the last such reads found, as the cache of
    another one that lags would. Ours asks for the newest state each time, and must not lean on it."""

    def __init__(self, world: World, rng: random.Random, odds: int) -> None:
        super().__init__(world, rng, 0)
        self.lag_odds, self.stale = odds, 0
        self._known: dict[tuple[str, ...], list[Any]] = {}

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        return self._lags((kind, name), await super().get(kind, namespace, name))  # type: ignore[no-any-return]

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        found = await super().list(kind, namespace, selector, fields=fields)
        return self._lags((kind, selector, fields), found)  # type: ignore[no-any-return]

    def _lags(self, what: tuple[str, ...], found: Any) -> Any:
        before = self._known.setdefault(what, [])
        old = self.rng.choice(before) if before and self.lag_odds and not self.rng.randrange(self.lag_odds) else found
        self.stale += old != found
        before.append(copy.deepcopy(found))
        del before[:-LAG_MAX]
        return copy.deepcopy(old)


LAG_MAX = 8  # reads of the same


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_loss_heals_and_an_edit_is_rolled_out_behind_an_api_server_that_fails(world: World, seed: int) -> None:
    rng = random.Random(seed)
    world.write(50, rng)
    world.edit(rollout=AUTOMATIC)
    api = Faulty(world, rng, odds=40)
    operator = world.operator(kube=api, owner="system/bookie-operator")
    asyncio.run(passes(world, operator, 6))
    watcher = Watcher(world)

    world.lose(rng.choice(PODS))
    world.edit(image="bookie:next")
    broken = asyncio.run(passes(world, operator, 60))
    api.odds = 0
    asyncio.run(passes(world, operator, 60))

    assert len(set(api.failed)) >= 3, api.failed
    assert broken, "some passes failed"
    assert (watcher.wrong, world.past_tolerance, world.wrong) == ([], [], [])
    assert len(world.accepted) == 1
    assert (world.lost_entries(), world.thin_entries()) == ([], [])
    assert world.is_quiet(), world.status()
    assert set(images(world).values()) == {"bookie:next"}


def changed_volume(world: World, layout: str = "Refuse", **changes: str) -> None:
    storage = copy.deepcopy(world.spec()["storage"]) | {"layoutChange": layout}
    storage["ledgers"]["volumes"][0] |= changes
    world.edit(storage=storage)


def volumes(world: World) -> set[tuple[str, str]]:
    """(size, class) of every claim of a ledger volume."""
    claims = [one for one in world.of_kind("PersistentVolumeClaim") if one["metadata"]["name"].startswith("ledgers-")]
    return {(one["spec"]["resources"]["requests"]["storage"], one["spec"]["storageClassName"]) for one in claims}


def fence(world: World) -> None:
    world.ask("fence", "Fence", target={"bookie": PODS[2]}, reason="its disk clicks")


Story = tuple[Callable[[World], object], Callable[[World], bool]]  # what is asked for, and whether it is so
STORIES: dict[str, Story] = {
    "a bookie leaves": (
        lambda world: world.edit(replicas=3),
        lambda world: (world.status().summary, len(world.forgotten)) == ("3/3", 1),
    ),
    "volumes grow": (
        lambda world: changed_volume(world, size="4Gi"),
        lambda world: volumes(world) == {("4Gi", "standard")} and world.status().expansion is None,
    ),
    "another class": (
        lambda world: changed_volume(world, "RollingRebuild", storageClassName="fast"),
        lambda world: volumes(world) == {("2Gi", "fast")} and world.status().rebuild is None,
    ),
    "it sleeps": (
        lambda world: world.edit(lifecycle={"hibernate": True, "terminationGrace": "2m"}),
        lambda world: not world.of_kind("Pod"),
    ),
    "one is fenced off": (fence, lambda world: world.operation("fence").phase is OperationPhase.COMPLETE),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("story", STORIES)
def test_what_was_asked_for_is_done_behind_an_api_server_that_fails(world: World, story: str, seed: int) -> None:
    api = Faulty(world, random.Random(seed), odds=0)

    def fails(count: int) -> bool:
        api.odds = 40 if count < 120 else 0
        return bool(api.failed)

    told(world, story, api, fails)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("story", STORIES)
def test_what_was_asked_for_is_done_behind_an_api_server_that_lags(world: World, story: str, seed: int) -> None:
    api = Lagging(world, random.Random(seed), odds=0)

    def lags(count: int) -> bool:
        api.lag_odds = 4 if count < 120 else 0
        return bool(api.stale)

    told(world, story, api, lags)


def told(world: World, story: str, api: Faulty, misbehaves: Callable[[int], bool]) -> None:
    """Tell the story: before each pass `misbehaves` sets how bad the API server is, and returns whether it was."""
    ask, is_done = STORIES[story]
    world.edit(rollout=AUTOMATIC, scaleDown={"proofInterval": "5s"})
    operator = world.operator(kube=api, owner="system/bookie-operator")
    world.write(60, api.rng)
    asyncio.run(passes(world, operator, 6))

    world.now_ms += 60_000
    ask(world)
    for count in range(700):  # whoever was taken for gone comes back when no order to forget it can be on its way
        was_bad = misbehaves(count)
        asyncio.run(passes(world, operator, 1))
        serving = sum(one.state.serves for one in world.bookies.values())
        assert serving >= 3 or story == "it sleeps", f"{serving} serve: never two away"
        assert (world.wrong, world.past_tolerance) == ([], [])
        if was_bad and is_done(world):
            break

    assert is_done(world), (api.failed, world.status())
    assert (world.wrong, world.lost_entries(), world.past_tolerance) == ([], [], [])
    misbehaves(700)
    if story == "it sleeps":
        world.edit(lifecycle={"terminationGrace": "2m"})
    asyncio.run(passes(world, operator, 20))
    assert story == "one is fenced off" or world.is_quiet(), world.status()
    assert (world.lost_entries(), world.uncounted()) == ([], [])


async def passes(world: World, operator: Any, count: int) -> int:
    """Run passes a second apart, as the queue does; return how many the API server broke off."""
    broken = 0
    for _ in range(count):
        try:
            await operator.reconcile(KEY)
        except KubeError:
            broken += 1
        world.settle()
    return broken
