"""Two processes of one bookie id: what the older acknowledges is never denied by the newer.

`old` is the bookie that the cluster knows, `new` its twin: the same id on a machine of its own with empty volumes, as
when a pod was thought dead and was made again elsewhere. In each story an entry is acknowledged by one other bookie and
by the old process at the worst moment; then the other bookie is out of reach, and the new process is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import LedgerWriter
from bookie.metadata import paths
from bookie.ports.admin import State
from bookie.sim.clock import Skew
from bookie.sim.cluster import ROOT, BookieNode, ClientNode, SimCluster
from bookie.sim.faults import SKEW_DRIFT_PPM, Dials
from bookie.sim.node import ProcessEnd
from sim_support import on_cluster
from story_support import story

SEEDS = range(3)
QUIET: dict[str, Any] = {"explicit_lac_ms": 0, "request_timeout_ms": 4_000, "recovery_timeout_ms": 10_000}
REFUSALS = (errors.QuorumNotReached, errors.LedgerRecoveryFailed, errors.UnknownLedgerState)
OLD, WITNESS, OTHER = "bookie-1", "bookie-0", "bookie-2"


def cluster_of(seed: int, **settings: Any) -> SimCluster:
    return SimCluster(seed, client=QUIET, **settings)


async def append(cluster: SimCluster, client: ClientNode, writer: LedgerWriter, payload: bytes) -> EntryId:
    entry_id = await client(writer.append(payload))
    cluster.oracle.acknowledged(writer.id, entry_id, payload)
    return entry_id


async def written_through_the_old(cluster: SimCluster, client: ClientNode) -> LedgerId | None:
    """A new ledger whose one entry the witness acknowledges and, if anybody else does, the old process. None when the
    writer was told nothing. The client is gone afterwards."""
    cluster.hold(client.name, OTHER)
    try:
        async with asyncio.timeout(8):
            writer = await client(client.client.create())
            await append(cluster, client, writer, b"E0")
            return writer.id
    except (errors.BookieError, TimeoutError):
        return None
    finally:
        client.crash()
        cluster.release(client.name, OTHER)


async def cut_off_unheard(cluster: SimCluster, old: BookieNode) -> None:
    """The metadata store loses the old process; for an hour nobody is told that its registration is gone."""
    cluster.simulation.keeper.faults.late_watch_ns = 3_600_000_000_000
    cluster.partition(old.machine, "zk")
    await cluster.until(lambda: not is_registered(cluster), "the session of the old process ends")


async def cut_off_behind_its_marks(cluster: SimCluster, new: BookieNode) -> None:
    """The new process starts, makes its marks, and loses the metadata store before it registers."""
    new.start()
    while new.state is not State.STAMPING:
        await cluster.simulation.loop.sleep_ns(100_000)
    cluster.partition(new.machine, "zk")


async def the_new_one_is_asked(cluster: SimCluster, new: BookieNode, ledger_id: LedgerId | None) -> None:
    """Recovery without the witness must not decide against what was acknowledged; with it, all is there."""
    await cluster.until(lambda: new.is_ready, "the new process serves")
    if ledger_id is None:
        return
    judge = await cluster.client("judge")
    cluster.partition(WITNESS, "judge")
    cluster.partition(WITNESS, new.machine)
    with contextlib.suppress(*REFUSALS):
        await judge(judge.client.open(ledger_id))
    cluster.heal()
    await cluster.until(lambda: new.state is State.SERVING, "the new process is repaired", timeout_s=600)
    reader = await judge(judge.client.open(ledger_id))
    assert reader.last_entry == 0, "the acknowledged entry was cut off"
    entries = await judge(reader.read(0, 0))
    cluster.oracle.verified(ledger_id, {entry.entry_id: bytes(entry.payload) for entry in entries})


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=QUIET, given=("seed",))
async def test_what_a_living_process_acknowledges_while_another_waits_for_its_end_is_not_denied_later(
    cluster: SimCluster,
) -> None:
    """No partition at all. Marks that are made before the old process is waited out know nothing of this ledger."""
    old, new = cluster.bookies[OLD], cluster.twin(OLD)
    client = await cluster.client("c1")
    new.start()
    await asyncio.sleep(5)
    assert old.is_ready
    assert not new.is_ready

    ledger_id = await written_through_the_old(cluster, client)
    assert ledger_id is not None
    old.crash(ProcessEnd.KILL)

    await the_new_one_is_asked(cluster, new, ledger_id)


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=QUIET, session_timeout_ms=30_000, given=("seed",))
async def test_an_old_process_that_renews_its_session_while_another_makes_its_marks_stops(cluster: SimCluster) -> None:
    """It is cut off until its session ends, the new one begins and is itself silent for a while: one more wait for the
    old registration would find none, before and after."""
    old, new = cluster.bookies[OLD], cluster.twin(OLD)
    client = await cluster.client("c1")
    cluster.partition(old.machine, "zk")
    await cluster.until(lambda: not is_registered(cluster), "the session of the old process ends")
    await cut_off_behind_its_marks(cluster, new)
    release(cluster, old)
    await asyncio.sleep(12)  # it hears of its session's end within a third of the time-out

    ledger_id = await written_through_the_old(cluster, client)
    if old.is_running:
        old.stop()
    await cluster.until(lambda: not old.is_running, "the old process ends")
    release(cluster, new)
    await the_new_one_is_asked(cluster, new, ledger_id)


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=QUIET, given=("seed",))
async def test_a_client_does_not_take_the_word_of_a_process_that_is_cut_off_from_the_metadata_store(
    cluster: SimCluster,
) -> None:
    """Clients reach both. The client still believes in the old registration: news of it are late."""
    old, new = cluster.bookies[OLD], cluster.twin(OLD)
    client = await cluster.client("c1")
    first = await client(client.client.create())
    await append(cluster, client, first, b"first")  # it has a connection to the old process
    await asyncio.sleep(1)
    await cut_off_unheard(cluster, old)
    new.start()
    await cluster.until(lambda: new.is_ready, "the new process serves")
    assert old.is_running

    ledger_id = await written_through_the_old(cluster, client)
    await the_new_one_is_asked(cluster, new, ledger_id)


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=QUIET, session_timeout_ms=30_000, given=("seed",))
async def test_a_client_does_not_use_a_process_that_nobody_has_replaced_yet_and_that_is_not_registered(
    cluster: SimCluster,
) -> None:
    """The new process has made its marks and is not registered; the old one is in no list either, and answers."""
    old, new = cluster.bookies[OLD], cluster.twin(OLD)
    client = await cluster.client("c1")
    first = await client(client.client.create())
    await append(cluster, client, first, b"first")
    await cut_off_unheard(cluster, old)
    await cut_off_behind_its_marks(cluster, new)

    ledger_id = await written_through_the_old(cluster, client)
    release(cluster, new)
    await the_new_one_is_asked(cluster, new, ledger_id)


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=QUIET, bookies=4, given=("seed",))
async def test_a_writer_does_not_bring_in_a_process_that_was_replaced(cluster: SimCluster) -> None:
    """Its ensemble changes while the news of the old registration's end are late."""
    old, new = cluster.bookies[OLD], cluster.twin(OLD)
    client = await cluster.client("c1")
    while True:
        writer = await client(client.client.create())
        metadata = cluster.metadata_of(writer.id)
        assert metadata is not None
        if not metadata.names(BookieId(OLD)):
            break
    await append(cluster, client, writer, b"first")
    other = await client(client.client.create())  # a connection to the old process stands
    await client(other.append(b"x"))
    await cut_off_unheard(cluster, old)
    new.start()
    await cluster.until(lambda: new.is_ready, "the new process serves")
    gone = cluster.bookies["bookie-3"]
    gone.crash(ProcessEnd.KILL)
    cluster.hold("c1", OTHER)
    with contextlib.suppress(errors.BookieError, TimeoutError):
        async with asyncio.timeout(8):
            await append(cluster, client, writer, b"second")
    client.crash()
    cluster.release("c1", OTHER)

    judge = await cluster.client("judge")
    cluster.partition(WITNESS, "judge")
    with contextlib.suppress(*REFUSALS):
        await judge(judge.client.open(writer.id))
    cluster.heal()
    reader = await judge(judge.client.open(writer.id))
    entries = await judge(reader.read(0, reader.last_entry))
    cluster.oracle.verified(writer.id, {entry.entry_id: bytes(entry.payload) for entry in entries})


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=QUIET, given=("seed",))
async def test_a_recovery_does_not_ask_a_process_that_was_replaced(cluster: SimCluster) -> None:
    """It has a connection to the old one, which never heard of the entry that the new one acknowledged."""
    old, new = cluster.bookies[OLD], cluster.twin(OLD)
    judge = await cluster.client("judge")
    first = await judge(judge.client.create())
    await append(cluster, judge, first, b"first")
    await cut_off_unheard(cluster, old)
    new.start()
    await cluster.until(lambda: new.is_ready, "the new process serves")
    ledger_id = await written_through_the_old(cluster, await cluster.client("c1"))  # it came late: through the new
    assert ledger_id is not None

    cluster.partition(WITNESS, "judge")
    reader = await judge(judge.client.open(ledger_id))

    assert reader.last_entry == 0, "the acknowledged entry was cut off"


