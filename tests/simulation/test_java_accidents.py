"""Accidents of BP-46 that end otherwise with Java's bookies: each story is told of our bookies, which lose nothing, and
of bookies that keep Java's rules (`legacy_support`), where the simulator reports the loss. spec/bp46.md#T6 to T12, T17
and T19; the rules that Java's keep are spec/storage.md#E1 to E6.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import legacy_support
from accidents_support import QUIET, READS, append, read_up_to, verify
from bookie.base import errors
from bookie.base.ids import BookieId, EntryId
from bookie.base.units import NS_PER_MS
from bookie.client import LedgerReader, LedgerWriter
from bookie.integrity.options import BOUND, SCAN
from bookie.metadata import paths
from bookie.sim.cluster import ROOT, ClientNode, SimCluster
from bookie.sim.disk import WriteFault
from bookie.sim.node import Defect, ProcessEnd
from legacy_support import JavaBookie, JavaWriter

SEEDS = range(3)
EITHER_FORM = pytest.mark.parametrize("phase_one", [SCAN, BOUND])
REFUSALS = ("QuorumNotReached", "LedgerRecoveryFailed", "UnknownLedgerState")


async def restart(cluster: SimCluster, *names: str, how: ProcessEnd | None = ProcessEnd.KILL) -> None:
    """End these bookies, all of them first, and wait until they serve again; `how` None: in order."""
    bookies = [cluster.bookies[name] for name in names]
    for bookie in bookies:
        if how is None:
            bookie.stop()
            await cluster.until(lambda bookie=bookie: not bookie.is_running, "stopped")  # type: ignore[misc]
        else:
            bookie.crash(how)
    for bookie in bookies:
        bookie.start()
    await cluster.until_ready(*names)


async def recovered(cluster: SimCluster, client: ClientNode, writer: LedgerWriter) -> str:
    """What comes of a recovery now, of a ledger whose only entry is E0. A refusal is no loss: when everybody is back,
    the ledger ends behind its entry."""
    try:
        reader = await client(client.client.open(writer.id))
    except errors.BookieError as error:
        cluster.heal()
        await cluster.until_repaired()
        assert await verify(cluster, writer.id) == [b"E0"]
        return type(error).__name__
    return f"closed at {reader.last_entry}"


# ---- spec/bp46.md#T6 -------------------------------------------------------------------------------------------------


async def a_ledger_that_no_bookie_knows_is_fenced_and_all_are_killed(cluster: SimCluster) -> str:
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    cluster.partition("c1", "zk")
    await c2(c2.client.open(writer.id))
    await restart(cluster, *cluster.bookies)
    cluster.heal()
    try:
        await append(cluster, c1, writer, b"E0")
    except (errors.LedgerFenced, errors.LedgerClosed) as error:
        return type(error).__name__
    return "acknowledged"


T6: dict[str, Any] = {"client": QUIET, "journal_write_data": True}


@pytest.mark.parametrize("seed", SEEDS)
def test_t6_the_fence_of_a_ledger_that_a_bookie_never_saw_outlives_a_kill(seed: int) -> None:
    outcome = SimCluster(seed, **T6).run(a_ledger_that_no_bookie_knows_is_fenced_and_all_are_killed)

    assert outcome in ("LedgerFenced", "LedgerClosed")


def test_t6_javas_bookies_forget_such_a_fence_and_let_the_writer_in_again() -> None:
    with pytest.raises(Defect, match="S1: ledger 0 ends at -1 and acknowledged entry 0 after it"):
        legacy_support.all_java(SimCluster(1, **T6)).run(a_ledger_that_no_bookie_knows_is_fenced_and_all_are_killed)


# ---- spec/bp46.md#T7 -------------------------------------------------------------------------------------------------


async def a_checkpoint_fails_later_ones_succeed_and_the_power_is_cut(cluster: SimCluster) -> int:
    """The ledgers' disks are full for one write. More entries, and a checkpoint that ends well, come behind it."""
    c1 = await cluster.client("c1")
    writer, other = await c1(c1.client.create()), await c1(c1.client.create())
    for number in range(5):
        await append(cluster, c1, writer, b"entry %d" % number)
    for bookie in cluster.bookies.values():
        the_next_checkpoint_fails(bookie)
    await asyncio.sleep(30)
    for bookie in cluster.bookies.values():
        assert has_failed(bookie), bookie.name
    await append(cluster, c1, other, b"later")
    await asyncio.sleep(30)
    await restart(cluster, *cluster.bookies, how=ProcessEnd.POWER_CUT)
    c1.crash()
    c2 = await cluster.client("c2")
    reader = await c2(c2.client.open(writer.id))
    return len(await read_up_to(cluster, c2, reader, 4) if reader.last_entry == 4 else ())


