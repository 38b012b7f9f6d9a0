"""Ensemble changes when more goes wrong at a time, and when they are put off (CONFORMANCE.md#P19, P20;
delayEnsembleChange)."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import EntryId
from bookie.client import Client, LedgerWriter
from bookie.wire import messages
from bookie.wire.messages import Request
from client_support import BREAK, MUTE, Fleet, obey, tell
from story_support import story


def ensemble(writer: LedgerWriter) -> list[str]:
    return [str(bookie) for bookie in writer.metadata.last_segment.bookies]


def spares(fleet: Fleet, writer: LedgerWriter) -> list[str]:
    return [str(bookie.id) for bookie in fleet.bookies if str(bookie.id) not in ensemble(writer)]


async def is_whole(client: Client, fleet: Fleet, writer: LedgerWriter, entries: int) -> None:
    """Every entry is where the metadata says, at least on an ack quorum, and reads back."""
    await writer.close()
    metadata = await client.metadata(writer.id)
    for entry_id in range(entries):
        holders = [b for b in metadata.write_set(EntryId(entry_id)) if entry_id in fleet[str(b)].ids(writer.id)]
        assert len(holders) >= metadata.ack_quorum, f"entry {entry_id} is on {holders} only"
    async with await client.open(writer.id) as reader:
        assert [entry.payload for entry in await reader.read(0, entries - 1)] == [b"x"] * entries


@pytest.mark.parametrize("failure", [Status.EIO, BREAK])
@story(tell, zones="abcabc")
async def test_two_bookies_that_fail_at_once_are_both_replaced(fleet: Fleet, *, failure: Status | str) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 10)
        for victim in ensemble(writer)[:2]:
            fleet[victim].script = lambda request: failure
        victims = ensemble(writer)[:2]

        await writer.append_many([b"x"] * 10)
        await fleet.until(lambda: not set(victims) & set(ensemble(writer)), "both to be replaced")
        await is_whole(client, fleet, writer, 20)


@story(tell, zones="abcabc")
async def test_a_bookie_that_holds_a_strangers_key_for_the_ledger_is_replaced(fleet: Fleet) -> None:
    """Who speaks first sets a ledger's key on a bookie (BookKeeper); a stranger who does must not end the ledger."""

    async with fleet.client() as client:
        writer = await client.create()
        victim = ensemble(writer)[1]
        fleet[victim].script = lambda request: Status.EUA

        assert await writer.append_many([b"x"] * 10) == range(10)
        await fleet.until(lambda: victim not in ensemble(writer), "it to be replaced")
        await is_whole(client, fleet, writer, 10)


@story(tell, zones="abcabcabc")
async def test_all_bookies_of_an_ensemble_that_fail_at_once_are_replaced(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        first = ensemble(writer)
        for victim in first:
            fleet[victim].script = lambda request: BREAK if isinstance(request, messages.AddRequest) else None

        assert await writer.append_many([b"x"] * 10) == range(10)
        await is_whole(client, fleet, writer, 10)
        assert len(writer.metadata.segments) == 1, "nothing was confirmed before: replaced in place"


@story(tell, zones="abcabc")
async def test_a_replacement_that_fails_while_it_is_sent_what_it_lacks_is_replaced_in_turn(fleet: Fleet) -> None:
    def fails(request: Request) -> str | None:
        return BREAK if isinstance(request, messages.AddRequest) else None

    async with fleet.client() as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 10)
        victim = ensemble(writer)[0]
        bad = spares(fleet, writer)[:2]
        for bookie in (victim, *bad):
            fleet[bookie].script = fails

        for _ in range(100):
            await writer.append(b"x")
            if not {victim, *bad} & set(ensemble(writer)):
                break
            await asyncio.sleep(0.1)
        assert not {victim, *bad} & set(ensemble(writer))
        await is_whole(client, fleet, writer, writer.last_confirmed + 1)


