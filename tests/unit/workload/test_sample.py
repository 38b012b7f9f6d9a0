"""What the oracle counts while it runs."""

from bookie.workload import records
from bookie.workload.sample import OracleSample


def test_acknowledgements_are_counted_for_all_for_the_steady_and_for_the_doomed_writer() -> None:
    sample = OracleSample()
    found = [
        records.Create(1, "steady", 9),
        records.Ack(1, 0, 10, "00"),
        records.Create(2, "doomed", 9),
        records.Ack(2, 0, 10, "00"),
        records.Ack(1, 1, 10, "00"),
        records.Create(3, "closing", 9),
        records.Ack(3, 0, 10, "00"),
        records.Close(3, 0),
        records.Fail(4, "NotEnoughBookies: three are needed"),
    ]

    for record in found:
        sample.count(record)

    assert (sample.created, sample.acknowledged, sample.closed, sample.failed) == (3, 4, 1, 1)
    assert (sample.steady_ledger, sample.steady_acknowledged) == (1, 2)
    assert (sample.doomed_ledger, sample.doomed_acknowledged) == (2, 1)
    assert sample.last_failure.startswith("NotEnoughBookies")


def test_a_new_steady_ledger_counts_from_nothing() -> None:
    sample = OracleSample()
    for record in (records.Create(1, "steady", 9), records.Ack(1, 0, 10, "00"), records.Create(5, "steady", 9)):
        sample.count(record)

    assert (sample.steady_ledger, sample.steady_acknowledged) == (5, 0)
