"""The index of one ledger directory: tables over an ordered store. Durable only at a checkpoint's flush.

    'E' ledger entry   -> location of the entry's record          17-byte keys, 12-byte values
    'L' ledger         -> the ledger's durable facts (`ledgers`)
    'G' log ledger     -> bytes of that ledger in that log         for garbage collection
    'M' name           -> marks, highest log id, shape             few; the mark is written last

Numbers in keys are big-endian and never negative, so byte order is numeric order.
"""

import struct
from collections.abc import Iterator, Sequence

from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.ports.ordered_store import Delete, OrderedStore, Put
from bookie.storage import location
from bookie.storage.location import Location

_ENTRY_KEY = struct.Struct(">cqq")
_LEDGER_KEY = struct.Struct(">cq")
_USE_KEY = struct.Struct(">cIq")
_SIZE = struct.Struct(">Q")
ENTRY_ID_MAX = LEDGER_ID_MAX

Pairs = Sequence[tuple[bytes, bytes]]


def entry_key(ledger_id: LedgerId, entry_id: EntryId) -> bytes:
    return _ENTRY_KEY.pack(b"E", ledger_id, entry_id)


def ledger_key(ledger_id: LedgerId) -> bytes:
    return _LEDGER_KEY.pack(b"L", ledger_id)


def _after_entries(ledger_id: LedgerId) -> bytes:
    """The end (exclusive) of a ledger's entry keys."""
    return entry_key(ledger_id, EntryId(ENTRY_ID_MAX)) + b"\0"


class Index:
    """Reads see every completed write; nothing is durable before `flush`."""

    def __init__(self, store: OrderedStore) -> None:
        self.store = store

    # ---- entries --------------------------------------------------------------------------------------------------

    def locate(self, ledger_id: LedgerId, entry_id: EntryId) -> Location | None:
        """Where an entry's record is; None: never indexed here."""
        value = self.store.get(entry_key(ledger_id, entry_id))
        return None if value is None else location.unpack(value)

    def last_entry(self, ledger_id: LedgerId) -> EntryId | None:
        """The highest indexed entry id of a ledger."""
        pair = self.store.last_in(entry_key(ledger_id, EntryId(0)), _after_entries(ledger_id))
        return None if pair is None else EntryId(_ENTRY_KEY.unpack(pair[0])[2])

    def locations(self, ledger_id: LedgerId) -> Iterator[tuple[EntryId, Location]]:
        """All indexed entries of a ledger, ascending."""
        for key, value in self.store.range(entry_key(ledger_id, EntryId(0)), _after_entries(ledger_id)):
            yield EntryId(_ENTRY_KEY.unpack(key)[2]), location.unpack(value)

    def all_locations(self) -> Iterator[tuple[LedgerId, EntryId, Location]]:
        """All indexed entries of all ledgers, ascending."""
        for key, value in self.store.range(b"E", b"F"):
            _, ledger_id, entry_id = _ENTRY_KEY.unpack(key)
            yield LedgerId(ledger_id), EntryId(entry_id), location.unpack(value)

    # ---- ledgers --------------------------------------------------------------------------------------------------

    def row(self, ledger_id: LedgerId) -> bytes | None:
        return self.store.get(ledger_key(ledger_id))

    def rows(self) -> Iterator[tuple[LedgerId, bytes]]:
        """Every ledger's row, ascending by id."""
        for key, value in self.store.range(b"L", b"M"):
            yield LedgerId(_LEDGER_KEY.unpack(key)[1]), value

    def forget(self, ledger_id: LedgerId, *, keep_row: bool) -> None:
        """Remove a ledger's entries, and its row unless the ledger has been made anew since."""
        self.store.delete_range(entry_key(ledger_id, EntryId(0)), _after_entries(ledger_id))
        if not keep_row:
            self.store.write([Delete(ledger_key(ledger_id))])

    # ---- use of logs ----------------------------------------------------------------------------------------------

    def use_pairs(self, use: dict[tuple[int, LedgerId], int]) -> list[tuple[bytes, bytes]]:
        """Pairs that record how many bytes of a ledger a log holds."""
        return [(_USE_KEY.pack(b"G", log_id, ledger_id), _SIZE.pack(size)) for (log_id, ledger_id), size in use.items()]

    def use_of(self, log_id: int) -> Iterator[tuple[LedgerId, int]]:
        """Ledgers in a log with their bytes."""
        start = _USE_KEY.pack(b"G", log_id, 0)
        for key, value in self.store.range(start, _USE_KEY.pack(b"G", log_id, LEDGER_ID_MAX) + b"\0"):
            yield LedgerId(_USE_KEY.unpack(key)[2]), _SIZE.unpack(value)[0]

    def all_use(self) -> Iterator[tuple[int, LedgerId, int]]:
        """Every (log, ledger, bytes), ascending."""
        for key, value in self.store.range(b"G", b"H"):
            _, log_id, ledger_id = _USE_KEY.unpack(key)
            yield log_id, LedgerId(ledger_id), _SIZE.unpack(value)[0]

    def forget_use(self, log_id: int, ledger_ids: Sequence[LedgerId]) -> None:
        self.store.write([Delete(_USE_KEY.pack(b"G", log_id, ledger_id)) for ledger_id in ledger_ids])

    # ---- the few ----------------------------------------------------------------------------------------------------

    def get_meta(self, name: str) -> bytes | None:
        return self.store.get(b"M" + name.encode())

    def put_meta(self, name: str, value: bytes) -> None:
        self.store.write([Put(b"M" + name.encode(), value)])

    def put_many(self, pairs: Pairs) -> None:
        if pairs:
            self.store.put_many(pairs)

    async def flush(self) -> None:
        await self.store.flush()

    async def close(self) -> None:
        await self.store.close()
