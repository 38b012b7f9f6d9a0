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
    SET_ASIDE = "SET_ASIDE"
    UNREADABLE = "UNREADABLE"

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
    Verdict.SET_ASIDE: Hold("SetAside", "{volume} is of a bookie that a person took out of service", "BookieSetAside"),
    Verdict.UNREADABLE: Hold("UnreadableVolume", "{volume} is on a disk that does not answer"),
}


class MountProof(enum.Enum):
    UNSPECIFIED = "PROOF_UNSPECIFIED"
    PROVEN = "PROVEN"
    SHARED = "SHARED"
    SUSPECT = "SUSPECT"
    MISSING = "MISSING"
    UNCHECKED = "UNCHECKED"
    SILENT = "SILENT"  # something of its own is mounted there, and its disk does not say what: never a loss by itself


class Contents(enum.Enum):
    UNSPECIFIED = "CONTENTS_UNSPECIFIED"
    EMPTY = "EMPTY"
    VALID = "VALID"
    STALE = "STALE_CONTENTS"
    FOREIGN = "FOREIGN_CONTENTS"
    UNKNOWN = "UNKNOWN"
    REGENERATING = "REGENERATING"
    ADDED = "ADDED"
    UNREADABLE = "UNREADABLE_CONTENTS"


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
class Aside:
    """The order that keeps a bookie out of service, or ended that (`integrity.asides`). `asked_ms`: when a person asked
    for it, wall clock; of two orders the later one counts, whichever arrives first."""

    is_aside: bool
    why: str
    order_id: str
    asked_ms: int


@dataclass(frozen=True, slots=True)
class DiskFormat:
    """One kind of file on a bookie's volumes, and the numbers of its formats (`storage.formats`). `reads_from`,
    `reads_to`: those that its program reads, both ends included. `writes`: the one that it writes."""

    name: str
    reads_from: int
    reads_to: int
    writes: int

    def reads(self, number: int) -> bool:
        return self.reads_from <= number <= self.reads_to


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
    has_turn: bool = False  # it refuses adds because an operator is about to stop it
    is_draining: bool = False  # it leaves the fleet (`Admin.drain`)
    garbage_held_ledgers: int = -1  # kept by the brake on mass deletion; -1: not looked yet, or an older release
    # A fill of this life ended with nothing missing and nothing blocked (`FillStatus.is_whole`), and nothing was lost
    # since. None: an older release, which cannot say.
    whole_since_boot: bool | None = None
    # As the bookie read it with its newest look; None: there was never one, or an older release, which knows none.
    aside: Aside | None = None
    # Of all ledger directories, as last measured: what is taken, and what may be before the bookie turns read-only.
    # -1: not measured yet, or an older release.
    ledger_bytes_used: int = -1
    ledger_bytes_room: int = -1
    # `NAME=TEXT` of each setting that this process takes without a restart (`Admin.change_settings`), as it is in
    # force; nothing after '=': the default. (): an older release.
    live_settings: tuple[str, ...] = ()
    certificates_due: tuple[str, ...] = ()  # a sentence for each that a person should replace now
    formats: tuple[DiskFormat, ...] = ()  # of what is on its volumes; (): an older release

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
    cookie_version: int = -1  # of the cookie's node; -1: it has none, or an older release lists it


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
    accepts_stale: bool = False  # also for volumes that went back in time: what they lack is given up


@dataclass(frozen=True, slots=True)
class StopTurn:
    """An operator's word that it is about to stop the pod `pod_uid` (spec/operator.md#Q10 to Q12)."""

    operator_epoch: int
    pod_uid: str
    ttl_ms: int  # from receipt, by the bookie's clock
    is_sealed: bool = False  # the flush is the last one: adds of recoveries are refused too


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


class FillAction(enum.Enum):
    """What a caller wants of the filling of holes (admin.proto, FillHolesRequest.Action): begin a run, unless one
    runs or is about to; or only look."""

    START = "START"
    LOOK = "LOOK"


