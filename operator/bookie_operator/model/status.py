"""status of a BookieCluster: what the operator saw, concluded and promised (spec/operator.md#K17).

Written by server-side apply only when it differs from what is stored. It holds no heartbeat: a field that changed on
each pass would make every pass cause the next one. It may be lost at any time (deleted resource): identity of volumes
lives on the claims, and what else must not be forgotten is in the record (`resources/record.py`).
"""

from pydantic import Field
from pydantic.config import JsonDict

from bookie_operator.model.base import Model
from bookie_operator.model.storage import BY_NAME

BY_TYPE: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
HISTORY_MAX = 20  # not less than the greatest maxPerDay: it is the memory of the brake


class Condition(Model):
    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str
    observed_generation: int


class OperatorStatus(Model):
    version: str = ""
    epoch: int = 0  # how often this cluster's leader changed; in every grant
    leader: str = ""  # the term that took this epoch


class MetadataStatus(Model):
    initialized_at: str | None = None  # the Job ran, or bookies were seen serving: never initialise again
    uri: str | None = None  # the store that this is said of
    reachable: bool | None = None  # by some bookie; absent: no bookie was seen


class PoolStatus(Model):
    name: str
    zone: str | None = None
    stateful_set: str
    desired: int
    current: int
    ready: int
    updated: int


class Budget(Model):
    """How many bookies may be away, and how the operator computed it."""

    ack_quorum: int
    tolerance: int
    dataless: int
    unavailable: int
    unseen: int = 0  # run, and give no report: in neither of the above
    effective_max_unavailable: int


class VolumeRecord(Model):
    """The identity that the volume had when it was last valid. The operator compares each later volume with it."""

    pvc_uid: str
    pv_name: str = ""
    pv_uid: str = ""
    fsid: str = ""
    incarnation: int


class VolumeStatus(Model):
    name: str
    role: str
    claim: str
    pvc_uid: str | None = None
    pv_name: str | None = None
    pv_uid: str | None = None
    mount: str | None = None
    contents: str | None = None
    verdict: str | None = None
    reason: str | None = None
    recorded: VolumeRecord | None = None


class LedgerCounts(Model):
    member: int = 0
    fenced: int = 0
    limbo: int = 0
    pending_repair: int = 0
    done: int = 0


class RepairProgress(Model):
    phase: str = ""
    percent: int = 0
    entries: int = 0
    bytes: int = 0
    bytes_per_second: int = 0
    entries_pending: int = -1
    phase_one_ms: int = 0
    blocked_ledgers: int = 0


class Suspicion(Model):
    """How often the operator saw the same evidence. sinceMs is in milliseconds, as stabilization may be seconds."""

    evidence: str
    observations: int
    since_ms: int


class ClosedGate(Model):
    name: str
    message: str


class GrantRecord(Model):
    """The record of one grant, written before the bookie hears of it, so that the next operator can send the same."""

    id: str
    bookie_id: str
    pod_uid: str
    evidence: str  # the operator's, over live objects and report
    report_evidence: str  # the bookie's: what its own fresh inspection must give again
    cookie_version: int
    new_incarnation: int
    profile: str
    epoch: int
    issued_at: str
    expires_at: str
    issued_by: str


class Process(Model):
    """A process of this bookie that may still run: that of the live pod, or of a pod without proof of its end."""

    pod_uid: str
    node: str = ""
    node_uid: str = ""
    grace_s: int = 0  # the pod's termination grace, seconds
    gone_since: str | None = None  # when its pod was first found gone


