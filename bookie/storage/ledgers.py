"""Durable facts about ledgers: master key, fence and its reason, limbo and its epoch, explicit LAC.

A fact is durable when its journal record is, or when the index was flushed after its row was written; the store orders
that, this module keeps what is known and how a row looks. It must never forget a fact that is not yet in the index.

    row   0 version u8 | 1 flags u8 | 2 limbo epoch u64 | 10 LAC i64 | 18 key size u16 | 20 explicit LAC size u16
          22 key, explicit LAC

The LAC in a row is a hint for the time after a restart: any LAC a writer ever supplied is confirmed for ever.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, EntryId, LedgerId
from bookie.storage import limits

# A change that makes row version 2 must raise `partition.FORMAT_VERSION` too: an index of a newer program is refused
# as a whole, before any row of it is looked at. Here, a number that is not ours is one damaged row.
VERSION = 1
_ROW = struct.Struct(">BBQqHH")
_LAC_START, _LAC_END = 10, 18
_LAC = struct.Struct(">qq")
FENCED, STATE_LOST, LIMBO = 1, 2, 4
DOUBT = 8  # in memory alone, from the doubt of the index (`ledger_table`): not examined yet
# Entries of it were given up as surplus: what is not here is unknown, for as long as the ledger has a row. Rows with
# these two stand only in an index whose format says so (`partition.begin_giving_up`): an older program refuses it.
GIVEN_UP = 16
NAMED_AGAIN = 32  # and its record has named this bookie since: a list tells what is here, so that repairs find the rest
QUIET = 64  # in memory alone: nothing has come for it since somebody began to watch (`ledger_table`)
# In memory alone: made while what was deleted under its id would come back with a crash (`going`).
GOING = 128
_STORED = FENCED | STATE_LOST | LIMBO | GIVEN_UP | NAMED_AGAIN
EXPLICIT_LAC_MIN_SIZE = _LAC.size
FIELD_BYTES_MAX = 0xFFFF  # what the sizes in a row can say
assert max(limits.MASTER_KEY_BYTES_MAX, limits.EXPLICIT_LAC_BYTES_MAX) <= FIELD_BYTES_MAX
UNKNOWN_LAST = EntryId(-2)

LacWatcher = Callable[[EntryId], None]


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """What is known about a ledger, as a value. `master_key` None: no client has given the key yet.

    `is_fenced`: normal adds are refused. `is_state_lost`: the reason is only that this bookie may have lost its state
    (`protect`); no recovery has fenced here since. A writer then changes its ensemble instead of dying
    (spec/bp46.md#T14).
    """

    master_key: bytes | None
    is_fenced: bool
    is_state_lost: bool
    is_limbo: bool
    limbo_epoch: int
    explicit_lac: bytes | None
    last_confirmed: EntryId
    is_given_up: bool = False  # surplus entries were deleted: what is not here is unknown (spec/metadata.md#M56)


class Ledger:
    """One ledger in memory. The hot path reads its attributes; `flags` changes only through the store."""

    __slots__ = ("explicit_lac", "flags", "lac", "last", "ledger_id", "limbo_epoch", "master_key", "watchers")

    def __init__(self, ledger_id: LedgerId, master_key: bytes = b"") -> None:
        self.ledger_id = ledger_id
        self.master_key = master_key  # b"": nobody has said it yet
        self.flags = 0
        self.limbo_epoch = 0
        self.explicit_lac: bytes | None = None
        self.lac: EntryId = INVALID_ENTRY_ID
        self.last: EntryId = UNKNOWN_LAST  # highest entry here, once asked for
        # A tuple: of 10^5 ledgers few are watched, and each list is one more object for the garbage collector.
        self.watchers: tuple[LacWatcher, ...] = ()

    def facts(self) -> LedgerFacts:
        """Return the durable facts as a value."""
        return LedgerFacts(
            master_key=self.master_key or None,
            is_fenced=bool(self.flags & (FENCED | STATE_LOST)),
            is_state_lost=self.flags & (FENCED | STATE_LOST) == STATE_LOST,
            is_limbo=bool(self.flags & LIMBO),
            limbo_epoch=self.limbo_epoch,
            explicit_lac=self.explicit_lac,
            last_confirmed=self.lac,
            is_given_up=bool(self.flags & GIVEN_UP),
        )

    def refusal(self) -> BookieError | None:
        """Return why a normal add is refused, None when it is not. Rule: spec/bp46.md#R4."""
        if self.flags & FENCED:
            return errors.LedgerFenced(f"ledger {self.ledger_id} is fenced: somebody recovers or recovered it")
        if self.flags & (STATE_LOST | LIMBO | DOUBT):
            return errors.UnknownLedgerState(f"this bookie may have lost what it knew of ledger {self.ledger_id}")
        return None

    def allows(self, master_key: bytes) -> bool:
        """Return True when `master_key` may write here: it is the ledger's key, or the ledger has none yet."""
        return not self.master_key or master_key == self.master_key

    def take_lac(self, body: bytes) -> None:
        """Keep an explicit LAC unless a later one is known (the replay may bring an older one)."""
        if self.explicit_lac is None or lac_of(body) >= lac_of(self.explicit_lac):
            self.explicit_lac = body
        self.lac = max(self.lac, lac_of(body))

    def pack(self) -> bytes:
        """Pack the ledger's row."""
        explicit = self.explicit_lac or b""
        assert len(self.master_key) <= FIELD_BYTES_MAX
        assert len(explicit) <= FIELD_BYTES_MAX
        return (
            _ROW.pack(VERSION, self.flags & _STORED, self.limbo_epoch, self.lac, len(self.master_key), len(explicit))
            + self.master_key
            + explicit
        )


def unpack_row(ledger_id: LedgerId, row: bytes) -> Ledger:
    """Return the ledger that `row` describes. Raises CorruptFile."""
    if len(row) < _ROW.size:
        raise errors.CorruptFile(f"index: the row of ledger {ledger_id} has {len(row)} bytes")
    version, flags, limbo_epoch, lac, key_size, explicit_size = _ROW.unpack_from(row)
    is_whole = len(row) == _ROW.size + key_size + explicit_size
    has_lac = explicit_size == 0 or explicit_size >= EXPLICIT_LAC_MIN_SIZE
    if version != VERSION or not is_whole or not has_lac or flags & ~_STORED:
        raise errors.CorruptFile(f"index: the row of ledger {ledger_id} (version {version}) is not one of ours")
    ledger = Ledger(ledger_id, row[_ROW.size : _ROW.size + key_size])
    ledger.flags = flags
    ledger.limbo_epoch = limbo_epoch
    ledger.lac = EntryId(lac)
    ledger.explicit_lac = row[_ROW.size + key_size :] or None
    return ledger


def with_lac(row: bytes, lac: EntryId) -> bytes:
    """Return the row with this LAC, or `row` itself where its LAC is as high. A row that makes no sense stays so."""
    is_ours = len(row) >= _ROW.size and row[0] == VERSION
    if not is_ours or int.from_bytes(row[_LAC_START:_LAC_END], "big", signed=True) >= lac:
        return row
    return b"".join((row[:_LAC_START], lac.to_bytes(_LAC_END - _LAC_START, "big", signed=True), row[_LAC_END:]))


def is_given_up(row: bytes) -> bool:
    """Return True when `row` says that entries of its ledger were given up. A row that makes no sense says nothing."""
    return len(row) >= _ROW.size and row[0] == VERSION and bool(row[1] & GIVEN_UP)


def lac_of(body: bytes) -> EntryId:
    """Return the LAC in an explicit-LAC body (ledger id, LAC, digest), whose size the caller has checked."""
    return EntryId(_LAC.unpack_from(body)[1])
