"""Hashes everything that a grant relies on into one value. Pure.

Two looks at the same situation give the same hash; anything relevant that changed gives another, so that an approval of
yesterday's situation does not fit today's (spec/operator.md#K5). Not in it: sentences, free space, ledger counts, time.
"""

import hashlib
import json

from bookie.base.ids import BookieId
from bookie.metadata.cookie import IncarnationRecord
from bookie.ports.admin import VolumeReport


def digest(
    *,
    bookie_id: BookieId,
    pod_uid: str,
    instance_id: str,
    cookie_version: int,
    cookie_digest: str,
    record: IncarnationRecord | None,
    volumes: tuple[VolumeReport, ...],
) -> str:
    """Return the hash as 64 hex digits."""
    facts = {
        "bookie": bookie_id,
        "pod": pod_uid,
        "instance": instance_id,
        "cookie": [cookie_version, cookie_digest],
        # The incarnation and its boot. The old word stays: it is hashed, and another would void grants given before.
        "life": None
        if record is None
        else [record.instance_id, record.incarnation, record.boot_epoch, record.grant_id],
        "volumes": [_volume(volume) for volume in volumes],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _volume(volume: VolumeReport) -> list[object]:
    mount, mark = volume.mount, volume.sentinel
    stamped: list[object] = []
    if mark is not None:
        stamped = [mark.instance_id, mark.bookie_id, mark.role, mark.volume, mark.incarnation, mark.boot_epoch]
        stamped += [mark.fsid, mark.grant_id]
    proven = [mount.proof.value, mount.device, mount.fsid, mount.fstype, mount.root, mount.source]
    return [volume.name, volume.role, volume.path, volume.contents.value, proven, stamped]
