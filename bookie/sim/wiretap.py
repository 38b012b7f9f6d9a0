"""Decodes the answers of bookies on the wire, and compares them with earlier ones (spec/bp46.md#S7, S8); and the LACs
that writers tell (`sim.lac_watch`).

The first: a bookie that answered a fencing request accepts no normal add of that ledger that arrives later, in no later
life. The second: a bookie that acknowledged an entry never denies having it while that could decide anything: while the
ledger is not closed, or the entry lies before its end, and the bookie is in the entry's write set; nor does it say
that it has no LAC, or no entries, of such a ledger. A deferred add (BP-14) is acknowledged in this sense by a `force`
that arrived after its answer, or by an answer that tells the ledger to be on disk so far: on the same connection, hence
by the same life.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from bookie.base.errors import Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.sim.lac_watch import LacWatch
from bookie.sim.network import SimStream, Tap
from bookie.sim.oracle import life_of
from bookie.wire import digest, entry, runs, v3
from bookie.wire.codes import V3_FIRST_BYTE
from bookie.wire.framing import FrameSplitter
from bookie.wire.messages import (
    AddMix,
    AddResponse,
    AddRun,
    ForceRequest,
    ForceResponse,
    Incoming,
    ListEntriesResponse,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    ReadRun,
    Request,
    Response,
    WriteLacRequest,
)
from bookie.wire.session import ServerSession

NEGATIVE = (Status.ENOENTRY, Status.ENOLEDGER)
# Java's client, and ours, count these as "this bookie is fenced now".
FENCING_ANSWERS = (Status.EOK, *NEGATIVE)
# Between the name of a bookie and the number of a further machine, on which a second process of it runs.
TWIN = "~"


@dataclass(slots=True)
class _TappedConnection:
    """One connection: requests by transaction with the moment they arrived."""

    session: ServerSession = field(default_factory=ServerSession)
    answers: FrameSplitter = field(default_factory=FrameSplitter)
    waiting: dict[int, tuple[Incoming, int]] = field(default_factory=dict)
    # Answered deferred adds, perhaps in memory only, with the moment of the answer.
    deferred: dict[tuple[LedgerId, EntryId], int] = field(default_factory=dict)


@dataclass(slots=True)
class _Bookie:
    """The answers of one bookie id, over all its lives."""

    # Entry -> whether a process acknowledged it that had no successor then: what a replaced one takes, the next lacks.
    acknowledged: dict[tuple[LedgerId, EntryId], bool] = field(default_factory=dict)
    taken: dict[LedgerId, None] = field(default_factory=dict)  # ledgers with an acknowledged entry
    fenced: dict[LedgerId, int] = field(default_factory=dict)  # ledger -> the moment of the answer

    def forget(self, ledger_id: LedgerId) -> None:
        """Begin again with a ledger that was made under a deleted one's id."""
        self.acknowledged = {key: is_kept for key, is_kept in self.acknowledged.items() if key[0] != ledger_id}
        self.taken.pop(ledger_id, None)
        self.fenced.pop(ledger_id, None)

    def acknowledge(self, ledger_id: LedgerId, entry_id: EntryId, *, is_kept: bool) -> None:
        self.acknowledged[ledger_id, entry_id] = is_kept or self.acknowledged.get((ledger_id, entry_id), False)
        self.taken[ledger_id] = None


def _kind(request: Incoming) -> str:
    match request:
        case AddRun(is_recovery=True):
            return "recovery add"
        case AddRun():
            return "add"
        case ReadRequest(is_fencing=True):
            return "fencing read"
        case ReadRequest() | ReadRun():
            return "read"
    return type(request).__name__


