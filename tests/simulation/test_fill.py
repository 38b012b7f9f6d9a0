"""Bookies that were away and are back, with no spare bookie: in the end every replica is where it should be, and equal
(spec/bp46.md#R24 to R28)."""

from __future__ import annotations

import random

import pytest

import seeds_support
from accidents_support import QUIET, append
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.repair.maintenance import Maintenance
from bookie.client.write.writer import LedgerWriter
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.admin import FillAction, State
from bookie.sim import replicas, workload
from bookie.sim.cluster import SimCluster
from bookie.sim.node import Defect, ProcessEnd
from bookie.sim.replicas import copies
from bookie.sim.run import run_seed
from fill_support import away, back, status, until_whole, written
from sim_support import on_cluster
from story_support import story


def complete(cluster: SimCluster, ledger_id: LedgerId) -> LedgerMetadata:
    metadata = cluster.metadata_of(ledger_id)
    assert metadata is not None
    return metadata


@pytest.mark.parametrize("journal_write_data", [False, True])
@story(on_cluster, 3, fill_after_boot=True, given=("journal_write_data",))
async def test_a_closed_ledger_that_was_written_without_one_bookie_has_all_its_replicas_soon_after_its_return(
    cluster: SimCluster,
) -> None:
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    gone = cluster.bookies["bookie-1"]
    await written(cluster, client, writer, 10)
    await away(cluster, gone)
    await written(cluster, client, writer, 30)
    await client(writer.close())

    await back(cluster, gone)
    await until_whole(cluster, gone)

    assert await copies(cluster, writer.id, EntryId(39)) == []
    assert status(gone).entries_copied == 30
    assert (await gone.report()).whole_since_boot
    before = complete(cluster, writer.id)
    assert before.is_closed
    gone.crash()  # a power cut: what counted is durable
    await back(cluster, gone)
    await until_whole(cluster, gone)
    assert status(gone).entries_copied == 0
    assert await copies(cluster, writer.id, EntryId(39)) == []
    assert complete(cluster, writer.id) == before
    await workload.verify(cluster, [writer.id])


@story(on_cluster, 4, fill_after_boot=True)
async def test_what_was_written_while_a_bookie_took_no_writes_is_fetched_when_it_takes_them_again(
    cluster: SimCluster,
) -> None:
    """No restart between: a drain that was taken back, a turn that ended, a full disk with room again."""
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    refusing = cluster.bookies["bookie-1"]
    await until_whole(cluster, refusing)
    await written(cluster, client, writer, 10)
    admin = refusing.process.admin  # type: ignore[union-attr]
    await refusing.node.do(admin.set_read_only(True))
    await written(cluster, client, writer, 20)
    await client(writer.close())
    await cluster.until(lambda: refusing.state is State.READ_ONLY, "it refuses writes")
    assert await copies(cluster, writer.id, EntryId(29)) != []

    assert status(refusing).is_whole, "as whole as it was, or no bookie could be stopped in its turn"
    await refusing.node.do(admin.set_read_only(False))
    assert not status(refusing).is_whole
    assert not (await refusing.report()).whole_since_boot, "so the operator stops nobody else"
    await until_whole(cluster, refusing)

    assert await copies(cluster, writer.id, EntryId(29)) == []
    await workload.verify(cluster, [writer.id])


@story(on_cluster, 5, fill_after_boot=True)
async def test_an_open_ledger_is_filled_up_to_its_lac_and_its_writer_does_not_notice(cluster: SimCluster) -> None:
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    gone = cluster.bookies["bookie-2"]
    await written(cluster, client, writer, 5)
    await away(cluster, gone)
    await written(cluster, client, writer, 25)

    await back(cluster, gone)
    await until_whole(cluster, gone)

    before = complete(cluster, writer.id)
    assert (before.is_closed, len(before.segments)) == (False, 1)
    assert await copies(cluster, writer.id, EntryId(29)) == []
    await written(cluster, client, writer, 5)  # neither fenced nor closed
    await client(writer.close())
    assert await copies(cluster, writer.id, EntryId(34)) == []
    await workload.verify(cluster, [writer.id])


