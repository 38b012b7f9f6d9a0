"""Volumes grow under a fleet in service: one bookie at a time, halted by the first that cannot, taken back by the
reverse edit, and as far as they were after any death (spec/operator.md#X1 to X4)."""

import asyncio
import random
from pathlib import Path
from typing import Any, NoReturn

import pytest

import operator_world_support as worlds
from bookie_operator.crash import CrashPoint
from bookie_operator.model import values
from bookie_operator.reconcile import Reconciler
from operator_world_support import Crashed, World

FIRST = "ledgers-ledgers-zone-a-0"
WRITES = 4 + 3 + 3 + 8  # claims; StatefulSets, twice; statuses at the least
PASSES = 60  # seconds; a bookie takes about five, the StatefulSets a few
ORDER = [f"ledgers-ledgers-{pod}" for pod in ("zone-a-0", "zone-a-1", "zone-b-0", "zone-c-0")]


def die(_: int) -> NoReturn:
    raise Crashed


def run(world: World, operator: Reconciler | None = None, *, passes: int = 0, crash: CrashPoint | None = None) -> int:
    """So many passes; 0: until the operator calls the spec done, or in need of a person. How often it died."""
    operator = operator or world.operator(crash)
    if passes:
        return asyncio.run(world.run(operator, passes=passes, crash=crash))
    asked = world.objects[("BookieCluster", "ledgers")]["metadata"]["generation"]
    crashes = 0
    for _ in range(PASSES):
        try:
            asyncio.run(operator.reconcile(worlds.KEY))
        except Crashed:
            crashes += 1
            operator = world.operator(crash, has_watched=False)
        world.settle()
        found = world.status().condition("Reconciling")
        if world.status().observed_generation == asked and found is not None and found.status == "False":
            return crashes
    return crashes


def resize(world: World, size: str) -> None:
    storage = worlds._copy(world.spec()["storage"])
    storage["ledgers"]["volumes"][0]["size"] = size
    world.edit(storage=storage)


def capacities(world: World) -> list[str]:
    return [world.objects[("PersistentVolumeClaim", name)]["status"]["capacity"]["storage"] for name in ORDER]


def requests(world: World) -> list[str]:
    return [worlds._request(world.objects[("PersistentVolumeClaim", name)]) for name in ORDER]


def templates(world: World) -> list[str]:
    found = [one["spec"]["volumeClaimTemplates"] for one in world.of_kind("StatefulSet")]
    return [worlds._request(one) for each in found for one in each if one["metadata"]["name"] == "ledgers"]


def identities(world: World) -> dict[tuple[str, str], Any]:
    """What must not change: pods, claims, their marks, cookies."""
    kinds = ("Pod", "PersistentVolumeClaim", "PersistentVolume")
    found = {
        (one["kind"], one["metadata"]["name"]): (
            one["metadata"]["uid"],
            one["metadata"].get("annotations"),
        )
        for kind in kinds
        for one in world.of_kind(kind)
    }
    return found | {("Cookie", name): tuple(cookie) for name, cookie in world.cookies.items()}


def said(world: World, kind: str) -> tuple[str, str, str]:
    found = world.status().condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def test_every_volume_grows_and_nothing_else_changes(world: World) -> None:
    before = identities(world)
    resize(world, "4Gi")

    run(world)

    assert capacities(world) == ["4Gi"] * 4
    assert templates(world) == ["4Gi"] * 3
    assert identities(world) == before
    assert said(world, "VolumesExpanding")[:2] == ("False", "SizesAsAsked")
    assert said(world, "Reconciling")[:2] == ("False", "Done")
    assert world.status().expansion is None
    assert {"VolumeExpansionStarted", "VolumeExpansionCompleted"} <= set(world.events())


def test_one_bookie_at_a_time_and_the_first_is_the_canary(world: World) -> None:
    resize(world, "4Gi")
    operator, grown = world.operator(), list[str]()

    while len(grown) < len(ORDER):
        run(world, operator, passes=1)
        under_way = [
            name for name, one, has in zip(ORDER, requests(world), capacities(world), strict=True) if one != has
        ]
        assert len(under_way) <= 1, under_way
        grown += [name for name in under_way if name not in grown]

    assert grown == ORDER


