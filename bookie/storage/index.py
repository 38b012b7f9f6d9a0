"""The index of one ledger directory: tables over an ordered store. Durable only at a checkpoint's flush.

    'E' ledger block   -> where the entries of that block are (`block`: 32 entries a row)
    'L' ledger         -> the ledger's durable facts (`ledgers`)
    'G' log ledger     -> what that log holds of that ledger: bytes, first and last entry     for collection
    'M' name           -> marks, highest log id, shape             few; the mark is written last
    'Q' ledger         -> why the ledger is quarantined            text; its row says limbo and state lost besides
    'X' ledger         -> epoch of the doubt that it left early    few; gone when that doubt is over (`doubt`)

Numbers in keys are big-endian and never negative, so byte order is numeric order. A row of one ledger that is not laid
out so is told to `on_malformed` and has nothing to say; one that names no ledger is passed over.
"""

import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.ports.ordered_store import DeleteRow, OrderedStore, PutRow
from bookie.storage import block, doubt
from bookie.storage.doubt import Doubt
from bookie.storage.location import Location
from bookie.storage.pause import pause
from bookie.storage.run import Held

_LEDGER_KEY = struct.Struct(">cq")
_USE_KEY = struct.Struct(">cIq")
_USE = struct.Struct(">Qqq")
_SIZE = struct.Struct(">Q")  # of the first version, which kept no range
FIRST, LAST = EntryId(0), EntryId(LEDGER_ID_MAX)
FIRST_LEDGER = LedgerId(0)
# Rows looked at before others get their turn: about 1 ms.
SLICE_COUNT = 512
BLOCKS_SLICE_COUNT = SLICE_COUNT // block.COUNT
_DOUBT = "doubt"
# Ledgers whose last row of entries is kept in memory, some 350 bytes each: a look-up costs a checkpoint of many ledgers
# as much as all else that it does for a row (docs/SPEED.md).
_TAILS_MAX = 32_768

Pairs = Sequence[tuple[bytes, bytes]]
T = TypeVar("T")


def block_key(ledger_id: LedgerId, entry_id: EntryId) -> bytes:
    """Return the key of the row that holds the entry's location."""
    return block.KEY.pack(b"E", ledger_id, entry_id >> block.SHIFT)


def _unpack_block_key(key: bytes) -> tuple[LedgerId, EntryId]:
    """Return the ledger and the first entry of a row. Raises CorruptFile."""
    if len(key) != block.KEY.size:
        raise errors.CorruptFile(f"index: a key of {len(key)} bytes for a block of entries")
    _, ledger_id, number = block.KEY.unpack(key)
    return LedgerId(ledger_id), EntryId(number << block.SHIFT)


def ledger_key(ledger_id: LedgerId) -> bytes:
    return _LEDGER_KEY.pack(b"L", ledger_id)


def _ledger_ids(pairs: "Pairs") -> list[LedgerId]:
    """Return the ledger ids of rows whose keys name a ledger and nothing else."""
    found = [LedgerId(_LEDGER_KEY.unpack(key)[1]) for key, _ in pairs if len(key) == _LEDGER_KEY.size]
    return [ledger_id for ledger_id in found if ledger_id >= 0]


def _meta_key(name: str) -> bytes:
    return b"M" + name.encode()


def quarantine_key(ledger_id: LedgerId) -> bytes:
    return _LEDGER_KEY.pack(b"Q", ledger_id)


def quarantine_pair(ledger_id: LedgerId, reason: str) -> tuple[bytes, bytes]:
    """Return the row that marks a ledger as quarantined."""
    return quarantine_key(ledger_id), reason.encode()


def _after_entries(ledger_id: LedgerId) -> bytes:
    """Return the end (exclusive) of the keys of a ledger's entries."""
    return block_key(ledger_id, LAST) + b"\0"


class Use(NamedTuple):
    """What was written of one ledger to one log:
    the bytes, and a range (inclusive) that contains all its entries there.

    An upper bound: what was rewritten elsewhere since is counted still."""

    size: int
    first: EntryId
    last: EntryId


LogUse = dict[int, dict[LedgerId, Held]]  # by log


class Placed(NamedTuple):
    """Entries of any ledgers, ascending by ledger and id, and their packed locations: columns of one length."""

    ledger_ids: list[LedgerId]
    entry_ids: list[EntryId]
    locations: list[bytes]


