"""ClientOptions: what an application may tell the client library. All problems are reported together."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.base.units import MIB
from bookie.metadata import paths
from bookie.ports.tls import TlsOptions
from bookie.wire.framing import FRAME_LIMIT_BYTES


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Defaults are Java's where Java has the setting (wire 9.3), else they say why."""

    metadata_uri: str
    # 3, or 2 as Pulsar's brokers use: fewer bytes, no deferred sync. What 2 cannot say goes as 3 besides (wire 2).
    protocol_version: int = 3
    session_timeout_ms: int = 30_000
    request_timeout_ms: int = 5_000  # addEntryTimeoutSec, readEntryTimeoutSec
    dial_timeout_ms: int = 3_000  # Java waits 10 s; a writer can replace the bookie sooner than that
    speculative_read_ms: int = 2_000  # speculativeReadTimeout
    long_poll_ms: int = 3_000  # must end before request_timeout_ms does (wire 9.3, "long poll trap")
    # One writer's unconfirmed entries: enough to fill a 10 Gbit/s path of 1 ms twice with 1 KiB entries.
    in_flight_entries_max: int = 2_000
    in_flight_bytes_max: int = 16 * MIB
    # What one bookie of an ensemble may lag behind the others before it is replaced: it bounds the writer's memory.
    lag_bytes_max: int = 64 * MIB
    # Many entries in one answer (BATCH_READ_ENTRY), where E == WQ; over a v2 connection, since v3 has no such request.
    batch_reads: bool = True
    # What a reader asks for ahead of its consumer.
    prefetch_entries_max: int = 2_000
    prefetch_bytes_max: int = 8 * MIB
    # How long a writer waits for an ack quorum of live bookies before it gives up (Java: not at all).
    ensemble_timeout_ms: int = 30_000
    # Where bookies stand, by bookie id or host: a zone, or /region/zone. Goes before what they say of themselves.
    locations: Mapping[str, str] = field(default_factory=dict)
    # The record in which Pulsar's clusters keep that (usually /bookies); "" for none.
    rack_mapping_path: str = ""
    # Zones that every entry must be in; fewer are refused (minNumRacksPerWriteQuorum, enforced). 1: as good as it gets.
    zones_per_write_quorum_min: int = 1
    # Bookies with more room get more of the new ledgers (diskWeightBasedPlacementEnabled).
    weigh_by_free_space: bool = False
    # Leave a failed bookie's slot empty while the ack quorum can be met without it (delayEnsembleChange).
    delay_ensemble_change: bool = False
    # A bookie that failed is not chosen for new ensembles for this long if others can be had, and is read from last.
    quarantine_ms: int = 30_000
    # LAC is told to bookies when a writer pauses, so that tailing readers see the last entry (explicitLacInterval).
    explicit_lac_ms: int = 250
    recovery_timeout_ms: int = 120_000
    frame_limit_bytes: int = FRAME_LIMIT_BYTES
    # How to reach bookies: encrypted, and as whom (docs/SECURITY.md). Without, in plain and as nobody.
    tls: TlsOptions | None = None
    sasl_user: str = ""
    sasl_password: Secret = Secret("")

    def __post_init__(self) -> None:
        problems: list[str] = []
        try:
            paths.parse_uri(self.metadata_uri)
        except errors.BadInput as error:
            problems.append(str(error))
        for name in self.__slots__:
            value = getattr(self, name)
            if type(value) is int and value < (0 if name == "explicit_lac_ms" else 1):
                problems.append(f"{name} must be positive, not {value}")
        if self.protocol_version not in (2, 3):
            problems.append(f"protocol_version must be 2 or 3, not {self.protocol_version}")
        if self.long_poll_ms >= self.request_timeout_ms:
            problems.append(
                f"long_poll_ms ({self.long_poll_ms}) must be less than request_timeout_ms ({self.request_timeout_ms})"
            )
        if problems:
            raise errors.BadInput("client options: " + "; ".join(problems))
