"""Room on the disks that stay, in whole passes (spec/operator.md#J11)."""

import random

import pytest

from bookie.ports.admin import MountProof, State
from bookie_operator.model.status import Departure, LeavingStatus
from operator_world_support import World
from rolling_support import PODS, run

GIB = 1 << 30
LEAVES = "ledgers-zone-a-1"
NEIGHBOUR = "ledgers-zone-a-0"  # three zones and three copies: nobody else may take what it holds


def leaving(world: World) -> LeavingStatus:
    entry = world.status().bookie(LEAVES)
    assert entry is not None
    assert entry.leaving is not None
    return entry.leaving


@pytest.mark.slow
def test_a_drain_pauses_while_the_room_is_gone_and_goes_on_after_it(world: World) -> None:
    world.mount = MountProof.PROVEN
    world.disk_figures = dict.fromkeys(PODS, (100 * GIB, 20 * GIB))
    world.write(300, random.Random(1))
    world.drain_rate = 1
    run(world, passes=2)
    operator = world.operator()

    world.edit(scaleDown={"proofInterval": "5s"}, replicas=3)
    run(world, operator, passes=3)
    assert (leaving(world).state, "100.0 GiB to move" in (leaving(world).waiting_for or "")) == (
        Departure.LEAVING,
        True,
    )
    assert world.bookie(LEAVES).state is State.SERVING

    world.disk_figures[NEIGHBOUR] = (0, 200 * GIB)
    run(world, operator, passes=3)
    assert (leaving(world).state, world.bookie(LEAVES).is_draining) == (Departure.DRAINING, True)

    world.disk_figures[NEIGHBOUR] = (200 * GIB, 1 * GIB)
    run(world, operator, passes=3)
    assert (leaving(world).state, world.bookie(LEAVES).is_draining) == (Departure.DRAINING, False)
    assert (leaving(world).waiting_for or "").startswith("paused: ")
    assert world.bookie(LEAVES).state is State.SERVING, "it takes writes meanwhile, which costs the others no room"

    world.disk_figures[NEIGHBOUR] = (0, 200 * GIB)
    world.drain_rate = 60
    run(world, operator, passes=45)
    assert world.forgotten == ["data.ledgers.zone-a.1"], leaving(world)
    assert (world.wrong, world.lost_entries()) == ([], [])
