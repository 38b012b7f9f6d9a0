"""Looks at every configured volume. Only reads: before the verdict no byte is written (spec/operator.md#K4).

What is looked at: the mount, the sentinel, the directory cookie (`current/VERSION`), and whether anything is there at
all. `lost+found` and our own half-written sentinel do not count. What it means together is `verdict`'s business.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.integrity import mounts, sentinel
from bookie.integrity.options import KUBERNETES, IntegrityOptions
from bookie.metadata import cookie
from bookie.metadata.cookie import Cookie, IncarnationRecord
from bookie.metadata.paths import MetadataUri
from bookie.ports import World
from bookie.ports.admin import Contents, MountReport, Sentinel, VolumeReport
from bookie.ports.disk import Mount
from bookie.storage.options import StorageOptions

JOURNAL, LEDGERS, INDEX = "journal", "ledgers", "index"
COOKIE_FILE = "current/VERSION"
REPAIR_FILE = "REPAIR"
_NOT_CONTENT = ("lost+found", f"{sentinel.NAME}.tmp", f"{REPAIR_FILE}.tmp")


@dataclass(frozen=True, slots=True)
class ConfiguredVolume:
    """One configured directory. Its name is the last component of its path."""

    role: str
    path: str

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class VolumeExpectation:
    """The facts that a volume of ours must agree with. `master`: the cookie that the settings ask for. `record` None:
    the metadata store knows no incarnation of this bookie."""

    bookie_id: BookieId
    instance_id: str
    master: Cookie
    record: IncarnationRecord | None
    stored: Cookie | None = None  # in the metadata store
    added: tuple[str, ...] = ()  # directories that the settings add to those in `stored`, where that is allowed


def configured(options: StorageOptions) -> tuple[ConfiguredVolume, ...]:
    """Return every directory once, in the order of Java's cookie check: journals, ledgers, indexes."""
    roles = ((JOURNAL, options.journal_dirs), (LEDGERS, options.ledger_dirs), (INDEX, options.index_dirs))
    volumes: dict[str, ConfiguredVolume] = {}
    for role, directories in roles:
        for directory in directories:
            volumes.setdefault(directory, ConfiguredVolume(role, directory))
    return tuple(volumes.values())


async def inspect(
    world: World, storage: StorageOptions, options: IntegrityOptions, expected: VolumeExpectation
) -> tuple[VolumeReport, ...]:
    """Return the reports on all configured volumes, in their order. One that cannot be read is UNREADABLE: what is on
    it is not known (spec/operator.md#V14). Raises OutOfResources, which is no word about a disk."""
    volumes = configured(storage)
    facts = [await world.disk.mount(volume.path) for volume in volumes]
    proofs = [_proven(world, volume, one, options) for volume, one in zip(volumes, facts, strict=True)]
    if options.volume_proof == KUBERNETES and options.mount_settle_ms:
        await world.clock.sleep_until(world.clock.monotonic_ns() + options.mount_settle_ms * NS_PER_MS)
        facts = [await world.disk.mount(volume.path) for volume in volumes]
        again = [_proven(world, volume, one, options) for volume, one in zip(volumes, facts, strict=True)]
        proofs = [mounts.settled(one, two) for one, two in zip(proofs, again, strict=True)]
    found = [
        await _look(world, volume, proof, expected, is_silent=one.is_silent)
        for volume, proof, one in zip(volumes, proofs, facts, strict=True)
    ]
    if expected.added:
        answering = [one for one, report in zip(volumes, found, strict=True) if not is_unreadable(report)]
        cookies = [await _cookie(world, volume) for volume in answering]
        found = [_unless_had(report, cookies, expected) for report in found]
    return tuple(found)


def is_unreadable(report: VolumeReport) -> bool:
    """Return True when the volume's disk did not answer: nothing else on it may be asked for either."""
    return report.contents is Contents.UNREADABLE


def _unless_had(report: VolumeReport, cookies: Sequence[Cookie | str], expected: VolumeExpectation) -> VolumeReport:
    """Return the report of an empty volume that is to be added as that of a lost one, when a directory's cookie names
    it.

    CRASH: the directory cookies name an added volume before it takes an entry. So they prove that it never did, without
    the metadata store: a cookie there that was set back turns no lost volume into a new one.
    """
    if report.contents is not Contents.ADDED or report.sentinel is not None:
        return report
    for found in cookies:
        is_ours = isinstance(found, Cookie) and found.bookie_id == expected.bookie_id
        if is_ours and isinstance(found, Cookie) and report.path in (*found.ledger_dirs, *found.index_dirs):
            why = f"{COOKIE_FILE} of another volume names it, so this bookie had it"
            return dataclasses.replace(report, contents=Contents.EMPTY, reason=why)
    return report


