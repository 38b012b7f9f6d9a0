"""The accidents of `test_scenarios.py` and `test_integrity_boot.py` once more, of our bookies and of bookies that keep
Java's rules (`legacy_support`): spec/bp46.md#T1, T4, T5, T13 to T16, T18 and T20. Where Java's lose or deny what was
acknowledged the simulator reports it; where they hold, and where they only end otherwise, the test says so.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

import legacy_support
import volumes_support
from accidents_support import QUIET, READS, append, read_up_to, verify
from bookie.base import errors
from bookie.client import LedgerWriter
from bookie.integrity.options import BOUND, SCAN
from bookie.ports.admin import State
from bookie.sim.cluster import LEDGERS, VOLUMES, ClientNode, SimCluster
from bookie.sim.node import Defect, ProcessEnd
from legacy_support import JavaBookie, JavaWriter

SEEDS = range(1)
EITHER_FORM = pytest.mark.parametrize("phase_one", [SCAN, BOUND])
REFUSALS = ("QuorumNotReached", "LedgerRecoveryFailed", "UnknownLedgerState")


# ---- spec/bp46.md#T1, T4, T5 -----------------------------------------------------------------------------------------


async def every_bookie_restarts_after_a_fence(
    cluster: SimCluster, *, how: ProcessEnd | None, idle_s: float, entries: int = 0
) -> str:
    """A ledger is fenced and closed by recovery, all bookies restart, and its writer, which keeps Java's rules, goes on
    without a look at the ledger's record: only the bookies are left to refuse it."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = JavaWriter(c1, await c1(c1.client.create()))
    for number in range(entries):
        await appended(cluster, writer, b"entry %d" % number)
    await c2(c2.client.open(writer.id))
    await asyncio.sleep(idle_s)
    for bookie in cluster.bookies.values():
        if how is None:
            bookie.stop()
            await cluster.until(lambda bookie=bookie: not bookie.is_running, "stopped")  # type: ignore[misc]
        else:
            bookie.crash(how)
    for bookie in cluster.bookies.values():
        bookie.start()
    await cluster.until_ready()
    try:
        await appended(cluster, writer, b"behind the fence")
    except errors.LedgerFenced:
        return "refused"
    return "acknowledged"


async def appended(cluster: SimCluster, writer: JavaWriter, payload: bytes) -> None:
    cluster.oracle.acknowledged(writer.id, await writer.append(payload, deferred=False), payload)


RESTARTS = pytest.mark.parametrize(
    ("how", "idle_s"),
    [(ProcessEnd.KILL, 0.0), (ProcessEnd.POWER_CUT, 0.0), (ProcessEnd.KILL, 60.0), (None, 0.0)],
    ids=["T1 killed", "T1 power cut", "T4 idle checkpoint then kill", "T5 clean stop"],
)


@pytest.mark.parametrize("entries", [0, 2])
@pytest.mark.parametrize("journaled", [True, False])
@RESTARTS
def test_t1_t4_t5_our_bookies_refuse_a_writer_that_never_asks_for_the_record(
    how: ProcessEnd | None, idle_s: float, journaled: bool, entries: int
) -> None:
    cluster = SimCluster(1, client=QUIET, journal_write_data=journaled)

    assert cluster.run(lambda it: every_bookie_restarts_after_a_fence(it, how=how, idle_s=idle_s, entries=entries)) == (
        "refused"
    )


@RESTARTS
def test_t1_t4_t5_javas_bookies_forget_the_fence_and_let_the_writer_in(how: ProcessEnd | None, idle_s: float) -> None:
    cluster = legacy_support.all_java(SimCluster(1, client=QUIET, journal_write_data=True))

    with pytest.raises(Defect, match="answered a fence of ledger 0, then accepted entry 0"):
        cluster.run(lambda it: every_bookie_restarts_after_a_fence(it, how=how, idle_s=idle_s))


def test_t1_javas_bookies_hold_where_the_journal_has_an_entry_of_the_ledger() -> None:
    cluster = legacy_support.all_java(SimCluster(1, client=QUIET, journal_write_data=True))

    assert cluster.run(
        lambda it: every_bookie_restarts_after_a_fence(it, how=ProcessEnd.KILL, idle_s=0.0, entries=2)
    ) == ("refused")


