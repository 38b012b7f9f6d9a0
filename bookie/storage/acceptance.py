"""Who may write to a ledger here, and the key that it has: asked before each change but plain adds (`EntryStore.add`).

Every refusal is raised before anything changed. A ledger's key is durable before the first acknowledgement under it:
until the journal has it, it stands in `keys_on_the_way`.
"""

from collections.abc import Callable, Sequence
from functools import partial

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LedgerId
from bookie.storage import limits
from bookie.storage.health import StorageHealth
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.writer import JournalWriter
from bookie.storage.ledgers import DOUBT, FENCED, Ledger
from bookie.storage.partition import Partition


class Acceptance:
    """Judges writers by the ledger's key, fence, limbo and doubt and by the health of the disks, and makes ledgers."""

    def __init__(
        self,
        journals: Sequence[JournalWriter],
        health: StorageHealth,
        ledgers_dirty_max: int,
        request_checkpoint: Callable[[], None],
    ) -> None:
        self.keys_on_the_way: dict[LedgerId, bytes] = {}  # the last key put into the journal, not durable yet
        self.writes_refused = 0  # adds, as we are read-only or the journal is full
        self._journals = journals
        self._health = health
        self._ledgers_dirty_max = ledgers_dirty_max
        self._request_checkpoint = request_checkpoint

    def for_add(self, partition: Partition, ledger_id: LedgerId, master_key: bytes, *, is_recovery: bool) -> Ledger:
        """Check every reason to refuse an add; return a ledger that may be written. Raises as `EntryStore.add`."""
        try:
            self._health.check_accepting()
            if self._health.is_read_only and not is_recovery:
                raise errors.BookieReadOnly("this bookie is read-only")
        except errors.BookieReadOnly:
            self.writes_refused += 1
            raise
        self._health.check_sealed()
        ledger = partition.table.find(ledger_id)
        partition.table.check_judgeable(ledger_id)
        if not is_recovery:
            self.check_examined(partition, ledger_id, ledger)
        if ledger is not None and not ledger.allows(master_key):
            raise errors.Unauthorized(f"wrong master key for ledger {ledger_id}")
        if ledger is not None and not is_recovery:
            refusal = ledger.refusal()
            if refusal is not None:
                raise refusal
        ledger = self.with_key(partition, ledger_id, ledger, master_key, is_journaled=True)
        partition.table.disturb(ledger)
        return ledger

    def for_copy(self, partition: Partition, ledger_id: LedgerId, master_key: bytes) -> Ledger:
        """Find the ledger, then do as `with_key`. For a quarantined ledger the key that comes with a verified
        copy is the right one."""
        ledger = partition.table.find(ledger_id)
        if ledger is not None and ledger_id in partition.table.quarantined and not ledger.allows(master_key):
            limits.check_master_key(ledger_id, master_key)
            ledger.master_key = master_key
            partition.table.changed(ledger)
        # The key is on its way to the journal before a client's add finds the ledger known: that add waits for it.
        return self.with_key(partition, ledger_id, ledger, master_key, is_journaled=True)

    def check_examined(self, partition: Partition, ledger_id: LedgerId, ledger: Ledger | None) -> None:
        """Raise UnknownLedgerState while the ledger is in doubt: a writer may do nothing to it, nor give it a key (a
        recovery may; a fence goes before that and is told to the writer as such)."""
        if ledger is None:
            is_doubted = partition.table.is_doubted(ledger_id)
        else:
            is_doubted = ledger.flags & (DOUBT | FENCED) == DOUBT
        if is_doubted:
            partition.table.touch(ledger_id)
            raise errors.UnknownLedgerState(f"this bookie has not examined yet whether it lost anything of {ledger_id}")

    def with_key(
        self,
        partition: Partition,
        ledger_id: LedgerId,
        ledger: Ledger | None,
        master_key: bytes,
        *,
        is_journaled: bool,
    ) -> Ledger:
        """Return `ledger`, which the table has just found or not, with its key checked; create it, or add its key, when
        needed. Raises Unauthorized, BookieReadOnly where the journal has no space for a new key, and TooManyRequests
        while a crash would bring back another ledger of this id.

        `is_journaled`: a new key goes into the journal first; the record that follows makes both durable together.
        """
        if ledger_id < 0:
            raise errors.BadRequest(f"ledger id {ledger_id} is negative")
        if ledger is not None and not ledger.allows(master_key):
            raise errors.Unauthorized(f"wrong master key for ledger {ledger_id}")
        if ledger_id in partition.table.going:
            # CRASH: what is acknowledged now would stand beside the entries that come back.
            if partition.table.hasten():
                self._request_checkpoint()
            raise errors.TooManyRequests(f"a ledger {ledger_id} was deleted here, not durably yet; try again")
        if ledger is not None and (ledger.master_key or not master_key):
            return ledger
        limits.check_master_key(ledger_id, master_key)  # a new one; what is known already has its place in a row
        self._health.check_accepting()  # a full journal takes no key, nor anything before it was resumed
        if ledger is None:
            self._make_room_for_facts(partition)
            ledger = partition.table.create(ledger_id, master_key)
        else:
            ledger.master_key = master_key
            partition.table.changed(ledger)
        if is_journaled:
            self.keys_on_the_way[ledger_id] = master_key
            journal = self._journals[ledger_id % len(self._journals)]
            done = partial(self._key_arrived, ledger_id, master_key)
            journal.put(journal_format.KEY, ledger_id, journal_format.NO_ENTRY, master_key, done)
        return ledger

    def _key_arrived(self, ledger_id: LedgerId, master_key: bytes, error: BookieError | None) -> None:
        """Note that the journal has the key. Another one follows only an empty one, and is on its way still; no ledger
        is made again under an id before what was put for it is durable. After an error nothing is acknowledged before a
        checkpoint has it."""
        if self.keys_on_the_way.get(ledger_id) == master_key:
            del self.keys_on_the_way[ledger_id]

    def _make_room_for_facts(self, partition: Partition) -> None:
        """Bound the ledgers without a row: none can leave memory before a checkpoint, and a client that may add can
        create any number. Raises TooManyRequests when checkpoints do not keep up with new ones."""
        count = len(partition.table.dirty)
        if count > self._ledgers_dirty_max:
            raise errors.TooManyRequests(f"{count} new ledgers wait for a checkpoint; try again")
        # At it or beyond: what changes of known ledgers is counted too, and steps over any number.
        if count >= self._ledgers_dirty_max // 2 and partition.table.hasten():
            self._request_checkpoint()
