"""How long a field of a request may be, and which numbers are ids: what a bookie lets in at its door. Pure.

Java bounds nothing but the frame. What its clients send is far below these limits, and what a bookie keeps for ever
(keys, explicit LACs) must stay small: a row of the index holds both (`storage.ledgers`).
"""

from typing import Final

from bookie.base import errors
from bookie.wire.messages import AuthRequest, Buffer

# SHA-1 makes 20 (`codes.MASTER_KEY_SIZE`); v3 could carry any. Room for a longer hash.
MASTER_KEY_SIZE_MAX: Final = 64
# Ledger id, LAC and the longest digest (HMAC-SHA1) are 36.
LAC_BODY_SIZE_MAX: Final = 64
# Class names and "sasl"; tokens: RFC 2831 allows 4096.
PLUGIN_SIZE_MAX: Final = 256
AUTH_PAYLOAD_SIZE_MAX: Final = 8192
# Until a client has proven who it is: AUTH and START_TLS fit many times.
UNPROVEN_FRAME_BYTES_MAX: Final = 64 * 1024
# The last id that there is (i64).
ENTRY_ID_MAX: Final = 2**63 - 1
# A batch read of tiny entries ends here: the client asks again from there.
BATCH_COUNT_MAX: Final = 4096


def check_master_key(key: bytes | None) -> None:
    """Raises BadRequest for a key that is longer than any client's."""
    if key is not None and len(key) > MASTER_KEY_SIZE_MAX:
        raise errors.BadRequest(f"a master key of {len(key)} bytes; {MASTER_KEY_SIZE_MAX} are allowed")


def check_lac_body(body: Buffer) -> None:
    """Raises BadRequest for an explicit LAC that is longer than any client's."""
    if len(body) > LAC_BODY_SIZE_MAX:
        raise errors.BadRequest(f"an explicit LAC of {len(body)} bytes; {LAC_BODY_SIZE_MAX} are allowed")


def check_auth(request: AuthRequest) -> None:
    """Raises BadInput for what no plugin of anybody's says: the connection is closed."""
    if len(request.plugin) > PLUGIN_SIZE_MAX or len(request.payload) > AUTH_PAYLOAD_SIZE_MAX:
        raise errors.BadInput(
            f"AUTH with a plugin of {len(request.plugin)} characters and {len(request.payload)} bytes;"
            f" {PLUGIN_SIZE_MAX} and {AUTH_PAYLOAD_SIZE_MAX} are allowed"
        )