def the_next_checkpoint_fails(bookie: Any) -> None:
    if isinstance(bookie, JavaBookie):
        bookie.checkpoints_fail = 1
        return
    faults = bookie.node.disk_faults
    faults.fails_path, faults.fails_as = "/ledgers", WriteFault.FULL
    faults.fails_at_write = bookie.node.disk.writes + 1


def has_failed(bookie: Any) -> bool:
    if isinstance(bookie, JavaBookie):
        return bookie.checkpoints_fail == 0
    return bool(bookie.node.disk.writes > bookie.node.disk_faults.fails_at_write)


T7: dict[str, Any] = {"client": QUIET, "journal_write_data": True}


@pytest.mark.parametrize("seed", SEEDS)
def test_t7_no_entry_of_a_checkpoint_that_failed_is_lost_when_later_ones_succeed(seed: int) -> None:
    assert SimCluster(seed, **T7).run(a_checkpoint_fails_later_ones_succeed_and_the_power_is_cut) == 5


def test_t7_javas_bookies_lose_the_entries_of_a_checkpoint_that_failed() -> None:
    with pytest.raises(Defect, match="S1: ledger 0 was closed at -1 and entry 4 was acknowledged"):
        legacy_support.all_java(SimCluster(1, **T7)).run(a_checkpoint_fails_later_ones_succeed_and_the_power_is_cut)


# ---- spec/bp46.md#T8 -------------------------------------------------------------------------------------------------


async def a_bookie_is_killed_when_its_marks_are_made(cluster: SimCluster) -> str:
    """E0 is on bookie-0, which loses it with its volumes, and on bookie-2, which is out of reach."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    cluster.hold("c1", "bookie-1")
    await append(cluster, c1, writer, b"E0")
    c1.crash()
    lost = cluster.bookies["bookie-0"]
    lost.crash()
    lost.wipe()
    cluster.partition("bookie-2", "bookie-0")
    cluster.partition("bookie-2", "c2")
    lost.start()
    await cluster.until_ready("bookie-0")
    await restart(cluster, "bookie-0")
    return await recovered(cluster, c2, writer)


T8: dict[str, Any] = {"client": QUIET, "journal_write_data": True}


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t8_limbo_is_in_force_after_a_kill_right_behind_phase_one(seed: int, phase_one: str) -> None:
    assert SimCluster(seed, phase_one=phase_one, **T8).run(a_bookie_is_killed_when_its_marks_are_made) in REFUSALS


def test_t8_a_java_bookie_has_stamped_its_cookie_and_lost_its_marks() -> None:
    with pytest.raises(Defect, match="S1: ledger 0 was closed at -1 and entry 0 was acknowledged"):
        legacy_support.all_java(SimCluster(1, **T8)).run(a_bookie_is_killed_when_its_marks_are_made)


# ---- spec/bp46.md#T9 -------------------------------------------------------------------------------------------------


async def a_check_finds_nothing_to_copy_and_the_bookie_restarts_in_order(cluster: SimCluster) -> str:
    """bookie-0 is killed and has lost nothing. While it is in limbo somebody else closes the ledger and writes its last
    entry back, so that limbo gets to the disk; then the repair ends. After an orderly restart it is alone."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    for number in range(5):
        await append(cluster, c1, writer, b"entry %d" % number)
    await asyncio.sleep(20)  # checkpoints
    c1.crash()
    cluster.partition("bookie-0", "bookie-1")
    cluster.partition("bookie-0", "bookie-2")
    await restart(cluster, "bookie-0")
    await asyncio.sleep(8)  # its marks are made
    await c2(c2.client.open(writer.id))
    await asyncio.sleep(20)  # checkpoints
    cluster.heal()
    await cluster.until_repaired("bookie-0")
    await asyncio.sleep(20)
    reader = await c2(c2.client.open(writer.id))
    await restart(cluster, "bookie-0", how=None)
    cluster.partition("bookie-0", "zk")  # a new repair would not get far
    for name in ("bookie-1", "bookie-2"):
        cluster.bookies[name].crash()
    try:
        await c2(c2.client.bookies.read(BookieId("bookie-0"), writer.id, EntryId(99)))
    except errors.BookieError as error:
        await read_up_to(cluster, c2, reader, 4)
        return type(error).__name__
    return "it has an entry that nobody wrote"


