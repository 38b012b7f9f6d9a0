"""How the command line reads the entries that a person declares lost (spec/metadata.md#M57)."""

import pytest

from bookie.base import errors
from bookie.cli import accepted_loss


@pytest.mark.parametrize(("text", "wanted"), [("7", (7, 7)), ("7-12", (7, 12)), ("0-0", (0, 0))])
def test_one_entry_or_the_first_and_the_last(text: str, wanted: tuple[int, int]) -> None:
    assert accepted_loss.parse_range(text) == wanted


@pytest.mark.parametrize("text", ["", "-", "7-", "-7", "7-x", "7-8-9", "\u0667", "\u00b2", "+7", "7.0", "9" * 5_000])
def test_anything_else_is_told_with_what_to_write(text: str) -> None:
    with pytest.raises(errors.BadInput, match="give one entry, or the first and the last, as 7 or 7-12"):
        accepted_loss.parse_range(text)
