"""Builders for storage tests: entries, and a bench that runs an `EntryStore` through lives of a simulated node."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar, cast

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import Disk, File
from bookie.ports.ordered_store import DeleteRow, OrderedStore, PutRow
from bookie.sim.faults import Dials
from bookie.sim.node import NodeCrashed, ProcessEnd, Simulation
from bookie.storage import restart
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore

T = TypeVar("T")
KEY = b"k" * 20
OTHER_KEY = b"o" * 20
VOLUMES = ("/journal", "/ledgers", "/index")


def entry(ledger_id: int, entry_id: int, *, lac: int | None = None, payload: bytes = b"payload") -> bytes:
    """An entry as a client sends it (no digest: the bookie does not look at it). LAC: the entry before, by default."""
    confirmed = entry_id - 1 if lac is None else lac
    return struct.pack(">qqqq", ledger_id, entry_id, confirmed, len(payload)) + payload


def explicit_lac(ledger_id: int, lac: int) -> bytes:
    """An explicit LAC as a client sends it, with four bytes in the place of the digest."""
    return struct.pack(">qq", ledger_id, lac) + b"dig!"


def options(**changes: Any) -> StorageOptions:
    """One directory of each kind, each on its own volume."""
    plain: dict[str, Any] = {"journal_dirs": ("/journal",), "ledger_dirs": ("/ledgers",), "index_dirs": ("/index",)}
    return StorageOptions(**{**plain, **changes})


class Outcome:
    """A completion that remembers: `is_done`, and the error if there was one. `wait` for it on a real loop."""

    def __init__(self) -> None:
        self.is_done = False
        self.error: BookieError | None = None
        self._event = asyncio.Event()

    async def wait(self) -> None:
        async with asyncio.timeout(60):
            await self._event.wait()

    def __call__(self, error: BookieError | None) -> None:
        assert not self.is_done, "completed twice"
        self.is_done = True
        self.error = error
        self._event.set()

    @property
    def is_ok(self) -> bool:
        return self.is_done and self.error is None


def put(
    store: EntryStore,
    ledger_id: int,
    entry_id: int,
    *,
    key: bytes = KEY,
    is_recovery: bool = False,
    **shape: Any,
) -> Outcome:
    """Hand one entry to the store."""
    outcome = Outcome()
    store.add(
        LedgerId(ledger_id),
        [EntryId(entry_id)],
        [entry(ledger_id, entry_id, **shape)],
        key,
        is_recovery=is_recovery,
        done=outcome,
    )
    return outcome


class Watched:
    """A store that first shows what is to be put, and the range that is to go."""

    def __init__(self, store: OrderedStore, look: Callable[[Sequence[tuple[bytes, bytes]]], None]) -> None:
        self._store = store
        self._look = look

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def delete_range(self, start: bytes, end: bytes) -> None:
        self._look([(start, end)])
        self._store.delete_range(start, end)

    def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._look(pairs)
        self._store.put_many(pairs)

    def write(self, batch: Sequence[PutRow | DeleteRow]) -> None:
        self._look([(change.key, change.value) for change in batch if isinstance(change, PutRow)])
        self._store.write(batch)


def watched(store: OrderedStore, look: Callable[[Sequence[tuple[bytes, bytes]]], None]) -> OrderedStore:
    return cast(OrderedStore, Watched(store, look))


class ShortDisk:
    """A disk that has no descriptor for an entry log, as long as it is told so."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.is_short = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    async def open(self, path: str, **how: Any) -> File:
        if self.is_short and path.endswith(".log"):
            raise errors.OutOfResources("no descriptor")
        return await self._disk.open(path, **how)