T9: dict[str, Any] = {"client": READS, "flush_interval_ms": 1_000}


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t9_no_limbo_comes_back_after_a_check_that_had_nothing_to_copy(seed: int, phase_one: str) -> None:
    story = a_check_finds_nothing_to_copy_and_the_bookie_restarts_in_order

    assert SimCluster(seed, phase_one=phase_one, **T9).run(story) == "NoSuchEntry"


def test_t9_a_java_bookie_is_in_limbo_again_and_gives_nothing_of_what_it_has() -> None:
    with pytest.raises(Defect, match="L1: ledger 0 cannot be read to its end"):
        legacy_support.all_java(SimCluster(1, **T9)).run(a_check_finds_nothing_to_copy_and_the_bookie_restarts_in_order)


# ---- spec/bp46.md#T10 ------------------------------------------------------------------------------------------------


async def a_recovery_asks_a_bookie_that_makes_its_marks(cluster: SimCluster, *, after_s: float | None) -> str:
    """E0 is on bookie-0, which loses it with its process, and on bookie-2, which is out of reach. `after_s`: when it is
    asked, from its start; None: as soon as it serves, while the metadata store is silent for it."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    cluster.hold("c1", "bookie-1")
    await append(cluster, c1, writer, b"E0")
    c1.crash()
    cluster.partition("bookie-2", "bookie-0")
    cluster.partition("bookie-2", "c2")
    cluster.bookies["bookie-0"].crash(ProcessEnd.KILL)
    cluster.simulation.dials.metadata.latency_ns = 100 * NS_PER_MS
    cluster.bookies["bookie-0"].start()
    if after_s is not None:
        await asyncio.sleep(after_s)
    else:
        await cluster.until_ready("bookie-0")
        cluster.partition("bookie-0", "zk")
    return await recovered(cluster, c2, writer)


T10: dict[str, Any] = {"client": QUIET, "flush_interval_ms": 3_600_000}


@pytest.mark.parametrize("after_s", [None, 0.0, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0])
@EITHER_FORM
def test_t10_a_bookie_that_makes_its_marks_denies_nothing_whenever_it_is_asked(
    after_s: float | None, phase_one: str
) -> None:
    cluster = SimCluster(1, phase_one=phase_one, **T10)

    assert cluster.run(lambda it: a_recovery_asks_a_bookie_that_makes_its_marks(it, after_s=after_s)) in REFUSALS


def test_t10_a_java_bookie_serves_beside_its_marks_and_denies_what_it_lost() -> None:
    cluster = legacy_support.all_java(SimCluster(1, **T10))

    with pytest.raises(Defect, match="S1: ledger 0 was closed at -1 and entry 0 was acknowledged"):
        cluster.run(lambda it: a_recovery_asks_a_bookie_that_makes_its_marks(it, after_s=1.0))


# ---- spec/bp46.md#T11, spec/bp46.md#T12 ------------------------------------------------------------------------------


async def in_limbo_with_all_entries(cluster: SimCluster) -> tuple[ClientNode, LedgerReader]:
    """bookie-0 was killed, has each entry of an open ledger on its disk, and cannot end its repair; the others are
    gone. A reader knows the ledger from before."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    for number in range(6):
        await append(cluster, c1, writer, b"entry %d" % number)
    reader = await c2(c2.client.open_no_recovery(writer.id, confirmed=EntryId(4)))
    await asyncio.sleep(20)  # checkpoints
    for name in ("bookie-1", "bookie-2"):
        cluster.partition("bookie-0", name)
    await restart(cluster, "bookie-0")
    await asyncio.sleep(8)  # its marks are made
    for name in ("bookie-1", "bookie-2"):
        cluster.bookies[name].crash()
    return c2, reader


