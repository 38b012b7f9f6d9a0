"""Names the paths of the metadata store, and reads the service URI and the layout record.

Names are a contract with Java (spec/metadata.md#M1 to M9). Only we use the incarnation records, the positions, the
maintenance leases, the reports of workers, and the signs of living processes and of lock holders. They stand under
`underreplication`, where Java neither lists nor deletes them. Never: a node below `<root>/NN` or `<root>/NNN` that is
not a ledger, since Java's listing would take its digits for a ledger id.
"""

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from bookie.base import errors, ids
from bookie.base.ids import LEDGER_ID_MAX, BookieId, LedgerId

SHORT_ID_END = 2**31 - 1  # ids from here on live in the long tree (HierarchicalLedgerManager)
LAYOUT_FORMAT = 2
MANAGER_VERSION = 1
_CLASS_PREFIX = "org.apache.bookkeeper.meta."


# A name or an address, one of IPv6 in brackets, and the port; without one it is ZooKeeper's own.
_PORT = 2181
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(?::(\d{1,5}))?", re.ASCII)


class LayoutKind(enum.Enum):
    """Value: the factory's class name in LAYOUT, without its package."""

    HIERARCHICAL = "HierarchicalLedgerManagerFactory"
    LONG_HIERARCHICAL = "LongHierarchicalLedgerManagerFactory"
    FLAT = "FlatLedgerManagerFactory"
    LEGACY = "LegacyHierarchicalLedgerManagerFactory"


_URI_KINDS: dict[str, LayoutKind | None] = {
    "": None,
    "null": None,
    "hierarchical": LayoutKind.HIERARCHICAL,
    "longhierarchical": LayoutKind.LONG_HIERARCHICAL,
    "flat": LayoutKind.FLAT,
}


@dataclass(frozen=True, slots=True)
class MetadataUri:
    """`kind` None: the layout that the LAYOUT record names. `hosts`: with commas, as kazoo and ZooKeeper want them."""

    kind: LayoutKind | None
    hosts: str
    root: str


def parse_uri(uri: str) -> MetadataUri:
    """Parse `zk[+kind]://host:port[;host:port]/root`. Raises BadInput. Rule: spec/metadata.md#M3."""
    if "@" in uri:  # not shown: it may be a password
        raise errors.BadInput("metadata service URI: ZooKeeper takes no user there: leave out everything up to the '@'")
    match = re.fullmatch(r"(zk)(?:\+([a-z]*))?://([^/]+)(/.*)?", uri, re.IGNORECASE)
    example = "zk+hierarchical://127.0.0.1:2181/ledgers"
    if match is None:
        raise errors.BadInput(f"metadata service URI {uri!r} is not of the form {example}")
    name, authority, root = (match.group(2) or "").lower(), match.group(3), match.group(4) or ""
    if name not in _URI_KINDS:
        raise errors.BadInput(f"metadata service URI {uri!r}: layout {name!r} is not known (e.g. {example})")
    if len(root) < 2 or root.endswith("/"):
        raise errors.BadInput(f"metadata service URI {uri!r} must end in a path without a slash at its end: {example}")
    hosts = [host.strip() for host in re.split("[;,]", authority)]
    for host in hosts:
        found = _HOST.fullmatch(host)
        if found is None or not 0 < int(found.group(1) or 1) < 1 << 16:
            raise errors.BadInput(f"metadata service URI {uri!r}: {host!r} is not HOST or HOST:PORT ({example})")
    return MetadataUri(_URI_KINDS[name], ",".join(hosts), root)


def is_same_cluster(one: str, other: str) -> bool:
    """Return True when two URIs have a server and the root in common: an ensemble is written in many ways. Raises
    BadInput for one that is none."""
    first, second = parse_uri(one), parse_uri(other)
    return first.root == second.root and not _servers(first).isdisjoint(_servers(second))


def _servers(uri: MetadataUri) -> frozenset[str]:
    """Return the servers, each with its port."""
    found = [match for host in uri.hosts.lower().split(",") if (match := _HOST.fullmatch(host)) is not None]
    return frozenset(each.group() if each.group(1) else f"{each.group()}:{_PORT}" for each in found)


# ---- the layout record -----------------------------------------------------------------------------------------------


def dump_layout(kind: LayoutKind) -> bytes:
    return f"{LAYOUT_FORMAT}\n{_CLASS_PREFIX}{kind.value}:{MANAGER_VERSION}".encode()


