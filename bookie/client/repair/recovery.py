"""Recovers a ledger: the driver of `quorum.recovery`.

Rules: spec/wire.md#W52 to W58; spec/metadata.md#M18, M19; CONFORMANCE.md#B12 to B17, P25 to P33. `bookie.client.repair`
says why in this order. Any number of clients may recover one ledger at once.
"""

import asyncio
import itertools
import json
import logging
from collections.abc import Callable, Collection

import bookie
from bookie.base import errors
from bookie.base.errors import Answer, BookieError
from bookie.base.ids import INVALID_ENTRY_ID, LAST_ENTRY, BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.read.entry_read import Entry, EntryRead
from bookie.client.repair import remains
from bookie.client.shared import Shared, digest_of, schedule_of
from bookie.client.write.acks_confirm import WriteBack
from bookie.client.write.appender import Appender
from bookie.client.write.ensemble_change import EnsembleChange
from bookie.metadata import recorded_losses
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.ports.time_limit import TimeLimit
from bookie.quorum import ensemble
from bookie.quorum import given_up as rules
from bookie.quorum.given_up import GivenUp
from bookie.quorum.recovery import READ_AHEAD_MAX, Recovery, RecoveryPhase
from bookie.wire import messages, v3
from bookie.wire.messages import Response

log = logging.getLogger(__name__)

CAS_ATTEMPTS = 20
# Entries below the end that are read for its length, after a loss was accepted.
_LENGTH_LOOKS_MAX = 64

TOOL = f"bookie {bookie.__version__}"  # in the records of what people gave up


async def recover(
    shared: Shared, ledger_id: LedgerId, *, given_up: GivenUp | None = None
) -> tuple[LedgerMetadata, int]:
    """Close `ledger_id` at its true end if it is not closed yet; return its metadata and version. `given_up`: what a
    person accepted to lose.

    Raises QuorumNotReached and other retryable errors while too many bookies are unknown (the ledger stays
    IN_RECOVERY), Unauthorized, LedgerMissing, MetadataError, LedgerRecoveryFailed past `recovery_timeout_ms`.
    """
    metadata, version = await _begin(shared, ledger_id)
    if metadata.is_closed:
        return metadata, version
    # A process that was replaced before the metadata said IN_RECOVERY must not answer for its bookie: its fence and its
    # denial would prove nothing. `look` drops the connections to it.
    await shared.watcher.look(dict.fromkeys(metadata.last_segment.bookies))
    if given_up is not None:
        await refuse_restarted(shared, given_up)
    run = _Attempt(shared, ledger_id, metadata, given_up)
    try:
        async with TimeLimit(shared.options.recovery_timeout_ms / 1000):
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
    recovered = run.metadata
    if given_up is not None:
        # A process that begins says "unknown" too, before it knows what is on its disks: only of one that was
        # registered before and after, every "unknown" came from a bookie that has looked.
        await refuse_restarted(shared, given_up)
        recovered = recovered.with_custom(recorded_losses.ENDED, _record(shared, given_up, run, length))
    return await _end(shared, ledger_id, metadata, version, recovered, end=run.machine.end, length=length)


async def refuse_restarted(shared: Shared, given_up: GivenUp) -> None:
    """Raise BookieUnavailable unless each bookie that was given up is what it was when it was judged."""
    await shared.ledgers.store.sync(shared.ledgers.root)  # a ledger that was IN_RECOVERY already was not written to
    gone = await shared.watcher.look(sorted(given_up.in_doubt | given_up.gone))
    # It registers at the end of its boot, which may take long; its cookie, or its process, shows before.
    store, root = shared.ledgers.store, shared.ledgers.root
    changed = [each for each in sorted(given_up.gone) if each not in gone or await remains.of(store, root, each)]
    changed += [each for each, session in given_up.sessions if each in gone or shared.watcher.session(each) != session]
    if changed:
        raise errors.BookieUnavailable(
            f"{', '.join(changed)} restarted since it was judged, and may know more now: nothing was decided;"
            " begin again"
        )


