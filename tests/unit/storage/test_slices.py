"""A walk of rows by slices: every row once, in order, though rows come and go; and others run between two slices."""

import asyncio
import itertools
from collections.abc import Iterator

from bookie.storage.slices import Pairs, Rows, Slices, with_changes
from story_support import in_a_loop


def walking(rows: dict[bytes, bytes], count_max: int) -> Slices[list[bytes]]:
    def rows_from(start: bytes) -> Rows:
        return iter([(key, rows[key]) for key in sorted(rows) if key >= start])

    def keys(pairs: Pairs) -> list[bytes]:
        return [key for key, _ in pairs]

    return Slices(rows_from, b"", count_max, keys)


@in_a_loop
async def test_every_row_is_in_one_slice_and_none_is_larger_than_was_asked_for() -> None:
    rows = dict.fromkeys([b"a", b"aa", b"b", b"c", b"d"], b"")

    found: list[list[bytes]] = []
    async for part in walking(rows, 2):
        found.append(part)
        assert len(found) <= len(rows), "it never ends"

    assert found == [[b"a", b"aa"], [b"b", b"c"], [b"d"]]
    assert [part async for part in walking({}, 2)] == []


@in_a_loop
async def test_rows_that_come_and_go_behind_and_before_the_walk_change_none_of_the_others() -> None:
    rows = dict.fromkeys([b"b", b"d", b"f", b"h"], b"")
    found: list[list[bytes]] = []
    async for part in walking(rows, 2):
        found.append(part)
        rows[b"a"] = rows[b"e"] = b""
        rows.pop(b"b", None)
        rows.pop(b"f", None)

    assert found == [[b"b", b"d"], [b"e", b"h"]]


@in_a_loop
async def test_other_tasks_run_between_two_slices() -> None:
    """A walk of a million rows held the loop, and everybody who asked anything meanwhile."""
    log: list[str] = []

    async def other() -> None:
        while len(log) < 20:
            log.append("other")
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for _ in walking(dict.fromkeys([b"a", b"b", b"c"], b""), 1):
        log.append("slice")
    task.cancel()

    places = [place for place, what in enumerate(log) if what == "slice"]
    assert len(places) == 3
    assert all("other" in log[start:end] for start, end in itertools.pairwise(places))


def test_what_was_changed_is_told_with_what_is_stored_and_where_nothing_is_stored_too() -> None:
    stored = iter([(b"b", b"1"), (b"d", b"2"), (b"e", b"3")])
    changed: Iterator[tuple[bytes, str]] = iter([(b"a", "A"), (b"aa", "AA"), (b"d", "D"), (b"f", "F"), (b"g", "G")])

    found = list(with_changes(stored, changed, lambda change, row: change.encode() + (row or b"-")))

    assert found == [
        (b"a", b"A-"),
        (b"aa", b"AA-"),
        (b"b", b"1"),
        (b"d", b"D2"),
        (b"e", b"3"),
        (b"f", b"F-"),
        (b"g", b"G-"),
    ]
