"""What the auditor counts, and `explain` tells, of ledgers that lie too close together (spec/metadata.md#M51)."""

import asyncio

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client
from bookie.client.repair import explaining
from bookie.client.repair.auditor import Auditor
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.membership import Membership
from bookie.metadata import paths
from bookie.metadata.ledger import new_ledger
from client_support import Fleet, tell
from story_support import story

ROOT = "/ledgers"


async def with_ledger(client: Client, number: int, *names: str) -> LedgerId:
    """A closed ledger on these bookies; without entries on them, since nobody lists here."""
    bookies = tuple(BookieId(name) for name in names)
    made = new_ledger(ensemble_size=len(bookies), write_quorum=2, ack_quorum=2, bookies=bookies)
    await client.shared.ledgers.create(made.closed(EntryId(9), 100), LedgerId(number))
    return LedgerId(number)


async def auditor(fleet: Fleet, client: Client, **options: int) -> Auditor:
    for each in fleet.bookies:
        await fleet.store.create(f"{paths.cookies(ROOT)}/{each.id}", b"", parents=True)
    shared, options = client.shared, AutoRecoveryOptions(check_interval_ms=0, **options)
    recovery = AutoRecovery(shared.ledgers.store, ROOT)
    return Auditor(shared, recovery, Membership(shared, recovery, options), BookieId("me:1"), options)


@story(tell, zones="aabb")
async def test_ledgers_that_lie_too_close_are_counted_and_not_marked(fleet: Fleet) -> None:
    async with fleet.client() as client:
        await with_ledger(client, 1, "b0", "b1")
        await with_ledger(client, 2, "b0", "b2")
        await with_ledger(client, 3, "b2", "b3")
        looking = await auditor(fleet, client)

        await looking.turn()

        assert (looking.counts.audits, looking.counts.misplaced, looking.counts.marked) == (1, 2, 0)


@story(tell, zones="aabb")
async def test_a_loss_is_audited_when_its_time_is_over_and_not_at_the_next_poll(fleet: Fleet) -> None:
    async with fleet.client() as client:
        await with_ledger(client, 1, "b0", "b2")
        looking = await auditor(fleet, client, loss_delay_ms=7_000, poll_ms=600_000)
        running = asyncio.ensure_future(looking.run())
        await asyncio.sleep(1)
        await fleet["b0"].stop()

        await asyncio.sleep(6)
        assert looking.counts.marked == 0
        await asyncio.sleep(2)
        assert looking.counts.marked == 1
        assert (await fleet.store.get(paths.auditor_votes(ROOT))).data == b'bookieId: "me:1"\n'
        running.cancel()


@story(tell, zones="aabb")
async def test_a_bookie_that_only_a_ledger_names_is_lost_in_the_look_behind_the_first(fleet: Fleet) -> None:
    """Nobody has its cookie, so the first look is the first to hear of it; the delay is 0."""
    async with fleet.client() as client:
        looking = await auditor(fleet, client, loss_delay_ms=0, poll_ms=600_000)
        running = asyncio.ensure_future(looking.run())
        await asyncio.sleep(2)
        await with_ledger(client, 1, "b0", "stranger")

        await AutoRecovery(client.shared.ledgers.store, ROOT).set_delay_s(0)  # asks for a look
        await asyncio.sleep(2)
        assert looking.counts.marked == 1
        running.cancel()


@story(tell, zones="aabb")
async def test_a_person_is_told_which_segment_lies_too_close_and_what_would_move_it(fleet: Fleet) -> None:
    async with fleet.client() as client:
        close, spread = await with_ledger(client, 1, "b0", "b1"), await with_ledger(client, 2, "b0", "b2")

        told = await explaining.explain(client.shared, close)

        assert [each.bookies for each in told.misplaced] == [("b0", "b1")]
        assert "in 1 zones on average, and could be in 2" in told.misplaced[0].reason
        assert any("recover-bookie BOOKIE --ledger 1" in each for each in told.helps)
        assert (await explaining.explain(client.shared, spread)).misplaced == ()
