"""When garbage is collected and logs are compacted: now and then, and when somebody asks.

There is no "delete ledger" request: a bookie learns that a ledger is gone from the metadata store alone (metadata.md
13). So it must be the store of our own cluster that says it, after a sync, and not an emptied or a restored one.
"""

import asyncio
import logging

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LedgerId
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.ports.admin import Compaction, GarbageReport
from bookie.storage.collect import collector
from bookie.storage.collect.compactor import Compacted, Compactor
from bookie.storage.collect.plan import Kind
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)


class Collection:
    """The collector's and the compactor's driver for one bookie: one run at a time, by the task of `run`.

    What ends a run ends the node only when it is fatal: the next run tries again.
    """

    def __init__(
        self,
        store: EntryStore,
        ledgers: LedgerStore,
        compactor: Compactor,
        instance_id: str,
        *,
        interval_ms: int,
    ) -> None:
        self._store = store
        self._ledgers = ledgers
        self._compactor = compactor
        self._instance_id = instance_id
        self._interval_s = interval_ms / 1000
        self._asked: asyncio.Queue[tuple[Compaction, asyncio.Future[GarbageReport]]] = asyncio.Queue(8)

    async def collect_now(self, compaction: Compaction) -> GarbageReport:
        """A run that begins after this call, whatever the intervals say. Raises what ended it, or TooManyRequests."""
        answer: asyncio.Future[GarbageReport] = asyncio.get_running_loop().create_future()
        try:
            self._asked.put_nowait((compaction, answer))
        except asyncio.QueueFull:
            raise errors.TooManyRequests("many runs of garbage collection are asked for already") from None
        return await answer

    async def run(self) -> None:
        """Wait an interval, collect, and again. A run that cannot be sure is given up, and the next one tries."""
        try:
            while True:
                try:
                    async with asyncio.timeout(self._interval_s):
                        compaction, answer = await self._asked.get()
                except TimeoutError:
                    await self._turn()
                else:
                    await self._answer(compaction, answer)
        finally:
            while not self._asked.empty():
                _tell_of_the_end(self._asked.get_nowait()[1])

    async def _turn(self) -> None:
        try:
            found = await self._collect()
            done = await self._compactor.run()
        except BookieError as error:
            if error.fatal:
                raise
            log.warning("garbage collection given up reason=%s", error)
        else:
            _tell(found, done)

    async def _answer(self, compaction: Compaction, answer: "asyncio.Future[GarbageReport]") -> None:
        try:
            found = await self._collect()
            done = None
            if compaction is not Compaction.NONE:
                done = await self._compactor.compact(Kind(compaction.value), is_forced=True)
        except BookieError as error:
            if not answer.done():  # whoever asked may be gone
                answer.set_exception(error)
            if error.fatal:
                raise
        else:
            _tell(found, done)
            if not answer.done():
                answer.set_result(_report(found, done))
        finally:
            _tell_of_the_end(answer)

    async def _collect(self) -> collector.Collected:
        return await collector.collect(self._store, self._is_absent)

    async def _is_absent(self, ledger_id: LedgerId) -> bool:
        """True only when our own cluster's store, brought up to date, has no such ledger. Raises MetadataError."""
        if await self._exists(ledger_id):
            return False
        # Rare from here on: one deleted ledger costs three more questions.
        found = await cluster.instance_id(self._ledgers.store, self._ledgers.root)
        if found != self._instance_id:
            raise errors.MetadataError(f"the metadata store is now cluster {found!r}, not {self._instance_id!r}")
        await self._ledgers.store.sync(self._ledgers.path(ledger_id))
        return not await self._exists(ledger_id)

    async def _exists(self, ledger_id: LedgerId) -> bool:
        try:
            await self._ledgers.stored(ledger_id)
        except errors.LedgerMissing:
            return False
        return True


def _tell_of_the_end(answer: "asyncio.Future[GarbageReport]") -> None:
    if not answer.done():
        answer.set_exception(errors.StorageFailed("this bookie is stopping"))


def _tell(found: collector.Collected, done: Compacted | None) -> None:
    if found.ledgers_deleted or found.logs_dropped:
        log.info("garbage collected ledgers=%d logs=%d", found.ledgers_deleted, found.logs_dropped)
    if done is not None and (done.logs or done.refused):
        log.info("logs compacted logs=%d entries=%d refused=%r", done.logs, done.entries, done.refused)


def _report(found: collector.Collected, done: Compacted | None) -> GarbageReport:
    done = done or Compacted()
    return GarbageReport(
        ledgers_seen=found.ledgers_seen,
        ledgers_deleted=found.ledgers_deleted,
        logs_dropped=found.logs_dropped,
        logs_compacted=done.logs,
        logs_damaged=done.logs_damaged,
        entries_copied=done.entries,
        bytes_copied=done.bytes,
        bytes_freed=done.bytes_freed,
        refused=done.refused,
    )
