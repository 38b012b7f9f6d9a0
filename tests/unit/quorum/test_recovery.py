"""Recovery: its states one by one, then whole recoveries over model bookies that do not crash (CONFORMANCE.md#B12 to
B17)."""

import random

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId
from bookie.quorum.reads import ReadOutcome, ReadPlan
from bookie.quorum.recovery import Recovery, RecoveryPhase
from bookie.quorum.schedule import Schedule

NO = errors.NoSuchEntry("no")
LIMBO = errors.UnknownLedgerState("limbo")


def reading(lac: int = 4, first_of_last: int = 0) -> Recovery:
    recovery = Recovery(Schedule(3, 3, 2), EntryId(first_of_last))
    recovery.fenced(0, EntryId(lac))
    recovery.fenced(1, EntryId(-1))
    assert recovery.phase is RecoveryPhase.READING
    return recovery


def test_reading_begins_only_after_coverage() -> None:
    """CONFORMANCE.md#B12."""
    recovery = Recovery(Schedule(3, 3, 2), EntryId(0))

    recovery.fenced(0, EntryId(9))

    assert recovery.phase is RecoveryPhase.FENCING
    assert not recovery.next_reads()


def test_reading_begins_after_the_greatest_lac() -> None:
    assert list(reading(lac=4).next_reads()) == [5]


def test_what_precedes_the_last_segment_is_confirmed_whatever_its_bookies_say() -> None:
    """Wire 10.4, step 5: start = max(LAC, first entry of the last ensemble - 1)."""
    assert list(reading(lac=-1, first_of_last=12).next_reads()) == [12]


def test_fencing_fails_when_an_ack_quorum_cannot_answer() -> None:
    """CONFORMANCE.md#B13: no end is chosen."""
    recovery = Recovery(Schedule(3, 3, 2), EntryId(0))

    recovery.fence_failed(0, LIMBO)
    recovery.fence_failed(2, LIMBO)

    assert recovery.phase is RecoveryPhase.FAILED
    assert isinstance(recovery.error, errors.QuorumNotReached)


def test_the_ledger_ends_before_the_first_proven_absence_once_all_before_it_is_written_back() -> None:
    """CONFORMANCE.md#B15, P31, P32."""
    recovery = reading()

    assert list(recovery.found(EntryId(5))) == [5]
    recovery.next_reads()
    recovery.absent(EntryId(6))
    before = recovery.phase
    recovery.written(EntryId(5))

    assert (before, recovery.phase, recovery.end) == (RecoveryPhase.READING, RecoveryPhase.CLOSING, 5)
    assert not recovery.is_empty_handed


def test_a_ledger_where_nothing_follows_the_lac_ends_there_and_asks_for_its_length() -> None:
    recovery = reading(lac=4)

    recovery.absent(EntryId(5))

    assert (recovery.phase, recovery.end, recovery.is_empty_handed) == (RecoveryPhase.CLOSING, 4, True)


def test_answers_ahead_are_judged_in_order_and_an_entry_beyond_the_end_is_left_behind() -> None:
    recovery = reading(lac=-1)
    recovery.next_reads()
    recovery.found(EntryId(0))
    ahead = list(recovery.next_reads())

    early = recovery.found(EntryId(2))
    recovery.absent(EntryId(1))
    recovery.written(EntryId(0))

    assert ahead == [1, 2]
    assert not early
    assert (recovery.phase, recovery.end) == (RecoveryPhase.CLOSING, 0)


def test_an_entry_that_nobody_can_decide_stops_recovery_unless_an_earlier_one_is_proven_absent() -> None:
    """CONFORMANCE.md#B17."""
    stopped, ended = reading(lac=-1), reading(lac=-1)
    for recovery in (stopped, ended):
        recovery.next_reads()
        recovery.found(EntryId(0))
        recovery.next_reads()
        recovery.undecided(EntryId(2), LIMBO)

    stopped.found(EntryId(1))
    ended.absent(EntryId(1))
    ended.written(EntryId(0))

    assert (stopped.phase, stopped.error) == (RecoveryPhase.FAILED, LIMBO)
    assert ended.phase is RecoveryPhase.CLOSING


def test_a_failed_write_back_fails_the_recovery() -> None:
    recovery = reading(lac=-1)
    recovery.found(EntryId(0))

    recovery.failed(errors.NotEnoughBookies("none left"))

    assert recovery.phase is RecoveryPhase.FAILED


