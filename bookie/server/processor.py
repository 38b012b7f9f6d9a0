"""One request in, one answer out: what a bookie says, by spec/wire.md#W26 to W37.

Synchronous: `handle` never suspends. It answers at once, or hands the store a completion that answers after
durability, or queues a read for the disk. Because only completions answer adds and fences, "answer before sync"
cannot be written here by accident; deferred adds, where it is wanted, have a place of their own in `adds`.

Where we differ from Java on purpose: present entries are EOK in limbo on every path; a fence is durable before *any*
answer to it; READ_LAC and lists say "unknown" in limbo; an add that this bookie cannot judge any more (its state was
lost) is EIO, which makes a writer change its ensemble, and not EFENCED, which would kill it. Reads are in `reads`,
adds in `adds`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from bookie.base import errors
from bookie.base.errors import BookieError, Status
from bookie.base.ids import Life
from bookie.ports.clock import Clock
from bookie.server.adds import Adds
from bookie.server.admission import Admission
from bookie.server.boundary import Boundary
from bookie.server.lists import Lists
from bookie.server.metrics import ServerMetrics
from bookie.server.readers import Readers
from bookie.server.reads import Reads, Replier
from bookie.storage.store import EntryStore
from bookie.wire import codes, limits
from bookie.wire.framing import FRAME_LIMIT_BYTES
from bookie.wire.messages import (
    AddMix,
    AddRun,
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BookieInfoRequest,
    BookieInfoResponse,
    ErrorResponse,
    ForceRequest,
    ForceResponse,
    Incoming,
    ListEntriesRequest,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadRun,
    RefusedRequest,
    StartTlsRequest,
    UnknownRequest,
    WriteLacRequest,
    WriteLacResponse,
)

_EOK = Status.EOK


class Processor:
    """Answers the requests of all connections of one bookie. `listers`: see `lists`."""

    def __init__(
        self,
        store: EntryStore,
        readers: Readers,
        listers: Readers,
        admission: Admission,
        metrics: ServerMetrics,
        clock: Clock,
        boundary: Boundary,
        frame_bytes_max: int = FRAME_LIMIT_BYTES,
    ) -> None:
        self._store = store
        self._readers = readers
        self._listers = listers
        self._metrics = metrics
        self.clock = clock
        self._boundary = boundary
        self._reads = reads = Reads(store, readers, metrics, clock, boundary)
        lists = Lists(store, listers, metrics, frame_bytes_max)
        self._adds = adds = Adds(store, admission, metrics, clock, boundary, lambda: self.on_room())
        self.on_room: Callable[[], None] = lambda: None  # called when reading sockets may go on
        self.life: Life | None = None  # of this process; None: nobody stamped it (tests)
        self._handlers: dict[type, Callable[[Any, Replier], Sequence[AddRun] | None]] = {
            AddRun: adds.run,
            AddMix: adds.mix,
            ReadRequest: reads.read,
            ReadRun: reads.run,
            WriteLacRequest: self._write_lac,
            ReadLacRequest: self._read_lac,
            ForceRequest: self._force,
            ListEntriesRequest: lists.entries,
            BookieInfoRequest: self._bookie_info,
            AuthRequest: self._auth,
            StartTlsRequest: self._start_tls,
            UnknownRequest: self._unknown,
            RefusedRequest: self._refused,
            BatchReadRequest: reads.batch,
        }

    def handle(self, request: Incoming, to: Replier) -> Sequence[AddRun] | None:
        """Answer `request` through `to.reply`, now or later, exactly once; the adds of a run may get separate answers.

        Adds that turn out to need work of their own are returned unanswered: the caller must hand them in next, before
        any other request of its client, and lets other clients have their turns between.
        Raises BadInput where its version has no answer: the connection must be closed.
        """
        try:
            return self._handlers[type(request)](request, to)
        except errors.BadInput:
            raise
        except Exception as error:
            self._boundary.failed("request", error, request, to)
            return None

    def resume(self, replier: Replier) -> None:
        """Go on with the reads of a client that takes answers again."""
        self._readers.resume(replier)
        self._listers.resume(replier)

    def look(self) -> None:
        """See `Readers.look`. Must be called a few times a second."""
        self._readers.look()
        self._listers.look()

    def forget(self, replier: Replier) -> None:
        """Drop the long polls and reads of a closed connection."""
        self._reads.forget(replier)
        self._adds.forget(replier)
        self._readers.forget(replier)
        self._listers.forget(replier)

    # ---- explicit LAC

    def _write_lac(self, request: WriteLacRequest, to: Replier) -> None:
        self._metrics.other_requests += 1
        try:
            limits.check_master_key(request.master_key)
            limits.check_lac_body(request.body)
            if self._store.is_read_only:
                raise errors.BookieReadOnly("this bookie is read-only")
            done = self._boundary.completion(request, to, self._lac_written)
            self._store.write_lac(request.ledger_id, request.body, request.master_key, done)
            to.slow_reads_began(1)
        except BookieError as error:
            self._lac_written(request, to, error)

    def _lac_written(self, request: WriteLacRequest, to: Replier, error: BookieError | None) -> None:
        status = self._count(error)
        to.reply(WriteLacResponse(request.txn, request.version, status, request.ledger_id))

    def _read_lac(self, request: ReadLacRequest, to: Replier) -> None:
        self._metrics.other_requests += 1
        if not self._reads.submit(request, to, self._read_lac_slowly):
            status = self._count(errors.TooManyRequests("too many reads wait for the disk"))
            to.reply(ReadLacResponse(request.txn, request.version, status, request.ledger_id))

    async def _read_lac_slowly(self, request: ReadLacRequest, to: Replier) -> None:
        try:
            lac_body, last_entry = await self._store.read_lac(request.ledger_id)
            if lac_body is None and last_entry is None:
                raise errors.NoSuchEntry(f"ledger {request.ledger_id} has neither an explicit LAC nor an entry here")
        except BookieError as error:
            to.reply(ReadLacResponse(request.txn, request.version, self._count(error), request.ledger_id))
        else:
            ids = request.txn, request.version, _EOK, request.ledger_id
            to.reply(ReadLacResponse(*ids, lac_body, last_entry))

    # ---- everything else

    def _force(self, request: ForceRequest, to: Replier) -> None:
        self._metrics.other_requests += 1
        try:
            self._store.force(request.ledger_id, self._boundary.completion(request, to, self._forced))
            to.slow_reads_began(1)
        except errors.NoSuchLedger:
            self._forced(request, to, None)  # nothing was acknowledged, so all of it is durable
        except BookieError as error:
            self._forced(request, to, error)

    def _forced(self, request: ForceRequest, to: Replier, error: BookieError | None) -> None:
        to.reply(ForceResponse(request.txn, request.version, self._count(error), request.ledger_id))

    def _bookie_info(self, request: BookieInfoRequest, to: Replier) -> None:
        self._metrics.other_requests += 1
        usage = self._store.health.usage
        life = self.life if request.requested & codes.INFO_LIFE else None
        if life is not None:
            self._adds.knows_lives(to)
        to.reply(
            BookieInfoResponse(
                request.txn,
                request.version,
                _EOK,
                usage.total_bytes if request.requested & codes.INFO_TOTAL_DISK_CAPACITY else None,
                usage.free_bytes if request.requested & codes.INFO_FREE_DISK_SPACE else None,
                *(life or ()),
            )
        )

    def _auth(self, request: AuthRequest, to: Replier) -> None:
        """Answer AUTH while authentication is off: a client that sees this plugin name considers itself authenticated
        (spec/wire.md#W38)."""
        limits.check_auth(request)
        to.reply(AuthResponse(request.txn, request.version, _EOK, codes.AUTH_DISABLED_PLUGIN, b""))

    def _start_tls(self, request: StartTlsRequest, to: Replier) -> None:
        self._metrics.other_requests += 1
        to.start_tls(request)

    def _unknown(self, request: UnknownRequest, to: Replier) -> None:
        to.reply(ErrorResponse(request.txn, request.version, request.operation, Status.EBADREQ))

    def _refused(self, request: RefusedRequest, to: Replier) -> None:
        to.reply(request.response)

    def _count(self, error: BookieError | None) -> Status:
        if error is None:
            return _EOK
        self._metrics.errors[error.status] += 1
        return error.status
