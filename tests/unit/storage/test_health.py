"""How full the disks are, as it is measured: played disks, nothing else of a store."""

import types
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.ports.disk import Disk, Usage
from bookie.storage.health import StorageHealth
from storage_support import options
from story_support import in_a_loop

JOURNAL, LEDGERS, INDEX = "/journal", "/ledgers", "/index"


class Disks:
    """Each directory's disk: how much of a hundred bytes is free; None: it does not say."""

    def __init__(self) -> None:
        self.free: dict[str, int | None] = {JOURNAL: 90, LEDGERS: 80, INDEX: 70}

    async def usage(self, directory: str) -> Usage:
        free = self.free[directory]
        if free is None:
            raise errors.StorageFailed(f"{directory}: statfs: Input/output error")
        return Usage(100, free)


def journal(*, is_suspended: bool = False) -> Any:
    return types.SimpleNamespace(directory=JOURNAL, is_suspended=is_suspended)


def measuring(
    journals: Sequence[Any] = (), failures: list[BookieError] | None = None, **changes: Any
) -> tuple[StorageHealth, Disks]:
    def fail(error: BookieError) -> None:
        assert failures is not None, error
        failures.append(error)

    disks, chosen = Disks(), options(**changes)
    partitions = [
        types.SimpleNamespace(number=number, failure=None, flushing=None, active=types.SimpleNamespace(size_bytes=0))
        for number in range(len(chosen.ledger_dirs))
    ]
    health = StorageHealth(chosen, cast(Disk, disks), cast(Any, partitions), journals, fail=fail)
    return health, disks


@in_a_loop
async def test_a_disk_that_does_not_say_how_full_it_is_has_no_figure_not_that_of_before() -> None:
    health, disks = measuring()
    await health.measure()
    assert {name: usage.free_bytes for name, usage in health.disks.items()} == {JOURNAL: 90, LEDGERS: 80, INDEX: 70}

    disks.free[LEDGERS] = None
    await health.measure()
    assert health.disks.keys() == {JOURNAL, INDEX}
    assert not health.is_disk_full

    disks.free[LEDGERS] = 60
    await health.measure()
    assert health.disks[LEDGERS].free_bytes == 60


@pytest.mark.parametrize("fullest", [JOURNAL, LEDGERS, INDEX])
@in_a_loop
async def test_the_fullest_disk_decides_wherever_it_stands_and_is_named(*, fullest: str) -> None:
    health, disks = measuring()
    disks.free[fullest] = 1
    await health.measure()

    assert health.is_disk_full
    assert fullest in health.why_read_only
    assert not any(other in health.why_read_only for other in disks.free if other != fullest)


@in_a_loop
async def test_a_disk_that_was_full_takes_adds_again_only_well_below_the_bound() -> None:
    health, disks = measuring(disk_used_max=0.95, disk_used_again=0.9)
    seen = []
    for free in (6, 4, 6, 9, 11, 6):
        disks.free[LEDGERS] = free
        await health.measure()
        seen.append(health.is_disk_full)

    assert seen == [False, True, True, True, False, False]


@in_a_loop
async def test_a_directory_that_takes_no_writes_any_more_offers_no_room() -> None:
    """Clients choose bookies by it."""
    health, disks = measuring(ledger_dirs=(LEDGERS, "/more"), index_dirs=(INDEX, "/more/index"))
    disks.free.update({"/more": 50, "/more/index": 50})
    await health.measure()
    assert health.usage == Usage(200, 130)

    cast(Any, health._partitions[1]).failure = errors.PartitionFailed("it refused a write")
    await health.measure()

    assert health.usage == Usage(100, 80)
    assert health.disks["/more"] == Usage(100, 50), "how full it is, is a figure all the same"


@in_a_loop
async def test_there_is_room_once_no_write_cache_is_above_its_bound() -> None:
    health, disks = measuring(ledger_dirs=(LEDGERS, "/more"), index_dirs=(INDEX, "/more/index"))
    disks.free.update({"/more": 50, "/more/index": 50})
    cast(Any, health._partitions[1]).active.size_bytes = health._options.write_cache_bytes_max + 1
    health.room.clear()

    assert await health.measure(), "another turn is needed at once"
    assert not health.room.is_set()

    cast(Any, health._partitions[1]).active.size_bytes = health._options.write_cache_bytes_max
    assert not await health.measure()
    assert health.room.is_set()


