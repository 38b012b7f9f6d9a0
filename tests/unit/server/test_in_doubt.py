"""In doubt is one question for all paths: whatever is asked about a ledger of which something may be lost, no answer
says no, and none says "that is all" or "nothing new"."""

import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import server_support
from bookie.base import errors
from bookie.base.errors import Answer, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore
from bookie.wire import messages
from bookie.wire.codes import VERSION_THREE
from bookie.wire.messages import (
    AddRequest,
    BatchReadRequest,
    BookieInfoRequest,
    ForceRequest,
    ListEntriesRequest,
    ReadLacRequest,
    ReadRequest,
    WriteLacRequest,
)
from server_support import KEY, LAST, LEDGER, Asker, body
from story_support import story

ODD_ONE = LedgerId(9)  # in the same directory as LEDGER, and never seen
TWO = StorageOptions(
    journal_dirs=("/data/journal",), ledger_dirs=("/data/ledgers", "/data/ledgers1"), flush_interval_ms=3_600_000
)
UNASKED = {
    "AuthRequest": "names no ledger",
    "StartTlsRequest": "names no ledger",
    "UnknownRequest": "is refused unread",
    "RefusedRequest": "is refused unread",
    "BookieInfoRequest": "names no ledger; test_a_failed_directory_has_no_room_to_offer",
    "ReadRun": "test_runs_of_reads_never_say_no",
}


def questions(ledger_id: LedgerId) -> dict[str, tuple[Callable[[], Any], bool | None]]:
    """Every way to ask about a ledger: how, and whether entry 0, which is here, is the answer. None: a change."""

    def read(number: int, **more: Any) -> Callable[[], Any]:
        return lambda: ReadRequest(0, VERSION_THREE, ledger_id, EntryId(number), **more)

    fencing = {"is_fencing": True, "master_key": KEY}
    ids = 0, VERSION_THREE, ledger_id
    is_here = ledger_id == LEDGER
    lac = struct.pack(">qq", ledger_id, 0) + b"dig!"
    sealed = body(5, ledger_id=ledger_id)
    return {
        "read 0": (read(0), is_here),
        "read 7": (read(7), False),
        "read last": (read(LAST), False),
        "fence, 0": (read(0, **fencing), is_here),
        "fence, 7": (read(7, **fencing), False),
        "fence, last": (read(LAST, **fencing), False),
        "long poll of 7": (read(7, previous_lac=5, timeout_ms=10), False),
        "long poll of the last": (read(LAST, previous_lac=5, timeout_ms=10), False),
        "long poll that waits for nothing": (read(LAST, previous_lac=-1), False),
        "piggyback, nothing new": (read(LAST, previous_lac=5, timeout_ms=10, is_piggyback=True), False),
        "piggyback, at once": (read(LAST, previous_lac=5, is_piggyback=True), False),
        "batch from 0": (lambda: BatchReadRequest(0, 2, ledger_id, EntryId(0), 5, 1 << 20), is_here),
        "batch from 7": (lambda: BatchReadRequest(0, 2, ledger_id, EntryId(7), 5, 1 << 20), False),
        "fencing batch": (
            lambda: BatchReadRequest(0, 2, ledger_id, EntryId(7), 5, 1 << 20, KEY, is_fencing=True),
            False,
        ),
        "read the LAC": (lambda: ReadLacRequest(*ids), False),
        "list of entries": (lambda: ListEntriesRequest(*ids), False),
        "force": (lambda: ForceRequest(*ids), False),
        "write the LAC": (lambda: WriteLacRequest(*ids, 0, KEY, lac), None),
        "add": (lambda: AddRequest(*ids, EntryId(5), KEY, sealed), None),
        "recovery add": (
            lambda: AddRequest(*ids, EntryId(5), KEY, sealed, is_recovery=True, is_high_priority=True),
            None,
        ),
    }


def test_every_request_there_is_is_asked() -> None:
    known = {name for name in dir(messages) if name.endswith("Request") and name != "Request"} | {"ReadRun"}
    asked = {type(make()).__name__ for make, _ in questions(LEDGER).values()}

    assert known == asked | set(UNASKED)
    assert not asked & set(UNASKED)


async def nothing_proven(store: EntryStore) -> None:
    store.is_doubtful = True


async def in_limbo(store: EntryStore) -> None:
    await store.protect([(LEDGER, False, True, None), (ODD_ONE, False, True, None)])


async def quarantined(store: EntryStore) -> None:
    for ledger_id in (LEDGER, ODD_ONE):
        store.partitions[1].table.quarantine(ledger_id, "a test says so")


