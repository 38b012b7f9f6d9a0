"""What `make fuzz` fuzzes: every place that reads bytes which others wrote.

What is taken is looked at further: written and read again it is the same, and two readers of one thing agree.
"""

import contextlib
import dataclasses
import hashlib
import json
import struct
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import settings_support
import storage_support
import wire_support
from bookie.base.errors import BadInput, CorruptFile, DigestMismatch, RefusedToStart, Unauthorized
from bookie.base.ids import BookieId, BootEpoch, EntryId, Incarnation, LedgerId
from bookie.base.secret import Secret
from bookie.cli import losses
from bookie.client.repair import queue_progress
from bookie.integrity import asides, sentinel
from bookie.metadata import (
    cookie,
    locations,
    loss_signature,
    lost_entries,
    maintenance,
    paths,
    position,
    recorded_losses,
    registration,
    repair,
    serde,
)
from bookie.ports.admin import Aside, Sentinel
from bookie.runtime import keystore
from bookie.storage import bad_entries, block, doubt, ledgers, location, log_use, shapes, versions
from bookie.storage.entrylog import format as log_format
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.reader import JournalFile
from bookie.storage.location import Location
from bookie.wire import availability, framing, messages, session, v2, v3
from bookie.wire.digest import Digest, DigestType
from bookie.wire.messages import AddRequest, Buffer, ReadRequest, Request, Response
from bookie.wire.sasl import DigestClient
from bookie.workload import check, records
from client_session import ClientSession
from fuzz_engine import Target

T = TypeVar("T")
KEY = bytes(range(20))
LEDGER, ENTRY = LedgerId(7), EntryId(1)
BODY = b"".join(Digest(DigestType.CRC32C, b"").seal(LEDGER, ENTRY, 0, 8, b"payload"))

_TAGS = (
    b"\x0a\x06\x08\x03\x10",
    b"\xa2\x06",
    b"\xaa\x06",
    b"\x1a\x14" + KEY,
    b"\x22\x28",
    b"\x28\x01",
    b"\xd2\x06\x00",
)
_REQUESTS: list[Request] = [
    AddRequest(1, 3, LEDGER, ENTRY, KEY, BODY),
    AddRequest(2, 3, LEDGER, ENTRY, KEY, BODY, is_recovery=True, is_deferred=True, is_high_priority=True),
    ReadRequest(3, 3, LEDGER, ENTRY),
    ReadRequest(4, 3, LEDGER, EntryId(-1), KEY, is_fencing=True),
    ReadRequest(4, 3, LEDGER, ENTRY, KEY, is_fencing=True, is_high_priority=True),
    ReadRequest(5, 3, LEDGER, EntryId(-1), previous_lac=0, timeout_ms=10_000, is_piggyback=True),
    messages.WriteLacRequest(6, 3, LEDGER, 0, KEY, b"lac"),
    messages.ReadLacRequest(7, 3, LEDGER),
    messages.ForceRequest(8, 3, LEDGER),
    messages.ListEntriesRequest(9, 3, LEDGER),
    messages.BookieInfoRequest(10, 3, 3),
    messages.AuthRequest(11, 3, "sasl", b"token"),
    messages.StartTlsRequest(12, 3),
]
_V2_REQUESTS: list[Request] = [
    AddRequest(0, 2, LEDGER, ENTRY, KEY, BODY),
    ReadRequest(0, 2, LEDGER, ENTRY),
    ReadRequest(0, 2, LEDGER, EntryId(-1), KEY, is_fencing=True),
    ReadRequest(0, 2, LEDGER, ENTRY, KEY, is_fencing=True, is_high_priority=True),
    messages.BatchReadRequest(42, 2, LEDGER, EntryId(0), count_max=10, size_max=1 << 20),
    messages.AuthRequest(0, 2, "sasl", b"token"),
]
_OK = messages.ReadResponse(1, 3, messages.Status.EOK, LEDGER, ENTRY, BODY, max_lac=0, lac_update_ms=5)
_RESPONSES: list[Response] = [
    messages.AddResponse(1, 3, messages.Status.EOK, LEDGER, ENTRY),
    messages.AddResponse(1, 3, messages.Status.EOK, LEDGER, ENTRY, 5),
    _OK,
    messages.WriteLacResponse(2, 3, messages.Status.EREADONLY, LEDGER),
    messages.ReadLacResponse(3, 3, messages.Status.EOK, LEDGER, b"lac", BODY),
    messages.ForceResponse(4, 3, messages.Status.EOK, LEDGER),
    messages.ListEntriesResponse(5, 3, messages.Status.EOK, LEDGER, wire_support.encode_runs([(0, 9)])),
    messages.BookieInfoResponse(6, 3, messages.Status.EOK, 100, 50, 2, 3),
    messages.AuthResponse(7, 3, messages.Status.EOK, "plugin", b""),
    messages.StartTlsResponse(8, 3, messages.Status.EBADREQ),
]
_V2_RESPONSES: list[Response] = [
    messages.AddResponse(0, 2, messages.Status.EOK, LEDGER, ENTRY),
    messages.ReadResponse(0, 2, messages.Status.EOK, LEDGER, EntryId(-1), BODY),
    messages.ReadResponse(0, 2, messages.Status.ENOENTRY, LEDGER, ENTRY),
    messages.BatchReadResponse(42, 2, messages.Status.EOK, LEDGER, ENTRY, (BODY, BODY)),
    messages.AuthResponse(0, 2, messages.Status.EOK, "AuthDisabledPlugin", b""),
]


