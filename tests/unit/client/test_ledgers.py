"""Ledger metadata when the metadata store loses requests and answers: success or a true conflict, never a guess."""

from typing import Any, cast

import pytest

import sim_support
from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.metadata import ledger, paths, serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.metadata.paths import LayoutKind
from bookie.ports.entropy import Entropy
from bookie.ports.metadata_store import MetadataStore

URI = "zk+hierarchical://zk:2181/deep/ledgers"


def a_ledger(ctoken: int = 7) -> LedgerMetadata:
    bookies = (BookieId("b1"), BookieId("b2"), BookieId("b3"))
    return ledger.new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=bookies, ctoken=ctoken)


async def persistent_format(store: MetadataStore, entropy: Entropy) -> None:
    for _ in range(50):
        try:
            await cluster.ensure_cluster(store, URI, entropy)
        except errors.MetadataError:
            continue
        return
    raise AssertionError("the cluster could not be made")


async def put_as_told(ledgers: LedgerStore, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
    """A change; when five answers in a row are lost, it does what the error says: it looks, then tries again."""
    for _ in range(10):
        try:
            return await ledgers.put(ledger_id, metadata, version)
        except errors.OutcomeUnknown:
            stored, now = await ledgers.get(ledger_id)
            if now != version:
                assert stored == metadata
                return now
    raise AssertionError(f"ledger {ledger_id} could not be changed")


def test_creates_and_changes_whose_answers_are_lost_happen_exactly_once() -> None:
    for seed in range(12):
        machine = sim_support.Machine(seed)
        machine.keeper.faults.lost_answer_per_million = 150_000
        machine.keeper.faults.lost_request_per_million = 150_000

        async def story(machine: sim_support.Machine = machine) -> None:
            world = machine.begin()
            store = await world.metadata_stores.connect(URI, session_timeout_ms=5_000)
            await persistent_format(store, world.entropy)
            ledgers = await cluster.open_ledgers(store, paths.parse_uri(URI))
            made = [await ledgers.create(a_ledger(ctoken=number + 1)) for number in range(8)]
            assert len(dict.fromkeys(made)) == 8
            for ledger_id in made:
                metadata, version = await ledgers.get(ledger_id)
                version = await put_as_told(ledgers, ledger_id, metadata.in_recovery(), version)
                closed = metadata.in_recovery().closed(EntryId(4), 40)
                version = await put_as_told(ledgers, ledger_id, closed, version)
                assert version == 2
            stored = [ledger_id async for ledger_id in ledgers.iterate()]
            assert stored == sorted(made)

        machine.run(story)


async def opened(machine: sim_support.Machine) -> tuple[MetadataStore, LedgerStore]:
    """A cluster's metadata store and its ledgers, as a client opens them."""
    world = machine.begin()
    store = await world.metadata_stores.connect(URI, session_timeout_ms=5_000)
    await persistent_format(store, world.entropy)
    return store, await cluster.open_ledgers(store, paths.parse_uri(URI))


def test_when_the_short_ids_are_used_up_long_ones_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """CONFORMANCE.md#P2: as if there were three numbers before each overflow, and not 2^31 - 1."""
    monkeypatch.setattr(paths, "SHORT_ID_END", 3)
    machine = sim_support.Machine(1)

    async def story() -> None:
        _, ledgers = await opened(machine)
        made = [await ledgers.create(a_ledger(ctoken=number + 1)) for number in range(8)]

        long, longer = 1 << 32, 2 << 32
        assert made == [0, 1, 2, long, long + 1, long + 2, longer, longer + 1]
        assert [ledger_id async for ledger_id in ledgers.iterate()] == made

    machine.run(story)


def test_a_change_that_somebody_else_made_first_is_a_conflict_however_the_answer_came() -> None:
    machine = sim_support.Machine(5)

    async def story() -> None:
        world = machine.begin()
        store = await world.metadata_stores.connect(URI)
        await persistent_format(store, world.entropy)
        ledgers = LedgerStore(store, paths.parse_uri(URI).root)
        ledger_id = await ledgers.create(a_ledger())
        metadata, version = await ledgers.get(ledger_id)
        await ledgers.put(ledger_id, metadata.closed(EntryId(1), 2), version)
        machine.keeper.faults.lost_answer_per_million = 500_000
        for _ in range(10):
            try:
                await ledgers.put(ledger_id, metadata.in_recovery(), version)
            except errors.VersionConflict:
                continue
            raise AssertionError("a stale change went through")
        machine.keeper.faults.lost_answer_per_million = 0
        assert (await ledgers.get(ledger_id))[0].last_entry == 1
        try:
            await ledgers.get(LedgerId(999))
        except errors.LedgerMissing:
            return
        raise AssertionError("a ledger that was never made was found")

    machine.run(story)


class Deaf:
    """A metadata store whose first change happens, and its answer is lost."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._is_deaf = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _lose(self) -> None:
        if self._is_deaf:
            self._is_deaf = False
            raise errors.OutcomeUnknown("no answer")

    async def create(self, path: str, data: bytes, *, parents: bool = False) -> str:
        made = await self._store.create(path, data, parents=parents)
        self._lose()
        return made

    async def put(self, path: str, data: bytes, version: int) -> int:
        version = await self._store.put(path, data, version)
        self._lose()
        return version


def test_a_saved_record_is_put_back_once_and_taken_for_nobody_elses_when_the_answer_was_lost() -> None:
    machine = sim_support.Machine(1)

    async def story() -> None:
        store, _ = await opened(machine)
        root = paths.parse_uri(URI).root
        saved, later = serde.dump_ledger(a_ledger()), serde.dump_ledger(a_ledger().closed(EntryId(1), 2))

        def deaf() -> LedgerStore:
            return LedgerStore(cast(MetadataStore, Deaf(store)), root)

        await deaf().put_back(LedgerId(5), saved, None)
        assert (await deaf().stored(LedgerId(5))).data == saved
        await deaf().put_back(LedgerId(5), later, 0)
        assert (await deaf().stored(LedgerId(5))).data == later
        with pytest.raises(errors.LedgerExists, match="so nothing was restored: look at it"):
            await deaf().put_back(LedgerId(5), saved, None)
        with pytest.raises(errors.VersionConflict):
            await LedgerStore(store, root).put_back(LedgerId(5), saved, 0)
        assert (await deaf().stored(LedgerId(5))).data == later

    machine.run(story)


@pytest.mark.parametrize(
    ("kind", "ledger_id"),
    [
        (LayoutKind.LEGACY, 10**10),
        (LayoutKind.LEGACY, -1),
        (LayoutKind.HIERARCHICAL, 2**63),
        (LayoutKind.HIERARCHICAL, -1),
    ],
)
def test_an_id_that_a_layout_has_no_place_for_is_refused(kind: LayoutKind, ledger_id: int) -> None:
    machine = sim_support.Machine(1)

    async def story() -> None:
        store, _ = await opened(machine)
        ledgers = LedgerStore(store, paths.parse_uri(URI).root, kind)
        with pytest.raises(errors.BadInput, match=f"ledger id {ledger_id} has no place in this cluster's {kind.value}"):
            await ledgers.create(a_ledger(), LedgerId(ledger_id))

    machine.run(story)


def test_what_a_stranger_left_beside_the_long_id_generator_makes_no_id() -> None:
    machine = sim_support.Machine(1)

    async def story() -> None:
        store, ledgers = await opened(machine)
        base = paths.idgen_long("/deep/ledgers")
        for name in ("HOB-0000000002", "HOB-9999999999", "HOB-2147483648", "xxxx0000000005", "HOB-x", "lost+found"):
            await store.create(f"{base}/{name}", b"", parents=True)

        made = [await ledgers.create(a_ledger(ctoken=number + 1)) for number in range(2)]

        assert made == [2 << 32, (2 << 32) + 1]

    machine.run(story)
