"""What the API server fails at for long, or refuses, stands in the status; and what could be looked at goes on."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.gateways.kube import KubeError, KubeForbidden, Manifest
from bookie_operator.model.status import Condition
from bookie_operator.reconcile import Reconciler
from operator_world_support import World

DOWN = "ledgers-zone-a-0"


def passes(world: World, operator: Reconciler, count: int) -> int:
    """Run passes a second apart, as the queue does; return how many the API server broke off."""

    async def run() -> int:
        failed = 0
        for _ in range(count):
            try:
                await operator.reconcile(worlds.KEY)
            except KubeError:
                failed += 1
            world.settle()
        return failed

    return asyncio.run(run())


class Defective:
    """The world, for an operator of which a look ends in an error that nobody foresaw."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_broken = False
        self.broken_off = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    async def list(self, kind: str, *arguments: Any, **options: Any) -> list[Manifest]:
        if self.is_broken and kind == "StatefulSet":
            raise ZeroDivisionError("nobody foresaw it")
        return await self._world.list(kind, *arguments, **options)

    def passes(self, operator: Reconciler, count: int) -> None:
        """Run passes a second apart; each that ends in the defect is counted."""

        async def run() -> None:
            for _ in range(count):
                try:
                    await operator.reconcile(worlds.KEY)
                except ZeroDivisionError:
                    self.broken_off += 1
                self._world.settle()

        asyncio.run(run())


def told(world: World, kind: str) -> Condition:
    found = world.status().condition(kind)
    assert found is not None
    return found


def not_serving(world: World) -> list[str]:
    return [one.name for one in world.status().bookies if one.state != "Serving"]


@pytest.mark.parametrize("status", [500, 0])
def test_beside_a_webhook_that_is_down_the_status_tells_what_else_becomes_of_the_fleet(
    world: World, status: int
) -> None:
    """A webhook that nobody answers for is waited for as long as our own call is: there is no answer at all then."""
    world.without_webhook, world.webhook_status = "StatefulSet", status
    world.edit(image="bookie:next")
    operator = world.operator()

    assert passes(world, operator, 25) == 25, "what may pass by itself is not told"
    assert told(world, "Stalled").status != "True"
    world.bookie(DOWN).is_reachable = False
    passes(world, operator, 15)

    stalled = told(world, "Stalled")
    assert (stalled.status, stalled.reason) == ("True", "ApplyRefused")
    assert "failed calling webhook" in stalled.message
    assert not_serving(world) == [DOWN]
    world.without_webhook = ""
    world.bookie(DOWN).is_reachable = True
    passes(world, operator, 30)
    assert world.is_quiet()
    assert told(world, "Stalled").status == "False"


@pytest.mark.slow
def test_while_keys_cannot_be_read_the_status_says_so_and_what_else_becomes_of_the_fleet(world: World) -> None:
    """Before, each pass ended there, and the status said for hours that all was well."""
    operator = world.operator()
    passes(world, operator, 3)
    world.no_reads = ("Secret",)
    world.edit(image="bookie:next", rollout={"strategy": "Automatic", "soakSeconds": 0})

    assert passes(world, operator, 25) == 25, "what may pass by itself is not told"
    assert told(world, "Stalled").status != "True"
    world.bookie(DOWN).is_reachable = False
    passes(world, operator, 15)

    stalled = told(world, "Stalled")
    assert (stalled.status, stalled.reason) == ("True", "ReadFailed")
    assert "failed to decrypt" in stalled.message
    assert not_serving(world) == [DOWN]
    world.bookie(DOWN).is_reachable = True
    world.writes.clear()
    passes(world, operator, 20)
    assert not [one for one in world.writes if one.startswith(("flush", "delete"))], "a new pod could not mount them"
    world.no_reads = ()
    passes(world, operator, 90)
    assert world.is_quiet()
    assert told(world, "Stalled").status == "False"
    assert told(world, "UpToDate").status == "True"


