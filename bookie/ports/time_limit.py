"""How long a block of code may take: in place of `asyncio.timeout`, which does not answer the same in each Python.

Python 3.11.2, Debian 12's and so our image's, ends an overdue block by CancelledError, and not by TimeoutError, where
the task has a request to cancel it that stands: while it cleans up after one, and for good once a task group of its own
has failed, for up to Python 3.12 the group leaves a request behind. Nobody handles that: the task ends without a word,
as if somebody had cancelled it.
"""

import asyncio
from types import TracebackType


class TimeLimit:
    """`async with TimeLimit(seconds)`: end the block by TimeoutError when it takes longer; None: it may.

    CancelledError passes where somebody else cancelled the task meanwhile.
    """

    __slots__ = ("_cancelling", "_limit", "_task")

    def __init__(self, seconds: float | None) -> None:
        self._limit = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a loop runs this in a task"
        self._task = task
        self._cancelling = task.cancelling()
        await self._limit.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._limit.__aexit__(exc_type, exc, traceback)  # took its own request back, and raises TimeoutError
        is_ours = self._limit.expired() and self._task.cancelling() <= self._cancelling
        if is_ours and isinstance(exc, asyncio.CancelledError):
            raise TimeoutError from exc  # in 3.11.2 alone, where a request of before us stands
