"""A fleet that sleeps and wakes; a journal that is switched on and off."""

from __future__ import annotations

import os

import pytest

from fleet_support import Fleet

pytestmark = pytest.mark.cluster

CONFIG = "kubectl exec {pod} -- cat /etc/bookie/bookie.properties"


def all_are_others(fleet: Fleet, before: dict[str, str]) -> None:
    fleet.sees("all to be others", lambda: not fleet.uids().items() & before.items(), timeout_s=900.0)
    fleet.settled()


def running(fleet: Fleet) -> dict[str, str]:
    """The uids of the pods that run."""
    return {name: pod["metadata"]["uid"] for name, pod in fleet.pods().items() if pod["status"]["phase"] == "Running"}


def test_a_fleet_sleeps_and_wakes_and_then_takes_what_was_edited_meanwhile(fleet: Fleet) -> None:
    """The writers end first, as the page says: from the first flush on they get errors."""
    fleet.oracle.stop_writing()
    claims, lives = fleet.claim_uids(), fleet.incarnations()
    fleet.edits(lifecycle={"hibernate": True})
    fleet.types("kubectl wait bookiecluster $NAME --for=condition=Hibernated --timeout=10m")
    assert not fleet.pods()
    assert fleet.claim_uids() == claims
    assert fleet.condition("Ready")["reason"] == "Hibernated"
    assert fleet.condition("Stalled")["status"] == "False"

    # Paused, so that the look at who woke is over before the first of them restarts, however slow this machine is.
    fleet.edits(config={"flushInterval": "7300"}, rollout={"paused": True})
    fleet.says("Ready", "Hibernated")
    assert not fleet.pods(), "an edit wakes nobody"
    fleet.edits(lifecycle={"hibernate": None})
    awake = fleet.sees("all to run again", lambda: found if (found := running(fleet)).keys() == lives.keys() else None)
    assert "7300" not in fleet.types(CONFIG.format(pod=min(awake))), "it wakes with what it ran"
    fleet.edits(rollout={"paused": False})
    all_are_others(fleet, awake)
    assert "7300" in fleet.types(CONFIG.format(pod=min(awake)))
    assert (fleet.claim_uids(), fleet.incarnations()) == (claims, lives)
    told = fleet.types("kubectl get events.events.k8s.io")
    if not os.environ.get("DIES"):  # an operator that dies right after a status never tells its event
        assert all(word in told for word in ("HibernationStarted", "HibernationCompleted", "WakingUp", "WokenUp")), told
    fleet.edits(config={"flushInterval": None})


def test_the_journal_is_switched_on_and_off_again(fleet: Fleet) -> None:
    lives = fleet.incarnations()
    for written in ("true", "false"):
        before = fleet.uids()
        fleet.edits(storage={"journalWriteData": written == "true"})
        all_are_others(fleet, before)
        for pod in before:
            assert f"journalWriteData={written}" in fleet.types(CONFIG.format(pod=pod)).replace(" ", "")
        fleet.is_written_to()
    assert fleet.incarnations() == lives
