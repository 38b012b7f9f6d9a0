"""Recovery told as stories (`cases/*.txt`): who answers what, and what recovery decides after each answer.

    ledger 3/3/2 [from 7]        E/WQ/AQ, and the first entry of the last ensemble
    b0 fenced, lac 4             its highest entry says that 4 was confirmed
    b0 fenced, empty             it has nothing, and may say so
    b0 WORD                      it answers the fence with an error
    b0 has 5                     it sends entry 5, and the digest is right
    b0 WORD 5                    it answers the read of entry 5 with an error
    wrote 5                      an ack quorum took everything up to 5 back
    writing fails                and no bookie is left to write to

WORD: `denies` is the only answer that proves something; `limbo`, `silent`, `damaged`, `unauthorized` do not.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import cases_support
from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, EntryId
from bookie.quorum.reads import ReadOutcome, ReadPlan
from bookie.quorum.recovery import Recovery, RecoveryPhase
from bookie.quorum.schedule import Schedule

ANSWERS: dict[str, BookieError] = {
    "denies": errors.NoSuchEntry("is not here"),
    "limbo": errors.UnknownLedgerState("may have lost it"),
    "silent": errors.BookieUnavailable("does not answer"),
    "damaged": errors.DigestMismatch("damaged"),
    "unauthorized": errors.Unauthorized("has another key"),
}


class Teller:
    """One recovery with its reads, all replicas asked at once; answers with what it decides."""

    def __init__(self) -> None:
        self.schedule = Schedule(1, 1, 1)
        self.recovery = Recovery(self.schedule, EntryId(0))
        self.phase = self.recovery.phase
        self.reads: dict[int, ReadPlan] = {}

    def tell(self, words: Sequence[str]) -> list[str]:
        answer = [said for line in words for said in self.line(line)]
        return [*answer, *self.decided()] or ["waits"]

    def line(self, line: str) -> Iterator[str]:
        if match := re.fullmatch(r"ledger (\d)/(\d)/(\d)(?: from (\d+))?", line):
            sizes, first = [int(size) for size in match.groups()[:3]], int(match[4] or 0)
            self.schedule = Schedule(*sizes)
            self.recovery = Recovery(self.schedule, EntryId(first))
        elif match := re.fullmatch(r"b(\d) fenced, lac (-?\d+)", line):
            self.recovery.fenced(int(match[1]), EntryId(int(match[2])))
        elif match := re.fullmatch(r"b(\d) fenced, empty", line):
            self.recovery.fence_failed(int(match[1]), ANSWERS["denies"])
        elif match := re.fullmatch(r"b(\d) ([a-z]+)", line):
            self.recovery.fence_failed(int(match[1]), ANSWERS[match[2]])
        elif match := re.fullmatch(r"b(\d) has (\d+)", line):
            yield from self.found(int(match[1]), EntryId(int(match[2])))
        elif match := re.fullmatch(r"b(\d) ([a-z]+) (\d+)", line):
            yield from self.failed(int(match[1]), EntryId(int(match[3])), ANSWERS[match[2]])
        elif match := re.fullmatch(r"wrote (\d+)", line):
            self.recovery.written(EntryId(int(match[1])))
        elif line == "writing fails":
            self.recovery.failed(errors.NotEnoughBookies("no bookie is left to write to"))
        else:
            raise AssertionError(f"no line of a story of recovery: {line!r}")

    def found(self, slot: int, entry_id: EntryId) -> Iterator[str]:
        if self.is_asked(slot, entry_id):
            del self.reads[entry_id]
            yield from written_back(self.recovery.found(entry_id))

    def failed(self, slot: int, entry_id: EntryId, error: BookieError) -> Iterator[str]:
        if not self.is_asked(slot, entry_id):
            return
        plan = self.reads[entry_id]
        outcome = plan.failed(error)
        if outcome is ReadOutcome.ABSENT:
            del self.reads[entry_id]
            yield f"{entry_id} is proven absent"
            yield from written_back(self.recovery.absent(entry_id))
        elif outcome is ReadOutcome.UNDECIDED:
            del self.reads[entry_id]
            yield f"nobody can decide about {entry_id}"
            yield from written_back(self.recovery.undecided(entry_id, plan.error))

    def is_asked(self, slot: int, entry_id: EntryId) -> bool:
        """Return False when the read is over: the answer came late. No bookie outside its write set is asked."""
        assert slot in self.schedule.write_set(entry_id), f"b{slot} does not hold entry {entry_id}"
        return entry_id in self.reads

    def decided(self) -> Iterator[str]:
        recovery = self.recovery
        if recovery.phase is not self.phase:
            self.phase = recovery.phase
            match recovery.phase:
                case RecoveryPhase.READING:
                    yield f"fenced; {recovery.start} is confirmed"
                case RecoveryPhase.CLOSING:
                    length = f"; its length is what entry {recovery.end} says" if recovery.is_empty_handed else ""
                    yield "closes empty" if recovery.end == INVALID_ENTRY_ID else f"closes at {recovery.end}{length}"
                case RecoveryPhase.FAILED:
                    yield f"fails, the ledger stays in recovery: {recovery.error}"
        if asked := list(recovery.next_reads()):
            yield f"reads {runs(asked)}"
        for entry_id in asked:
            plan = ReadPlan(self.schedule.write_set(entry_id), negatives_needed=self.schedule.negative_quorum)
            while plan.next_replica() is not None:
                pass
            self.reads[entry_id] = plan


def written_back(entry_ids: Sequence[EntryId]) -> Iterator[str]:
    if entry_ids:
        yield f"writes {runs(entry_ids)} back"


def runs(entry_ids: Sequence[EntryId]) -> str:
    """Entries that follow each other, as both ways hand them out."""
    assert list(entry_ids) == list(range(entry_ids[0], entry_ids[-1] + 1))
    return f"{entry_ids[0]}" if len(entry_ids) == 1 else f"{entry_ids[0]}-{entry_ids[-1]}"


@pytest.mark.parametrize("path", cases_support.stories(Path(__file__).parent / "cases"), ids=lambda path: path.stem)
def test_recovery_decides_as_it_is_told(path: Path) -> None:
    cases_support.check(path, Teller().tell)


STORY = "# Two of three answer.\nledger 3/3/2\nb0 fenced, lac 4\n----\nwaits\n"


def test_another_answer_than_the_story_has_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REWRITE", raising=False)
    path = tmp_path / "story.txt"
    path.write_text(STORY.replace("waits", "fenced"))

    with pytest.raises(AssertionError):
        cases_support.check(path, Teller().tell)
    assert "fenced\n" in path.read_text(), "nothing is rewritten unasked"


def test_a_story_is_rewritten_where_it_is_asked_for_and_red_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWRITE", "1")
    path = tmp_path / "story.txt"
    path.write_text(STORY.replace("waits", "fenced"))

    with pytest.raises(AssertionError, match="was rewritten"):
        cases_support.check(path, Teller().tell)
    assert path.read_text() == STORY
    cases_support.check(path, Teller().tell)


def test_a_step_without_its_line_is_no_story() -> None:
    with pytest.raises(ValueError, match="not one"):
        cases_support.parse("ledger 3/3/2\nb0 fenced, lac 4\n")
