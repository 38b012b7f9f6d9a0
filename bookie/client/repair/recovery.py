"""Recovers a ledger: the driver of `quorum.recovery`.

Rules: spec/wire.md#W52 to W58; spec/metadata.md#M18, M19; CONFORMANCE.md#B12 to B17, P25 to P33. `bookie.client.repair`
says why in this order. Any number of clients may recover one ledger at once.
"""

import asyncio
import logging
from collections.abc import Callable

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LAST_ENTRY, BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.read.entry_read import Entry, EntryRead
from bookie.client.shared import Shared, digest_of, schedule_of
from bookie.client.write.acks_confirm import AcksConfirm
from bookie.client.write.appender import Appender
from bookie.client.write.ensemble_change import EnsembleChange
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.quorum import ensemble
from bookie.quorum.recovery import Recovery, RecoveryPhase
from bookie.wire import messages, v3
from bookie.wire.messages import Response

log = logging.getLogger(__name__)

CAS_ATTEMPTS = 20


async def recover(shared: Shared, ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
    """Close `ledger_id` at its true end if it is not closed yet; return its metadata and version.

    Raises QuorumNotReached and other retryable errors while too many bookies are unknown (the ledger stays
    IN_RECOVERY), Unauthorized, LedgerMissing, MetadataError, LedgerRecoveryFailed past `recovery_timeout_ms`.
    """
    metadata, version = await _begin(shared, ledger_id)
    if metadata.is_closed:
        return metadata, version
    # A process that was replaced before the metadata said IN_RECOVERY must not answer for its bookie: its fence and its
    # denial would prove nothing. `look` drops the connections to it.
    await shared.watcher.look(dict.fromkeys(metadata.last_segment.bookies))
    run = _Attempt(shared, ledger_id, metadata)
    try:
        async with asyncio.timeout(shared.options.recovery_timeout_ms / 1000):
            await run.until_closing()
            length = await run.length()
    except TimeoutError:
        raise errors.LedgerRecoveryFailed(
            f"ledger {ledger_id}: the recovery did not finish within {shared.options.recovery_timeout_ms} ms;"
            " try again, the ledger is unharmed"
        ) from None
    finally:
        await run.stop()
    assert run.machine.end is not None
    return await _end(shared, ledger_id, metadata, version, run.metadata, end=run.machine.end, length=length)


async def _begin(shared: Shared, ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
    """Move the ledger from OPEN to IN_RECOVERY, or continue a recovery that another client began
    (CONFORMANCE.md#P25)."""
    for _ in range(CAS_ATTEMPTS):
        metadata, version = await shared.ledgers.get(ledger_id)
        if metadata.state is not LedgerState.OPEN:
            return metadata, version
        try:
            changed = metadata.in_recovery()
            return changed, await shared.ledgers.put(ledger_id, changed, version)
        except errors.VersionConflict:
            continue
    raise errors.MetadataError(f"ledger {ledger_id}: the metadata changed {CAS_ATTEMPTS} times in a row: try again")


async def _end(
    shared: Shared,
    ledger_id: LedgerId,
    before: LedgerMetadata,
    version: int,
    recovered: LedgerMetadata,
    *,
    end: EntryId,
    length: int,
) -> tuple[LedgerMetadata, int]:
    """Move the ledger from IN_RECOVERY to CLOSED with the ensembles of the write-back, in one write; or adopt the end
    that another client wrote (spec/bp46.md#S6).

    A conflict with metadata that is still IN_RECOVERY comes from a re-replication: then add our last segment, if we
    changed it, to the metadata that stands there.
    """
    closed = recovered.closed(end, length)
    for _ in range(CAS_ATTEMPTS):
        try:
            version = await shared.ledgers.put(ledger_id, closed, version)
        except errors.VersionConflict:
            stored, version = await shared.ledgers.get(ledger_id)
            if stored.is_closed:
                return stored, version
            last = recovered.last_segment
            if last != before.last_segment and last.first_entry >= stored.last_segment.first_entry:
                stored = stored.with_ensemble(last.first_entry, last.bookies)
            closed = stored.closed(end, length)
            continue
        log.info("ledger recovered ledger_id=%d last_entry=%d length=%d", ledger_id, end, length)
        return closed, version
    raise errors.MetadataError(f"ledger {ledger_id}: the metadata changed {CAS_ATTEMPTS} times in a row: try again")


class _Attempt:
    """One recovery from fencing to the known end. Everything but waiting is synchronous."""

    def __init__(self, shared: Shared, ledger_id: LedgerId, metadata: LedgerMetadata) -> None:
        self.machine = Recovery(schedule_of(metadata), metadata.last_segment.first_entry)
        self.metadata = metadata  # with the ensembles of the write-back, in memory only until the end
        self._read_from = metadata  # spec/wire.md#W54: reads go where the writer wrote
        self._shared = shared
        self._ledger_id = ledger_id
        self._digest = digest_of(metadata)
        self._schedule = schedule_of(metadata)
        self._appender: Appender | None = None
        self._change: EnsembleChange | None = None
        self._found: dict[EntryId, Entry] = {}
        self._reads: dict[EntryId, EntryRead] = {}
        self._decided: asyncio.Future[None] = shared.pool.loop.create_future()
        self._nudge_timer: asyncio.TimerHandle | None = None

    async def until_closing(self) -> None:
        """Fence, read forward, write back; return when the end is known and safe. Raises the error that prevents it."""
        for slot, bookie_id in enumerate(self.metadata.last_segment.bookies):
            request = messages.ReadRequest(
                0, v3.VERSION, self._ledger_id, LAST_ENTRY, self._digest.master_key, is_fencing=True
            )
            self._shared.pool.send(bookie_id, request, self._on_fenced, slot)
        await self._decided
        if self.machine.phase is RecoveryPhase.FAILED:
            assert self.machine.error is not None
            raise self.machine.error

    async def length(self) -> int:
        """Return the ledger's length at its end."""
        end = self.machine.end
        assert end is not None
        if not self.machine.is_empty_handed:
            assert self._appender is not None
            return self._appender.adds.lac_length
        if end < 0:
            return 0
        # Nothing followed the LAC, so entry `end` itself must tell.
        done = asyncio.Event()
        read = self._reads[end] = self._read(end, lambda _: done.set())
        self._nudge_later()
        await done.wait()
        if read.is_absent:
            raise errors.LedgerRecoveryFailed(
                f"ledger {self._ledger_id}: entry {end} was confirmed, and so many of its bookies deny it that an ack"
                " quorum must have lost it: the ledger stays unclosed; look for a copy on their disks"
            )
        if read.error is not None:
            raise read.error
        assert read.entry is not None
        return read.entry.length

    async def stop(self) -> None:
        if self._nudge_timer is not None:
            self._nudge_timer.cancel()
        for read in self._reads.values():
            read.cancel()
        if self._appender is not None and self._change is not None:
            self._appender.on_error = lambda error: None
            await self._change.stop(errors.LedgerRecoveryFailed("the recovery ended"))

    # ---- facts in ----------------------------------------------------------------------------------------------------

    def _on_fenced(self, slot: int, response: Response | None, error: BookieError | None) -> None:
        if error is None:
            assert isinstance(response, messages.ReadResponse)
            try:
                header, _ = self._digest.open(response.body or b"", self._ledger_id, None)
            except errors.DigestMismatch as mismatch:
                error = mismatch
            else:
                self.machine.fenced(slot, EntryId(header.lac))
        if error is not None:
            self.machine.fence_failed(slot, error)
        self._advance()

    def _on_read(self, read: EntryRead) -> None:
        del self._reads[read.entry_id]
        if read.entry is not None:
            self._found[read.entry_id] = read.entry
            writable = self.machine.found(read.entry_id)
        elif read.is_absent:
            writable = self.machine.absent(read.entry_id)
        else:
            assert read.error is not None
            writable = self.machine.undecided(read.entry_id, read.error)
        for entry_id in writable:
            self._write_back(self._found.pop(entry_id))
        self._advance()

    def _write_back(self, entry: Entry) -> None:
        appender = self._appender
        if appender is None:
            appender = self._appender = Appender(
                self._shared,
                self._ledger_id,
                self._digest,
                self._schedule,
                self.metadata.last_segment.bookies,
                AcksConfirm,
                start=self.machine.start,
                length=0,
                is_recovery=True,
            )
            self._change = EnsembleChange(appender, self._commit)
            appender.on_confirmed = self._on_written
            appender.on_error = self._on_write_error
        if appender.error is None:
            # The length in the header is the writer's own count; it is kept, whatever came before.
            appender.adds.length = entry.length - len(entry.payload)
            pushed = appender.push(entry.payload, None)
            assert pushed == entry.entry_id, "written back under another id"

    def _on_written(self) -> None:
        assert self._appender is not None
        self.machine.written(self._appender.lac)
        self._advance()

    def _on_write_error(self, error: BookieError) -> None:
        self.machine.failed(error)
        self._advance()

    async def _commit(self, lac: EntryId, failed: dict[int, BookieId]) -> tuple[BookieId, ...]:
        """Keep the ensemble changes of the write-back in memory until the ledger is closed (spec/wire.md#W55)."""
        bookies = self.metadata.last_segment.bookies
        slots = tuple(ensemble.still_failed(self.metadata, failed))
        replacements = self._shared.replacements(self._schedule, bookies, slots)
        if replacements:
            self.metadata = ensemble.changed(self.metadata, lac, replacements)
        return self.metadata.last_segment.bookies

    # ---- what follows ------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        for entry_id in self.machine.next_reads():
            self._reads[entry_id] = self._read(entry_id, self._on_read)
        if self._reads:
            self._nudge_later()
        if self.machine.phase in (RecoveryPhase.CLOSING, RecoveryPhase.FAILED) and not self._decided.done():
            self._decided.set_result(None)

    def _read(self, entry_id: EntryId, on_done: Callable[[EntryRead], None]) -> EntryRead:
        """Begin a fencing read; `on_done` is called later, on the loop."""
        read = EntryRead(
            self._shared,
            self._digest,
            self._ledger_id,
            entry_id,
            self._read_from.write_set(entry_id),
            on_done,
            negatives_needed=self._schedule.negative_quorum,
            is_recovery=True,
        )
        read.start()
        return read

    def _nudge_later(self) -> None:
        if self._nudge_timer is not None:
            return
        delay_s = self._shared.options.speculative_read_ms / 1000
        self._nudge_timer = self._shared.pool.loop.call_later(delay_s, self._nudge)

    def _nudge(self) -> None:
        """Ask one more replica for each entry whose last asked replica has been silent for `speculative_read_ms`."""
        self._nudge_timer = None
        asked_before_ns = self._shared.pool.now_ns() - self._shared.options.speculative_read_ms * NS_PER_MS
        for read in list(self._reads.values()):
            if read.asked_ns <= asked_before_ns:
                read.nudge()
        if self._reads:
            self._nudge_later()
