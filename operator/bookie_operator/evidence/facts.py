"""The facts that evidence is made of: live objects as plain values, and the bookie's own report (`bookie.ports.admin`).

What the bookie concludes is a Verdict, what the operator concludes is a Conclusion. The operator compares the two; it
does not copy the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from bookie.ports.admin import (
    DrainStatus,
    FillStatus,
    Member,
    References,
    RepairStatus,
    StorageReport,
    VolumeReport,
)
from bookie_operator.model.status import VolumeRecord

# What a bookie said of its volumes longer ago than this proves nothing of them now; it is asked to look again before.
LOOK_AGE_MS_MAX = 15 * 60_000


@dataclass(frozen=True, slots=True)
class ClaimMarks:
    """The identity record on a claim (annotations). With `incarnation`, the operator has marked the claim as
    initialised."""

    incarnation: int
    bookie_id: str = ""
    instance_id: str = ""
    fsid: str = ""
    pv_uid: str = ""
    claim_uid: str = ""


@dataclass(frozen=True, slots=True)
class ClaimSize:
    """What a claim asks for, what its volume has, and what Kubernetes says of the way between. Sizes in bytes."""

    requested: Decimal
    capacity: Decimal  # 0 while it has no volume
    is_bound: bool = True
    step: str = ""  # status.allocatedResourceStatuses: ControllerResizeInfeasible, NodeResizePending, ...
    step_size: Decimal | None = None  # status.allocatedResources: what that step is about
    conditions: Mapping[str, str] = field(default_factory=dict)  # those that are True: type -> message
    pending_since_ms: int | None = None  # FileSystemResizePending


@dataclass(frozen=True, slots=True)
class RefusedSize:
    """The API server's last word on a request for `size` (a quota, a class that cannot grow)."""

    size: str
    words: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    name: str
    uid: str
    created_ms: int
    is_terminating: bool = False
    is_lost: bool = False  # it was bound to a volume that Kubernetes does not have any more
    pv_name: str = ""
    marks: ClaimMarks | None = None
    retired_at: str = ""  # its bookie left by proof and is forgotten; "" = it did not
    contents_found: str = ""  # what a bookie that never lived found on it; "" = nothing, or nobody looked
    is_labelled: bool = False  # with this cluster's name: a StatefulSet of ours asked for it, and no person
    size: ClaimSize | None = None  # None: it cannot be read
    storage_class: str = ""  # by name; "" = none, or not told
    access_modes: tuple[str, ...] = ()
    resource_version: str = ""
    owners: frozenset[str] = frozenset()  # uids of what it goes with


@dataclass(frozen=True, slots=True)
class PersistentVolumeFacts:
    name: str
    uid: str
    phase: str = "Bound"
    reclaim_policy: str = "Delete"
    hostnames: tuple[str, ...] = ()  # of the only nodes that can reach it; () = any can, or it says so otherwise
    is_terminating: bool = False


@dataclass(frozen=True, slots=True)
class PodFacts:
    name: str
    uid: str
    created_ms: int
    node: str = ""
    ip: str = ""
    phase: str = "Running"
    is_ready: bool = False
    is_terminating: bool = False
    evicted_by: str = ""  # who has decided to end it ("EvictionByEvictionAPI"); "" = nobody
    revision: str = ""
    grace_s: int = 30  # its termination grace
    has_ended: bool = False  # for good, by its kubelet's word
    finalizers: tuple[str, ...] = ()  # that keep its object, whatever becomes of its processes
    problem: str = ""  # what the kubelet or scheduler says is wrong: "ImagePullBackOff: ..."
    trouble: str = ""  # the same in one word (gateways/facts.py: TROUBLES); "" = nothing is wrong, or nothing known
    has_certificates: bool = False  # of the admin port; pods of releases before 0.1 have none
    resource_version: str = ""
    ready_since_ms: int | None = None  # by its kubelet; None while it is not ready
    inputs: str = ""  # digest of what the spec said when it was made (resources/inputs.py); "" = nobody noted it
    said: str = ""  # fingerprints of the fields of it
    mounts: frozenset[str] | None = None  # the volumes of its bookie, by name; None: not told
    is_of_set: bool = True  # a StatefulSet made it; False: somebody copied one, with its labels
    is_bookie_running: bool = False  # its bookie's own container, by its kubelet; `problem` may be of another one


@dataclass(frozen=True, slots=True)
class Door:
    """The address of an admin port. `uid`: the cluster whose authority signs the port's certificate; "" = without TLS:
    the operator sends no secret there."""

    address: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    name: str
    uid: str
    is_ready: bool = True
    ready_since_ms: int = 0
    is_out_of_service: bool = False  # it has the taint by which a person says that it is powered off
    hostname: str = ""  # its label kubernetes.io/hostname
    boot_id: str = ""  # of its kernel, anew at each boot; "" = it does not say
    drained: str = ""  # by what its pods are to leave it ("cordoned", "tainted KEY"); "" = they may stay


def is_machine_gone(node: NodeFacts | None) -> bool:
    """Return True when the machine is gone by the word of whoever deleted or tainted its Node. A Node that was made
    anew under the name is the machine come back, perhaps with its disks (spec/operator.md#N4)."""
    return node is None or (node.is_out_of_service and not node.is_ready)