class Bench:
    """One simulated machine with a store on it. Each `life` opens the store, works, and ends as it is told."""

    def __init__(self, seed: int | str = 1, *, dials: Dials | None = None, **changes: Any) -> None:
        self.simulation = Simulation(seed, dials=dials)
        self.node = self.simulation.node("bookie", VOLUMES)
        self.options = options(**changes)
        self.failures: list[BookieError] = []
        self.was_clean: bool | None = None

    def change(self, **changes: Any) -> None:
        """Other options from the next life on."""
        self.options = options(**changes)

    async def life(
        self,
        work: Callable[[EntryStore], Awaitable[T]],
        *,
        end: ProcessEnd = ProcessEnd.EXIT,
        accept_loss: bool = False,
        must_exist: bool = False,
        grow_from: int | None = None,
    ) -> T:
        """Start a process, open the store, await `work(store)`, end the process. Raises NodeCrashed when it died."""
        world = self.node.begin()

        async def run() -> T:
            store = await restart.open_store(
                self.options,
                world,
                fail=self.failures.append,
                accept_loss=accept_loss,
                must_exist=must_exist,
                grow_from=grow_from,
            )
            result = await work(store)
            if end is ProcessEnd.EXIT:
                self.was_clean = await store.close()
            return result

        try:
            return await self.node.do(run())
        finally:
            if self.node.life is not None:
                self.node.end(end)

    async def dies(
        self, work: Callable[[EntryStore], Awaitable[Any]], *, operation: int, how: ProcessEnd, **rules: Any
    ) -> bool:
        """A life whose power fails (or that is killed) at its n-th disk operation. False: it came to its end before."""
        begin = self.node.begin

        def begin_doomed() -> Any:
            world = begin()
            self.node.crash_at_operation(operation, how)
            return world

        self.node.begin = begin_doomed  # type: ignore[method-assign]
        try:
            await self.life(work, end=how, **rules)
        except NodeCrashed:
            return True
        finally:
            self.node.begin = begin  # type: ignore[method-assign]
        return False

    async def settle(self, *outcomes: Outcome) -> None:
        """Wait until every outcome is there."""
        await self.simulation.until(lambda: all(outcome.is_done for outcome in outcomes), "completions")

    async def put_all(self, store: EntryStore, ledger_id: int, entry_ids: Iterable[int], **shape: Any) -> None:
        """Add entries and wait for their acknowledgement."""
        outcomes = [put(store, ledger_id, entry_id, **shape) for entry_id in entry_ids]
        await self.settle(*outcomes)
        assert all(outcome.is_ok for outcome in outcomes), [outcome.error for outcome in outcomes]

    async def fence(self, store: EntryStore, ledger_id: int, key: bytes = KEY) -> None:
        """Fence and wait until that is durable."""
        outcome = Outcome()
        store.fence(LedgerId(ledger_id), key, outcome)
        await self.settle(outcome)
        assert outcome.is_ok, outcome.error

    async def write_lac(self, store: EntryStore, ledger_id: int, lac: int, key: bytes = KEY) -> None:
        """Write an explicit LAC and wait until that is durable."""
        outcome = Outcome()
        store.write_lac(LedgerId(ledger_id), explicit_lac(ledger_id, lac), key, outcome)
        await self.settle(outcome)
        assert outcome.is_ok, outcome.error

    async def look(self, work: Coroutine[Any, Any, T]) -> T:
        """A process that opens no store: `work` uses `node.world` as it likes."""
        self.node.begin()
        try:
            return await self.node.do(work)
        finally:
            self.node.end(ProcessEnd.EXIT)

    async def read(self, store: EntryStore, ledger_id: int, entry_id: int) -> bytes:
        """Read as the server does: without waiting if that is possible."""
        (body,) = store.read_run_nowait(LedgerId(ledger_id), [EntryId(entry_id)])
        if body is None:
            (found,) = await store.read_many(LedgerId(ledger_id), [EntryId(entry_id)])
            if isinstance(found, BookieError):
                raise found
            body = found
        return bytes(body)

    def rot(self, path: str, offset: int, bit: int = 0) -> None:
        """Flip one bit of a file, durably. A negative offset counts from the end."""
        image = self.image(path)
        image.data[offset] ^= 1 << bit
        image.durable[offset] ^= 1 << bit

    def rot_entry(self, store: EntryStore, ledger_id: int, entry_id: int) -> None:
        """Flip one bit in the bytes of an entry that is in the index; there is one directory, with one log."""
        (partition,) = store.partitions
        location = partition.index.locate(LedgerId(ledger_id), EntryId(entry_id))
        assert location is not None
        self.rot(".log", location.offset + 100)

    def fill(self, volume: str, *, room: int = 0) -> None:
        """Leave `room` bytes on a volume."""
        image = self.node.image.volumes[volume]
        image.total_bytes = image.used_bytes + room

    def make_room(self, volume: str) -> None:
        """Give a volume far more space than any test uses."""
        self.node.image.volumes[volume].total_bytes = 1 << 40

    def image(self, path: str) -> Any:
        """The one file whose path ends in `path`; the last of them when there are several."""
        found = [
            file
            for volume in self.node.image.volumes.values()
            for name, file in volume.root.files(volume.path)
            if name.endswith(path)
        ]
        assert found, f"no file {path}"
        return found[-1]

    def paths(self, suffix: str = "") -> list[str]:
        """Every file's path, in order."""
        return [
            name
            for volume in self.node.image.volumes.values()
            for name, _ in volume.root.files(volume.path)
            if name.endswith(suffix)
        ]


def run(story: Callable[[Bench], Awaitable[T]], bench: Bench | Callable[..., Bench] = Bench, **options: Any) -> T:
    """Run one story to its end: on `bench`, or on one made by it with `options`."""
    the_bench = bench if isinstance(bench, Bench) else bench(**options)

    async def whole() -> T:
        return await story(the_bench)

    return the_bench.simulation.run(whole())
