"""The story of one ledger: its answers as arrows between lanes, faults among them, and nothing of other ledgers."""

from pathlib import Path

import pytest

from bookie.base.errors import BadInput
from bookie.base.ids import LedgerId
from bookie.sim import scenario, story
from bookie.sim.scenario import Scenario
from bookie.sim.trace import Trace

MS = 1_000_000


def test_a_story_has_what_happened_to_nodes_and_to_one_ledger_as_lanes() -> None:
    trace = Trace(keep=True)
    trace.event(0, "c", "start", "life=1")
    trace.event(1 * MS, "c", "store", "create /ledgers/00/0000/L0007")
    trace.event(1 * MS, "c", "store", "create /ledgers/00/0000/L0008")
    for number in range(3):
        trace.arrow((2 + number) * MS, "a", "c", f"add {number}: ok")
        trace.arrow((2 + number) * MS, "b", "c", f"add {number}: ok")
    trace.event(9 * MS, "a", "power cut")
    trace.note(9 * MS, "c", "writer ended ledger_id=7 reason=x")
    trace.note(9 * MS, "c", "writer ended ledger_id=77 reason=x")
    trace.note(9 * MS, "c", "something else")
    trace.arrow(10 * MS, "b", "c", "add 3: EFENCED")
    for number in range(-1, 1):
        trace.arrow(10 * MS, "b", "c", f"fence and read {number}: ENOENTRY")
    for number in range(2):
        trace.arrow((11 + number) * MS, "b", "c", "Force: ok")
        trace.arrow((11 + number) * MS, "c", "a", "read 5: ok")

    told = story.table(trace, LedgerId(7))

    assert told == [
        "     seconds  node  lanes: a b c",
        "    0.000000  c     ││▲  start life=1",
        "    0.001000  c     ││*  store create /ledgers/00/0000/L0007",
        "    0.002000  a     ●─▶  add 0 to 2: ok",
        "    0.002000  b     │●▶  add 0 to 2: ok",
        "    0.009000  a     ✗││  power cut",
        "    0.009000  c     ││·  writer ended ledger_id=7 reason=x",
        "    0.010000  b     │●▶  add 3: EFENCED",
        "    0.010000  b     │●▶  fence and read -1: ENOENTRY",
        "    0.010000  b     │●▶  fence and read 0: ENOENTRY",
        "    0.011000  b     │●▶  Force: ok",
        "    0.011000  c     ◀─●  read 5: ok",
    ]


@pytest.mark.parametrize(
    ("text", "ledger"),
    [
        ("S2: ledger 7 lost acknowledged entries 1", 7),
        ("S8: bookie-0 acknowledged entry 1 of ledger 12 and now denies it", 12),
        ("writer ended ledger_id=5", 5),
        ("SimStuck: nothing can run", None),
    ],
)
def test_a_defect_is_about_the_ledger_that_its_text_names(text: str, ledger: int | None) -> None:
    assert story.ledger_of(text) == ledger


def test_a_scenario_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = Scenario(5, ("accidents",), 10.0, ("kill-1", "writer-0"), 7, "c1", "S2: lost", "abc", ("│●▶ add 0: ok",))
    kept.save(tmp_path / "file")

    assert scenario.load(tmp_path / "file") == kept
    assert "│●▶ add 0: ok" in (tmp_path / "file").read_text(), "a person reads it, too"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "another"}', '{"format": "bookie simulation 1", "seed": 1}']
)
def test_what_is_no_scenario_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)

    with pytest.raises(BadInput, match="no scenario"):
        scenario.load(tmp_path / "file")
