"""Entries whose bytes rot on one bookie: it finds them, by its scrub or because somebody reads, and has good copies
again without a person (spec/bp46.md#R29)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.client.write.writer import LedgerWriter
from bookie.ports.admin import FillAction
from bookie.sim import workload
from bookie.sim.cluster import BookieNode, ClientNode, SimCluster
from bookie.sim.replicas import copies
from bookie.storage.store import EntryStore
from fill_support import away, back, status, until_whole, written
from sim_support import on_cluster
from story_support import story

WITHOUT_UPKEEP = 10**9  # no scrub in the time of a test


def store_of(bookie: BookieNode) -> EntryStore:
    assert bookie.process is not None
    assert bookie.process.admin.store is not None
    return bookie.process.admin.store


async def closed_ledger(cluster: SimCluster, client: ClientNode, **how: int) -> LedgerWriter:
    """A closed ledger of 20 entries, all of them in the entry logs of their bookies, and in no cache."""
    writer = await client(client.client.create(**how))
    await written(cluster, client, writer, 20)
    await client(writer.close())
    for bookie in cluster.bookies.values():
        await away(cluster, bookie)
        await back(cluster, bookie)
    await until_whole(cluster, *cluster.bookies.values())
    return writer


def rot(bookie: BookieNode, ledger_id: LedgerId, entry_ids: Iterable[int]) -> None:
    """Flip a bit of each entry, where the index says that it lies."""
    for entry_id in entry_ids:
        for partition in store_of(bookie).partitions:
            location = partition.locate(ledger_id, EntryId(entry_id))
            if location is None:
                continue
            files = [
                file
                for volume in bookie.node.image.volumes.values()
                for path, file in volume.root.files(volume.path)
                if path.endswith(f"{location.log_id:08x}.log")
            ]
            assert len(files) == 1, files
            for data in (files[0].data, files[0].durable):
                data[location.offset + 60] ^= 4


async def bad(bookie: BookieNode, ledger_id: LedgerId, count: int) -> list[int]:
    store = store_of(bookie)
    return [each for each in range(count) if not await bookie.node.do(store.check_entry(ledger_id, EntryId(each)))]


@story(on_cluster, 3, fill_after_boot=True)
async def test_what_the_scrub_finds_is_fetched_from_others_and_survives_a_power_cut(cluster: SimCluster) -> None:
    client = await cluster.client("writer")
    writer = await closed_ledger(cluster, client)
    rotten = cluster.bookies["bookie-1"]
    rot(rotten, writer.id, (2, 3, 11))
    assert await bad(rotten, writer.id, 20) == [2, 3, 11]

    await cluster.until(lambda: len(store_of(rotten).bad_entries) > 0, "the scrub finds some", timeout_s=60)
    assert not status(rotten).is_whole, "so the operator stops nobody else"
    await cluster.until(lambda: status(rotten).is_whole, "good copies of all that was found by then", timeout_s=8_000)
    await cluster.until(lambda: not store_of(rotten).bad_entries, "no bad entry is left", timeout_s=8_000)

    assert store_of(rotten).stats.scrub_bad == 0
    rotten.crash()
    await back(cluster, rotten)
    assert await bad(rotten, writer.id, 20) == []
    assert await copies(cluster, writer.id, EntryId(19)) == []
    await workload.verify(cluster, [writer.id])


@story(on_cluster, 3, fill_after_boot=True, upkeep_interval_ms=WITHOUT_UPKEEP)
async def test_what_a_reader_meets_is_fetched_too_and_no_reader_is_told_no(cluster: SimCluster) -> None:
    client = await cluster.client("writer")
    writer = await closed_ledger(cluster, client)
    rotten = cluster.bookies["bookie-2"]
    rot(rotten, writer.id, (7,))
    store = store_of(rotten)

    with pytest.raises(errors.CorruptFile, match="entry 7"):
        await rotten.node.do(store.read(writer.id, EntryId(7)))

    await cluster.until(lambda: not store.bad_entries, "it has a good copy", timeout_s=60)
    assert store.bad_entries.found == 1
    assert await copies(cluster, writer.id, EntryId(19)) == []


@story(on_cluster, 3, fill_after_boot=True, upkeep_interval_ms=WITHOUT_UPKEEP)
async def test_what_nobody_gives_is_told_and_known_after_a_start(
    cluster: SimCluster,
) -> None:
    client = await cluster.client("writer")
    writer = await closed_ledger(cluster, client, ensemble_size=2, write_quorum=2, ack_quorum=2)
    rotten, other = (cluster.bookies[name] for name in writer.metadata.last_segment.bookies)
    await away(cluster, other)
    rot(rotten, writer.id, (5,))
    with pytest.raises(errors.CorruptFile):
        await rotten.node.do(store_of(rotten).read(writer.id, EntryId(5)))

    async def blocked() -> None:
        await cluster.until(lambda: status(rotten).blocked_count == 1, "it is told", timeout_s=60)
        await cluster.until(lambda: status(rotten).ended_ms_ago >= 0, "the run ends", timeout_s=60)

    await blocked()
    assert (status(rotten).entries_missing, status(rotten).is_whole) == (1, False)
    assert "entry 5" in status(rotten).blocked[0].reason

    await away(cluster, rotten)
    await back(cluster, rotten)
    assert [(each.ledger_id, each.entry_id) for each in store_of(rotten).bad_entries.listed()] == [(writer.id, 5)]
    await blocked()
    await back(cluster, other)
    assert rotten.process is not None
    await rotten.node.do(rotten.process.admin.fill_holes(FillAction.START))
    await cluster.until(lambda: status(rotten).is_whole, "it has a good copy", timeout_s=60)
    assert not store_of(rotten).bad_entries
    assert await copies(cluster, writer.id, EntryId(19)) == []
