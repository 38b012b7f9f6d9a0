"""ClientOptions: the settings of a client, each with its reason. One error reports all problems together."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.base.units import KIB, MIB
from bookie.client import arguments
from bookie.metadata import paths
from bookie.ports.metadata_store import MetadataSecurity
from bookie.ports.tls import TlsOptions
from bookie.wire.framing import FRAME_LIMIT_BYTES

# 31 bits hold 24 days in ms, and more entries than any setting can mean. Sizes of memory may be larger.
NUMBER_MAX = 2**31 - 1
BYTES_MAX = 2**62
LONG_POLL_MS = 3_000
# Leaves room for an entry beside the header, key and digest that go with it.
FRAME_LIMIT_MIN_BYTES = 1 * KIB


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Defaults are Java's where Java has the setting (spec/wire.md#W44), else they say why."""

    metadata_uri: str
    # 3, or 2 as Pulsar's brokers use: fewer bytes, no deferred sync. Requests that 2 cannot carry go as 3, over a
    # second connection (spec/wire.md#W6).
    protocol_version: int = 3
    session_timeout_ms: int = 30_000
    request_timeout_ms: int = 5_000  # addEntryTimeoutSec, readEntryTimeoutSec
    dial_timeout_ms: int = 3_000  # Java waits 10 s; a writer can replace the bookie sooner than that
    speculative_read_ms: int = 2_000  # speculativeReadTimeout
    # Must end before request_timeout_ms does (spec/wire.md#W44). 0: three fifths of that, at most 3 s.
    long_poll_ms: int = 0
    # One writer's unconfirmed entries: enough to fill a 10 Gbit/s path of 1 ms twice with 1 KiB entries.
    in_flight_entries_max: int = 2_000
    in_flight_bytes_max: int = 16 * MIB
    # One bookie of an ensemble may lag this far behind the others before it is replaced: it bounds the writer's memory.
    lag_bytes_max: int = 64 * MIB
    # Many entries in one answer (BATCH_READ_ENTRY), where E == WQ; over a v2 connection, since v3 has no such request.
    batch_reads: bool = True
    # A reader asks for so many entries and bytes ahead of its consumer.
    prefetch_entries_max: int = 2_000
    prefetch_bytes_max: int = 8 * MIB
    # A writer waits so long for an ack quorum of live bookies before it ends (Java's ends at once).
    ensemble_timeout_ms: int = 30_000
    # Locations by bookie id or host: a zone, or /region/zone. They win over the zone that a bookie registers.
    locations: Mapping[str, str] = field(default_factory=dict)
    # The record in which Pulsar's clusters keep the locations (usually /bookies); "" for none.
    rack_mapping_path: str = ""
    # Every entry must be in so many zones (minNumRacksPerWriteQuorum, enforced). 1: spread as well as possible.
    zones_per_write_quorum_min: int = 1
    # Bookies with more room get more of the new ledgers (diskWeightBasedPlacementEnabled).
    weigh_by_free_space: bool = False
    # Leave a failed bookie's slot empty while the ack quorum can be met without it (delayEnsembleChange).
    delay_ensemble_change: bool = False
    # A bookie that failed is not chosen for new ensembles for this long if others can be had, and is read from last.
    quarantine_ms: int = 30_000
    # A writer that pauses tells bookies its LAC, so that tailing readers see the last entry (explicitLacInterval).
    explicit_lac_ms: int = 250
    recovery_timeout_ms: int = 120_000
    frame_limit_bytes: int = FRAME_LIMIT_BYTES
    # Encryption to bookies, and the user to be there (docs/SECURITY.md). Without: plain bytes, and no user.
    tls: TlsOptions | None = None
    sasl_user: str = ""
    sasl_password: Secret = Secret("")
    # Encryption and user for the metadata store (docs/SECURITY.md); `bookie.connect` makes this client's world with it.
    metadata_security: MetadataSecurity = field(default_factory=MetadataSecurity)

    def __post_init__(self) -> None:
        problems = [problem for one in dataclasses.fields(self) if (problem := self._problem(one.name))]
        # Each field by itself first: only numbers can be compared.
        if not problems and self.long_poll_ms >= self.request_timeout_ms:
            problems.append(
                f"long_poll_ms ({self.long_poll_ms}) must be less than request_timeout_ms ({self.request_timeout_ms})"
            )
        if problems:
            raise errors.BadInput("client options: " + "; ".join(problems))

    @property
    def long_poll_wait_ms(self) -> int:
        """Return how long bookies are asked to hold a question for the next entry."""
        return self.long_poll_ms or max(1, min(LONG_POLL_MS, self.request_timeout_ms * 3 // 5))

    def _problem(self, name: str) -> str | None:
        """Return what is wrong with the field `name`, None when it is fine."""
        value = getattr(self, name)
        try:
            match name:
                case "metadata_uri":
                    arguments.instance(value, str, name)
                    paths.parse_uri(value)
                case "protocol_version":
                    if arguments.whole(value, name, low=0, high=NUMBER_MAX) not in (2, 3):
                        raise errors.BadInput(f"{name} must be 2 or 3, not {value}")
                case "locations":
                    _check_locations(value)
                case "tls":
                    arguments.instance(value, TlsOptions | NoneType, name)
                case "metadata_security":
                    arguments.instance(value, MetadataSecurity, name)
                case "sasl_password":
                    arguments.instance(value, Secret, name)
                case "rack_mapping_path" | "sasl_user":
                    arguments.instance(value, str, name)
                case "batch_reads" | "weigh_by_free_space" | "delay_ensemble_change":
                    arguments.flag(value, name)
                case _:
                    high = BYTES_MAX if name.endswith("_bytes_max") else NUMBER_MAX
                    arguments.whole(value, name, low=_LOW.get(name, 1), high=high)
        except errors.BadInput as error:
            return str(error)
        return None


def _check_locations(value: object) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for pair in value.items() for one in pair):
        raise errors.BadInput("locations must map bookie ids or hosts to zones, all text")


# The least value where it is not 1. 0 switches the LAC off, and lets us choose the long poll.
_LOW = {"explicit_lac_ms": 0, "long_poll_ms": 0, "frame_limit_bytes": FRAME_LIMIT_MIN_BYTES}
