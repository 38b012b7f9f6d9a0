"""Client: applications, and bookies that repair themselves, use it to talk to a cluster.

It runs unchanged in the real world (`bookie.connect`) and in the simulator. Every task that it starts ends with its
`async with` block.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from types import TracebackType

from bookie.base import asserts, errors
from bookie.base.ids import EntryId, LedgerId
from bookie.client import arguments, cluster
from bookie.client.admin import ClusterAdmin
from bookie.client.net.bookies import BookieClient
from bookie.client.net.free_space import FreeSpace
from bookie.client.net.pool import ConnectionPool
from bookie.client.net.watcher import BookieWatcher
from bookie.client.options import ClientOptions
from bookie.client.read.reader import LedgerReader
from bookie.client.repair import recovery
from bookie.client.shared import Shared
from bookie.client.tasks import Tasks
from bookie.client.write.writer import DEFERRED, DURABILITY_KEY, LedgerWriter
from bookie.metadata import paths
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.ports import World
from bookie.ports.metadata_store import MetadataStore
from bookie.quorum.schedule import Schedule
from bookie.quorum.synced import why_not_deferred
from bookie.wire.digest import DigestType

_CTOKEN_SIZE = 8


class Client:
    """One client of one cluster. `store` shares a session that the caller owns; without it the client has its own."""

    def __init__(self, options: ClientOptions, world: World, *, store: MetadataStore | None = None) -> None:
        self._options = options
        self._world = world
        self._store = store
        self._stack = contextlib.AsyncExitStack()
        self._shared: Shared | None = None
        self._is_closed = False

    async def __aenter__(self) -> "Client":
        """Connect to the metadata store and learn of the bookies. Raises MetadataError, RefusedToStart (also where
        asserts are off), BadInput."""
        if reason := asserts.why_off():
            raise errors.RefusedToStart(reason)
        async with contextlib.AsyncExitStack() as stack:
            store = self._store
            if store is None:
                store = await self._world.metadata_stores.connect(
                    self._options.metadata_uri, session_timeout_ms=self._options.session_timeout_ms
                )
                stack.push_async_callback(store.close)
            uri = paths.parse_uri(self._options.metadata_uri)
            ledgers = await cluster.open_ledgers(store, uri, must_exist=True)
            watcher = BookieWatcher(
                store,
                uri.root,
                self._world.clock,
                known_locations=self._options.locations,
                rack_mapping_path=self._options.rack_mapping_path,
            )
            tasks = await stack.enter_async_context(Tasks())
            pool = ConnectionPool(self._options, self._world, watcher, tasks)
            # Watch before the first look, so that no change falls between.
            tasks.spawn(watcher.run(), "bookie watcher")
            await watcher.load()
            free_space = FreeSpace(BookieClient(pool), watcher, self._world.clock)
            if self._options.weigh_by_free_space:
                tasks.spawn(free_space.run(), "free space")
            self._shared = Shared(self._options, self._world, tasks, ledgers, watcher, pool, free_space)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close connections and the session. Open writers end unclosed, as if the process had died."""
        self._is_closed = True
        await self._stack.__aexit__(exc_type, exc, traceback)

    @property
    def shared(self) -> Shared:
        """The state that all parts of this package share; only inside `async with`. Raises ClientClosed after it."""
        if self._is_closed:
            raise errors.ClientClosed("the client is closed: make the call inside its `async with` block")
        assert self._shared is not None, "use the client inside `async with`"
        return self._shared

    @property
    def bookies(self) -> BookieClient:
        """Sends single requests to single bookies."""
        return BookieClient(self.shared.pool)

    @property
    def admin(self) -> ClusterAdmin:
        return ClusterAdmin(self.shared)

    # ---- ledgers -----------------------------------------------------------------------------------------------------

    async def create(
        self,
        *,
        ensemble_size: int = 3,
        write_quorum: int = 3,
        ack_quorum: int = 2,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom: Mapping[str, bytes] | None = None,
        deferred_sync: bool = False,
        ledger_id: LedgerId | None = None,
    ) -> LedgerWriter:
        """Create a ledger and return its writer. No bookie is contacted yet (spec/wire.md#W47).

        `deferred_sync`: `append` returns before an entry is on disk, and only `LedgerWriter.force` makes entries
        durable and readable. The ledger's metadata records this for its whole life (BP-14). `ledger_id`: the caller's
        choice instead of a fresh one; raises LedgerExists if it is taken.

        Raises BadInput for an unusable argument, for quorums that do not nest, and for quorums that deferred sync does
        not allow; NotEnoughBookies, MetadataError.
        """
        shared = self.shared
        schedule = Schedule(
            arguments.size(ensemble_size, "ensemble_size"),
            arguments.size(write_quorum, "write_quorum"),
            arguments.size(ack_quorum, "ack_quorum"),
        )
        digest_type, password = arguments.digest_type(digest_type), arguments.password(password)
        custom = arguments.custom(custom)
        ledger_id = None if ledger_id is None else arguments.ledger_id(ledger_id)
        arguments.flag(deferred_sync, "deferred_sync")
        if deferred_sync:
            not_deferred = why_not_deferred(schedule, protocol_version=self._options.protocol_version)
            if not_deferred is not None:
                raise not_deferred
            custom[DURABILITY_KEY] = DEFERRED
        elif DURABILITY_KEY in custom:
            raise errors.BadInput(f"custom metadata {DURABILITY_KEY} is set by deferred_sync=True, not by hand")
        if len(shared.watcher.candidates()) < schedule.ensemble_size:
            await shared.watcher.load()
        token = int.from_bytes(self._world.entropy.token(_CTOKEN_SIZE), "big")
        metadata = new_ledger(
            ensemble_size=schedule.ensemble_size,
            write_quorum=schedule.write_quorum,
            ack_quorum=schedule.ack_quorum,
            bookies=shared.new_ensemble(schedule),
            digest_type=digest_type,
            password=password,
            custom=tuple(sorted(custom.items())),
            ctoken=token >> 1 or 1,  # positive, and not "no token" (spec/metadata.md#M14)
        )
        ledger_id = await shared.ledgers.create(metadata, ledger_id)
        gone = await shared.watcher.look(metadata.last_segment.bookies)
        writer = LedgerWriter(shared, ledger_id, metadata, version=0)
        writer.begin_without(gone)
        return writer

    async def open(self, ledger_id: LedgerId, password: bytes = b"", *, administrative: bool = False) -> LedgerReader:
        """Open a ledger to read all of it. Recovers a ledger that is not closed first: this fences off its writer and
        decides its end for ever.

        `administrative`: use the password in the metadata. Raises LedgerMissing, Unauthorized (before it contacts any
        bookie), and the errors of `recovery.recover`.
        """
        ledger_id = arguments.ledger_id(ledger_id)
        metadata, version = await self._admitted(ledger_id, password, administrative=administrative)
        if not metadata.is_closed:
            metadata, version = await recovery.recover(self.shared, ledger_id)
        return LedgerReader(self.shared, ledger_id, metadata, version)

    async def open_no_recovery(
        self,
        ledger_id: LedgerId,
        password: bytes = b"",
        *,
        administrative: bool = False,
        confirmed: EntryId | None = None,
    ) -> LedgerReader:
        """Open a ledger to read its confirmed entries, without disturbing its writer (CONFORMANCE.md#P18).

        `confirmed`: an entry that an earlier call found to be confirmed, for a caller that has planned with it. The
        client then does not ask the bookies again, since a later answer may name a lower entry.
        """
        ledger_id = arguments.ledger_id(ledger_id)
        confirmed = None if confirmed is None else arguments.confirmed(confirmed)
        metadata, version = await self._admitted(ledger_id, password, administrative=administrative)
        async with contextlib.AsyncExitStack() as stack:
            reader = await stack.enter_async_context(LedgerReader(self.shared, ledger_id, metadata, version))
            if confirmed is not None:
                reader.learn(confirmed)
            elif not metadata.is_closed:
                await reader.read_last_confirmed()
            stack.pop_all()  # it is the caller's now
        return reader

    async def delete(self, ledger_id: LedgerId) -> None:
        """Delete a ledger; does nothing if it is gone (spec/wire.md#W67). Bookies reclaim the space by themselves."""
        await self.shared.ledgers.delete(ledger_id)

    async def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        """Return the stored metadata. Raises LedgerMissing."""
        metadata, _ = await self.shared.ledgers.get(ledger_id)
        return metadata

    async def ledgers(self) -> AsyncIterator[LedgerId]:
        """Yield the ids of all ledgers, ascending, at least of those that were made before this call."""
        async for ledger_id in self.shared.ledgers.iterate():
            yield ledger_id

    async def _admitted(
        self, ledger_id: LedgerId, password: bytes, *, administrative: bool
    ) -> tuple[LedgerMetadata, int]:
        """Return the metadata after comparing the password with it, as raw bytes (spec/metadata.md#M21)."""
        password = arguments.password(password)
        arguments.flag(administrative, "administrative")
        metadata, version = await self.shared.ledgers.get(ledger_id)
        if not administrative and metadata.has_password and metadata.password != password:
            raise errors.WrongPassword(f"ledger {ledger_id}: the password is wrong; give the one it was created with")
        return metadata, version
