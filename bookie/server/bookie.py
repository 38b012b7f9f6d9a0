"""Bookie(options, world): one node, from its first second to its last. Builds and connects all parts of the node.

The order of a life: metadata store, integrity (is this still the bookie that the cluster knows?), storage, data port,
registration, repair beside serving; and the same backwards. Nothing is served before integrity said so. The first
fatal error stops the node; a power cut is always a legal way to stop.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import Life
from bookie.base.rounds import Rounds
from bookie.base.units import NS_PER_MS, NS_PER_S
from bookie.client import cluster
from bookie.client.client import Client
from bookie.client.tasks import Tasks
from bookie.integrity.boot import Boot
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.position import PositionKeeper
from bookie.metadata import paths, registration
from bookie.ports import World
from bookie.ports.admin import State
from bookie.ports.metadata_store import CheckOp, MetadataStore, Session
from bookie.ports.metrics import Histogram, Sample
from bookie.ports.network import Address, ByteStream
from bookie.ports.time_limit import TimeLimit
from bookie.server import kept_mode, lists, security
from bookie.server import lease as leases
from bookie.server.admin import NodeAdmin
from bookie.server.admission import Admission
from bookie.server.autorecovery import OwnAutoRecovery
from bookie.server.boundary import Boundary
from bookie.server.collection import Collection
from bookie.server.connection import Backpressure, ServerConnection
from bookie.server.connections import Connections
from bookie.server.doors import NodeDoors, is_of_our_state
from bookie.server.drain import Drain, OwnSide
from bookie.server.filling import Filling
from bookie.server.giving_up import GivingUp
from bookie.server.lease import ServingLease
from bookie.server.live import LiveSettings, rate
from bookie.server.metrics import ServerMetrics
from bookie.server.options import ServerOptions
from bookie.server.processor import Processor
from bookie.server.readers import Readers
from bookie.server.registration import Registration
from bookie.storage.collect.compactor import Compactor
from bookie.storage.collect.daily import DailyCounts
from bookie.storage.scrub import Scrubber
from bookie.storage.stats import GAUGES
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

# How often the mode (writable, read-only) is compared with what the store and the disks say.
_MODE_INTERVAL_NS = NS_PER_S
# How often ledgers that were quarantined while serving are looked for, to be repaired.
_QUARANTINE_INTERVAL_NS = 60 * NS_PER_S
# Between attempts to reach a metadata store at start.
_CONNECT_RETRY_NS = NS_PER_S
_END_SESSION_S = 2.0
# How often a registration that waits for the lease looks.
_LEASE_POLL_NS = 100 * NS_PER_MS


_OF_SCRUB = ("scrubRateBytesPerSecond", "localScrubRateLimit")


class Bookie:
    """One bookie. `admin` answers for it (`ports.admin.Admin`). `ready` is set once it is registered and serves.

    Raises BadInput when the keys that its options name cannot be used.
    """

    def __init__(self, options: ServerOptions, world: World) -> None:
        self.options = options
        self.world = world
        self.metrics = ServerMetrics()
        self.rounds = Rounds()
        self.doors = NodeDoors(world.clock, self.fail)
        self.connections: Connections | None = None  # once the data port is open
        self.ready = asyncio.Event()
        self.port = 0  # of the data port, once it is open
        self.http_port = options.http_port  # as it is registered; the HTTP server sets the port that it really has
        self._security = security.load(options.security, world)
        self.boot = Boot(options.bookie_id, options.storage, options.integrity, world, options.client_options())
        self.live = LiveSettings(options.live)
        self._autorecovery = None
        if options.autorecovery is not None:
            self._autorecovery = OwnAutoRecovery(
                options.bookie_id, options.autorecovery, options.client_options(), world, self.doors
            )
        self.live.take_with("copyRateBytesPerSecond", self._set_copy_rate)
        for key in _OF_SCRUB:
            self.live.take_with(key, lambda _: None)  # until there is a scrubber to tell
        mode_dirs = options.storage.ledger_dirs if options.keeps_mode else ()
        self.admin = NodeAdmin(
            self.boot,
            world,
            self.live,
            force_read_only=options.force_read_only,
            mode_dirs=mode_dirs,
            loss_key=options.loss_key,
        )
        self._lease = ServingLease()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None

    # ---- life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until `request_stop` or a fatal error, which is raised. Cancellation acts as a crash:
        nothing is flushed."""
        async with asyncio.TaskGroup() as group:
            life = group.create_task(self._supervise(self._live), name=f"bookie {self.options.bookie_id}")
            await self._stop.wait()
            self.admin.enter(State.STOPPING)
            life.cancel()
        if self._failure is not None:
            raise self._failure
        log.info("stopped bookie_id=%s", self.options.bookie_id)

    def request_stop(self) -> None:
        """Ask `run` to flush, end the session and return. Callable at once, from anywhere on the loop."""
        self._stop.set()

    def fail(self, error: BaseException) -> None:
        """Stop the node, which an error has left unable to go on. The first reason counts."""
        if self._failure is None:
            self._failure = error
            log.error("node stops bookie_id=%s reason=%s", self.options.bookie_id, error)
        self._stop.set()

    def uncaught(self, error: BaseException) -> None:
        """Report an error that reached the loop from a callback or a task that nobody awaits. Stop the node when it
        passed through storage or integrity, not when a library met it with a client."""
        if isinstance(error, Exception):
            self.doors.failed("loop", error)
        if not isinstance(error, Exception) or is_of_our_state(error, anywhere=True):
            self.fail(error)

    def _set_copy_rate(self, value: object) -> None:
        self.boot.set_copy_rate(rate(value))
        if self._autorecovery is not None:
            self._autorecovery.set_copy_rate(rate(value))

    async def _supervise(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run one part of the node; stop the node at its error, and where it ends although nobody ended it: nothing
        else would tell. When cancelled before its first step, do nothing."""
        task = asyncio.current_task()
        assert task is not None
        try:
            await work()
        except asyncio.CancelledError:
            if task.cancelling():
                raise  # by us
        except Exception as error:
            if not isinstance(error, BookieError):
                log.exception("error of ours bookie_id=%s", self.options.bookie_id)
            self.fail(error)
        if not task.cancelling():
            self.fail(AssertionError(f"a part ended that lasts as long as the node: {task.get_name()}"))

    async def _live(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            metadata = await self._connect()
            stack.push_async_callback(self._end_session, metadata)
            self.metrics.on_session(Session.CONNECTED)
            stack.callback(metadata.on_session(self.metrics.on_session))
            store = await self.boot.run(metadata, on_state=self.admin.enter, fail=self.fail)
            stack.push_async_callback(self._close_store, store)
            # Before the last flush: a client that looks for bookies should not find one that does not answer.
            stack.push_async_callback(self._end_session, metadata)
            async with self._serving(store, metadata):
                await asyncio.Event().wait()

    async def _connect(self) -> MetadataStore:
        """Connect to the metadata store, patiently: it may be starting at the same time."""
        clock = self.world.clock
        deadline_ns = clock.monotonic_ns() + self.options.metadata_patience_ms * NS_PER_MS
        log.info(
            "connecting to the metadata store bookie_id=%s uri=%s", self.options.bookie_id, self.options.metadata_uri
        )
        while True:
            try:
                return await self._connect_once(deadline_ns)
            except errors.MetadataError as error:
                if not error.retryable or clock.monotonic_ns() >= deadline_ns:
                    is_denied = isinstance(error, errors.MetadataDenied)  # whose address is right
                    advice = "" if is_denied else "; check metadataServiceUri and that the servers are up"
                    raise errors.RefusedToStart(f"{error}{advice}") from error
                log.warning("metadata store not reachable yet reason=%s", error)
                await clock.sleep_until(clock.monotonic_ns() + _CONNECT_RETRY_NS)

    async def _connect_once(self, deadline_ns: int) -> MetadataStore:
        """Try to connect once, until our patience ends but for a second at least;
        a session time-out ends the try too."""
        uri, patience_ms = self.options.metadata_uri, self.options.metadata_patience_ms
        left_ns = max(deadline_ns - self.world.clock.monotonic_ns(), _CONNECT_RETRY_NS)
        try:
            async with TimeLimit(left_ns / NS_PER_S):
                return await self.world.metadata_stores.connect(uri, session_timeout_ms=self.options.session_timeout_ms)
        except TimeoutError:
            text = f"the metadata store at {uri} did not answer within metadataPatienceMs ({patience_ms})"
            raise errors.MetadataError(text) from None

    async def _close_store(self, store: EntryStore) -> None:
        """Flush for the last time. Record that this process ended well only after a verified flush.

        Whatever ends this node, entries that only its memory holds must not go with it, above all where many bookies
        end for one reason (an outage of the metadata store, one request sent to all of them). Only storage that has
        failed itself is not written to any more.
        """
        if isinstance(self._failure, errors.StorageFailed):
            await store.abandon()
            return
        try:
            async with TimeLimit(self.options.shutdown_timeout_ms * NS_PER_MS / NS_PER_S):
                if await store.close():
                    await self.boot.ended_well()
                    return
        except TimeoutError:
            pass
        # CRASH: as if power had gone: the marker stays, and the next start takes this life for an unclean one.
        log.warning("the last flush did not finish; the next start will replay bookie_id=%s", self.options.bookie_id)

    async def _end_session(self, metadata: MetadataStore) -> None:
        """End our session, so that our registration ends at once, not with the time-out. May be called twice."""
        try:
            async with TimeLimit(_END_SESSION_S):
                await metadata.close()
        except (TimeoutError, BookieError) as error:
            reason = str(error) or f"no answer in {_END_SESSION_S:g} s"
            log.warning("the session could not be closed: the metadata store ends it at its time-out reason=%s", reason)

    # ---- serving --------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _serving(self, store: EntryStore, metadata: MetadataStore) -> AsyncIterator[None]:
        """Open the data port, register, repair; at the end close the port before anything is flushed."""
        options, admission, boundary = self.options, Admission(), Boundary(self.doors)
        self.connections = connections = Connections(options.budgets, self.world.clock, self.doors)
        readers = Readers(
            boundary, connections.unsent, at_once=options.budgets.reads, queue_max=options.reads_pending_max
        )
        listers = lists.listers(boundary, connections.unsent)
        processor = Processor(
            store, readers, listers, admission, self.metrics, self.world.clock, boundary, options.frame_bytes_max
        )
        processor.life = self._life()
        backpressure = Backpressure(admission, store)
        processor.on_room = backpressure.open

        async def on_connect(stream: ByteStream) -> None:
            try:
                if (reason := connections.why_not(stream.peer)) is not None:
                    self.doors.refused("connection", reason, stream.peer)
                    return
                connection = ServerConnection(
                    stream,
                    processor,
                    backpressure,
                    self.metrics,
                    options.frame_bytes_max,
                    self.doors,
                    connections,
                    self._security,
                    may_answer=self._has_lease if options.answers_under_lease else None,
                )
                await connection.run()
            except Exception as error:
                self.doors.failed("connection", error, stream.peer)

        listener = await self.world.network.listen(Address(options.listen_host, options.port), on_connect)
        self.port = listener.port
        registrar = await self._make_registration(store, metadata, listener.port)
        scrubber = self._make_scrubber(store)
        make_client = partial(Client, options.client_options(), self.world, store=metadata)  # under our session
        drains, filling = self._make_drains(store, metadata, registrar, make_client), self._make_filling(store)
        parts: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("readers", readers.run),
            ("listers", listers.run),
            ("connections", lambda: connections.run(processor.look, self.doors.tell_rest)),
            ("registration", registrar.run),
            ("mode", lambda: self._follow_mode(store, registrar, filling)),
            ("identity", self.boot.hold),
            *((("lease", lambda: self._keep_lease(metadata)),) if options.answers_under_lease else ()),
            ("repair", lambda: self._repair(store, metadata)),
            ("fill", lambda: filling.run(metadata, registrar.registered)),
            ("position", lambda: self._tell_position(store, metadata)),
            ("upkeep", lambda: self._keep_up(store, metadata)),
            ("scrub", scrubber.run),
            *self._for_the_cluster(drains, registrar),
        )
        self.admin.serve(store, scrubber, drains, filling, registrar.registered, make_client)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._supervise(part), name=name) for name, part in parts]
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            self.ready.clear()
            registrar.registered.clear()
            await listener.close()
            self.admin.store = None

    def _for_the_cluster(
        self, drains: tuple[Drain, Drain], registrar: Registration
    ) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """Yield the parts that move what bookies hold to others."""
        yield from (("drain", drain.run) for drain in drains)
        if (own := self._autorecovery) is not None:
            yield "auto-recovery", lambda: own.run(registrar.registered)

    async def _is_kept_read_only(self) -> bool:
        ledger_dirs = self.options.storage.ledger_dirs
        if not self.options.keeps_mode or not await kept_mode.is_kept_read_only(self.world.disk, ledger_dirs):
            return False
        log.warning("read-only as before this start, by hand bookie_id=%s", self.options.bookie_id)
        return True

    def _life(self) -> Life | None:
        record = self.boot.record
        return None if record is None else Life(record.incarnation, record.boot_epoch)

    async def _make_registration(self, store: EntryStore, metadata: MetadataStore, port: int) -> Registration:
        """Return the part that registers us, in the mode in which this life begins."""
        options = self.options
        said = (("zone", options.zone), ("machine", options.machine))
        properties = tuple((name, value) for name, value in said if value)
        info = registration.bookie_service(options.host, port, properties, http_port=self.http_port)
        registrar = Registration(
            metadata,
            paths.parse_uri(options.metadata_uri).root,
            options.bookie_id,
            registration.dump_service_info(info),
            self.world.clock,
            self.metrics,
            session_timeout_ms=options.session_timeout_ms,
            while_held=self._while_it_may_serve,
        )
        store.health.set_read_only(options.force_read_only or await self._is_kept_read_only())
        registrar.set_read_only(store.is_read_only)  # before the first record: a writer must not choose us
        return registrar

    def _make_filling(self, store: EntryStore) -> Filling:
        after_boot = self.options.integrity.fill_after_boot
        return Filling(self.boot, store, self.world.clock, self.admin.lease, after_boot=after_boot, rounds=self.rounds)

    def _make_scrubber(self, store: EntryStore) -> Scrubber:
        scrubber = Scrubber(
            store.partitions, store.bad_entries, store.stats, self.options.storage.scrub, self.world.clock
        )
        self.live.take_with("scrubRateBytesPerSecond", lambda value: scrubber.set_bytes_per_s(rate(value)))
        self.live.take_with("localScrubRateLimit", lambda value: scrubber.set_entries_per_s(rate(value)))
        return scrubber

    def _make_drains(
        self,
        store: EntryStore,
        metadata: MetadataStore,
        registrar: Registration,
        make_client: Callable[[], Client],
    ) -> tuple[Drain, Drain]:
        """Return the parts that empty this bookie when it is to leave, and dead ones."""

        def on_mode() -> None:
            registrar.set_read_only(store.is_read_only)  # at once: each new ledger that chooses us is one more to move
            self.boot.progress.notify()

        root, clock = paths.parse_uri(self.options.metadata_uri).root, self.world.clock
        own = OwnSide(store, on_mode)
        return (
            Drain(root, metadata, clock, make_client, own, self.rounds),
            Drain(root, metadata, clock, make_client, None, self.rounds),
        )

    # ---- the lease, where it is asked for

    def _has_lease(self) -> bool:
        return self._lease.is_valid(self.world.clock.monotonic_ns())

    async def _keep_lease(self, metadata: MetadataStore) -> None:
        root = paths.parse_uri(self.options.metadata_uri).root
        await leases.keep(self._lease, metadata, root, self.world.clock, self.boot.while_held)

    async def _while_it_may_serve(self) -> Sequence[CheckOp]:
        """Wait until the lease is valid: a registered bookie must answer, so we register only then."""
        clock = self.world.clock
        while True:
            checks = await self.boot.while_held()
            if not self.options.answers_under_lease or self._has_lease():
                return checks
            await clock.sleep_until(clock.monotonic_ns() + _LEASE_POLL_NS)

    async def _follow_mode(self, store: EntryStore, registrar: Registration, filling: Filling) -> None:
        """Announce our mode: ready once registered, read-only while the store refuses adds. When it takes them again,
        what writers wrote without us meanwhile is fetched."""
        clock = self.world.clock
        await registrar.registered.wait()
        self.ready.set()
        self.boot.progress.notify()
        log.info("serving bookie_id=%s port=%d", self.options.bookie_id, self.port)
        while True:
            self.admin.end_late_turn()
            registrar.set_read_only(store.is_read_only)
            filling.look()
            await clock.sleep_until(clock.monotonic_ns() + _MODE_INTERVAL_NS)

    async def _tell_position(self, store: EntryStore, metadata: MetadataStore) -> None:
        assert self.boot.record is not None
        root = paths.parse_uri(self.options.metadata_uri).root
        keeper = PositionKeeper(store, metadata, root, self.options.bookie_id, self.boot.record, self.rounds)
        await keeper.run(self.world.clock)

    async def _repair(self, store: EntryStore, metadata: MetadataStore) -> None:
        """Repair what was lost; afterwards what is found lost while we serve."""
        clock = self.world.clock
        while True:
            await self.boot.repair(store, metadata, self.rounds)
            while not store.quarantined:
                await clock.sleep_until(clock.monotonic_ns() + _QUARANTINE_INTERVAL_NS)

    async def _keep_up(self, store: EntryStore, metadata: MetadataStore) -> None:
        """Collect deleted ledgers until the process ends. Does not wait for the repair: a ledger that cannot be
        repaired is kept, and does not stop the collection of others."""
        assert self.boot.record is not None
        retry = MetadataRetry(self.world.clock)
        uri = paths.parse_uri(self.options.metadata_uri)
        ledgers = await retry.read(lambda: cluster.open_ledgers(metadata, uri))
        compactor = Compactor(store, self.options.storage.compaction, self.world.clock)
        counts = DailyCounts(store.partitions, self.world.clock)
        async with Tasks() as tasks:
            giving_up = None
            if self.options.surplus_wait_ms is not None:
                giving_up = GivingUp(
                    store,
                    ledgers,
                    self.world,
                    me=self.options.bookie_id,
                    instance_id=self.boot.record.instance_id,
                    tasks=tasks,
                    rounds=self.rounds,
                )
            collection = Collection(
                store,
                ledgers,
                compactor,
                counts,
                self.boot.record.instance_id,
                me=self.options.bookie_id,
                clock=self.world.clock,
                interval_ms=self.options.gc_interval_ms,
                surplus_wait_ms=self.options.surplus_wait_ms,
                giving_up=giving_up,
                rounds=self.rounds,
            )
            self.admin.collection = collection
            try:
                await collection.run()
            finally:
                self.admin.collection = None

    def telemetry(self) -> Iterator[Sample | Histogram]:
        """Yield everything that there is to measure, for `runtime.metrics`."""
        yield from self.metrics.samples()
        yield from self.doors.samples()
        if self.connections is not None:
            yield from self.connections.samples()
        state = self.admin.state
        status = self.boot.progress.snapshot(state)
        yield Sample("bookie_state", "gauge", "1 for the state it is in.", 1, (("state", state.value),))
        # What nobody has looked at yet is no figure: a zero would be taken for an answer.
        if status.incarnation:
            yield Sample("bookie_incarnation", "gauge", "Which incarnation of its volumes this is.", status.incarnation)
        if self.boot.progress.is_counted:
            text = "Ledgers that may have lost entries here."
            yield Sample("bookie_ledgers_limbo", "gauge", text, status.ledgers_limbo)
            text = "Ledgers that are not repaired yet."
            yield Sample("bookie_repair_ledgers_pending", "gauge", text, status.ledgers_pending)
        for name, value, text in (
            ("repair_bytes_copied", status.bytes_copied, "Bytes copied from other bookies by this repair."),
            ("repair_entries_copied", status.entries_copied, "Entries copied from other bookies by this repair."),
        ):
            yield Sample(f"bookie_{name}", "gauge", text, value)
        for job, reason in self.rounds.last().items():
            text = "1 while its last round was given up, and its other figures are of one before; the log says why."
            yield Sample("bookie_round_given_up", "gauge", text, int(bool(reason)), (("what", job),))
        if self.admin.drains is not None:
            yield from self.admin.drains[0].samples()
        if self._autorecovery is not None:
            yield from self._autorecovery.samples()
        if self.admin.collection is not None:
            yield from self.admin.collection.samples()
        store = self.admin.store
        if store is not None:
            for name, value in store.stats.as_dict().items():
                kind, suffix = ("gauge", "") if name in GAUGES else ("counter", "_total")
                text = "Of the storage engine (bookie/storage/stats.py)."
                yield Sample(f"bookie_storage_{name}{suffix}", kind, text, value)
            text = "Ledger directories that take no writes any more: this bookie is read-only until a restart."
            yield Sample("bookie_ledger_directories_failed", "gauge", text, len(store.failed_dirs))
            text = "Ledgers whose state here nobody can judge: never a no, no adds (docs/STORAGE.md)."
            yield Sample("bookie_ledgers_quarantined", "gauge", text, len(store.quarantined))
            for path, usage in store.health.disks.items():
                text = "Share of the disk that is used; read-only above diskUsageThreshold."
                yield Sample("bookie_disk_used_share", "gauge", text, usage.used_share, (("directory", path),))
