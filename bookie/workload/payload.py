"""Computes the bytes of an entry from the seed, so that a reader can compare all bytes, not a digest."""

import hashlib

SIZE_BYTES_MIN = 64
SIZE_BYTES_MAX = 2048  # a few entries a packet, several packets a batch: both sides of the usual 1 KiB


def payload(seed: int, ledger_id: int, entry_id: int) -> bytes:
    """Return the bytes of one entry; size and content differ from entry to entry.

    SHAKE-128 gives any number of bytes from the three numbers, so that a mixed-up, cut or stale entry is seen.
    """
    stream = hashlib.shake_128(b"%d/%d/%d" % (seed, ledger_id, entry_id))
    size_bytes = SIZE_BYTES_MIN + int.from_bytes(stream.digest(2)) % (SIZE_BYTES_MAX - SIZE_BYTES_MIN + 1)
    return stream.digest(size_bytes)


def digest(body: bytes | memoryview) -> str:
    """Return sixteen hex digits that tell one payload from another, for the log and for people."""
    return hashlib.sha256(body).hexdigest()[:16]
