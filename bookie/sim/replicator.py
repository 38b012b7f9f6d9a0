"""Auto-recovery as Java's workers do it: copies the entries of dead bookies to others, and names those in the metadata.

It sends recovery adds that are not urgent, asks no bookie which life took them, forces nothing, and changes the
metadata by compare-and-set alone (spec/wire.md#W68; spec/metadata.md#M32). So a bookie must not lose a copy between
taking it and being named in the metadata. A bookie that loses its volumes meanwhile loses the copy and is named all the
same. No bookie of ours can prevent that, hence no simulation has both a replicator and lost volumes.
"""

import asyncio
import random
from collections import Counter

from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.metadata import paths
from bookie.metadata.ledger import LedgerMetadata
from bookie.sim.cluster import ROOT, ClientNode, SimCluster
from bookie.sim.node import NodeCrashed, ended
from bookie.wire import digest

_PAUSE_S_MAX = 1.5


class Replicator:
    """Replicates as one worker, until `stop`. `counts`: fragments that were moved, and errors met."""

    def __init__(self, cluster: SimCluster, random_: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._random = random_
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks.append(self._cluster.simulation.loop.create_task(self._run(), name="replicator"))

    async def stop(self, *, timeout_s: float) -> None:
        self._is_stopping = True
        await ended(self._tasks, timeout_s=timeout_s)

    async def _run(self) -> None:
        node = self._cluster.simulation.node("replicator", ())
        while not self._is_stopping:
            await asyncio.sleep(self._random.random() * _PAUSE_S_MAX)
            try:
                worker = await self._cluster.client("replicator")
                while not self._is_stopping:
                    await asyncio.sleep(self._random.random() * _PAUSE_S_MAX)
                    if await worker(self._work(worker)):
                        self.counts["replicated"] += 1
            except (NodeCrashed, BookieError) as error:
                self.counts[type(error).__name__] += 1
            node.end()

    async def _work(self, worker: ClientNode) -> bool:
        """Move one fragment of a ledger that names a bookie which is not registered."""
        shared = worker.client.shared
        alive = set(shared.watcher.records)
        ledger_ids = [ledger_id async for ledger_id in shared.ledgers.iterate()]
        self._random.shuffle(ledger_ids)
        for ledger_id in ledger_ids:
            metadata, version = await shared.ledgers.get(ledger_id)
            for segment, first, last in metadata.segment_ranges():
                dead = [one for one in segment.bookies if one not in alive]
                free = sorted(alive - set(segment.bookies))
                if last is None or not dead or not free:
                    continue
                target = self._random.choice(free)
                changed = metadata.replaced(first, dead[0], target)
                for number in range(first, last + 1):
                    if target in changed.write_set(EntryId(number)):
                        await self._copy(worker, ledger_id, metadata, EntryId(number), target)
                await asyncio.sleep(self._random.random() * 5)  # a large fragment takes its time
                await shared.ledgers.put(ledger_id, changed, version)
                return True
        return False

    async def _copy(
        self, worker: ClientNode, ledger_id: LedgerId, metadata: LedgerMetadata, entry_id: EntryId, target: BookieId
    ) -> None:
        bookies = worker.client.bookies
        reason: BookieError | None = None
        for source in metadata.write_set(entry_id):
            try:
                body = await bookies.read(source, ledger_id, entry_id)
            except BookieError as error:
                reason = error
                continue
            key = digest.master_key(metadata.password)
            await bookies.add(target, ledger_id, entry_id, body, key, is_recovery=True)
            return
        assert reason is not None, f"{paths.ledger_path(ROOT, ledger_id)} has an empty write set"
        raise reason