def test_keys_are_not_asked_for_again_before_the_time_that_the_api_server_asked_for(world: World) -> None:
    """The passes go on meanwhile, since a bookie may need one."""
    operator = world.operator()
    passes(world, operator, 3)
    world.no_reads, world.retry_after_ms = ("Secret",), 7_000
    passes(world, operator, 32)
    assert told(world, "Stalled").reason == "ReadFailed"

    asked = world.reads_failed
    assert passes(world, operator, 21) == 0
    assert world.reads_failed - asked == 3
    world.no_reads = ()
    passes(world, operator, 8)
    assert told(world, "Stalled").status == "False"


def test_a_new_operator_that_cannot_read_keys_says_that_nothing_is_known(world: World) -> None:
    """It has nothing to show to a bookie: none of them is called silent for that."""
    world.no_reads = ("Secret",)

    passes(world, world.operator(), 40)

    found = {one.type: (one.status, one.reason) for one in world.status().conditions}
    assert found.pop("Stalled") == ("True", "ReadFailed")
    assert {status for status, _ in found.values()} == {"Unknown"}


@pytest.mark.parametrize(
    "kinds",
    [
        ("Pod",),
        ("ConfigMap",),
        ("PersistentVolumeClaim",),
        ("Node",),
        ("ControllerRevision",),
        (worlds.names.OPERATION_KIND,),
    ],
)
def test_what_cannot_be_read_for_long_makes_unknown_what_the_status_said(world: World, kinds: Sequence[str]) -> None:
    operator = world.operator()
    world.edit(disruption={"onDrain": "ReadOnlyFirst"})  # with it each pass reads the nodes
    passes(world, operator, 14)
    assert told(world, "Ready").status == "True"
    world.no_reads = tuple(kinds)

    assert passes(world, operator, 25) == 25
    passes(world, operator, 15)

    assert (told(world, "Stalled").reason, told(world, "Ready").status) == ("ReadFailed", "Unknown")
    world.no_reads = ()
    passes(world, operator, 20)
    assert world.is_quiet()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Pod"])
def test_two_reads_that_fail_with_a_good_one_between_them_are_no_failure_that_lasts(world: World, kind: str) -> None:
    operator = world.operator()
    passes(world, operator, 14)

    for _ in range(2):
        world.no_reads = (kind,)
        assert passes(world, operator, 1) == 1
        world.no_reads = ()
        assert passes(world, operator, 35) == 0

    assert told(world, "Stalled").status == "False"


@pytest.mark.slow
def test_a_pod_that_cannot_be_deleted_because_its_webhook_is_down_is_told(world: World) -> None:
    """Before, its bookie refused writes, pass after pass, and nothing said why."""
    operator = world.operator()
    passes(world, operator, 14)
    world.no_deletion = KubeError("delete Pod", 500, "failed calling webhook")
    world.edit(image="bookie:next", rollout={"strategy": "Automatic", "soakSeconds": 0})

    passes(world, operator, 60)

    stalled = told(world, "Stalled")
    assert (stalled.status, stalled.reason) == ("True", "RolloutHalted")
    assert "failed calling webhook" in stalled.message
    world.no_deletion = None
    passes(world, operator, 200)
    assert told(world, "UpToDate").status == "True"


@pytest.mark.slow
def test_a_claim_that_cannot_grow_because_its_webhook_is_down_is_told(world: World) -> None:
    operator = world.operator()
    passes(world, operator, 14)
    world.without_webhook = "PersistentVolumeClaim"
    storage = worlds._copy(world.spec()["storage"])
    storage["ledgers"]["volumes"][0]["size"] = "4Gi"
    world.edit(storage=storage)

    passes(world, operator, 60)

    assert "failed calling webhook" in told(world, "VolumesExpanding").message
    world.without_webhook = ""
    passes(world, operator, 200)
    assert told(world, "VolumesExpanding").reason == "SizesAsAsked"


QUOTA = 'services "ledgers-bookies" is forbidden: exceeded quota: storage-team, requested: services=1, used: services=5'
ENDING = (
    'services "ledgers-bookies" is forbidden: unable to create new content in namespace data because it is being'
    " terminated"
)


