"""Turns settings into ServerOptions: derives missing ones, and reports all contradictions at once."""

import dataclasses
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from bookie.base import ids
from bookie.base.budgets import Budgets
from bookie.base.errors import BadInput
from bookie.base.units import HOUR_MS
from bookie.cli import derive, directories, security_settings, storage_settings, who
from bookie.cli.derive import HostLookup, Wanted
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.integrity.options import IntegrityOptions
from bookie.ports import Host
from bookie.ports.metadata_store import MetadataSecurity
from bookie.ports.network import Address
from bookie.runtime import host, metadata_access
from bookie.server.options import ServerOptions
from bookie.server.security import SecurityOptions
from bookie.settings import contradictions
from bookie.settings.table import LIVE
from bookie.settings.values import DEFAULT, Settings
from bookie.storage.collect_options import BrakeOptions, CompactionOptions
from bookie.storage.options import StorageOptions
from bookie.storage.scrub_options import ScrubOptions

T = TypeVar("T")

SYSTEM = HostLookup(host.address_of, host.name_of)
_NEEDED = ("journalDirectories", "ledgerDirectories", "metadataServiceUri")
_EVERYWHERE = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Effective:
    """The settings and options with which `bookie serve` runs. `settings`: with all derived values; `http`: None when
    no HTTP port is wanted."""

    settings: Settings
    options: ServerOptions
    metadata_security: MetadataSecurity
    host: Host
    admin: Address
    admin_tls: Address | None
    metrics: Address
    http: Address | None

    def is_asked_for(self, key: str) -> bool:
        """Return False for a port that no setting names: the bookie takes another one when it is in use."""
        return key not in (*derive.UNASKED_ABOVE, "httpServerPort") or not self.settings.values[key].is_default


def complete(settings: Settings, lookup: HostLookup = SYSTEM) -> tuple[Settings, list[str]]:
    """Derive the missing settings: URI, address, id, address to bind. Also return the problems met on the way."""
    problems = _Problems([])
    settings = problems.attempt(lambda: complete_uri(settings)) or settings
    if not settings.type_problems():
        settings = problems.attempt(lambda: _derive_identity(settings, lookup)) or settings
        settings = problems.attempt(lambda: _derive_listening(settings, lookup)) or settings
        settings = derive_ports(settings)
        settings = _bound_journal(settings)
    return settings, problems.found


def build(
    settings: Settings,
    lookup: HostLookup = SYSTEM,
    *,
    user: str | None = None,
    look: directories.Look = directories.unseen,
) -> Effective:
    """Return all options of a bookie. Raises BadInput with all problems together.

    `look`: looks at a configured directory, as the process that will work there.
    """
    user = who.user() if user is None else user
    alone, sound = [*settings.problems, *settings.type_problems()], settings.sound()
    unsound = [key for key, value in settings.values.items() if sound.values[key] is not value]
    settings, met = complete(sound, lookup)
    problems = _Problems(met)
    missing = [key for key in _NEEDED if not settings.text(key).strip()]
    if missing:
        variables = ", ".join(settings.values[key].setting.variable for key in missing)
        problems.found.append(
            f"not set: {', '.join(missing)}. Put them into the file given by --config, or set {variables}"
        )
    problems.found += contradictions.find(settings, user)
    wrong_directories = list(directories.problems(settings, look, user))
    problems.found += wrong_directories
    security = problems.attempt(lambda: security_settings.security_options(settings))
    loss_key = problems.attempt(lambda: security_settings.loss_key(settings))
    metadata_security = problems.attempt(lambda: metadata_access.security(settings))
    integrity = problems.attempt(lambda: _integrity(settings))
    storage = _storage(settings, problems, has_directories=not missing and not wrong_directories)
    # What names a setting of the wrong kind was judged by its default, which nobody asked for.
    told = alone + [problem for problem in problems.found if not any(key in problem for key in unsound)]
    if told or security is None or integrity is None or storage is None or metadata_security is None:
        raise BadInput("; ".join(told))
    listen = settings.text("listeningAddress")
    return Effective(
        settings=settings,
        options=dataclasses.replace(_server_options(settings, security, integrity, storage), loss_key=loss_key),
        metadata_security=metadata_security,
        # POD_UID comes from the downward API.
        host=Host(name=socket.gethostname(), pod_uid=settings.environment.get("POD_UID", "")),
        admin=Address(listen, settings.number("adminPort")),
        admin_tls=Address(listen, settings.number("adminTlsPort")) if settings.text("adminTlsDirectory") else None,
        metrics=Address(listen, settings.number("metricsPort")),
        http=_http(settings),
    )


