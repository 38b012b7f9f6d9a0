"""Builders for operator tests: a healthy four-bookie world; a test changes only what it is about."""

from dataclasses import replace
from typing import Any

from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.ports.admin import (
    Contents,
    MountProof,
    MountReport,
    RepairStatus,
    Sentinel,
    State,
    StorageReport,
    Verdict,
    VolumeReport,
)
from bookie_operator.evidence.facts import (
    BookieCase,
    ClaimFacts,
    ClaimMarks,
    PersistentVolumeFacts,
    PodFacts,
    VolumeCase,
)
from bookie_operator.model import assignment, names, values
from bookie_operator.model import cluster as clusters
from bookie_operator.model import operation as operations
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.operation import BookieOperation, OperationStatus
from bookie_operator.model.status import BookieClusterStatus, VolumeRecord
from bookie_operator.plan import fleet as plans
from bookie_operator.plan.observation import Leadership, Observation
from bookie_operator.resources import fleet as fleet_of
from bookie_operator.resources.common import Manifest
from bookie_operator.status import render

NOW_MS = 1_800_000_000_000
IMAGE = "bookie:test"
ROLES = (("journal", "journal"), ("ledgers", "ledgers"), ("index", "index"))
CAPABILITIES = ("limbo", "regeneration", "turn")


def spec(**changes: Any) -> dict[str, Any]:
    """A valid spec as JSON; keyword arguments replace top-level fields."""
    out: dict[str, Any] = {
        "replicas": 4,
        "zones": [{"name": "zone-a"}, {"name": "zone-b"}, {"name": "zone-c"}],
        "metadataService": {"uri": "zk+hierarchical://zookeeper:2181/ledgers", "initialize": "IfAbsent"},
        "quorum": {"ensembleSize": 3, "writeQuorum": 3, "ackQuorum": 2},
        "storage": {
            "journalWriteData": False,
            "journal": {"volumes": [{"name": "journal", "size": "1Gi"}]},
            "ledgers": {"volumes": [{"name": "ledgers", "size": "2Gi"}]},
            "index": {"volumes": [{"name": "index", "size": "1Gi"}]},
        },
        "repair": {"stabilization": "6s"},
        "lifecycle": {"terminationGrace": "2m"},
        "rollout": {"strategy": "Manual"},  # whoever tests a roll-out asks for it: nobody else's pods go by themselves
    }
    return {key: value for key, value in (out | changes).items() if value is not None}


def manifest(status: BookieClusterStatus | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": "ledgers",
            "namespace": "data",
            "uid": "cluster-uid",
            "generation": 1,
            "resourceVersion": "1",
        },
        "spec": spec(**changes),
        **({"status": status.dump()} if status is not None else {}),
    }


def cluster(status: BookieClusterStatus | None = None, **changes: Any) -> Cluster:
    return clusters.parse(manifest(status, **changes))


def volume_report(name: str, role: str, **changes: Any) -> VolumeReport:
    """A valid volume on a file system of its own."""
    valid = VolumeReport(
        name=name,
        role=role,
        path=f"/data/{name}",
        mount=MountReport(MountProof.PROVEN, fsid=f"fs-{name}"),
        contents=Contents.VALID,
        sentinel=sentinel("data.ledgers.zone-a.0", 1),
    )
    return changed(valid, **changes)


def changed(volume: VolumeReport, **changes: Any) -> VolumeReport:
    """`volume` with other facts; `proof` and `fsid` are of its mount."""
    of_mount = {name: changes.pop(name) for name in ("proof", "fsid") if name in changes}
    return replace(volume, mount=replace(volume.mount, **of_mount), **changes)


def sentinel(bookie_id: str, incarnation: int) -> Sentinel:
    return Sentinel("instance", BookieId(bookie_id), "ledgers", "ledgers", Incarnation(incarnation), BootEpoch(1))


def report(**changes: Any) -> StorageReport:
    """A bookie that serves its first incarnation."""
    healthy = StorageReport(
        bookie_id=BookieId("data.ledgers.zone-a.0"),
        pod_uid="pod-1",
        state=State.SERVING,
        verdict=Verdict.HEALTHY,
        reason="",
        metadata_reachable=True,
        instance_id="instance",
        cookie_present=True,
        cookie_version=0,
        incarnation=Incarnation(1),
        boot_epoch=BootEpoch(1),
        ledgers_naming_me=5,
        volumes=tuple(volume_report(name, role) for role, name in ROLES),
        evidence_hash="report-hash",
        capabilities=CAPABILITIES,
        garbage_held_ledgers=0,
    )
    return replace(healthy, **changes)


