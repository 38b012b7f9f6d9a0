"""The admin service's questions to a node, and the answers: shared by bookies, commands and the operator.

Values mirror `bookie/rpc/admin.proto`, field for field and word for word (a member's value is its name there);
`bookie.rpc.encoding` alone translates. UNSPECIFIED stands for a word that the peer does not have, or that we do not
know: nobody may conclude anything from it.
"""

import enum
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from bookie.base.ids import BookieId, BootEpoch, EntryId, Incarnation, LedgerId


class State(enum.Enum):
    """The life of a bookie process (admin.proto, State)."""

    UNSPECIFIED = "STATE_UNSPECIFIED"
    STARTING = "STARTING"
    WAITING_GRANT = "WAITING_GRANT"
    HELD = "HELD"
    FENCING = "FENCING"
    STAMPING = "STAMPING"
    REPLAYING = "REPLAYING"
    REPAIRING = "REPAIRING"
    SERVING = "SERVING"
    READ_ONLY = "READ_ONLY"
    STOPPING = "STOPPING"

    @property
    def serves(self) -> bool:
        """True when the data port is open in this state."""
        return self in (State.REPAIRING, State.SERVING, State.READ_ONLY)


class Verdict(enum.Enum):
    """What a bookie concludes about its own volumes (admin.proto, Verdict). None stands for VERDICT_UNSPECIFIED."""

    HEALTHY = "HEALTHY"
    BOOTSTRAP = "BOOTSTRAP"
    LOST = "LOST"
    STALE = "STALE"
    FOREIGN = "FOREIGN"
    MOUNT_MISSING = "MOUNT_MISSING"
    UNKNOWN_CONTENT = "UNKNOWN_CONTENT"
    COOKIE_MISSING = "COOKIE_MISSING"
    UNCLEAN = "UNCLEAN"
    RESUME = "RESUME"

    @property
    def is_held(self) -> bool:
        """Return True when the boot waits for a person: no byte is written meanwhile."""
        return self in HELD


@dataclass(frozen=True, slots=True)
class Hold:
    """How a verdict that waits for a person is shown in Kubernetes: the reason in the status of a BookieCluster, a
    sentence about "{volume}", and the event."""

    reason: str
    text: str
    event: str = "BookieHeld"


HELD: Mapping[Verdict, Hold] = {
    Verdict.MOUNT_MISSING: Hold("MountMissing", "{volume} is not mounted", "MountNotProven"),
    Verdict.FOREIGN: Hold("ForeignVolume", "{volume} belongs to another bookie or cluster", "ForeignVolume"),
    Verdict.UNKNOWN_CONTENT: Hold("UnknownContent", "{volume} has contents that are not this bookie's"),
    Verdict.COOKIE_MISSING: Hold(
        "CookieMissingInMetadata", "{volume} is of a bookie that has lived, and its cookie is not in the metadata store"
    ),
    Verdict.STALE: Hold(
        "StaleVolume",
        "{volume} went back in time: somebody restored or cloned it, or attached an old disk",
        "StaleVolumeDetected",
    ),
}


class MountProof(enum.Enum):
    UNSPECIFIED = "PROOF_UNSPECIFIED"
    PROVEN = "PROVEN"
    SHARED = "SHARED"
    SUSPECT = "SUSPECT"
    MISSING = "MISSING"
    UNCHECKED = "UNCHECKED"


class Contents(enum.Enum):
    UNSPECIFIED = "CONTENTS_UNSPECIFIED"
    EMPTY = "EMPTY"
    VALID = "VALID"
    STALE = "STALE_CONTENTS"
    FOREIGN = "FOREIGN_CONTENTS"
    UNKNOWN = "UNKNOWN"
    REGENERATING = "REGENERATING"


@dataclass(frozen=True, slots=True)
class MountReport:
    proof: MountProof
    is_mount_point: bool = False
    device: str = ""
    fsid: str = ""
    fstype: str = ""
    root: str = ""
    source: str = ""
    total_bytes: int = 0
    shares_node_disk: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Sentinel:
    """The small file that names the bookie and incarnation of a volume (spec/operator.md#K3)."""

    instance_id: str
    bookie_id: BookieId
    role: str
    volume: str
    incarnation: Incarnation
    boot_epoch: BootEpoch
    fsid: str = ""
    grant_id: str = ""