def _storage(settings: Settings, problems: "_Problems", *, has_directories: bool) -> StorageOptions | None:
    wrong = list(contradictions.of_compaction(settings))
    problems.found += wrong
    compaction = CompactionOptions() if wrong else storage_settings.compaction_options(settings)
    brake = problems.attempt(lambda: storage_settings.brake_options(settings)) or BrakeOptions()
    scrub = problems.attempt(lambda: storage_settings.scrub_options(settings)) or ScrubOptions()
    if not has_directories:  # that was told already
        return None
    return problems.attempt(lambda: storage_settings.storage_options(settings, compaction, brake, scrub))


def _server_options(
    settings: Settings, security: SecurityOptions, integrity: IntegrityOptions, storage: StorageOptions
) -> ServerOptions:
    http = _http(settings)
    return ServerOptions(
        bookie_id=ids.parse_bookie_id(settings.text("bookieId")),
        host=settings.text("advertisedAddress"),
        port=settings.number("bookiePort"),
        listen_host=settings.text("listeningAddress"),
        metadata_uri=settings.text("metadataServiceUri"),
        zone=settings.text("zone"),
        machine=settings.text("machine"),
        http_port=None if http is None else http.port,
        session_timeout_ms=settings.number("zkTimeout"),
        answers_under_lease=settings.is_true("answersUnderLease"),
        metadata_patience_ms=settings.number("metadataPatienceMs"),
        shutdown_timeout_ms=settings.number("shutdownTimeoutMs"),
        gc_interval_ms=settings.number("gcWaitTime"),
        surplus_wait_ms=_surplus_wait_ms(settings),
        frame_bytes_max=settings.number("nettyMaxFrameSizeBytes"),
        budgets=Budgets(
            connections=settings.number("maxConnections"),
            reads=settings.number("maxReadsInProgressLimit") or Budgets().reads,
        ),
        reads_pending_max=settings.number("maxPendingReadRequestsPerThread"),
        force_read_only=settings.is_true("forceReadOnlyBookie"),
        keeps_mode=settings.is_true("persistBookieStatusEnabled"),
        security=security,
        storage=storage,
        integrity=integrity,
        autorecovery=_autorecovery(settings),
        live={key: settings.text(key) for key in LIVE if not settings.values[key].is_default},
    )


def _surplus_wait_ms(settings: Settings) -> int | None:
    if not settings.is_true("gcOverreplicatedLedgers"):
        return None
    return max(HOUR_MS, settings.number("gcOverreplicatedLedgerWaitTime"))


def _integrity(settings: Settings) -> IntegrityOptions:
    return IntegrityOptions(
        regeneration=settings.text("regeneration"),
        volume_proof=settings.text("volumeProof"),
        shared_filesystem_ok=settings.names("allowSharedFilesystem"),
        allow_storage_expansion=settings.is_true("allowStorageExpansion"),
        copy_rate_bytes_per_s=settings.optional("copyRateBytesPerSecond"),
        fill_after_boot=settings.is_true("fillHolesAfterBoot"),
        phase_one=settings.text("phaseOne"),
        open_ledger_grace_ms=settings.number("openLedgerRereplicationGracePeriod"),
    )