def test_while_volumes_expand_the_status_counts_them(world: World) -> None:
    resize(world, "4Gi")
    run(world, passes=3)

    assert said(world, "VolumesExpanding")[:2] == ("True", "Expanding")
    assert said(world, "Reconciling")[:2] == ("True", "VolumesExpanding")
    assert said(world, "Ready")[0] == "True"
    found = world.status().expansion
    assert found is not None
    assert (found.desired, found.done) == (4, 0)
    assert [(one.name, one.size) for one in found.volumes] == [("ledgers", "2Gi")]
    entry = world.status().bookie("ledgers-zone-a-0")
    assert entry is not None
    told = {one.name: (one.capacity, one.growth) for one in entry.volumes}
    assert told["ledgers"] == ("2Gi", "Waiting")
    assert told["journal"] == ("1Gi", None)


def test_a_volume_that_cannot_grow_stops_at_the_first_and_setting_the_size_back_is_enough(world: World) -> None:
    before = identities(world)
    world.infeasible = {FIRST}
    resize(world, "4Gi")
    operator = world.operator()
    run(world, operator)
    kind, reason, words = said(world, "Stalled")

    assert requests(world) == ["4Gi", "2Gi", "2Gi", "2Gi"]
    assert (kind, reason) == ("True", "ExpansionInfeasible")
    assert "the array is full" in words
    assert "setting it back to 2Gi is enough" in words
    assert templates(world) == ["2Gi"] * 3

    resize(world, "2Gi")
    run(world, operator, passes=5)

    assert said(world, "Stalled")[0] == "False"
    assert said(world, "Reconciling")[:2] == ("False", "Done")
    assert identities(world) == before
    assert capacities(world) == ["2Gi"] * 4


def test_a_size_that_is_corrected_to_less_is_asked_for_instead(world: World) -> None:
    world.infeasible = {FIRST}
    resize(world, "9Gi")
    run(world, passes=5)
    world.infeasible = set()

    resize(world, "3Gi")
    run(world)

    assert capacities(world) == ["3Gi"] * 4
    assert templates(world) == ["3Gi"] * 3


def test_what_the_api_server_refuses_is_told_and_goes_on_by_itself_when_the_quota_is_raised(world: World) -> None:
    world.no_resize = "exceeded quota: disks, requested: 2Gi, used: 8Gi, limited: 8Gi"
    resize(world, "4Gi")
    operator = world.operator()
    run(world, operator, passes=5)

    assert said(world, "Stalled")[1] == "ExpansionInfeasible"
    assert "exceeded quota: disks" in said(world, "Stalled")[2]
    assert requests(world) == ["2Gi"] * 4

    world.no_resize = ""
    world.step_ms = 10_000
    run(world, operator, passes=35)

    assert capacities(world) == ["4Gi"] * 4
    assert said(world, "Stalled")[0] == "False"


def test_no_edit_that_lowers_a_size_makes_anything_smaller(world: World) -> None:
    """As under a CRD without the rule."""
    resize(world, "4Gi")
    run(world)
    resize(world, "1Gi")

    run(world)

    assert capacities(world) == ["4Gi"] * 4
    assert requests(world) == ["4Gi"] * 4
    assert said(world, "Stalled")[0] == "False"


def test_a_stateful_set_that_is_made_anew_leaves_its_pods_and_they_are_its_own_again(world: World) -> None:
    pods = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("Pod")}
    old = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("StatefulSet")}
    resize(world, "4Gi")

    run(world)

    new = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("StatefulSet")}
    assert new.keys() == old.keys()
    assert not set(new.values()) & set(old.values())
    assert {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("Pod")} == pods
    assert not [one for one in world.writes if one.startswith("delete Pod")]


def test_a_new_bookie_begins_with_the_new_size(world: World) -> None:
    resize(world, "4Gi")
    run(world)

    world.edit(replicas=5)
    run(world, passes=12)

    claim = world.objects[("PersistentVolumeClaim", "ledgers-ledgers-zone-b-1")]
    assert claim["status"]["capacity"]["storage"] == "4Gi"


def test_nothing_grows_while_a_bookie_heals(world: World) -> None:
    world.lose("ledgers-zone-b-0")
    run(world, passes=2)
    resize(world, "4Gi")
    operator = world.operator()

    while not world.accepted:
        run(world, operator, passes=1)
    assert requests(world) == ["2Gi"] * 4

    run(world, operator, passes=45)
    assert capacities(world) == ["4Gi"] * 4
    assert world.is_quiet()


