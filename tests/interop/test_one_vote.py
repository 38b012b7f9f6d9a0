"""One fleet, both auto-recoveries: the official auditor and ours stand in one vote, the lead passes over both ways, and
each worker works off what the other kind's auditor marked (spec/metadata.md#M31, M45, M48)."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import children
import java_departure_support
import local_support
import wait_support
from bookie import blocking, connect
from bookie.base.ids import BookieId, LedgerId
from bookie.blocking import BlockingClient
from bookie.cli import main
from bookie.client.repair.auditor import Auditor
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.membership import Membership
from java_operator_support import JavaOperator

pytestmark = [pytest.mark.java, pytest.mark.slow]

OURS, OFFICIAL = "ours:1", "127.0.0.1:3181"


def until(condition: Callable[[], bool], what: str) -> None:
    wait_support.wait_until(condition, what, timeout_s=60)


def names(client: BlockingClient, ledgers: list[LedgerId], bookie: BookieId) -> bool:
    return any(client.metadata(each).names(bookie) for each in ledgers)


async def audit_with_ours(uri: str, is_done: Callable[[], bool], what: str) -> int:
    """Stand for auditor, and copy nothing, until `is_done`; return the marks made."""
    options = AutoRecoveryOptions(loss_delay_ms=0, check_interval_ms=0)
    async with connect.connect(uri) as client:
        recovery = AutoRecovery(client.shared.ledgers.store, client.shared.ledgers.root)
        members = Membership(client.shared, recovery, options)
        auditor = Auditor(client.shared, recovery, members, BookieId(OURS), options)
        running = asyncio.ensure_future(auditor.run())
        try:
            await asyncio.to_thread(until, is_done, what)
        finally:
            running.cancel()
        return auditor.counts.marked


def test_the_lead_passes_over_both_ways_and_each_works_off_the_other_s_marks(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def status() -> Any:
        assert main.main(["autorecovery", "status", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    with (
        local_support.fleet(tmp_path / "fleet", tmp_path / "fleet.log", bookies=4) as fleet,
        JavaOperator(fleet.uri, tmp_path / "official.log") as official,
        blocking.connect(fleet.uri) as client,
    ):
        monkeypatch.setenv("BOOKIE_METADATA_SERVICE_URI", fleet.uri)
        lost, next_lost = (BookieId(each.bookie_id) for each in fleet.bookies[:2])
        firsts = java_departure_support.write(client, 3, lost, ensemble_size=3, write_quorum=3, ack_quorum=2)

        # The official one stands first, and marks; only ours has a worker.
        official.start_auditor()
        until(lambda: status()["auditor"] == OFFICIAL, "the official auditor to lead")
        options = ("--name", OURS, "--loss-delay", "0", "--check-interval", "0")
        with (tmp_path / "ours.log").open("ab") as log:
            ours = children.spawn([*local_support.BOOKIE, "autorecovery", "run", *options], stderr=log)
        try:
            until(lambda: [each["worker"] for each in status()["workers"]] == [OURS], "our worker")
            local_support.stop(fleet.bookies[0])
            until(lambda: not names(client, firsts, lost), "our worker to work off the official marks")
            until(lambda: not status()["underReplicated"], "the marks to go")
            assert status()["auditor"] == OFFICIAL
            assert "is the auditor now" not in (tmp_path / "ours.log").read_text()

            official.stop_recovery()
            until(lambda: status()["auditor"] == OURS, "the lead to pass to ours")
            until(lambda: "is the auditor now" in (tmp_path / "ours.log").read_text(), "ours to know that it leads")

            official.start_auditor()
            ours.send_signal(signal.SIGTERM)
            assert ours.wait(60) == 0
            until(lambda: status()["auditor"] == OFFICIAL, "the lead to pass back to the official one")
        finally:
            children.end(ours, timeout_s=30)
        official.stop_recovery()
        for each in list(client.ledgers()):  # with two bookies left nobody could mend them
            client.delete(each)

        # Ours stands alone, and marks; only the official one has a worker.
        seconds = java_departure_support.write(client, 2, next_lost, ensemble_size=2, write_quorum=2, ack_quorum=2)
        official.start_worker()
        local_support.stop(fleet.bookies[1])
        marked = asyncio.run(
            audit_with_ours(
                fleet.uri, lambda: not names(client, seconds, next_lost), "the official worker to work off our marks"
            )
        )
        assert marked == len(seconds)
        until(lambda: not status()["underReplicated"], "our marks to go")
