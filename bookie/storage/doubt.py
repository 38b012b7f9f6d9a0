"""The doubt of one index: below a bound no ledger counts as known until integrity has examined it. Pure.

    record   0 version u8 | 1 epoch u64 | 9 bound u64 | 17 rest u64        one an index, replaced whole

Examining goes from the newest ledger down: of the ids below `bound` those from `rest` on are examined. Below `rest`
single ones may be too; the index has a row for each of these, with the epoch (decisions/0021). A record with rest 0
stays: a note that names its epoch finds it, and knows that the doubt was not lost with an index.
"""

import struct
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import LedgerId

VERSION = 1
_RECORD = struct.Struct(">BQQQ")
_ROW = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Doubt:
    """`epoch`: the boot epoch that began it. The default doubts nothing."""

    epoch: int = 0
    bound: int = 0
    rest: int = 0

    def __post_init__(self) -> None:
        assert 0 <= self.rest <= self.bound

    def is_left(self, ledger_id: LedgerId) -> bool:
        """Return True when the ledger is not examined, unless it has a row of its own."""
        return 0 <= ledger_id < self.rest

    @property
    def is_over(self) -> bool:
        return self.rest == 0

    def examined_down_to(self, rest: int) -> "Doubt":
        """Return this doubt once every ledger from `rest` on is examined."""
        return Doubt(self.epoch, self.bound, min(rest, self.rest))

    def pack(self) -> bytes:
        return _RECORD.pack(VERSION, self.epoch, self.bound, self.rest)


def unpack(data: bytes | None) -> Doubt:
    """Return the doubt in an index's record; without one it doubts nothing. Raises CorruptFile."""
    if data is None:
        return Doubt()
    if len(data) != _RECORD.size or data[0] != VERSION:
        raise errors.CorruptFile(f"index: a record of doubt of {len(data)} bytes that is not one of ours")
    _, epoch, bound, rest = _RECORD.unpack(data)
    if rest > bound:
        raise errors.CorruptFile(f"index: its record of doubt leaves {rest} ledger ids to examine, of {bound}")
    return Doubt(epoch, bound, rest)


def pack_row(epoch: int) -> bytes:
    """Pack the row of one ledger that was examined before its turn."""
    return _ROW.pack(epoch)


def is_row_of(row: bytes | None, epoch: int) -> bool:
    """Return True when `row` says that its ledger was examined in this epoch. A row that makes no sense says nothing,
    so that its ledger is examined again."""
    return row is not None and row == pack_row(epoch)
