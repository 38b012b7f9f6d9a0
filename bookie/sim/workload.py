"""Random applications of a cluster: writers, readers and recoverers, each in its own process, reporting to the oracle.

An application goes on after every operating error: it gives up the ledger and takes another. The oracle reports what an
application must never see. Writers close some ledgers, leave some open, and are killed over some by the fault injector.
"""

import asyncio
import contextlib
import dataclasses
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.groups import ungrouped
from bookie.base.ids import EntryId, LedgerId
from bookie.client.read.reader import LedgerReader
from bookie.client.write.writer import LedgerWriter
from bookie.ports.time_limit import TimeLimit
from bookie.sim.cluster import BookieNode, ClientNode, SimCluster
from bookie.sim.node import NodeCrashed, ended
from bookie.sim.oracle import LIFE, life_of
from bookie.wire.digest import DigestType

_LOOKS_MAX, _LOOK_S = 40, 0.5  # a bookie collects every seven seconds


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """The shape of a workload."""

    writers: int = 2
    readers: int = 1
    recoverers: int = 1
    ensemble_size: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    entries_max: int = 60
    payload_bytes_max: int = 400
    in_flight_max: int = 8
    pause_ms_max: int = 400
    close_percent: int = 50
    deferred_percent: int = 0  # of ledgers: with deferred sync, where that is possible
    confirmed_percent: int = 0  # of entries: by add_confirmed_entry
    password: bytes = b""
    tail_percent: int = 0  # of reads: by following the tail
    deleters: int = 0
    remakers: int = 0
    ledgers_at_once: int = 1  # which one writer writes in step


def draw(random_: random.Random, *, bookies: int) -> WorkloadShape:
    """Quorums are 3/3/2 mostly, striped or larger when there are bookies enough; the rest is drawn freely.

    No ack quorum of one: the loss of one bookie's data would then be more than the protocol survives.
    """
    shapes = [(3, 3, 2), (3, 3, 2), (3, 2, 2), (3, 3, 3), (2, 2, 2)]
    shapes += [(4, 3, 2), (4, 4, 3)] if bookies >= 5 else []
    ensemble_size, write_quorum, ack_quorum = random_.choice(shapes)
    return WorkloadShape(
        writers=random_.randint(1, 3),
        readers=random_.randint(0, 2),
        recoverers=random_.randint(0, 2),
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        entries_max=random_.choice((5, 20, 60)),
        payload_bytes_max=random_.choice((0, 100, 3000)),
        in_flight_max=random_.choice((1, 4, 32)),
        pause_ms_max=random_.choice((200, 1_000, 4_000)),
        close_percent=random_.choice((20, 50, 80)),
    )


def demanding(random_: random.Random, plan: WorkloadShape) -> WorkloadShape:
    """Return the plan with further demands that an application may make."""
    return dataclasses.replace(
        plan, deferred_percent=random_.choice((0, 40, 80)), confirmed_percent=random_.choice((0, 20))
    )


def crowded(random_: random.Random, plan: WorkloadShape) -> WorkloadShape:
    """Return the plan with writers of many ledgers each."""
    return dataclasses.replace(
        plan,
        ledgers_at_once=random_.choice((4, 12, 30)),
        entries_max=random_.choice((5, 20)),
        in_flight_max=random_.choice((1, 4)),
        pause_ms_max=random_.choice((50, 400)),
    )


def varied(random_: random.Random, plan: WorkloadShape, *, is_lone: bool) -> WorkloadShape:
    """Return the plan with passwords, tails and deletions. `is_lone`: with an ack quorum of one."""
    if is_lone:
        ensemble_size, write_quorum = random_.choice(((3, 3), (3, 2), (2, 2)))
        plan = dataclasses.replace(plan, ensemble_size=ensemble_size, write_quorum=write_quorum, ack_quorum=1)
    return dataclasses.replace(
        plan,
        password=random_.choice((b"", b"secret")),
        tail_percent=random_.choice((0, 50)),
        readers=max(1, plan.readers),
        deleters=random_.choice((0, 1, 1)),
    )


def remaking(random_: random.Random, plan: WorkloadShape) -> WorkloadShape:
    """Return the plan with applications that delete ledgers and make them anew under their ids."""
    return dataclasses.replace(plan, remakers=random_.choice((1, 2, 3)), recoverers=max(1, plan.recoverers))


def client_options(random_: random.Random) -> dict[str, Any]:
    """Draw settings of clients that most applications leave alone."""
    return {
        "protocol_version": random_.choice((2, 3, 3)),
        "delay_ensemble_change": random_.random() < 0.3,
        "batch_reads": random_.random() < 0.7,
        "explicit_lac_ms": random_.choice((0, 50, 250)),
        "in_flight_entries_max": random_.choice((2, 2_000)),
    }


