"""Checks each LAC that a writer tells bookies: no entry up to it may lack its ack quorum (CONFORMANCE.md#P17, D10).

The LAC in an add's header is what readers and recoveries build on. A writer may say it late, never early. What counts
as acknowledged was answered before, so a writer that knows of it was right. With deferred sync an answer says less, and
whether the entry is on disk is not checked here: a force may count what another connection to the same life answered.
Pure: facts in, violations out through `report`.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from bookie.base.ids import EntryId, LedgerId
from bookie.metadata.ledger import LedgerMetadata


@dataclass(slots=True)
class _Ledger:
    ack_quorum: int
    checked: int = -1  # every entry up to this one has its ack quorum


@dataclass(slots=True)
class LacWatch:
    """Watches the writers of a whole cluster. `metadata_of(ledger)` is the stored truth, None when deleted."""

    report: Callable[[str], None]
    metadata_of: Callable[[LedgerId], LedgerMetadata | None]
    _acked: defaultdict[tuple[LedgerId, EntryId], set[str]] = field(default_factory=lambda: defaultdict(set))
    _ledgers: dict[LedgerId, _Ledger] = field(default_factory=dict)

    def acknowledged(self, bookie: str, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Note that a bookie answered that it has an entry."""
        self._acked[ledger_id, entry_id].add(bookie)

    def let_be(self, ledger_id: LedgerId) -> None:
        """Check this ledger no more: its answers are not seen."""
        self._ledgers[ledger_id] = _Ledger(ack_quorum=0)

    def made_anew(self, ledger_id: LedgerId) -> None:
        """Begin again with a ledger that was made under a deleted one's id."""
        self._ledgers.pop(ledger_id, None)
        self._acked = defaultdict(set, {key: who for key, who in self._acked.items() if key[0] != ledger_id})

    def told(self, ledger_id: LedgerId, lac: int, where: str) -> None:
        """Check a LAC that a bookie was told; `where` says in what."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            metadata = self.metadata_of(ledger_id)
            if metadata is None:
                return
            ledger = self._ledgers[ledger_id] = _Ledger(metadata.ack_quorum)
        for number in range(ledger.checked + 1, lac + 1):
            acked = len(self._acked.get((ledger_id, EntryId(number)), ()))
            if acked < ledger.ack_quorum:
                self.report(
                    f"LAC: {where} of ledger {ledger_id} says that {lac} is confirmed, and {acked} bookies"
                    f" acknowledged entry {number}"
                )
                break
        ledger.checked = max(ledger.checked, lac)
