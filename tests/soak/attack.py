"""A stateful attacker against a living bookie: `attack.py [--seconds N] [--frames N] [--seed N]`; `make attack`.

A stranger without credentials sends odd requests of both protocols, unfinished frames, requests whose answers it never
reads, idle connections, odd HTTP and gRPC, and litters the metadata store, beside honest writers. Two judges look on:
what was acknowledged is always answered with its bytes and survives a restart, and the bookie stays within its budget
of memory, open files, time and log lines. Exit code 1 with the seed when either is broken.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("", "tests/support", "tests/cluster")]

import attack_support  # noqa: E402
from attack_target import Broken, Budget  # noqa: E402
from bookie.base.units import MIB  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--frames", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--rate", type=float, default=100.0, help="honest entries per second beside it")
    parser.add_argument("--memory-mib", type=int, default=Budget().memory_bytes // MIB, help="what the bookie may hold")
    parser.add_argument("--only", action="append", choices=attack_support.ACTS, help="beside the frames; default: all")
    parser.add_argument("--seed", type=int, default=None, help="default: the time")
    arguments = parser.parse_args()
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    budget = Budget(memory_bytes=arguments.memory_mib * MIB)
    only = tuple(arguments.only or attack_support.ACTS)
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        try:
            with attack_support.attacking(Path(folder), seed=seed, budget=budget) as campaign:
                campaign.start_load(arguments.rate)
                campaign.run(
                    seconds=arguments.seconds,
                    frames=arguments.frames,
                    acts=only,
                    tell=lambda text: print(text, flush=True),
                )
                verdict = campaign.judge()
        except Broken as broken:
            print(f"{broken.told}\nattack FAILED, seed {seed}: {broken}")
            return 1
    print(
        f"attack ok, seed {seed}: {campaign.frames:,} frames handled, {campaign.fresh:,} of them different,"
        f" {campaign.closings:,} connections closed,"
        f" {verdict['verified']} acknowledged entries verified; {campaign.costs[-1]}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
