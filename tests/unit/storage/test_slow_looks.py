"""Reads while looks into the index wait for its disk: no look without what `warm` brought, and the same answers."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LAST_ENTRY, EntryId, LedgerId
from bookie.ports.ordered_store import OrderedStore
from bookie.sim.disk import DiskFaults
from bookie.sim.faults import Dials
from bookie.storage import reads
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, entry, run
from story_support import story

COUNT = 600
LEDGER = LedgerId(7)
Told = bytes | type[BookieError]
Ask = Callable[[EntryStore, int], Awaitable[Told]]


def slow(**changes: Any) -> Bench:
    faults = DiskFaults(must_wait_percent=0, are_looks_slow=True)
    return Bench(dials=Dials(disk=lambda name: faults), **changes)


class Watched:
    """An ordered store whose single looks are told; everything else goes to it as it is."""

    def __init__(self, store: OrderedStore) -> None:
        self._store = store
        self.warm_keys: set[bytes] = set()
        self.cold_looks: list[bytes] = []
        self.warms: list[int] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _looked(self, keys: Sequence[bytes]) -> None:
        self.cold_looks += [key for key in keys if key not in self.warm_keys]

    def get(self, key: bytes) -> bytes | None:
        self._looked([key])
        return self._store.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._looked(keys)
        return self._store.get_many(keys)

    async def warm(self, keys: Sequence[bytes]) -> None:
        self.warms.append(len(keys))
        await self._store.warm(keys)
        self.warm_keys.update(keys)
        self.meanwhile()


def watch(store: EntryStore) -> Watched:
    index = store.partitions[0].index
    watched = Watched(index.store)
    index.store = cast(OrderedStore, watched)
    return watched


async def stored(bench: Bench, store: EntryStore, count: int = COUNT) -> None:
    await bench.put_all(store, 7, range(count))
    await store.flush()


def forget_ledgers(store: EntryStore) -> None:
    """Let the table ask the index for its ledgers again, as beyond `cached_max` of them."""
    store.partitions[0].table.known.clear()


@story(run, slow)
async def test_a_read_looks_at_nothing_that_was_not_brought_first(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        forget_ledgers(store)
        watched = watch(store)
        assert store.read_nowait(LEDGER, EntryId(5)) is None
        assert store.read_run_nowait(LEDGER, [EntryId(5), EntryId(6)]) == [None, None]
        assert not watched.cold_looks
        assert bytes(await store.read(LEDGER, EntryId(5))) == entry(7, 5)
        wanted = [EntryId(number) for number in (500, 17, 599, 18)]
        assert [bytes(cast(bytes, body)) for body in await store.read_many(LEDGER, wanted)] == [
            entry(7, number) for number in wanted
        ]
        assert not watched.cold_looks

    await bench.life(work)


@story(run, slow)
async def test_what_is_in_memory_needs_no_look(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store, 1)
        await bench.put_all(store, 7, [900])
        watched = watch(store)
        assert store.read_nowait(LEDGER, EntryId(900)) == entry(7, 900)
        assert store.read_run_nowait(LEDGER, [EntryId(900)]) == [entry(7, 900)]
        assert await store.read(LEDGER, EntryId(900)) == entry(7, 900)
        assert watched.warms == []
        assert await store.read_many(LEDGER, [EntryId(900)]) == [entry(7, 900)]
        assert not watched.cold_looks

    await bench.life(work)


@story(run, slow)
async def test_a_long_batch_is_answered_a_part_at_a_time(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        watched = watch(store)
        wanted = [EntryId(number) for number in range(0, COUNT, 2)]
        found = await store.read_many(LEDGER, wanted)
        assert len(found) == reads._WARM_COUNT < len(wanted)
        assert [bytes(cast(bytes, body)) for body in found] == [entry(7, number) for number in wanted[: len(found)]]
        assert watched.warms[0] == 1 + 2 * len(found) // 32

    await bench.life(work)


async def _alone(store: EntryStore, entry_id: int) -> Told:
    try:
        return bytes(await store.read(LEDGER, EntryId(entry_id)))
    except BookieError as error:
        return type(error)


async def _in_a_batch(store: EntryStore, entry_id: int) -> Told:
    (found,) = await store.read_many(LEDGER, [EntryId(entry_id)])
    return type(found) if isinstance(found, BookieError) else bytes(found)


async def _told(store: EntryStore, entry_id: int) -> list[Told]:
    return [await ask(store, entry_id) for ask in (_alone, _in_a_batch)]


@story(run, slow)
async def test_absent_and_unknown_are_told_as_ever(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        assert await _told(store, 3) == [errors.NoSuchLedger] * 2
        await stored(bench, store, 5)
        assert await _told(store, 8) == [errors.NoSuchEntry] * 2
        assert await _told(store, LAST_ENTRY) == [entry(7, 4)] * 2
        await store.protect([(LEDGER, True, True, None)], epoch=1)
        assert await _told(store, 8) == [errors.UnknownLedgerState] * 2
        assert await _told(store, 3) == [entry(7, 3)] * 2
        for ledger_id, entry_id in ((-5, 3), (7, -9)):
            with pytest.raises(BookieError):
                await store.read(LedgerId(ledger_id), EntryId(entry_id))

    await bench.life(work)


def _overwrite(store: EntryStore) -> None:
    store.add_copied(LEDGER, EntryId(3), entry(7, 3, payload=b"newer"), KEY)


def _delete(store: EntryStore) -> None:
    store.delete_ledger(LEDGER)


@pytest.mark.parametrize("asks", [_alone, _in_a_batch])
@pytest.mark.parametrize(
    ("change", "expected"), [(_overwrite, entry(7, 3, payload=b"newer")), (_delete, errors.NoSuchLedger)]
)
@story(run, slow)
async def test_what_changed_while_the_disk_was_waited_for_counts(
    bench: Bench, *, asks: Ask, change: Callable[[EntryStore], None], expected: Told
) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store, 5)
        watched = watch(store)
        watched.meanwhile = functools.partial(change, store)
        assert await asks(store, 3) == expected
        assert len(watched.warms) == 1

    await bench.life(work)
