from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_UNSPECIFIED: _ClassVar[State]
    STARTING: _ClassVar[State]
    WAITING_GRANT: _ClassVar[State]
    HELD: _ClassVar[State]
    FENCING: _ClassVar[State]
    STAMPING: _ClassVar[State]
    REPLAYING: _ClassVar[State]
    REPAIRING: _ClassVar[State]
    SERVING: _ClassVar[State]
    READ_ONLY: _ClassVar[State]
    STOPPING: _ClassVar[State]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    HEALTHY: _ClassVar[Verdict]
    BOOTSTRAP: _ClassVar[Verdict]
    LOST: _ClassVar[Verdict]
    STALE: _ClassVar[Verdict]
    FOREIGN: _ClassVar[Verdict]
    MOUNT_MISSING: _ClassVar[Verdict]
    UNKNOWN_CONTENT: _ClassVar[Verdict]
    COOKIE_MISSING: _ClassVar[Verdict]
    UNCLEAN: _ClassVar[Verdict]
    RESUME: _ClassVar[Verdict]
    SET_ASIDE: _ClassVar[Verdict]
    UNREADABLE: _ClassVar[Verdict]

class Contents(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTENTS_UNSPECIFIED: _ClassVar[Contents]
    EMPTY: _ClassVar[Contents]
    VALID: _ClassVar[Contents]
    STALE_CONTENTS: _ClassVar[Contents]
    FOREIGN_CONTENTS: _ClassVar[Contents]
    UNKNOWN: _ClassVar[Contents]
    REGENERATING: _ClassVar[Contents]
    ADDED: _ClassVar[Contents]
    UNREADABLE_CONTENTS: _ClassVar[Contents]
STATE_UNSPECIFIED: State
STARTING: State
WAITING_GRANT: State
HELD: State
FENCING: State
STAMPING: State
REPLAYING: State
REPAIRING: State
SERVING: State
READ_ONLY: State
STOPPING: State
VERDICT_UNSPECIFIED: Verdict
HEALTHY: Verdict
BOOTSTRAP: Verdict
LOST: Verdict
STALE: Verdict
FOREIGN: Verdict
MOUNT_MISSING: Verdict
UNKNOWN_CONTENT: Verdict
COOKIE_MISSING: Verdict
UNCLEAN: Verdict
RESUME: Verdict
SET_ASIDE: Verdict
UNREADABLE: Verdict
CONTENTS_UNSPECIFIED: Contents
EMPTY: Contents
VALID: Contents
STALE_CONTENTS: Contents
FOREIGN_CONTENTS: Contents
UNKNOWN: Contents
REGENERATING: Contents
ADDED: Contents
UNREADABLE_CONTENTS: Contents

class GetStorageReportRequest(_message.Message):
    __slots__ = ("fresh",)
    FRESH_FIELD_NUMBER: _ClassVar[int]
    fresh: bool
    def __init__(self, fresh: _Optional[bool] = ...) -> None: ...

class StorageReport(_message.Message):
    __slots__ = ("bookie_id", "pod_uid", "state", "verdict", "reason", "instance_id", "metadata_reachable", "cookie_present", "cookie_version", "cookie_digest", "incarnation", "boot_epoch", "ledger_count", "ledgers_naming_me", "volumes", "evidence_hash", "unclean_shutdown", "capabilities", "operator_epoch_seen", "grant_id", "data_port_open", "version", "journal_write_data", "read_only", "process_uptime_ms", "granted_by", "quarantined", "quarantined_count", "directories_failed", "inspection_age_ms", "has_turn", "garbage_held_ledgers", "is_draining", "whole_since_boot", "aside", "ledger_bytes_used", "ledger_bytes_room", "live_settings", "certificates_due", "formats")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_REACHABLE_FIELD_NUMBER: _ClassVar[int]
    COOKIE_PRESENT_FIELD_NUMBER: _ClassVar[int]
    COOKIE_VERSION_FIELD_NUMBER: _ClassVar[int]
    COOKIE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEDGER_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_NAMING_ME_FIELD_NUMBER: _ClassVar[int]
    VOLUMES_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_HASH_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_SHUTDOWN_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_SEEN_FIELD_NUMBER: _ClassVar[int]
    GRANT_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_PORT_OPEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_WRITE_DATA_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    PROCESS_UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_BY_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FAILED_FIELD_NUMBER: _ClassVar[int]
    INSPECTION_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    HAS_TURN_FIELD_NUMBER: _ClassVar[int]
    GARBAGE_HELD_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    IS_DRAINING_FIELD_NUMBER: _ClassVar[int]
    WHOLE_SINCE_BOOT_FIELD_NUMBER: _ClassVar[int]
    ASIDE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_BYTES_USED_FIELD_NUMBER: _ClassVar[int]
    LEDGER_BYTES_ROOM_FIELD_NUMBER: _ClassVar[int]
    LIVE_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_DUE_FIELD_NUMBER: _ClassVar[int]
    FORMATS_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    pod_uid: str
    state: State
    verdict: Verdict
    reason: str
    instance_id: str
    metadata_reachable: bool
    cookie_present: bool
    cookie_version: int
    cookie_digest: str
    incarnation: int
    boot_epoch: int
    ledger_count: int
    ledgers_naming_me: int
    volumes: _containers.RepeatedCompositeFieldContainer[VolumeReport]
    evidence_hash: str
    unclean_shutdown: bool
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    operator_epoch_seen: int
    grant_id: str
    data_port_open: bool
    version: str
    journal_write_data: bool
    read_only: bool
    process_uptime_ms: int
    granted_by: str
    quarantined: _containers.RepeatedCompositeFieldContainer[BlockedLedger]
    quarantined_count: int
    directories_failed: _containers.RepeatedScalarFieldContainer[str]
    inspection_age_ms: int
    has_turn: bool
    garbage_held_ledgers: int
    is_draining: bool
    whole_since_boot: bool
    aside: Aside
    ledger_bytes_used: int
    ledger_bytes_room: int
    live_settings: _containers.RepeatedScalarFieldContainer[str]
    certificates_due: _containers.RepeatedScalarFieldContainer[str]
    formats: _containers.RepeatedCompositeFieldContainer[DiskFormat]
    def __init__(self, bookie_id: _Optional[str] = ..., pod_uid: _Optional[str] = ..., state: _Optional[_Union[State, str]] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ..., instance_id: _Optional[str] = ..., metadata_reachable: _Optional[bool] = ..., cookie_present: _Optional[bool] = ..., cookie_version: _Optional[int] = ..., cookie_digest: _Optional[str] = ..., incarnation: _Optional[int] = ..., boot_epoch: _Optional[int] = ..., ledger_count: _Optional[int] = ..., ledgers_naming_me: _Optional[int] = ..., volumes: _Optional[_Iterable[_Union[VolumeReport, _Mapping]]] = ..., evidence_hash: _Optional[str] = ..., unclean_shutdown: _Optional[bool] = ..., capabilities: _Optional[_Iterable[str]] = ..., operator_epoch_seen: _Optional[int] = ..., grant_id: _Optional[str] = ..., data_port_open: _Optional[bool] = ..., version: _Optional[str] = ..., journal_write_data: _Optional[bool] = ..., read_only: _Optional[bool] = ..., process_uptime_ms: _Optional[int] = ..., granted_by: _Optional[str] = ..., quarantined: _Optional[_Iterable[_Union[BlockedLedger, _Mapping]]] = ..., quarantined_count: _Optional[int] = ..., directories_failed: _Optional[_Iterable[str]] = ..., inspection_age_ms: _Optional[int] = ..., has_turn: _Optional[bool] = ..., garbage_held_ledgers: _Optional[int] = ..., is_draining: _Optional[bool] = ..., whole_since_boot: _Optional[bool] = ..., aside: _Optional[_Union[Aside, _Mapping]] = ..., ledger_bytes_used: _Optional[int] = ..., ledger_bytes_room: _Optional[int] = ..., live_settings: _Optional[_Iterable[str]] = ..., certificates_due: _Optional[_Iterable[str]] = ..., formats: _Optional[_Iterable[_Union[DiskFormat, _Mapping]]] = ...) -> None: ...

class DiskFormat(_message.Message):
    __slots__ = ("name", "reads_from", "reads_to", "writes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    READS_FROM_FIELD_NUMBER: _ClassVar[int]
    READS_TO_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    name: str
    reads_from: int
    reads_to: int
    writes: int
    def __init__(self, name: _Optional[str] = ..., reads_from: _Optional[int] = ..., reads_to: _Optional[int] = ..., writes: _Optional[int] = ...) -> None: ...

class ListMembersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Members(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("bookie_id", "has_cookie", "is_registered", "is_writable", "cookie_version")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    HAS_COOKIE_FIELD_NUMBER: _ClassVar[int]
    IS_REGISTERED_FIELD_NUMBER: _ClassVar[int]
    IS_WRITABLE_FIELD_NUMBER: _ClassVar[int]
    COOKIE_VERSION_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    has_cookie: bool
    is_registered: bool
    is_writable: bool
    cookie_version: int
    def __init__(self, bookie_id: _Optional[str] = ..., has_cookie: _Optional[bool] = ..., is_registered: _Optional[bool] = ..., is_writable: _Optional[bool] = ..., cookie_version: _Optional[int] = ...) -> None: ...

class VolumeReport(_message.Message):
    __slots__ = ("name", "role", "path", "mount", "contents", "sentinel", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MOUNT_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    SENTINEL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    path: str
    mount: Mount
    contents: Contents
    sentinel: Sentinel
    reason: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., path: _Optional[str] = ..., mount: _Optional[_Union[Mount, _Mapping]] = ..., contents: _Optional[_Union[Contents, str]] = ..., sentinel: _Optional[_Union[Sentinel, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Mount(_message.Message):
    __slots__ = ("proof", "is_mount_point", "device", "fsid", "fstype", "root", "source", "total_bytes", "shares_node_disk", "reason")
    class Proof(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PROOF_UNSPECIFIED: _ClassVar[Mount.Proof]
        PROVEN: _ClassVar[Mount.Proof]
        SHARED: _ClassVar[Mount.Proof]
        SUSPECT: _ClassVar[Mount.Proof]
        MISSING: _ClassVar[Mount.Proof]
        UNCHECKED: _ClassVar[Mount.Proof]
        SILENT: _ClassVar[Mount.Proof]
    PROOF_UNSPECIFIED: Mount.Proof
    PROVEN: Mount.Proof
    SHARED: Mount.Proof
    SUSPECT: Mount.Proof
    MISSING: Mount.Proof
    UNCHECKED: Mount.Proof
    SILENT: Mount.Proof
    PROOF_FIELD_NUMBER: _ClassVar[int]
    IS_MOUNT_POINT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    FSID_FIELD_NUMBER: _ClassVar[int]
    FSTYPE_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHARES_NODE_DISK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    proof: Mount.Proof
    is_mount_point: bool
    device: str
    fsid: str
    fstype: str
    root: str
    source: str
    total_bytes: int
    shares_node_disk: bool
    reason: str
    def __init__(self, proof: _Optional[_Union[Mount.Proof, str]] = ..., is_mount_point: _Optional[bool] = ..., device: _Optional[str] = ..., fsid: _Optional[str] = ..., fstype: _Optional[str] = ..., root: _Optional[str] = ..., source: _Optional[str] = ..., total_bytes: _Optional[int] = ..., shares_node_disk: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class Sentinel(_message.Message):
    __slots__ = ("instance_id", "bookie_id", "role", "volume", "incarnation", "boot_epoch", "fsid", "grant_id")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FSID_FIELD_NUMBER: _ClassVar[int]
    GRANT_ID_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    bookie_id: str
    role: str
    volume: str
    incarnation: int
    boot_epoch: int
    fsid: str
    grant_id: str
    def __init__(self, instance_id: _Optional[str] = ..., bookie_id: _Optional[str] = ..., role: _Optional[str] = ..., volume: _Optional[str] = ..., incarnation: _Optional[int] = ..., boot_epoch: _Optional[int] = ..., fsid: _Optional[str] = ..., grant_id: _Optional[str] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("grant_id", "bookie_id", "pod_uid", "evidence_hash", "cookie_version", "new_incarnation", "operator_epoch", "ttl_ms", "issued_by", "accepts_stale")
    GRANT_ID_FIELD_NUMBER: _ClassVar[int]
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_HASH_FIELD_NUMBER: _ClassVar[int]
    COOKIE_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEW_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    ISSUED_BY_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_STALE_FIELD_NUMBER: _ClassVar[int]
    grant_id: str
    bookie_id: str
    pod_uid: str
    evidence_hash: str
    cookie_version: int
    new_incarnation: int
    operator_epoch: int
    ttl_ms: int
    issued_by: str
    accepts_stale: bool
    def __init__(self, grant_id: _Optional[str] = ..., bookie_id: _Optional[str] = ..., pod_uid: _Optional[str] = ..., evidence_hash: _Optional[str] = ..., cookie_version: _Optional[int] = ..., new_incarnation: _Optional[int] = ..., operator_epoch: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., issued_by: _Optional[str] = ..., accepts_stale: _Optional[bool] = ...) -> None: ...

class GrantReply(_message.Message):
    __slots__ = ("accepted", "refused_reason", "text")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    refused_reason: str
    text: str
    def __init__(self, accepted: _Optional[bool] = ..., refused_reason: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class GetRepairStatusRequest(_message.Message):
    __slots__ = ("interval_ms",)
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    interval_ms: int
    def __init__(self, interval_ms: _Optional[int] = ...) -> None: ...

class RepairStatus(_message.Message):
    __slots__ = ("state", "phase", "phase_one_ms", "ledgers_scanned", "ledgers_total", "ledgers_member", "ledgers_fenced", "ledgers_limbo", "ledgers_pending", "ledgers_done", "entries_copied", "bytes_copied", "entries_pending", "bytes_per_second", "blocked", "done", "incarnation", "elapsed_ms")
    STATE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PHASE_ONE_MS_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_SCANNED_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_MEMBER_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_FENCED_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_LIMBO_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_PENDING_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_DONE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_COPIED_FIELD_NUMBER: _ClassVar[int]
    BYTES_COPIED_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_PENDING_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    state: State
    phase: str
    phase_one_ms: int
    ledgers_scanned: int
    ledgers_total: int
    ledgers_member: int
    ledgers_fenced: int
    ledgers_limbo: int
    ledgers_pending: int
    ledgers_done: int
    entries_copied: int
    bytes_copied: int
    entries_pending: int
    bytes_per_second: float
    blocked: _containers.RepeatedCompositeFieldContainer[BlockedLedger]
    done: bool
    incarnation: int
    elapsed_ms: int
    def __init__(self, state: _Optional[_Union[State, str]] = ..., phase: _Optional[str] = ..., phase_one_ms: _Optional[int] = ..., ledgers_scanned: _Optional[int] = ..., ledgers_total: _Optional[int] = ..., ledgers_member: _Optional[int] = ..., ledgers_fenced: _Optional[int] = ..., ledgers_limbo: _Optional[int] = ..., ledgers_pending: _Optional[int] = ..., ledgers_done: _Optional[int] = ..., entries_copied: _Optional[int] = ..., bytes_copied: _Optional[int] = ..., entries_pending: _Optional[int] = ..., bytes_per_second: _Optional[float] = ..., blocked: _Optional[_Iterable[_Union[BlockedLedger, _Mapping]]] = ..., done: _Optional[bool] = ..., incarnation: _Optional[int] = ..., elapsed_ms: _Optional[int] = ...) -> None: ...

class BlockedLedger(_message.Message):
    __slots__ = ("ledger_id", "reason")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    reason: str
    def __init__(self, ledger_id: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class SetModeRequest(_message.Message):
    __slots__ = ("mode", "operator_epoch", "ends_turn")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MODE_UNSPECIFIED: _ClassVar[SetModeRequest.Mode]
        READ_WRITE: _ClassVar[SetModeRequest.Mode]
        READ_ONLY_MODE: _ClassVar[SetModeRequest.Mode]
    MODE_UNSPECIFIED: SetModeRequest.Mode
    READ_WRITE: SetModeRequest.Mode
    READ_ONLY_MODE: SetModeRequest.Mode
    MODE_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENDS_TURN_FIELD_NUMBER: _ClassVar[int]
    mode: SetModeRequest.Mode
    operator_epoch: int
    ends_turn: bool
    def __init__(self, mode: _Optional[_Union[SetModeRequest.Mode, str]] = ..., operator_epoch: _Optional[int] = ..., ends_turn: _Optional[bool] = ...) -> None: ...

class SetModeReply(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: State
    def __init__(self, state: _Optional[_Union[State, str]] = ...) -> None: ...

class PrepareShutdownRequest(_message.Message):
    __slots__ = ("operator_epoch", "pod_uid", "ttl_ms", "is_sealed")
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    IS_SEALED_FIELD_NUMBER: _ClassVar[int]
    operator_epoch: int
    pod_uid: str
    ttl_ms: int
    is_sealed: bool
    def __init__(self, operator_epoch: _Optional[int] = ..., pod_uid: _Optional[str] = ..., ttl_ms: _Optional[int] = ..., is_sealed: _Optional[bool] = ...) -> None: ...

class PrepareShutdownReply(_message.Message):
    __slots__ = ("flushed", "text")
    FLUSHED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    flushed: bool
    text: str
    def __init__(self, flushed: _Optional[bool] = ..., text: _Optional[str] = ...) -> None: ...

class CheckpointRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckpointReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CollectGarbageRequest(_message.Message):
    __slots__ = ("compaction", "released", "looks_only")
    class Compaction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[CollectGarbageRequest.Compaction]
        MINOR: _ClassVar[CollectGarbageRequest.Compaction]
        MAJOR: _ClassVar[CollectGarbageRequest.Compaction]
    NONE: CollectGarbageRequest.Compaction
    MINOR: CollectGarbageRequest.Compaction
    MAJOR: CollectGarbageRequest.Compaction
    COMPACTION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    LOOKS_ONLY_FIELD_NUMBER: _ClassVar[int]
    compaction: CollectGarbageRequest.Compaction
    released: int
    looks_only: bool
    def __init__(self, compaction: _Optional[_Union[CollectGarbageRequest.Compaction, str]] = ..., released: _Optional[int] = ..., looks_only: _Optional[bool] = ...) -> None: ...

class GarbageReport(_message.Message):
    __slots__ = ("ledgers_seen", "ledgers_deleted", "logs_dropped", "logs_compacted", "logs_damaged", "entries_copied", "bytes_copied", "bytes_freed", "refused", "ledgers_held", "bytes_held", "held_first", "held_reason", "ledgers_day", "bytes_day", "ledgers_allowed", "bytes_allowed", "undecided", "undecided_count")
    LEDGERS_SEEN_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_DELETED_FIELD_NUMBER: _ClassVar[int]
    LOGS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    LOGS_COMPACTED_FIELD_NUMBER: _ClassVar[int]
    LOGS_DAMAGED_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_COPIED_FIELD_NUMBER: _ClassVar[int]
    BYTES_COPIED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FREED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_HELD_FIELD_NUMBER: _ClassVar[int]
    BYTES_HELD_FIELD_NUMBER: _ClassVar[int]
    HELD_FIRST_FIELD_NUMBER: _ClassVar[int]
    HELD_REASON_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_DAY_FIELD_NUMBER: _ClassVar[int]
    BYTES_DAY_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    BYTES_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    UNDECIDED_FIELD_NUMBER: _ClassVar[int]
    UNDECIDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ledgers_seen: int
    ledgers_deleted: int
    logs_dropped: int
    logs_compacted: int
    logs_damaged: int
    entries_copied: int
    bytes_copied: int
    bytes_freed: int
    refused: str
    ledgers_held: int
    bytes_held: int
    held_first: _containers.RepeatedScalarFieldContainer[int]
    held_reason: str
    ledgers_day: int
    bytes_day: int
    ledgers_allowed: int
    bytes_allowed: int
    undecided: _containers.RepeatedCompositeFieldContainer[BlockedLedger]
    undecided_count: int
    def __init__(self, ledgers_seen: _Optional[int] = ..., ledgers_deleted: _Optional[int] = ..., logs_dropped: _Optional[int] = ..., logs_compacted: _Optional[int] = ..., logs_damaged: _Optional[int] = ..., entries_copied: _Optional[int] = ..., bytes_copied: _Optional[int] = ..., bytes_freed: _Optional[int] = ..., refused: _Optional[str] = ..., ledgers_held: _Optional[int] = ..., bytes_held: _Optional[int] = ..., held_first: _Optional[_Iterable[int]] = ..., held_reason: _Optional[str] = ..., ledgers_day: _Optional[int] = ..., bytes_day: _Optional[int] = ..., ledgers_allowed: _Optional[int] = ..., bytes_allowed: _Optional[int] = ..., undecided: _Optional[_Iterable[_Union[BlockedLedger, _Mapping]]] = ..., undecided_count: _Optional[int] = ...) -> None: ...

class ScrubRequest(_message.Message):
    __slots__ = ("start",)
    START_FIELD_NUMBER: _ClassVar[int]
    start: bool
    def __init__(self, start: _Optional[bool] = ...) -> None: ...

class ScrubReport(_message.Message):
    __slots__ = ("is_running", "passes_done", "entries_checked", "bytes_checked", "ledger_id", "entry_id", "bad_count", "bad", "given_up")
    IS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    PASSES_DONE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_CHECKED_FIELD_NUMBER: _ClassVar[int]
    BYTES_CHECKED_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    BAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    BAD_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    is_running: bool
    passes_done: int
    entries_checked: int
    bytes_checked: int
    ledger_id: int
    entry_id: int
    bad_count: int
    bad: _containers.RepeatedCompositeFieldContainer[BadEntry]
    given_up: str
    def __init__(self, is_running: _Optional[bool] = ..., passes_done: _Optional[int] = ..., entries_checked: _Optional[int] = ..., bytes_checked: _Optional[int] = ..., ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ..., bad_count: _Optional[int] = ..., bad: _Optional[_Iterable[_Union[BadEntry, _Mapping]]] = ..., given_up: _Optional[str] = ...) -> None: ...

class BadEntry(_message.Message):
    __slots__ = ("ledger_id", "entry_id", "log_id", "offset", "reason")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    log_id: int
    offset: int
    reason: str
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ..., log_id: _Optional[int] = ..., offset: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("action", "operator_epoch", "bytes_per_second", "open_ledgers", "bookie_id")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ACTION_UNSPECIFIED: _ClassVar[DrainRequest.Action]
        START: _ClassVar[DrainRequest.Action]
        CANCEL: _ClassVar[DrainRequest.Action]
        LOOK: _ClassVar[DrainRequest.Action]
    ACTION_UNSPECIFIED: DrainRequest.Action
    START: DrainRequest.Action
    CANCEL: DrainRequest.Action
    LOOK: DrainRequest.Action
    class OpenLedgers(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WAIT: _ClassVar[DrainRequest.OpenLedgers]
        RECOVER: _ClassVar[DrainRequest.OpenLedgers]
    WAIT: DrainRequest.OpenLedgers
    RECOVER: DrainRequest.OpenLedgers
    ACTION_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    OPEN_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    action: DrainRequest.Action
    operator_epoch: int
    bytes_per_second: int
    open_ledgers: DrainRequest.OpenLedgers
    bookie_id: str
    def __init__(self, action: _Optional[_Union[DrainRequest.Action, str]] = ..., operator_epoch: _Optional[int] = ..., bytes_per_second: _Optional[int] = ..., open_ledgers: _Optional[_Union[DrainRequest.OpenLedgers, str]] = ..., bookie_id: _Optional[str] = ...) -> None: ...

class DrainStatus(_message.Message):
    __slots__ = ("is_draining", "ledgers_total", "ledgers_left", "entries_copied", "bytes_copied", "bytes_per_second", "open_ledgers", "blocked", "blocked_count", "is_empty", "error", "recovers_open_ledgers", "asked_bytes_per_second", "operator_epoch", "is_unknown")
    IS_DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_LEFT_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_COPIED_FIELD_NUMBER: _ClassVar[int]
    BYTES_COPIED_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    OPEN_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_EMPTY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RECOVERS_OPEN_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    ASKED_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    is_draining: bool
    ledgers_total: int
    ledgers_left: int
    entries_copied: int
    bytes_copied: int
    bytes_per_second: float
    open_ledgers: int
    blocked: _containers.RepeatedCompositeFieldContainer[BlockedLedger]
    blocked_count: int
    is_empty: bool
    error: str
    recovers_open_ledgers: bool
    asked_bytes_per_second: int
    operator_epoch: int
    is_unknown: bool
    def __init__(self, is_draining: _Optional[bool] = ..., ledgers_total: _Optional[int] = ..., ledgers_left: _Optional[int] = ..., entries_copied: _Optional[int] = ..., bytes_copied: _Optional[int] = ..., bytes_per_second: _Optional[float] = ..., open_ledgers: _Optional[int] = ..., blocked: _Optional[_Iterable[_Union[BlockedLedger, _Mapping]]] = ..., blocked_count: _Optional[int] = ..., is_empty: _Optional[bool] = ..., error: _Optional[str] = ..., recovers_open_ledgers: _Optional[bool] = ..., asked_bytes_per_second: _Optional[int] = ..., operator_epoch: _Optional[int] = ..., is_unknown: _Optional[bool] = ...) -> None: ...

class FindReferencesRequest(_message.Message):
    __slots__ = ("bookie_id",)
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    def __init__(self, bookie_id: _Optional[str] = ...) -> None: ...

class FindDependentsRequest(_message.Message):
    __slots__ = ("bookie_ids",)
    BOOKIE_IDS_FIELD_NUMBER: _ClassVar[int]
    bookie_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, bookie_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class References(_message.Message):
    __slots__ = ("bookie_id", "count", "first", "unreadable", "age_ms")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    count: int
    first: _containers.RepeatedCompositeFieldContainer[BlockedLedger]
    unreadable: int
    age_ms: int
    def __init__(self, bookie_id: _Optional[str] = ..., count: _Optional[int] = ..., first: _Optional[_Iterable[_Union[BlockedLedger, _Mapping]]] = ..., unreadable: _Optional[int] = ..., age_ms: _Optional[int] = ...) -> None: ...

class FindMarkedRequest(_message.Message):
    __slots__ = ("bookie_ids",)
    BOOKIE_IDS_FIELD_NUMBER: _ClassVar[int]
    bookie_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, bookie_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class HeldBack(_message.Message):
    __slots__ = ("bookie_id", "first")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    first: _containers.RepeatedCompositeFieldContainer[BlockedLedger]
    def __init__(self, bookie_id: _Optional[str] = ..., first: _Optional[_Iterable[_Union[BlockedLedger, _Mapping]]] = ...) -> None: ...

class MarkedLedgers(_message.Message):
    __slots__ = ("held", "marks", "age_ms")
    HELD_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    held: _containers.RepeatedCompositeFieldContainer[HeldBack]
    marks: int
    age_ms: int
    def __init__(self, held: _Optional[_Iterable[_Union[HeldBack, _Mapping]]] = ..., marks: _Optional[int] = ..., age_ms: _Optional[int] = ...) -> None: ...

class ForgetBookieRequest(_message.Message):
    __slots__ = ("bookie_id", "cookie_version", "operator_epoch")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    COOKIE_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    cookie_version: int
    operator_epoch: int
    def __init__(self, bookie_id: _Optional[str] = ..., cookie_version: _Optional[int] = ..., operator_epoch: _Optional[int] = ...) -> None: ...

class ForgetBookieReply(_message.Message):
    __slots__ = ("forgotten", "refused_reason", "text")
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    REFUSED_REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    forgotten: bool
    refused_reason: str
    text: str
    def __init__(self, forgotten: _Optional[bool] = ..., refused_reason: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class FillHolesRequest(_message.Message):
    __slots__ = ("action",)
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ACTION_UNSPECIFIED: _ClassVar[FillHolesRequest.Action]
        START: _ClassVar[FillHolesRequest.Action]
        LOOK: _ClassVar[FillHolesRequest.Action]
    ACTION_UNSPECIFIED: FillHolesRequest.Action
    START: FillHolesRequest.Action
    LOOK: FillHolesRequest.Action
    ACTION_FIELD_NUMBER: _ClassVar[int]
    action: FillHolesRequest.Action
    def __init__(self, action: _Optional[_Union[FillHolesRequest.Action, str]] = ...) -> None: ...

class FillStatus(_message.Message):
    __slots__ = ("is_running", "began_ms_ago", "ended_ms_ago", "boot_epoch", "ledgers_total", "ledgers_done", "entries_missing", "entries_copied", "bytes_copied", "blocked", "blocked_count", "is_whole", "reason", "is_waiting")
    IS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    BEGAN_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_DONE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_MISSING_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_COPIED_FIELD_NUMBER: _ClassVar[int]
    BYTES_COPIED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_WHOLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IS_WAITING_FIELD_NUMBER: _ClassVar[int]
    is_running: bool
    began_ms_ago: int
    ended_ms_ago: int
    boot_epoch: int
    ledgers_total: int
    ledgers_done: int
    entries_missing: int
    entries_copied: int
    bytes_copied: int
    blocked: _containers.RepeatedCompositeFieldContainer[BlockedLedger]
    blocked_count: int
    is_whole: bool
    reason: str
    is_waiting: bool
    def __init__(self, is_running: _Optional[bool] = ..., began_ms_ago: _Optional[int] = ..., ended_ms_ago: _Optional[int] = ..., boot_epoch: _Optional[int] = ..., ledgers_total: _Optional[int] = ..., ledgers_done: _Optional[int] = ..., entries_missing: _Optional[int] = ..., entries_copied: _Optional[int] = ..., bytes_copied: _Optional[int] = ..., blocked: _Optional[_Iterable[_Union[BlockedLedger, _Mapping]]] = ..., blocked_count: _Optional[int] = ..., is_whole: _Optional[bool] = ..., reason: _Optional[str] = ..., is_waiting: _Optional[bool] = ...) -> None: ...

class Aside(_message.Message):
    __slots__ = ("is_aside", "why", "order_id", "asked_ms")
    IS_ASIDE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    ASKED_MS_FIELD_NUMBER: _ClassVar[int]
    is_aside: bool
    why: str
    order_id: str
    asked_ms: int
    def __init__(self, is_aside: _Optional[bool] = ..., why: _Optional[str] = ..., order_id: _Optional[str] = ..., asked_ms: _Optional[int] = ...) -> None: ...

class SetAsideRequest(_message.Message):
    __slots__ = ("bookie_id", "order", "operator_epoch")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    order: Aside
    operator_epoch: int
    def __init__(self, bookie_id: _Optional[str] = ..., order: _Optional[_Union[Aside, _Mapping]] = ..., operator_epoch: _Optional[int] = ...) -> None: ...

class SetAsideReply(_message.Message):
    __slots__ = ("done", "refused_reason", "text")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    done: bool
    refused_reason: str
    text: str
    def __init__(self, done: _Optional[bool] = ..., refused_reason: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class RestoreCookieRequest(_message.Message):
    __slots__ = ("evidence_hash", "operator_epoch")
    EVIDENCE_HASH_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    evidence_hash: str
    operator_epoch: int
    def __init__(self, evidence_hash: _Optional[str] = ..., operator_epoch: _Optional[int] = ...) -> None: ...

class RestoreCookieReply(_message.Message):
    __slots__ = ("done", "refused_reason", "text")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    done: bool
    refused_reason: str
    text: str
    def __init__(self, done: _Optional[bool] = ..., refused_reason: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class AcceptLedgerLossRequest(_message.Message):
    __slots__ = ("ledger_id", "bookie_ids", "by", "reason", "operator_epoch")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    BOOKIE_IDS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    bookie_ids: _containers.RepeatedScalarFieldContainer[str]
    by: str
    reason: str
    operator_epoch: int
    def __init__(self, ledger_id: _Optional[int] = ..., bookie_ids: _Optional[_Iterable[str]] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ..., operator_epoch: _Optional[int] = ...) -> None: ...

class AcceptLedgerLossReply(_message.Message):
    __slots__ = ("done", "refused_reason", "text")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    done: bool
    refused_reason: str
    text: str
    def __init__(self, done: _Optional[bool] = ..., refused_reason: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ChangeSettingsRequest(_message.Message):
    __slots__ = ("settings", "operator_epoch")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    settings: _containers.ScalarMap[str, str]
    operator_epoch: int
    def __init__(self, settings: _Optional[_Mapping[str, str]] = ..., operator_epoch: _Optional[int] = ...) -> None: ...

class ChangeSettingsReply(_message.Message):
    __slots__ = ("done", "refused_reason", "text")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    done: bool
    refused_reason: str
    text: str
    def __init__(self, done: _Optional[bool] = ..., refused_reason: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...
