"""status of a BookieCluster: what the operator saw, concluded and promised (operators.md 2.3).

Written by server-side apply only when it differs from what is stored. It holds no heartbeat: a field that changed on
each pass would make every pass cause the next one. It may be lost at any time (deleted resource): identity of volumes
lives on the claims, and nothing here is the only evidence for anything but the old volumes of a shared disk.
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
    epoch: int = 0


class MetadataStatus(Model):
    initialized_at: str | None = None  # the Job ran, or bookies were seen serving: never initialise again
    reachable: bool = True


class PoolStatus(Model):
    name: str
    zone: str | None = None
    stateful_set: str
    desired: int
    current: int
    ready: int
    updated: int


class Budget(Model):
    """The arithmetic of disruption, shown openly."""

    ack_quorum: int
    tolerance: int
    dataless: int
    unavailable: int
    effective_max_unavailable: int


class VolumeRecord(Model):
    """The identity of a volume when it was last seen valid: what a new volume is compared with."""

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


class Progress(Model):
    phase: str = ""
    percent: int = 0
    entries: int = 0
    bytes: int = 0
    bytes_per_second: int = 0
    entries_pending: int = -1
    phase_one_ms: int = 0
    blocked_ledgers: int = 0


class Suspicion(Model):
    """How often the same evidence was seen. `since_ms` in milliseconds, because stabilization may be seconds."""

    evidence: str
    observations: int
    since_ms: int


class ClosedGate(Model):
    name: str
    message: str


class Grant(Model):
    """The write-ahead record of one grant (operators.md 3.6, step 3). It is here before the bookie hears of it."""

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


class BookieStatus(Model):
    name: str
    bookie_id: str
    pool: str
    zone: str | None = None
    node: str | None = None
    pod_uid: str | None = None
    state: str
    verdict: str
    reason: str
    message: str = ""
    since: str
    incarnation: int = 0
    boot_epoch: int = 0
    evidence: str | None = None
    volumes: tuple[VolumeStatus, ...] = Field(default=(), json_schema_extra=BY_NAME)
    ledgers: LedgerCounts | None = None
    progress: Progress | None = None
    suspicion: Suspicion | None = None
    gates: tuple[ClosedGate, ...] = Field(default=(), json_schema_extra=BY_NAME)
    grant: Grant | None = None


class HistoryEntry(Model):
    """One regeneration. Also the memory of the brake (gate G8)."""

    grant_id: str
    bookie: str
    incarnation: int
    profile: str
    granted_at: str
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
    writable_replicas: int = 0
    limbo_bookies: int = 0
    held_bookies: int = 0
    selector: str = ""
    summary: str = ""
    healing: str | None = None
    blocked_by: str | None = None
    pools: tuple[PoolStatus, ...] = Field(default=(), json_schema_extra=BY_NAME)
    budget: Budget | None = None
    bookies: tuple[BookieStatus, ...] = Field(default=(), json_schema_extra=BY_NAME)
    history: tuple[HistoryEntry, ...] = ()

    def bookie(self, name: str) -> BookieStatus | None:
        return next((entry for entry in self.bookies if entry.name == name), None)

    def condition(self, kind: str) -> Condition | None:
        return next((entry for entry in self.conditions if entry.type == kind), None)
