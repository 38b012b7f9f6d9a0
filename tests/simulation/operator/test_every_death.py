"""Workflows that meet no death of the operator in a file of their own: whichever writes are its last, what was asked
for is done, once, and safely."""

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bookie.ports.admin import State
from bookie_operator.model import names
from bookie_operator.model.operation import OperationPhase
from meeting_support import Fleet, Judge
from operator_world_support import World
from rolling_support import AUTOMATIC, PODS

ENOUGH = 400  # passes
ZONES = [{"name": one} for one in ("zone-a", "zone-b", "zone-c")]
BIG = {"name": "big", "zone": "zone-b", "replicas": 1}


@dataclass(frozen=True)
class Story:
    """`asks`: one edit or order after the other, each when the one before is done. `spec`: the fleet begins with it."""

    asks: tuple[tuple[Callable[[World], object], Callable[[World], bool]], ...]
    spec: dict[str, Any]
    grants: int = 0


def is_whole(world: World) -> bool:
    done = world.status().condition("Reconciling")
    generation = world.objects[(names.KIND, "ledgers")]["metadata"]["generation"]
    is_seen = world.status().observed_generation == generation
    return is_seen and done is not None and done.status == "False" and world.is_quiet()


def said(world: World, line: str, *, is_there: bool = True) -> bool:
    """Whether all bookies of a whole fleet began with this setting, or without it."""
    return is_whole(world) and {line in one.settings for one in world.bookies.values()} == {is_there}


def tls(mode: str) -> Callable[[World], None]:
    return lambda world: world.edit(security={"tls": {"mode": mode}})


def journal(is_on: bool) -> Callable[[World], None]:
    return lambda world: world.edit(storage=world.spec()["storage"] | {"journalWriteData": is_on})


def pools(*found: dict[str, Any]) -> Callable[[World], None]:
    def ask(world: World) -> None:
        for field in ("replicas", "zones"):
            world.spec().pop(field, None)
        world.edit(pools=list(found))

    return ask


def further_volumes(replicas: int) -> Callable[[World], None]:
    """A pool for each zone whose bookies have two ledger volumes, beside the ones of before with `replicas`."""

    def ask(world: World) -> None:
        storage = copy.deepcopy(world.spec()["storage"])
        (first,) = storage["ledgers"]["volumes"]
        storage = {role: storage[role] for role in ("journal", "ledgers")}
        storage["ledgers"]["volumes"] = [first, first | {"name": "more"}]
        old = [one | {"replicas": min(one["replicas"], replicas)} for one in AS_POOLS]
        new = [one | {"name": f"two-{one['name'][-1]}", "storage": storage} for one in AS_POOLS]
        pools(*old, *new)(world)

    return ask


def order(kind: str, **how: Any) -> Callable[[World], None]:
    def ask(world: World) -> None:
        world.now_ms += 60_000
        world.ask(kind.lower(), kind, target={"bookie": PODS[0]}, reason="a person wants it so, and says why", **how)

    return ask


def approve(world: World) -> None:
    (known,) = world.evidence(PODS[0])
    order("ApproveRegeneration", evidence=known["evidence"])(world)


def is_complete(kind: str) -> Callable[[World], bool]:
    return lambda world: world.operation(kind.lower()).phase is OperationPhase.COMPLETE


def is_confirmed(world: World) -> bool:
    entry = world.status().bookie(PODS[0])
    return entry is not None and entry.state == "Confirmed" and any(gate.name == "G9-Policy" for gate in entry.gates)


def is_gone(pool: str) -> Callable[[World], bool]:
    return lambda world: (
        is_whole(world) and not [one for one in world.of_kind("Pod") if pool in one["metadata"]["name"]]
    )


REPAIR = {"stabilization": "6s", "maxPerDay": 20}
AS_POOLS = tuple(one | {"zone": one["name"], "replicas": 1 + (one["name"] == "zone-a")} for one in ZONES)
STORIES = {
    "TLS is offered and required": Story(
        (
            (tls("Permissive"), lambda world: said(world, "tlsProviderFactoryClass")),
            (tls("Required"), lambda world: said(world, "tlsRequired=true")),
        ),
        {},
    ),
    "the journal is switched on and off": Story(
        (
            (journal(True), lambda world: said(world, "journalWriteData=true")),
            (journal(False), lambda world: said(world, "journalWriteData=false")),
        ),
        {},
    ),
    "a zone goes": Story(
        ((lambda world: world.edit(zones=ZONES[:2]), is_gone("zone-c")),),
        {"storage": {"acknowledgeNoJournal": "IAcceptLossOnCorrelatedPowerFailure"}},
    ),
    "a pool comes and goes": Story(
        (
            (pools(*AS_POOLS), is_whole),
            (pools(*AS_POOLS, BIG), lambda world: is_whole(world) and len(world.bookies) == 5),
            (pools(*AS_POOLS, BIG | {"replicas": 0}), is_gone("big")),
        ),
        {},
    ),
    "further ledger volumes come by other pools": Story(
        (
            (pools(*AS_POOLS), is_whole),
            (further_volumes(2), lambda world: is_whole(world) and len(world.bookies) == 8),
            (further_volumes(0), is_gone("zone-")),
        ),
        {},
    ),
    "a volume went back in time": Story(
        (
            (
                lambda world: world.set_back(PODS[2], kept=set(range(5))),
                lambda world: bool(world.accepted) and is_whole(world),
            ),
        ),
        {"repair": REPAIR | {"staleVolume": "Repair"}},
        grants=1,
    ),
    "a person approves": Story(
        ((lambda world: world.lose(PODS[0]), is_confirmed), (approve, is_whole)),
        {"repair": REPAIR | {"regeneration": "Manual"}},
        grants=1,
    ),
    "one is fenced off and comes back": Story(
        (
            (order("Fence"), is_complete("Fence")),
            (order("Unfence"), lambda world: is_complete("Unfence")(world) and is_whole(world)),
        ),
        {},
    ),
    "a canary, then the others": Story(
        ((lambda world: world.edit(image="bookie:next"), is_whole),),
        {"rollout": AUTOMATIC | {"canary": {"count": 1, "soakSeconds": 60}}},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("name", STORIES)
def test_what_was_asked_for_is_done_whichever_writes_are_the_operators_last(
    world: World, name: str, first: int
) -> None:
    """Every third write, then every fourth, is the last of its operator; `first` shifts which. The next has watched
    nothing."""
    story = STORIES[name]
    spec = {"rollout": AUTOMATIC, "repair": REPAIR, "scaleDown": {"proofInterval": "5s"}} | story.spec
    world.edit(**spec | {"storage": copy.deepcopy(world.spec()["storage"]) | story.spec.get("storage", {})})
    world.write(60, random.Random(1))
    world.boot_epochs = dict.fromkeys(world.cookies, 2)
    before = Fleet(world)
    for _ in range(ENOUGH):
        before.run(4)
        if is_whole(world):
            break
    assert is_whole(world), world.status()

    judge, fleet = Judge(world), Fleet(world, "dies", first=first)
    for ask, is_done in story.asks:
        ask(world)
        for _ in range(ENOUGH):
            fleet.run(1)
            assert (judge.wrong, world.wrong, world.past_tolerance, world.lost_entries()) == ([], [], [], [])
            if is_done(world):
                break
        assert is_done(world), world.status()

    assert fleet.deaths > 2
    assert len(world.accepted) == story.grants, "a grant is given once, whoever gives it"
    assert {one.state for one in world.bookies.values()} == {State.SERVING}
    fleet.lives_on()
    fleet.run(12)
    assert (world.thin_entries(), world.is_quiet()) == ([], True), world.status()
