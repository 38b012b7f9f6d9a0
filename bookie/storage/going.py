"""Which ledger ids are not free yet: what was deleted under them would come back with a crash.

From the index until a checkpoint is durable; from the journal until its mark is past all that it has of the ledger.
Nothing durable may be begun under such an id: with the same key nobody could tell the entries of two ledgers apart.
"""

from bookie.base.ids import LedgerId


class Going:
    """The ids of one directory that are on their way out."""

    def __init__(self) -> None:
        self._is_journaled: dict[LedgerId, bool] = {}  # True: all that was put into the journal of it is durable
        self._ending: dict[LedgerId, None] = {}  # those that the running (or failed) checkpoint ends

    def __contains__(self, ledger_id: LedgerId) -> bool:
        return ledger_id in self._is_journaled

    def add(self, ledger_id: LedgerId, *, is_journaled: bool) -> None:
        """Note a deletion. `is_journaled`: nothing of the ledger is on its way to the journal."""
        self._ending.pop(ledger_id, None)
        self._is_journaled[ledger_id] = is_journaled

    def journal_has_all(self, ledger_id: LedgerId) -> None:
        """Note that nothing of a deleted ledger is on its way to the journal any more."""
        if ledger_id in self._is_journaled:
            self._is_journaled[ledger_id] = True

    def rotate(self) -> None:
        """Note that a checkpoint begins: the mark that it earns is past all that the journal has by now."""
        self._ending = {ledger_id: None for ledger_id, is_journaled in self._is_journaled.items() if is_journaled}

    def flushed(self) -> list[LedgerId]:
        """Note that this checkpoint is durable; return the ids that are free since."""
        free = list(self._ending)
        for ledger_id in free:
            del self._is_journaled[ledger_id]
        self._ending = {}
        return free
