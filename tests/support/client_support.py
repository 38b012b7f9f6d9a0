"""A fleet of model bookies on the simulated network, for tests of the client: they keep the protocol and obey a script.

`FakeBookie` holds entries in memory, fences, checks keys, and answers as spec/wire.md#W26 to W37 say. Before that it
asks its `script`, which may answer differently, say nothing (MUTE) or break the connection (BREAK).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import wire_support
from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import BookieId, BootEpoch, EntryId, LedgerId, Life
from bookie.client import Client, ClientOptions, LedgerWriter, cluster
from bookie.metadata import cookie, paths, registration
from bookie.ports.metadata_store import ANY_VERSION, DeleteOp, MetadataStore, Op
from bookie.ports.network import Address, ByteStream, Listener
from bookie.wire import codes, entry, messages, session
from bookie.wire.messages import Request, Response
from sim_support import Machine

T = TypeVar("T")

URI = "zk+hierarchical://zk:2181/ledgers"
ROOT = "/ledgers"
PORT = 3181

MUTE = "mute"
BREAK = "break"
Script = Callable[[Request], "Status | str | None"]


def obey(request: Request) -> Status | str | None:
    """The script of a bookie that simply does what it is asked."""
    return None


class FakeBookie:
    """One bookie: what it stores (`entries`, `fenced`, `lacs`), what it was asked (`requests`), how it answers."""

    def __init__(self, fleet: Fleet, name: str, zone: str) -> None:
        self.fleet = fleet
        self.id = BookieId(name)
        self.zone = zone
        self.shares = ""  # the machine that it shares with others, as it says when it starts
        self.world = fleet.machine.begin(name=name)
        self.entries: dict[tuple[LedgerId, EntryId], bytes] = {}
        self.keys: dict[LedgerId, bytes] = {}
        self.fenced: set[LedgerId] = set()
        self.limbo: set[LedgerId] = set()
        self.lac_bodies: dict[LedgerId, bytes] = {}
        self.lac_status = Status.EOK  # of an answer to READ_LAC that has a body
        self.knows_batches = True
        self.tells_synced = False
        self.polls_early = False  # answers a long poll with the next entry before that is confirmed
        self.listed: list[tuple[int, int]] = []  # runs (first, last) that it says it holds, of any ledger
        self.free_bytes = 1 << 30
        self.in_memory: set[tuple[LedgerId, EntryId]] = set()  # acknowledged, not on disk (deferred sync)
        self.life: Life | None = None  # None: like Java's, it does not say
        self.requests: list[Request] = []
        self.script: Script = obey
        self.lies: Callable[[Response], list[Response]] | None = None  # what it sends in the place of an answer
        self._listener: Listener | None = None
        self._polls: list[asyncio.Future[None]] = []

    # ---- its life ----------------------------------------------------------------------------------------------------

    async def start(self, *, read_only: bool = False, port: int = PORT) -> None:
        """Listen, then register."""
        self._listener = await self.world.network.listen(Address(str(self.id), port), self._serve)
        folder = paths.readonly(ROOT) if read_only else paths.available(ROOT)
        info = registration.bookie_service(str(self.id), port, (("zone", self.zone), ("machine", self.shares)))
        await self.fleet.store.create(f"{folder}/{self.id}", registration.dump_service_info(info), parents=True)

    async def stop(self, *, unregister: bool = True) -> None:
        """Connections end and nobody listens; memory is kept, as on disk."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        if unregister:
            for folder in (paths.available(ROOT), paths.readonly(ROOT)):
                with contextlib.suppress(errors.NodeMissing):
                    await self.fleet.store.delete(f"{folder}/{self.id}")

    def break_connections(self) -> None:
        self.fleet.machine.fabric.reset(str(self.id))

    def cut_power(self) -> None:
        """What was not on disk is gone, and with it every connection: the next life begins."""
        if self.life is not None:
            self.life = Life(self.life.incarnation, BootEpoch(self.life.boot_epoch + 1))
        for held in self.in_memory:
            del self.entries[held]
        self.in_memory.clear()
        self.break_connections()

    async def begin_life(self, life: Life) -> None:
        """From now on it answers as one of ours: its record says which life is the current one."""
        self.life = life
        path = paths.incarnation(ROOT, self.id)
        record = cookie.dump_incarnation(cookie.IncarnationRecord("fleet", life.incarnation, life.boot_epoch))
        try:
            await self.fleet.store.put(path, record, ANY_VERSION)
        except errors.NodeMissing:
            await self.fleet.store.create(path, record, parents=True)

    def wipe(self) -> None:
        """The disk is gone; the process lives."""
        self.in_memory.clear()
        self.entries.clear()
        self.keys.clear()
        self.fenced.clear()
        self.lac_bodies.clear()

    def ids(self, ledger_id: LedgerId) -> list[int]:
        """The entries it holds of one ledger, ascending."""
        return sorted(entry_id for ledger, entry_id in self.entries if ledger == ledger_id)

    def asked(self, kind: type[T]) -> list[T]:
        """What it was asked, of one kind."""
        return [request for request in self.requests if isinstance(request, kind)]

    # ---- the protocol ------------------------------------------------------------------------------------------------

    async def _serve(self, stream: ByteStream) -> None:
        incoming = session.ServerSession()
        while chunk := await stream.read():
            for request in wire_support.one_by_one(incoming.receive(chunk)):
                self.requests.append(request)
                said = self.script(request)
                if said == MUTE:
                    continue
                if said == BREAK or (isinstance(request, messages.BatchReadRequest) and not self.knows_batches):
                    stream.close()
                    return
                if said is None and isinstance(request, messages.ReadRequest) and request.timeout_ms is not None:
                    self._polls.append(asyncio.ensure_future(self._poll(stream, request)))
                    continue
                response = _refusal(request, said) if isinstance(said, Status) else self._answer(request)
                for said_so in (response,) if self.lies is None else self.lies(response):
                    stream.write(session.pack_response(said_so))

    async def _poll(self, stream: ByteStream, request: messages.ReadRequest) -> None:
        """A long poll: answered when the LAC moves, or when its time is up (spec/wire.md#W34)."""
        assert request.timeout_ms is not None
        assert request.previous_lac is not None
        loop = self.fleet.machine.loop
        end_ns = loop.now_ns + request.timeout_ms * 1_000_000
        waits = request.ledger_id in self.keys and not self.polls_early
        while waits and loop.now_ns < end_ns and self.lac(request.ledger_id) <= request.previous_lac:
            await loop.sleep_ns(20_000_000)
        stream.write(session.pack_response(self._answer(request)))

    def _answer(self, request: Request) -> Response:
        match request:
            case messages.AddRequest():
                answer = _add_answer(request, self._add(request))
                if self.tells_synced and request.is_deferred:
                    self.in_memory.clear()
                    answer.last_synced = self.ids(request.ledger_id)[-1]
                return answer
            case messages.ReadRequest():
                return self._read(request)
            case messages.BatchReadRequest():
                return self._read_batch(request)
            case messages.ReadLacRequest():
                return self._read_lac(request)
            case messages.WriteLacRequest():
                self.lac_bodies[request.ledger_id] = bytes(request.body)
                self.keys.setdefault(request.ledger_id, request.master_key)
                return messages.WriteLacResponse(request.txn, 3, Status.EOK, request.ledger_id)
            case messages.BookieInfoRequest():
                life = self.life if request.requested & codes.INFO_LIFE else None
                return messages.BookieInfoResponse(request.txn, 3, Status.EOK, 1 << 40, self.free_bytes, *(life or ()))
            case messages.ListEntriesRequest():
                body = wire_support.encode_runs(self.listed)
                return messages.ListEntriesResponse(request.txn, 3, Status.EOK, request.ledger_id, body)
            case messages.ForceRequest():
                self.in_memory = {held for held in self.in_memory if held[0] != request.ledger_id}
                return messages.ForceResponse(request.txn, 3, Status.EOK, request.ledger_id)
            case _:
                raise AssertionError(f"the model bookie does not know {request}")

    def _add(self, request: messages.AddRequest) -> Status:
        ledger_id = request.ledger_id
        if self.keys.setdefault(ledger_id, request.master_key) != request.master_key:
            return Status.EUA
        if ledger_id in self.fenced and not request.is_recovery:
            return Status.EFENCED
        self.entries[ledger_id, request.entry_id] = bytes(request.body)
        if request.is_deferred:
            self.in_memory.add((ledger_id, request.entry_id))
        return Status.EOK

    def _read(self, request: messages.ReadRequest) -> Response:
        ledger_id, entry_id = request.ledger_id, request.entry_id
        response = messages.ReadResponse(request.txn, request.version, Status.EOK, ledger_id, entry_id)
        if request.is_fencing:
            assert request.master_key is not None
            if self.keys.setdefault(ledger_id, request.master_key) != request.master_key:
                response.status = Status.EUA
                return response
            self.fenced.add(ledger_id)
        if request.previous_lac is not None and not request.is_fencing:
            return self._long_poll(request, response)
        held = self.ids(ledger_id)
        wanted = EntryId(held[-1]) if entry_id == -1 and held else entry_id
        body = self.entries.get((ledger_id, wanted))
        if body is not None:
            response.body = body
            response.max_lac = None if request.is_fencing else self.lac(ledger_id)
        elif ledger_id in self.limbo:
            response.status = Status.EUNKNOWNLEDGERSTATE
        else:
            response.status = Status.ENOENTRY if ledger_id in self.keys else Status.ENOLEDGER
        return response

    def _read_batch(self, request: messages.BatchReadRequest) -> Response:
        """Wire 3.7: the first entry whatever its size, then as many as fit."""
        response = messages.BatchReadResponse(request.txn, 2, Status.EOK, request.ledger_id, request.entry_id)
        bodies: list[bytes] = []
        size = 36
        wanted = request.entry_id
        while (body := self.entries.get((request.ledger_id, wanted))) is not None and len(bodies) < request.count_max:
            size += 4 + len(body)
            if bodies and size > request.size_max:
                break
            bodies.append(body)
            wanted = EntryId(wanted + 1)
        if not bodies:
            unknown = Status.EIO if request.ledger_id in self.limbo else Status.ENOENTRY
            response.status = unknown if request.ledger_id in self.keys else Status.ENOLEDGER
        response.bodies = tuple(bodies)
        return response

    def _long_poll(self, request: messages.ReadRequest, response: messages.ReadResponse) -> Response:
        assert request.previous_lac is not None
        if request.ledger_id not in self.keys:
            response.status = Status.ENOLEDGER
            return response
        response.max_lac = self.lac(request.ledger_id)
        wanted = EntryId(request.previous_lac + 1)
        body = self.entries.get((request.ledger_id, wanted))
        if body is not None and (response.max_lac >= wanted or self.polls_early):
            response.entry_id, response.body = wanted, body
        return response

    def _read_lac(self, request: messages.ReadLacRequest) -> Response:
        held = self.ids(request.ledger_id)
        response = messages.ReadLacResponse(request.txn, 3, self.lac_status, request.ledger_id)
        response.lac_body = self.lac_bodies.get(request.ledger_id)
        if held:
            response.last_entry_body = self.entries[request.ledger_id, EntryId(held[-1])]
        if response.lac_body is None and response.last_entry_body is None:
            unknown = request.ledger_id in self.limbo
            response.status = Status.EUNKNOWNLEDGERSTATE if unknown else Status.ENOENTRY
        return response

    def lac(self, ledger_id: LedgerId) -> int:
        """The greatest LAC the writer ever told this bookie."""
        lacs = [entry.unpack_header(body).lac for (ledger, _), body in self.entries.items() if ledger == ledger_id]
        if ledger_id in self.lac_bodies:
            lacs.append(int.from_bytes(self.lac_bodies[ledger_id][8:16], "big", signed=True))
        return max(lacs, default=-1)


