"""status of a BookieCluster: what the operator saw, concluded and promised (spec/operator.md#K17).

Written by server-side apply only when it differs from what is stored. It holds no heartbeat: a field that changed on
each pass would make every pass cause the next one. It may be lost at any time (deleted resource): identity of volumes
lives on the claims, and what else must not be forgotten is in the record (`resources/record.py`).
"""

import json
from enum import Enum
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict

from bookie.base.errors import BadInput
from bookie_operator.model import values
from bookie_operator.model.base import Model
from bookie_operator.model.storage import BY_NAME

BY_TYPE: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
CHANGED_CHARS_MAX = 253
CHANGED_MAX = 32  # fields of the spec that are named one by one
NOBODY_LOOKED = "?/"  # `summary` begins so when nobody could look at the bookies: what it says of them is of before
HISTORY_MAX = 20  # not less than the greatest maxPerDay: it is the memory of the brake


def _time(text: str) -> str:
    try:
        return values.check_time(text)
    except BadInput as error:
        raise ValueError(str(error)) from None


def _json_object(text: str) -> str:
    if text and not isinstance(json.loads(text), dict):
        raise ValueError("no JSON object")
    return text


PAST = "past"  # marks a time at which something happened: it is never later than now (dates.py)

# What passes read again is looked at here: a text that somebody edited makes the status lost, and breaks no pass.
Time = Annotated[str, AfterValidator(_time), PAST]
Deadline = Annotated[str, AfterValidator(_time)]
JsonText = Annotated[str, AfterValidator(_json_object)]  # "" = none


class Condition(Model):
    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: Time
    observed_generation: int


class OperatorStatus(Model):
    version: str = ""
    epoch: int = 0  # how often this cluster's leader changed; in every grant
    leader: str = ""  # the term that took this epoch
    owner: str = Field(
        default="", description="The operator that keeps this cluster: the namespace and name of its lease."
    )


class MetadataStatus(Model):
    initialized_at: Time | None = None  # the Job ran, or bookies were seen serving: never initialise again
    uri: str | None = None  # the store that this is said of
    reachable: bool | None = None  # by some bookie; absent: no bookie was seen


class PoolStatus(Model):
    name: str
    zone: str | None = None
    stateful_set: str
    desired: int = Field(description="How many bookies the pool has, each with an id of its own.")
    wanted: int | None = Field(
        default=None, description="How many the spec asks of it. Those with higher numbers leave."
    )
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
    node: str = ""  # of a LocalDisk: where it was, when it was valid
    node_uid: str = ""
    hostname: str = ""  # that node's label kubernetes.io/hostname
    boot_id: str = ""  # of that node's kernel then


class LostNode(Model):
    """A bookie that waits for local disks on a node that is gone (spec.repair.lostNode)."""

    node: str
    since: Time  # when it was first found gone, in a row
    claims: tuple[str, ...] = ()
    waiting_for: str | None = None  # why these claims are not deleted
    decided_at: Time | None = None  # they are: stored before the first deletion
    pod_uid: str | None = None  # of the pod that waits for them, and goes with them


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
    capacity: str | None = None  # of the claim's volume, as Kubernetes says it; absent while it has none
    growth: str | None = None  # how far it is with another size; absent when it has the size of the spec


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
    work: int = 0  # grows with every step of the repair
    moved_at: Time | None = None  # when it grew last


class Suspicion(Model):
    """How often the operator saw the same evidence. sinceMs is in milliseconds, as stabilization may be seconds."""

    evidence: str
    observations: int
    since_ms: int


class ClosedGate(Model):
    name: str
    message: str


class Approval(Model):
    """The operation by which a person allowed a grant that the gates alone would not have given."""

    operation: str
    uid: str
    type: str
    requested_by: str | None = None
    reason: str = ""


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
    issued_at: Time
    expires_at: Deadline
    issued_by: str
    approval: Approval | None = None


class Process(Model):
    """A process of this bookie that may still run: that of the live pod, or of a pod without proof of its end."""

    pod_uid: str
    node: str = ""
    node_uid: str = ""
    grace_s: int = 0  # the pod's termination grace, seconds
    gone_since: Time | None = None  # when its pod was first found gone