class Wiretap(Tap):
    """Watches the data ports of all bookies. `metadata_of(ledger)` is the stored truth, None when deleted.
    `is_replaced(host)`: the process there has a successor of its id, and has perhaps not heard of it."""

    def __init__(
        self,
        report: Callable[[str], None],
        metadata_of: Callable[[LedgerId], LedgerMetadata | None],
        is_replaced: Callable[[str], bool] = lambda host: False,
    ) -> None:
        self._report = report
        self._is_replaced = is_replaced
        self._metadata_of = metadata_of
        self._bookies: defaultdict[str, _Bookie] = defaultdict(_Bookie)
        self._conversations: defaultdict[SimStream, _TappedConnection] = defaultdict(_TappedConnection)
        self._moment = 0
        self._lacs = LacWatch(report, metadata_of)
        self._lives: dict[LedgerId, bytes] = {}  # of those made anew: which it is now
        self.messages = 0
        self.mixed_adds = 0  # that a bookie was given together, of many ledgers (`AddMix`)
        # Told each answer, with its question.
        self.listener: Callable[[SimStream, Incoming, Response], None] | None = None
        self.refusals: Counter[str] = Counter()  # kind of request and status, for probes

    def must_keep(self, bookie: str, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Whether the bookie acknowledged the entry to anybody, in this life or one before, while the process that did
        so had no successor (docs/INTEGRITY.md, two processes of one id)."""
        return bookie in self._bookies and self._bookies[bookie].acknowledged.get((ledger_id, entry_id), False)

    def metadata_changed(self, ledger_id: LedgerId, metadata: LedgerMetadata | None) -> None:
        """Take the ledger's metadata, which was just stored. What bookies said of a deleted one binds nobody in the
        one that was made anew under its id."""
        life = b"" if metadata is None else life_of(metadata.password)
        if life and life != self._lives.get(ledger_id):
            self._lives[ledger_id] = life
            self._lacs.made_anew(ledger_id)
            for bookie in self._bookies.values():
                bookie.forget(ledger_id)

    def _is_of_another(self, request: Incoming | None) -> bool:
        """Return whether a request is about a ledger that had this one's id before: its key tells."""
        if not isinstance(request, AddRun | ReadRequest | WriteLacRequest) or not request.master_key:
            return False
        life = self._lives.get(request.ledger_id)
        return life is not None and request.master_key != digest.master_key(life)

    def received(self, stream: SimStream, data: bytes) -> None:
        conversation = self._conversations[stream]
        session = conversation.session
        incoming = session.receive(data)
        while session.has_more:
            incoming += session.receive_more()
        for request in self._without_mixes(incoming):
            self._moment += 1
            self._told(request)
            for txn in request.txns if isinstance(request, AddRun | ReadRun) else (request.txn,):
                conversation.waiting[txn] = (request, self._moment)

    def _without_mixes(self, incoming: Iterable[Incoming]) -> Iterator[Request | AddRun | ReadRun]:
        """Yield the requests, the adds of a mix as runs."""
        for request in incoming:
            if isinstance(request, AddMix):
                self.mixed_adds += len(request.txns)
                yield from runs.take_apart(request, range(len(request.txns)))
            else:
                yield request

    def _told(self, request: Incoming) -> None:
        """Look at the LACs that a writer tells.

        Version 2's answers are not decoded here, so its ledgers are let be, also where it writes a LAC in version 3.
        """
        if self._is_of_another(request):
            return
        if isinstance(request, AddRun) and request.version != v3.VERSION:
            self._lacs.let_be(request.ledger_id)
        elif isinstance(request, AddRun) and not request.is_recovery:
            for entry_id, body in zip(request.entry_ids, request.bodies, strict=True):
                if len(body) >= entry.HEADER_SIZE:
                    self._lacs.told(request.ledger_id, entry.unpack_lac(body), f"the header of entry {entry_id}")
        elif isinstance(request, WriteLacRequest):
            self._lacs.told(request.ledger_id, request.lac, "a LAC that was written")

    def sent(self, stream: SimStream, data: bytes) -> None:
        conversation = self._conversations[stream]
        for frame in conversation.answers.feed(data):
            self._moment += 1
            self.messages += 1
            if frame[0] != V3_FIRST_BYTE:
                continue  # a batch read: only what a bookie says it has
            response = v3.unpack_response(frame)
            request, arrived = conversation.waiting.pop(response.txn, (None, 0))
            name = stream.host.partition(TWIN)[0]  # what one process said binds every other of its id
            bookie = self._bookies[name]
            if response.status is not Status.EOK and request is not None:
                self.refusals[f"{_kind(request)} {response.status.name}"] += 1
            if self.listener is not None and request is not None:
                self.listener(stream, request, response)
            if self._is_of_another(request):
                continue
            if isinstance(request, AddRun) and isinstance(response, AddResponse):
                self._added(stream.host, conversation, request, response, arrived)
            elif isinstance(request, ForceRequest) and isinstance(response, ForceResponse):
                if response.status is Status.EOK:
                    self._on_disk(stream.host, conversation, request.ledger_id, before=arrived)
            elif isinstance(request, ReadRequest | ReadRun) and isinstance(response, ReadResponse):
                self._was_read(name, bookie, request, response, stream.host)
            elif self._is_replaced(stream.host):
                continue  # as for a read
            elif isinstance(response, ReadLacResponse | ListEntriesResponse) and response.status in NEGATIVE:
                self._has_nothing(name, bookie, response.ledger_id)

    def _added(
        self,
        host: str,
        conversation: _TappedConnection,
        request: AddRun,
        response: AddResponse,
        arrived: int,
    ) -> None:
        if response.status is not Status.EOK:
            return
        name = host.partition(TWIN)[0]
        bookie = self._bookies[name]
        self._lacs.acknowledged(name, response.ledger_id, response.entry_id)
        if request.is_deferred and not request.is_recovery:
            conversation.deferred[response.ledger_id, response.entry_id] = self._moment
            if response.last_synced is not None:
                self._on_disk(host, conversation, request.ledger_id, last=response.last_synced)
        else:
            bookie.acknowledge(response.ledger_id, response.entry_id, is_kept=not self._is_replaced(host))
        fenced_at = bookie.fenced.get(request.ledger_id)
        is_late = fenced_at is not None and arrived > fenced_at and not request.is_recovery
        if is_late and self._metadata_of(request.ledger_id) is not None:  # a deleted one is forgotten, fence and all
            self._report(
                f"S7: {name} answered a fence of ledger {request.ledger_id}, then accepted entry {response.entry_id}"
            )

    def _on_disk(
        self, host: str, conversation: _TappedConnection, ledger_id: LedgerId, *, before: int = 0, last: int = -1
    ) -> None:
        """Note that the bookie says to have on disk what it answered before that moment, and every entry up to
        `last`."""
        bookie = self._bookies[host.partition(TWIN)[0]]
        for (ledger, entry_id), answered in list(conversation.deferred.items()):
            if ledger == ledger_id and (answered < before or entry_id <= last):
                bookie.acknowledge(ledger, entry_id, is_kept=not self._is_replaced(host))
                del conversation.deferred[ledger, entry_id]

    def _was_read(
        self, name: str, bookie: _Bookie, request: ReadRequest | ReadRun, response: ReadResponse, host: str
    ) -> None:
        ledger_id, entry_id = response.ledger_id, response.entry_id
        is_fencing = isinstance(request, ReadRequest) and request.is_fencing
        if is_fencing and response.status in FENCING_ANSWERS:
            bookie.fenced.setdefault(ledger_id, self._moment)
        if not is_fencing and self._is_replaced(host):
            return  # cut off, it denies what its successor took, and ends nothing by it (INTEGRITY.md, two processes)
        if response.status in NEGATIVE and (ledger_id, entry_id) in bookie.acknowledged:
            metadata = self._metadata_of(ledger_id)
            if metadata is not None and self._matters(name, metadata, entry_id):
                self._report(f"S8: {name} acknowledged entry {entry_id} of ledger {ledger_id} and now denies it")

    def _has_nothing(self, name: str, bookie: _Bookie, ledger_id: LedgerId) -> None:
        """Check that a bookie that has no LAC, or no entries, of a ledger never acknowledged any (spec/bp46.md#T12)."""
        metadata = self._metadata_of(ledger_id)
        if metadata is None or ledger_id not in bookie.taken:
            return
        for ledger, entry_id in bookie.acknowledged:
            if ledger == ledger_id and self._matters(name, metadata, entry_id):
                self._report(
                    f"S8: {name} acknowledged entry {entry_id} of ledger {ledger_id} and now denies the ledger"
                )
                return

    def _matters(self, name: str, metadata: LedgerMetadata, entry_id: EntryId) -> bool:
        if metadata.state is LedgerState.CLOSED and entry_id > metadata.last_entry:
            return False
        if metadata.loss_of(entry_id) is not None:  # a person gave it up, in writing (spec/metadata.md#M57)
            return False
        return BookieId(name) in metadata.write_set(entry_id)