@pytest.mark.parametrize(("words", "reason"), [(QUOTA, "QuotaExceeded"), (ENDING, "ApplyRefused")])
def test_a_refusal_that_is_no_missing_right_is_not_called_one(words: str, reason: str) -> None:
    world = worlds.world()
    world.denied["Service"] = KubeError("PATCH /services", 403, words)

    passes(world, world.operator(), 5)

    stalled = told(world, "Stalled")
    assert (stalled.status, stalled.reason) == ("True", reason)
    assert words in stalled.message


def test_a_defect_that_ends_each_pass_is_told_and_nothing_is_called_well(world: World) -> None:
    """A group of errors ended each look of the image's interpreter, and the status said for hours that all was well."""
    behind = Defective(world)
    operator = world.operator(kube=behind)  # type: ignore[arg-type]
    behind.passes(operator, 5)
    assert told(world, "Ready").status == "True"
    behind.is_broken = True
    world.edit(image="bookie:next")
    world.bookie(DOWN).is_reachable = False

    behind.passes(operator, 25)
    assert (behind.broken_off, told(world, "Stalled").status) == (25, "False"), "what may pass by itself is not told"
    behind.passes(operator, 15)

    assert behind.broken_off == 40, "the queue hears of each, and waits longer"
    found = {one.type: (one.status, one.reason) for one in world.status().conditions}
    assert found.pop("Stalled") == ("True", "OperatorDefect")
    assert {status for status, _ in found.values()} == {"Unknown"}
    assert "ZeroDivisionError: nobody foresaw it" in told(world, "Stalled").message
    behind.is_broken = False
    world.bookie(DOWN).is_reachable = True
    behind.passes(operator, 30)
    assert (told(world, "Stalled").status, told(world, "Ready").status) == ("False", "True")


def test_a_defect_that_passes_by_itself_is_not_told_however_often_it_comes(world: World) -> None:
    behind = Defective(world)
    operator = world.operator(kube=behind)  # type: ignore[arg-type]
    behind.passes(operator, 5)

    for _ in range(6):
        behind.is_broken = True
        world.edit(image=f"bookie:{behind.broken_off}")
        behind.passes(operator, 10)
        assert told(world, "Stalled").status == "False"
        behind.is_broken = False
        behind.passes(operator, 1)

    assert behind.broken_off == 60


def test_a_defect_is_not_told_in_the_cluster_of_another_operator(world: World) -> None:
    """Nor in one that nobody has claimed yet: what it says is its keeper's."""
    behind = Defective(world)
    keeper = world.operator(owner="keeper")
    passes(world, keeper, 5)
    before = world.status()
    behind.is_broken = True
    defective = world.operator(owner="", kube=behind)  # type: ignore[arg-type]

    behind.passes(defective, 40)

    assert behind.broken_off
    assert world.status() == before


class Unlisting:
    """The world, whose API server gives each cluster and, while `error` is set, lists none."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.error: KubeError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    async def list(self, kind: str, *arguments: Any, **options: Any) -> list[Manifest]:
        if self.error is not None and kind == worlds.names.KIND:
            raise self.error
        return await self._world.list(kind, *arguments, **options)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KubeError("list BookieCluster", 500, "failed to decrypt"), "ReadFailed"),
        (KubeForbidden("list BookieCluster", 403, "forbidden"), "PermissionMissing"),
    ],
)
def test_an_operator_of_several_that_cannot_tell_whether_a_cluster_is_its_own_says_so(
    world: World, error: KubeError, reason: str
) -> None:
    """Each pass over it failed before its first step, and the status said for hours that all was well."""
    behind = Unlisting(world)
    live = world.objects[(worlds.names.KIND, "ledgers")]
    world.put(live | {"metadata": live["metadata"] | {"labels": {"team": "a"}}})
    operator = world.operator(kube=behind, selector="team=a")  # type: ignore[arg-type]
    passes(world, operator, 14)
    assert told(world, "Ready").status == "True"
    behind.error = error

    passes(world, operator, 40)

    assert (told(world, "Stalled").reason, told(world, "Ready").status) == (reason, "Unknown")
    behind.error = None
    passes(world, operator, 20)
    assert (told(world, "Stalled").status, told(world, "Ready").status) == ("False", "True")
