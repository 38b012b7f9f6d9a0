"""One short life, cut at every single disk operation: what was acknowledged is there, and the store opens."""

import pytest

from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage.collect import collector
from bookie.storage.collect.compactor import Compactor
from bookie.storage.collect.plan import Kind
from bookie.storage.collect_options import CompactionOptions, CompactionRule
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, Outcome, entry, put, run

ALL = CompactionOptions(entries_per_s=None, major=CompactionRule(0.99, 100_000_000))


class Told:
    """What the dead process had told its clients."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.fenced: list[int] = []
        self.limbo: list[int] = []
        self.cleared: list[int] = []
        self.deleted: list[int] = []
        self.compacted = 0

    async def work(self, bench: Bench, store: EntryStore) -> None:
        for round_ in range(3):
            await self.add(bench, store, 1, range(round_ * 4, round_ * 4 + 4))
            await self.add(bench, store, 10 + round_, [0])
            fence = Outcome()
            store.fence(LedgerId(20 + round_), KEY, fence)
            await bench.settle(fence)
            self.fenced.append(20 + round_)
            await store.protect([(LedgerId(30 + round_), True, True, KEY)], epoch=round_)
            self.limbo.append(30 + round_)
            if round_ != 1:
                await store.flush()
            await self.repair(store, round_)
            # Its logs hold what was deleted, too: what is left of them moves.
            await collector.drop_dead_logs(store)
            self.compacted += (await Compactor(store, ALL, bench.node.world.clock).compact(Kind.MAJOR)).logs

    async def repair(self, store: EntryStore, round_: int) -> None:
        """What phase two does to a ledger in limbo, and the collector to one that is gone."""
        store.add_copied(LedgerId(30 + round_), EntryId(5), entry(30 + round_, 5, payload=bytes(700)), KEY)
        await store.flush()
        self.entries.append((30 + round_, 5))
        self.limbo.remove(30 + round_)
        store.clear_limbo(LedgerId(30 + round_))
        self.entries.remove((10 + round_, 0))
        store.delete_ledger(LedgerId(10 + round_))
        await store.flush()
        self.cleared.append(30 + round_)
        self.deleted.append(10 + round_)

    async def add(self, bench: Bench, store: EntryStore, ledger_id: int, entry_ids: "range | list[int]") -> None:
        outcomes = [(entry_id, put(store, ledger_id, entry_id, payload=bytes(700))) for entry_id in entry_ids]
        await bench.settle(*(outcome for _, outcome in outcomes))
        self.entries += [(ledger_id, entry_id) for entry_id, outcome in outcomes if outcome.is_ok]

    async def check(self, bench: Bench, store: EntryStore) -> None:
        for ledger_id, entry_id in self.entries:
            assert await bench.read(store, ledger_id, entry_id) == entry(ledger_id, entry_id, payload=bytes(700))
        for ledger_id in self.fenced:
            facts = store.facts(LedgerId(ledger_id))
            assert facts is not None
            assert facts.is_fenced
        for ledger_id in self.limbo:
            facts = store.facts(LedgerId(ledger_id))
            assert facts is not None
            assert facts.is_limbo
        for ledger_id in self.cleared:
            facts = store.facts(LedgerId(ledger_id))
            assert facts is not None
            assert (facts.is_limbo, facts.is_fenced) == (False, True)
        for ledger_id in self.deleted:
            assert store.facts(LedgerId(ledger_id)) is None


@pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT])
@pytest.mark.slow
def test_a_cut_at_any_disk_operation_loses_nothing_acknowledged(how: ProcessEnd) -> None:
    operation, died = 0, True
    while died:
        operation += 1
        died = run_cut_at(operation, how)
    assert operation > 60, "the life was too short to say anything"


def run_cut_at(operation: int, how: ProcessEnd) -> bool:
    bench, told = Bench(operation, journal_file_bytes_max=12_288, entry_log_bytes_max=12_288), Told()

    async def story(bench: Bench) -> bool:
        died = await bench.dies(lambda store: told.work(bench, store), operation=operation, how=how)
        # The restart is cut too, somewhere else, before the one that is looked at.
        await bench.dies(lambda store: told.check(bench, store), operation=1 + operation % 17, how=how)
        await bench.life(lambda store: told.check(bench, store))
        assert died or told.compacted >= 2
        return died

    return run(story, bench)
