"""Which entries a person may declare lost, against model bookies (spec/metadata.md#M57)."""

import dataclasses
from typing import Any, cast

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, IdRange, LedgerId
from bookie.client import Client
from bookie.client.repair import accepting_loss, declaring_lost
from bookie.client.repair.accepting_loss import LossPlan
from bookie.client.repair.declaring_lost import LostPlan
from bookie.metadata import serde
from bookie.metadata.ledger import LedgerMetadata, LedgerState, new_ledger
from bookie.ports.metadata_store import MetadataStore
from bookie.quorum.given_up import GivenUp
from bookie.wire import messages
from bookie.wire.digest import Digest, DigestType
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


async def found_elsewhere(fleet: Fleet, client: Client) -> LostPlan:
    """Entry 0, which bookies b0 and b1 owe, and b2 alone has."""
    await client.shared.ledgers.create(ledger().closed(EntryId(0), 7), LEDGER)
    fleet["b2"].listed = [(0, 0)]
    fleet["b2"].entries[LEDGER, EntryId(0)] = sealed(b"entry 0")
    wanted = await planned(client)
    assert (wanted.runs, wanted.found) == ((), {0: "b2"})
    return wanted


def sealed(payload: bytes) -> bytes:
    return b"".join(Digest(DigestType.CRC32C, b"").seal(LEDGER, EntryId(0), -1, 7, payload))


@story(tell)
async def test_what_is_copied_back_is_on_disk_before_anybody_relies_on_it(fleet: Fleet) -> None:
    async with fleet.client() as client:
        wanted = await found_elsewhere(fleet, client)

        await declaring_lost.declare(client.shared, wanted)

        for name in ("b0", "b1"):
            asked = [type(each) for each in fleet[name].requests]
            assert asked.index(messages.ForceRequest) > asked.index(messages.AddRequest)
            assert fleet[name].entries[LEDGER, EntryId(0)] == sealed(b"entry 0")


@story(tell)
async def test_a_copy_that_went_bad_since_it_was_found_is_not_copied_back(fleet: Fleet) -> None:
    async with fleet.client() as client:
        wanted = await found_elsewhere(fleet, client)
        fleet["b2"].entries[LEDGER, EntryId(0)] = sealed(b"entry 0")[:-1] + b"?"

        with pytest.raises(errors.DigestMismatch):
            await declaring_lost.declare(client.shared, wanted)

        assert [each for each in fleet.bookies if each.asked(messages.AddRequest)] == []


@story(tell)
async def test_copying_back_to_bookies_that_were_replaced_meanwhile_is_no_success(fleet: Fleet) -> None:
    """Nothing is declared lost, and nothing is written; but the copies are not where the ledger looks for them."""
    async with fleet.client() as client:
        wanted = await found_elsewhere(fleet, client)
        stored, version = await client.shared.ledgers.get(LEDGER)
        await client.shared.ledgers.put(LEDGER, stored.with_custom("a", b"b"), version)

        with pytest.raises(errors.VersionConflict, match="begin again"):
            await declaring_lost.declare(client.shared, wanted)


async def made_anew(client: Client, anew: LedgerMetadata) -> None:
    """Another ledger under the id, at the version of the one that was looked at."""
    await client.delete(LEDGER)
    await client.shared.ledgers.create(dataclasses.replace(anew, password=b"another"), LEDGER)


@story(tell)
async def test_nothing_is_declared_lost_of_a_ledger_that_was_made_in_the_place_of_the_one_that_was_looked_at(
    fleet: Fleet,
) -> None:
    """Nor are its bookies given what the other one had."""
    async with fleet.client() as client:
        wanted = await found_elsewhere(fleet, client)
        await made_anew(client, wanted.metadata)

        for runs in ((), ((EntryId(0), EntryId(0)),)):
            with pytest.raises(errors.LedgerMissing, match="made anew"):
                await declaring_lost.declare(client.shared, dataclasses.replace(wanted, runs=runs))

        assert [each for each in fleet.bookies if each.asked(messages.AddRequest)] == []
        assert (await client.metadata(LEDGER)).losses() == ()