@dataclass(frozen=True, slots=True)
class FillStatus:
    """How the filling of holes goes: the run that is under way, else the last one of this life (`integrity.fill`).

    `is_whole`: the last run that ended looked at every ledger that named this bookie, and found nothing missing that is
    missing still, and nothing blocked. `reason`: why it is not, or why a run that was asked for has not begun.
    """

    is_running: bool = False
    is_waiting: bool = False  # a run was asked for and has not begun
    began_ms_ago: int = -1  # -1: none has begun in this life
    ended_ms_ago: int = -1  # -1: none has ended, or one is running
    boot_epoch: BootEpoch = BootEpoch(0)
    ledgers_total: int = 0  # that name this bookie, as far as the run has come
    ledgers_done: int = 0
    entries_missing: int = 0  # found missing, and not durable here yet
    entries_copied: int = 0  # durable here
    bytes_copied: int = 0
    blocked: tuple[BlockedLedger, ...] = ()  # the first twenty
    blocked_count: int = 0
    is_whole: bool = False
    reason: str = ""


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
    given_up: str = ""  # why the last pass that ended did not look at all entries


class DrainAction(enum.Enum):
    START = "START"
    CANCEL = "CANCEL"
    LOOK = "LOOK"


class OpenLedgers(enum.Enum):
    """What a drain does with a ledger without an end: wait for its writer, or recover it, which fences the writer."""

    WAIT = "wait"
    RECOVER = "recover"


