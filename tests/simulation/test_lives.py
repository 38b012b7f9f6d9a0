"""Writers with deferred sync while bookies crash, one by one and all at once: what `force` and the LAC said stays true.

Bookies answer such adds from memory, and their disks are slow here: every crash takes entries along that were
acknowledged. The writers outlive it; so must each promise of theirs.
"""

import asyncio
import random
from dataclasses import dataclass, field
from functools import partial

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client import LedgerWriter
from bookie.sim import workload
from bookie.sim.cluster import BookieNode, ClientNode, SimCluster
from bookie.sim.node import ProcessEnd
from sim_support import on_cluster
from story_support import story

SEEDS = range(3)
CRASHES = 8
SYNC_MS = 300


@dataclass
class Story:
    """What one run saw."""

    ledgers: list[LedgerId] = field(default_factory=list)
    is_calm: bool = False


class Promises:
    """Of one writer: tells the oracle whatever the LAC covers, as soon as it does."""

    def __init__(self, cluster: SimCluster, writer: LedgerWriter) -> None:
        self.writer = writer
        self._oracle = cluster.oracle
        self._payloads: dict[EntryId, bytes] = {}

    @property
    def unforced(self) -> int:
        """How many acknowledged entries nothing was promised of."""
        return len(self._payloads)

    async def append(self, payload: bytes) -> None:
        self._payloads[await self.writer.append(payload)] = payload

    def look(self) -> None:
        for entry_id in [entry_id for entry_id in self._payloads if entry_id <= self.writer.last_confirmed]:
            self._oracle.acknowledged(self.writer.id, entry_id, self._payloads.pop(entry_id))


async def write(cluster: SimCluster, app: ClientNode, story: Story, random_: random.Random) -> None:
    """Ledgers one after the other, until it is calm; each ends as it should although bookies crashed under it."""
    while not story.is_calm:
        try:
            writer = await app.client.create(deferred_sync=True)
        except errors.NotEnoughBookies:  # those that crashed are back when their last sessions have ended
            await asyncio.sleep(1)
            continue
        story.ledgers.append(writer.id)
        promises = Promises(cluster, writer)
        for number in range(random_.randint(5, 60)):
            burst = [promises.append(b"%d %d %d" % (writer.id, number, each)) for each in range(random_.randint(1, 5))]
            await asyncio.gather(*burst)
            promises.look()
            if random_.random() < 0.2:
                assert await writer.force() == writer.last_confirmed
                promises.look()
                assert not promises.unforced
            await asyncio.sleep(random_.random() * 0.2)
        await writer.close()
        promises.look()
        assert not promises.unforced


def is_in_memory_only(bookie: BookieNode) -> bool:
    """True while this bookie has something that is not on its disk."""
    store = bookie.process.admin.store if bookie.process is not None else None
    return store is not None and any(
        journal._batcher.pending.count or journal._in_flight for journal in store._journals
    )


async def crash(cluster: SimCluster, story: Story, random_: random.Random) -> None:
    """Power cuts and kills at any moment, of one bookie or of all; then back again."""
    for _ in range(CRASHES):
        await asyncio.sleep(random_.random() * 3)
        victims = list(cluster.bookies.values())
        if random_.random() < 0.5:
            victims = [random_.choice(victims)]
        for bookie in victims:
            await cluster.until(partial(is_in_memory_only, bookie), "something to lose")
        for bookie in victims:
            bookie.crash(random_.choice((ProcessEnd.POWER_CUT, ProcessEnd.KILL)))
        await asyncio.sleep(random_.random() * 2)
        for bookie in victims:
            bookie.start()
        await cluster.until_ready(*[bookie.name for bookie in victims])
    story.is_calm = True


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, journal_write_data=True, given=("seed",))
async def test_nothing_forced_is_lost_when_bookies_crash_under_writers_with_deferred_sync(cluster: SimCluster) -> None:
    told = Story()

    for bookie in cluster.bookies.values():
        bookie.node.disk_faults.sync_latency_ns = SYNC_MS * NS_PER_MS
    app = await cluster.client("app")
    writing = asyncio.ensure_future(app(write(cluster, app, told, cluster.simulation.random("writer"))))
    await crash(cluster, told, cluster.simulation.random("crashes"))
    async with asyncio.timeout(300):
        await writing
    await workload.verify(cluster, told.ledgers)
