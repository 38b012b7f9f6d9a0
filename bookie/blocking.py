"""A client without async, for scripts, notebooks and Spark executors: it runs on its own loop thread.

    with blocking.connect("zk+hierarchical://127.0.0.1:2181/ledgers") as client:
        with client.create(password=b"secret") as writer:
            writer.append(b"hello")

A composition root, like `bookie.connect`. Any number of threads may use one client; each call hands its work to the
loop thread and waits. An interrupted call (Ctrl-C) is cancelled there too. A client that should outlive a `with` block
(one per process) is `open_client`, and its owner closes it.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import itertools
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from bookie import connect as connecting
from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import MIB
from bookie.client import Client, Entry, LedgerReader, LedgerWriter, arguments
from bookie.metadata.ledger import LedgerMetadata
from bookie.runtime import loop
from bookie.wire.messages import Buffer

T = TypeVar("T")
_End = BookieError | StopAsyncIteration | None

# Items handed over at once by a finite stream: a hop between threads costs as much as reading a dozen entries.
BATCH = 256
# The same in payload: entries may be large.
BATCH_BYTES = 4 * MIB


class _LoopThread:
    """One client on one loop on one thread."""

    def __init__(self, uri: str, options: dict[str, Any]) -> None:
        self._uri = uri
        self._options = options
        # A daemon: whoever forgets to close a client can still end the process.
        self._thread = threading.Thread(target=self._run, name="bookie client", daemon=True)
        self._running: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._started: concurrent.futures.Future[Client] = concurrent.futures.Future()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    def start(self) -> Client:
        """Start the thread and connect. Raises what `bookie.connect` raises."""
        self._thread.start()
        either: list[concurrent.futures.Future[Any]] = [self._started, self._running]
        concurrent.futures.wait(either, return_when=concurrent.futures.FIRST_COMPLETED)
        if not self._started.done():
            self._thread.join()
            self._running.result()
        return self._started.result()

    @property
    def is_running(self) -> bool:
        return not self._running.done()

    def stop(self) -> None:
        """End the client and wait for its thread. Raises the error that ended the client before, if any."""
        if not self._running.done():
            with contextlib.suppress(RuntimeError):  # it ended in this moment
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._running.result()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop thread; return its result or raise its error."""
        if self._running.done():
            work.close()
            raise errors.ClientClosed("the client is closed")
        assert threading.current_thread() is not self._thread, "the loop thread would wait for itself"
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # does something only when we were interrupted

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the end of an iterator. The garbage collector may call this even on the loop thread."""
        if self._running.done():
            work.close()
        elif threading.current_thread() is self._thread:
            asyncio.run_coroutine_threadsafe(work, self._loop)
        else:
            self.call(work)

    def _run(self) -> None:
        try:
            loop.run(self._main())
        except BaseException as error:  # noqa: BLE001  # raised again in `start` or `stop`
            self._running.set_exception(error)
        else:
            self._running.set_result(None)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with connecting.connect(self._uri, **self._options) as client:
            self._started.set_result(client)
            await self._stop.wait()


@contextlib.contextmanager
def connect(uri: str, **options: Any) -> "Iterator[BlockingClient]":
    """Connect to the cluster at `uri`; `options` are the fields of ClientOptions. Raises as `bookie.connect` does."""
    with contextlib.closing(open_client(uri, **options)) as client:
        yield client


def open_client(uri: str, **options: Any) -> "BlockingClient":
    """Connect without a `with` block: the caller owns the client and calls `close`."""
    thread = _LoopThread(uri, options)
    return BlockingClient(thread.start(), thread)


class BlockingClient:
    """`bookie.client.Client` without async: each call waits for its result."""

    def __init__(self, client: Client, thread: _LoopThread) -> None:
        self._client = client
        self._thread = thread

    @property
    def is_open(self) -> bool:
        return self._thread.is_running

    def close(self) -> None:
        """End the client, its connections and its session. Raises the error that ended the client before, if any."""
        self._thread.stop()

    def create(self, **options: Any) -> "BlockingWriter":
        """See Client.create."""
        return BlockingWriter(self._thread.call(self._client.create(**options)), self._thread)

    def open(self, ledger_id: LedgerId, password: bytes = b"", *, administrative: bool = False) -> "BlockingReader":
        """See Client.open: recovers a ledger that is not closed."""
        work = self._client.open(ledger_id, password, administrative=administrative)
        return BlockingReader(self._thread.call(work), self._thread)

    def open_no_recovery(
        self,
        ledger_id: LedgerId,
        password: bytes = b"",
        *,
        administrative: bool = False,
        confirmed: EntryId | None = None,
    ) -> "BlockingReader":
        """See Client.open_no_recovery."""
        work = self._client.open_no_recovery(ledger_id, password, administrative=administrative, confirmed=confirmed)
        return BlockingReader(self._thread.call(work), self._thread)

    def delete(self, ledger_id: LedgerId) -> None:
        self._thread.call(self._client.delete(ledger_id))

    def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        return self._thread.call(self._client.metadata(ledger_id))

    def ledgers(self) -> Iterator[LedgerId]:
        """Return the ids of all ledgers, ascending."""
        return _iterate(self._thread, self._client.ledgers, BATCH)

    def snapshot(
        self, ledger_ids: Iterable[LedgerId] | None = None, *, unreadable: dict[LedgerId, str] | None = None
    ) -> Iterator[tuple[LedgerId, LedgerMetadata, int]]:
        """See ClusterAdmin.snapshot. `ledger_ids` is consumed here, so it may be an iterator of this client."""
        if ledger_ids is None:
            everything = functools.partial(self._client.admin.snapshot, unreadable=unreadable)
            yield from _iterate(self._thread, everything, BATCH)
            return
        remaining = iter(ledger_ids)
        while batch := list(itertools.islice(remaining, BATCH)):
            some = functools.partial(self._client.admin.snapshot, batch, unreadable=unreadable)
            yield from _iterate(self._thread, some, BATCH)

    def run(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function of the async client on its loop, for calls that have no blocking twin here."""
        return self._thread.call(work(self._client))


