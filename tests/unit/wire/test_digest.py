"""Verification: a replica that is wrong in any way is a mismatch, never an entry."""

import google_crc32c
import pytest

from bookie.base.errors import DigestMismatch
from bookie.base.ids import EntryId, LedgerId
from bookie.wire.digest import Digest, DigestType

LEDGER, ENTRY = LedgerId(7), EntryId(5)


def sealed_by(digest: Digest, payload: bytes = b"payload") -> bytearray:
    return bytearray(b"".join(digest.seal(LEDGER, ENTRY, 4, 100, payload)))


def test_crc32c_is_castagnoli() -> None:
    assert google_crc32c.value(b"123456789") == 0xE3069283
    assert google_crc32c.value(b"Some String") == 0x2445290F


@pytest.mark.parametrize("digest_type", [DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC])
def test_every_flipped_bit_is_found(digest_type: DigestType) -> None:
    digest = Digest(digest_type, b"secret")
    whole = sealed_by(digest)

    for position in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(DigestMismatch):
            digest.open(bytes(flipped), LEDGER, ENTRY)


@pytest.mark.parametrize("digest_type", DigestType)
def test_every_prefix_without_a_whole_header_is_refused(digest_type: DigestType) -> None:
    digest = Digest(digest_type, b"")
    whole = bytes(sealed_by(digest, b""))

    for size in range(len(whole)):
        with pytest.raises(DigestMismatch):
            digest.open(whole[:size], LEDGER, ENTRY)


def test_another_entry_is_as_bad_as_rot() -> None:
    digest = Digest(DigestType.CRC32C, b"")
    whole = bytes(sealed_by(digest))

    with pytest.raises(DigestMismatch):
        digest.open(whole, LEDGER, EntryId(6))
    with pytest.raises(DigestMismatch):
        digest.open(whole, LedgerId(8), ENTRY)


def test_a_read_of_the_highest_entry_takes_any_entry_id() -> None:
    digest = Digest(DigestType.CRC32C, b"")

    header, payload = digest.open(sealed_by(digest), LEDGER, None)

    assert (header.entry_id, header.lac, header.length, bytes(payload)) == (5, 4, 100, b"payload")


def test_an_explicit_lac_of_another_ledger_is_refused() -> None:
    digest = Digest(DigestType.HMAC, b"secret")
    body = digest.seal_lac(LEDGER, 3)

    with pytest.raises(DigestMismatch):
        digest.open_lac(body, LedgerId(8))
    with pytest.raises(DigestMismatch):
        digest.open_lac(body[:-1], LEDGER)
