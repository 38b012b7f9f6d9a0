"""The driver of garbage collection: what it gives up, and that it tries again."""

import asyncio
from typing import Any

import pytest

from bookie.base import errors
from bookie.server.collection import Collection
from bookie.storage.collect import collector


class Enough(Exception):
    """The test has seen what it wanted."""


class Clock:
    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def monotonic_ns(self) -> int:
        return 0

    async def sleep_until(self, deadline_ns: int) -> None:
        self.rounds -= 1
        if self.rounds < 0:
            raise Enough


@pytest.mark.parametrize("trouble", [errors.MetadataError, errors.DiskFull, errors.BookieReadOnly])
def test_a_run_that_cannot_be_finished_is_tried_again(
    trouble: type[errors.BookieError], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A full disk above all: it is why somebody deleted ledgers.
    runs: list[object] = []

    async def fails(store: object, is_absent: object) -> None:
        runs.append(store)
        raise trouble("not now")

    monkeypatch.setattr(collector, "collect", fails)
    nothing: Any = None
    clock: Any = Clock(3)

    with pytest.raises(Enough):
        asyncio.run(Collection(nothing, nothing, "", clock, interval_ms=1).run())

    assert len(runs) == 3
