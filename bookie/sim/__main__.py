"""`python -m bookie.sim SEED`: run one seed or many, replay with a trace, take the guards of BP-46 away.

Exit code 0: every promise held; 1: a defect was found; its seed is in the output and finds it again.
"""

import argparse
import logging
import sys
from collections.abc import Callable

from bookie.sim.run import FAULTS_S, SeedOutcome, run_seed

# Flag -> what it says to `run_seed`, and its help.
ASPECTS: dict[str, tuple[dict[str, bool], str]] = {
    "accidents": ({"accidents": True}, "a small cluster, and only the faults of BP-46"),
    "client": ({"demanding": True}, "clients use more of what they can do"),
    "crowd": ({"crowding": True}, "writers write many ledgers each, in step"),
    "retire": ({"retiring": True}, "bookies are emptied and retired meanwhile"),
    "replicate": ({"replicating": True}, "what dead bookies hold is copied as Java does it"),
    "fill": ({"filling": True}, "bookies fill their holes; in the end every replica is there and equal"),
    "twins": ({"doubling": True}, "bookies are made again while their old processes live"),
    "bound": ({"doubting": True}, "phase one by a bound: bookies doubt every ledger, and examine it later"),
    "no-fence": ({"guard_fence": False}, "take the fence of phase one away (BP-46)"),
    "no-limbo": ({"guard_limbo": False}, "take the limbo marks of phase one away"),
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m bookie.sim", description=__doc__)
    made.add_argument("seed", type=lambda text: int(text, 0), help="a number, decimal or 0x...")
    made.add_argument("--seeds", type=int, default=1, metavar="N", help="run N seeds, from SEED on")
    made.add_argument("--trace", action="store_true", help="print every event, one lane per node")
    for flag, (_, text) in ASPECTS.items():
        made.add_argument(f"--{flag}", action="store_true", help=text)
    made.add_argument("--faults-s", type=float, default=FAULTS_S, metavar="S", help="virtual seconds with faults")
    return made


def main(arguments: list[str]) -> int:
    """Run; print one line per seed. Returns the exit code."""
    options = parser().parse_args(arguments)
    silenced = logging.root.manager.disable
    if not options.trace:
        logging.disable(logging.CRITICAL)  # the product's log lines belong into a trace
    try:
        seeds = range(options.seed, options.seed + options.seeds)
        defects = [outcome for outcome in map(_run(options), seeds) if outcome.defect is not None]
    finally:
        logging.disable(silenced)
    if options.seeds > 1:
        print(f"{options.seeds} seeds, {len(defects)} with a defect" + "".join(f" {it.seed:#x}" for it in defects))
    return 1 if defects else 0


def _run(options: argparse.Namespace) -> Callable[[int], SeedOutcome]:
    chosen = [flag for flag in ASPECTS if vars(options)[flag.replace("-", "_")]]
    flags = "".join(f" --{flag}" for flag in chosen)
    aspects = {name: value for flag in chosen for name, value in ASPECTS[flag][0].items()}

    def run(seed: int) -> SeedOutcome:
        outcome = run_seed(seed, keep_trace=options.trace, faults_s=options.faults_s, **aspects)
        for line in outcome.trace:
            print(line)
        print(outcome.line(), flush=True)
        if outcome.defect is not None:
            print(f"  {outcome.defect}\n  again: python -m bookie.sim {seed:#x}{flags} --trace", flush=True)
        return outcome

    return run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