@story(on_cluster, 8, fill_after_boot=True)
async def test_a_rolling_restart_without_spare_bookies_leaves_no_entry_short(cluster: SimCluster) -> None:
    """Each bookie in turn, the next one once the last one is whole: five ledgers are written all the time."""
    client = await cluster.client("writer")
    writers = [await client(client.client.create()) for _ in range(5)]
    for bookie in cluster.bookies.values():
        for writer in writers:
            await written(cluster, client, writer, 3)
        await away(cluster, bookie)
        for writer in writers:
            await written(cluster, client, writer, 7)
        await back(cluster, bookie)
        for writer in writers:
            await written(cluster, client, writer, 2)
        await until_whole(cluster, bookie)

    for writer in writers:
        assert await copies(cluster, writer.id, EntryId(35)) == []
    for writer in writers[:3]:
        await client(writer.close())
    await workload.verify(cluster, [writer.id for writer in writers])


@story(on_cluster, 13, bookies=2, fill_after_boot=True)
async def test_what_only_a_bookie_that_is_down_has_is_told_and_filled_when_it_is_back(cluster: SimCluster) -> None:
    client = await cluster.client("writer")
    writer = await client(client.client.create(ensemble_size=2, write_quorum=2, ack_quorum=1))
    first, other = (cluster.bookies[name] for name in writer.metadata.last_segment.bookies)
    await away(cluster, first)
    await written(cluster, client, writer, 4)
    await client(writer.close())
    await away(cluster, other)

    await back(cluster, first)
    await cluster.until(lambda: status(first).ended_ms_ago >= 0, "the fill ends")

    found = status(first)
    assert (found.is_whole, found.blocked_count, found.entries_missing) == (False, 1, 4)
    assert (found.blocked[0].ledger_id, other.name in found.blocked[0].reason) == (writer.id, True)
    assert not (await first.report()).whole_since_boot
    await back(cluster, other)
    assert first.process is not None
    await first.node.do(first.process.admin.fill_holes(FillAction.START))
    await until_whole(cluster, first)
    assert await copies(cluster, writer.id, EntryId(3)) == []


@pytest.mark.parametrize("seed", range(3))
@story(on_cluster, fill_after_boot=True, journal_write_data=True, given=("seed",))
async def test_bookies_that_come_and_go_at_random_under_writers_end_whole(cluster: SimCluster, *, seed: int) -> None:
    """Stopped, killed or cut off, one at a time, with no spare bookie; ledgers are closed, left open, and deleted."""
    draws = random.Random(f"fill {seed}")
    client = await cluster.client("writer")
    writers: list[LedgerWriter] = []
    ended: list[tuple[LedgerId, EntryId]] = []
    deleted: list[LedgerId] = []
    for _ in range(6):
        writers += [await client(client.client.create()) for _ in range(2)]
        bookie = draws.choice(list(cluster.bookies.values()))
        how = draws.choice(["stop", "kill", "power"])
        if how == "stop":
            await away(cluster, bookie)
        else:
            bookie.crash(ProcessEnd.KILL if how == "kill" else ProcessEnd.POWER_CUT)
        for writer in writers:
            await written(cluster, client, writer, draws.randint(0, 8))
        await back(cluster, bookie)
        for writer in [one for one in writers if draws.random() < 0.3]:
            writers.remove(writer)
            await client(writer.close())
            ended.append((writer.id, writer.last_confirmed))
        if ended and draws.random() < 0.5:
            ledger_id, _ = ended.pop()
            deleted.append(ledger_id)
            await client(client.client.delete(ledger_id))
        await cluster.until_repaired()
        await until_whole(cluster, bookie)

    for ledger_id, last in [*ended, *[(writer.id, writer.last_confirmed) for writer in writers]]:
        assert await copies(cluster, ledger_id, last) == [], f"seed {seed}"
    assert all(cluster.metadata_of(ledger_id) is None for ledger_id in deleted)
    await workload.verify(cluster, [ledger_id for ledger_id, _ in ended])