@dataclass(frozen=True, slots=True)
class VolumeCase:
    """All that is known of one configured volume of one bookie."""

    name: str
    role: str
    is_local_disk: bool
    shares_filesystem: bool  # the spec allows it (allowSharedFilesystem)
    claim_name: str
    claim: ClaimFacts | None = None
    pv: PersistentVolumeFacts | None = None  # of the live claim; None also when we may not read it
    report: VolumeReport | None = None
    recorded: VolumeRecord | None = None  # from our last status; may be lost
    may_be_stale: bool = False  # if it went back in time, what it lacks may be given up (repair.staleVolume)
    may_be_reset: bool = False  # a local disk that its machine emptied may go on by itself (repair.localDiskReset)
    is_added: bool = False  # the spec adds it to bookies that live
    is_ephemeral: bool = False  # it goes with its pod: `claim` is then made of the pod, and is no object of its own

    @property
    def is_initialised(self) -> bool:
        """Return True when this claim has held valid data: it has our mark, or had it by our record (somebody removed
        it)."""
        if self.claim is None:
            return False
        return self.claim.marks is not None or (
            self.recorded is not None and self.recorded.pvc_uid == self.claim.uid and self.recorded.incarnation > 0
        )

    @property
    def is_new(self) -> bool:
        """Return True when the volume is added, and nobody has seen data of its bookie on it."""
        return self.is_added and not self.is_initialised and (self.recorded is None or self.recorded.incarnation == 0)

    @property
    def known_fsid(self) -> str:
        """Return the id of the file system that this claim had when it was valid; "" when it was not recorded."""
        if self.claim is not None and self.claim.marks is not None and self.claim.marks.fsid:
            return self.claim.marks.fsid
        if self.recorded is not None and self.claim is not None and self.recorded.pvc_uid == self.claim.uid:
            return self.recorded.fsid
        return ""

    @property
    def is_going(self) -> str:
        """Return why only the pod keeps this volume; "" when something else does. The words wait for "with the pod"."""
        goes = f"and volume {self.name} goes"
        if self.claim is not None and self.claim.is_terminating:
            return f"claim {self.claim_name} is being deleted, {goes}"
        if self.claim is not None and self.claim.is_lost:
            return f"claim {self.claim_name} has lost its PersistentVolume, {goes}"
        if self.pv is not None and self.pv.is_terminating:
            return f"PersistentVolume {self.pv.name} is being deleted, {goes}"
        return ""

    @property
    def is_replaced(self) -> bool:
        """Return True when our record names another claim, or the claim is gone: the old data cannot be behind it."""
        if self.recorded is None or self.recorded.incarnation == 0:
            return False
        return self.claim is None or self.claim.uid != self.recorded.pvc_uid


@dataclass(frozen=True, slots=True)
class BookieCase:
    """All that is known of one bookie. `name`: its pod's; where no pod of ours can run it, its id."""

    name: str
    bookie_id: str
    pool: str
    zone: str | None
    volumes: tuple[VolumeCase, ...]
    is_desired: bool = True  # the spec asks for it; otherwise it was found, and counts all the same
    is_leaving: bool = False  # its pool has it, and the spec asks for fewer; or it is to be rebuilt
    is_rebuilt: bool = False  # it leaves to begin anew, on claims as the spec says (plan/rebuild.py)
    is_ours: bool = True  # its id is one that this cluster gives
    other_claims: tuple[ClaimFacts, ...] = ()  # of its pod, by names that no volume of the spec has
    member: Member | None = None  # what the metadata store knows; None when it knows nothing or was not read
    is_listed: bool = False  # the store was read: `member` None means that it knows nothing
    drain: DrainStatus | None = None  # of a bookie that leaves, or comes back from it, while it can be asked
    references: References | None = None  # what a bookie found that was asked in this pass which ledgers name this one
    references_by: str = ""  # that bookie
    pod: PodFacts | None = None
    report: StorageReport | None = None
    report_problem: str = ""  # why there is no report, as a sentence
    ended: frozenset[str] = frozenset()  # uids of its pods that ended: by their kubelet's word, or a person's
    nodes: Mapping[str, NodeFacts | None] = field(default_factory=dict)  # those that were read; None: there is none
    was_replaced_unwatched: bool = False  # the pod that we knew last went away before this operator began to watch
    repair: RepairStatus | None = None
    fill: FillStatus | None = None  # of a bookie that says it is not whole (StorageReport.whole_since_boot)

    @property
    def loses_with_its_pod(self) -> str:
        """Return which volume the bookie has for as long as its pod lives, and no longer; "" when none. Such a volume
        serves until then, so that nothing else tells (spec/operator.md#Q19)."""
        found = (volume.is_going for volume in self.volumes if self.pod is not None)
        return next((f"{why} with pod {self.name}" for why in found if why), "")

    @property
    def is_ephemeral(self) -> bool:
        """Return True when the volumes go with the pod (kind Ephemeral): all of them do, or none."""
        return any(volume.is_ephemeral for volume in self.volumes)

    @property
    def goes(self) -> str:
        """Return why the bookie is about to be away, or to lose a volume, whatever it says of itself; "" when it is
        not."""
        if self.pod is not None and self.pod.is_terminating:
            return f"pod {self.name} is being deleted"
        if self.pod is not None and self.pod.evicted_by:
            return f"pod {self.name} is about to be deleted ({self.pod.evicted_by})"
        return self.loses_with_its_pod

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return the volumes that the bookie has and its pod was made without: that pod can never serve."""
        if self.pod is None or self.pod.mounts is None:
            return ()
        return tuple(one.name for one in self.volumes if one.is_added and one.name not in self.pod.mounts)

    def has_volume(self, name: str) -> bool:
        """Return True when its pod has the volume, or had it when it was last seen (discover.py)."""
        return any(volume.name == name for volume in self.volumes)

    def can_look_into(self, instance_id: str | None) -> bool:
        """Return True for a bookie that can be asked to read the metadata of all ledgers in this metadata store."""
        return (
            self.is_ours
            and self.pod is not None
            and self.pod.has_certificates
            and self.report is not None
            and self.report.state.serves
            and self.report.metadata_reachable
            and self.report.instance_id == instance_id
        )