# ---- the lease: for clients that do not ask who is registered --------------------------------------------------------


async def last_answer_and_claim(cluster: SimCluster) -> tuple[float, float]:
    """Ask an old process without a pause, as a client does that heard of nothing, until its successor has claimed and
    some time beyond. When was its last answer, and when the claim?"""
    old, new = cluster.bookies[OLD], cluster.twin(OLD)
    client = await cluster.client("c1")
    writer = await client(client.client.create())
    await append(cluster, client, writer, b"E0")
    cluster.simulation.keeper.faults.late_watch_ns = 3_600_000_000_000
    loop = cluster.simulation.loop
    claims: list[float] = []
    sign = paths.process(ROOT, BookieId(OLD))
    cluster.simulation.keeper.observers.append(lambda path: claims.append(loop.time()) if path == sign else None)
    cluster.partition(old.machine, "zk")
    new.start()
    answered = loop.time()
    while not new.is_ready or loop.time() < claims[-1] + 5:
        with contextlib.suppress(errors.BookieError):
            asked = loop.time()
            await client(client.client.bookies.read(BookieId(OLD), writer.id, EntryId(0)))
            # It answered after it was asked: this is what the successor must be later than.
            answered = asked
        await asyncio.sleep(0.02)
    assert old.is_running
    return answered, claims[-1]


