"""What a seed draws under an aspect never asks for more than the protocol survives."""

from bookie.integrity.options import GATED, LOCAL
from bookie.sim import run
from bookie.sim.run import Aspects

LOSSES = ("wipe_percent", "sync_failure_percent", "full_percent", "rot_percent", "has_twins")


def test_with_an_ack_quorum_of_one_nobody_loses_anything() -> None:
    drawn = [run._drawn(seed, Aspects(varied=True)) for seed in range(200)]

    lone = [(swarm, settings) for swarm, settings, plan in drawn if plan.ack_quorum == 1]
    assert 30 < len(lone) < 90
    for swarm, settings in lone:
        assert settings.journal_write_data
        assert not any(getattr(swarm, name) for name in LOSSES)
    assert any(plan.password for _, _, plan in drawn)
    assert any(plan.deleters for _, _, plan in drawn)
    assert any(plan.tail_percent for _, _, plan in drawn)


def test_ack_quorums_above_one_and_several_disks_are_drawn_without_any_aspect() -> None:
    drawn = [run._drawn(seed, Aspects()) for seed in range(200)]

    assert {plan.ack_quorum for _, _, plan in drawn} == {2, 3}
    assert {settings.directories for _, settings, _ in drawn} == {1, 2, 3}
    assert {settings.regeneration for _, settings, _ in drawn} == {LOCAL}


def test_where_grants_are_wanted_volumes_are_lost() -> None:
    for seed in range(50):
        swarm, settings, _ = run._drawn(seed, Aspects(gated=True))
        assert settings.regeneration == GATED
        assert swarm.wipe_percent >= 4
