"""The swarm is drawn from the seed alone; the atlas lets one bookie at a time lose data."""

import random

import pytest

from bookie.sim import faults
from bookie.sim.trace import Trace


def test_one_seed_draws_one_swarm_and_many_seeds_draw_many() -> None:
    drawn = [faults.draw(random.Random(seed)) for seed in range(50)]

    assert drawn == [faults.draw(random.Random(seed)) for seed in range(50)]
    assert len({swarm.facts() for swarm in drawn}) == 50
    assert {swarm.power_cut_percent > 0 for swarm in drawn} == {True, False}


def test_a_swarm_has_no_faults_of_itself() -> None:
    assert faults.Swarm().facts() == ""


def test_one_bookie_at_a_time_may_lose_data_until_it_is_repaired() -> None:
    atlas = faults.Atlas()
    atlas.lost("bookie-1")

    assert atlas.may_lose("bookie-1")
    assert not atlas.may_lose("bookie-2")
    with pytest.raises(AssertionError):
        atlas.lost("bookie-2")
    atlas.repaired("bookie-1")
    assert atlas.may_lose("bookie-2")


def test_after_rot_that_nobody_knows_of_nobody_else_may_lose_data() -> None:
    atlas = faults.Atlas()
    atlas.lost("bookie-1", for_good=True)

    atlas.repaired("bookie-1")

    assert not atlas.may_lose("bookie-2")


def test_a_trace_counts_events_in_its_digest_and_notes_not() -> None:
    with_note, without = Trace(keep=True), Trace()
    with_note.event(1, "bookie-1", "start", "life=1")
    without.event(1, "bookie-1", "start", "life=1")
    with_note.note(2, "bookie-1", "serving")

    assert with_note.digest() == without.digest()
    assert [line.split()[0] for line in with_note.table()] == ["seconds", "0.000000", "0.000000"]
    without.event(2, "bookie-1", "stop")
    assert with_note.digest() != without.digest()


def test_faults_of_the_whole_world_can_be_left_out() -> None:
    swarm = faults.Swarm(lag_ms=7, is_skewed=True, kill_percent=3)
    assert swarm.parts() == ["is_skewed", "lag_ms"]

    assert swarm.without(frozenset({"lag_ms", "is_skewed", "kill-4", "writer-0"})) == faults.Swarm(kill_percent=3)
