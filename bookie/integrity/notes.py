"""The note that a repair is due: a small file on each volume, written before phase one and removed after phase two.

    <directory>/REPAIR    JSON: why, since which boot, whether what is on disk must be read to be believed, and the
                          epoch of the doubt that every index must hold, where there is one

It is NEEDS_INTEGRITY_CHECK of BookKeeper (spec/bp46.md#S10), kept on every volume so that losing one does not lose it;
limbo marks say *which* ledgers, this says *that*. Removed only when no limbo mark is left, durably.
"""

import dataclasses
import json
from dataclasses import asdict, dataclass

from bookie.base import errors
from bookie.integrity.volumes import REPAIR_FILE, ConfiguredVolume
from bookie.ports.disk import Disk, replace_durably


@dataclass(frozen=True, slots=True)
class Note:
    """What to repair. `verify`: part of the disks was lost, so an index entry proves nothing (spec/bp46.md#T15).

    `doubt_epoch`: 0, or of a doubt: an index without it, or a later one, was lost since (decisions/0021).
    """

    reason: str
    boot_epoch: int
    verify: bool
    doubt_epoch: int = 0


async def write(disk: Disk, volumes: tuple[ConfiguredVolume, ...], note: Note) -> None:
    """Make the note durable on every volume; keep the `verify` of an earlier note, and the later doubt."""
    before = await read(disk, volumes)
    if before is not None:
        verify, epoch = note.verify or before.verify, max(note.doubt_epoch, before.doubt_epoch)
        note = Note(note.reason, note.boot_epoch, verify=verify, doubt_epoch=epoch)
    fields = asdict(note)
    if not note.doubt_epoch:
        del fields["doubt_epoch"]  # as versions before doubts wrote it
    for volume in volumes:
        await replace_durably(disk, _path(volume), json.dumps(fields, sort_keys=True).encode() + b"\n")


async def read(disk: Disk, volumes: tuple[ConfiguredVolume, ...]) -> Note | None:
    """Return the most careful of all notes; None: no repair is due. A note that cannot be read asks for everything."""
    found: list[Note] = []
    for volume in volumes:
        try:
            found.append(_load(await disk.read(_path(volume))))
        except errors.FileMissing:
            continue
    if not found:
        return None
    careful = max(found, key=lambda note: note.verify)
    return dataclasses.replace(careful, doubt_epoch=max(note.doubt_epoch for note in found))


async def remove(disk: Disk, volumes: tuple[ConfiguredVolume, ...]) -> None:
    """Remove the notes from all `volumes`.

    CRASH: only after the last limbo mark was cleared durably. A note that survives costs one look at every mark.
    """
    for volume in volumes:
        await disk.remove(_path(volume))
        await disk.sync_dir(volume.path)


def _path(volume: ConfiguredVolume) -> str:
    return f"{volume.path}/{REPAIR_FILE}"


def _load(data: bytes) -> Note:
    try:
        fields = json.loads(data)
        return Note(
            str(fields["reason"]),
            int(fields["boot_epoch"]),
            verify=bool(fields["verify"]),
            doubt_epoch=int(fields.get("doubt_epoch", 0)),
        )
    except (ValueError, KeyError, TypeError):
        return Note("a note that cannot be read", 0, verify=True)
