"""Builders for tests of integrity: volumes, facts, grants and ledgers with harmless defaults."""

from __future__ import annotations

import dataclasses
from typing import Any

from bookie.base.ids import BookieId, BootEpoch, EntryId, Incarnation
from bookie.integrity.grant import Situation
from bookie.integrity.verdict import Facts
from bookie.metadata import ledger
from bookie.metadata.cookie import IncarnationRecord
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.admin import Contents, Grant, MountProof, MountReport, Sentinel, Verdict, VolumeReport
from bookie.ports.disk import Mount

ME = BookieId("bookie-0")
INSTANCE = "instance-1"
RECORD = IncarnationRecord(INSTANCE, Incarnation(3), BootEpoch(7), "grant-3")


def sentinel_of(name: str = "journal", **changes: Any) -> Sentinel:
    made = Sentinel(
        instance_id=INSTANCE,
        bookie_id=ME,
        role="journal",
        volume=name,
        incarnation=RECORD.incarnation,
        boot_epoch=RECORD.boot_epoch,
        fsid="fs-1",
    )
    return dataclasses.replace(made, **changes)


def volume(
    name: str = "journal",
    contents: Contents = Contents.VALID,
    *,
    proof: MountProof = MountProof.PROVEN,
    mark: Sentinel | None = None,
    reason: str = "because",
) -> VolumeReport:
    if mark is None and contents in (Contents.VALID, Contents.STALE, Contents.REGENERATING):
        mark = sentinel_of(name)
    return VolumeReport(
        name=name,
        role="journal",
        path=f"/{name}",
        mount=MountReport(proof, is_mount_point=True, device="8:1", fsid=f"fs-{name}", fstype="ext4", root="/"),
        contents=contents,
        sentinel=mark,
        reason=reason,
    )


def facts(*contents: Contents, **changes: Any) -> Facts:
    """Three volumes (all valid by default) of a bookie whose cookie and record stand."""
    names = ("journal", "ledgers", "index")
    made = contents or (Contents.VALID,) * 3
    volumes = tuple(volume(name, one) for name, one in zip(names, made, strict=False))
    return dataclasses.replace(Facts(volumes=volumes, cookie_present=True, record=RECORD), **changes)


def new_bookie(*contents: Contents, **changes: Any) -> Facts:
    """The same without cookie and record."""
    return facts(*contents, **{"cookie_present": False, "record": None, **changes})


def mount(**changes: Any) -> Mount:
    """A dedicated file system, properly mounted."""
    made = Mount(
        path="/data/journal",
        exists=True,
        is_mount_point=True,
        device="8:16",
        fsid="fs-1",
        fstype="ext4",
        root="/",
        source="/dev/sdb",
        total_bytes=1 << 30,
        shares_node_disk=False,
    )
    return dataclasses.replace(made, **changes)


def situation(**changes: Any) -> Situation:
    """A bookie that lost everything and waits; `grant()` fits it."""
    made = Situation(
        bookie_id=ME,
        pod_uid="pod-1",
        is_waiting=True,
        verdict=Verdict.LOST,
        volumes=(volume("journal", Contents.EMPTY),),
        evidence_hash="evidence-1",
        cookie_version=4,
        incarnation=Incarnation(3),
        operator_epoch_seen=5,
        age_ms=10,
    )
    return dataclasses.replace(made, **changes)


def grant(**changes: Any) -> Grant:
    made = Grant(
        grant_id="grant-4",
        bookie_id=ME,
        pod_uid="pod-1",
        evidence_hash="evidence-1",
        cookie_version=4,
        new_incarnation=Incarnation(4),
        operator_epoch=5,
        ttl_ms=60_000,
        issued_by="a test",
    )
    return dataclasses.replace(made, **changes)


def a_ledger(*segments: tuple[int, str], write: int | None = None, ack: int = 2, **changes: Any) -> LedgerMetadata:
    """`segments`: (first entry, bookies separated by spaces); one from 0 with me, b1, b2 by default."""
    ensembles = [(first, tuple(BookieId(name) for name in names.split())) for first, names in segments] or [
        (0, (ME, BookieId("b1"), BookieId("b2")))
    ]
    first, bookies = ensembles[0]
    assert first == 0
    size = len(bookies)
    made = ledger.new_ledger(ensemble_size=size, write_quorum=write or size, ack_quorum=min(ack, size), bookies=bookies)
    for start, ensemble in ensembles[1:]:
        made = made.with_ensemble(EntryId(start), ensemble)
    return dataclasses.replace(made, **changes)
