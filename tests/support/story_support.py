"""Tests that are coroutines: `@story(run)` above `async def test_…` lets `run` tell it, as `run(test)` would.

What `run` gives (a client, a store, a cluster) are the test's first parameters; what pytest gives (fixtures,
parametrized values) stands after a `*`. What pytest gives and `run` needs (a seed, a version) is named by `given`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

Body = Callable[..., Coroutine[Any, Any, Any]]


def story(
    run: Callable[..., Any], *arguments: Any, given: Sequence[str] = (), **settings: Any
) -> Callable[[Body], Callable[..., None]]:
    """Let `run(body, *arguments, **settings)` tell the test; what pytest gives under the names `given` are settings."""

    def decorate(body: Body) -> Callable[..., None]:
        parameters = inspect.signature(body).parameters.values()
        wanted = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]

        def test(**values: Any) -> None:
            mine = {name: values[name] for name in wanted}
            theirs = {name: values[name] for name in given}
            run(functools.partial(body, **mine) if mine else body, *arguments, **settings, **theirs)

        functools.update_wrapper(test, body)
        del test.__wrapped__  # pytest would ask it for its parameters, and what `run` gives is no fixture
        asked = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in dict.fromkeys((*wanted, *given))]
        test.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]
        return test

    return decorate


def in_a_loop(body: Body) -> Callable[..., None]:
    """A test that needs a loop, and nothing that a `run` would give it."""
    return story(lambda told: asyncio.run(told()))(body)
