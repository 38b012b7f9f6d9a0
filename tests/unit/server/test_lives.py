"""Deferred adds are answered from memory to who asked which life that is, and to nobody else (BP-14;
spec/bp46.md#T17)."""

import dataclasses

import server_support
from bookie.base.errors import Status
from bookie.base.ids import BootEpoch, EntryId, Incarnation, LedgerId, Life
from bookie.base.units import NS_PER_S
from bookie.storage.store import EntryStore
from bookie.wire import codes, runs
from bookie.wire.messages import (
    AddRequest,
    AddRunResponse,
    BookieInfoRequest,
    BookieInfoResponse,
    ForceRequest,
    Outgoing,
)
from server_support import KEY, LEDGER, Asker, add, body
from story_support import story

LIFE = Life(Incarnation(3), BootEpoch(9))


async def introduce(asker: Asker) -> None:
    """Ask which life it is."""
    asker.processor.life = LIFE
    answer = await asker.ask(BookieInfoRequest(0, 3, codes.INFO_LIFE))
    assert isinstance(answer, BookieInfoResponse)
    assert answer.life == LIFE


def stranger(asker: Asker) -> Asker:
    """Another connection to the same bookie."""
    return Asker(asker.node, asker.processor, asker.admission)


async def block_syncs(asker: Asker) -> None:
    """From now on a sync takes a minute on average; entry 0 is there."""
    await asker.add(0)
    block_syncs_of(asker)


def block_syncs_of(asker: Asker) -> None:
    asker.node.disk_faults.sync_latency_ns = 60 * NS_PER_S


