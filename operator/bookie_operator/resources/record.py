"""The record: a ConfigMap without an owner, with what must outlive a BookieCluster that is deleted and applied again.

It holds all ids, what was seen of their volumes, unfinished grants, past regenerations (which the brake counts), whose
turn it is to be stopped, what worked last, and which store this is. The status says the same and goes with its
resource; this stays until a person deletes it. At most ~1 kB for each bookie and volume, and what a long config says;
the history is as bounded as the status's. Rule: decision 0016.
"""

import json

from pydantic import Field, ValidationError

from bookie.base.errors import BadInput
from bookie_operator.model import names
from bookie_operator.model.base import Model
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.status import (
    HISTORY_MAX,
    BookieClusterStatus,
    BookieStatus,
    Departure,
    FailedRollout,
    GrantRecord,
    HibernationStatus,
    HistoryEntry,
    LastGood,
    LeavingStatus,
    MetadataStatus,
    PoolStatus,
    Process,
    RolloutStatus,
    RolloutStep,
    VolumeRecord,
    VolumeStatus,
)
from bookie_operator.resources import common
from bookie_operator.resources.common import Manifest

KEY = "record.json"
_BEGINNING = "1970-01-01T00:00:00Z"


class RecordedPool(Model):
    name: str
    size: int


class RecordedVolume(Model):
    name: str
    role: str
    recorded: VolumeRecord


class RecordedBookie(Model):
    name: str
    bookie_id: str
    pool: str
    zone: str | None = None
    incarnation: int = 0
    has_lived: bool = False
    volumes: tuple[RecordedVolume, ...] = ()
    processes: tuple[Process, ...] | None = None
    grant: GrantRecord | None = None
    leaving: LeavingStatus | None = None  # without its progress: that is no promise
    fenced: str | None = None  # nothing of it is replaced while it is, also where it says nothing


class FleetRecord(Model):
    pools: tuple[RecordedPool, ...] = ()
    instance_id: str | None = None
    initialized_at: str | None = None
    bookies: tuple[RecordedBookie, ...] = ()
    history: tuple[HistoryEntry, ...] = Field(default=(), max_length=4 * HISTORY_MAX)
    step: RolloutStep | None = None  # whose turn it is to be stopped
    last_good: LastGood | None = None
    failed: FailedRollout | None = None
    owner: str = ""  # the operator that keeps this cluster
    hibernation: HibernationStatus | None = None  # that bookies are off of the operator's own will


def config_map(cluster: Cluster, status: BookieClusterStatus) -> Manifest:
    """Return the record of `status`. It has no owner, so that it stays when the resource goes."""
    metadata = common.metadata(cluster, names.record(cluster.name), names.COMPONENT_BOOKIE)
    del metadata["ownerReferences"]
    text = json.dumps(_record(status).dump(), separators=(",", ":"), sort_keys=True)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text}}


def is_kept(wanted: Manifest, live: Manifest | None) -> bool:
    return live is not None and (live.get("data") or {}) == wanted["data"]


def recall(status: BookieClusterStatus, live: Manifest | None) -> BookieClusterStatus:
    """Return `status` with whatever the record has besides. Raises BadInput when there is a record that cannot be
    read."""
    if live is None:
        return status
    try:
        record = FleetRecord.model_validate_json((live.get("data") or {})[KEY])
    except (KeyError, ValidationError) as error:
        name = live["metadata"]["name"]
        what = "it has no record.json" if isinstance(error, KeyError) else f"{error.error_count()} fields do not fit"
        raise BadInput(
            f"ConfigMap {name} holds what must not be forgotten, and cannot be read ({what}): restore it, or delete it"
            " if every bookie of this cluster serves"
        ) from None
    if other := _of_another(record, live["metadata"]):
        raise BadInput(
            f"ConfigMap {live['metadata']['name']} is of another cluster (it has bookie {other}): restore this one's,"
            " or delete it if every bookie of this cluster serves, or none has ever lived"
        )
    known = {entry.grant_id: entry for entry in (*record.history, *status.history)}
    metadata = status.metadata or MetadataStatus()
    return status.model_copy(
        update={
            "instance_id": status.instance_id or record.instance_id,
            "metadata": metadata.model_copy(
                update={"initialized_at": metadata.initialized_at or record.initialized_at}
            ),
            "pools": _pools(status, record),
            "bookies": tuple(_merged(entry, record) for entry in status.bookies),
            "orphans": (
                *(_merged(entry, record) for entry in status.orphans),
                *(_remembered(one) for one in record.bookies if status.bookie(one.name) is None),
            ),
            "history": tuple(sorted(known.values(), key=lambda entry: (entry.granted_at, entry.grant_id))),
            "rollout": _rollout(status, record),
            "hibernation": status.hibernation or record.hibernation,
            "operator": status.operator.model_copy(update={"owner": status.operator.owner or record.owner}),
        }
    )


