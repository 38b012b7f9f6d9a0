"""`OrderedStore` on RocksDB, through rocksdict in raw mode. It has no write-ahead log: only `flush` makes writes
durable.

One column family, hence one sequence of memtables: a background flush can make a prefix of the writes durable, never a
later one without the earlier (the port promises that). Small on purpose: an idle bookie holds a few MiB here.
rocksdict raises plain `Exception` with RocksDB's text; it is translated here, once, by that text.

When no descriptor is left, RocksDB takes a flush for a failed disk, for ever (seen). So this module also keeps what was
written since the last flush. When there are descriptors again, it closes and opens the database and writes all of that
in one batch: as if only the database had crashed, and nothing is missing.
"""

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import rocksdict

from bookie.base import errors
from bookie.base.units import KIB, MIB
from bookie.ports.ordered_store import DeleteRow, PutRow
from bookie.runtime.look_pace import LookPace
from bookie.runtime.read_pool import ReadPool
from bookie.runtime.threads import Worker

# Index and filter blocks live in the cache too, so this bounds what reads hold, however large the index grows.
BLOCK_CACHE_BYTES = 16 * MIB
WRITE_BUFFER_BYTES = 8 * MIB
WRITE_BUFFERS = 3
# Files of a flush each before they are merged into what lies below, all of which is written anew then. With 100,000
# ledgers in turn merging cost 1.8 us an add with 4, 1.1 with 8, 0.7 with 16 (docs/SPEED.md); each is one to look into.
FRESH_FILES = 8
REST_S = 8.0
# Free descriptors without which it is not opened again: of what it opens at a start, most.
HEADROOM = 16
BLOOM_BITS_PER_KEY = 10  # 1 % of missing keys cost a block read


def _options() -> rocksdict.Options:
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(BLOCK_CACHE_BYTES))
    table.set_block_size(16 * KIB)
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(WRITE_BUFFERS)
    options.set_level_zero_file_num_compaction_trigger(FRESH_FILES)
    options.set_max_background_jobs(2)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_open_files(512)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 * MIB)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def _unlogged() -> rocksdict.WriteOptions:
    options = rocksdict.WriteOptions()
    options.disable_wal = True  # type: ignore[assignment, method-assign]  # a property; the stub says method
    return options


_SHORT = ("Too many open files", "Cannot allocate memory")


# RocksDB's words for a LOCK that another store of this process has, or another process. "lock" alone is in paths, and
# in what it says of a rotten block.
_HELD = re.compile("lock hold by current process|While lock file: .*: Resource temporarily unavailable")


def _translate(directory: str, error: Exception, *, is_write: bool) -> errors.BookieError:
    text = str(error)
    if "Corruption" in text:
        return errors.CorruptFile(f"{directory}: {text}; the index is corrupt; {errors.TREAT_AS_LOST}")
    if any(words in text for words in _SHORT):
        return errors.OutOfResources(f"{directory}: {text}")
    if "No space left" in text:
        return errors.DiskFull(f"{directory}: no space left for the index; free some, or give the volume more")
    if is_write:
        return errors.DiskFailed(f"{directory}: {text}")
    return errors.StorageFailed(f"{directory}: {text}")


class _Range(NamedTuple):
    """The deletion of all keys from `start` to `end` (exclusive)."""

    start: bytes
    end: bytes


_Change = _Range | Sequence[PutRow | DeleteRow] | Sequence[tuple[bytes, bytes]]


def _put_into(rocks: rocksdict.WriteBatch, change: _Change) -> None:
    if isinstance(change, _Range):
        rocks.delete_range(change.start, change.end)
        return
    put = rocks.put
    for item in change:
        if isinstance(item, tuple):
            key, value = item
            put(key, value)
        elif isinstance(item, PutRow):
            put(item.key, item.value)
        else:
            rocks.delete(item.key)


def _has_descriptors(count: int) -> bool:
    """Return True when so many descriptors are free just now."""
    held: list[int] = []
    try:
        for _ in range(count):
            held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    else:
        return True
    finally:
        for fd in held:
            os.close(fd)


