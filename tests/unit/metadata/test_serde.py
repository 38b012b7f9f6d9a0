"""Stored forms of ledger metadata against vectors of the Java tests (spec/metadata.md#M11)."""

import base64
import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId
from bookie.metadata import ledger, serde
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment

HEADER = b"BookieMetadataFormatVersion\t"
ABC = (BookieId("bk1:3181"), BookieId("bk2:3181"), BookieId("bk3:3181"))

EXAMPLE_A = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a"
    "60 0802 1003 1800 20ffffffffffffffffff01 2801"
    "3220 0a08626b313a33313831 0a08626b323a33313831 0a08626b333a33313831 1000"
    "3803 420470617373 4802 5a15 0a0b6170706c69636174696f6e 120670756c736172 60888e98a8c0e0808101"
)
EXAMPLE_B = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a 58"
    "0803 1003 188827 209501 2803"
    "3220 0a08626b313a33313831 0a08626b323a33313831 0a08626b333a33313831 1000"
    "3220 0a08626b313a33313831 0a08626b343a33313831 0a08626b333a33313831 1064"
    "3803 4200 4802 6000"
)
JAVA_GOLDEN = base64.b64decode(
    "Qm9va2llTWV0YWRhdGFGb3JtYXRWZXJzaW9uCTMKYAgCEAMYACD///////////8BKAEyMgoOMTkyLjAuMi4xOjMxODEKDjE5Mi4wLjIuMjozMTgxCg4x"
    "OTIuMC4yLjM6MzE4MRAAOANCBmZvb2JhckgBUP///////////wFgAA=="
)
V2_TEXT = (
    HEADER
    + b"""2
quorumSize: 2
ensembleSize: 3
length: 0
lastEntryId: -1
state: OPEN
segment {
  ensembleMember: "bk1:3181"
  ensembleMember: "bk2:3181"
  ensembleMember: "bk3:3181"
  firstEntryId: 0
}
digestType: CRC32C
password: "pass"
ackQuorumSize: 2
customMetadata {
  key: "application"
  value: "pulsar"
}
"""
)
V1_OPEN = HEADER + b"1\n2\n3\n0\n0\t192.0.2.1:1234\t192.0.2.2:1234\t192.0.2.3:1234\n"
V1_IN_RECOVERY = V1_OPEN + b"-102\tCLOSED"
V1_CLOSED = V1_OPEN.replace(b"3\n0\n0", b"3\n70\n0") + b"6\tCLOSED"


