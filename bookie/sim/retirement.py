"""Retires bookies while everything else goes on: empties them while they serve; or stops, empties, forgets and wipes
them; or has them empty themselves, with accidents, and has another bookie forget them.

A bookie that was stopped comes back under its id with empty volumes, as a new one. What its evacuation did not copy to
others is lost for good, and the oracle misses it. Meanwhile bookies throw away, as
Java's do, what they hold of closed ledgers that do not name them, as far as the lock allows (spec/metadata.md#M39).
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId
from bookie.base.units import NS_PER_S
from bookie.client.ledgers import LedgerStore
from bookie.client.repair.evacuation import Evacuation
from bookie.metadata import paths, repair
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.admin import DrainAction, OpenLedgers, State
from bookie.ports.metadata_store import ANY_VERSION, MetadataStore
from bookie.server.admin import NodeAdmin
from bookie.sim.cluster import ROOT, URI, BookieNode, ClientNode, SimCluster
from bookie.sim.injector import Injector
from bookie.sim.node import NodeCrashed, ended
from bookie.sim.replicas import Replicas
from bookie.storage.store import EntryStore
from bookie.wire import digest

T = TypeVar("T")

_ROUNDS = 6
_STOP_S_MAX = 60.0
_DRAIN_S_MAX, _FORGET_S_MAX = 60.0, 120.0
_RATES_BYTES_PER_S = (None, 3_000, 30_000)  # a slow one gives others time to act between its first copy and its last
_SURPLUS_EVERY_S = 0.3


class Retirements:
    """Retires one bookie after the other, until `stop`. `counts`: how each retirement ended, by kind."""

    def __init__(
        self, cluster: SimCluster, injector: Injector, random_: random.Random, *, as_java: bool = True
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.replicas = Replicas(cluster.simulation.violation, lambda name: entry_store(cluster.bookies[name]))
        self._cluster = cluster
        self._injector = injector
        self._as_java = as_java  # else the bookies give up their surplus by themselves
        self._random = random_
        self._is_stopping = False
        self._client: ClientNode | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = self._cluster.simulation.loop
        self._cluster.ledger_observers.append(self.replicas.metadata_changed)
        self._tasks.append(loop.create_task(self._run(), name="retirements"))
        collecting = self._collect() if self._as_java else self._count()
        self._tasks.append(loop.create_task(collecting, name="surplus"))

    async def stop(self, *, timeout_s: float) -> None:
        """Finish the retirement under way, and wait until all bookies are up again. Raises Defect when that takes too
        long."""
        self._is_stopping = True
        await ended(self._tasks, timeout_s=timeout_s)

    # ---- leaving -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._is_stopping:
            await asyncio.sleep(self._random.random() * 2)
            bookie = self._random.choice(list(self._cluster.bookies.values()))
            if not bookie.is_ready:
                continue
            how = self._random.random()
            if how < 0.3:
                self.counts["emptied" if await self._is_emptied(bookie) else "not emptied"] += 1
            elif how < 0.65:
                self.counts["left alive" if await self._leave(bookie) else "did not leave"] += 1
            else:
                self.counts["retired" if await self._retire(bookie) else "not retired"] += 1
        everybody = list(self._cluster.bookies.values())
        await self._cluster.until(lambda: all(it.is_ready or it.state is State.HELD for it in everybody), "all are up")
        for bookie in everybody:
            # A writer that had not heard of its end named it once more: a person is to say "empty it again".
            if bookie.state is State.HELD:
                self.counts["emptied once more"] += 1
                await self._is_emptied(bookie)
        if self._client is not None and self._client.node.life is not None:
            self._client.crash()

    async def _retire(self, bookie: BookieNode) -> bool:
        """Retire one bookie; return True when it was wiped. It is up again in any case."""
        self._injector.leave_alone(bookie)
        try:
            if bookie.process is not None:
                bookie.stop()
            deadline = self._cluster.simulation.loop.time() + _STOP_S_MAX
            while bookie.is_running or self._is_registered(bookie):
                if self._cluster.simulation.loop.time() > deadline:
                    return False
                await asyncio.sleep(0.1)
            if not await self._is_emptied(bookie):
                return False
            await self._forget(bookie)
            self._injector.make_room()
            bookie.wipe()
            return True
        finally:
            self._injector.left_alone.remove(bookie.name)
            if not bookie.is_running:
                bookie.start()

    async def _leave(self, bookie: BookieNode) -> bool:
        """Have one bookie empty itself, as the operator does; return True when another one forgot it and it was wiped.

        The order is given again at each look, since a bookie that was killed meanwhile knows nothing of it. Now and
        then it is taken back in the middle.
        """
        rate, open_ledgers = self._random.choice((0, 3_000, 30_000)), self._random.choice(list(OpenLedgers))
        loop = self._cluster.simulation.loop
        deadline = loop.time() + _DRAIN_S_MAX
        taken_back = loop.time() + self._random.random() * 10 if self._random.random() < 0.25 else deadline
        while loop.time() < taken_back:
            status = await self._told(
                bookie,
                lambda admin: admin.drain(DrainAction.START, bytes_per_second=rate, open_ledgers=open_ledgers),
            )
            if status is not None and status.is_empty:
                return await self._is_forgotten(bookie)
            if self._random.random() < 0.1:
                self._injector.kill(bookie.name)
            await asyncio.sleep(self._random.random())
        status = await self._told(bookie, lambda admin: admin.drain(DrainAction.CANCEL))
        if status is not None and status.is_draining:
            self._cluster.simulation.violation(f"{bookie.name} drains on after a cancel")
        return False

    async def _is_forgotten(self, bookie: BookieNode) -> bool:
        """Stop an empty bookie, and have others forget it; return True when it was wiped. It is up again in any
        case."""
        self._injector.leave_alone(bookie)
        bookie_id, loop = BookieId(bookie.name), self._cluster.simulation.loop
        try:
            if bookie.process is not None:
                bookie.stop()
            deadline = loop.time() + _FORGET_S_MAX
            while loop.time() < deadline:
                peers = [one for one in self._cluster.bookies.values() if one.is_ready and one is not bookie]
                order = partial(
                    NodeAdmin.forget_bookie, bookie_id=bookie_id, cookie_version=self._cookie_version(bookie)
                )
                text = await self._told(peers[0], order) if peers and not bookie.is_running else None
                if text is not None:
                    named = self._named(bookie_id)
                    if named and "but since then" not in text:
                        self._cluster.simulation.violation(f"{text!r}, and ledgers {named} name it")
                    self._injector.make_room()
                    bookie.wipe()
                    return True
                await asyncio.sleep(2)
            return False
        finally:
            self._injector.left_alone.remove(bookie.name)
            if not bookie.is_running:
                bookie.start()

    async def _told(self, bookie: BookieNode, ask: Callable[[NodeAdmin], Coroutine[Any, Any, T]]) -> T | None:
        """Return a bookie's answer; None when it gives none."""
        if bookie.process is None:
            return None
        try:
            return await bookie.node.do(ask(bookie.process.admin))
        except errors.GrantRefused as refusal:
            self.counts[f"refused: {refusal.reason}"] += 1
        except (NodeCrashed, BookieError) as error:
            self.counts[type(error).__name__] += 1
        return None

    def _cookie_version(self, bookie: BookieNode) -> int:
        node = self._cluster.simulation.keeper.tree.nodes.get(paths.cookie(ROOT, BookieId(bookie.name)))
        return -1 if node is None else node.version

    def _named(self, bookie_id: BookieId) -> list[LedgerId]:
        """Return the ledgers that name a bookie at this very moment."""
        nodes = self._cluster.simulation.keeper.tree.nodes
        of_ledgers = [path for path in nodes if path.rpartition("/")[2][:1] == "L" and path[-4:].isdigit()]
        found = [paths.parse_ledger_path(ROOT, path) for path in of_ledgers]
        return [each for each in found if (it := self._cluster.metadata_of(each)) is not None and it.names(bookie_id)]

    def _is_registered(self, bookie: BookieNode) -> bool:
        nodes = self._cluster.simulation.keeper.tree.nodes
        return any(f"{parent(ROOT)}/{bookie.name}" in nodes for parent in (paths.available, paths.readonly))

    async def _is_emptied(self, bookie: BookieNode) -> bool:
        """Empty a bookie; return True when no ledger names it any more. An interrupted evacuation begins again."""
        for _ in range(_ROUNDS):
            try:
                client = await self._connected()
                rate = self._random.choice(_RATES_BYTES_PER_S)
                if self._random.random() < 0.3:
                    self._lose_session_soon(client)
                if await client(_empty(client, BookieId(bookie.name), rate)):
                    return True
            except (NodeCrashed, BookieError) as error:
                self.counts[type(error).__name__] += 1
            await asyncio.sleep(self._random.random() * 2)
        return False

    async def _forget(self, bookie: BookieNode) -> None:
        """Delete the bookie's cookie, so that it comes back as a new one."""
        path = paths.cookie(ROOT, BookieId(bookie.name))
        while True:  # half forgotten, it could not come back
            try:
                client = await self._connected()
                await client(client.client.shared.ledgers.store.delete(path))
            except errors.NodeMissing:
                return
            except (NodeCrashed, BookieError):
                await asyncio.sleep(1)

    def _lose_session_soon(self, client: ClientNode) -> None:
        """End the client's session soon, in the middle of its work: its locks go, and it hears of that only some time
        later."""
        simulation = self._cluster.simulation
        session_id = client.client.shared.ledgers.store.session_id
        at_ns = simulation.loop.now_ns + self._random.randrange(2 * NS_PER_S)
        simulation.loop.call_at_ns(
            at_ns, simulation.keeper.end_session, session_id, context=simulation.loop.director.context
        )

    async def _connected(self) -> ClientNode:
        if self._client is None or self._client.node.life is None:
            self._client = None
            try:
                self._client = await self._cluster.client("evacuator")
            except BookieError:
                self._cluster.simulation.node("evacuator", ()).end()  # the process runs, and has no client
                raise
        return self._client

    # ---- surplus -----------------------------------------------------------------------------------------------------

    async def _collect(self) -> None:
        node = self._cluster.simulation.node("surplus", ())
        world = node.begin()
        store = await node.do(world.metadata_stores.connect(URI))
        while not self._is_stopping:
            await asyncio.sleep(self._random.random() * _SURPLUS_EVERY_S)
            bookie = self._random.choice(list(self._cluster.bookies.values()))
            if bookie.is_ready:
                try:
                    removed = await node.do(collect_surplus(store, bookie))
                    self.counts["surplus"] += removed
                except (NodeCrashed, BookieError) as error:
                    self.counts[type(error).__name__] += 1
        node.end()

    async def _count(self) -> None:
        """Count the ledgers that bookies gave up by themselves, as far as their processes lived to be asked."""
        seen: dict[str, int] = {}  # of one process: a new one begins at zero
        while not self._is_stopping:
            await asyncio.sleep(_SURPLUS_EVERY_S)
            for bookie in self._cluster.bookies.values():
                store = entry_store(bookie)
                if store is not None:
                    found = store.stats.ledgers_given_up
                    self.counts["given up"] += max(0, found - seen.get(bookie.name, 0))
                    seen[bookie.name] = found