def _add_answer(request: messages.AddRequest, status: Status) -> messages.AddResponse:
    return messages.AddResponse(request.txn, request.version, status, request.ledger_id, request.entry_id)


def _refusal(request: Request, status: Status) -> Response:
    match request:
        case messages.AddRequest():
            return _add_answer(request, status)
        case messages.ReadRequest():
            return messages.ReadResponse(request.txn, request.version, status, request.ledger_id, request.entry_id)
        case messages.BatchReadRequest():
            return messages.BatchReadResponse(request.txn, 2, status, request.ledger_id, request.entry_id)
        case messages.ReadLacRequest():
            return messages.ReadLacResponse(request.txn, 3, status, request.ledger_id)
        case messages.WriteLacRequest():
            return messages.WriteLacResponse(request.txn, 3, status, request.ledger_id)
        case messages.ForceRequest():
            return messages.ForceResponse(request.txn, 3, status, request.ledger_id)
        case messages.BookieInfoRequest():
            return messages.BookieInfoResponse(request.txn, 3, status)
        case messages.ListEntriesRequest():
            return messages.ListEntriesResponse(request.txn, 3, status, request.ledger_id)
        case _:
            raise AssertionError(f"no refusal for {request}")


class Fleet:
    """Model bookies "b0", "b1", ... in zones, a metadata store, and clients. Use through `tell`."""

    def __init__(self, machine: Machine, zones: str) -> None:
        self.machine = machine
        self.store: MetadataStore
        self.bookies = [FakeBookie(self, f"b{number}", zone) for number, zone in enumerate(zones)]

    def __getitem__(self, bookie_id: str) -> FakeBookie:
        return next(bookie for bookie in self.bookies if bookie.id == bookie_id)

    def first_asked(self, writer: LedgerWriter, entry_id: int) -> FakeBookie:
        """The bookie that a reader of `entry_id` asks first."""
        return self[writer.metadata.write_set(EntryId(entry_id))[0]]

    def client(self, name: str = "app", *, batch_reads: bool = False, **options: Any) -> Client:
        """Entries are read one by one unless a test is about batches: those are the rules of most."""
        options["batch_reads"] = batch_reads
        return Client(ClientOptions(URI, **options), self.machine.begin(name=name))

    async def until_removed(self, path: str) -> None:
        await self.until(lambda: path not in self.machine.keeper.tree.nodes, f"the end of {path}")

    async def until(self, is_true: Callable[[], bool], what: str, *, timeout_s: float = 60.0) -> None:
        """Let simulated time pass until `is_true()`."""
        loop = self.machine.loop
        deadline_ns = loop.now_ns + int(timeout_s * 1e9)
        while not is_true():
            assert loop.now_ns < deadline_ns, f"waited {timeout_s} s for {what}"
            await loop.sleep_ns(10_000_000)