def _unpack_use(pair: tuple[bytes, bytes]) -> tuple[int, LedgerId, Use]:
    """Return log, ledger and what the log holds of it. An unusable value counts as the widest one, so that the
    collector never takes the ledger for absent from the log. Raises CorruptFile when the key names no ledger."""
    key, value = pair
    if len(key) != _USE_KEY.size:
        raise errors.CorruptFile(f"index: a key of {len(key)} bytes for the use of a log")
    _, log_id, ledger_id = _USE_KEY.unpack(key)
    if len(value) == _USE.size:
        use = Use(*_USE.unpack(value))
        if 0 <= use.first <= use.last:
            return log_id, LedgerId(ledger_id), use
    size = int(_SIZE.unpack(value)[0]) if len(value) == _SIZE.size else 0
    return log_id, LedgerId(ledger_id), Use(size, FIRST, LAST)


def _refuse_malformed(ledger_id: LedgerId, reason: str) -> None:
    raise errors.CorruptFile(reason)


class Slices(Generic[T]):
    """Iterates over the rows of a range a slice at a time, and lets other tasks run between two. No cursor of the store
    outlives a slice, so there is nothing to close (a generator would need it, when a caller leaves early)."""

    def __init__(
        self, store: OrderedStore, start: bytes, end: bytes, count_max: int, unpack: Callable[[Pairs], T]
    ) -> None:
        self._store = store
        self._start = start
        self._end = end
        self._count_max = count_max
        self._unpack = unpack
        self._is_first = True

    def __aiter__(self) -> "Slices[T]":
        return self

    async def __anext__(self) -> T:
        if not self._is_first:
            await pause()
        self._is_first = False
        pairs = list(itertools.islice(self._store.range(self._start, self._end), self._count_max))
        if not pairs:
            raise StopAsyncIteration
        self._start = pairs[-1][0] + b"\0"
        return self._unpack(pairs)


