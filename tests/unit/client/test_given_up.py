"""A recovery after a person gave up what bookies held, against model bookies (spec/metadata.md#M49): b1 and b2 are in
limbo for good, and b0 has what is left."""

import json
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_S
from bookie.client import Client
from bookie.client.repair import accepting_loss, recovery
from bookie.metadata import paths
from bookie.metadata.ledger import LedgerMetadata, LedgerState, new_ledger
from bookie.quorum.given_up import GivenUp
from bookie.sim.history import TreeHistory
from bookie.wire import messages
from bookie.wire.digest import Digest, DigestType
from bookie.wire.messages import Request
from client_support import ROOT, Fleet, tell
from story_support import story

LEDGER = LedgerId(1)
NAMES = tuple(BookieId(name) for name in ("b0", "b1", "b2"))


async def left(fleet: Fleet, client: Client, *entries: tuple[int, int]) -> None:
    """An open ledger of which b0 alone has `entries`: their ids, and the LAC that came with each."""
    await client.shared.ledgers.create(new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=NAMES), LEDGER)
    for entry_id, lac in entries:
        body = Digest(DigestType.CRC32C, b"").seal(LEDGER, EntryId(entry_id), lac, 10 * entry_id + 10, b"ten  bytes")
        fleet["b0"].entries[LEDGER, EntryId(entry_id)] = b"".join(body)
    for name in ("b1", "b2"):
        fleet[name].limbo.add(LEDGER)


async def accepted(client: Client, **claims: Any) -> LedgerMetadata:
    sessions = tuple((each, client.shared.watcher.session(each)) for each in NAMES[1:])
    given_up = GivenUp(frozenset(NAMES[1:]), frozenset(), sessions, by="ann", reason="the rack burnt", **claims)
    closed, _ = await recovery.recover(client.shared, LEDGER, given_up=given_up)
    return closed


@story(tell)
async def test_what_is_given_up_counts_only_when_everybody_else_has_answered(fleet: Fleet) -> None:
    """b0 knows that entry 5 is confirmed, so that what it lacks before it ends nothing."""
    async with fleet.client() as client:
        await left(fleet, client, *((number, number - 1) for number in (0, 1, 2, 4, 5, 6)))
        fabric = fleet.machine.fabric
        fabric.hold("b0", "app")
        fleet.machine.loop.call_at_ns(fleet.machine.loop.now_ns + 500_000_000, fabric.release, "b0", "app")

        closed = await accepted(client)

        assert (closed.last_entry, closed.length) == (6, 70)


@story(tell)
async def test_a_bookie_that_restarts_while_the_ledger_is_recovered_is_not_given_up(fleet: Fleet) -> None:
    """Its "unknown" may be that of a process that has not looked at its disks yet."""
    async with fleet.client() as client:
        await left(fleet, client, (0, -1))
        fabric, loop = fleet.machine.fabric, fleet.machine.loop
        restarting: list[Any] = []

        def restarts(request: Request) -> Status | None:
            if isinstance(request, messages.ReadRequest) and not restarting:
                fabric.hold("b0", "app")
                restarting.append(loop.create_task(restart()))
            return None

        async def restart() -> None:
            await fleet.store.delete(f"{paths.available(ROOT)}/b1")
            fabric.release("b0", "app")

        fleet["b1"].script = restarts

        with pytest.raises(errors.BookieUnavailable, match="b1 restarted since it was judged"):
            await accepted(client)

        assert (await client.metadata(LEDGER)).state is LedgerState.IN_RECOVERY


@story(tell)
async def test_a_bookie_that_cannot_say_what_it_has_behind_the_end_ends_nothing(fleet: Fleet) -> None:
    """It is not given up, and what it cannot read now would be given up unsaid."""
    async with fleet.client() as client:
        await left(fleet, client, (0, -1))
        fleet["b0"].script = lambda request: (
            Status.EIO if isinstance(request, messages.ReadRequest) and request.entry_id > 1 else None
        )

        with pytest.raises(errors.StorageFailed):
            await accepted(client)

        assert (await client.metadata(LEDGER)).state is LedgerState.IN_RECOVERY


@story(tell)
async def test_an_entry_far_behind_the_end_is_told_by_the_answer_to_the_fence(fleet: Fleet) -> None:
    """Nobody looks for each entry up to it."""
    async with fleet.client() as client:
        await left(fleet, client, (0, -1), (5000, -1))

        with pytest.raises(errors.GrantRefused, match="entries up to 5000") as refusal:
            await accepted(client)

        assert refusal.value.reason == "tail"
        assert (await accepted(client, tail=True)).last_entry == 0