def test_an_edit_of_the_image_goes_its_way_while_a_volume_cannot_grow(world: World) -> None:
    world.infeasible = {FIRST}
    world.edit(rollout={"strategy": "Automatic", "soakSeconds": 1})
    resize(world, "4Gi")
    operator = world.operator()
    run(world, operator, passes=5)

    world.edit(image="bookie:next")
    run(world, operator, passes=60)

    assert {one["spec"]["containers"][0]["image"] for one in world.of_kind("Pod")} == {"bookie:next"}
    assert said(world, "Stalled")[1] == "ExpansionInfeasible"


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_the_operator_may_die_after_any_write_of_a_growth(world: World, tmp_path: Path, number: int) -> None:
    before = identities(world)
    resize(world, "4Gi")
    crash = CrashPoint(number, str(tmp_path), die)

    crashes = run(world, crash=crash)

    assert crashes == 1
    assert capacities(world) == ["4Gi"] * 4
    assert templates(world) == ["4Gi"] * 3
    assert identities(world) == before
    assert said(world, "Reconciling")[:2] == ("False", "Done")


def test_a_pod_that_dies_between_the_two_stateful_sets_comes_back(world: World, tmp_path: Path) -> None:
    resize(world, "4Gi")
    operator = world.operator()
    while len(world.of_kind("StatefulSet")) == 3:
        run(world, operator, passes=1)
    (gone,) = {f"ledgers-{zone}" for zone in ("zone-a", "zone-b", "zone-c")} - {
        one["metadata"]["name"] for one in world.of_kind("StatefulSet")
    }

    world.kill(f"{gone}-0")
    run(world)

    assert world.is_quiet()
    assert capacities(world) == ["4Gi"] * 4
    assert len(world.of_kind("Pod")) == 4
    assert not world.accepted, "no volume was lost, so none is regenerated"


def test_a_driver_that_needs_a_start_gets_one_for_each_bookie_behind_the_gates_of_the_roll_out(world: World) -> None:
    stops = list[str]()
    world.on_stop = stops.append
    world.is_offline = True
    world.edit(rollout={"strategy": "Automatic", "soakSeconds": 1})
    resize(world, "4Gi")
    operator = world.operator()

    for _ in range(40):
        run(world, operator, passes=12)
        if capacities(world) == ["4Gi"] * 4:
            break
        assert len([one for one in world.bookies.values() if not one.state.serves]) <= 1
        waits = [one for one in world.status().bookies if any(each.growth == "Waiting" for each in one.volumes)]
        world.now_ms += 300_000 if waits else 0  # five minutes

    assert capacities(world) == ["4Gi"] * 4, said(world, "VolumesExpanding")
    assert stops == ["ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0"]
    assert world.writes.count("flush/ledgers-zone-a-0") >= 1
    run(world, operator, passes=5)
    assert len(stops) == 4
    assert not world.accepted, "no volume was lost, so none is regenerated"


def test_a_zone_that_is_added_gets_the_next_bookies_and_nobody_moves(world: World) -> None:
    world.edit(rollout={"strategy": "Automatic", "soakSeconds": 1})
    run(world)
    before = identities(world)

    world.edit(zones=[*world.spec()["zones"], {"name": "zone-d"}], replicas=5)
    run(world, passes=12)
    world.edit(replicas=7)
    run(world, passes=12)

    pods = sorted(one["metadata"]["name"] for one in world.of_kind("Pod"))
    added = ["ledgers-zone-b-1", "ledgers-zone-c-1", "ledgers-zone-d-0"]
    assert pods == sorted([*(f"ledgers-zone-{one}" for one in ("a-0", "a-1", "b-0", "c-0")), *added])
    assert before.items() <= identities(world).items()
    assert world.is_quiet()


def test_a_zone_without_bookies_changes_nothing(world: World) -> None:
    before = identities(world)

    world.edit(zones=[*world.spec()["zones"], {"name": "zone-d"}])
    run(world, passes=5)

    assert identities(world) == before
    assert said(world, "Ready")[0] == "True"


def test_a_zone_whose_claims_another_cluster_has_is_not_begun_and_the_rest_heals(world: World) -> None:
    """`a` with zone `x-b` is `a-x` with zone `b`."""
    world._provision("ledgers-ledgers-zone-d-0", "zone-d", "1Gi", None)
    claim = world.objects[("PersistentVolumeClaim", "ledgers-ledgers-zone-d-0")]
    claim["metadata"]["labels"]["bookie.dev/cluster"] = "ledgers-zone"

    world.edit(zones=[*world.spec()["zones"], {"name": "zone-d"}], replicas=5)
    world.lose("ledgers-zone-b-0")
    run(world, passes=30)

    assert ("StatefulSet", "ledgers-zone-d") not in world.objects
    assert said(world, "Stalled")[:2] == ("True", "NameConflict")
    assert "is of BookieCluster ledgers-zone" in said(world, "Stalled")[2]
    assert len(world.accepted) == 1
    assert world.bookie("ledgers-zone-b-0").state.serves


