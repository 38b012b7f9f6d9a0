"""spec.storage: which volumes a bookie has, by role, and how its journal is used (operators.md 2.1)."""

from enum import Enum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from bookie_operator.model import rules
from bookie_operator.model.base import Model
from bookie_operator.model.values import QUANTITY_PATTERN

Quantity = Annotated[str, Field(pattern=QUANTITY_PATTERN, max_length=32)]
# A DNS label that also becomes the name of a claim and of a mount directory. `bookie-` is the operator's own prefix.
VolumeName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=15)]
BY_NAME: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


class VolumeKind(Enum):
    CLAIM = "Claim"
    LOCAL_DISK = "LocalDisk"


class Volume(Model):
    """One claim. No schema defaults here: they would make GitOps tools see drift inside a list (operators.md 2)."""

    name: VolumeName = Field(description="Names the claim and the mount directory; cannot change.")
    size: Quantity = Field(description="Requested size, such as 100Gi.")
    kind: VolumeKind | None = Field(
        default=None,
        description="Claim (when absent): any volume that follows its claim. LocalDisk: a claim on a disk that stays"
        " with its node.",
    )
    storage_class_name: str | None = Field(default=None, max_length=253, description="Absent: the default class.")
    access_mode: Literal["ReadWriteOncePod", "ReadWriteOnce"] | None = Field(
        default=None, description="Absent: ReadWriteOncePod."
    )
    allow_shared_filesystem: bool | None = Field(
        default=None,
        description="For local-path style provisioners, whose volumes share the node's disk and cannot be proven"
        " mounted: a regeneration then also needs a changed PersistentVolume UID.",
    )

    @property
    def is_local_disk(self) -> bool:
        return self.kind is VolumeKind.LOCAL_DISK

    @property
    def shares_filesystem(self) -> bool:
        return bool(self.allow_shared_filesystem)


class VolumeSet(Model):
    volumes: tuple[Volume, ...] = Field(min_length=1, max_length=16, json_schema_extra=BY_NAME)


class JournalVolumes(Model):
    volumes: tuple[Volume, ...] = Field(min_length=1, max_length=4, json_schema_extra=BY_NAME)


class IndexVolumes(Model):
    volumes: tuple[Volume, ...] = Field(default=(), max_length=4, json_schema_extra=BY_NAME)


class Storage(Model):
    model_config = ConfigDict(json_schema_extra=rules.schema(rules.STORAGE))

    journal_write_data: bool = Field(
        default=True,
        description="False: entries are not written to the journal and survive by replication alone (BP-46); a bookie"
        " that stops uncleanly puts its open ledgers in limbo.",
    )
    acknowledge_no_journal: Literal["IAcceptLossOnCorrelatedPowerFailure"] | None = Field(
        default=None, description="Needed for journalWriteData: false over fewer than three zones."
    )
    journal: JournalVolumes
    ledgers: VolumeSet
    index: IndexVolumes = Field(default=IndexVolumes(), description="Empty: the index lives on the ledger volumes.")

    def by_role(self) -> tuple[tuple[str, Volume], ...]:
        """(role, volume) of every volume, in the order of mounting: journal, ledgers, index."""
        return tuple(
            (role, volume)
            for role, volumes in (
                ("journal", self.journal.volumes),
                ("ledgers", self.ledgers.volumes),
                ("index", self.index.volumes),
            )
            for volume in volumes
        )
