"""Reads the records of auto-recovery in the metadata store, and sets its switches.

Auditor and workers run elsewhere, ours (`daemon`) or in JVMs. This module reads their state and sets their switches, in
Java's forms. Rule: spec/metadata.md#M30. Never: a mark or a lock of its own.
"""

import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.client.ledgers import listed
from bookie.client.repair import election
from bookie.client.repair.marks import NOBODYS_MARK, Marks
from bookie.client.repair.progress_reports import ProgressReports
from bookie.client.repair.replication_lock import holder_in
from bookie.metadata import paths, repair
from bookie.metadata.repair import Underreplicated
from bookie.ports.metadata_store import MetadataStore, Stored, find, find_children, find_data

log = logging.getLogger(__name__)

_ATTEMPTS = 5
DELAY_S_MAX = (1 << 31) - 1  # Java reads an int


NOT_KNOWN = -1
_NOBODY_KNOWS = Stored(b"", 0, owner=NOT_KNOWN)


@dataclass(frozen=True, slots=True)
class FoundLock:
    """A lock of a repairer as it stands. `holder`: as it says, "" when it does not; `session`: whose it is, 0 for
    nobody's, which the next worker of ours removes, NOT_KNOWN where it may not be read; `made_ms`: when, by the
    metadata store."""

    path: str
    holder: str
    session: int
    made_ms: int

    @property
    def worker(self) -> str:
        """Return who repairs the ledger now, for people; "" for nobody."""
        return (self.holder or "another process") if self.session else ""


@dataclass(frozen=True, slots=True)
class UnderreplicatedLedger:
    """A ledger that lacks replicas. `holder`: the worker that repairs it now, "" for none."""

    ledger_id: LedgerId
    record: Underreplicated
    holder: str


