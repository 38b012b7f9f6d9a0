"""Bytes printed by the unmodified Java encoders: ledger 7, entry 1, LAC 0, length 8,
payload "abcd", password "hello"."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wire_support
from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import availability, digest, entry, session, v2, v3
from bookie.wire.digest import Digest, DigestType
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
    Request,
    Response,
    StartTlsRequest,
)

KEY = bytes.fromhex("7225f84ed1012a386100c08b948c72a52b797c3b")
HEADER = "0000000000000007 0000000000000001 0000000000000000 0000000000000008"
BODY = bytes.fromhex(HEADER + "243f8d41 61626364")
LEDGER, ENTRY, LAST = LedgerId(7), EntryId(1), EntryId(-1)

DIGESTS = {
    DigestType.CRC32C: "243f8d41",
    DigestType.CRC32: "00000000fbbc613a",
    DigestType.HMAC: "9b2e21858765066147b7621157c7b97aab3b0b5f",
    DigestType.DUMMY: "",
}
LAC_DIGESTS = {
    DigestType.CRC32C: "777bd7f3",
    DigestType.CRC32: "00000000ffdd160a",
    DigestType.HMAC: "23022b25cd268fb0d9f1c696fc631e98caee6145",
    DigestType.DUMMY: "",
}


def joined(buffers: list[Buffer]) -> bytes:
    return b"".join(buffers)


def test_keys_are_hashes_of_the_password() -> None:
    assert digest.master_key(b"hello") == KEY
    assert digest.mac_key(b"hello").hex() == "d5f72779b68f96779de1e102c8c7e6d5cc703eef"
    assert digest.master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    assert digest.mac_key(b"").hex() == "347ead6348e936507920c15d2ae8266ac6ce9b49"


@pytest.mark.parametrize("digest_type", DigestType)
def test_an_entry_is_sealed_as_java_seals_it(digest_type: DigestType) -> None:
    expected = bytes.fromhex(HEADER + DIGESTS[digest_type] + "61626364")

    sealed = joined(Digest(digest_type, b"hello").seal(LEDGER, ENTRY, 0, 8, b"abcd"))

    assert sealed == expected
    header, payload = Digest(digest_type, b"hello").open(sealed, LEDGER, ENTRY)
    assert header == entry.EntryHeader(LEDGER, ENTRY, 0, 8)
    assert bytes(payload) == b"abcd"


@pytest.mark.parametrize("digest_type", DigestType)
def test_an_explicit_lac_is_sealed_as_java_seals_it(digest_type: DigestType) -> None:
    expected = bytes.fromhex("0000000000000007 0000000000000001" + LAC_DIGESTS[digest_type])

    assert Digest(digest_type, b"hello").seal_lac(LEDGER, 1) == expected
    assert Digest(digest_type, b"hello").open_lac(expected, LEDGER) == 1


V2_REQUESTS: list[tuple[Request, str]] = [
    (AddRequest(0, 2, LEDGER, ENTRY, KEY, BODY), f"00000040 02010000 {KEY.hex()} {BODY.hex()}"),
    (
        AddRequest(0, 2, LEDGER, ENTRY, KEY, BODY, is_recovery=True, is_high_priority=True),
        f"00000040 02010006 {KEY.hex()} {BODY.hex()}",
    ),
    (ReadRequest(0, 2, LEDGER, ENTRY), "00000014 02020000 0000000000000007 0000000000000001"),
    (
        ReadRequest(0, 2, LEDGER, LAST, KEY, is_fencing=True),
        f"00000028 02020001 0000000000000007 ffffffffffffffff {KEY.hex()}",
    ),
    (
        ReadRequest(0, 2, LEDGER, EntryId(2), KEY, is_fencing=True, is_high_priority=True),
        f"00000028 02020005 0000000000000007 0000000000000002 {KEY.hex()}",
    ),
    (
        BatchReadRequest(42, 2, LEDGER, EntryId(0), count_max=10, size_max=1 << 20),
        "00000028 02070000 0000000000000007 0000000000000000 000000000000002a 0000000a 0000000000100000",
    ),
    (AuthRequest(0, 2, "sasl", b""), "0000000c 02030000 0a047361736c 1200"),
]
V2_RESPONSES: list[tuple[Response, str]] = [
    (
        AddResponse(0, 2, Status.EOK, LEDGER, ENTRY),
        "00000018 02010000 00000000 0000000000000007 0000000000000001",
    ),
    (
        AddResponse(0, 2, Status.EFENCED, LEDGER, ENTRY),
        "00000018 02010000 00000068 0000000000000007 0000000000000001",
    ),
    (
        ReadResponse(0, 2, Status.EOK, LEDGER, LAST, BODY),
        f"00000040 02020000 00000000 0000000000000007 ffffffffffffffff {BODY.hex()}",
    ),
    (
        ReadResponse(0, 2, Status.ENOENTRY, LEDGER, EntryId(5)),
        "00000018 02020000 00000002 0000000000000007 0000000000000005",
    ),
    (
        BatchReadResponse(42, 2, Status.EOK, LEDGER, ENTRY, (BODY,)),
        f"0000004c 02070000 00000000 0000000000000007 0000000000000001 000000000000002a 00000028 {BODY.hex()}",
    ),
    (
        AuthResponse(0, 2, Status.EOK, "AuthDisabledPlugin", b""),
        "0000001a 02030000 0a124175746844697361626c6564506c7567696e 1200",
    ),
]
V3_REQUESTS: list[tuple[Request, str]] = [
    (
        AddRequest(1, 3, LEDGER, ENTRY, KEY, BODY),
        f"0000004f 0a06 080310021801 aa0644 08071001 1a14{KEY.hex()} 2228{BODY.hex()}",
    ),
    (
        AddRequest(1, 3, LEDGER, ENTRY, KEY, BODY, is_deferred=True),
        f"00000051 0a06 080310021801 aa0646 08071001 1a14{KEY.hex()} 2228{BODY.hex()} 2801",
    ),
    (
        ReadRequest(2, 3, LEDGER, LAST, KEY, is_fencing=True),
        f"00000031 0a06 080310011802 a20626 080710ffffffffffffffffff01 1a14{KEY.hex()} a00601",
    ),
    (
        ReadRequest(3, 3, LEDGER, LAST, previous_lac=0, timeout_ms=10000, is_piggyback=True),
        "00000020 0a06 080310011803 a20615 080710ffffffffffffffffff01 2000 28904e a00602",
    ),
    (StartTlsRequest(1, 3), "0000000b 0a06 080310091801 d20600"),
]
V3_RESPONSES: list[tuple[Response, str]] = [
    (AddResponse(1, 3, Status.EOK, LEDGER, ENTRY), "00000013 0a06 080310021801 1000 aa0606 080010071801"),
    (
        ReadResponse(2, 3, Status.ENOENTRY, LEDGER, LAST),
        "0000001e 0a06 080310011802 109303 a20610 0893031007 18ffffffffffffffffff01",
    ),
]


@pytest.mark.parametrize(("request_", "text"), V2_REQUESTS + V3_REQUESTS)
def test_requests_are_java_s_bytes_both_ways(request_: Request, text: str) -> None:
    expected = bytes.fromhex(text)
    codec = v2 if request_.version == 2 else v3

    assert joined(codec.pack_request(request_)) == expected
    assert codec.unpack_request(memoryview(expected)[4:]) == request_
    assert wire_support.one_by_one(session.ServerSession().receive(expected)) == [request_]


@pytest.mark.parametrize(("response", "text"), V2_RESPONSES + V3_RESPONSES)
def test_responses_are_java_s_bytes_both_ways(response: Response, text: str) -> None:
    expected = bytes.fromhex(text)
    codec = v2 if response.version == 2 else v3

    assert joined(session.pack_response(response)) == expected
    assert codec.unpack_response(memoryview(expected)[4:]) == response


def test_limbo_never_reaches_a_v2_client_as_code_107() -> None:
    limbo = ReadResponse(0, 2, Status.EUNKNOWNLEDGERSTATE, LEDGER, ENTRY)

    assert joined(v2.pack_response(limbo))[8:12] == (101).to_bytes(4, "big")


# Runs, groups (first start, last start, size, period). Java's encoder would write each run as a group of its own.
AVAILABILITY: list[tuple[list[tuple[int, int]], list[tuple[int, int, int, int]]]] = [
    ([], []),
    ([(0, 2)], [(0, 0, 3, 0)]),
    ([(0, 1), (3, 4), (6, 7), (20, 20)], [(0, 6, 2, 3), (20, 20, 1, 0)]),
    ([(0, 1), (3, 4), (7, 8)], [(0, 3, 2, 3), (7, 7, 2, 0)]),
]


def availability_bytes(groups: list[tuple[int, int, int, int]]) -> bytes:
    return struct.pack(">ii56x", 0, len(groups)) + b"".join(struct.pack(">qqii", *group) for group in groups)


@pytest.mark.parametrize(("runs", "groups"), AVAILABILITY)
def test_lists_of_entries_are_groups_of_equal_runs(
    runs: list[tuple[int, int]], groups: list[tuple[int, int, int, int]]
) -> None:
    encoded = wire_support.encode_runs(runs)

    assert encoded == availability_bytes(groups)
    assert availability.decode(encoded) == runs


def test_lists_of_entries_with_one_group_per_run_are_read_too() -> None:
    runs = AVAILABILITY[2][0]

    assert (
        availability.decode(availability_bytes([(first, first, last - first + 1, 0) for first, last in runs])) == runs
    )


@given(st.sets(st.integers(min_value=0, max_value=200)))
def test_any_list_of_entries_survives_its_encoding(ids: set[int]) -> None:
    runs: list[tuple[int, int]] = []
    for number in sorted(ids):
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))

    encoded = wire_support.encode_runs(runs)

    assert availability.decode(encoded) == runs
    # As Java's reader takes a group apart (AvailabilityOfEntriesOfLedger.isEntryAvailable).
    found = {
        number
        for first, last, size, period in struct.iter_unpack(">qqii", encoded[64:])
        for number in range(first, last + size + 1)
        if (number - first) % (period or size + 1) < size
    }
    assert found == ids


def test_a_striped_ledger_of_any_size_fits_a_frame() -> None:
    runs = ((start, start + 1) for start in range(0, 3_000_000, 3))

    assert len(wire_support.encode_runs(runs)) == 64 + 24


@pytest.mark.parametrize("size", range(64))
def test_every_prefix_of_a_list_of_entries_is_refused(size: int) -> None:
    with pytest.raises(BadInput):
        availability.decode(bytes(64)[:size])