class Index:
    """The tables of one index. Reads see every completed write; nothing is durable before `flush`.

    `on_malformed`, set by the partition, is told (ledger, reason) of a row that cannot be read; without one that is
    CorruptFile.
    """

    def __init__(self, store: OrderedStore, *, tails_max: int = _TAILS_MAX) -> None:
        self.store = store
        self.on_malformed: Callable[[LedgerId, str], None] = _refuse_malformed
        self._tails = block.Tails(tails_max)

    # ---- entries --------------------------------------------------------------------------------------------------

    def locate(self, ledger_id: LedgerId, entry_id: EntryId) -> Location | None:
        """Return the location of an entry's record; None when the index has none."""
        row = self.store.get(block_key(ledger_id, entry_id))
        return None if row is None else self._find(ledger_id, entry_id, row)

    def _find(self, ledger_id: LedgerId, entry_id: EntryId, row: bytes) -> Location | None:
        try:
            return block.find(row, entry_id)
        except errors.CorruptFile as error:
            self.on_malformed(ledger_id, str(error))
            return None

    def locate_many(self, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> list[Location | None]:
        """Return what `locate` returns for each entry. Raises CorruptFile, StorageFailed for all of them."""
        rows = self.store.get_many([block_key(ledger_id, entry_id) for entry_id in entry_ids])
        columns = zip(rows, entry_ids, strict=True)
        return [None if row is None else self._find(ledger_id, entry_id, row) for row, entry_id in columns]

    def put_entries(self, placed: Placed, bounds: list[int] | None = None) -> None:
        """Set the locations of entries; they replace earlier ones. One look-up and one write for the blocks of all.

        `bounds`: of `placed` only the blocks between these places (`block.bounds`, or a part of it).
        """
        ledger_ids, entry_ids, locations = placed
        bounds = block.bounds(ledger_ids, entry_ids) if bounds is None else bounds
        keys = block.keys(ledger_ids, entry_ids, bounds)
        rows, unknown = self._tails.rows(ledger_ids, bounds, keys)
        if unknown:
            found = self.store.get_many([keys[place] for place in unknown])
            for place, row in zip(unknown, found, strict=True):
                rows[place] = row
        try:
            values = block.pack_all(entry_ids, locations, bounds, rows)
        except errors.CorruptFile:
            values = [self._pack(placed, bounds, place, row) for place, row in enumerate(rows)]
        self.put_many(list(zip(keys, values, strict=True)))
        self._tails.keep(ledger_ids, bounds, keys, values)

    def _pack(self, placed: Placed, bounds: list[int], place: int, row: bytes | None) -> bytes:
        """Return the row of one block, in place of `row`, which may be one that cannot be read."""
        start, end = bounds[place], bounds[place + 1]
        entry_ids, locations = placed.entry_ids[start:end], placed.locations[start:end]
        try:
            return block.pack(entry_ids, locations, row)
        except errors.CorruptFile as error:
            # CRASH: that entries are gone from here is in the index before the row that said where they were goes.
            self.on_malformed(placed.ledger_ids[start], str(error))
            return block.pack(entry_ids, locations, None)

    def last_entry(self, ledger_id: LedgerId) -> EntryId | None:
        """Return the highest indexed entry id of a ledger."""
        pair = self.store.last_in(block_key(ledger_id, FIRST), _after_entries(ledger_id))
        if pair is None:
            return None
        try:
            return block.last_in(pair[1], _unpack_block_key(pair[0])[1])
        except errors.CorruptFile as error:
            self.on_malformed(ledger_id, str(error))
            return None

    def locations(
        self, ledger_id: LedgerId, first: EntryId = FIRST, last: EntryId = LAST
    ) -> Iterator[tuple[EntryId, Location]]:
        """Yield a ledger's indexed entries from `first` to `last` (inclusive), ascending, as they are at this call."""
        pairs = self.store.range(block_key(ledger_id, first), block_key(ledger_id, last) + b"\0")
        return (found for pair in pairs for found in self._locations_in(ledger_id, pair, first, last))

    def walk_locations(
        self, ledger_id: LedgerId, first: EntryId = FIRST, last: EntryId = LAST
    ) -> "Slices[list[tuple[EntryId, Location]]]":
        """Return the same as `locations`, in slices, each as the index is then; other tasks run between them."""

        def unpack(pairs: Pairs) -> list[tuple[EntryId, Location]]:
            return [found for pair in pairs for found in self._locations_in(ledger_id, pair, first, last)]

        start, end = block_key(ledger_id, first), block_key(ledger_id, last) + b"\0"
        return Slices(self.store, start, end, BLOCKS_SLICE_COUNT, unpack)

    def _locations_in(
        self, ledger_id: LedgerId, pair: tuple[bytes, bytes], first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, Location]]:
        """Return the entries of one row that lie between `first` and `last` (inclusive)."""
        key, row = pair
        try:
            found = list(block.locations_in(row, _unpack_block_key(key)[1]))
        except errors.CorruptFile as error:
            self.on_malformed(ledger_id, str(error))
            return []
        return [(entry_id, location) for entry_id, location in found if first <= entry_id <= last]

    def all_locations(self) -> Iterator[tuple[LedgerId, EntryId, Location]]:
        """Yield all indexed entries of all ledgers, ascending."""
        for key, row in self.store.range(b"E", b"F"):
            ledger_id, _ = _unpack_block_key(key)
            for entry_id, location in self._locations_in(ledger_id, (key, row), FIRST, LAST):
                yield ledger_id, entry_id, location

    # ---- ledgers --------------------------------------------------------------------------------------------------

    def row(self, ledger_id: LedgerId) -> bytes | None:
        return self.store.get(ledger_key(ledger_id))

    def rows(self) -> Iterator[tuple[LedgerId, bytes]]:
        """Yield every ledger's row, ascending by id."""
        for key, value in self.store.range(b"L", b"M"):
            for ledger_id in _ledger_ids([(key, value)]):
                yield ledger_id, value

    def walk_ledgers(self, first: LedgerId = FIRST_LEDGER) -> "Slices[list[LedgerId]]":
        """Return the ids of all ledgers from `first` on that have a row, ascending, in slices."""
        return Slices(self.store, ledger_key(first), b"M", SLICE_COUNT, _ledger_ids)

    def quarantined(self) -> Iterator[tuple[LedgerId, str]]:
        """Yield every quarantined ledger, ascending, and the reason."""
        for key, value in self.store.range(b"Q", b"R"):
            for ledger_id in _ledger_ids([(key, value)]):
                yield ledger_id, value.decode(errors="replace")

    def greatest_ledger(self) -> LedgerId | None:
        """Return the greatest id of a ledger that any row of entries, facts or quarantine is about."""
        found: list[LedgerId] = []
        for table, after in ((b"E", b"F"), (b"L", b"M"), (b"Q", b"R")):
            end = after
            while (pair := self.store.last_in(table, end)) is not None:
                key = end = pair[0]
                size = block.KEY.size if table == b"E" else _LEDGER_KEY.size
                ledger_id = LedgerId(int.from_bytes(key[1 : _LEDGER_KEY.size]))
                if len(key) == size and ledger_id <= LEDGER_ID_MAX:  # else it names none
                    found.append(ledger_id)
                    break
        return max(found, default=None)

    def forget(self, ledger_id: LedgerId, *, keep_row: bool) -> None:
        """Remove a ledger's entries, and its row unless the ledger was created again since its deletion."""
        self._tails.forget(ledger_id)
        self.store.delete_range(block_key(ledger_id, FIRST), _after_entries(ledger_id))
        if not keep_row:
            self.store.write([DeleteRow(ledger_key(ledger_id)), DeleteRow(quarantine_key(ledger_id))])

    # ---- doubt ------------------------------------------------------------------------------------------------------

    @property
    def doubt(self) -> Doubt:
        """Return the doubt that the index holds. Raises CorruptFile."""
        return doubt.unpack(self.get_meta(_DOUBT))

    def put_doubt(self, found: Doubt, beside: tuple[str, bytes]) -> None:
        """Replace the doubt, and `beside` (a name and its value) in one step. A doubt that begins, and one that is
        over, has no ledger that was examined before its turn."""
        if found.rest in (0, found.bound):
            self.store.delete_range(_LEDGER_KEY.pack(b"X", 0), b"Y")
        name, value = beside
        self.store.write([PutRow(_meta_key(_DOUBT), found.pack()), PutRow(_meta_key(name), value)])

    def put_examined(self, ledger_ids: Sequence[LedgerId], epoch: int) -> None:
        """Note ledgers that are examined before their turn."""
        self.put_many([(_LEDGER_KEY.pack(b"X", ledger_id), doubt.pack_row(epoch)) for ledger_id in ledger_ids])

    def is_examined(self, ledger_id: LedgerId, epoch: int) -> bool:
        """Return True when the ledger was examined before its turn, in this epoch."""
        return doubt.is_row_of(self.store.get(_LEDGER_KEY.pack(b"X", ledger_id)), epoch)

    # ---- use of logs ----------------------------------------------------------------------------------------------

    def use_pairs(self, use: LogUse) -> list[tuple[bytes, bytes]]:
        """Return rows that record what each log holds of each ledger."""
        return [
            (_USE_KEY.pack(b"G", log_id, ledger_id), _USE.pack(*held))
            for log_id, ledgers in use.items()
            for ledger_id, held in ledgers.items()
        ]

    def walk_use(self, log_id: int) -> "Slices[list[tuple[LedgerId, Use]]]":
        """Return the ledgers of which the log holds entries, ascending, in slices."""

        def unpack(pairs: Pairs) -> list[tuple[LedgerId, Use]]:
            return [_unpack_use(pair)[1:] for pair in pairs]

        start, end = _USE_KEY.pack(b"G", log_id, 0), _USE_KEY.pack(b"G", log_id, LEDGER_ID_MAX) + b"\0"
        return Slices(self.store, start, end, SLICE_COUNT, unpack)

    def all_use(self) -> Iterator[tuple[int, LedgerId, Use]]:
        """Yield every (log, ledger, use), ascending."""
        return map(_unpack_use, self.store.range(b"G", b"H"))

    def forget_use(self, log_id: int) -> None:
        """Remove the log's rows of use: the log is gone."""
        start = _USE_KEY.pack(b"G", log_id, 0)
        self.store.delete_range(start, _USE_KEY.pack(b"G", log_id, LEDGER_ID_MAX) + b"\0")

    # ---- the few ----------------------------------------------------------------------------------------------------

    def get_meta(self, name: str) -> bytes | None:
        return self.store.get(_meta_key(name))

    def put_meta(self, name: str, value: bytes) -> None:
        self.store.write([PutRow(_meta_key(name), value)])

    def put_metas(self, values: Mapping[str, bytes]) -> None:
        """Put some together: all or none."""
        self.store.write([PutRow(_meta_key(name), value) for name, value in values.items()])

    def put_many(self, pairs: Pairs) -> None:
        if pairs:
            self.store.put_many(pairs)

    def delete(self, deletes: Sequence[DeleteRow]) -> None:
        if deletes:
            self.store.write(deletes)

    async def flush(self) -> None:
        await self.store.flush()

    async def close(self) -> None:
        await self.store.close()
