"""A fleet with maintenance windows, in whole passes: what waits, and what does not (spec/operator.md#H1, H2)."""

import random
from typing import Any

from bookie_operator.model.status import Departure
from bookie_operator.model.values import format_time
from operator_world_support import World
from rolling_support import AUTOMATIC, PODS, Watcher, images, run, said

FAST = {"proofInterval": "5s"}
HOUR_MS = 3_600_000


def window(world: World, begins_in_ms: int) -> dict[str, Any]:
    begins = format_time(world.now_ms + begins_in_ms)
    return {"windows": [{"schedule": f"{int(begins[14:16])} {int(begins[11:13])} * * *", "duration": "2h"}]}


def test_a_roll_out_waits_for_its_window_and_a_repair_does_not(world: World) -> None:
    world.edit(rollout=AUTOMATIC | window(world, 2 * HOUR_MS), image="bookie:next")
    watcher, operator = Watcher(world), world.operator()
    run(world, operator, passes=5)
    assert (watcher.stops, said(world, "Reconciling")[1]) == ([], "WaitingForWindow")

    world.lose(PODS[3])
    run(world, operator, passes=25)

    assert (watcher.stops, len(world.accepted)) == ([], 1), "healed, and nobody was stopped"
    assert world.is_quiet()

    world.now_ms += 2 * HOUR_MS
    run(world, operator, passes=32)

    # Who was healed runs what the spec says already.
    assert (watcher.stops, watcher.wrong) == (PODS[:3], [])
    assert set(images(world).values()) == {"bookie:next"}


def test_a_bookie_begins_to_leave_within_a_window_and_goes_on_after_it(world: World) -> None:
    world.write(300, random.Random(1))
    run(world, passes=3)
    world.edit(scaleDown=FAST, rollout=AUTOMATIC | window(world, HOUR_MS), replicas=3)
    operator = world.operator()
    run(world, operator, passes=3)
    entry = world.status().bookie(PODS[1])
    assert entry is not None
    assert entry.leaving is not None
    assert (entry.leaving.state, "window" in (entry.leaving.waiting_for or "")) == (Departure.LEAVING, True)

    world.now_ms += HOUR_MS
    run(world, operator, passes=2)
    world.now_ms += 3 * HOUR_MS
    run(world, operator, passes=45)

    assert world.forgotten == ["data.ledgers.zone-a.1"], world.status().bookie(PODS[1])
    assert (world.wrong, world.lost_entries()) == ([], [])
