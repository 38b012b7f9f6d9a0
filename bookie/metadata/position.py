"""Packs and unpacks a bookie's position: how far its journals and entry logs reached when it last wrote this record.

The disks must hold at least this much. The record stands in the metadata store, so that a bookie notices volumes that
went back in time within one boot, and a newest journal file or entry log that was cut or removed. The bookie writes the
record after the syncs that it tells of, never before: otherwise a crash would look like lost data.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from bookie.base import errors
from bookie.base.ids import Incarnation


@dataclass(frozen=True, slots=True)
class Position:
    """`journals`: the file id and offset of each journal directory, in order; everything before them was durable.
    `logs`: the id and size of the entry log that each ledger directory wrote to, (0, 0) before the first."""

    instance_id: str
    incarnation: Incarnation
    journals: tuple[tuple[int, int], ...]
    logs: tuple[tuple[int, int], ...] = ()


def dump_position(position: Position) -> bytes:
    return json.dumps(asdict(position), sort_keys=True).encode()


def load_position(data: bytes) -> Position:
    """Return the position in `data`. Raises BadInput."""
    try:
        fields = json.loads(data)
        journals = _ends(fields["journals"])
        logs = _ends(fields.get("logs", ()))  # a record of an earlier release has none
        return Position(str(fields["instance_id"]), Incarnation(int(fields["incarnation"])), journals, logs)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise errors.BadInput(f"the position cannot be read ({error}): {data[:80]!r}") from error


def _ends(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(file_id), int(end)) for file_id, end in pairs)
