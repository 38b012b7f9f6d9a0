"""Answers every kind of read: plain, fencing, long poll, batch (spec/wire.md#W9, W29 to W37; spec/bp46.md#R15).

What is in memory is answered at once; what is on disk goes through `Readers`. A present entry is EOK in limbo on every
path, an absent one is never "no" there: that is the store's decision, and nothing here may soften it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from bookie.base import errors
from bookie.base.errors import BookieError, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import MIB
from bookie.ports.clock import Clock
from bookie.server.boundary import Boundary
from bookie.server.ledgers import LongPolls
from bookie.server.metrics import ServerMetrics
from bookie.server.readers import Reader, Readers
from bookie.storage.store import Completion, EntryStore
from bookie.wire import limits
from bookie.wire.messages import (
    BatchReadRequest,
    BatchReadResponse,
    Buffer,
    Incoming,
    Outgoing,
    ReadRequest,
    ReadResponse,
    ReadRun,
    ReadRunResponse,
    StartTlsRequest,
)

_EOK = Status.EOK
_BUSY = "too many reads wait for the disk"
R = TypeVar("R", bound=Incoming)
# BatchedReadEntryProcessor: 24 (header) + 8 (request id) + 4, then length and bytes of each entry.
_BATCH_HEAD_BYTES = 36
_BATCH_ENTRY_BYTES = 4
_BATCH_BYTES_MAX = 5 * MIB  # maxBatchReadSize
# Of a run of reads, what is more than this in memory is answered when the client has taken what was found.
_RUN_BYTES_MAX = 1 * MIB


class Replier(Reader, Protocol):
    """One connection that takes answers; once closed it drops them."""

    def reply(self, response: Outgoing) -> None: ...

    def start_tls(self, request: StartTlsRequest) -> None:
        """Send the answer, then encrypt all that follows."""
        ...


class Reads:
    """Answers read requests of all connections; part of the processor."""

    def __init__(
        self, store: EntryStore, readers: Readers, metrics: ServerMetrics, clock: Clock, boundary: Boundary
    ) -> None:
        self._store = store
        self._readers = readers
        self._boundary = boundary
        self._metrics = metrics
        self._clock = clock
        self._polls = LongPolls(store.watch_lac)

    def forget(self, replier: Replier) -> None:
        """Drop the long polls of a closed connection."""
        self._polls.forget(replier)

    def read(self, request: ReadRequest, to: Replier) -> None:
        """Answer one read request. A fence flag wins over everything else (spec/wire.md#W12)."""
        self._metrics.reads += 1
        if request.is_fencing:
            self._fence(request, to)
        elif request.previous_lac is not None:
            self._long_poll(request, to)
        else:
            self._entry(request, to, request.entry_id)

    # ---- plain reads of one ledger

    def run(self, run: ReadRun, to: Replier) -> None:
        """Answer with one write the entries that are in memory; queue the others together for the disk."""
        self._metrics.reads += len(run.txns)
        room_bytes = self._readers.room_bytes(to, _RUN_BYTES_MAX)
        found = ReadRunResponse(run.version, _EOK, run.ledger_id, [], [], [])
        missing = ReadRun(run.version, run.ledger_id, [], [])
        size_bytes = 0
        bodies = self._store.read_run_nowait(run.ledger_id, run.entry_ids)
        for txn, entry_id, body in zip(run.txns, run.entry_ids, bodies, strict=True):
            if body is None or size_bytes + len(body) > room_bytes:
                missing.txns.append(txn)
                missing.entry_ids.append(entry_id)
                continue
            size_bytes += len(body)
            found.txns.append(txn)
            found.entry_ids.append(entry_id)
            found.bodies.append(body)
        if missing.txns:
            self._submit_run(missing, to)
        self._found_run(found, size_bytes, to)

    def _submit_run(self, run: ReadRun, to: Replier) -> None:
        count = len(run.txns)
        self._metrics.slow_reads += count
        to.slow_reads_began(count)
        if self._readers.submit(run, to, self._run_from_disk):
            return
        to.slow_reads_ended(count)
        busy = errors.TooManyRequests(_BUSY)
        for txn, entry_id in zip(run.txns, run.entry_ids, strict=True):
            self._refuse(ReadRequest(txn, run.version, run.ledger_id, entry_id), to, busy, entry_id)

    async def _run_from_disk(self, run: ReadRun, to: Replier) -> bool:
        """Answer with one write the entries that one hop to the disk brings; queue the rest of a large run again.

        Entries that are answered leave `run`.
        """
        count = len(run.txns)
        try:
            answers = await self._store.read_many(run.ledger_id, run.entry_ids)
            count = len(answers)
            self._answer_run(run, answers, to)
        finally:
            to.slow_reads_ended(count)
        del run.txns[:count]
        del run.entry_ids[:count]
        return not run.txns

    def _answer_run(self, run: ReadRun, answers: Sequence[Buffer | BookieError], to: Replier) -> None:
        """Answer the first reads of `run`."""
        found = ReadRunResponse(run.version, _EOK, run.ledger_id, [], [], [])
        size_bytes = 0
        for txn, entry_id, answer in zip(run.txns, run.entry_ids, answers, strict=False):
            if isinstance(answer, BookieError):
                self._refuse(ReadRequest(txn, run.version, run.ledger_id, entry_id), to, answer, entry_id)
                continue
            size_bytes += len(answer)
            found.txns.append(txn)
            found.entry_ids.append(entry_id)
            found.bodies.append(answer)
        self._found_run(found, size_bytes, to)

    def _found_run(self, found: ReadRunResponse, size_bytes: int, to: Replier) -> None:
        if found.txns:
            self._metrics.read_bytes += size_bytes
            found.max_lac = self._confirmed(found.ledger_id)
            to.reply(found)

    # ---- one entry

    def _entry(self, request: ReadRequest, to: Replier, entry_id: EntryId, lac_update_ms: int | None = None) -> None:
        """Answer with one entry; -1 is the highest, and the answer echoes -1 (spec/wire.md#W8)."""
        try:
            body = self._store.read_nowait(request.ledger_id, entry_id)
        except BookieError as error:
            self._refuse(request, to, error, entry_id)
            return
        if body is not None and len(body) <= self._readers.room_bytes(to, len(body)):
            self._found(request, to, entry_id, body, lac_update_ms)
        else:
            self._metrics.slow_reads += 1
            work = partial(self._entry_from_disk, entry_id=entry_id, lac_update_ms=lac_update_ms)
            if not self.submit(request, to, work):
                self._refuse(request, to, errors.TooManyRequests(_BUSY), entry_id)

    def submit(self, request: R, to: Replier, work: Callable[[R, Replier], Awaitable[None]]) -> bool:
        """Answer `request` by `work` when a reader is free and the client takes answers;
        return False when too many wait."""
        to.slow_reads_began(1)
        if self._readers.submit(request, to, partial(self._slowly, work)):
            return True
        to.slow_reads_ended(1)
        return False

    async def _slowly(self, work: Callable[[R, Replier], Awaitable[None]], request: R, to: Replier) -> bool:
        try:
            await work(request, to)
        finally:
            to.slow_reads_ended(1)
        return True

    async def _entry_from_disk(
        self, request: ReadRequest, to: Replier, *, entry_id: EntryId, lac_update_ms: int | None
    ) -> None:
        try:
            body = await self._store.read(request.ledger_id, entry_id)
        except BookieError as error:
            self._refuse(request, to, error, entry_id)
        else:
            self._found(request, to, entry_id, body, lac_update_ms)

    def _found(
        self, request: ReadRequest, to: Replier, entry_id: EntryId, body: Buffer, lac_update_ms: int | None
    ) -> None:
        self._metrics.read_bytes += len(body)
        # Never on a fencing read (spec/wire.md#W30), and never the highest stored id: only what writers confirmed.
        lac = None if request.is_fencing else self._confirmed(request.ledger_id)
        ids = request.txn, request.version, _EOK, request.ledger_id, entry_id
        to.reply(ReadResponse(*ids, body, lac, lac_update_ms))

    def _confirmed(self, ledger_id: LedgerId) -> int | None:
        """Return the LAC to report; None when there is none, or the ledger was deleted during the read."""
        try:
            lac = self._store.last_confirmed(ledger_id)
        except BookieError:
            return None
        return lac if lac >= 0 else None

    def _refuse(self, request: ReadRequest, to: Replier, error: BookieError, entry_id: EntryId) -> None:
        self._metrics.errors[error.status] += 1
        to.reply(ReadResponse(request.txn, request.version, error.status, request.ledger_id, entry_id))

    # ---- fencing

    def _fence(self, request: ReadRequest, to: Replier) -> None:
        try:
            self._fence_by(request, to, self._boundary.completion(request, to, self._fenced))
        except BookieError as error:
            self._refuse(request, to, error, request.entry_id)

    def _fence_by(self, request: ReadRequest | BatchReadRequest, to: Replier, done: Completion) -> None:
        if request.master_key is None:
            raise errors.Unauthorized("a fencing read must carry the master key of its ledger")
        limits.check_master_key(request.master_key)
        self._store.fence(request.ledger_id, request.master_key, done)
        to.slow_reads_began(1)

    def _fenced(self, request: ReadRequest, to: Replier, error: BookieError | None) -> None:
        """Answer a fencing read after its fence is durable; before that no answer may leave, not even "no such entry"
        (spec/bp46.md#R16)."""
        if error is not None:
            self._refuse(request, to, error, request.entry_id)
            return
        self._polls.wake(request.ledger_id)
        self._entry(request, to, request.entry_id)

    # ---- long polls

    def _long_poll(self, request: ReadRequest, to: Replier) -> None:
        self._metrics.long_polls += 1
        assert request.previous_lac is not None
        try:
            lac = self._store.last_confirmed(request.ledger_id)
        except BookieError as error:
            self._refuse(request, to, error, request.entry_id)
            return
        may_wait = request.timeout_ms is not None and self._polls.has_room(to)
        if may_wait and lac <= request.previous_lac:
            self._polls.wait(request, to, self._boundary.callback(request, to, self._poll_ended))
        else:
            self._poll_ended(request, to, False)

    def _poll_ended(self, request: ReadRequest, to: Replier, is_lac_update: bool) -> None:
        """Answer a long poll that ended. A time-out is no error: the answer reports the LAC. Rule: spec/wire.md#W34."""
        updated_ms = self._clock.wall_ms() if is_lac_update else None
        if not request.is_piggyback:
            self._entry(request, to, request.entry_id, updated_ms)
        elif request.entry_id != -1:
            error = errors.BadRequest("a piggybacked long poll reads entry -1")
            self._refuse(request, to, error, request.entry_id)
        else:
            self._next_entry(request, to, updated_ms)

    def _next_entry(self, request: ReadRequest, to: Replier, updated_ms: int | None) -> None:
        assert request.previous_lac is not None
        try:
            lac = self._store.last_confirmed(request.ledger_id)
            wanted = EntryId(request.previous_lac + 1)  # an id: some LAC is greater
            is_here = lac > request.previous_lac and wanted >= 0 and self._store.has_entry(request.ledger_id, wanted)
        except BookieError as error:
            self._refuse(request, to, error, request.entry_id)  # deleted here meanwhile
            return
        if is_here:
            self._entry(request, to, wanted, updated_ms)
        elif self._store.is_in_doubt(request.ledger_id):
            unknown = errors.UnknownLedgerState("what is confirmed by now may have been lost here")
            self._refuse(request, to, unknown, request.entry_id)
        else:
            ids = request.txn, request.version, _EOK, request.ledger_id, EntryId(-1)
            to.reply(ReadResponse(*ids, None, lac if lac >= 0 else None, updated_ms))

    # ---- batches (v2)

    def batch(self, request: BatchReadRequest, to: Replier) -> None:
        """Answer with consecutive entries, as many as are here and fit; the first one decides about errors."""
        self._metrics.reads += 1
        try:
            if request.entry_id < 0:
                raise errors.BadRequest(f"a batch read cannot begin at entry {request.entry_id}: give an id from 0 on")
            if not request.is_fencing:
                self._submit_batch(request, to, None)
            else:
                self._fence_by(request, to, self._boundary.completion(request, to, self._submit_batch))
        except BookieError as error:
            self._refuse_batch(request, to, error)

    def _submit_batch(self, request: BatchReadRequest, to: Replier, error: BookieError | None) -> None:
        if error is None and request.is_fencing:
            self._polls.wake(request.ledger_id)
        if error is None and not self.submit(request, to, self._fill_batch):
            error = errors.TooManyRequests(_BUSY)
        if error is not None:
            self._refuse_batch(request, to, error)

    async def _fill_batch(self, request: BatchReadRequest, to: Replier) -> None:
        budget_bytes = min(request.size_max, _BATCH_BYTES_MAX)
        size_bytes = _BATCH_HEAD_BYTES
        bodies: list[Buffer] = []
        count_max = request.count_max if 0 < request.count_max < limits.BATCH_COUNT_MAX else limits.BATCH_COUNT_MAX
        # No entry follows the last id that there is.
        count_max = min(count_max, limits.ENTRY_ID_MAX - request.entry_id + 1)
        while len(bodies) < count_max:
            entry_id = EntryId(request.entry_id + len(bodies))
            try:
                body = self._store.read_nowait(request.ledger_id, entry_id)
                if body is None:
                    body = await self._store.read(request.ledger_id, entry_id)
            except BookieError as error:
                if not bodies:
                    self._refuse_batch(request, to, error)
                    return
                break  # a short answer: the client asks again from here
            size_bytes += len(body) + _BATCH_ENTRY_BYTES
            if bodies and size_bytes > budget_bytes:
                # Read for nothing. Its size alone would cost a look into the index for every entry of every batch; and
                # the client asks for this entry next: the read-ahead keeps it in the read cache until then.
                break
            bodies.append(body)
        self._metrics.read_bytes += size_bytes
        ids = request.txn, request.version, _EOK, request.ledger_id, request.entry_id
        to.reply(BatchReadResponse(*ids, tuple(bodies)))

    def _refuse_batch(self, request: BatchReadRequest, to: Replier, error: BookieError) -> None:
        self._metrics.errors[error.status] += 1
        to.reply(BatchReadResponse(request.txn, request.version, error.status, request.ledger_id, request.entry_id))