def lose_removals(store: MetadataStore, path: str, times: int) -> None:
    """The next `times` transactions that would remove `path` do not arrive, and get no answer."""
    transact = store.transact

    async def transact_or_lose(ops: Sequence[Op]) -> None:
        nonlocal times
        if times and any(isinstance(op, DeleteOp) and op.path == path for op in ops):
            times -= 1
            raise errors.OutcomeUnknown("the request was lost")
        await transact(ops)

    store.transact = transact_or_lose  # type: ignore[method-assign]


def tell(story: Callable[[Fleet], Coroutine[Any, Any, T]], *, zones: str = "abc", seed: int = 1) -> T:
    """Run `story` against a fleet with one bookie per letter of `zones`, in simulated time."""
    machine = Machine(seed)
    fleet = Fleet(machine, zones)

    async def whole() -> T:
        world = machine.begin(name="test")
        fleet.store = await world.metadata_stores.connect(URI)
        await cluster.format_cluster(fleet.store, URI, world.entropy)
        for bookie in fleet.bookies:
            await bookie.start()
        try:
            return await story(fleet)
        finally:
            await fleet.store.close()

    return machine.run(whole)


def tell_each(story: Callable[[Fleet], Coroutine[Any, Any, Any]], *, seeds: int, zones: str = "abc") -> None:
    """As `tell`, under so many seeds: for rules that only some orders of events put to the test."""
    for seed in range(1, seeds + 1):
        tell(story, zones=zones, seed=seed)