def marks(claim_uid: str, fsid: str, *, incarnation: int = 1, pv_uid: str = "") -> ClaimMarks:
    return ClaimMarks(incarnation, "data.ledgers.zone-a.0", "instance", fsid, pv_uid, claim_uid)


def volume_case(name: str = "ledgers", role: str = "ledgers", **changes: Any) -> VolumeCase:
    """A volume as it is after weeks of service: marked claim, recorded, valid."""
    case = VolumeCase(
        name=name,
        role=role,
        is_local_disk=False,
        shares_filesystem=False,
        claim_name=f"{name}-ledgers-zone-a-0",
        claim=ClaimFacts(
            name=f"{name}-ledgers-zone-a-0",
            uid=f"claim-{name}-1",
            created_ms=NOW_MS - 2_000,
            pv_name=f"pv-{name}-1",
            marks=marks(f"claim-{name}-1", f"fs-{name}", pv_uid=f"pv-uid-{name}-1"),
        ),
        pv=PersistentVolumeFacts(f"pv-{name}-1", f"pv-uid-{name}-1"),
        report=volume_report(name, role),
        recorded=VolumeRecord(
            pvc_uid=f"claim-{name}-1",
            pv_name=f"pv-{name}-1",
            pv_uid=f"pv-uid-{name}-1",
            fsid=f"fs-{name}",
            incarnation=1,
        ),
    )
    return replace(case, **changes)


def replaced(case: VolumeCase) -> VolumeCase:
    """`case` after claim and volume were deleted and made anew, empty."""
    assert case.report is not None
    claim = ClaimFacts(case.claim_name, f"claim-{case.name}-2", NOW_MS - 1_500, pv_name=f"pv-{case.name}-2")
    return replace(
        case,
        claim=claim,
        pv=PersistentVolumeFacts(f"pv-{case.name}-2", f"pv-uid-{case.name}-2"),
        report=changed(case.report, contents=Contents.EMPTY, sentinel=None, fsid=f"fs-{case.name}-2"),
    )


def pod(name: str = "ledgers-zone-a-0", **changes: Any) -> PodFacts:
    ready = PodFacts(name, "pod-1", NOW_MS - 1_000, node="node-a", ip="10.0.0.1", is_ready=True, revision="rev-1")
    return replace(ready, **({"has_certificates": True} | changes))


def bookie_case(**changes: Any) -> BookieCase:
    """The first bookie of zone-a, healthy."""
    case = BookieCase(
        name="ledgers-zone-a-0",
        bookie_id="data.ledgers.zone-a.0",
        pool="zone-a",
        zone="zone-a",
        volumes=tuple(volume_case(name, role) for role, name in ROLES),
        pod=pod(),
        report=report(),
    )
    return replace(case, **changes)


def unborn(case: BookieCase) -> BookieCase:
    """`case` before anything of it existed."""
    volumes = tuple(replace(one, claim=None, pv=None, report=None, recorded=None) for one in case.volumes)
    return replace(case, pod=None, report=None, volumes=volumes)


def lost_case(**report_changes: Any) -> BookieCase:
    """The first bookie of zone-a after all of its claims were replaced: it waits for a grant."""
    volumes = tuple(replaced(volume_case(name, role)) for role, name in ROLES)
    changes: dict[str, Any] = {
        "pod_uid": "pod-2",
        "state": State.WAITING_GRANT,
        "verdict": Verdict.LOST,
        "reason": "all volumes are empty under an existing cookie",
        "volumes": tuple(volume.report for volume in volumes),
    }
    return bookie_case(
        volumes=volumes, pod=pod(uid="pod-2", is_ready=False), report=report(**(changes | report_changes))
    )


