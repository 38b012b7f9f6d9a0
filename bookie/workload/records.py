"""The oracle's log: one JSON array a line, appended and synced; a torn last line does not count.

    ["time", wall_ms]                            everything after it happened at or after this instant
    ["create", ledger_id, plan, seed]            a ledger exists; `plan` is what its writer meant to do with it
    ["ack", ledger_id, entry_id, size, digest]   the fleet acknowledged this entry
    ["close", ledger_id, last_entry_id]          its writer closed it
    ["fail", ledger_id, reason]                  its writer gave it up; it stays open

Pure: lines in, records out. The writer of the file syncs it.
"""

import json
import typing
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

from bookie.base import errors


@dataclass(frozen=True, slots=True)
class Time:
    wall_ms: int


@dataclass(frozen=True, slots=True)
class Create:
    ledger_id: int
    plan: str
    seed: int


@dataclass(slots=True)
class Ack:
    ledger_id: int
    entry_id: int
    size_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Close:
    ledger_id: int
    last_entry: int


@dataclass(frozen=True, slots=True)
class Fail:
    ledger_id: int
    reason: str


Record = Time | Create | Ack | Close | Fail

_BY_NAME: dict[str, type[Record]] = {"time": Time, "create": Create, "ack": Ack, "close": Close, "fail": Fail}
_TYPES = {name: tuple(typing.get_type_hints(record).values()) for name, record in _BY_NAME.items()}
_NAMES = {record: name for name, record in _BY_NAME.items()}


def dump_record(record: Record) -> bytes:
    """Return the line of `record`, newline included."""
    return json.dumps([_NAMES[type(record)], *astuple(record)], separators=(",", ":")).encode() + b"\n"


def load_records(lines: Iterable[bytes]) -> Iterator[Record]:
    """Give the records of whole lines. Raises BadInput on a line that is no record, unless it is the torn last one.

    A line without its newline is torn: its writer died before the sync that would have made it count.
    """
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return
        try:
            name, *fields = json.loads(line)
            record = _BY_NAME[name](*fields)
            if tuple(map(type, fields)) != _TYPES[name]:
                raise TypeError
            yield record
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise errors.BadInput(f"line {number} of the oracle's log is no record: {line[:80]!r}") from error
