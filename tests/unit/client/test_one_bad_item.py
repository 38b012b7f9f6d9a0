"""One bad ledger, record, mark or node never keeps the others from being looked at, and is itself never called fine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.cli import autorecovery as command
from bookie.cli import bookie_list
from bookie.client import Client
from bookie.client.repair import explaining, marked
from bookie.client.repair.auditor import Auditor
from bookie.client.repair.autorecovery import NOT_KNOWN, AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.daemon import AutoRecoveryDaemon
from bookie.client.repair.election import Election
from bookie.client.repair.marks import Marks
from bookie.client.repair.membership import Membership
from bookie.client.repair.progress_reports import ProgressReports
from bookie.client.repair.queue_progress import QueueProgress
from bookie.client.repair.replication_lock import Later, locked
from bookie.metadata import paths
from client_support import ROOT, Fleet, tell
from failing_support import GONE, failing, made
from story_support import story

ME = BookieId("me:1")
DENIED = errors.MetadataDenied("an ACL of somebody's")
DEFECT = KeyError("a defect of ours")
OTHER = errors.StorageFailed("of a kind that nobody expected here")
# One branch of the tree and of the queue has these, another one the ledger of that name below.
BAD, BEHIND, ELSEWHERE = LedgerId(1), LedgerId(2), LedgerId(70_000)
Daemon = tuple[AutoRecoveryDaemon, AutoRecovery]


def record(ledger_id: LedgerId) -> str:
    return paths.ledger_path(ROOT, ledger_id)


def mark(ledger_id: LedgerId) -> str:
    return paths.underreplicated(ROOT, ledger_id)


def auditor_of(client: Client) -> Auditor:
    shared, options = client.shared, AutoRecoveryOptions(check_interval_ms=0, loss_delay_ms=1)
    recovery = AutoRecovery(shared.ledgers.store, ROOT)
    return Auditor(shared, recovery, Membership(shared, recovery, options), ME, options)


async def audited(client: Client) -> Auditor:
    """An auditor that has looked once more, after it had heard of the bookie that is gone."""
    looking = auditor_of(client)
    for _ in range(2):
        await looking.turn()
        await asyncio.sleep(1)
    await looking.turn()
    return looking


# ---- the auditor -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [DENIED, DEFECT, OTHER, errors.BadInput("no record")])
@story(tell)
async def test_an_audit_goes_on_behind_a_ledger_that_cannot_be_looked_at(fleet: Fleet, *, error: Exception) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, BEHIND, ELSEWHERE)
        store.raises[record(BAD)] = error

        looking = await audited(client)

        counts, marks = looking.counts, AutoRecovery(fleet.store, ROOT)
        assert [each async for each in marks.ledgers()] == [BEHIND, ELSEWHERE]
        assert counts.unreadable == 1
        assert f"1 ledgers could not be looked at, the first is ledger {BAD}: " in counts.incomplete
        assert bool(counts.defects) == (error is DEFECT)
        store.raises.clear()
        looking._plan.ask()
        await looking.turn()
        assert BAD in [each async for each in marks.ledgers()]
        assert (counts.unreadable, counts.incomplete) == (0, "")


@pytest.mark.parametrize("kind", [errors.MetadataError, errors.SessionLost, errors.OutcomeUnknown])
@story(tell)
async def test_a_store_that_gives_no_answer_ends_the_audit_at_once(
    fleet: Fleet, *, kind: type[errors.BookieError]
) -> None:
    async with failing(fleet) as (client, store):
        await made(client, *range(1, 200))
        store.raises[record(BAD)] = kind("no answer")
        looking, store.reads = auditor_of(client), 0

        with pytest.raises(kind):
            await looking.turn()

        assert store.reads < 120, "one batch of 64, and what is asked before"
        assert looking.counts.audits == 0


@story(tell)
async def test_an_audit_goes_on_behind_a_branch_that_may_not_be_listed(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, ELSEWHERE)
        store.raises[record(BAD).rpartition("/")[0]] = DENIED

        looking = await audited(client)

        assert [each async for each in AutoRecovery(fleet.store, ROOT).ledgers()] == [ELSEWHERE]
        assert looking.counts.incomplete == f"1 branches of ledgers could not be listed: {DENIED}"
        with pytest.raises(errors.MetadataDenied):  # whoever takes the list for all ledgers is told nothing
            [each async for each in client.shared.ledgers.iterate()]


@contextlib.asynccontextmanager
async def running(client: Client) -> AsyncIterator[Daemon]:
    daemon = AutoRecoveryDaemon(client.shared, ME, AutoRecoveryOptions())
    ends = asyncio.ensure_future(daemon.run())
    yield daemon, AutoRecovery(client.shared.ledgers.store, ROOT)
    daemon.request_stop()
    await ends


@story(tell)
async def test_nothing_marked_proves_nothing_while_a_ledger_cannot_be_looked_at(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, by=BookieId("b1"))
        store.raises[record(BAD)] = DENIED
        async with running(client) as (daemon, recovery):
            await fleet.until(lambda: daemon.auditor.counts.audits > 0, "an audit")
            await asyncio.sleep(20)

            assert await command.tell_if_nobody_looks(recovery)
            assert f"ledger {BAD}" in await recovery.given_up()
            figures = {tuple(each.labels): each.value for each in daemon.samples() if each.name.endswith("given_up")}
            assert figures == {(("look", "audit"),): 1, (("look", "queue"),): 0}


# ---- the worker ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [DENIED, DEFECT, AssertionError("one of ours")])
@story(tell)
async def test_a_ledger_that_fails_is_blocked_and_the_others_are_mended(fleet: Fleet, *, error: Exception) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, BEHIND, by=BookieId("b1"))
        async with running(client) as (daemon, _):
            store.raises[record(BAD)] = error
            for each in (BAD, BEHIND):
                await Marks(fleet.store, ROOT).mark(each, [BookieId("b1")], 1)
            await fleet.until(lambda: daemon.worker.counts.mended == 1, "the other one")

            assert str(error) in daemon.worker.blocked[BAD]
            failures = daemon.worker.counts.failures
            await asyncio.sleep(600)
            assert daemon.worker.counts.failures - failures < 10, "the pauses grow"
            store.raises.clear()
            await fleet.until(lambda: daemon.worker.counts.mended == 2, "both", timeout_s=1_000)
            assert daemon.worker.blocked == {}
            assert bool(daemon.worker.counts.defects) == (error is not DENIED)


@story(tell)
async def test_a_part_of_the_queue_that_may_not_be_listed_keeps_nobody_waiting(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, ELSEWHERE, by=BookieId("b1"))
        async with running(client) as (daemon, recovery):
            store.raises[mark(BAD).rpartition("/")[0]] = DENIED
            for each in (BAD, ELSEWHERE):
                await Marks(fleet.store, ROOT).mark(each, [BookieId("b1")], 1)
            await fleet.until(lambda: daemon.worker.counts.mended == 1, "the other one")
            await asyncio.sleep(20)

            assert daemon.worker.counts.given_up == str(DENIED)
            assert str(DENIED) in await recovery.given_up()
            left_out: list[str] = []
            assert [each async for each in recovery.marked(left_out)] == []
            assert left_out == [str(DENIED)]
            with pytest.raises(errors.MetadataDenied):
                await marked.look(client.shared.ledgers, [ME], client.shared.world.clock)
            await recovery.set_enabled(enabled=False)
            await asyncio.sleep(20)
            assert daemon.worker.counts.given_up == "", "switched off, nobody wants to look"


# ---- single nodes ----------------------------------------------------------------------------------------------------


@story(tell)
async def test_a_registration_that_may_not_be_read_hides_no_other_bookie(fleet: Fleet) -> None:
    denied = f"{paths.available(ROOT)}/b1"
    async with failing(fleet, **{denied: DENIED}) as (client, store):
        found = {each.bookie_id: each.address is not None for each in await client.admin.bookies()}
        shown = {each["id"]: each["address"] is not None for each in await bookie_list.list_bookies(store, ROOT)}

        assert found == shown == {"b0": True, "b1": False, "b2": True}
        assert await client.shared.watcher.look([BookieId("b1")]) == [], "it is registered: not lost"


@story(tell)
async def test_a_vote_that_may_not_be_read_keeps_nobody_from_auditing(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        votes = paths.auditor_votes(ROOT)
        other = await fleet.store.create(f"{votes}/V_", b"whose", ephemeral=True, sequential=True, parents=True)
        store.raises[other] = DENIED
        election = Election(client.shared.ledgers.store, ROOT, ME)

        assert [await election.leads(), await election.leads()] == [True, True]
        assert len(await fleet.store.children(votes)) == 2, "and no vote is made twice"


@story(tell)
async def test_marks_locks_and_reports_that_may_not_be_read_hide_no_others(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, BEHIND)
        for each in (BAD, BEHIND):
            await Marks(fleet.store, ROOT).mark(each, [GONE], 1)
        later = Later(client.shared.tasks, client.shared.world.clock)
        reports = ProgressReports(fleet.store, ROOT)
        for name in ("a:1", "b:1"):
            await reports.write(name, QueueProgress().estimate((), (), 0))
        denied = (mark(BAD), paths.replication_lock(ROOT, BAD), paths.recovery_progress(ROOT, "a:1"))
        store.raises |= dict.fromkeys(denied, DENIED)
        recovery = AutoRecovery(client.shared.ledgers.store, ROOT)
        async with (
            locked(fleet.store, ROOT, BAD, "one", later),
            locked(fleet.store, ROOT, BEHIND, "another", later),
        ):
            told = [(each.ledger_id, each.record.missing, each.holder) async for each in recovery.marked()]

            assert told == [(BAD, (), "another process"), (BEHIND, (GONE,), "another")]
            assert {each: lock.session == NOT_KNOWN for each, lock in (await recovery.locks()).items()} == {
                BAD: True,
                BEHIND: False,
            }
            store.raises.pop(mark(BAD))
            said = (await explaining.explain(client.shared, BAD)).helps
            assert any("may not be read, so nobody here knows whose it is" in each for each in said)
        assert list(await recovery.reports.read()) == ["b:1"]


@story(tell)
async def test_an_auditor_whose_report_may_not_be_read_is_not_said_to_have_looked(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store), running(client) as (daemon, recovery):
        await fleet.until(lambda: daemon.auditor.counts.is_leading, "the auditor")
        await asyncio.sleep(20)
        assert not await command.tell_if_nobody_looks(recovery)
        store.raises[paths.recovery_progress(ROOT, ME)] = DENIED

        assert await command.tell_if_nobody_looks(recovery)
