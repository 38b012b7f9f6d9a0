"""What a fill counts and tells: nothing twice, nothing before it is durable, and never that all is here when it is not
known."""

import pytest

from bookie.base import errors
from bookie.base.ids import BootEpoch, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.integrity.fill_progress import FILL_BLOCKED_SHOWN_MAX, FillProgress

ONE, TWO = LedgerId(1), LedgerId(2)


class Clock:
    def __init__(self) -> None:
        self.now_ns = 5 * NS_PER_MS

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0

    async def sleep_until(self, deadline_ns: int) -> None:
        raise AssertionError("nobody waits here")


def begun() -> FillProgress:
    progress = FillProgress(Clock())
    progress.begin(BootEpoch(1))
    return progress


def test_before_the_first_run_nothing_is_said_to_be_here() -> None:
    status = FillProgress(Clock()).snapshot()

    assert (status.is_running, status.is_whole, status.began_ms_ago, status.ended_ms_ago) == (False, False, -1, -1)
    assert status.reason == "no fill has begun since this bookie started"


def test_times_are_those_of_the_present_run() -> None:
    clock = Clock()
    progress = FillProgress(clock)
    for end in range(2):
        progress.begin(BootEpoch(1))
        assert progress.snapshot().ended_ms_ago == -1, f"it runs, after {end} that ended"
        clock.now_ns += 7 * NS_PER_MS
        progress.end()
        clock.now_ns += 2 * NS_PER_MS
        assert (progress.snapshot().began_ms_ago, progress.snapshot().ended_ms_ago) == (9, 2)


def test_a_run_that_waits_says_why_until_it_begins() -> None:
    progress = FillProgress(Clock())

    progress.waits("phase two comes first")
    waiting = progress.snapshot()
    progress.begin(BootEpoch(1))

    assert (waiting.is_waiting, waiting.is_running, waiting.reason) == (True, False, "phase two comes first")
    begun_ = progress.snapshot()
    assert (begun_.is_waiting, begun_.is_running, begun_.reason) == (False, True, "")


def test_each_run_counts_for_itself() -> None:
    """What a run that broke off had fetched and not made durable is found missing again, and counted then."""
    progress = begun()
    progress.named(3)
    progress.looked()
    progress.found(ONE, 4)
    progress.copied(100)
    progress.left(ONE, 0)
    progress.end(errors.DiskFull("no space"))

    progress.begin(BootEpoch(2))
    assert progress.entries_missing == 0
    progress.durable()

    status = progress.snapshot()
    assert (status.ledgers_total, status.ledgers_done) == (0, 0)
    assert (status.entries_copied, status.bytes_copied, status.entries_missing, status.boot_epoch) == (0, 0, 0, 2)


def test_entries_count_as_here_once_they_are_durable_and_only_once() -> None:
    progress = begun()
    progress.found(ONE, 2)
    progress.copied(100)
    progress.copied(50)
    progress.left(ONE, 0)
    before = progress.snapshot()
    assert progress.fetched == (2, 150)

    progress.durable()
    progress.durable()

    after = progress.snapshot()
    assert (before.entries_copied, before.bytes_copied, before.entries_missing) == (0, 0, 2)
    assert (after.entries_copied, after.bytes_copied, after.entries_missing) == (2, 150, 0)
    assert progress.fetched == (0, 0)


def test_what_a_copy_left_out_stays_missing() -> None:
    progress = begun()
    progress.found(ONE, 5)
    progress.left(ONE, 3)
    progress.durable()

    assert progress.entries_missing == 3


def test_a_later_look_counts_and_not_what_an_earlier_copy_would_have_left() -> None:
    progress = begun()
    progress.found(ONE, 5)
    progress.left(ONE, 0)
    progress.found(ONE, 2)  # lost again before the flush, as a bad entry is
    progress.durable()

    assert progress.entries_missing == 2
    progress.found(ONE, 0)
    assert progress.entries_missing == 0


@pytest.mark.parametrize("spoils", ["error", "blocked", "missing", None])
def test_all_is_here_only_after_a_run_to_its_end_that_left_nothing(spoils: str | None) -> None:
    progress = begun()
    if spoils == "blocked":
        progress.block(ONE, "nobody has it")
    if spoils == "missing":
        progress.found(ONE, 1)
    progress.end(errors.MetadataError("not allowed") if spoils == "error" else None)

    assert progress.is_whole is (spoils is None)
    expected = {
        "error": "the run ended before its end: not allowed; start it again",
        "blocked": "1 ledgers are blocked",
    }
    assert progress.snapshot().reason == expected.get(str(spoils), "")


def test_a_run_that_broke_off_takes_no_blocked_ledger_from_the_list() -> None:
    progress = begun()
    progress.block(ONE, "nobody has it")
    progress.end()
    progress.begin(BootEpoch(1))
    progress.end(errors.MetadataError("not allowed"))
    assert [one.ledger_id for one in progress.snapshot().blocked] == [ONE]

    progress.begin(BootEpoch(1))  # and now it is deleted: no look comes
    progress.end()
    assert progress.snapshot().blocked == ()
    assert progress.is_whole


def test_a_ledger_that_is_blocked_again_stays_listed_and_is_no_news() -> None:
    progress = begun()
    assert progress.block(ONE, "nobody has it")
    assert not progress.block(ONE, "nobody has it")
    assert progress.block(ONE, "nobody answers")
    progress.end()
    progress.begin(BootEpoch(1))
    assert not progress.block(ONE, "nobody answers")
    progress.end()

    assert [(one.ledger_id, one.reason) for one in progress.snapshot().blocked] == [(ONE, "nobody answers")]
    assert not progress.is_whole


def test_a_ledger_that_is_filled_in_the_end_is_blocked_no_more() -> None:
    progress = begun()
    progress.block(ONE, "nobody has it")
    progress.block(TWO, "nobody has it")
    progress.unblock(TWO)
    progress.end()
    progress.begin(BootEpoch(1))
    progress.unblock(ONE)
    assert progress.snapshot().blocked == ()
    progress.end()

    assert progress.is_whole


def test_the_list_of_the_blocked_is_short_and_their_number_is_whole() -> None:
    progress = begun()
    for number in range(FILL_BLOCKED_SHOWN_MAX + 5, 0, -1):
        progress.block(LedgerId(number), "nobody has it")

    status = progress.snapshot()

    assert [one.ledger_id for one in status.blocked] == list(range(1, FILL_BLOCKED_SHOWN_MAX + 1))
    assert status.blocked_count == FILL_BLOCKED_SHOWN_MAX + 5


def test_what_records_claim_to_be_missing_fits_into_what_is_told() -> None:
    progress = begun()
    progress.found(ONE, 2**63 - 1)
    progress.found(TWO, 1)

    assert progress.snapshot().entries_missing == 2**63 - 1