@dataclass(frozen=True, slots=True)
class VolumeReport:
    name: str
    role: str  # journal | ledgers | index
    path: str
    mount: MountReport
    contents: Contents
    sentinel: Sentinel | None = None
    reason: str = ""

    @property
    def why(self) -> str:
        """Return the reason for the report: of the volume's contents, else of its mount; "" when there is none."""
        return self.reason or self.mount.reason


@dataclass(frozen=True, slots=True)
class BlockedLedger:
    ledger_id: LedgerId
    reason: str


@dataclass(frozen=True, slots=True)
class StorageReport:
    bookie_id: BookieId
    pod_uid: str
    state: State
    verdict: Verdict | None
    reason: str
    instance_id: str = ""
    metadata_reachable: bool = False
    cookie_present: bool = False
    cookie_version: int = -1
    cookie_digest: str = ""
    incarnation: Incarnation = Incarnation(0)
    boot_epoch: BootEpoch = BootEpoch(0)
    ledger_count: int = -1
    ledgers_naming_me: int = -1
    volumes: tuple[VolumeReport, ...] = ()
    evidence_hash: str = ""
    unclean_shutdown: bool = False
    capabilities: tuple[str, ...] = ()
    operator_epoch_seen: int = 0
    grant_id: str = ""
    granted_by: str = ""  # who allowed the present incarnation; "" = nobody had to, or an older release
    data_port_open: bool = False
    version: str = ""
    journal_write_data: bool = True
    read_only: bool = False
    process_uptime_ms: int = 0
    quarantined: tuple[BlockedLedger, ...] = ()  # whose state this bookie cannot judge; the first hundred
    quarantined_count: int = 0
    directories_failed: tuple[str, ...] = ()  # take no writes until a restart
    inspection_age_ms: int = 0  # since the volumes were last looked at
    garbage_held_ledgers: int = -1  # kept by the brake on mass deletion; -1: not looked yet, or an older release

    def volume(self, name: str) -> VolumeReport | None:
        return next((volume for volume in self.volumes if volume.name == name), None)


# Operators count how often a cluster's leader changed, and never get near this number. No operator gave a greater one,
# so it is void wherever it is found (releases before 0.1 kept the epoch of grants that they refused).
OPERATOR_EPOCH_MAX = 1 << 40


def credible_epoch(epoch: int) -> int:
    """Return `epoch`, or 0 ("none seen") when no operator can have given it."""
    return epoch if 0 <= epoch <= OPERATOR_EPOCH_MAX else 0


@dataclass(frozen=True, slots=True)
class Member:
    """One bookie in the metadata store. `bookie_id`: the stored text, unchecked; a stranger may have written it."""

    bookie_id: str
    has_cookie: bool
    is_registered: bool
    is_writable: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """`issued_by`: the name that the caller gives itself. `given_by`:
    the name that it has proven to the bookie's port."""

    grant_id: str
    bookie_id: BookieId
    pod_uid: str
    evidence_hash: str
    cookie_version: int
    new_incarnation: Incarnation
    operator_epoch: int
    ttl_ms: int
    issued_by: str
    given_by: str = ""


@dataclass(frozen=True, slots=True)
class RepairStatus:
    state: State = State.UNSPECIFIED
    phase: str = ""  # "", "one", "cookie", "two", "done"
    phase_one_ms: int = 0
    ledgers_scanned: int = 0
    ledgers_total: int = 0
    ledgers_member: int = 0
    ledgers_fenced: int = 0
    ledgers_limbo: int = 0
    ledgers_pending: int = 0
    ledgers_done: int = 0
    entries_copied: int = 0
    bytes_copied: int = 0
    entries_pending: int = -1
    bytes_per_second: float = 0.0
    blocked: tuple[BlockedLedger, ...] = ()
    done: bool = False
    incarnation: Incarnation = Incarnation(0)
    elapsed_ms: int = 0


