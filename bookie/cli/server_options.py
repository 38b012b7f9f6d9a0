"""From settings to ServerOptions: what was not said is derived, what must not go together is refused, all at once."""

import getpass
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bookie.base import ids
from bookie.base.errors import BadInput
from bookie.base.units import MIB
from bookie.cli import derive, security_settings
from bookie.cli.derive import HostLookup, Wanted
from bookie.cli.settings import Settings
from bookie.integrity.options import IntegrityOptions
from bookie.ports import Host
from bookie.ports.network import Address
from bookie.runtime import host
from bookie.server.options import ServerOptions
from bookie.storage.options import StorageOptions

SYSTEM = HostLookup(host.address_of, host.name_of)
# A journal file is read whole at replay; Java's default of 2 GiB would be 2 GiB of memory then. A smaller file changes
# nothing for anybody.
JOURNAL_FILE_MIB_MAX = 256
_NEEDED = ("journalDirectories", "ledgerDirectories", "metadataServiceUri")
_EVERYWHERE = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Effective:
    """What `bookie serve` runs on. `settings`: with everything derived; `http`: None when its port is not wanted."""

    settings: Settings
    options: ServerOptions
    host: Host
    admin: Address
    metrics: Address
    http: Address | None


def complete(settings: Settings, lookup: HostLookup = SYSTEM) -> tuple[Settings, list[str]]:
    """Derive what was not said: URI, address, id, address to bind. Also gives the problems met on the way."""
    problems: list[str] = []

    def attempt(step: Callable[[Settings], Settings]) -> None:
        nonlocal settings
        try:
            settings = step(settings)
        except BadInput as error:
            problems.append(str(error))

    attempt(complete_uri)
    if not settings.type_problems():
        attempt(lambda known: _derive_identity(known, lookup))
        attempt(lambda known: _derive_listening(known, lookup))
    return settings, problems


def build(settings: Settings, lookup: HostLookup = SYSTEM, *, user: str | None = None) -> Effective:
    """Everything a bookie is told. Raises BadInput with all problems together."""
    settings, problems = complete(settings, lookup)
    problems = [*settings.problems, *settings.type_problems(), *problems]
    missing = [key for key in _NEEDED if not settings.text(key).strip()]
    if missing:
        variables = ", ".join(settings.values[key].setting.variable for key in missing)
        problems.append(f"not set: {', '.join(missing)}. Put them into the file given by --config, or set {variables}")
    if not settings.type_problems():
        problems += _contradictions(settings, getpass.getuser() if user is None else user)
    if problems:
        raise BadInput("; ".join(problems))
    listen = settings.text("listeningAddress")
    return Effective(
        settings=settings,
        options=_server_options(settings),
        # POD_UID comes from the downward API.
        host=Host(name=socket.gethostname(), pod_uid=settings.environment.get("POD_UID", "")),
        admin=Address(listen, settings.number("adminPort")),
        metrics=Address(listen, settings.number("metricsPort")),
        http=_http(settings),
    )