async def soon(asker: Asker) -> None:
    await asker.node.simulation.loop.sleep_ns(NS_PER_S // 10)


async def is_answered(asker: Asker, txn: int) -> None:
    await asker.node.simulation.until(lambda: txn in asker.answers, "the answer after the sync")


@story(server_support.run)
async def test_a_deferred_add_is_answered_before_the_sync_and_a_force_after_it(asker: Asker, store: EntryStore) -> None:
    """CONFORMANCE.md#D9, D18: at once, from memory."""

    await introduce(asker)
    await block_syncs(asker)

    early = asker.send(add(1, is_deferred=True))
    force = asker.send(ForceRequest(0, 3, LEDGER))
    plain = asker.send(add(2))
    assert asker.answers[early].status is Status.EOK
    await soon(asker)
    assert not {force, plain} & set(asker.answers)
    assert (await asker.read(1)).body == body(1)

    await is_answered(asker, force)
    assert asker.answers[force].status is Status.EOK


@story(server_support.run)
async def test_who_did_not_ask_and_who_asked_on_another_connection_is_answered_after_the_sync(
    asker: Asker, store: EntryStore
) -> None:
    await introduce(asker)
    other = stranger(asker)
    await other.ask(BookieInfoRequest(0, 3, codes.INFO_FREE_DISK_SPACE))
    await block_syncs(asker)
    asker.processor.forget(asker)  # its connection broke

    late = [who.send(add(number, is_deferred=True)) for number, who in enumerate((asker, other), 1)]
    await soon(asker)

    assert late[0] not in asker.answers
    assert late[1] not in other.answers
    await is_answered(other, late[1])


@story(server_support.run)
async def test_a_bookie_that_does_not_know_its_own_life_answers_nobody_early(asker: Asker, store: EntryStore) -> None:
    await asker.ask(BookieInfoRequest(0, 3, codes.INFO_LIFE))
    await block_syncs(asker)

    late = asker.send(add(1, is_deferred=True))
    await soon(asker)

    assert late not in asker.answers


@story(server_support.run)
async def test_a_recovery_is_answered_after_the_sync_whatever_it_asks_for(asker: Asker, store: EntryStore) -> None:
    """Wire 7.8."""

    await introduce(asker)
    await block_syncs(asker)

    late = asker.send(add(1, is_deferred=True, is_recovery=True))
    await soon(asker)

    assert late not in asker.answers


@story(server_support.run)
async def test_the_answers_tell_what_is_on_disk_and_not_what_they_are_about(asker: Asker, store: EntryStore) -> None:
    """CONFORMANCE.md#D16, D20."""

    await introduce(asker)

    first = asker.send(add(0, lac=-1, is_deferred=True))
    assert asker.told[first] == -1
    await asker.ask(ForceRequest(0, 3, LEDGER))
    second = asker.send(add(1, lac=-1, is_deferred=True))
    assert asker.told[second] == 0


def test_without_data_in_the_journal_nothing_is_told_to_be_on_disk() -> None:
    """Only what the writer says itself is confirmed; a force is a checkpoint."""

    async def story(asker: Asker, store: EntryStore) -> None:
        other = stranger(asker)
        await introduce(asker)
        for number in range(3):
            txn = asker.send(add(number, lac=-1, is_deferred=True))
            assert asker.told[txn] == -1
            await other.add(number, body=body(number, lac=-1), is_deferred=True)
        assert set(other.told.values()) == {-1}

        confirmed = asker.send(add(3, lac=1, is_deferred=True))
        await soon(asker)
        after = asker.send(add(4, lac=1, is_deferred=True))

        assert (asker.told[confirmed], asker.told[after]) == (-1, 1)
        assert (await asker.ask(ForceRequest(0, 3, LEDGER))).status is Status.EOK

    storage = dataclasses.replace(server_support.STORAGE, journal_write_data=False)
    server_support.run(story, storage=storage)


@story(server_support.run)
async def test_one_bad_add_among_good_ones_is_the_only_one_refused(asker: Asker, store: EntryStore) -> None:
    await introduce(asker)
    await block_syncs(asker)
    gathered = runs.Runs()
    for txn, (number, data) in enumerate([(1, body(1)), (2, body(7)), (3, body(3))], 100):
        request = AddRequest(txn, 3, LEDGER, EntryId(number), KEY, data, is_deferred=True)
        assert not list(gathered.put_add(request))

    for run in gathered.take():
        asker.handle(run)

    statuses = [asker.answers[txn].status for txn in (100, 101, 102)]
    assert statuses == [Status.EOK, Status.EBADREQ, Status.EOK]


@story(server_support.run, in_flight_bytes_max=10_000)
async def test_what_was_answered_early_takes_room_until_it_is_on_disk(asker: Asker, store: EntryStore) -> None:
    """A client that waits for nothing is not read from for ever."""

    await introduce(asker)
    await block_syncs(asker)

    for number in range(1, 200):
        asker.send(add(number, is_deferred=True))
    assert asker.admission.is_full

    await asker.node.simulation.until(lambda: not asker.admission.is_full, "room")


@story(server_support.run)
async def test_a_refusal_is_not_answered_twice(asker: Asker, store: EntryStore) -> None:
    await introduce(asker)
    await asker.add(0, is_deferred=True)
    await asker.read(-1, is_fencing=True, master_key=KEY)

    assert (await asker.add(1, is_deferred=True)).status is Status.EFENCED
    elsewhere = await asker.add(0, ledger_id=LedgerId(8), body=body(0, ledger_id=8), is_deferred=True)
    assert elsewhere.status is Status.EOK


@story(server_support.run)
async def test_a_ledger_made_again_under_a_deleted_id_is_not_called_synced(asker: Asker, store: EntryStore) -> None:
    """CONFORMANCE.md#D19: a writer that believed the old ledger's cursor would take for forced what is in memory."""

    await introduce(asker)
    for number in range(5):
        await asker.add(number, is_deferred=True)
    await asker.ask(ForceRequest(0, 3, LEDGER))
    told: list[AddRunResponse] = []
    listened = asker.reply

    def listen(response: Outgoing) -> None:
        if isinstance(response, AddRunResponse):
            told.append(response)
        listened(response)

    asker.reply = listen  # type: ignore[method-assign]
    store.delete_ledger(LEDGER)
    await store.flush()
    block_syncs_of(asker)

    asker.send(add(0, is_deferred=True))

    assert [(answer.status, answer.last_synced) for answer in told] == [(Status.EOK, -1)]


@story(server_support.run)
async def test_a_refused_deferred_add_changes_nothing_that_others_are_told(asker: Asker, store: EntryStore) -> None:
    """It made the ledger's cursor begin anew, before anybody looked at its key."""

    for number in range(3):
        await asker.ask(add(number, lac=-1, is_deferred=True))
    again = add(0, lac=-1, is_deferred=True, master_key=b"not this ledger's")

    assert (await asker.ask(again)).status is Status.EUA

    txn = asker.send(add(3, lac=-1, is_deferred=True))
    await is_answered(asker, txn)
    assert asker.told[txn] == 3