class Compaction(enum.Enum):
    """What a run of garbage collection compacts: logs of which little is live (minor), or less than most (major)."""

    NONE = "none"
    MINOR = "minor"
    MAJOR = "major"


@dataclass(frozen=True, slots=True)
class GarbageReport:
    """What one run of garbage collection did. `refused`: why nothing was compacted, "" when compaction was tried."""

    ledgers_seen: int = 0
    ledgers_deleted: int = 0
    logs_dropped: int = 0
    logs_compacted: int = 0
    logs_damaged: int = 0  # kept, because an entry in them cannot be read
    entries_copied: int = 0
    bytes_copied: int = 0
    bytes_freed: int = 0
    refused: str = ""
    # What the metadata store no longer has, and the brake on mass deletion keeps (`storage.collect.brake`); why, and
    # the first of them.
    ledgers_held: int = 0
    bytes_held: int = 0
    held_first: tuple[LedgerId, ...] = ()
    held_reason: str = ""
    # Collected within the last day, and what may go beside that.
    ledgers_day: int = 0
    bytes_day: int = 0
    ledgers_allowed: int = 0
    bytes_allowed: int = 0
    # Of which the metadata store cannot say whether they may go: kept, and asked about again; the first hundred.
    undecided: tuple[BlockedLedger, ...] = ()
    undecided_count: int = 0


@dataclass(frozen=True, slots=True)
class BadEntry:
    """An entry whose bytes fail their check, and its location.
    Reads of it answer an I/O error until it is copied back."""

    ledger_id: LedgerId
    entry_id: EntryId
    log_id: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class ScrubReport:
    """What the background check of entries found. `ledger_id`, `entry_id`: how far it is in its ledger directory."""

    is_running: bool
    passes_done: int
    entries_checked: int  # by the pass that runs, or by the last one
    bytes_checked: int
    ledger_id: LedgerId
    entry_id: EntryId
    bad_count: int
    bad: tuple[BadEntry, ...] = ()  # the first thousand


class Health(enum.Enum):
    """The three questions a probe may ask. Value: the name in the gRPC health protocol."""

    PROCESS = "process"  # the loop turns: otherwise restart the process
    STORAGE = "storage"  # volumes are proven, storage is open: data could be read
    SERVING = "serving"  # the data port is open and we are registered: clients may come


class Admin(Protocol):
    """The answers of one node. All calls but `grant` are safe at any time."""

    def is_healthy(self, question: Health) -> bool:
        """Answer at once, from the node's memory."""
        ...

    async def storage_report(self, *, fresh: bool = False) -> StorageReport: ...

    async def members(self) -> tuple[Member, ...]:
        """Return every bookie in the cluster's metadata store. Raises MetadataError while the store does not answer."""
        ...

    async def grant(self, grant: Grant) -> None:
        """Accept the grant, or raise GrantRefused with a stable reason. Returning means accepted, not finished."""
        ...

    def repair_status(self, interval_ms: int) -> AsyncIterator[RepairStatus]:
        """Yield the progress now, at each change, and at least every `interval_ms`, until the repair is done."""
        ...

    async def set_read_only(self, read_only: bool) -> State: ...

    async def prepare_shutdown(self) -> str:
        """Flush, and refuse adds from now on. Return a sentence; raises when the flush failed."""
        ...

    async def flush(self) -> None:
        """Run a checkpoint now; durable on return. Raises DiskFull (may be tried again), StorageFailed."""
        ...

    async def collect_garbage(
        self, compaction: Compaction, *, released: int = 0, looks_only: bool = False
    ) -> GarbageReport:
        """Run garbage collection now, and a compaction if one is named; may take long.

        `released`: so many ledgers may go beyond the brake, in this run alone: a person looked. `looks_only`: nothing
        goes.

        Raises StorageFailed (not open, still repairing, or the disk), MetadataError, TooManyRequests.
        """
        ...

    async def scrub(self) -> None:
        """Start a check of every entry from the beginning, in the background, at the configured rate.
        Raises StorageFailed."""
        ...

    def scrub_report(self) -> ScrubReport:
        """Return what the background check found. Raises StorageFailed while the storage is not open."""
        ...
