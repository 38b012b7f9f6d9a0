"""Seals and verifies entries (HMAC-SHA1, CRC32, CRC32C, none), and makes the keys from a ledger's password.

A digest covers the 32 header bytes and the payload, not itself. Bookies never verify, since they do not know the
type; clients always do. Rules: spec/wire.md#W21 to W23.
"""

import enum
import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable

import google_crc32c

from bookie.base.errors import DigestMismatch
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import entry
from bookie.wire.entry import EntryHeader
from bookie.wire.messages import Buffer


class DigestType(enum.IntEnum):
    """Numbers of the metadata enum (LedgerMetadataFormat.DigestType); the API enums of Java order them otherwise."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


def master_key(password: bytes) -> bytes:
    """Return the 20 bytes that stand for `password` on the wire, whatever the digest type."""
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


def mac_key(password: bytes) -> bytes:
    """Return the key of HMAC digests, 20 bytes."""
    return hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()


_Compute = Callable[[bytes, Buffer], bytes]


def _crc32(header: bytes, payload: Buffer) -> bytes:
    return zlib.crc32(payload, zlib.crc32(header)).to_bytes(8, "big")  # an int64: the high half is zero


def _crc32c(header: bytes, payload: Buffer) -> bytes:
    # The C function wants read-only bytes; a view of a bytearray is copied once.
    chunk = payload if isinstance(payload, bytes) else bytes(payload)
    crc: int = google_crc32c.extend(google_crc32c.value(header), chunk)
    return crc.to_bytes(4, "big")


def _hmac_sha1(password: bytes) -> _Compute:
    keyed = hmac.new(mac_key(password), digestmod="sha1")

    def compute(header: bytes, payload: Buffer) -> bytes:
        mac = keyed.copy()
        mac.update(header)
        mac.update(payload)
        return mac.digest()

    return compute


# The size of a digest, and what computes it, given the ledger's password.
_KINDS: dict[DigestType, tuple[int, Callable[[bytes], _Compute]]] = {
    DigestType.CRC32: (8, lambda _: _crc32),
    DigestType.HMAC: (20, _hmac_sha1),
    DigestType.CRC32C: (4, lambda _: _crc32c),
    DigestType.DUMMY: (0, lambda _: lambda header, payload: b""),
}
_LAC_BODY = struct.Struct(">qq")


class Digest:
    """Seals and opens the entries of one ledger. Holds no state after construction; never suspends."""

    __slots__ = ("_compute", "_offset", "master_key", "size", "type")

    def __init__(self, digest_type: DigestType, password: bytes) -> None:
        self.type = digest_type
        self.size, compute_with = _KINDS[digest_type]
        self.master_key = master_key(password)
        self._offset = entry.HEADER_SIZE + self.size
        self._compute = compute_with(password)

    def seal(self, ledger_id: LedgerId, entry_id: EntryId, lac: int, length: int, payload: Buffer) -> list[Buffer]:
        """Return the whole entry as [header and digest, payload]; the payload is borrowed.

        `lac`: the last add confirmed now. `length`: user bytes of the ledger including this payload.
        """
        header = entry.HEADER.pack(ledger_id, entry_id, lac, length)
        return [header + self._compute(header, payload), payload]

    def open(self, view: Buffer, ledger_id: LedgerId, entry_id: EntryId | None) -> tuple[EntryHeader, memoryview]:
        """Verify one entry; return its header and its payload, a borrowed view.

        `entry_id` None: the client read "the highest entry", whose id it does not know beforehand. Raises
        DigestMismatch, for wrong ids too: a replica that sends another entry is as bad as one that sends rot.
        """
        view = memoryview(view)
        if len(view) < self._offset:
            raise DigestMismatch(f"ledger {ledger_id} entry {entry_id}: {len(view)} bytes cannot hold an entry")
        header = bytes(view[: entry.HEADER_SIZE])
        payload = view[self._offset :]
        if self._compute(header, payload) != view[entry.HEADER_SIZE : self._offset]:
            raise DigestMismatch(f"ledger {ledger_id} entry {entry_id}: the {self.type.name} digest does not match")
        found = entry.unpack_header(header)
        if found.ledger_id != ledger_id or (entry_id is not None and found.entry_id != entry_id):
            raise DigestMismatch(
                f"ledger {ledger_id} entry {entry_id}: the answer is ledger {found.ledger_id} entry {found.entry_id}"
            )
        return found, payload

    def seal_lac(self, ledger_id: LedgerId, lac: int) -> bytes:
        """Return the body of a WRITE_LAC: ledger id, LAC, digest over both."""
        head = _LAC_BODY.pack(ledger_id, lac)
        return head + self._compute(head, b"")

    def open_lac(self, view: Buffer, ledger_id: LedgerId) -> int:
        """Verify the body of an explicit LAC; return the LAC. Raises DigestMismatch."""
        head = bytes(view[: _LAC_BODY.size])
        digest = bytes(view[_LAC_BODY.size : _LAC_BODY.size + self.size])
        if len(head) < _LAC_BODY.size or self._compute(head, b"") != digest:
            raise DigestMismatch(f"ledger {ledger_id}: the digest of the explicit LAC does not match")
        found, lac = _LAC_BODY.unpack(head)
        if found != ledger_id:
            raise DigestMismatch(f"ledger {ledger_id}: the answer is the explicit LAC of ledger {found}")
        assert isinstance(lac, int)
        return lac
