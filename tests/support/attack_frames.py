"""What an attacker says on the data port: requests of both protocols with odd fields, and bytes that are no request.

Pure: a stream of draws in, frames out (length prefix included). The few ledger ids that the requests share give them a
history: a fence before an add, a LAC before its entry, a key before another key.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass

from bookie.base.ids import EntryId, LedgerId
from bookie.base.varint import varint
from bookie.wire import codes
from bookie.wire.digest import Digest, DigestType
from bookie.wire.proto import bookkeeper_pb2 as proto

IDS = (0, 1, 2, 7, -1, -2, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), -(2**31))
SIZES = (0, 1, 8, 15, 16, 19, 20, 21, 31, 32, 39, 40, 44, 64, 255, 256, 1024, 4096)
LARGE_SIZES = (65_535, 65_536, 70_000, 1 << 20)
LARGE_ONE_IN = 150
SHARED_LEDGERS = 24
FIRST_SHARED = 2**50
OPERATIONS = tuple(codes.Operation)
_PREFIX = struct.Struct(">I")
_V2_READ = struct.Struct(">BBHqq")
_V2_BATCH = struct.Struct(">BBHqqqiq")
_DIGEST = Digest(DigestType.CRC32C, b"attacker")


@dataclass(frozen=True, slots=True)
class Marker:
    """A request that every living bookie answers, and the bytes its answer holds and no other answer does."""

    frame: bytes
    answer: bytes


def framed(payload: bytes) -> bytes:
    """`payload` with its length in front."""
    return _PREFIX.pack(len(payload)) + payload


def marker(version: int, ledger_id: LedgerId, number: int) -> Marker:
    """The read of an entry that `ledger_id` does not have; its answer echoes both ids."""
    if version == 2:
        ids = struct.pack(">qq", ledger_id, number)
        return Marker(framed(struct.pack(">BBH", 2, codes.V2Opcode.READENTRY, 0) + ids), ids)
    request = proto.Request()
    request.header.version, request.header.operation, request.header.txnId = 3, codes.Operation.READ_ENTRY, number
    request.readRequest.ledgerId, request.readRequest.entryId = ledger_id, number
    return Marker(framed(request.SerializeToString()), b"\x10" + varint(ledger_id) + b"\x18" + varint(number))


class Frames:
    """Draws frames. `known`: ledgers of honest clients, which the attacker may read, and whose key it does not know.

    `claims` False: it does not name a key for them either. Who names one first on a bookie sets it there (BookKeeper's
    rule, THREATS.md), so a stranger who may can shut clients out of a ledger that is just being made.
    """

    def __init__(self, draw: random.Random, known: tuple[LedgerId, ...], *, claims: bool = True) -> None:
        self._draw = draw
        self._known = known
        self._claims = claims

    def next(self, version: int) -> bytes:
        """One frame for a connection that speaks `version`: a request, whatever its fields say."""
        return framed(self._v2() if version == 2 else self._v3())

    def next_broken(self, version: int) -> bytes:
        """One frame that most likely is no request, for which a bookie may close the connection."""
        payload = self._v2() if version == 2 else self._v3()
        if self._draw.random() < 0.15:
            head = struct.pack(">BBH", self._draw.randrange(256), self._draw.randrange(256), self._draw.getrandbits(16))
            payload = head + self._bytes()
        else:
            payload = self._mutated(payload)
        return framed(payload or b"\x00")

    # ---- fields ------------------------------------------------------------------------------------------------------

    def _ledger(self, *, with_key: bool = True) -> int:
        """`with_key`: for a request that names one."""
        place = self._draw.random()
        if with_key and not self._claims and 0.5 <= place < 0.9:
            place = 0.0  # neither theirs nor a small number, which may be theirs
        if place < 0.5:
            return FIRST_SHARED + self._draw.randrange(SHARED_LEDGERS)
        if place < 0.7:
            return self._draw.choice(self._known)
        return self._draw.choice(IDS) if place < 0.9 else self._draw.getrandbits(63)

    def _entry(self) -> int:
        return self._draw.randrange(50) if self._draw.random() < 0.6 else self._draw.choice(IDS)

    def _bytes(self) -> bytes:
        is_large = self._draw.randrange(LARGE_ONE_IN) == 0
        return self._draw.randbytes(self._draw.choice(LARGE_SIZES if is_large else SIZES))

    def _key(self) -> bytes:
        return _DIGEST.master_key if self._draw.random() < 0.6 else self._bytes()

    def _body(self, ledger_id: int, entry_id: int) -> bytes:
        """An entry as a client seals it; sometimes with other ids, sometimes none at all."""
        if self._draw.random() < 0.15:
            return self._bytes()
        if self._draw.random() < 0.15:
            entry_id = self._entry()
        lac = self._draw.choice((entry_id - 1, -1, entry_id, entry_id + 1, self._draw.choice(IDS)))
        head = struct.pack(">qqqq", *(_signed(value) for value in (ledger_id, entry_id, lac, self._draw.choice(IDS))))
        return head + self._draw.randbytes(4) + self._bytes()

    # ---- version 3 ---------------------------------------------------------------------------------------------------

    def _v3(self) -> bytes:
        request = proto.Request()
        operation = self._draw.choice(OPERATIONS)
        request.header.version, request.header.operation = 3, operation
        request.header.txnId = self._draw.choice((1, 2, 2**63, 2**64 - 1, self._draw.getrandbits(64)))
        if self._draw.random() < 0.2:
            request.header.priority = self._draw.choice((1, 100, 2**32 - 1))
        if self._draw.random() < 0.01:  # a message that does not belong to its operation, or none
            operation = self._draw.choice(OPERATIONS)
        self._v3_message(request, operation)
        payload = request.SerializePartialToString()
        if self._draw.random() < 0.03:  # a context that nobody asked for
            payload += b"\xc2\x0c" + varint(6) + b"\x0a\x01k\x12\x01v"
        return payload

    def _v3_message(self, request: proto.Request, operation: int) -> None:
        ledger_id, entry_id = self._ledger(), self._entry()
        match operation:
            case codes.Operation.READ_ENTRY:
                self._v3_read(request.readRequest, entry_id)
            case codes.Operation.ADD_ENTRY:
                add = request.addRequest
                add.ledgerId, add.entryId, add.masterKey = ledger_id, entry_id, self._key()
                add.body = self._body(ledger_id, entry_id)
                if self._draw.random() < 0.2:
                    add.writeFlags = self._draw.choice((0, 1, 2, 3, -1, 2**31 - 1))
                if self._draw.random() < 0.2:
                    add.flag = 1
            case codes.Operation.WRITE_LAC:
                lac = request.writeLacRequest
                lac.ledgerId, lac.lac, lac.masterKey, lac.body = ledger_id, entry_id, self._key(), self._bytes()
            case codes.Operation.READ_LAC:
                request.readLacRequest.ledgerId = ledger_id
            case codes.Operation.FORCE_LEDGER:
                request.forceLedgerRequest.ledgerId = ledger_id
            case codes.Operation.GET_LIST_OF_ENTRIES_OF_LEDGER:
                request.getListOfEntriesOfLedgerRequest.ledgerId = ledger_id
            case codes.Operation.GET_BOOKIE_INFO:
                request.getBookieInfoRequest.requested = self._draw.choice((0, 1, 2, 3, *IDS, codes.INFO_LIFE))
            case codes.Operation.AUTH:
                request.authRequest.authPluginName = self._draw.choice(("", "sasl", "x" * 5000, "org.a.B"))
                request.authRequest.payload = self._bytes()
            case codes.Operation.START_TLS if self._draw.random() < 0.1:
                request.startTLSRequest.SetInParent()
            case _:
                pass

    def _v3_read(self, read: proto.ReadRequest, entry_id: int) -> None:
        has_key = self._draw.random() < 0.3
        read.ledgerId, read.entryId = self._ledger(with_key=has_key), entry_id
        if self._draw.random() < 0.3:
            read.flag = self._draw.choice((1, 2))
        if has_key:
            read.masterKey = self._key()
        if self._draw.random() < 0.2:
            read.previousLAC = self._entry()
        if self._draw.random() < 0.2:
            read.timeOut = self._draw.choice((0, 1, 100, 1000, -1, 2**63 - 1, -(2**63)))

    # ---- version 2 ---------------------------------------------------------------------------------------------------

    def _v2(self) -> bytes:
        ledger_id, entry_id = self._ledger(), self._entry()
        flags = self._draw.choice((0, 0, 1, 2, 3, 4, 5, self._draw.getrandbits(16)))
        version = 2 if self._draw.random() < 0.95 else self._draw.randrange(4)
        if not self._claims and version == 0:
            version = 1  # of version 0 the flags are the opcode: what looks like a read here may be an add there
        match self._draw.choice(("add", "add", "read", "read", "batch")):
            case "add":
                key = (self._key() + bytes(20))[:20]
                return struct.pack(">BBH", version, 1, flags) + key + self._body(ledger_id, entry_id)
            case "read":
                head = _V2_READ.pack(version, 2, flags, _signed(ledger_id), _signed(entry_id))
                return head + (self._key() + bytes(20) if flags & 1 else b"")
            case "batch":
                counts = self._draw.choice((0, 1, 10, -1, 2**31 - 1)), self._draw.choice((0, 1, 4096, *IDS))
                ids = _signed(ledger_id), _signed(entry_id), self._draw.choice(IDS)
                return _V2_BATCH.pack(version, codes.V2Opcode.BATCH_READ_ENTRY, flags, *ids, *counts) + self._key()
            case other:
                raise AssertionError(other)

    # ---- neither -----------------------------------------------------------------------------------------------------

    def _mutated(self, payload: bytes) -> bytes:
        data = bytearray(payload)
        for _ in range(self._draw.choice((1, 1, 2, 4))):
            place = self._draw.randrange(len(data) + 1)
            match self._draw.choice(("set", "cut", "insert", "repeat")):
                case "set" if place < len(data):
                    data[place] = self._draw.choice((0, 1, 0x7F, 0x80, 0xFF, self._draw.randrange(256)))
                case "cut":
                    del data[place:]
                case "insert":
                    data[place:place] = self._draw.randbytes(self._draw.choice((1, 2, 4, 8)))
                case _:
                    data[place:place] = data[place : place + 16] * self._draw.choice((1, 20))
        return bytes(data)


def sealed(ledger_id: LedgerId, entry_id: EntryId, payload: bytes) -> bytes:
    """An entry of the attacker's own, as a client would seal it."""
    return b"".join(_DIGEST.seal(ledger_id, entry_id, entry_id - 1, len(payload) * (entry_id + 1), payload))


def _signed(value: int) -> int:
    """`value` as the 64 bits that carry it."""
    return (value + 2**63) % 2**64 - 2**63
