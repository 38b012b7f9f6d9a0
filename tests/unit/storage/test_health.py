"""How full the disks are, as it is measured: played disks, nothing else of a store."""

import types
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


def measuring(**changes: Any) -> tuple[StorageHealth, Disks]:
    def fail(error: BookieError) -> None:
        raise AssertionError(error)

    disks, chosen = Disks(), options(**changes)
    partitions = [
        types.SimpleNamespace(number=number, failure=None, flushing=None, active=types.SimpleNamespace(size_bytes=0))
        for number in range(len(chosen.ledger_dirs))
    ]
    health = StorageHealth(chosen, cast(Disk, disks), cast(Any, partitions), [], fail=fail)
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
