"""The simulated disk loses exactly what the port does not promise, and nothing else."""

import asyncio
from collections import Counter

import pytest

from bookie.base import errors
from bookie.ports import disk as disk_port
from bookie.ports.ordered_store import PutRow
from sim_support import Machine, on_machine
from story_support import story

SEEDS = range(60)


def content_after_power_cut(seed: int, *, sync: bool) -> bytes | None:
    machine = Machine(seed)

    async def story() -> bytes | None:
        world = machine.begin()
        file = await world.disk.open("/data/file", create=True)
        await world.disk.sync_dir("/data")
        await file.append([b"A" * 700])
        await file.sync()
        await file.append([b"B" * 1500])
        if sync:
            await file.sync()
        machine.power_cut()
        return await machine.begin().disk.read("/data/file")

    return machine.run(story)


def test_synced_bytes_survive_every_power_cut() -> None:
    assert {content_after_power_cut(seed, sync=True) for seed in SEEDS} == {b"A" * 700 + b"B" * 1500}


def test_unsynced_bytes_are_kept_dropped_zeroed_or_torn_and_spare_what_was_synced() -> None:
    seen = [content_after_power_cut(seed, sync=False) for seed in SEEDS]

    tails = Counter(content[700:] for content in seen if content is not None)
    assert all(content is not None and content[:700] == b"A" * 700 for content in seen)
    assert tails[b""] > 0
    assert tails[b"B" * 1500] > 0
    assert any(set(tail) == {0, ord("B")} for tail in tails), "a hole or a zeroed sector"
    assert any(tail and not tail.strip(b"B") and len(tail) < 1500 for tail in tails), "a torn end"


def test_kill_without_power_cut_keeps_unsynced_bytes_until_the_power_goes() -> None:
    async def story(machine: Machine) -> tuple[bytes, int]:
        world = machine.begin()
        file = await world.disk.open("/data/file", create=True)
        await world.disk.sync_dir("/data")
        await file.append([b"x" * 512])
        machine.image.process_ended(machine.random, keeps_prefix=False)
        after_kill = await machine.begin().disk.read("/data/file")
        machine.power_cut()
        return after_kill, len(await machine.begin().disk.read("/data/file"))

    results = []
    for seed in SEEDS:
        machine = Machine(seed)
        results.append(machine.run(lambda machine=machine: story(machine)))  # type: ignore[misc]
    assert {after_kill for after_kill, _ in results} == {b"x" * 512}
    assert {size for _, size in results} >= {0, 512}


def test_names_need_a_synced_directory() -> None:
    outcomes = set()
    for seed in SEEDS:
        machine = Machine(seed)

        async def story(machine: Machine = machine) -> tuple[str, ...]:
            world = machine.begin()
            for name in ("durable", "late"):
                file = await world.disk.open(f"/data/{name}", create=True)
                await file.sync()
                if name == "durable":
                    await world.disk.sync_dir("/data")
            machine.power_cut()
            return tuple(await machine.begin().disk.list("/data"))

        outcomes.add(machine.run(story))
    assert outcomes == {("durable",), ("durable", "late")}


def test_replace_durably_leaves_the_old_bytes_or_the_new_at_every_step() -> None:
    outcomes: Counter[bytes] = Counter()
    for crash_at in range(1, 12):
        for seed in range(8):
            machine = Machine(seed)

            async def story(machine: Machine = machine, crash_at: int = crash_at) -> bytes:
                world = machine.begin()
                await disk_port.replace_durably(world.disk, "/data/VERSION", b"old")
                life = machine.loop.begin_life("bookie")
                world = machine.begin(life)
                machine.disk.crash_at_operation = crash_at
                is_over = asyncio.Event()

                def crash() -> None:
                    machine.loop.end_life(life)
                    machine.power_cut()
                    is_over.set()

                machine.disk.on_crash = crash
                write = machine.loop.spawn(life, disk_port.replace_durably(world.disk, "/data/VERSION", b"new"))
                write.add_done_callback(lambda _: is_over.set(), context=machine.loop.director.context)
                await is_over.wait()
                return await machine.begin().disk.read("/data/VERSION")

            outcomes[machine.run(story)] += 1
    assert set(outcomes) == {b"old", b"new"}