BASE = seeds_support.base_seed()


@pytest.mark.parametrize("seed", [BASE + number for number in range(3)])
@pytest.mark.parametrize("accidents", [False, True], ids=["all faults", "accidents"])
def test_after_a_fresh_seed_every_replica_is_there_and_equal(seed: int, accidents: bool) -> None:
    outcome = run_seed(seed, filling=True, accidents=accidents, faults_s=15)

    print(outcome.line())
    flags = "--fill --accidents" if accidents else "--fill"
    assert outcome.defect is None, (
        f"{outcome.defect}\nagain: python -m bookie.sim {seed:#x} {flags} --faults-s 15 --trace"
    )


@story(on_cluster, 34, fill_after_boot=True)
async def test_a_fill_that_ends_while_its_bookie_is_to_be_stopped_leaves_it_its_lease(cluster: SimCluster) -> None:
    """Whoever prepares the stop asks again within a minute, and the lease is not written that often."""
    client = await cluster.client("writer")
    stopped = cluster.bookies["bookie-1"]
    await until_whole(cluster, stopped)
    assert stopped.process is not None
    admin = stopped.process.admin
    leases = Maintenance(client.client.shared.ledgers.store, "/ledgers")

    await stopped.node.do(admin.prepare_shutdown())
    taken = await client(leases.find(BookieId(stopped.name)))
    began_ns = cluster.simulation.loop.now_ns
    await stopped.node.do(admin.fill_holes(FillAction.START))
    await cluster.until(
        lambda: 0 <= status(stopped).ended_ms_ago < (cluster.simulation.loop.now_ns - began_ns) // NS_PER_MS,
        "a fill ends",
    )
    assert status(stopped).is_whole
    await stopped.node.do(admin.prepare_shutdown())

    assert taken is not None
    assert await client(leases.find(BookieId(stopped.name))) == taken

    await stopped.node.do(admin.set_read_only(False))
    assert await client(leases.find(BookieId(stopped.name))) is None, "it is not to be stopped any more"
    await stopped.node.do(admin.prepare_shutdown())
    assert await client(leases.find(BookieId(stopped.name))) is not None, "and now it is again"


async def a_bookie_lost_what_it_acknowledged(cluster: SimCluster, *, repaired: bool) -> None:
    """bookie-2 never gets the entries. bookie-0 acknowledges them, and loses its volumes when the ledger is closed."""
    app = await cluster.client("app")
    writer = await app(app.client.create())
    cluster.hold("app", "bookie-2")
    for number in range(4):
        await append(cluster, app, writer, b"entry %d" % number)
    await app(writer.close())
    cluster.release("app", "bookie-2")
    emptied = cluster.bookies["bookie-0"]
    emptied.crash()
    emptied.wipe()
    if not repaired:
        cluster.partition("bookie-0", "bookie-1")
        cluster.partition("bookie-0", "bookie-2")
    emptied.start()
    await cluster.until_ready("bookie-0")
    if repaired:
        await cluster.until_repaired("bookie-0")
    await replicas.check_kept(cluster, [writer.id])


def test_at_the_end_of_a_random_run_what_was_acknowledged_is_there() -> None:
    SimCluster(1, client=QUIET).run(lambda it: a_bookie_lost_what_it_acknowledged(it, repaired=True))


def test_at_the_end_of_a_random_run_a_lost_replica_is_told() -> None:
    with pytest.raises(Defect, match="KEPT: bookie-0 lacks entry 0 of ledger 0"):
        SimCluster(1, client=QUIET).run(lambda it: a_bookie_lost_what_it_acknowledged(it, repaired=False))
