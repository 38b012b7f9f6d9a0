"""A bookie leaves the fleet alive: it refuses adds, moves what it holds to others, and says when no ledger names it.

    START ─► refuses adds ─► registered as read-only ─► look ◄─────────────── move
                                                         │  └─ something found ─▲
                            nothing found, not sealed ◄──┴──► nothing found, and was sealed: empty
                                       │                      (and looks again from time to time)
                   seals: refuses adds of recoveries too ─► no repair of before that runs ─► look again

A recovery names the bookies that it brought in only when it closes the ledger. So a ledger IN_RECOVERY of which this
bookie holds anything counts as one that names it, and a look proves something only when no recovery could send anything
since before it began: that is the seal.

It is the evacuation of `bookie cluster recover-bookie` (`client.repair.evacuation`), run by the bookie itself beside
serving: it reads from the other replicas first. It does the same for another bookie that is dead for good, where not
being registered at all stands for refusing adds and for the seal. Rules: spec/metadata.md#M34, M41. Nothing of it is
stored. CRASH: an evacuation may stop at any point; after a restart the bookie is writable until START comes again, and
the ledgers that chose it meanwhile are found by the looks of the new drain. Must never: clear what else makes the
bookie read-only.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId
from bookie.base.rounds import Rounds
from bookie.base.units import NS_PER_MS
from bookie.client.client import Client
from bookie.client.repair import forgetting
from bookie.client.repair.evacuation import Evacuation
from bookie.client.repair.forgetting import Repair
from bookie.metadata import paths
from bookie.ports.admin import DrainStatus, OpenLedgers
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import MetadataStore, find
from bookie.ports.metrics import Sample
from bookie.server.drain_list import DrainList, look_again_ns
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

# Few, because clients are served beside it: an answer waits behind as many steps of ours at most.
_LEDGERS_AT_ONCE, _ENTRIES_AT_ONCE = 4, 8
_POLL_NS = 500 * NS_PER_MS
# After an error of the metadata store, doubled up to the second.
_ERROR_PAUSE_MS, _ERROR_PAUSE_MS_MAX = 1_000, 60_000
RATE_BYTES_PER_S_MIN = 1024


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """Which bookie is to be emptied, and how. `bytes_per_s` None: as fast as it goes. `asked_bytes_per_second`: what
    the caller said of it; 0 = nothing. `operator_epoch`: of the operator that gave it; 0 = a person. It is no part of
    what is asked: the next operator gives the same order."""

    bookie_id: BookieId
    bytes_per_s: int | None
    open_ledgers: OpenLedgers
    asked_bytes_per_second: int = 0
    operator_epoch: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class OwnSide:
    """What a drain needs of this bookie when it empties this bookie itself. `on_mode`: called when it begins or ends to
    refuse adds."""

    store: EntryStore
    on_mode: Callable[[], None]

    def set_draining(self, is_draining: bool) -> None:
        self.store.health.set_draining(is_draining)
        self.on_mode()


@dataclass(slots=True)
class _Progress:
    """How far one drain is. `begun_by`: epoch of the operator that began it, whoever changed it since; 0 = a person.
    `copied_before`: entries and bytes of evacuations that have ended. `is_known`: the cluster was seen to know the
    bookie. `error`: what it waits for; `is_unknown`: that the cluster shows no sign of the bookie."""

    begun_by: int = 0
    is_known: bool = False
    ledgers: DrainList = field(default_factory=DrainList)
    evacuation: Evacuation | None = None
    copied_before: tuple[int, int] = (0, 0)
    error: str = ""
    is_unknown: bool = False

    def copied(self) -> tuple[int, int]:
        entries, size = self.copied_before
        if self.evacuation is None:
            return entries, size
        return entries + self.evacuation.copier.entries, size + self.evacuation.copier.bytes

    def end_evacuation(self) -> None:
        self.copied_before, self.evacuation = self.copied(), None


class Drain:
    """One drain at a time: of this bookie itself, or of dead ones. `start`, `cancel` and `status` at any time; `run`
    does the work beside serving."""

    def __init__(
        self,
        root: str,
        metadata: MetadataStore,
        clock: Clock,
        make_client: Callable[[], AbstractAsyncContextManager[Client]],
        own: OwnSide | None,
        rounds: Rounds | None = None,
    ) -> None:
        """`own`: this bookie is emptied. None: dead bookies are, which take no adds."""
        self._root = root
        self._metadata = metadata
        self._clock = clock
        self._make_client = make_client
        self._own = own
        self._rounds = rounds or Rounds()
        self._job = "drain of a dead bookie" if own is None else "drain"
        self._order: DrainOrder | None = None
        self._changed = asyncio.Event()
        self._progress = _Progress()

    # ---- orders ------------------------------------------------------------------------------------------------------

    @property
    def bookie_id(self) -> BookieId | None:
        """Return the bookie that is being emptied."""
        return None if self._order is None else self._order.bookie_id

    def start(self, order: DrainOrder) -> None:
        """Empty the bookie in the background; this one refuses adds from now on. The same order again changes
        nothing."""
        if order == self._order:
            return
        if self.bookie_id != order.bookie_id:
            self._progress = _Progress(begun_by=order.operator_epoch)
        self._order = order
        if self._own is not None:
            self._own.set_draining(True)
        self._changed.set()
        log.warning(
            "drain begins bookie_id=%s bytes_per_s=%s open_ledgers=%s",
            order.bookie_id,
            order.bytes_per_s,
            order.open_ledgers.value,
        )

    def cancel(self) -> None:
        """Take adds again, those of recoveries too, unless something else forbids it; end the work at its next pause.
        Every step that it does is complete by itself."""
        if self._order is None:
            return
        log.warning("drain cancelled bookie_id=%s", self._order.bookie_id)
        self._rounds.came_to_end(self._job)
        self._order, self._progress = None, _Progress()
        if self._own is not None:
            self._own.set_draining(False)
        self._changed.set()

    def status(self) -> DrainStatus:
        if self._order is None:
            return DrainStatus()
        progress = self._progress
        ledgers, evacuation = progress.ledgers, progress.evacuation
        entries, size = progress.copied()
        now_ns = self._clock.monotonic_ns()
        return DrainStatus(
            is_draining=True,
            ledgers_total=ledgers.moved_count + ledgers.left_count,
            ledgers_left=ledgers.left_count,
            entries_copied=entries,
            bytes_copied=size,
            bytes_per_second=0.0 if evacuation is None else evacuation.copier.rate.per_second(now_ns),
            open_ledgers=ledgers.open_count,
            blocked=ledgers.shown(),
            blocked_count=ledgers.blocked_count,
            is_empty=ledgers.is_empty,
            error=progress.error,
            recovers_open_ledgers=self._order.open_ledgers is OpenLedgers.RECOVER,
            asked_bytes_per_second=self._order.asked_bytes_per_second,
            operator_epoch=progress.begun_by,
            is_unknown=progress.is_unknown,
        )

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of a drain of this bookie."""
        text = "1 while this bookie leaves (docs/CLI.md, node drain)."
        yield Sample("bookie_draining", "gauge", text, int(self._order is not None))
        ledgers = self._progress.ledgers
        if ledgers.has_looked:  # nobody has looked yet: no number is better than a zero
            text = "Ledgers that still name this bookie, which leaves."
            yield Sample("bookie_drain_ledgers_left", "gauge", text, ledgers.left_count)
            text = "Of these, those that cannot be moved now; `bookie node drain --status` has the reasons."
            yield Sample("bookie_drain_ledgers_blocked", "gauge", text, ledgers.blocked_count)

    # ---- the work ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Carry out the orders until cancelled. An error of another party is shown and outlived."""
        while True:
            self._changed.clear()
            async with asyncio.TaskGroup() as group:
                work = None
                if self._order is not None:
                    work = group.create_task(self._carry_out(self._order, self._progress), name="drain")
                await self._changed.wait()
                if work is not None:
                    work.cancel()

    async def _carry_out(self, order: DrainOrder, progress: _Progress) -> None:
        """Work until cancelled. `progress`: of this drain; after a cancel another stands in its place."""
        pause_ms = _ERROR_PAUSE_MS
        while True:
            try:
                async with self._make_client() as client:
                    evacuation = progress.evacuation = Evacuation(
                        client.shared,
                        [order.bookie_id],
                        bytes_per_s=order.bytes_per_s,
                        may_end=order.open_ledgers is OpenLedgers.RECOVER,
                        ledgers_at_once=_LEDGERS_AT_ONCE,
                        entries_at_once=_ENTRIES_AT_ONCE,
                        may_hold=self._may_hold,
                    )
                    try:
                        await self._until_nobody_chooses(order.bookie_id, progress)
                        before = await self._repairs()
                        progress.error, progress.is_unknown = "", False
                        pause_ms = _ERROR_PAUSE_MS
                        self._rounds.came_to_end(self._job)
                        while True:
                            before = await self._round(order, evacuation, progress, before)
                    finally:
                        progress.end_evacuation()
            except BookieError as error:
                if error.fatal:
                    raise
                progress.ledgers.is_empty = False  # nobody looks now, so nobody knows
                self._rounds.given_up(self._job, error)
                if progress.error != str(error):
                    log.warning("drain waits bookie_id=%s reason=%s", order.bookie_id, error)
                progress.error, progress.is_unknown = str(error), isinstance(error, errors.BookieUnknown)
            await self._clock.sleep_until(self._clock.monotonic_ns() + pause_ms * NS_PER_MS)
            pause_ms = min(2 * pause_ms, _ERROR_PAUSE_MS_MAX)

    async def _until_nobody_chooses(self, bookie_id: BookieId, progress: _Progress) -> None:
        """Wait until the metadata store shows this bookie as read-only, and not as writable any more; of a dead one:
        raise BookieUnavailable if it shows a process of it."""
        if self._own is None:
            await self._check_dead(bookie_id)
            return
        writable, read_only = (f"{parent(self._root)}/{bookie_id}" for parent in (paths.available, paths.readonly))
        while True:
            await self._metadata.sync(self._root)
            if await find(self._metadata, writable) is None and await find(self._metadata, read_only) is not None:
                break
            progress.error = "not registered as read-only yet"
            await self._clock.sleep_until(self._clock.monotonic_ns() + _POLL_NS)

    async def _check_dead(self, bookie_id: BookieId) -> None:
        await self._metadata.sync(self._root)
        if where := await forgetting.living(self._metadata, self._root, bookie_id):
            raise errors.BookieUnavailable(
                f"bookie {bookie_id} is alive ({where} exists): let it empty itself, or stop it"
            )

    async def _check_known(self, bookie_id: BookieId, progress: _Progress) -> None:
        """Raise BookieUnknown for an id that no ledger names and that has no cookie: a mistyped id must not look like a
        bookie that is empty. An operator does not mistype, and asks again when it did not hear that we forgot it."""
        if self._own is not None or progress.begun_by:
            return
        if await find(self._metadata, paths.cookie(self._root, bookie_id)) is None:
            raise forgetting.unknown(bookie_id)

    def _may_hold(self, ledger_id: LedgerId) -> bool:
        """Return True unless the bookie surely holds nothing of a ledger. What a dead one holds nobody can ask."""
        return self._own is None or self._own.store.may_hold(ledger_id)

    def _is_sealed(self) -> bool:
        return self._own is None or self._own.store.health.is_drain_sealed

    async def _repairs(self) -> frozenset[Repair]:
        """Return the repairs under way. Each may have sent entries to the bookie before, and names it only at its
        end."""
        await self._metadata.sync(self._root)
        return await forgetting.repairs(self._metadata, self._root)

    async def _until_ended(self, before: frozenset[Repair], progress: _Progress) -> None:
        """Wait until none of the repairs `before` is under way any more."""
        while before := before & await forgetting.repairs(self._metadata, self._root):
            progress.error = (
                f"{len(before)} repairs began when this bookie could still be chosen, and may still name it"
            )
            await self._clock.sleep_until(self._clock.monotonic_ns() + _POLL_NS)
        progress.error = ""

    async def _round(
        self, order: DrainOrder, evacuation: Evacuation, progress: _Progress, before: frozenset[Repair]
    ) -> frozenset[Repair]:
        """Look at every ledger, then move what was found, until it is time to look again. `before`: repairs that must
        end before a look can prove anything; return those left."""
        clock, drained = self._clock, progress.ledgers
        if self._own is None:
            await self._check_dead(order.bookie_id)
        before &= await forgetting.repairs(self._metadata, self._root)
        was_sealed = self._is_sealed()  # before the look: what a recovery sends while we look, it may not see
        began_ns = clock.monotonic_ns()
        found = [each async for each in evacuation.look(beside_clients=clock) if each is not None]
        if not (found or progress.is_known):
            await self._check_known(order.bookie_id, progress)
        progress.is_known = True
        again_ns = look_again_ns(began_ns, clock.monotonic_ns())
        was_empty = drained.is_empty
        drained.looked(found, clock.monotonic_ns(), is_proof=was_sealed and not before)
        if drained.is_empty != was_empty or found:
            log.info("drain looked bookie_id=%s ledgers=%d", order.bookie_id, len(found))
        if drained.is_empty:
            await clock.sleep_until(again_ns)
        elif not found and not was_sealed:
            return await self._seal(order.bookie_id)
        elif not found:
            await self._until_ended(before, progress)
        while drained.left_count and clock.monotonic_ns() < again_ns:
            await self._move(order, evacuation, drained)
            due_ns = drained.next_due_ns()
            if due_ns is not None:
                await clock.sleep_until(min(due_ns, again_ns))
        return before

    async def _seal(self, bookie_id: BookieId) -> frozenset[Repair]:
        """Refuse adds of recoveries too from now on; return the repairs that may have sent some before. Nobody misses
        this bookie: it looked just now, and nothing names it."""
        assert self._own is not None
        self._own.store.health.seal_drain()
        log.info("drain seals: adds of recoveries are refused too bookie_id=%s", bookie_id)
        return await self._repairs()

    async def _move(self, order: DrainOrder, evacuation: Evacuation, drained: DrainList) -> None:
        """Move each ledger that is due and can be moved."""
        ready = []
        for ledger_id in drained.due(self._clock.monotonic_ns()):
            found = await evacuation.look_at(ledger_id)
            if found is None:
                drained.moved(ledger_id)
            elif found.problem:
                self._block(drained, ledger_id, found.problem)
            elif found.must_end and order.open_ledgers is OpenLedgers.WAIT:
                waits = "" if found.is_recovered else ": it waits until its writer closes it or replaces this bookie"
                reason = f"{found.role}{waits}"
                self._block(drained, ledger_id, reason, is_open=True)
            else:
                ready.append(ledger_id)
        left = await evacuation.move_many(ready, drained.moved)
        for ledger_id, reason in left.items():
            self._block(drained, ledger_id, reason)

    def _block(self, drained: DrainList, ledger_id: LedgerId, reason: str, *, is_open: bool = False) -> None:
        if drained.blocked(ledger_id, reason, self._clock.monotonic_ns(), is_open=is_open):
            log.info("drain: ledger not moved yet ledger_id=%d reason=%s", ledger_id, reason)


def order_of(
    bookie_id: BookieId, bytes_per_second: int, open_ledgers: OpenLedgers, *, default_bytes_per_s: int | None
) -> DrainOrder:
    """Return the order that a caller's words mean. Raises BadInput for a rate at which nothing would ever end."""
    if bytes_per_second == 0:
        return DrainOrder(bookie_id, default_bytes_per_s, open_ledgers)
    if bytes_per_second < RATE_BYTES_PER_S_MIN:
        raise errors.BadInput(
            f"a drain of {bytes_per_second} bytes a second would not end: at least {RATE_BYTES_PER_S_MIN}, or 0 for the"
            " rate of repairs"
        )
    return DrainOrder(bookie_id, bytes_per_second, open_ledgers, bytes_per_second)
