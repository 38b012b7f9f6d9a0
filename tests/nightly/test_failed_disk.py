"""A fleet of its own whose bookies have two ledger volumes on disks of their own (`kube_volumes`), one of which takes
no more writes: its bookie goes on with the others, and `ReplaceVolume` has that one replaced and nothing else
(spec/operator.md#U13)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

import disks_support
import kube_volumes
from disks_support import Disks, disk, serves
from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from scenario_support import is_complete, own_fleet, under_writers

pytestmark = pytest.mark.cluster

NAME = "worn"
ROLES = {"journal": ["journal"], "ledgers": ["ledgers", "ledgers-2"], "index": ["index", "index-2"]}
VOLUMES = [name for names in ROLES.values() for name in names]
POD = f"{NAME}-zone-b-0"
SETTINGS = "--config /etc/bookie/bookie.properties"
COUNTED = "1 2 3 4 5 6"  # ledgers, so that each volume has some


@pytest.fixture(scope="module")
def disks(stage: KubernetesStage) -> Iterator[Disks]:
    del stage
    yield from disks_support.of_a_fleet(NAME, 4, VOLUMES)


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, disks: Disks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with own_fleet(stage, tmp_path_factory.mktemp(NAME), NAME, **disks_support.spec(ROLES)) as made:
        yield made


@pytest.fixture
def fleet(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


def writes(fleet: Fleet) -> list[int]:
    """Closed ledgers of one line each, of which every bookie has a copy."""
    one = f"echo kept | bookie ledger write {SETTINGS} --json --ensemble-size 4 --write-quorum 4 --ack-quorum 4"
    told = fleet.types(f"kubectl exec {POD} -- sh -ec {shlex.quote(f'for _ in {COUNTED}; do {one}; done')}")
    return [json.loads(line)["ledger"] for line in told.splitlines() if line.startswith("{")]


# Entry by entry, as a client reads, in one process for all ledgers.
READS = """
import asyncio, sys
from bookie import connect

async def main(uri, bookie, *ledgers):
    async with connect.connect(uri) as client:
        for ledger in ledgers:
            print(bytes(await client.bookies.read(bookie, int(ledger), 0))[-4:].decode())

asyncio.run(main(*sys.argv[1:]))
"""


def are_read(fleet: Fleet, ledgers: list[int]) -> None:
    """What this bookie alone answers is what was written."""
    uri, whose = fleet.resource()["spec"]["metadataService"]["uri"], fleet.bookie(POD)["bookieId"]
    words = " ".join(shlex.quote(str(word)) for word in (READS, uri, whose, *ledgers))
    told = fleet.types(f"kubectl exec {POD} -- /opt/bookie/bin/python -c {words}")
    assert told.split() == ["kept"] * len(ledgers)


def test_one_disk_of_several_is_replaced_while_its_bookie_serves_what_the_others_have(
    fleet: Fleet, disks: Disks
) -> None:
    lives, claims, pods = fleet.incarnations(), fleet.claim_uids(), fleet.uids()
    grants, ledgers = len(fleet.status().get("history", ())), writes(fleet)
    assert len(ledgers) == len(COUNTED.split())
    before = {name: disk(fleet, disks, POD, name) for name in VOLUMES}
    worn = before["ledgers"]
    disks |= disks_support.make(NAME, worn.node, 9, ["ledgers"])  # where its next volume may be

    kube_volumes.make_read_only(worn)
    told = fleet.says("StorageHealthy", "DirectoryFailed")
    assert f"/bookie/ledgers/ledgers of {POD} failed and takes no writes" in told, told
    assert "a BookieOperation ReplaceVolume of ledgers" in told, told
    fleet.sees("the bookie to be read-only", lambda: fleet.bookie(POD)["state"] == "ReadOnly",
               detail=lambda: str(fleet.bookie(POD)))  # fmt: skip
    fleet.is_written_to()
    are_read(fleet, ledgers)
    assert (fleet.uids(), fleet.claim_uids(), fleet.incarnations()) == (pods, claims, lives), "nobody does anything"

    is_complete(fleet, fleet.orders(
        type="ReplaceVolume", target={"bookie": POD, "volume": "ledgers"}, reason="the kernel found errors on it"
    ))  # fmt: skip
    serves(fleet, POD, lives[POD] + 1)
    now = fleet.claim_uids()
    assert now.keys() == claims.keys()
    assert {name for name, uid in now.items() if claims[name] != uid} == {f"ledgers-{POD}"}
    after = {name: disk(fleet, disks, POD, name) for name in VOLUMES}
    assert {name for name in VOLUMES if after[name] != before[name]} == {"ledgers"}
    assert {name for name, uid in fleet.uids().items() if pods[name] != uid} == {POD}
    assert fleet.incarnations() == lives | {POD: lives[POD] + 1}
    history = fleet.status()["history"]
    assert (len(history), history[-1]["profile"]) == (grants + 1, "Partial"), history
    assert kube_volumes.files(worn), "what was on it is still there, for a person who wants to look"
    are_read(fleet, ledgers)
