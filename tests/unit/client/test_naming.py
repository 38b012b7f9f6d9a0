"""Which ledgers name a bookie (spec/metadata.md#M12): what a drain, a retirement and a forgetting take for proof."""

from bookie.base.units import NS_PER_S
from bookie.client.repair import naming
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