def _of_another(record: FleetRecord, metadata: Manifest) -> str:
    """Return the id of a bookie that no cluster of this name gives, in this namespace; "" when there is none. A backup
    that is restored into another namespace brings such a record: what was proven of those bookies says nothing here."""
    cluster = str(metadata["name"]).removesuffix("-record")
    of_others = (
        one.bookie_id
        for one in record.bookies
        if names.parse_bookie_id(metadata.get("namespace", ""), cluster, one.bookie_id) is None
    )
    return next(of_others, "")


def _record(status: BookieClusterStatus) -> FleetRecord:
    entries = (*status.bookies, *status.orphans)
    return FleetRecord(
        pools=tuple(RecordedPool(name=pool.name, size=pool.desired) for pool in status.pools),
        instance_id=status.instance_id,
        initialized_at=status.metadata.initialized_at if status.metadata is not None else None,
        bookies=tuple(_bookie(entry) for entry in entries if entry.pool),
        history=status.history,
        step=status.rollout.step if status.rollout is not None else None,
        last_good=status.rollout.last_good if status.rollout is not None else None,
        failed=status.rollout.failed if status.rollout is not None else None,
        owner=status.operator.owner,
        hibernation=status.hibernation.model_copy(update={"waiting_for": None}) if status.hibernation else None,
    )


def _bookie(entry: BookieStatus) -> RecordedBookie:
    grant = entry.grant
    return RecordedBookie(
        name=entry.name,
        bookie_id=entry.bookie_id,
        pool=entry.pool,
        zone=entry.zone,
        incarnation=entry.incarnation,
        has_lived=entry.has_lived,
        volumes=tuple(
            RecordedVolume(name=volume.name, role=volume.role, recorded=volume.recorded)
            for volume in entry.volumes
            if volume.recorded is not None
        ),
        processes=entry.processes,
        # Whose it is now changes with each leader, and is no part of what was promised.
        grant=grant.model_copy(update={"epoch": 0, "issued_by": ""}) if grant is not None else None,
        leaving=_departure(entry.leaving),
        fenced=entry.fenced,
    )


def _departure(leaving: LeavingStatus | None) -> LeavingStatus | None:
    """Return what a bookie that leaves was told and what was proven of it; None while nobody told it anything."""
    if leaving is None or leaving.state is Departure.LEAVING:
        return None
    kept = ("state", "since", "never_lived", "rebuilds", "looks", "cookie_version", "forgotten_at")
    return LeavingStatus(**{name: getattr(leaving, name) for name in kept})


def _pools(status: BookieClusterStatus, record: FleetRecord) -> tuple[PoolStatus, ...]:
    """Return every pool that ever was, with the greater of both sizes: the operator never takes an id away."""
    known = {pool.name: pool for pool in status.pools}
    for pool in record.pools:
        blank = PoolStatus(name=pool.name, stateful_set="", desired=0, current=0, ready=0, updated=0)
        entry = known.get(pool.name, blank)
        known[pool.name] = entry.model_copy(update={"desired": max(entry.desired, pool.size)})
    return tuple(known.values())


def _rollout(status: BookieClusterStatus, record: FleetRecord) -> RolloutStatus | None:
    """Return the roll-out with what only the record knows: a turn whose bookie may have flushed, the way back."""
    known = status.rollout
    lost = {"step": record.step, "last_good": record.last_good, "failed": record.failed}
    lost = {name: one for name, one in lost.items() if one is not None and getattr(known, name, None) is None}
    if not lost:
        return known
    return (known or RolloutStatus(inputs="", desired=0, updated=0)).model_copy(update=lost)


def _merged(entry: BookieStatus, record: FleetRecord) -> BookieStatus:
    """Return `entry` with what only the record knows, such as a grant whose status was never stored."""
    found = next((one for one in record.bookies if one.name == entry.name), None)
    if found is None:
        return entry
    return entry.model_copy(
        update={
            "incarnation": max(entry.incarnation, found.incarnation),
            "has_lived": entry.has_lived or found.has_lived,
            "processes": entry.processes if entry.processes is not None else found.processes,
            "grant": entry.grant or found.grant,
            "leaving": entry.leaving or found.leaving,
            "fenced": entry.fenced or found.fenced,
        }
    )


def _remembered(one: RecordedBookie) -> BookieStatus:
    """Return a bookie that only the record knows: its state is unknown."""
    return BookieStatus(
        name=one.name,
        bookie_id=one.bookie_id,
        pool=one.pool,
        zone=one.zone,
        seen_in=("Record",),
        state="",
        verdict="Unknown",
        reason="Remembered",
        since=_BEGINNING,
        incarnation=one.incarnation,
        has_lived=one.has_lived,
        volumes=tuple(
            VolumeStatus(
                name=volume.name,
                role=volume.role,
                claim=names.claim(volume.name, one.name),
                recorded=volume.recorded,
            )
            for volume in one.volumes
        ),
        processes=one.processes,
        grant=one.grant,
        leaving=one.leaving,
        fenced=one.fenced,
    )