def sibling(pool: str, ordinal: int, **changes: Any) -> BookieCase:
    """Another healthy bookie of the fleet."""
    name, bookie_id = f"ledgers-{pool}-{ordinal}", f"data.ledgers.{pool}.{ordinal}"
    volumes = tuple(
        replace(
            volume_case(volume, role),
            claim_name=f"{volume}-{name}",
            claim=ClaimFacts(
                f"{volume}-{name}",
                f"claim-{volume}-{name}",
                NOW_MS - 2_000,
                pv_name=f"pv-{volume}-{name}",
                marks=ClaimMarks(1, bookie_id, "instance", f"fs-{volume}", f"pv-{name}", f"claim-{volume}-{name}"),
            ),
            pv=PersistentVolumeFacts(f"pv-{volume}-{name}", f"pv-{name}"),
            report=volume_report(volume, role, sentinel=sentinel(bookie_id, 1)),
            recorded=VolumeRecord(
                pvc_uid=f"claim-{volume}-{name}",
                pv_name=f"pv-{volume}-{name}",
                pv_uid=f"pv-{name}",
                fsid=f"fs-{volume}",
                incarnation=1,
            ),
        )
        for role, volume in ROLES
    )
    case = BookieCase(
        name=name,
        bookie_id=bookie_id,
        pool=pool,
        zone=pool,
        volumes=volumes,
        pod=pod(name, uid=f"pod-{name}"),
        report=report(bookie_id=bookie_id, pod_uid=f"pod-{name}", volumes=tuple(one.report for one in volumes)),
    )
    return replace(case, **changes)


def fleet(first: BookieCase | None = None, **others: BookieCase) -> tuple[BookieCase, ...]:
    """All four bookies, the first one as given; `zone_b`, `zone_c`, `zone_a_1` replace the others."""
    return (
        first if first is not None else bookie_case(),
        others.get("zone_a_1", sibling("zone-a", 1)),
        others.get("zone_b", sibling("zone-b", 0)),
        others.get("zone_c", sibling("zone-c", 0)),
    )


def rolled_out(**spec_changes: Any) -> dict[tuple[str, str], Manifest]:
    """Every child as applied, and what the controllers say of them."""
    found = {(one["kind"], one["metadata"]["name"]): one for one in fleet_of.everything(cluster(**spec_changes), IMAGE)}
    for (kind, _), live in found.items():
        if kind == "StatefulSet":
            live["status"] = {"updateRevision": "rev-1"}
    found[("Job", "ledgers-metadata")]["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    return found


def observation(
    bookies: tuple[BookieCase, ...] | None = None,
    *,
    status: BookieClusterStatus | None = None,
    now_ms: int = NOW_MS,
    epoch: int = 7,
    spec_changes: dict[str, Any] | None = None,
    **changes: Any,
) -> Observation:
    seen = Observation(
        cluster=cluster(status, **(spec_changes or {})),
        now_ms=now_ms,
        leadership=Leadership("operator-1", epoch),
        image=IMAGE,
        pools=assignment.assign(cluster(status, **(spec_changes or {})).spec, {}),
        bookies=bookies if bookies is not None else fleet(),
        has_marked_claims=True,
        operator_version="test",
    )
    return replace(seen, **changes)


def with_status(status: BookieClusterStatus, **spec_changes: Any) -> dict[str, Any]:
    """A cluster as the API server has it, of the generation that `status` speaks of."""
    found = manifest(**spec_changes)
    found["status"] = status.dump()
    found["metadata"] |= {"generation": status.observed_generation, "creationTimestamp": values.format_time(NOW_MS)}
    return found


def stored(bookies: tuple[BookieCase, ...] | None = None, **changes: Any) -> dict[str, Any]:
    """A cluster as the API server has it after a pass over these bookies. `spec`: changes of the spec."""
    spec_changes = changes.pop("spec", {})
    seen = observation(bookies, spec_changes=spec_changes, **({"children": rolled_out()} | changes))
    return with_status(render.render(plans.decide(seen)), **spec_changes)


DONE = RepairStatus(phase="done", done=True, phase_one_ms=120, ledgers_done=3, entries_copied=90, bytes_copied=9_000)


def operation_manifest(name: str = "restart", **changes: Any) -> dict[str, Any]:
    """A BookieOperation of a minute ago; keyword arguments replace fields of its spec, None takes one away."""
    spec = {"clusterRef": {"name": "ledgers"}, "type": "Restart", "target": {"bookie": "ledgers-zone-a-0"}} | changes
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.OPERATION_KIND,
        "metadata": {
            "name": name,
            "namespace": "data",
            "uid": f"uid-{name}",
            "generation": 1,
            "resourceVersion": "3",
            "creationTimestamp": values.format_time(NOW_MS - 60_000),
        },
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def operation(
    name: str = "restart",
    *,
    bookie: str = "ledgers-zone-a-0",
    created_ms: int = NOW_MS - 60_000,
    status: OperationStatus | None = None,
    **spec: Any,
) -> BookieOperation:
    found = operations.parse(operation_manifest(name, **({"target": {"bookie": bookie}} | spec)))
    return replace(found, created_ms=created_ms, status=status or OperationStatus())
