"""spec of a BookieCluster: what the user asks for. The operator never writes it."""

from enum import Enum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from bookie_operator.model import names, rules
from bookie_operator.model.base import Model
from bookie_operator.model.storage import BY_NAME, Quantity, Storage
from bookie_operator.model.values import DURATION_PATTERN, parse_duration

Duration = Annotated[str, Field(pattern=DURATION_PATTERN, max_length=24)]
Label = Annotated[str, Field(max_length=253)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Zone(Model):
    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=20)
    node_selector: dict[str, Label] | None = Field(
        default=None, max_length=8, description="Absent: {spec.placement.topologyKey: name}."
    )


class MetadataService(Model):
    model_config = ConfigDict(json_schema_extra=rules.schema(rules.METADATA))

    uri: str = Field(
        pattern=r"^zk(\+[a-z]+)?://[^/]+(/[A-Za-z0-9_.-]+)+$",
        max_length=512,
        description="Such as zk+hierarchical://zk-0.zk:2181;zk-1.zk:2181/ledgers. Only the hosts may change later.",
    )
    expected_instance_id: str | None = Field(
        default=None, max_length=64, description="When set, another instance id stops everything (WrongMetadataStore)."
    )
    initialize: Literal["IfAbsent", "Never"] = Field(
        default="Never", description="IfAbsent: a Job formats the metadata once, when there is none. Never repeated."
    )
    session_timeout: Duration = "30s"


class Quorum(Model):
    """What the clients use; the safety arithmetic of repairs is made from it."""

    model_config = ConfigDict(json_schema_extra=rules.schema(rules.QUORUM))

    ensemble_size: int = Field(default=3, ge=1, le=64)
    write_quorum: int = Field(default=3, ge=1, le=64)
    ack_quorum: int = Field(default=2, ge=1, le=64)


class Regeneration(Enum):
    GATED = "Gated"
    MANUAL = "Manual"
    BOOKIE_LOCAL = "BookieLocal"


class Repair(Model):
    regeneration: Regeneration = Field(
        default=Regeneration.GATED,
        description="Who may let an empty bookie take its identity back. Gated: the operator, when every gate is open."
        " Manual: each waits for a person. BookieLocal: the bookie itself, without proof; for throw-away clusters.",
    )
    max_concurrent: int = Field(default=1, ge=1, le=8)
    max_per_day: int = Field(
        default=3, ge=0, le=20, description="Brake: more regenerations than this in 24 h wait for a person."
    )
    stabilization: Duration = Field(default="90s", description="The same verdict, three times, over this long.")
    peer_grace: Duration = Field(default="10m", description="How long a grant waits for other bookies that are down.")
    reattach_grace: Duration = Field(default="15m", description="How long a grant waits while the old volume exists.")
    copy_rate: Quantity | None = Field(default=None, description="Bytes per second one bookie copies while it heals.")


class Disruption(Model):
    pdb: bool = True
    max_unavailable: int = Field(default=1, ge=0, le=8, description="Ceiling; 0 while data is at risk.")


class Toleration(Model):
    key: str | None = Field(default=None, max_length=316)
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = Field(default=None, max_length=63)
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Placement(Model):
    topology_key: str = Field(default="topology.kubernetes.io/zone", max_length=316)
    anti_affinity: Literal["Required", "Preferred", "None"] = Field(
        default="Required", description="Bookies of one cluster on different hosts."
    )
    zone_source: Literal["Static", "PodLabel"] = Field(
        default="Static",
        description="Where a bookie learns its zone. Static: the name in spec.zones. PodLabel: the pod's own"
        " topology.kubernetes.io/zone label (Kubernetes 1.35 and later).",
    )
    node_selector: dict[str, Label] = Field(default={}, max_length=16)
    tolerations: tuple[Toleration, ...] = Field(
        default=(), max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    priority_class_name: str | None = Field(default=None, max_length=253)


class Resources(Model):
    requests: dict[str, Quantity] = Field(default={"cpu": "500m", "memory": "2Gi"}, max_length=8)
    limits: dict[str, Quantity] = Field(default={}, max_length=8)
    tmp_size: Quantity = "256Mi"


class Ports(Model):
    model_config = ConfigDict(json_schema_extra=rules.schema(rules.PORTS))

    data: Port = 3181
    admin: Port = 3182
    metrics: Port = 9100


class Network(Model):
    ports: Ports = Ports()
    cluster_domain: str = Field(default="cluster.local", max_length=63, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")


class Lifecycle(Model):
    paused: bool = Field(default=False, description="Observe, report, keep the disruption budget; nothing else.")
    deletion_protection: bool = Field(
        default=True,
        description="DELETE is refused (admission policy in the operator's chart).",
    )
    termination_grace: Duration = "5m"


class PullSecret(Model):
    name: str = Field(max_length=253)


class BookieClusterSpec(Model):
    model_config = ConfigDict(json_schema_extra=rules.schema(rules.SPEC))

    image: str | None = Field(default=None, max_length=512, description="Absent: the image of the operator's release.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[PullSecret, ...] = Field(default=(), max_length=8, json_schema_extra=BY_NAME)
    replicas: int = Field(ge=1, le=150, description="Bookies in all zones together.")
    zones: tuple[Zone, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=9,
        json_schema_extra=BY_NAME | rules.schema(rules.ZONES),
        description="One StatefulSet each, split evenly, the first get the rest. Absent: one pool without a zone.",
    )
    metadata_service: MetadataService
    quorum: Quorum = Quorum()
    storage: Storage
    repair: Repair = Repair()
    disruption: Disruption = Disruption()
    placement: Placement = Placement()
    resources: Resources = Resources()
    config: dict[str, Annotated[str, Field(max_length=1024)]] | None = Field(
        default=None, max_length=200, description="More settings of the bookie, by the names of bk_server.conf."
    )
    admin_token_secret: str | None = Field(
        default=None,
        max_length=253,
        description="A Secret of this namespace whose key `token` callers of the admin port must know; the operator has"
        " to be given the same one (values.adminToken of its chart).",
    )
    network: Network = Network()
    lifecycle: Lifecycle = Lifecycle()

    @property
    def tolerance(self) -> int:
        """How many bookies may be without their data at once: ackQuorum - 1 (operators.md 3.5, A - 1)."""
        return self.quorum.ack_quorum - 1

    def pools(self) -> tuple[tuple[str, Zone | None, int], ...]:
        """(name, zone, replicas) of every pool. An even split; the first pools get one more."""
        if self.zones is None:
            return ((names.POOL_DEFAULT, None, self.replicas),)
        each, rest = divmod(self.replicas, len(self.zones))
        return tuple((zone.name, zone, each + (index < rest)) for index, zone in enumerate(self.zones))

    @property
    def stabilization_ms(self) -> int:
        return parse_duration(self.repair.stabilization)
