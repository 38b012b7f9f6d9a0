"""The table of wire status and quorum meaning (CONFORMANCE.md#B4, B5)."""

from bookie.base import errors


def test_every_status_but_ok_has_one_error_that_carries_it() -> None:
    for status, error in errors.BY_STATUS.items():
        assert error.status is status

    assert set(errors.BY_STATUS) == set(errors.Status) - {errors.Status.EOK}


def test_only_the_two_absences_are_explicit_negatives() -> None:
    negatives = {error for error in _tree(errors.BookieError) if error.answer is errors.Answer.NEGATIVE}

    assert negatives == {errors.NoSuchLedger, errors.NoSuchEntry}


def test_no_error_counts_as_a_positive() -> None:
    assert all(error.answer is not errors.Answer.POSITIVE for error in _tree(errors.BookieError))


def test_a_failed_disk_stops_the_node() -> None:
    assert errors.DiskFailed.fatal
    assert not errors.StorageFailed.fatal


def _tree(error: type[errors.BookieError]) -> set[type[errors.BookieError]]:
    return {error}.union(*(_tree(child) for child in error.__subclasses__()))
