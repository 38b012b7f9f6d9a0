"""A workflow is under way, and at any of its steps somebody takes it back, or edits something unlike it: each stop is a
safe one, no claim goes without proof, nobody is uncounted, and all edits taken back end where they began.

test_any_edit.py draws stories; here is each workflow of the operator, step by step.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import operator_world_support as worlds
from bookie.ports.admin import Contents, State
from bookie_operator.model import names
from bookie_operator.plan.live_settings import FIELDS
from meeting_support import LIVES, Fleet, Judge, begin, has_volumes, shape, with_volumes
from operator_world_support import World

Spec = dict[str, Any]
END_PASSES, CALM_PASSES = 200, 12


def with_ledgers(spec: Spec, **changes: Any) -> Spec:
    (volume,) = spec["storage"]["ledgers"]["volumes"]
    return {"storage": spec["storage"] | {"ledgers": {"volumes": [volume | changes]}}}


# What somebody applies, of the spec that there is.
EDITS: dict[str, Callable[[Spec], Spec]] = {
    "image": lambda _: {"image": "bookie:next"},
    "broken": lambda _: {"image": worlds.BROKEN_IMAGE},
    "config": lambda _: {"config": {"flushInterval": "7000"}},
    "class": lambda spec: with_ledgers(spec, storageClassName="fast"),
    "smaller": lambda spec: with_ledgers(spec, size="1000Mi"),
    "larger": lambda spec: with_ledgers(spec, size="900Gi"),
    "down": lambda spec: {"replicas": spec["replicas"] - 1},
    "up": lambda spec: {"replicas": spec["replicas"] + 1},
    "zone out": lambda spec: {"zones": spec["zones"][:2]},
    "first zone out": lambda spec: {"zones": spec["zones"][1:]},
    "few": lambda _: {"replicas": 3},
    "zone in": lambda spec: {"zones": [*spec["zones"], {"name": "zone-d"}]},
    "journal": lambda spec: {"storage": spec["storage"] | {"journalWriteData": False}},
    "tls": lambda _: {"security": {"tls": {"mode": "Permissive"}}},
    "budget": lambda spec: {"disruption": spec["disruption"] | {"pdb": False}},
    "manual": lambda spec: {"rollout": spec["rollout"] | {"strategy": "Manual"}},
    "refuse": lambda spec: {"storage": spec["storage"] | {"layoutChange": "Refuse"}},
    "pause": lambda spec: {"lifecycle": spec["lifecycle"] | {"paused": True}},
    "sleep": lambda spec: {"lifecycle": spec["lifecycle"] | {"hibernate": True}},
    "live": lambda _: {"config": {"logLevel": "DEBUG"}},
    "added": lambda spec: {"storage": with_volumes(spec["storage"])},
    "pool out": lambda spec: {"pools": [one for one in spec["pools"] if one["name"] != "young"]},
    "first pool out": lambda spec: {"pools": spec["pools"][1:]},
    "pool fewer": lambda spec: {"pools": [spec["pools"][0] | {"replicas": 2}, *spec["pools"][1:]]},
    "pool in": lambda spec: {"pools": [*spec["pools"], {"name": "third", "replicas": 1}]},
    "delete": lambda spec: {
        "lifecycle": spec["lifecycle"] | {"deletionPolicy": "Delete", "deletionProtection": False},
    },
}
ASKED = {"restart": "Restart", "replace": "Replace", "retire": "Retire", "fence": "Fence"}


class Hands:
    """Whoever edits, asks and drains, and takes it back."""

    def __init__(self, world: World, life: str = "one") -> None:
        self.target = _by_name(world).__next__().name
        self.world, self.fleet, self.judge = world, Fleet(world, life), Judge(world)
        self.began, self.is_draining = copy.deepcopy(world.spec()), False

    def do(self, what: str) -> None:
        world = self.world
        if what in EDITS:
            world.edit(**copy.deepcopy(EDITS[what](world.spec())))
        if what == "delete":
            self._annotate({names.DELETE_DATA: world.objects[(names.KIND, "ledgers")]["metadata"]["uid"]})
        if what in ASKED:
            self.fleet.ask(ASKED[what], self.target)
        if what == "drain":
            self.is_draining = True
            world.cordon("node")
        if what == "orphaned":
            world.delete_and_apply(is_orphaning=True)
        if what == "forget":
            world.objects[(names.KIND, "ledgers")].pop("status", None)
        if what == "kill":
            world.kill(self.target)
        if what == "volume":
            world.now_ms += 1_000
            world.ask(
                "volume", "ReplaceVolume", target={"bookie": self.target, "volume": "ledgers"}, reason="it is worn out"
            )

    def undo(self, what: str) -> None:
        world = self.world
        if what in EDITS:
            world.edit(**{key: copy.deepcopy(self.began.get(key)) for key in EDITS[what](self.began)})
        if what == "delete":
            self._annotate({})
        if what in ASKED or what == "volume":
            for kind, name in list(world.objects):
                if kind == names.OPERATION_KIND and name.startswith(what):
                    del world.objects[(kind, name)]
        if what == "fence":
            self.fleet.ask("Unfence", self.target)
        if what == "drain":
            self.is_draining = False
            world.cordon("node", is_cordoned=False)

    def forget_operations(self) -> None:
        for kind, name in list(self.world.objects):
            if kind == names.OPERATION_KIND:
                del self.world.objects[(kind, name)]

    def _annotate(self, annotations: dict[str, str]) -> None:
        live = self.world.objects[(names.KIND, "ledgers")]
        self.world.put(live | {"metadata": live["metadata"] | {"annotations": annotations}})

    def run(self, passes: int) -> None:
        for _ in range(passes):
            if self.is_draining:
                for pod in self.world.of_kind("Pod"):
                    is_guarded = ("PodDisruptionBudget", "ledgers-bookies") in self.world.objects
                    if is_guarded and pod["spec"].get("nodeName") == "node":
                        self.judge.evict(pod["metadata"]["name"])
            self.fleet.run(1)

    def wrong(self) -> list[Any]:
        world = self.world
        return [*self.judge.wrong, *world.wrong, *world.past_tolerance, *world.lost_entries(), *world.refused]


@pytest.fixture(scope="module")
def begun() -> World:
    fleet = worlds.world(replicas=5)
    fleet.live_keys = tuple(FIELDS)
    world = begin(fleet, on_drain="ReadOnlyFirst")
    assert whole(world)["shape"]["sets"] == {"ledgers-zone-a": 2, "ledgers-zone-b": 2, "ledgers-zone-c": 1}
    return world


def whole(world: World) -> dict[str, Any]:
    """What there is: of a workflow that was taken back nothing may be left."""
    status = world.status()
    notes = {
        f"{kind}/{name}": sorted(key for key in one["metadata"].get("annotations") or {})
        for (kind, name), one in world.objects.items()
        if kind in ("Pod", "PersistentVolumeClaim", "StatefulSet", names.KIND)
    }
    kinds = ("ControllerRevision", names.OPERATION_KIND, "Event", "ConfigMap", "PersistentVolume", "Job", "Secret")
    under_way = (status.rollout and status.rollout.step, status.rebuild, status.eviction, status.hibernation)
    return {
        "shape": shape(world),
        "states": {one.name: (one.state, one.is_draining, one.turn_end_ms) for one in _by_name(world)},
        "notes": dict(sorted(notes.items())),
        "owned": sorted(
            one["metadata"]["name"]
            for one in world.of_kind("PersistentVolumeClaim")
            if one["metadata"].get("ownerReferences")
        ),
        "finalizers": world.objects[(names.KIND, "ledgers")]["metadata"].get("finalizers"),
        "objects": sorted(key for key in world.objects if key[0] not in kinds),
        "aside": sorted(name for name, one in world.asides.items() if one.is_aside),
        "leaving": [one.name for one in (*status.bookies, *status.orphans) if one.leaving is not None],
        "orphans": [one.name for one in status.orphans],
        "under way": [repr(one) for one in under_way if one is not None],
        "said": sorted((one.type, one.status) for one in status.conditions),
        "volumes": len(world.of_kind("PersistentVolume")) - len(world.of_kind("PersistentVolumeClaim")),
    }


def _replicas(spec: Spec) -> int:
    return int(spec.get("replicas") or 0) or sum(one["replicas"] for one in spec["pools"])


def _by_name(world: World) -> Iterator[Any]:
    return iter(sorted(world.bookies.values(), key=lambda one: one.name))


def changed(began: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    found = {key: (began[key], now[key]) for key in now if now[key] != began[key]}
    if "shape" in found:
        found["shape"] = {
            key: (began["shape"][key], now["shape"][key])
            for key in now["shape"]
            if began["shape"][key] != now["shape"][key]
        }
    return found


def ends(hands: Hands, began: dict[str, Any]) -> str:
    """Let the fleet become what the spec says; what was wrong on the way, or ""."""
    world = hands.world
    for _ in range(END_PASSES // 5):
        hands.run(5)
        if wrong := hands.wrong():
            return f"wrong: {wrong}"
        now, done = whole(world), world.status().condition("Reconciling")
        is_over = done is not None and done.status == "False" and not now["leaving"] and world.is_quiet()
        replicas = _replicas(world.spec())
        is_other = now["shape"]["sets"] != began["shape"]["sets"]
        if is_over and sum(now["shape"]["sets"].values()) == replicas and is_other:
            return ""
        if not changed(began, now):
            return ""
    return ""


def play(begun: World, first: str, passes: int, second: str = "", life: str = "one") -> str:
    """`first`; after so many passes `second`, and half as many later both taken back. What is wrong, or ""."""
    world = worlds.clone(begun)
    began, hands = whole(world), Hands(world, life)
    hands.do(first)
    hands.run(passes)
    if second:
        hands.do(second)
        hands.run(1 + passes // 2)
    # By turns the older is taken back first.
    for one in (first, second) if passes % 2 else (second, first):
        if one:
            hands.undo(one)
            hands.run(passes % 2)
    hands.fleet.lives_on()
    world.step_ms = 1_000
    if wrong := ends(hands, began):
        return wrong
    if whole(world)["shape"]["sets"] != began["shape"]["sets"] and "pools" not in world.spec():
        # Nobody moves to a zone that was away: docs/OPERATOR.md says that one more, and one less, brings it a bookie.
        for replicas in (6, 5):
            world.edit(replicas=replicas)
            hands.run(20)
            if wrong := ends(hands, began):
                return wrong
    hands.forget_operations()
    hands.run(5)
    if other := changed(began, whole(world)):
        return f"it ends otherwise: {other}"
    writes = len(world.writes)
    hands.run(CALM_PASSES)
    told = [one for one in world.writes[writes:] if "record" not in one]
    is_calm = all("status" in one for one in told) and len(told) <= CALM_PASSES // 2
    return "" if is_calm and not hands.wrong() else f"ping-pong: {told}, {hands.wrong()}"


OF_POOLS = [one for one in EDITS if "pool" in one]
WORKFLOWS = [*(one for one in EDITS if one not in (*OF_POOLS, "added")), *ASKED, "volume", "drain"]
OF_EPHEMERAL = ("image", "broken", "up", "replace")
SECONDS = {
    "image": ("down", "first zone out", "sleep"),
    "class": ("pause", "zone out", "fence", "orphaned"),
    "smaller": ("larger", "delete", "drain"),
    "down": ("image", "up", "replace", "forget"),
    "zone out": ("class", "refuse", "retire"),
    "up": ("down", "sleep", "delete"),
    "replace": ("first zone out", "volume", "kill"),
    "retire": ("few", "pause"),
    "volume": ("replace", "drain", "pause"),
    "drain": ("image", "budget", "sleep"),
    "sleep": ("few", "drain", "orphaned"),
    "tls": ("down", "broken"),
    "fence": ("class", "down"),
    "live": ("image", "down", "pause"),
}
SECONDS_OF_POOLS = {
    "pool out": ("image", "pool in", "sleep"),
    "first pool out": ("orphaned", "replace"),
    "pool fewer": ("pool out", "drain"),
}
SECONDS_OF_EPHEMERAL = {"image": ("down",), "down": ("image",), "drain": ("config", "replace")}


def pairs(seconds: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(first, second) for first, some in seconds.items() for second in some]


MEETINGS, MEETINGS_OF_POOLS, MEETINGS_OF_EPHEMERAL = map(pairs, (SECONDS, SECONDS_OF_POOLS, SECONDS_OF_EPHEMERAL))


@pytest.mark.slow
@pytest.mark.parametrize("passes", [3, 14])
@pytest.mark.parametrize("what", WORKFLOWS)
def test_taken_back_at_its_beginning_or_in_its_middle_it_ends_where_it_began(
    begun: World, what: str, passes: int
) -> None:
    assert play(begun, what, passes) == ""


def meet(
    begun: World,
    meetings: Sequence[tuple[str, str]],
    first: str,
    second: str,
    *,
    earliest: int,
    stride: int,
    span: int,
) -> str:
    """Play this pair of `meetings`, each at a step of its own (in passes) and beside an operator of another kind, so
    that together they meet at many. What is wrong, or ""."""
    number = meetings.index((first, second))
    return play(begun, first, earliest + stride * number % span, second, LIVES[number % len(LIVES)])


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), MEETINGS)
def test_something_unlike_it_in_the_middle_and_both_taken_back_end_where_it_began(
    begun: World, first: str, second: str
) -> None:
    assert meet(begun, MEETINGS, first, second, earliest=2, stride=5, span=34) == ""


@pytest.fixture(scope="module")
def pooled() -> World:
    """Six bookies in two pools with names of their own; either of them is enough for an ensemble."""
    pools = [{"name": "old", "replicas": 3}, {"name": "young", "replicas": 3}]
    return begin(worlds.world(), on_drain="ReadOnlyFirst", replicas=None, zones=None, pools=pools)


@pytest.mark.slow
@pytest.mark.parametrize(("what", "passes"), [(one, 3 + 11 * (number % 2)) for number, one in enumerate(OF_POOLS)])
def test_a_pool_is_taken_back_at_its_beginning_or_in_its_middle(pooled: World, what: str, passes: int) -> None:
    assert play(pooled, what, passes) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), MEETINGS_OF_POOLS)
def test_something_unlike_it_in_the_middle_of_a_pool_that_comes_or_goes(pooled: World, first: str, second: str) -> None:
    assert meet(pooled, MEETINGS_OF_POOLS, first, second, earliest=3, stride=7, span=30) == ""


@pytest.fixture(scope="module")
def vanishing() -> World:
    """Five bookies whose volumes go with their pods."""
    lifecycle = {"hibernate": False, "paused": False, "terminationGrace": "2m", "deletionPolicy": "Delete"}
    return begin(worlds.ephemeral(replicas=5), on_drain="ReadOnlyFirst", lifecycle=lifecycle)


@pytest.mark.slow
@pytest.mark.parametrize("what", OF_EPHEMERAL)
def test_what_begins_bookies_anew_is_taken_back_in_its_middle(vanishing: World, what: str) -> None:
    assert play(vanishing, what, 14) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), MEETINGS_OF_EPHEMERAL)
def test_something_unlike_it_in_the_middle_of_bookies_that_begin_anew(
    vanishing: World, first: str, second: str
) -> None:
    assert meet(vanishing, MEETINGS_OF_EPHEMERAL, first, second, earliest=4, stride=9, span=30) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("passes", "second", "life"),
    [
        (1, "", "one"),
        (6, "", "two"),
        (14, "down", "one"),
        (4, "image", "dies"),
        (9, "pause", "one"),
        (20, "drain", "two"),
    ],
)
def test_volumes_that_are_added_go_again_until_a_bookie_has_them_and_then_come_to_all(
    begun: World, passes: int, second: str, life: str
) -> None:
    world = worlds.clone(begun)
    began, hands = whole(world), Hands(world, life)
    hands.do("added")
    hands.run(passes)
    if second:
        hands.do(second)
        hands.run(1 + passes // 2)
        hands.undo(second)
    hands.undo("added")
    hands.fleet.lives_on()
    world.step_ms = 1_000
    for _ in range(END_PASSES // 10):
        hands.run(10)
        assert hands.wrong() == []
        stalled = world.status().condition("Stalled")
        if stalled is not None and "may have data on it: put it back" in stalled.message:
            hands.do("added")  # as the status says
        if world.is_quiet() and (has_volumes(world, 5) or world.spec()["storage"] == hands.began["storage"]):
            break

    if not has_volumes(world, 5):
        delete_left_over(world)
        hands.run(10)
        assert changed(began, whole(world)) == {}, world.status()
    assert (hands.wrong(), world.is_quiet()) == ([], True), world.status()


def delete_left_over(world: World) -> None:
    """By hand, as docs/OPERATOR.md says: claims of volumes that were taken back, and that no bookie has."""
    for kind, name in list(world.objects):
        if kind == "PersistentVolumeClaim" and name.startswith("more"):
            assert "more" not in world.bookie(name.partition("-")[2]).volumes
            del world.objects[("PersistentVolume", world.objects[(kind, name)]["spec"]["volumeName"])]
            del world.objects[(kind, name)]


LOSSES = [
    ("ConfirmLoss", 1, "", "one"),
    ("ConfirmLoss", 3, "image", "dies"),
    ("ConfirmLoss", 6, "down", "two"),
    ("ConfirmLoss", 2, "pause", "one"),
    ("ConfirmLoss", 4, "fence", "two"),
    ("AcceptLoss", 1, "", "two"),
    ("AcceptLoss", 3, "image", "one"),
    ("AcceptLoss", 6, "sleep", "dies"),
    ("AcceptLoss", 2, "pause", "two"),
    ("AcceptLoss", 4, "kill", "one"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "passes", "second", "life"), LOSSES)
def test_a_loss_that_a_person_gives_up_and_takes_back_and_gives_up_again(
    begun: World, kind: str, passes: int, second: str, life: str
) -> None:
    """One copy of each entry is left: whoever comes back empty is filled from it."""
    world = worlds.clone(begun)
    for entry, write_set in enumerate(world.entries):
        for one in write_set:
            world.disks[one].add(entry)
    began, hands = whole(world), Hands(world, life)
    lost = lose(world, kind, hands.target)
    hands.run(8)
    give_up(world, kind, lost)
    hands.run(passes)
    if second:
        hands.do(second)
        hands.run(1 + passes)
    hands.forget_operations()
    hands.undo(second)
    hands.fleet.lives_on()
    world.step_ms = 1_000
    hands.run(5)
    give_up(world, kind, lost)

    for _ in range(END_PASSES // 5):
        hands.run(5)
        past = world.past_tolerance if kind == "AcceptLoss" else []
        assert [one for one in hands.wrong() if one not in past] == []
        if world.is_quiet() and not changed(began, whole(world)):
            break
    hands.forget_operations()
    hands.run(5)

    assert (changed(began, whole(world)), world.thin_entries()) == ({}, []), world.status()


def lose(world: World, kind: str, target: str) -> list[str]:
    """For ConfirmLoss somebody empties the volumes of one bookie in place; for AcceptLoss two lose theirs, as many as
    the ack quorum. Their names."""
    other = "ledgers-zone-c-0"
    if kind == "AcceptLoss":
        world.lose(target)
        world.lose(other)
        return [target, other]
    bookie = world.bookie(target)
    bookie.volumes = dict.fromkeys(bookie.volumes, Contents.EMPTY)
    world.fsids[bookie.bookie_id] = "fs"
    world.disks.pop(bookie.bookie_id, None)
    world.dataless.add(bookie.bookie_id)
    world.start_container(target)
    return [target]


def give_up(world: World, kind: str, lost: list[str]) -> None:
    """As a person does by what the status says; nothing, where it has no evidence of a loss any more."""
    known = {one.name: one for one in world.status().bookies}
    if any(known[one].evidence is None or one not in _waiting(world) for one in lost):
        return
    world.now_ms += 60_000
    named = world.evidence(*lost)
    wanted: dict[str, Any] = {"target": {"bookies": named}}
    if kind == "ConfirmLoss":
        wanted = {"target": {"bookie": lost[0]}, "evidence": named[0]["evidence"]}
    world.ask(f"gone-{world.serial}", kind, reason="both disks burnt, and nobody has them", **wanted)


def _waiting(world: World) -> list[str]:
    return [one.name for one in world.bookies.values() if one.state in (State.HELD, State.WAITING_GRANT)]
