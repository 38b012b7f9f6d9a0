"""A processor over a real store on a simulated machine: ask it requests, get its answers, in virtual time."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import MIB
from bookie.ports import World
from bookie.server import lists
from bookie.server.admission import Admission
from bookie.server.boundary import Boundary
from bookie.server.metrics import ServerMetrics
from bookie.server.processor import Processor
from bookie.server.readers import Readers
from bookie.server.reads import Replier
from bookie.server.unsent import Unsent
from bookie.sim.node import SimNode, Simulation
from bookie.storage import restart
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore
from bookie.wire import runs
from bookie.wire.digest import Digest, DigestType
from bookie.wire.messages import (
    AddMix,
    AddRequest,
    AddResponse,
    AddRunResponse,
    Incoming,
    Outgoing,
    ReadRequest,
    ReadResponse,
    ReadRun,
    ReadRunResponse,
    Request,
    Response,
    StartTlsRequest,
    StartTlsResponse,
)
from one_life_support import one_life

STORAGE = StorageOptions(journal_dirs=("/data/journal",), ledger_dirs=("/data/ledgers",))
LEDGER = LedgerId(7)
LAST = EntryId(-1)
DIGEST = Digest(DigestType.CRC32C, b"")
KEY = DIGEST.master_key


def hand_in(processor: Processor, request: Incoming, to: Replier) -> None:
    """Hand in a request as a connection does: what is left of it next."""
    for left in processor.handle(request, to) or ():
        hand_in(processor, left, to)


class Asker:
    """One connection's worth of questions."""

    def __init__(self, node: SimNode, processor: Processor, admission: Admission, unsent: Unsent | None = None) -> None:
        self.node = node
        self.processor = processor
        self.admission = admission
        self.answers: dict[int, Response] = {}
        self.told: dict[int, int | None] = {}  # LastAddSynced, by add
        self._next_txn = 1
        self.slow_reads = 0
        self.peer = "test"
        self.queued_bytes = 0
        self.untaken_bytes = 0
        self.takes_answers = True
        self.unsent = unsent or Unsent(64 * MIB)  # of all clients together
        self.read_runs: list[list[EntryId]] = []  # which entries were answered together

    def reply(self, response: Outgoing) -> None:
        """Keep an answer, those to a run one by one, as they come out of the other end of a connection."""
        if isinstance(response, AddRunResponse):
            run = response.run
            ledger_ids = run.ledger_ids if isinstance(run, AddMix) else [run.ledger_id] * len(run.txns)
            for txn, ledger_id, entry_id in zip(run.txns, ledger_ids, run.entry_ids, strict=True):
                self.told[txn] = response.last_synced
                self.reply(AddResponse(txn, run.version, response.status, ledger_id, entry_id))
            return
        if isinstance(response, ReadRunResponse):
            self.read_runs.append(response.entry_ids)
            columns = zip(response.txns, response.entry_ids, response.bodies, strict=True)
            for txn, entry_id, found in columns:
                ids = txn, response.version, response.status, response.ledger_id, entry_id
                self.reply(ReadResponse(*ids, found, response.max_lac))
            return
        assert response.txn not in self.answers, "exactly one answer"
        self.answers[response.txn] = response

    def slow_reads_began(self, count: int) -> None:
        self.slow_reads += count

    def slow_reads_ended(self, count: int) -> None:
        self.slow_reads -= count

    def break_off(self) -> None:
        raise AssertionError("an answer could not be made")

    def start_tls(self, request: StartTlsRequest) -> None:
        self.reply(StartTlsResponse(request.txn, request.version, Status.EBADREQ))

    def handle(self, request: Incoming) -> None:
        hand_in(self.processor, request, self)

    def send(self, request: Request) -> int:
        """Ask without waiting; return the transaction id."""
        request.txn = self._next_txn
        self._next_txn += 1
        if isinstance(request, AddRequest):
            gathered = runs.Runs()
            assert not list(gathered.put_add(request))
            for run in gathered.take():
                self.handle(run)
        else:
            self.handle(request)
        return request.txn

    async def read_run(self, entry_ids: Sequence[int]) -> list[ReadResponse]:
        """Ask for these with one run; their answers in the order asked."""
        txns = list(range(self._next_txn, self._next_txn + len(entry_ids)))
        self._next_txn += len(entry_ids)
        self.handle(ReadRun(3, LEDGER, txns, [EntryId(entry_id) for entry_id in entry_ids]))
        await self.node.simulation.until(lambda: all(txn in self.answers for txn in txns), "answers to a run")
        found = [self.answers[txn] for txn in txns]
        return [answer for answer in found if isinstance(answer, ReadResponse)]

    async def ask(self, request: Request) -> Response:
        """Ask and wait for the answer."""
        txn = self.send(request)
        await self.node.simulation.until(lambda: txn in self.answers, f"an answer to {request}")
        return self.answers[txn]

    async def add(self, number: int, **changes: Any) -> AddResponse:
        answer = await self.ask(add(number, **changes))
        assert isinstance(answer, AddResponse)
        return answer

    async def read(self, number: int, **changes: Any) -> ReadResponse:
        answer = await self.ask(read(number, **changes))
        assert isinstance(answer, ReadResponse)
        return answer


