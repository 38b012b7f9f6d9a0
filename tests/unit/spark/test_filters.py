"""Which ids pushed filters leave, and which filters stay with Spark (spark.sql.python.filterPushdown.enabled)."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pyspark_bookkeeper import ranges
from pyspark_bookkeeper.filters import Narrowed, OptionalPushdown
from pyspark_bookkeeper.ranges import ID_END, Range

L = ("ledger_id",)


def left_by(*filters: Filter) -> tuple[ranges.Ranges, list[Filter]]:
    narrowed = Narrowed()
    others = narrowed.take(filters, ("ledger_id", "entry_id"))
    return narrowed.of("ledger_id"), others


@pytest.mark.parametrize(
    ("one", "left"),
    [
        (EqualTo(L, 5), (Range(5, 6),)),
        (EqualNullSafe(L, 5), (Range(5, 6),)),
        (In(L, (7, 5, 6)), (Range(5, 8),)),
        (GreaterThan(L, 5), (Range(6, ID_END),)),
        (GreaterThanOrEqual(L, 5), (Range(5, ID_END),)),
        (LessThan(L, 5), (Range(0, 5),)),
        (LessThanOrEqual(L, 5), (Range(0, 6),)),
        (LessThan(L, -5), ranges.NOTHING),
        (EqualTo(L, -1), ranges.NOTHING),
        (IsNotNull(L), ranges.EVERYTHING),
    ],
)
def test_a_filter_on_an_id_becomes_a_range_and_leaves_spark_nothing(one: Filter, left: ranges.Ranges) -> None:
    assert left_by(one) == (left, [])


@pytest.mark.parametrize(
    "one",
    [
        Not(EqualTo(L, 5)),
        IsNull(L),
        In(L, (1, None)),
        EqualTo(L, "5"),
        EqualTo(L, True),
        EqualTo(("value",), b"x"),
        EqualTo(("ledger_id", "inner"), 5),
        StringStartsWith(L, "5"),
    ],
)
def test_any_other_filter_stays_with_spark(one: Filter) -> None:
    assert left_by(one) == (ranges.EVERYTHING, [one])


def test_filters_on_one_column_narrow_each_other() -> None:
    left, others = left_by(GreaterThan(L, 3), IsNotNull(L), LessThan(L, 9), In(L, (4, 8, 20)))

    assert left == (Range(4, 5), Range(8, 9))
    assert others == []


def test_columns_that_the_view_does_not_have_are_left_alone() -> None:
    narrowed = Narrowed()
    one = EqualTo(("entry_id",), 1)

    assert narrowed.take([one], ("ledger_id",)) == [one]


class Reader(DataSourceReader):
    """As the readers of this package do it."""

    @property
    def pushFilters(self) -> OptionalPushdown:
        return OptionalPushdown(self._push)

    def _push(self, filters: list[Filter]) -> list[Any]:
        return filters[1:]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(())


def test_spark_takes_the_hook_for_absent_and_can_call_it() -> None:
    """The comparison is Spark's: plan_data_source_read.py, `is_pushdown_implemented`."""
    reader = Reader()

    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    assert list(reader.pushFilters([IsNotNull(L), IsNull(L)])) == [IsNull(L)]
