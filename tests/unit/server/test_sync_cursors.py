"""LastAddSynced in answers to deferred adds (BP-14; CONFORMANCE.md#D16, D19, D20, D21)."""

import random

from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.server import sync_cursors
from bookie.server.sync_cursors import SyncCursors
from bookie.wire import runs, v3
from bookie.wire.digest import Digest, DigestType
from bookie.wire.messages import AddResponse, AddRun, AddRunResponse

DIGEST = Digest(DigestType.CRC32C, b"")


def run_of(ledger: int, entry_ids: list[int], *, lac: int = -1) -> AddRun:
    bodies = [b"".join(DIGEST.seal(LedgerId(ledger), EntryId(entry), lac, 0, b"x")) for entry in entry_ids]
    ids = [EntryId(entry) for entry in entry_ids]
    return AddRun(3, LedgerId(ledger), DIGEST.master_key, False, True, False, [7 + i for i in entry_ids], ids, bodies)


def test_a_cursor_is_the_contiguous_prefix_whatever_the_order_of_syncs() -> None:
    order = list(range(200))
    random.Random(3).shuffle(order)
    cursors = SyncCursors(is_journaled=True)
    synced: set[int] = set()

    for start in range(0, 200, 7):
        chunk = order[start : start + 7]
        synced.update(chunk)
        expected = next(entry for entry in range(201) if entry not in synced) - 1
        assert cursors.synced(run_of(1, chunk)) == expected
    assert cursors.synced(run_of(2, [3])) == -1


def test_the_lac_that_an_entry_brings_along_moves_the_cursor() -> None:
    """CONFORMANCE.md#D21; also of a bookie that joined late or lost its memory of the ledger."""
    cursors = SyncCursors(is_journaled=True)

    assert cursors.synced(run_of(1, [10], lac=8)) == 8
    assert cursors.synced(run_of(1, [9], lac=8)) == 10


def test_what_is_remembered_is_bounded() -> None:
    cursors = SyncCursors(is_journaled=True)

    for ledger in range(sync_cursors.LEDGERS_MAX + 50):
        cursors.synced(run_of(ledger, [0]))

    assert len(cursors._cursors) <= sync_cursors.LEDGERS_MAX
    assert cursors.synced(run_of(0, [1])) == -1  # less than is so, never more


def test_every_answer_of_the_run_says_it() -> None:
    """CONFORMANCE.md#D16."""
    run = run_of(5, [0, 1, 300])
    answers = runs.pack_add_answers(AddRunResponse(3, Status.EOK, run, 1))

    frames = b"".join(answers)
    read: list[AddResponse] = []
    while frames:
        end = 4 + int.from_bytes(frames[:4], "big")
        response = v3.unpack_response(memoryview(frames)[4:end])
        assert isinstance(response, AddResponse)
        read.append(response)
        frames = frames[end:]
    assert [(r.txn, r.entry_id, r.last_synced) for r in read] == [(7, 0, 1), (8, 1, 1), (307, 300, 1)]


def test_a_ledger_made_again_under_a_deleted_id_begins_anew() -> None:
    """Else its first answers would say that what comes is on disk, and a `force` would wait for nothing."""
    cursors = SyncCursors(is_journaled=True)
    cursors.synced(run_of(1, list(range(100))))

    again = run_of(1, [0])
    cursors.begun(again)
    assert cursors.last(LedgerId(1)) == -1
    assert cursors.synced(again) == 0


def test_what_comes_once_more_is_synced_once_more() -> None:
    cursors = SyncCursors(is_journaled=True)
    cursors.synced(run_of(1, list(range(10))))

    again = run_of(1, [6, 7])
    cursors.begun(run_of(1, [10, 11]))
    assert cursors.last(LedgerId(1)) == 9
    cursors.begun(again)
    assert cursors.last(LedgerId(1)) == 5
    assert cursors.synced(again) == 7
