"""The facts that evidence is made of: live objects and the bookie's own report, as plain values.

The enums repeat admin.proto by name; the gateway translates, and words it does not know become UNSPECIFIED.
"""

from dataclasses import dataclass
from enum import Enum

from bookie_operator.model.status import VolumeRecord


class State(Enum):
    """The life of a bookie process (admin.proto, State)."""

    STATE_UNSPECIFIED = 0
    STARTING = 1
    WAITING_GRANT = 2
    HELD = 3
    FENCING = 4
    STAMPING = 5
    REPLAYING = 6
    REPAIRING = 7
    SERVING = 8
    READ_ONLY = 9
    STOPPING = 10

    @property
    def serves(self) -> bool:
        return self in (State.REPAIRING, State.SERVING, State.READ_ONLY)


class Claimed(Enum):
    """What the bookie itself concludes (admin.proto, Verdict). We compare; we do not copy."""

    VERDICT_UNSPECIFIED = 0
    HEALTHY = 1
    BOOTSTRAP = 2
    LOST = 3
    STALE = 4
    FOREIGN = 5
    MOUNT_MISSING = 6
    UNKNOWN_CONTENT = 7
    COOKIE_MISSING = 8
    UNCLEAN = 9
    RESUME = 10


class Mount(Enum):
    PROOF_UNSPECIFIED = 0
    PROVEN = 1
    SHARED = 2
    SUSPECT = 3
    MISSING = 4
    UNCHECKED = 5


class Contents(Enum):
    CONTENTS_UNSPECIFIED = 0
    EMPTY = 1
    VALID = 2
    STALE_CONTENTS = 3
    FOREIGN_CONTENTS = 4
    UNKNOWN = 5
    REGENERATING = 6


@dataclass(frozen=True, slots=True)
class SentinelFacts:
    bookie_id: str
    instance_id: str
    incarnation: int
    grant_id: str = ""


@dataclass(frozen=True, slots=True)
class VolumeReport:
    name: str
    role: str
    mount: Mount
    contents: Contents
    fsid: str = ""
    reason: str = ""
    sentinel: SentinelFacts | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """GetStorageReport of one bookie."""

    bookie_id: str
    pod_uid: str
    state: State
    claimed: Claimed
    reason: str = ""
    instance_id: str = ""
    metadata_reachable: bool = True
    cookie_present: bool = False
    cookie_version: int = -1
    cookie_digest: str = ""
    incarnation: int = 0
    boot_epoch: int = 0
    ledgers_naming_me: int = -1
    volumes: tuple[VolumeReport, ...] = ()
    evidence_hash: str = ""
    capabilities: tuple[str, ...] = ()
    operator_epoch_seen: int = 0
    grant_id: str = ""
    read_only: bool = False

    def volume(self, name: str) -> VolumeReport | None:
        return next((volume for volume in self.volumes if volume.name == name), None)


@dataclass(frozen=True, slots=True)
class RepairFacts:
    """GetRepairStatus of one bookie."""

    phase: str = ""
    phase_one_ms: int = 0
    ledgers_member: int = 0
    ledgers_fenced: int = 0
    ledgers_limbo: int = 0
    ledgers_pending: int = 0
    ledgers_done: int = 0
    entries_copied: int = 0
    bytes_copied: int = 0
    entries_pending: int = -1
    bytes_per_second: float = 0.0
    blocked: int = 0
    done: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """The identity record on a claim (annotations). `incarnation` present = the claim was initialised by us."""

    incarnation: int
    bookie_id: str = ""
    instance_id: str = ""
    fsid: str = ""
    pv_uid: str = ""
    claim_uid: str = ""


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    name: str
    uid: str
    created_ms: int
    is_terminating: bool = False
    is_bound: bool = True
    pv_name: str = ""
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class PersistentVolumeFacts:
    name: str
    uid: str
    phase: str = "Bound"
    reclaim_policy: str = "Delete"


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
    revision: str = ""
    problem: str = ""  # what the kubelet or scheduler says is wrong: "ImagePullBackOff: ..."


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

    @property
    def is_initialised(self) -> bool:
        """M of the table. A mark that somebody removed from the very same claim still counts (3.9, row 31)."""
        if self.claim is None:
            return False
        return self.claim.marks is not None or (
            self.recorded is not None and self.recorded.pvc_uid == self.claim.uid and self.recorded.incarnation > 0
        )

    @property
    def known_fsid(self) -> str:
        """The file system that this claim had when it was valid; "" when nobody noted it."""
        if self.claim is not None and self.claim.marks is not None and self.claim.marks.fsid:
            return self.claim.marks.fsid
        if self.recorded is not None and self.claim is not None and self.recorded.pvc_uid == self.claim.uid:
            return self.recorded.fsid
        return ""

    @property
    def is_replaced(self) -> bool:
        """True when our record names another claim, or the claim is gone: the old data cannot be behind it."""
        if self.recorded is None or self.recorded.incarnation == 0:
            return False
        return self.claim is None or self.claim.uid != self.recorded.pvc_uid


@dataclass(frozen=True, slots=True)
class BookieCase:
    """All that is known of one bookie."""

    name: str  # of the pod
    bookie_id: str
    pool: str
    zone: str | None
    volumes: tuple[VolumeCase, ...]
    pod: PodFacts | None = None
    report: Report | None = None
    report_problem: str = ""  # why there is no report, as a sentence
    repair: RepairFacts | None = None