class BookieStatus(Model):
    """One bookie. Its name is its pod's, or its id where no pod of this cluster can run it."""

    name: str
    bookie_id: str
    pool: str
    seen_in: tuple[str, ...] = ()  # Spec, Pod, Claim, Cookie, Registration, Record: why it is listed
    zone: str | None = None
    node: str | None = None
    pod_uid: str | None = None
    state: str
    verdict: str
    reason: str
    message: str = ""
    since: str
    away_since: str | None = None  # when it was first seen not serving, in a row; absent while it serves
    incarnation: int = 0
    counted: str | None = None  # WithoutData, Away, NotSeen: how the gates count it; absent: as serving or never lived
    has_lived: bool = False  # it may hold data: a cookie, a mark on a claim or its service was seen, once
    boot_epoch: int = 0
    evidence: str | None = None
    volumes: tuple[VolumeStatus, ...] = Field(default=(), json_schema_extra=BY_NAME)
    ledgers: LedgerCounts | None = None
    progress: RepairProgress | None = None
    suspicion: Suspicion | None = None
    gates: tuple[ClosedGate, ...] = Field(default=(), json_schema_extra=BY_NAME)
    grant: GrantRecord | None = None
    processes: tuple[Process, ...] | None = None  # absent: never looked (an older operator's status)
    granted_by: str | None = None  # who allowed the present life, as the bookie's admin port knew him
    garbage_held_ledgers: int | None = Field(
        default=None,
        description="How many ledgers the bookie keeps that the metadata store no longer has, because more are gone"
        " than may go in a day. Absent while the bookie has not looked, or cannot tell.",
    )


class RolloutStep(Model):
    """The bookie whose turn it is. Stored before it hears of it, so that no other operator begins with another one."""

    bookie: str
    pod_uid: str  # of the pod that is to go
    begun_at: str
    was_writable: bool = True  # it took writes when its turn came, and takes them again when its turn is taken back


class RolloutStatus(Model):
    """How far the pods are with what the spec says now."""

    inputs: str  # digest of what the spec says of pods (resources/inputs.py)
    desired: int
    updated: int
    next: str | None = None  # whose turn comes next
    waiting_for: str | None = None  # why it has not come; absent while nothing is in the way
    step: RolloutStep | None = None


class HistoryEntry(Model):
    """One regeneration. The brake counts these: no more than repair.maxPerDay in a day."""

    grant_id: str
    bookie: str
    incarnation: int
    profile: str
    granted_at: str
    given_by: str = ""  # an operator's process, or whoever the bookie says took its place
    finished_at: str | None = None
    result: str = "Granted"
    ledgers: int = 0
    entries: int = 0
    bytes: int = 0
    phase_one_ms: int = 0


class BookieClusterStatus(Model):
    observed_generation: int = 0
    operator: OperatorStatus = OperatorStatus()
    phase: str = ""  # for people; tools read conditions
    conditions: tuple[Condition, ...] = Field(default=(), json_schema_extra=BY_TYPE)
    instance_id: str | None = None
    metadata: MetadataStatus | None = None
    replicas: int = 0
    ready_replicas: int = 0
    # Of what was seen; absent when nobody was. `unseen_bookies` stands next to them.
    writable_replicas: int | None = None
    limbo_bookies: int | None = None
    held_bookies: int | None = None
    unseen_bookies: int | None = Field(
        default=None,
        description="How many bookies of the spec have volumes that nobody looked at lately.",
    )
    selector: str = ""
    summary: str = ""
    healing: str | None = None
    blocked_by: str | None = None
    pools: tuple[PoolStatus, ...] = Field(default=(), json_schema_extra=BY_NAME)
    budget: Budget | None = None
    rollout: RolloutStatus | None = None
    bookies: tuple[BookieStatus, ...] = Field(default=(), json_schema_extra=BY_NAME)
    orphans: tuple[BookieStatus, ...] = Field(
        default=(),
        json_schema_extra=BY_NAME,
        description="Bookies that the spec does not ask for and that may hold data. Every gate counts them.",
    )
    history: tuple[HistoryEntry, ...] = ()

    def bookie(self, name: str) -> BookieStatus | None:
        return next((entry for entry in (*self.bookies, *self.orphans) if entry.name == name), None)

    def condition(self, kind: str) -> Condition | None:
        return next((entry for entry in self.conditions if entry.type == kind), None)
