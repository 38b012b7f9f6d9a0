"""The sentinel: a small file on each volume that names its bookie and incarnation. Codec only.

    <directory>/BOOKIE    one JSON object, one line, with a check over the rest

It stands beside `current/`, never inside: Java's VERSION file there stays byte-compatible. It is the first thing that
we write to a volume and is replaced whole (`ports.disk.replace_durably`), so a volume of ours without one is not ours.
Rule: spec/operator.md#K3.
"""

import hashlib
import json
from dataclasses import asdict

from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.ports.admin import Sentinel

NAME = "BOOKIE"
FORMAT = 1
# In the place of a grant's id, on a volume that is being added and holds nothing yet. No grant has a space in its id.
ADDING = "no grant: added"


def path(directory: str) -> str:
    return f"{directory}/{NAME}"


def dump(mark: Sentinel) -> bytes:
    fields: dict[str, object] = {"format": FORMAT, **asdict(mark)}
    return _line({**fields, "check": _check(fields)})


def load(data: bytes) -> Sentinel:
    """Load a sentinel. Raises BadInput: torn, rotten, or of a future format."""
    try:
        fields = json.loads(data)
        check = fields.pop("check")
        if fields.get("format") != FORMAT or check != _check(fields):
            raise ValueError("its check does not match")
        return Sentinel(
            instance_id=str(fields["instance_id"]),
            bookie_id=BookieId(fields["bookie_id"]),
            role=str(fields["role"]),
            volume=str(fields["volume"]),
            incarnation=Incarnation(int(fields["incarnation"])),
            boot_epoch=BootEpoch(int(fields["boot_epoch"])),
            fsid=str(fields["fsid"]),
            grant_id=str(fields["grant_id"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise errors.BadInput(f"the sentinel {NAME} cannot be read: {error}") from error


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode() + b"\n"


def _check(fields: dict[str, object]) -> str:
    return hashlib.sha256(_line(fields)).hexdigest()[:16]
