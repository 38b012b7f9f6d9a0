"""`python -m bookie.sim SEED`: run one seed or many, replay with a trace, take the guards of BP-46 away.

Exit code 0: every promise held; 1: a defect was found; its seed is in the output and finds it again.
"""

import argparse
import logging
import sys
from collections.abc import Callable

from bookie.sim.run import FAULTS_S, SeedOutcome, run_seed


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m bookie.sim", description=__doc__)
    made.add_argument("seed", type=lambda text: int(text, 0), help="a number, decimal or 0x...")
    made.add_argument("--seeds", type=int, default=1, metavar="N", help="run N seeds, from SEED on")
    made.add_argument("--trace", action="store_true", help="print every event, one lane per node")
    made.add_argument("--no-fence", action="store_true", help="take the fence of phase one away (BP-46)")
    made.add_argument("--no-limbo", action="store_true", help="take the limbo marks of phase one away")
    made.add_argument("--accidents", action="store_true", help="a small cluster, and only the faults of BP-46")
    made.add_argument("--client", action="store_true", help="clients that use more of what they can do")
    made.add_argument("--retire", action="store_true", help="bookies are emptied and retired meanwhile")
    made.add_argument("--twins", action="store_true", help="bookies are made again while their old processes live")
    made.add_argument("--replicate", action="store_true", help="what dead bookies hold is copied as Java does it")
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
    flags = "".join(
        f" --{name}"
        for name in ("accidents", "client", "retire", "replicate", "twins", "no-fence", "no-limbo")
        if vars(options)[name.replace("-", "_")]
    )

    def run(seed: int) -> SeedOutcome:
        outcome = run_seed(
            seed,
            guard_fence=not options.no_fence,
            guard_limbo=not options.no_limbo,
            keep_trace=options.trace,
            faults_s=options.faults_s,
            accidents=options.accidents,
            demanding=options.client,
            retiring=options.retire,
            replicating=options.replicate,
            doubling=options.twins,
        )
        for line in outcome.trace:
            print(line)
        print(outcome.line(), flush=True)
        if outcome.defect is not None:
            print(f"  {outcome.defect}\n  again: python -m bookie.sim {seed:#x}{flags} --trace", flush=True)
        return outcome

    return run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
