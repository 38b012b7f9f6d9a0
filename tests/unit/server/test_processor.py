"""Every answer that a bookie gives, rule by rule (spec/wire.md#W26 to W37)."""

import copy
import random
import struct

import pytest

import server_support
from bookie.base.errors import BadInput, Status
from bookie.base.ids import BootEpoch, EntryId, Incarnation, LedgerId
from bookie.base.units import MIB, NS_PER_S
from bookie.server import readers
from bookie.server.unsent import SMALL_DEBT_BYTES
from bookie.sim.node import SimNode
from bookie.storage.store import EntryStore
from bookie.wire import availability, codes
from bookie.wire.codes import Operation
from bookie.wire.messages import (
    AddRequest,
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BatchReadResponse,
    BookieInfoRequest,
    BookieInfoResponse,
    ErrorResponse,
    ForceRequest,
    ForceResponse,
    ListEntriesRequest,
    ListEntriesResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    Request,
    Response,
    StartTlsRequest,
    StartTlsResponse,
    UnknownRequest,
    WriteLacRequest,
    WriteLacResponse,
)
from server_support import DIGEST, KEY, LAST, LEDGER, Asker, add, read
from story_support import story

OTHER_KEY = b"o" * 20


# ---- add (spec/wire.md#W27)


@story(server_support.run)
async def test_an_add_is_stored_and_answered_with_the_ids_of_the_request(asker: Asker, store: EntryStore) -> None:
    answer = await asker.add(0)

    assert (answer.status, answer.ledger_id, answer.entry_id) == (Status.EOK, LEDGER, 0)
    assert (await asker.read(0)).body == server_support.body(0)


class Answers(dict[int, Response]):
    """What came of each request, and how often the disk had synced at the moment when it came."""

    def __init__(self, node: SimNode) -> None:
        super().__init__()
        self._node = node
        self.syncs: dict[int, int] = {}

    def __setitem__(self, txn: int, answer: Response) -> None:
        self.syncs[txn] = self._node.disk.syncs
        super().__setitem__(txn, answer)


@story(server_support.run)
async def test_nothing_answers_an_add_before_it_is_durable(asker: Asker, store: EntryStore) -> None:
    asker.answers = answers = Answers(asker.node)
    before = asker.node.disk.syncs
    txn = asker.send(server_support.add(0))

    assert txn not in answers
    await asker.node.simulation.until(lambda: txn in answers, "the answer")
    assert answers.syncs[txn] > before


@story(server_support.run)
async def test_adds_may_come_in_any_order_with_gaps(asker: Asker, store: EntryStore) -> None:
    for entry_id in (5, 0, 1_000_000):
        assert (await asker.add(entry_id)).status is Status.EOK

    assert (await asker.read(3)).status is Status.ENOENTRY
    assert (await asker.read(LAST)).body == server_support.body(1_000_000)


@story(server_support.run)
async def test_the_same_add_again_is_ok(asker: Asker, store: EntryStore) -> None:
    assert (await asker.add(0)).status is Status.EOK
    assert (await asker.add(0)).status is Status.EOK


@pytest.mark.parametrize("is_recovery", [False, True])
@story(server_support.run)
async def test_an_add_with_another_key_is_unauthorized(asker: Asker, store: EntryStore, *, is_recovery: bool) -> None:
    await asker.add(0)

    answer = await asker.add(1, master_key=OTHER_KEY, is_recovery=is_recovery)

    assert answer.status is Status.EUA


