"""The ledgers of one directory: some in memory, all others in the index.
Bounded, and keeps every fact until it is saved.

A ledger of which something cannot be read or contradicts itself is quarantined: its state is lost, so it never says no
and takes no add; what is here of it is still read. The integrity check ends that, as any limbo, once all of it is here.
"""

import itertools
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.ports.ordered_store import DeleteRow
from bookie.storage import index as index_module
from bookie.storage import ledgers
from bookie.storage.doubt import Doubt
from bookie.storage.going import Going
from bookie.storage.index import Index
from bookie.storage.ledgers import DOUBT, GIVEN_UP, GOING, LIMBO, NAMED_AGAIN, QUIET, STATE_LOST, UNKNOWN_LAST, Ledger

log = logging.getLogger(__name__)

_TOUCHED_MAX = 1_024  # ledgers to be examined next; who asks for more waits for their turn


class LedgerTable:
    """The table. `dirty` holds each ledger whose row in the index is older than memory, until
    a checkpoint is durable."""

    def __init__(self, index: Index, *, cached_max: int) -> None:
        self.known: dict[LedgerId, Ledger] = {}
        self.dirty: dict[LedgerId, Ledger] = {}
        # What a running (or failed) checkpoint is writing: still dirty until its flush has returned.
        self.flushing: dict[LedgerId, Ledger] = {}
        self.deleted: dict[LedgerId, None] = {}
        self.deleting: dict[LedgerId, None] = {}
        self.going = Going()
        self.quarantined: dict[LedgerId, str] = {}  # and why
        self._released: dict[LedgerId, None] = {}  # the index says still that they are quarantined
        self.doubt = Doubt()
        self.touched: dict[LedgerId, None] = {}  # somebody asked for them while they were in doubt
        self._doubted: dict[LedgerId, Ledger] = {}  # in memory, with the flag
        self._settling: dict[LedgerId, None] = {}  # the index says that they are examined, not durably yet
        self.has_given_up = False  # any ledger, ever: then the index's format says so
        self._quiet: dict[LedgerId, None] = {}  # nothing has come for them since `watch`
        self._is_hastened = False  # somebody asked for the checkpoint that is to begin
        self._index = index
        self._cached_max = cached_max

    def find(self, ledger_id: LedgerId) -> Ledger | None:
        """Return the ledger, loaded from the index if need be; None when this bookie does not know it."""
        ledger = self.known.get(ledger_id)
        if ledger is not None or not self.is_in_index(ledger_id):
            return ledger
        row = self._index.row(ledger_id)
        if row is None:
            return None
        try:
            ledger = ledgers.unpack_row(ledger_id, row)
        except errors.CorruptFile as error:
            ledger = Ledger(ledger_id)  # the row stays as it is until something of the ledger changes
            self._note(ledger_id, str(error))
        if ledger_id in self.quarantined:
            ledger.flags |= LIMBO | STATE_LOST
        self.known[ledger_id] = ledger
        if self.doubt.rest:
            self._mark_doubted(ledger)
        if ledger_id in self._quiet:
            ledger.flags |= QUIET
        return ledger

    def is_in_index(self, ledger_id: LedgerId) -> bool:
        """Return False while the index still has what was deleted of the ledger. It may be here again by now, and all
        of that is in memory: nothing of it leaves the generations before the checkpoint that ends this."""
        return ledger_id not in self.deleted and ledger_id not in self.deleting

    def is_here(self, ledger_id: LedgerId) -> bool:
        """Return True when this bookie knows the ledger; load nothing into memory."""
        return ledger_id in self.known or (self.is_in_index(ledger_id) and self._index.row(ledger_id) is not None)

    def may_be_here(self, ledger_id: LedgerId) -> bool:
        """Return True when the ledger is here, or a crash would bring it back: its deletion is not durable."""
        return not self.is_in_index(ledger_id) or self.is_here(ledger_id)

    def create(self, ledger_id: LedgerId, master_key: bytes) -> Ledger:
        """Create a ledger that `find` did not find."""
        ledger = self.known[ledger_id] = self.dirty[ledger_id] = Ledger(ledger_id, master_key)
        if ledger_id in self.going:
            ledger.flags |= GOING
        if self.doubt.rest:
            self._mark_doubted(ledger)
        return ledger

    def changed(self, ledger: Ledger) -> None:
        """Note that the next checkpoint must write the ledger's row."""
        self.dirty[ledger.ledger_id] = ledger

    def delete(self, ledger_id: LedgerId, *, is_journaled: bool) -> None:
        """Delete the ledger. `is_journaled`: nothing of it is on its way to the journal."""
        self.quarantined.pop(ledger_id, None)
        self._released.pop(ledger_id, None)
        self.known.pop(ledger_id, None)
        self._doubted.pop(ledger_id, None)
        self.dirty.pop(ledger_id, None)
        self.flushing.pop(ledger_id, None)
        self._quiet.pop(ledger_id, None)
        self.deleted[ledger_id] = None
        self.going.add(ledger_id, is_journaled=is_journaled)

    async def walk(self) -> AsyncGenerator[LedgerId, None]:
        """Yield every ledger that is known from this call to the end; other tasks run between slices. May include
        ledgers created or deleted meanwhile."""
        # Ledgers without a row may get one where the walk has been already.
        rowless = dict.fromkeys(sorted({*self.dirty, *self.flushing}))
        async for ledger_ids in self._index.walk_ledgers():
            for ledger_id in ledger_ids:
                rowless.pop(ledger_id, None)
                if ledger_id in self.known or self.is_in_index(ledger_id):
                    yield ledger_id
        for ledger_id in rowless:
            if ledger_id in self.known:
                yield ledger_id

    # ---- ledgers that nobody can judge ------------------------------------------------------------------------------

    def load_quarantined(self) -> None:
        """Load the ledgers that an earlier process quarantined."""
        self.quarantined.update(self._index.quarantined())

    def quarantine(self, ledger_id: LedgerId, reason: str) -> Ledger | None:
        """Quarantine a ledger, whose state here is lost; create it when it is unknown. Its row must be written.

        None, and nothing happens, when it is deleted already.
        """
        if ledger_id not in self.known and not self.is_in_index(ledger_id):
            return None
        ledger = self.find(ledger_id) or self.create(ledger_id, b"")
        self._note(ledger_id, reason)
        ledger.flags |= LIMBO | STATE_LOST
        self.changed(ledger)
        return ledger

    def _note(self, ledger_id: LedgerId, reason: str) -> None:
        if ledger_id not in self.quarantined:
            self.quarantined[ledger_id] = reason
            self._released.pop(ledger_id, None)  # or the next checkpoint would remove the row that says so
            log.error("ledger quarantined, the integrity check mends it ledger_id=%d reason=%s", ledger_id, reason)

    def release(self, ledger: Ledger) -> None:
        """End limbo and quarantine: the whole ledger is here again, so the bookie may deny that an entry exists."""
        ledger.flags &= ~LIMBO
        ledger.last = UNKNOWN_LAST
        if self.quarantined.pop(ledger.ledger_id, None) is not None:
            self._released[ledger.ledger_id] = None
        self.changed(ledger)

    def check_judgeable(self, ledger_id: LedgerId) -> None:
        """Raise UnknownLedgerState when the ledger is quarantined: the bookie could keep no promise about it."""
        reason = self.quarantined.get(ledger_id)
        if reason is not None:
            raise errors.UnknownLedgerState(f"ledger {ledger_id} is quarantined here: {reason}")

    # ---- ledgers that nobody has examined yet -----------------------------------------------------------------------

    def is_doubted(self, ledger_id: LedgerId) -> bool:
        """Return True when the ledger, known here or not, is in the doubt of this index and not examined yet."""
        doubt = self.doubt
        return doubt.is_left(ledger_id) and (
            ledger_id in self._settling or not self._index.is_examined(ledger_id, doubt.epoch)
        )

    def touch(self, ledger_id: LedgerId) -> None:
        """Have a ledger that is in doubt examined before its turn: somebody got no answer because of it."""
        if self.doubt.rest and len(self.touched) < _TOUCHED_MAX and self.is_doubted(ledger_id):
            self.touched[ledger_id] = None

    def begin_doubt(self, doubt: Doubt) -> None:
        """Doubt every ledger below the bound from now on; what an earlier doubt had examined counts no more."""
        self.doubt = doubt
        self.touched.clear()
        self._settling.clear()
        for ledger in self.known.values():
            if doubt.is_left(ledger.ledger_id):
                ledger.flags |= DOUBT
                self._doubted[ledger.ledger_id] = ledger

    def settle(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Note that `ledger_ids` are about to leave doubt before their turn; `examined` says when that is durable."""
        self._settling.update(dict.fromkeys(ledger_ids))

    def examined(self, doubt: Doubt, ledger_ids: Iterable[LedgerId]) -> None:
        """End the doubt about `ledger_ids`, and about all that `doubt` does not leave: that is durable now."""
        self.doubt = doubt
        passed = [ledger_id for ledger_id in self._doubted if not doubt.is_left(ledger_id)]
        for ledger_id in (*passed, *ledger_ids):
            self.touched.pop(ledger_id, None)
            self._settling.pop(ledger_id, None)
            ledger = self._doubted.pop(ledger_id, None)
            if ledger is not None:
                ledger.flags &= ~DOUBT

    def _mark_doubted(self, ledger: Ledger) -> None:
        if self.is_doubted(ledger.ledger_id):
            ledger.flags |= DOUBT
            self._doubted[ledger.ledger_id] = ledger

    # ---- ledgers whose entries were given up ------------------------------------------------------------------------

    def watch(self, ledger: Ledger) -> None:
        """Begin to watch whether anything comes for the ledger: an add, a copy, a fence, a LAC."""
        self._quiet[ledger.ledger_id] = None
        ledger.flags |= QUIET

    def is_quiet(self, ledger_id: LedgerId) -> bool:
        """Return True when the ledger is watched and nothing has come for it since."""
        return ledger_id in self._quiet

    def disturb(self, ledger: Ledger) -> None:
        """Note that something comes for the ledger: who watched it must begin anew."""
        ledger.flags &= ~QUIET
        self._quiet.pop(ledger.ledger_id, None)

    def give_up(self, ledger: Ledger) -> None:
        """Note that the next checkpoint removes the ledger's entries from the index, and keeps its row. What comes for
        it from now on is in memory, as after a deletion."""
        assert ledger.flags & GIVEN_UP, "the mark is durable before an entry goes"
        self.disturb(ledger)
        ledger.last = UNKNOWN_LAST
        self.deleted[ledger.ledger_id] = None
        self.changed(ledger)  # it stays in memory until the checkpoint is durable

    def is_given_up(self, ledger_id: LedgerId) -> bool:
        """Return True when entries of the ledger were given up; load nothing into memory."""
        if not self.has_given_up:
            return False
        ledger = self.known.get(ledger_id)
        if ledger is not None:
            return bool(ledger.flags & GIVEN_UP)
        row = self._index.row(ledger_id) if self.is_in_index(ledger_id) else None
        return row is not None and ledgers.is_given_up(row)

    def named_again(self, ledger: Ledger) -> None:
        """Note that a record names this bookie again although entries of the ledger were given up."""
        if ledger.flags & (GIVEN_UP | NAMED_AGAIN) == GIVEN_UP:
            ledger.flags |= NAMED_AGAIN
            self.changed(ledger)

    # ---- for the checkpoint -----------------------------------------------------------------------------------------

    def rotate(self) -> None:
        """Hand the dirty ledgers to the checkpoint that begins."""
        assert not self.flushing
        assert not self.deleting
        self.flushing, self.dirty = self.dirty, {}
        self.deleting, self.deleted = self.deleted, {}
        self.going.rotate()
        self._is_hastened = False

    def hasten(self) -> bool:
        """Return True when a checkpoint should be asked for, as somebody waits for it: once for each that begins. One
        that fails keeps what it has, so that who asks again and again makes no loop of it."""
        is_news = not self._is_hastened
        self._is_hastened = True
        return is_news

    def rows_of(self, batch: Sequence[Ledger]) -> list[tuple[bytes, bytes]]:
        """Return the rows to write for these ledgers, from their present state."""
        pairs = [(index_module.ledger_key(ledger.ledger_id), ledger.pack()) for ledger in batch]
        if self.quarantined:
            found = [(ledger.ledger_id, self.quarantined.get(ledger.ledger_id)) for ledger in batch]
            pairs += [index_module.quarantine_pair(ledger_id, why) for ledger_id, why in found if why is not None]
        return pairs

    def rows_of_known(self, ledger_id: LedgerId) -> list[tuple[bytes, bytes]]:
        """Return the rows of a ledger that is in memory; none when it is not: made anew, it cannot leave that."""
        ledger = self.known.get(ledger_id)
        return [] if ledger is None else self.rows_of([ledger])

    def lac_rows_of(self, ledger_ids: Sequence[LedgerId]) -> list[tuple[bytes, bytes]]:
        """Return the rows to write for ledgers of which deltas have a LAC; those in memory are not looked up."""
        known = [ledger for ledger_id in ledger_ids if (ledger := self.known.get(ledger_id)) is not None]
        others = [ledger_id for ledger_id in ledger_ids if ledger_id not in self.known]
        return self.rows_of(known) + self._index.lac_pairs(others)

    def released_of(self, batch: Iterable[Ledger]) -> list[DeleteRow]:
        """Return the deletions of quarantine rows of those ledgers that were released since."""
        released = [ledger.ledger_id for ledger in batch if ledger.ledger_id in self._released]
        return [DeleteRow(index_module.quarantine_key(ledger_id)) for ledger_id in released]

    def flushed(self) -> None:
        """Note that the rows and deletions of this checkpoint are durable."""
        for ledger_id in [ledger_id for ledger_id in self._released if ledger_id not in self.dirty]:
            del self._released[ledger_id]
        self.flushing = {}
        self.deleting = {}
        for ledger_id in self.going.flushed():
            if ledger_id in self.known:
                self.known[ledger_id].flags &= ~GOING

    def join_deleted(self) -> None:
        """Hand what was deleted since `rotate` to that checkpoint too, which has put nothing into the index yet. A
        ledger that is deleted again from now on is in the next one, whatever becomes of this."""
        self.deleting.update(self.deleted)
        self.deleted = {}

    def trim(self, is_busy: Callable[[LedgerId], bool]) -> None:
        """Drop ledgers beyond the bound from memory, first loaded first, except those still needed there."""
        excess = len(self.known) - self._cached_max
        if excess <= 0:
            return
        idle = (
            ledger_id
            for ledger_id, ledger in self.known.items()
            if not ledger.watchers
            and ledger_id not in self.dirty
            and ledger_id not in self.flushing
            and not is_busy(ledger_id)
        )
        for ledger_id in list(itertools.islice(idle, excess)):
            del self.known[ledger_id]
            self._doubted.pop(ledger_id, None)
