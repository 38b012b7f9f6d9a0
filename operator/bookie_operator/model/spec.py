"""spec of a BookieCluster: what the user asks for. The operator never writes it."""

from enum import Enum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from bookie.base import quorums
from bookie_operator.model import cel, rules, shapes
from bookie_operator.model.base import Model
from bookie_operator.model.pod_template import PodTemplate
from bookie_operator.model.security import SecuritySpec
from bookie_operator.model.storage import BY_NAME, Amount, IndexVolumes, PoolStorage, Quantity, Storage
from bookie_operator.model.values import parse_duration

Duration = Annotated[str, Field(max_length=24), shapes.DURATION]
PoolName = Annotated[str, Field(max_length=20), shapes.POOL_NAME]
Label = Annotated[str, Field(max_length=253)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Zone(Model):
    name: PoolName
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
    model_config = ConfigDict(json_schema_extra=cel.schema(rules.METADATA))

    uri: Annotated[str, shapes.METADATA_URI] = Field(
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

    model_config = ConfigDict(json_schema_extra=cel.schema(rules.QUORUM))

    ensemble_size: int = Field(default=3, ge=1, le=64)
    write_quorum: int = Field(default=3, ge=1, le=64)
    ack_quorum: int = Field(default=2, ge=1, le=64)


class Regeneration(Enum):
    GATED = "Gated"
    MANUAL = "Manual"
    BOOKIE_LOCAL = "BookieLocal"


class LostNodeSpec(Model):
    """What becomes of a bookie whose LocalDisk volumes are on a node that is gone."""

    policy: Literal["Wait", "Replace"] = Field(
        default="Wait",
        description="Wait: the bookie waits for its node. Replace: once the Node is deleted, or tainted"
        " node.kubernetes.io/out-of-service and not ready, for so long as `after`, with proof that no process of the"
        " bookie runs there, and every other bookie in service, the operator deletes the claims of that node's disks:"
        " the bookie comes back elsewhere, without its data, and is repaired.",
    )
    after: Duration = "30m"


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
    max_per_day_per_zone: int | None = Field(
        default=None,
        ge=0,
        le=20,
        description="The same for the bookies of one zone alone: disks of a zone that vanish one after the other have"
        " one cause. When absent: maxPerDay alone.",
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
    lost_node: LostNodeSpec = LostNodeSpec()
    local_disk_reset: Literal["Hold", "Auto"] = Field(
        default="Hold",
        description="What becomes of a LocalDisk volume that is empty, on another file system than before. Hold: a"
        " person decides. Auto: if its mount is proven and its machine booted anew or was made anew since it was"
        " last valid, it counts as lost, and the bookie is repaired when all gates are open. The operator must be able"
        " to read Nodes, and the disk must be mounted by a name that is the same after each boot.",
    )
    stale_volume: Literal["Hold", "Repair"] = Field(
        default="Hold",
        description="What becomes of a volume that went back in time (a snapshot was restored, an old disk attached)."
        " Hold: a person decides, and may bring the newer volume back. Repair: what it lacks is given up; the bookie"
        " keeps what is there and is repaired from the others when all gates are open.",
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

    on_drain: Literal["Restart", "ReadOnlyFirst"] = Field(
        default="Restart",
        description="What becomes of a bookie whose node is drained (cordoned, or tainted by an autoscaler). Restart:"
        " its eviction is refused while another bookie repairs itself or is being stopped, and ends it otherwise."
        " ReadOnlyFirst: no bookie may be evicted until the operator, which has to read Nodes, had it flush and take"
        " no more writes while all gates of a stop were open; then exactly that one may be.",
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


class PoolPlacement(Placement):
    """The placement of a pool whose bookies may share a node, as `BookieClusterSpec.of` lays it: no field of the
    resource."""

    per_node: int


class Resources(Model):
    requests: dict[str, Amount] = Field(default={"cpu": "500m", "memory": "2Gi"}, max_length=8)
    limits: dict[str, Amount] = Field(
        default={},
        max_length=8,
        description="Limits of each bookie's container. Without one for memory the operator sets what the caches and"
        " clients of a bookie may take.",
    )
    tmp_size: Quantity = "256Mi"


class AutoRecoveryResources(Model):
    requests: dict[str, Amount] = Field(default={"cpu": "100m", "memory": "128Mi"}, max_length=8)
    limits: dict[str, Amount] = Field(default={}, max_length=8)


class AutoRecoverySpec(Model):
    """Processes beside the bookies that bring missing replicas back (`bookie autorecovery run`)."""

    enabled: bool = Field(
        default=False,
        description="True: a Deployment audits the ledgers and mends what lacks replicas, with the bookies' image,"
        " settings and Secrets. False: none runs; marks that stand in the metadata store stay.",
    )
    replicas: int = Field(
        default=1, ge=1, le=8, description="How many work at once; one of them, by vote, audits as well."
    )
    loss_delay: Duration = Field(
        default="10m",
        description="How long a bookie may be away before its ledgers are copied to others. Longer than a restart"
        " takes. A delay that somebody set in the metadata store (`bookie autorecovery delay`) wins.",
    )
    resources: AutoRecoveryResources = AutoRecoveryResources()


class Ports(Model):
    model_config = ConfigDict(json_schema_extra=cel.schema(rules.PORTS))

    data: Port = 3181
    admin: Port = Field(default=3182, description="Kubelets ask here for health. The bookie answers nothing else here.")
    admin_tls: Port = Field(default=3184, description="The operator calls the bookies here, over mutual TLS.")
    metrics: Port = 3183

    def by_name(self) -> tuple[tuple[str, int], ...]:
        return (("data", self.data), ("admin", self.admin), ("admin-tls", self.admin_tls), ("metrics", self.metrics))


class NetworkSpec(Model):
    model_config = ConfigDict(json_schema_extra=cel.schema(rules.NETWORK))

    ports: Ports = Ports()
    ip_family_policy: Literal["SingleStack", "PreferDualStack", "RequireDualStack"] | None = Field(
        default=None,
        description="Which addresses the names of the bookies have, as in a Service. When absent: one, of the family"
        " that Kubernetes has first.",
    )
    ip_families: tuple[Literal["IPv4", "IPv6"], ...] = Field(
        default=(),
        max_length=2,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
        description="One with SingleStack, both in the order wanted with RequireDualStack; the first cannot change.",
    )
    cluster_domain: Annotated[str, shapes.DOMAIN] = Field(default="cluster.local", max_length=63)


class Canary(Model):
    """The first bookies that run something new, watched for longer than each later one."""

    count: int = Field(
        default=0, ge=0, le=16, description="So many bookies come first. 0: all bookies are treated alike."
    )
    soak_seconds: int = Field(
        default=600,
        ge=0,
        le=604_800,
        description="How long that many bookies must have been ready with what the spec says before the operator stops"
        " the next one.",
    )


class MaintenanceWindow(Model):
    schedule: Annotated[str, shapes.SCHEDULE] = Field(
        max_length=128,
        description="When it opens, as in a CronJob: minute, hour, day of month, month, day of week, such as"
        " '0 2 * * SAT'.",
    )
    duration: Duration = Field(
        description="How long it is open: maxSecondsPerBookie at least (else no step would ever fit), 168h at most."
    )
    time_zone: Annotated[str, Field(max_length=64), shapes.TIME_ZONE] | None = Field(
        default=None,
        description="Whose clock the schedule goes by, such as Europe/Berlin. When absent: UTC.",
    )


class RolloutSpec(Model):
    """How pods come to run what the spec says now."""

    model_config = ConfigDict(json_schema_extra=cel.schema(rules.ROLLOUT))

    strategy: Literal["Automatic", "Manual"] = Field(
        default="Automatic",
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
    canary: Canary = Canary()
    on_failure: Literal["Halt", "Rollback"] = Field(
        default="Halt",
        description="What follows when a bookie does not come back with what the spec says. Halt: the others stay as"
        " they are, until the spec is corrected. Rollback: all bookies go back to what worked before; the spec stays as"
        " it is, and is tried again when it changes. Strategy Manual takes nothing back: whoever deletes pods decides.",
    )
    max_seconds_per_bookie: int = Field(
        default=1800,
        ge=60,
        le=86_400,
        description="After so long without the bookie back in service, the roll-out counts as halted (condition"
        " Stalled). The operator goes on as soon as the bookie serves, or the spec is corrected.",
    )
    windows: tuple[MaintenanceWindow, ...] = Field(
        default=(),
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
        description="Maintenance windows: only within one, with maxSecondsPerBookie left of it, does the operator begin"
        " to stop a bookie or to let one leave of its own. Repairs never wait for one, and what has begun goes on."
        " When empty: always.",
    )
    ignore_windows_until: Annotated[str, Field(max_length=40), shapes.TIME] | None = Field(
        default=None,
        description="Until this time (RFC 3339, such as 2026-11-23T04:00:00Z) nothing waits for a window: for what"
        " cannot wait. It ends by itself.",
    )


class ScaleDownSpec(Model):
    """How bookies leave that the spec asks for no more."""

    open_ledgers: Literal["Wait", "Recover"] = Field(
        default="Wait",
        description="What becomes of ledgers that are still open. Wait: they are left alone until their writers close"
        " them or move on. Recover: the bookie closes them, which fences their writers.",
    )
    copy_rate: Quantity | None = Field(
        default=None,
        description="How many bytes per second a bookie copies away while it leaves. When absent: as for repairs.",
    )
    proof_interval: Duration = Field(
        default="2m",
        description="How long after a first bookie found no ledger that names the one that leaves a second one looks"
        " again. Longer than a session with the metadata store: a writer that lost touch may still name it until then.",
    )


class Lifecycle(Model):
    paused: bool = Field(
        default=False,
        description="True: the operator observes, reports and keeps the disruption budget, and changes nothing else.",
    )
    hibernate: bool = Field(
        default=False,
        description="True: every bookie flushes and refuses writes, then all pods go; claims, cookies, metadata and the"
        " record are kept. The operator waits for repairs, drains and turns that must not be cut off. False: the same"
        " bookies come back, whatever was edited meanwhile.",
    )
    deletion_protection: bool = Field(
        default=True,
        description="True: the API server refuses to delete this resource (by a policy of the operator's chart,"
        " in the namespaces that the operator watches). The claims stay in any case; nothing protects them.",
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="What becomes of the claims when this resource is deleted. Retain: they stay, with all data."
        " Delete: they go with it, and all data with them; only once the annotation bookie.dev/delete-data names the"
        " uid of this resource and deletionProtection is false. status.deletion says what would be lost.",
    )
    termination_grace: Duration = "5m"


class PoolResources(Model):
    requests: dict[str, Amount] | None = Field(default=None, max_length=8)
    limits: dict[str, Amount] | None = Field(default=None, max_length=8)


class Pool(Model):
    """Bookies of one shape. What it says wins over the same field of the spec, for its own bookies."""

    # No defaults in here (spec/operator.md#K14).

    model_config = ConfigDict(json_schema_extra=cel.schema(rules.POOL))

    name: PoolName = Field(description="The ids of its bookies contain it. It cannot change.")
    replicas: int = Field(
        ge=0, le=150, description="How many bookies it has. Lowered: the highest numbers leave by proof."
    )
    zone: PoolName | None = Field(
        default=None,
        description="The failure domain of its bookies, as clients see it. Several pools may be in one. It cannot"
        " change.",
    )
    node_selector: dict[str, Label] | None = Field(
        default=None,
        max_length=8,
        description="Labels of its nodes. When absent, and with a zone: {spec.placement.topologyKey: zone}. When"
        " given, it must pick nodes of that zone alone. It adds to spec.placement.nodeSelector.",
    )
    tolerations: tuple[Toleration, ...] | None = Field(
        default=None,
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
        description="They add to spec.placement.tolerations.",
    )
    resources: PoolResources | None = Field(
        default=None, description="Requests and limits, each instead of that of spec.resources as a whole."
    )
    storage: PoolStorage | None = Field(
        default=None, description="All volumes of its bookies, instead of those of spec.storage."
    )
    config: dict[str, Annotated[str, Field(max_length=1024)]] | None = Field(
        default=None, max_length=200, description="Settings, each instead of that of spec.config by the same name."
    )
    per_node: int | None = Field(
        default=None,
        ge=1,
        le=16,
        description="How many of its bookies may share one node, each on its own disks; those of other pools never do."
        " They publish their node, and clients put no two copies of an entry there while another bookie would do."
        " When absent: 1. It cannot be lowered.",
    )

    @property
    def node_max(self) -> int:
        """How many of its bookies one node may have."""
        return self.per_node or 1

    @property
    def nodes_min(self) -> int:
        """The fewest nodes that its bookies may be on."""
        return -(-self.replicas // self.node_max)


class PullSecret(Model):
    name: str = Field(max_length=253)


class BookieClusterSpec(Model):
    model_config = ConfigDict(json_schema_extra=cel.schema(rules.SPEC))

    image: str | None = Field(
        default=None, max_length=512, description="The bookies' image. When absent: that of the operator's release."
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[PullSecret, ...] = Field(default=(), max_length=8, json_schema_extra=BY_NAME)
    replicas: int | None = Field(
        default=None, ge=1, le=150, description="How many bookies all zones have together. Required without pools."
    )
    zones: tuple[Zone, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=9,
        json_schema_extra=BY_NAME | cel.schema(rules.ZONES),
        description="The operator makes one StatefulSet for each zone and splits the bookies evenly. A zone keeps every"
        " bookie that it ever had; a zone that is added gets the next ones, and nobody moves. When absent: one"
        " StatefulSet without a zone.",
    )
    pools: tuple[Pool, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=12,
        json_schema_extra=BY_NAME | cel.schema(rules.POOLS),
        description="Bookies of several shapes, instead of replicas and zones: one StatefulSet for each pool, with its"
        " own number, nodes, resources, volumes and settings.",
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
    security: SecuritySpec = SecuritySpec()
    autorecovery: AutoRecoverySpec = AutoRecoverySpec()
    pod_template: PodTemplate = Field(
        default=PodTemplate(), description="What every bookie's pod has beyond the fields of this spec."
    )
    rollout: RolloutSpec = RolloutSpec()
    scale_down: ScaleDownSpec = ScaleDownSpec()
    lifecycle: Lifecycle = Lifecycle()

    def of(self, pool: str) -> "BookieClusterSpec":
        """Return the spec as it is for the bookies of one pool: what that pool says, laid over what all have. The same
        when `spec.pools` does not name it. Its zone is `model/assignment.py`'s."""
        own = next((one for one in self.pools or () if one.name == pool), None)
        if own is None:
            return self
        placement = self.placement.model_copy(
            update={
                "tolerations": (*self.placement.tolerations, *(own.tolerations or ())),
                # With a zone its selector is the zone's, as in spec.zones: the pods are the same.
                "node_selector": self.placement.node_selector | ((own.node_selector or {}) if own.zone is None else {}),
            }
        )
        laid: dict[str, object] = {"placement": placement}
        if own.node_max > 1:
            laid["placement"] = PoolPlacement(**dict(placement), per_node=own.node_max)
        if own.config:
            laid["config"] = (self.config or {}) | own.config
        if own.resources is not None:
            given = {"requests": own.resources.requests, "limits": own.resources.limits}
            laid["resources"] = self.resources.model_copy(
                update={name: value for name, value in given.items() if value is not None}
            )
        if own.storage is not None:
            index = own.storage.index.volumes if own.storage.index is not None else ()
            laid["storage"] = self.storage.model_copy(
                update={
                    "journal": own.storage.journal,
                    "ledgers": own.storage.ledgers,
                    "index": IndexVolumes(volumes=index),
                }
            )
        return self.model_copy(update=laid)

    def shapes(self) -> tuple[tuple[str, "BookieClusterSpec"], ...]:
        """Return (pool, spec as it is for that pool); one with "" where there are no pools."""
        return (
            tuple((pool.name, self.of(pool.name)) for pool in self.pools) if self.pools is not None else (("", self),)
        )

    @property
    def size(self) -> int:
        """How many bookies the spec asks for."""
        return sum(pool.replicas for pool in self.pools) if self.pools is not None else self.replicas or 0

    @property
    def shares_nodes(self) -> bool:
        """Whether bookies may share a node by `perNode`: then what is lost or away is counted as plan/hosts.py says."""
        return any(pool.node_max > 1 for pool in self.pools or ())

    @property
    def has_ephemeral(self) -> bool:
        """Whether any bookie's volumes go with its pod."""
        return any(shape.storage.is_ephemeral for _, shape in self.shapes()) or self.storage.is_ephemeral

    @property
    def zone_names(self) -> frozenset[str]:
        """The failure domains that the spec names and asks bookies in."""
        if self.pools is not None:
            return frozenset(pool.zone for pool in self.pools if pool.zone is not None and pool.replicas)
        return frozenset(zone.name for zone in self.zones or ())

    @property
    def tolerance(self) -> int:
        """How many bookies may be without their data at once: ackQuorum - 1 (spec/operator.md#K12)."""
        return quorums.tolerance(self.quorum.ack_quorum)

    @property
    def stabilization_ms(self) -> int:
        return parse_duration(self.repair.stabilization)
