"""An API server that answers 409, 410, 429, 5xx and nothing at all, before or after it did what it was asked, or that
answers with what was a while ago: the fleet is as safe as with a good one, and as whole afterwards."""

import asyncio
import copy
import random
from typing import Any

import pytest

import workflows_support as workflows
from bookie.ports.admin import State
from bookie_operator.gateways.kube import KubeError, Manifest
from meeting_support import Fleet, Judge
from operator_world_support import KEY, World
from rolling_support import AUTOMATIC, PODS, Watcher, images

STORIES = workflows.STORIES | workflows.OTHERS
BAD_PASSES, PASSES_MAX = 120, 700  # who was taken for gone comes back when no order to forget it can be on its way
STATUSES = (409, 410, 429, 500, 503, 504, 0)


class Faulty:
    """An API server of which one call in `odds` fails (0: none); a write that fails may have been done."""

    ODDS = 40  # of one that misbehaves

    def __init__(self, world: World, rng: random.Random, odds: int = 0) -> None:
        self.world, self.rng, self.odds, self.failed = world, rng, odds, list[int]()

    def misbehave(self, is_bad: bool) -> None:
        self.odds = self.ODDS if is_bad else 0

    @property
    def has_misbehaved(self) -> bool:
        return bool(self.failed)

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

    async def replace_status(self, manifest: Manifest, **how: Any) -> Manifest:
        return await self._write(self.world.replace_status(manifest, **how), f"apply {manifest['kind']}/status")

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

    ODDS = 4

    def __init__(self, world: World, rng: random.Random) -> None:
        super().__init__(world, rng)
        self.lag_odds, self.stale = 0, 0
        self._known: dict[tuple[str, ...], list[Any]] = {}

    def misbehave(self, is_bad: bool) -> None:
        self.lag_odds = self.ODDS if is_bad else 0

    @property
    def has_misbehaved(self) -> bool:
        return self.stale > 0

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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", STORIES)
def test_what_was_asked_for_is_done_behind_an_api_server_that_fails(world: World, name: str, seed: int) -> None:
    world = workflows.begin(STORIES[name], world)

    tell(world, STORIES[name], Faulty(world, random.Random(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", STORIES)
def test_what_was_asked_for_is_done_behind_an_api_server_that_lags(world: World, name: str, seed: int) -> None:
    world = workflows.begin(STORIES[name], world)

    tell(world, STORIES[name], Lagging(world, random.Random(seed)))


def tell(world: World, story: workflows.Story, api: Faulty) -> None:
    """Tell `story`: its API server misbehaves for two minutes after each thing that is asked for."""
    judge, fleet, grants = Judge(world), Fleet(world, api=api), 0
    for ask, is_done in story.asks:
        ask(world)
        for count in range(PASSES_MAX):
            api.misbehave(count < BAD_PASSES)
            story.meanwhile(world, judge)
            before = len(world.accepted)
            fleet.run(1)
            # Of who was moved away, and came back by an old list before it was forgotten, nothing is given up.
            grants += sum(bool(world.naming(one.bookie_id)) for one in world.accepted[before:])
            assert workflows.wrong(world, judge) == []
            if api.has_misbehaved and is_done(world):
                break
        assert is_done(world), (api.failed, world.status())

    assert grants == story.grants, "a grant is given once, however often it is sent"
    api.misbehave(False)
    fleet.run(20)
    assert {one.state for one in world.bookies.values()} == {State.SERVING}
    assert (world.thin_entries(), world.uncounted(), world.is_quiet()) == ([], [], True), world.status()


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
