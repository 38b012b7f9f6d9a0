"""Journal bytes: every record survives the round trip, and nothing else is ever a record."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.errors import BadInput
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB, MIB
from bookie.ports.disk import BLOCK_BYTES
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.format import Header

HEADER = Header(file_id=7, salt=b"saltsalt", previous_end=1234)
SEED = journal_format.seed_of(HEADER)
START = journal_format.HEADER_SIZE
IDS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def record(
    body: bytes = b"body", *, kind: int = journal_format.ENTRY, seed: int = SEED, group: int = START, entry_id: int = 4
) -> bytes:
    packed = journal_format.pack_record(seed, group, kind, LedgerId(3), EntryId(entry_id), body)
    return packed + body


ONE_OF_EACH = [record(b"x" * size, kind=kind) for kind in sorted(journal_format.KINDS) for size in (0, 1, 20, 700)]


def test_a_header_round_trips() -> None:
    packed = journal_format.pack_header(HEADER)

    assert len(packed) == journal_format.HEADER_SIZE
    assert journal_format.unpack_header(packed + b"rest") == HEADER


def test_no_prefix_of_a_header_is_a_header() -> None:
    packed = journal_format.pack_header(HEADER)

    for size in range(len(packed)):
        assert journal_format.unpack_header(packed[:size]) is None
        assert journal_format.unpack_header(packed[:size] + bytes(START - size)) is None


def test_a_header_with_a_flipped_bit_is_none() -> None:
    for bit in range(journal_format.HEADER_SIZE * 8):
        packed = bytearray(journal_format.pack_header(HEADER))
        packed[bit // 8] ^= 1 << bit % 8
        assert journal_format.unpack_header(bytes(packed)) is None, bit


@given(kind=st.sampled_from(sorted(journal_format.KINDS)), ledger=IDS, entry=IDS, body=st.binary(max_size=300))
def test_a_record_round_trips(kind: int, ledger: int, entry: int, body: bytes) -> None:
    packed = journal_format.pack_record(SEED, START, kind, LedgerId(ledger), EntryId(entry), body)

    found = journal_format.unpack_record(bytes(START) + packed + body + b"more", START, SEED)

    assert found == (kind, ledger, entry, body, START + len(packed) + len(body))


@pytest.mark.parametrize("packed", ONE_OF_EACH, ids=len)
def test_no_prefix_of_a_record_is_a_record(packed: bytes) -> None:
    for size in range(len(packed)):
        assert journal_format.unpack_record(bytes(START) + packed[:size], START, SEED) is None


@pytest.mark.parametrize("packed", ONE_OF_EACH, ids=len)
def test_no_record_whose_tail_became_zeros_is_a_record(packed: bytes) -> None:
    for size in range(len(packed)):
        torn = packed[:size] + bytes(len(packed) - size)
        if torn != packed:
            assert journal_format.unpack_record(bytes(START) + torn, START, SEED) is None


def test_a_record_with_any_flipped_bit_is_none() -> None:
    packed = record(b"some body")
    for bit in range(len(packed) * 8):
        broken = bytearray(packed)
        broken[bit // 8] ^= 1 << bit % 8
        assert journal_format.unpack_record(bytes(START) + bytes(broken) + bytes(600), START, SEED) is None, bit


@given(size=st.integers(min_value=0, max_value=4096), seed=st.integers(min_value=0, max_value=2**32 - 1))
def test_zeros_are_never_a_record(size: int, seed: int) -> None:
    assert journal_format.unpack_record(bytes(START + size), START, seed) is None
    assert not journal_format.is_synced_beyond(bytes(START + size), START, seed)


@given(junk=st.binary(max_size=500))
def test_junk_is_never_a_record(junk: bytes) -> None:
    assert journal_format.unpack_record(bytes(START) + junk, START, SEED) is None


def test_a_record_of_another_file_is_none() -> None:
    other = journal_format.seed_of(Header(7, b"saltsalT", 1234))

    assert journal_format.unpack_record(bytes(START) + record(seed=other), START, SEED) is None


def test_a_valid_record_of_a_later_group_proves_that_the_bytes_before_were_synced() -> None:
    first = record(b"a" * 50)
    second_start = START + len(first)
    data = bytes(START) + first + record(b"b", group=second_start)

    assert journal_format.is_synced_beyond(data, START, SEED)


def test_a_valid_record_of_the_same_group_proves_nothing() -> None:
    # A power cut may keep the second sector of a group and not the first.
    data = bytes(START) + bytes(50) + record(b"b", group=START)

    assert not journal_format.is_synced_beyond(data, START, SEED)


def test_a_record_that_a_client_stored_as_its_payload_proves_nothing() -> None:
    stored = record(b"b", seed=SEED + 1, group=START + 60)
    data = bytes(START) + bytes(60) + record(b"payload " + stored)

    assert not journal_format.is_synced_beyond(data, START, SEED)


def hostile(size: int, start: int) -> bytes:
    """A payload of heads that fail their check: each claims all that comes after it, and a group of its own."""
    heads = (
        struct.pack(">IIIB3sqq", 0, size - at - 32, start + at, journal_format.ENTRY, b"BKR", 3, 4)
        for at in range(0, size, 32)
    )
    return b"".join(heads)


def test_a_payload_of_a_hundred_thousand_heads_keeps_no_start_waiting() -> None:
    data = bytes(START) + hostile(4 * MIB, START)
    began_s = time.process_time()

    assert not journal_format.is_synced_beyond(data, START - 1, SEED)
    assert time.process_time() - began_s < 20, "it was minutes: each head's claim was summed up to the end"


@pytest.mark.parametrize("size", [1, BLOCK_BYTES + 1, 3 * BLOCK_BYTES], ids=["small", "a block", "large"])
def test_a_synced_record_is_found_behind_heads_of_a_payload(size: int) -> None:
    torn = hostile(64 * KIB, START)
    start = START + len(torn)

    assert journal_format.is_synced_beyond(bytes(START) + torn + record(b"b" * size, group=start), START - 1, SEED)


@pytest.mark.parametrize("what", ["beyond the end", "of a later group", "of an earlier group"])
def test_heads_that_prove_nothing_take_nothing_from_what_may_be_summed_up(what: str) -> None:
    size = 3 * BLOCK_BYTES
    claimed, group = {
        "beyond the end": (5 * size, START + 1),
        "of a later group": (BLOCK_BYTES + 1, START + 64 * KIB),
        "of an earlier group": (BLOCK_BYTES + 1, START),
    }[what]
    heads = 100 * struct.pack(">IIIB3sqq", 0, claimed, group, journal_format.ENTRY, b"BKR", 3, 4)
    large = record(b"b" * size, group=START + len(heads))
    data = bytes(START) + heads + large

    too_little_after_one = claimed + size - 1
    assert journal_format.is_synced_beyond(data, START, SEED, checked_bytes_max=too_little_after_one)


@pytest.mark.parametrize("kept", range(1, 32))
def test_a_head_that_the_end_of_a_file_cut_proves_nothing(kept: int) -> None:
    data = bytes(START + 100) + record(b"b", group=START + 100)[:kept]

    assert not journal_format.is_synced_beyond(data, START, SEED)


def test_however_many_heads_were_checked_a_small_record_proves_it_and_so_does_each_padding() -> None:
    large = record(b"b" * (BLOCK_BYTES + 1), group=START + 100)
    padding = journal_format.pack_padding(SEED, START + 100, len(large))
    assert padding
    data = bytes(START + 100) + large

    def is_found(data: bytes) -> bool:
        return journal_format.is_synced_beyond(data, START, SEED, checked_bytes_max=0)

    assert not is_found(data)
    assert is_found(data + padding)
    assert is_found(data + record(b"b" * BLOCK_BYTES, group=START + 100))


def entry(ledger_id: int, entry_id: int, payload: bytes) -> bytes:
    return ledger_id.to_bytes(8, "big") + entry_id.to_bytes(8, "big") + bytes(8) + payload


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.binary(max_size=60)), min_size=1, max_size=9))
def test_a_run_of_entries_comes_back_entry_by_entry(pairs: list[tuple[int, bytes]]) -> None:
    entry_ids = [EntryId(entry_id) for entry_id, _ in pairs]
    bodies = [entry(3, entry_id, payload) for entry_id, payload in pairs]

    head, size = journal_format.pack_run(SEED, START, LedgerId(3), entry_ids, bodies)
    data = bytes(START) + head + b"".join(bodies)

    assert len(data) == START + size
    found = journal_format.unpack_record(data, START, SEED)
    assert found is not None
    expected = [
        (journal_format.ENTRY, 3, entry_id, body, len(data)) for entry_id, body in zip(entry_ids, bodies, strict=True)
    ]
    assert list(journal_format.expand(found)) == expected


def test_no_prefix_of_a_run_is_a_record_and_no_flipped_bit_goes_unseen() -> None:
    bodies = [entry(3, number, b"x" * number) for number in range(5)]
    head, _ = journal_format.pack_run(SEED, START, LedgerId(3), [EntryId(number) for number in range(5)], bodies)
    data = bytes(START) + head + b"".join(bodies)

    for size in range(START, len(data)):
        assert journal_format.unpack_record(data[:size], START, SEED) is None
    for bit in range(START * 8, len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert journal_format.unpack_record(bytes(flipped), START, SEED) is None, bit


@pytest.mark.parametrize(
    "body",
    [b"", bytes(3), (2).to_bytes(4, "big") + bytes(4), (1).to_bytes(4, "big") + (24).to_bytes(4, "big") + bytes(25)],
)
def test_entries_that_are_not_laid_out_as_written_are_refused(body: bytes) -> None:
    record = journal_format.WholeRecord(journal_format.ENTRIES, LedgerId(3), journal_format.NO_ENTRY, body, 0)

    with pytest.raises(BadInput, match="ledger 3"):
        list(journal_format.expand(record))