def joined(buffers: Iterable[Buffer]) -> bytes:
    return b"".join(buffers)


def cut(data: bytes) -> list[bytes]:
    """The stream in `data`, in chunks: its first byte says how long they are."""
    size = max(1, data[0] if data else 1) * 3
    return [data[start : start + size] for start in range(1, len(data), size)]


def same_again(load: Callable[[bytes], T], dump: Callable[[T], bytes]) -> Callable[[bytes], None]:
    """A check: what is taken can be written, and what was written is taken for the same."""

    def check(data: bytes) -> None:
        found = load(data)
        again = load(dump(found))
        assert again == found, f"{found} became {again}"

    return check


# ---- the wire --------------------------------------------------------------------------------------------------------


def frames(data: bytes) -> None:
    """However a stream is cut, its frames are the same, or it is refused all the same."""

    def split(chunks: list[bytes]) -> list[bytes] | None:
        splitter = framing.FrameSplitter(limit_bytes=200)
        try:
            return [bytes(frame) for chunk in chunks for frame in splitter.feed(chunk)]
        except BadInput:
            return None

    assert split(cut(data)) == split([data[1:]])


def request_of(codec: object, versions: tuple[int, ...]) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        found = codec.unpack_request(memoryview(data))  # type: ignore[attr-defined]
        is_ours = not isinstance(found, messages.RefusedRequest | messages.UnknownRequest) and found.version in versions
        if is_ours and getattr(found, "master_key", KEY) in (None, KEY):
            again = codec.unpack_request(memoryview(joined(codec.pack_request(found)))[4:])  # type: ignore[attr-defined]
            assert again == found, f"{found} became {again}"

    return check


def response_of(codec: object) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        codec.unpack_response(memoryview(data))  # type: ignore[attr-defined]

    return check


def _shape(requests: list[Request]) -> list[object]:
    """What must be kept: the order within a ledger's adds or reads, between two requests of another kind."""
    out: list[tuple[object, dict[LedgerId, list[Request]]]] = []
    for request in requests:
        kind: object = type(request)
        if isinstance(request, ReadRequest) and (
            request.is_fencing or request.is_high_priority or request.previous_lac is not None or request.master_key
        ):
            kind = id(request)
        if not isinstance(request, AddRequest | ReadRequest):
            out.append((None, {LedgerId(-1): [request]}))
            continue
        if not out or out[-1][0] != kind:
            out.append((kind, {}))
        out[-1][1].setdefault(request.ledger_id, []).append(request)
    return [sorted(ledgers_.items(), key=lambda item: item[0]) for _, ledgers_ in out]


