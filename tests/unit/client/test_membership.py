"""Who is away and who is lost, between two looks (spec/metadata.md#M46)."""

from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_S
from bookie.client import Client
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.maintenance import Maintenance
from bookie.client.repair.membership import Membership
from bookie.metadata import paths
from bookie.metadata.maintenance import MaintenanceLease
from bookie.quorum.mending import Standing
from bookie.sim.history import TreeHistory
from client_support import Fleet, tell
from story_support import story

ROOT = "/ledgers"
B0 = BookieId("b0")


async def membership(fleet: Fleet, client: Client) -> Membership:
    """Of a fleet whose bookies all have cookies; a bookie is lost after 60 s."""
    for each in fleet.bookies:
        await fleet.store.create(f"{paths.cookies(ROOT)}/{each.id}", b"", parents=True)
    shared = client.shared
    members = Membership(shared, AutoRecovery(shared.ledgers.store, ROOT), AutoRecoveryOptions())
    await members.look()
    return members


async def sleep(fleet: Fleet, seconds: int) -> None:
    await fleet.machine.loop.sleep_ns(seconds * NS_PER_S)


@story(tell, zones="abcd")
async def test_a_bookie_that_came_back_between_two_looks_begins_anew(fleet: Fleet) -> None:
    """A worker copies one ledger for minutes; a bookie is restarted at its beginning, and once more at its end."""
    async with fleet.client() as client:
        members = await membership(fleet, client)
        await fleet["b0"].stop()
        await sleep(fleet, 1)
        assert members.standings([B0]) == {B0: Standing.AWAY}
        await fleet["b0"].start()
        await sleep(fleet, 300)
        await fleet["b0"].stop()
        await sleep(fleet, 1)

        assert members.standings([B0]) == {B0: Standing.AWAY}
        assert members.lost == frozenset()


@story(tell, zones="abcd")
async def test_none_is_lost_while_most_are_away_also_long_after_the_last_look(fleet: Fleet) -> None:
    """The registrations vanish in the middle of a turn that lasts: an outage of the metadata store."""
    async with fleet.client() as client:
        members = await membership(fleet, client)
        for each in fleet.bookies[:3]:
            await each.stop()
        names = [each.id for each in fleet.bookies]
        await sleep(fleet, 1)
        members.standings(names)
        await sleep(fleet, 120)

        assert Standing.LOST not in members.standings(names).values()
        assert members.lost == frozenset()


@story(tell, zones="abcd")
async def test_the_delay_that_was_set_for_the_cluster_holds_and_not_our_own(fleet: Fleet) -> None:
    async with fleet.client() as client:
        members = await membership(fleet, client)
        await AutoRecovery(fleet.store, ROOT).set_delay_s(300)
        await fleet["b0"].stop()
        await sleep(fleet, 1)
        await members.look()
        await sleep(fleet, 120)
        await members.look()
        assert members.lost == frozenset()

        await sleep(fleet, 200)
        assert members.lost == {B0}


@story(tell, zones="abcd")
async def test_a_bookie_under_maintenance_is_not_lost_from_the_first_look_on(fleet: Fleet) -> None:
    async with fleet.client() as client:
        members = await membership(fleet, client)
        await Maintenance(fleet.store, ROOT).take(B0, MaintenanceLease(600, "me"))
        await fleet["b0"].stop()
        await sleep(fleet, 120)

        await members.look()

        assert members.leased == {B0}
        assert members.lost == frozenset()


@story(tell, zones="abcd")
async def test_a_bookie_that_is_away_is_lost_only_when_its_lease_is_over(fleet: Fleet) -> None:
    async with fleet.client() as client:
        members = await membership(fleet, client)
        await Maintenance(fleet.store, ROOT).take(B0, MaintenanceLease(300, "me"))
        await fleet["b0"].stop()
        await sleep(fleet, 1)
        await members.look()
        await sleep(fleet, 120)
        await members.look()
        assert members.lost == frozenset()

        await sleep(fleet, 200)
        assert members.lost == {B0}


@story(tell, zones="abcd")
async def test_a_bookie_that_is_back_when_its_lease_ends_came_back_then(fleet: Fleet) -> None:
    """Nobody looked for its holes while the lease stood."""
    async with fleet.client() as client:
        members = await membership(fleet, client)
        leases = Maintenance(fleet.store, ROOT)
        await leases.take(B0, MaintenanceLease(300, "me"))
        await members.look()
        assert members.take_returned() == []

        await leases.end(B0)
        await members.look()

        assert members.take_returned() == [B0]


@story(tell, zones="abcd")
async def test_a_lease_that_an_old_view_of_the_store_lacks_is_seen_before_anybody_is_lost(fleet: Fleet) -> None:
    keeper = fleet.machine.keeper
    keeper.history = TreeHistory(keeper.tree)
    for path in list(keeper.tree.nodes):
        keeper.history.note(path, fleet.machine.loop.now_ns)
    async with fleet.client() as client:
        members = await membership(fleet, client)
        await fleet["b0"].stop()
        await sleep(fleet, 1)
        members.standings([B0])
        await sleep(fleet, 120)
        keeper.faults.lag_ns = 10**6 * NS_PER_S
        await Maintenance(fleet.store, ROOT).take(B0, MaintenanceLease(300, "me"))

        await members.look_at_leases()

        assert members.leased == {B0}


@story(tell, zones="abcd")
async def test_a_picture_that_was_not_believable_is_looked_at_again_before_anybody_is_lost(fleet: Fleet) -> None:
    """Some registrations came back and others may be about to."""
    async with fleet.client() as client:
        members = await membership(fleet, client)
        for each in fleet.bookies[:3]:
            await each.stop()
        await sleep(fleet, 120)
        await members.look()
        for each in fleet.bookies[1:3]:
            await each.start()
        await sleep(fleet, 120)
        assert members.lost == frozenset()

        await members.look()
        assert members.lost == {B0}
