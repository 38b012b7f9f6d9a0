"""`make mutants`: it tells killed, hung, survived and stale apart; and a few mutants of the list, those of what changed
since the last landed commit, are killed."""

import dataclasses
import re
import subprocess
import zlib
from pathlib import Path

import pytest

import landed_support
import make_mutants
import mutants_support
import seeds_support
from make_mutants import BROKEN, DIED, KILLED, NOT_APPLIED, SURVIVED, TIMED_OUT
from mutants_support import ROOT, DoesNotApply, Mutant, mutants

TOY = Mutant(
    id="toy",
    what="every entry waits for one acknowledgement more",
    file="bookie/quorum/adds.py",
    old="if acked.bit_count() >= quorum:",
    new="if acked.bit_count() > quorum:",
    rules=("P9",),
    tests=("tests/unit/quorum/test_adds.py::test_an_entry_is_confirmed_exactly_at_its_ack_quorum",),
)
PARTS, PART_MAX = 4, 3  # so many tests of so many mutants: a minute on two cores
USUAL = (
    "lac-is-the-previous-id",
    "covered-with-an-ack-quorum-unknown",
    "recovery-overwrites-a-rereplication",
    "unknown-denies",
    "end-one-too-late",
)


# A test with random examples, that tells which it got.
DRAWS = """
from hypothesis import given, strategies

drawn = []

@given(strategies.integers())
def test_draws(number):
    drawn.append(number)

def test_tells():
    raise AssertionError(f"drawn {sum(drawn)} {hash('a word')} {__import__('seeds_support').base_seed()}")
"""


def variant(name: str, **changes: object) -> Mutant:
    return dataclasses.replace(TOY, id=name, **changes)  # type: ignore[arg-type]


@pytest.mark.slow
def test_each_outcome_is_told_by_its_name() -> None:
    wait = "while quorum: pass\n            if acked.bit_count() > quorum:"
    toys = {
        KILLED: TOY,
        SURVIVED: variant("survives", new="if acked.bit_count() >= quorum:  # as before"),
        NOT_APPLIED: variant("stale", old="this never stood there"),
        BROKEN: variant("broken", new="if acked.bit_count() >= = quorum:"),
        DIED: variant("dies", new="if acked.bit_count() > quorums:"),
    }

    found = {each.mutant.id: each for each in make_mutants.outcomes([*toys.values()], jobs=1, timeout_s=120)}
    hung = list(make_mutants.outcomes([variant("hangs", new=wait)], jobs=1, timeout_s=10))

    assert {word: found[toy.id].word for word, toy in toys.items()} == {word: word for word in toys}
    assert [each.word for each in hung] == [TIMED_OUT]
    assert found["survives"].green == TOY.tests
    assert "stands 0 times" in found["stale"].why
    assert "NameError: name 'quorums' is not defined" in found["dies"].why


@pytest.mark.slow
def test_a_verdict_does_not_depend_on_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = make_mutants.Copy(tmp_path)
    (tmp_path / "tests" / "unit" / "test_draws.py").write_text(DRAWS, encoding="utf-8")
    monkeypatch.setenv("SIM_SEED", "7")

    runs = [copy.run(["tests/unit/test_draws.py"], 60) for _ in range(2)]

    drawn = [re.findall(r"drawn (-?\d+) (-?\d+) (\d+)", run.tail) for run in runs]
    assert drawn[0], runs[0].tail
    assert drawn[0] == drawn[1]
    assert drawn[0][0][2] == "0", "the seeds of the simulator came from outside"


def test_the_checkout_is_never_changed_and_an_old_text_must_stand_once() -> None:
    text = (ROOT / TOY.file).read_text(encoding="utf-8")

    assert TOY.apply(text).count(TOY.new) == 1
    with pytest.raises(DoesNotApply):
        variant("twice", old="acked").apply(text)


def test_an_entry_that_names_one_case_of_a_test_is_refused() -> None:
    entry = (
        '[[mutant]]\nid = "toy"\nwhat = "x"\nfile = "f.py"\nold = "a"\nnew = "b"\ntests = ["tests/test_f.py::test_g{}"]'
    )

    with pytest.raises(mutants_support.BadEntry, match=r"toy: .*: name the test, tests/test_f.py::test_g$"):
        mutants_support.parse(entry.format("[1]"))
    assert mutants_support.parse(entry.format(""))[0].tests == ("tests/test_f.py::test_g",)


def test_a_choice_is_by_id_rule_file_or_folder_and_by_what_changed() -> None:
    other = variant("other", rules=("B41",), file="bookie/storage/store.py")
    both = [TOY, other]

    assert mutants_support.selected(both, only=["P9"]) == [TOY]
    assert mutants_support.selected(both, only=["other", "toy"]) == both
    assert mutants_support.selected(both, only=["bookie/storage"]) == [other]
    assert mutants_support.selected(both, files=["bookie/quorum/adds.py"]) == [TOY]
    assert mutants_support.selected(both, files=["tests/unit/quorum/test_adds.py"]) == both
    assert mutants_support.selected(both, only=["B41"], files=["bookie/quorum/adds.py"]) == []


def since_it_landed() -> list[Mutant]:
    """The mutants of files that differ from the last landed commit, whose tests are fast ones, in an order that the
    commit draws; where that commit is not known none."""
    try:
        changed = make_mutants.changed_since(landed_support.commit())
    except (subprocess.CalledProcessError, landed_support.UnknownCommit):
        return []
    seed = seeds_support.base_seed()
    found = [mutant for mutant in mutants() if mutant.file in changed]
    fast = [mutant for mutant in found if all(test.startswith("tests/unit/") for test in mutant.tests)]
    return sorted(fast, key=lambda mutant: zlib.crc32(f"{seed} {mutant.id}".encode()))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_mutants_of_what_changed_are_killed(part: int) -> None:
    usual = [mutant for mutant in mutants() if mutant.id in USUAL]
    chosen = list(dict.fromkeys([*usual, *since_it_landed()]))[: PARTS * PART_MAX][part::PARTS]
    print(f"{len(chosen)} mutants: {' '.join(mutant.id for mutant in chosen)}")

    found = list(make_mutants.outcomes(chosen, jobs=1, timeout_s=300))

    assert len(usual) == len(USUAL)
    assert [each.facts() for each in found if each.word not in make_mutants.GOOD] == []
