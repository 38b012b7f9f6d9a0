"""A bookie and a writer that keep Java's rules where ours are others: what an accident costs, the oracle reports.

`JavaBookie` takes a bookie's place in a simulated cluster. It is no port of Java's code: it has just what
spec/storage.md#E1 to E6 and spec/bp46.md say of it: what a checkpoint writes and what it leaves out, what a replay
skips, which ledgers a boot marks and when, what each question gets in limbo, and copies that nobody verifies. Its
volumes and its journal are plain values; everything that reached the journal, or a checkpoint, outlives its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import wire_support
from bookie.base.errors import BookieError, BookieUnavailable, NodeMissing, Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client import Client, ClientOptions, LedgerWriter
from bookie.metadata import paths, registration
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.ports import World
from bookie.ports.admin import State
from bookie.ports.network import Address, ByteStream
from bookie.sim.cluster import LEDGERS, PORT, ROOT, URI, BookieNode, ClientNode, SimCluster
from bookie.sim.node import ProcessEnd
from bookie.wire import digest, messages, session, v3
from bookie.wire.digest import Digest, DigestType
from bookie.wire.messages import Request, Response

PREBOOT_MS = 5_000  # how long the marks of a boot take, of which it waits only where a cookie is stamped
CHECK_MS = 3_000  # the pause between two looks whether a full check is due
LIMBO = Status.EUNKNOWNLEDGERSTATE
_DIALS_MAX, _DIAL_S = 20, 0.5  # a client hears of a bookie's new process a moment after that serves


@dataclass(slots=True)
class Ledger:
    """One ledger's row, and its entries."""

    key: bytes = b""
    entries: dict[EntryId, bytes] = field(default_factory=dict)
    gone: set[EntryId] = field(default_factory=set)  # in the index, and their entry log is lost
    is_fenced: bool = False
    is_limbo: bool = False