@story(tell)
async def test_who_is_given_up_is_looked_for_at_a_metadata_server_that_lags(fleet: Fleet) -> None:
    """b1 is another process than the one that was judged, and this client's server has not heard of it."""
    async with fleet.client() as client:
        await left(fleet, client, (0, -1))
        stored, version = await client.shared.ledgers.get(LEDGER)
        await client.shared.ledgers.put(LEDGER, stored.in_recovery(), version)
        keeper, loop = fleet.machine.keeper, fleet.machine.loop
        keeper.history = TreeHistory(keeper.tree)
        for path in list(keeper.tree.nodes):
            keeper.history.note(path, loop.now_ns)
        await loop.sleep_ns(NS_PER_S)
        keeper.faults.lag_ns = keeper.faults.late_watch_ns = 10**6 * NS_PER_S
        await fleet.store.delete(f"{paths.available(ROOT)}/b1")

        with pytest.raises(errors.BookieUnavailable, match="b1 restarted since it was judged"):
            await accepted(client)


@story(tell)
async def test_what_is_given_up_is_planned_by_a_record_that_is_not_old(fleet: Fleet) -> None:
    """Another client closed the ledger, and this client's server has not heard of it."""
    async with fleet.client() as client, fleet.client() as another:
        await left(fleet, client, (0, -1))
        keeper, loop = fleet.machine.keeper, fleet.machine.loop
        keeper.history = TreeHistory(keeper.tree)
        for path in list(keeper.tree.nodes):
            keeper.history.note(path, loop.now_ns)
        await loop.sleep_ns(NS_PER_S)
        stored, version = await another.shared.ledgers.get(LEDGER)
        await another.shared.ledgers.put(LEDGER, stored.in_recovery().closed(EntryId(0), 10), version)
        keeper.faults.lag_ns = 10**6 * NS_PER_S

        with pytest.raises(errors.GrantRefused, match="is closed at entry 0"):
            await accepting_loss.plan(client.shared, LEDGER, NAMES[1:], by="ann", reason="the rack burnt")


@pytest.mark.parametrize("lists", [True, False])
@story(tell)
async def test_a_bookie_that_gives_its_last_entry_may_still_doubt_others(fleet: Fleet, *, lists: bool) -> None:
    """What it lists decides: while it says "unknown" of some entries, no recovery ends, and it may be given up."""
    async with fleet.client() as client:
        await left(fleet, client, (0, -1))
        fleet["b1"].entries[LEDGER, EntryId(0)] = fleet["b0"].entries[LEDGER, EntryId(0)]
        fleet["b1"].script = lambda request: (
            Status.EUNKNOWNLEDGERSTATE if isinstance(request, messages.ListEntriesRequest) and not lists else None
        )
        planning = accepting_loss.plan(
            client.shared, LEDGER, NAMES[1:2], by="ann", reason="the rack burnt", after_crash=True
        )

        if lists:
            with pytest.raises(errors.GrantRefused, match="answers for this ledger"):
                await planning
        else:
            assert (await planning).given_up.in_doubt == {"b1"}


@story(tell)
async def test_only_bookies_whose_answers_decide_the_end_are_given_up(fleet: Fleet) -> None:
    """b1 is named for entry 0 alone, which is confirmed: the end is in the last ensemble."""
    async with fleet.client() as client:
        await left(fleet, client, (0, -1))
        stored, version = await client.shared.ledgers.get(LEDGER)
        changed = stored.with_ensemble(EntryId(1), (NAMES[0], BookieId("b3"), NAMES[2]))
        await client.shared.ledgers.put(LEDGER, changed, version)

        with pytest.raises(errors.GrantRefused, match="is not in the ensemble whose end is not decided"):
            await accepting_loss.plan(
                client.shared, LEDGER, NAMES[1:2], by="ann", reason="the rack burnt", after_crash=True
            )


@pytest.mark.parametrize(("entries", "length", "is_known"), [((0, 1), 20, True), ((0,), 10, False)])
@story(tell)
async def test_the_record_says_whether_the_length_is_that_of_the_end(
    fleet: Fleet, *, entries: tuple[int, ...], length: int, is_known: bool
) -> None:
    """Entry 1 is confirmed: a LAC that b0 was told says so. Where b0 lacks it, nobody knows how long it was."""
    async with fleet.client() as client:
        await left(fleet, client, *((number, -1) for number in entries))
        told = Digest(DigestType.CRC32C, b"").seal(LEDGER, EntryId(0), 1, 10, b"ten  bytes")
        fleet["b0"].entries[LEDGER, EntryId(0)] = b"".join(told)
        if 1 in entries:
            told = Digest(DigestType.CRC32C, b"").seal(LEDGER, EntryId(1), 1, 20, b"ten  bytes")
            fleet["b0"].entries[LEDGER, EntryId(1)] = b"".join(told)

        closed = await accepted(client)

        record = accepting_loss.record_of(closed)
        assert record is not None, json.dumps(str(closed.custom))
        assert (closed.last_entry, closed.length, record["lengthKnown"]) == (1, length, is_known)