def any_edits(rng: random.Random) -> list[tuple[str, int]]:
    """A few edits, and storage that can and cannot, in any order."""
    return [
        rng.choice(
            [("size", rng.randint(1, 6)), ("replicas", rng.randint(4, 6)), ("zone", 4), ("broken", rng.randint(0, 3))]
        )
        for _ in range(rng.randint(2, 5))
    ]


def edit(world: World, what: str, number: int) -> None:
    """As a person would, under a CRD without transition rules: sizes go down too."""
    if what == "size":
        resize(world, f"{number}Gi")
    elif what == "replicas":
        world.edit(replicas=max(number, world.spec()["replicas"]))
    elif what == "zone":
        world.edit(zones=[*world.spec()["zones"][:3], {"name": "zone-d"}])
    else:
        world.infeasible = {ORDER[number]} if ORDER[number] not in world.infeasible else set()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_edited_no_claim_goes_none_shrinks_and_the_fleet_ends_as_the_spec_says(
    world: World, seed: int
) -> None:
    before, operator = identities(world), world.operator()
    least = dict(zip(ORDER, map(values.parse_quantity, capacities(world)), strict=True))

    def check() -> None:
        for name, size in zip(ORDER, capacities(world), strict=True):
            assert values.parse_quantity(size) >= least[name], f"{name} shrank"
            least[name] = values.parse_quantity(size)
        assert before.items() <= identities(world).items(), "a pod, a claim or a cookie is another one"

    for what, number in any_edits(random.Random(seed)):
        edit(world, what, number)
        for _ in range(3):
            run(world, operator, passes=3)
            check()
    world.infeasible = set()
    run(world, operator, passes=40)
    check()

    wanted = values.parse_quantity(world.spec()["storage"]["ledgers"]["volumes"][0]["size"])
    assert all(size >= wanted for size in least.values())
    assert {values.parse_quantity(one) for one in templates(world)} == {wanted}
    assert not world.accepted
    assert said(world, "Stalled")[0] == "False"
    assert said(world, "Reconciling")[:2] == ("False", "Done")


def test_sizes_are_compared_as_quantities() -> None:
    assert values.format_quantity(values.parse_quantity("1024Mi")) == "1Gi"
    assert values.format_quantity(values.parse_quantity("1500M")) == "1500000000"
    assert values.format_quantity(values.parse_quantity("0")) == "0"


def leave(world: World, operator: Reconciler, **edits: Any) -> None:
    """A fleet that knows its data, in which somebody leaves."""
    world.edit(scaleDown={"proofInterval": "5s"}, **edits)
    run(world, operator, passes=60)


def until_away(world: World, operator: Reconciler) -> str:
    """Run until growth has a StatefulSet away; return its name."""
    for _ in range(PASSES):
        run(world, operator, passes=1)
        there = {one["metadata"]["name"] for one in world.of_kind("StatefulSet")}
        if gone := {f"ledgers-{zone}" for zone in ("zone-a", "zone-b", "zone-c")} - there:
            return min(gone)
    raise AssertionError("no StatefulSet was ever made anew")


@pytest.mark.slow
def test_claims_of_a_bookie_that_left_hold_up_no_growth_of_others(world: World) -> None:
    operator, kept = world.operator(), "ledgers-ledgers-zone-a-1"
    leave(world, operator, replicas=3)
    world.edit(replicas=4)
    run(world, operator, passes=10)
    enlarge = world._enlarge

    def enlarge_mounted(claim: dict[str, Any]) -> None:
        """A kubelet enlarges the file system of what a pod has mounted."""
        if ("Pod", claim["metadata"]["name"].split("-", 1)[1]) in world.objects:
            enlarge(claim)

    world._enlarge = enlarge_mounted  # type: ignore[method-assign]
    resize(world, "4Gi")
    run(world, operator, passes=60)

    assert dict(zip(ORDER, capacities(world), strict=True)) == dict.fromkeys(ORDER, "4Gi") | {kept: "2Gi"}
    assert dict(zip(ORDER, requests(world), strict=True))[kept] == "2Gi"
    assert templates(world) == ["4Gi"] * 3, "claims that nobody needs again keep no template"
    assert said(world, "VolumesExpanding")[0] == "False"


