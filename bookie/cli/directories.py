"""Finds configured directories that can never be a bookie's, before the bookie connects or writes anything.

It does not judge what is *in* a directory: the boot decides whether an empty one is new, lost or not mounted
(docs/INTEGRITY.md). Where volumes must prove to be mounted, a directory that is absent or not writable may merely not
be mounted yet: the running bookie then waits for it. So this module refuses only what no mount can put right.
"""

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bookie.integrity.options import KUBERNETES
from bookie.runtime import place
from bookie.runtime.place import PathFacts
from bookie.settings.table import DIRECTORIES
from bookie.settings.values import Settings
from bookie.storage import dirs

Look = Callable[[str], PathFacts]


@dataclass(frozen=True, slots=True)
class NamedDirectory:
    """A configured directory: the setting that names it, its path, and what is there."""

    key: str
    path: str
    origin: str
    place: PathFacts

    def __str__(self) -> str:
        return f"{self.key} {self.path} ({self.origin})"


def look(path: str) -> PathFacts:
    """Look at a configured directory as this process sees it."""
    return place.look(path, inside=dirs.CURRENT, lock=dirs.LOCK)


def unseen(path: str) -> PathFacts:
    """Stand in for a look at `path`: assume that nothing is wrong with it, and that it is no link."""
    return PathFacts(posixpath.normpath(path), above=path)


def named(settings: Settings, look: Look) -> list[NamedDirectory]:
    """Return every directory of every setting, in order."""
    return [
        NamedDirectory(key, path, settings.values[key].origin, look(path) if path.startswith("/") else unseen(path))
        for key in DIRECTORIES
        for path in settings.names(key)
    ]


def problems(settings: Settings, look: Look, user: str) -> Iterator[str]:
    """Return one sentence for each directory, or pair of directories, that the bookie cannot use."""
    found = named(settings, look)
    may_come = settings.text("volumeProof") == KUBERNETES
    for one in found:
        reason = _never(one) or ("" if may_come else _not_now(one, user))
        if reason:
            yield f"{one} {reason}"
    for number, one in enumerate(found):
        for other in found[:number]:
            if reason := _twice(one, other):
                yield f"{one} {reason}"
        for other in found:
            if f"{one.place.real}/".startswith(f"{dirs.current(other.place.real)}/"):
                yield f"{one} is inside {other}, among the files it keeps there: name a directory beside it"


def held(settings: Settings, look: Look) -> str:
    """Return one sentence on the directories that another process holds, "" when there are none."""
    found = [str(one) for one in named(settings, look) if one.place.is_held]
    if not found:
        return ""
    return f"held by another process: {', '.join(found)}; one bookie per directory: stop the other one"


def _never(one: NamedDirectory) -> str:
    """Return why no mount and no repair makes this a directory of a bookie; "" when it may be one."""
    place = one.place
    if not one.path.startswith("/"):
        return "is not an absolute path: write it in full, from / on"
    if place.real == "/":
        return "is the root of the file system: name a directory of its own"
    if place.never:
        return f"can be no directory ({place.never}): move what is in the way, or name another directory"
    if place.no_disk:
        return f"is on {place.no_disk}, a file system that keeps no files: name a directory on a disk"
    return ""


def _not_now(one: NamedDirectory, user: str) -> str:
    """Return why this process cannot work in the directory at present."""
    place = one.place
    if place.leads_nowhere:
        return f"goes by the link {place.leads_nowhere}, whose target is not there: mount or make it, or mend the link"
    if place.is_read_only and not place.is_there:
        return f"is not there, and {place.above} is on a file system that is mounted read-only: mount its own volume"
    if place.is_read_only:
        return "is on a file system that is mounted read-only: look at its disk (dmesg), then mount it writable"
    if place.denied and not place.is_there and place.denied == place.above:
        return (
            f"is not there, and user {user!r} may not make it in {place.above}: mount its volume, or make it for this"
            " user (mkdir, chown)"
        )
    if place.denied:
        return f"cannot be used: user {user!r} may not write to {place.denied}: chown -R it, or start as its owner"
    return ""


def _twice(one: NamedDirectory, other: NamedDirectory) -> str:
    """Return why two settings must not name this one directory; "" when they may: named once, it may have two roles."""
    if one.place.real != other.place.real:
        return ""
    if one.key == other.key:
        return f"is the same directory as {other.path}: name each once"
    if one.path != other.path:
        return f"is the same directory as {other}: write both the same way, or give each a directory of its own"
    return ""
