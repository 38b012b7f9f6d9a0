"""IntegrityOptions: what a bookie that lost data may do by itself, and how fast it repairs."""

from dataclasses import dataclass

from bookie.base import errors
from bookie.base.units import MIB

GATED, MANUAL, LOCAL = "gated", "manual", "local"
KUBERNETES, NONE = "kubernetes", "none"
SCAN, BOUND = "scan", "bound"
_PACES = ("fill_scan_concurrency", "fill_ledgers_per_s", "examine_ledgers_per_s")


@dataclass(frozen=True, slots=True)
class IntegrityOptions:
    """Options of integrity. `regeneration`: who lets empty volumes take over an existing identity: "gated": the
    operator, by its gates; "manual": a person (the bookie waits for a grant in both cases); "local": the bookie itself
    (development).

    `volume_proof` "none": mounts are not checked, as where there is no kubelet. `shared_filesystem_ok`: configured
    directories that may lie on the node's own disk.
    """

    regeneration: str = GATED
    volume_proof: str = KUBERNETES
    shared_filesystem_ok: tuple[str, ...] = ()

    # Ledger directories (with their indexes) that the settings have at the end and the cookie has not are added.
    allow_storage_expansion: bool = False
    # Half of what a 1 Gbit/s link carries: repair must not starve the clients. None: as fast as it goes.
    copy_rate_bytes_per_s: int | None = 64 * MIB
    # How long a writer may stay silent before its ledger is recovered (and the writer fenced). The same figure as the
    # openLedgerRereplicationGracePeriod that BookKeeper's users know.
    open_ledger_grace_ms: int = 30_000
    # Held or waiting: look again this often.
    inspect_interval_ms: int = 2_000
    # Two looks at a mount this far apart must agree (spec/operator.md#K2).
    mount_settle_ms: int = 1_000
    # How long an earlier process of this id may stay registered: a session time-out of 30 s, and as much again.
    registration_wait_ms: int = 60_000
    # What phase one does after the loss of volumes: look at every ledger ("scan"), or doubt all of them and examine
    # them beside serving ("bound", decisions/0021).
    phase_one: str = SCAN
    # Ledgers whose metadata is read at the same time in phase one, or examined; bounds its memory too.
    scan_concurrency: int = 128
    # Ledgers examined in a second beside the clients: half a core (0.2 ms each).
    examine_ledgers_per_s: int = 2_000
    # Entries being copied at the same time in phase two.
    copy_concurrency: int = 32
    # Whether the bookie fills, by itself after each start, the holes of what was written while it was away.
    fill_after_boot: bool = True
    # Ledgers whose metadata such a fill reads at the same time, and in a second: a fifth of a core beside the clients
    # (0.2 ms each).
    fill_scan_concurrency: int = 16
    fill_ledgers_per_s: int = 1_000
    # A ledger that cannot be repaired now is tried again after this, doubled up to the second.
    retry_delay_ms: int = 500
    retry_delay_ms_max: int = 30_000

    # The two guards of BP-46. Off only in simulation, to show what they are for.
    guard_fence: bool = True
    guard_limbo: bool = True

    def __post_init__(self) -> None:
        problems = []
        if self.regeneration not in (GATED, MANUAL, LOCAL):
            problems.append(f"regeneration is {self.regeneration!r}: one of {GATED}, {MANUAL}, {LOCAL}")
        if self.volume_proof not in (KUBERNETES, NONE):
            problems.append(f"volumeProof is {self.volume_proof!r}: one of {KUBERNETES}, {NONE}")
        if self.phase_one not in (SCAN, BOUND):
            problems.append(f"phaseOne is {self.phase_one!r}: one of {SCAN}, {BOUND}")
        if self.copy_rate_bytes_per_s is not None and self.copy_rate_bytes_per_s < 1024:
            problems.append(f"copyRateBytesPerSecond is {self.copy_rate_bytes_per_s}: at least 1024, or none")
        for name in ("open_ledger_grace_ms", "mount_settle_ms", "registration_wait_ms"):
            if getattr(self, name) < 0:
                problems.append(f"{name} is {getattr(self, name)}: not below 0")
        for name in ("inspect_interval_ms", "scan_concurrency", "copy_concurrency", "retry_delay_ms", *_PACES):
            if getattr(self, name) < 1:
                problems.append(f"{name} is {getattr(self, name)}: at least 1")
        if self.retry_delay_ms_max < self.retry_delay_ms:
            problems.append("retry_delay_ms_max is below retry_delay_ms")
        if problems:
            raise errors.BadInput("integrity options: " + "; ".join(problems))

    @property
    def waits_for_grant(self) -> bool:
        return self.regeneration != LOCAL
