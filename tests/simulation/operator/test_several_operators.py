"""Operators beside each other: each cluster has one that keeps it, and nobody else writes a word to it
(spec/operator.md#I1 to I3)."""

import asyncio
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.execute.hand import LostLease
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.model import names
from bookie_operator.reconcile import REFUSED_MS
from operator_world_support import KEY, World, as_it_is
from rolling_support import AUTOMATIC, PODS, Watcher, images

RECORD = ("ConfigMap", "ledgers-record")
MINE, OTHER = "system/bookie-operator", "team/bookie-operator"


class Between:
    """What stands between one operator and the API server: a stale cache, or a line on which calls are late."""

    def __init__(self, world: World, *, stale: Manifest | None = None, late: int = 0) -> None:
        self.world, self.stale, self.late, self.writes = world, stale, late, 0
        self.is_held, self.go_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        if (kind, name) in ((names.KIND, "ledgers"), RECORD) and self.stale is not None:
            return self.stale if kind == names.KIND else None
        return await self.world.get(kind, namespace, name)

    async def apply(self, manifest: Manifest, **how: Any) -> Manifest:
        await self._wait()
        return await self.world.apply(manifest, **how)

    async def replace_status(self, manifest: Manifest, **how: Any) -> Manifest:
        await self._wait()
        return await self.world.replace_status(manifest, **how)

    async def delete(self, *what: Any, **how: Any) -> None:
        await self._wait()
        await self.world.delete(*what, **how)

    async def _wait(self) -> None:
        self.writes += 1
        if self.writes == self.late:
            self.is_held.set()
            await self.go_on.wait()


def passes(world: World, operator: Any, count: int = 3) -> None:
    asyncio.run(world.run(operator, passes=count))


def owner(world: World) -> str:
    return world.status().operator.owner


def annotate(world: World, value: str) -> None:
    live = world.objects[(names.KIND, "ledgers")]
    world.put(live | {"metadata": live["metadata"] | {"annotations": {names.OPERATOR: value}}})


@pytest.fixture
def kept(world: World) -> World:
    """A fleet that one operator keeps."""
    passes(world, world.operator(owner=MINE))
    assert owner(world) == MINE
    return world


def test_the_name_is_stored_before_any_child_is_touched() -> None:
    world = worlds.world()
    operator = world.operator(owner=MINE)

    asyncio.run(operator.reconcile(KEY))

    assert world.writes[0] == "BookieCluster/ledgers/status"
    assert owner(world) == MINE


def test_a_second_operator_refuses_in_words_and_writes_nothing_to_the_cluster(kept: World) -> None:
    before = kept.status()
    kept.writes.clear()
    kept.edit(image="bookie:next")

    again_ms = asyncio.run(kept.operator(owner=OTHER).reconcile(KEY))

    assert (kept.writes, kept.status()) == ([], before)
    assert again_ms == REFUSED_MS
    assert kept.refusals["ledgers"] == MINE
    note = kept.note("KeptByAnother")
    assert MINE in note
    assert f"{names.OPERATOR}={OTHER}" in note


def test_a_bad_spec_of_another_operators_cluster_is_not_even_told(kept: World) -> None:
    before = kept.status()
    kept.edit(replicas=0)

    asyncio.run(kept.operator(owner=OTHER).reconcile(KEY))

    assert kept.status() == before


def test_of_two_that_find_a_new_cluster_at_once_one_gets_it() -> None:
    world = worlds.world()
    stale = world.objects[(names.KIND, "ledgers")]
    late = world.operator(owner=OTHER, kube=Between(world, stale=stale))  # type: ignore[arg-type]
    asyncio.run(world.operator(owner=MINE).reconcile(KEY))
    world.writes.clear()

    with pytest.raises(KubeError) as refused:
        asyncio.run(late.reconcile(KEY))

    assert refused.value.is_conflict
    assert (world.writes, owner(world)) == ([], MINE)


def test_the_record_remembers_who_keeps_a_cluster_whose_status_is_lost(kept: World) -> None:
    kept.objects[(names.KIND, "ledgers")].pop("status")
    kept.writes.clear()

    asyncio.run(kept.operator(owner=OTHER).reconcile(KEY))

    assert kept.writes == []


