"""Which entries a person may declare lost, against model bookies (spec/metadata.md#M57)."""

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, IdRange, LedgerId
from bookie.client import Client
from bookie.client.repair import declaring_lost
from bookie.client.repair.declaring_lost import LostPlan
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from client_support import Fleet, tell
from story_support import story

LEDGER = LedgerId(1)


def ledger() -> LedgerMetadata:
    bookies = tuple(BookieId(name) for name in ("b0", "b1", "b2"))
    return new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=bookies)


async def planned(client: Client, *entries: IdRange) -> LostPlan:
    return await declaring_lost.plan(client.shared, LEDGER, ["b0"], by="me", reason="burnt", entries=entries)  # type: ignore[list-item]


@pytest.mark.parametrize("last", [0, declaring_lost._WINDOW])
@story(tell)
async def test_the_last_entry_is_looked_for_too_where_it_is_alone_at_its_end(fleet: Fleet, *, last: int) -> None:
    """Nobody has any of them, and every bookie says so."""
    async with fleet.client() as client:
        await client.shared.ledgers.create(ledger().closed(EntryId(last), 7), LEDGER)
        for bookie in fleet.bookies:
            bookie.listed = [(0, last - 1)] if last else []  # all but the last one

        wanted = await planned(client)

        assert wanted.runs == ((last, last),)


@story(tell)
async def test_a_ledger_without_an_end_has_nothing_to_declare_lost(fleet: Fleet) -> None:
    """Its recovery decides what of it is there; also what somebody names."""
    async with fleet.client() as client:
        made = ledger().with_ensemble(EntryId(5), tuple(BookieId(name) for name in ("b2", "b1", "b0")))
        await client.shared.ledgers.create(made, LEDGER)

        for entries in ((), ((EntryId(0), EntryId(1)),)):
            with pytest.raises(errors.GrantRefused) as refusal:
                await planned(client, *entries)
            assert refusal.value.reason == "open"


@story(tell)
async def test_ranges_that_meet_or_lie_outside_are_refused_by_name(fleet: Fleet) -> None:
    async with fleet.client() as client:
        await client.shared.ledgers.create(ledger().closed(EntryId(9), 7), LEDGER)

        for wrong, said in (
            (((0, 3), (3, 5)), "entry 3 is named twice"),
            (((5, 10),), "the ledger has entries 0 to 9"),
            (((-1, 2),), "the ledger has entries 0 to 9"),
            (((4, 3),), "the ledger has entries 0 to 9"),
        ):
            with pytest.raises(errors.BadInput, match=said):
                await planned(client, *((EntryId(first), EntryId(last)) for first, last in wrong))
        assert (await planned(client, (EntryId(8), EntryId(9)), (EntryId(0), EntryId(3)))).runs == ((0, 3), (8, 9))