def _server_options(settings: Settings) -> ServerOptions:
    threshold = settings.fraction("diskUsageThreshold")
    assert threshold is not None
    again = settings.fraction("diskUsageLwmThreshold") or max(threshold - 0.01, 0.01)
    http = _http(settings)
    return ServerOptions(
        bookie_id=ids.parse_bookie_id(settings.text("bookieId")),
        host=settings.text("advertisedAddress"),
        port=settings.number("bookiePort"),
        listen_host=settings.text("listeningAddress"),
        metadata_uri=settings.text("metadataServiceUri"),
        zone=settings.text("zone"),
        http_port=None if http is None else http.port,
        session_timeout_ms=settings.number("zkTimeout"),
        metadata_patience_ms=settings.number("metadataPatienceMs"),
        shutdown_timeout_ms=settings.number("shutdownTimeoutMs"),
        gc_interval_ms=settings.number("gcWaitTime"),
        frame_bytes_max=settings.number("nettyMaxFrameSizeBytes"),
        force_read_only=settings.is_true("forceReadOnlyBookie"),
        security=security_settings.security_options(settings),
        storage=StorageOptions(
            journal_dirs=settings.names("journalDirectories"),
            ledger_dirs=settings.names("ledgerDirectories"),
            index_dirs=settings.names("indexDirectories"),
            journal_write_data=settings.is_true("journalWriteData"),
            journal_file_bytes_max=min(settings.number("journalMaxSizeMB"), JOURNAL_FILE_MIB_MAX) * MIB,
            write_cache_bytes_max=settings.number("dbStorage_writeCacheMaxSizeMb") * MIB,
            entry_log_bytes_max=settings.number("logSizeLimit"),
            flush_interval_ms=settings.number("flushInterval"),
            disk_used_max=threshold,
            disk_used_again=again,
        ),
        integrity=IntegrityOptions(
            regeneration=settings.text("regeneration"),
            volume_proof=settings.text("volumeProof"),
            shared_filesystem_ok=settings.names("allowSharedFilesystem"),
            copy_rate_bytes_per_s=settings.rate("copyRateBytesPerSecond"),
            open_ledger_grace_ms=settings.number("openLedgerRereplicationGracePeriod"),
        ),
    )


# ---- what was not said -----------------------------------------------------------------------------------------------


def complete_uri(settings: Settings) -> Settings:
    """With metadataServiceUri, from the older names if need be. Raises BadInput."""
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


def _http(settings: Settings) -> Address | None:
    if not settings.is_true("httpServerEnabled"):
        return None
    return Address(
        settings.text("httpServerHost") or settings.text("listeningAddress"), settings.number("httpServerPort")
    )


# ---- what must not go together ---------------------------------------------------------------------------------------


def _contradictions(settings: Settings, user: str) -> Iterator[str]:
    threshold = settings.fraction("diskUsageThreshold") or 0.0
    for key, what in (("diskUsageWarnThreshold", "warned of"), ("diskUsageLwmThreshold", "left again")):
        lower = settings.fraction(key)
        if lower is not None and lower > threshold:
            yield f"{key} ({lower}) is above diskUsageThreshold ({threshold}): a full disk would be {what} too late"
    if not settings.is_true("readOnlyModeEnabled"):
        yield (
            "readOnlyModeEnabled=false wants a bookie that ends when its disk is full; this one becomes read-only and"
            " goes on serving reads: set it to true"
        )
    if settings.text("httpServerChangesFrom") not in ("loopback", "any"):
        yield f"httpServerChangesFrom is {settings.text('httpServerChangesFrom')!r}: loopback or any"
    users = settings.names("permittedStartupUsers")
    if users and user not in users:
        yield f"user {user!r} may not start this bookie: permittedStartupUsers is {', '.join(users)}"
    if settings.is_true("useShortHostName") and not settings.is_true("useHostNameAsBookieID"):
        yield "useShortHostName=true without useHostNameAsBookieID=true does nothing: set both, or neither"
    yield from _shared_ports(settings)


def _shared_ports(settings: Settings) -> Iterator[str]:
    keys = ["bookiePort", "adminPort", "metricsPort"]
    if settings.is_true("httpServerEnabled"):
        keys.append("httpServerPort")
    owner: dict[int, str] = {}
    for key in keys:
        port = settings.number(key)
        if not 0 <= port < 1 << 16:
            yield f"{key} is {port}, not between 0 and 65535"
        elif port and port in owner:
            yield f"{owner[port]} and {key} are both {port}: each needs a port of its own"
        owner.setdefault(port, key)


def without_secrets(effective: Effective) -> dict[str, str]:
    """Every setting as text, as Java's server_config shows it."""
    return {key: value.shown for key, value in effective.settings.values.items() if value.text}
