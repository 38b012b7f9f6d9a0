"""Checks the promises of the replication protocol during a run, as one observer of a whole cluster.

Its facts come from outside the product: from the applications (`acknowledged`, `read`, `confirmed`) and the metadata
store (`metadata_changed`). Rules: spec/bp46.md#S1 to S6, S14, S16; each broken one is reported once per ledger. Pure:
facts in, violations out through `report`.

A ledger that was deleted and made anew under its id is another one: what was promised of the first binds none after it.
Its password tells which it is (`life_of`).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from bookie.base.ids import EntryId, LedgerId
from bookie.metadata.ledger import LedgerMetadata, LedgerState

# The password of a ledger that was made anew begins so, and no two have the same.
LIFE = b"life "


def life_of(password: bytes) -> bytes:
    """Return what tells ledgers of one id apart: b"" for the first one."""
    return password if password.startswith(LIFE) else b""


def digest(payload: bytes) -> str:
    return hashlib.blake2b(payload, digest_size=8).hexdigest()


@dataclass(slots=True)
class LedgerHistory:
    """Everything known of one ledger."""

    ledger_id: LedgerId
    acknowledged: dict[EntryId, str] = field(default_factory=dict)
    read: dict[EntryId, str] = field(default_factory=dict)
    confirmed: EntryId = EntryId(-1)  # the highest LAC that any reader was told
    closed: tuple[EntryId, int] | None = None  # last entry, length
    metadata: LedgerMetadata | None = None
    is_deleted: bool = (
        False  # bookies forget it, fence and all, and take what a writer that lives on sends, as Java's do
    )

    def is_after_the_end(self, entry_id: EntryId) -> bool:
        return self.closed is not None and entry_id > self.end and not self.is_deleted

    @property
    def end(self) -> EntryId:
        assert self.closed is not None
        return self.closed[0]

    @property
    def last_acknowledged(self) -> EntryId:
        return max(self.acknowledged, default=EntryId(-1))


class Oracle:
    """`report(text)` is called for each violation."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.ledgers: dict[LedgerId, LedgerHistory] = {}  # the first of each id
        self._anew: dict[tuple[LedgerId, bytes], LedgerHistory] = {}  # those made anew, by their lives
        self._stored: dict[LedgerId, bytes] = {}  # the life of the one that was stored last
        self.entries_acknowledged = 0
        self.entries_read = 0
        self._report = report

    def history(self, ledger_id: LedgerId, life: bytes = b"") -> LedgerHistory:
        if life:
            return self._anew.setdefault((ledger_id, life), LedgerHistory(ledger_id))
        if ledger_id not in self.ledgers:
            self.ledgers[ledger_id] = LedgerHistory(ledger_id)
        return self.ledgers[ledger_id]

    # ---- what applications were told --------------------------------------------------------------------------------

    def acknowledged(self, ledger_id: LedgerId, entry_id: EntryId, payload: bytes, life: bytes = b"") -> None:
        """Note that a writer's entry was acknowledged: it must be readable for ever (spec/bp46.md#S1)."""
        history = self.history(ledger_id, life)
        self.entries_acknowledged += 1
        if entry_id in history.acknowledged:
            self._report(f"S5: ledger {ledger_id} acknowledged entry {entry_id} twice")
        history.acknowledged[entry_id] = digest(payload)
        if history.is_after_the_end(entry_id):
            self._report(f"S1: ledger {ledger_id} ends at {history.end} and acknowledged entry {entry_id} after it")
        self._compare(history, entry_id)

    def read(self, ledger_id: LedgerId, entry_id: EntryId, payload: bytes, life: bytes = b"") -> None:
        """Check an entry that a reader got within its confirmed range (spec/bp46.md#S3, S5)."""
        history = self.history(ledger_id, life)
        self.entries_read += 1
        found = digest(payload)
        before = history.read.setdefault(entry_id, found)
        if before != found:
            self._report(f"S3: ledger {ledger_id} entry {entry_id} was read twice with different bytes")
        if history.is_after_the_end(entry_id):
            self._report(f"S5: ledger {ledger_id} ends at {history.end} and entry {entry_id} was read")
        self._compare(history, entry_id)

    def _compare(self, history: LedgerHistory, entry_id: EntryId) -> None:
        read, acknowledged = history.read.get(entry_id), history.acknowledged.get(entry_id)
        if read is not None and acknowledged is not None and read != acknowledged:
            self._report(f"S2: ledger {history.ledger_id} entry {entry_id} is not what was acknowledged")

    def confirmed(self, ledger_id: LedgerId, entry_id: EntryId, previous: EntryId, life: bytes = b"") -> None:
        """Check the LAC that one reader got after `previous`: a reader's LAC never goes back."""
        if entry_id < previous:
            self._report(f"LAC: a reader of ledger {ledger_id} was told {entry_id} after {previous}")
        history = self.history(ledger_id, life)
        history.confirmed = max(history.confirmed, entry_id)
        if history.is_after_the_end(entry_id):
            self._report(f"S1: ledger {ledger_id} ends at {history.end} and a reader was told LAC {entry_id}")

    def denied(self, ledger_id: LedgerId, reason: str) -> None:
        """Report that a reader was told of a ledger, or of a confirmed entry, that it is not there
        (CONFORMANCE.md#B10)."""
        self._report(
            f"DENIED: a reader of ledger {ledger_id} was told that it, or a confirmed entry, is not there: {reason}"
        )

    # ---- what the metadata store holds ------------------------------------------------------------------------------

    def metadata_changed(self, ledger_id: LedgerId, metadata: LedgerMetadata | None) -> None:
        """Check a ledger's metadata, which was just stored; None: deleted."""
        if metadata is None:
            self.history(ledger_id, self._stored.get(ledger_id, b"")).is_deleted = True
            return
        life = self._stored[ledger_id] = life_of(metadata.password)
        history = self.history(ledger_id, life)
        before, history.metadata = history.metadata, metadata
        # Earlier segments may change: an evacuation puts others in the places of those who left.
        if before is not None and metadata.state is LedgerState.OPEN and metadata.last_segment != before.last_segment:
            first = metadata.last_segment.first_entry
            if first <= history.last_acknowledged:
                self._report(
                    f"S14: the writer of ledger {ledger_id} moved entries from {first} on to other bookies,"
                    f" and entry {history.last_acknowledged} was acknowledged"
                )
        if before is not None and before.state is LedgerState.IN_RECOVERY and metadata.state is LedgerState.OPEN:
            self._report(f"S4: ledger {ledger_id} went from recovery back to open")
        if history.closed is not None:
            if metadata.state is not LedgerState.CLOSED or (metadata.last_entry, metadata.length) != history.closed:
                self._report(
                    f"S4: ledger {ledger_id} was closed at {history.closed} and is now {metadata.state.name}"
                    f" at {(metadata.last_entry, metadata.length)}"
                )
        elif metadata.state is LedgerState.CLOSED:
            history.closed = (metadata.last_entry, metadata.length)
            if history.last_acknowledged > metadata.last_entry:
                self._report(
                    f"S1: ledger {ledger_id} was closed at {metadata.last_entry}"
                    f" and entry {history.last_acknowledged} was acknowledged"
                )
            if history.confirmed > metadata.last_entry:
                self._report(
                    f"S1: ledger {ledger_id} was closed at {metadata.last_entry}"
                    f" and readers were told LAC {history.confirmed}"
                )

    # ---- the end ----------------------------------------------------------------------------------------------------

    def verified(self, ledger_id: LedgerId, entries: dict[EntryId, bytes], life: bytes = b"") -> None:
        """Check what a last reader of the whole closed ledger got: `entries` (spec/bp46.md#S2, S3, S5)."""
        history = self.history(ledger_id, life)
        assert history.closed is not None, f"ledger {ledger_id} was verified before it was closed"
        for entry_id, payload in entries.items():
            self.read(ledger_id, entry_id, payload, life)
        expected, length = list(range(history.closed[0] + 1)), sum(map(len, entries.values()))
        if list(entries) == expected and length != history.closed[1]:
            self._report(f"S5: ledger {ledger_id} is said to have {history.closed[1]} bytes and gave {length}")
        if list(entries) != expected:
            self._report(f"S5: ledger {ledger_id} ends at {history.closed[0]} and gave entries {_runs(list(entries))}")
        lost = [entry_id for entry_id in history.acknowledged if entry_id not in entries]
        if lost:
            self._report(f"S2: ledger {ledger_id} lost acknowledged entries {_runs(sorted(lost))}")
        gone = [entry_id for entry_id in history.read if entry_id not in entries]
        if gone:
            self._report(f"S3: ledger {ledger_id} entries {_runs(sorted(gone))} were read before and are gone")

    def unreadable(self, ledger_id: LedgerId, reason: str) -> None:
        """Report that the last reader could not read a ledger although enough bookies are alive (spec/bp46.md#L1)."""
        self._report(f"L1: ledger {ledger_id} cannot be read to its end: {reason}")


def _runs(entries: list[EntryId]) -> str:
    """Return runs of entries as '0-4 7', for people."""
    runs: list[list[int]] = []
    for entry in entries:
        if runs and runs[-1][1] + 1 == entry:
            runs[-1][1] = entry
        else:
            runs.append([entry, entry])
    return " ".join(f"{first}-{last}" if first != last else f"{first}" for first, last in runs) or "none"