async def told_of_data(
    world: World, storage: StorageOptions, uri: MetadataUri, error: errors.NoCluster
) -> errors.RefusedToStart:
    """Return the error of a bookie without a cluster: when it has data, what its disks hold and what to try; else
    `error`, which advises to make a cluster."""
    for volume in configured(storage):
        if holds := await _what_it_holds(world, volume):
            return errors.RefusedToStart(
                f"the metadata store at {uri.hosts} has nothing at {uri.root}, but {volume.path} holds {holds}:"
                " another ensemble, a wrong root or chroot, or a store that was emptied. Correct metadataServiceUri, or"
                " restore the store from a backup; nothing was changed"
            )
    return error


async def _what_it_holds(world: World, volume: ConfiguredVolume) -> str:
    """Say in a few words what the volume holds; "" for an empty one."""
    try:
        if not await _names_in(world, volume):
            return ""
        mark = sentinel.load(await world.disk.read(sentinel.path(volume.path)))
    except (errors.BadInput, errors.StorageFailed):
        return "data that cannot be read"
    return f"data of bookie {mark.bookie_id}, cluster {mark.instance_id or '(none)'}"


async def _names_in(world: World, volume: ConfiguredVolume) -> list[str]:
    """Return the names on the volume; none when there is only what a start makes before it looks."""
    names = [name for name in await world.disk.list(volume.path) if name not in _NOT_CONTENT]
    is_empty = names == ["current"] and not await world.disk.list(f"{volume.path}/current")
    return [] if is_empty else names


def _proven(world: World, volume: ConfiguredVolume, facts: Mount, options: IntegrityOptions) -> MountReport:
    shared_ok = volume.path in options.shared_filesystem_ok
    checks = options.volume_proof == KUBERNETES
    return mounts.prove(facts, checks=checks, shared_ok=shared_ok, pod_uid=world.host.pod_uid)


async def _look(
    world: World, volume: ConfiguredVolume, mount: MountReport, expected: VolumeExpectation, *, is_silent: bool
) -> VolumeReport:
    try:
        if is_silent:
            # What can be read all the same is out of memory, and says nothing of the disk.
            raise errors.StorageFailed(f"{volume.path}: statfs: the disk does not answer")
        contents, reason, mark = await _contents(world, volume, expected)
    except errors.OutOfResources:
        raise
    except errors.StorageFailed as error:
        mark, contents = None, Contents.UNREADABLE
        reason = f"cannot be read: {error}"
    return VolumeReport(
        name=volume.name,
        role=volume.role,
        path=volume.path,
        mount=mount,
        contents=contents,
        sentinel=mark,
        reason=reason,
    )


async def _contents(
    world: World, volume: ConfiguredVolume, expected: VolumeExpectation
) -> tuple[Contents, str, Sentinel | None]:
    disk = world.disk
    names = await _names_in(world, volume)
    if not names and volume.path in expected.added:
        return Contents.ADDED, "it is empty, and the cookie does not name it: it is added", None
    if not names:
        return Contents.EMPTY, "", None
    found = await _cookie(world, volume)
    if sentinel.NAME not in names:
        return *_without_sentinel(names, found, expected), None
    try:
        mark = sentinel.load(await disk.read(sentinel.path(volume.path)))
    except errors.BadInput as error:
        return Contents.UNKNOWN, f"{error}; restore the file or the volume", None
    return *judge_sentinel(volume, mark, found, expected), mark


async def _cookie(world: World, volume: ConfiguredVolume) -> Cookie | str:
    """Return the directory cookie, or the reason why there is none."""
    try:
        return cookie.load_cookie(await world.disk.read(f"{volume.path}/{COOKIE_FILE}"))
    except errors.FileMissing:
        return f"{COOKIE_FILE} is missing"
    except errors.BadInput as error:
        return f"{COOKIE_FILE}: {error}"


def _without_sentinel(names: list[str], found: Cookie | str, expected: VolumeExpectation) -> tuple[Contents, str]:
    if isinstance(found, Cookie):
        if (found.bookie_id, found.instance_id) != (expected.bookie_id, expected.instance_id):
            return Contents.FOREIGN, _foreign(found.bookie_id, found.instance_id, expected)
        return Contents.UNKNOWN, (
            f"a cookie of this bookie but no sentinel {sentinel.NAME}: a Java bookie's volume cannot be taken over"
        )
    shown = ", ".join(names[:5])
    return Contents.UNKNOWN, f"files that no bookie of ours wrote: {shown}"


