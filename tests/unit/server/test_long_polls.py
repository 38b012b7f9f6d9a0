"""Long polls that wait: one watch for a ledger, however many wait, and bounds for one client and for all."""

import asyncio
import time
from collections.abc import Callable

import pytest

import story_support
from bookie.base.ids import EntryId, LedgerId
from bookie.server import ledgers
from bookie.server.ledgers import LongPolls
from bookie.wire.messages import ReadRequest

LEDGER = LedgerId(7)


class Watched:
    """A store that counts its watches."""

    def __init__(self) -> None:
        self.watchers: dict[LedgerId, Callable[[EntryId], None]] = {}
        self.watches = 0

    def watch(self, ledger_id: LedgerId, callback: Callable[[EntryId], None]) -> Callable[[], None]:
        assert ledger_id not in self.watchers, "one watch for a ledger"
        self.watches += 1
        self.watchers[ledger_id] = callback
        return lambda: self.watchers.pop(ledger_id) and None


def poll(previous_lac: int, ledger_id: LedgerId = LEDGER) -> ReadRequest:
    return ReadRequest(0, 3, ledger_id, EntryId(-1), previous_lac=previous_lac, timeout_ms=60_000, is_piggyback=True)


@story_support.in_a_loop
async def test_many_polls_of_one_ledger_are_one_watch_and_each_ends_at_its_own_lac() -> None:
    store, ended = Watched(), []
    polls = LongPolls(store.watch)
    for lac in range(100):
        polls.wait(poll(lac), "client", lambda request, moved: ended.append((request.previous_lac, moved)))

    store.watchers[LEDGER](EntryId(50))
    assert ended == [(lac, True) for lac in range(50)]
    polls.wake(LEDGER)

    assert ended[50:] == [(lac, False) for lac in range(50, 100)]
    assert (store.watches, store.watchers, polls.count) == (1, {}, 0)


@story_support.in_a_loop
async def test_a_client_that_is_gone_takes_its_polls_along_and_no_others() -> None:
    store, ended = Watched(), []
    polls = LongPolls(store.watch)
    for number in range(10):
        polls.wait(poll(0, LedgerId(number)), number % 2, lambda request, moved: ended.append(request.ledger_id))

    polls.forget(1)
    for watcher in list(store.watchers.values()):
        watcher(EntryId(1))

    assert ended == [0, 2, 4, 6, 8]
    assert (store.watchers, polls.count) == ({}, 0)


@story_support.in_a_loop
async def test_one_client_and_all_together_have_a_bound() -> None:
    polls = LongPolls(Watched().watch)
    most, owners = ledgers.POLLS_OF_ONE_MAX, ledgers.POLLS_MAX // ledgers.POLLS_OF_ONE_MAX
    for owner in range(owners):
        for _ in range(most):
            assert polls.has_room(owner)
            polls.wait(poll(0), owner, lambda request, moved: None)
        assert not polls.has_room(owner)

    assert not polls.has_room("another")
    polls.forget(0)
    assert polls.has_room("another")
    for owner in range(1, owners):
        polls.forget(owner)


@pytest.mark.slow
def test_the_end_of_ten_thousand_polls_takes_no_time() -> None:
    async def story() -> float:
        store = Watched()
        polls = LongPolls(store.watch)
        for number in range(ledgers.POLLS_OF_ONE_MAX):
            polls.wait(poll(number), "client", lambda request, moved: None)
        began = time.thread_time()
        polls.forget("client")
        return time.thread_time() - began

    assert asyncio.run(story()) < 1
