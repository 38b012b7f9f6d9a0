"""Every kind of read: plain, fencing, long poll, batch (wire-protocol.md 7.3, 7.4, 7.6, 3.7; repairs of bp46.md 10).

What is in memory is answered at once; what is on disk goes through `Readers`. A present entry is EOK in limbo on every
path, an absent one is never "no" there: that is the store's decision, and nothing here may soften it.
"""

from functools import partial
from typing import Protocol

from bookie.base import errors
from bookie.base.errors import BookieError, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import MIB
from bookie.ports.clock import Clock
from bookie.server.ledgers import LongPolls
from bookie.server.metrics import ServerMetrics
from bookie.server.readers import Readers
from bookie.storage.store import EntryStore
from bookie.wire.messages import (
    BatchReadRequest,
    BatchReadResponse,
    Buffer,
    Outgoing,
    ReadRequest,
    ReadResponse,
    ReadRun,
    ReadRunResponse,
    StartTlsRequest,
)

_EOK = Status.EOK
_BUSY = "too many reads wait for the disk"
# BatchedReadEntryProcessor: 24 (header) + 8 (request id) + 4, then length and bytes of each entry.
_BATCH_HEAD_BYTES = 36
_BATCH_ENTRY_BYTES = 4
_BATCH_BYTES_MAX = 5 * MIB  # maxBatchReadSize
# Beyond this the rest of a run of reads is answered when the client has taken what was found.
_RUN_BYTES_MAX = 1 * MIB


class Replier(Protocol):
    """Where answers go: one connection. A no-op once it is closed."""

    def reply(self, response: Outgoing) -> None: ...

    def slow_reads_began(self, count: int) -> None:
        """An answer of any size is being fetched: whoever has many of them must not ask for more."""
        ...

    def slow_reads_ended(self, count: int) -> None: ...

    def start_tls(self, request: StartTlsRequest) -> None:
        """Answer, and encrypt what follows; may not return: the requests behind it in plain are not to be read."""
        ...


