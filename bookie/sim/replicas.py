"""Checks that a bookie named in another's place holds its entries: when it is named, and again at the end.

Facts come from outside the product: each change of a ledger's metadata, and the indexes of running bookies. A bookie
that does not run at that moment is looked at in the end, when all are up and repaired.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.metadata.ledger import LedgerMetadata


class EntryHolder(Protocol):
    """The store of a running bookie."""

    def has_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Promise:
    """The promise that `bookie` holds every entry from `first` to `last`, inclusive, whose write set names it."""

    ledger_id: LedgerId
    bookie: BookieId
    first: EntryId
    last: EntryId


class Replicas:
    """Checks that a bookie which metadata names in another's place has that one's entries.

    Calls `report(text)` when it lacks some. `store_of(bookie)` gives the running bookie's store, or None.
    Only for runs in which nobody changes sealed segments but evacuations.
    """

    def __init__(self, report: Callable[[str], None], store_of: Callable[[BookieId], EntryHolder | None]) -> None:
        self.promised = 0
        self._report = report
        self._store_of = store_of
        self._metadata: dict[LedgerId, LedgerMetadata] = {}
        self._promises: list[_Promise] = []

    def metadata_changed(self, ledger_id: LedgerId, metadata: LedgerMetadata | None) -> None:
        """Take the ledger's metadata, which was just stored; None: deleted. Check each bookie that it newly names."""
        before = self._metadata.pop(ledger_id, None)
        if metadata is None:
            return
        self._metadata[ledger_id] = metadata
        if before is None:
            return
        sealed = {first: segment.bookies for segment, first, last in before.segment_ranges() if last is not None}
        for segment, first, last in metadata.segment_ranges():
            if last is None or first not in sealed:
                continue
            for old, new in zip(sealed[first], segment.bookies, strict=True):
                if old != new:
                    promise = _Promise(ledger_id, new, first, last)
                    self.promised += 1
                    self._promises.append(promise)
                    self._check(promise, metadata, "is named")

    def check_all(self) -> None:
        """At the end, check each promise that the metadata still makes."""
        for promise in self._promises:
            metadata = self._metadata.get(promise.ledger_id)
            if metadata is not None:
                self._check(promise, metadata, "is named in the end")

    def _check(self, promise: _Promise, metadata: LedgerMetadata, when: str) -> None:
        store = self._store_of(promise.bookie)
        if store is None:
            return
        owed = [EntryId(number) for number in range(promise.first, promise.last + 1)]
        owed = [entry_id for entry_id in owed if promise.bookie in metadata.write_set(entry_id)]
        lacking = [entry_id for entry_id in owed if not store.has_entry(promise.ledger_id, entry_id)]
        if lacking:
            self._report(
                f"REPLICA: {promise.bookie} {when} by ledger {promise.ledger_id} and lacks entries {lacking[:5]}"
                f" ({len(lacking)} of {len(owed)})"
            )
