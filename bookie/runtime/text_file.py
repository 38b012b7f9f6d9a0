"""Small text files that settings name: tokens, passwords, JAAS sections."""

from pathlib import Path

from bookie.base import errors
from bookie.runtime import given_file

Stamp = tuple[str, int, int, int]  # path, time of the last change, size, inode


def read(path: str, named_by: str = "") -> str:
    """Return the text at `path`. Raises BadInput that begins with `named_by` and the path."""
    try:
        return given_file.read(path).decode().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise errors.BadInput(f"{named_by}{path} cannot be read: {reason}") from None


def stamp(path: str) -> Stamp:
    """Return a value that changes whenever the file does: Kubernetes swaps a link, others write or rename."""
    try:
        found = Path(path).stat()
    except OSError:
        return (path, 0, 0, 0)
    return (path, found.st_mtime_ns, found.st_size, found.st_ino)