# ---- spec/bp46.md#T13 ------------------------------------------------------------------------------------------------


async def the_only_copy_may_be_lost(cluster: SimCluster) -> str:
    """An ack quorum of one. bookie-0 loses its volumes, and with them the one copy of E0; it is killed once more before
    somebody recovers the ledger."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create(ensemble_size=2, write_quorum=2, ack_quorum=1))
    first, second = writer.metadata.last_segment.bookies
    cluster.hold("c1", second)
    await append(cluster, c1, writer, b"E0")
    c1.crash()
    lost = cluster.bookies[first]
    lost.crash()
    lost.wipe()
    lost.start()
    await cluster.until_ready(first)
    await asyncio.sleep(30)
    before = await outcome_of_recovery(c2, writer)
    lost.crash(ProcessEnd.KILL)
    lost.start()
    await cluster.until_ready(first)
    return f"{before}, then {await outcome_of_recovery(c2, writer)}"


async def outcome_of_recovery(client: ClientNode, writer: LedgerWriter) -> str:
    try:
        reader = await client(client.client.open(writer.id))
    except errors.BookieError as error:
        return "refused" if type(error).__name__ in REFUSALS else type(error).__name__
    return f"closed at {reader.last_entry}"


T13: dict[str, Any] = {"client": QUIET, "journal_write_data": True, "bookies": 2}


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t13_a_ledger_whose_only_copy_may_be_lost_stays_open_for_a_person(seed: int, phase_one: str) -> None:
    cluster = SimCluster(seed, phase_one=phase_one, **T13)

    assert cluster.run(the_only_copy_may_be_lost) == "refused, then refused"


def test_t13_a_java_bookie_refuses_until_a_restart_and_then_denies_the_only_copy() -> None:
    with pytest.raises(Defect, match=r"S8: bookie-\d acknowledged entry 0 of ledger 0 and now denies it"):
        legacy_support.all_java(SimCluster(1, **T13)).run(the_only_copy_may_be_lost)


# ---- spec/bp46.md#T14 ------------------------------------------------------------------------------------------------


async def a_bookie_of_a_live_writer_restarts_unclean(cluster: SimCluster) -> int:
    """There is no other bookie for its place: the writer takes it back in, or is ended by its repair."""
    c1 = await cluster.client("c1")
    writer = await c1(c1.client.create())
    await append(cluster, c1, writer, b"before")
    victim = cluster.bookies["bookie-0"]
    victim.crash()
    victim.start()
    for number in range(30):
        await append(cluster, c1, writer, b"entry %d" % number)
        await asyncio.sleep(1)
    await c1(writer.close())
    return len(await verify(cluster, writer.id))


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t14_a_writer_survives_the_repair_of_one_of_its_bookies(seed: int, phase_one: str) -> None:
    cluster = SimCluster(seed, client=QUIET, phase_one=phase_one)

    assert cluster.run(a_bookie_of_a_live_writer_restarts_unclean) == 31


def test_t14_the_check_of_a_java_bookie_closes_the_ledger_under_its_writer() -> None:
    """No acknowledged entry is lost: the writer is."""
    cluster = legacy_support.all_java(SimCluster(1, client=QUIET))

    with pytest.raises((errors.LedgerFenced, errors.LedgerClosed)):
        cluster.run(a_bookie_of_a_live_writer_restarts_unclean)


async def a_bookie_of_an_idle_writer_restarts_unclean(cluster: SimCluster) -> tuple[LedgerWriter, ClientNode]:
    """The writer says nothing for three times the grace that writers have (30 s)."""
    c1 = await cluster.client("c1")
    writer = await c1(c1.client.create())
    await append(cluster, c1, writer, b"before")
    victim = cluster.bookies[writer.metadata.last_segment.bookies[0]]
    victim.crash()
    victim.start()
    await cluster.until_ready(victim.name)
    await asyncio.sleep(90)
    await cluster.until_repaired(victim.name)
    return writer, c1


@EITHER_FORM
def test_t14_an_idle_writer_survives_where_a_bookie_is_spare(phase_one: str) -> None:
    async def goes_on(cluster: SimCluster) -> int:
        writer, c1 = await a_bookie_of_an_idle_writer_restarts_unclean(cluster)
        await append(cluster, c1, writer, b"after")
        await c1(writer.close())
        return len(await verify(cluster, writer.id))

    cluster = SimCluster(2, client=QUIET, bookies=4, open_ledger_grace_ms=30_000, phase_one=phase_one)
    assert cluster.run(goes_on) == 2


@EITHER_FORM
def test_t14_an_idle_writer_without_a_spare_bookie_is_ended_and_nothing_is_lost(phase_one: str) -> None:
    """It has shown no sign of life, and nobody can take the bookie's place (decisions/0004)."""

    async def is_ended(cluster: SimCluster) -> int:
        writer, c1 = await a_bookie_of_an_idle_writer_restarts_unclean(cluster)
        with pytest.raises(errors.LedgerClosed):
            await c1(writer.append(b"after"))
        return len(await verify(cluster, writer.id))

    cluster = SimCluster(2, client=QUIET, bookies=3, open_ledger_grace_ms=30_000, phase_one=phase_one)
    assert cluster.run(is_ended) == 1