async def directory_failed(store: EntryStore) -> None:
    store.partitions[1].failure = errors.PartitionFailed("ledger directory 2 takes no writes")
    with pytest.raises(errors.PartitionFailed):
        await store.flush()
    assert store.failed_dirs == ("/data/ledgers1",)


async def given_up(store: EntryStore) -> None:
    """Both ledgers lost their surplus; of the first one entries 0 and 1 were copied here again."""
    store.add_copied(ODD_ONE, EntryId(3), body(3, ledger_id=ODD_ONE), KEY)
    for ledger_id in (LEDGER, ODD_ONE):
        store.watch_surplus(ledger_id)
        await store.mark_given_up([ledger_id])
        assert store.give_up(ledger_id)
    for number in (0, 1):
        store.add_copied(LEDGER, EntryId(number), body(number), KEY)


async def given_up_and_named_again(store: EntryStore) -> None:
    await given_up(store)
    for ledger_id in (LEDGER, ODD_ONE):
        store.named_again(ledger_id)


SURPLUS = [given_up, given_up_and_named_again]
DOUBTS = [nothing_proven, in_limbo, quarantined, directory_failed, *SURPLUS]
Doubt = Callable[[EntryStore], Awaitable[None]]


@pytest.mark.parametrize("is_flushed", [True, False])
@pytest.mark.parametrize("journaled", [True, False])
@pytest.mark.parametrize("doubt", DOUBTS)
def test_no_request_is_answered_with_a_no_or_with_nothing_more(doubt: Doubt, journaled: bool, is_flushed: bool) -> None:
    said: list[str] = []

    async def story(asker: Asker, store: EntryStore) -> None:
        await asker.add(0)
        await asker.add(1)
        if is_flushed:
            await store.flush()
        await doubt(store)
        for ledger_id in (LEDGER, ODD_ONE):
            for name, (make, is_here) in questions(ledger_id).items():
                found: Any = await asker.ask(make())
                status = found.status
                answer = Answer.POSITIVE if status is Status.EOK else errors.BY_STATUS[status].answer
                quarantine_refuses = doubt is quarantined and name.startswith("fence")
                if is_here is None:  # a change: it may be taken where nothing is quarantined, and is never denied
                    is_right = answer is Answer.UNKNOWN or (doubt is not quarantined and answer is Answer.POSITIVE)
                elif is_here and not quarantine_refuses:
                    is_right = answer is Answer.POSITIVE
                elif doubt in SURPLUS and name == "force":
                    is_right = answer is Answer.POSITIVE  # of what came since: who copies must know when it is durable
                elif doubt is given_up_and_named_again and name == "list of entries":
                    is_right = answer is Answer.POSITIVE
                else:
                    is_right = answer is Answer.UNKNOWN
                if not is_right:
                    said.append(f"ledger {ledger_id}, {name}: {status.name}")

    storage = StorageOptions(
        journal_dirs=TWO.journal_dirs,
        ledger_dirs=TWO.ledger_dirs,
        journal_write_data=journaled,
        flush_interval_ms=3_600_000,
        unjournaled_flush_interval_ms=3_600_000,
    )
    server_support.run(story, storage=storage)

    assert said == []


@pytest.mark.parametrize("doubt", DOUBTS)
@story(server_support.run, storage=TWO)
async def test_runs_of_reads_never_say_no(asker: Asker, store: EntryStore, *, doubt: Doubt) -> None:
    await asker.add(0)
    await asker.add(1)
    await store.flush()
    await doubt(store)

    answers = await asker.read_run([0, 7, LAST, 1, 2**62])

    unknown = Status.EUNKNOWNLEDGERSTATE
    assert [answer.status for answer in answers] == [Status.EOK, unknown, unknown, Status.EOK, unknown]


@story(server_support.run, storage=TWO)
async def test_the_other_directory_says_no_as_ever(asker: Asker, store: EntryStore) -> None:
    await asker.add(0)
    await directory_failed(store)

    answer: Any = await asker.ask(ReadRequest(0, VERSION_THREE, LedgerId(8), EntryId(0)))
    assert answer.status is Status.ENOLEDGER


@story(server_support.run, storage=TWO)
async def test_a_failed_directory_has_no_room_to_offer(asker: Asker, store: EntryStore) -> None:
    before: Any = await asker.ask(BookieInfoRequest(0, VERSION_THREE, 3))

    await directory_failed(store)

    after: Any = await asker.ask(BookieInfoRequest(0, VERSION_THREE, 3))
    assert 2 * after.free_bytes <= before.free_bytes + 8192
    assert 2 * after.total_bytes == before.total_bytes
