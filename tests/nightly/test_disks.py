"""A fleet of its own on volumes that can be proven mounted (`kube_volumes`): another disk under a bookie's path, a disk
that was set back in time, one that dies, and a node that is gone for good with its disks.

The last scenario comes last: it takes a node away.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import disks_support
import kube_engine
import kube_volumes
from disks_support import Disks, disk, serves
from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from kube_volumes import Volume
from scenario_support import is_complete, own_fleet, under_writers

pytestmark = pytest.mark.cluster

NAME = "disks"
ROLES = ("journal", "ledgers")  # the index is on the ledger volume


def make(node: str, number: int) -> Disks:
    """The disks of one bookie on `node`."""
    return disks_support.make(NAME, node, number, ROLES)


@pytest.fixture(scope="module")
def disks(stage: KubernetesStage) -> Iterator[Disks]:
    """Disks for four bookies over three nodes; a test may add others."""
    del stage
    yield from disks_support.of_a_fleet(NAME, 4, ROLES)


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, disks: Disks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with own_fleet(
        stage, tmp_path_factory.mktemp(NAME), NAME, **disks_support.spec({role: [role] for role in ROLES})
    ) as made:
        made.settled()  # before a test keeps new pods off the nodes that these disks are on
        yield made


@pytest.fixture
def fleet(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


@contextlib.contextmanager
def pod_away(fleet: Fleet, pod: str, volume: Volume) -> Iterator[None]:
    """No pod of the bookie and nothing mounted at the disk's place while the body runs."""
    fleet.types(f"kubectl cordon {volume.node}; kubectl delete pod {pod}")

    def waits() -> bool:
        """Whether its successor has no node: a busy scheduler learns of the cordon a little later."""
        found = fleet.pods().get(pod)
        if found is not None and found["spec"].get("nodeName"):
            fleet.types(f"kubectl delete pod {pod}")
            return False
        return found is not None

    try:
        fleet.sees(f"{pod} to wait for its node", waits)
        kube_volumes.unmount(volume)
        yield
    finally:
        fleet.types(f"kubectl uncordon {volume.node}")


def held(fleet: Fleet, pod: str, *reasons: str) -> dict[str, Any]:
    """Wait until the bookie is held for one of `reasons`; return its entry of the status."""

    def look() -> dict[str, Any] | None:
        entry = fleet.bookie(pod)
        return entry if entry.get("state") == "Held" and entry.get("reason") in reasons else None

    return fleet.sees(f"{pod} to be held for {' or '.join(reasons)}", look, detail=lambda: str(fleet.bookie(pod)))


@pytest.mark.parametrize(("whose", "reason"), [("nobody's", "ResetLocalDisk"), ("another's", "ForeignVolume")])
def test_a_wrong_device_is_held_and_not_one_byte_is_written(
    fleet: Fleet, disks: Disks, tmp_path: Path, whose: str, reason: str
) -> None:
    pod, other = f"{NAME}-zone-b-0", f"{NAME}-zone-c-0"
    life, grants = fleet.bookie(pod)["incarnation"], len(fleet.status().get("history", ()))
    right = disk(fleet, disks, pod)
    backing = tmp_path / "wrong.img"
    if whose == "another's":
        theirs = disk(fleet, disks, other)
        kube_engine.docker("exec", theirs.node, "sync")
        shutil.copyfile(theirs.backing, backing)
    else:
        made = kube_volumes.create(f"{NAME}-wrong", node=right.node)
        kube_volumes.unmount(made)
        shutil.copyfile(made.backing, backing)
        kube_volumes.destroy(made)
    wrong = dataclasses.replace(right, backing=backing)

    try:
        with pod_away(fleet, pod, right):
            kube_volumes.mount(wrong)
            before = kube_volumes.files(wrong)
        entry = held(fleet, pod, reason)
        assert entry["incarnation"] == life
        assert not entry.get("grant")
        fleet.is_written_to()
        assert kube_volumes.files(wrong) == before
        with pod_away(fleet, pod, wrong):
            kube_volumes.mount(right)
    finally:
        kube_volumes.detach(wrong)
    serves(fleet, pod, life)
    assert len(fleet.status().get("history", ())) == grants


