"""What `workload fenced` asks a bookie with: where nothing protects a ledger, the question itself must not harm it."""

import pytest

from bookie.base.ids import LedgerId
from bookie.workload import survey
from bookie.workload.survey import PROBE_ENTRY, Fences
from client_support import Fleet, tell
from story_support import story

ASKED = 0


async def ask(fleet: Fleet, ledger_id: LedgerId) -> Fences:
    async with fleet.client("asker") as client:
        return await survey.probe_fences(client, fleet.bookies[ASKED].id, [ledger_id])


@pytest.mark.parametrize("shape", [(3, 3, 2), (3, 2, 2), (3, 1, 1)])
@story(tell)
async def test_an_entry_that_an_unfenced_ledger_takes_is_one_that_it_has(
    fleet: Fleet, *, shape: tuple[int, int, int]
) -> None:
    async with fleet.client() as client:
        writer = await client.create(ensemble_size=shape[0], write_quorum=shape[1], ack_quorum=shape[2])
        await writer.append_many([b"one", b"two", b"three"])
        before = [dict(bookie.entries) for bookie in fleet.bookies]

        found = await ask(fleet, writer.id)

        assert found == Fences(unfenced=[writer.id])
        assert [bookie.entries for bookie in fleet.bookies] == before


@story(tell)
async def test_a_bookie_that_lost_its_entry_and_its_fence_is_asked_with_the_copy_of_another(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        await writer.append_many([b"one", b"two"])
        lost = fleet.bookies[ASKED].entries
        before = dict(lost)
        lost.clear()

        assert await ask(fleet, writer.id) == Fences(unfenced=[writer.id])

        assert lost.items() <= before.items()


@story(tell)
async def test_a_ledger_of_which_nobody_gives_an_entry_is_asked_about_all_the_same(fleet: Fleet) -> None:
    async with fleet.client() as client:
        writer = await client.create()
        fleet.bookies[ASKED].fenced.add(writer.id)

        assert await ask(fleet, writer.id) == Fences(fenced=1)

        fleet.bookies[ASKED].fenced.clear()
        assert await ask(fleet, writer.id) == Fences(unfenced=[writer.id])
        assert [entry_id for _, entry_id in fleet.bookies[ASKED].entries] == [PROBE_ENTRY]
