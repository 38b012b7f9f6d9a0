"""When sockets are read: full above the budget, open again below half of it."""

from bookie.server.admission import REQUEST_OVERHEAD_BYTES, Admission


def test_reading_stops_above_the_budget_and_goes_on_below_half_of_it() -> None:
    admission = Admission(limit_bytes=10 * (100 + REQUEST_OVERHEAD_BYTES))

    for _ in range(10):
        admission.take(100, 1)
    assert not admission.is_full
    admission.take(100, 1)
    assert admission.is_full

    reopened = [admission.give(100, 1) for _ in range(11)]

    assert reopened.index(True) == 5
    assert reopened.count(True) == 1
    assert admission.in_flight_bytes == 0


def test_a_bookie_that_was_never_full_never_reopens() -> None:
    admission = Admission()
    admission.take(1, 1)

    assert admission.give(1, 1) is False
