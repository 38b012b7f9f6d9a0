"""Limits on the fields of a request, checked before a bookie does anything with it. Pure.

Java bounds nothing but the frame. Java's clients stay far below these limits. Keys and explicit LACs must be small,
because a bookie keeps them for ever, both in one row of the index (`storage.ledgers`).
"""

from typing import Final

from bookie.base import errors
from bookie.wire.messages import AuthRequest, Buffer

# SHA-1 makes 20 bytes (`codes.MASTER_KEY_SIZE`); v3 could carry any number. This leaves room for a longer hash.
MASTER_KEY_SIZE_MAX: Final = 64
# Ledger id, LAC and the longest digest (HMAC-SHA1) are 36.
LAC_BODY_SIZE_MAX: Final = 64
# Plugins are class names, or "sasl". RFC 2831 allows payloads of 4096 bytes.
PLUGIN_SIZE_MAX: Final = 256
AUTH_PAYLOAD_SIZE_MAX: Final = 8192
# The longest frame of a client that has not proven who it is: AUTH and START_TLS fit many times.
UNPROVEN_FRAME_BYTES_MAX: Final = 64 * 1024
# The highest entry id (i64).
ENTRY_ID_MAX: Final = 2**63 - 1
# One answer to a batch read has at most so many entries: the client asks for the rest.
BATCH_COUNT_MAX: Final = 4096


def check_master_key(key: bytes | None) -> None:
    """Refuse a master key that no client has. Raises Unauthorized for an empty one: a ledger of which no key is known
    takes whatever key comes next, over what came with none. Raises BadRequest for one that is too long."""
    if key is not None and not key:
        raise errors.Unauthorized("the request carries no master key")
    if key is not None and len(key) > MASTER_KEY_SIZE_MAX:
        raise errors.BadRequest(f"the master key has {len(key)} bytes; at most {MASTER_KEY_SIZE_MAX} are allowed")


def check_lac_body(body: Buffer) -> None:
    """Refuse an explicit LAC that is longer than any client's. Raises BadRequest."""
    if len(body) > LAC_BODY_SIZE_MAX:
        raise errors.BadRequest(f"the explicit LAC has {len(body)} bytes; at most {LAC_BODY_SIZE_MAX} are allowed")


def check_auth(request: AuthRequest) -> None:
    """Refuse an AUTH that is longer than any plugin's. Raises BadInput: the connection is then closed."""
    if len(request.plugin) > PLUGIN_SIZE_MAX or len(request.payload) > AUTH_PAYLOAD_SIZE_MAX:
        raise errors.BadInput(
            f"AUTH names its plugin in {len(request.plugin)} characters and carries {len(request.payload)} bytes;"
            f" at most {PLUGIN_SIZE_MAX} and {AUTH_PAYLOAD_SIZE_MAX} are allowed"
        )
