"""Checks the arguments of public calls: refuses a bad one by its name, before anything has changed.

Pure. The checks guess nothing: they encode no text, round no fraction, and take no flag for a number. They return a
usable value in the one type that the rest of the client expects. All raise BadInput.
"""

import operator
from collections.abc import Iterable, Mapping
from types import UnionType

from bookie.base import errors
from bookie.base.ids import INVALID_ENTRY_ID, LEDGER_ID_MAX, BookieId, EntryId, LedgerId
from bookie.base.units import KIB
from bookie.wire import codes
from bookie.wire.digest import DigestType

# A schedule computes E x WQ places when it is made, and nobody stripes a ledger wider than this.
ENSEMBLE_MAX = 1_000
# ZooKeeper takes records of 1 MiB and ends the session of a client that sends more; ensembles need room in it, too.
CUSTOM_BYTES_MAX = 512 * KIB
PASSWORD_BYTES_MAX = 64 * KIB
_SHOWN_MAX = 40


def payload(value: object, name: str = "payload") -> bytes:
    """Return the bytes of `value`. Copies all but bytes: others may change, and `len` of a view counts items."""
    if type(value) is bytes:
        return value
    try:
        return memoryview(value).tobytes()  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        hint = ": encode it, e.g. text.encode()" if isinstance(value, str) else f" ({error})"
        raise errors.BadInput(f"{name} must be bytes, a bytearray or a memoryview, not {_kind(value)}{hint}") from None


def payloads(value: object) -> list[object]:
    """Return the items of a list, unchecked. Refuses bytes, whose items are numbers."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        return list(value)
    raise errors.BadInput(f"payloads must be a list of bytes, not {_kind(value)}")


def password(value: object) -> bytes:
    """Return a ledger's password. No error shows it."""
    found = payload(value, "password")
    if len(found) > PASSWORD_BYTES_MAX:
        raise errors.BadInput(f"password has {len(found)} bytes; at most {PASSWORD_BYTES_MAX} are allowed")
    return found


def master_key(value: object, name: str) -> bytes:
    """Return the key that stands for a password on the wire."""
    found = payload(value, name)
    if len(found) != codes.MASTER_KEY_SIZE:
        raise errors.BadInput(f"{name} has {len(found)} bytes, not {codes.MASTER_KEY_SIZE}: Digest.master_key makes it")
    return found


def whole(value: object, name: str, *, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`, both included; takes numpy's numbers, too."""
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise errors.BadInput(f"{name} must be a whole number, not {_shown(value)}") from None
    if not low <= found <= high:
        raise errors.BadInput(f"{name} must be {low} to {high}, not {_shown(found)}")
    return found


def ledger_id(value: object) -> LedgerId:
    return LedgerId(whole(value, "ledger_id", low=0, high=LEDGER_ID_MAX))


def entry_id(value: object, name: str = "entry_id", *, low: int = 0) -> EntryId:
    """Return an entry id. `low` is -1 where that stands for "none" or "the last"."""
    return EntryId(whole(value, name, low=low, high=LEDGER_ID_MAX))


def confirmed(value: object) -> EntryId:
    return entry_id(value, "confirmed", low=INVALID_ENTRY_ID)


def size(value: object, name: str) -> int:
    """Return the size of an ensemble or a quorum."""
    return whole(value, name, low=1, high=ENSEMBLE_MAX)


def bookie_id(value: object) -> BookieId:
    """Return any text as a bookie id: only the registrations say which ids there are."""
    if not isinstance(value, str):
        raise errors.BadInput(f"bookie_id must be text, not {_shown(value)}")
    return BookieId(value)


def flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise errors.BadInput(f"{name} must be True or False, not {_shown(value)}")
    return value


def instance(value: object, kind: type | UnionType, name: str) -> None:
    """Refuse a value that is not a `kind`. The error never shows it: it may be a secret given in the wrong place."""
    if not isinstance(value, kind):
        raise errors.BadInput(f"{name} must be {getattr(kind, '__name__', kind)}, not {_kind(value)}")


def digest_type(value: object) -> DigestType:
    """Return the digest type, given as a DigestType or as its number in the metadata."""
    known = {int(one): one for one in DigestType}
    if not isinstance(value, int) or isinstance(value, bool) or value not in known:
        names = ", ".join(f"DigestType.{one.name}" for one in DigestType)
        raise errors.BadInput(f"digest_type must be one of {names}, not {_shown(value)}")
    return known[value]


def custom(value: object) -> dict[str, bytes]:
    """Return custom metadata: text to bytes, small enough for a metadata store."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise errors.BadInput(f"custom must map text to bytes, not be {_kind(value)}")
    found: dict[str, bytes] = {}
    for key, content in value.items():
        if not isinstance(key, str) or not is_text(key):
            raise errors.BadInput(f"custom: the key {_shown(key)} is not text that can be stored")
        found[key] = payload(content, f"custom[{_shown(key)}]")
    total = sum(len(key.encode()) + len(content) for key, content in found.items())
    if total > CUSTOM_BYTES_MAX:
        raise errors.BadInput(f"custom has {total} bytes; at most {CUSTOM_BYTES_MAX} fit the ledger's record")
    return found


def is_text(value: str) -> bool:
    """Return False for text with half a character (a lone surrogate), which no encoding can write."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    """Return `value` as an error message shows it: short, whatever the value is."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN_MAX else value[:_SHOWN_MAX] + "…")
    return repr(value) if isinstance(value, int | float) or value is None else _kind(value)


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
