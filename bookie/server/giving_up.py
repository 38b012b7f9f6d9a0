"""Gives up surplus, under the lock that repairers take: first the mark, durably; then the entries; never the fence.

    lock ─► sync, read the record ─► mark, fence: durable ─► lock confirmed │ entries go ─► flush ─► lock back

Who copies to us and names us afterwards holds the lock without a break, or his change fails (spec/metadata.md#M39): so
while it is ours nobody is about to name us. Java's workers may lose it and go on; for those the record must have left
us out, and nothing may have come, for as long as `surplus` says. What follows if all that fails is "unknown", never
"no" (spec/metadata.md#M56).

Must never: delete on a record read before the lock was taken; wait for anything between the lock's confirmation and the
deletion; delete what came after the watch began; exceed what the brake leaves of the day.
"""

import contextlib
import logging
from collections.abc import Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId
from bookie.base.rounds import Rounds
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.client.repair.replication_lock import Later, LockLost, ReplicationLock, locked
from bookie.client.tasks import Tasks
from bookie.ports import World
from bookie.ports.metadata_store import find
from bookie.server.surplus import is_surplus
from bookie.storage.collect import brake, survey
from bookie.storage.collect.brake import Amount, Window
from bookie.storage.collect.collector import Collected
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

# Locks held, and ledgers marked by one flush. Repairers of these wait meanwhile.
TOGETHER = 32
_TOKEN_BYTES = 8
_JOB = "giving up of surplus"


class GivingUp:
    """Deletes the entries of surplus ledgers of one bookie. One task uses it (`server.collection`)."""

    def __init__(
        self,
        store: EntryStore,
        ledgers: LedgerStore,
        world: World,
        *,
        me: BookieId,
        instance_id: str,
        tasks: Tasks,
        rounds: Rounds | None = None,
    ) -> None:
        """`tasks`: for locks that can be given back only later."""
        self._store = store
        self._ledgers = ledgers
        self._world = world
        self._day = Window(world.clock.monotonic_ns())
        self._me = me
        self._instance_id = instance_id
        self._rounds = rounds or Rounds()
        self._later = Later(tasks, world.clock)
        self._denied: errors.MetadataDenied | None = None  # of one ledger in this run, the last of them

    async def run(self, due: Sequence[LedgerId], last: Collected) -> int:
        """Give up `due` as far as the brake lets; return how many ledgers. `last`: the run of the collection before.

        What cannot be done now is logged, and found again by the next run. Raises only what must stop the node.
        """
        done, self._denied = 0, None
        if last.held_reason:
            return done  # a store that was set back names others, as one that was emptied names nobody
        try:
            for start in range(0, len(due), TOGETHER):
                done += await self._give_up(due[start : start + TOGETHER], Amount(last.ledgers_seen))
            if self._denied is not None:  # of some ledgers alone: the others went, as far as they may
                raise self._denied
            self._rounds.came_to_end(_JOB)
        except BookieError as error:
            if error.fatal:
                raise
            self._rounds.given_up(_JOB, error)
            log.warning("surplus kept, the next run tries again reason=%s", error)
        if done:
            log.info("surplus given up ledgers=%d", done)
        return done

    async def _give_up(self, batch: Sequence[LedgerId], here: Amount) -> int:
        """Give up those ledgers of which nobody else has the lock, and that are surplus still; return how many."""
        done = 0
        async with contextlib.AsyncExitStack() as stack:
            held: dict[LedgerId, ReplicationLock] = {}
            for ledger_id in batch:
                holder = f"bookie-surplus-{self._world.entropy.token(_TOKEN_BYTES).hex()}"
                lock = locked(self._ledgers.store, self._ledgers.root, ledger_id, holder, self._later)
                try:
                    taken = await stack.enter_async_context(lock)
                except errors.TooManyRequests:
                    continue  # somebody repairs it: it is found again, and the wait begins anew if copies come
                except errors.MetadataDenied as error:
                    self._denied = error
                    continue  # nobody lets us lock it: that keeps no other ledger
                if await self._is_surplus(ledger_id):
                    held[ledger_id] = taken
            allowed = await self._allowed(list(held), here)
            await self._store.mark_given_up(allowed)
            for ledger_id in allowed:
                try:
                    await held[ledger_id].confirm()
                except LockLost:
                    continue
                # Nothing is awaited between the two: a copy that came before is noticed, one that comes after is kept.
                done += self._store.give_up(ledger_id)
            if done:
                await self._store.flush()
        return done

    async def _allowed(self, wanted: Sequence[LedgerId], here: Amount) -> Sequence[LedgerId]:
        """Return the first of `wanted`, so many as may go today, and count them. The rule is the brake's on garbage;
        the count is another, of this process: surplus that went is no sign of a lost store, and holds no garbage."""
        total_bytes, size_bytes = await self._sizes(wanted)
        here = here.plus(Amount(0, total_bytes))
        day = self._day.at(self._world.clock.monotonic_ns())
        options = self._store.options.brake
        if brake.rule(Amount(len(wanted), size_bytes), here, day, options).reason:
            wanted = wanted[: max(0, options.ledgers_min - day.ledgers)]
            _, size_bytes = await self._sizes(wanted)  # what stays does not count as gone
        self._day.count(Amount(len(wanted), size_bytes))
        return wanted

    async def _sizes(self, chosen: Sequence[LedgerId]) -> tuple[int, int]:
        """Return the bytes in logs: of all ledgers, and of the chosen ones."""
        found = [await survey.sizes(partition, frozenset(chosen)) for partition in self._store.partitions]
        return sum(total_bytes for total_bytes, _ in found), sum(chosen_bytes for _, chosen_bytes in found)

    async def _is_surplus(self, ledger_id: LedgerId) -> bool:
        """Read the record once more, after a sync, in the store of our own cluster."""
        store, path = self._ledgers.store, self._ledgers.path(ledger_id)
        found = await cluster.instance_id(store, self._ledgers.root)
        if found != self._instance_id:
            raise errors.MetadataError(f"the metadata store is now cluster {found!r}, not {self._instance_id!r}")
        await store.sync(path)
        try:
            stored = await find(store, path)
        except errors.MetadataDenied as error:
            self._denied = error
            return False  # it may name us, and keeps no other ledger
        return stored is not None and is_surplus(stored.data, self._me)
