"""Whom `bookie integrity grant` gives a grant, what that grant says, and what is said of the repair after it."""

import pytest

from bookie.base.ids import BookieId, LedgerId
from bookie.cli import reports
from bookie.ports.admin import BlockedLedger, RepairStatus, State, StorageReport, Verdict


def report(verdict: Verdict, state: State = State.HELD) -> StorageReport:
    return StorageReport(BookieId("b1"), "", state, verdict, "it is of boot 3, the last was 5")


def test_a_bookie_that_waits_for_a_grant_may_get_one() -> None:
    found = report(Verdict.LOST, State.WAITING_GRANT)

    assert reports.why_not(found) is None
    assert not reports.grant_for(found, "a test").accepts_stale


def test_volumes_that_went_back_in_time_are_granted_only_to_who_gives_up_what_they_lack() -> None:
    refusal = reports.why_not(report(Verdict.STALE))

    assert refusal is not None
    for word in ("it is of boot 3", "Bring the newer volume back", "--give-up-stale"):
        assert word in refusal
    assert reports.why_not(report(Verdict.STALE), gives_up_stale=True) is None
    assert reports.grant_for(report(Verdict.STALE), "a test", accepts_stale=True).accepts_stale


@pytest.mark.parametrize("verdict", [one for one in Verdict if one.is_held and one is not Verdict.STALE])
def test_no_flag_opens_another_hold(verdict: Verdict) -> None:
    assert reports.why_not(report(verdict), gives_up_stale=True) is not None


def test_the_plan_says_what_stays_on_volumes_that_went_back_and_which_ones_would_be_better() -> None:
    stale, lost = (reports.plan(report(verdict))[-2:] for verdict in (Verdict.STALE, Verdict.LOST))

    assert "keep what is on" in stale[0]
    assert "If newer volumes of it still exist, attach them" in stale[1]
    assert "keep" not in lost[0]
    assert "If the volumes that had its data still exist, attach them" in lost[1]


def test_the_plan_for_a_stopped_bookie_does_not_promise_to_serve() -> None:
    serves, ends = (reports.plan(report(Verdict.LOST), is_stopped=stopped)[-2] for stopped in (False, True))

    assert serves.startswith("  3. serve, ")
    assert ends.startswith("  3. end; once it is started, serve, ")


def test_a_repair_that_waits_names_the_next_thing_to_try() -> None:
    blocked = (BlockedLedger(LedgerId(8), "nobody can say"), BlockedLedger(LedgerId(9), "nobody can say"))

    stuck = reports.left_of_repair(RepairStatus(State.REPAIRING, blocked=blocked))

    assert stuck.endswith("; `bookie autorecovery explain 8` says what ledger 8 waits for, and what helps")
    assert "explain" not in reports.left_of_repair(RepairStatus(State.REPAIRING))
    assert "`bookie integrity grant`" in reports.left_of_repair(RepairStatus(State.WAITING_GRANT, blocked=blocked))
    assert "`bookie integrity report`" in reports.left_of_repair(RepairStatus(State.HELD))
