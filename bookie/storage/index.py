"""The index of one ledger directory: tables over an ordered store. Durable only at a checkpoint's flush.

    'E' ledger block   -> where the entries of that block are (`block`: 32 entries a row)
    'L' ledger         -> the ledger's durable facts (`ledgers`)
    'G' log ledger     -> what that log holds of that ledger: bytes, first and last entry     for collection
    'D' number         -> what some checkpoints changed in the rows above since these were written    (`deltas`)
    'M' name           -> marks, highest log id, shape             few; the mark is written last
    'Q' ledger         -> why the ledger is quarantined            text; its row says limbo and state lost besides
    'X' ledger         -> epoch of the doubt that it left early    few; gone when that doubt is over (`doubt`)

Numbers in keys are big-endian and never negative, so byte order is numeric order. A row of one ledger that is not laid
out so is told to `on_malformed` and has nothing to say; one that names no ledger is passed over.
"""

import bisect
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.ports.ordered_store import DeleteRow, OrderedStore, PutRow
from bookie.storage import block, doubt, ledgers, log_use, slices
from bookie.storage import deltas as delta_rows
from bookie.storage.deltas import Deltas
from bookie.storage.doubt import Doubt
from bookie.storage.location import Location
from bookie.storage.log_use import Use
from bookie.storage.pause import pause
from bookie.storage.run import Held, Placed, part
from bookie.storage.slices import Pairs, Rows, Slices

_LEDGER_KEY = struct.Struct(">cq")
FIRST, LAST = EntryId(0), EntryId(LEDGER_ID_MAX)
FIRST_LEDGER = LedgerId(0)
# Rows looked at before others get their turn: about 1 ms.
SLICE_COUNT = 512
# What is made anew before others get their turn: rows of ledgers or of use, and ledgers with at most 32 entries each.
_CHANGES_SLICE_COUNT = 512
_ENTRIES_SLICE_COUNT = 128
BLOCKS_SLICE_COUNT = SLICE_COUNT // block.COUNT
# Rows put by nobody who waits for them, before a checkpoint with nothing to write makes them durable: one MiB in memory
# until then (`runtime.rocksdb`), and four minutes of a scrub.
HINTS_MAX = 4_096
_DOUBT = "doubt"
_DELTA_KEY = struct.Struct(">cQ")


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


def _refuse_malformed(ledger_id: LedgerId, reason: str) -> None:
    raise errors.CorruptFile(reason)