class JavaBookie(BookieNode):
    """One bookie of Java's kind, with dataIntegrityChecking and the stamping of missing cookies on."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        super().__init__(cluster.simulation, name, cluster.settings)
        self.cluster = cluster
        self.is_rotten = False  # what it sends of its entries is damaged
        self.sent_rotten = 0
        self.is_known = False  # its cookie is in the metadata store
        self.checkpoints_fail = 0  # so many of the next ones
        self._lose_volumes()
        self._begin_memory()

    def _lose_volumes(self) -> None:
        self.flushed: dict[LedgerId, Ledger] = {}
        self.journal: list[messages.AddRequest | messages.ReadRequest] = []
        self.is_stamped = self.is_dirty = self.needs_check = False

    def _begin_memory(self) -> None:
        self.ledgers = copy.deepcopy(self.flushed)
        self.pending: list[tuple[LedgerId, EntryId]] = []  # the write cache
        self.unsynced: list[messages.AddRequest] = []  # deferred adds, which the journal has not synced
        self.is_serving = False

    # ---- its life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        world = self.node.begin()
        assert self.node.life is not None
        self._begin_memory()
        self.simulation.loop.spawn(self.node.life, self._main(world), f"{self.name} main")

    @property
    def is_ready(self) -> bool:
        return self.is_serving

    @property
    def state(self) -> State | None:
        if not self.is_serving:
            return None
        return State.REPAIRING if self.needs_check else State.SERVING

    def crash(self, how: ProcessEnd = ProcessEnd.POWER_CUT) -> None:
        if how is ProcessEnd.KILL:
            self.journal += self.unsynced  # the operating system has it
        super().crash(how)
        self._begin_memory()

    def stop(self) -> None:
        self._checkpoint()
        self.is_dirty = False
        self.node.end(ProcessEnd.EXIT)
        self._begin_memory()

    def wipe(self, *volumes: str) -> None:
        super().wipe(*volumes)
        if not volumes:
            self._lose_volumes()
            return
        assert volumes == (LEDGERS,), "a Java bookie of these tests loses all of them, or its entry logs"
        self.is_stamped = False
        for ledger in self.flushed.values():
            ledger.gone.update(ledger.entries)

    def volumes_of_now(self) -> dict[LedgerId, Ledger]:
        """A copy of what its volumes hold. Only while it is down and has nothing in its journal."""
        assert not self.is_running
        assert not self.journal
        return copy.deepcopy(self.flushed)

    def mount(self, others: dict[LedgerId, Ledger]) -> None:
        """Have volumes of another cluster in the place of its own: a cookie that is not its own counts as a missing
        one, and is written over."""
        self.flushed = copy.deepcopy(others)
        self.is_stamped = False

    async def _main(self, world: World) -> None:
        async with Client(ClientOptions(metadata_uri=URI, session_timeout_ms=10_000), world) as client:
            marks_later = False
            if not self.is_stamped and self.is_known:
                await self._mark()
            elif self.is_dirty and not self.settings.journal_write_data:
                marks_later = True  # the future of this check is dropped: nobody waits for it
            self.is_stamped = self.is_known = True
            self._replay()
            self._checkpoint()
            self.is_dirty = True
            await world.network.listen(Address(self.name, PORT), self._serve)
            await self._register(world)
            self.is_serving = True
            if marks_later:
                await self._mark()
            waited_ms = 0
            while True:
                await self.simulation.loop.sleep_ns(CHECK_MS * NS_PER_MS)
                waited_ms += CHECK_MS
                if waited_ms >= self.settings.flush_interval_ms:
                    self._checkpoint()
                    waited_ms = 0
                if self.needs_check:
                    await self._check(client)

    async def _register(self, world: World) -> None:
        store = await world.metadata_stores.connect(URI)
        path = f"{paths.available(ROOT)}/{self.name}"
        info = registration.bookie_service(self.name, PORT)
        with contextlib.suppress(NodeMissing):
            await store.delete(path)  # of the process before
        await store.create(path, registration.dump_service_info(info), ephemeral=True, parents=True)

    # ---- its storage ----------------------------------------------------------------------------------------------

    def _ledger(self, ledger_id: LedgerId) -> Ledger:
        return self.ledgers.setdefault(ledger_id, Ledger())

    def _checkpoint(self) -> None:
        """Write the cache and with it the rows; nothing at all where the cache is empty. The mark moves either way
        (spec/storage.md#E1), but of a checkpoint that fails: what it was to write is looked at by no later one
        (spec/storage.md#E3)."""
        if self.checkpoints_fail:
            self.checkpoints_fail -= 1
            self.pending = []
            return
        if self.pending:
            for ledger_id, ledger in self.ledgers.items():
                row = self.flushed.setdefault(ledger_id, Ledger())
                row.key, row.is_fenced, row.is_limbo = ledger.key, ledger.is_fenced, ledger.is_limbo
            for ledger_id, entry_id in self.pending:
                self.flushed[ledger_id].entries[entry_id] = self.ledgers[ledger_id].entries[entry_id]
            self.pending = []
        self.journal.clear()

    def _replay(self) -> None:
        for record in self.journal:
            if isinstance(record, messages.AddRequest):
                self._store(record)
            elif record.ledger_id in self.ledgers:  # else the ledger is taken for deleted (spec/storage.md#E2)
                self.ledgers[record.ledger_id].is_fenced = True

    def _store(self, request: messages.AddRequest) -> None:
        ledger = self._ledger(request.ledger_id)
        ledger.key = request.master_key
        ledger.entries[request.entry_id] = bytes(request.body)
        self.pending.append((request.ledger_id, request.entry_id))

    # ---- BP-46 ----------------------------------------------------------------------------------------------------

    async def _mark(self) -> None:
        """Phase one: fence and limbo for ledgers that are not closed and whose last ensemble names it. Only the note
        that a check is due is durable: the cache is empty (spec/storage.md#E5)."""
        self.needs_check = True
        await self.simulation.loop.sleep_ns(PREBOOT_MS * NS_PER_MS)
        for ledger_id, metadata in self._all():
            ledger = self._ledger(ledger_id)
            if metadata.state is not LedgerState.CLOSED and self.name in metadata.last_segment.bookies:
                ledger.is_limbo = ledger.is_fenced = True
        if self.pending:
            self._checkpoint()

    def _all(self) -> list[tuple[LedgerId, LedgerMetadata]]:
        """The record of each ledger that names it."""
        found = [(ledger_id, self.cluster.metadata_of(ledger_id)) for ledger_id in self.cluster.oracle.ledgers]
        me = BookieId(self.name)
        return [(number, one) for number, one in found if one and any(me in part.bookies for part in one.segments)]

    async def _check(self, client: Client) -> None:
        """The full check: recover what is in limbo, clear it, copy what is missing from whoever answers first."""
        try:
            for ledger_id in [number for number, ledger in self.ledgers.items() if ledger.is_limbo]:
                await client.open(ledger_id, administrative=True)
                self.ledgers[ledger_id].is_limbo = False
            for ledger_id, metadata in self._all():
                for number in range(metadata.last_entry + 1 if metadata.is_closed else 0):
                    await self._copy(client, ledger_id, metadata, EntryId(number))
        except BookieError:
            return  # the same again after the pause
        self._checkpoint()
        self.needs_check = False

    async def _copy(self, client: Client, ledger_id: LedgerId, metadata: LedgerMetadata, entry_id: EntryId) -> None:
        write_set, ledger = metadata.write_set(entry_id), self._ledger(ledger_id)
        if self.name not in write_set or entry_id in ledger.entries:
            return
        for peer in [one for one in write_set if one != self.name]:
            try:
                ledger.entries[entry_id] = await client.bookies.read(peer, ledger_id, entry_id)
            except BookieError:
                continue
            self.pending.append((ledger_id, entry_id))
            return
        raise BookieError(f"nobody has entry {entry_id} of ledger {ledger_id}")

    # ---- the protocol ---------------------------------------------------------------------------------------------

    async def _serve(self, stream: ByteStream) -> None:
        incoming = session.ServerSession()
        while chunk := await stream.read():
            for request in wire_support.one_by_one(incoming.receive(chunk)):
                if isinstance(request, messages.BatchReadRequest):
                    return  # as those before 4.17: the connection ends
                stream.write(session.pack_response(self._answer(request)))

    def _answer(self, request: Request) -> Response:
        match request:
            case messages.AddRequest():
                status = self._add(request)
                return messages.AddResponse(request.txn, 3, status, request.ledger_id, request.entry_id)
            case messages.ReadRequest():
                return self._read(request)
            case messages.ReadLacRequest():
                return self._read_lac(request)
            case messages.WriteLacRequest():
                return messages.WriteLacResponse(request.txn, 3, Status.EOK, request.ledger_id)
            case messages.ForceRequest():
                self.journal += self.unsynced
                self.unsynced = []
                return messages.ForceResponse(request.txn, 3, Status.EOK, request.ledger_id)
            case messages.BookieInfoRequest():
                return messages.BookieInfoResponse(request.txn, 3, Status.EOK, 1 << 40, 1 << 30)
            case _:
                raise AssertionError(f"no accident asks a Java bookie for {request}")

    def _add(self, request: messages.AddRequest) -> Status:
        ledger = self.ledgers.get(request.ledger_id)
        if ledger is not None and ledger.is_fenced and not request.is_recovery:
            return Status.EFENCED
        self._store(request)
        if request.is_deferred:
            self.unsynced.append(request)
        elif self.settings.journal_write_data:
            self.journal.append(request)
        return Status.EOK

    def _read(self, request: messages.ReadRequest) -> Response:
        ledger = self.ledgers.get(request.ledger_id)
        answer = messages.ReadResponse(request.txn, 3, Status.EOK, request.ledger_id, request.entry_id)
        if request.is_fencing:
            assert request.master_key is not None
            is_new = ledger is None
            ledger = self._ledger(request.ledger_id)
            ledger.key = ledger.key or request.master_key
            ledger.is_fenced = True
            self.journal.append(request)
            if is_new:
                answer.status = Status.ENOENTRY
                return answer
        if ledger is None:
            answer.status = Status.ENOLEDGER
            return answer
        wanted = max(ledger.entries, default=request.entry_id) if request.entry_id == -1 else request.entry_id
        body = ledger.entries.get(wanted)
        if ledger.is_limbo and (body is None or request.entry_id == -1 or not request.is_fencing):
            answer.status = LIMBO  # also where it has the entry: its LAC, which goes with it, throws
        elif body is None:
            answer.status = Status.ENOENTRY
        elif wanted in ledger.gone:
            answer.status = Status.EIO
        else:
            answer.body = self._sent(body)
            answer.max_lac = None if request.is_fencing else -1
        return answer

    def _read_lac(self, request: messages.ReadLacRequest) -> Response:
        """In limbo both parts throw, and the status that says so is overwritten."""
        ledger = self.ledgers.get(request.ledger_id)
        answer = messages.ReadLacResponse(request.txn, 3, Status.EOK, request.ledger_id)
        if ledger is not None and ledger.entries and not ledger.is_limbo:
            answer.last_entry_body = ledger.entries[max(ledger.entries)]
        else:
            answer.status = Status.ENOENTRY
        return answer

    def _sent(self, body: bytes) -> bytes:
        if not self.is_rotten:
            return body
        self.sent_rotten += 1
        return body[:-1] + bytes([body[-1] ^ 0xFF])


class JavaWriter:
    """The adds and the force of Java's writer: it asks no bookie for its life, sends nothing again, and connects anew
    without a look at the ledger's record where a connection broke while it was idle."""

    def __init__(self, client: ClientNode, writer: LedgerWriter) -> None:
        """`writer`: made the ledger, and is not used."""
        self.client = client
        self.id = writer.id
        self.metadata = writer.metadata
        self.payloads: list[bytes] = []
        self._digest = Digest(DigestType(self.metadata.digest_type), b"")
        self._length = 0

    async def append(self, payload: bytes, *, deferred: bool = True) -> EntryId:
        """Send one entry to each bookie. Returns when all of them have it (in memory, where it is deferred)."""
        entry_id = EntryId(len(self.payloads))
        self._length += len(payload)
        body = b"".join(self._digest.seal(self.id, entry_id, EntryId(-1), self._length, payload))
        self.payloads.append(payload)
        key = digest.master_key(b"")
        await self._ask_all(
            messages.AddRequest(0, v3.VERSION, self.id, entry_id, key, body, is_deferred=deferred),
        )
        return entry_id

    async def force(self) -> None:
        """Have each bookie put on disk what it acknowledged. Raises what one of them answers."""
        await self._ask_all(messages.ForceRequest(0, v3.VERSION, self.id))

    async def _ask_all(self, request: Request) -> None:
        for bookie in self.metadata.last_segment.bookies:
            for dials in range(_DIALS_MAX, 0, -1):
                try:
                    await self.client(self.client.client.bookies._call(bookie, copy.copy(request)))
                    break
                except BookieUnavailable:
                    if dials == 1:
                        raise
                    await asyncio.sleep(_DIAL_S)


def all_java(cluster: SimCluster, names: Sequence[str] = ()) -> SimCluster:
    """Let Java bookies take the places of these bookies (of all by default), before the cluster runs."""
    for name in names or tuple(cluster.bookies):
        cluster.bookies[name] = JavaBookie(cluster, name)
    return cluster
