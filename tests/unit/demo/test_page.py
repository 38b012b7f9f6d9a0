"""The page: whole without a run, readable with one, nothing fetched, nothing unescaped."""

import itertools
import xml.etree.ElementTree as ET

import page
import plot
from pyspark_bookkeeper.audit import summary
from stage import Loss, LostVolume, Observation, Outcome, Proof
from timeline import Event, Progress, Sample, Timeline

EVENTS = [
    Event(1.0, "step", "four bookies serve"),
    Event(10.0, "loss", "b <killed>"),
    Event(12.0, "state", "WAITING_GRANT: waits"),
    Event(14.0, "state", "FENCING: phase one"),
    Event(15.0, "state", "REPAIRING: phase two"),
    Event(30.0, "state", "SERVING: serves"),
]


AUDIT = {
    "ledgers": {"closed": 3, "open": 1, "unsure": 0, "young": 0, "moved": 0, "gone": 0, "unreadable": 0},
    "copies": {"expected": 4_242, "read": 0, "missing": 0, "corrupt": 0, "unreachable": 77, "unexpected": 0},
    "findings": dict.fromkeys(summary.ALL_KINDS, 0) | {"unreachable": 7},
    "bookies": {
        "b & <c>": {"zone": "", "expected": 4_242, "missing": 0, "corrupt": 0, "unreachable": 77, "unexpected": 0}
    },
    "replicas": {"3": {"2": 4}},
    "zones": {"zone-a": {"1": 4}},
}


def timeline() -> Timeline:
    made = Timeline(say=lambda text: None)
    made.events = list(EVENTS)
    made.samples = [Sample(float(second), 100.0 + second, 100 * second) for second in range(30)]
    made.progress = [Progress(16.0, 9, 0), Progress(29.0, 0, 5_000_000)]
    return made


def outcome() -> Outcome:
    made = Outcome("", loss=Loss("b", 0, (LostVolume("journal", "journal", "/j", 10),)), healed_s=20.0)
    made.last = Observation(phase_one_ms=120, ledgers_fenced=4, entries_copied=10, bytes_copied=99, ledgers_done=3)
    made.proofs = [Proof("nothing <is> lost", True, "all & everything")]
    made.audits = {"before": AUDIT, "after": AUDIT}
    return made


def test_states_become_spans_that_follow_each_other() -> None:
    found = plot.spans(EVENTS, 40.0)

    assert [span.state for span in found] == ["SERVING", "lost", "WAITING_GRANT", "FENCING", "REPAIRING", "SERVING"]
    assert all(before.end_s == after.start_s for before, after in itertools.pairwise(found))
    assert found[-1].end_s == 40.0


def test_the_picture_is_well_formed_with_and_without_figures() -> None:
    for samples, progress in ((timeline().samples, timeline().progress), ([], [])):
        ET.fromstring(plot.timeline_svg(EVENTS, samples, progress, bookie_id="b & <c>"))


def test_the_page_tells_all_and_fetches_nothing() -> None:
    text = page.page(outcome(), timeline(), "demo: OK", ok=True)

    for expected in (
        "demo: OK",
        "nothing &lt;is&gt; lost",
        "all &amp; everything",
        "0.12 s, 4 ledgers closed to writers",
        "The audit before the heal",
        "Not every replica could be seen. 4 ledgers, 4,242 copies: 0 missing, 0 corrupt, 77 not to be seen",
    ):
        assert expected in text
    assert "<script" not in text
    assert "src=" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_run_that_failed_early_has_a_page_too() -> None:
    text = page.page(Outcome(""), Timeline(say=lambda text: None), "demo: FAILED: no cluster", ok=False)

    assert "demo: FAILED: no cluster" in text