def _autorecovery(settings: Settings) -> AutoRecoveryOptions | None:
    if not settings.is_true("autoRecoveryDaemonEnabled"):
        return None
    return AutoRecoveryOptions(
        loss_delay_ms=settings.number("lostBookieRecoveryDelay") * 1000,
        open_ledger_grace_ms=settings.number("openLedgerRereplicationGracePeriod"),
        bytes_per_s=settings.optional("copyRateBytesPerSecond") or 0,
        # Few, because clients are served beside it, as for a drain.
        ledgers_at_once=4,
        entries_at_once=8,
    )


class _Problems:
    """Collects all problems, so that a person can correct them together before the next attempt."""

    def __init__(self, found: Iterable[str]) -> None:
        self.found = list(found)

    def attempt(self, make: Callable[[], T]) -> T | None:
        """Return what `make` returns, or note its problem and return None."""
        try:
            return make()
        except BadInput as error:
            self.found.append(str(error))
            return None


# ---- what was not said -----------------------------------------------------------------------------------------------


def complete_uri(settings: Settings) -> Settings:
    """Return the settings with metadataServiceUri, derived from the older names if need be. Raises BadInput."""
    servers = settings.values["zkServers"]
    if settings.text("metadataServiceUri") or not servers.text:
        return settings
    layout = settings.text("ledgerManagerFactoryClass")
    uri = derive.metadata_uri(servers.text, settings.text("zkLedgersRootPath"), layout)
    return settings.with_value("metadataServiceUri", uri, f"zkServers ({servers.origin})")


def _derive_identity(settings: Settings, lookup: HostLookup) -> Settings:
    found = derive.identity(
        Wanted(
            bookie_id=settings.text("bookieId").strip(),
            port=settings.number("bookiePort"),
            advertised=settings.text("advertisedAddress").strip(),
            interface=settings.text("listeningInterface"),
            use_name=settings.is_true("useHostNameAsBookieID"),
            use_short_name=settings.is_true("useShortHostName"),
            allow_loopback=settings.is_true("allowLoopback"),
        ),
        lookup,
    )
    if not settings.text("bookieId"):
        settings = settings.with_value("bookieId", found.bookie_id, found.id_origin)
    if not settings.text("advertisedAddress"):
        settings = settings.with_value("advertisedAddress", found.host, found.host_origin)
    return settings


def _derive_listening(settings: Settings, lookup: HostLookup) -> Settings:
    interface = settings.text("listeningInterface")
    if settings.text("listeningAddress"):
        return settings
    if interface:
        return settings.with_value("listeningAddress", lookup.address_of(interface), f"address of {interface}")
    return settings.with_value("listeningAddress", _EVERYWHERE, settings.values["listeningAddress"].origin)


def derive_ports(settings: Settings) -> Settings:
    """Return the settings with default ports where none are named; such a port never keeps a bookie from starting
    (`serve`)."""
    said = [key for key in ("adminPort", "metricsPort", "httpServerPort") if settings.text(key)]
    asked = [settings.number(key) for key in ("bookiePort", *said)]
    for key, port in derive.unasked_ports(settings.number("bookiePort"), asked).items():
        if not settings.text(key):
            settings = settings.with_value(key, str(port), f"{DEFAULT}: from bookiePort")
    return settings


def _bound_journal(settings: Settings) -> Settings:
    asked, most = settings.values["journalMaxSizeMB"], storage_settings.JOURNAL_FILE_MIB_MAX
    if settings.number("journalMaxSizeMB") <= most:
        return settings
    return settings.with_value("journalMaxSizeMB", str(most), f"at most {most} here; {asked.origin} says {asked.text}")


def _http(settings: Settings) -> Address | None:
    if not settings.is_true("httpServerEnabled"):
        return None
    return Address(
        settings.text("httpServerHost") or settings.text("listeningAddress"), settings.number("httpServerPort")
    )


def without_secrets(effective: Effective) -> dict[str, str]:
    """Return every setting as text, without secrets, as Java's server_config shows it."""
    return {key: value.text for key, value in effective.settings.values.items() if value.text}
