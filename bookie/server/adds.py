"""Hands adds to the store and answers them when it says that they are safe: after the journal's sync.

Two exceptions: with journalWriteData off the store says so once they are in memory (`storage/store.py: add`), and
deferred adds are answered earlier to clients that know lives (`_take_deferred`).

A client that asked which life of this bookie it speaks to (`codes.INFO_LIFE`) counts acks of memory for that life only.
Its deferred adds (BP-14) are answered before the sync. Those of anybody else, and all of a recovery, are answered after
it: a `force` of theirs might be answered by the next life, which does not know what it lost (spec/bp46.md#T17). Only
`_take_deferred` answers without a completion of the store. Recovery adds that are not urgent are a replicator's copies:
they go through the journal whatever the option says.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from bookie.base import errors
from bookie.base.errors import BookieError, Status
from bookie.base.ids import EntryId
from bookie.ports.clock import Clock
from bookie.server.admission import Admission
from bookie.server.boundary import Boundary
from bookie.server.metrics import ServerMetrics
from bookie.server.reads import Replier
from bookie.server.sync_cursors import SyncCursors
from bookie.storage.store import EntryStore
from bookie.wire import limits, runs
from bookie.wire.messages import AddMix, AddRun, AddRunResponse

_EOK = Status.EOK

_Done = Callable[[AddRun, Replier, BookieError | None], None]
_R = TypeVar("_R", AddRun, AddMix)


class Adds:
    """Answers add requests of all connections; part of the processor."""

    def __init__(
        self,
        store: EntryStore,
        admission: Admission,
        metrics: ServerMetrics,
        clock: Clock,
        boundary: Boundary,
        on_room: Callable[[], None],
    ) -> None:
        """`on_room` is called when reading sockets may go on."""
        self._store = store
        self._admission = admission
        self._metrics = metrics
        self._clock = clock
        self._boundary = boundary
        self._on_room = on_room
        self._sync_cursors = SyncCursors(is_journaled=store.options.journal_write_data)
        self._know_lives: set[Replier] = set()

    def knows_lives(self, replier: Replier) -> None:
        """Note that this client asked for our life and was told: its deferred adds may be answered early."""
        self._know_lives.add(replier)

    def forget(self, replier: Replier) -> None:
        """Forget a connection that is closed."""
        self._know_lives.discard(replier)

    def run(self, run: AddRun, to: Replier) -> Sequence[AddRun]:
        """Answer the adds of `run`, now or later. Return those that are to be handled next, each as a request of its
        own: one of them is bad, and the others are not to suffer for it."""
        count, size = len(run.bodies), sum(map(len, run.bodies))
        try:
            if run.is_deferred:
                self._take_deferred(run, size, to)
            else:
                self._keep(run, size, to, self._added)
        except errors.BadRequest as error:
            if count > 1:
                return list(runs.split(run))
            self._refuse(run, to, error)
        except BookieError as error:
            self._refuse(run, to, error)
        self._metrics.adds += count
        self._metrics.add_bytes += size
        return ()

    def mix(self, mix: AddMix, to: Replier) -> Sequence[AddRun]:
        """Answer the adds of `mix` that are plain together, now or later. Return the others, which are to be handled
        next, ledger by ledger as if they had come as runs: what refuses one of them touches no other ledger's, and the
        work of a thousand ledgers, some of them on disk only, is not done in one go."""
        others = self._store.not_plain(mix.ledger_ids, mix.master_keys, mix.entry_ids, mix.bodies)
        plain = runs.without(mix, others) if others else mix
        if plain.bodies:
            try:
                self._keep_plain(plain, to)
            except Exception as error:  # ours: told to these adds alone
                self._boundary.failed("request", error, plain, to)
        return runs.take_apart(mix, others)

    def _keep_plain(self, mix: AddMix, to: Replier) -> None:
        count, size = len(mix.bodies), sum(map(len, mix.bodies))
        self._metrics.adds += count
        self._metrics.add_bytes += size
        began_ns = self._clock.monotonic_ns()
        self._store.add_plain(
            mix.ledger_ids, mix.entry_ids, mix.bodies, partial(self._done, mix, size, to, began_ns, self._added)
        )
        self._admission.take(size, count)

    def _take_deferred(self, run: AddRun, size: int, to: Replier) -> None:
        waits = run.is_recovery or to not in self._know_lives
        self._keep(run, size, to, self._deferred_added if waits else self._synced)
        self._sync_cursors.begun(run)
        if not waits:
            to.reply(AddRunResponse(run.version, _EOK, run, self._sync_cursors.last(run.ledger_id)))

    def _keep(self, run: AddRun, size: int, to: Replier, done: _Done) -> None:
        """Hand `run` to the store, which calls `done`. Raises the store's refusal, after which nothing is changed."""
        limits.check_master_key(run.master_key)
        is_copy = run.is_recovery and not run.is_high_priority
        if is_copy and self._store.is_read_only:
            # Re-replication finds another place; a recovery, which is urgent, may have none (spec/wire.md#W33).
            raise errors.BookieReadOnly("this bookie is read-only")
        self._store.add(
            run.ledger_id,
            run.entry_ids,
            run.bodies,
            run.master_key,
            is_recovery=run.is_recovery,
            is_journaled=is_copy,  # its replicator publishes this bookie as a holder of it, and never asks again
            done=partial(self._done, run, size, to, self._clock.monotonic_ns(), done),
        )
        self._admission.take(size, len(run.bodies))

    # ---- what the store says -----------------------------------------------------------------------------------------

    def _done(
        self,
        run: _R,
        size: int,
        to: Replier,
        began_ns: int,
        then: Callable[[_R, Replier, BookieError | None], None],
        error: BookieError | None,
    ) -> None:
        """Complete `run` for the store: `then` answers the client."""
        try:
            then(run, to, error)
        except Exception as failure:
            self._boundary.failed("completion", failure, run, to)
        count = len(run.bodies)
        self._metrics.add_latency.record(self._clock.monotonic_ns() - began_ns, count)
        if self._admission.give(size, count):
            self._on_room()

    def _added(
        self, run: AddRun | AddMix, to: Replier, error: BookieError | None, last_synced: EntryId | None = None
    ) -> None:
        if error is None:
            to.reply(AddRunResponse(run.version, _EOK, run, last_synced))
        else:
            self._refuse(run, to, error)

    def _deferred_added(self, run: AddRun, to: Replier, error: BookieError | None) -> None:
        last_synced = self._sync_cursors.synced(run) if error is None else None
        self._added(run, to, error, last_synced)

    def _synced(self, run: AddRun, to: Replier, error: BookieError | None) -> None:
        """Note that the adds of `run`, answered already, are on disk. Until now they counted as in flight, so that a
        client that waits for no answer cannot fill the journal. After an error they are in memory only, and `force`
        fails until a checkpoint has written them."""
        if error is None:
            self._sync_cursors.synced(run)

    def _refuse(self, run: AddRun | AddMix, to: Replier, error: BookieError) -> None:
        """Answer with the error. EIO stands for unknown state: a writer survives it by an ensemble change, and ends
        only at EFENCED and EUA (spec/wire.md#W18)."""
        status = Status.EIO if isinstance(error, errors.UnknownLedgerState) else error.status
        self._metrics.errors[status] += len(run.bodies)
        to.reply(AddRunResponse(run.version, status, run))
