"""Finds settings of a bookie that are fine one by one, but contradict each other. Pure."""

import ipaddress
import re
from collections.abc import Iterator

from bookie.settings.table import PORT_MAX
from bookie.settings.values import Settings

_HOST = re.compile(r"[A-Za-z0-9._-]+")


def find(settings: Settings, user: str) -> Iterator[str]:
    """Return one sentence for each contradiction. `user`: the user of this process."""
    threshold = settings.fraction("diskUsageThreshold") or 0.0
    for key in ("diskUsageThreshold", "diskUsageWarnThreshold", "diskUsageLwmThreshold"):
        share = settings.fraction(key)
        if share is not None and not 0 < share < 1:
            yield f"{key} is {share}, a share of the disk: between 0 and 1, as 0.95"
    for key, what in (("diskUsageWarnThreshold", "warned of"), ("diskUsageLwmThreshold", "left again")):
        lower = settings.fraction(key)
        if lower is not None and lower > threshold:
            yield f"{key} ({lower}) is above diskUsageThreshold ({threshold}): a full disk would be {what} too late"
    if not settings.is_true("readOnlyModeEnabled"):
        yield (
            "readOnlyModeEnabled=false wants a bookie that ends when its disk is full; this one becomes read-only and"
            " goes on serving reads: set it to true"
        )
    if settings.text("httpServerChangesFrom") != "loopback":
        yield (
            f"httpServerChangesFrom is {settings.text('httpServerChangesFrom')!r}, and no stranger changes a bookie"
            " over HTTP: take it out, and let callers from elsewhere show a certificate (httpServerTlsEnable=true)"
        )
    if settings.is_true("httpServerTlsEnable") and not settings.text("adminTlsDirectory"):
        yield "httpServerTlsEnable=true needs adminTlsDirectory: HTTP shows and checks the certificates in it"
    advertised = settings.text("advertisedAddress").strip()
    if advertised and not _is_host(advertised):
        yield f"advertisedAddress is {advertised!r}, not a host's name or address (its port is bookiePort)"
    yield from _zone_of_pod(settings)
    users = settings.names("permittedStartupUsers")
    if users and user not in users:
        yield f"user {user!r} may not start this bookie: permittedStartupUsers is {', '.join(users)}"
    if settings.is_true("useShortHostName") and not settings.is_true("useHostNameAsBookieID"):
        yield "useShortHostName=true without useHostNameAsBookieID=true does nothing: set both, or neither"
    yield from _shared_ports(settings)


def of_compaction(settings: Settings) -> Iterator[str]:
    """Return one sentence for each setting with which no compaction can run (CompactionOptions holds the same
    rules)."""
    kinds = ("minor", "major")
    thresholds = {kind: settings.fraction(f"{kind}CompactionThreshold") or 0.0 for kind in kinds}
    intervals = {kind: settings.number(f"{kind}CompactionInterval") for kind in kinds}
    for kind, share in thresholds.items():
        if share >= 1:
            yield f"{kind}CompactionThreshold is {share}, a share of a log: 0 (off) or more, less than 1"
    if all(thresholds[kind] > 0 and intervals[kind] > 0 for kind in kinds):
        for what, of in (("Threshold", thresholds), ("Interval", intervals)):
            if of["minor"] >= of["major"]:
                yield (
                    f"minorCompaction{what} must be less than majorCompaction{what} ({of['minor']} and {of['major']})"
                )
    key = "compactionRateByBytes" if settings.is_true("isThrottleByBytes") else "compactionRateByEntries"
    if settings.number(key) < 1:
        yield f"{key} is {settings.number(key)}, at least 1"


def _zone_of_pod(settings: Settings) -> Iterator[str]:
    """The downward API makes "" of a label that is not there. Without its zone clients put copies side by side."""
    environment = settings.environment
    if environment.get("POD_UID") and environment.get("BOOKIE_ZONE") == "" and not settings.text("zone"):
        yield (
            "BOOKIE_ZONE is empty: this pod has no label topology.kubernetes.io/zone. Label its node (Kubernetes 1.35"
            " and later hands it on), or set spec.placement.zoneSource to Static"
        )


def _is_host(text: str) -> bool:
    try:
        return bool(_HOST.fullmatch(text) or ipaddress.ip_address(text))
    except ValueError:
        return False


def _shared_ports(settings: Settings) -> Iterator[str]:
    # A port that nobody asked for gives way by itself (`derive.unasked_ports`).
    unasked = "adminPort", "metricsPort", *(["httpServerPort"] if settings.is_true("httpServerEnabled") else [])
    keys = ["bookiePort", *(key for key in unasked if not settings.values[key].is_default)]
    if settings.text("adminTlsDirectory"):
        keys.append("adminTlsPort")
    owner: dict[int, str] = {}
    for key in keys:
        port = settings.number(key)
        if not 0 <= port <= PORT_MAX:
            yield f"{key} is {port}, not between 0 and {PORT_MAX}"
        elif port and port in owner:
            yield f"{owner[port]} and {key} are both {port}: each needs a port of its own"
        owner.setdefault(port, key)
