"""What checkpoints changed in the index's rows since these were last written, in short. Pure.

With many ledgers a checkpoint has an entry or two of each, and wrote three rows for it: places, use, facts for the LAC
(docs/SPEED.md). Now it writes its changes as columns, one row for some thousand ledgers, and keeps them in memory;
when some checkpoints have gathered, their rows are written once and the deltas go (`checkpoint`). A delta is as durable
as a row: it is flushed with the mark that covers it, and a start reads the deltas in the order of their numbers.

    'D' number -> 0 kind u8 | 1 count u32 | 5 columns, big-endian, of `count` each
        1 entries    ledgers i64, entries i64, locations (12 bytes, `location`)
        2 use        log u32, then ledgers i64, bytes i64, first entries i64, last entries i64, LACs i64
        3 written    ledgers i64: their rows of entries hold all that deltas before this one say of entries
        4 forgotten  ledgers i64: what deltas before this one say of their entries and LACs is void

What deltas say of an entry wins over its row: as long as one names an entry, every newer place of it must be in a later
delta, or behind a "written" or "forgotten" one.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from bookie.base import errors
from bookie.base.ids import INVALID_ENTRY_ID, EntryId, LedgerId
from bookie.storage import location
from bookie.storage.location import Location
from bookie.storage.run import Held, Placed

_ENTRIES: Final = 1
_USE: Final = 2
_WRITTEN: Final = 3
_FORGOTTEN: Final = 4
_HEAD: Final = struct.Struct(">BI")
_LOG: Final = struct.Struct(">I")
_NUMBER: Final = struct.Struct(">q")
_NUMBER_SIZE: Final = 8
# One entry in `Deltas`: its id and its location.
_PIECE_SIZE: Final = _NUMBER_SIZE + location.SIZE
# A ledger with so many entries in one checkpoint, or with more in deltas than a row holds, has its rows written: that
# costs less an entry then, and no look into its pieces gets long.
_MANY_COUNT: Final = 16
_PIECES_COUNT_MAX: Final = 32
# Ledgers that get entries in turn have so many at the same checkpoint, which stopped adds for 0.7 s with 10,000
# ledgers: each may have some more, up to as many again, by its id.
_PIECES_BYTES_MAX: Final = tuple((_PIECES_COUNT_MAX + more) * _PIECE_SIZE for more in range(_PIECES_COUNT_MAX))
# One step of a checkpoint makes rows of so many entries, 2 ms, and of what is left of a ledger.
_SPLIT_COUNT: Final = 4_096
# Deltas become rows after so many checkpoints, or with so many ledgers: they are in memory, and a start reads them.
_CHECKPOINTS_MAX: Final = 32
_LEDGERS_MAX: Final = 131_072
_NUMBER_MAX: Final = 4_096


class Deltas:
    """What the deltas say: of each ledger its changed entries and its LAC, of each log what it holds of whom."""

    def __init__(self) -> None:
        self._pieces: dict[LedgerId, bytes] = {}  # entry id and location each, the newest last
        self.lacs: dict[LedgerId, EntryId] = {}
        self.use: dict[int, dict[LedgerId, Held]] = {}  # by log; whole, not what was added
        self.next_number = 0
        self.is_told = False  # the index's format says that there are some
        self.checkpoints = 0  # that put one

    @property
    def is_empty(self) -> bool:
        return self.next_number == 0 and not self.is_told

    @property
    def are_many(self) -> bool:
        """Return True when they should become rows."""
        is_large = len(self.lacs) > _LEDGERS_MAX or len(self._pieces) > _LEDGERS_MAX
        return is_large or self.next_number > _NUMBER_MAX or self.checkpoints >= _CHECKPOINTS_MAX

    def find(self, ledger_id: LedgerId, entry_id: EntryId) -> Location | None:
        """Return the newest location that a delta has of the entry; None when none names it."""
        pieces = self._pieces.get(ledger_id)
        if pieces is None:
            return None
        wanted = _NUMBER.pack(entry_id)
        place = pieces.rfind(wanted)
        while place >= 0 and place % _PIECE_SIZE:  # across two pieces, or in a location
            place = pieces.rfind(wanted, 0, place + _NUMBER_SIZE - 1)
        if place < 0:
            return None
        return location.unpack(pieces[place + _NUMBER_SIZE : place + _PIECE_SIZE])

    def entries_of(self, ledger_id: LedgerId) -> list[tuple[EntryId, bytes]]:
        """Return the ledger's entries and their newest packed locations, ascending by id."""
        pieces = self._pieces.get(ledger_id, b"")
        found: dict[EntryId, bytes] = {}
        for place in range(0, len(pieces), _PIECE_SIZE):
            body = place + _NUMBER_SIZE
            found[EntryId(int.from_bytes(pieces[place:body], "big"))] = pieces[body : body + location.SIZE]
        return sorted(found.items())

    def ledgers(self) -> list[LedgerId]:
        """Return the ledgers of which a delta names entries, ascending."""
        return sorted(self._pieces)

    def placed_of(self, ledger_ids: Iterable[LedgerId]) -> Placed:
        """Return what deltas say of the entries of these ledgers (ascending), as columns."""
        placed = Placed([], [], [])
        for ledger_id in ledger_ids:
            for entry_id, packed in self.entries_of(ledger_id):
                placed.ledger_ids.append(ledger_id)
                placed.entry_ids.append(entry_id)
                placed.locations.append(packed)
        return placed

    def split(self, placed: Placed) -> tuple[Placed, Placed, list[LedgerId], int]:
        """Return what of `placed` goes into a delta, what into rows, the ledgers of the latter that deltas name, and up
        to which place of `placed` that is: the rest is for another step.

        With the entries of those ledgers in rows come the older ones that deltas have of them.
        """
        ledger_ids, entry_ids, locations = placed
        few, many = Placed([], [], []), Placed([], [], [])
        named: list[LedgerId] = []
        start, count = 0, len(entry_ids)
        if count >= _MANY_COUNT and ledger_ids[0] == ledger_ids[-1] and ledger_ids[0] not in self._pieces:
            return few, placed, named, count
        while start < count and len(many.entry_ids) < _SPLIT_COUNT:
            ledger_id, end = ledger_ids[start], start + 1
            while end < count and ledger_ids[end] == ledger_id:
                end += 1
            pieces = self._pieces.get(ledger_id)
            held = 0 if pieces is None else len(pieces)
            held_max = _PIECES_BYTES_MAX[ledger_id % _PIECES_COUNT_MAX]
            if end - start < _MANY_COUNT and held + (end - start) * _PIECE_SIZE <= held_max:
                _extend(few, ledger_id, entry_ids[start:end], locations[start:end])
            elif pieces is None:
                _extend(many, ledger_id, entry_ids[start:end], locations[start:end])
            else:
                every = dict(self.entries_of(ledger_id))
                every.update(zip(entry_ids[start:end], locations[start:end], strict=True))
                ids = sorted(every)
                _extend(many, ledger_id, ids, [every[entry_id] for entry_id in ids])
                named.append(ledger_id)
            start = end
        return few, many, named, start

    # ---- what comes: taken here once its delta is in the index ------------------------------------------------------

    def take_entries(self, placed: Placed) -> None:
        """Take entries, ascending by ledger and id."""
        ledger_ids, entry_ids, locations = placed
        pieces, pack = self._pieces, _NUMBER.pack
        for place in range(len(entry_ids)):
            ledger_id = ledger_ids[place]
            piece = pack(entry_ids[place]) + locations[place]
            before = pieces.get(ledger_id)
            pieces[ledger_id] = piece if before is None else before + piece

    def take_use(self, log_id: int, use: Sequence[tuple[LedgerId, Held]], lacs: Sequence[EntryId]) -> None:
        """Take what a log holds of ledgers now, and the LAC of each."""
        self.use.setdefault(log_id, {}).update(use)
        known = self.lacs
        for (ledger_id, _), lac in zip(use, lacs, strict=True):
            if lac > known.get(ledger_id, INVALID_ENTRY_ID):
                known[ledger_id] = lac

    def take_written(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Drop what deltas say of the entries of these ledgers: it is in their rows."""
        for ledger_id in ledger_ids:
            self._pieces.pop(ledger_id, None)

    def take_forgotten(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Drop what deltas say of the entries and LACs of these ledgers."""
        for ledger_id in ledger_ids:
            self._pieces.pop(ledger_id, None)
            self.lacs.pop(ledger_id, None)

    def names(self, ledger_id: LedgerId) -> bool:
        """Return True when a delta says something of the ledger's entries or LAC."""
        return ledger_id in self._pieces or ledger_id in self.lacs

    def apply(self, data: bytes) -> None:
        """Take a delta as the index has it. Raises CorruptFile."""
        try:
            kind, count = _HEAD.unpack_from(data)
            start = _HEAD.size
            if kind == _ENTRIES:
                ledger_ids, entry_ids = _columns(data, start, count, 2)
                packed = data[start + 2 * _NUMBER_SIZE * count :]
                _check(data, len(packed) == count * location.SIZE)
                places = [packed[at : at + location.SIZE] for at in range(0, len(packed), location.SIZE)]
                self.take_entries(Placed([LedgerId(i) for i in ledger_ids], [EntryId(i) for i in entry_ids], places))
            elif kind == _USE:
                (log_id,) = _LOG.unpack_from(data, start)
                start += _LOG.size
                _check(data, len(data) == start + 5 * _NUMBER_SIZE * count)
                ledger_ids, sizes, firsts, lasts, lacs = _columns(data, start, count, 5)
                held = [
                    (size, EntryId(first), EntryId(last))
                    for size, first, last in zip(sizes, firsts, lasts, strict=True)
                ]
                ids = [LedgerId(ledger_id) for ledger_id in ledger_ids]
                self.take_use(log_id, list(zip(ids, held, strict=True)), [EntryId(lac) for lac in lacs])
            else:
                _check(data, len(data) == start + _NUMBER_SIZE * count)
                (ledger_ids,) = _columns(data, start, count, 1)
                _check(data, kind in (_WRITTEN, _FORGOTTEN))
                ids = [LedgerId(ledger_id) for ledger_id in ledger_ids]
                if kind == _WRITTEN:
                    self.take_written(ids)
                else:
                    self.take_forgotten(ids)
        except struct.error:
            _check(data, is_sound=False)


def pack_entries(placed: Placed) -> bytes:
    """Return the delta of entries."""
    ledger_ids, entry_ids, locations = placed
    return _pack(_ENTRIES, len(entry_ids), _column(ledger_ids), _column(entry_ids), *locations)


def pack_use(log_id: int, use: Sequence[tuple[LedgerId, Held]], lacs: Sequence[EntryId]) -> bytes:
    """Return the delta of what a log holds of ledgers, and the LAC of each."""
    columns: list[list[int]] = [
        [ledger_id for ledger_id, _ in use],
        [held[0] for _, held in use],
        [held[1] for _, held in use],
        [held[2] for _, held in use],
    ]
    return _pack(_USE, len(use), _LOG.pack(log_id), *map(_column, columns), _column(lacs))


def pack_written(ledger_ids: Sequence[LedgerId]) -> bytes:
    """Return the delta of ledgers whose entries are in their rows."""
    return _pack(_WRITTEN, len(ledger_ids), _column(ledger_ids))


def pack_forgotten(ledger_ids: Sequence[LedgerId]) -> bytes:
    """Return the delta of ledgers of which all before it is void."""
    return _pack(_FORGOTTEN, len(ledger_ids), _column(ledger_ids))


def _extend(placed: Placed, ledger_id: LedgerId, entry_ids: list[EntryId], locations: list[bytes]) -> None:
    placed.ledger_ids.extend([ledger_id] * len(entry_ids))
    placed.entry_ids.extend(entry_ids)
    placed.locations.extend(locations)


def _column(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{len(numbers)}q", *numbers)


def _columns(data: bytes, start: int, count: int, columns: int) -> list[list[int]]:
    """Return columns of `count` numbers, the first at `start`. Raises struct.error where data ends before."""
    size = _NUMBER_SIZE * count
    return [list(struct.unpack_from(f">{count}q", data, start + column * size)) for column in range(columns)]


def _pack(kind: int, count: int, *columns: bytes) -> bytes:
    return b"".join((_HEAD.pack(kind, count), *columns))


def _check(data: bytes, is_sound: bool) -> None:
    if not is_sound:
        raise errors.CorruptFile(f"index: a row of {len(data)} bytes is no change that this program knows")
