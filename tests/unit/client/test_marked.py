"""Which marked ledgers want a bookie not to be stopped (spec/metadata.md#M55)."""

from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.client.ledgers import LedgerStore
from bookie.client.repair import marked
from bookie.client.repair.marks import Marks
from bookie.metadata import paths
from bookie.metadata.ledger import new_ledger
from bookie.ports.admin import MarkedLedgers
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import MetadataStore
from sim_support import Machine
from story_support import story

ROOT = "/ledgers"
A, B, C, D = (BookieId(name) for name in "abcd")


def tell(story: Callable[[MetadataStore, Clock], Coroutine[None, None, None]]) -> None:
    machine = Machine()

    async def whole() -> None:
        world = machine.begin()
        store = await world.metadata_stores.connect("zk+hierarchical://zk:2181/ledgers")
        await story(store, world.clock)
        await store.close()

    machine.run(whole)


async def ledger(store: MetadataStore, number: int, *bookies: BookieId, ack_quorum: int = 2) -> None:
    made = new_ledger(
        ensemble_size=len(bookies), write_quorum=len(bookies), ack_quorum=ack_quorum, bookies=bookies, ctoken=1
    )
    await LedgerStore(store, ROOT).create(made, LedgerId(number))


async def look(store: MetadataStore, clock: Clock, *bookies: BookieId) -> MarkedLedgers:
    return await marked.look(LedgerStore(store, ROOT), bookies, clock)


def held(found: MarkedLedgers) -> dict[str, list[int]]:
    return {one.bookie_id: [each.ledger_id for each in one.first] for one in found.held}


@story(tell)
async def test_only_whoever_completes_an_ack_quorum_with_the_missing_is_held(
    store: MetadataStore, clock: Clock
) -> None:
    await ledger(store, 7, A, B, C)
    await ledger(store, 8, A, B, C, ack_quorum=3)
    await ledger(store, 9, A, B, C)  # nobody has marked it
    for number in (7, 8):
        await Marks(store, ROOT).mark(LedgerId(number), [C], 1)

    found = await look(store, clock, A, C, D)

    assert held(found) == {A: [7]}, "C is missing itself, D has nothing, and the other one needs three"
    assert found.marks == 2
    assert found.held[0].first[0].reason == "replicas of c are missing"


@story(tell)
async def test_without_marks_nobody_is_held(store: MetadataStore, clock: Clock) -> None:
    await ledger(store, 7, A, B, C)
    assert replace(await look(store, clock, A), age_ms=0) == MarkedLedgers()

    await Marks(store, ROOT).prepare()
    await Marks(store, ROOT).mark(LedgerId(6), [C], 1)  # its ledger was deleted
    assert held(await look(store, clock, A)) == {}


@pytest.mark.parametrize("data", [b"", b"what is this"])
def test_a_mark_that_says_nothing_counts_as_all_others(data: bytes) -> None:
    async def story(store: MetadataStore, clock: Clock) -> None:
        await ledger(store, 7, A, B, C)
        await store.create(paths.underreplicated(ROOT, LedgerId(7)), data, parents=True)

        assert held(await look(store, clock, A, D)) == {A: [7]}

    tell(story)


@story(tell)
async def test_a_marked_ledger_whose_record_nobody_can_read_holds_everybody(store: MetadataStore, clock: Clock) -> None:
    await store.create(paths.ledger_path(ROOT, LedgerId(8)), b"not a record", parents=True)
    await Marks(store, ROOT).mark(LedgerId(8), [C], 1)

    found = await look(store, clock, A, D)

    assert held(found) == {A: [8], D: [8]}
    assert "cannot be read" in found.held[0].first[0].reason


@story(tell)
async def test_a_look_ends_when_each_has_as_many_as_are_shown(store: MetadataStore, clock: Clock) -> None:
    for number in range(200):
        await ledger(store, number, A, B, C)
        await Marks(store, ROOT).mark(LedgerId(number), [C], 1)

    assert (await look(store, clock, A)).marks < 200
    assert (await look(store, clock, A, D)).marks == 200, "nothing speaks against D, which only all of them say"


class Away:
    """A store that answers nothing."""

    def __init__(self, store: MetadataStore) -> None:
        self.sync = store.sync

    async def children(self, path: str) -> tuple[str, ...]:
        raise errors.SessionLost("it is away")


@story(tell)
async def test_what_could_not_be_looked_at_is_an_error_and_not_none(store: MetadataStore, clock: Clock) -> None:
    away: MetadataStore = Away(store)  # type: ignore[assignment]
    with pytest.raises(errors.MetadataError):
        await look(away, clock, A)


class Behind(Away):
    """A server of the store that has not heard of any mark before it was told to catch up."""

    is_behind = True

    def __init__(self, store: MetadataStore) -> None:
        self.get = store.get
        self._store = store

    async def sync(self, path: str) -> None:
        await self._store.sync(path)
        self.is_behind = False

    async def children(self, path: str) -> tuple[str, ...]:
        return () if self.is_behind else tuple(await self._store.children(path))


@story(tell)
async def test_an_old_view_of_the_store_hides_no_mark(store: MetadataStore, clock: Clock) -> None:
    await ledger(store, 7, A, B, C)
    await Marks(store, ROOT).mark(LedgerId(7), [C], 1)
    behind: MetadataStore = Behind(store)  # type: ignore[assignment]

    assert held(await look(behind, clock, A, D)) == {A: [7]}
