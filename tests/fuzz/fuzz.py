"""Fuzz every reader of bytes that others wrote: `fuzz.py [--target NAME] [--seconds N] [--seed N]`; `make fuzz`.

Each target gets its share of the time, in this process, whose memory is limited: an input that asks for more than
MEMORY_MAX is a finding. Exit code 1 and the input in hex when there is one; `--input HEX` runs it again.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "operator"), str(ROOT / "tests" / "support")]

import fuzz_engine  # noqa: E402
import fuzz_targets  # noqa: E402

MEMORY_MAX = 512 * 1024 * 1024  # beyond what is used at the start
RSS_GROWN_KIB_MAX = 128 * 1024  # of all inputs of one target


def limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_MAX, used + MEMORY_MAX))


def fuzz(target: fuzz_engine.Target, seconds: float, seed: int) -> bool:
    """Print one line; True when nothing was found."""
    fuzzer = fuzz_engine.Fuzzer(target, seed)
    try:
        tally = fuzzer.run(seconds=seconds)
        if tally.rss_grown_kib > RSS_GROWN_KIB_MAX:
            raise fuzz_engine.Finding(target.name, b"", f"memory grew by {tally.rss_grown_kib} KiB", seed)
    except fuzz_engine.Finding as finding:
        print(fuzz_engine.smaller(target, finding), f"(seed {seed}, after {fuzzer.tally.inputs} inputs)")
        return False
    print(
        f"{target.name:18} {tally.inputs:9,} inputs {tally.inputs / tally.seconds:8,.0f}/s"
        f"  refused {100 * tally.refused // tally.inputs:3} %  steps {tally.lines:5}  corpus {tally.corpus:5}"
        f"  slowest {tally.slowest_ms:6.1f} ms  memory +{tally.rss_grown_kib / 1024:.1f} MiB",
        flush=True,
    )
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=sorted(fuzz_targets.TARGETS), action="append", help="default: all")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=None, help="default: the time")
    parser.add_argument("--input", metavar="HEX", help="run this input of --target once")
    arguments = parser.parse_args()
    names = arguments.target or sorted(fuzz_targets.TARGETS)
    if arguments.input is not None:
        fuzz_engine.Fuzzer(fuzz_targets.TARGETS[names[0]], 0).run_one(bytes.fromhex(arguments.input))
        print("taken, or refused as it should be")
        return 0
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    limit_memory()
    print(f"seed {seed}, {arguments.seconds:.0f} s over {len(names)} targets")
    clean = [fuzz(fuzz_targets.TARGETS[name], arguments.seconds / len(names), seed) for name in names]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