class Departure(Enum):
    """How far a bookie is that leaves (spec/operator.md#J3)."""

    LEAVING = "Leaving"  # it is to leave, and serves as before
    DRAINING = "Draining"  # read-only; moves its ledgers away
    DRAINED = "Drained"  # two readers found no ledger that names it
    RETIRING = "Retiring"  # it flushes, and its pod goes; a new bookie that never lived goes at once
    FORGETTING = "Forgetting"  # a peer was asked to delete its cookie
    FORGOTTEN = "Forgotten"  # no cookie; its claims are kept
    RECLAIMED = "Reclaimed"  # its claims are being deleted

    @property
    def is_gone(self) -> bool:
        return self in (Departure.FORGOTTEN, Departure.RECLAIMED)

    @property
    def is_near_its_end(self) -> bool:
        """Return True between the proof and the end of its identity."""
        return self in (Departure.DRAINED, Departure.RETIRING, Departure.FORGETTING)


class ReferenceLook(Model):
    """One bookie's look for ledgers that name the one that leaves."""

    by: str
    at: Time
    references: int
    unreadable: int = 0  # records that nobody can read: they may name it
    instance_id: str = ""  # of the metadata store that was read

    @property
    def is_clean(self) -> bool:
        return self.references == 0 and self.unreadable == 0


class LeavingLedger(Model):
    ledger: int
    reason: str


class LeavingStatus(Model):
    """How far a bookie is that leaves. Stored before the bookie, its StatefulSet, a peer or a claim hears of it."""

    state: Departure
    since: Time
    waiting_for: str | None = None  # why it does not go on; absent while nothing is in the way
    never_lived: bool = Field(default=False, description="It never held data: nothing has to be moved or proven.")
    rebuilds: bool = Field(
        default=False, description="It leaves to come back as a new bookie, on claims as the spec says."
    )
    ledgers_total: int = 0
    ledgers_left: int = 0
    open_ledgers: int = 0
    entries_copied: int = 0
    bytes_copied: int = 0
    bytes_per_second: int = 0
    minutes_left: int | None = None  # at the pace so far; absent while nobody can say
    blocked_count: int = 0
    blocked: tuple[LeavingLedger, ...] = Field(
        default=(), description="Ledgers that cannot be moved now, and why: the first 20 of blockedCount."
    )
    looks: tuple[ReferenceLook, ...] = Field(
        default=(),
        description="Two clean looks, by two bookies and apart, are the proof that no ledger names this bookie. The"
        " third is the last one before its cookie goes.",
    )
    cookie_version: int = -1  # of the cookie that may be deleted, and of no other
    forgotten_at: Time | None = None

    @property
    def is_proven(self) -> bool:
        """Return True when two bookies looked, and neither found a reference (spec/operator.md#J5)."""
        proof = self.looks[:2]
        return len(proof) == 2 and all(look.is_clean for look in proof) and proof[0].by != proof[1].by


class WrittenFormat(Model):
    """A kind of file on a bookie's volumes, and the number of the format that its release wrote."""

    name: str
    format: int


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
    since: Time
    away_since: Time | None = None  # when it was first seen not serving, in a row; absent while it serves
    incarnation: int = 0
    counted: str | None = None  # WithoutData, Away, NotSeen: how the gates count it; absent: as serving or never lived
    has_lived: bool = False  # it may hold data: a cookie, a mark on a claim or its service was seen, once
    boot_epoch: int = 0
    evidence: str | None = None
    volumes: tuple[VolumeStatus, ...] = Field(default=(), json_schema_extra=BY_NAME)
    ledgers: LedgerCounts | None = None
    progress: RepairProgress | None = None
    suspicion: Suspicion | None = None
    lost_node: LostNode | None = None
    gates: tuple[ClosedGate, ...] = Field(default=(), json_schema_extra=BY_NAME)
    grant: GrantRecord | None = None
    processes: tuple[Process, ...] | None = None  # absent: never looked (an older operator's status)
    leaving: LeavingStatus | None = None  # present while the bookie leaves, or comes back from it
    granted_by: str | None = None  # who allowed the present life, as the bookie's admin port knew him
    restart_for: tuple[str, ...] = Field(
        default=(),
        max_length=CHANGED_MAX,
        description="The fields of the spec that the bookie's pod takes only when it ends: they were changed after it"
        " was made. Absent: it runs what the spec says, or the operator alone would make another pod of it now.",
    )
    taken_live: tuple[str, ...] = Field(
        default=(),
        max_length=CHANGED_MAX,
        description="The fields of the spec that were changed after the bookie's pod was made and that the bookie has"
        " taken without a restart.",
    )
    written: tuple[WrittenFormat, ...] = Field(
        default=(),
        json_schema_extra=BY_NAME,
        description="The formats on disk that the bookie's release wrote on these volumes, by its own word; kept while"
        " it says nothing. Absent: it is of a release that does not say.",
    )
    fenced: str | None = Field(
        default=None,
        description="Why a person fenced the bookie off (BookieOperation Fence), by its own word; kept while it says"
        " nothing. Absent: nobody did.",
    )
    garbage_held_ledgers: int | None = Field(
        default=None,
        description="How many ledgers the bookie keeps that the metadata store no longer has, because more are gone"
        " than may go in a day. Absent while the bookie has not looked, or cannot tell.",
    )


