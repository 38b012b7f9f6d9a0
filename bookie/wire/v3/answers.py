"""Packs the answers to a run of adds or reads: byte for byte as `pack_response` packs each, but shared bytes only once.

A module of its own, because `responses` stands on protobuf and this one is compiled (docs/decisions/0007-native.md).
"""

from collections.abc import Sequence
from typing import Final

from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.varint import varint
from bookie.wire import framing
from bookie.wire.messages import Buffer, ReadResponse, ReadRunResponse
from bookie.wire.v3 import responses
from bookie.wire.v3.requests import VERSION

_STATUS_VARINT: Final = {status: varint(status) for status in Status}


def pack_add_answers(status: Status, ledger_id: LedgerId, txns: Sequence[int], entry_ids: Sequence[EntryId]) -> bytes:
    """Return one frame per add, as `pack_response` would each; what they share is packed once."""
    status_varint, ledger = _STATUS_VARINT[status], varint(ledger_id)
    out: list[bytes] = []
    sizes = -1, -1
    start = middle = b""
    for txn_id, entry_id in zip(txns, entry_ids, strict=True):
        txn, entry = varint(txn_id), varint(entry_id)
        if (len(txn), len(entry)) != sizes:
            sizes = len(txn), len(entry)
            sub_size = 3 + len(status_varint) + len(ledger) + len(entry)
            size = 11 + len(txn) + len(status_varint) + sub_size
            start = b"\x00\x00\x00%c\x0a%c\x08\x03\x10\x02\x18" % (size, 5 + len(txn))
            middle = b"\x10%b\xaa\x06%c\x08%b\x10%b\x18" % (status_varint, sub_size, status_varint, ledger)
        out += (start, txn, middle, entry)
    return b"".join(out)


def pack_mix_answers(
    status: Status, ledger_ids: Sequence[LedgerId], txns: Sequence[int], entry_ids: Sequence[EntryId]
) -> bytes:
    """Return one frame per add, each of any ledger, as `pack_response` would each."""
    status_varint = _STATUS_VARINT[status]
    out: list[bytes] = []
    sizes = -1, -1, -1
    start = middle = b""
    for ledger_id, txn_id, entry_id in zip(ledger_ids, txns, entry_ids, strict=True):
        ledger, txn, entry = varint(ledger_id), varint(txn_id), varint(entry_id)
        if (len(ledger), len(txn), len(entry)) != sizes:
            sizes = len(ledger), len(txn), len(entry)
            sub_size = 3 + len(status_varint) + len(ledger) + len(entry)
            size = 11 + len(txn) + len(status_varint) + sub_size
            start = b"\x00\x00\x00%c\x0a%c\x08\x03\x10\x02\x18" % (size, 5 + len(txn))
            middle = b"\x10%b\xaa\x06%c\x08%b\x10" % (status_varint, sub_size, status_varint)
        out += (start, txn, middle, ledger, b"\x18", entry)
    return b"".join(out)


def pack_read_answers(answer: ReadRunResponse) -> list[Buffer]:
    """Return one frame per read, as `pack_response` would each; bodies are borrowed."""
    if answer.status is not Status.EOK:
        ids = zip(answer.txns, answer.entry_ids, strict=True)
        return [_pack_refused_read(txn, answer.status, answer.ledger_id, entry_id) for txn, entry_id in ids]
    ledger = varint(answer.ledger_id)
    tail = b"" if answer.max_lac is None else b"\x28" + varint(answer.max_lac)
    out: list[Buffer] = []
    sizes = -1, -1, -1
    start = middle = end = before = b""
    for txn_id, entry_id, body in zip(answer.txns, answer.entry_ids, answer.bodies, strict=True):
        txn, entry = varint(txn_id), varint(entry_id)
        if (len(txn), len(entry), len(body)) != sizes:
            sizes = len(txn), len(entry), len(body)
            end = b"\x22" + varint(len(body))
            sub = b"\x08\x00\x10%b\x18" % ledger
            sub_size = varint(len(sub) + len(entry) + len(end) + len(body) + len(tail))
            middle = b"\x10\x00\xa2\x06%b%b" % (sub_size, sub)
            size = 7 + len(txn) + len(middle) + len(entry) + len(end) + len(body) + len(tail)
            start = b"%b\x0a%c\x08\x03\x10\x01\x18" % (size.to_bytes(framing.PREFIX_SIZE, "big"), 5 + len(txn))
        out += (b"".join((before, start, txn, middle, entry, end)), body)
        before = tail
    out.append(tail)
    return out


def _pack_refused_read(txn: int, status: Status, ledger_id: LedgerId, entry_id: EntryId) -> Buffer:
    (packed,) = responses.pack_response(ReadResponse(txn, VERSION, status, ledger_id, entry_id))
    return packed
