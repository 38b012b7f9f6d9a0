"""The ledgers of one directory: those in memory, the rest in the index. Bounded, and never forgets an unsaved fact."""

from collections.abc import AsyncGenerator, Callable, Iterable

from bookie.base.ids import LedgerId
from bookie.storage import ledgers
from bookie.storage.index import Index
from bookie.storage.ledgers import Ledger


class LedgerTable:
    """`dirty` holds every ledger whose row in the index is older than memory; only a durable checkpoint forgets it."""

    def __init__(self, index: Index, *, cached_max: int) -> None:
        self.known: dict[LedgerId, Ledger] = {}
        self.dirty: dict[LedgerId, Ledger] = {}
        # What a running (or failed) checkpoint is writing: still dirty until its flush has returned.
        self.flushing: dict[LedgerId, Ledger] = {}
        self.deleted: dict[LedgerId, None] = {}
        self.deleting: dict[LedgerId, None] = {}
        self._index = index
        self._cached_max = cached_max

    def find(self, ledger_id: LedgerId) -> Ledger | None:
        """The ledger, loaded from the index if need be; None when this bookie has never heard of it."""
        ledger = self.known.get(ledger_id)
        if ledger is not None or ledger_id in self.deleted or ledger_id in self.deleting:
            return ledger
        row = self._index.row(ledger_id)
        if row is None:
            return None
        ledger = self.known[ledger_id] = ledgers.unpack_row(ledger_id, row)
        return ledger

    def is_here(self, ledger_id: LedgerId) -> bool:
        """True when the ledger is known here; nothing is loaded into memory."""
        return ledger_id in self.known or (
            ledger_id not in self.deleted and ledger_id not in self.deleting and self._index.row(ledger_id) is not None
        )

    def may_be_here(self, ledger_id: LedgerId) -> bool:
        """The same, and True besides while a crash would bring it back: its deletion is not durable."""
        return ledger_id in self.deleted or ledger_id in self.deleting or self.is_here(ledger_id)

    def create(self, ledger_id: LedgerId, master_key: bytes) -> Ledger:
        """A ledger that `find` did not find."""
        ledger = self.known[ledger_id] = self.dirty[ledger_id] = Ledger(ledger_id, master_key)
        return ledger

    def changed(self, ledger: Ledger) -> None:
        """Its row must be written by the next checkpoint."""
        self.dirty[ledger.ledger_id] = ledger

    def delete(self, ledger_id: LedgerId) -> None:
        self.known.pop(ledger_id, None)
        self.dirty.pop(ledger_id, None)
        self.flushing.pop(ledger_id, None)
        self.deleted[ledger_id] = None

    async def walk(self) -> AsyncGenerator[LedgerId, None]:
        """Every ledger that is known here from now until the end; the loop is given back between slices. One that is
        made or deleted meanwhile may be among them or not."""
        # Those without a row may get one behind where we are.
        rowless = dict.fromkeys(sorted({*self.dirty, *self.flushing}))
        async for ledger_ids in self._index.walk_ledgers():
            for ledger_id in ledger_ids:
                rowless.pop(ledger_id, None)
                if ledger_id in self.known or (ledger_id not in self.deleted and ledger_id not in self.deleting):
                    yield ledger_id
        for ledger_id in rowless:
            if ledger_id in self.known:
                yield ledger_id

    # ---- for the checkpoint -----------------------------------------------------------------------------------------

    def rotate(self) -> None:
        """What is dirty now is written by the checkpoint that begins."""
        assert not self.flushing
        assert not self.deleting
        self.flushing, self.dirty = self.dirty, {}
        self.deleting, self.deleted = self.deleted, {}

    def flushed(self) -> None:
        """The rows and deletions of this checkpoint are durable."""
        self.flushing = {}
        self.deleting = {}

    def forgotten(self, ledger_ids: Iterable[LedgerId]) -> None:
        """The deletions of these are durable, before the checkpoint that took them."""
        for ledger_id in ledger_ids:
            self.deleted.pop(ledger_id, None)
            self.deleting.pop(ledger_id, None)

    def trim(self, is_busy: Callable[[LedgerId], bool]) -> None:
        """Ledgers beyond the bound leave memory, first loaded first, unless something still needs them there."""
        excess = len(self.known) - self._cached_max
        if excess <= 0:
            return
        for ledger_id, ledger in list(self.known.items()):
            if excess <= 0:
                break
            if (
                not ledger.watchers
                and ledger_id not in self.dirty
                and ledger_id not in self.flushing
                and not is_busy(ledger_id)
            ):
                del self.known[ledger_id]
                excess -= 1