def not_expected(error: BaseException) -> None:
    raise AssertionError(f"an error of ours: {error!r}") from error


class StrictDoors:
    """A test that does not expect an error of ours fails of it."""

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        raise AssertionError(f"an error of ours at door {door}: {error!r}") from error

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        pass


class MetDoors(StrictDoors):
    """Remembers what was stopped."""

    def __init__(self) -> None:
        self.met: list[tuple[str, Exception]] = []

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        self.met.append((door, error))


def body(entry_id: int, *, ledger_id: int = LEDGER, lac: int | None = None, payload: bytes = b"payload") -> bytes:
    """A sealed entry; its LAC is the entry before, unless told."""
    confirmed = entry_id - 1 if lac is None else lac
    return b"".join(DIGEST.seal(LedgerId(ledger_id), EntryId(entry_id), confirmed, 7 * (entry_id + 1), payload))


def add(number: int, *, lac: int | None = None, **changes: Any) -> AddRequest:
    """The add of entry `number`, with other fields where told."""
    request = AddRequest(0, 3, LEDGER, EntryId(number), KEY, body(number, lac=lac))
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def read(number: int, **changes: Any) -> ReadRequest:
    """The read of entry `number`, with other fields where told."""
    request = ReadRequest(0, 3, LEDGER, EntryId(number))
    for name, value in changes.items():
        setattr(request, name, value)
    return request


Story = Callable[[Asker, EntryStore], Coroutine[Any, Any, None]]


def run(
    story: Story, *, seed: int = 1, in_flight_bytes_max: int = 64 * MIB, storage: StorageOptions = STORAGE
) -> ServerMetrics:
    """Run `story` on one simulated machine with an open store; return what was counted."""
    simulation = Simulation(seed)
    metrics = ServerMetrics()

    async def on_node(world: World, node: SimNode) -> None:
        def fail(error: Exception) -> None:
            raise AssertionError(f"the store stopped the node: {error}")

        store = await restart.open_store(storage, world, fail=fail)
        boundary = Boundary(StrictDoors())
        unsent = Unsent(64 * MIB)
        readers = Readers(boundary, unsent)
        node.spawn(readers.run(), "readers")
        admission = Admission(in_flight_bytes_max)
        listers = lists.listers(boundary, Unsent(64 * MIB))
        node.spawn(listers.run(), "listers")
        processor = Processor(store, readers, listers, admission, metrics, world.clock, boundary)
        asker = Asker(node, processor, admission, unsent)
        await story(asker, store)
        assert asker.slow_reads == 0, "every slow read that began has ended"

    one_life(simulation, on_node)
    return metrics