@story(tell, zones="abcabc")
async def test_a_bookie_that_fails_while_a_change_is_being_written_is_replaced_by_the_next_change(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 10)
        first, second = ensemble(writer)[:2]
        put = client.shared.ledgers.put

        async def slow_put(*arguments: object) -> int:
            fleet[second].break_connections()
            await asyncio.sleep(1)
            return await put(*arguments)  # type: ignore[arg-type]

        client.shared.ledgers.put = slow_put  # type: ignore[method-assign,assignment]
        fleet[first].script = lambda request: Status.EIO
        await writer.append_many([b"x"] * 10)
        client.shared.ledgers.put = put  # type: ignore[method-assign]
        await fleet.until(lambda: first not in ensemble(writer), "the change", timeout_s=120)
        await is_whole(client, fleet, writer, 20)


@story(tell, zones="abcabc")
async def test_with_delayed_changes_a_bookie_that_restarts_costs_no_segment(fleet: Fleet) -> None:
    """delayEnsembleChange: while the ack quorum can be met without it."""

    async with fleet.client(delay_ensemble_change=True) as client:
        writer = await client.create()
        for victim in ensemble(writer):
            await writer.append_many([b"x"] * 5)
            await fleet[victim].stop()
            await writer.append_many([b"x"] * 5)
            await fleet[victim].start()
            before = len(fleet[victim].ids(writer.id))
            for _ in range(100):
                await writer.append(b"x")
                if len(fleet[victim].ids(writer.id)) > before:
                    break
                await asyncio.sleep(0.1)

        assert len(writer.metadata.segments) == 1
        await is_whole(client, fleet, writer, writer.last_confirmed + 1)


@story(tell, zones="abcabc")
async def test_with_delayed_changes_the_ensemble_changes_as_soon_as_the_ack_quorum_needs_it(fleet: Fleet) -> None:
    async with fleet.client(delay_ensemble_change=True, request_timeout_ms=60_000) as client:
        writer = await client.create()
        await writer.append_many([b"x"] * 5)
        victims = ensemble(writer)[:2]
        await fleet[victims[0]].stop()
        await writer.append_many([b"x"] * 5)
        assert len(writer.metadata.segments) == 1
        await fleet[victims[1]].stop()

        await writer.append_many([b"x"] * 5)
        assert len(writer.metadata.segments) == 2
        await is_whole(client, fleet, writer, 15)


@story(tell, zones="abca")
async def test_with_delayed_changes_a_bookie_that_became_read_only_is_replaced_at_once(fleet: Fleet) -> None:
    async with fleet.client(delay_ensemble_change=True) as client:
        writer = await client.create()
        victim = ensemble(writer)[0]
        fleet[victim].script = lambda request: Status.EREADONLY
        await writer.append_many([b"x"] * 5)
        await fleet.until(lambda: victim not in ensemble(writer), "the change")


@story(tell, zones="abca")
async def test_a_silent_bookie_does_not_hold_up_a_change_of_another_slot(fleet: Fleet) -> None:
    async with fleet.client(request_timeout_ms=60_000) as client:
        writer = await client.create()
        silent, victim = ensemble(writer)[:2]
        fleet[silent].script = lambda request: MUTE
        fleet[victim].script = lambda request: Status.EIO

        assert await writer.append_many([b"x"] * 5) == range(5)
        fleet[silent].script = obey
        assert victim not in ensemble(writer)


@story(tell)
async def test_a_ledger_may_be_given_its_id(fleet: Fleet) -> None:
    async with fleet.client() as client:
        for chosen in (7_000_000_000, 2**63 - 1, 0):
            async with await client.create(ledger_id=chosen) as writer:  # type: ignore[arg-type]
                await writer.append(b"x")
            assert writer.id == chosen
            async with await client.open(writer.id) as reader:
                assert reader.last_entry == 0
        with pytest.raises(errors.LedgerExists, match="ledger 7000000000 exists already"):
            await client.create(ledger_id=7_000_000_000)  # type: ignore[arg-type]
        for bad in (-1, 2**63):
            with pytest.raises(errors.BadInput, match="ledger_id must be 0 to"):
                await client.create(ledger_id=bad)  # type: ignore[arg-type]
        assert [ledger async for ledger in client.ledgers()] == [0, 7_000_000_000, 2**63 - 1]


