"""Times in a status that are later than now count as now (spec/operator.md#K10)."""

from bookie_operator.model import dates, values
from bookie_operator.model.status import BookieClusterStatus, GrantRecord, HistoryEntry

NOW = "2026-11-26T12:00:00Z"
LATER = "2026-12-26T12:00:00Z"
EARLIER = "2026-11-25T12:00:00Z"


def test_the_brake_counts_what_a_clock_ahead_dated_from_now_on() -> None:
    entries = tuple(
        HistoryEntry(grant_id=at, bookie="one", incarnation=2, profile="p", granted_at=at) for at in (EARLIER, LATER)
    )

    found = dates.none_ahead(BookieClusterStatus(history=entries), values.parse_time(NOW))

    assert [one.granted_at for one in found.history] == [EARLIER, NOW]


def test_what_is_to_come_stays() -> None:
    grant = GrantRecord(
        id="g",
        bookie_id="b",
        pod_uid="p",
        evidence="e",
        report_evidence="r",
        cookie_version=1,
        new_incarnation=2,
        profile="p",
        epoch=1,
        issued_at=EARLIER,
        expires_at=LATER,
        issued_by="o",
    )

    assert dates.none_ahead(grant, values.parse_time(NOW)) is grant
