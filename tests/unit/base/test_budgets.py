"""The memory that a bookie needs, from its budgets and caches: what a container's limit is derived from."""

import pytest

from bookie.base import budgets
from bookie.base.budgets import Budgets
from bookie.base.units import GIB, MIB
from bookie.runtime import rocksdb
from bookie.server import admission, lists, readers
from bookie.storage.journal import writer
from bookie.storage.options import StorageOptions
from bookie.wire import framing


def test_the_named_bounds_are_the_ones_in_force() -> None:
    bounds = Budgets()
    storage = StorageOptions(journal_dirs=("/j",), ledger_dirs=("/l",))

    assert bounds.reads == readers.READERS
    assert bounds.lists == lists.LISTS
    assert bounds.in_flight_bytes == admission.IN_FLIGHT_BYTES_MAX
    assert budgets.FRAME_BYTES == framing.FRAME_LIMIT_BYTES
    assert budgets.JOURNAL_BYTES == writer.PENDING_BYTES_MAX
    assert storage.write_cache_bytes_max + storage.pressure_bytes_max == (
        budgets.WRITE_CACHE_GENERATIONS * budgets.WRITE_CACHE_BYTES
    )
    index_bytes = rocksdb.BLOCK_CACHE_BYTES + rocksdb.WRITE_BUFFERS * rocksdb.WRITE_BUFFER_BYTES
    assert index_bytes <= budgets.INDEX_BYTES


def test_a_bookie_of_one_directory_needs_less_than_two_gib() -> None:
    assert GIB < budgets.memory_need_bytes() < 2 * GIB


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({"journal_dirs": 2}, budgets.JOURNAL_BYTES),
        ({"ledger_dirs": 2}, 3 * budgets.WRITE_CACHE_BYTES + budgets.READ_CACHE_BYTES),
        ({"write_cache_bytes": budgets.WRITE_CACHE_BYTES + MIB}, 3 * MIB),
        ({"read_cache_bytes": budgets.READ_CACHE_BYTES + MIB}, MIB),
        ({"frame_bytes_max": budgets.FRAME_BYTES + MIB}, (32 + 2 * lists.LISTS) * MIB),
        ({"budgets": Budgets(lists=Budgets().lists + 1)}, 2 * budgets.FRAME_BYTES),
        ({"budgets": Budgets(unsent_bytes=Budgets().unsent_bytes + MIB)}, MIB),
        ({"budgets": Budgets(unfinished_bytes=Budgets().unfinished_bytes + MIB)}, 2 * MIB),
        ({"budgets": Budgets(connections=2 * Budgets().connections)}, Budgets().connections * 24 * 1024),
    ],
)
def test_whatever_may_hold_more_is_counted(changes: dict[str, int], least: int) -> None:
    more = budgets.memory_need_bytes(**changes) - budgets.memory_need_bytes()  # type: ignore[arg-type]

    assert more >= least