@story(on_machine, 3)
async def test_a_file_is_poisoned_after_a_failed_sync_and_the_bytes_may_be_gone(machine: Machine) -> None:
    world = machine.begin()
    machine.disk_faults.sync_fails_per_million = 1_000_000
    file = await world.disk.open("/data/file", create=True)
    await file.append([b"x"])
    with pytest.raises(errors.DiskFailed):
        await file.sync()
    machine.disk_faults.sync_fails_per_million = 0
    for call in (file.sync(), file.append([b"y"])):
        with pytest.raises(errors.DiskFailed):
            await call


@story(on_machine)
async def test_a_full_volume_refuses_and_has_room_again_after_a_removal(machine: Machine) -> None:
    machine.image.add_volume("/small", total_bytes=1000)

    disk = machine.begin().disk
    first = await disk.open("/small/first", create=True)
    await first.append([bytes(800)])
    second = await disk.open("/small/second", create=True)
    with pytest.raises(errors.DiskFull):
        await second.append([bytes(300)])
    await disk.remove("/small/first")
    await second.append([bytes(300)])
    assert (await disk.usage("/small")).free_bytes == 700


def test_rot_flips_one_bit_of_what_is_durable() -> None:
    machine = Machine()

    async def story() -> int:
        disk = machine.begin().disk
        await disk_port.replace_durably(disk, "/data/entries", bytes(100))
        assert machine.image.rot(machine.random, "entries") is not None
        machine.power_cut()
        return sum(byte.bit_count() for byte in await machine.begin().disk.read("/data/entries"))

    assert machine.run(story) == 1


@story(on_machine)
async def test_an_unmounted_volume_shows_the_empty_directory_below(machine: Machine) -> None:
    disk = machine.begin().disk
    await disk_port.replace_durably(disk, "/data/VERSION", b"cookie")
    machine.image.volumes["/data"].is_mounted = False
    facts = await disk.mount("/data")
    assert not facts.is_mount_point
    assert facts.shares_node_disk
    assert await disk.list("/data") == []
    machine.image.volumes["/data"].is_mounted = True
    assert await disk.read("/data/VERSION") == b"cookie"


@pytest.mark.parametrize("keeps_prefix", [False, True])
def test_an_ordered_store_keeps_what_was_flushed_and_at_most_a_prefix_of_the_rest(keeps_prefix: bool) -> None:
    outcomes = set()
    for seed in SEEDS:
        machine = Machine(seed)

        async def story(machine: Machine = machine) -> tuple[bytes, ...]:
            stores = machine.begin().ordered_stores
            store = await stores.open("/data/index")
            await machine.disk.sync_dir("/data")
            store.write([PutRow(b"0", b"")])
            await store.flush()
            for key in (b"1", b"2", b"3"):
                store.write([PutRow(key, b"")])
            machine.power_cut(keeps_prefix=keeps_prefix)
            store = await machine.begin().ordered_stores.open("/data/index")
            return tuple(key for key, _ in store.range(b"", b"z"))

        outcomes.add(machine.run(story))
    if keeps_prefix:
        assert outcomes == {(b"0",), (b"0", b"1"), (b"0", b"1", b"2"), (b"0", b"1", b"2", b"3")}
    else:
        assert outcomes == {(b"0",)}


@story(on_machine)
async def test_a_store_is_opened_by_one_at_a_time(machine: Machine) -> None:
    stores = machine.begin().ordered_stores
    store = await stores.open("/data/index")
    with pytest.raises(errors.StorageFailed):
        await stores.open("/data/index")
    await store.close()
    await stores.open("/data/index")
