"""From the status of a BookieCluster to what the story tells."""

from typing import Any

import kube_view


def status(**entry: Any) -> dict[str, Any]:
    bookie = {"name": "demo-a-0", "bookieId": "ns.demo.a.0", "state": "Serving", "verdict": "Healthy", "incarnation": 1}
    return {"bookies": [bookie | entry]}


def look(found: dict[str, Any], before: int = 1) -> kube_view.Observation:
    return kube_view.observation(found, "demo-a-0", [], incarnation_before=before)


def test_a_bookie_that_still_shows_its_old_life_is_not_done() -> None:
    assert not look(status()).done


def test_serving_under_a_new_incarnation_is_done() -> None:
    seen = look(status(incarnation=2))

    assert seen.done
    assert seen.data_port_open


def test_a_closed_gate_is_told() -> None:
    gates = [{"name": "G5", "message": "another bookie is down"}]

    assert look(status(state="Confirmed", gates=gates)).notes == ("gate G5 closed: another bookie is down",)


def test_the_figures_of_a_finished_repair_come_from_the_history() -> None:
    found = status(incarnation=2) | {
        "history": [{"bookie": "demo-a-0", "phaseOneMs": 80, "entries": 9, "bytes": 90, "ledgers": 3}]
    }

    seen = look(found)

    assert (seen.phase_one_ms, seen.entries_copied, seen.bytes_copied, seen.ledgers_done) == (80, 9, 90, 3)


def test_events_are_sentences_about_one_bookie_in_their_order() -> None:
    events = [
        {"reason": reason, "note": note, "eventTime": when, "metadata": {}, "reportingController": controller}
        for reason, note, when, controller in (
            ("RegenerationGranted", "demo-a-0: granted", "2", "bookie-operator"),
            ("EmptyVolumeSuspected", "demo-a-0: empty", "1", "bookie-operator"),
            ("EmptyVolumeSuspected", "demo-b-0: empty", "1", "bookie-operator"),
            ("Scheduled", "assigned demo-a-0", "0", "scheduler"),
        )
    ]

    assert kube_view.sentences(events, "demo-a-0") == [
        "operator: EmptyVolumeSuspected: demo-a-0: empty",
        "operator: RegenerationGranted: demo-a-0: granted",
    ]


def test_a_fleet_that_is_not_ready_says_why_in_the_words_of_its_condition() -> None:
    why = {"type": "Ready", "status": "False", "reason": "NotEnoughWritable", "message": "the disk is full"}

    assert kube_view.why_not_ready({}) == "nothing yet bookies"
    assert kube_view.why_not_ready({"summary": "4/4", "conditions": [why | {"type": "Stalled"}]}) == "4/4 bookies"
    assert kube_view.why_not_ready({"summary": "4/4", "conditions": [why]}) == (
        "4/4 bookies; Ready=False NotEnoughWritable: the disk is full"
    )
