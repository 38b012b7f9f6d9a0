"""One ledger that cannot be looked at ends no move and no look; it counts as one that may name any bookie."""

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation, LedgerId, Life
from bookie.client.repair import forgetting, marked, naming, reading_losses
from bookie.client.repair.evacuation import Evacuation
from bookie.client.repair.marks import Marks
from bookie.client.repair.replication_lock import Later, locked
from bookie.metadata import paths
from client_support import ROOT, Fleet, tell
from failing_support import GONE, failing, made
from story_support import story

DENIED = errors.MetadataDenied("an ACL of somebody's")
DEFECT = KeyError("a defect of ours")
BAD, BEHIND = LedgerId(1), LedgerId(2)


def record(ledger_id: LedgerId) -> str:
    return paths.ledger_path(ROOT, ledger_id)


def mark(ledger_id: LedgerId) -> str:
    return paths.underreplicated(ROOT, ledger_id)


@pytest.mark.parametrize("error", [DEFECT, DENIED])
@story(tell, zones="abcd")
async def test_what_moves_many_ledgers_moves_the_others(fleet: Fleet, *, error: Exception) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, BEHIND, by=BookieId("b1"))
        store.raises[record(BAD)] = error
        moved: list[LedgerId] = []

        left = await Evacuation(client.shared, [BookieId("b1")]).move_many([BAD, BEHIND], moved.append)

        assert (list(left), moved) == ([BAD], [BEHIND])
        assert str(error) in left[BAD]


@pytest.mark.parametrize("error", [DEFECT, DENIED])
@story(tell)
async def test_a_ledger_that_cannot_be_looked_at_may_name_any_bookie(fleet: Fleet, *, error: Exception) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, BEHIND)
        store.raises[record(BAD)] = error

        found = [each async for each in naming.look(client.shared.ledgers, [GONE])]

        assert [(each.ledger_id, str(error) in each.problem) for each in found if each] == [
            (BAD, True),
            (BEHIND, False),
        ]
        store.raises[record(BAD)] = errors.SessionLost("no answer")
        with pytest.raises(errors.SessionLost):
            [each async for each in naming.look(client.shared.ledgers, [GONE])]


@story(tell)
async def test_a_lock_that_may_not_be_read_may_be_a_repairs_and_hides_no_other(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        later = Later(client.shared.tasks, client.shared.world.clock)
        denied, other = (paths.replication_lock(ROOT, each) for each in (BAD, BEHIND))
        store.raises[denied] = DENIED
        async with locked(fleet.store, ROOT, BAD, "one", later), locked(fleet.store, ROOT, BEHIND, "another", later):
            before = await forgetting.repairs(client.shared.ledgers.store, ROOT)
            assert {path: session > 0 for path, _, session in before} == {denied: False, other: True}
        assert not before & await forgetting.repairs(client.shared.ledgers.store, ROOT)


@story(tell)
async def test_a_record_that_may_not_be_read_may_tell_of_any_loss(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, BEHIND)
        store.raises[record(BAD)] = DENIED

        losses = [each async for batch in reading_losses.of_cluster(client.shared.ledgers, None) for each in batch]

        assert [(each.ledger_id, each.problem) for each in losses] == [(BAD, str(DENIED)), (BEHIND, "")]


@pytest.mark.parametrize("path", [record(BAD), mark(BAD)])
@story(tell)
async def test_a_mark_or_record_that_may_not_be_read_holds_the_bookie_back(fleet: Fleet, *, path: str) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, last=9)
        await Marks(fleet.store, ROOT).mark(BAD, [BookieId("b9")], 1)
        store.raises[path] = DENIED

        found = await marked.look(client.shared.ledgers, [BookieId("b0")], client.shared.world.clock)

        assert [str(DENIED) in each.reason for held in found.held for each in held.first] == [True]


@pytest.mark.parametrize("error", [DENIED, errors.NodeMissing("no record of lives"), errors.BadInput("no such record")])
@story(tell, zones="abba")
async def test_a_bookie_whose_record_of_lives_cannot_be_read_is_not_chosen_for_ever(
    fleet: Fleet, *, error: Exception
) -> None:
    """Of the two that could take the copies, the first one lies better, and so would be drawn each time."""
    async with failing(fleet) as (client, store):
        for name in ("b2", "b3"):
            await fleet[name].begin_life(Life(Incarnation(1), BootEpoch(1)))
        await made(client, BAD, by=BookieId("b1"))
        store.raises[paths.incarnation(ROOT, BookieId("b2"))] = error
        evacuation = Evacuation(client.shared, [BookieId("b1")])

        for _ in range(2):
            left = await evacuation.move_many([BAD], lambda _: None)

        assert left == {}
        assert (await client.metadata(BAD)).names(BookieId("b3"))
