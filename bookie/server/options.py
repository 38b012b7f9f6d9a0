"""ServerOptions: the settings of one bookie process. Validated together; reads no file and no environment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bookie.base import errors, ids
from bookie.base.budgets import Budgets
from bookie.base.ids import BookieId
from bookie.client.options import ClientOptions
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.integrity.options import IntegrityOptions
from bookie.metadata import paths
from bookie.metadata.loss_signature import SigningKey
from bookie.server.security import SecurityOptions
from bookie.storage.options import StorageOptions
from bookie.wire.framing import FRAME_LIMIT_BYTES


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """One bookie. `host` is what clients are told to dial, `listen_host` what we bind; port 0 lets the system choose.

    Defaults are the Java bookie's where it has them: same ports, same session time-out (ServerConfiguration.java).
    """

    bookie_id: BookieId
    host: str
    metadata_uri: str
    storage: StorageOptions
    integrity: IntegrityOptions
    port: int = 3181
    listen_host: str = "0.0.0.0"
    zone: str = ""
    machine: str = ""  # which it shares with other bookies; "": it shares none
    # Told to clients that look this bookie up, as Java's bookie tells it; the command line runs the server itself.
    http_port: int | None = None
    # Read-only for this whole life: nobody can make it writable (Java's forceReadOnlyBookie).
    force_read_only: bool = False
    # What somebody set by hand outlives the process (Java's persistBookieStatusEnabled).
    keeps_mode: bool = False
    session_timeout_ms: int = 30_000
    # Answer only while the session cannot have ended (`server.lease`). Off: an outage of ZooKeeper silences nobody.
    answers_under_lease: bool = False
    # At start: long enough for a metadata store that starts beside us.
    metadata_patience_ms: int = 120_000
    # For the last flush. A stop takes 10 s at most; Kubernetes gives 30 s between SIGTERM and SIGKILL by default.
    shutdown_timeout_ms: int = 8_000
    # Java's gcWaitTime: deleted ledgers give their space back within this and a little.
    gc_interval_ms: int = 900_000
    # Surplus goes after so long (Java's gcOverreplicatedLedgerWaitTime); None: it is kept.
    surplus_wait_ms: int | None = None
    frame_bytes_max: int = FRAME_LIMIT_BYTES
    # What strangers may make it hold.
    budgets: Budgets = field(default_factory=Budgets)
    # Java's maxPendingReadRequestsPerThread.
    reads_pending_max: int = 10_000
    security: SecurityOptions = field(default_factory=SecurityOptions)
    # Signs what this bookie writes when an operator has it give up a loss (spec/metadata.md#M58); None: it is unsigned.
    loss_key: SigningKey | None = None
    # Auditor and worker in this process, beside serving (Java's autoRecoveryDaemonEnabled); None: not here.
    autorecovery: AutoRecoveryOptions | None = None
    # The texts of settings that may change while it runs, as they were said; a default is not said.
    live: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise errors.BadInput("server options: " + "; ".join(problems))

    def client_options(self) -> ClientOptions:
        """Return the options with which this bookie reads from other bookies."""
        security = self.security
        return ClientOptions(
            self.metadata_uri,
            tls=security.peer_tls,
            sasl_user=security.peer_user,
            sasl_password=security.peer_password,
        )

    def _problems(self) -> Iterator[str]:
        for check, value in ((ids.parse_bookie_id, self.bookie_id), (paths.parse_uri, self.metadata_uri)):
            try:
                check(value)
            except errors.BadInput as error:
                yield str(error)
        if not self.host:
            yield "no address to tell clients; set advertisedAddress"
        if not 0 <= self.port < 1 << 16:
            yield f"port {self.port} is not between 0 and 65535"
        for name, milliseconds in (
            ("session_timeout_ms", self.session_timeout_ms),
            ("shutdown_timeout_ms", self.shutdown_timeout_ms),
            ("metadata_patience_ms", self.metadata_patience_ms),
            ("gc_interval_ms", self.gc_interval_ms),
        ):
            if milliseconds < 1:
                yield f"{name} is {milliseconds}, at least 1"
