"""`OrderedStore` on RocksDB, through rocksdict in raw mode. No write-ahead log: durable at `flush`, and only then.

One column family, hence one sequence of memtables: a background flush can make a prefix of the writes durable, never a
later one without the earlier (the port promises that). Small on purpose: an idle bookie holds a few MiB here.
rocksdict raises plain `Exception` with RocksDB's text; it is translated here, once, by that text.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence

import rocksdict

from bookie.base import errors
from bookie.base.units import KIB, MIB
from bookie.ports.ordered_store import Delete, Put
from bookie.runtime.threads import Worker

# Index and filter blocks live in the cache too, so this bounds what reads hold, however large the index grows.
BLOCK_CACHE_BYTES = 16 * MIB
WRITE_BUFFER_BYTES = 8 * MIB
WRITE_BUFFERS = 3
REST_S = 8.0
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


def _translate(directory: str, error: Exception, *, is_write: bool) -> errors.BookieError:
    text = str(error)
    if "Corruption" in text:
        return errors.CorruptFile(f"{directory}: {text}; the index does not check: treat this volume as lost")
    if "No space left" in text:
        return errors.DiskFull(f"{directory}: no space left for the index; free some, or give the volume more")
    if is_write:
        return errors.DiskFailed(f"{directory}: {text}")
    return errors.StorageFailed(f"{directory}: {text}")


class RocksStore:
    """One open database. Reads and writes run on the caller's thread (microseconds); flush and close in our own."""

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
        self._view = view  # what was made to read it, gone with it
        self._write_options = _unlogged()
        self._is_closed = False
        self._rests_until_s = 0.0

    def write(self, batch: Sequence[Put | Delete]) -> None:
        rocks = rocksdict.WriteBatch(raw_mode=True)
        for item in batch:
            if isinstance(item, Put):
                rocks.put(item.key, item.value)
            else:
                rocks.delete(item.key)
        self._write(rocks)

    def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        rocks = rocksdict.WriteBatch(raw_mode=True)
        put = rocks.put
        for key, value in pairs:
            put(key, value)
        self._write(rocks)

    def delete_range(self, start: bytes, end: bytes) -> None:
        rocks = rocksdict.WriteBatch(raw_mode=True)
        rocks.delete_range(start, end)
        self._write(rocks)

    def _write(self, rocks: rocksdict.WriteBatch) -> None:
        self._check_rest()
        try:
            self._database.write(rocks, self._write_options)
        except Exception as error:
            raise self._write_failed(error) from error

    def _write_failed(self, error: Exception) -> errors.BookieError:
        translated = _translate(self._directory, error, is_write=True)
        if isinstance(translated, errors.DiskFull):
            self._rests_until_s = time.monotonic() + REST_S
        return translated

    def _check_rest(self) -> None:
        """After a full disk RocksDB resumes by itself, every 5 s, once 8 MiB are free; but only while nobody writes or
        flushes (seen: half a second between attempts, and it never did). What it could not flush it still holds."""
        if self._rests_until_s and time.monotonic() < self._rests_until_s:
            raise errors.DiskFull(f"{self._directory}: no space left for the index a moment ago; it is tried again")

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._database.get(key)
        except Exception as error:
            raise _translate(self._directory, error, is_write=False) from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            values: list[bytes | None] = self._database.get(list(keys)) or []
        except Exception as error:
            raise _translate(self._directory, error, is_write=False) from error
        return values

    def range(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._pairs(self._cursor(start), end)

    def _cursor(self, key: bytes) -> rocksdict.RdictIter:
        """A cursor at the first key >= `key`; it sees the moment it was made. No bounds are given to RocksDB: through
        rocksdict they are not kept alive as long as the cursor, which then ends anywhere (seen: 459 of 10,000)."""
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
        try:
            await self._worker.call(self._flush)
        except errors.BookieError:
            raise
        except Exception as error:
            raise self._write_failed(error) from error

    def _flush(self) -> None:
        self._database.flush(wait=True)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._worker.call(self._database.close)
        except Exception as error:
            # It flushes at its end, which nobody asked for: on a full disk that fails, and what was flushed is there.
            translated = _translate(self._directory, error, is_write=True)
            if not isinstance(translated, errors.DiskFull):
                raise translated from error
        finally:
            self._worker.stop()
        if self._view is not None:
            self._view.cleanup()


class RocksStores:
    """Opens databases by directory."""

    async def open(self, directory: str) -> RocksStore:
        """Open or create, durably named. Raises RefusedToStart (open elsewhere), CorruptFile, StorageFailed."""
        worker = Worker(f"index {directory}")
        try:
            database = await worker.call(_open, directory)
        except errors.BookieError:
            worker.stop()
            raise
        return RocksStore(directory, database, worker)

    async def open_read_only(self, directory: str) -> RocksStore:
        """Open what a stopped process left. Raises FileMissing, CorruptFile, StorageFailed."""
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
        if "lock" in str(error).lower():
            raise errors.RefusedToStart(f"{directory} is open in another process: one bookie per index") from error
        raise _translate(directory, error, is_write=False) from error
