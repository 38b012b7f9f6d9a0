"""spec.storage: which volumes a bookie has, by role, and how its journal is used (spec/operator.md#K15)."""

from collections.abc import Collection
from enum import Enum
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.config import JsonDict

from bookie_operator.model import cel, shapes, volume_rules
from bookie_operator.model.base import Model

Quantity = Annotated[str, Field(max_length=32), shapes.QUANTITY]
# Of a container's resources, where everybody writes numbers as well (`cpu: 2`). The one text with a `pattern`: where a
# number may stand the API server estimates a rule's cost for a text of three megabytes, and refuses every rule.
Amount = Annotated[
    str,
    BeforeValidator(shapes.number_as_text),
    Field(max_length=32),
    AfterValidator(shapes.QUANTITY.check),
    WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "minimum": 0, "maxLength": 32, "pattern": shapes.QUANTITY.pattern}
    ),
]
# A DNS label that also becomes the name of a claim and of a mount directory. `bookie-` is the operator's own prefix.
VolumeName = Annotated[str, Field(max_length=15), shapes.VOLUME_NAME]
BY_NAME: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


class VolumeKind(Enum):
    CLAIM = "Claim"
    LOCAL_DISK = "LocalDisk"
    EPHEMERAL = "Ephemeral"


class VolumeSpec(Model):
    """One volume of each bookie, and the claim that asks for it."""

    # No defaults in here: GitOps tools would see drift inside the list for ever (spec/operator.md#K14).

    name: VolumeName = Field(description="The claim and the mount directory are named after it. It cannot change.")
    size: Quantity = Field(description="The size that the claim requests, such as 100Gi. It may grow.")
    kind: VolumeKind | None = Field(
        default=None,
        description="Claim, or absent: a volume that goes where its claim goes. LocalDisk: a disk that stays with its"
        " node. Ephemeral: a directory of the node's disk that goes with the pod (emptyDir), for all volumes of a"
        " bookie or for none. Its bookie is never stopped with data on it: another image, other settings and a node"
        " that is drained have it drained first, proven to be named by no ledger, and begun anew. The pod requests the"
        " size as ephemeral-storage.",
    )
    storage_class_name: str | None = Field(
        default=None, max_length=253, description="The claim's storage class. When absent: the default one."
    )
    access_mode: Literal["ReadWriteOncePod", "ReadWriteOnce"] | None = Field(
        default=None, description="The claim's access mode. When absent: ReadWriteOncePod."
    )
    allow_shared_filesystem: bool | None = Field(
        default=None,
        description="True where volumes are directories on the node's disk (local-path provisioners): nobody can prove"
        " that such a volume is mounted, so the operator calls it lost only when its PersistentVolume is another.",
    )

    added: Literal[True] | None = Field(
        default=None,
        description="True for a ledger volume, and the volume of its index, at the end of their lists that bookies"
        " which live already are to get: one after the other, by a restart. New ledgers use it; what is there stays"
        " where it is. It can be taken back while status.addedVolumes does not name it, and stays true for ever.",
    )

    @property
    def is_local_disk(self) -> bool:
        return self.kind is VolumeKind.LOCAL_DISK

    @property
    def is_ephemeral(self) -> bool:
        return self.kind is VolumeKind.EPHEMERAL

    @property
    def shares_filesystem(self) -> bool:
        return bool(self.allow_shared_filesystem) or self.is_ephemeral


class VolumeSet(Model):
    volumes: tuple[VolumeSpec, ...] = Field(
        min_length=1, max_length=volume_rules.VOLUMES_MAX["ledgers"], json_schema_extra=BY_NAME
    )


class JournalVolumes(Model):
    volumes: tuple[VolumeSpec, ...] = Field(
        min_length=1, max_length=volume_rules.VOLUMES_MAX["journal"], json_schema_extra=BY_NAME
    )


class IndexVolumes(Model):
    volumes: tuple[VolumeSpec, ...] = Field(
        default=(), max_length=volume_rules.VOLUMES_MAX["index"], json_schema_extra=BY_NAME
    )


class PoolIndexVolumes(Model):
    volumes: tuple[VolumeSpec, ...] = Field(
        min_length=1, max_length=volume_rules.VOLUMES_MAX["index"], json_schema_extra=BY_NAME
    )


class PoolStorage(Model):
    """The volumes of one pool's bookies. How the journal is used, and what becomes of claims, is the same for all."""

    model_config = ConfigDict(json_schema_extra=cel.schema(volume_rules.POOL_STORAGE))

    journal: JournalVolumes
    ledgers: VolumeSet
    index: PoolIndexVolumes | None = Field(
        default=None, description="Volumes of the index. When absent, the index is on the ledger volumes."
    )


class Retention(Model):
    """What becomes of the claims of a bookie that left."""

    on_scale_down: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="Retain: the claims stay until a person deletes them, and no new bookie gets their names before."
        " Delete: the operator deletes them after keepFor, and only by the stored proof that no ledger named the"
        " bookie.",
    )
    keep_for: Annotated[str, Field(max_length=24), shapes.DURATION] = Field(
        default="24h",
        description="How long onScaleDown: Delete waits. Not at all when the spec asks for the same bookie again.",
    )


class Storage(Model):
    model_config = ConfigDict(json_schema_extra=cel.schema(volume_rules.STORAGE))

    journal_write_data: bool = Field(
        default=True,
        description="False: bookies write no entries to the journal, and entries survive by replication alone (BP-46)."
        ' A bookie that stops uncleanly then answers "unknown" for its open ledgers until it has repaired them.',
    )
    acknowledge_no_journal: Literal["IAcceptLossOnCorrelatedPowerFailure"] | None = Field(
        default=None,
        description="The signature that journalWriteData: false needs over fewer than three zones.",
    )
    journal: JournalVolumes
    ledgers: VolumeSet
    index: IndexVolumes = Field(
        default=IndexVolumes(), description="Volumes of the index. When empty, the index is on the ledger volumes."
    )
    retention: Retention = Retention()
    layout_change: Literal["Refuse", "RollingRebuild"] = Field(
        default="Refuse",
        description="Refuse: class, access mode and a smaller size cannot change. RollingRebuild: they can, and one"
        " bookie after the other is drained, proven to be named by no ledger, forgotten, and begun anew on claims as"
        " the spec says. Setting the spec back, or Refuse, ends that at any point before a cookie goes.",
    )

    @property
    def is_ephemeral(self) -> bool:
        """True where the volumes of a bookie go with its pod: all of them do, or none."""
        return any(volume.is_ephemeral for _, volume in self.by_role())

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the volumes that are added to bookies which live."""
        return tuple(volume.name for _, volume in self.by_role() if volume.added)

    def without(self, names: Collection[str]) -> "Storage":
        """The same, as it was before the volumes `names` were added."""
        ledgers, index = (
            tuple(volume for volume in of.volumes if volume.name not in names) for of in (self.ledgers, self.index)
        )
        return self.model_copy(update={"ledgers": VolumeSet(volumes=ledgers), "index": IndexVolumes(volumes=index)})

    def by_role(self) -> tuple[tuple[str, VolumeSpec], ...]:
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
