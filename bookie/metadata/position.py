"""How far a bookie's journals reached when it last said so: what its disks must hold at least (codec only).

Kept outside the node, beside the incarnation record, so that volumes which are set back within one boot, and a newest
journal file that was cut or removed, are seen. Written after the syncs it tells of, never before.
"""

import json
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import Incarnation


@dataclass(frozen=True, slots=True)
class Position:
    """`journals`: of each journal directory, in order, file id and offset; everything before that was durable."""

    instance_id: str
    incarnation: Incarnation
    journals: tuple[tuple[int, int], ...]


def dump_position(position: Position) -> bytes:
    fields = {"instance_id": position.instance_id, "incarnation": position.incarnation, "journals": position.journals}
    return json.dumps(fields, sort_keys=True).encode()


def load_position(data: bytes) -> Position:
    """Raises BadInput."""
    try:
        fields = json.loads(data)
        journals = tuple((int(file_id), int(offset)) for file_id, offset in fields["journals"])
        return Position(str(fields["instance_id"]), Incarnation(int(fields["incarnation"])), journals)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise errors.BadInput(f"the position cannot be read ({error}): {data[:80]!r}") from error
