"""How long a maintenance lease lasts (spec/metadata.md#M50)."""

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_S
from bookie.metadata import maintenance
from bookie.metadata.maintenance import LEASE_S_MAX, MaintenanceLease, StoredLease
from bookie.quorum.maintenance import SKEW_MS_MAX, Leases

A = BookieId("a:1")
AT_MS = 1_700_000_000_000


def stored(seconds: int = 100, written_ms: int = AT_MS, version: int = 0) -> StoredLease:
    return StoredLease(MaintenanceLease(seconds, "ann"), written_ms, version)


def test_it_lasts_its_seconds_by_our_clock_also_where_the_wall_clock_stands_still() -> None:
    leases = Leases()
    leases.seen({A: stored()}, 5)

    assert leases.valid(5 + 100 * NS_PER_S - 1, AT_MS) == {A}
    leases.seen({A: stored()}, 5 + 100 * NS_PER_S - 1)  # the same one, not a new one
    assert leases.valid(5 + 100 * NS_PER_S, AT_MS) == frozenset()


def test_it_lasts_its_seconds_by_the_wall_clock_also_for_an_auditor_that_begins_now() -> None:
    leases = Leases()
    leases.seen({A: stored()}, 0)

    assert leases.valid(0, AT_MS + 100_000 + SKEW_MS_MAX - 1) == {A}
    assert leases.valid(0, AT_MS + 100_000 + SKEW_MS_MAX) == frozenset()


@pytest.mark.parametrize("renewed", [stored(version=1), stored(written_ms=AT_MS + 1)])
def test_one_that_is_written_anew_begins_anew(renewed: StoredLease) -> None:
    leases = Leases()
    leases.seen({A: stored()}, 0)
    leases.seen({A: renewed}, 60 * NS_PER_S)

    assert leases.valid(150 * NS_PER_S, AT_MS) == {A}


def test_one_that_is_gone_is_over() -> None:
    leases = Leases()
    leases.seen({A: stored()}, 0)
    leases.seen({}, 1)

    assert leases.valid(1, AT_MS) == frozenset()


@pytest.mark.parametrize("seconds", [0, -1, LEASE_S_MAX + 1, True])
def test_a_lease_without_end_is_none(seconds: int) -> None:
    with pytest.raises(errors.BadInput, match="lasts from 1 s"):
        MaintenanceLease(seconds, "ann")


@pytest.mark.parametrize("data", [b"", b"[]", b'{"seconds": 1e9, "by": "ann"}', b'{"seconds": 9, "by": ""}', b"\xff"])
def test_what_is_no_lease_is_refused(data: bytes) -> None:
    with pytest.raises(errors.BadInput):
        maintenance.load_lease(data)


def test_what_is_written_can_be_read() -> None:
    lease = MaintenanceLease(LEASE_S_MAX, "ann@host", "why")

    assert maintenance.load_lease(maintenance.dump_lease(lease)) == lease