class RocksStore:
    """One open database. Reads and writes run on the caller's thread (microseconds); flush and close in our own, and in
    others what `warm` reads where a look would wait for the disk."""

    def __init__(
        self,
        directory: str,
        database: rocksdict.Rdict,
        worker: Worker,
        view: "tempfile.TemporaryDirectory[str] | None" = None,
    ) -> None:
        self._directory = directory
        self._database = database
        self._worker = worker
        self._pace = LookPace()
        self.is_slow: Callable[[], bool] = self._pace.must_wait  # no call between: every read asks
        self._warmers: ReadPool[bytes] = ReadPool(f"looks {directory}")
        self._warming = 0
        self._view = view  # what was made to read it, gone with it
        self._write_options = _unlogged()
        self._is_closed = False
        self._rests_until_s = 0.0
        self._unflushed: list[_Change] = []  # in the order written
        self._flushed_count = 0  # changes before those
        self._is_stuck = False  # it met a shortage, and says so whatever is asked of it now
        self._flushing = 0  # flushes under way: the checkpoint's, and those of marks beside it

    def write(self, batch: Sequence[PutRow | DeleteRow]) -> None:
        self._write(batch)

    def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._write(pairs)

    def delete_range(self, start: bytes, end: bytes) -> None:
        self._write(_Range(start, end))

    def _write(self, change: "_Change") -> None:
        self._check_rest()
        self._open_anew_if_stuck()
        rocks = rocksdict.WriteBatch(raw_mode=True)
        _put_into(rocks, change)
        try:
            self._database.write(rocks, self._write_options)
        except Exception as error:
            raise self._write_failed(error) from error
        self._unflushed.append(change)

    def _write_failed(self, error: Exception) -> errors.BookieError:
        translated = _translate(self._directory, error, is_write=True)
        if isinstance(translated, errors.DiskFull):
            self._rests_until_s = time.monotonic() + REST_S
        elif isinstance(translated, errors.OutOfResources):
            self._is_stuck = True
        return translated

    def _open_anew_if_stuck(self) -> None:
        """Close and open a database that is stuck, and write again what was not flushed. It blocks the loop for some
        tens of milliseconds, so that no read comes between.

        CRASH: only what had been flushed is on the disk, or a prefix of what follows; all of that is in the batch.
        """
        if not self._is_stuck:
            return
        if self._flushing or self._warming or not _has_descriptors(HEADROOM):
            raise errors.OutOfResources(
                f"{self._directory}: the index waits for free descriptors; the bookie tries again by itself"
            )
        rocks = rocksdict.WriteBatch(raw_mode=True)
        for change in self._unflushed:
            _put_into(rocks, change)
        with contextlib.suppress(Exception):  # it flushes at its end, and says once more what it said before
            self._database.close()
        try:
            self._database = rocksdict.Rdict(self._directory, _options())
            self._database.write(rocks, self._write_options)
        except Exception as error:
            raise errors.OutOfResources(f"{self._directory}: the index could not be opened again: {error}") from error
        self._is_stuck = False

    def _check_rest(self) -> None:
        """Raise while RocksDB must rest after a full disk. It resumes by itself, tried every 5 s, once 8 MiB are free;
        but only while nobody writes or flushes (seen: half a second between attempts, and it never did). It still holds
        what it could not flush."""
        if self._rests_until_s and time.monotonic() < self._rests_until_s:
            raise errors.DiskFull(
                f"{self._directory}: no space was left for the index a moment ago; the bookie tries again by itself"
            )

    def get(self, key: bytes) -> bytes | None:
        began_ns = time.perf_counter_ns() if self._pace.is_timed else 0
        try:
            value: bytes | None = self._database.get(key)
        except Exception as error:
            raise _translate(self._directory, error, is_write=False) from error
        if began_ns:
            self._pace.took(time.perf_counter_ns() - began_ns, 1)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        began_ns = time.perf_counter_ns() if self._pace.is_timed else 0
        try:
            values: list[bytes | None] = self._database.get(list(keys)) or []
        except Exception as error:
            raise _translate(self._directory, error, is_write=False) from error
        if began_ns:
            self._pace.took(time.perf_counter_ns() - began_ns, len(keys))
        return values

    async def warm(self, keys: Sequence[bytes]) -> None:
        if self._is_closed or not keys:
            return
        self._warming += 1
        try:
            with contextlib.suppress(errors.OutOfResources):  # no thread now: who looks next waits for the disk himself
                await self._warmers.read(self._look, keys)
        finally:
            self._warming -= 1

    def _look(self, keys: Sequence[bytes]) -> list[bytes]:
        """Read the rows of keys. For a list rocksdict lets go of the interpreter's lock meanwhile; for one key alone it
        does not."""
        with contextlib.suppress(Exception):  # who looks next meets it too, and is told there
            self._database.get(list(keys))
        return [b""] * len(keys)

    def range(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._pairs(self._cursor(start), end)

    def _cursor(self, key: bytes) -> rocksdict.RdictIter:
        """Return a cursor at the first key >= `key`; it sees the database as it was when the cursor was made. RocksDB
        gets no bounds: rocksdict frees them before the cursor, which then ends anywhere (seen: 459 of 10,000)."""
        try:
            cursor = self._database.iter()
            cursor.seek(key)
        except Exception as error:
            raise _translate(self._directory, error, is_write=False) from error
        return cursor

    def _pairs(self, cursor: rocksdict.RdictIter, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            while cursor.valid() and (key := cursor.key()) < end:
                yield key, cursor.value()
                cursor.next()
            cursor.status()  # raises what ended the iteration early: a bad block is not an end
        except Exception as error:
            raise _translate(self._directory, error, is_write=False) from error

    def last_in(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        try:
            cursor = self._database.iter()
            cursor.seek_for_prev(end)
            if cursor.valid() and cursor.key() == end:
                cursor.prev()
            pair = (cursor.key(), cursor.value()) if cursor.valid() and cursor.key() >= start else None
            cursor.status()
        except Exception as error:
            raise _translate(self._directory, error, is_write=False) from error
        return pair

    async def flush(self) -> None:
        self._check_rest()
        self._open_anew_if_stuck()
        end_count = self._flushed_count + len(self._unflushed)
        self._flushing += 1
        try:
            await self._worker.call(self._flush)
        except errors.BookieError:
            raise
        except Exception as error:
            raise self._write_failed(error) from error
        finally:
            self._flushing -= 1
        count = max(0, end_count - self._flushed_count)  # a flush that began before may have counted some of them
        del self._unflushed[:count]
        self._flushed_count += count

    def _flush(self) -> None:
        self._database.flush(wait=True)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._warmers.stop()
        try:
            await self._worker.call(self._database.close)
        except Exception as error:
            # It flushes at its end, which nobody asked for: on a full disk that fails, and what was flushed is there.
            translated = _translate(self._directory, error, is_write=True)
            if not isinstance(translated, errors.DiskFull | errors.OutOfResources):
                raise translated from error
        finally:
            self._worker.stop()
        if self._view is not None:
            self._view.cleanup()


class RocksStores:
    """Opens databases by directory."""

    async def open(self, directory: str) -> RocksStore:
        """Open the database, or create it with a durable name. Raises RefusedToStart (open elsewhere), CorruptFile,
        StorageFailed."""
        worker = Worker(f"index {directory}")
        try:
            database = await worker.call(_open, directory)
        except errors.BookieError:
            worker.stop()
            raise
        return RocksStore(directory, database, worker)

    async def open_read_only(self, directory: str) -> RocksStore:
        """Open the database of a stopped process. Raises FileMissing, CorruptFile, StorageFailed."""
        view = tempfile.TemporaryDirectory(prefix="bookie-index-")
        worker = Worker(f"index {directory}")
        try:
            database = await worker.call(_open_view, directory, view.name)
        except errors.BookieError:
            worker.stop()
            view.cleanup()
            raise
        return RocksStore(directory, database, worker, view)


def _open_view(directory: str, view: str) -> rocksdict.Rdict:
    """Open a folder of links to the database's files: rocksdict rewrites a file of its own even when it only reads."""
    try:
        if not os.path.exists(f"{directory}/CURRENT"):
            raise errors.FileMissing(f"{directory}: there is no index")
        for name in os.listdir(directory):
            if name != "rocksdict-config.json":
                os.symlink(os.path.abspath(f"{directory}/{name}"), f"{view}/{name}")
    except OSError as error:
        raise errors.StorageFailed(f"{directory}: {error.strerror}") from error
    try:
        return rocksdict.Rdict(view, _options(), access_type=rocksdict.AccessType.read_only())
    except Exception as error:
        raise _translate(directory, error, is_write=False) from error


def _open(directory: str) -> rocksdict.Rdict:
    try:
        os.makedirs(directory, exist_ok=True)
        fd = os.open(os.path.dirname(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise errors.StorageFailed(f"{directory}: {error.strerror}") from error
    try:
        return rocksdict.Rdict(directory, _options())
    except Exception as error:
        if _HELD.search(str(error)):
            raise errors.RefusedToStart(f"{directory} is open in another process: one bookie per index") from error
        raise _translate(directory, error, is_write=False) from error
