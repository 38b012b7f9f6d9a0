"""Groups: what is put together is cut together, and each group knows where it begins."""

import pytest

from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.batch import GroupPacker


def put(batcher: GroupPacker, body: bytes) -> None:
    batcher.put(journal_format.ENTRY, LedgerId(1), EntryId(2), body, None)


def bodies(data: bytes, start: int, seed: int) -> list[bytes]:
    """Of all records but padding."""
    found = []
    while (record := journal_format.unpack_record(data, start, seed)) is not None:
        found += [one.body for one in journal_format.expand(record)]
        start = record.end
    return found


def test_a_group_is_what_was_put_since_the_last_cut() -> None:
    batcher = GroupPacker(seed=9, start=4096)
    put(batcher, b"a")
    put(batcher, b"bb")

    group = batcher.cut()
    put(batcher, b"c")

    assert (group.start, group.count) == (4096, 2)
    assert group.end == batcher.pending.start == 8192
    assert bodies(bytes(4096) + b"".join(group.buffers), 4096, 9) == [b"a", b"bb"]
    assert bodies(bytes(group.end) + b"".join(batcher.cut().buffers), group.end, 9) == [b"c"]


def test_a_cut_may_open_a_new_file_with_its_own_seed() -> None:
    batcher = GroupPacker(seed=9, start=4096)
    put(batcher, b"old")

    batcher.cut(next_seed=11)
    put(batcher, b"new")
    group = batcher.cut()

    assert group.start == journal_format.FIRST_GROUP
    data = bytes(group.start) + b"".join(group.buffers)
    assert bodies(data, group.start, 11) == [b"new"]
    assert bodies(data, group.start, 9) == []


def test_completions_belong_to_the_group_of_their_record() -> None:
    batcher = GroupPacker(seed=9, start=4096)
    told: list[BookieError | None] = []
    batcher.put(journal_format.FENCE, LedgerId(1), EntryId(-1), b"", told.append)

    group = batcher.cut()

    assert group.completions == [told.append]
    assert batcher.pending.completions == []
    assert told == []


def test_entries_of_one_ledger_are_one_record_with_one_completion() -> None:
    batcher = GroupPacker(seed=9, start=4096)
    done: list[BookieError | None] = []
    bodies_ = [bytes(7) + b"\x01" + number.to_bytes(8, "big") + bytes(16) for number in range(3)]

    batcher.put_run(LedgerId(1), [EntryId(number) for number in range(3)], bodies_, done.append)
    group = batcher.cut()

    assert (group.count, len(group.completions)) == (1, 1)
    data = bytes(4096) + b"".join(group.buffers)
    assert len(data) == group.end
    record = journal_format.unpack_record(data, 4096, 9)
    assert record is not None
    assert [one.body for one in journal_format.expand(record)] == bodies_


def test_entries_of_many_ledgers_are_a_record_each_and_have_one_completion() -> None:
    batcher = GroupPacker(seed=9, start=4096)
    done: list[BookieError | None] = []

    batcher.put_mix([LedgerId(1), LedgerId(2)], [EntryId(5), EntryId(0)], [b"a", b"bb"], done.append)
    group = batcher.cut()

    assert (group.count, group.completions) == (2, [done.append])
    data = bytes(4096) + b"".join(group.buffers)
    assert len(data) == group.end
    assert bodies(data, 4096, 9) == [b"a", b"bb"]


def test_an_entry_without_an_id_or_a_body_is_a_defect_and_is_not_left_out() -> None:
    """Left out it would be acknowledged with the others."""
    batcher = GroupPacker(seed=9, start=4096)
    ids, both = [EntryId(0), EntryId(1)], [LedgerId(1), LedgerId(2)]

    with pytest.raises(ValueError, match="shorter"):
        batcher.put_mix(both, ids, [b"a"], lambda _: None)
    with pytest.raises(ValueError, match="shorter"):
        batcher.put_mix(both, ids[:1], [b"a", b"b"], lambda _: None)


@pytest.mark.parametrize("lacking", [0, 1, 31, 32, 33, 4095])
def test_a_group_that_is_cut_ends_where_a_block_does_and_every_byte_of_it_is_checked(lacking: int) -> None:
    batcher = GroupPacker(seed=9, start=4096)
    put(batcher, b"x" * (8192 - lacking - journal_format.RECORD_HEAD_SIZE))

    group = batcher.cut()

    data = b"".join(group.buffers)
    assert len(data) == group.size_bytes
    assert len(data) % 4096 == 0
    assert len(data) - (8192 - lacking) < 4096 + journal_format.RECORD_HEAD_SIZE
    whole = journal_format.unpack_record(bytes(4096) + data, 4096, 9)
    assert whole is not None
    if lacking:
        padding = journal_format.unpack_record(bytes(4096) + data, whole.end, 9)
        assert padding is not None
        assert (padding.kind, padding.end) == (journal_format.PADDING, group.end)
        assert list(journal_format.expand(padding)) == []
        for rotten in (whole.end - 4096, len(data) - 1):
            torn = bytearray(bytes(4096) + data)
            torn[4096 + rotten] ^= 1
            assert journal_format.unpack_record(bytes(torn), whole.end, 9) is None


def test_a_group_that_is_padded_twice_is_padded_once() -> None:
    batcher = GroupPacker(seed=9, start=4096)
    put(batcher, b"a")

    assert batcher.pad().end == batcher.pad().end == batcher.cut().end == 8192


def test_nothing_put_is_nothing_padded() -> None:
    assert GroupPacker(seed=9, start=4096).cut().buffers == []
