"""Directories of a bookie: layout, lock files, the DIRTY marker. Never creates anything before it is told to.

    <journal dir>/current/   LOCK  0000000000000001.journal ...
    <ledger dir>/current/    LOCK  DIRTY  00000000.log ...
    <index dir>/current/     LOCK  index/...

DIRTY says that the store may have been serving: durable before the first request (`mark_dirty`), removed only after
a verified flush (`clear_dirty`). Its text says whether entry data went through the journal in that life; only if it
did not can a crash have lost acknowledged entries, and that stays so whatever the option says at the next start
(spec/bp46.md#R5, T20). It also says whether the journal of that life names the ledgers of which entries were in memory
alone; that is believed where every directory says so. A marker that cannot be read counts as the worst case.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from bookie.base import errors
from bookie.ports import disk as disk_port
from bookie.ports.disk import Disk, Lock
from bookie.storage.options import StorageOptions

CURRENT = "current"
DIRTY = "DIRTY"
LOCK = "LOCK"
INDEX = "index"
_JOURNALED = b"entry data is in the journal\n"
_TOUCHED = b"entry data is not in the journal, the names of its ledgers are\n"
_UNJOURNALED = b"entry data is not in the journal\n"
_SET_BACK = b"these volumes went back in time\n"
_WORSE = (_JOURNALED, _TOUCHED, _UNJOURNALED, _SET_BACK)  # each than the one before it


def current(directory: str) -> str:
    """Return the `current` directory inside a configured one: all files of the bookie are in it."""
    return f"{directory.rstrip('/')}/{CURRENT}"


def all_dirs(options: StorageOptions) -> tuple[str, ...]:
    """Return every configured directory once, in the order journal, ledger, index."""
    return tuple(dict.fromkeys((*options.journal_dirs, *options.ledger_dirs, *options.index_dirs)))


async def prepare(disk: Disk, options: StorageOptions) -> None:
    """Make every `current` directory, durably, with all that is missing above it."""
    for directory in all_dirs(options):
        await _make(disk, current(directory))


async def _make(disk: Disk, directory: str) -> None:
    """From the top: each name is durable before there is one below it. CRASH: so of what is there, the name of the
    lowest alone may be one that is not durable, and is made so first."""
    path = [directory, *map(str, PurePosixPath(directory).parents)]
    there = 1
    while not await disk.exists(path[there]):
        there += 1
    await disk.sync_dir(path[min(there + 1, len(path) - 1)])
    for count in range(there, 0, -1):
        await disk.make_dir(path[count - 1])
        await disk.sync_dir(path[count])


async def lock(disk: Disk, options: StorageOptions) -> list[Lock]:
    """Lock every directory for this process. Raises RefusedToStart; no lock is held then."""
    held: list[Lock] = []
    try:
        for directory in all_dirs(options):
            held.append(await disk.lock(f"{current(directory)}/{LOCK}"))
    except errors.BookieError:
        release(held)
        raise
    return held


def release(locks: Sequence[Lock]) -> None:
    for held in locks:
        held.release()


# ---- the marker -----------------------------------------------------------------------------------------------------


def _markers(options: StorageOptions) -> list[str]:
    return [f"{current(directory)}/{DIRTY}" for directory in options.ledger_dirs]


async def mark_dirty(disk: Disk, options: StorageOptions) -> None:
    """Make the marker durable in every ledger directory. An existing marker of a process without journaled data stays
    as it is until `clear_dirty`, where it says more."""
    for path in _markers(options):
        found = bytes(await disk.read(path)) if await disk.exists(path) else _JOURNALED
        text = max(_text_of(options), found if found in _WORSE else _UNJOURNALED, key=_WORSE.index)
        await disk.make_dir(path.rsplit("/", 1)[0])
        await disk_port.replace_durably(disk, path, text)


def _text_of(options: StorageOptions) -> bytes:
    """Return what the marker of a life with these options says."""
    if options.journal_write_data:
        return _JOURNALED
    return _TOUCHED if options.makes_touches else _UNJOURNALED


async def _texts(disk: Disk, options: StorageOptions) -> list[bytes]:
    """Return the text of each marker that is there."""
    return [bytes(await disk.read(path)) for path in _markers(options) if await disk.exists(path)]


async def is_dirty(disk: Disk, options: StorageOptions) -> bool:
    """Return True when the last process did not end with a verified flush."""
    return bool(await _texts(disk, options))


async def may_have_lost(disk: Disk, options: StorageOptions) -> bool:
    """Return True when that process kept entry data out of the journal, so that acknowledged entries may be lost."""
    return any(text != _JOURNALED for text in await _texts(disk, options))


async def has_touches(disk: Disk, options: StorageOptions) -> bool:
    """Return True when that process named, durably in the journal, each ledger of which entries were in memory alone:
    of all others a crash took nothing. Every directory's marker must say so; where they differ, or one is not there,
    nothing is believed. Never asks what the options of now say."""
    texts = await _texts(disk, options)
    return len(texts) == len(_markers(options)) and set(texts) == {_TOUCHED}


async def mark_set_back(disk: Disk, options: StorageOptions) -> None:
    """Note durably, before the store is opened, that these volumes were set back to an older state: the journal file
    that opening begins would hide it. The note stays until `clear_dirty`."""
    for path in _markers(options):
        await disk.make_dir(path.rsplit("/", 1)[0])
        await disk_port.replace_durably(disk, path, _SET_BACK)


async def is_set_back(disk: Disk, options: StorageOptions) -> bool:
    """Return True when `mark_set_back` was called and the integrity marks are not made yet."""
    return _SET_BACK in await _texts(disk, options)


async def clear_dirty(disk: Disk, options: StorageOptions) -> None:
    """Remove the marker durably. CRASH: call only after `EntryStore.close` (or `flush`) reported everything durable, or
    after the integrity marks are durable; a power cut in between leaves the marker, which is safe."""
    for path in _markers(options):
        await disk.remove(path)
        await disk.sync_dir(path.rsplit("/", 1)[0])
