"""What was built is kept outside the tree, keyed by what went into it, and used again.

An entry is whole or absent: it is made beside its place and renamed. Nothing here may know what
an entry holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import kube_talk


def root() -> Path:
    """Return the cache directory of this user (XDG base directory specification)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "bookie"


def key(*inputs: str | bytes | Path) -> str:
    """Return twelve hex digits for `inputs`: texts, bytes, and the content of files and folders.

    Paths count by content and by their names under the folder given, never by where they lie.
    """
    digest = hashlib.sha256()
    for part in inputs:
        for chunk in _chunks(part):
            digest.update(len(chunk).to_bytes(8, "big"))
            digest.update(chunk)
    return digest.hexdigest()[:12]


def _chunks(part: str | bytes | Path) -> Iterator[bytes]:
    if isinstance(part, str):
        yield part.encode()
    elif isinstance(part, bytes):
        yield part
    elif part.is_dir():
        for path in sorted(part.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(part).as_posix().encode()
                yield path.read_bytes()
    else:
        yield part.read_bytes()


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the machine-wide lock `name` while the body runs; say so when it has to wait.

    The kernel drops it when the holder dies, however it dies.
    """
    path = root() / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with kube_talk.step(f"waiting for another run that holds {name}"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def entry(name: str, entry_key: str, make: Callable[[Path], None]) -> Path:
    """Return the path of entry `name` under `entry_key`, made by `make` when it is not there.

    `make` is given a path that does not exist and leaves a file or a folder there.
    """
    path = root() / "parts" / f"{name}-{entry_key}"
    if path.exists():
        return path
    with lock(f"part-{name}"):
        if path.exists():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        for remains in path.parent.glob(f".{name}-*.tmp"):
            remove(remains)  # of a run that was killed: nobody else holds the lock
        half_done = path.parent / f".{name}-{entry_key}.tmp"
        try:
            make(half_done)
            # CRASH: until the rename the entry is absent, after it the entry is whole.
            half_done.rename(path)
        finally:
            remove(half_done)
    return path


def remove(path: Path) -> None:
    """Remove a file or a folder, read-only content included; an absent one is fine."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
