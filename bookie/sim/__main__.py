"""`python -m bookie.sim SEED`: run one seed or many, replay with a trace, make a failing one small, take the guards of
BP-46 away; keep the record of a campaign, and report on it.

Exit code 0: every promise held; 1: a defect was found; its seed is in the output and finds it again. A report ends with
1 also when a probe was not reached; 2: usage.
"""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bookie.base.errors import BadInput
from bookie.base.ids import LedgerId
from bookie.sim import campaign, scenario, shrink, story
from bookie.sim.campaign import SeedShare
from bookie.sim.run import FAULTS_S, SeedOutcome, run_seed
from bookie.sim.scenario import Scenario

# Flag -> what it says to `run_seed`, and its help.
ASPECTS: dict[str, tuple[dict[str, bool], str]] = {
    "accidents": ({"accidents": True}, "a small cluster, and only the faults of BP-46"),
    "client": ({"demanding": True}, "clients use more of what they can do"),
    "crowd": ({"crowding": True}, "writers write many ledgers each, in step"),
    "retire": ({"retiring": True}, "bookies are emptied and retired meanwhile"),
    "surplus": ({"surplus": True}, "bookies give up their surplus by themselves, after seconds"),
    "replicate": ({"replicating": True}, "what dead bookies hold is copied as Java does it"),
    "auto": ({"recovering": True}, "our auto-recovery runs, and bookies join; in the end every replica is there"),
    "fill": ({"filling": True}, "bookies fill their holes; in the end every replica is there and equal"),
    "gated": ({"gated": True}, "bookies that lost volumes wait for a grant: late, twice, or too old"),
    "varied": ({"varied": True}, "passwords, tails, deletions, ack quorums of one"),
    "anew": ({"remaking": True}, "ledgers are deleted, and others made under their ids"),
    "twins": ({"doubling": True}, "bookies are made again while their old processes live"),
    "bound": ({"doubting": True}, "phase one by a bound: bookies doubt every ledger, and examine it later"),
    "touch": ({"touching": True}, "without data in the journal it names the ledgers that a crash puts in limbo"),
    "no-fence": ({"guard_fence": False}, "take the fence of phase one away (BP-46)"),
    "no-limbo": ({"guard_limbo": False}, "take the limbo marks of phase one away"),
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m bookie.sim", description=__doc__)
    add = made.add_argument
    add("seed", type=lambda text: int(text, 0), nargs="?", help="a number, decimal or 0x...")
    add("--seeds", type=int, default=1, metavar="N", help="run N seeds, from SEED on")
    add("--trace", action="store_true", help="print every event, one lane per node")
    add("--story", type=int, metavar="LEDGER", help="print the events of one ledger, with what bookies answered")
    for flag, (_, text) in ASPECTS.items():
        add(f"--{flag}", action="store_true", help=text)
    add("--faults-s", type=float, default=FAULTS_S, metavar="S", help="virtual seconds with faults")
    add("--without", default="", metavar="PART,...", help="leave parts of the run out, as --shrink names them")
    add("--shrink", action="store_true", help="make a failing run small, and tell its story")
    add("--runs", type=int, default=200, metavar="N", help="how many runs --shrink may take")
    add("--save", type=Path, metavar="FILE", help="write a scenario file, to be sent with a bug")
    add("--play", type=Path, metavar="FILE", help="run a scenario file, and tell its story")
    add("--campaign", type=Path, metavar="FILE", help="all aspects in turn; each outcome into FILE; goes on")
    add("--part", type=SeedShare.parse, default=SeedShare(), metavar="I/N", help="a campaign's I-th of N processes")
    add("--commit", default="unknown", help="what records and scenarios say that they ran on")
    add("--report", type=Path, nargs="+", metavar="FILE", help="sum up records; names probes not reached")
    return made


def main(arguments: list[str]) -> int:
    """Run; print one line per seed. Returns the exit code."""
    options = parser().parse_args(arguments)
    silenced = logging.root.manager.disable
    if not options.trace:
        logging.disable(logging.CRITICAL)  # the product's log lines belong into a trace
    try:
        return _work(options)
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has seen enough
        sys.stdout = None
        return 1
    except OSError as error:
        if error.filename is None:  # of what is open already
            print(f"standard output, or the file that was named, takes no more: {error.strerror}", file=sys.stderr)
            sys.stdout = None
            return 1
        print(f"{error.filename} cannot be written: {error.strerror}: name another file", file=sys.stderr)
        return 2
    finally:
        logging.disable(silenced)


def _work(options: argparse.Namespace) -> int:
    if options.report:
        summed = campaign.report(options.report)
        print(summed.text())
        return 1 if summed.defects or summed.not_reached else 0
    if options.play is not None:
        return _play(scenario.load(options.play))
    if options.seed is None:
        parser().error("a seed is wanted, or --play FILE, or --report FILE")
    if options.seeds < 1:  # of none nothing is known, and 0 would say that every promise was kept
        parser().error(f"--seeds is {options.seeds}: it must be 1 at least")
    if options.save is not None:
        scenario.check(options.save)
    wanted = SeedRun.of(options)
    if options.campaign is not None:
        return _campaign(options)
    if options.shrink:
        return _shrink(wanted, options)
    seeds = range(options.seed, options.seed + options.seeds)
    defects = [outcome for outcome in (_run(wanted, seed, options) for seed in seeds) if outcome.defect is not None]
    if options.seeds > 1:
        print(f"{options.seeds} seeds, {len(defects)} with a defect" + "".join(f" {it.seed:#x}" for it in defects))
    return 1 if defects else 0


@dataclasses.dataclass(frozen=True, slots=True)
class SeedRun:
    """Which run of a seed is wanted."""

    flags: tuple[str, ...]
    faults_s: float
    without: frozenset[str]

    @classmethod
    def of(cls, options: argparse.Namespace) -> "SeedRun":
        flags = tuple(flag for flag in ASPECTS if vars(options)[flag.replace("-", "_")])
        return cls(flags, options.faults_s, frozenset(filter(None, options.without.split(","))))

    def run(self, seed: int, **how: Any) -> SeedOutcome:
        aspects: dict[str, Any] = {name: value for flag in self.flags for name, value in ASPECTS[flag][0].items()}
        return run_seed(seed, faults_s=self.faults_s, without=self.without, **aspects, **how)

    def words(self, seed: int) -> str:
        """Return the command that runs it."""
        words = [f"python -m bookie.sim {seed:#x}", *(f"--{flag}" for flag in self.flags)]
        if self.faults_s != FAULTS_S:
            words.append(f"--faults-s {self.faults_s:g}")
        if self.without:
            words.append(f"--without {','.join(sorted(self.without))}")
        return " ".join(words)


def _run(wanted: SeedRun, seed: int, options: argparse.Namespace) -> SeedOutcome:
    ledger_id = None if options.story is None else LedgerId(options.story)
    outcome = wanted.run(seed, keep_trace=options.trace, story_of=ledger_id)
    _tell(outcome)
    if outcome.defect is not None:
        print(f"  {outcome.defect}\n  again: {wanted.words(seed)} --trace", flush=True)
    if options.save is not None:
        _scenario(wanted, outcome, options.story, options.commit).save(options.save)
    return outcome


def _tell(outcome: SeedOutcome) -> None:
    for line in outcome.trace:
        print(line)
    print(outcome.line(), flush=True)


def _campaign(options: argparse.Namespace) -> int:
    """Run what the record lacks; exit code 0 also with defects, which `--report` tells."""

    def run(seed: int) -> SeedOutcome:
        wanted = SeedRun(campaign.flags_of(seed), options.faults_s, frozenset())
        outcome = wanted.run(seed, probing=True)
        if outcome.defect is not None:
            print(outcome.line(), flush=True)
        return outcome

    seeds = options.part.seeds(options.seed, options.seeds)
    count = campaign.record(options.campaign, options.commit, seeds, run)
    print(f"{count} seeds run, {len(seeds)} in {options.campaign}")
    return 0


def _shrink(wanted: SeedRun, options: argparse.Namespace) -> int:
    """Make the run of one seed small and tell its story."""
    seed: int = options.seed

    def run(*, without: frozenset[str], faults_s: float) -> SeedOutcome:
        return SeedRun(wanted.flags, faults_s, wanted.without | without).run(seed)

    found = shrink.shrink(run, wanted.faults_s, runs_max=options.runs, say=lambda text: print(text, flush=True))
    if found is None:
        print(f"seed {seed:#x} keeps every promise: nothing to make small")
        return 0
    smallest = SeedRun(wanted.flags, found.faults_s, wanted.without | found.without)
    ledger_id = story.ledger_of(found.why)
    last = smallest.run(seed, story_of=ledger_id, keep_trace=ledger_id is None)
    assert last.digest == found.outcome.digest, "telling a run changed it"
    _tell(last)
    print(f"  {found.why}\n  left of {found.begun} parts: {' '.join(found.parts) or 'nothing'} ({found.runs} runs)")
    shown = "--trace" if ledger_id is None else f"--story {ledger_id}"
    print(f"  again: {smallest.words(seed)} {shown}")
    if options.save is not None:
        _scenario(smallest, last, ledger_id, options.commit).save(options.save)
    return 1


def _scenario(wanted: SeedRun, outcome: SeedOutcome, ledger_id: int | None, commit: str) -> Scenario:
    without: Sequence[str] = sorted(wanted.without)
    return Scenario(
        seed=outcome.seed,
        flags=wanted.flags,
        faults_s=wanted.faults_s,
        without=tuple(without),
        ledger=ledger_id,
        commit=commit,
        defect=outcome.defect,
        digest=outcome.digest,
        story=tuple(outcome.trace),
    )


def _play(kept: Scenario) -> int:
    """Run a scenario as it was saved, and say whether it is the same run still."""
    if unknown := [flag for flag in kept.flags if flag not in ASPECTS]:
        raise BadInput(f"the scenario wants --{unknown[0]}, which this version does not have")
    wanted = SeedRun(kept.flags, kept.faults_s, frozenset(kept.without))
    ledger_id = None if kept.ledger is None else LedgerId(kept.ledger)
    outcome = wanted.run(kept.seed, story_of=ledger_id, keep_trace=ledger_id is None)
    _tell(outcome)
    if outcome.defect is not None:
        print(f"  {outcome.defect}")
    if outcome.digest != kept.digest:
        print(f"  not the run that was saved: that was commit {kept.commit}, {kept.defect or 'without a defect'}")
    return 1 if outcome.defect is not None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
