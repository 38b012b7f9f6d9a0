"""Packs, unpacks and compares a bookie's identity: the cookie, as Java writes it, and our incarnation record.

The cookie stands in the metadata store and in `current/VERSION` of every directory, the same bytes in all of them:

    5                                   layout version, then protobuf text
    bookieHost: "<bookie id>"
    journalDir: "/a,/b"                 joined with commas
    ledgerDirs: "2\\t/l0\\t/l1"           count, then directories, as configured
    instanceId: "<of the cluster>"
    indexDirs: "1\\t/ix"                 only when configured

Java's parser refuses unknown fields, so incarnation and boot epoch stand in a record of their own and never in here.
Never: a path that is normalised. Directories are compared as the configured strings. spec/metadata.md#M28, M29.
"""

import json
from dataclasses import asdict, dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.metadata import textproto
from bookie.metadata.proto.metadata_pb2 import CookieFormat

LAYOUT_VERSION = 5
_PLAIN_VERSION = 3  # four lines with real tabs, before protobuf text
_VERSION_SIZE_MAX = 10  # int() of Python raises an error of its own for thousands of digits
_FORGOTTEN = "forgotten"  # in an incarnation record; of nobody who lives, so it is no field of it


@dataclass(frozen=True, slots=True)
class Cookie:
    """`index_dirs` empty: the index shares the ledger directories. `instance_id` "": a cluster older than those ids."""

    bookie_id: BookieId
    journal_dirs: tuple[str, ...]
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] = ()
    instance_id: str = ""
    layout_version: int = LAYOUT_VERSION


@dataclass(frozen=True, slots=True)
class IncarnationRecord:
    """The current incarnation of this bookie's disks, and how often the bookie booted in all of them.

    A new incarnation changes it together with the cookie; a boot adds one to `boot_epoch`; always by compare-and-set.
    `grant_id`: the grant that allowed this incarnation; `granted_by`: its giver, "" in records of older releases;
    `operator_epoch`: of the operator that gave it. `boot_id`: random, of the process that wrote the record last. It
    tells our own write, whose answer was lost, from a rival's.

    `cookie_created_zxid`, `cookie_version`: the cookie's node that this incarnation wrote over, and the version which
    that write gave it: a cookie of just these is the one which it left. The first 0: there was none to write over, or
    the record is of a release that did not note it.
    """

    instance_id: str
    incarnation: Incarnation
    boot_epoch: BootEpoch
    grant_id: str = ""
    operator_epoch: int = 0
    boot_id: str = ""
    granted_by: str = ""
    cookie_created_zxid: int = 0
    cookie_version: int = 0


def dump_cookie(cookie: Cookie) -> bytes:
    """Return the stored form, byte for byte Java's. Always layout version 5, as Java re-stamps older cookies."""
    message = CookieFormat(
        bookieHost=cookie.bookie_id,
        journalDir=",".join(cookie.journal_dirs),
        ledgerDirs=_join(cookie.ledger_dirs),
    )
    if cookie.instance_id:
        message.instanceId = cookie.instance_id
    if cookie.index_dirs:
        message.indexDirs = _join(cookie.index_dirs)
    return f"{LAYOUT_VERSION}\n".encode() + textproto.dump(message)


def load_cookie(data: bytes) -> Cookie:
    """Return the cookie in `data`. Raises BadInput, also for layouts 1 and 2, which hold nothing to compare."""
    line, _, body = data.partition(b"\n")
    if not line.strip().isdigit() or len(line) > _VERSION_SIZE_MAX:
        raise errors.BadInput(f"the record is not a cookie: it begins with {data[:20]!r}")
    version = int(line)
    if version < _PLAIN_VERSION:
        raise errors.BadInput(f"the cookie has layout version {version}; versions before 3 cannot be verified")
    if version == _PLAIN_VERSION:
        return _load_plain(body)
    message = CookieFormat()
    textproto.load(body, message, "the cookie")
    return Cookie(
        bookie_id=BookieId(message.bookieHost),
        journal_dirs=tuple(message.journalDir.split(",")),
        ledger_dirs=_split(message.ledgerDirs),
        index_dirs=_split(message.indexDirs) if message.indexDirs else (),
        instance_id=message.instanceId,
        layout_version=version,
    )