@pytest.mark.parametrize("drift_ppm", [-SKEW_DRIFT_PPM, 0, SKEW_DRIFT_PPM])
@pytest.mark.parametrize("seed", SEEDS)
def test_under_a_lease_a_process_that_is_cut_off_answers_nothing_that_is_asked_after_the_claim(
    seed: int, drift_ppm: int
) -> None:
    dials = Dials(skew=lambda name: Skew(drift_ppm=drift_ppm if name == OLD else 0))
    cluster = cluster_of(seed, answers_under_lease=True, dials=dials)

    answered, claimed = cluster.run(last_answer_and_claim)

    assert answered < claimed


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_lease_it_answers_whoever_does_not_ask_who_is_registered(seed: int) -> None:
    """What docs/INTEGRITY.md says is left without one, Java's clients being such."""
    answered, claimed = cluster_of(seed).run(last_answer_and_claim)

    assert answered > claimed


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=QUIET, answers_under_lease=True, given=("seed",))
async def test_a_bookie_under_a_lease_serves_again_when_the_metadata_store_is_back(cluster: SimCluster) -> None:
    client = await cluster.client("c1")
    writer = await client(client.client.create())
    await append(cluster, client, writer, b"E0")
    for bookie in cluster.bookies.values():
        cluster.partition(bookie.machine, "zk")
    await asyncio.sleep(15)
    with pytest.raises(errors.BookieError):
        await client(client.client.bookies.read(BookieId(OLD), writer.id, EntryId(0)))
    cluster.heal()
    await asyncio.sleep(15)

    await append(cluster, client, writer, b"E1")


def is_registered(cluster: SimCluster) -> bool:
    nodes = cluster.simulation.keeper.tree.nodes
    return any(f"/ledgers/{parent}/{OLD}" in nodes for parent in ("available", "available/readonly"))


def release(cluster: SimCluster, bookie: BookieNode) -> None:
    for source, target in ((bookie.machine, "zk"), ("zk", bookie.machine)):
        cluster.release(source, target)


# ---- a process that stands still -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=QUIET, given=("seed",))
async def test_a_process_that_stood_still_while_another_began_wakes_up_and_stops(cluster: SimCluster) -> None:
    """What waited in its sockets is answered first: entries of a ledger that stood before the claim, which the new
    process has in limbo, and so does not deny."""
    old, new = cluster.bookies[OLD], cluster.twin(OLD)
    client = await cluster.client("c1")
    writer = await client(client.client.create())
    await append(cluster, client, writer, b"E0")
    cluster.simulation.keeper.faults.late_watch_ns = 3_600_000_000_000
    old.node.pause()
    cluster.hold("c1", OTHER)
    appending = asyncio.ensure_future(append(cluster, client, writer, b"E1"))
    new.start()
    await cluster.until(lambda: new.is_ready, "the new process serves")
    old.node.resume()
    with contextlib.suppress(errors.BookieError):
        async with asyncio.timeout(20):
            await appending
    await cluster.until(lambda: not old.is_running, "the old process stops")
    client.crash()
    cluster.release("c1", OTHER)

    judge = await cluster.client("judge")
    cluster.partition(WITNESS, "judge")
    with contextlib.suppress(*REFUSALS):
        await judge(judge.client.open(writer.id))
    cluster.heal()
    await cluster.until(lambda: new.state is State.SERVING, "the new process is repaired", timeout_s=600)
    reader = await judge(judge.client.open(writer.id))
    entries = await judge(reader.read(0, reader.last_entry))
    cluster.oracle.verified(writer.id, {entry.entry_id: bytes(entry.payload) for entry in entries})


@story(on_cluster, 1, client=QUIET)
async def test_who_makes_a_ledger_anew_waits_for_a_second_process_too(cluster: SimCluster) -> None:
    """The simulator took the old process's word, which stood still: the new one had the ledger of before."""
    new = cluster.twin(OLD)
    assert new not in cluster.holders()

    new.start()
    assert new in cluster.holders()
    assert cluster.bookies[OLD] in cluster.holders()

    new.crash(ProcessEnd.POWER_CUT)
    assert new not in cluster.holders()