class Workload:
    """The applications of one run, from `start` until `stop`."""

    def __init__(self, cluster: SimCluster, plan: WorkloadShape, *, without: frozenset[str] = frozenset()) -> None:
        self.cluster = cluster
        self.plan = plan
        self.names = [name for name in self._all_names() if name not in without]
        self.ledgers: list[LedgerId] = []
        self.counts: Counter[str] = Counter()
        self.deleted: set[LedgerId] = set()  # that somebody asked for, at least
        self.applications: list[Application] = []
        self.is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start every application; they run as the director's tasks and act in their own processes."""
        loop = self.cluster.simulation.loop
        for name in self.names:
            application = Application(self, name, self.cluster.simulation.random(name))
            self.applications.append(application)
            self._tasks.append(loop.create_task(application.run(name.partition("-")[0]), name=name))

    def _all_names(self) -> list[str]:
        plan = self.plan
        counts = {
            "writer": plan.writers,
            "reader": plan.readers,
            "recoverer": plan.recoverers,
            "deleter": plan.deleters,
            "remaker": plan.remakers,
        }
        return [f"{kind}-{number}" for kind, count in counts.items() for number in range(count)]

    def password(self, ledger_id: LedgerId) -> bytes:
        """Return the password of the ledger that has this id now."""
        metadata = self.cluster.metadata_of(ledger_id)
        return self.plan.password if metadata is None else metadata.password

    def is_in_use(self, ledger_id: LedgerId) -> bool:
        """Return whether somebody writes to a ledger, or makes it anew."""
        return any(ledger_id in each.using for each in self.applications)

    def left(self) -> list[LedgerId]:
        """Return the ledgers that must be there in the end."""
        stored = self.cluster.metadata_of
        return [each for each in self.ledgers if each not in self.deleted or stored(each) is not None]

    async def stop(self, *, timeout_s: float) -> None:
        """Let every application finish what it does now. Raises Defect naming those that cannot."""
        self.is_stopping = True
        if not self._tasks:  # a run from which all were left out
            return
        await ended(self._tasks, timeout_s=timeout_s)