@story(server_support.run)
async def test_after_a_fence_normal_adds_are_refused_and_recovery_adds_stored(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    await asker.read(LAST, is_fencing=True, master_key=KEY)

    assert (await asker.add(1)).status is Status.EFENCED
    assert (await asker.add(1, is_recovery=True)).status is Status.EOK
    assert (await asker.read(1)).status is Status.EOK


@story(server_support.run)
async def test_a_recovery_add_makes_an_unknown_ledger(asker: Asker, store: EntryStore) -> None:
    assert (await asker.add(3, is_recovery=True)).status is Status.EOK


@pytest.mark.parametrize(
    "changes",
    [
        {"body": b"short"},
        {"entry_id": EntryId(2)},
        {"ledger_id": LedgerId(8)},
        {"entry_id": EntryId(-4096), "body": server_support.body(-4096)},
    ],
    ids=["short body", "other entry in the body", "other ledger in the body", "an id that Java keeps for itself"],
)
@story(server_support.run)
async def test_an_add_that_is_no_entry_is_a_bad_request(
    asker: Asker, store: EntryStore, *, changes: dict[str, object]
) -> None:
    assert (await asker.add(1, **changes)).status is Status.EBADREQ
    assert (await asker.read(1)).status is Status.ENOLEDGER


@story(server_support.run)
async def test_a_read_only_bookie_refuses_adds_and_explicit_lacs_but_reads_and_fences(
    asker: Asker, store: EntryStore
) -> None:
    await asker.add(0)
    store.health.set_read_only(True)

    assert (await asker.add(1)).status is Status.EREADONLY
    lac = await asker.ask(WriteLacRequest(0, 3, LEDGER, 0, KEY, DIGEST.seal_lac(LEDGER, 0)))
    assert isinstance(lac, WriteLacResponse)
    assert lac.status is Status.EREADONLY
    assert (await asker.read(0)).status is Status.EOK
    assert (await asker.read(0, is_fencing=True, master_key=KEY)).status is Status.EOK


@pytest.mark.parametrize(
    ("is_recovery", "is_high_priority", "status"),
    [
        (False, True, Status.EREADONLY),  # no writer sends it; it would not be let in
        (True, False, Status.EREADONLY),  # auto-recovery: it finds another place
        (True, True, Status.EOK),  # recovery of a ledger that may have nowhere else to go
    ],
)
@story(server_support.run)
async def test_a_read_only_bookie_stores_only_what_recovers_a_ledger(
    asker: Asker, store: EntryStore, *, is_recovery: bool, is_high_priority: bool, status: Status
) -> None:
    store.health.set_read_only(True)

    answer = await asker.add(0, is_recovery=is_recovery, is_high_priority=is_high_priority)

    assert answer.status is status


# ---- read (spec/wire.md#W29)


@story(server_support.run)
async def test_an_unknown_ledger_and_an_absent_entry_are_told_apart(asker: Asker, store: EntryStore) -> None:
    assert (await asker.read(0)).status is Status.ENOLEDGER
    assert (await asker.read(LAST)).status is Status.ENOLEDGER
    await asker.add(0)
    assert (await asker.read(1)).status is Status.ENOENTRY


@story(server_support.run)
async def test_the_last_entry_is_the_highest_not_the_newest_and_is_echoed_as_minus_one(
    asker: Asker, store: EntryStore
) -> None:
    await asker.add(9)
    await asker.add(4)

    answer = await asker.read(LAST)

    assert (answer.status, answer.entry_id, answer.body) == (Status.EOK, -1, server_support.body(9))


@story(server_support.run)
async def test_max_lac_is_what_writers_confirmed_and_never_the_highest_entry(asker: Asker, store: EntryStore) -> None:
    await asker.add(0, lac=-1)
    assert (await asker.read(0)).max_lac is None
    await asker.add(5, lac=2)
    assert (await asker.read(0)).max_lac == 2


@story(server_support.run)
async def test_an_entry_that_is_on_disk_only_is_read_from_there(asker: Asker, store: EntryStore) -> None:
    for entry_id in range(10):
        await asker.add(entry_id)
    await store.flush()

    answers = [await asker.read(entry_id) for entry_id in range(10)]

    assert [answer.body for answer in answers] == [server_support.body(entry_id) for entry_id in range(10)]


def test_a_run_of_reads_is_answered_with_one_write_of_what_is_here_and_one_of_what_the_disk_brought() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        asker.node.disk_faults.must_wait_percent = 100
        for entry_id in range(10):
            await asker.add(entry_id)
        await store.flush()
        await asker.add(10)

        answers = await asker.read_run([7, 10, 2, 99, 5])

        statuses = [answer.status for answer in answers]
        assert statuses == [Status.EOK, Status.EOK, Status.EOK, Status.ENOENTRY, Status.EOK]
        assert [answer.body for answer in answers if answer.body] == [server_support.body(n) for n in (7, 10, 2, 5)]
        assert asker.read_runs == [[10], [7, 2, 5]]

    metrics = server_support.run(story)
    assert (metrics.reads, metrics.slow_reads) == (5, 4)


@story(server_support.run)
async def test_a_run_of_reads_that_nobody_has_time_for_is_refused_read_by_read(asker: Asker, store: EntryStore) -> None:
    asker.node.disk_faults.must_wait_percent = 100
    await asker.add(0)
    await store.flush()
    for _ in range(readers.QUEUE_MAX):
        asker.send(server_support.read(0))

    answers = await asker.read_run([0, 0])

    assert [answer.status for answer in answers] == [Status.ETOOMANYREQUESTS] * 2
    await asker.node.simulation.until(lambda: asker.slow_reads == 0, "the reads before it")


@story(server_support.run)
async def test_who_takes_answers_reads_small_entries_from_memory_while_the_others_take_none(
    asker: Asker, store: EntryStore
) -> None:
    large = bytes(SMALL_DEBT_BYTES)
    await asker.add(0)
    await asker.add(1, body=server_support.body(1, payload=large))
    deaf = copy.copy(asker)
    asker.unsent.note(deaf, 100 * MIB)  # type: ignore[arg-type]

    assert (await asker.read(0)).status is Status.EOK
    assert [answer.status for answer in await asker.read_run([0, 0])] == [Status.EOK] * 2
    assert asker.read_runs == [[0, 0]]

    txn, more = asker.send(server_support.read(1)), asker.send(server_support.read(1))
    asker.untaken_bytes = SMALL_DEBT_BYTES
    behind = asker.send(server_support.read(0))
    await asker.node.simulation.until(lambda: asker.slow_reads == 3, "the reads that wait")
    assert not {txn, more, behind} & set(asker.answers)
    asker.unsent.note(deaf, 0)  # type: ignore[arg-type]
    asker.processor.look()
    await asker.node.simulation.until(lambda: {txn, more, behind} <= set(asker.answers), "them all")


# ---- fencing read (spec/wire.md#W31)


@story(server_support.run)
async def test_fencing_an_unknown_ledger_makes_it_fenced_with_that_key(asker: Asker, store: EntryStore) -> None:
    answer = await asker.read(LAST, is_fencing=True, master_key=KEY)

    assert (answer.status, answer.entry_id) == (Status.ENOENTRY, -1)
    assert (await asker.read(0)).status is Status.ENOENTRY
    assert (await asker.add(0)).status is Status.EFENCED
    assert (await asker.add(0, master_key=OTHER_KEY)).status is Status.EUA


@story(server_support.run)
async def test_fencing_without_the_right_key_does_not_fence(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)

    assert (await asker.read(0, is_fencing=True)).status is Status.EUA
    assert (await asker.read(0, is_fencing=True, master_key=OTHER_KEY)).status is Status.EUA
    assert (await asker.add(1)).status is Status.EOK


@story(server_support.run)
async def test_a_fencing_read_gives_the_entry_without_max_lac(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    await asker.add(1)

    for entry_id in (1, LAST, 1):
        answer = await asker.read(entry_id, is_fencing=True, master_key=KEY)
        assert (answer.status, answer.body, answer.max_lac) == (Status.EOK, server_support.body(1), None)


@story(server_support.run)
async def test_an_add_before_the_fence_is_seen_by_the_read_that_answers_it(asker: Asker, store: EntryStore) -> None:
    first = asker.send(server_support.add(0))
    fenced = asker.send(server_support.read(LAST, is_fencing=True, master_key=KEY))
    second = asker.send(server_support.add(1))

    await asker.node.simulation.until(lambda: len(asker.answers) == 3, "three answers")

    assert asker.answers[first].status is Status.EOK
    assert asker.answers[fenced].body == server_support.body(0)  # type: ignore[union-attr]
    assert asker.answers[second].status is Status.EFENCED


@story(server_support.run)
async def test_nothing_answers_a_fence_before_it_is_durable(asker: Asker, store: EntryStore) -> None:
    asker.answers = answers = Answers(asker.node)
    before = asker.node.disk.syncs
    txn = asker.send(server_support.read(LAST, is_fencing=True, master_key=KEY))

    assert txn not in answers
    await asker.node.simulation.until(lambda: txn in answers, "the answer")
    assert answers.syncs[txn] > before


def filled(asker: Asker) -> None:
    """The disk takes nothing more: what is written from now on is refused."""
    asker.node.image.volumes["/data"].total_bytes = asker.node.image.volumes["/data"].used_bytes


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("batch", [True, False])
def test_a_fence_that_could_not_be_made_durable_is_refused(known: bool, batch: bool) -> None:
    """CONFORMANCE.md#P26: neither an entry nor a "no" may leave: both say that the ledger is fenced for good."""

    async def work(asker: Asker, store: EntryStore) -> None:
        if known:
            await asker.add(0)
        filled(asker)
        if batch:
            request: Request = BatchReadRequest(0, 2, LEDGER, EntryId(0), 5, 1 << 20, KEY, is_fencing=True)
        else:
            request = server_support.read(0, is_fencing=True, master_key=KEY)
        answer = await asker.ask(request)
        assert answer.status in (Status.EIO, Status.EREADONLY)

    server_support.run(work)


@story(server_support.run)
async def test_an_add_that_could_not_be_made_durable_is_refused(asker: Asker, store: EntryStore) -> None:
    filled(asker)

    assert (await asker.add(0)).status in (Status.EIO, Status.EREADONLY)


# ---- long poll (spec/wire.md#W34)


@story(server_support.run)
async def test_a_long_poll_on_an_unknown_ledger_is_refused_at_once(asker: Asker, store: EntryStore) -> None:
    answer = await asker.read(LAST, previous_lac=-1, timeout_ms=60_000, is_piggyback=True)

    assert answer.status is Status.ENOLEDGER


@story(server_support.run)
async def test_a_long_poll_delivers_the_next_entry_when_the_lac_passes(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    poll = asker.send(server_support.read(LAST, previous_lac=-1, timeout_ms=60_000, is_piggyback=True))
    await asker.add(1)

    await asker.node.simulation.until(lambda: poll in asker.answers, "the poll's answer", timeout_s=1)

    answer = asker.answers[poll]
    assert (answer.entry_id, answer.body, answer.max_lac) == (0, server_support.body(0), 0)  # type: ignore[union-attr]
    assert answer.lac_update_ms is not None  # type: ignore[union-attr]


@story(server_support.run)
async def test_a_long_poll_that_is_behind_does_not_wait(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    await asker.add(1)

    answer = await asker.read(LAST, previous_lac=-1, timeout_ms=60_000, is_piggyback=True)

    assert (answer.status, answer.entry_id, answer.body) == (Status.EOK, 0, server_support.body(0))


@story(server_support.run)
async def test_a_long_poll_tells_only_the_lac_when_the_entry_is_on_another_bookie(
    asker: Asker, store: EntryStore
) -> None:
    await asker.add(4, lac=3)

    answer = await asker.read(LAST, previous_lac=0, timeout_ms=60_000, is_piggyback=True)

    assert (answer.status, answer.entry_id, answer.body, answer.max_lac) == (Status.EOK, -1, None, 3)


@story(server_support.run)
async def test_a_long_poll_that_times_out_is_ok_and_says_where_the_lac_is(asker: Asker, store: EntryStore) -> None:
    await asker.add(1, lac=0)
    began_s = asker.node.simulation.loop.time()

    answer = await asker.read(LAST, previous_lac=0, timeout_ms=2_000, is_piggyback=True)

    assert asker.node.simulation.loop.time() - began_s >= 2
    assert (answer.status, answer.entry_id, answer.body, answer.max_lac) == (Status.EOK, -1, None, 0)


@story(server_support.run)
async def test_a_fence_ends_a_long_poll(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    poll = asker.send(server_support.read(LAST, previous_lac=0, timeout_ms=60_000, is_piggyback=True))
    await asker.read(LAST, is_fencing=True, master_key=KEY)

    assert asker.answers[poll].entry_id == -1  # type: ignore[union-attr]


@story(server_support.run)
async def test_an_explicit_lac_ends_a_long_poll(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    poll = asker.send(server_support.read(LAST, previous_lac=-1, timeout_ms=60_000, is_piggyback=True))
    await asker.ask(WriteLacRequest(0, 3, LEDGER, 0, KEY, DIGEST.seal_lac(LEDGER, 0)))

    await asker.node.simulation.until(lambda: poll in asker.answers, "the poll's answer", timeout_s=1)
    assert asker.answers[poll].body == server_support.body(0)  # type: ignore[union-attr]


@story(server_support.run)
async def test_a_piggybacked_poll_of_a_real_entry_is_a_bad_request(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)

    answer = await asker.read(0, previous_lac=-1, timeout_ms=10, is_piggyback=True)

    assert answer.status is Status.EBADREQ


@story(server_support.run)
async def test_a_poll_without_the_flag_reads_its_entry_after_the_wait(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)

    answer = await asker.read(0, previous_lac=0, timeout_ms=10)

    assert (answer.status, answer.entry_id, answer.body) == (Status.EOK, 0, server_support.body(0))


@story(server_support.run)
async def test_a_poll_without_a_time_out_does_not_wait(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    txn = asker.send(server_support.read(LAST, previous_lac=0, is_piggyback=True))

    assert asker.answers[txn].entry_id == -1  # type: ignore[union-attr]


@story(server_support.run)
async def test_a_connection_that_goes_takes_its_polls_along(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    poll = asker.send(server_support.read(LAST, previous_lac=0, timeout_ms=1_000, is_piggyback=True))

    asker.processor.forget(asker)
    await asker.add(1)
    await asker.node.simulation.loop.sleep_ns(2_000_000_000)

    assert poll not in asker.answers


# ---- explicit LAC (spec/wire.md#W35)


@story(server_support.run)
async def test_read_lac_gives_the_explicit_lac_and_the_last_entry(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    lac_body = DIGEST.seal_lac(LEDGER, 0)
    written = await asker.ask(WriteLacRequest(0, 3, LEDGER, 0, KEY, lac_body))
    assert written == WriteLacResponse(written.txn, 3, Status.EOK, LEDGER)

    answer = await asker.ask(ReadLacRequest(0, 3, LEDGER))

    assert answer == ReadLacResponse(answer.txn, 3, Status.EOK, LEDGER, lac_body, server_support.body(0))


@story(server_support.run)
async def test_an_explicit_lac_alone_is_ok_although_java_says_eio(asker: Asker, store: EntryStore) -> None:
    lac_body = DIGEST.seal_lac(LEDGER, 5)
    await asker.ask(WriteLacRequest(0, 3, LEDGER, 5, KEY, lac_body))

    answer = await asker.ask(ReadLacRequest(0, 3, LEDGER))

    assert answer == ReadLacResponse(answer.txn, 3, Status.EOK, LEDGER, lac_body, None)


@story(server_support.run)
async def test_read_lac_of_a_ledger_with_neither_is_no_entry(asker: Asker, store: EntryStore) -> None:
    await asker.read(LAST, is_fencing=True, master_key=KEY)

    answer = await asker.ask(ReadLacRequest(0, 3, LEDGER))

    assert answer == ReadLacResponse(answer.txn, 3, Status.ENOENTRY, LEDGER)


@story(server_support.run)
async def test_read_lac_that_nobody_has_time_for_is_refused_and_no_answer_about_the_ledger(
    asker: Asker, store: EntryStore
) -> None:
    asker.node.disk_faults.must_wait_percent = 100
    await asker.add(0)
    await store.flush()
    for _ in range(readers.QUEUE_MAX):
        asker.send(server_support.read(0))

    answer = await asker.ask(ReadLacRequest(0, 3, LEDGER))

    assert answer == ReadLacResponse(answer.txn, 3, Status.ETOOMANYREQUESTS, LEDGER)
    await asker.node.simulation.until(lambda: asker.slow_reads == 0, "the reads before it")


@story(server_support.run)
async def test_write_lac_wants_the_key_and_does_not_mind_a_fence(asker: Asker, store: EntryStore) -> None:
    await asker.read(LAST, is_fencing=True, master_key=KEY)
    lac_body = DIGEST.seal_lac(LEDGER, 0)

    wrong = await asker.ask(WriteLacRequest(0, 3, LEDGER, 0, OTHER_KEY, lac_body))
    right = await asker.ask(WriteLacRequest(0, 3, LEDGER, 0, KEY, lac_body))
    foreign = await asker.ask(WriteLacRequest(0, 3, LEDGER, 0, KEY, DIGEST.seal_lac(LedgerId(8), 0)))

    statuses = [answer.status for answer in (wrong, right, foreign) if isinstance(answer, WriteLacResponse)]
    assert statuses == [Status.EUA, Status.EOK, Status.EBADREQ]


# ---- force (spec/wire.md#W36), bookie info, anything else


@story(server_support.run)
async def test_an_add_with_deferred_sync_is_durable_when_it_is_answered_to_who_knows_no_lives(
    asker: Asker, store: EntryStore
) -> None:
    await asker.add(0)
    asker.node.disk_faults.sync_latency_ns = 60 * NS_PER_S  # on average

    txn = asker.send(server_support.add(1, is_deferred=True))
    await asker.node.simulation.loop.sleep_ns(NS_PER_S // 10)
    assert txn not in asker.answers
    await asker.node.simulation.until(lambda: txn in asker.answers, "the answer after the sync")


@story(server_support.run)
async def test_force_is_ok_for_known_and_unknown_ledgers(asker: Asker, store: EntryStore) -> None:
    await asker.add(0, is_deferred=True)

    for ledger_id in (LEDGER, LedgerId(99)):
        answer = await asker.ask(ForceRequest(0, 3, ledger_id))
        assert answer == ForceResponse(answer.txn, 3, Status.EOK, ledger_id)


@story(server_support.run)
async def test_the_list_of_entries_tells_the_runs(asker: Asker, store: EntryStore) -> None:
    for entry_id in (0, 1, 3):
        await asker.add(entry_id)

    answer = await asker.ask(ListEntriesRequest(0, 3, LEDGER))
    unknown = await asker.ask(ListEntriesRequest(0, 3, LedgerId(99)))

    assert isinstance(answer, ListEntriesResponse)
    assert answer.availability is not None
    assert availability.decode(answer.availability) == [(0, 1), (3, 3)]
    assert unknown == ListEntriesResponse(unknown.txn, 3, Status.ENOLEDGER, LedgerId(99))


@story(server_support.run)
async def test_bookie_info_tells_what_was_asked_for(asker: Asker, store: EntryStore) -> None:
    usage = store.health.usage
    both = await asker.ask(BookieInfoRequest(0, 3, 3))
    neither = await asker.ask(BookieInfoRequest(0, 3, 0))

    assert both == BookieInfoResponse(both.txn, 3, Status.EOK, usage.total_bytes, usage.free_bytes)
    assert neither == BookieInfoResponse(neither.txn, 3, Status.EOK)


@story(server_support.run)
async def test_a_bookie_knows_what_its_ledgers_take_and_may_take(asker: Asker, store: EntryStore) -> None:
    usage = store.health.usage
    used, room = store.health.ledger_room()

    kept = (1 - store.options.disk_used_max) * usage.total_bytes
    assert used == usage.total_bytes - usage.free_bytes
    assert abs(usage.free_bytes - kept - room) < 2, "below the threshold at which it turns read-only"


@story(server_support.run)
async def test_who_asks_is_told_which_life_answers_and_nobody_else_is(asker: Asker, store: EntryStore) -> None:
    asker.processor.life = Incarnation(3), BootEpoch(9)

    asked = await asker.ask(BookieInfoRequest(0, 3, codes.INFO_LIFE))
    java = await asker.ask(BookieInfoRequest(0, 3, codes.INFO_TOTAL_DISK_CAPACITY))

    assert isinstance(asked, BookieInfoResponse)
    assert isinstance(java, BookieInfoResponse)
    assert (asked.incarnation, asked.boot_epoch, asked.total_bytes) == (3, 9, None)
    assert (java.incarnation, java.boot_epoch) == (None, None)


@story(server_support.run)
async def test_authentication_is_off_and_says_so(asker: Asker, store: EntryStore) -> None:
    answer = await asker.ask(AuthRequest(0, 3, "sasl", b"token"))

    assert answer == AuthResponse(answer.txn, 3, Status.EOK, "AuthDisabledPlugin", b"")


@pytest.mark.parametrize(("plugin", "payload"), [("p" * 257, b""), ("sasl", bytes(8193))])
@story(server_support.run)
async def test_an_auth_longer_than_any_plugin_s_ends_the_connection(
    asker: Asker, store: EntryStore, *, plugin: str, payload: bytes
) -> None:
    with pytest.raises(BadInput, match="at most 256 and 8192"):
        asker.send(AuthRequest(0, 3, plugin, payload))


@story(server_support.run)
async def test_tls_and_unimplemented_operations_are_bad_requests(asker: Asker, store: EntryStore) -> None:
    tls = await asker.ask(StartTlsRequest(0, 3))
    unknown = await asker.ask(UnknownRequest(0, 3, Operation.RANGE_READ_ENTRY))

    assert tls == StartTlsResponse(tls.txn, 3, Status.EBADREQ)
    assert unknown == ErrorResponse(unknown.txn, 3, Operation.RANGE_READ_ENTRY, Status.EBADREQ)


# ---- limbo (spec/wire.md#W37)


async def in_limbo(asker: Asker, store: EntryStore) -> None:
    """Entries 0 and 1 are here; the bookie may have lost others, and phase one has marked the ledger."""
    await asker.add(0)
    await asker.add(1)
    await store.protect([(LEDGER, True, True, None)])


@story(server_support.run)
async def test_present_entries_are_read_in_limbo_on_every_path(asker: Asker, store: EntryStore) -> None:
    await in_limbo(asker, store)

    assert (await asker.read(0)).status is Status.EOK
    assert (await asker.read(0, is_fencing=True, master_key=KEY)).status is Status.EOK
    assert (await asker.read(0, previous_lac=-1)).status is Status.EOK
    poll = await asker.read(LAST, previous_lac=-1, timeout_ms=10, is_piggyback=True)
    assert (poll.status, poll.entry_id) == (Status.EOK, 0)


@story(server_support.run)
async def test_limbo_never_says_no(asker: Asker, store: EntryStore) -> None:
    await in_limbo(asker, store)
    lac = await asker.ask(ReadLacRequest(0, 3, LEDGER))
    listed = await asker.ask(ListEntriesRequest(0, 3, LEDGER))
    assert isinstance(lac, ReadLacResponse)
    assert isinstance(listed, ListEntriesResponse)

    statuses = [
        (await asker.read(2)).status,
        (await asker.read(LAST)).status,
        (await asker.read(2, is_fencing=True, master_key=KEY)).status,
        (await asker.read(LAST, is_fencing=True, master_key=KEY)).status,
        (await asker.read(LAST, previous_lac=5, timeout_ms=10, is_piggyback=True)).status,
        (await asker.read(7, previous_lac=5, timeout_ms=10)).status,
        lac.status,
        listed.status,
    ]

    assert statuses == [Status.EUNKNOWNLEDGERSTATE] * len(statuses)


@story(server_support.run)
async def test_a_writer_survives_a_bookie_that_lost_its_state_and_dies_of_a_recovery(
    asker: Asker, store: EntryStore
) -> None:
    await in_limbo(asker, store)

    # EIO makes an unmodified writer change its ensemble; EFENCED kills it (spec/wire.md#W18).
    assert (await asker.add(2)).status is Status.EIO
    assert (await asker.add(2, is_recovery=True)).status is Status.EOK
    await asker.read(LAST, is_fencing=True, master_key=KEY)
    assert (await asker.add(3)).status is Status.EFENCED


@story(server_support.run)
async def test_before_anything_is_proven_every_no_is_an_unknown(asker: Asker, store: EntryStore) -> None:
    store.is_doubtful = True

    assert (await asker.read(0)).status is Status.EUNKNOWNLEDGERSTATE
    answer = await asker.ask(ListEntriesRequest(0, 3, LEDGER))
    assert answer == ListEntriesResponse(answer.txn, 3, Status.EUNKNOWNLEDGERSTATE, LEDGER)


# ---- counting


def test_requests_and_errors_are_counted() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        await asker.add(0)
        await asker.add(1, master_key=OTHER_KEY)
        await asker.read(0)

    metrics = server_support.run(story)

    assert (metrics.adds, metrics.reads, metrics.errors[Status.EUA]) == (2, 1, 1)
    assert sum(metrics.add_latency.counts) == 1


def test_errors_of_explicit_lacs_are_counted_as_those_of_entries_are() -> None:
    async def story(asker: Asker, store: EntryStore) -> None:
        await asker.add(0)
        await asker.ask(WriteLacRequest(0, 3, LEDGER, 0, OTHER_KEY, DIGEST.seal_lac(LEDGER, 0)))
        await asker.ask(ReadLacRequest(0, 3, LedgerId(8)))

    metrics = server_support.run(story)

    assert (metrics.errors[Status.EUA], metrics.errors[Status.ENOLEDGER]) == (1, 1)


# ---- 3.7 batch reads (v2)


def batch(entry_id: int, *, count_max: int = 0, size_max: int = 1 << 20, **changes: object) -> BatchReadRequest:
    request = BatchReadRequest(0, 2, LEDGER, EntryId(entry_id), count_max, size_max)
    for name, value in changes.items():
        setattr(request, name, value)
    return request


@story(server_support.run)
async def test_a_batch_reads_consecutive_entries_up_to_the_first_gap(asker: Asker, store: EntryStore) -> None:
    for entry_id in (0, 1, 2, 4):
        await asker.add(entry_id)

    everything = await asker.ask(batch(0))
    two = await asker.ask(batch(0, count_max=2))
    first_only = await asker.ask(batch(1, size_max=0))
    missing = await asker.ask(batch(3))

    bodies = [server_support.body(entry_id) for entry_id in range(3)]
    assert isinstance(everything, BatchReadResponse)
    assert everything.bodies == tuple(bodies)
    assert isinstance(two, BatchReadResponse)
    assert two.bodies == tuple(bodies[:2])
    assert isinstance(first_only, BatchReadResponse)
    assert first_only.bodies == (bodies[1],)
    assert (missing.status, missing.txn) == (Status.ENOENTRY, 4 + 4)


@story(server_support.run)
async def test_a_batch_does_not_begin_before_the_first_entry(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)

    assert (await asker.ask(batch(-1))).status is Status.EBADREQ


# ---- any ids


def any_requests() -> list[Request]:
    edges = (-(2**63), -0x8000, -2, -1, 0, 2**31, 2**63 - 1)
    found: list[Request] = []
    for ledger in map(LedgerId, edges):
        for entry in map(EntryId, edges):
            for key, fencing in ((None, False), (KEY, True), (b"", True)):
                found.append(ReadRequest(0, 3, ledger, entry, key, fencing))
                found.append(BatchReadRequest(0, 2, ledger, entry, -(2**31), -(2**63), key, fencing))
                found.append(BatchReadRequest(0, 2, ledger, entry, 2**31 - 1, 2**63 - 1, key, fencing))
            found.append(ReadRequest(0, 3, ledger, entry, previous_lac=entry, timeout_ms=-1, is_piggyback=True))
            found.append(ReadRequest(0, 3, ledger, LAST, previous_lac=entry, timeout_ms=5, is_piggyback=True))
            head = struct.pack(">qqqq", ledger, entry, 2**63 - 1, -1)
            found.append(AddRequest(0, 3, ledger, entry, KEY, head))
            found.append(AddRequest(0, 2, ledger, entry, b"", head, is_recovery=True))
            found.append(WriteLacRequest(0, 3, ledger, entry, KEY, struct.pack(">qq", ledger, entry)))
        found += [ReadLacRequest(0, 3, ledger), ForceRequest(0, 3, ledger), ListEntriesRequest(0, 3, ledger)]
    return [*found, BookieInfoRequest(0, 3, -1), BookieInfoRequest(0, 3, 2**63 - 1)]


@story(server_support.run)
async def test_ids_of_any_value_get_one_answer_each_and_stop_nothing(asker: Asker, store: EntryStore) -> None:
    requests = any_requests()
    random.Random(4).shuffle(requests)
    for request in requests:
        await asker.ask(request)

    assert len(asker.answers) == len(requests) > 500
    assert (await asker.add(1, ledger_id=LedgerId(77), body=server_support.body(1, ledger_id=77))).status is (
        Status.EOK
    )


@story(server_support.run)
async def test_a_fencing_batch_fences(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)

    assert (await asker.ask(batch(0, is_fencing=True))).status is Status.EUA
    assert (await asker.ask(batch(0, is_fencing=True, master_key=KEY))).status is Status.EOK
    assert (await asker.add(1)).status is Status.EFENCED


@pytest.mark.parametrize("kind", ["force", "fence", "LAC"])
@story(server_support.run)
async def test_what_waits_for_the_journal_counts_for_its_connection(
    asker: Asker, store: EntryStore, *, kind: str
) -> None:
    """Nothing held up a client that sent such requests without waiting: each costs memory until a sync is over."""

    await asker.add(0)
    lac = struct.pack(">qqq", LEDGER, 0, 0)
    asked: dict[str, Request] = {
        "force": ForceRequest(0, 3, LEDGER),
        "fence": read(0, is_fencing=True, master_key=KEY),
        "LAC": WriteLacRequest(0, 3, LEDGER, 0, KEY, lac),
    }
    asker.node.disk_faults.sync_latency_ns = NS_PER_S
    asker.send(add(1))

    txns = [asker.send(copy.deepcopy(asked[kind])) for _ in range(3)]

    assert asker.slow_reads == 3
    await asker.node.simulation.until(lambda: all(txn in asker.answers for txn in txns), "answers")
