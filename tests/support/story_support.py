"""Tests that are coroutines: `@story(run)` above `async def test_…` lets `run` tell it, as `run(test)` would.

What `run` gives (a client, a store, a cluster) are the test's first parameters; what pytest gives (fixtures,
parametrized values) stands after a `*`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

Body = Callable[..., Coroutine[Any, Any, Any]]


def story(run: Callable[..., Any], *arguments: Any, **settings: Any) -> Callable[[Body], Callable[..., None]]:
    """Let `run(body, *arguments, **settings)` tell the test."""

    def decorate(body: Body) -> Callable[..., None]:
        parameters = inspect.signature(body).parameters.values()
        wanted = [one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]

        def test(**given: Any) -> None:
            run(functools.partial(body, **given) if given else body, *arguments, **settings)

        functools.update_wrapper(test, body)
        del test.__wrapped__  # pytest would ask it for its parameters, and what `run` gives is no fixture
        test.__signature__ = inspect.Signature(wanted)  # type: ignore[attr-defined]
        return test

    return decorate


def in_a_loop(body: Body) -> Callable[..., None]:
    """A test that needs a loop, and nothing that a `run` would give it."""
    return story(lambda told: asyncio.run(told()))(body)