class AutoRecovery:
    """Reads and switches the auto-recovery of the cluster at `root`."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self.reports = ProgressReports(store, root)
        self.store = store
        self.root = root
        self._marks = Marks(store, root)
        self._told: dict[str, str] = {}

    async def marked(self, left_out: list[str] | None = None) -> AsyncIterator[UnderreplicatedLedger]:
        """Every ledger marked as under-replicated, by id. A mark that cannot be read names no bookie. `left_out`: see
        `ledgers`."""
        locks = await self.locks()
        holders = {each: lock.worker for each, lock in locks.items() if lock.worker}
        async for ledger_id in self.ledgers(left_out):
            try:
                mark = await self._marks.find(ledger_id)
            except errors.MetadataDenied as error:
                log.warning("a mark may not be read ledger_id=%d reason=%s", ledger_id, error)
                mark = NOBODYS_MARK
            if mark is not None:  # else it was repaired meanwhile
                yield UnderreplicatedLedger(ledger_id, mark.record, holders.get(ledger_id, ""))

    async def ledgers(self, left_out: list[str] | None = None) -> AsyncIterator[LedgerId]:
        """The ids of the ledgers that are marked, ascending; marks are not read. `left_out` gets why a branch below the
        queue's root may not be listed, for who goes on with the others and says so; without it that raises
        MetadataDenied."""
        async for path in self._walk(paths.underreplicated_ledgers(self.root), left_out):
            try:
                yield paths.parse_underreplicated(path)
            except errors.BadInput as error:  # a stranger's: it must not keep the marks of all others from being seen
                log.warning("no mark of a ledger, and left alone: %s", error)

    async def locks(self) -> dict[LedgerId, FoundLock]:
        """Return the ledgers that repairers have locked, each with its lock; also those of no session."""
        parent = paths.replication_locks(self.root)
        found: dict[LedgerId, FoundLock] = {}
        for name in await find_children(self.store, parent):
            path = f"{parent}/{name}"
            try:
                stored = await find(self.store, path)
            except errors.MetadataDenied as error:
                log.warning("a lock may not be read path=%s reason=%s", path, error)
                stored = _NOBODY_KNOWS
            if stored is None:
                continue
            lock = FoundLock(path, holder_in(stored), stored.owner, stored.created_ms)
            try:
                found[paths.parse_underreplicated(path)] = lock
            except errors.BadInput as error:
                log.warning("no lock on a ledger, and left alone: %s", error)
        return found

    async def auditor(self) -> BookieId | None:
        """Return the bookie whose process is the auditor: it has the lowest vote."""
        async for _, bookie_id in election.votes(self.store, self.root, self._told):
            return bookie_id
        return None

    async def given_up(self) -> str:
        """Return why the auditor's last look was broken off, as it tells; "" when it was not, or nobody tells."""
        auditor = await self.auditor()
        try:
            report = None if auditor is None else await self.reports.find(auditor)
        except errors.MetadataDenied as error:
            return f"what it says of itself may not be read: {error}"
        return "" if report is None else report.given_up

    async def is_enabled(self) -> bool:
        return await find_data(self.store, paths.recovery_disabled(self.root)) is None

    async def set_enabled(self, *, enabled: bool) -> bool:
        """Switch auto-recovery on or off. Return False when it was so already."""
        path = paths.recovery_disabled(self.root)
        for _ in range(_ATTEMPTS):
            if await self.is_enabled() is enabled:
                return False
            try:
                if enabled:
                    await self.store.delete(path)
                else:
                    await self.store.create(path, b"", parents=True)
            except (errors.OutcomeUnknown, errors.NodeExists, errors.NodeMissing):
                continue  # the next look says what happened
            return True
        raise errors.OutcomeUnknown(
            f"switching auto-recovery at {path}: the metadata store gave no answer: look, then try again"
        )

    async def delay_s(self) -> int | None:
        """Return the seconds between the loss of a bookie and its audit; None: nobody has set them yet. Raises BadInput
        for what is no such number, MetadataError."""
        path = paths.recovery_delay(self.root)
        data = await find_data(self.store, path)
        if data is None:
            return None
        try:
            seconds = int(data)
        except ValueError:
            seconds = -1
        if not 0 <= seconds <= DELAY_S_MAX:
            raise errors.BadInput(f"{path} holds {data[:80]!r}, which is no number of seconds: set it again")
        return seconds

    async def set_delay_s(self, seconds: int) -> None:
        """Set the seconds between the loss of a bookie and its audit. Raises BadInput below 0, and beyond what Java's
        auditor reads."""
        if seconds < 0:
            raise errors.BadInput(f"the delay must be 0 s or more, not below 0: it was {str(seconds)[:40]}")
        if seconds > DELAY_S_MAX:
            raise errors.BadInput(f"the delay must be {DELAY_S_MAX} s at most: it was {str(seconds)[:40]}")
        await self._write(paths.recovery_delay(self.root), str(seconds).encode())

    async def full_check_ms(self) -> int | None:
        """Return when the last full reading of all ledgers began, by the wall clock of whoever made it; None: never, or
        nobody can read it."""
        data = await find_data(self.store, paths.all_ledgers_checked(self.root))
        return None if data is None else repair.load_check_time(data)

    async def note_full_check(self, wall_ms: int) -> None:
        """Note that all ledgers were read, from `wall_ms` on."""
        await self._write(paths.all_ledgers_checked(self.root), repair.dump_check_time(wall_ms))

    async def _write(self, path: str, data: bytes) -> None:
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(errors.OutcomeUnknown, errors.NodeExists, errors.NodeMissing):
                if await find_data(self.store, path) is None:
                    await self.store.create(path, data, parents=True)
                else:
                    await self.store.put(path, data, -1)
                return
        raise errors.OutcomeUnknown(f"writing {path}: the metadata store gave no answer: look, then try again")

    async def trigger_audit(self) -> BookieId:
        """Ask the auditor to audit now; return its bookie. Raises NobodyAudits when no auditor would.

        Rule: writing the delay back unchanged is the request (spec/metadata.md#M33).
        """
        auditor = await self.auditor()
        if auditor is None:
            raise errors.NobodyAudits(
                "there is no auditor, so nothing was asked: start auto-recovery (`bookie autorecovery run`), or"
                " bring what a lost bookie held to others by `bookie cluster recover-bookie`"
            )
        if not await self.is_enabled():
            raise errors.NobodyAudits(
                "auto-recovery is switched off, so nothing was asked: `bookie autorecovery enable`"
            )
        await self.set_delay_s(await self.delay_s() or 0)
        return auditor

    async def _walk(self, path: str, left_out: list[str] | None) -> AsyncIterator[str]:
        is_root = path == paths.underreplicated_ledgers(self.root)
        for name in await listed(self.store, path, None if is_root else left_out):
            if name.startswith("urL"):
                yield f"{path}/{name}"
            else:
                async for found in self._walk(f"{path}/{name}", left_out):
                    yield found
