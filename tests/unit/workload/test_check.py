"""The oracle's verdict: what was acknowledged comes back byte for byte, or is counted and named."""

import pytest

from bookie.base import errors
from bookie.workload import check, payload, records

SEED = 5


def expected(*, entries: int = 3, closed_at: int | None = None) -> check.AcknowledgedLedger:
    found: list[records.Record] = [records.Time(1000), records.Create(7, "closing", SEED)]
    for entry_id in range(entries):
        body = payload.payload(SEED, 7, entry_id)
        found += [records.Time(1000 + entry_id), records.Ack(7, entry_id, len(body), payload.digest(body))]
    if closed_at is not None:
        found.append(records.Close(7, closed_at))
    return check.expectations(found)[7]


def test_the_acknowledged_bytes_are_verified() -> None:
    verdict = check.CheckResult()

    verdict.judge_entry(expected(), 1, payload.payload(SEED, 7, 1))

    assert (verdict.verified, verdict.lost, verdict.is_clean) == (1, 0, True)


def test_one_flipped_bit_is_a_lost_entry() -> None:
    verdict = check.CheckResult()
    body = bytearray(payload.payload(SEED, 7, 1))
    body[10] ^= 1

    verdict.judge_entry(expected(), 1, bytes(body))

    assert (verdict.verified, verdict.lost) == (0, 1)
    assert "ledger 7 entry 1" in verdict.problems[0]


def test_another_entrys_bytes_are_a_lost_entry() -> None:
    verdict = check.CheckResult()

    verdict.judge_entry(expected(), 1, payload.payload(SEED, 7, 2))

    assert verdict.lost == 1


def test_a_ledger_that_ends_before_an_acknowledged_entry_is_a_problem() -> None:
    verdict = check.CheckResult()

    verdict.judge_end(expected(entries=3), 1)

    assert verdict.problems == ["ledger 7 ends at 1, and entry 2 was acknowledged"]


def test_a_ledger_may_end_beyond_what_was_recorded_unless_its_writer_closed_it() -> None:
    verdict = check.CheckResult()

    verdict.judge_end(expected(entries=3), 5)
    assert verdict.is_clean

    verdict.judge_end(expected(entries=3, closed_at=2), 5)
    assert verdict.problems == ["ledger 7 was closed at 2 and now ends at 5"]


def test_entries_are_told_apart_by_when_they_were_acknowledged() -> None:
    assert expected(entries=4).acknowledged_before(1002) == [0, 1]


def test_problems_are_bounded_and_counts_are_not() -> None:
    verdict = check.CheckResult()
    for _ in range(100):
        verdict.lost_entries(expected(), [1, 2], "gone")

    assert (verdict.lost, len(verdict.problems)) == (200, check.PROBLEMS_MAX)


def test_payloads_differ_by_seed_ledger_and_entry_and_stay_in_bounds() -> None:
    made = {payload.payload(seed, ledger, entry) for seed in (1, 2) for ledger in (1, 11) for entry in range(50)}

    assert len(made) == 200
    assert all(payload.SIZE_BYTES_MIN <= len(body) <= payload.SIZE_BYTES_MAX for body in made)
    assert payload.payload(1, 11, 1) == payload.payload(1, 11, 1)


def test_a_ledger_that_could_not_be_created_expects_nothing() -> None:
    assert check.expectations([records.Fail(-1, "MetadataError: nobody answers")]) == {}


@pytest.mark.parametrize("record", [records.Ack(7, 0, 3, "d"), records.Close(7, 0)])
def test_a_log_whose_beginning_is_missing_is_refused(record: records.Record) -> None:
    with pytest.raises(errors.BadInput, match="ledger 7 and none of its creation"):
        check.expectations([records.Create(8, "steady", 1), record])
