"""Applies one journal record to the ledgers in memory, or says why the record cannot be applied. Reads no file.

A record that checks is one that some version of this program wrote. If it makes no sense all the same, the ledger that
it names is quarantined and the others are served: one ledger keeps no bookie from starting. Must never apply a part of
such a record, nor pass over it in silence.
"""

import struct
from collections.abc import Iterator

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.storage import ledgers
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.format import WholeRecord
from bookie.storage.ledgers import FENCED, LIMBO, Ledger
from bookie.storage.partition import Partition

_HEAD = struct.Struct(">qqq")  # of an entry: ledger, entry, LAC (`heads`)
_LEDGER = struct.Struct(">q")


def complaint(record: WholeRecord) -> str:
    """Return why the record cannot be applied to any ledger; "" when it can."""
    body, ledger_id = record.body, record.ledger_id
    if ledger_id < 0:
        return f"names ledger {ledger_id}"
    match record.kind:
        case journal_format.ENTRY:
            if len(body) < _HEAD.size:
                return f"an entry of {len(body)} bytes"
            named, entry_id, _ = _HEAD.unpack_from(body)
            if (named, entry_id) != (ledger_id, record.entry_id) or entry_id < 0:
                return f"entry {record.entry_id} of ledger {ledger_id} says that it is {entry_id} of {named}"
        case journal_format.KEY | journal_format.FENCE:
            if len(body) > ledgers.FIELD_BYTES_MAX:
                return f"a master key of {len(body)} bytes"
        case journal_format.LAC:
            if not ledgers.EXPLICIT_LAC_MIN_SIZE <= len(body) <= ledgers.FIELD_BYTES_MAX:
                return f"an explicit LAC of {len(body)} bytes"
            if _LEDGER.unpack_from(body) != (ledger_id,):
                return f"an explicit LAC of ledger {ledger_id} that is another's"
        case journal_format.TOUCH:
            if body:
                return f"a touch with {len(body)} bytes"
        case journal_format.ENTRIES:
            return "entries that came together and are not laid out so"  # else the reader would have taken them apart
        case _:
            return f"a record of kind {record.kind}"
    return ""


def named(record: WholeRecord) -> Iterator[LedgerId]:
    """Yield the ledgers that a malformed record may be about: the one in its head, and the one that its body names."""
    if record.ledger_id >= 0:
        yield record.ledger_id
    if record.kind in (journal_format.ENTRY, journal_format.LAC) and len(record.body) >= _LEDGER.size:
        (ledger_id,) = _LEDGER.unpack_from(record.body)
        if ledger_id >= 0 and ledger_id != record.ledger_id:
            yield LedgerId(ledger_id)


def apply(partition: Partition, record: WholeRecord, *, epoch: int = 0) -> None:
    """Apply one record to memory; applying it twice changes no more than once. The caller has asked `complaint` before.
    `epoch`: of this boot, kept beside each limbo mark that is set.

    An entry of an unknown ledger makes the ledger, without a key: it was deleted after the entry was journaled, since a
    ledger's key record is durable whenever its first entry is. Deletions are not journaled (one replayed after limbo
    was set anew would take that away): the collector meets such a ledger again and deletes it again.
    """
    ledger_id = record.ledger_id
    match record.kind:
        case journal_format.ENTRY:
            ledger = _ledger(partition, ledger_id, b"")
            partition.active.put(ledger_id, record.entry_id, record.body)
            _, _, lac = _HEAD.unpack_from(record.body)
            if ledger.lac < lac < record.entry_id:
                ledger.lac = EntryId(lac)
        case journal_format.KEY:
            _ledger(partition, ledger_id, record.body)
        case journal_format.FENCE:
            _ledger(partition, ledger_id, record.body).flags |= FENCED
        case journal_format.LAC:
            _ledger(partition, ledger_id, b"").take_lac(record.body)
        case journal_format.TOUCH:
            # CRASH: the row that says so goes with the checkpoint that moves the mark past the touch: no crash finds
            # neither. (Set by phase one, after it, the mark of the ledger would come when the touch is gone.)
            ledger = _ledger(partition, ledger_id, b"")
            ledger.flags |= LIMBO
            ledger.limbo_epoch = epoch
        case _:
            raise AssertionError(f"a journal record of kind {record.kind} passed `complaint`, and nothing applies it")


def _ledger(partition: Partition, ledger_id: LedgerId, master_key: bytes) -> Ledger:
    table = partition.table
    ledger = table.find(ledger_id)
    if ledger is None:
        ledger = table.create(ledger_id, master_key)
    elif not ledger.master_key:
        ledger.master_key = master_key
    elif master_key and master_key != ledger.master_key:
        # No rule can say which key may write here, or of which of two ledgers the entries are.
        table.quarantine(ledger_id, "the journal has another master key of it than was known before")
    table.changed(ledger)
    return ledger


def whose(record: WholeRecord, reason: str, path: str) -> list[LedgerId]:
    """Return the ledgers to quarantine for a record that cannot be applied. Raises CorruptFile when the record names
    none: then any ledger may have lost something."""
    ledger_ids = list(named(record))
    if not ledger_ids:
        raise errors.CorruptFile(
            f"{path}: the record that ends at offset {record.end} checks, but {reason}: nobody can say whose it is; "
            f"restore the file, or {errors.TREAT_AS_LOST}"
        )
    return ledger_ids