def scanner(data: bytes) -> None:
    """A bookie's session, which reads adds and reads in runs, finds what the general parsers find, one by one."""
    splitter, is_v2 = framing.FrameSplitter(), False
    expected: list[Request] | None = []
    try:
        for frame in splitter.feed(data[1:]):
            is_v2 = is_v2 or frame[0] != 0x0A
            assert expected is not None
            expected.append((v2 if is_v2 else v3).unpack_request(frame))
    except BadInput:
        expected = None
    reader = session.ServerSession()
    found: list[Request] | None = []
    try:
        for chunk in cut(data):
            assert found is not None
            found += wire_support.one_by_one(reader.receive(chunk))
    except BadInput:
        found = None
    if expected is None or found is None:
        assert expected is found, f"one reader refuses: {expected} and {found}"
    else:
        assert _shape(found) == _shape(expected)


def client_session(version: int, requests: list[Request]) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        client: ClientSession[int] = ClientSession(version)
        for number, request in enumerate(requests):
            client.send(request, number)
        told: list[int] = []
        try:
            for chunk in cut(data):
                told += [token for token, _ in client.receive(chunk)]
        finally:
            told += client.abandon_all()
            assert sorted(set(told)) == sorted(told), "a request was answered twice"

    return check


def digests(data: bytes) -> None:
    for kind in DigestType:
        header, _ = Digest(kind, b"").open(data, LEDGER, None)
        assert header.ledger_id == LEDGER


