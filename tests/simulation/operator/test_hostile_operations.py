"""Whatever operations people create, together, twice, withdrawn in their midst, over a pause or a sleep: each stop is a
safe one, no pass raises, and each operation says in words where it stands."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operator_world_support as worlds
from bookie_operator.model import names
from bookie_operator.model.operation import OperationType
from meeting_support import LIVES, Fleet, Judge
from operator_world_support import World

PODS = ("ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0")
NOBODY = ("ledgers-zone-a-00", "ledgers-zone-d-0", "other-zone-a-0", "-", "é")
NO_EVIDENCE = "0123456789abcdef"
LEDGERS = ("0", "7", str(2**63 - 1), str(2**63))


@st.composite
def operations(draw: st.DrawFn) -> dict[str, Any]:
    """The spec of a BookieOperation, which may be about nobody, or be none that an operator can use."""
    target: dict[str, Any] = {"bookie": draw(st.sampled_from((*PODS, *PODS, *NOBODY)))}
    kind = draw(st.sampled_from(OperationType)).value
    if kind == "ReplaceVolume":
        target["volume"] = draw(st.sampled_from(("ledgers", "journal", "nosuch")))
    if kind == "AcceptLoss":
        found = draw(st.sets(st.sampled_from(PODS), min_size=1))
        target["bookies"] = [{"name": one, "evidence": NO_EVIDENCE} for one in sorted(found)]
    if kind == "AcceptLedgerLoss":
        target["ledgers"] = sorted(draw(st.sets(st.sampled_from(LEDGERS), min_size=1)))
        target["givenUp"] = [target["bookie"]]
    return {
        "type": kind,
        "target": target,
        "evidence": NO_EVIDENCE,
        "reason": draw(st.sampled_from(("a person wants it so, and says why", "", "x" * 1024))),
        "expiresAfter": draw(st.sampled_from(("1ms", "5s", "24h", "9999999999999h", "for ever"))),
    }


STEPS = st.tuples(
    st.one_of(operations(), st.sampled_from(("withdraw", "forget", "pause", "sleep", "neither", "image"))),
    st.integers(1, 2),  # how often
    st.integers(1, 15),  # seconds until the next one
)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(story=st.lists(STEPS, min_size=2, max_size=7), life=st.sampled_from(LIVES))
def test_whatever_is_asked_for_each_stop_is_safe_and_each_operation_says_where_it_stands(
    built: World, story: list[tuple[Any, int, int]], life: str
) -> None:
    world = worlds.clone(built)
    judge, fleet = Judge(world), Fleet(world, life)

    for number, (what, often, passes) in enumerate(story):
        for again in range(often):
            happen(world, what, f"{number}-{again}")
        fleet.run(passes)
        assert (judge.wrong, world.wrong, world.past_tolerance, world.lost_entries()) == ([], [], [], []), story
    world.edit(lifecycle={})
    fleet.lives_on()
    fleet.run(40)

    for one in world.of_kind(names.OPERATION_KIND):
        told = world.operation(one["metadata"]["name"])
        assert told.phase is not None, (story, one)
        assert told.message, (story, one)
    assert (judge.wrong, world.wrong, world.past_tolerance, world.lost_entries()) == ([], [], [], []), story


def happen(world: World, what: Any, name: str) -> None:
    there = world.of_kind(names.OPERATION_KIND)
    if isinstance(what, dict):
        world.now_ms += 500  # two in one second, as the API server tells time
        world.ask(name, what["type"], **{key: value for key, value in what.items() if key != "type"})
    elif what == "withdraw" and there:
        del world.objects[(names.OPERATION_KIND, there[0]["metadata"]["name"])]
    elif what == "forget" and there:
        there[-1].pop("status", None)
    elif what == "image":
        world.edit(image=f"bookie:{name}")
    else:
        world.edit(lifecycle={"paused": what == "pause", "hibernate": what == "sleep"})
