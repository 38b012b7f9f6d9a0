"""The storage engine alone under kills and power cuts, seed after seed: the long form of test_storage_crashes.py.

    python tests/soak/soak_storage.py --seeds 2000 [--first N]        (`make soak` runs it with the others)

Each seed runs with journaled data, without, and with the option switched from life to life. Prints a line for each
defect and how to see it again; ends with 1 if there was any.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "simulation")]

from bookie.sim.loop import SimStuck  # noqa: E402
from bookie.sim.node import Defect  # noqa: E402

storage = importlib.import_module("test_storage_crashes")
WAYS = {"journaled": True, "unjournaled": False, "switched": None}


TOLD_EVERY = 50  # seeds


def soak(first: int, seeds: int) -> list[str]:
    """What was found, one sentence each. Says now and then how far it is."""
    found = []
    for seed in range(first, first + seeds):
        if seed > first and (seed - first) % TOLD_EVERY == 0:
            print(f"storage engine: {seed - first} of {seeds} seeds, {len(found)} defects", flush=True)
        for way, journaled in WAYS.items():
            try:
                storage.run_seed(seed, journaled=journaled)
            except (Defect, SimStuck, AssertionError) as defect:
                again = f"run_seed({seed}, journaled={journaled}, keep_trace=True)"
                found.append(f"{way} {seed}: {defect!r:.300}; again: {again}")
                print(found[-1], flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=1_000, help="the first seed; tests use those below 100")
    arguments = parser.parse_args()
    began = time.monotonic()
    found = soak(arguments.first, arguments.seeds)
    print(f"{lives_of(arguments.seeds)}, {time.monotonic() - began:.0f} s: {len(found)} defects")
    return 1 if found else 0


def lives_of(seeds: int) -> str:
    return f"{seeds} seeds, {seeds * len(WAYS) * (storage.LIVES + 1)} lives"


if __name__ == "__main__":
    sys.exit(main())