def lists_of_entries(data: bytes) -> None:
    """What is read as runs and written again is the same; lists that no bookie could write are left at that."""
    groups = availability.decode_groups(data)
    count = sum(1 if period == 0 else 1 + (last - first) // period for first, last, _, period in groups)
    if count < 10_000 and all(last - first + size < 2**31 for first, last, size, _ in groups):
        runs = availability.decode(data)
        assert availability.decode(wire_support.encode_runs(runs)) == runs


def sasl(data: bytes) -> None:
    DigestClient("user", Secret("secret"), "cnonce").answer(data)


# ---- metadata --------------------------------------------------------------------------------------------------------

_V2 = (
    b"BookieMetadataFormatVersion\t2\nquorumSize: 2\nensembleSize: 3\nlength: 0\nlastEntryId: -1\nstate: OPEN\n"
    b'segment {\n  ensembleMember: "b1:1"\n  ensembleMember: "b2:1"\n  ensembleMember: "b3:1"\n'
    b'  firstEntryId: 0\n}\ndigestType: CRC32C\npassword: "p"\nackQuorumSize: 2\n'
    b'customMetadata {\n  key: "a"\n  value: "b"\n}\n'
)
_V3 = serde.dump_ledger(dataclasses.replace(serde.load_ledger(_V2), format_version=3))
_V1 = b"BookieMetadataFormatVersion\t1\n2\n3\n0\n0\tb1:1\tb2:1\tb3:1\n-102\tCLOSED"
_V1_CLOSED = b"BookieMetadataFormatVersion\t1\n2\n3\n70\n0\tb1:1\tb2:1\tb3:1\n6\tCLOSED"
_COOKIE = b'5\nbookieHost: "b:1"\njournalDir: "/j"\nledgerDirs: "2\\t/l0\\t/l1"\ninstanceId: "i"\nindexDirs: "1\\t/x"\n'


def cookies(data: bytes) -> None:
    found = cookie.load_cookie(data)
    cookie.mismatch(found, cookie.load_cookie(_COOKIE))


def registrations(data: bytes) -> None:
    """The record, and a bookie id of any bytes with an empty one."""
    registration.load_service_info(BookieId(data.decode("utf-8", "replace")), b"")
    found = registration.load_service_info(BookieId("b:1"), data)
    again = registration.dump_service_info(found)
    assert not again or registration.load_service_info(BookieId("b:1"), again) == found


def repairs(data: bytes) -> None:
    loads: list[Callable[[bytes], object]] = [repair.load_underreplicated, repair.load_lock, repair.load_vote]
    for load in (*loads, repair.load_check_time, locations.load_rack_mapping):
        try:
            load(data)
        except BadInput:
            continue


_ACT = lost_entries.Act("me", "gone", 5, (BookieId("b:1"),), ((EntryId(3), EntryId(9)),), "tool", ("c",))
_SEAL = loss_signature.Seal(loss_signature.SigningKey("a" * 64, lambda _: b"s"), loss_signature.Place("i", LEDGER, 5))
_TRUSTED = loss_signature.TrustedKey("ann", "a" * 64, lambda *_: False)  # it signed nothing of this


def notes_of_losses(data: bytes) -> None:
    """What a writer may have put into its ledger's record: taken as a whole, in words that can be shown, or not."""
    acts = lost_entries.load(data)
    lost_entries.merged(acts)
    for key in (recorded_losses.ENDED, recorded_losses.DECLARED):
        noted = serde.load_ledger(_V2).closed(EntryId(9), 90).with_custom(key, data)
        for trusted in (None, [_TRUSTED]):
            for loss in recorded_losses.of(noted, _SEAL.place, trusted):
                assert loss.signature.worth is not loss_signature.Worth.TRUSTED
                losses.line(loss).encode()
                json.dumps(losses.row(LEDGER, loss)).encode()
    "".join(
        word for act in acts for word in (act.by, act.reason, act.tool, *act.bookies, *act.claims, *act.gone)
    ).encode()
    if acts:
        with contextlib.suppress(BadInput):
            assert lost_entries.load(lost_entries.dump(acts)) == acts
            assert lost_entries.load(lost_entries.added(data, _ACT, lost_entries.said(_ACT))) == (*acts, _ACT)


def progress_reports(data: bytes) -> None:
    """One report, and what a person is told of it and of another one together."""
    usual = queue_progress.Progress(1, 0, 5, 500, 10, 1_000, 2.0, 200.0, 5)
    found = queue_progress.load_progress(data)
    queue_progress.together([found])
    queue_progress.together([usual, found])
    assert queue_progress.load_progress(queue_progress.dump_progress(found)) == found


def names_of_nodes(data: bytes) -> None:
    """The record of the layout, and names below the root, of any bytes."""
    name = data.decode("utf-8", "replace")
    for load in (lambda: paths.load_layout(data), lambda: paths.parse_underreplicated(f"/r/{name}")):
        with contextlib.suppress(BadInput):
            load()
    with contextlib.suppress(BadInput):
        ledger_id = paths.parse_ledger_path("/r", f"/r/{name}")
        assert paths.parse_ledger_path("/r", paths.ledger_path("/r", ledger_id)) == ledger_id


def small_records(data: bytes) -> None:
    """Of an index: its doubt, its directories, what a log holds of a ledger, which entries are bad."""
    assert all(bad.ledger_id >= 0 and bad.entry_id >= 0 for bad in bad_entries.load_rows(data))
    reads: list[Callable[[bytes], object]] = [
        doubt.unpack,
        lambda value: shapes.load(value, "index"),
        lambda value: log_use.unpack((value[:13], value[13:])),
    ]
    for read in reads:
        try:
            read(data)
        except CorruptFile:
            continue


def logs_of_writers(data: bytes) -> None:
    """What `workload verify` reads, and what it makes of it."""
    found = list(records.load_records(data.splitlines(keepends=True)))
    for expected in check.expectations(found).values():
        expected.acknowledged_before(5)


# ---- files -----------------------------------------------------------------------------------------------------------


def _journal(bodies: list[tuple[int, bytes]]) -> bytes:
    header = journal_format.Header(1, b"saltsalt", 0)
    data = journal_format.pack_header(header)
    for kind, body in bodies:
        data += (
            journal_format.pack_record(journal_format.seed_of(header), len(data), kind, LEDGER, EntryId(-1), body)
            + body
        )
    return data


def journals(data: bytes) -> None:
    """A file of any bytes behind its header, and a record of any bytes whose checksum is right."""
    header = journal_format.Header(1, b"saltsalt", 0)
    for whole in (data, _journal([(data[0] % 7 + 1 if data else 1, data[1:])])):
        journal_format.unpack_header(whole)
        versions.other_format(whole, journal_format.MAGIC, journal_format.READABLE, journal_format.HEADER_SIZE)
        file = JournalFile("f", 1, whole, header, is_last=bool(data and data[0] & 1))
        for record in file.records(0):
            assert record.end <= len(whole)


def entry_logs(data: bytes) -> None:
    log_format.is_header(data, 3)
    versions.other_format(data, log_format.MAGIC, (log_format.VERSION,), log_format.HEADER_SIZE)
    offset = log_format.HEADER_SIZE
    while (record := log_format.unpack_record(data, offset, 3)) is not None:
        offset += log_format.RECORD_HEAD_SIZE + len(record.body)
    for start in (log_format.HEADER_SIZE, 0):
        for size in (len(data) - start - log_format.RECORD_HEAD_SIZE, 16, 0):
            log_format.body_of(data, start, Location(3, 0, max(0, size)), LEDGER, ENTRY)
    log_format.claimed_size(data)


def _log() -> bytes:
    body = storage_support.entry(7, 1)
    buffers: list[Buffer] = []
    log_format.pack_run(3, log_format.HEADER_SIZE, [body] * 3, buffers)
    return log_format.pack_header(3) + joined(buffers)


def index_rows(data: bytes) -> None:
    for read in (location.unpack, lambda row: ledgers.unpack_row(LEDGER, row).facts()):
        try:
            read(data)
        except (CorruptFile, RefusedToStart):
            continue
    found = dict(block.locations_in(data, EntryId(64)))
    for entry_id in range(64, 64 + block.COUNT):
        assert block.find(data, EntryId(entry_id)) == found.get(EntryId(entry_id))
    assert block.last_in(data, EntryId(64)) == max(found)


def _row() -> bytes:
    ledger = ledgers.Ledger(LEDGER, KEY)
    ledger.flags, ledger.limbo_epoch, ledger.explicit_lac = 5, 3, bytes(24)
    return ledger.pack()


_JKS = b"".join(
    (
        b"\xfe\xed\xfe\xed" + struct.pack(">II", 2, 2),
        struct.pack(">IH", 2, 2) + b"ca" + bytes(8) + b"\x00\x05X.509" + struct.pack(">I", 4) + b"cert",
        struct.pack(">IH", 1, 2) + b"me" + bytes(8) + struct.pack(">I", 30),
        b"\x30\x1c\x30\x0e\x06\x0a\x2b\x06\x01\x04\x01\x2a\x02\x11\x01\x01\x05\x00\x04\x0a" + bytes(10),
    )
)


def key_stores(data: bytes) -> None:
    """A store of any bytes, and one whose digest is right."""
    secret = "password".encode("utf-16-be")
    for whole in (data, data + hashlib.sha1(secret + b"Mighty Aphrodite" + data, usedforsecurity=False).digest()):
        try:
            keystore.open_jks(whole, "password")
        except (ValueError, IndexError, struct.error):  # what its caller makes a sentence of
            continue


_SENTINEL = sentinel.dump(
    Sentinel("cluster", BookieId("b:1"), "journal", "journal", Incarnation(3), BootEpoch(7), "fsid", "grant")
)


def sentinels(data: bytes) -> None:
    """A file of any bytes, and one whose check is right."""
    with contextlib.suppress(ValueError, RecursionError):
        fields = json.loads(data)
        if isinstance(fields, dict):
            fields.pop("check", None)
            fields["check"] = sentinel._check(fields)
            data = json.dumps(fields).encode()
    found = sentinel.load(data)
    assert sentinel.load(sentinel.dump(found)) == found


_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")


def settings_files(data: bytes) -> None:
    path = Path(_FOLDER.name) / "bk.conf"
    path.write_bytes(data)
    loaded = settings_support.load("", "--config", str(path))
    settings_support.build(loaded)


_JAVA_FILE = Path(__file__).resolve().parents[1] / "unit" / "cli" / "bk_server.conf"
_TEXT = (
    b'"',
    b"\\",
    b"\n",
    b"\t",
    b"{",
    b"}",
    b"[" * 40,
    b"-1",
    b"9" * 40,
    b"Infinity",
    b"NaN",
    b"\xc2\xb2",
    b"\xff",
    b":",
)
_STREAM = b"\x20" + b"".join(joined(v3.pack_request(request)) for request in _REQUESTS)
# Reads make runs; adds that come in turn for many ledgers make mixes.
_PLACES = [(LedgerId(one % 5), EntryId(one // 5)) for one in range(10)]
_MANY: list[Request] = [
    *(ReadRequest(number, 3, *place) for number, place in enumerate(_PLACES)),
    *(
        AddRequest(number, 3, *place, KEY, joined(Digest(DigestType.CRC32C, b"").seal(*place, -1, 7, b"payload")))
        for number, place in enumerate(_PLACES, 10)
    ),
]
_STREAM_MANY, _STREAM_MANY_2 = (
    b"\xff" + b"".join(joined(codec.pack_request(request)) for request in _MANY) for codec in (v3, v2)
)
_STREAM_2 = b"\x20" + b"".join(joined(v2.pack_request(request)) for request in _V2_REQUESTS)


def _payloads(pack: Callable[[T], list[Buffer]], found: Iterable[T]) -> list[bytes]:
    return [joined(pack(message))[4:] for message in found]


_ALL = [
    Target("frames", [b"\x05" + b"\x00\x00\x00\x03abc" * 9], frames, ()),
    Target("v3 requests", _payloads(v3.pack_request, _REQUESTS), request_of(v3, (3,)), (BadInput,), _TAGS),
    Target("v2 requests", _payloads(v2.pack_request, _V2_REQUESTS), request_of(v2, (2,)), (BadInput,)),
    Target("v3 answers", _payloads(v3.pack_response, _RESPONSES), response_of(v3), (BadInput,), _TAGS),
    Target("v2 answers", _payloads(v2.pack_response, _V2_RESPONSES), response_of(v2), (BadInput,)),
    Target(
        "scanner",
        [_STREAM, _STREAM_2, _STREAM + _STREAM_2[1:], _STREAM_MANY, _STREAM_MANY_2, _STREAM_MANY + _STREAM[1:]],
        scanner,
        (),
        _TAGS,
    ),
    Target(
        "client session 3",
        [b"\x20" + joined(joined(session.pack_response(response)) for response in _RESPONSES)],
        client_session(3, _REQUESTS),
        (BadInput,),
        _TAGS,
    ),
    Target(
        "client session 2",
        [b"\x20" + joined(joined(session.pack_response(response)) for response in _V2_RESPONSES)],
        client_session(2, _V2_REQUESTS),
        (BadInput,),
    ),
    Target("digests", [BODY], digests, (DigestMismatch,)),
    Target(
        "lists of entries",
        [wire_support.encode_runs([(0, 9), (20, 29), (40, 49), (51, 51)]), wire_support.encode_runs([])],
        lists_of_entries,
        (BadInput,),
    ),
    Target("sasl", [b'realm="r",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess'], sasl, (Unauthorized,), _TEXT),
    Target(
        "ledger metadata",
        [_V3, _V2, _V1, _V1_CLOSED],
        same_again(serde.load_ledger, serde.dump_ledger),
        (BadInput,),
        _TEXT,
    ),
    Target("cookies", [_COOKIE, b"3\nbk1:3181\n/j\n2\t/l0\t/l1\n"], cookies, (BadInput,), _TEXT),
    Target(
        "incarnations",
        [
            b'{"boot_epoch": 7, "boot_id": "x", "grant_id": "g", "incarnation": 3,'
            b' "instance_id": "i", "operator_epoch": 2}'
        ],
        same_again(cookie.load_incarnation, cookie.dump_incarnation),
        (BadInput,),
        _TEXT,
    ),
    Target(
        "registrations",
        [registration.dump_service_info(registration.bookie_service("h", 1, (("zone", "z"),), http_port=8)), b"h:3181"],
        registrations,
        (BadInput,),
        _TEXT,
    ),
    Target(
        "repair records",
        [
            b'replica: "b:1"\nreplica: "b:2"\nctime: 5\n',
            b'bookieId: "b:1"\n',
            b'{"g": {"b:1": {"rack": "/r", "hostname": "h"}}}',
        ],
        repairs,
        (),
        _TEXT,
    ),
    Target(
        "notes of losses",
        [
            lost_entries.dump([_ACT]),
            json.dumps([_SEAL.signed(lost_entries.KEY, lost_entries.said(_ACT), serde.load_ledger(_V2))]).encode(),
            json.dumps(_SEAL.signed(recorded_losses.ENDED, {"by": "me", "atMs": 5}, serde.load_ledger(_V2))).encode(),
        ],
        notes_of_losses,
        (),
        (*_TEXT, b'"\\ud800"', b"1e999"),
    ),
    Target(
        "leases",
        [maintenance.dump_lease(maintenance.MaintenanceLease(60, "me", "new disks"))],
        same_again(maintenance.load_lease, maintenance.dump_lease),
        (BadInput,),
        _TEXT,
    ),
    Target(
        "positions",
        [position.dump_position(position.Position("i", Incarnation(3), ((1, 512),), ((2, 1024),)))],
        same_again(position.load_position, position.dump_position),
        (BadInput,),
        (*_TEXT, b"1e999"),
    ),
    Target(
        "orders to stand aside",
        [asides.dump_aside(Aside(True, "a bad disk", "order-1", 1_700_000_000_000))],
        same_again(asides.load_aside, asides.dump_aside),
        (),
        _TEXT,
    ),
    Target(
        "progress reports",
        [
            queue_progress.dump_progress(queue_progress.Progress(1, 0, 5, 500, 10, 1_000, 2.0, 200.0, 5)),
            queue_progress.dump_progress(queue_progress.Progress(0, 0, 0, 0, None, None, 0.0, 0.0, None)),
        ],
        progress_reports,
        (BadInput,),
        (*_TEXT, b"null", b"1e999", b"1e308", b"5e-324", b"0", b"true"),
    ),
    Target(
        "names of nodes",
        [
            paths.dump_layout(paths.LayoutKind.HIERARCHICAL),
            b"00/0000/L0007",
            b"000/0000/0000/0000/L0007",
            b"urL0000000007",
        ],
        names_of_nodes,
        (),
        _TEXT,
    ),
    Target(
        "small records of an index",
        [
            doubt.Doubt(3, 700, 5).pack(),
            shapes.dump((shapes.Shape(0, 2), shapes.Shape(700, 3))),
            b"".join(log_use.pair(3, (LEDGER, (9, EntryId(0), EntryId(5))))),
            bytes(27) + b"\x09",
        ],
        small_records,
        (),
    ),
    Target(
        "logs of writers",
        [
            b"".join(
                map(
                    records.dump_record,
                    [records.Time(3), records.Create(7, "close", 5), records.Ack(7, 0, 3, "d"), records.Close(7, 0)],
                )
            )
        ],
        logs_of_writers,
        (BadInput,),
        (*_TEXT, b"null", b"true"),
    ),
    Target(
        "journals",
        [
            _journal([(1, storage_support.entry(7, 1)), (3, KEY)]),
            b"\x04\x00\x00\x00\x02\x00\x00\x00\x20\x00\x00\x00\x20" + bytes(64),
        ],
        journals,
        (CorruptFile,),
    ),
    Target("entry logs", [_log()], entry_logs, ()),
    Target(
        "index rows",
        [_row(), block.pack([EntryId(64), EntryId(70)], [bytes(location.SIZE)] * 2, None), bytes(location.SIZE)],
        index_rows,
        (CorruptFile,),
    ),
    Target("sentinels", [_SENTINEL], sentinels, (BadInput,), _TEXT),
    Target("key stores", [_JKS], key_stores, ()),
    Target(
        "settings",
        [settings_support.NEEDED.encode(), _JAVA_FILE.read_bytes()],
        settings_files,
        (BadInput,),
        (*_TEXT, b"=", b"\\\n", b"${", b"journalDirectories=", b"tlsProvider=OpenSSL\n", b"zkServers=a:1,b:2\n"),
    ),
]
TARGETS = {target.name.replace(" ", "-"): target for target in _ALL}