class Index:
    """The tables of one index. Reads see every completed write; nothing is durable before `flush`.

    `on_malformed`, set by the partition, is told (ledger, reason) of a row that cannot be read; without one that is
    CorruptFile.
    """

    def __init__(self, store: OrderedStore) -> None:
        self.store = store
        # True when the next look would make the whole bookie wait for the disk: `await warm` first.
        self.is_slow = store.is_slow
        self.on_malformed: Callable[[LedgerId, str], None] = _refuse_malformed
        self.deltas = Deltas()
        self.hints = 0  # put since the last flush

    def load_deltas(self) -> None:
        """Load what the deltas say, before anything else is asked: it wins over the rows. Raises CorruptFile."""
        for key, value in self.store.range(b"D", b"E"):
            if len(key) != _DELTA_KEY.size:
                raise errors.CorruptFile(f"index: a key of {len(key)} bytes for a change")
            self.deltas.apply(value)
            self.deltas.next_number = _DELTA_KEY.unpack(key)[1] + 1

    # ---- entries --------------------------------------------------------------------------------------------------

    async def warm(self, ledger_id: LedgerId, entry_ids: Iterable[EntryId]) -> None:
        """Bring the rows of these entries, and their ledger's, into memory; other tasks run meanwhile. It proves
        nothing: look again."""
        blocks = dict.fromkeys(block_key(ledger_id, entry_id) for entry_id in entry_ids)
        if blocks:
            await self.store.warm([ledger_key(ledger_id), *blocks])

    def locate(self, ledger_id: LedgerId, entry_id: EntryId) -> Location | None:
        """Return the location of an entry's record; None when the index has none."""
        changed = self.deltas.find(ledger_id, entry_id)
        if changed is not None:
            return changed
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
        found = [
            None if row is None else self._find(ledger_id, entry_id, row)
            for row, entry_id in zip(rows, entry_ids, strict=True)
        ]
        if self.deltas.names(ledger_id):
            changed = [self.deltas.find(ledger_id, entry_id) for entry_id in entry_ids]
            found = [new or old for new, old in zip(changed, found, strict=True)]
        return found

    def put_entries(self, placed: Placed, bounds: list[int] | None = None) -> None:
        """Set the locations of entries in their rows, of which no delta may say anything newer. One look-up and one
        write for the blocks of all.

        `bounds`: of `placed` only the blocks between these places (`block.bounds`, or a part of it).
        """
        ledger_ids, entry_ids, locations = placed
        bounds = block.bounds(ledger_ids, entry_ids) if bounds is None else bounds
        keys = block.keys(ledger_ids, entry_ids, bounds)
        rows: list[bytes | None] = [None] * len(keys)
        partly = block.partly(bounds)
        if partly:
            found = self.store.get_many([keys[place] for place in partly])
            for place, row in zip(partly, found, strict=True):
                rows[place] = row
        try:
            values = block.pack_all(entry_ids, locations, bounds, rows)
        except errors.CorruptFile:
            # CRASH: that entries are gone is in the index before the row that said where they were goes.
            values = [
                self._combine(part(placed, start, end), row)
                for (start, end), row in zip(itertools.pairwise(bounds), rows, strict=True)
            ]
        self.put_many(list(zip(keys, values, strict=True)))

    def last_entry(self, ledger_id: LedgerId) -> EntryId | None:
        """Return the highest indexed entry id of a ledger."""
        found = [entry_id for entry_id, _ in self.deltas.entries_of(ledger_id)[-1:]]
        pair = self.store.last_in(block_key(ledger_id, FIRST), _after_entries(ledger_id))
        if pair is not None:
            try:
                found.append(block.last_in(pair[1], _unpack_block_key(pair[0])[1]))
            except errors.CorruptFile as error:
                self.on_malformed(ledger_id, str(error))
        return max(found, default=None)

    def locations(
        self, ledger_id: LedgerId, first: EntryId = FIRST, last: EntryId = LAST
    ) -> Iterator[tuple[EntryId, Location]]:
        """Yield a ledger's indexed entries from `first` to `last` (inclusive), ascending, as they are at this call."""
        pairs = self._entry_rows([ledger_id], block_key(ledger_id, first), block_key(ledger_id, last) + b"\0")
        return (found for pair in pairs for found in self._locations_in(ledger_id, pair, first, last))

    def walk_locations(
        self, ledger_id: LedgerId, first: EntryId = FIRST, last: EntryId = LAST
    ) -> Slices[list[tuple[EntryId, Location]]]:
        """Return the same as `locations`, in slices, each as the index is then; other tasks run between them."""

        def unpack(pairs: Pairs) -> list[tuple[EntryId, Location]]:
            return [found for pair in pairs for found in self._locations_in(ledger_id, pair, first, last)]

        end = block_key(ledger_id, last) + b"\0"
        return Slices(
            lambda start: self._entry_rows([ledger_id], start, end),
            block_key(ledger_id, first),
            BLOCKS_SLICE_COUNT,
            unpack,
        )

    def _entry_rows(self, ledger_ids: Sequence[LedgerId], start: bytes, end: bytes) -> Rows:
        """Return the rows of entries from `start` to `end` (exclusive) with what deltas say of `ledger_ids`, the only
        ones in that range of which they may say something."""
        changed = ((key, change) for key, change in self._changed_blocks(ledger_ids) if start <= key < end)
        return slices.with_changes(self.store.range(start, end), changed, self._combine)

    def _changed_blocks(self, ledger_ids: Sequence[LedgerId]) -> Iterator[tuple[bytes, Placed]]:
        """Return the key of each block of these ledgers that deltas changed, and the changed entries; ascending."""
        for ledger_id in ledger_ids:
            placed = self.deltas.placed_of([ledger_id])
            bounds = block.bounds(placed.ledger_ids, placed.entry_ids)
            for start, end in itertools.pairwise(bounds):
                yield block_key(ledger_id, placed.entry_ids[start]), part(placed, start, end)

    def _combine(self, changed: Placed, row: bytes | None) -> bytes:
        """Return the row of one block with the entries that were changed in it; a row that cannot be read is told."""
        try:
            return block.pack(changed.entry_ids, changed.locations, row)
        except errors.CorruptFile as error:
            self.on_malformed(changed.ledger_ids[0], str(error))
            return block.pack(changed.entry_ids, changed.locations, None)

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
        for key, row in self._entry_rows(self.deltas.ledgers(), b"E", b"F"):
            ledger_id, _ = _unpack_block_key(key)
            for entry_id, location in self._locations_in(ledger_id, (key, row), FIRST, LAST):
                yield ledger_id, entry_id, location

    # ---- ledgers --------------------------------------------------------------------------------------------------

    def row(self, ledger_id: LedgerId) -> bytes | None:
        """Return a ledger's row, with the LAC that deltas have of it."""
        return self._with_lac(ledger_id, self.store.get(ledger_key(ledger_id)))

    def _with_lac(self, ledger_id: LedgerId, row: bytes | None) -> bytes | None:
        lac = self.deltas.lacs.get(ledger_id)
        return row if row is None or lac is None else ledgers.with_lac(row, lac)

    def rows(self) -> Iterator[tuple[LedgerId, bytes]]:
        """Yield every ledger's row, ascending by id."""
        for key, value in self.store.range(b"L", b"M"):
            for ledger_id in _ledger_ids([(key, value)]):
                yield ledger_id, self._with_lac(ledger_id, value) or value

    def walk_ledgers(self, first: LedgerId = FIRST_LEDGER) -> Slices[list[LedgerId]]:
        """Return the ids of all ledgers from `first` on that have a row, ascending, in slices."""
        return Slices(lambda start: self.store.range(start, b"M"), ledger_key(first), SLICE_COUNT, _ledger_ids)

    def quarantined(self) -> Iterator[tuple[LedgerId, str]]:
        """Yield every quarantined ledger, ascending, and the reason."""
        for key, value in self.store.range(b"Q", b"R"):
            for ledger_id in _ledger_ids([(key, value)]):
                yield ledger_id, value.decode(errors="replace")

    def greatest_ledger(self) -> LedgerId | None:
        """Return the greatest id of a ledger that any row of entries, facts or quarantine is about."""
        found = self.deltas.ledgers()[-1:]
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

    def forget(self, ledger_id: LedgerId, *, anew: Pairs = ()) -> None:
        """Remove a ledger's entries, and replace its rows of facts and quarantine by those that it has `anew`: made
        again since its deletion, or still here without the entries. It is without a row at no moment in between."""
        self.store.delete_range(block_key(ledger_id, FIRST), _after_entries(ledger_id))
        if self.deltas.names(ledger_id):
            # CRASH: after its rows of entries: without the deltas these would say again what they said before.
            self._put_delta(delta_rows.pack_forgotten([ledger_id]))
            self.deltas.take_forgotten([ledger_id])
        rows = dict(anew)
        keys = (ledger_key(ledger_id), quarantine_key(ledger_id))
        self.store.write([PutRow(key, rows[key]) if key in rows else DeleteRow(key) for key in keys])

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

    def put_use(self, log_id: int, use: Iterable[tuple[LedgerId, Held]]) -> None:
        """Put what a log holds of ledgers into rows."""
        self.put_many([log_use.pair(log_id, item) for item in use])

    def walk_use(self, log_id: int) -> Slices[list[tuple[LedgerId, Use]]]:
        """Return the ledgers of which the log holds entries, ascending, in slices."""

        def unpack(pairs: Pairs) -> list[tuple[LedgerId, Use]]:
            return [log_use.unpack(pair)[1:] for pair in pairs]

        changed = sorted(self.deltas.use.get(log_id, {}))

        def rows_from(start: bytes) -> Rows:
            use = self.deltas.use.get(log_id, {})  # as it is then: rows have the rest
            ledger_ids = changed[bisect.bisect_left(changed, log_use.ledger_of(start)) :]
            pairs = (log_use.pair(log_id, (ledger_id, use[ledger_id])) for ledger_id in ledger_ids if ledger_id in use)
            return self._use_rows((pair for pair in pairs if pair[0] >= start), start, end)

        first, end = log_use.bounds(log_id)
        return Slices(rows_from, first, SLICE_COUNT, unpack)

    def all_use(self) -> Iterator[tuple[int, LedgerId, Use]]:
        """Yield every (log, ledger, use), ascending."""
        changed = [log_use.pair(log_id, item) for log_id, use in self.deltas.use.items() for item in use.items()]
        return map(log_use.unpack, self._use_rows(iter(sorted(changed)), b"G", b"H"))

    def _use_rows(self, changed: Rows, start: bytes, end: bytes) -> Rows:
        return slices.with_changes(self.store.range(start, end), changed, lambda change, _: change)

    def forget_use(self, log_id: int) -> None:
        """Remove the log's rows of use: the log is gone."""
        self.deltas.use.pop(log_id, None)
        self.store.delete_range(*log_use.bounds(log_id))

    # ---- deltas -----------------------------------------------------------------------------------------------------

    def _put_delta(self, delta: bytes) -> None:
        """Put a delta; take it into memory only afterwards, since the store may have no space for it."""
        self.put_many([(_DELTA_KEY.pack(b"D", self.deltas.next_number), delta)])
        self.deltas.next_number += 1

    def change_entries(self, placed: Placed) -> int:
        """Set the locations of entries, in a delta where their ledgers have few, else in their rows. Return of how
        many: as many as one step may; call again with the rest.

        CRASH: rows first. Were the delta that voids older ones there without them, these older ones were missing.
        """
        few, many, named, count = self.deltas.split(placed)
        if many.entry_ids:
            self.put_entries(many)
        if named:
            self._put_delta(delta_rows.pack_written(named))
            self.deltas.take_written(named)
        if few.entry_ids:
            self._put_delta(delta_rows.pack_entries(few))
            self.deltas.take_entries(few)
        return count

    def change_use(self, log_id: int, use: Sequence[tuple[LedgerId, Held]], lacs: Sequence[EntryId]) -> None:
        """Set what a log holds of ledgers, and the LAC of each, in a delta."""
        self._put_delta(delta_rows.pack_use(log_id, use, lacs))
        self.deltas.take_use(log_id, use, lacs)

    async def write_changed_rows(self, lac_pairs: Callable[[Sequence[LedgerId]], Pairs]) -> None:
        """Make rows of all that the deltas say; other tasks run between slices, and put no delta meanwhile.

        `lac_pairs` returns the rows of ledgers with their LACs: this one's, or what knows some of them already.
        """
        for log_id, use in list(self.deltas.use.items()):
            items = list(use.items())
            for start in range(0, len(items), _CHANGES_SLICE_COUNT):
                if log_id not in self.deltas.use:
                    break  # the log went meanwhile (`forget_use`)
                self.put_use(log_id, items[start : start + _CHANGES_SLICE_COUNT])
                await pause()
        ledger_ids = self.deltas.ledgers()
        for start in range(0, len(ledger_ids), _ENTRIES_SLICE_COUNT):
            self.put_entries(self.deltas.placed_of(ledger_ids[start : start + _ENTRIES_SLICE_COUNT]))
            await pause()
        ledger_ids = sorted(self.deltas.lacs)
        for start in range(0, len(ledger_ids), _CHANGES_SLICE_COUNT):
            self.put_many(lac_pairs(ledger_ids[start : start + _CHANGES_SLICE_COUNT]))
            await pause()

    def lac_pairs(self, ledger_ids: Sequence[LedgerId]) -> list[tuple[bytes, bytes]]:
        """Return the rows of ledgers with the LACs that deltas have of them; a ledger without a row has none."""
        keys = [ledger_key(ledger_id) for ledger_id in ledger_ids]
        columns = zip(keys, ledger_ids, self.store.get_many(keys), strict=True)
        pairs = [(key, row, self._with_lac(ledger_id, row)) for key, ledger_id, row in columns]
        return [(key, new) for key, row, new in pairs if new is not None and new is not row]

    def drop_deltas(self) -> None:
        """Remove all deltas: all that they say is in rows, which were put before."""
        self.store.delete_range(b"D", b"E")
        self.deltas = Deltas()

    # ---- the few ----------------------------------------------------------------------------------------------------

    def get_meta(self, name: str) -> bytes | None:
        return self.store.get(_meta_key(name))

    def put_meta(self, name: str, value: bytes) -> None:
        self.store.write([PutRow(_meta_key(name), value)])

    def put_hint(self, name: str, value: bytes) -> None:
        """Put what may be lost, and is not waited for: durable with the next flush."""
        self.put_meta(name, value)
        self.hints += 1

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
        self.hints = 0
        await self.store.flush()

    async def close(self) -> None:
        await self.store.close()