# ---- room that is told to others ------------------------------------------------------------------------------------


@in_a_loop
async def test_the_room_for_ledgers_ends_where_the_bookie_turns_read_only_and_is_never_less_than_none() -> None:
    health, disks = measuring(
        ledger_dirs=(LEDGERS, "/more"), index_dirs=(INDEX, "/more/index"), disk_used_max=0.75, disk_used_again=0.7
    )
    disks.free.update({LEDGERS: 40, "/more": 10, "/more/index": 50})
    await health.measure()

    assert health.ledger_room() == (60 + 90, 15)


@in_a_loop
async def test_the_room_is_not_known_before_the_first_look_and_while_one_disk_does_not_say() -> None:
    """That of the others would be taken for all there is, and a bookie that is full for one that is nearly so."""
    health, disks = measuring(ledger_dirs=(LEDGERS, "/more"), index_dirs=(INDEX, "/more/index"))
    disks.free.update({"/more": 50, "/more/index": 50})
    assert health.ledger_room() == (-1, -1)
    await health.measure()
    assert health.ledger_room()[0] == 20 + 50
    assert (health.disk_usage(0), health.disk_usage(1)) == (Usage(100, 80), Usage(100, 50))

    disks.free["/more"] = None
    await health.measure()

    assert health.ledger_room() == (-1, -1)
    assert health.disk_usage(1) == Usage(0, 0)


# ---- who is refused, and what is said --------------------------------------------------------------------------------


def by_hand(health: StorageHealth, *, is_on: bool) -> None:
    health.set_read_only(is_on)


def by_turn(health: StorageHealth, *, is_on: bool) -> None:
    health.set_turn(is_on, is_sealed=False)


def by_drain(health: StorageHealth, *, is_on: bool) -> None:
    health.set_draining(is_on)


WAYS = [
    (by_hand, "it was made read-only by hand or by its settings"),
    (by_turn, "it is about to be stopped"),
    (by_drain, "it leaves the fleet"),
]


@pytest.mark.parametrize(("way", "reason"), WAYS, ids=["by hand", "for its turn", "for a drain"])
def test_each_reason_to_be_read_only_is_told_and_ends_alone(way: Callable[..., None], reason: str) -> None:
    health, _ = measuring()
    assert (health.is_read_only, health.is_refusing, health.why_read_only) == (False, False, "")

    way(health, is_on=True)
    assert (health.is_read_only, health.is_refusing, health.why_read_only) == (True, True, reason)
    for other, _ in WAYS:
        if other is not way:
            other(health, is_on=True)
            other(health, is_on=False)
    assert (health.is_read_only, health.is_refusing, health.why_read_only) == (True, True, reason)

    way(health, is_on=False)
    assert (health.is_read_only, health.is_refusing, health.why_read_only) == (False, False, "")


def test_all_reasons_are_told_together_and_a_failed_directory_stays_among_them() -> None:
    health, _ = measuring()
    health.on_trouble(errors.PartitionFailed("it refused a write"))
    assert health.is_refusing, "at once, and not after the next change"
    for way, _ in WAYS:
        way(health, is_on=True)

    assert health.why_read_only == (
        "a ledger directory failed; a restart looks at it anew; it leaves the fleet; it is about to be stopped;"
        " it was made read-only by hand or by its settings"
    )

    for way, _ in WAYS:
        way(health, is_on=False)
    assert health.is_read_only
    assert health.why_read_only == "a ledger directory failed; a restart looks at it anew"


def test_a_seal_is_of_a_drain_that_goes_on() -> None:
    health, _ = measuring()
    health.seal_drain()
    health.check_sealed()  # nothing is drained

    health.set_draining(True)
    health.check_sealed()  # a drain alone takes what recoveries add
    health.seal_drain()
    health.set_draining(True)
    with pytest.raises(errors.StorageFailed, match="leaves the fleet"):
        health.check_sealed()

    health.set_draining(False)
    health.set_draining(True)
    health.check_sealed()  # another drain than the one that was sealed


