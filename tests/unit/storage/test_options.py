"""Storage options: what cannot work is refused at once, all of it together."""

import pytest

from bookie.base import errors
from bookie.base.units import GIB
from bookie.storage.options import StorageOptions
from storage_support import options


def test_every_problem_is_named_in_one_message() -> None:
    with pytest.raises(errors.BadInput) as caught:
        StorageOptions(journal_dirs=(), ledger_dirs=("relative", "relative"), index_dirs=("/i",), flush_interval_ms=0)

    text = str(caught.value)
    for part in ("no journal directory", "'relative'", "named twice", "1 index directories for 2", "flush_interval_ms"):
        assert part in text


@pytest.mark.parametrize("name", ["journal_file_bytes_max", "entry_log_bytes_max"])
def test_files_whose_offsets_would_not_fit_are_refused(name: str) -> None:
    with pytest.raises(errors.BadInput, match=name):
        options(**{name: 2 * GIB + 1})


def test_the_index_lives_with_the_ledgers_unless_told() -> None:
    assert options(index_dirs=()).index_dirs_used == ("/ledgers",)
    assert options().index_dirs_used == ("/index",)


def test_without_data_in_the_journal_checkpoints_are_closer() -> None:
    plain = options()

    assert options(journal_write_data=False).checkpoint_interval_ms < plain.checkpoint_interval_ms