@pytest.mark.slow
def test_a_zone_that_is_removed_while_its_stateful_set_is_away_leaves_by_proof(world: World) -> None:
    operator = world.operator()
    leave(world, operator, storage=world.spec()["storage"] | {"journalWriteData": True})
    resize(world, "4Gi")
    gone = until_away(world, operator)
    while gone != "ledgers-zone-c":
        gone = until_away(world, operator)
    ran = world.objects[("Pod", "ledgers-zone-c-0")]["metadata"]["labels"]["controller-revision-hash"]
    world.edit(zones=[{"name": "zone-a"}, {"name": "zone-b"}])

    run(world, operator, passes=1)
    (made,) = [one for one in world.of_kind("StatefulSet") if one["metadata"]["name"] == "ledgers-zone-c"]
    assert made["spec"]["replicas"] == 1
    assert world._revise(made)["metadata"]["name"] == ran, "what comes back is what ran"
    world.kill("ledgers-zone-c-0")
    run(world, operator, passes=80)

    assert world.forgotten == ["data.ledgers.zone-c.0"]
    assert ("StatefulSet", "ledgers-zone-c") not in world.objects
    assert not world.wrong


@pytest.mark.slow
def test_no_stateful_set_goes_away_while_a_bookie_of_its_pool_leaves(world: World) -> None:
    operator = world.operator()
    world.write(50, random.Random(1))
    world.drain_rate = 0
    world.edit(replicas=3, scaleDown={"proofInterval": "5s"})
    run(world, operator, passes=5)
    resize(world, "4Gi")
    run(world, operator, passes=60)

    assert capacities(world) == ["4Gi"] * 4
    assert "delete StatefulSet/ledgers-zone-a" not in world.writes
    assert templates(world) == ["2Gi", "4Gi", "4Gi"]

    world.drain_rate = 600
    run(world, operator, passes=60)
    assert world.forgotten == ["data.ledgers.zone-a.1"]
    assert templates(world) == ["4Gi"] * 3


def test_nothing_is_asked_to_grow_while_the_protection_is_refused(world: World) -> None:
    del world.objects[("PodDisruptionBudget", "ledgers-bookies")]
    world.invalid = "PodDisruptionBudget"
    resize(world, "4Gi")
    operator = world.operator()
    run(world, operator, passes=5)
    before = requests(world)

    world.invalid = ""
    run(world, operator)

    assert before == ["2Gi"] * 4
    assert capacities(world) == ["4Gi"] * 4


@pytest.mark.parametrize(
    "edit",
    [{"config": {"flushInterval": "soon"}}, {"lifecycle": {"paused": True, "terminationGrace": "2m"}}],
    ids=["a spec that cannot be used", "paused"],
)
def test_a_stateful_set_that_is_away_comes_back_as_its_pods_were_made(world: World, edit: dict[str, Any]) -> None:
    operator = world.operator()
    resize(world, "4Gi")
    gone = until_away(world, operator)
    ran = world.objects[("Pod", f"{gone}-0")]["metadata"]["labels"]["controller-revision-hash"]

    world.edit(**edit)
    run(world, operator, passes=1)
    made = world.objects[("StatefulSet", gone)]
    world.kill(f"{gone}-0")
    run(world, operator, passes=2)

    assert world._revise(made)["metadata"]["name"] == ran
    assert ("Pod", f"{gone}-0") in world.objects, "a pod that ends is made again"


@pytest.mark.parametrize("obstacle", ["record", "refused"])
def test_no_stateful_set_goes_away_beside_an_obstacle(world: World, obstacle: str) -> None:
    """Its claims have grown, and nothing else is in the way."""
    operator = world.operator()
    for claim in world.of_kind("PersistentVolumeClaim"):
        if claim["metadata"]["name"].startswith("ledgers-ledgers"):
            claim["spec"]["resources"]["requests"]["storage"] = claim["status"]["capacity"]["storage"] = "4Gi"
            world.put(claim)
    kept = world.objects[("ConfigMap", "ledgers-record")]["data"]
    if obstacle == "record":
        world.objects[("ConfigMap", "ledgers-record")]["data"] = {"record.json": "{"}
    else:
        del world.objects[("Service", "ledgers-bookies")]
        world.invalid = "Service"
    resize(world, "4Gi")
    world.writes.clear()
    run(world, operator, passes=5)
    before = [one for one in world.writes if one.startswith("delete StatefulSet")]

    world.invalid = ""
    world.objects[("ConfigMap", "ledgers-record")]["data"] = kept
    run(world, operator)

    assert before == []
    assert templates(world) == ["4Gi"] * 3