# ---- spec/bp46.md#T15 ------------------------------------------------------------------------------------------------


async def the_entry_logs_are_lost_and_the_index_is_kept(cluster: SimCluster) -> int:
    """bookie-0 stops in order, loses its ledger volume, and repairs; then it is the last one."""
    c1 = await cluster.client("c1")
    writer = await c1(c1.client.create())
    for number in range(6):
        await append(cluster, c1, writer, b"entry %d" % number)
    await c1(writer.close())
    reader = await c1(c1.client.open(writer.id))
    bookie = cluster.bookies["bookie-0"]
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    bookie.wipe(LEDGERS)
    bookie.start()
    await cluster.until_ready("bookie-0")
    await cluster.until_repaired("bookie-0")
    for name in ("bookie-1", "bookie-2"):
        cluster.bookies[name].crash()
    return len(await read_up_to(cluster, c1, reader, 5))


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t15_what_was_on_a_lost_ledger_volume_is_fetched_again(seed: int, phase_one: str) -> None:
    cluster = SimCluster(seed, client=READS, phase_one=phase_one)

    assert cluster.run(the_entry_logs_are_lost_and_the_index_is_kept) == 6


def test_t15_a_java_bookie_believes_its_index_and_fetches_nothing() -> None:
    with pytest.raises(Defect, match="L1: ledger 0 cannot be read to its end"):
        legacy_support.all_java(SimCluster(1, client=READS)).run(the_entry_logs_are_lost_and_the_index_is_kept)


# ---- spec/bp46.md#T16 ------------------------------------------------------------------------------------------------


async def a_ledger_of(cluster: SimCluster, text: bytes) -> Any:
    """The volumes of bookie-0, in a cluster whose first ledger has two entries of this text."""
    c1 = await cluster.client("c1")
    writer = await c1(c1.client.create())
    for _ in range(2):
        await append(cluster, c1, writer, text)
    await c1(writer.close())
    bookie = cluster.bookies["bookie-0"]
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    if isinstance(bookie, JavaBookie):
        return bookie.volumes_of_now()
    return [volumes_support.snapshot(bookie.node.image, path) for path in VOLUMES]


async def the_disk_of_another_cluster_is_mounted(cluster: SimCluster, *, others: Any) -> str:
    await a_ledger_of(cluster, b"of this cluster")
    bookie = cluster.bookies["bookie-0"]
    if isinstance(bookie, JavaBookie):
        bookie.mount(others)
    else:
        for volume in others:
            volumes_support.put_back(bookie.node.image, volume)
    bookie.start()
    await cluster.until(lambda: bookie.is_ready or bookie.state is State.HELD, "ready or held")
    if bookie.state is State.HELD:
        return (await bookie.report()).reason
    await cluster.until_repaired("bookie-0")
    c2 = await cluster.client("c2")
    for name in ("bookie-1", "bookie-2"):
        cluster.bookies[name].crash()
    ledger_id = next(iter(cluster.oracle.ledgers))
    reader = await c2(c2.client.open(ledger_id))
    return str(await read_up_to(cluster, c2, reader, 1))


