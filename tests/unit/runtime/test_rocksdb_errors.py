"""What an index does with RocksDB's errors. The database is played; a real one stands in tests/integration/storage."""

from typing import Any, cast

import pytest

from bookie.base import errors
from bookie.ports.ordered_store import PutRow
from bookie.runtime.rocksdb import RocksStore
from bookie.runtime.threads import Worker
from story_support import in_a_loop

CORRUPT = "Corruption: block checksum mismatch"
FULL = "IO error: No space left on device"
OTHER = "IO error: dead"


class Database:
    """A database with two keys. `trouble`: what each call fails with; a cursor behind its first key."""

    def __init__(self) -> None:
        self.trouble = ""
        self.asked: list[str] = []

    def _ask(self, name: str) -> None:
        self.asked.append(name)
        if self.trouble:
            raise Exception(self.trouble)  # as rocksdict: it has no kinds of errors

    def write(self, *_: object) -> None:
        self._ask("write")

    def get(self, _: object) -> bytes:
        self._ask("get")
        return b"value"

    def close(self) -> None:
        self._ask("close")

    def iter(self) -> "Cursor":
        return Cursor(self)


class Cursor:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._keys = [b"a"] if database.trouble else [b"a", b"b"]

    def seek(self, key: bytes) -> None:
        pass

    def seek_for_prev(self, key: bytes) -> None:
        self._keys = [] if self._database.trouble else self._keys[-1:]

    def valid(self) -> bool:
        return bool(self._keys)

    def key(self) -> bytes:
        return self._keys[0]

    def value(self) -> bytes:
        return b"value"

    def next(self) -> None:
        del self._keys[0]

    def status(self) -> None:
        if self._database.trouble:
            raise Exception(self._database.trouble)


def a_store() -> tuple[RocksStore, Database]:
    database = Database()
    return RocksStore("/index", cast(Any, database), Worker("index")), database


@in_a_loop
async def test_a_block_that_cannot_be_read_is_no_end_of_what_there_is() -> None:
    """The entries behind it would be denied."""
    store, database = a_store()
    assert [key for key, _ in store.range(b"a", b"z")] == [b"a", b"b"]
    assert store.last_in(b"a", b"z") == (b"b", b"value")

    database.trouble = CORRUPT
    found = store.range(b"a", b"z")
    assert next(found)[0] == b"a"
    with pytest.raises(errors.CorruptFile, match="/index"):
        next(found)
    with pytest.raises(errors.CorruptFile, match="/index"):
        store.last_in(b"a", b"z")

    database.trouble = ""
    await store.close()


@pytest.mark.parametrize(
    ("trouble", "of_a_write", "of_a_read"),
    [
        (CORRUPT, errors.CorruptFile, errors.CorruptFile),
        (OTHER, errors.DiskFailed, errors.StorageFailed),
        ("IO error: Too many open files", errors.OutOfResources, errors.OutOfResources),
        (FULL, errors.DiskFull, errors.DiskFull),
    ],
)
@in_a_loop
async def test_an_error_ends_the_node_only_where_a_write_failed_for_no_known_reason(
    *, trouble: str, of_a_write: type[errors.BookieError], of_a_read: type[errors.BookieError]
) -> None:
    store, database = a_store()
    database.trouble = trouble

    with pytest.raises(errors.BookieError) as read:
        store.get(b"a")
    with pytest.raises(errors.BookieError) as wrote:
        store.write([PutRow(b"a", b"1")])

    assert (type(wrote.value), type(read.value)) == (of_a_write, of_a_read)
    database.trouble = ""
    await store.close()


@in_a_loop
async def test_after_a_full_disk_the_database_is_left_in_peace_for_a_while() -> None:
    """It tries again by itself, but only while nobody writes or flushes."""
    store, database = a_store()
    database.trouble = FULL
    with pytest.raises(errors.DiskFull):
        store.write([PutRow(b"a", b"1")])
    database.asked.clear()

    with pytest.raises(errors.DiskFull, match="a moment ago"):
        store.write([PutRow(b"a", b"1")])
    with pytest.raises(errors.DiskFull, match="a moment ago"):
        await store.flush()

    assert database.asked == []
    await store.close()  # that nothing was written at its end was told before
    assert database.asked == ["close"]


@in_a_loop
async def test_a_database_that_fails_at_its_end_says_so() -> None:
    store, database = a_store()
    database.trouble = CORRUPT

    with pytest.raises(errors.CorruptFile):
        await store.close()