def open_ledger(**changes: object) -> LedgerMetadata:
    made = ledger.new_ledger(
        ensemble_size=3,
        write_quorum=2,
        ack_quorum=2,
        bookies=ABC,
        password=b"pass",
        custom=(("application", b"pulsar"),),
        ctoken=0x0102030405060708,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_a_new_ledger_is_written_as_java_writes_it() -> None:
    assert serde.dump_ledger(open_ledger()) == EXAMPLE_A


def test_a_closed_ledger_of_two_segments_is_written_as_java_writes_it() -> None:
    written = LedgerMetadata(
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        segments=(Segment(EntryId(0), ABC), Segment(EntryId(100), (ABC[0], BookieId("bk4:3181"), ABC[2]))),
        state=LedgerState.CLOSED,
        last_entry=EntryId(149),
        length=5000,
    )

    assert serde.dump_ledger(written) == EXAMPLE_B
    assert serde.load_ledger(EXAMPLE_B, created_ms=-1) == written


@pytest.mark.parametrize("stored", [EXAMPLE_A, EXAMPLE_B, JAVA_GOLDEN, V2_TEXT, V1_OPEN, V1_IN_RECOVERY, V1_CLOSED])
def test_what_was_read_is_written_back_unchanged_in_its_own_version(stored: bytes) -> None:
    assert serde.dump_ledger(serde.load_ledger(stored, created_ms=7)) == stored


def test_a_stored_creation_time_of_minus_one_is_kept() -> None:
    loaded = serde.load_ledger(JAVA_GOLDEN, created_ms=123)

    assert (loaded.ctime_ms, loaded.stores_ctime, loaded.password) == (-1, True, b"foobar")


def test_without_a_stored_creation_time_the_nodes_own_is_used() -> None:
    assert serde.load_ledger(EXAMPLE_A, created_ms=123).ctime_ms == 123


def test_version_one_marks_recovery_by_its_last_entry() -> None:
    loaded = serde.load_ledger(V1_IN_RECOVERY)

    assert (loaded.state, loaded.ack_quorum, loaded.has_password) == (LedgerState.IN_RECOVERY, 2, False)


def test_escapes_of_the_text_form_are_javas() -> None:
    key = "a'b\"c\\d\té\n?"
    value = bytes.fromhex("00010708090a0b0c0d1b22275c7f80ff41")

    text = serde.dump_ledger(open_ledger(custom=((key, value),), format_version=2, ctoken=0))

    assert (
        rb"""key: "a\'b\"c\\d\t\303\251\n?"
  value: "\000\001\a\b\t\n\v\f\r\033\"\'\\\177\200\377A" """.strip()
        in text
    )
    assert serde.load_ledger(text).custom == ((key, value),)


def test_trailing_bytes_after_the_delimited_message_are_ignored() -> None:
    assert serde.load_ledger(EXAMPLE_A + b"junk") == serde.load_ledger(EXAMPLE_A)


@pytest.mark.parametrize("stored", [EXAMPLE_B, V2_TEXT])
def test_every_cut_of_a_record_is_refused_as_bad_input(stored: bytes) -> None:
    whole = serde.load_ledger(stored)

    for end in range(len(stored)):
        try:
            assert serde.load_ledger(stored[:end]) != whole or stored == V2_TEXT
        except errors.BadInput:
            continue


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"BookieMetadataFormatVersion 3\n",
        HEADER + b"4\n",
        HEADER + b"x\n",
        HEADER + b"12345678901\n",
        HEADER + b"3\n\xff\xff\xff\xff\xff\xff",
        EXAMPLE_B.replace(b"bk4:3181", b"bk/:3181"),
        EXAMPLE_B.replace(b"bk4:3181", b"\xffk4:3181"),
        EXAMPLE_A.replace(b"application", b"\xffpplication"),
        EXAMPLE_B.replace(b"\x10\x64", b"\x10\x00"),
        V2_TEXT.replace(b"ensembleSize: 3", b"ensembleSize: 4"),
        V2_TEXT.replace(b"quorumSize: 2\nens", b"quorumSize: 5\nens"),
        V2_TEXT + b"unknownField: 1\n",
        HEADER + b"3\n\xd8\x80\x80\x80\x80\0" + EXAMPLE_B.split(b"\n", 1)[1][1:],  # its size in six bytes, not one
    ],
)
def test_a_broken_record_is_refused_as_bad_input(broken: bytes) -> None:
    with pytest.raises(errors.BadInput):
        serde.load_ledger(broken)


@pytest.mark.parametrize("version", [2, 3])
def test_of_a_key_that_stands_twice_the_last_one_counts_as_in_java(version: int) -> None:
    written = open_ledger(
        custom=(("a", b"1"), ("b", b"2"), ("a", b"3")), format_version=version, ctoken=9 if version == 3 else 0
    )

    assert dict(serde.load_ledger(serde.dump_ledger(written)).custom) == {"a": b"3", "b": b"2"}
    assert len(serde.load_ledger(serde.dump_ledger(written)).custom) == 2


@settings(deadline=None)  # a loaded machine is no defect
@given(
    password=st.binary(max_size=40),
    custom=st.lists(
        st.tuples(st.text(max_size=10), st.binary(max_size=10)), max_size=3, unique_by=lambda pair: pair[0]
    ),
    version=st.sampled_from([2, 3]),
    state=st.sampled_from(LedgerState),
    last=st.integers(-1, 2**60),
)
def test_any_ledger_survives_a_round_trip(
    password: bytes, custom: list[tuple[str, bytes]], version: int, state: LedgerState, last: int
) -> None:
    closed = state is LedgerState.CLOSED
    written = open_ledger(
        password=password,
        custom=tuple(custom),
        format_version=version,
        ctoken=9 if version == 3 else 0,
        state=state,
        last_entry=EntryId(last if closed else -1),
        length=77 if closed else 0,
        ctime_ms=5,
        stores_ctime=True,
    )

    assert serde.load_ledger(serde.dump_ledger(written)) == written
