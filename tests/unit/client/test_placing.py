"""Where a client puts ledgers: what it knows of bookies, and what failing bookies are worth (metadata 12)."""

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.client import Client
from bookie.quorum.schedule import Schedule
from client_support import Fleet, tell
from story_support import story


async def zones_used(client: Client, times: int = 20) -> set[tuple[str, ...]]:
    """Zones of ensembles of two, sorted."""
    zones = client.shared.watcher.zones()
    used: set[tuple[str, ...]] = set()
    for _ in range(times):
        writer = await client.create(ensemble_size=2, write_quorum=2, ack_quorum=2)
        used.add(tuple(sorted(zones[bookie] for bookie in writer.metadata.last_segment.bookies)))
    return used


@story(tell, zones="aabb")
async def test_bookies_say_their_zone_themselves(fleet: Fleet) -> None:
    async with fleet.client() as client:
        assert await zones_used(client) == {("a", "b")}


@story(tell, zones="aaaa")
async def test_settings_and_the_record_of_pulsar_say_it_for_them_and_changes_are_followed(fleet: Fleet) -> None:
    record = b'{"default": {"b0": {"rack": "/r1"}, "b1": {"rack": "/r1"}, "b2": {"rack": "/r2"}}}'
    await fleet.store.create("/bookies", record)
    async with fleet.client(rack_mapping_path="/bookies", locations={"b3": "/r2"}) as client:
        assert await zones_used(client) == {("/r1", "/r2")}

        await fleet.store.put("/bookies", b'{"default": {"b0": {"rack": "/r7"}}}', 0)
        watcher = client.shared.watcher
        await fleet.until(lambda: watcher.zones()[BookieId("b0")] == "/r7", "the new record")
        await fleet.store.put("/bookies", b"nonsense", 1)
        watcher.refresh()
        await fleet.until(lambda: True, "a look")
        assert watcher.zones()[BookieId("b0")] == "/r7"


@story(tell, zones="aabb")
async def test_zones_that_are_a_must_keep_a_ledger_from_being_created_without_them(fleet: Fleet) -> None:
    async with fleet.client(zones_per_write_quorum_min=3) as client:
        with pytest.raises(errors.NotEnoughBookies, match="in 3 zones"):
            await client.create()


@story(tell, zones="aaab")
async def test_a_bookie_in_quarantine_is_taken_only_when_there_is_no_other_and_forgiven_in_time(fleet: Fleet) -> None:
    async with fleet.client(quarantine_ms=10_000) as client:
        bad = BookieId("b3")  # the only one in its zone
        client.shared.pool.quarantine(bad, errors.StorageFailed("for the test"))
        ensembles = [(await client.create()).metadata.last_segment.bookies for _ in range(10)]
        assert not any(bad in ensemble for ensemble in ensembles)
        wide = await client.create(ensemble_size=4, write_quorum=3, ack_quorum=2)
        assert bad in wide.metadata.last_segment.bookies

        await fleet.machine.loop.sleep_ns(10_100_000_000)
        assert all([bad in (await client.create()).metadata.last_segment.bookies for _ in range(5)])


@story(tell, zones="aaaa")
async def test_bookies_with_more_room_get_more_ledgers(fleet: Fleet) -> None:
    for bookie, free in zip(fleet.bookies, (1, 1, 1, 3), strict=True):
        bookie.free_bytes = free << 30
    async with fleet.client(weigh_by_free_space=True) as client:
        await fleet.until(lambda: len(client.shared.free_space.free_bytes) == 4, "what bookies say")
        chosen: list[BookieId] = []
        for _ in range(300):
            writer = await client.create(ensemble_size=1, write_quorum=1, ack_quorum=1)
            chosen += writer.metadata.last_segment.bookies

        assert 110 < chosen.count(BookieId("b3")) < 190


@story(tell, zones="aaaaaa")
async def test_no_ledger_has_two_copies_on_one_machine_nor_gets_them_by_a_replacement(fleet: Fleet) -> None:
    on_one = {BookieId(name) for name in ("b0", "b1", "b2")}
    for name in on_one:
        await fleet[name].stop()
        fleet[name].shares = "h"
        await fleet[name].start()
    async with fleet.client() as client:
        writers = [await client.create(ensemble_size=3, write_quorum=3, ack_quorum=2) for _ in range(10)]
        assert all(len(on_one.intersection(one.metadata.last_segment.bookies)) <= 1 for one in writers)
        assert client.shared.watcher.machines()[BookieId("b0")] == "h"

        on_it = next(one for one in writers if on_one.intersection(one.metadata.last_segment.bookies))
        failed = next(one for one in on_it.metadata.last_segment.bookies if one not in on_one)
        await fleet[failed].stop()
        await on_it.append(b"entry")
        await fleet.until(lambda: failed not in on_it.metadata.last_segment.bookies, "a replacement")
        assert len(on_one.intersection(on_it.metadata.last_segment.bookies)) == 1


@story(tell, zones="aaaa")
async def test_where_a_bookie_was_is_remembered_while_it_is_away(fleet: Fleet) -> None:
    """It may hold a copy, and comes back with it."""
    for name in ("b0", "b1"):
        await fleet[name].stop()
        fleet[name].shares = "h"
        await fleet[name].start()
    async with fleet.client() as client:
        shared = client.shared
        await fleet.until(lambda: shared.watcher.machines().get(BookieId("b0")) == "h", "what it says")
        await fleet["b0"].stop()
        await fleet.until(lambda: BookieId("b0") not in shared.watcher.records, "its end")

        ensemble = (BookieId("b0"), BookieId("b9"))
        found = {shared.replacements(Schedule(2, 2, 2), ensemble, (1,))[1] for _ in range(20)}

        assert found == {"b2", "b3"}
