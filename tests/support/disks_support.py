"""Fleets on volumes that can be proven mounted (`kube_volumes`): their disks, and the storage that asks for them. For
`tests/nightly`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import kube_home
import kube_kind
import kube_tools
import kube_volumes
from fleet_support import Fleet
from kube_volumes import Volume

Disks = dict[str, Volume]  # by the name of their PersistentVolume


def make(fleet: str, node: str, number: int, volumes: Sequence[str]) -> Disks:
    """The disks of one bookie on `node`, one for each of its volumes."""
    made = [kube_volumes.create(f"{fleet}-{number}-{volume}", node=node) for volume in volumes]
    kube_tools.apply(kube_volumes.manifest(made))
    return {one.name: one for one in made}


def of_a_fleet(fleet: str, bookies: int, volumes: Sequence[str]) -> Iterator[Disks]:
    """Disks for so many bookies over all nodes; a test may add others. For a fixture to yield from."""
    made: Disks = {}
    nodes = sorted(kube_kind.nodes(kube_home.this().name))
    try:
        for number in range(bookies):
            made |= make(fleet, nodes[number % len(nodes)], number, volumes)
        yield made
    finally:
        for volume in made.values():
            kube_tools.kubectl("delete", "pv", volume.name, "--ignore-not-found")
            kube_volumes.destroy(volume)


def spec(roles: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The parts of a BookieCluster's spec by which each volume of a role, by its name, is such a disk."""
    one = {"size": "64Mi", "kind": "LocalDisk", "accessMode": "ReadWriteOnce"}
    one |= {"storageClassName": kube_volumes.STORAGE_CLASS}
    storage = {role: {"volumes": [{"name": name} | one for name in volumes]} for role, volumes in roles.items()}
    anywhere = {"nodeSelector": {"kubernetes.io/os": "linux"}}
    zones = [{"name": zone, **anywhere} for zone in ("zone-a", "zone-b", "zone-c")]
    return {"storage": {"journalWriteData": False} | storage, "zones": zones}


def disk(fleet: Fleet, disks: Disks, pod: str, volume: str = "ledgers") -> Volume:
    """The disk that this volume of the bookie is on."""
    return next(disks[one["pvName"]] for one in fleet.bookie(pod)["volumes"] if one["name"] == volume)


def serves(fleet: Fleet, pod: str, incarnation: int) -> None:
    """Wait until the pod that is there now serves in this life: a status may be that of the pod before."""

    def look() -> bool:
        entry, uid = fleet.bookie(pod), fleet.uids().get(pod)
        return (entry.get("state"), entry.get("incarnation"), entry.get("podUID")) == ("Serving", incarnation, uid)

    fleet.sees(f"{pod} to serve in life {incarnation}", look, detail=lambda: str(fleet.bookie(pod)))
