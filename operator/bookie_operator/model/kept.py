"""Answers of pure functions about a spec, kept: a pass asks for some of them hundreds of times."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MAX = 64


def by_identity(function: Callable[P, T]) -> Callable[P, T]:
    """Keep the last answers of `function`, by who its arguments are and not by what they say: they are frozen, and
    while one is kept here no other object has its id. What it returns belongs to all who ask, and nobody changes it."""
    answers: dict[tuple[int, ...], tuple[tuple[object, ...], T]] = {}

    def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        assert not kwargs, "by position alone"
        key = tuple(map(id, args))
        if key not in answers:
            if len(answers) >= _MAX:
                answers.pop(next(iter(answers)))
            answers[key] = (args, function(*args, **kwargs))
        return answers[key][1]

    answer.__name__, answer.__doc__ = function.__name__, function.__doc__
    return answer
