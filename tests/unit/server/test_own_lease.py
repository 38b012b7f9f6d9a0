"""A bookie that is to be stopped takes a maintenance lease for itself; a person's stays (spec/metadata.md#M50)."""

import pytest

from bookie.metadata import maintenance
from bookie.metadata.maintenance import MaintenanceLease, StoredLease
from bookie.server import own_lease
from bookie.server.own_lease import LEASE_S

NOW_MS = 1_000_000_000


def stored(by: str, left_s: int) -> StoredLease:
    """A lease of a thousand seconds of which so much is left."""
    return StoredLease(MaintenanceLease(1000, by, "why"), NOW_MS - (1000 - left_s) * 1000, 3)


@pytest.mark.parametrize(
    "stands", [None, stored(maintenance.BOOKIE, 900), stored("ann@host", 0), stored("ann@host", -9)]
)
def test_where_no_person_has_one_it_is_the_bookies(stands: StoredLease | None) -> None:
    lease = own_lease._after(stands, NOW_MS)

    assert lease is not None
    assert (lease.by, lease.seconds) == (maintenance.BOOKIE, LEASE_S)


def test_a_persons_that_ends_sooner_lasts_as_long_and_stays_that_persons() -> None:
    assert own_lease._after(stored("ann@host", 5), NOW_MS) == MaintenanceLease(LEASE_S, "ann@host", "why")


def test_a_persons_that_lasts_longer_stands() -> None:
    assert own_lease._after(stored("ann@host", LEASE_S), NOW_MS) is None
