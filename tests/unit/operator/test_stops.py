"""What ends a process, lowers a number or deletes a claim, write by write: each only after the one before said yes,
under the lease, and of exactly the object that was seen (spec/operator.md#Q10 to Q12, J6, U13, Z2)."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from bookie.ports.admin import Aside, StopTurn
from bookie.rpc.calls import OrderAnswer
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.facts import Door
from bookie_operator.execute.departures import Departures
from bookie_operator.execute.hand import Hand, LostLease
from bookie_operator.execute.orders import Orders
from bookie_operator.execute.stops import FLUSH_AGAIN_S, Stops
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.plan.actions import (
    DeleteChild,
    DetachPool,
    FlushBookie,
    ForgetBookie,
    RemoveBookie,
    RetireBookie,
    ScalePool,
    SetAside,
    StopBookie,
    StopFleet,
)
from bookie_operator.plan.observation import Hindrance

NAME, DOOR, EPOCH = "ledgers-zone-a-0", Door("10.0.0.1:3184", "cluster-uid"), 7
CLAIM = DeleteChild("PersistentVolumeClaim", f"ledgers-{NAME}", "claim-uid", "8", "it is to be replaced")
ASIDE = SetAside(NAME, "data.ledgers", DOOR, Aside(True, "its disk clicks", "x", 1), EPOCH)
CONFLICT, FORBIDDEN = KubeError("PATCH", 409, "it changed"), KubeError("PATCH", 422, "a policy says no")


class World:
    """An API server and bookies that note what they are asked, in order, and do it; but for what `refuses` has by its
    name, and for a flush, which takes `flush_s` and is followed by the loss of the lease where `loses_lease`."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.refuses: dict[str, Any] = {}
        self.flush_s, self.now_s, self.loses_lease_after = 0.0, 1_000.0, ""
        self.has_lease = True
        me: Any = self
        self.hand = Hand(me, me, CrashPoint(0, str(folder)), lambda: self.has_lease, lambda: self.now_s)
        self.stops, self.departures = Stops(self.hand, Orders(self.hand)), Departures(self.hand)

    def _note(self, what: str) -> None:
        self.asked.append(what)
        self.has_lease = self.has_lease and what != self.loses_lease_after
        refused = self.refuses.get(what)
        if isinstance(refused, KubeError):
            raise refused

    async def prepare_shutdown(self, _: Door, turn: StopTurn) -> tuple[bool, str]:
        self.now_s += self.flush_s
        what = "flush, sealed" if turn.is_sealed else "flush"
        self._note(what)
        return ("flush" not in self.refuses, "the disk is full")

    async def set_aside(self, *_: object, **__: object) -> OrderAnswer:
        self._note("aside")
        return OrderAnswer("aside" not in self.refuses, "refused", "no")

    async def forget_bookie(self, _: Door, bookie_id: str, *, cookie_version: int, operator_epoch: int) -> Any:
        self._note(f"forget {bookie_id} {cookie_version} {operator_epoch}")
        return OrderAnswerToForget()

    async def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        metadata = manifest["metadata"]
        said = f"{metadata['uid']} {metadata['resourceVersion']}"
        self._note(f"scale {metadata['name']} {manifest['spec']['replicas']}: {said}")
        return manifest

    async def delete(
        self, kind: str, _: str, name: str, *, uid: str, resource_version: str, is_orphaning: bool
    ) -> None:
        self._note(f"delete {kind}: {uid} {resource_version}{', and nothing below' if is_orphaning else ''}")

    def stop(self, **changes: Any) -> Hindrance | None:
        known = {"door": DOOR, "epoch": EPOCH, "may_delete": True}
        return self.run(self.stops.roll("data", StopBookie(NAME, "pod-uid", "5", **(known | changes)), 0))

    def leave(self, action: RetireBookie | RemoveBookie | DetachPool | ForgetBookie) -> str:
        return self.run(self.departures.leave("data", action))

    @staticmethod
    def run(asked: Awaitable[Any]) -> Any:
        async def once() -> Any:
            return await asked

        return asyncio.run(once())


class OrderAnswerToForget:
    is_forgotten = True


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# ---- one bookie ---------------------------------------------------------------------------------------------------

POD = "delete Pod: pod-uid 5"
VOLUME = "delete PersistentVolumeClaim: claim-uid 8"
SEALED = "flush, sealed"


def test_one_that_serves_flushes_and_gets_its_order_and_loses_its_claim_before_its_pod_goes(world: World) -> None:
    assert world.stop(aside=ASIDE, claim=CLAIM) is None

    assert world.asked == [SEALED, "aside", VOLUME, POD]


def test_one_that_took_writes_flushes_unsealed_and_nothing_else_becomes_of_it(world: World) -> None:
    """Recoveries would wait for one that goes on serving (spec/operator.md#Q12)."""
    assert world.stop(may_delete=False, aside=ASIDE, claim=CLAIM) is None

    assert world.asked == ["flush"]


def test_a_deletion_that_the_api_server_has_no_time_for_is_tried_again_when_it_asked_for_that(world: World) -> None:
    world.refuses[POD] = KubeError("DELETE", 503, "too many requests", 7_000)
    with pytest.raises(KubeError):
        world.stop()
    world.now_s += 31
    told = world.stop()
    assert told is not None
    assert "too many requests" in told.text

    world.now_s += 6
    assert world.stop() == told
    assert world.asked.count(POD) == 2
    world.now_s += 2
    world.stop()
    assert world.asked.count(POD) == 3


