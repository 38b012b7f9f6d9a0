"""`examples/simulation.py`, the tutorial of docs/SIMULATION.md, ends as the page says, with each guard and without."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "simulation.py"))


def test_the_first_accident(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    accident, play = example["the_fence_is_lost"], example["play"]

    assert play(accident).startswith("the writer is refused: ")
    assert "violation" not in capsys.readouterr().out
    assert "S1: ledger 0 ends at -1 and acknowledged entry 0 after it" in play(accident, guard_fence=False)
    told = capsys.readouterr().out
    places = [told.index(text) for text in ("fence and read", "wipe /journal", "add 0: ok", "violation S1")]
    assert places == sorted(places)


def test_the_second_accident(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    accident, play = example["an_acknowledged_entry_is_lost"], example["play"]

    assert play(accident).startswith("the recovery does not guess: ")
    assert "EUNKNOWNLEDGERSTATE" in capsys.readouterr().out
    assert "S1: ledger 0 was closed at -1 and entry 0 was acknowledged" in play(accident, guard_limbo=False)
    told = capsys.readouterr().out
    places = [told.index(text) for text in ("add 0: ok", " kill", "fence and read 0: ENOENTRY", "violation S")]
    assert places == sorted(places)