def test_a_disk_that_was_set_back_is_held_until_somebody_gives_up_what_it_lacks(
    fleet: Fleet, disks: Disks, tmp_path: Path
) -> None:
    pod = f"{NAME}-zone-b-0"
    life = fleet.bookie(pod)["incarnation"]
    volume = disk(fleet, disks, pod)
    snapshot = tmp_path / "snapshot.img"
    with pod_away(fleet, pod, volume):
        kube_volumes.detach(volume)
        shutil.copyfile(volume.backing, snapshot)
        kube_volumes.mount(volume)
    serves(fleet, pod, life)
    fleet.is_written_to()

    with pod_away(fleet, pod, volume):
        kube_volumes.detach(volume)
        shutil.copyfile(snapshot, volume.backing)
        kube_volumes.mount(volume)
    entry = held(fleet, pod, "StaleVolume")
    assert entry["counted"] == "WithoutData"
    assert entry["incarnation"] == life
    fleet.sees("a closed budget", lambda: fleet.status()["budget"]["effectiveMaxUnavailable"] == 0)
    fleet.is_written_to()

    fleet.edits(repair={"staleVolume": "Repair"})
    serves(fleet, pod, life + 1)
    assert fleet.status()["history"][-1]["profile"] == "Rollback"
    fleet.edits(repair={"staleVolume": None})


def test_a_disk_that_died_is_held_until_a_person_gives_it_up(fleet: Fleet, disks: Disks) -> None:
    pod = f"{NAME}-zone-c-0"
    lives, claims, died = fleet.incarnations(), fleet.claim_uids(), disk(fleet, disks, pod)
    grants = len(fleet.status().get("history", ()))
    disks |= make(died.node, 8)  # where its next volume may be
    kube_volumes.fail(died)
    entry = held(fleet, pod, "UnreadableVolume")
    assert entry["incarnation"] == lives[pod]
    assert entry["evidence"] in entry["message"], "what to confirm"
    fleet.is_written_to()
    assert fleet.claim_uids() == claims

    is_complete(fleet, fleet.orders(
        type="ConfirmLoss", target={"bookie": pod}, evidence=entry["evidence"], reason="the disk is dead, says M."
    ))  # fmt: skip
    serves(fleet, pod, lives[pod] + 1)
    assert len(fleet.status()["history"]) == grants + 1
    now = fleet.claim_uids()
    assert now.keys() == claims.keys()
    assert {name for name, uid in now.items() if claims[name] != uid} == {f"ledgers-{pod}"}
    assert disk(fleet, disks, pod) != died


def test_a_node_is_gone_for_good_and_its_bookie_lives_on_other_disks(
    own: Fleet, disks: Disks, beside_zookeeper: str, fleet: Fleet, nodes_back: None
) -> None:
    fleet.types("kubectl uncordon --selector kubernetes.io/os=linux")
    places = {name: str(pod["spec"]["nodeName"]) for name, pod in fleet.pods().items()}
    alone = [name for name, node in places.items() if list(places.values()).count(node) == 1]
    pod = next(name for name in alone if places[name] != beside_zookeeper and "control-plane" not in places[name])
    lost, lives, claims = places[pod], fleet.incarnations(), fleet.claim_uids()
    grants = len(fleet.status().get("history", ()))
    disks |= make(beside_zookeeper, 9)  # where it may live

    # The volumes of the lost node are kept (Retain), and asked for as long as reattachGrace says.
    fleet.edits(repair={"lostNode": {"policy": "Replace", "after": "15s"}, "reattachGrace": "20s"})
    kube_engine.docker("kill", lost)
    fleet.types(f"kubectl delete node {lost}")  # who does this says that the machine is off
    serves(fleet, pod, lives[pod] + 1)
    now = fleet.claim_uids()
    assert now.keys() == claims.keys()
    assert now.items() - claims.items() == {(name, uid) for name, uid in now.items() if name.endswith(pod)}
    assert fleet.pods()[pod]["spec"]["nodeName"] == beside_zookeeper
    assert fleet.incarnations() == lives | {pod: lives[pod] + 1}
    assert len(fleet.status()["history"]) == grants + 1
    told = fleet.types("kubectl get events.events.k8s.io")
    print("\n".join(line for line in told.splitlines() if "ost" in line))
    fleet.edits(repair={"lostNode": None, "reattachGrace": None})
