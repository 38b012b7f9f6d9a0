"""Times in a status that are later than now: the clock that wrote them was ahead (spec/operator.md#K10). Pure.

Whatever is waited for from such a time on would be waited for until the clock has come there again, which may take a
month. So each counts as now, in every pass and before anything is decided: the wait begins anew, and none is shortened.
"""

import functools
from typing import Any, TypeVar, get_args

from bookie_operator.model.base import Model
from bookie_operator.model.status import PAST
from bookie_operator.model.values import format_time, parse_time

M = TypeVar("M", bound=Model)


def none_ahead(model: M, now_ms: int) -> M:
    """Return `model` with now in place of each later time at which something happened; itself where there is none."""
    changes = {
        name: changed
        for name in type(model).model_fields
        if (changed := _none_ahead(model, name, now_ms)) is not getattr(model, name)
    }
    return model.model_copy(update=changes) if changes else model


def _none_ahead(model: Model, name: str, now_ms: int) -> Any:
    value = getattr(model, name)
    if isinstance(value, Model):
        return none_ahead(value, now_ms)
    if isinstance(value, tuple):
        found = tuple(none_ahead(one, now_ms) if isinstance(one, Model) else one for one in value)
        return found if any(one is not before for one, before in zip(found, value, strict=True)) else value
    is_ahead = isinstance(value, str) and name in _times(type(model)) and parse_time(value) > now_ms
    return format_time(now_ms) if is_ahead else value


@functools.cache
def _times(model: type[Model]) -> frozenset[str]:
    """Return the names of the fields that say when something happened."""
    return frozenset(
        name
        for name, field in model.model_fields.items()
        if PAST in field.metadata
        or any(PAST in getattr(part, "__metadata__", ()) for part in get_args(field.annotation))
    )
