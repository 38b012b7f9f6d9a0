"""What `bookie integrity` tells people, and when it refuses to ask for a grant."""

from dataclasses import replace
from typing import Any

import pytest

from bookie.base.ids import BookieId, BootEpoch, Incarnation, LedgerId
from bookie.cli import main, reports
from bookie.ports.admin import (
    BlockedLedger,
    Contents,
    DiskFormat,
    MountProof,
    MountReport,
    RepairStatus,
    State,
    StorageReport,
    Verdict,
    VolumeReport,
)


def report(**changes: Any) -> StorageReport:
    volumes = tuple(
        VolumeReport(role, role, f"/data/{role}", MountReport(MountProof.PROVEN), Contents.EMPTY)
        for role in ("journal", "ledgers", "index")
    )
    lost = StorageReport(
        bookie_id=BookieId("bookie-0"),
        pod_uid="",
        state=State.WAITING_GRANT,
        verdict=Verdict.LOST,
        reason="all volumes are empty",
        incarnation=Incarnation(2),
        boot_epoch=BootEpoch(7),
        cookie_present=True,
        cookie_version=3,
        instance_id="instance",
        volumes=volumes,
        evidence_hash="abc",
    )
    return replace(lost, **changes)


def test_a_bookie_that_waits_may_be_granted_and_the_plan_says_what_will_happen() -> None:
    plan = "\n".join(reports.plan(report()))

    assert reports.why_not(report()) is None
    assert "incarnation 2 -> 3" in plan
    assert "journal, ledgers, index" in plan
    assert "attach them instead" in plan


@pytest.mark.parametrize("verdict", [one for one in Verdict if one.is_held])
def test_a_held_bookie_is_never_granted(verdict: Verdict) -> None:
    reason = reports.why_not(report(state=State.HELD, verdict=verdict, reason="see to the disk"))

    assert reason is not None
    assert "see to the disk" in reason


@pytest.mark.parametrize("state", [State.SERVING, State.REPAIRING, State.FENCING, State.STARTING])
def test_a_bookie_that_does_not_wait_needs_no_grant(state: State) -> None:
    assert reports.why_not(report(state=state, verdict=Verdict.HEALTHY)) is not None


@pytest.mark.parametrize(("state", "is_told"), [(State.SERVING, False), (State.REPAIRING, True)])
def test_a_bookie_whose_volumes_agree_is_not_called_whole_while_it_repairs(state: State, *, is_told: bool) -> None:
    shown = "\n".join(reports.describe(report(state=state, verdict=Verdict.HEALTHY)))

    assert ("it is not whole: " in shown) is is_told
    assert ("`bookie integrity status`" in shown) is is_told


def test_a_mount_problem_is_shown_beside_its_volume() -> None:
    journal, ledgers, index = report().volumes
    bad = report(
        volumes=(journal, replace(ledgers, mount=MountReport(MountProof.MISSING, reason="not mounted")), index)
    )

    assert "mount MISSING: not mounted" in "\n".join(reports.describe(bad))


def test_the_formats_on_its_volumes_are_shown_and_of_an_older_release_nothing() -> None:
    known = (DiskFormat("journal", 3, 3, 3), DiskFormat("index", 2, 3, 2))

    assert "  formats on disk: journal 3, index 2 (reads 2 to 3)" in reports.describe(report(formats=known))
    assert "formats" not in "\n".join(reports.describe(report()))


def test_a_repair_is_told_in_one_line_with_its_first_trouble() -> None:
    line = reports.progress_line(
        RepairStatus(
            state=State.REPAIRING,
            phase="two",
            ledgers_done=1,
            ledgers_pending=2,
            ledgers_limbo=2,
            entries_copied=10,
            bytes_copied=2048,
            bytes_per_second=1024.0,
            blocked=(BlockedLedger(LedgerId(4), "nobody has entry 7"), BlockedLedger(LedgerId(5), "too")),
        )
    )

    assert "2.0 KiB copied, 1.0 KiB/s" in line
    assert "ledger 4: nobody has entry 7 (and 1 more)" in line


def test_an_admin_port_where_nobody_listens_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(["integrity", "report", "--admin", "127.0.0.1:1"])

    assert code == main.FAILED
    assert "127.0.0.1:1" in capsys.readouterr().err