class Application:
    """One application. `kind` decides what it does, over and over, also after its process was killed."""

    def __init__(self, workload: Workload, name: str, random_: random.Random) -> None:
        self.workload = workload
        self.cluster = workload.cluster
        self.oracle = workload.cluster.oracle
        self.name = name
        self.random = random_
        self.durability = workload.cluster.simulation.random(f"{name} durability")
        self.process: ClientNode
        self.using: list[LedgerId] = []  # ledgers that it writes to now

    async def run(self, kind: str) -> None:
        write = self.write if self.workload.plan.ledgers_at_once == 1 else self.write_in_step
        works = {"writer": write, "reader": self.read, "recoverer": self.recover, "deleter": self.delete}
        work = {**works, "remaker": self.remake}[kind]
        while not self.workload.is_stopping:
            try:
                self.process = await self.cluster.client(self.name)
                while not self.workload.is_stopping:
                    try:
                        await self.process(work(self.process))
                    except BookieError:
                        await self.pause()
                    finally:
                        self.using.clear()
            except (NodeCrashed, BookieError):
                await self.pause()
                if self.process.node.life is not None:
                    self.process.crash()
        if self.process.node.life is not None:
            self.process.crash()

    async def pause(self) -> None:
        await asyncio.sleep(self.random.random() * self.workload.plan.pause_ms_max / 1000)

    # ---- writing --------------------------------------------------------------------------------------------------

    async def write(self, process: ClientNode) -> None:
        """Write one ledger, from its creation to its end."""
        plan = self.workload.plan
        can_defer = plan.ensemble_size == plan.write_quorum and process.options.protocol_version == 3
        is_deferred = can_defer and self.durability.randrange(100) < plan.deferred_percent
        writer = await self.create(process, is_deferred=is_deferred)
        await self.fill(writer, is_deferred=is_deferred)

    async def fill(self, writer: LedgerWriter, *, is_deferred: bool = False) -> None:
        """Append to a new ledger, and perhaps close it."""
        plan = self.workload.plan
        unforced: dict[EntryId, bytes] | None = {} if is_deferred else None
        window = asyncio.Semaphore(plan.in_flight_max)
        async with ungrouped(BookieError), asyncio.TaskGroup() as group:
            for _ in range(self.random.randint(0, plan.entries_max)):
                if self.workload.is_stopping:
                    break
                await window.acquire()
                group.create_task(released(window, partial(self.append, writer, unforced)))
                if self.random.random() < 0.2:
                    await self.pause()
        if self.random.randrange(100) < plan.close_percent:
            await writer.close()
            self.forced(writer, unforced or {}, writer.last_confirmed)
        await self.pause()

    async def create(self, process: ClientNode, *, is_deferred: bool = False) -> LedgerWriter:
        plan = self.workload.plan
        writer = await process.client.create(
            ensemble_size=plan.ensemble_size,
            write_quorum=plan.write_quorum,
            ack_quorum=plan.ack_quorum,
            deferred_sync=is_deferred,
            password=plan.password,
        )
        self.workload.ledgers.append(writer.id)
        self.using.append(writer.id)
        return writer

    async def write_in_step(self, process: ClientNode) -> None:
        """Write many ledgers, an entry to each in the same turn of the loop: their adds reach a bookie together. One
        that fails is given up, the others go on."""
        plan = self.workload.plan
        writers = [await self.create(process) for _ in range(self.random.randint(2, plan.ledgers_at_once))]
        window = asyncio.Semaphore(plan.in_flight_max)
        async with asyncio.TaskGroup() as group:
            for _ in range(self.random.randint(1, plan.entries_max)):
                await window.acquire()
                if self.workload.is_stopping or not writers:
                    break
                group.create_task(released(window, partial(self.append_to_each, writers)))
                if self.random.random() < 0.2:
                    await self.pause()
        for writer in writers:
            if self.random.randrange(100) < plan.close_percent:
                await writer.close()
        await self.pause()

    async def append_to_each(self, writers: list[LedgerWriter]) -> None:
        """Append to every ledger, to some twice; those that fail leave `writers`."""
        chosen = [writer for writer in writers for _ in range(1 if self.random.random() < 0.8 else 2)]
        self.random.shuffle(chosen)
        outcomes = await asyncio.gather(*(self.append(writer, None) for writer in chosen), return_exceptions=True)
        for writer, outcome in zip(chosen, outcomes, strict=True):
            if isinstance(outcome, BookieError):
                if writer in writers:
                    writers.remove(writer)
            elif outcome is not None:
                raise outcome

    async def append(self, writer: LedgerWriter, unforced: dict[EntryId, bytes] | None) -> None:
        payload = self.random.randbytes(self.random.randint(0, self.workload.plan.payload_bytes_max))
        wants_told = self.durability.randrange(100) < self.workload.plan.confirmed_percent
        if unforced is not None:
            unforced[await writer.append(payload)] = payload
            if self.durability.randrange(100) < 30:
                self.forced(writer, unforced, await writer.force())
            return
        entry_id = await (writer.add_confirmed_entry(payload) if wants_told else writer.append(payload))
        self.oracle.acknowledged(writer.id, entry_id, payload, life_of(writer.metadata.password))

    def forced(self, writer: LedgerWriter, unforced: dict[EntryId, bytes], last: EntryId) -> None:
        """Tell the oracle which entries a force acknowledged: with deferred sync only a force promises anything."""
        for entry_id in [entry_id for entry_id in unforced if entry_id <= last]:
            self.oracle.acknowledged(writer.id, entry_id, unforced.pop(entry_id))

    # ---- reading --------------------------------------------------------------------------------------------------

    async def read(self, process: ClientNode) -> None:
        """Follow one ledger for a while without disturbing its writer."""
        if not self.workload.ledgers:
            await self.pause()
            return
        ledger_id = self.random.choice(self.workload.ledgers[-6:])
        password = self.workload.password(ledger_id)
        life = life_of(password)
        with self.no_denial(ledger_id, life):
            reader = await process.client.open_no_recovery(ledger_id, password)
        try:
            if self.durability.randrange(100) < self.workload.plan.tail_percent:
                await self.tail(reader, life)
            confirmed = reader.last_confirmed
            for _ in range(self.random.randint(1, 5)):
                self.oracle.confirmed(ledger_id, reader.last_confirmed, confirmed, life)
                confirmed = reader.last_confirmed
                if confirmed >= 0:
                    first = self.random.randint(0, confirmed)
                    with self.no_denial(ledger_id, life):
                        async for entry in reader.read_stream(first, min(confirmed, first + 10)):
                            self.oracle.read(ledger_id, entry.entry_id, bytes(entry.payload), life)
                await self.pause()
                await reader.read_last_confirmed()
        finally:
            await reader.close()

    @contextlib.contextmanager
    def no_denial(self, ledger_id: LedgerId, life: bytes) -> Iterator[None]:
        """Within the body a ledger is opened, or its confirmed entries are read: that something is not there is never
        true, unless all was deleted."""
        try:
            yield
        except (errors.NoSuchEntry, errors.NoSuchLedger, errors.LedgerMissing) as error:
            if not self.oracle.history(ledger_id, life).is_deleted:
                self.oracle.denied(ledger_id, str(error))
            raise

    async def tail(self, reader: LedgerReader, life: bytes) -> None:
        """Read entries as they come, for a while."""
        first = self.durability.randint(0, max(0, reader.last_confirmed))
        with contextlib.suppress(TimeoutError):
            async with TimeLimit(self.durability.random() * 4):
                async for entry in reader.tail(first):
                    self.workload.counts["tailed"] += 1
                    self.oracle.read(reader.id, entry.entry_id, bytes(entry.payload), life)

    async def delete(self, process: ClientNode) -> None:
        """Delete a ledger, whatever state it is in."""
        await self.pause()
        if self.workload.ledgers and self.random.random() < 0.3:
            await self.deletes(process, self.random.choice(self.workload.ledgers))

    async def deletes(self, process: ClientNode, ledger_id: LedgerId) -> None:
        self.workload.deleted.add(ledger_id)
        await process.client.delete(ledger_id)
        self.workload.counts["deleted"] += 1

    async def remake(self, process: ClientNode) -> None:
        """Delete a ledger that nobody writes to, and make another one under its id when no bookie knows the first one
        any more.

        What docs/CLIENT.md asks of who does so: else bookies take one for the other. A password and a digest of its own
        keep apart what comes late: adds on their way, and repairs that began before.
        """
        await self.pause()
        load = self.workload
        idle = [each for each in load.ledgers if not load.is_in_use(each)]
        if not idle or self.random.random() < 0.5:
            return
        ledger_id = self.random.choice(idle[-6:])
        self.using.append(ledger_id)
        await self.deletes(process, ledger_id)
        if await self.is_collected(ledger_id):
            password = LIFE + self.random.randbytes(4).hex().encode()
            writer = await process.client.create(
                ensemble_size=load.plan.ensemble_size,
                write_quorum=load.plan.write_quorum,
                ack_quorum=load.plan.ack_quorum,
                password=password,
                digest_type=DigestType.HMAC,
                ledger_id=ledger_id,
            )
            load.counts["made anew"] += 1
            await self.fill(writer)

    async def is_collected(self, ledger_id: LedgerId) -> bool:
        """Wait for a while until every bookie runs and has forgotten the ledger; a second process of one, too."""
        for _ in range(_LOOKS_MAX):
            await asyncio.sleep(_LOOK_S)
            if not any(is_held(bookie, ledger_id) for bookie in self.cluster.holders()):
                return True
        return False

    async def recover(self, process: ClientNode) -> None:
        """Recover a ledger, written to or not, and read all of it."""
        if not self.workload.ledgers:
            await self.pause()
            return
        ledger_id = self.random.choice(self.workload.ledgers[-4:])
        if self.random.random() < 0.5:
            await self.pause()
        password = self.workload.password(ledger_id)
        life = life_of(password)
        with self.no_denial(ledger_id, life):
            reader = await process.client.open(ledger_id, password)
        if reader.last_entry >= 0:
            with self.no_denial(ledger_id, life):
                async for entry in reader.read_stream(0, reader.last_entry):
                    self.oracle.read(ledger_id, entry.entry_id, bytes(entry.payload), life)
        await reader.close()
        await self.pause()


