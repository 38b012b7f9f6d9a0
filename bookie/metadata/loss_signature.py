"""The signature in the note of a loss: what exactly is signed, and what a signature that is found is worth. Pure.

Whoever may write ledgers' records may write such a note. A signature proves that the holder of a key said just this of
just this ledger: cluster, ledger, kind of act, when the ledger's record was made, its digest and its end are signed
with the note, so that it is worth nothing anywhere else. What may change afterwards (ensembles, other notes) is not
signed. It does not prove that what was said is true, who held the key, nor that no note was taken away. The bytes, with
an example: spec/metadata.md#M58.

Never: knows a library of ciphers. `runtime.loss_keys` reads keys.
"""

import base64
import binascii
import enum
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bookie.base.ids import LedgerId
from bookie.metadata.ledger import LedgerMetadata

FIELD = "signature"
ALGORITHM = "Ed25519"
_PREFIX = b"bookie signed loss 1\n"  # so that no signature over anything else can be one of these
_KEY = re.compile("[0-9a-f]{64}")
_KEY_SHOWN = 12  # characters of a fingerprint, for a person

Note = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key. `fingerprint`: SHA-256 of the raw public key, hex; `sign`: the signature (64 bytes) of a
    message."""

    fingerprint: str
    sign: Callable[[bytes], bytes] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key that a person trusts. `has_signed`: True when (signature, message) are of its private key."""

    name: str
    fingerprint: str
    has_signed: Callable[[bytes, bytes], bool] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a note stands. `cluster`: the instance id. `made_ms`: when the record's node was made, by the metadata
    store's own clock: who writes records cannot set it."""

    cluster: str
    ledger_id: LedgerId
    made_ms: int


@dataclass(frozen=True, slots=True)
class Seal:
    """Signs what is written of the ledger at `place`."""

    key: SigningKey
    place: Place

    def signed(self, act: str, note: Note, metadata: LedgerMetadata) -> dict[str, object]:
        """Return the note with its signature. `act`: the key that it stands under. `metadata`: of the closed ledger."""
        unsigned = {"algorithm": ALGORITHM, "key": self.key.fingerprint, "madeMs": self.place.made_ms}
        message = statement(act, {**note, FIELD: unsigned}, self.place, metadata)
        value = base64.b64encode(self.key.sign(message)).decode("ascii")
        return {**note, FIELD: {**unsigned, "value": value}}


class Worth(enum.Enum):
    """What the signature of a note is worth."""

    TRUSTED = "trusted"
    UNSIGNED = "unsigned"
    NOT_CHECKED = "not checked"  # nobody said which keys are trusted
    UNKNOWN_KEY = "unknown key"
    OTHER_RECORD = "other record"  # a trusted key signed it, for a record that was made at another time
    INVALID = "does not verify"
    NOT_IN_FORCE = "not in force"  # it stands in a ledger that is not closed: nothing of it was given up


@dataclass(frozen=True, slots=True)
class Judgement:
    """`text`: for a person. `key`: the fingerprint that the note names, "" for none. `name`: of the trusted key that
    signed it."""

    worth: Worth
    text: str
    key: str = ""
    name: str = ""


def statement(act: str, note: Note, place: Place, metadata: LedgerMetadata) -> bytes:
    """Return the bytes that are signed. `note`: with its signature, all but the `value` of it. Raises ValueError for
    what is no JSON."""
    said = {
        "act": act,
        "cluster": place.cluster,
        "digestType": metadata.digest_type,
        "lastEntry": metadata.last_entry,
        "ledger": place.ledger_id,
        "length": metadata.length,
        "note": note,
    }
    return _PREFIX + json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def judge(
    act: str, note: Note, place: Place, metadata: LedgerMetadata, trusted: Sequence[TrustedKey] | None
) -> Judgement:
    """Return what the note's signature is worth. `trusted`: None where nobody said whom to trust."""
    if FIELD not in note:
        return Judgement(Worth.UNSIGNED, "unsigned")
    found = note[FIELD]
    if not isinstance(found, Mapping):
        return _invalid("its signature is of no known form")
    key, made_ms = found.get("key"), found.get("madeMs")
    if found.get("algorithm") != ALGORITHM:
        return _invalid(f"its algorithm is not {ALGORITHM}, the one that is known here")
    if not (isinstance(key, str) and _KEY.fullmatch(key)) or type(made_ms) is not int:
        return _invalid("its signature is of no known form")
    try:
        value = base64.b64decode(str(found.get("value")), validate=True)
        unsigned = {name: each for name, each in found.items() if name != "value"}
        message = statement(act, {**note, FIELD: unsigned}, place, metadata)
    except (binascii.Error, ValueError, RecursionError):
        return _invalid("its signature is of no known form")
    shown = f"key {key[:_KEY_SHOWN]}…"
    if trusted is None:
        return Judgement(Worth.NOT_CHECKED, f"signed by {shown} (not checked)", key)
    known = next((each for each in trusted if each.fingerprint == key), None)
    if known is None:
        return Judgement(Worth.UNKNOWN_KEY, f"signed by an unknown {shown}, none of the trusted ones", key)
    if not known.has_signed(value, message):
        return _invalid(f"it is not what the key of {known.name} signed", key)
    if made_ms != place.made_ms:
        return Judgement(
            Worth.OTHER_RECORD,
            f"signed by {known.name}, for a record of this ledger that was made at another time: this one was put back"
            " from a dump, or made anew under the same id",
            key,
            known.name,
        )
    return Judgement(Worth.TRUSTED, f"trusted: signed by {known.name}", key, known.name)


def load(value: bytes) -> object:
    """Return the JSON of a note. Raises ValueError for what is none, or says one thing twice: then two readers may read
    two things in what was signed; RecursionError."""
    return json.loads(value, object_pairs_hook=_distinct)


def _distinct(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _invalid(why: str, key: str = "") -> Judgement:
    return Judgement(Worth.INVALID, f"does not verify: {why}", key)
