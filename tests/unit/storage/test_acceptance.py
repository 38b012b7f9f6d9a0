"""Who may write, under which key, and when a checkpoint is asked for because of new ledgers."""

from collections.abc import Callable

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB
from bookie.sim.node import ProcessEnd
from bookie.storage import limits
from bookie.storage.store import EntryStore
from storage_support import KEY, OTHER_KEY, Bench, Outcome, entry, explicit_lac, put, run
from story_support import story

L = LedgerId(7)
NEVER = 3_600_000  # the next checkpoint that nobody asked for

ASKS: dict[str, Callable[[EntryStore, bytes], object]] = {
    "add": lambda store, key: put(store, L, 0, key=key),
    "recovery": lambda store, key: put(store, L, 0, key=key, is_recovery=True),
    "fence": lambda store, key: store.fence(L, key, Outcome()),
    "LAC": lambda store, key: store.write_lac(L, explicit_lac(L, 3), key, Outcome()),
    "copy": lambda store, key: store.add_copied(L, EntryId(0), entry(L, 0), key),
}


def key_of(store: EntryStore, ledger_id: LedgerId) -> bytes | None:
    facts = store.facts(ledger_id)
    assert facts is not None
    return facts.master_key


# ---- the key of a verified copy -------------------------------------------------------------------------------------


async def quarantined_with_another_key(bench: Bench, store: EntryStore) -> None:
    """Whoever came first gave a key that was not the ledger's; then something of the ledger could not be read."""
    (directory,) = store.partitions
    await bench.put_all(store, L, [0], key=OTHER_KEY)
    directory.table.quarantine(L, "its journal holds nonsense")
    await store.flush()


@story(run, flush_interval_ms=NEVER)
async def test_the_key_of_a_verified_copy_is_that_of_a_quarantined_ledger_and_lasts(bench: Bench) -> None:
    async def repair(store: EntryStore) -> None:
        await quarantined_with_another_key(bench, store)
        store.add_copied(L, EntryId(1), entry(L, 1), KEY)
        assert key_of(store, L) == KEY
        await store.flush()

    async def look(store: EntryStore) -> None:
        assert key_of(store, L) == KEY
        store.clear_limbo(L)
        with pytest.raises(errors.Unauthorized):
            store.fence(L, OTHER_KEY, Outcome())

    await bench.life(repair, end=ProcessEnd.POWER_CUT)
    await bench.life(look)


@story(run)
async def test_a_key_that_no_client_has_is_refused_also_with_a_copy_for_a_quarantined_ledger(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await quarantined_with_another_key(bench, store)
        with pytest.raises(errors.BadRequest):
            store.add_copied(L, EntryId(1), entry(L, 1), bytes(limits.MASTER_KEY_BYTES_MAX + 1))
        assert key_of(store, L) == OTHER_KEY

    await bench.life(work)


# ---- a ledger whose key nobody has said yet -------------------------------------------------------------------------


async def without_key(store: EntryStore) -> None:
    await store.protect([(L, False, False, None)])
    await store.flush()


@pytest.mark.parametrize("ask", ["add", "LAC", "copy"])
@story(run, flush_interval_ms=NEVER)
async def test_a_key_that_comes_later_outlives_the_journal_that_had_it(bench: Bench, *, ask: str) -> None:
    async def first(store: EntryStore) -> None:
        await without_key(store)
        assert key_of(store, L) is None
        if ask == "add":
            await bench.put_all(store, L, [0])
        elif ask == "LAC":
            await bench.write_lac(store, L, 3)
        else:
            store.add_copied(L, EntryId(0), entry(L, 0), KEY)
        await store.flush()

    async def second(store: EntryStore) -> None:
        assert key_of(store, L) == KEY
        with pytest.raises(errors.Unauthorized):
            put(store, L, 1, key=OTHER_KEY)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run, journal_file_bytes_max=4 * KIB, flush_interval_ms=NEVER)
async def test_where_nobody_says_a_key_nothing_goes_to_the_journal_for_it(bench: Bench) -> None:
    """A copy for a ledger whose record has an empty key is taken while the journal is full."""

    async def work(store: EntryStore) -> None:
        await without_key(store)
        await bench.put_all(store, 8, range(3), payload=bytes(2 * KIB))
        bench.fill("/journal", room=10)
        refused = Outcome()
        store.fence(LedgerId(8), KEY, refused)
        await bench.settle(refused)
        assert isinstance(refused.error, errors.DiskFull)

        store.add_copied(L, EntryId(0), entry(L, 0), b"")
        with pytest.raises(errors.BookieReadOnly):
            store.add_copied(L, EntryId(1), entry(L, 1), KEY)
        bench.make_room("/journal")
        await store.flush()

    await bench.life(work)


