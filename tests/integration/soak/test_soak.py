"""The short form of `make soak`: a few kills of real bookies under load, and some hundred hostile clients."""

import pathlib

import pytest

import chaos_support
import hostile_support
import local_support
import soak_support

pytestmark = pytest.mark.slow

IDLE, CUT, SLOW = 500, 50, 5


def test_nothing_acknowledged_is_lost_when_bookies_are_killed_one_after_the_other(tmp_path: pathlib.Path) -> None:
    with soak_support.soaking(tmp_path, seed=13) as soak:
        soak.start_writing(200.0)
        rounds = [soak.kill_one() for _ in range(3)]
        verdict = soak.verify()

    assert {done.how_after for done in rounds} == {soak_support.WITH, soak_support.WITHOUT}, "the seed draws both"
    assert verdict["clean"], verdict
    assert verdict["verified"] == verdict["acknowledged"] > 300


def test_hostile_clients_cost_little_and_others_are_served(tmp_path: pathlib.Path) -> None:
    with local_support.fleet(tmp_path / "data", tmp_path / "fleet.log", bookies=1) as fleet:
        bookie = fleet.bookies[0]
        seen = hostile_support.run(bookie.pid, bookie.port, idle=IDLE, cut=CUT, slow=SLOW)
        print(seen)

    assert not list(seen.problems())


def test_nothing_acknowledged_is_lost_whatever_befalls_a_machine(tmp_path: pathlib.Path) -> None:
    if reason := chaos_support.why_not():
        pytest.skip(reason)  # the whole of it is about real machines, which not every user may make
    with chaos_support.chaos(tmp_path, seed=3) as fleet:
        fleet.start(200.0)
        for name in ("SIGSTOP", "cut from ZooKeeper", "disk full", "descriptors short"):
            print(fleet.fault(name))
        verdict = fleet.verify()

    assert verdict["clean"], verdict
    assert verdict["verified"] == verdict["acknowledged"] > 300