class ModelBookie:
    """Keeps entries, obeys fences, never loses anything."""

    def __init__(self) -> None:
        self.lacs: dict[int, int] = {}  # entry id -> the LAC in its header
        self.fenced = False

    def add(self, entry: int, lac: int) -> bool:
        if self.fenced:
            return False
        self.lacs[entry] = lac
        return True


def recover(schedule: Schedule, bookies: list[ModelBookie], mute: set[int], draw: random.Random) -> Recovery:
    """Drive one recovery; bookies in `mute` answer nothing but errors."""
    recovery = Recovery(schedule, EntryId(0))
    for slot in draw.sample(range(len(bookies)), len(bookies)):
        bookie = bookies[slot]
        if recovery.phase is not RecoveryPhase.FENCING:
            break  # the rest may never hear of it
        if slot in mute:
            recovery.fence_failed(slot, LIMBO)
            continue
        bookie.fenced = True
        if bookie.lacs:
            recovery.fenced(slot, EntryId(bookie.lacs[max(bookie.lacs)]))
        else:
            recovery.fence_failed(slot, NO)
    reads: list[EntryId] = list(recovery.next_reads())
    while reads and recovery.phase is RecoveryPhase.READING:
        entry = reads.pop(draw.randrange(len(reads)))
        plan = ReadPlan(schedule.write_set(entry), negatives_needed=schedule.negative_quorum)
        outcome, found = ReadOutcome.OPEN, False
        while not found and outcome is ReadOutcome.OPEN:
            slot_or_none = plan.next_replica()
            assert slot_or_none is not None
            # Recovery reads fence too: else a "no" of a bookie that missed the fencing could become a "yes" later.
            bookies[slot_or_none].fenced |= slot_or_none not in mute
            found = slot_or_none not in mute and entry in bookies[slot_or_none].lacs
            if not found:
                error: BookieError = LIMBO if slot_or_none in mute else NO
                outcome = plan.failed(error)
        if found:
            writable = recovery.found(entry)
        elif outcome is ReadOutcome.ABSENT:
            writable = recovery.absent(entry)
        else:
            writable = recovery.undecided(entry, plan.error)
        if recovery.phase is RecoveryPhase.READING and writable:
            for written in writable:
                for slot in schedule.write_set(written):
                    bookies[slot].lacs.setdefault(written, -1)
            recovery.written(writable[-1])
        reads += recovery.next_reads()
    return recovery


@pytest.mark.parametrize("seed", range(400))
def test_whatever_the_writer_had_acknowledged_lies_at_or_before_the_end(seed: int) -> None:
    """spec/bp46.md#S1, CONFORMANCE.md#P28, P30: adds in any order, recovery at any moment, the writer alive, fewer mute
    bookies than AQ."""
    draw = random.Random(seed)
    size = draw.randint(1, 5)
    write_quorum = draw.randint(1, size)
    schedule = Schedule(size, write_quorum, draw.randint(1, write_quorum))
    bookies = [ModelBookie() for _ in range(size)]
    pending: dict[int, list[int]] = {}
    acks: dict[int, set[int]] = {}
    lac, pushed = -1, 0

    def write(steps: int) -> None:
        nonlocal lac, pushed
        for _ in range(steps):
            if draw.random() < 0.4 and pushed - lac < 6:
                pending[pushed] = list(schedule.write_set(EntryId(pushed)))
                acks[pushed] = set()
                header_lac[pushed] = lac
                pushed += 1
            elif pending:
                entry = draw.choice(sorted(pending))
                slot = pending[entry].pop(draw.randrange(len(pending[entry])))
                if not pending[entry]:
                    del pending[entry]
                if bookies[slot].add(entry, header_lac[entry]):
                    acks[entry].add(slot)
                while len(acks.get(lac + 1, ())) >= schedule.ack_quorum:
                    lac += 1

    header_lac: dict[int, int] = {}
    write(draw.randrange(40))
    mute = set(draw.sample(range(size), draw.randrange(schedule.ack_quorum)))
    recovery = recover(schedule, bookies, mute, draw)
    write(40)  # the old writer does not know yet
    again = recover(schedule, bookies, set(), draw)

    assert recovery.phase in (RecoveryPhase.CLOSING, RecoveryPhase.FAILED)
    assert again.phase is RecoveryPhase.CLOSING
    assert again.end is not None
    assert again.end >= lac
    if recovery.phase is RecoveryPhase.CLOSING:
        assert recovery.end is not None
        assert recovery.end >= lac, "an acknowledged entry lies beyond the end"
    if not mute:
        assert recovery.phase is RecoveryPhase.CLOSING
