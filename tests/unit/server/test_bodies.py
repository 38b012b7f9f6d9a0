"""A bookie keeps what it was given: of an entry it reads the first three fields, and writes none (CONFORMANCE.md#O17,
D1, D20)."""

import random

from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.storage.store import EntryStore
from bookie.wire.messages import AddRunResponse, Outgoing
from server_support import Asker, add, body, run
from story_support import story


@story(run)
async def test_whatever_follows_the_first_three_fields_comes_back_as_it_was_sent(
    asker: Asker, store: EntryStore
) -> None:
    """CONFORMANCE.md#O17: no digest, a digest nobody knows, a length that is wrong: none of a bookie's business."""
    draw = random.Random(5)
    bodies = [body(number)[:24] + draw.randbytes(draw.choice((0, 1, 8, 200, 70_000))) for number in range(20)]

    for number, sent in enumerate(bodies):
        assert (await asker.add(number, body=sent)).status is Status.EOK
    assert [bytes((await asker.read(number)).body or b"") for number in range(20)] == bodies
    await store.flush()
    assert [bytes((await asker.read(number)).body or b"") for number in range(20)] == bodies


@story(run)
async def test_an_add_with_deferred_sync_is_stored_as_any_other(asker: Asker, store: EntryStore) -> None:
    """CONFORMANCE.md#D1: the level decides when an add is answered, and nothing else."""

    await asker.add(0)
    await asker.add(1, is_deferred=True)
    await store.flush()

    assert [(await asker.read(number)).body for number in (0, 1)] == [body(0), body(1)]
    assert await store.entry_ranges(LedgerId(7)) == [(0, 1)]


@story(run)
async def test_a_sync_for_one_ledger_moves_the_cursor_of_another(asker: Asker, store: EntryStore) -> None:
    """CONFORMANCE.md#D20: one group of the journal is one sync for all that is in it."""
    told: list[AddRunResponse] = []

    reply = asker.reply

    def listen(response: Outgoing) -> None:
        if isinstance(response, AddRunResponse):
            told.append(response)
        reply(response)

    asker.reply = listen  # type: ignore[method-assign]
    groups = store.stats.journal_groups
    deferred = asker.send(add(0, is_deferred=True))
    plain = asker.send(add(0, ledger_id=LedgerId(8), body=body(0, ledger_id=8)))
    await asker.node.simulation.until(lambda: {deferred, plain} <= set(asker.answers), "both answers")

    assert store.stats.journal_groups == groups + 1
    assert [(answer.run.ledger_id, answer.last_synced) for answer in told] == [(7, EntryId(0)), (8, None)]
