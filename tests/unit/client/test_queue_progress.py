"""How far a worker is with the queue, and until when (docs/RECOVERY.md)."""

import dataclasses
import json

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_S
from bookie.client.repair import queue_progress
from bookie.client.repair.queue_progress import Progress, QueueProgress
from bookie.metadata.ledger import new_ledger
from bookie.quorum.mending import Mending, Shortage

A, B, C = (BookieId(f"{name}:1") for name in "abc")
ONE, TWO, THREE = LedgerId(1), LedgerId(2), LedgerId(3)
HUNDRED = new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=(A, B, C)).closed(EntryId(98), 9_900)


def test_what_is_left_is_what_looks_found_and_the_mean_of_it_for_the_others() -> None:
    queue = QueueProgress()
    queue.judged(ONE, HUNDRED, Mending(fills=(Shortage(A, 10, EntryId(0)),)))
    queue.judged(TWO, HUNDRED, Mending(lost=(B,)))  # two thirds of 99 entries

    found = queue.estimate([ONE, TWO, THREE], [], 0)

    assert (found.ledgers_left, found.entries_left, found.bytes_left) == (3, 76 + 38, 7_600 + 3_800)
    assert found.seconds_left is None, "nothing was copied yet"


def test_before_any_look_nobody_knows_what_is_left() -> None:
    found = QueueProgress().estimate([ONE], [], 0)

    assert (found.ledgers_left, found.entries_left, found.bytes_left, found.seconds_left) == (1, None, None, None)


def test_an_empty_queue_is_done() -> None:
    found = QueueProgress().estimate([], [], 0)

    assert (found.ledgers_left, found.entries_left, found.seconds_left) == (0, 0, 0)


def test_the_time_follows_from_the_speed_of_the_last_minute() -> None:
    queue = QueueProgress()
    queue.judged(ONE, HUNDRED, Mending(lost=(A,)))
    for second in range(10):
        queue.copied(ONE, 100, second * NS_PER_S)

    found = queue.estimate([ONE], [], 10 * NS_PER_S)

    assert (found.entries_done, found.bytes_done, found.entries_left, found.bytes_left) == (10, 1_000, 56, 5_600)
    assert (found.entries_per_s, found.bytes_per_s, found.seconds_left) == (1.0, 100.0, 56)
    later = queue.estimate([ONE], [], 100 * NS_PER_S)
    assert (later.entries_left, later.seconds_left) == (56, None), "it stands still"


def test_what_is_blocked_has_no_time_and_does_not_count() -> None:
    queue = QueueProgress()
    queue.judged(ONE, HUNDRED, Mending(lost=(A,)))
    queue.judged(TWO, HUNDRED, Mending(fills=(Shortage(A, 1, EntryId(0)),)))

    found = queue.estimate([ONE, TWO], [ONE], 0)

    assert (found.ledgers_left, found.ledgers_blocked, found.entries_left) == (1, 1, 1)


def test_the_last_look_counts_and_no_copy_too_many_makes_it_less_than_nothing() -> None:
    queue = QueueProgress()
    queue.judged(ONE, HUNDRED, Mending(lost=(A,)))
    queue.judged(ONE, HUNDRED, Mending(fills=(Shortage(A, 2, EntryId(0)),)))
    for _ in range(3):
        queue.copied(ONE, 1_000, 0)

    assert queue.estimate([ONE], [], 0).entries_left == 0
    assert queue.estimate([ONE], [], 0).bytes_left == 0


def test_workers_on_one_queue_are_faster_together() -> None:
    one = Progress(5, 0, 0, 0, 100, 10_000, 2.0, 200.0, 50)

    assert queue_progress.together([]) == (None, None, None)
    assert queue_progress.together([one, dataclasses.replace(one, entries_left=90)]) == (100, 10_000, 25)
    assert queue_progress.together([dataclasses.replace(one, entries_left=None, bytes_left=None)]) == (None, None, None)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"ledgers_left": "many"}', b"\xff"])
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(errors.BadInput):
        queue_progress.load_progress(data)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ledgers_left": None},
        {"ledgers_left": 1.5},
        {"entries_left": True},
        {"entries_left": -1},
        {"entries_left": 1 << 63},
        {"bytes_left": "1"},
        {"entries_per_s": None},
        {"entries_per_s": float("nan")},
        {"entries_per_s": float("inf")},
        {"given_up": 7},
    ],
)
def test_a_report_whose_numbers_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    usual = dataclasses.asdict(Progress(5, 0, 0, 0, 100, 10_000, 2.0, 200.0, 50))
    queue_progress.load_progress(json.dumps(usual).encode())

    with pytest.raises(errors.BadInput, match=next(iter(wrong))):
        queue_progress.load_progress(json.dumps({**usual, **wrong}).encode())


def test_what_hardly_moves_has_no_time() -> None:
    assert queue_progress.seconds_left((1 << 63) - 1, 5e-324) is None
    assert queue_progress.seconds_left(100, 0.0) is None
    assert queue_progress.seconds_left(100, 0.1) == 1_000


def test_what_is_written_can_be_read() -> None:
    progress = Progress(5, 0, 0, 0, None, None, 2.0, 200.5, None)

    assert queue_progress.load_progress(queue_progress.dump_progress(progress)) == progress


def test_a_reason_is_one_line_however_it_was_written_and_an_older_release_tells_none() -> None:
    progress = Progress(5, 0, 0, 0, None, None, 2.0, 200.5, None, "no\n\ud800" + "x" * 1_000)
    older = dataclasses.asdict(progress)
    del older["given_up"]

    shown = queue_progress.load_progress(queue_progress.dump_progress(progress))

    assert shown.given_up == "no??" + "x" * 296
    assert queue_progress.load_progress(queue_progress.dump_progress(shown)) == shown
    assert queue_progress.load_progress(json.dumps(older).encode()).given_up == ""