def load_layout(data: bytes) -> LayoutKind:
    """Return the layout that the record names. Raises BadInput for an unknown one. Rule: spec/metadata.md#M4."""
    lines = data.decode("utf-8", "replace").split("\n")
    parts = lines[1].split(":") if len(lines) >= 2 else []
    if lines[0] not in ("1", "2") or len(parts) != 2 or parts[1] != str(MANAGER_VERSION):
        raise errors.BadInput(f"the cluster's LAYOUT record cannot be read: {data[:120]!r}; restore it from a backup")
    if lines[0] == "1":
        ancient = {"flat": LayoutKind.FLAT, "hierarchical": LayoutKind.LEGACY}
        if parts[0] in ancient:
            return ancient[parts[0]]
    for kind in LayoutKind:
        if parts[0] == _CLASS_PREFIX + kind.value:
            return kind
    known = ", ".join(kind.value for kind in LayoutKind)
    raise errors.BadInput(f"the cluster's ledger layout {parts[0]!r} is not known here; known are {known}")


# ---- ledgers ---------------------------------------------------------------------------------------------------------


def ledger_path(root: str, ledger_id: LedgerId, kind: LayoutKind = LayoutKind.HIERARCHICAL) -> str:
    """Return the path of the metadata of `ledger_id`. Rule: spec/metadata.md#M8."""
    if kind is LayoutKind.FLAT:
        return f"{root}/L{ledger_id:010d}"
    if kind is LayoutKind.LEGACY or (kind is LayoutKind.HIERARCHICAL and ledger_id < SHORT_ID_END):
        digits = f"{ledger_id:010d}"
        return f"{root}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    return f"{root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def parse_ledger_path(root: str, path: str) -> LedgerId:
    """Return the ledger id of `path`. Raises BadInput when no ledger has such a path. Rule: spec/metadata.md#M9."""
    parts = path.removeprefix(root + "/").split("/")
    digits = "".join(parts[:-1]) + parts[-1].removeprefix("L")
    ledger_id = ids.decimal(digits)
    if len(parts) not in (1, 3, 5) or not parts[-1].startswith("L") or ledger_id is None:
        raise errors.BadInput(f"{path!r} is not the path of a ledger")
    if ledger_id > LEDGER_ID_MAX:
        raise errors.BadInput(f"{path!r} is not the path of a ledger: the id is too large")
    return LedgerId(ledger_id)


def holds_ledgers(names: Iterable[str]) -> bool:
    """Return True when one of `names`, the root's children, belongs to the ledger tree of any layout."""
    return any(tree_depth(kind, name) or is_ledger_name(name) for name in names for kind in LayoutKind)


def holds_cluster(names: Iterable[str]) -> bool:
    """Return True when `names`, the root's children, are those of a cluster: every one has had `available` since it was
    made, also those from before instance ids, and one that lost it has ledgers or cookies."""
    known = {path("").lstrip("/") for path in (available, cookies, instance_id, layout)}
    return not known.isdisjoint(names) or holds_ledgers(names)


def is_ledger_name(name: str) -> bool:
    """Return True for the last part of a ledger's path, in every layout."""
    number = ids.decimal(name[1:])
    return name[:1] == "L" and number is not None and number <= LEDGER_ID_MAX


def ledger_paths(root: str, ledger_id: LedgerId) -> list[str]:
    """Return the paths of the metadata of `ledger_id` in all layouts, each once."""
    return list(dict.fromkeys(ledger_path(root, ledger_id, kind) for kind in LayoutKind))


def tree_depth(kind: LayoutKind, name: str) -> int:
    """Return how many levels of directories begin at `<root>/<name>`, its own included; 0: no part of the tree."""
    if kind is LayoutKind.FLAT or not name.isascii() or not name.isdigit():
        return 0
    if len(name) == 2 and kind in (LayoutKind.HIERARCHICAL, LayoutKind.LEGACY):
        return 2
    if len(name) == 3 and kind in (LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL):
        return 4
    return 0


# ---- everything else -------------------------------------------------------------------------------------------------


def layout(root: str) -> str:
    return f"{root}/LAYOUT"


def instance_id(root: str) -> str:
    return f"{root}/INSTANCEID"


def available(root: str) -> str:
    return f"{root}/available"


def readonly(root: str) -> str:
    return f"{root}/available/readonly"


def cookies(root: str) -> str:
    return f"{root}/cookies"


def cookie(root: str, bookie_id: BookieId) -> str:
    return f"{root}/cookies/{bookie_id}"


def idgen(root: str) -> str:
    return f"{root}/idgen"


def idgen_long(root: str) -> str:
    return f"{root}/idgen-long"


def incarnations(root: str) -> str:
    return f"{root}/underreplication/incarnations"


def incarnation(root: str, bookie_id: BookieId) -> str:
    """Return the path of the incarnation record beside the cookie
    (`metadata.cookie.IncarnationRecord`). Java has none."""
    return f"{root}/underreplication/incarnations/{bookie_id}"


def position(root: str, bookie_id: BookieId) -> str:
    """Return the path of the record of how far a bookie's disks reached (`metadata.position`). Java has none."""
    return f"{root}/underreplication/positions/{bookie_id}"


def asides(root: str) -> str:
    return f"{root}/underreplication/asides"


def aside(root: str, bookie_id: BookieId) -> str:
    """Return the path of the order that keeps a bookie out of service (`integrity.asides`). Java has none."""
    return f"{root}/underreplication/asides/{bookie_id}"


def maintenances(root: str) -> str:
    return f"{root}/underreplication/maintenance"


def maintenance(root: str, bookie_id: BookieId) -> str:
    """Return the path of the lease during which nobody takes a bookie's absence for a loss (`metadata.maintenance`).
    Java has none."""
    return f"{root}/underreplication/maintenance/{bookie_id}"


def processes(root: str) -> str:
    return f"{root}/underreplication/processes"


def process(root: str, bookie_id: BookieId) -> str:
    """Return the path of the node that exists while one process is this bookie (`integrity.holder`). Java has none."""
    return f"{root}/underreplication/processes/{bookie_id}"


def replication_lock(root: str, ledger_id: LedgerId) -> str:
    return f"{root}/underreplication/locks/urL{ledger_id:010d}"


def replication_locks(root: str) -> str:
    return f"{root}/underreplication/locks"


def replication_holder(root: str, holder: str) -> str:
    """Return the path of the node that exists while this holder has its lock
    (`client.repair.replication_lock`). Java has none."""
    return f"{root}/underreplication/holders/{holder}"


def underreplicated_ledgers(root: str) -> str:
    """Return the parent of the marks. Below it: four levels of four hex digits, then `urL<ten decimal digits>`. Rule:
    spec/metadata.md#M31."""
    return f"{root}/underreplication/ledgers"


def underreplicated(root: str, ledger_id: LedgerId) -> str:
    """Return the path of the mark of one ledger (spec/metadata.md#M31)."""
    digits = f"{ledger_id:016x}"
    levels = "/".join(digits[start : start + 4] for start in range(0, 16, 4))
    return f"{underreplicated_ledgers(root)}/{levels}/urL{ledger_id:010d}"


def replication_layout(root: str) -> str:
    """Return the path of the record that says in which form the marks are kept."""
    return f"{root}/underreplication/LAYOUT"


def parse_underreplicated(path: str) -> LedgerId:
    """Return the ledger of a record below `underreplicated_ledgers`, or of a lock. Raises BadInput."""
    name = path.rpartition("/")[2]
    number = ids.decimal(name.removeprefix("urL"))
    if not name.startswith("urL") or number is None or number > LEDGER_ID_MAX:
        raise errors.BadInput(f"{path!r} does not end in urL and a ledger id")
    return LedgerId(number)


def recovery_disabled(root: str) -> str:
    """Return the path of the node that exists while auto-recovery is switched off."""
    return f"{root}/underreplication/disable"


def recovery_delay(root: str) -> str:
    """Return the path of the delay, in decimal seconds. Writing the same value again asks for an audit now
    (spec/metadata.md#M33)."""
    return f"{root}/underreplication/lostBookieRecoveryDelay"


def all_ledgers_checked(root: str) -> str:
    """Return the path of the time at which the last full reading of all ledgers began (`repair.load_check_time`)."""
    return f"{root}/underreplication/checkallledgersctime"


def recovery_progresses(root: str) -> str:
    return f"{root}/underreplication/progress"


def recovery_progress(root: str, name: str) -> str:
    """Return the path of what one worker tells of its progress (`client.repair.progress_reports`). Java has none."""
    return f"{root}/underreplication/progress/{name}"


def auditor_votes(root: str) -> str:
    """Return the parent of ephemeral votes `V_<number>`; the lowest is the auditor's."""
    return f"{root}/underreplication/auditorelection"
