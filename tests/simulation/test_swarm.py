"""Random runs of whole clusters: seeds that change with every commit must keep every promise; one seed is one story.

The base seed comes from the commit (or from SIM_SEED), so a red run is red again until the next commit, and every
commit tries others. What a seed finds becomes a scenario; seeds are not kept, they change meaning with the next commit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from bookie.sim.run import Outcome, run_seed

ROOT = Path(__file__).resolve().parents[2]
SHORT, LONG = 6, 40


def base_seed() -> int:
    """SIM_SEED when given, else a number made from the commit; 0 outside a checkout."""
    if text := os.environ.get("SIM_SEED"):
        return int(text, 0)
    result = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    return zlib.crc32(result.stdout.strip()) % 1_000_000 * 1000 if result.returncode == 0 else 0


BASE = base_seed()


def check(outcome: Outcome) -> None:
    print(outcome.line())
    assert outcome.defect is None, f"{outcome.defect}\nagain: python -m bookie.sim {outcome.seed:#x} --trace"


@pytest.mark.parametrize("seed", [BASE + number for number in range(SHORT)])
def test_a_fresh_seed_keeps_every_promise(seed: int) -> None:
    check(run_seed(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [BASE + SHORT + number for number in range(LONG)])
def test_another_fresh_seed_keeps_every_promise(seed: int) -> None:
    check(run_seed(seed))


@pytest.mark.slow
def test_one_seed_does_the_same_in_two_processes_with_different_hash_seeds() -> None:
    command = [sys.executable, "-m", "bookie.sim", str(BASE), "--seeds", "3"]
    outputs = [
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert "digest=" in outputs[0]
    assert outputs[0] == outputs[1]
