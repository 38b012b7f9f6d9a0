"""LedgerWriter appends to a ledger. A ledger has one writer.

Rules: CONFORMANCE.md#P15 to P24; spec/metadata.md#M16, M17; spec/wire.md#W48 to W50, W66. The appender sends entries,
`EnsembleChange` replaces bookies. The writer itself limits the entries in flight, writes ensemble changes into the
metadata, tells the explicit LAC, and closes the ledger.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable
from types import TracebackType

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, EntryId, LedgerId
from bookie.client import arguments
from bookie.client.shared import Shared, digest_of, schedule_of
from bookie.client.write.acks_confirm import AcksConfirm
from bookie.client.write.appender import Appender
from bookie.client.write.ensemble_change import EnsembleChange, not_registered
from bookie.client.write.explicit_lac import ExplicitLac
from bookie.client.write.in_flight_limit import InFlightLimit
from bookie.client.write.syncs_confirm import SyncsConfirm
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.quorum import ensemble
from bookie.wire.messages import Buffer

log = logging.getLogger(__name__)

# Others change an open ledger's metadata rarely (re-replication); so many conflicts in a row mean something is wrong.
CAS_ATTEMPTS = 20
# Prefix, header, key, entry header and digest of a v3 add, rounded up (spec/wire.md#W3).
ADD_OVERHEAD_MAX = 256

# As BP-14 proposed, the ledger's metadata records deferred sync, for later readers; Java has no field for it.
DURABILITY_KEY = "bookie.durability"
DEFERRED = b"deferred"

# A failed bookie is replaced within a few hundred ms when there is another.
TELL_ATTEMPTS = 10
TELL_PAUSE_MS = 300


class LedgerWriter:
    """Appends to one open ledger. Made by `Client.create`; also an async context manager that closes the ledger.

    Once an append failed with LedgerFenced or LedgerClosed, another client has taken over: the outcome of every append
    that was not confirmed is unknown, as after a time-out (replication protocol, "Closing a ledger as a reader").
    """

    def __init__(self, shared: Shared, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> None:
        self.id = ledger_id
        self._shared = shared
        self._metadata = metadata
        self._version = version
        digest = digest_of(metadata)
        self._schedule = schedule_of(metadata)
        self._payload_max = shared.options.frame_limit_bytes - ADD_OVERHEAD_MAX
        self._appender = Appender(
            shared,
            ledger_id,
            digest,
            self._schedule,
            metadata.last_segment.bookies,
            SyncsConfirm if dict(metadata.custom).get(DURABILITY_KEY) == DEFERRED else AcksConfirm,
            start=INVALID_ENTRY_ID,
            length=0,
        )
        self._change = EnsembleChange(self._appender, self._commit, delay=shared.options.delay_ensemble_change)
        self._explicit_lac = ExplicitLac(shared, ledger_id, digest, self._appender)
        self._appender.on_confirmed = self._on_confirmed
        self._appender.on_error = self._on_error
        self._limit = InFlightLimit(
            self._appender,
            entries_max=shared.options.in_flight_entries_max,
            bytes_max=shared.options.in_flight_bytes_max,
        )
        self._watching: list[asyncio.Future[None]] = []
        self._is_closing = False
        self._loop = shared.pool.loop

    async def __aenter__(self) -> "LedgerWriter":
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is None:
            await self.close()
        else:
            await self._change.stop(errors.LedgerClosed(f"ledger {self.id}: the writer was given up"))

    def begin_without(self, gone: Collection[BookieId]) -> None:
        """Treat the bookies `gone` as failed. They were no longer registered when the ledger was made, so another
        process may have taken their ids and looked at the ledgers before it (docs/INTEGRITY.md, two processes)."""
        for seat in self._appender.seats:
            if seat.bookie_id in gone:
                seat.fail(not_registered(seat.bookie_id))

    @property
    def last_confirmed(self) -> EntryId:
        """Return the highest entry that stays readable for ever; -1 when there is none."""
        return self._appender.lac

    @property
    def length(self) -> int:
        """Return the payload bytes up to and including `last_confirmed`."""
        return self._appender.adds.lac_length

    @property
    def metadata(self) -> LedgerMetadata:
        """Return the metadata as this writer last wrote or read it."""
        return self._metadata

    @property
    def error(self) -> BookieError | None:
        """Return the error that ended this writer; None while it can append."""
        return self._appender.error

    # ---- appending ---------------------------------------------------------------------------------------------------

    async def append(self, payload: Buffer) -> EntryId:
        """Append and wait for confirmation; return the entry's id. Any number may wait at once; ids follow call order.

        Raises LedgerFenced, LedgerClosed, Unauthorized, NotEnoughBookies: then the writer is dead. BadInput for a
        payload that is too large: then nothing happened. Cancelling does not take the entry back.
        """
        taken = self._taken(payload)  # before it takes a turn that another could use
        if self._limit.must_wait:
            await self._limit.wait()
            self._check()
        confirmed: asyncio.Future[EntryId] = self._loop.create_future()
        self._appender.push(taken, confirmed)
        return await confirmed

    def append_nowait(self, payload: Buffer) -> "asyncio.Future[EntryId]":
        """Append without waiting; the future gets the id once confirmed. Raises TooManyRequests when too much is in
        flight. `payload` was copied on return."""
        taken = self._taken(payload)
        if self._limit.is_full:
            raise errors.TooManyRequests(
                f"ledger {self.id}: {len(self._appender.adds)} entries, {self._appender.in_flight_bytes} bytes are in "
                "flight; await append() instead"
            )
        confirmed: asyncio.Future[EntryId] = self._loop.create_future()
        self._appender.push(taken, confirmed)
        return confirmed

    async def append_many(self, payloads: Iterable[Buffer]) -> range:
        """Append all, in order; return their ids once the last one (hence each) is confirmed. All or none: with one
        that cannot be appended, none is.

        The ids are consecutive only if nobody else appends through this handle at the same time; the range is of the
        entries of this call's first and last payload. Cheaper than as many `append`s: one future for all.
        """
        taken = [self._taken(payload) for payload in arguments.payloads(payloads)]
        if not taken:
            return range(0)
        first: EntryId | None = None
        appender, limit = self._appender, self._limit
        for payload in taken[:-1]:
            if limit.must_wait:
                await limit.wait()
            if appender.error is not None or self._is_closing:
                self._check()
            entry_id = appender.push(payload, None)
            first = entry_id if first is None else first
        last = await self.append(taken[-1])
        return range(last if first is None else first, last + 1)

    def _check(self) -> None:
        """Raise the error that ended this writer, if any."""
        if self._appender.error is not None:
            raise self._appender.error
        if self._is_closing:
            raise errors.LedgerClosed(f"ledger {self.id} was closed by this writer")

    def _taken(self, payload: object) -> bytes:
        """Return the bytes of `payload`. Raises BadInput for one that is too large for a frame: every bookie in turn
        would break the connection at it."""
        if self._appender.error is not None or self._is_closing:
            self._check()
        taken = payload if type(payload) is bytes else arguments.payload(payload)
        if len(taken) > self._payload_max:
            raise errors.BadInput(
                f"ledger {self.id}: an entry of {len(taken)} bytes does not fit a frame; at most {self._payload_max} "
                "(frame_limit_bytes)"
            )
        return taken

    def _on_confirmed(self) -> None:
        self._limit.wake()
        if self._watching:
            self._look()
        self._explicit_lac.moved()

    def _on_error(self, error: BookieError) -> None:
        is_left = isinstance(error, errors.ClientClosed) and self._appender.adds.last_pushed == self._appender.lac
        if not self._is_closing and not is_left:
            log.warning("writer ended ledger_id=%d last_confirmed=%d reason=%s", self.id, self._appender.lac, error)
        self._limit.end()
        self._look()
        self._explicit_lac.stop()

    def _look(self) -> None:
        for watching in self._watching:
            if not watching.done():
                watching.set_result(None)

    async def _until(self, is_true: Callable[[], bool]) -> None:
        """Wait until `is_true()`, or until the writer ends. Time-outs and ensemble changes bound the wait."""
        while not is_true() and self._appender.error is None:
            watching: asyncio.Future[None] = self._loop.create_future()
            self._watching.append(watching)
            try:
                await watching
            finally:
                self._watching.remove(watching)

    # ---- durability and visibility -----------------------------------------------------------------------------------

    async def force(self) -> EntryId:
        """Make everything appended so far durable; return the last entry that is, at least the last one appended before
        this call (BP-14, "Sync API").

        Without deferred sync that is so once entries are acknowledged. Raises what ended the writer; then nothing after
        `last_confirmed` is known to be durable.
        """
        appender, wanted = self._appender, self._appender.adds.last_pushed
        await self._until(lambda: appender.adds.lac >= wanted)
        if appender.error is None and appender.lac < wanted:
            appender.durability.force(wanted)
            await self._until(lambda: appender.lac >= wanted)
        if appender.lac < wanted:
            assert appender.error is not None
            raise appender.error
        return appender.lac

    async def add_confirmed_entry(self, payload: Buffer) -> EntryId:
        """Append an entry that every reader sees at once: on return it is confirmed and durable, and an ack quorum
        knows that.

        Like every confirmed entry, it is in the ledger after a crash of the writer, without another add and without a
        close. Besides, readers that do not recover see it at once. The writer tells nobody before an ack quorum has the
        entry, so that no reader sees an entry that could vanish (CONFORMANCE.md#A1, A2, A4; instead of
        CONFORMANCE.md#A3). Raises as `append` and `force` do; QuorumNotReached if the entry is confirmed, but too few
        bookies could be told.
        """
        entry_id = await self.append(payload)
        if self._appender.durability.has_unforced:
            await self.force()
        for _ in range(TELL_ATTEMPTS - 1):
            with contextlib.suppress(errors.QuorumNotReached):
                await self._explicit_lac.tell()
                return entry_id
            await self._shared.pause(TELL_PAUSE_MS)  # an ensemble change may be under way
        await self._explicit_lac.tell()
        return entry_id

    # ---- ensemble changes --------------------------------------------------------------------------------------------

    async def _commit(
        self, lac: EntryId, failed: dict[int, BookieId], without: Collection[BookieId]
    ) -> tuple[BookieId, ...]:
        """Replace `failed` from LAC+1 on, by compare-and-set (CONFORMANCE.md#P19, P20); see `ensemble_change.Commit`.

        Reads the metadata first: a bookie that says "fenced" is right only if another client recovers the ledger. Syncs
        before that: an earlier change of ours, whose answer was lost, may have given the slot to another bookie.
        """
        ledgers = self._shared.ledgers
        for _ in range(CAS_ATTEMPTS):
            await ledgers.store.sync(ledgers.path(self.id))
            metadata, version = await ledgers.get_again(self.id, self._metadata)
            not_open = ensemble.why_not_open(metadata)
            if not_open is not None:
                raise not_open
            self._metadata, self._version = metadata, version
            bookies = metadata.last_segment.bookies
            slots = tuple(ensemble.still_failed(metadata, failed))
            replacements = self._shared.replacements(self._schedule, bookies, slots, without=without)
            if not replacements:
                return bookies
            changed = ensemble.changed(metadata, lac, replacements)
            try:
                self._version = await ledgers.put(self.id, changed, version)
            except errors.VersionConflict:
                continue
            self._metadata = changed
            log.info(
                "ensemble changed ledger_id=%d from_entry=%d bookies=%s",
                self.id,
                lac + 1,
                ",".join(changed.last_segment.bookies),
            )
            return changed.last_segment.bookies
        raise errors.MetadataError(f"ledger {self.id}: the metadata changed {CAS_ATTEMPTS} times in a row: try again")

    # ---- the end -----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Wait for what is in flight, then close the ledger at the last confirmed entry (CONFORMANCE.md#P21). With
        deferred sync, force before that: Java's writer cuts off what was not forced.

        Raises LedgerFenced when another client recovers the ledger (CONFORMANCE.md#P23; Java's writer would overrule
        it), LedgerClosed when one closed it elsewhere than at our last confirmed entry (CONFORMANCE.md#P24). Closing
        twice is fine.
        """
        self._is_closing = True
        await self._until(lambda: not self._appender.adds)
        if self._appender.durability.has_unforced:
            await self.force()  # may raise: entries that are only in memory are then left to a recovery
        await self._change.stop(errors.LedgerClosed(f"ledger {self.id} was closed by this writer"))
        last, length = self._appender.lac, self._appender.adds.lac_length
        for _ in range(CAS_ATTEMPTS):
            metadata = self._metadata
            match metadata.state:
                case LedgerState.CLOSED if (metadata.last_entry, metadata.length) == (last, length):
                    return
                case LedgerState.CLOSED:
                    raise errors.LedgerClosed(
                        f"ledger {self.id} was closed by another client at entry {metadata.last_entry}, "
                        f"while this writer had {last} confirmed"
                    )
                case LedgerState.IN_RECOVERY:
                    raise errors.LedgerFenced(
                        f"ledger {self.id} is being recovered by another client, which decides where it ends"
                    )
                case LedgerState.OPEN:
                    closed = metadata.closed(last, length)
            try:
                self._version = await self._shared.ledgers.put(self.id, closed, self._version)
                self._metadata = closed
            except errors.VersionConflict:
                self._metadata, self._version = await self._shared.ledgers.get_again(self.id, self._metadata)
        raise errors.MetadataError(f"ledger {self.id}: the metadata changed {CAS_ATTEMPTS} times in a row: try again")
