"""Derives what the settings leave out: the metadata URI and the bookie's identity, by the rules of Java's bookie.

An id stands in cookies and in every ledger's metadata for ever, so the same file must give the same id under both.
Rules: ServerConfiguration.getMetadataServiceUri, BookieImpl.getBookieAddress; spec/metadata.md#M3, M23.
"""

import ipaddress
from collections.abc import Callable, Container
from dataclasses import dataclass

from bookie.base import errors
from bookie.settings.table import PORT_MAX

_LAYOUTS = ("hierarchical", "longhierarchical", "flat")


# Ports that nobody asked for lie this far above bookiePort: far from the data ports of other bookies of one machine,
# which people number one after the other, and the same at every start.
UNASKED_ABOVE = {"adminPort": 10_000, "metricsPort": 20_000}


@dataclass(frozen=True, slots=True)
class HostLookup:
    """Two questions to the system: the address of an interface ("" for the default one), and the name of an address."""

    address_of: Callable[[str], str]
    name_of: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings that decide the bookie's identity."""

    bookie_id: str
    port: int
    advertised: str
    interface: str
    use_name: bool
    use_short_name: bool
    allow_loopback: bool


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bookie is. `bookie_id`: never changes. `host`: the address that clients dial. `origins`: the settings
    that each came from."""

    bookie_id: str
    host: str
    id_origin: str
    host_origin: str


def unasked_ports(bookie_port: int, asked: Container[int]) -> dict[str, int]:
    """Return adminPort and metricsPort for settings that do not name them; 0, any free port, where Java's number is no
    port or is taken by another setting."""
    wanted = {key: bookie_port + above if bookie_port else 0 for key, above in UNASKED_ABOVE.items()}
    return {key: 0 if port in asked or port > PORT_MAX else port for key, port in wanted.items()}


def identity(wanted: Wanted, lookup: HostLookup) -> Identity:
    """Return the bookie's identity. Raises BadInput when only a loopback address was found and the settings do not
    allow one."""
    host, origin = wanted.advertised, "advertisedAddress"
    if not host:
        host, origin = _own_host(wanted, lookup)
    if wanted.bookie_id:
        return Identity(wanted.bookie_id, host, "bookieId", origin)
    return Identity(f"{host}:{wanted.port}", host, f"{origin} and bookiePort", origin)


def _own_host(wanted: Wanted, lookup: HostLookup) -> tuple[str, str]:
    address = lookup.address_of(wanted.interface)
    origin = f"address of {wanted.interface}" if wanted.interface else "address of this machine"
    if ipaddress.ip_address(address).is_loopback and not wanted.allow_loopback:
        raise errors.BadInput(
            f"the {origin} is {address}, a loopback address that no other machine can dial: set advertisedAddress (or"
            " listeningInterface), or allowLoopback=true for a fleet on one machine"
        )
    if not wanted.use_name:
        return address, origin
    name = lookup.name_of(address)
    return (name.split(".")[0] if wanted.use_short_name else name), f"name of this machine, {origin} ({address})"


def metadata_uri(servers: str, root: str, layout: str) -> str:
    """Return the URI that zkServers, zkLedgersRootPath and ledgerManagerFactoryClass mean together. Raises BadInput.

    `layout`: a factory's class name, a short name, or "" for the layout that the cluster has.
    """
    kind = layout.rsplit(".", 1)[-1].removesuffix("LedgerManagerFactory").lower()
    if kind and kind not in _LAYOUTS:
        raise errors.BadInput(
            f"ledgerManagerFactoryClass {layout!r} is not known here: use one of {', '.join(_LAYOUTS)}"
        )
    hosts = ";".join(host.strip() for host in servers.split(",") if host.strip())
    return f"zk+{kind or 'null'}://{hosts}{root}"
