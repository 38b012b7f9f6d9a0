"""Protocol version 2, which Pulsar speaks: packed big-endian headers (spec/wire.md#W7).

This module has the same four functions as `v3`. `pack_request` refuses a request that v2 cannot carry (long poll,
deferred sync). v2 has no transaction ids: every `txn` is 0, except that a batch read has a number of its own.

A message's `version` is the one in its header, 0 to 2, and answers echo it. A header that names a later version is
answered EBADVERSION and echoed too; its messages have `BEYOND` set beside the number, so that a 3 is not taken for v3.
"""

import struct
from collections.abc import Sequence

from google.protobuf.message import DecodeError

from bookie.base import text
from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import codes, entry, framing
from bookie.wire.codes import V2Opcode
from bookie.wire.messages import (
    AddRequest,
    AddResponse,
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BatchReadResponse,
    Buffer,
    ReadRequest,
    ReadResponse,
    ReadRunResponse,
    RefusedRequest,
    Request,
    Response,
)
from bookie.wire.proto import bookkeeper_pb2 as proto
from bookie.wire.refusals import refusal

VERSION = 2
BEYOND = 0x100

_HEADER = struct.Struct(">BBH")
_READ = struct.Struct(">BBHqq")
_RESPONSE = struct.Struct(">4siqq")
_ANSWER = struct.Struct(">I4siqq")
_BATCH = struct.Struct(">BBHqqqiq")
_BATCH_RESPONSE = struct.Struct(">4siqqq")
_SIZE = struct.Struct(">I")
_KEY_END = _HEADER.size + codes.MASTER_KEY_SIZE


# ---- requests -------------------------------------------------------------------------------------------------------


def unpack_request(view: memoryview) -> Request:
    """Return the request in one frame's payload; an add's body borrows `view`. `txn` is 0 (a batch read's its own).

    Raises BadInput for everything on which a Java bookie closes the connection: unknown opcode, too short.
    """
    if len(view) < _HEADER.size:
        raise BadInput(f"a v2 frame has {len(view)} bytes; its header alone has {_HEADER.size}")
    version, opcode, flags = _HEADER.unpack_from(view)
    if version == 0:  # the whole int is the opcode; no flags
        opcode, flags = flags & 0xFF, 0
    elif version > VERSION:
        version |= BEYOND
    is_urgent = flags & codes.V2_FLAG_HIGH_PRIORITY != 0
    try:
        request = _unpack_by_opcode(view, version, opcode, flags, is_urgent)
    except (struct.error, DecodeError) as error:
        raise BadInput(f"a v2 request with opcode {opcode} is not whole: {error}") from error
    if version & BEYOND:
        return RefusedRequest(request.txn, version, refusal(request, Status.EBADVERSION))
    return request


def _unpack_by_opcode(view: memoryview, version: int, opcode: int, flags: int, is_urgent: bool) -> Request:
    is_fencing = flags & codes.V2_FLAG_DO_FENCING != 0
    match opcode:
        case V2Opcode.ADDENTRY:
            body = view[_KEY_END:]
            if len(body) < 16:
                raise BadInput(f"a v2 add has a body of {len(body)} bytes; the entry's ids alone have 16")
            ledger_id, entry_id = entry.unpack_ids(body)
            key = bytes(view[_HEADER.size : _KEY_END])
            is_recovery = flags & codes.V2_FLAG_RECOVERY_ADD != 0
            return AddRequest(0, version, ledger_id, entry_id, key, body, is_recovery, False, is_urgent)
        case V2Opcode.READENTRY:
            _, _, _, ledger_id, entry_id = _READ.unpack_from(view)
            read_key = _fencing_key(view, _READ.size, version) if is_fencing else None
            return ReadRequest(
                0,
                version,
                LedgerId(ledger_id),
                EntryId(entry_id),
                read_key,
                is_fencing=is_fencing,
                is_high_priority=is_urgent,
            )
        case V2Opcode.BATCH_READ_ENTRY:
            _, _, _, ledger_id, entry_id, txn, count_max, size_max = _BATCH.unpack_from(view)
            batch_key = _fencing_key(view, _BATCH.size, version) if is_fencing else None
            return BatchReadRequest(
                txn, version, ledger_id, entry_id, count_max, size_max, batch_key, is_fencing, is_urgent
            )
        case V2Opcode.AUTH:
            auth = _unpack_auth(view)
            return AuthRequest(0, version, auth.authPluginName, auth.payload)
        case _:
            raise BadInput(f"v2 opcode {opcode} is not a request")