def judge_sentinel(
    volume: ConfiguredVolume, mark: Sentinel, found: Cookie | str, expected: VolumeExpectation
) -> tuple[Contents, str]:
    """Decide what a readable sentinel, the directory cookie and the metadata store prove together. Pure."""
    if (mark.bookie_id, mark.instance_id) != (expected.bookie_id, expected.instance_id):
        return Contents.FOREIGN, _foreign(mark.bookie_id, mark.instance_id, expected)
    if (mark.role, mark.volume) != (volume.role, volume.name):
        return Contents.FOREIGN, (
            f"this bookie's {mark.role} volume {mark.volume} is mounted as {volume.role} volume {volume.name}: "
            "volumes are swapped"
        )
    record = expected.record
    if mark.grant_id == sentinel.ADDING:
        return _judge_adding(volume, mark, expected)
    is_told = record is not None and (mark.incarnation, mark.grant_id) == (record.incarnation, record.grant_id)
    if volume.path in expected.added and (is_told or not mark.grant_id):
        return Contents.UNKNOWN, (
            "it was this bookie's before, but the cookie in the metadata store does not name it: restore the cookie"
        )
    if mark.grant_id:
        return _judge_regenerating(mark.incarnation, mark.grant_id, record)
    if isinstance(found, str):
        return Contents.UNKNOWN, f"the sentinel is ours but {found}: somebody emptied the volume"
    if (found.bookie_id, found.instance_id) != (expected.bookie_id, expected.instance_id):
        whose = _foreign(found.bookie_id, found.instance_id, expected)
        return Contents.FOREIGN, f"the sentinel is ours but the cookie is of {whose}"
    reason = cookie.mismatch(expected.master, found)
    if reason and not _is_from_before(found, expected):
        if cookie.added(found, expected.master):
            return Contents.UNKNOWN, f"{reason}; directories are added only with allowStorageExpansion=true"
        return Contents.UNKNOWN, f"{reason}; directories of a bookie with data cannot be changed"
    if record is None:
        return Contents.VALID, "the metadata store knows no incarnation of this bookie"
    if mark.incarnation < record.incarnation:
        return Contents.STALE, f"it is of incarnation {mark.incarnation}, the current one is {record.incarnation}"
    # The sentinel is written before the store is told, so it may be ahead by the one boot that was not told.
    if mark.incarnation > record.incarnation or mark.boot_epoch > record.boot_epoch + 1:
        return Contents.UNKNOWN, (
            f"it is of incarnation {mark.incarnation}, boot {mark.boot_epoch}; the metadata store is behind it "
            f"({record.incarnation}, {record.boot_epoch}): was it restored from a backup?"
        )
    if mark.boot_epoch < record.boot_epoch:
        return (
            Contents.STALE,
            f"it is of boot {mark.boot_epoch}, the last was {record.boot_epoch}: it went back in time",
        )
    return Contents.VALID, ""


def _is_from_before(found: Cookie, expected: VolumeExpectation) -> bool:
    """Return True when a directory's cookie lacks nothing but directories that were added since, or are added now."""
    stored = expected.stored
    if stored is None or not cookie.added(found, expected.master):
        return False
    is_like_stored = not cookie.mismatch(stored, found) or bool(cookie.added(found, stored))
    return is_like_stored and (bool(expected.added) or not cookie.mismatch(expected.master, stored))


def _judge_adding(volume: ConfiguredVolume, mark: Sentinel, expected: VolumeExpectation) -> tuple[Contents, str]:
    """Judge a volume of ours whose adding was begun. It holds no entry yet: its sentinel says otherwise before that."""
    record, stored = expected.record, expected.stored
    if record is None or stored is None:
        return Contents.UNKNOWN, "it was being added to this bookie, which the metadata store does not know"
    boot, last = (mark.incarnation, mark.boot_epoch), (record.incarnation, record.boot_epoch)
    if boot > last and boot != (record.incarnation, record.boot_epoch + 1):
        return Contents.UNKNOWN, f"it was added in {boot}, the metadata store is behind it {last}: was it restored?"
    if volume.path in expected.added:
        return Contents.ADDED, "its adding was begun and did not reach the cookie"
    if volume.path not in (*stored.ledger_dirs, *stored.index_dirs):
        return (
            Contents.UNKNOWN,
            "it was being added; allow that (allowStorageExpansion), or take it out of the settings",
        )
    if boot < last:
        return Contents.STALE, f"its adding reached the cookie, and it is of {boot}, the last was {last}"
    return Contents.VALID, "its adding reached the cookie and was interrupted"


def _foreign(bookie_id: BookieId, instance_id: str, expected: VolumeExpectation) -> str:
    """Say whose volume it is, and what may have happened. Never advises to make a cluster: the volume holds data."""
    whose = f"a volume of bookie {bookie_id}, cluster {instance_id or '(none)'}"
    if instance_id != expected.instance_id:
        return (
            f"{whose}; the metadata store is cluster {expected.instance_id or '(none)'}: the servers or the root of"
            " metadataServiceUri are another cluster's, or the store was made anew: correct the URI, or restore the"
            " store from a backup"
        )
    return f"{whose}; this is bookie {expected.bookie_id}: mount each bookie's own volumes, or correct bookieId"


def _judge_regenerating(incarnation: int, grant_id: str, record: IncarnationRecord | None) -> tuple[Contents, str]:
    current = 0 if record is None else record.incarnation
    if incarnation == current + 1:
        return Contents.REGENERATING, f"a regeneration under grant {grant_id} began and did not reach the cookie"
    if record is not None and incarnation == current and grant_id == record.grant_id:
        return Contents.REGENERATING, f"the regeneration under grant {grant_id} reached the cookie and was interrupted"
    return Contents.STALE, f"its regeneration (grant {grant_id}, incarnation {incarnation}) was overtaken by another"
