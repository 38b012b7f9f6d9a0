"""Where things stand in the metadata store: ledger id <-> path, the service URI, the layout record.

Names are a contract with Java (spec/metadata.md#M1 to M9). Ours alone are the incarnation records and the signs of
living processes and of lock holders, under `underreplication`, which Java neither lists nor deletes there. Never: a
node below `<root>/NN` or `<root>/NNN` that is not a ledger; Java's listing would take its digits for a ledger id.
"""

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, BookieId, LedgerId

SHORT_ID_END = 2**31 - 1  # ids from here on live in the long tree (HierarchicalLedgerManager)
LAYOUT_FORMAT = 2
MANAGER_VERSION = 1
_CLASS_PREFIX = "org.apache.bookkeeper.meta."


# A name or an address, one of IPv6 in brackets, and the port; without one it is ZooKeeper's own.
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
    """`kind` None: whatever the LAYOUT record says. `hosts`: as kazoo and ZooKeeper want them, with commas."""

    kind: LayoutKind | None
    hosts: str
    root: str


def parse_uri(uri: str) -> MetadataUri:
    """Parse `zk[+kind]://host:port[;host:port]/root`. Raises BadInput. Rule: spec/metadata.md#M3."""
    if "@" in uri:  # not shown: it may be a password
        raise errors.BadInput("metadata service URI: ZooKeeper takes no user there, leave away all before the '@'")
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


# ---- the layout record -----------------------------------------------------------------------------------------------


def dump_layout(kind: LayoutKind) -> bytes:
    return f"{LAYOUT_FORMAT}\n{_CLASS_PREFIX}{kind.value}:{MANAGER_VERSION}".encode()


def load_layout(data: bytes) -> LayoutKind:
    """Raises BadInput for what we cannot follow. Rule: spec/metadata.md#M4."""
    lines = data.decode("utf-8", "replace").split("\n")
    parts = lines[1].split(":") if len(lines) >= 2 else []
    if lines[0] not in ("1", "2") or len(parts) != 2 or parts[1] != str(MANAGER_VERSION):
        raise errors.BadInput(f"the cluster's LAYOUT record cannot be read: {data[:120]!r}")
    if lines[0] == "1":
        ancient = {"flat": LayoutKind.FLAT, "hierarchical": LayoutKind.LEGACY}
        if parts[0] in ancient:
            return ancient[parts[0]]
    for kind in LayoutKind:
        if parts[0] == _CLASS_PREFIX + kind.value:
            return kind
    raise errors.BadInput(f"the cluster's ledger layout {parts[0]!r} is not known here")


# ---- ledgers ---------------------------------------------------------------------------------------------------------


def ledger_path(root: str, ledger_id: LedgerId, kind: LayoutKind = LayoutKind.HIERARCHICAL) -> str:
    """Where the metadata of `ledger_id` stands. Rule: spec/metadata.md#M8."""
    if kind is LayoutKind.FLAT:
        return f"{root}/L{ledger_id:010d}"
    if kind is LayoutKind.LEGACY or (kind is LayoutKind.HIERARCHICAL and ledger_id < SHORT_ID_END):
        digits = f"{ledger_id:010d}"
        return f"{root}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    return f"{root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def parse_ledger_path(root: str, path: str) -> LedgerId:
    """The ledger id of `path`. Raises BadInput for a path that is no ledger's. Rule: spec/metadata.md#M9."""
    parts = path.removeprefix(root + "/").split("/")
    digits = "".join(parts[:-1]) + parts[-1].removeprefix("L")
    if len(parts) not in (1, 3, 5) or not parts[-1].startswith("L") or not digits.isdigit():
        raise errors.BadInput(f"{path!r} is not the path of a ledger")
    ledger_id = int(digits)
    if ledger_id > LEDGER_ID_MAX:
        raise errors.BadInput(f"{path!r} is not the path of a ledger: the id is too large")
    return LedgerId(ledger_id)


def holds_ledgers(names: Iterable[str]) -> bool:
    """True when one of the root's children belongs to the ledger tree of any layout."""
    return any(
        tree_depth(kind, name) or (name[:1] == "L" and name[1:].isdigit()) for name in names for kind in LayoutKind
    )


def ledger_paths(root: str, ledger_id: LedgerId) -> list[str]:
    """Where the metadata of `ledger_id` stands in any layout, each path once."""
    return list(dict.fromkeys(ledger_path(root, ledger_id, kind) for kind in LayoutKind))


def tree_depth(kind: LayoutKind, name: str) -> int:
    """How many levels of directories begin at `<root>/<name>` (its own included); 0: not part of the ledger tree."""
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
    """Our record beside the cookie: see `metadata.cookie.IncarnationRecord`."""
    return f"{root}/underreplication/incarnations/{bookie_id}"


def position(root: str, bookie_id: BookieId) -> str:
    """How far this bookie's journals reached: see `metadata.position`."""
    return f"{root}/underreplication/positions/{bookie_id}"


def processes(root: str) -> str:
    return f"{root}/underreplication/processes"


def process(root: str, bookie_id: BookieId) -> str:
    """Ours alone: it stands as long as one process is this bookie (`integrity.holder`)."""
    return f"{root}/underreplication/processes/{bookie_id}"


def underreplicated_ledger(root: str, ledger_id: LedgerId) -> str:
    """Sixteen hex digits in four levels, then the decimal name. Rule: spec/metadata.md#M31."""
    digits = f"{ledger_id:016x}"
    levels = "/".join(digits[start : start + 4] for start in range(0, 16, 4))
    return f"{root}/underreplication/ledgers/{levels}/urL{ledger_id:010d}"


def replication_lock(root: str, ledger_id: LedgerId) -> str:
    return f"{root}/underreplication/locks/urL{ledger_id:010d}"


def replication_locks(root: str) -> str:
    return f"{root}/underreplication/locks"


def replication_holder(root: str, holder: str) -> str:
    """Ours alone: it stands as long as the lock that this holder took is held (`client.replication_lock`)."""
    return f"{root}/underreplication/holders/{holder}"


def underreplicated_ledgers(root: str) -> str:
    return f"{root}/underreplication/ledgers"


def parse_underreplicated(path: str) -> LedgerId:
    """The ledger that a record below `underreplicated_ledgers`, or a lock, is about. Raises BadInput."""
    match = re.search(r"/urL(\d+)$", path, re.ASCII)
    if match is None or int(match.group(1)) > LEDGER_ID_MAX:
        raise errors.BadInput(f"{path!r} is not about a ledger")
    return LedgerId(int(match.group(1)))


def recovery_disabled(root: str) -> str:
    """It stands while auto-recovery is switched off."""
    return f"{root}/underreplication/disable"


def recovery_delay(root: str) -> str:
    """Decimal seconds; writing what it has already means "audit now" (spec/metadata.md#M33)."""
    return f"{root}/underreplication/lostBookieRecoveryDelay"


def auditor_votes(root: str) -> str:
    """Ephemeral votes `V_<number>`; the lowest is the auditor's."""
    return f"{root}/underreplication/auditorelection"
