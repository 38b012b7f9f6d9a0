"""What `bookie integrity` tells people, and when it refuses to ask for a grant."""

from typing import Any

import pytest

from bookie.cli import integrity, main


def report(**changes: Any) -> dict[str, Any]:
    mount = {"proof": "PROVEN", "reason": ""}
    volumes = [
        {"role": role, "name": role, "contents": "EMPTY", "reason": "", "mount": mount}
        for role in ("journal", "ledgers", "index")
    ]
    return {
        "bookieId": "bookie-0",
        "state": "WAITING_GRANT",
        "verdict": "LOST",
        "reason": "all volumes are empty",
        "incarnation": 2,
        "bootEpoch": 7,
        "cookiePresent": True,
        "cookieVersion": 3,
        "instanceId": "instance",
        "volumes": volumes,
        "evidenceHash": "abc",
        **changes,
    }


def test_a_bookie_that_waits_may_be_granted_and_the_plan_says_what_will_happen() -> None:
    plan = "\n".join(integrity.plan(report()))

    assert integrity.why_not(report()) is None
    assert "incarnation 2 -> 3" in plan
    assert "journal, ledgers, index" in plan
    assert "attach it instead" in plan


@pytest.mark.parametrize("verdict", ["STALE", "FOREIGN", "MOUNT_MISSING", "UNKNOWN_CONTENT", "COOKIE_MISSING"])
def test_a_held_bookie_is_never_granted(verdict: str) -> None:
    reason = integrity.why_not(report(state="HELD", verdict=verdict, reason="see to the disk"))

    assert reason is not None
    assert "see to the disk" in reason


@pytest.mark.parametrize("state", ["SERVING", "REPAIRING", "FENCING", "STARTING"])
def test_a_bookie_that_does_not_wait_needs_no_grant(state: str) -> None:
    assert integrity.why_not(report(state=state, verdict="HEALTHY")) is not None


def test_a_mount_problem_is_shown_beside_its_volume() -> None:
    bad = report()
    bad["volumes"][1] = {**bad["volumes"][1], "mount": {"proof": "MISSING", "reason": "not mounted"}}

    assert "mount MISSING: not mounted" in "\n".join(integrity.describe(bad))


def test_a_repair_is_told_in_one_line_with_its_first_trouble() -> None:
    line = integrity.progress_line(
        {
            "state": "REPAIRING",
            "phase": "two",
            "ledgersDone": 1,
            "ledgersPending": 2,
            "ledgersLimbo": 2,
            "entriesCopied": 10,
            "bytesCopied": 2048,
            "bytesPerSecond": 1024.0,
            "blocked": [{"ledgerId": 4, "reason": "nobody has entry 7"}, {"ledgerId": 5, "reason": "too"}],
        }
    )

    assert "2.0 KiB copied, 1.0 KiB/s" in line
    assert "ledger 4: nobody has entry 7 (and 1 more)" in line


def test_an_admin_port_where_nobody_listens_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(["integrity", "report", "--admin", "127.0.0.1:1"])

    assert code == main.FAILED
    assert "127.0.0.1:1" in capsys.readouterr().err
