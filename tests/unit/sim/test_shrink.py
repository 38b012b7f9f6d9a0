"""A failing run is made small: parts are left out as long as the same promise breaks."""

from collections import Counter

from bookie.sim import shrink
from bookie.sim.run import SeedOutcome

PARTS = [f"kill-{number}" for number in range(16)] + ["writer-0", "writer-1"]


def outcome(parts: list[str], *violations: str) -> SeedOutcome:
    return SeedOutcome(
        seed=1,
        digest="",
        defect="; ".join(violations) or None,
        virtual_s=0.0,
        steps=0,
        acknowledged=0,
        read=0,
        ledgers=0,
        mixed=0,
        broke=Counter(),
        violations=list(violations),
        trace=[],
        reached=Counter(),
        parts=parts,
    )


class Seed:
    """Loses an entry when it has all that it `needs`, in 9 seconds; and denies one in any case."""

    def __init__(self, *needs: str) -> None:
        self.needs = needs
        self.runs: list[tuple[frozenset[str], float]] = []

    def __call__(self, *, without: frozenset[str], faults_s: float) -> SeedOutcome:
        self.runs.append((without, faults_s))
        parts = [part for part in PARTS if part not in without]
        violations = ["at 1.5 s: S8: bookie-1 acknowledged entry 1 of ledger 7 and now denies it"]
        if all(part in parts for part in self.needs) and faults_s >= 9:
            violations.append("at 8.25 s: S2: ledger 7 lost acknowledged entries 1")
        return outcome(parts, *violations)


def test_what_is_left_is_what_the_loss_needs_and_no_shorter_than_it_takes() -> None:
    seed, told = Seed("kill-3", "kill-12", "writer-1"), list[str]()

    found = shrink.shrink(seed, 30.0, runs_max=200, say=told.append)

    assert found is not None
    assert (found.parts, found.faults_s, found.begun) == (["kill-3", "kill-12", "writer-1"], 10.0, 18)
    assert found.why == "at 8.25 s: S2: ledger 7 lost acknowledged entries 1", "and not what is broken in any case"
    assert found.runs == len(seed.runs) < 60
    assert told[-1].endswith("3 of 18 parts in 10 s, still S2")


def test_it_stops_when_its_runs_are_used_up_with_the_smallest_until_then() -> None:
    seed = Seed("kill-3")

    found = shrink.shrink(seed, 30.0, runs_max=6, say=lambda text: None)

    assert found is not None
    assert (found.runs, len(seed.runs)) == (6, 6)
    assert "kill-3" in found.parts
    assert len(found.parts) < 18


def test_nothing_is_made_small_where_nothing_breaks() -> None:
    assert shrink.shrink(lambda **_: outcome(PARTS), 30.0, runs_max=9, say=lambda text: None) is None


def test_an_error_that_is_no_broken_promise_is_looked_for_by_its_class() -> None:
    stuck = outcome([])
    stuck.defect = "SimStuck: nothing can run after 3.000000 s"

    assert shrink.broken(stuck) == {"SimStuck": stuck.defect}


def test_a_replica_that_is_not_there_at_the_end_is_looked_for_only_where_nothing_else_broke() -> None:
    """A denial leaves such a hole behind, and a smaller run has the hole alone: its story would be another one."""
    denied = "at 29.5 s: S8: bookie-0 acknowledged entry 2 of ledger 5 and now denies it"
    lacks = "at 56.1 s: KEPT: bookie-0 lacks entry 2 of ledger 5"

    assert list(shrink.broken(outcome([], lacks, denied)).values()) == [denied, lacks]
    assert list(shrink.broken(outcome([], lacks)).values()) == [lacks]
