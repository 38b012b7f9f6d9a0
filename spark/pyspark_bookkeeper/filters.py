"""Filters on ids, pushed down by Spark: which ids they leave, and which filters remain Spark's work. Pure.

Pushdown is off in Spark unless `spark.sql.python.filterPushdown.enabled` says otherwise, and then a reader that
implements `pushFilters` is refused. `OptionalPushdown` steps around: the source works both ways, with the same rows.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pyspark_bookkeeper import ranges
from pyspark_bookkeeper.ranges import ID_END, Ranges


@dataclass(slots=True)
class Narrowed:
    """What filters left of each id column."""

    by_column: dict[str, Ranges] = field(default_factory=dict)

    def of(self, column: str) -> Ranges:
        return self.by_column.get(column, ranges.EVERYTHING)

    def take(self, filters: Iterable[Filter], columns: Sequence[str]) -> list[Filter]:
        """Apply those filters on `columns` that can be said in ranges; return the others, which Spark applies."""
        others: list[Filter] = []
        for one in filters:
            column = _column(one)
            left = _left_by(one) if column in columns else None
            if left is None:
                others.append(one)
            else:
                self.by_column[column] = ranges.intersection(self.of(column), left)
        return others


def _column(one: Filter) -> str:
    """The column it is about; a path of several names is a field inside one."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    return ".".join(path)


def _left_by(one: Filter) -> Ranges | None:
    """The ids that pass, None for a filter that is not about ranges. Ids are never null."""
    match one:
        case IsNotNull():
            return ranges.EVERYTHING
        case In(value=values) if all(map(_is_id, values)):
            return ranges.of_ids(values)
        case In():
            return None
    value = getattr(one, "value", None)
    if not _is_id(value):
        return None
    match one:
        case EqualTo() | EqualNullSafe():
            return ranges.of_ids([value])
        case GreaterThan():
            return ranges.union([(value + 1, ID_END)])
        case GreaterThanOrEqual():
            return ranges.union([(value, ID_END)])
        case LessThan():
            return ranges.union([(0, value)])
        case LessThanOrEqual():
            return ranges.union([(0, value + 1)])
    return None


def _is_id(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


class OptionalPushdown:
    """A `pushFilters` that Spark calls when pushdown is on, and takes for not implemented when it is off.

    Spark decides by comparing `reader.pushFilters.__func__` with the base class' function (plan_data_source_read.py).
    That is its own business and may change: a test asks each way.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, push: Callable[[list[Filter]], Iterable[Filter]]) -> None:
        self._push = push

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._push(filters)
