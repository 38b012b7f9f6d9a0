"""Which ledgers name a bookie (spec/metadata.md#M12): what a drain, a retirement and a forgetting take for proof."""

import pytest

from bookie.base.ids import BookieId, LedgerId
from bookie.base.units import NS_PER_S
from bookie.client.repair import naming
from bookie.metadata import paths
from bookie.sim.history import TreeHistory
from client_support import Fleet, tell
from story_support import story


@story(tell, zones="abcd")
async def test_an_old_view_of_the_store_hides_no_ledger_that_names_a_bookie(fleet: Fleet) -> None:
    """The server of our session may be behind the one that took the ledger's record."""
    keeper = fleet.machine.keeper
    async with fleet.client() as client, fleet.client() as another:
        keeper.history = TreeHistory(keeper.tree)
        for path in list(keeper.tree.nodes):
            keeper.history.note(path, fleet.machine.loop.now_ns)
        await fleet.machine.loop.sleep_ns(NS_PER_S)
        writer = await another.create()
        keeper.faults.lag_ns = 10**6 * NS_PER_S
        bookies = [each.id for each in fleet.bookies]

        found = [each async for each in naming.look(client.shared.ledgers, bookies)]

        assert [None if each is None else each.ledger_id for each in found] == [writer.id]


@story(tell)
async def test_a_record_that_nobody_can_read_may_name_the_bookie(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        await fleet.store.put(paths.ledger_path("/ledgers", writer.id), b"not a record", -1)

        found = await naming.look_at(client.shared.ledgers, writer.id, [BookieId("b9")])

        assert found is not None
        assert "its record cannot be read" in found.problem


@pytest.mark.parametrize("may_hold", [True, False])
def test_a_recovery_under_way_may_still_name_the_bookie_that_holds_entries_of_it(*, may_hold: bool) -> None:
    asked: list[LedgerId] = []

    def holds(ledger_id: LedgerId) -> bool:
        asked.append(ledger_id)
        return may_hold

    async def story(fleet: Fleet) -> None:
        async with fleet.client() as client:
            writer = await client.create()
            ledgers, stranger = client.shared.ledgers, [BookieId("b9")]
            assert await naming.look_at(ledgers, writer.id, stranger, holds) is None  # open: nobody recovers it yet
            metadata, version = await ledgers.get(writer.id)
            await ledgers.put(writer.id, metadata.in_recovery(), version)

            found = await naming.look_at(ledgers, writer.id, stranger, holds)

            assert asked == [writer.id]
            assert (found is not None and found.must_end and found.is_recovered) is may_hold

    tell(story)