def mismatch(master: Cookie, found: Cookie) -> str | None:
    """Return why `found` is not the cookie that the settings ask for (`master`), or None when it is.

    Blank index directories stand for the ledger directories. Rule: Cookie.verify (exact, order counts).
    """
    pairs = (
        ("bookie id", master.bookie_id, found.bookie_id),
        ("cluster (instance id)", master.instance_id, found.instance_id),
        ("journal directories", master.journal_dirs, found.journal_dirs),
        ("ledger directories", master.ledger_dirs, found.ledger_dirs),
        ("index directories", master.index_dirs or master.ledger_dirs, found.index_dirs or found.ledger_dirs),
    )
    for what, wanted, stored in pairs:
        if wanted != stored:
            return f"the cookie's {what} is {_show(stored)}, the settings say {_show(wanted)}"
    return None


def added(older: Cookie, newer: Cookie) -> tuple[str, ...]:
    """Return the directories, each once, that `newer` has at the end of its ledger and index lists and `older` has not
    at all; () when there is any other difference between the two, or none."""
    count = len(older.ledger_dirs)
    older_index, newer_index = older.index_dirs or older.ledger_dirs, newer.index_dirs or newer.ledger_dirs
    alike = (
        (older.bookie_id, older.instance_id, older.journal_dirs)
        == (newer.bookie_id, newer.instance_id, newer.journal_dirs)
        and older.ledger_dirs == newer.ledger_dirs[:count]
        and older_index == newer_index[: len(older_index)]
        and len(older_index) == count
        and len(newer_index) == len(newer.ledger_dirs)
    )
    found = dict.fromkeys((*newer.ledger_dirs[count:], *newer_index[count:])) if alike else {}
    known = {*older.journal_dirs, *older.ledger_dirs, *older_index}
    return () if known & found.keys() else tuple(found)


def dump_incarnation(record: IncarnationRecord) -> bytes:
    """Return the record as JSON with sorted keys: equal records are equal bytes."""
    return json.dumps(asdict(record), sort_keys=True).encode()


def load_incarnation(data: bytes) -> IncarnationRecord:
    """Return the incarnation record in `data`. Raises BadInput."""
    try:
        fields = json.loads(data)
        return IncarnationRecord(
            instance_id=str(fields["instance_id"]),
            incarnation=Incarnation(int(fields["incarnation"])),
            boot_epoch=BootEpoch(int(fields["boot_epoch"])),
            grant_id=str(fields.get("grant_id", "")),
            operator_epoch=int(fields.get("operator_epoch", 0)),
            boot_id=str(fields.get("boot_id", "")),
            granted_by=str(fields.get("granted_by", "")),
            cookie_created_zxid=int(fields.get("cookie_created_zxid", 0)),
            cookie_version=int(fields.get("cookie_version", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise errors.BadInput(f"the incarnation record cannot be read ({error}): {data[:80]!r}") from error


def forgotten(data: bytes) -> bytes:
    """Return the incarnation record in `data` with a note that nobody waits for this bookie's disks any more.

    Whoever writes the record next, each claim and each boot, writes it without the note. Raises BadInput.
    """
    load_incarnation(data)
    return json.dumps(json.loads(data) | {_FORGOTTEN: True}, sort_keys=True).encode()


def is_forgotten(data: bytes) -> bool:
    """Return True for an incarnation record with that note; False for one that cannot be read."""
    try:
        load_incarnation(data)
    except errors.BadInput:
        return False
    return json.loads(data).get(_FORGOTTEN) is True


def _join(directories: tuple[str, ...]) -> str:
    return "\t".join([str(len(directories)), *directories])


def _split(text: str) -> tuple[str, ...]:
    count, *directories = text.split("\t")
    if count != str(len(directories)):
        raise errors.BadInput(f"the cookie's directory list {text!r} does not hold the number it says")
    return tuple(directories)


def _load_plain(body: bytes) -> Cookie:
    lines = body.decode("utf-8", "replace").split("\n")
    if len(lines) < 3:
        raise errors.BadInput("the cookie (layout 3) is cut off")
    return Cookie(BookieId(lines[0]), tuple(lines[1].split(",")), _split(lines[2]), layout_version=_PLAIN_VERSION)


def _show(value: str | tuple[str, ...]) -> str:
    return repr(value) if isinstance(value, str) else repr(",".join(value))