class BlockingWriter:
    """`bookie.client.LedgerWriter` without async: each call waits for its result."""

    def __init__(self, writer: LedgerWriter, thread: _LoopThread) -> None:
        self._thread = thread
        self._writer = writer
        self.id = writer.id

    def __enter__(self) -> "BlockingWriter":
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.call(self._writer.__aexit__(exc_type, exc, traceback))

    @property
    def last_confirmed(self) -> EntryId:
        return self._writer.last_confirmed

    @property
    def metadata(self) -> LedgerMetadata:
        return self._writer.metadata

    def append(self, payload: Buffer) -> EntryId:
        return self._thread.call(self._writer.append(payload))

    def append_many(self, payloads: Iterable[Buffer]) -> range:
        """See LedgerWriter.append_many: far faster than as many `append`s."""
        return self._thread.call(self._writer.append_many(payloads))

    def force(self) -> EntryId:
        """See LedgerWriter.force."""
        return self._thread.call(self._writer.force())

    def add_confirmed_entry(self, payload: Buffer) -> EntryId:
        """See LedgerWriter.add_confirmed_entry."""
        return self._thread.call(self._writer.add_confirmed_entry(payload))

    def close(self) -> None:
        self._thread.call(self._writer.close())


class BlockingReader:
    """`bookie.client.LedgerReader` without async: each call waits for its result."""

    def __init__(self, reader: LedgerReader, thread: _LoopThread) -> None:
        self._thread = thread
        self._reader = reader
        self.id = reader.id

    def __enter__(self) -> "BlockingReader":
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def metadata(self) -> LedgerMetadata:
        return self._reader.metadata

    @property
    def is_closed(self) -> bool:
        return self._reader.is_closed

    @property
    def last_confirmed(self) -> EntryId:
        return self._reader.last_confirmed

    last_entry = last_confirmed

    def read(self, first: int, last: int) -> list[Entry]:
        return self._thread.call(self._reader.read(first, last))

    def read_stream(self, first: int, last: int) -> Iterator[Entry]:
        for batch in self.read_batches(first, last):
            yield from batch

    def read_batches(
        self, first: int, last: int, *, count_max: int = BATCH, bytes_max: int = BATCH_BYTES
    ) -> Iterator[list[Entry]]:
        """Yield the entries in lists of at most `count_max`; the entry that reaches `bytes_max` ends its list.

        Yields the entries before an unreadable one first; the next step raises its error.
        """
        count_max = arguments.whole(count_max, "count_max", low=1, high=sys.maxsize)
        bytes_max = arguments.whole(bytes_max, "bytes_max", low=1, high=sys.maxsize)
        return _batches(
            self._thread,
            lambda: self._reader.read_stream(first, last),
            count_max,
            bytes_max,
            lambda entry: len(entry.payload),
        )

    def read_last_confirmed(self) -> EntryId:
        return self._thread.call(self._reader.read_last_confirmed())

    def tail(self, from_entry: int = 0) -> Iterator[Entry]:
        """See LedgerReader.tail: entries as they come."""
        return _iterate(self._thread, lambda: self._reader.tail(from_entry), 1)

    def close(self) -> None:
        self._thread.call(self._reader.close())


def _iterate(thread: _LoopThread, stream: Callable[[], AsyncIterator[T]], count_max: int) -> Iterator[T]:
    """Yield the items of an async iterator, fetched `count_max` at a time; close it when the consumer stops early."""
    for batch in _batches(thread, stream, count_max, count_max, lambda _: 1):
        yield from batch


def _batches(
    thread: _LoopThread,
    stream: Callable[[], AsyncIterator[T]],
    count_max: int,
    weight_max: int,
    weigh: Callable[[T], int],
) -> Iterator[list[T]]:
    """Yield the items of an async iterator in lists, each fetched in one hop to the loop thread; close it when the
    consumer stops early."""
    gathering = _Gathering(stream, count_max, weight_max, weigh)
    try:
        while True:
            items, end = thread.call(gathering.take())
            if items:
                yield items
            if isinstance(end, BookieError):
                raise end
            if end is not None:
                return
    finally:
        thread.finish(gathering.close())


class _Gathering(Generic[T]):
    """Gathers a stream's items in lists, the next one while the caller consumes the last one. Lives on the loop."""

    def __init__(
        self, stream: Callable[[], AsyncIterator[T]], count_max: int, weight_max: int, weigh: Callable[[T], int]
    ) -> None:
        self._stream = stream
        self._count_max = count_max
        self._weight_max = weight_max
        self._weigh = weigh
        self._items: Any = None  # an async generator, once begun
        self._next: asyncio.Task[tuple[list[T], _End]] | None = None

    async def take(self) -> "tuple[list[T], _End]":
        """Return the next list, and the error or end that stopped the stream behind it, if any."""
        if self._items is None:
            self._items = aiter(self._stream())
        gathered = await (self._next or self._gather())
        self._next = None if gathered[1] is not None else asyncio.create_task(self._gather())
        return gathered

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait([self._next])
        if self._items is not None:
            await self._items.aclose()

    async def _gather(self) -> "tuple[list[T], _End]":
        gathered: list[T] = []
        weight = 0
        while len(gathered) < self._count_max and weight < self._weight_max:
            try:
                item = await anext(self._items)
            except (BookieError, StopAsyncIteration) as end:
                return gathered, end
            gathered.append(item)
            weight += self._weigh(item)
        return gathered, None
