"""One ledger that cannot be audited is not known; the others of its unit are audited."""

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.client import Client
from bookie.metadata import paths
from client_support import ROOT, Fleet, tell
from failing_support import failing, made
from pyspark_bookkeeper.audit import tally
from pyspark_bookkeeper.audit.inspector import LedgerInspector, Rules, UnitResult
from story_support import story

BAD, BEHIND = LedgerId(1), LedgerId(2)


async def audited(client: Client) -> UnitResult:
    await made(client, BAD, BEHIND, by=BookieId("b1"))
    zones = {each.bookie_id: each.zone for each in await client.admin.bookies()}
    return await LedgerInspector(client, zones, Rules(grace_ms=0, second_look_ms=0)).audit([BAD, BEHIND])


@pytest.mark.parametrize(
    "error", [errors.MetadataDenied("an ACL of somebody's"), errors.StorageFailed("unexpected"), KeyError("a defect")]
)
@story(tell)
async def test_a_ledger_that_cannot_be_looked_at_is_not_known_and_the_others_are_audited(
    fleet: Fleet, *, error: Exception
) -> None:
    async with failing(fleet) as (client, store):
        store.raises[paths.ledger_path(ROOT, BAD)] = error

        result = await audited(client)

        assert [(each.ledger, each.kind) for each in result.findings] == [(BAD, tally.UNREADABLE)]
        assert str(error) in result.findings[0].reason
        assert result.figures["ledgers", tally.CLOSED] == 1


@pytest.mark.parametrize("kind", [errors.MetadataError, errors.SessionLost, errors.OutcomeUnknown])
@story(tell)
async def test_a_store_that_gives_no_answer_ends_the_audit(fleet: Fleet, *, kind: type[errors.BookieError]) -> None:
    async with failing(fleet) as (client, store):
        store.raises[paths.ledger_path(ROOT, BAD)] = kind("no answer")

        with pytest.raises(kind):
            await audited(client)
