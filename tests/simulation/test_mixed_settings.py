"""Bookies of one fleet need not be alike: some put entries in their journal, the others do not (CONFORMANCE.md#B51)."""

import asyncio
import dataclasses
import itertools

import pytest

from bookie.sim.cluster import SimCluster
from bookie.sim.node import ProcessEnd
from sim_support import on_cluster
from story_support import story


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT])
@story(on_cluster, bookies=4, open_ledger_grace_ms=5_000, given=("seed",))
async def test_a_fleet_in_which_only_some_journal_their_data_loses_nothing(
    cluster: SimCluster, *, how: ProcessEnd
) -> None:
    for name in ("bookie-0", "bookie-2"):
        bookie = cluster.bookies[name]
        bookie.stop()
        await cluster.until(lambda bookie=bookie: not bookie.is_running, "stopped")
        bookie.settings = dataclasses.replace(bookie.settings, journal_write_data=True)
        bookie.start()
        await cluster.until_repaired(name)
    app = await cluster.client("app")
    writers = [await app(app.client.create()) for _ in range(2)]
    written = itertools.count()
    for name in [*cluster.bookies, *cluster.bookies]:
        for number in itertools.islice(written, 8):
            for writer in writers:
                payload = b"entry %d of %d" % (number, writer.id)
                cluster.oracle.acknowledged(writer.id, await app(writer.append(payload)), payload)
        cluster.bookies[name].crash(how)
        cluster.bookies[name].start()
        await cluster.until_repaired(name)
        await asyncio.sleep(1)  # the writers hear that it is back, and have somebody to turn to
    await app(writers[0].close())
    app.crash()  # the other ledger is for a recovery
    other = await cluster.client("other")
    for writer in writers:
        reader = await other(other.client.open(writer.id))
        entries = await other(reader.read(0, reader.last_entry))
        cluster.oracle.verified(writer.id, {entry.entry_id: bytes(entry.payload) for entry in entries})
        assert len(entries) == 64