async def an_entry_that_is_present_is_read_in_limbo(cluster: SimCluster) -> int:
    client, reader = await in_limbo_with_all_entries(cluster)
    return len(await read_up_to(cluster, client, reader, 4))


async def a_lac_and_a_list_are_asked_of_a_bookie_in_limbo(cluster: SimCluster) -> list[str]:
    client, reader = await in_limbo_with_all_entries(cluster)
    bookies, me, found = client.client.bookies, BookieId("bookie-0"), []
    questions = [bookies.read_lac(me, reader.id)]
    if not isinstance(cluster.bookies["bookie-0"], JavaBookie):  # which never answers this one (spec/wire.md#W15)
        questions.append(bookies.list_groups(me, reader.id))  # type: ignore[arg-type]
    for question in questions:
        try:
            found.append(str(await client(question)))
        except errors.BookieError as error:
            found.append(type(error).__name__)
    return found


T11: dict[str, Any] = {"client": READS}


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t11_what_a_bookie_in_limbo_has_is_served(seed: int, phase_one: str) -> None:
    assert SimCluster(seed, phase_one=phase_one, **T11).run(an_entry_that_is_present_is_read_in_limbo) == 5


def test_t11_a_java_bookie_in_limbo_gives_nothing_of_what_it_has() -> None:
    with pytest.raises(Defect, match="L1: ledger 0 cannot be read to its end: UnknownLedgerState"):
        legacy_support.all_java(SimCluster(1, **T11)).run(an_entry_that_is_present_is_read_in_limbo)


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t12_in_limbo_neither_the_lac_nor_the_list_of_entries_is_denied(seed: int, phase_one: str) -> None:
    outcome = SimCluster(seed, phase_one=phase_one, **T11).run(a_lac_and_a_list_are_asked_of_a_bookie_in_limbo)

    assert outcome == ["UnknownLedgerState", "UnknownLedgerState"]


def test_t12_a_java_bookie_in_limbo_says_that_there_is_no_lac() -> None:
    with pytest.raises(Defect, match="S8: bookie-0 acknowledged entry 0 of ledger 0 and now denies the ledger"):
        legacy_support.all_java(SimCluster(1, **T11)).run(a_lac_and_a_list_are_asked_of_a_bookie_in_limbo)


# ---- spec/bp46.md#T17 ------------------------------------------------------------------------------------------------


async def a_power_cut_comes_between_deferred_adds_and_their_force(cluster: SimCluster) -> int:
    c1 = await cluster.client("c1")
    writer = await c1(c1.client.create(deferred_sync=True))
    payloads = [b"entry %d" % number for number in range(5)]
    for payload in payloads:
        await c1(writer.append(payload))
    await restart(cluster, *cluster.bookies, how=ProcessEnd.POWER_CUT)
    assert await c1(writer.force()) == 4
    for number, payload in enumerate(payloads):
        cluster.oracle.acknowledged(writer.id, EntryId(number), payload)
    await restart(cluster, *cluster.bookies, how=ProcessEnd.POWER_CUT)
    c1.crash()
    return len(await verify(cluster, writer.id))