@pytest.mark.parametrize("suspended", [(True, False), (False, True), (True, True)])
def test_nothing_is_taken_while_one_of_the_journals_has_no_space(suspended: tuple[bool, bool]) -> None:
    """A ledger's key goes to one of them, and its writer learns of no failure but that of his own."""
    health, _ = measuring([journal(is_suspended=one) for one in suspended])

    with pytest.raises(errors.BookieReadOnly, match="no space left in its journal"):
        health.check_accepting()
    health.set_read_only(False)
    assert health.is_refusing


def test_a_bookie_that_stops_takes_nothing_any_more() -> None:
    health, _ = measuring([journal()])
    health.check_accepting()

    health.stop()

    assert health.is_refusing
    for check in (health.check_alive, health.check_accepting):
        with pytest.raises(errors.StorageFailed, match="is stopping"):
            check()


def test_the_first_failure_ends_the_node_once_and_nobody_waits_for_room_any_more() -> None:
    failures: list[BookieError] = []
    health, _ = measuring([journal()], failures)
    health.room.clear()
    first = errors.DiskFailed("sync failed")

    health.on_trouble(first)
    health.on_trouble(errors.DiskFailed("and then the next"))

    assert failures == [first]
    assert (health.failure, health.is_refusing, health.room.is_set()) == (first, True, True)
    with pytest.raises(errors.StorageFailed, match="sync failed"):
        health.check_alive()


# ---- what waits for space -------------------------------------------------------------------------------------------


@in_a_loop
async def test_a_suspended_journal_waits_for_space_and_is_named_until_it_goes_on() -> None:
    one = journal(is_suspended=True)
    health, _ = measuring([one])

    await health.measure()
    assert (health.is_stuck, health.is_disk_full) == (True, True)
    assert health.why_read_only == f"a write to {JOURNAL} waits for space: free some, or give the volume more"

    one.is_suspended = False
    await health.measure()
    assert (health.is_stuck, health.is_disk_full, health.is_refusing) == (False, False, False)


@in_a_loop
async def test_an_unfinished_checkpoint_waits_for_space_unless_its_directory_failed() -> None:
    health, _ = measuring()
    (partition,) = cast(Any, health._partitions)
    partition.flushing = object()
    partition.active.size_bytes = health._options.write_cache_bytes_max + 1
    health.room.clear()

    assert not await health.measure(), "another turn would not find room either"
    assert (health.is_stuck, health.is_disk_full) == (True, True)
    assert health.why_read_only.startswith(f"a write to {LEDGERS}, {INDEX} waits for space")
    assert health.room.is_set(), "no room comes soon: who waits is refused instead"

    partition.failure = errors.PartitionFailed("it refused a write")
    await health.measure()
    assert (health.is_stuck, health.is_disk_full) == (True, False)


@in_a_loop
async def test_who_was_short_of_descriptors_and_waits_since_is_not_full_until_a_disk_says_so() -> None:
    health, _ = measuring()
    (partition,) = cast(Any, health._partitions)
    partition.flushing = object()
    health.on_trouble(errors.OutOfResources("no descriptor"))

    await health.measure()
    assert (health.is_stuck, health.is_disk_full) == (True, False)

    health.on_trouble(errors.DiskFull("no space left"))
    assert (health.is_refusing, health.why_read_only) == (True, "no space left")
    await health.measure()
    assert health.is_disk_full


@in_a_loop
async def test_what_is_told_of_a_full_disk_stays_the_same_while_it_lasts() -> None:
    """Reports are compared from one to the next: a share that moves with each write would make each a new one."""
    health, disks = measuring()
    told = set()
    for free in (3, 2, 1):
        disks.free[LEDGERS] = free
        await health.measure()
        told.add(health.why_read_only)

    assert len(told) == 1
    assert LEDGERS in told.pop()
