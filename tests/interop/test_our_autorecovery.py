"""What our auditor writes, the official shell reads: the queue and the vote (spec/metadata.md#M31, M45)."""

import asyncio

import pytest

import java_support
from bookie import connect
from bookie.base.ids import BookieId, LedgerId
from bookie.client.repair.election import Election
from bookie.client.repair.marks import Marks
from java_fleet_support import JudgedFleet

pytestmark = [pytest.mark.java, pytest.mark.slow]

LEDGER = LedgerId(987_654_321)
LOST, ME = BookieId("127.0.0.9:3181"), BookieId("127.0.0.8:3181")


def test_the_official_shell_lists_our_mark_and_names_our_auditor(fleet: JudgedFleet) -> None:
    async def story() -> tuple[str, str]:
        async with connect.connect(fleet.uri) as client:
            ledgers = client.shared.ledgers
            marks, election = Marks(ledgers.store, ledgers.root), Election(ledgers.store, ledgers.root, ME)
            await marks.prepare()
            await marks.mark(LEDGER, [LOST], 1_700_000_000_000)
            leads = await election.leads()
            try:
                listed = await asyncio.to_thread(
                    java_support.shell, fleet.uri, fleet.folder, "listunderreplicated", "-printmissingreplica"
                )
                auditor = await asyncio.to_thread(java_support.shell, fleet.uri, fleet.folder, "whoisauditor")
            finally:
                found = await marks.find(LEDGER)
                assert found is not None
                assert await marks.done(LEDGER, found.version)
                await election.withdraw()
            return listed, auditor if leads else ""

    listed, auditor = asyncio.run(story())

    assert str(LEDGER) in listed
    assert LOST in listed
    if auditor:  # nobody else of this session stood for it
        assert "127.0.0.8" in auditor
