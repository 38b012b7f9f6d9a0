"""spec of a BookieCluster: what the user asks for. The operator never writes it."""

from enum import Enum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from bookie.base import quorums
from bookie_operator.model import rules
from bookie_operator.model.base import Model
from bookie_operator.model.storage import BY_NAME, Quantity, Storage
from bookie_operator.model.values import DURATION_PATTERN, parse_duration

Duration = Annotated[str, Field(pattern=DURATION_PATTERN, max_length=24)]
Label = Annotated[str, Field(max_length=253)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Zone(Model):
    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=20)
    node_selector: dict[str, Label] | None = Field(
        default=None,
        max_length=8,
        description="Labels of the nodes of this zone. When absent: {spec.placement.topologyKey: name}.",
    )


class MetadataSecuritySpec(Model):
    secret_name: str = Field(
        min_length=1,
        max_length=253,
        description="The Secret, in this namespace, from which the bookies read jaas.conf (SASL; section Client, as in"
        " Java), digest (Digest; USER:PASSWORD), ca.crt (TLS), tls.crt and tls.key (TLS Mutual).",
    )
    authentication: Literal["None", "SASL", "Digest"] = "SASL"
    acls: bool = Field(
        default=True, description="True: only that user may read and change what the bookies make in ZooKeeper."
    )
    tls: Literal["None", "Server", "Mutual"] = "None"


class MetadataService(Model):
    model_config = ConfigDict(json_schema_extra=rules.schema(rules.METADATA))

    uri: str = Field(
        pattern=r"^zk(\+[a-z]+)?://[^/]+(/[A-Za-z0-9_.-]+)+$",
        max_length=512,
        description="Where the metadata store is, such as zk+hierarchical://zk-0.zk:2181;zk-1.zk:2181/ledgers. Only the"
        " hosts may change later.",
    )
    expected_instance_id: str | None = Field(
        default=None,
        max_length=64,
        description="When set, the operator grants nothing while the metadata store has another instance id.",
    )
    initialize: Literal["IfAbsent", "Never"] = Field(
        default="Never",
        description="IfAbsent: a Job of the operator formats the metadata store if it is empty, and never again.",
    )
    session_timeout: Duration = "30s"
    security: MetadataSecuritySpec | None = Field(
        default=None,
        description="How the bookies prove who they are to ZooKeeper. When absent they do not, and talk without TLS.",
    )


class Quorum(Model):
    """The quorums that clients use. The operator computes from them how many bookies may be without data at once."""

    model_config = ConfigDict(json_schema_extra=rules.schema(rules.QUORUM))

    ensemble_size: int = Field(default=3, ge=1, le=64)
    write_quorum: int = Field(default=3, ge=1, le=64)
    ack_quorum: int = Field(default=2, ge=1, le=64)


class Regeneration(Enum):
    GATED = "Gated"
    MANUAL = "Manual"
    BOOKIE_LOCAL = "BookieLocal"


class RepairSpec(Model):
    regeneration: Regeneration = Field(
        default=Regeneration.GATED,
        description="Who lets a bookie that lost its data take its identity back. Gated: the operator, when all gates"
        " are open. Manual: a person approves each case. BookieLocal: the bookie itself, without proof, which only"
        " throw-away clusters can afford.",
    )
    max_concurrent: int = Field(default=1, ge=1, le=8, description="How many bookies may heal at once.")
    max_per_day: int = Field(
        default=3, ge=0, le=20, description="After this many regenerations in 24 hours the operator waits for a person."
    )
    stabilization: Duration = Field(
        default="90s",
        description="The operator grants only after it has seen the same evidence three times over this time.",
    )
    peer_grace: Duration = Field(
        default="10m", description="How long a grant waits for each other bookie that is down."
    )
    reattach_grace: Duration = Field(
        default="15m", description="How long a grant waits while the old volume still exists."
    )
    copy_rate: Quantity | None = Field(
        default=None, description="How many bytes per second a bookie copies while it heals."
    )


class Disruption(Model):
    pdb: bool = Field(default=True, description="True: the operator keeps a PodDisruptionBudget over all bookies.")
    max_unavailable: int = Field(
        default=1,
        ge=0,
        le=8,
        description="How many pods may be evicted at once. The operator sets 0 while a bookie is without its data.",
    )