class Reads:
    """Answers read requests of all connections; part of the processor."""

    def __init__(self, store: EntryStore, readers: Readers, metrics: ServerMetrics, clock: Clock) -> None:
        self._store = store
        self._readers = readers
        self._metrics = metrics
        self._clock = clock
        self._polls = LongPolls(store.watch_lac)

    def forget(self, replier: Replier) -> None:
        """A connection is gone: nobody waits for its long polls any more."""
        self._polls.forget(replier)

    def read(self, request: ReadRequest, to: Replier) -> None:
        """Answer one read request. A fence flag wins over everything else (wire-protocol.md 4, ReadRequest)."""
        self._metrics.reads += 1
        if request.is_fencing:
            self._fence(request, to)
        elif request.previous_lac is not None:
            self._long_poll(request, to)
        else:
            self._entry(request, to, request.entry_id)

    # ---- plain reads of one ledger

    def run(self, run: ReadRun, to: Replier) -> None:
        """Answer with one write what is in memory; what is not goes its own way, entry by entry."""
        self._metrics.reads += len(run.txns)
        found = ReadRunResponse(run.version, _EOK, run.ledger_id, [], [], [])
        missing = ReadRun(run.version, run.ledger_id, [], [])
        size_bytes = 0
        bodies = self._store.read_run_nowait(run.ledger_id, run.entry_ids)
        for txn, entry_id, body in zip(run.txns, run.entry_ids, bodies, strict=True):
            if body is None or size_bytes > _RUN_BYTES_MAX:
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
        if self._readers.submit(partial(self._run_from_disk, run, to)):
            to.slow_reads_began(count)
            return
        busy = errors.TooManyRequests(_BUSY)
        for txn, entry_id in zip(run.txns, run.entry_ids, strict=True):
            self._refuse(ReadRequest(txn, run.version, run.ledger_id, entry_id), to, busy, entry_id)

    async def _run_from_disk(self, run: ReadRun, to: Replier) -> None:
        """Answer with one write what comes with one hop to the disk; with another what is too large for that."""
        start = 0
        while start < len(run.txns):
            answers = await self._store.read_many(run.ledger_id, run.entry_ids[start:])
            found = ReadRunResponse(run.version, _EOK, run.ledger_id, [], [], [])
            size_bytes = 0
            for number, answer in enumerate(answers, start):
                txn, entry_id = run.txns[number], run.entry_ids[number]
                if isinstance(answer, BookieError):
                    self._refuse(ReadRequest(txn, run.version, run.ledger_id, entry_id), to, answer, entry_id)
                    continue
                size_bytes += len(answer)
                found.txns.append(txn)
                found.entry_ids.append(entry_id)
                found.bodies.append(answer)
            self._found_run(found, size_bytes, to)
            to.slow_reads_ended(len(answers))
            start += len(answers)

    def _found_run(self, found: ReadRunResponse, size_bytes: int, to: Replier) -> None:
        if found.txns:
            self._metrics.read_bytes += size_bytes
            found.max_lac = self._confirmed(found.ledger_id)
            to.reply(found)

    # ---- one entry

    def _entry(self, request: ReadRequest, to: Replier, entry_id: EntryId, lac_update_ms: int | None = None) -> None:
        """Answer with one entry; -1 is the highest, and is echoed as -1 (wire-protocol.md 3.5)."""
        try:
            body = self._store.read_nowait(request.ledger_id, entry_id)
        except BookieError as error:
            self._refuse(request, to, error, entry_id)
            return
        if body is not None:
            self._found(request, to, entry_id, body, lac_update_ms)
        else:
            self._submit(request, to, entry_id, lac_update_ms)

    def _submit(self, request: ReadRequest, to: Replier, entry_id: EntryId, lac_update_ms: int | None) -> None:
        self._metrics.slow_reads += 1
        if self._readers.submit(partial(self._entry_from_disk, request, to, entry_id, lac_update_ms)):
            to.slow_reads_began(1)
        else:
            self._refuse(request, to, errors.TooManyRequests(_BUSY), entry_id)

    async def _entry_from_disk(
        self, request: ReadRequest, to: Replier, entry_id: EntryId, lac_update_ms: int | None
    ) -> None:
        try:
            body = await self._store.read(request.ledger_id, entry_id)
        except BookieError as error:
            self._refuse(request, to, error, entry_id)
        else:
            self._found(request, to, entry_id, body, lac_update_ms)
        to.slow_reads_ended(1)

    def _found(
        self, request: ReadRequest, to: Replier, entry_id: EntryId, body: Buffer, lac_update_ms: int | None
    ) -> None:
        self._metrics.read_bytes += len(body)
        # Never on a fencing read (wire-protocol.md 7.4), and never the highest stored id: only what writers confirmed.
        lac = None if request.is_fencing else self._confirmed(request.ledger_id)
        ids = request.txn, request.version, _EOK, request.ledger_id, entry_id
        to.reply(ReadResponse(*ids, body, lac, lac_update_ms))

    def _confirmed(self, ledger_id: LedgerId) -> int | None:
        """The LAC to tell; None when there is none, or the ledger went while its entry was on the way."""
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
            if request.master_key is None:
                raise errors.Unauthorized("a fencing read without a master key")
            self._store.fence(request.ledger_id, request.master_key, partial(self._fenced, request, to))
        except BookieError as error:
            self._refuse(request, to, error, request.entry_id)

    def _fenced(self, request: ReadRequest, to: Replier, error: BookieError | None) -> None:
        """The fence is durable: only now may any answer leave, "no such entry" included (bp46.md 10, gap 36)."""
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
        may_wait = request.timeout_ms is not None and not self._polls.is_full
        if may_wait and lac <= request.previous_lac:
            self._polls.wait(request, to, partial(self._poll_ended, to))
        else:
            self._poll_ended(to, request, False)

    def _poll_ended(self, to: Replier, request: ReadRequest, is_lac_update: bool) -> None:
        """Rule: wire-protocol.md 7.6, point 3. A time-out is no error: it tells where the LAC is."""
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
        wanted = EntryId(request.previous_lac + 1)
        try:
            lac = self._store.last_confirmed(request.ledger_id)
        except BookieError as error:
            self._refuse(request, to, error, request.entry_id)  # deleted here meanwhile
            return
        if lac > request.previous_lac and self._store.has_entry(request.ledger_id, wanted):
            self._entry(request, to, wanted, updated_ms)
        elif is_limbo(self._store, request.ledger_id):
            unknown = errors.UnknownLedgerState("limbo: what is confirmed by now may have been lost here")
            self._refuse(request, to, unknown, request.entry_id)
        else:
            ids = request.txn, request.version, _EOK, request.ledger_id, EntryId(-1)
            to.reply(ReadResponse(*ids, None, lac if lac >= 0 else None, updated_ms))

    # ---- batches (v2)

    def batch(self, request: BatchReadRequest, to: Replier) -> None:
        """Answer with consecutive entries, as many as fit and are here; the first one decides about errors."""
        self._metrics.reads += 1
        try:
            if request.entry_id < 0:
                raise errors.BadRequest("a batch read begins at an entry")
            if not request.is_fencing:
                self._submit_batch(request, to, None)
            elif request.master_key is None:
                raise errors.Unauthorized("a fencing read without a master key")
            else:
                done = partial(self._submit_batch, request, to)
                self._store.fence(request.ledger_id, request.master_key, done)
        except BookieError as error:
            self._refuse_batch(request, to, error)

    def _submit_batch(self, request: BatchReadRequest, to: Replier, error: BookieError | None) -> None:
        if error is None and not self._readers.submit(partial(self._batch, request, to)):
            error = errors.TooManyRequests(_BUSY)
        if error is not None:
            self._refuse_batch(request, to, error)
            return
        to.slow_reads_began(1)
        if request.is_fencing:
            self._polls.wake(request.ledger_id)

    async def _batch(self, request: BatchReadRequest, to: Replier) -> None:
        await self._fill_batch(request, to)
        to.slow_reads_ended(1)

    async def _fill_batch(self, request: BatchReadRequest, to: Replier) -> None:
        budget_bytes = min(request.size_max, _BATCH_BYTES_MAX)
        size_bytes = _BATCH_HEAD_BYTES
        bodies: list[Buffer] = []
        while request.count_max <= 0 or len(bodies) < request.count_max:
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
                break
            bodies.append(body)
        self._metrics.read_bytes += size_bytes
        ids = request.txn, request.version, _EOK, request.ledger_id, request.entry_id
        to.reply(BatchReadResponse(*ids, tuple(bodies)))

    def _refuse_batch(self, request: BatchReadRequest, to: Replier, error: BookieError) -> None:
        self._metrics.errors[error.status] += 1
        to.reply(BatchReadResponse(request.txn, request.version, error.status, request.ledger_id, request.entry_id))


def is_limbo(store: EntryStore, ledger_id: LedgerId) -> bool:
    """True when this bookie may have lost entries of the ledger: it must not say what it does not have."""
    facts = store.facts(ledger_id)
    return store.is_doubtful or (facts is not None and facts.is_limbo)
