"""Whole boots with touches: without data in the journal a crash puts in limbo what was in memory, and nothing else
(docs/decisions/0025-touches.md)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import volumes_support
from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.write.writer import LedgerWriter
from bookie.metadata import paths
from bookie.metadata.position import load_position
from bookie.ports.admin import State
from bookie.sim.cluster import JOURNAL, LEDGERS, ROOT, VOLUMES, BookieNode, ClientNode, SimCluster
from bookie.sim.node import ProcessEnd
from bookie.storage import dirs
from bookie.storage.store import EntryStore
from sim_support import on_cluster
from story_support import story

TOUCHING: dict[str, Any] = {
    "bookies": 4,
    "touch_unjournaled_ledgers": True,
    "flush_interval_ms": 3_600_000,
    "client": {"explicit_lac_ms": 0},  # nothing of a writer's own goes to a bookie while that is away
}
ENDS = pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT])
CUT_MS = 4


def payload(number: int) -> bytes:
    return b"entry %d" % number


async def appended(app: ClientNode, writer: LedgerWriter, first: int, count: int) -> None:
    async def work() -> None:
        for number in range(first, first + count):
            await writer.append(payload(number))

    await app(work())


async def written(app: ClientNode, count: int = 6) -> LedgerWriter:
    """An open ledger with acknowledged entries."""
    writer = await app(app.client.create(password=b"secret"))
    await appended(app, writer, 0, count)
    return writer


async def read_back(app: ClientNode, ledger_id: LedgerId, count: int) -> None:
    """Recovers the ledger, and every entry reads back."""

    async def work() -> list[bytes]:
        async with await app.client.open(ledger_id, b"secret") as reader:
            assert reader.last_entry == count - 1
            return [bytes(entry.payload) for entry in await reader.read(0, count - 1)]

    assert await app(work()) == [payload(number) for number in range(count)]


def members_of(cluster: SimCluster, writer: LedgerWriter) -> list[BookieNode]:
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    return [cluster.bookies[bookie] for bookie in metadata.last_segment.bookies]


def store_of(bookie: BookieNode) -> EntryStore:
    assert bookie.process is not None
    assert bookie.process.boot.store is not None
    return bookie.process.boot.store


def is_limbo(bookie: BookieNode, writer: LedgerWriter) -> bool:
    facts = store_of(bookie).facts(writer.id)
    return facts is not None and facts.is_limbo


async def answers(bookie: BookieNode, writer: LedgerWriter) -> str:
    """What the bookie says of an entry that never was."""
    try:
        await bookie.node.do(store_of(bookie).read(writer.id, EntryId(99)))
    except errors.BookieError as error:
        return type(error).__name__
    return "it"


async def flushed(cluster: SimCluster) -> None:
    """What is acknowledged was flushed long ago: the clock comes to it each second in a real bookie."""
    for bookie in cluster.bookies.values():
        await bookie.node.do(store_of(bookie).flush())


async def old_and_fresh(cluster: SimCluster, app: ClientNode) -> tuple[LedgerWriter, LedgerWriter, BookieNode]:
    """Two open ledgers of one bookie: one that was flushed, one whose entries are in memory."""
    old = await written(app)
    await flushed(cluster)
    fresh = await written(app)
    while not set(members_of(cluster, old)[:3]) & set(members_of(cluster, fresh)):
        fresh = await written(app)
    (bookie, *_) = [it for it in members_of(cluster, old) if it in members_of(cluster, fresh)]
    return old, fresh, bookie


async def back(cluster: SimCluster, bookie: BookieNode) -> None:
    bookie.start()
    await cluster.until_ready(bookie.name)


async def its_session_ended(cluster: SimCluster, bookie: BookieNode) -> None:
    sign = paths.process(ROOT, BookieId(bookie.name))
    await cluster.until(lambda: sign not in cluster.simulation.keeper.tree.nodes, "its session ended")


async def pause(cluster: SimCluster, milliseconds: float) -> None:
    await cluster.simulation.loop.sleep_ns(int(milliseconds * NS_PER_MS))


@ENDS
@story(on_cluster, 61, **TOUCHING)
async def test_a_crash_leaves_an_old_open_ledger_alone_and_writers_and_readers_go_on(
    cluster: SimCluster, *, how: ProcessEnd, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    app = await cluster.client("app")
    old, fresh, bookie = await old_and_fresh(cluster, app)

    bookie.crash(how)
    await its_session_ended(cluster, bookie)
    caplog.clear()
    await back(cluster, bookie)

    assert "verdict=UNCLEAN" in caplog.text
    assert "phase one looks at no ledger" in caplog.text
    assert (is_limbo(bookie, old), is_limbo(bookie, fresh)) == (False, True)
    assert store_of(bookie).facts(fresh.id).limbo_epoch == 2  # type: ignore[union-attr]
    assert await answers(bookie, old) == "NoSuchEntry"
    assert await answers(bookie, fresh) == "UnknownLedgerState"
    await appended(app, old, 6, 6)
    await appended(app, fresh, 6, 6)
    await cluster.until_repaired(bookie.name)
    for writer in (old, fresh):
        await app(writer.close())
        await read_back(await cluster.client(f"reader {writer.id}"), writer.id, 12)
    assert not is_limbo(bookie, fresh)


@pytest.mark.parametrize("touches", [True, False])
@story(on_cluster, 62, **TOUCHING)
async def test_a_power_cut_of_all_bookies_blocks_only_what_was_in_memory(cluster: SimCluster, *, touches: bool) -> None:
    """Of ledgers that were flushed a recovery finds the end, since their bookies may deny. Without touches it may not,
    before each bookie has examined what none can give it."""
    for bookie in cluster.bookies.values():
        bookie.stop()
        await cluster.until(lambda bookie=bookie: not bookie.is_running, "it stopped")  # type: ignore[misc]
        bookie.settings = dataclasses.replace(
            bookie.settings, touch_unjournaled_ledgers=touches, open_ledger_grace_ms=3_600_000
        )
        bookie.start()
    await cluster.until_ready()
    app = await cluster.client("app")
    old = await written(app)
    await flushed(cluster)
    fresh = await written(app)

    app.crash()
    for bookie in cluster.bookies.values():
        bookie.crash(ProcessEnd.POWER_CUT)
    for bookie in cluster.bookies.values():
        await back(cluster, bookie)

    assert [is_limbo(bookie, old) for bookie in members_of(cluster, old)] == [not touches] * 3
    assert all(is_limbo(bookie, fresh) for bookie in members_of(cluster, fresh))
    reader = await cluster.client("reader")
    if touches:
        await read_back(reader, old.id, 6)
    else:
        with pytest.raises(errors.BookieError):
            await reader(reader.client.open(old.id, b"secret"))
    with pytest.raises(errors.BookieError):
        await reader(reader.client.open(fresh.id, b"secret"))


@pytest.mark.parametrize(("before", "after", "spared"), [(True, False, True), (False, True, False)])
@story(on_cluster, 63, **TOUCHING)
async def test_what_the_last_life_made_counts_and_not_what_the_setting_says_now(
    cluster: SimCluster, *, before: bool, after: bool, spared: bool
) -> None:
    """The first start after the setting came on finds no touch, because none was made."""
    first = next(iter(cluster.bookies.values()))
    for bookie in cluster.bookies.values():
        bookie.stop()
        await cluster.until(lambda bookie=bookie: not bookie.is_running, "it stopped")  # type: ignore[misc]
        bookie.settings = dataclasses.replace(bookie.settings, touch_unjournaled_ledgers=before)
        bookie.start()
    await cluster.until_ready()
    old, fresh, bookie = await old_and_fresh(cluster, await cluster.client("app"))
    assert first.settings.touch_unjournaled_ledgers is before

    bookie.crash()
    bookie.settings = dataclasses.replace(bookie.settings, touch_unjournaled_ledgers=after)
    await back(cluster, bookie)

    assert is_limbo(bookie, old) is not spared
    assert is_limbo(bookie, fresh)


@pytest.mark.parametrize("text", [None, b"", b"entry data is not in the journal\n", b"of a later program\n"])
@story(on_cluster, 64, directories=2, **TOUCHING)
async def test_markers_that_differ_or_say_something_else_are_not_believed(
    cluster: SimCluster, *, text: bytes | None
) -> None:
    old, fresh, bookie = await old_and_fresh(cluster, await cluster.client("app"))
    bookie.crash(ProcessEnd.KILL)
    await its_session_ended(cluster, bookie)
    names = bookie.node.image.volumes[LEDGERS].root.names[dirs.CURRENT].names  # type: ignore[union-attr]
    if text is None:
        del names[dirs.DIRTY]
    else:
        marker: Any = names[dirs.DIRTY]
        marker.data[:] = marker.durable[:] = text
    await back(cluster, bookie)

    assert is_limbo(bookie, old)
    assert is_limbo(bookie, fresh)


@story(on_cluster, 65, **TOUCHING)
async def test_a_boot_cut_between_any_two_steps_keeps_the_limbo_that_the_touches_made(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    old, fresh, bookie = await old_and_fresh(cluster, app)
    bookie.crash()
    cuts = 0
    for cut in range(100):
        await its_session_ended(cluster, bookie)
        bookie.start()
        await pause(cluster, cut * CUT_MS)
        if bookie.is_ready:
            break
        bookie.crash(ProcessEnd.POWER_CUT if cut % 2 else ProcessEnd.KILL)
        cuts += 1
    await cluster.until_ready(bookie.name)

    assert cuts > 10
    assert (is_limbo(bookie, old), is_limbo(bookie, fresh)) == (False, True)
    await cluster.until_repaired(bookie.name)
    for writer in (old, fresh):
        await read_back(await cluster.client(f"reader {writer.id}"), writer.id, 6)


async def told(cluster: SimCluster, bookie: BookieNode) -> None:
    """Wait until the position outside the node covers what is durable by now."""
    (mark,), logs = store_of(bookie).journaled, store_of(bookie).logged
    path = paths.position(ROOT, BookieId(bookie.name))

    def is_told() -> bool:
        node = cluster.simulation.keeper.tree.nodes.get(path)
        position = None if node is None else load_position(node.data)
        return position is not None and position.journals >= (tuple(mark),) and position.logs >= logs

    await cluster.until(is_told, "the position is told")


@pytest.mark.parametrize("volumes", [VOLUMES, (JOURNAL,)])
@story(on_cluster, 66, **TOUCHING)
async def test_of_volumes_that_were_set_back_no_touch_is_believed(
    cluster: SimCluster, *, volumes: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    app = await cluster.client("app")
    old = await written(app)
    bookie = members_of(cluster, old)[0]
    await told(cluster, bookie)
    snapshots = [volumes_support.snapshot(bookie.node.image, path) for path in volumes]
    await appended(app, old, 6, 6)
    fresh = await written(app)
    await told(cluster, bookie)
    bookie.crash(ProcessEnd.KILL)
    for snapshot in snapshots:
        volumes_support.put_back(bookie.node.image, snapshot)
    await its_session_ended(cluster, bookie)
    caplog.clear()

    await back(cluster, bookie)

    assert "the volumes went back in time" in caplog.text
    assert "phase one looks at no ledger" not in caplog.text
    assert is_limbo(bookie, old)
    await cluster.until_repaired(bookie.name)
    await read_back(await cluster.client("reader"), old.id, 12)
    await read_back(await cluster.client("another"), fresh.id, 6)


@story(on_cluster, 67, **TOUCHING)
async def test_a_lost_volume_beside_touches_doubts_every_ledger(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    old, fresh, bookie = await old_and_fresh(cluster, app)
    bookie.crash()
    bookie.wipe(JOURNAL)
    await its_session_ended(cluster, bookie)
    bookie.start()
    await cluster.until(lambda: bookie.is_ready or bookie.state is State.WAITING_GRANT, "it is asked")
    if bookie.state is State.WAITING_GRANT:
        await bookie.grant()
    await cluster.until_ready(bookie.name)

    assert is_limbo(bookie, old)
    assert is_limbo(bookie, fresh)


@story(on_cluster, 68, **TOUCHING)
async def test_the_report_says_that_older_programs_cannot_read_this_journal(cluster: SimCluster) -> None:
    bookie = next(iter(cluster.bookies.values()))
    report = await bookie.report()
    (journal,) = [known for known in report.formats if known.name == "journal"]
    assert (journal.reads_from, journal.reads_to, journal.writes) == (3, 4, 4)

    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "it stopped")
    bookie.settings = dataclasses.replace(bookie.settings, touch_unjournaled_ledgers=False)
    await back(cluster, bookie)
    report = await bookie.report()
    (journal,) = [known for known in report.formats if known.name == "journal"]
    assert (journal.reads_from, journal.reads_to, journal.writes) == (3, 4, 3)