def test_t16_a_bookie_with_the_disk_of_another_cluster_is_held() -> None:
    others = SimCluster(2, client=READS).run(lambda it: a_ledger_of(it, b"of another one"))

    reason = SimCluster(1, client=READS).run(lambda it: the_disk_of_another_cluster_is_mounted(it, others=others))

    assert "the metadata store is cluster" in reason, reason


def test_t16_a_java_bookie_stamps_its_cookie_over_it_and_serves_the_entries_of_another_cluster() -> None:
    others = legacy_support.all_java(SimCluster(2, client=READS)).run(lambda it: a_ledger_of(it, b"of another one"))

    with pytest.raises(Defect, match="S2: ledger 0 entry 0 is not what was acknowledged"):
        legacy_support.all_java(SimCluster(1, client=READS)).run(
            lambda it: the_disk_of_another_cluster_is_mounted(it, others=others)
        )


# ---- spec/bp46.md#T18 ------------------------------------------------------------------------------------------------


async def a_ledger_is_deleted_while_it_is_in_limbo(cluster: SimCluster) -> float:
    """Returns how many seconds the repair took from then on."""
    c1 = await cluster.client("c1")
    kept, deleted = await c1(c1.client.create()), await c1(c1.client.create())
    for writer in (kept, deleted):
        await append(cluster, c1, writer, b"E0")
    c1.crash()
    emptied = cluster.bookies["bookie-0"]
    emptied.crash()
    emptied.wipe()
    for name in ("bookie-1", "bookie-2"):
        cluster.partition("bookie-0", name)
    emptied.start()
    await cluster.until_ready("bookie-0")
    await asyncio.sleep(8)  # its marks are made
    c2 = await cluster.client("c2")
    await c2(c2.client.delete(deleted.id))
    cluster.heal()
    before = cluster.simulation.loop.time()
    await cluster.until_repaired("bookie-0")
    assert await verify(cluster, kept.id) == [b"E0"]
    return cluster.simulation.loop.time() - before


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t18_the_repair_ends_although_a_ledger_in_limbo_is_deleted(seed: int, phase_one: str) -> None:
    cluster = SimCluster(seed, client=QUIET, phase_one=phase_one)

    assert cluster.run(a_ledger_is_deleted_while_it_is_in_limbo) < 120


def test_t18_the_repair_of_a_java_bookie_never_ends() -> None:
    """Nothing is lost by it: each look finds the ledger in limbo, and ends there."""
    with pytest.raises(Defect, match="repaired"):
        legacy_support.all_java(SimCluster(1, client=QUIET)).run(a_ledger_is_deleted_while_it_is_in_limbo)


# ---- spec/bp46.md#T20 ------------------------------------------------------------------------------------------------


async def the_journal_is_switched_on_after_a_crash_without_it(cluster: SimCluster) -> str:
    """E0 is on bookie-0, which loses it with its process, and on bookie-2, which is out of reach."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    cluster.hold("c1", "bookie-1")
    await append(cluster, c1, writer, b"E0")
    c1.crash()
    crashed = cluster.bookies["bookie-0"]
    crashed.crash(ProcessEnd.KILL)
    crashed.settings = dataclasses.replace(crashed.settings, journal_write_data=True)
    cluster.partition("bookie-2", "bookie-0")
    cluster.partition("bookie-2", "c2")
    crashed.start()
    await cluster.until_ready("bookie-0")
    await asyncio.sleep(8)  # marks would be made
    outcome = await outcome_of_recovery(c2, writer)
    if outcome == "refused":
        cluster.heal()
        await cluster.until_repaired()
        assert await verify(cluster, writer.id) == [b"E0"]
    return outcome


T20: dict[str, Any] = {"client": QUIET, "flush_interval_ms": 3_600_000}


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t20_what_counts_is_how_the_process_ran_that_crashed(seed: int, phase_one: str) -> None:
    cluster = SimCluster(seed, phase_one=phase_one, **T20)

    assert cluster.run(the_journal_is_switched_on_after_a_crash_without_it) == "refused"


def test_t20_a_java_bookie_asks_how_it_runs_now_and_makes_no_marks() -> None:
    with pytest.raises(Defect, match=r"S8: bookie-\d acknowledged entry 0 of ledger 0 and now denies it"):
        legacy_support.all_java(SimCluster(1, **T20)).run(the_journal_is_switched_on_after_a_crash_without_it)
