"""Refuses files that another version of this program wrote. Pure.

Each format has a number, and what a number means never changes. A newer one is refused before a byte is changed: read
with today's eyes it would be damage, and "damage" is what people throw away.
"""

import struct
from collections.abc import Container

import google_crc32c

from bookie.base import errors

_NUMBER = struct.Struct(">I")


def other_format(data: bytes, magic: bytes, known: Container[int], header_size: int) -> int | None:
    """Return the format's number when `data` begins with a whole header of a format that is not `known`; else None.

    Every format has its magic, then its number, and the CRC32C of the header as its last four bytes.
    """
    if len(data) < header_size or not data.startswith(magic):
        return None
    (version,) = _NUMBER.unpack_from(data, len(magic))
    (crc,) = _NUMBER.unpack_from(data, header_size - _NUMBER.size)
    is_whole = crc == google_crc32c.value(data[: header_size - _NUMBER.size])
    return int(version) if is_whole and version not in known else None


def refusal(what: str, found: int, known: int) -> errors.RefusedToStart:
    """Return the error that refuses `what`, of format `found`, in a program that knows `known`."""
    assert found != known
    if found > known:
        return errors.RefusedToStart(
            f"{what} was written by a newer version of this program (format {found}, this one knows {known});"
            " start that version here, or give this one empty directories"
        )
    return errors.RefusedToStart(
        f"{what} was written by an older version of this program (format {found}, this one knows {known});"
        " let that version hand its ledgers over to other bookies, then give this one empty directories"
    )