def _unpack_auth(view: memoryview) -> proto.AuthMessage:
    auth = proto.AuthMessage.FromString(bytes(view[_HEADER.size :]))
    if not auth.IsInitialized():
        raise BadInput("a v2 AUTH message lacks its plugin or payload")
    text.checked(auth.authPluginName, "v2 AUTH: the plugin")
    return auth


def _fencing_key(view: memoryview, offset: int, version: int) -> bytes | None:
    if version < VERSION:  # older versions carry no key: the bookie answers such a request EUA
        return None
    key = bytes(view[offset : offset + codes.MASTER_KEY_SIZE])
    if len(key) < codes.MASTER_KEY_SIZE:
        raise BadInput(f"a v2 fencing read has a key of {len(key)} bytes, not {codes.MASTER_KEY_SIZE}")
    return key


def pack_request(request: Request) -> list[Buffer]:
    """Return `request` as one frame, prefix included; an add's body is borrowed. Raises BadInput where v2 cannot."""
    match request:
        case AddRequest(is_deferred=False):
            assert len(request.master_key) == codes.MASTER_KEY_SIZE
            flags = codes.V2_FLAG_RECOVERY_ADD if request.is_recovery else 0
            if request.is_high_priority:
                flags |= codes.V2_FLAG_HIGH_PRIORITY
            head = _HEADER.pack(VERSION, V2Opcode.ADDENTRY, flags) + request.master_key
            return framing.frame([head, request.body])
        case ReadRequest(previous_lac=None):
            flags = _read_flags(request)
            head = _READ.pack(VERSION, V2Opcode.READENTRY, flags, request.ledger_id, request.entry_id)
            return framing.frame([head + _key_of(request)])
        case BatchReadRequest():
            ids = request.ledger_id, request.entry_id, request.txn
            limits = request.count_max, request.size_max
            head = _BATCH.pack(VERSION, V2Opcode.BATCH_READ_ENTRY, _read_flags(request), *ids, *limits)
            return framing.frame([head + _key_of(request)])
        case AuthRequest():
            return framing.frame([_pack_auth(request)])
        case _:
            raise BadInput(f"protocol version 2 cannot carry this {type(request).__name__}: use version 3")


def _read_flags(request: ReadRequest | BatchReadRequest) -> int:
    flags = codes.V2_FLAG_DO_FENCING if request.is_fencing else 0
    return flags | codes.V2_FLAG_HIGH_PRIORITY if request.is_high_priority else flags


def _key_of(request: ReadRequest | BatchReadRequest) -> bytes:
    if not request.is_fencing:
        return b""
    assert request.master_key is not None
    assert len(request.master_key) == codes.MASTER_KEY_SIZE
    return request.master_key


def _pack_auth(message: AuthRequest | AuthResponse) -> bytes:
    auth = proto.AuthMessage(authPluginName=message.plugin, payload=message.payload)
    return _first_int(message.version, V2Opcode.AUTH) + auth.SerializeToString()


# ---- responses ------------------------------------------------------------------------------------------------------


def unpack_response(view: memoryview) -> Response:
    """Return the response in one frame's payload; bodies borrow `view`. Raises BadInput."""
    try:
        version, opcode, flags = _HEADER.unpack_from(view)
        if version == 0:
            opcode = flags & 0xFF
        if opcode == V2Opcode.AUTH:
            auth = _unpack_auth(view)
            return AuthResponse(0, version, Status.EOK, auth.authPluginName, auth.payload)
        _, code, ledger_id, entry_id = _RESPONSE.unpack_from(view)
        status = codes.STATUS_OF_V2_CODE[code]
        match opcode:
            case V2Opcode.ADDENTRY:
                return AddResponse(0, version, status, ledger_id, entry_id)
            case V2Opcode.READENTRY:
                body = view[_RESPONSE.size :] if status is Status.EOK else None
                return ReadResponse(0, version, status, ledger_id, entry_id, body)
            case V2Opcode.BATCH_READ_ENTRY:
                txn = _BATCH_RESPONSE.unpack_from(view)[4]
                bodies = tuple(_split_bodies(view[_BATCH_RESPONSE.size :])) if status is Status.EOK else ()
                return BatchReadResponse(txn, version, status, ledger_id, entry_id, bodies)
            case _:
                raise BadInput(f"v2 opcode {opcode} is not a response")
    except (struct.error, DecodeError, KeyError) as error:
        raise BadInput(f"a v2 response cannot be read: {error!r}") from error


