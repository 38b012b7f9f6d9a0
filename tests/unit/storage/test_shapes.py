"""Which directory holds a ledger, and what the indexes of directories agree on."""

import pytest

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.storage import shapes
from bookie.storage.shapes import Routing, Shape

TWO = shapes.plain(2)
THREE = (*TWO, Shape(100, 3))
FOUR = (*THREE, Shape(200, 4))


def test_a_store_that_never_grew_is_id_modulo_count() -> None:
    routing = Routing(shapes.plain(3))

    assert [routing.number_of(LedgerId(ledger_id)) for ledger_id in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert (routing.first, routing.count) == (0, 3)


def test_ledgers_below_a_growth_keep_their_rule_for_ever() -> None:
    grown, before, between = Routing(FOUR), Routing(TWO), Routing(THREE)

    for ledger_id in map(LedgerId, range(300)):
        older = before if ledger_id < 100 else between
        expected = ledger_id % 4 if ledger_id >= 200 else older.number_of(ledger_id)
        assert grown.number_of(ledger_id) == expected


def test_an_id_that_no_ledger_has_is_still_some_directory() -> None:
    assert Routing(THREE).number_of(LedgerId(-5)) in (0, 1)


def test_two_growths_without_a_ledger_between_them_are_one() -> None:
    history = shapes.grown(shapes.grown(TWO, 3, 50), 4, 20)

    assert history == (*TWO, Shape(50, 3), Shape(50, 4))
    assert Routing(history).number_of(LedgerId(51)) == 3


@pytest.mark.parametrize(
    "history", [TWO, THREE, FOUR, (*TWO, Shape(2**63, 3)), (*TWO, Shape(50, 3), Shape(50, 4)), (*TWO, Shape(0, 3))]
)
def test_what_is_dumped_is_loaded(history: shapes.History) -> None:
    assert shapes.load(shapes.dump(history), "it") == history


@pytest.mark.parametrize(
    "data",
    [
        b"",
        shapes.dump(THREE)[:-1],
        shapes.dump((Shape(1, 2),)),
        shapes.dump((Shape(0, 0),)),
        shapes.dump((*TWO, Shape(5, 2))),
        shapes.dump((*TWO, Shape(9, 3), Shape(8, 4))),
    ],
)
def test_a_history_that_nobody_wrote_is_damage(data: bytes) -> None:
    with pytest.raises(errors.CorruptFile, match="the index of ledger directory 1: "):
        shapes.load(data, "the index of ledger directory 1")


@pytest.mark.parametrize(
    ("found", "agreed"),
    [
        ([None, None], None),
        ([TWO, TWO], TWO),
        ([THREE, THREE, THREE], THREE),
        # A change that was cut off. The added directory alone proves nothing, one older directory does.
        ([TWO, TWO, None], TWO),
        ([TWO, TWO, THREE], TWO),
        ([TWO, THREE, THREE], THREE),
        ([THREE, TWO, None], THREE),
        ([THREE, THREE, THREE, FOUR], THREE),
        ([THREE, THREE, FOUR, FOUR], FOUR),
        # A directory that was lost, or set back, does not take the ledgers of the others with it.
        ([None, THREE, THREE], THREE),
        ([TWO, None, THREE], TWO),
        ([None, None, THREE], THREE),
        ([None, None, THREE, FOUR], THREE),
        ([None, None, FOUR, FOUR], FOUR),
        ([None, None, None, FOUR], FOUR),
        ([TWO, THREE, FOUR, FOUR], FOUR),
        # The added directory has a shape of an attempt that came to nothing.
        ([TWO, TWO, (*TWO, Shape(50, 3))], TWO),
    ],
)
def test_what_directories_agree_on(found: list[shapes.History | None], agreed: shapes.History | None) -> None:
    assert shapes.agreed(found) == agreed


def test_what_the_metadata_store_knows_is_believed_of_the_added_directory_alone() -> None:
    """All older directories were set back to before the change."""
    found = [TWO, TWO, THREE]

    assert shapes.agreed(found, 3) == THREE
    assert shapes.agreed([*found, FOUR], 3) == THREE
    assert shapes.agreed([*found, FOUR], 4) == FOUR
    assert shapes.agreed(found, 2) == TWO


@pytest.mark.parametrize(
    "found",
    [
        [(*TWO, Shape(50, 3)), THREE, THREE],
        [(*TWO, Shape(50, 3)), FOUR, FOUR, FOUR],
        [shapes.plain(3), FOUR, FOUR, FOUR],
    ],
)
def test_two_old_directories_that_contradict_each_other_are_damage(found: list[shapes.History | None]) -> None:
    with pytest.raises(errors.CorruptFile, match="contradict each other"):
        shapes.agreed(found)