class RolloutStep(Model):
    """The bookie whose turn it is. Stored before it hears of it, so that no other operator begins with another one."""

    bookie: str
    pod_uid: str  # of the pod that is to go
    begun_at: Time
    was_writable: bool = True  # it took writes when its turn came, and takes them again when its turn is taken back
    changed: tuple[str, ...] = Field(
        default=(),
        max_length=CHANGED_MAX,
        description="The fields of the spec because of which the bookie restarts, such as"
        " spec.config.journalMaxSizeMB.",
    )
    given_back_for: str | None = None  # why its turn is taken back; that goes on to its end


class TakenBack(Model):
    """Turns that were given and taken back, in a row: nobody went in between. A time of rest follows, longer each
    time (plan/turns.py)."""

    count: int
    at: Time  # the last of them
    bookie: str
    why: str


class LastGood(Model):
    """What every bookie was last proven to serve with."""

    inputs: str  # digest of all that was said of pods
    rest: str  # digest of what a rollback does not take back
    marks: JsonText  # JSON: fingerprints by path
    parts: JsonText  # JSON: the fields of the spec that a rollback brings back; "" = too long to be kept


class FailedRollout(Model):
    """A spec with which a bookie did not come back. It is not tried again until it changes."""

    inputs: str  # digest of all that it says of pods
    fields: tuple[str, ...] = Field(default=(), max_length=CHANGED_MAX)  # that had changed
    message: str
    at: Time


class RolloutStatus(Model):
    """How far the pods are with what the spec says now."""

    inputs: str  # digest of what the spec says of pods (resources/inputs.py)
    desired: int
    updated: int
    next: str | None = None  # whose turn comes next
    waiting_for: str | None = None  # why it has not come; absent while nothing is in the way
    changed: tuple[Annotated[str, Field(max_length=CHANGED_CHARS_MAX)], ...] = Field(
        default=(),
        max_length=CHANGED_MAX,
        description="The fields of the spec for which bookies have yet to restart. A rule of the spec reads it.",
    )
    asks_for_turn: bool = Field(
        default=False, description="Only other clusters of this operator keep this one from stopping a bookie."
    )
    turn_since: Time | None = Field(
        default=None,
        description="Since when it is this cluster's turn among those of its operator; absent where any number may"
        " roll out at a time.",
    )
    window_opens_at: Deadline | None = Field(
        default=None, description="When the next maintenance window opens; absent while none is waited for."
    )
    step: RolloutStep | None = None
    begun_anew: str | None = Field(
        default=None,
        description="The bookie of kind Ephemeral that began anew in another pod, until it serves: with onFailure:"
        " Rollback it decides as one does whose turn it was.",
    )
    last_good: LastGood | None = None
    failed: FailedRollout | None = None  # the bookies go back, or are back, to lastGood (rollout.onFailure: Rollback)


class LeastSize(Model):
    name: str = Field(max_length=15)
    size: str = Field(
        max_length=32, description="The least that any bookie's volume has: spec.storage may be set back to it."
    )


class ExpansionStatus(Model):
    """How far the volumes are with the sizes of the spec. Absent when all have them."""

    desired: int  # bookies
    done: int
    waiting_for: str | None = None
    volumes: tuple[LeastSize, ...] = Field(default=(), max_length=24, json_schema_extra=BY_NAME)


