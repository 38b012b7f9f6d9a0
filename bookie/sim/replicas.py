"""Checks that a bookie named in another's place holds its entries: when it is named, and again at the end.

Facts come from outside the product: each change of a ledger's metadata, and the indexes of running bookies. A bookie
that does not run at that moment is looked at in the end, when all are up and repaired.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from bookie.base.errors import DigestMismatch
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client.shared import digest_of
from bookie.metadata.ledger import LedgerMetadata
from bookie.server.filling import Filling
from bookie.sim.cluster import SimCluster
from bookie.storage.scrub import Scrubber


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
            self._promises = [each for each in self._promises if each.ledger_id != ledger_id]
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


async def check_whole(cluster: SimCluster, ledgers: Sequence[LedgerId], *, timeout_s: float = 300.0) -> None:
    """At the end, when every ledger is closed and all bookies serve: have each look for what rotted and fill its holes,
    then check every replica of every ledger (spec/bp46.md#R24, R27, R29). Raises Defect when a bookie does not become
    whole."""
    for bookie in cluster.bookies.values():
        assert bookie.process is not None
        filling, scrubber = bookie.process.admin.filling, bookie.process.admin.scrubber
        assert filling is not None
        assert scrubber is not None
        passes = scrubber.report().passes_done
        scrubber.request()
        scrubbed = partial(_has_scrubbed, scrubber, passes)
        await cluster.until(scrubbed, f"{bookie.name} ends its scrub", timeout_s=timeout_s)
        for _ in range(2):  # the run that is under way may have begun before the last ledger was closed
            filling.start()
            await cluster.until(partial(_is_idle, filling), f"{bookie.name} ends its fill", timeout_s=timeout_s)
        status = filling.status()
        if not status.is_whole:
            cluster.simulation.violation(f"HOLES: {bookie.name} is not whole: {status.reason} {status.blocked}")
    for ledger_id in ledgers:
        metadata = cluster.metadata_of(ledger_id)
        if metadata is not None and metadata.is_closed:
            for problem in await copies(cluster, ledger_id, metadata.last_entry):
                cluster.simulation.violation(f"HOLES: {problem}")


async def check_kept(cluster: SimCluster, ledgers: Sequence[LedgerId]) -> None:
    """At the end of a run in which nobody fills holes: every replica that its bookie acknowledged is there, and all
    that are there are equal.

    What a bookie never acknowledged it may lack: its write came late, or was lost, and a quorum of others had the
    entry. So it may lack what another process of its id took that was cut off and had a successor already. Not for
    runs with rot, of which nobody is told before the entry is read.
    """

    def owed(bookie: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        return cluster.wiretap.must_keep(bookie, ledger_id, entry_id)

    for ledger_id in ledgers:
        metadata = cluster.metadata_of(ledger_id)
        if metadata is not None and metadata.is_closed:
            for problem in await copies(cluster, ledger_id, metadata.last_entry, owed=owed):
                cluster.simulation.violation(f"KEPT: {problem}")


def _always(_bookie: BookieId, _ledger_id: LedgerId, _entry_id: EntryId) -> bool:
    return True


def _has_scrubbed(scrubber: Scrubber, passes: int) -> bool:
    return scrubber.report().passes_done > passes


def _is_idle(filling: Filling) -> bool:
    status = filling.status()
    return not (status.is_running or status.is_waiting)


async def copies(
    cluster: SimCluster,
    ledger_id: LedgerId,
    confirmed: EntryId,
    *,
    owed: Callable[[BookieId, LedgerId, EntryId], bool] = _always,
) -> list[str]:
    """Look at every replica of the entries 0 to `confirmed` on running bookies; return what is missing or differs.
    `owed`: whether a replica that is not there is missing.

    Two copies are equal when their payloads are: a recovery that writes an entry back gives it a LAC of its own.
    """
    metadata = cluster.metadata_of(ledger_id)
    assert metadata is not None, f"ledger {ledger_id} is gone"
    found: list[str] = []
    for number in range(confirmed + 1):
        entry_id = EntryId(number)
        bodies: dict[bytes, BookieId] = {}
        for name in metadata.write_set(entry_id):
            node = cluster.bookies[name]
            store = None if node.process is None else node.process.admin.store
            if store is None:
                if owed(name, ledger_id, entry_id):
                    found.append(f"{name} does not serve")
            elif not store.has_entry(ledger_id, entry_id):
                if owed(name, ledger_id, entry_id):
                    found.append(f"{name} lacks entry {entry_id} of ledger {ledger_id}")
            else:
                body = bytes(await node.node.do(store.read(ledger_id, entry_id)))
                try:
                    bodies.setdefault(bytes(digest_of(metadata).open(body, ledger_id, entry_id)[1]), name)
                except DigestMismatch as error:
                    found.append(f"{name} has another entry: {error}")
        if len(bodies) > 1:
            found.append(f"entry {entry_id} of ledger {ledger_id} differs: {', '.join(bodies.values())}")
    return found