REFUSALS = [Status.EFENCED, Status.EUA]


def refuses_adds(fleet: Fleet, name: str, status: Status) -> None:
    fleet[name].script = lambda request: status if isinstance(request, messages.AddRequest) else None


@pytest.mark.parametrize("status", REFUSALS)
@story(tell, zones="abcabc")
async def test_who_refuses_one_ledger_is_asked_as_before_for_others(fleet: Fleet, *, status: Status) -> None:
    """That it is fenced there, or has a stranger's key, is no fault of the bookie: it goes into no quarantine."""
    async with fleet.client() as client:
        writer = await client.create()
        victim = writer.metadata.last_segment.bookies[0]
        refuses_adds(fleet, str(victim), status)

        await writer.append_many([b"x"] * 10)
        await fleet.until(lambda: str(victim) not in ensemble(writer), "it to be replaced")

        assert not client.shared.pool.is_quarantined(victim)


@pytest.mark.parametrize("status", REFUSALS)
@story(tell)
async def test_who_refuses_the_ledger_is_not_tried_again_in_its_place_where_nobody_else_is(
    fleet: Fleet, *, status: Status
) -> None:
    """It would say the same each time; the ledger goes on without it as long as an ack quorum is left."""
    async with fleet.client() as client:
        writer = await client.create()
        victim = ensemble(writer)[0]
        refuses_adds(fleet, victim, status)
        await writer.append(b"x")
        await fleet.until(lambda: bool(fleet[victim].asked(messages.AddRequest)), "it to be asked")
        await asyncio.sleep(1)
        asked = len(fleet[victim].asked(messages.AddRequest))

        for _ in range(10):
            await writer.append(b"x")
            await asyncio.sleep(1)

        assert len(fleet[victim].asked(messages.AddRequest)) == asked


@pytest.mark.parametrize("status", REFUSALS)
@story(tell, zones="abcabc")
async def test_who_refuses_the_ledger_is_replaced_at_once_also_where_changes_are_put_off(
    fleet: Fleet, *, status: Status
) -> None:
    """delayEnsembleChange waits for bookies that may be back, and this one will not."""
    async with fleet.client(delay_ensemble_change=True) as client:
        writer = await client.create()
        victim = ensemble(writer)[0]
        refuses_adds(fleet, victim, status)

        await writer.append(b"x")

        await fleet.until(lambda: victim not in ensemble(writer), "it to be replaced", timeout_s=5)


@story(tell, zones="abcabc")
async def test_strangers_keys_on_one_bookie_after_the_other_do_not_add_up(fleet: Fleet) -> None:
    """Only those that are in the ensemble now tell whether the password is wrong."""
    async with fleet.client() as client:
        writer = await client.create()
        for slot in range(3):
            victim = ensemble(writer)[slot]
            refuses_adds(fleet, victim, Status.EUA)
            while victim in ensemble(writer) or any(not fleet[each].ids(writer.id) for each in ensemble(writer)):
                await writer.append(b"x")
                await asyncio.sleep(0.1)

        await is_whole(client, fleet, writer, writer.last_confirmed + 1)


@pytest.mark.parametrize("status", REFUSALS)
@story(tell, zones="abca")
async def test_who_refuses_the_ledger_takes_no_other_place_of_it(fleet: Fleet, *, status: Status) -> None:
    """Each time it were drawn, a segment more would name it, and with a second one like it the writer would end."""
    async with fleet.client() as client:
        writer = await client.create()
        victim, other = ensemble(writer)[:2]
        refuses_adds(fleet, victim, status)
        await writer.append(b"x")
        await fleet.until(lambda: victim not in ensemble(writer), "it to be replaced")
        await fleet[other].stop()

        for _ in range(10):
            await writer.append(b"x")
            await asyncio.sleep(0.5)

        assert [victim in segment.bookies for segment in writer.metadata.segments[1:]] in ([], [False])
        assert victim not in ensemble(writer)
