"""`make attack` for a while: ten minutes of a fresh seed where CI runs, half a minute elsewhere."""

import os
import pathlib
import time

import pytest

import attack_support
from attack_target import Budget

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("ATTACK_SECONDS", "600" if os.environ.get("CI") else "30"))


def test_a_stranger_ends_no_bookie_fills_none_and_takes_no_entry(tmp_path: pathlib.Path) -> None:
    seed = int(time.time())
    with attack_support.attacking(tmp_path, seed=seed, budget=Budget()) as campaign:
        campaign.start_load(50.0)
        campaign.run(seconds=SECONDS, frames=10**9, tell=lambda text: print(f"seed {seed}: {text}"))
        verdict = campaign.judge()

    assert campaign.fresh > 1000
    assert verdict["verified"] == verdict["acknowledged"] > 100
