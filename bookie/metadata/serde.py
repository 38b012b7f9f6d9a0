"""Loads and dumps every stored form of ledger metadata: 1 (lines), 2 (protobuf text), 3 (protobuf, since 4.9).

    "BookieMetadataFormatVersion" TAB version LF   then   1: lines | 2: text | 3: varint size, message

A record keeps its version: one that was read as 2 is written as 2. Rules: spec/metadata.md#M11, M12.
Never: a default that hides a broken record. A record that cannot be read raises BadInput.
"""

from google.protobuf.message import DecodeError

from bookie.base import errors, ids, text
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, EntryId
from bookie.base.varint import varint
from bookie.metadata import textproto
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment
from bookie.metadata.proto.metadata_pb2 import LedgerMetadataFormat

_PREFIX = b"BookieMetadataFormatVersion\t"
_VERSION_DIGITS_MAX = 10
# Version 1 has no state field: this last entry says IN_RECOVERY (LedgerMetadataSerDe.java, IN_RECOVERY).
_V1_IN_RECOVERY = -102


def load_ledger(data: bytes, created_ms: int = 0) -> LedgerMetadata:
    """Return the metadata in `data`. `created_ms`, the node's, is the creation time of a record that has none.

    Raises BadInput.
    """
    version, body = _split_header(data)
    match version:
        case 1:
            return _load_v1(body)
        case 2:
            message = LedgerMetadataFormat()
            textproto.load(body, message, "ledger metadata")
        case 3:
            message = _unpack_delimited(body)
        case _:
            raise errors.BadInput(f"ledger metadata format {version} is not known (1 to 3 are)")
    return _from_message(message, version, created_ms)


def dump_ledger(metadata: LedgerMetadata) -> bytes:
    """Return the stored form of `metadata`, in its own format version: byte for byte as Java writes it."""
    header = _PREFIX + str(metadata.format_version).encode("ascii") + b"\n"
    match metadata.format_version:
        case 1:
            return header + _dump_v1(metadata)
        case 2:
            return header + textproto.dump(_to_message(metadata))
        case 3:
            message = _to_message(metadata)
            message.cToken = metadata.ctoken
            body = message.SerializeToString()
            return header + varint(len(body)) + body
        case other:
            raise errors.BadInput(f"ledger metadata format {other} is not known (1 to 3 are)")


def _split_header(data: bytes) -> tuple[int, bytes]:
    if not data.startswith(_PREFIX):
        raise errors.BadInput(f"the record is not ledger metadata: it begins with {data[:32]!r}")
    end = data.find(b"\n", len(_PREFIX), len(_PREFIX) + _VERSION_DIGITS_MAX + 1)
    digits = data[len(_PREFIX) : end] if end >= 0 else b""
    if not digits.isdigit():
        raise errors.BadInput("ledger metadata has no readable format version")
    return int(digits), data[end + 1 :]


def _from_message(message: LedgerMetadataFormat, version: int, created_ms: int) -> LedgerMetadata:
    state = LedgerState(message.state)
    closed = state is LedgerState.CLOSED
    has_password = message.HasField("password")
    stores_ctime = message.HasField("ctime")
    return LedgerMetadata(
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize if message.HasField("ackQuorumSize") else message.quorumSize,
        segments=tuple(
            Segment(EntryId(segment.firstEntryId), tuple(map(_bookie_id, segment.ensembleMember)))
            for segment in message.segment
        ),
        state=state,
        last_entry=EntryId(message.lastEntryId) if closed else INVALID_ENTRY_ID,
        length=message.length if closed else 0,
        digest_type=message.digestType if message.HasField("digestType") else 0,
        password=message.password,
        has_password=has_password,
        # Of a key that stands twice the last one counts, as in Java: two readers must not see two records.
        custom=tuple(
            {
                text.checked(item.key, "a key of the custom metadata"): item.value for item in message.customMetadata
            }.items()
        ),
        ctime_ms=message.ctime if stores_ctime else created_ms,
        stores_ctime=stores_ctime,
        ctoken=message.cToken if version >= 3 else 0,
        format_version=version,
    )


