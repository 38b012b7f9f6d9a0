"""What a bookie's settings must not say together, whatever each says alone. Pure."""

import ipaddress
import re
from collections.abc import Iterator

from bookie.cli.setting_table import PORT_MAX
from bookie.cli.settings import Settings

_HOST = re.compile(r"[A-Za-z0-9._-]+")


def find(settings: Settings, user: str) -> Iterator[str]:
    """One sentence for each. `user`: of this process."""
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
    if settings.text("httpServerChangesFrom") not in ("loopback", "any"):
        yield f"httpServerChangesFrom is {settings.text('httpServerChangesFrom')!r}: loopback or any"
    advertised = settings.text("advertisedAddress").strip()
    if advertised and not _is_host(advertised):
        yield f"advertisedAddress is {advertised!r}, not a host's name or address (its port is bookiePort)"
    users = settings.names("permittedStartupUsers")
    if users and user not in users:
        yield f"user {user!r} may not start this bookie: permittedStartupUsers is {', '.join(users)}"
    if settings.is_true("useShortHostName") and not settings.is_true("useHostNameAsBookieID"):
        yield "useShortHostName=true without useHostNameAsBookieID=true does nothing: set both, or neither"
    yield from _shared_ports(settings)


def _is_host(text: str) -> bool:
    try:
        return bool(_HOST.fullmatch(text) or ipaddress.ip_address(text))
    except ValueError:
        return False


def _shared_ports(settings: Settings) -> Iterator[str]:
    keys = ["bookiePort", "adminPort", "metricsPort"]
    if settings.is_true("httpServerEnabled"):
        keys.append("httpServerPort")
    owner: dict[int, str] = {}
    for key in keys:
        port = settings.number(key)
        if not 0 <= port <= PORT_MAX:
            yield f"{key} is {port}, not between 0 and {PORT_MAX}"
        elif port and port in owner:
            yield f"{owner[port]} and {key} are both {port}: each needs a port of its own"
        owner.setdefault(port, key)