@pytest.mark.parametrize("ask", ASKS)
@story(run)
async def test_a_key_larger_than_any_clients_is_refused_and_makes_no_ledger(bench: Bench, *, ask: str) -> None:
    key = bytes(limits.MASTER_KEY_BYTES_MAX + 1)

    async def work(store: EntryStore) -> None:
        with pytest.raises(errors.BadRequest):
            ASKS[ask](store, key)
        assert store.facts(L) is None

    await bench.life(work)


@story(run)
async def test_no_ledger_is_made_under_an_id_that_none_can_have(bench: Bench) -> None:
    """Rows of the index are found by an id that counts from 0."""

    async def work(store: EntryStore) -> None:
        with pytest.raises(errors.BadRequest):
            store.fence(LedgerId(-7), KEY, Outcome())
        with pytest.raises(errors.BadRequest):
            store.write_lac(LedgerId(-7), explicit_lac(-7, 3), KEY, Outcome())
        assert store.facts(LedgerId(-7)) is None

    await bench.life(work)


# ---- a writer of a ledger in doubt ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("ask", ["add", "LAC", "fence"])
@story(run)
async def test_a_ledger_in_doubt_that_somebody_asks_for_is_examined_next(
    bench: Bench, *, ask: str, is_known: bool
) -> None:
    async def work(store: EntryStore) -> None:
        if is_known:
            await bench.put_all(store, L, [0])
        await store.doubt_below(100, epoch=3)
        assert store.touched() == []
        if ask == "fence":
            await bench.fence(store, L)
        else:
            with pytest.raises(errors.UnknownLedgerState):
                ASKS[ask](store, KEY)
        assert store.touched() == [L]

    await bench.life(work)


@story(run)
async def test_who_writes_a_lac_to_a_fenced_ledger_in_doubt_is_not_told_that_it_is_unknown(bench: Bench) -> None:
    """The fence goes before the doubt: what a recovery wrote here is answered as ever."""

    async def work(store: EntryStore) -> None:
        await store.doubt_below(100, epoch=3)
        await bench.fence(store, L)
        await bench.write_lac(store, L, 3)

    await bench.life(work)


# ---- new ledgers wait for a checkpoint ------------------------------------------------------------------------------


@story(run, ledgers_dirty_max=40, flush_interval_ms=NEVER)
async def test_half_of_the_new_ledgers_that_may_wait_ask_for_a_checkpoint_whatever_else_changed(bench: Bench) -> None:
    """What changes of known ledgers is counted too: the number that is asked for may never be met as such."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 1000, [0])
        await store.flush()
        done = store.stats.checkpoints
        await bench.put_all(store, 1, [0])
        for ledger_id in range(2, 21):
            await bench.put_all(store, ledger_id, [0])
        await bench.simulation.loop.sleep_ns(10**9)
        assert store.stats.checkpoints == done, "nobody has asked yet"

        await bench.fence(store, 1000)
        await bench.put_all(store, 21, [0])
        await bench.simulation.until(lambda: store.stats.checkpoints > done, "a checkpoint that was asked for")
        assert not store.partitions[0].table.dirty

        for ledger_id in range(30, 51):
            await bench.put_all(store, ledger_id, [0])
        await bench.simulation.until(lambda: store.stats.checkpoints > done + 1, "another one for the next of them")

    await bench.life(work)


@story(run, ledgers_dirty_max=40, flush_interval_ms=NEVER)
async def test_one_checkpoint_is_asked_for_and_not_one_for_each_new_ledger_while_the_disk_is_full(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for ledger_id in range(10):
            await bench.put_all(store, ledger_id, [0])
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()
        failures = store.stats.checkpoint_failures
        for ledger_id in range(100, 130):
            await bench.fence(store, ledger_id)
            await bench.simulation.loop.sleep_ns(10**9)
        assert store.stats.checkpoint_failures == failures + 1

        bench.make_room("/ledgers")
        await store.flush()

    await bench.life(work)