def test_one_that_cannot_flush_is_not_ended_and_says_why(world: World) -> None:
    world.refuses["flush"] = True

    told = world.stop(aside=ASIDE, claim=CLAIM)

    assert told is not None
    assert "the disk is full" in told.text
    assert world.asked == [SEALED]


@pytest.mark.parametrize(("seconds", "is_ended"), [(FLUSH_AGAIN_S, True), (FLUSH_AGAIN_S + 1, False)])
def test_by_what_was_seen_before_a_long_flush_nobody_is_ended(world: World, seconds: float, *, is_ended: bool) -> None:
    world.flush_s = seconds

    assert world.stop() is None
    assert world.asked == [SEALED, POD][: 1 + is_ended]


@pytest.mark.parametrize("at", ["aside", VOLUME])
def test_the_pod_stays_where_what_comes_before_it_was_refused(world: World, at: str) -> None:
    world.refuses[at] = FORBIDDEN if at == VOLUME else True

    assert world.stop(aside=ASIDE, claim=CLAIM) is not None
    assert POD not in world.asked


@pytest.mark.parametrize("at", [VOLUME, POD])
def test_what_changed_since_it_was_seen_is_looked_at_anew_and_is_no_hindrance(world: World, at: str) -> None:
    world.refuses[at] = CONFLICT

    assert world.stop(claim=CLAIM) is None
    assert world.asked[-1] == at


@pytest.mark.parametrize("after", [SEALED, VOLUME])
def test_the_lease_is_asked_for_before_each_deletion(world: World, after: str) -> None:
    world.loses_lease_after = after

    with pytest.raises(LostLease):
        world.stop(claim=CLAIM)
    assert world.asked[-1] == after


# ---- all of them --------------------------------------------------------------------------------------------------

FLUSHES = tuple(FlushBookie(f"ledgers-{pool}-0", f"pod-{pool}", DOOR, EPOCH) for pool in "ab")
SCALES = tuple(ScalePool(f"ledgers-{pool}", f"sts-{pool}", "7", 0) for pool in "ab")


def all_stopped(world: World, scales: tuple[ScalePool, ...] = SCALES) -> dict[str, Hindrance]:
    found: dict[str, Hindrance] = world.run(world.stops.stop_fleet("data", StopFleet(FLUSHES, scales)))
    return found


def test_a_fleet_is_ended_when_all_have_flushed_and_the_first_flush_is_unsealed(world: World) -> None:
    assert all_stopped(world, ()) == {}
    assert all_stopped(world) == {}

    assert world.asked == ["flush"] * 2 + [SEALED] * 2 + ["scale ledgers-a 0: sts-a 7", "scale ledgers-b 0: sts-b 7"]


@pytest.mark.parametrize("error", [CONFLICT, FORBIDDEN])
def test_the_second_pool_runs_on_where_the_first_could_not_be_stopped(world: World, error: KubeError) -> None:
    world.refuses["scale ledgers-a 0: sts-a 7"] = error

    assert set(all_stopped(world)) == (set() if error.is_conflict else {"pod-a", "pod-b"})
    assert world.asked[-1] == "scale ledgers-a 0: sts-a 7"


def test_the_lease_is_asked_for_before_each_number(world: World) -> None:
    world.loses_lease_after = "scale ledgers-a 0: sts-a 7"

    with pytest.raises(LostLease):
        all_stopped(world)
    assert world.asked[-1] == "scale ledgers-a 0: sts-a 7"


# ---- one that leaves ----------------------------------------------------------------------------------------------

RETIRES = RetireBookie(NAME, "pod-uid", DOOR, EPOCH, SCALES[0])
REMOVED = RemoveBookie(NAME, "pod-uid", "5", DOOR, EPOCH)
DETACHES = DetachPool(NAME, "ledgers-a", "sts-a", "7")
AWAY = "delete StatefulSet: sts-a 7, and nothing below"


def test_one_that_leaves_flushes_before_its_number_is_lowered_or_its_pod_goes(world: World) -> None:
    assert [world.leave(one) for one in (RETIRES, REMOVED, DETACHES)] == [""] * 3
    assert world.asked == [SEALED, "scale ledgers-a 0: sts-a 7", SEALED, POD, AWAY]


@pytest.mark.parametrize("action", [RETIRES, REMOVED])
def test_one_that_leaves_and_cannot_flush_stays(world: World, action: RetireBookie | RemoveBookie) -> None:
    world.refuses["flush"] = True

    assert "the disk is full" in world.leave(action)
    assert world.asked == [SEALED]


@pytest.mark.parametrize("action", [RETIRES, REMOVED])
def test_the_lease_is_asked_for_after_the_flush(world: World, action: RetireBookie | RemoveBookie) -> None:
    world.loses_lease_after = SEALED

    with pytest.raises(LostLease):
        world.leave(action)
    assert world.asked == [SEALED]


@pytest.mark.parametrize(("action", "at"), [(REMOVED, POD), (DETACHES, AWAY)])
def test_of_one_that_leaves_what_changed_since_is_looked_at_anew(
    world: World, action: RemoveBookie | DetachPool, at: str
) -> None:
    world.refuses[at] = CONFLICT
    assert world.leave(action) == ""
    world.refuses[at] = FORBIDDEN
    assert "a policy says no" in world.leave(action)


def test_a_peer_is_asked_to_forget_the_cookie_that_was_proven_and_no_younger_one(world: World) -> None:
    assert world.leave(ForgetBookie(NAME, "data.ledgers", 3, DOOR, EPOCH)) == ""

    assert world.asked == ["forget data.ledgers 3 7"]
