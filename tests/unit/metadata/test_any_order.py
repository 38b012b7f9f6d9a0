"""One ledger's metadata under a writer, recoveries and re-replication, in any order, each with what it read before.

The model knows the ensemble of each confirmed entry. Whoever writes, with whatever it read: no confirmed entry loses
the bookies that a change gave it, no end lies before a confirmed entry, and what is closed keeps its end.
"""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client.repair import recovery
from bookie.client.shared import Shared
from bookie.metadata import ledger
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment
from bookie.quorum import ensemble

BOOKIES = tuple(BookieId(f"b{number}") for number in range(7))
ORDER = (LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED)
some_number = st.integers(0, 3)
Read = tuple[LedgerMetadata, int]


def free(segment: Segment, number: int) -> BookieId:
    """One of the four bookies that a segment does not name."""
    return [one for one in BOOKIES if one not in segment.bookies][number]


class Store:
    """The node of one ledger. `overtake`: what another client does just before the next write."""

    def __init__(self, metadata: LedgerMetadata) -> None:
        self.metadata, self.version = metadata, 0
        self.overtake: list[Any] = []

    async def get(self, _: LedgerId) -> Read:
        return self.metadata, self.version

    async def get_again(self, ledger_id: LedgerId, known: LedgerMetadata) -> Read:
        assert not known.was_replaced_by(self.metadata), "it is one ledger"
        return await self.get(ledger_id)

    async def put(self, _: LedgerId, metadata: LedgerMetadata, version: int) -> int:
        if self.overtake:
            self.overtake.pop()()
        self.write(metadata, version)
        return self.version

    def write(self, metadata: LedgerMetadata, version: int) -> None:
        if version != self.version:
            raise errors.VersionConflict("/ledgers/1", version)
        self.metadata, self.version = metadata, version + 1


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        made = ledger.new_ledger(
            ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=BOOKIES[:3], password=b"p", custom=(("a", b"1"),)
        )
        self.store = Store(made)
        self.shared = cast(Shared, SimpleNamespace(ledgers=self.store))
        self.lac = -1
        self.ensembles: dict[int, list[BookieId]] = {}  # of each confirmed entry
        self.writer: Read = (made, 0)
        self.replicator: Read = (made, 0)
        self.recoveries: list[Read] = []
        self.state, self.end = LedgerState.OPEN, (-1, 0)

    @property
    def is_open(self) -> bool:
        """No recovery has fenced it: the writer's adds are acknowledged."""
        return self.store.metadata.state is LedgerState.OPEN

    @initialize()
    def two_segments_are_there(self) -> None:
        self.entries_are_confirmed(2)
        self.the_writer_changes_its_ensemble(0, 0)
        self.entries_are_confirmed(1)

    # ---- the writer -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_open)
    @rule(count=st.integers(1, 3))
    def entries_are_confirmed(self, count: int) -> None:
        for _ in range(count):
            self.lac += 1
            # The bookies that the writer wrote to. Who moves copies of this segment copies this entry as well.
            self.ensembles[self.lac] = list(self.store.metadata.segment_of(EntryId(self.lac)).bookies)

    @rule(slot=st.integers(0, 2), number=some_number)
    def the_writer_changes_its_ensemble(self, slot: int, number: int) -> None:
        new = free(self.writer[0].last_segment, number)
        failed = {slot: self.writer[0].last_segment.bookies[slot]}
        while ensemble.why_not_open(self.writer[0]) is None:
            metadata, version = self.writer
            failed = ensemble.still_failed(metadata, failed)
            if not failed or new in metadata.last_segment.bookies:
                return
            changed = ensemble.changed(metadata, EntryId(self.lac), dict.fromkeys(failed, new))
            try:
                self.store.write(changed, version)
                assert changed.state is LedgerState.OPEN, "a recovery decides now"
                self.writer = changed, version + 1
            except errors.VersionConflict:
                self.writer = self.store.metadata, self.store.version
                continue
            return

    @precondition(lambda self: self.lac >= 6)  # not at once: little can happen afterwards
    @rule()
    def the_writer_closes(self) -> None:
        metadata, version = self.writer
        if metadata.state is LedgerState.OPEN:
            try:
                self.store.write(metadata.closed(EntryId(self.lac), self.lac + 1), version)
            except errors.VersionConflict:
                self.writer = self.store.metadata, self.store.version

    # ---- recoveries -------------------------------------------------------------------------------------------------

    @rule()
    def a_recovery_begins(self) -> None:
        self.recoveries.append(asyncio.run(recovery._begin(self.shared, LedgerId(1))))

    @precondition(lambda self: self.recoveries)
    @rule(more=st.integers(0, 2), slot=st.integers(0, 2), number=some_number, segment=st.integers(0, 1))
    def a_recovery_ends(self, more: int, slot: int, number: int, segment: int) -> None:
        """It found `more` entries, and perhaps changed the ensemble to write them back; somebody moves copies."""
        before, version = self.recoveries.pop()
        if before.is_closed:
            return
        recovered, was_closed = before, self.store.metadata.is_closed
        if more:
            recovered = ensemble.changed(before, EntryId(self.lac), {slot: free(before.last_segment, number)})

        def overtake() -> None:
            self.the_replicator_reads()
            self.copies_move(segment, slot, number)

        self.store.overtake = [overtake]
        end = EntryId(self.lac + more)
        work = recovery._end(self.shared, LedgerId(1), before, version, recovered, end=end, length=end + 1)
        closed, _ = asyncio.run(work)
        self.store.overtake = []
        assert closed == self.store.metadata, "what it returns is what is stored"
        assert closed.is_closed
        if not was_closed:
            assert closed.last_segment == recovered.last_segment, "what was written back is where it was written to"

    # ---- re-replication ---------------------------------------------------------------------------------------------

    @rule()
    def the_replicator_reads(self) -> None:
        self.replicator = self.store.metadata, self.store.version

    @rule(segment=some_number, slot=st.integers(0, 2), number=some_number)
    def copies_move(self, segment: int, slot: int, number: int) -> None:
        """All copies in one slot of a segment go to another bookie, as far as what was read last is still so."""
        metadata, version = self.replicator
        moved = metadata.segments[segment % len(metadata.segments)]
        if moved is metadata.last_segment and not metadata.is_closed:
            return  # the end of an open ledger is its writer's and its recovery's
        old, new = moved.bookies[slot], free(moved, number)
        try:
            self.store.write(metadata.replaced(moved.first_entry, old, new), version)
        except errors.VersionConflict:
            return
        for entry_id, bookies in self.ensembles.items():
            if metadata.segment_of(EntryId(entry_id)) is moved:
                bookies[bookies.index(old)] = new

    # ---- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def confirmed_entries_keep_their_bookies(self) -> None:
        for entry_id, bookies in self.ensembles.items():
            assert list(self.store.metadata.segment_of(EntryId(entry_id)).bookies) == bookies, f"entry {entry_id}"

    @invariant()
    def the_state_goes_forward_and_the_end_stays(self) -> None:
        now = self.store.metadata
        assert ORDER.index(now.state) >= ORDER.index(self.state)
        if self.state is LedgerState.CLOSED:
            assert (now.last_entry, now.length) == self.end
        if now.is_closed:
            assert now.last_entry >= self.lac, "a confirmed entry lies beyond the end"
        self.state, self.end = now.state, (now.last_entry, now.length)

    @invariant()
    def the_rest_stays_what_it_was(self) -> None:
        now = self.store.metadata
        assert (now.ensemble_size, now.write_quorum, now.ack_quorum) == (3, 3, 2)
        assert (now.password, now.custom) == (b"p", (("a", b"1"),))
        assert all(len(set(segment.bookies)) == 3 for segment in now.segments)


def test_in_any_order_metadata_keeps_what_was_confirmed() -> None:
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=200, stateful_step_count=25, derandomize=True)
    )