def _bookie_id(member: object) -> BookieId:
    return ids.parse_bookie_id(text.checked(member, "a member of an ensemble"))


def _to_message(metadata: LedgerMetadata) -> LedgerMetadataFormat:
    message = LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length if metadata.is_closed else 0,
        lastEntryId=metadata.last_entry if metadata.is_closed else INVALID_ENTRY_ID,
        state=LedgerMetadataFormat.State.Name(metadata.state.value),
        ackQuorumSize=metadata.ack_quorum,
    )
    for segment in metadata.segments:
        message.segment.add(ensembleMember=segment.bookies, firstEntryId=segment.first_entry)
    if metadata.digest_type:
        message.digestType = LedgerMetadataFormat.DigestType.Name(metadata.digest_type)  # type: ignore[assignment]
    if metadata.has_password:
        # An empty password must be present: without the field Java takes the ledger for one from before 4.2.
        message.password = metadata.password
    if metadata.stores_ctime:
        message.ctime = metadata.ctime_ms
    for key, value in metadata.custom:
        message.customMetadata.add(key=key, value=value)
    return message


def _unpack_delimited(body: bytes) -> LedgerMetadataFormat:
    size = shift = offset = 0
    while True:
        if offset >= len(body) or shift > 28:
            raise errors.BadInput("ledger metadata is cut off: its size cannot be read")
        byte = body[offset]
        size |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            break
    if len(body) - offset < size:
        raise errors.BadInput(f"ledger metadata is cut off: {len(body) - offset} bytes of {size}")
    message = LedgerMetadataFormat()
    try:
        message.ParseFromString(body[offset : offset + size])
    except DecodeError as error:
        raise errors.BadInput(f"ledger metadata cannot be read: {error}") from error
    return message


def _load_v1(body: bytes) -> LedgerMetadata:
    """Load format 1: Qw, E, length; one line per segment: first entry TAB bookies;
    last entry TAB CLOSED unless OPEN."""
    try:
        lines = body.decode("utf-8").split("\n")
        write_quorum, ensemble_size, length = (int(line) for line in lines[:3])
        segments: list[Segment] = []
        state, last_entry = LedgerState.OPEN, INVALID_ENTRY_ID
        for line in lines[3:]:
            first, *rest = line.split("\t")
            if rest == ["CLOSED"]:
                in_recovery = int(first) == _V1_IN_RECOVERY
                state = LedgerState.IN_RECOVERY if in_recovery else LedgerState.CLOSED
                last_entry = INVALID_ENTRY_ID if in_recovery else EntryId(int(first))
                break
            if line:
                bookies: tuple[BookieId, ...] = tuple(ids.parse_bookie_id(name) for name in rest if name)
                segments.append(Segment(EntryId(int(first)), bookies))
    except ValueError as error:
        raise errors.BadInput(f"ledger metadata (format 1) cannot be read: {error}") from error
    return LedgerMetadata(
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=write_quorum,
        segments=tuple(segments),
        state=state,
        last_entry=last_entry,
        length=length if state is LedgerState.CLOSED else 0,
        digest_type=0,
        has_password=False,
        format_version=1,
    )


def _dump_v1(metadata: LedgerMetadata) -> bytes:
    length = metadata.length if metadata.is_closed else 0
    lines = [f"{metadata.write_quorum}\n{metadata.ensemble_size}\n{length}\n"]
    lines += ["\t".join([str(segment.first_entry), *segment.bookies]) + "\n" for segment in metadata.segments]
    if metadata.state is not LedgerState.OPEN:
        last = metadata.last_entry if metadata.is_closed else _V1_IN_RECOVERY
        lines.append(f"{last}\tCLOSED")
    return "".join(lines).encode("utf-8")