async def _empty(client: ClientNode, bookie_id: BookieId, bytes_per_s: int | None) -> bool:
    evacuation = Evacuation(client.client.shared, [bookie_id], bytes_per_s=bytes_per_s)
    named = [found.ledger_id async for found in evacuation.look() if found is not None]
    await evacuation.move_many(named, lambda _: None)
    return not [found async for found in evacuation.look() if found is not None]


async def collect_surplus(store: MetadataStore, bookie: BookieNode) -> int:
    """Delete entries of closed ledgers that do not name the bookie, as Java's bookie does
    (ScanAndCompareGarbageCollector); return how many ledgers went."""
    ledgers = LedgerStore(store, ROOT)
    held = entry_store(bookie)
    removed = 0
    if held is None:
        return 0
    for ledger_id in await bookie.node.do(_held(held)):
        lock = paths.replication_lock(ROOT, ledger_id)
        if not _is_surplus(await _metadata(ledgers, ledger_id), bookie):
            continue
        try:
            await store.create(lock, repair.dump_lock(bookie.name), ephemeral=True, parents=True)
        except errors.NodeExists:
            continue
        metadata = await _metadata(ledgers, ledger_id)
        if metadata is not None and _is_surplus(metadata, bookie) and entry_store(bookie) is held:
            held.delete_ledger(ledger_id)
            # Java's bookie forgets its fence with it. That is a danger of its own, and nothing that an evacuation does
            # makes it greater: here the entries alone go.
            await bookie.node.do(_fence(held, ledger_id, digest.master_key(metadata.password)))
            removed += 1
        await store.delete(lock, ANY_VERSION)
    return removed


async def _fence(store: EntryStore, ledger_id: LedgerId, master_key: bytes) -> None:
    """Fence a ledger that was just deleted, and let copies come for it again: durably, as nothing else is taken under
    its id before."""
    await store.protect([(ledger_id, True, False, master_key)])
    await store.flush()


async def _held(store: EntryStore) -> list[LedgerId]:
    return [ledger_id async for ledger_id in store.ledgers()]


async def _metadata(ledgers: LedgerStore, ledger_id: LedgerId) -> LedgerMetadata | None:
    try:
        return (await ledgers.get(ledger_id))[0]
    except errors.LedgerMissing:
        return None


def _is_surplus(metadata: LedgerMetadata | None, bookie: BookieNode) -> bool:
    return metadata is not None and metadata.is_closed and not metadata.names(BookieId(bookie.name))


def entry_store(bookie: BookieNode) -> EntryStore | None:
    """Return the store of the bookie's running process, once it may serve."""
    return None if bookie.process is None else bookie.process.boot.store
