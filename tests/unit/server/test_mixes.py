"""Adds of many ledgers that came together are answered, kept and refused as if each had come alone."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import MIB
from bookie.server import lists
from bookie.server.admission import Admission
from bookie.server.boundary import Boundary
from bookie.server.metrics import ServerMetrics
from bookie.server.processor import Processor
from bookie.server.readers import Readers
from bookie.server.unsent import Unsent
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore
from bookie.wire.messages import AddMix, AddRequest
from server_support import KEY, Asker, MetDoors, body, run
from storage_support import Outcome

# What each ledger is when the mix comes.
NEW, OPEN, FENCED, LIMBO, OF_ANOTHER_KEY, OTHER_OPEN = (LedgerId(number) for number in range(6))
OTHER_KEY = b"o" * 20
LEDGERS = (NEW, OPEN, FENCED, LIMBO, OF_ANOTHER_KEY, OTHER_OPEN)


class Add(NamedTuple):
    ledger_id: LedgerId
    entry_id: EntryId
    key: bytes
    body: bytes


@st.composite
def adds(draw: st.DrawFn) -> Add:
    ledger_id, entry_id = draw(st.sampled_from(LEDGERS)), EntryId(draw(st.integers(0, 6)))
    lac = draw(st.integers(-1, entry_id + 1))
    found = body(entry_id, ledger_id=ledger_id, lac=lac, payload=draw(st.binary(max_size=20)))
    match draw(st.integers(0, 12)):
        case 0:
            return Add(ledger_id, entry_id, OTHER_KEY, found)
        case 1:
            return Add(ledger_id, EntryId(entry_id + 1), KEY, found)  # its head names another
        case 2:
            return Add(ledger_id, entry_id, KEY, found[:20])
        case 3:
            return Add(ledger_id, EntryId(-5), KEY, body(-5, ledger_id=ledger_id, lac=-7))
        case 4:
            return Add(ledger_id, entry_id, b"", found)
    return Add(ledger_id, entry_id, KEY, found)


async def prepare(asker: Asker, store: EntryStore) -> None:
    for ledger_id, key in ((OPEN, KEY), (FENCED, KEY), (LIMBO, KEY), (OF_ANOTHER_KEY, OTHER_KEY), (OTHER_OPEN, KEY)):
        answer = await asker.add(0, ledger_id=ledger_id, master_key=key, body=body(0, ledger_id=ledger_id))
        assert answer.status is Status.EOK
    fenced = Outcome()
    store.fence(FENCED, KEY, fenced)
    await asker.node.simulation.until(lambda: fenced.is_done, "the fence")
    await store.protect([(LIMBO, False, True, None)])
    for ledger_id in (OPEN, FENCED):  # from now on the store keeps their last entry up to date
        await asker.read(-1, ledger_id=ledger_id)


async def told(asker: Asker, asked: list[Add], *, together: bool) -> list[Status]:
    txns = list(range(1_000, 1_000 + len(asked)))
    if together:
        columns: list[Any] = [list(column) for column in zip(*asked, strict=True)]
        ledger_ids, entry_ids, keys, bodies = columns
        asker.handle(AddMix(3, ledger_ids, keys, txns, entry_ids, bodies))
    else:
        for number, one in enumerate(asked):
            request = AddRequest(0, 3, one.ledger_id, one.entry_id, one.key, one.body)
            txns[number] = asker.send(request)
    await asker.node.simulation.until(lambda: all(txn in asker.answers for txn in txns), "an answer to each add")
    return [asker.answers[txn].status for txn in txns]


def outcome(asked: list[Add], storage: StorageOptions, *, together: bool, read_only: bool) -> object:
    """Return all that can be seen of these adds: answers, entries, what is known of the ledgers, and counts."""
    found: list[object] = []

    async def story(asker: Asker, store: EntryStore) -> None:
        await prepare(asker, store)
        store.health.set_read_only(read_only)
        found.append(await told(asker, asked, together=together))
        for ledger_id in LEDGERS:
            facts = store.facts(ledger_id)
            ranges = await store.entry_ranges(ledger_id) if facts is not None else []
            ids = [EntryId(number) for first, last in ranges for number in range(first, last + 1)]
            found.append((facts, ranges, [store.read_nowait(ledger_id, entry_id) for entry_id in ids]))
            found.append((await asker.read(-1, ledger_id=ledger_id)).body)
        found.append((store.stats.adds, store.stats.added_bytes))

    metrics = run(story, storage=storage)
    return found, counted(metrics)


def counted(metrics: ServerMetrics) -> object:
    return metrics.adds, metrics.add_bytes, metrics.errors


@pytest.mark.parametrize("journaled", [True, False])
@settings(max_examples=60, deadline=None)
@given(asked=st.lists(adds(), min_size=1, max_size=24), read_only=st.booleans(), directories=st.integers(1, 2))
def test_a_mix_is_what_its_adds_are_alone(journaled: bool, asked: list[Add], read_only: bool, directories: int) -> None:
    storage = StorageOptions(
        journal_dirs=("/data/journal",),
        ledger_dirs=tuple(f"/data/ledgers-{number}" for number in range(directories)),
        journal_write_data=journaled,
    )

    together = outcome(asked, storage, together=True, read_only=read_only)

    assert together == outcome(asked, storage, together=False, read_only=read_only)


class Broken:
    """A store one of whose two ways for adds has an error of ours."""

    def __init__(self, store: EntryStore, way: str) -> None:
        self._store = store
        self._way = way

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._way else getattr(self._store, name)

    def _fail(self, *arguments: Any, **named: Any) -> None:
        raise KeyError("ours")


@pytest.mark.parametrize(
    ("way", "expected"),
    [("add", [Status.EOK, Status.EIO, Status.EOK]), ("add_plain", [Status.EIO, Status.EOK, Status.EIO])],
)
def test_an_error_of_ours_in_one_part_is_told_to_that_part_alone(way: str, expected: list[Status]) -> None:
    """Each add gets one answer, and none that is kept is called failed."""
    met = MetDoors()

    async def story(asker: Asker, store: EntryStore) -> None:
        await prepare(asker, store)
        asked = [Add(ledger_id, EntryId(1), KEY, body(1, ledger_id=ledger_id)) for ledger_id in (OPEN, NEW, OTHER_OPEN)]
        broken: Any = Broken(store, way)
        boundary = Boundary(met)
        readers = Readers(boundary, Unsent(64 * MIB))
        listers = lists.listers(boundary, Unsent(64 * MIB))
        clock = asker.processor.clock
        asker.processor = Processor(broken, readers, listers, Admission(), ServerMetrics(), clock, boundary)

        assert await told(asker, asked, together=True) == expected

    run(story)

    assert [door for door, _ in met.met] == ["request"]
