"""A bookie of ours leaves alive under an official client: its writer goes on, and it reads everything afterwards."""

import pytest

import java_support
import wait_support
from bookie.cli import main
from java_fleet_support import JudgedFleet
from java_support import JavaClient
from local_support import MortalBookie

pytestmark = pytest.mark.java

ENTRIES = 31


def test_what_a_drained_bookie_held_is_read_and_its_writer_was_not_fenced(
    fleet: JudgedFleet, java: JavaClient, mortal: MortalBookie
) -> None:
    closed, still_open = (java_support.create_on(java, mortal.bookie_id, ensemble=3, write=2, ack=2) for _ in range(2))
    for ledger in (closed, still_open):
        java.append(ledger["handle"], list(java_support.payloads(ledger["ledger"], ENTRIES)))
    java.ask("close", handle=closed["handle"])

    def drain(*words: str) -> int:
        return main.main(["node", "drain", *words, "--admin", mortal.admin])

    assert drain() == 0
    java.append(still_open["handle"], list(java_support.payloads(still_open["ledger"], ENTRIES)))
    java.ask("close", handle=still_open["handle"])
    wait_support.wait_until(lambda: drain("--status") == 0, "the bookie is empty", timeout_s=90)
    mortal.stop()

    assert main.main(["cluster", "references", mortal.bookie_id, "--metadata-service-uri", fleet.uri]) == 0
    for ledger, times in ((closed, 1), (still_open, 2)):
        stored = java.ask("metadata", ledger=ledger["ledger"])
        assert (stored["state"], stored["last"]) == ("CLOSED", times * ENTRIES - 1)
        assert all(mortal.bookie_id not in segment["bookies"] for segment in stored["segments"])
        reader = java.ask("open", ledger=ledger["ledger"])
        written = list(java_support.payloads(ledger["ledger"], ENTRIES)) * times
        assert java.read(reader["handle"], 0, times * ENTRIES - 1) == written
    # Nobody waits for it any more, neither our commands nor the official shell, which later tests ask.
    assert main.main(["cluster", "decommission", mortal.bookie_id, "--yes", "--metadata-service-uri", fleet.uri]) == 0
