"""Errors of tasks that ran together: one of them, as it is, in place of their group."""

import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def ungrouped(expected: type[Exception]) -> AsyncIterator[None]:
    """Raise one error of a group that is raised within, and of groups in it: one that nobody expected, else the first.

    Not by `except*`: what such a block raises comes in a group again in Python 3.11.2, Debian 12's and so our image's;
    later ones raise it as it is.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        raise _to_tell(group, expected) from None


def _to_tell(group: BaseExceptionGroup[BaseException], expected: type[Exception]) -> BaseException:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves.append(_to_tell(error, expected) if isinstance(error, BaseExceptionGroup) else error)
    return next((error for error in leaves if not isinstance(error, expected)), leaves[0])