class RebuildStatus(Model):
    """How far the bookies are with the class, access mode and sizes of the spec (spec.storage.layoutChange), and with
    new claims that a BookieOperation Replace asks for. Absent when all have them."""

    desired: int  # bookies
    done: int
    bookie: str | None = None  # whose turn it is
    waiting_for: str | None = None
    minutes_left: int | None = None  # for all, at the pace of this one; absent while nobody can say


class EvictionTurn(Model):
    """The bookie that may leave its drained node now. Stored before the bookie hears of it."""

    bookie: str
    pod_uid: str
    node: str
    begun_at: Time
    was_writable: bool = True  # it took writes when its turn came, and takes them again when its turn is taken back
    given_back_for: str | None = None  # why its turn is taken back; that goes on to its end
    is_open: bool = False  # the disruption budget leaves its pod out: whoever drains the node may evict it


class EvictionStatus(Model):
    """The bookies whose nodes are drained (spec.disruption.onDrain: ReadOnlyFirst), or why no pod may be evicted
    although none is; absent when there is neither."""

    waiting: tuple[str, ...] = ()  # whose turn is still to come
    waiting_for: str | None = None  # why nobody may be evicted now
    turn: EvictionTurn | None = None


class HibernationState(Enum):
    """How far a fleet is that is to sleep (spec/operator.md#Z1 to Z4)."""

    WAITING = "Waiting"  # asked for; something must not be cut off
    STOPPING = "Stopping"  # all refuse writes and flush, then their pods go
    HIBERNATED = "Hibernated"  # no pod is left
    WAKING = "Waking"  # the pods come back


class HibernationStatus(Model):
    """How far the fleet's sleep is. Stored before the first bookie hears of it; absent while it is awake."""

    state: HibernationState
    since: Time
    waiting_for: str | None = None


class DeletionStatus(Model):
    """What would be lost with the resource (lifecycle.deletionPolicy: Delete). Absent when nothing would."""

    bookies: int  # that have held data
    claims: int  # that would go
    bytes: int = Field(description="What these claims ask for together.")
    going: int = Field(description="How many of them go with the resource if it is deleted now.")
    since: Time
    waiting_for: str | None = Field(
        default=None, description="What keeps the claims; absent when they go with the resource."
    )


class AutoRecoveryStatus(Model):
    """Whether auto-recovery runs. Absent where the spec does not ask for it."""

    desired: int
    ready: int
    since: Time = Field(description="Since when all of its pods are ready, or not all.")
    message: str | None = Field(default=None, description="What Kubernetes says is wrong with them.")


class HistoryEntry(Model):
    """One regeneration. The brake counts these: no more than repair.maxPerDay in a day."""

    grant_id: str
    bookie: str
    incarnation: int
    profile: str
    granted_at: Time
    given_by: str = ""  # an operator's process, or whoever the bookie says took its place
    finished_at: Time | None = None
    approval: Approval | None = None
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
    # Of what was seen; absent when nobody was: `summary` then begins with NOBODY_LOOKED. Next to them stands
    # `unseen_bookies`.
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
    # Bounded, because a rule of the spec reads it.
    pools: tuple[PoolStatus, ...] = Field(default=(), max_length=64, json_schema_extra=BY_NAME)
    budget: Budget | None = None
    rollout: RolloutStatus | None = None
    expansion: ExpansionStatus | None = None
    rebuild: RebuildStatus | None = None
    eviction: EvictionStatus | None = None
    hibernation: HibernationStatus | None = None
    taken_back: TakenBack | None = Field(
        default=None,
        description="How often in a row the turn of a bookie, or of the sleeping fleet, was taken back. From the sixth"
        " on the next turn waits, longer each time. Absent: the last one came to its end, or it is an hour ago.",
    )
    deletion: DeletionStatus | None = None
    autorecovery: AutoRecoveryStatus | None = None
    added_volumes: tuple[Annotated[str, Field(max_length=15)], ...] = Field(
        default=(),
        max_length=64,
        description="The added volumes of spec.storage and spec.pools[].storage that a bookie may have data on: these"
        " cannot be taken back any more. A rule of the spec reads it.",
    )
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