def _split_bodies(view: memoryview) -> list[memoryview]:
    bodies: list[memoryview] = []
    offset = 0
    while offset < len(view):
        (size,) = _SIZE.unpack_from(view, offset)
        start = offset + _SIZE.size
        offset = start + size
        if offset > len(view):
            raise BadInput("a v2 batch response ends within an entry")
        bodies.append(view[start:offset])
    return bodies


def pack_response(response: Response) -> list[Buffer]:
    """Return `response` as one frame, prefix included; bodies are borrowed."""
    match response:
        case AddResponse():
            return framing.frame([_pack_header(V2Opcode.ADDENTRY, response)])
        case ReadResponse():
            head = _pack_header(V2Opcode.READENTRY, response)
            if response.status is not Status.EOK:
                return framing.frame([head])
            assert response.body is not None, "v2 has no long poll: EOK comes with a body"
            return framing.frame([head, response.body])
        case BatchReadResponse():
            echo = response.txn.to_bytes(8, "big", signed=True)  # the client's own number, any i64
            payload: list[Buffer] = [_pack_header(V2Opcode.BATCH_READ_ENTRY, response), echo]
            for body in response.bodies:
                payload += (_SIZE.pack(len(body)), body)
            return framing.frame(payload)
        case AuthResponse():
            return framing.frame([_pack_auth(response)])
        case _:
            raise BadInput(f"protocol version 2 cannot carry this {type(response).__name__}")


def pack_add_answers(version: int, status: Status, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> bytes:
    """Return one frame per add, as `pack_response` would each."""
    code = codes.V2_CODE_OF_STATUS[status]
    pack = _ANSWER.pack
    head = _first_int(version, V2Opcode.ADDENTRY)
    size = _RESPONSE.size
    return b"".join([pack(size, head, code, ledger_id, entry_id) for entry_id in entry_ids])


def pack_mix_answers(
    version: int, status: Status, ledger_ids: Sequence[LedgerId], entry_ids: Sequence[EntryId]
) -> bytes:
    """Return one frame per add, as `pack_response` would each."""
    code = codes.V2_CODE_OF_STATUS[status]
    pack = _ANSWER.pack
    head = _first_int(version, V2Opcode.ADDENTRY)
    size = _RESPONSE.size
    ids = zip(ledger_ids, entry_ids, strict=True)
    return b"".join([pack(size, head, code, ledger_id, entry_id) for ledger_id, entry_id in ids])


def pack_read_answers(answer: ReadRunResponse) -> list[Buffer]:
    """Return one frame per read, as `pack_response` would each; bodies are borrowed."""
    code = codes.V2_CODE_OF_STATUS[answer.status]
    head, ledger_id, size = _first_int(answer.version, V2Opcode.READENTRY), answer.ledger_id, _RESPONSE.size
    pack = _ANSWER.pack
    if answer.status is not Status.EOK:
        return [pack(size, head, code, ledger_id, entry_id) for entry_id in answer.entry_ids]
    out: list[Buffer] = []
    for entry_id, body in zip(answer.entry_ids, answer.bodies, strict=True):
        out += (pack(size + len(body), head, code, ledger_id, entry_id), body)
    return out


def _first_int(version: int, opcode: V2Opcode) -> bytes:
    """Return the first four bytes of a message, flags 0. In version 0 all four are the opcode."""
    return _HEADER.pack(0, 0, opcode) if version == 0 else _HEADER.pack(version & 0xFF, opcode, 0)


def _pack_header(opcode: V2Opcode, response: AddResponse | ReadResponse | BatchReadResponse) -> bytes:
    code = codes.V2_CODE_OF_STATUS[response.status]
    head = _first_int(response.version, opcode)
    return _RESPONSE.pack(head, code, response.ledger_id, response.entry_id)