async def the_same_by_javas_writer(cluster: SimCluster) -> int:
    c1 = await cluster.client("c1")
    writer = JavaWriter(c1, await c1(c1.client.create()))
    for number in range(5):
        await writer.append(b"entry %d" % number)
    await restart(cluster, *cluster.bookies, how=ProcessEnd.POWER_CUT)
    names = [BookieId(name) for name in cluster.bookies]
    registered = [f"{paths.available(ROOT)}/{name}" for name in names]
    await cluster.until(lambda: set(registered) <= set(cluster.simulation.keeper.tree.nodes), "all are registered")
    await c1(c1.client.shared.watcher.look(names))  # or it ends its connections when it hears of the new processes
    await writer.force()
    for number, payload in enumerate(writer.payloads):
        cluster.oracle.acknowledged(writer.id, EntryId(number), payload)
    c1.crash()
    return len(await verify(cluster, writer.id))


T17: dict[str, Any] = {"client": QUIET, "journal_write_data": True}


@pytest.mark.parametrize("seed", SEEDS)
def test_t17_a_force_covers_nothing_that_an_earlier_life_acknowledged(seed: int) -> None:
    assert SimCluster(seed, **T17).run(a_power_cut_comes_between_deferred_adds_and_their_force) == 5


@pytest.mark.parametrize("seed", SEEDS)
def test_t17_our_writer_sends_everything_again_to_bookies_that_do_not_say_their_life(seed: int) -> None:
    cluster = legacy_support.all_java(SimCluster(seed, **T17))

    assert cluster.run(a_power_cut_comes_between_deferred_adds_and_their_force) == 5


@pytest.mark.parametrize("seed", SEEDS)
def test_t17_our_bookies_sync_what_a_writer_sends_that_does_not_ask_for_their_life(seed: int) -> None:
    assert SimCluster(seed, **T17).run(the_same_by_javas_writer) == 5


def test_t17_javas_writer_and_javas_bookies_lose_what_was_forced() -> None:
    with pytest.raises(Defect, match="S1: ledger 0 was closed at -1 and entry 4 was acknowledged"):
        legacy_support.all_java(SimCluster(1, **T17)).run(the_same_by_javas_writer)


# ---- spec/bp46.md#T19 ------------------------------------------------------------------------------------------------


async def a_peer_sends_damaged_bytes_for_a_copy(cluster: SimCluster) -> int:
    """bookie-0 loses its volumes and copies from bookie-1, whose bytes are damaged, or from bookie-2."""
    c1 = await cluster.client("c1")
    writer = await c1(c1.client.create())
    for number in range(12):
        await append(cluster, c1, writer, b"entry %d" % number)
    await c1(writer.close())
    rotten, emptied = cluster.bookies["bookie-1"], cluster.bookies["bookie-0"]
    assert isinstance(rotten, JavaBookie)
    rotten.is_rotten = True
    emptied.crash()
    emptied.wipe()
    emptied.start()
    await cluster.until_ready("bookie-0")
    await cluster.until_repaired("bookie-0")
    assert rotten.sent_rotten
    c2 = await cluster.client("c2")  # c1 may not have heard of the new process of bookie-0 yet
    for name in ("bookie-1", "bookie-2"):
        cluster.bookies[name].crash()
    reader = await c2(c2.client.open(writer.id))
    return len(await read_up_to(cluster, c2, reader, 11))


T19: dict[str, Any] = {"client": READS}


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
def test_t19_damaged_bytes_of_a_peer_are_not_kept_and_the_next_peer_is_asked(seed: int, phase_one: str) -> None:
    cluster = legacy_support.all_java(SimCluster(seed, phase_one=phase_one, **T19), ["bookie-1"])

    assert cluster.run(a_peer_sends_damaged_bytes_for_a_copy) == 12


def test_t19_a_java_bookie_keeps_damaged_bytes() -> None:
    cluster = legacy_support.all_java(SimCluster(1, **T19), ["bookie-0", "bookie-1"])

    with pytest.raises(Defect, match="L1: ledger 0 cannot be read to its end"):
        cluster.run(a_peer_sends_damaged_bytes_for_a_copy)