def _record(shared: Shared, given_up: GivenUp, run: "_Attempt", length: int) -> bytes:
    """Return who gave up what, as JSON. `highest`: the highest entry that any bookie still told of; `claims`: what the
    person said where nothing proves it; `gone`: of the bookies, those that were forgotten; `tool`: this program. Signed
    for the ledger as it is once it is closed, where somebody signs."""
    assert run.machine.end is not None
    facts: dict[str, object] = {
        "bookies": sorted(given_up.in_doubt | given_up.gone),
        "gone": sorted(given_up.gone),
        "claims": given_up.claims,
        "tool": TOOL,
        "by": given_up.by,
        "reason": given_up.reason,
        "atMs": shared.world.clock.wall_ms(),
        "lastEntry": run.machine.end,
        "highest": run.highest,
        "lengthKnown": run.is_length_known,
    }
    if given_up.seal is not None:
        facts = given_up.seal.signed(recorded_losses.ENDED, facts, run.metadata.closed(run.machine.end, length))
    return json.dumps(facts).encode()


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

    A conflict with metadata that is still IN_RECOVERY comes from a re-replication: then add every segment of our
    write-back to the metadata that stands there.
    """
    closed = recovered.closed(end, length)
    # A recovery may take minutes, and the versions of a record that is made anew begin at 0 again.
    await shared.ledgers.get_again(ledger_id, before)
    for _ in range(CAS_ATTEMPTS):
        try:
            version = await shared.ledgers.put(ledger_id, closed, version)
        except errors.VersionConflict:
            stored, version = await shared.ledgers.get_again(ledger_id, before)
            if stored.is_closed:
                return stored, version
            if stored.state is LedgerState.OPEN:  # no ledger becomes open again: our end is not the end of this one
                raise errors.LedgerMissing(
                    f"ledger {ledger_id} was deleted while it was recovered, and made anew"
                ) from None
            for ours in recovered.segments:
                if ours not in before.segments and ours.first_entry >= stored.last_segment.first_entry:
                    stored = stored.with_ensemble(ours.first_entry, ours.bookies)
            for key, value in recovered.custom:
                if key == recorded_losses.ENDED:
                    stored = stored.with_custom(key, value)
            closed = stored.closed(end, length)
            continue
        log.info("ledger recovered ledger_id=%d last_entry=%d length=%d", ledger_id, end, length)
        return closed, version
    raise errors.MetadataError(f"ledger {ledger_id}: the metadata changed {CAS_ATTEMPTS} times in a row: try again")


class _Attempt:
    """One recovery from fencing to the known end. Everything but waiting is synchronous."""

    def __init__(self, shared: Shared, ledger_id: LedgerId, metadata: LedgerMetadata, given_up: GivenUp | None) -> None:
        self._given_up = given_up
        self._fence_answers: dict[int, BookieError | None] = {}  # by slot, of a recovery that gives something up
        self.highest = INVALID_ENTRY_ID  # that a bookie told of when it was fenced
        self.is_length_known = True
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
        end = self.machine.end
        assert end is not None
        if self._given_up is not None:
            await self._look_behind(end)
        if self._given_up is not None and self.highest > end and not self._given_up.tail:
            raise errors.GrantRefused(
                "tail",
                f"ledger {self._ledger_id}: it would be closed at entry {end}, because entry {end + 1} is given up;"
                f" entries up to {self.highest}, which a bookie still has, would be given up with it. Save them first"
                " (`bookie ledger read LEDGER --bookie BOOKIE`), then --give-up-tail",
            )

    async def _look_behind(self, end: EntryId) -> None:
        """Find what bookies in doubt still have behind the end: their answer to the fence does not tell it."""
        for read in self._reads.values():  # that ran ahead of the end
            read.cancel()
        self._reads.clear()
        looks = rules.behind(end, self._schedule.ensemble_size)
        while batch := list(itertools.islice(looks, READ_AHEAD_MAX)):
            for read in await asyncio.gather(*(self._read_one(each) for each in batch)):
                if read.entry is not None:
                    self.highest = max(self.highest, read.entry_id)
                elif not read.is_absent:
                    assert read.error is not None
                    raise read.error

    async def length(self) -> int:
        """Return the ledger's length at its end."""
        end = self.machine.end
        assert end is not None
        if self._given_up is not None:
            return await self._length_known(end)
        if not self.machine.is_empty_handed:
            assert self._appender is not None
            return self._appender.adds.lac_length
        if end < 0:
            return 0
        # Nothing followed the LAC, so entry `end` itself must tell.
        read = await self._read_one(end)
        if read.is_absent:
            raise errors.LedgerRecoveryFailed(
                f"ledger {self._ledger_id}: entry {end} was confirmed, and so many of its bookies deny it that an ack"
                " quorum must have lost it: the ledger stays unclosed; look for a copy on their disks"
            )
        if read.error is not None:
            raise read.error
        assert read.entry is not None
        return read.entry.length

    async def _length_known(self, end: EntryId) -> int:
        """Return the length at `end`; where that entry is given up too, the length at the last one that is not."""
        if not self.machine.is_empty_handed:
            assert self._appender is not None
            return self._appender.adds.lac_length
        for number in range(end, max(INVALID_ENTRY_ID, end - _LENGTH_LOOKS_MAX), -1):
            read = await self._read_one(EntryId(number))
            if read.entry is not None:
                self.is_length_known = number == end
                return read.entry.length
            if not read.is_absent:
                assert read.error is not None
                raise read.error
        self.is_length_known = end < 0
        return 0

    async def _read_one(self, entry_id: EntryId) -> EntryRead:
        done = asyncio.Event()
        read = self._reads[entry_id] = self._read(entry_id, lambda _: done.set())
        self._nudge_later()
        await done.wait()
        del self._reads[entry_id]
        return read

    async def stop(self) -> None:
        """End the attempt: also answers that come later have it ask and write nothing more."""
        if self.machine.phase is not RecoveryPhase.CLOSING:
            self.machine.failed(errors.LedgerRecoveryFailed("the recovery was given up"))
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
                self.highest = max(self.highest, header.entry_id)
                self.machine.fenced(slot, EntryId(header.lac))
        if self._given_up is not None:
            self._fence_given_up(self._given_up, slot, error)
        elif error is not None:
            self.machine.fence_failed(slot, error)
        self._advance()

    def _fence_given_up(self, given_up: GivenUp, slot: int, error: BookieError | None) -> None:
        """Count what is given up only once every other bookie of the ensemble has answered: a denial that is none
        proves nothing, and whoever is silent may have what was acknowledged (spec/metadata.md#M49)."""
        self._fence_answers[slot] = error
        bookies = self._read_from.last_segment.bookies
        if len(self._fence_answers) < len(bookies):
            return
        judged = {
            each: given_up.judged(bookies[each], said) for each, said in self._fence_answers.items() if said is not None
        }
        for each, said in judged.items():
            if said.answer is Answer.UNKNOWN:
                self.machine.failed(
                    errors.QuorumNotReached(
                        f"bookie {bookies[each]} is not given up, and does not answer: {said}; bring it back, or, if it"
                        " was emptied for good, name it too"
                    )
                )
                return
        for each, said in judged.items():
            self.machine.fence_failed(each, said)

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
                WriteBack,
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

    async def _commit(
        self, lac: EntryId, failed: dict[int, BookieId], without: Collection[BookieId]
    ) -> tuple[BookieId, ...]:
        """Keep the ensemble changes of the write-back in memory until the ledger is closed (spec/wire.md#W55)."""
        bookies = self.metadata.last_segment.bookies
        slots = tuple(ensemble.still_failed(self.metadata, failed))
        replacements = self._shared.replacements(self._schedule, bookies, slots, without=without)
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
            negatives_needed=(
                self._schedule.negative_quorum if self._given_up is None else self._schedule.write_quorum
            ),
            is_recovery=True,
            given_up=self._given_up,
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