class BeforeTheRecord(Between):
    """Somebody else writes the record right before this operator does, once."""

    races = 0
    is_newer_left = False

    async def apply(self, manifest: Manifest, **how: Any) -> Manifest:
        if (manifest["kind"], manifest["metadata"]["name"]) != RECORD or self.races:
            return await self.world.apply(manifest, **how)
        self.races += 1
        live = self.world.objects[RECORD]
        self.world.put(live | {"data": live["data"] | {"note": "newer"}})
        try:
            return await self.world.apply(manifest, **how)
        finally:
            self.is_newer_left = self.world.objects[RECORD]["data"].get("note") == "newer"


def test_a_record_that_somebody_else_wrote_meanwhile_is_not_written_over(kept: World) -> None:
    kept.edit(rollout=AUTOMATIC)
    passes(kept, kept.operator(owner=MINE), 6)
    line = BeforeTheRecord(kept)
    kept.edit(image="bookie:next")

    with pytest.raises(KubeError) as refused:
        passes(kept, kept.operator(owner=MINE, kube=line), 12)

    assert refused.value.is_conflict
    assert (line.races, line.is_newer_left) == (1, True)
    passes(kept, kept.operator(owner=MINE, kube=line), 2)


def test_a_cluster_is_handed_over_by_name_with_the_next_epoch_and_the_former_operator_stops(kept: World) -> None:
    kept.edit(rollout=AUTOMATIC)
    former = kept.operator(owner=MINE)
    passes(kept, former, 12)
    epoch, watcher = kept.status().operator.epoch, Watcher(kept)
    annotate(kept, OTHER)
    kept.edit(image="bookie:next")
    kept.writes.clear()

    asyncio.run(former.reconcile(KEY))
    assert kept.writes == []
    passes(kept, kept.operator(owner=OTHER), 50)

    assert owner(kept) == OTHER
    assert kept.status().operator.epoch > epoch
    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert set(images(kept).values()) == {"bookie:next"}
    assert "KeptByAnother" not in kept.events(), "somebody asked for it"


def test_an_operator_sees_only_the_clusters_that_its_selector_names(world: World) -> None:
    world.writes.clear()
    operator = world.operator(owner=MINE, selector="team=red")

    assert asyncio.run(operator.reconcile(KEY)) is None
    assert (world.writes, world.events().count("KeptByAnother"), owner(world)) == ([], 0, "")

    live = world.objects[(names.KIND, "ledgers")]
    world.put(live | {"metadata": live["metadata"] | {"labels": {"team": "red"}}})
    asyncio.run(operator.reconcile(KEY))
    assert owner(world) == MINE


@pytest.mark.slow
@pytest.mark.parametrize("late", range(1, 5))
def test_a_leader_that_was_paused_in_a_write_changes_nothing_when_it_goes_on(world: World, late: int) -> None:
    """Two replicas of one operator: one stands still with a write on its way, the other leads meanwhile."""
    world.edit(rollout=AUTOMATIC)
    asyncio.run(world.run(world.operator(owner=MINE), passes=6))
    watcher = Watcher(world)
    world.edit(image="bookie:next")

    async def story() -> None:
        line = Between(world, late=late)
        leads = [True]
        deposed = world.operator(owner=MINE, kube=line, may_act=lambda: leads[0])  # type: ignore[arg-type]
        first = asyncio.create_task(going_on(deposed))
        await asyncio.wait_for(line.is_held.wait(), 5)
        leads[0] = False
        second = world.operator(owner=MINE)
        await world.run(second, passes=4)
        before = len(world.writes)
        line.go_on.set()
        error = await first
        assert isinstance(error, KubeError | LostLease), error
        told = world.writes[before:]
        assert len(told) <= 1, told  # the one that was on its way
        assert not any(one.startswith(("flush", "delete", "BookieCluster")) for one in told), told
        await world.run(second, passes=45)

    async def going_on(operator: Any) -> BaseException | None:
        try:
            for _ in range(6):
                await operator.reconcile(KEY)
        except (KubeError, LostLease) as error:
            return error
        return None

    asyncio.run(story())

    assert (sorted(set(watcher.stops)), watcher.wrong) == (PODS, [])
    assert set(images(world).values()) == {"bookie:next"}
    assert world.admit is as_it_is
