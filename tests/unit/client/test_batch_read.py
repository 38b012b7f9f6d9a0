"""Reading in batches: many entries per answer; what a batch cannot bring is read entry by entry (spec/wire.md#W9,
W62)."""

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.client import Client
from bookie.client.read.batch_read import BATCH_BYTES
from bookie.wire import messages
from bookie.wire.messages import Request
from client_support import BREAK, MUTE, Fleet, tell
from story_support import story


async def written(client: Client, payloads: list[bytes], **shape: int) -> LedgerId:
    async with await client.create(**shape) as writer:  # type: ignore[arg-type]
        await writer.append_many(payloads)
    return writer.id


def batches(fleet: Fleet) -> list[messages.BatchReadRequest]:
    return [request for bookie in fleet.bookies for request in bookie.asked(messages.BatchReadRequest)]


def singles(fleet: Fleet) -> int:
    return sum(len(bookie.asked(messages.ReadRequest)) for bookie in fleet.bookies)


@pytest.mark.parametrize("version", [2, 3])
@story(tell)
async def test_a_whole_ledger_comes_in_a_few_answers(fleet: Fleet, *, version: int) -> None:
    async with fleet.client(batch_reads=True, protocol_version=version) as client:
        payloads = [b"%d" % number * (number % 7) for number in range(3_000)]
        ledger_id = await written(client, payloads)

        async with await client.open(ledger_id) as reader:
            assert [entry.payload for entry in await reader.read(0, 2_999)] == payloads
            assert [entry.payload for entry in await reader.read(17, 18)] == payloads[17:19]

        assert singles(fleet) == 0
        assert len(batches(fleet)) < 30
        assert len({len(bookie.asked(messages.BatchReadRequest)) > 0 for bookie in fleet.bookies}) == 1


@story(tell)
async def test_entries_larger_than_an_answer_may_be_come_one_by_one_within_the_bound_on_memory(fleet: Fleet) -> None:
    async with fleet.client(batch_reads=True, prefetch_bytes_max=4 * BATCH_BYTES) as client:
        payloads = [bytes([number]) * (BATCH_BYTES + number) for number in range(12)]
        ledger_id = await written(client, payloads)
        for bookie in fleet.bookies:
            bookie.requests.clear()

        async with await client.open(ledger_id) as reader:
            stream = reader.read_stream(0, 11)
            assert (await anext(stream)).payload == payloads[0]
            asked = [EntryId(request.entry_id) for request in batches(fleet)]
            assert max(asked, default=EntryId(0)) <= 5
            assert [entry.payload async for entry in stream] == payloads[1:]


@story(tell)
async def test_striped_ledgers_and_single_entries_are_not_asked_for_in_batches(fleet: Fleet) -> None:
    """E == WQ only: else no bookie has consecutive entries."""

    async with fleet.client(batch_reads=True) as client:
        striped = await written(client, [b"x"] * 20, ensemble_size=3, write_quorum=2, ack_quorum=2)
        async with await client.open(striped) as reader:
            assert len(await reader.read(0, 19)) == 20
        whole = await written(client, [b"x"] * 20)
        async with await client.open(whole) as reader:
            assert len(await reader.read(7, 7)) == 1

        assert not batches(fleet)


@story(tell, zones="abca")
async def test_a_batch_does_not_run_over_the_end_of_a_segment(fleet: Fleet) -> None:
    async with fleet.client(batch_reads=True) as client:
        writer = await client.create()
        await writer.append_many([b"early"] * 10)
        victim = str(writer.metadata.last_segment.bookies[0])
        fleet[victim].script = lambda request: Status.EIO if isinstance(request, messages.AddRequest) else None
        await writer.append_many([b"late"] * 10)
        await fleet.until(lambda: len(writer.metadata.segments) == 2, "the ensemble change")
        await writer.close()
        start = writer.metadata.last_segment.first_entry

        async with await client.open(writer.id) as reader:
            assert len(await reader.read(0, 19)) == 20

        ranges = [(request.entry_id, request.entry_id + request.count_max - 1) for request in batches(fleet)]
        assert ranges
        assert not [batch for batch in ranges if batch[0] < start <= batch[1]]


@story(tell)
async def test_bookies_that_do_not_know_batches_are_read_from_entry_by_entry_and_not_asked_again(fleet: Fleet) -> None:
    """4.16 and older close the connection: the official sign (spec/wire.md#W10). The v3 connection lives on."""

    async with fleet.client(batch_reads=True) as client:
        ledger_id = await written(client, [b"x"] * 100)
        for bookie in fleet.bookies:
            bookie.knows_batches = False

        for _ in range(3):
            async with await client.open(ledger_id) as reader:
                assert len(await reader.read(0, 99)) == 100

        assert 1 <= len(batches(fleet)) <= 3
        assert not any(client.shared.pool.is_quarantined(bookie.id) for bookie in fleet.bookies)


@pytest.mark.parametrize("failure", [Status.EIO, Status.ENOENTRY, Status.ENOLEDGER, MUTE, BREAK])
@story(tell)
async def test_where_one_bookie_fails_the_rest_is_had_from_the_others(fleet: Fleet, *, failure: Status | str) -> None:
    def fails(request: Request) -> Status | str | None:
        is_read = isinstance(request, messages.ReadRequest | messages.BatchReadRequest)
        return failure if is_read else None

    async with fleet.client(batch_reads=True) as client:
        payloads = [b"%d" % number for number in range(200)]
        ledger_id = await written(client, payloads)
        fleet["b1"].script = fails

        async with await client.open(ledger_id) as reader:
            assert [entry.payload for entry in await reader.read(0, 199)] == payloads


@story(tell)
async def test_rot_in_the_middle_of_a_batch_is_passed_over_for_another_replica(fleet: Fleet) -> None:
    """Never a wrong byte, never an end of the read: CONFORMANCE.md#O20."""

    async with fleet.client(batch_reads=True) as client:
        payloads = [b"%d" % number for number in range(100)]
        ledger_id = await written(client, payloads)
        for bookie in fleet.bookies[:2]:
            for entry_id in (0, 5, 6, 99):
                body = bytearray(bookie.entries[ledger_id, EntryId(entry_id)])
                body[-1] ^= 1
                bookie.entries[ledger_id, EntryId(entry_id)] = bytes(body)

        async with await client.open(ledger_id) as reader:
            assert [entry.payload for entry in await reader.read(0, 99)] == payloads


@story(tell)
async def test_an_entry_that_every_replica_denies_is_told_as_if_it_had_been_read_alone(fleet: Fleet) -> None:
    async with fleet.client(batch_reads=True) as client:
        ledger_id = await written(client, [b"x"] * 50)
        for bookie in fleet.bookies:
            del bookie.entries[ledger_id, EntryId(30)]

        async with await client.open(ledger_id) as reader:
            stream = reader.read_stream(0, 49)
            assert [(await anext(stream)).entry_id for _ in range(30)] == list(range(30))
            with pytest.raises(errors.NoSuchEntry):
                await anext(stream)


@story(tell)
async def test_a_stream_that_is_left_early_leaves_nothing_behind(fleet: Fleet) -> None:
    async with fleet.client(batch_reads=True) as client:
        ledger_id = await written(client, [b"x" * 100] * 5_000)
        async with await client.open(ledger_id) as reader:
            async for entry in reader.read_stream(0, 4_999):
                if entry.entry_id == 20:
                    break
            assert len(await reader.read(0, 10)) == 11
