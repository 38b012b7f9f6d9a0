"""An API server that answers 409, 410, 429, 5xx and nothing at all, before or after it did what it was asked: the fleet
is as safe as with a good one, and as whole afterwards."""

import asyncio
import random
from typing import Any

import pytest

from bookie_operator.gateways.kube import KubeError, Manifest
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