class Overtaken:
    """A metadata store whose answer to the first change is lost, and before anybody asks again the record changes once
    more."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._is_first = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, path: str, data: bytes, version: int) -> int:
        if not self._is_first:
            return await self._store.put(path, data, version)
        self._is_first = False
        version = await self._store.put(path, data, version)
        metadata = serde.load_ledger(data, 0)
        await self._store.put(path, serde.dump_ledger(metadata.with_custom("somebody", b"was here")), version)
        raise errors.OutcomeUnknown("no answer")


@story(tell)
async def test_a_declaration_that_happened_is_no_failure_though_its_answer_was_lost_and_the_record_went_on(
    fleet: Fleet,
) -> None:
    async with fleet.client() as client:
        await client.shared.ledgers.create(ledger().closed(EntryId(0), 7), LEDGER)
        for bookie in fleet.bookies:
            bookie.listed = []
        wanted = await planned(client)
        client.shared.ledgers.store = cast(MetadataStore, Overtaken(client.shared.ledgers.store))

        stood = await declaring_lost.declare(client.shared, wanted)

        assert stood == await client.metadata(LEDGER)
        assert [act.runs for act in stood.losses()] == [((0, 0),)]
        assert ("somebody", b"was here") in stood.custom


@story(tell)
async def test_a_loss_is_accepted_of_the_ledger_that_was_looked_at_alone(fleet: Fleet) -> None:
    async with fleet.client() as client:
        await client.shared.ledgers.create(ledger(), LEDGER)
        looked_at, version = await client.shared.ledgers.get(LEDGER)
        wanted = LossPlan(LEDGER, looked_at, version, GivenUp(frozenset(), frozenset()))
        await made_anew(client, ledger())

        with pytest.raises(errors.LedgerMissing, match="made anew"):
            await accepting_loss.accept(client.shared, wanted)

        assert (await client.metadata(LEDGER)).state is LedgerState.OPEN


@story(tell)
async def test_the_answer_that_leaves_most_open_decides_whether_a_bookie_may_be_given_up(fleet: Fleet) -> None:
    """b1 has bad bytes of entry 0, which is final, and may still have entry 1: it never began anew."""
    async with fleet.client() as client:
        await client.shared.ledgers.create(ledger().closed(EntryId(1), 14), LEDGER)
        for bookie in fleet.bookies:
            bookie.keys[LEDGER] = b""
        fleet["b1"].entries[LEDGER, EntryId(0)] = sealed(b"entry 0")[:-1] + b"?"
        fleet["b1"].limbo.add(LEDGER)

        with pytest.raises(errors.GrantRefused, match="its identity never began anew") as refusal:
            await declaring_lost.plan(client.shared, LEDGER, [BookieId("b1")], by="me", reason="burnt")

        assert refusal.value.reason == "may_answer"


@story(tell, zones="abcabc")
async def test_a_ledger_is_settled_by_those_of_the_named_bookies_that_are_its_own(fleet: Fleet) -> None:
    """One loss has ledgers of several ensembles, and is told with all its bookies."""
    async with fleet.client() as client:
        await client.shared.ledgers.create(ledger(), LEDGER)
        fleet["b0"].entries[LEDGER, EntryId(0)] = sealed(b"entry 0")
        for bookie in fleet.bookies:
            bookie.listed = [(0, 0)]
        for name in ("b1", "b2"):
            await fleet[name].stop()
        lost = [BookieId(name) for name in ("b1", "b2", "b9")]

        closed = await declaring_lost.settle(client.shared, LEDGER, lost, by="me", reason="burnt")

        assert (closed.state, closed.last_entry) == (LedgerState.CLOSED, 0)
