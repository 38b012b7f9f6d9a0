"""Small text files that settings name: tokens, passwords, JAAS sections."""

from pathlib import Path

from bookie.base import errors


def read(path: str, named_by: str = "") -> str:
    """Return the text at `path`. Raises BadInput that begins with `named_by` and the path."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise errors.BadInput(f"{named_by}{path} cannot be read: {reason}") from None
