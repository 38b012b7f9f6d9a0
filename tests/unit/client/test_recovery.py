"""Recovery against model bookies (spec/wire.md#W52 to W58; CONFORMANCE.md#B12 to B17, P25 to P33)."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.client import Client, LedgerReader, LedgerWriter
from bookie.metadata.ledger import LedgerState
from bookie.quorum.recovery import READ_AHEAD_MAX
from bookie.wire import entry, messages
from bookie.wire.digest import Digest, DigestType
from bookie.wire.messages import Request
from client_support import BREAK, MUTE, FakeBookie, Fleet, obey, tell, tell_each
from story_support import story


async def left_open(client: Client, count: int, **options: object) -> LedgerWriter:
    """A ledger whose writer is gone without a word."""
    writer = await client.create(**options)  # type: ignore[arg-type]
    if count:
        await writer.append_many([b"entry %d" % number for number in range(count)])
    return writer


def plant(bookie: FakeBookie, ledger_id: LedgerId, entry_id: int, lac: int, payload: bytes = b"unconfirmed") -> None:
    """An entry that reached only this bookie."""
    body = Digest(DigestType.CRC32C, b"").seal(ledger_id, EntryId(entry_id), lac, 1000 + entry_id, payload)
    bookie.entries[ledger_id, EntryId(entry_id)] = b"".join(body)


def asked_to_recover(bookie: FakeBookie, ledger_id: LedgerId) -> int:
    """How many fencing reads and recovery adds the bookie was sent."""
    reads = [each for each in bookie.asked(messages.ReadRequest) if each.is_fencing]
    adds = [each for each in bookie.asked(messages.AddRequest) if each.is_recovery]
    return sum(each.ledger_id == ledger_id for each in (*reads, *adds))


@story(tell)
async def test_an_empty_ledger_is_closed_empty(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await left_open(client, 0)

        reader = await client.open(writer.id)

        assert (reader.is_closed, reader.last_entry, reader.metadata.length) == (True, -1, 0)
        assert all(writer.id in bookie.fenced for bookie in fleet.bookies)


@story(tell)
async def test_everything_acknowledged_is_within_the_end_and_the_length_is_the_writers(fleet: Fleet) -> None:
    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 12)

        reader = await client.open(writer.id)

        assert reader.last_entry == 11
        assert reader.metadata.length == writer.length
        assert [item.payload for item in await reader.read(0, 11)] == [b"entry %d" % n for n in range(12)]


@story(tell_each, seeds=8)
async def test_a_ledger_whose_lac_is_its_end_takes_its_length_from_that_entry(fleet: Fleet) -> None:
    """Where Java takes it from an entry beyond the end (spec/wire.md#W57)."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        await fleet.until(lambda: all(b.lac(writer.id) == 2 for b in fleet.bookies), "the explicit LAC")
        # b0 alone has one more entry, is asked for its highest one, and then is gone.
        plant(fleet["b0"], writer.id, 3, lac=2)

        def once(request: Request) -> str | None:
            return BREAK if isinstance(request, messages.ReadRequest) and request.entry_id >= 0 else None

        fleet["b0"].script = once
        reader = await client.open(writer.id)

        assert (reader.last_entry, reader.metadata.length) == (2, writer.length)


@story(tell)
async def test_an_entry_on_a_single_bookie_is_written_back_to_all_before_it_counts(fleet: Fleet) -> None:
    """CONFORMANCE.md#B15, P31."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        plant(fleet.first_asked(writer, 3), writer.id, 3, lac=1)

        reader = await client.open(writer.id)

        assert reader.last_entry == 3
        assert all(3 in bookie.ids(writer.id) for bookie in fleet.bookies)
        stored = entry.unpack_header(fleet["b2"].entries[writer.id, EntryId(3)])
        assert stored.length == reader.metadata.length == 1003


@story(tell)
async def test_what_is_written_back_is_told_to_nobody_before_the_ledger_is_closed(fleet: Fleet) -> None:
    """Another recovery may close the ledger before it (spec/wire.md#W55; spec/bp46.md#S5)."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        count = 5 * READ_AHEAD_MAX
        for number in range(3, count):
            plant(fleet["b1"], writer.id, number, lac=1)
            plant(fleet["b2"], writer.id, number, lac=1)

        assert (await client.open(writer.id)).last_entry == count - 1

        held = fleet["b0"]
        told = [entry.unpack_header(held.entries[writer.id, EntryId(number)]).lac for number in range(3, count)]
        assert set(told) <= {1, 2}, "what the writer had confirmed, or less"


@story(tell)
async def test_recovery_reads_fence_and_are_urgent(fleet: Fleet) -> None:
    """spec/bp46.md#S13; spec/wire.md#W54."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        await fleet.until(lambda: all(b.lac(writer.id) == 2 for b in fleet.bookies), "all adds to arrive")
        plant(fleet.first_asked(writer, 3), writer.id, 3, lac=2)
        for bookie in fleet.bookies:
            bookie.requests.clear()

        await client.open(writer.id)

        reads = [read for bookie in fleet.bookies for read in bookie.asked(messages.ReadRequest)]
        assert all(read.is_fencing and read.master_key for read in reads)
        assert all(read.is_high_priority == (read.entry_id >= 0) for read in reads)
        assert reads
        adds = [add for bookie in fleet.bookies for add in bookie.asked(messages.AddRequest)]
        assert all(add.is_recovery and add.is_high_priority for add in adds)


@story(tell)
async def test_a_fence_that_is_answered_with_rot_covers_nothing(fleet: Fleet) -> None:
    """CONFORMANCE.md#P27: nobody knows what that bookie has, and another one is away."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        await fleet.until(lambda: all(b.lac(writer.id) == 2 for b in fleet.bookies), "all adds to arrive")
        body = fleet["b0"].entries[writer.id, EntryId(2)]
        fleet["b0"].entries[writer.id, EntryId(2)] = body[:-1] + bytes([body[-1] ^ 1])
        fleet["b1"].script = lambda request: Status.EIO

        with pytest.raises(errors.QuorumNotReached):
            await client.open(writer.id)
        fleet["b1"].script = obey
        assert (await client.open(writer.id)).last_entry == 2


@story(tell, zones="abca")
async def test_the_last_ensemble_is_fenced_and_not_one_before_it(fleet: Fleet) -> None:
    """CONFORMANCE.md#P25: the writer of before goes on there, if anywhere."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        gone = fleet[writer.metadata.last_segment.bookies[0]]
        await gone.stop()
        await writer.append_many([b"later"] * 3)
        await gone.start()
        for bookie in fleet.bookies:
            bookie.requests.clear()

        await client.open(writer.id)

        asked = {
            bookie.id
            for bookie in fleet.bookies
            if any(read.is_fencing and read.entry_id == -1 for read in bookie.asked(messages.ReadRequest))
        }
        assert len(writer.metadata.segments) == 2
        assert asked == set(writer.metadata.last_segment.bookies)


@pytest.mark.parametrize("failure", [Status.EUNKNOWNLEDGERSTATE, Status.EIO, MUTE, BREAK])
@story(tell)
async def test_an_ack_quorum_of_unknown_bookies_stops_recovery_and_decides_nothing(
    fleet: Fleet, *, failure: Status | str
) -> None:
    """CONFORMANCE.md#B13: the ledger stays IN_RECOVERY, and the next attempt finishes it."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        for bad in ("b0", "b1"):
            fleet[bad].script = lambda request: failure

        with pytest.raises(errors.QuorumNotReached):
            await client.open(writer.id)
        assert (await client.metadata(writer.id)).state is LedgerState.IN_RECOVERY

        for bookie in fleet.bookies:
            bookie.script = obey
        await asyncio.sleep(1)  # the back-off of broken connections
        assert (await client.open(writer.id)).last_entry == 2


@story(tell)
async def test_a_limbo_bookie_never_makes_the_end_come_early(fleet: Fleet) -> None:
    """spec/bp46.md#T3, CONFORMANCE.md#B20: the bookie that lost entry 3 says "unknown", which counts for nothing."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 4)
        fleet["b0"].wipe()
        fleet["b0"].limbo.add(writer.id)
        fleet["b1"].script = lambda request: MUTE

        with pytest.raises(errors.BookieError):
            await client.open(writer.id)
        assert (await client.metadata(writer.id)).state is LedgerState.IN_RECOVERY

        fleet["b1"].script = obey
        assert (await client.open(writer.id)).last_entry == 3


@story(tell, zones="abca")
async def test_a_bookie_that_fails_during_the_write_back_is_replaced_in_the_closing_write(fleet: Fleet) -> None:
    """Wire 10.4, steps 8 and 9."""

    def no_adds(request: Request) -> Status | None:
        return Status.EIO if isinstance(request, messages.AddRequest) else None

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 5)
        victim = str(writer.metadata.last_segment.bookies[0])
        for survivor in writer.metadata.last_segment.bookies[1:]:
            for number in (5, 6, 7):
                plant(fleet[survivor], writer.id, number, lac=4)
        fleet[victim].script = no_adds

        reader = await client.open(writer.id)

        assert reader.last_entry == 7
        assert victim in reader.metadata.segments[0].bookies
        assert victim not in reader.metadata.last_segment.bookies
        entries = await reader.read(0, 7)
        assert [item.entry_id for item in entries] == list(range(8))


@story(tell)
async def test_several_recoverers_agree_on_one_end(fleet: Fleet) -> None:
    """CONFORMANCE.md#P33, spec/bp46.md#S6."""

    async with fleet.client("writer") as lost:
        writer = await left_open(lost, 5)
        plant(fleet["b2"], writer.id, 5, lac=3)

        async def one(name: str) -> LedgerReader:
            async with fleet.client(name) as client:
                return await client.open(writer.id)

        readers = await asyncio.gather(*(one(f"reader{number}") for number in range(4)))

        assert len({(reader.last_entry, reader.metadata.length) for reader in readers}) == 1
        assert readers[0].last_entry in (4, 5)


@story(tell)
async def test_the_end_is_found_without_the_bookies_that_are_silent(fleet: Fleet) -> None:
    """CONFORMANCE.md#B16: WQ-AQ+1 denials are enough."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        fleet["b1"].script = lambda request: MUTE

        reader = await client.open(writer.id)

        assert (reader.is_closed, reader.last_entry) == (True, 2)


@story(tell)
async def test_a_write_back_that_no_ack_quorum_takes_closes_nothing(fleet: Fleet) -> None:
    """CONFORMANCE.md#P31: what was found on one bookie does not count before an ack quorum has it."""

    def no_adds(request: Request) -> Status | None:
        return Status.EIO if isinstance(request, messages.AddRequest) else None

    async with fleet.client("writer") as lost, fleet.client(ensemble_timeout_ms=2_000) as client:
        writer = await left_open(lost, 3)
        plant(fleet["b2"], writer.id, 3, lac=2)
        for name in ("b0", "b1"):
            fleet[name].script = no_adds

        with pytest.raises(errors.BookieError):
            await client.open(writer.id)
        assert (await client.metadata(writer.id)).state is LedgerState.IN_RECOVERY

        for bookie in fleet.bookies:
            bookie.script = obey
        assert (await client.open(writer.id)).last_entry == 3


@pytest.mark.parametrize("seed", range(20))
@story(tell, given=("seed",))
async def test_a_live_writer_and_a_recoverer_never_disagree_about_what_was_acknowledged(
    fleet: Fleet, *, seed: int
) -> None:
    """spec/bp46.md#S1, CONFORMANCE.md#P28, P29, on the simulated network with its latencies."""
    async with fleet.client("writer") as writing, fleet.client() as client:
        writer = await writing.create()
        acknowledged: list[int] = []

        async def write() -> None:
            while True:
                acknowledged.append(await writer.append(b"x"))

        task = asyncio.ensure_future(write())
        await asyncio.sleep(0.05 + seed / 1000)
        reader = await client.open(writer.id)
        await asyncio.wait([task])

        assert isinstance(task.exception(), errors.LedgerFenced | errors.LedgerClosed)
        assert acknowledged
        assert acknowledged[-1] <= reader.last_entry
        assert len(await reader.read(0, reader.last_entry)) == reader.last_entry + 1


@story(tell)
async def test_a_strangers_key_on_one_bookie_does_not_take_the_ledger_away(fleet: Fleet) -> None:
    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        fleet["b1"].script = lambda request: Status.EUA

        async with await client.open(writer.id) as reader:
            assert reader.last_entry == 2
            assert len(await reader.read(0, 2)) == 3


@story(tell)
async def test_a_wrong_key_on_the_bookies_fails_recovery_as_unauthorized(fleet: Fleet) -> None:
    """Wire 10.4, step 4."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        for name in ("b0", "b1", "b2"):
            fleet[name].script = lambda request: Status.EUA

        with pytest.raises(errors.Unauthorized):
            await client.open(writer.id)


@story(tell)
async def test_a_cancelled_recovery_leaves_nothing_behind_and_can_be_repeated(fleet: Fleet) -> None:
    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        fleet["b0"].script = fleet["b1"].script = lambda request: MUTE
        opening = asyncio.ensure_future(client.open(writer.id))
        await asyncio.sleep(0.5)
        opening.cancel()
        await asyncio.wait([opening])

        assert opening.cancelled()
        fleet["b0"].script = fleet["b1"].script = obey
        assert (await client.open(writer.id)).last_entry == 2


@story(tell)
async def test_a_recovery_that_another_began_is_gone_on_with_and_its_record_written_once_at_the_end(
    fleet: Fleet,
) -> None:
    """CONFORMANCE.md#O7, P25: each write of it would overtake those who recover the ledger too."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        stored, version = await client.shared.ledgers.get(writer.id)
        begun = await client.shared.ledgers.put(writer.id, stored.in_recovery(), version)

        await client.open(writer.id)

        metadata, version = await client.shared.ledgers.get(writer.id)
        assert (metadata.state, metadata.last_entry) == (LedgerState.CLOSED, 2)
        assert version == begun + 1


@pytest.mark.parametrize("held", [("b0", "b1", "b2"), ("b0", "b1")])
@story(tell)
async def test_answers_that_come_after_a_recovery_was_cancelled_have_it_ask_nobody_any_more(
    fleet: Fleet, *, held: tuple[str, ...]
) -> None:
    """CONFORMANCE.md#P33: else it reads on and writes back beside the recovery that follows, and nobody can stop it."""

    async with fleet.client("writer") as lost, fleet.client() as client:
        writer = await left_open(lost, 3)
        await left_open(client, 1)  # it has a connection to each bookie
        for name in held:
            fleet.machine.fabric.hold(name, "app")
        opening = asyncio.ensure_future(client.open(writer.id))
        await fleet.until(lambda: all(writer.id in bookie.fenced for bookie in fleet.bookies), "the fence")
        await asyncio.sleep(0.5)
        opening.cancel()
        await asyncio.wait([opening])
        asked = sum(asked_to_recover(bookie, writer.id) for bookie in fleet.bookies)

        fleet.machine.fabric.release_all()
        await asyncio.sleep(10)

        assert sum(asked_to_recover(bookie, writer.id) for bookie in fleet.bookies) == asked
        assert (await client.open(writer.id)).last_entry == 2