@dataclass(frozen=True, slots=True)
class DrainStatus:
    """How far a bookie is that leaves (spec/metadata.md#M41). `ledgers_total`: those that named it at some time since
    the drain began; `ledgers_left`: those that still do, as far as is known; `open_ledgers`: of these, those without an
    end, which it leaves alone. Counts of copies begin with the drain.

    `is_empty`: it is registered as read-only and takes no adds of recoveries either; a look begun after that and after
    the last change found no ledger that names it or that a recovery under way may close in its name, and no record that
    cannot be read. `error`: why the drain itself cannot go on now; `is_unknown`: because the cluster shows no sign of
    the bookie that is to be emptied.
    `recovers_open_ledgers`, `asked_bytes_per_second`: the order that is carried out, as it was given. `operator_epoch`:
    of the operator that began the drain; 0 = a person did.
    """

    is_draining: bool = False
    ledgers_total: int = 0
    ledgers_left: int = 0
    entries_copied: int = 0
    bytes_copied: int = 0
    bytes_per_second: float = 0.0
    open_ledgers: int = 0
    blocked: tuple[BlockedLedger, ...] = ()  # the first twenty
    blocked_count: int = 0
    is_empty: bool = False
    error: str = ""
    recovers_open_ledgers: bool = False
    asked_bytes_per_second: int = 0
    operator_epoch: int = 0
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class References:
    """The ledgers whose metadata names `bookie_id`. `unreadable`: records that nobody can read, which may name it;
    `count` includes them. `first`: twenty, each with its state and how it names the bookie. `age_ms`: since the look
    began."""

    bookie_id: str
    count: int
    first: tuple[BlockedLedger, ...] = ()
    unreadable: int = 0
    age_ms: int = 0


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A bookie, and ledgers that auto-recovery has marked and that might be undecidable if it were away too. `first`:
    some of them, each with why."""

    bookie_id: str
    first: tuple[BlockedLedger, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkedLedgers:
    """What auto-recovery's marks say of bookies that somebody asked about. `held`: those that had better not be
    stopped. `marks`: how many marks were looked at. `age_ms`: since the look began."""

    held: tuple[HeldBack, ...] = ()
    marks: int = 0
    age_ms: int = 0


class Health(enum.Enum):
    """The three questions a probe may ask. Value: the name in the gRPC health protocol."""

    PROCESS = "process"  # the loop turns: otherwise restart the process
    STORAGE = "storage"  # volumes are proven, storage is open: data could be read
    SERVING = "serving"  # the data port is open and we are registered: clients may come


class Admin(Protocol):
    """The answers of one node. All calls but `grant`, `forget_bookie` and `set_aside` are safe at any time.

    `operator_epoch`: the term of the operator that calls; 0: a person. One that is lower than the node has seen raises
    GrantRefused("old_epoch").
    """

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

    async def set_read_only(self, read_only: bool, *, operator_epoch: int = 0) -> State:
        """Set the mode, as by hand; it ends a turn too. Raises GrantRefused for an operator that is not the newest."""
        ...

    async def prepare_shutdown(self, turn: StopTurn | None = None) -> str:
        """Refuse adds, then flush; return a sentence. None: by hand, until somebody makes it writable.

        Raises GrantRefused when an operator has no right to it (now), StorageFailed when the flush failed or the turn
        ended before it.
        """
        ...

    async def end_turn(self, *, operator_epoch: int) -> State:
        """Take adds as before the turn. Raises GrantRefused for an operator that is not the newest."""
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

    async def fill_holes(self, action: FillAction) -> FillStatus:
        """Begin to fill the holes of what was written while this bookie was away, or look how far that is. Does not
        wait for the end. Raises StorageFailed while the storage is not open."""
        ...

    async def scrub(self) -> None:
        """Start a check of every entry from the beginning, in the background, at the configured rate.
        Raises StorageFailed."""
        ...

    def scrub_report(self) -> ScrubReport:
        """Return what the background check found. Raises StorageFailed while the storage is not open."""
        ...

    async def drain(
        self,
        action: DrainAction,
        *,
        operator_epoch: int = 0,
        bytes_per_second: int = 0,
        open_ledgers: OpenLedgers = OpenLedgers.WAIT,
        bookie_id: BookieId | None = None,
    ) -> DrainStatus:
        """Begin or end to leave the fleet alive, or look how it goes; return the status.

        START: read-only when this returns, then it empties itself in the background; the same order again changes
        nothing, another one replaces it. `bytes_per_second` 0: the rate of repairs. A restart forgets the drain: the
        caller sends START again. CANCEL: writable again, unless something else keeps it read-only.

        `bookie_id`: another bookie, dead for good, which this one is to empty, one at a time; while a process of it is
        there nothing is moved, and `error` says so.

        Raises StorageFailed (not open yet), TooManyRequests (it empties another one), BadInput, GrantRefused.
        """
        ...

    async def find_references(self, bookie_id: BookieId) -> References:
        """Look, after a sync, which ledgers of the cluster name `bookie_id`; may take long. A caller that gives up and
        asks again soon goes on with the same look (`References.age_ms`). Raises MetadataError, also when the store
        answered in part only."""
        ...

    async def find_dependents(self, bookies: tuple[BookieId, ...]) -> References:
        """Look, after a sync, of which ledgers an acknowledged entry may be on `bookies` (two or more) alone; as
        `find_references` (spec/metadata.md#M54). Raises BadInput, MetadataError."""
        ...

    async def find_marked(self, bookies: tuple[BookieId, ...]) -> MarkedLedgers:
        """Look, after a sync, which ledgers that auto-recovery has marked might be undecidable while one of `bookies`
        is away too, for each of them alone (spec/metadata.md#M55). Raises MetadataError."""
        ...

    async def forget_bookie(self, bookie_id: BookieId, *, cookie_version: int, operator_epoch: int = 0) -> str:
        """Delete cookie and position of another bookie that is gone and that no ledger names (spec/metadata.md#M42).
        Return a sentence; does nothing when they are gone already. A caller that gives up asks again, and the look goes
        on where it was.

        Raises GrantRefused (a stable reason: itself, registered, named, cookie_changed, too_soon, locked, old_epoch),
        MetadataError.
        """
        ...

    async def set_aside(self, bookie_id: BookieId, order: Aside, *, operator_epoch: int = 0) -> str:
        """Write the order that keeps `bookie_id` (this bookie too) out of service from its next boot on, or ends that;
        return a sentence. A process of it that serves goes on until it ends. The same order again changes nothing.

        Raises GrantRefused (a stable reason: overtaken, old_epoch), BadInput, MetadataError.
        """
        ...

    async def restore_cookie(self, *, evidence_hash: str, operator_epoch: int = 0) -> str:
        """Make this bookie's cookie again, whose node somebody deleted while the disks are whole; return a sentence.
        `evidence_hash`: of the report that the caller judged.

        Raises GrantRefused (a stable reason: not_waiting, not_missing, no_record, disks, mounts, set_back,
        evidence_changed, overtaken, old_epoch), MetadataError.
        """
        ...

    async def accept_ledger_loss(
        self, ledger_id: LedgerId, bookies: tuple[BookieId, ...], *, by: str, reason: str, operator_epoch: int = 0
    ) -> str:
        """Give up what `bookies` held of a ledger whose end nobody can decide any more, and close it; `by` and `reason`
        stand in its record (spec/metadata.md#M49). Return a sentence; a ledger that is closed already is left as it is.

        Raises GrantRefused (a stable reason: may_answer, tail, old_epoch), LedgerMissing, BadInput, StorageFailed
        before this bookie serves, and the errors of a recovery.
        """
        ...

    async def change_settings(self, wanted: Mapping[str, str], *, operator_epoch: int = 0) -> None:
        """Run with other values of these settings, all or none, until the process ends; "" = the default.

        Raises BadInput for a setting that needs a restart and for a text that is none of its values, GrantRefused for
        an operator that is not the newest.
        """
        ...