class Toleration(Model):
    key: str | None = Field(default=None, max_length=316)
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = Field(default=None, max_length=63)
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Placement(Model):
    topology_key: str = Field(default="topology.kubernetes.io/zone", max_length=316)
    anti_affinity: Literal["Required", "Preferred", "None"] = Field(
        default="Required",
        description="Required: two bookies of this cluster never share a node. Preferred: they share one if there is no"
        " other. None: they may.",
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
    limits: dict[str, Quantity] = Field(
        default={},
        max_length=8,
        description="Limits of each bookie's container. Without one for memory the operator sets what the caches and"
        " clients of a bookie may take.",
    )
    tmp_size: Quantity = "256Mi"


class Ports(Model):
    model_config = ConfigDict(json_schema_extra=rules.schema(rules.PORTS))

    data: Port = 3181
    admin: Port = Field(default=3182, description="Kubelets ask here for health. The bookie answers nothing else here.")
    admin_tls: Port = Field(default=3184, description="The operator calls the bookies here, over mutual TLS.")
    metrics: Port = 3183

    def by_name(self) -> tuple[tuple[str, int], ...]:
        return (("data", self.data), ("admin", self.admin), ("admin-tls", self.admin_tls), ("metrics", self.metrics))


class NetworkSpec(Model):
    ports: Ports = Ports()
    cluster_domain: str = Field(default="cluster.local", max_length=63, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")


class RolloutSpec(Model):
    """How pods come to run what the spec says now."""

    strategy: Literal["Automatic", "Manual"] = Field(
        default="Manual",
        description="Automatic: the operator stops one bookie after the other, zone by zone, each when all gates are"
        " open, so that its pod comes back with what the spec says. Manual: a pod takes it when a person deletes it.",
    )
    paused: bool = Field(
        default=False,
        description="True: the operator stops no further bookie, until this is false again. What is broken stays so.",
    )
    soak_seconds: int = Field(
        default=10,
        ge=0,
        le=86_400,
        description="How long a bookie must have been ready before the operator stops the next one.",
    )
    max_seconds_per_bookie: int = Field(
        default=1800,
        ge=60,
        le=86_400,
        description="After so long without the bookie back in service, the roll-out counts as halted (condition"
        " Stalled). The operator goes on as soon as the bookie serves, or the spec is corrected.",
    )


class Lifecycle(Model):
    paused: bool = Field(
        default=False,
        description="True: the operator observes, reports and keeps the disruption budget, and changes nothing else.",
    )
    deletion_protection: bool = Field(
        default=True,
        description="True: the API server refuses to delete this resource (by a policy of the operator's chart,"
        " in the namespaces that the operator watches). The claims stay in any case; nothing protects them.",
    )
    termination_grace: Duration = "5m"


class PullSecret(Model):
    name: str = Field(max_length=253)


class BookieClusterSpec(Model):
    model_config = ConfigDict(json_schema_extra=rules.schema(rules.SPEC))

    image: str | None = Field(
        default=None, max_length=512, description="The bookies' image. When absent: that of the operator's release."
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[PullSecret, ...] = Field(default=(), max_length=8, json_schema_extra=BY_NAME)
    replicas: int = Field(ge=1, le=150, description="How many bookies all zones have together.")
    zones: tuple[Zone, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=9,
        json_schema_extra=BY_NAME | rules.schema(rules.ZONES),
        description="The operator makes one StatefulSet for each zone and splits the bookies evenly. A zone keeps every"
        " bookie that it ever had. When absent: one StatefulSet without a zone.",
    )
    metadata_service: MetadataService
    quorum: Quorum = Quorum()
    storage: Storage
    repair: RepairSpec = RepairSpec()
    disruption: Disruption = Disruption()
    placement: Placement = Placement()
    resources: Resources = Resources()
    config: dict[str, Annotated[str, Field(max_length=1024)]] | None = Field(
        default=None, max_length=200, description="More settings of the bookies, by their names in bk_server.conf."
    )
    network: NetworkSpec = NetworkSpec()
    rollout: RolloutSpec = RolloutSpec()
    lifecycle: Lifecycle = Lifecycle()

    @property
    def tolerance(self) -> int:
        """How many bookies may be without their data at once: ackQuorum - 1 (spec/operator.md#K12)."""
        return quorums.tolerance(self.quorum.ack_quorum)

    @property
    def stabilization_ms(self) -> int:
        return parse_duration(self.repair.stabilization)