async def released(window: asyncio.Semaphore, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work`, and give its place in the window back."""
    try:
        await work()
    finally:
        window.release()


def is_held(bookie: BookieNode, ledger_id: LedgerId) -> bool:
    """Return whether a bookie knows the ledger, may know it again after a crash, or does not serve and may."""
    store = None if bookie.process is None else bookie.process.admin.store
    return store is None or store.may_hold(ledger_id)


def _no_password(_ledger_id: LedgerId) -> bytes:
    return b""


async def verify(
    cluster: SimCluster,
    ledgers: list[LedgerId],
    *,
    password: Callable[[LedgerId], bytes] = _no_password,
    timeout_s: float = 300.0,
) -> None:
    """After the faults, check that every ledger can be opened and read from its first entry to its last
    (spec/bp46.md#S2, S5, L1)."""
    loop = cluster.simulation.loop
    verifier = await cluster.client("verifier")
    for ledger_id in ledgers:
        deadline_ns = loop.now_ns + int(timeout_s * 1e9)
        while True:
            try:
                entries = await verifier(_read_all(verifier, ledger_id, password(ledger_id)))
                cluster.oracle.verified(ledger_id, entries, life_of(password(ledger_id)))
                break
            except BookieError as error:
                if loop.now_ns > deadline_ns:
                    cluster.oracle.unreadable(ledger_id, repr(error))
                    break
                await asyncio.sleep(1)


async def _read_all(verifier: ClientNode, ledger_id: LedgerId, password: bytes) -> dict[EntryId, bytes]:
    reader = await verifier.client.open(ledger_id, password)
    if reader.last_entry < 0:
        return {}
    return {entry.entry_id: bytes(entry.payload) for entry in await reader.read(0, reader.last_entry)}
