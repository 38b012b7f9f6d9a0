"""One examination per port, for both worlds: what a port promises is asked of the simulated and of the real adapter.

Each examination is a coroutine over a `Bench`: one process's world and a place to work in. `SimArm` and `RuntimeArm`
run it. What only the simulator can be asked (to lose power) is skipped on the real arm, with the reason.
The promises: bookie/ports/*.py. What the suite does not ask: how long anything takes, and what a full disk does.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.base.units import NS_PER_MS, NS_PER_S
from bookie.ports import World
from bookie.ports import disk as disk_port
from bookie.ports.disk import Buffer
from bookie.ports.metadata_store import ANY_VERSION, CheckOp, CreateOp, DeleteOp, PutOp, Session
from bookie.ports.network import Address, ByteStream
from bookie.ports.ordered_store import DeleteRow, PutRow
from sim_support import Machine

SIM_SEEDS = range(6)
DEADLINE_S = 30.0


@dataclass
class Bench:
    """What one examination works with. `power_cut` gives the world of the process after it."""

    world: World
    directory: str
    host: str
    uri: str
    power_cut: Callable[[], World]

    async def eventually(self, condition: Callable[[], bool]) -> None:
        """Wait for `condition`, by the port's clock."""
        clock = self.world.clock
        deadline_ns = clock.monotonic_ns() + 10 * NS_PER_S
        while not condition():
            assert clock.monotonic_ns() < deadline_ns, "it did not happen in time"
            await clock.sleep_until(clock.monotonic_ns() + 10 * NS_PER_MS)


Examination = Callable[[Bench], Awaitable[None]]


class SimArm:
    """The simulated world: every examination under several seeds, with chopped reads and late watches."""

    name = "sim"

    def run(self, examination: Examination, folder: Path, uri: str) -> None:
        for seed in SIM_SEEDS:
            machine = Machine(seed)

            def power_cut(machine: Machine = machine) -> World:
                machine.power_cut()
                return machine.begin()

            async def story(machine: Machine = machine, power_cut: Callable[[], World] = power_cut) -> None:
                await examination(Bench(machine.begin(), "/data", machine.name, "zk+hierarchical://zk/l", power_cut))

            machine.run(story)


class RuntimeArm:
    """The real world: sockets on loopback, files below `folder`, a real ZooKeeper at `uri`."""

    name = "runtime"

    def run(self, examination: Examination, folder: Path, uri: str) -> None:
        from bookie.runtime.world import open_world

        def power_cut() -> World:
            pytest.skip("a kernel cannot be asked to lose power")

        async def story() -> None:
            async with open_world() as world, asyncio.timeout(DEADLINE_S):
                await examination(Bench(world, str(folder), "127.0.0.1", uri, power_cut))

        asyncio.run(story())


# ---- Clock -----------------------------------------------------------------------------------------------------------


async def monotonic_time_never_goes_back(bench: Bench) -> None:
    clock = bench.world.clock
    before = clock.monotonic_ns()
    for _ in range(100):
        now = clock.monotonic_ns()
        assert now >= before
        before = now


async def sleeping_ends_at_the_deadline_or_later_and_a_past_deadline_does_not_sleep(bench: Bench) -> None:
    clock = bench.world.clock
    deadline_ns = clock.monotonic_ns() + 5 * NS_PER_MS
    await clock.sleep_until(deadline_ns)
    assert clock.monotonic_ns() >= deadline_ns
    await clock.sleep_until(0)


async def wall_time_is_in_milliseconds_since_the_epoch(bench: Bench) -> None:
    assert 1_600_000_000_000 < bench.world.clock.wall_ms() < 4_000_000_000_000


CLOCK: list[Examination] = [
    monotonic_time_never_goes_back,
    sleeping_ends_at_the_deadline_or_later_and_a_past_deadline_does_not_sleep,
    wall_time_is_in_milliseconds_since_the_epoch,
]


# ---- Disk ------------------------------------------------------------------------------------------------------------


async def appended_buffers_are_one_run_of_bytes_at_the_returned_offset(bench: Bench) -> None:
    file = await bench.world.disk.open(f"{bench.directory}/f", create=True)
    assert await file.append([b"ab", bytearray(b"c"), memoryview(b"de")]) == 0
    assert await file.append([b"fg"]) == 5
    assert file.size == 7
    assert await file.pread(0, 100) == b"abcdefg"
    assert await file.append_and_sync([b"h", b"i"]) == 7
    assert await bench.world.disk.read(file.path) == b"abcdefghi"
    await file.close()


async def many_buffers_are_appended_whole(bench: Bench) -> None:
    file = await bench.world.disk.open(f"{bench.directory}/f", create=True)
    await file.append([bytes([number % 251]) * 7 for number in range(3000)])
    assert file.size == 21_000
    assert await file.pread(20_993, 7) == bytes([2999 % 251]) * 7
    await file.close()


async def a_file_in_blocks_is_appended_to_in_whole_blocks_and_read_as_any_other(bench: Bench) -> None:
    disk = bench.world.disk
    blocks = [bytes([number % 251]) * 1000 + b"x" for number in range(4096)]
    file = await disk.open(f"{bench.directory}/f", create=True, exclusive=True, in_blocks=True)
    assert await file.append([b"a" * 4000, b"b" * 96]) == 0
    assert await file.append_and_sync(blocks) == 4096
    assert await file.append([b"c" * 8192]) == 4096 + 4096 * 1001
    await file.sync()
    assert await file.append([b"d" * 4096]) == file.size - 4096
    await file.truncate(file.size - 4096)
    assert await file.append_and_sync([b"e" * 4096]) == file.size - 4096
    whole = b"a" * 4000 + b"b" * 96 + b"".join(blocks) + b"c" * 8192 + b"e" * 4096
    assert file.size == len(whole)
    assert await file.pread(3990, 20) == b"a" * 10 + b"b" * 10
    assert await file.pread_many([(4090, 1000), (len(whole) - 5, 50)]) == [whole[4090:5090], b"eeeee"]
    assert await disk.read(file.path) == whole
    await file.close()


async def reads_are_short_only_at_the_end_of_the_file(bench: Bench) -> None:
    file = await bench.world.disk.open(f"{bench.directory}/f", create=True)
    await file.append([bytes(range(100))])
    assert await file.pread(10, 20) == bytes(range(10, 30))
    assert await file.pread(90, 20) == bytes(range(90, 100))
    assert await file.pread(100, 20) == b""
    assert await file.pread_many([(10, 20), (90, 20), (0, 1), (100, 5)]) == [
        bytes(range(10, 30)),
        bytes(range(90, 100)),
        b"\0",
        b"",
    ]
    assert file.pread_nowait(10, 20) in (None, bytes(range(10, 30)))
    await file.close()


async def truncate_cuts_and_the_next_append_follows(bench: Bench) -> None:
    file = await bench.world.disk.open(f"{bench.directory}/f", create=True)
    await file.append([b"abcdef"])
    await file.truncate(3)
    await file.sync()
    assert file.size == 3
    assert await file.append([b"x"]) == 3
    assert await bench.world.disk.read(file.path) == b"abcx"
    await file.close()


async def a_missing_file_is_named_and_an_existing_one_is_refused_when_exclusive(bench: Bench) -> None:
    disk, path = bench.world.disk, f"{bench.directory}/f"
    for attempt in (disk.open(path), disk.read(path), disk.open(f"{bench.directory}/no/f", create=True)):
        with pytest.raises(errors.FileMissing, match=bench.directory):
            await attempt
    assert not await disk.exists(path)
    await (await disk.open(path, create=True, exclusive=True)).close()
    assert await disk.exists(path)
    with pytest.raises(errors.StorageFailed):
        await disk.open(path, create=True, exclusive=True)


async def a_second_handle_sees_what_the_first_wrote(bench: Bench) -> None:
    first = await bench.world.disk.open(f"{bench.directory}/f", create=True)
    second = await bench.world.disk.open(f"{bench.directory}/f")
    await first.append([b"abc"])
    assert await second.pread(0, 3) == b"abc"
    await first.close()
    await second.close()


async def directories_are_made_with_parents_and_listed_in_order(bench: Bench) -> None:
    disk, top = bench.world.disk, bench.directory
    await disk.make_dir(f"{top}/a/b/c")
    await disk.make_dir(f"{top}/a/b")
    for name in ("z", "m", "k"):
        await (await disk.open(f"{top}/a/{name}", create=True)).close()
    assert await disk.list(f"{top}/a") == ["b", "k", "m", "z"]
    assert await disk.list(f"{top}/nowhere") == []
    await disk.sync_dir(f"{top}/a")
    await disk.remove(f"{top}/a/z")
    await disk.remove(f"{top}/a/z")
    assert await disk.list(f"{top}/a") == ["b", "k", "m"]


async def rename_replaces_its_target(bench: Bench) -> None:
    disk, top = bench.world.disk, bench.directory
    for name in ("old", "new"):
        file = await disk.open(f"{top}/{name}", create=True)
        await file.append([name.encode()])
        await file.close()
    await disk.rename(f"{top}/new", f"{top}/old")
    assert await disk.read(f"{top}/old") == b"new"
    assert await disk.list(top) == ["old"]
    with pytest.raises(errors.FileMissing):
        await disk.rename(f"{top}/new", f"{top}/old")


async def a_small_file_is_replaced_durably(bench: Bench) -> None:
    path = f"{bench.directory}/VERSION"
    for data in (b"first", b"second, longer", b""):
        await disk_port.replace_durably(bench.world.disk, path, data)
        assert await bench.world.disk.read(path) == data
    assert await bench.world.disk.list(bench.directory) == ["VERSION"]


async def a_lock_is_held_by_one_until_it_is_released(bench: Bench) -> None:
    path = f"{bench.directory}/LOCK"
    lock = await bench.world.disk.lock(path)
    with pytest.raises(errors.RefusedToStart, match=path):
        await bench.world.disk.lock(path)
    lock.release()
    (await bench.world.disk.lock(path)).release()


async def facts_about_the_file_system_make_sense(bench: Bench) -> None:
    disk = bench.world.disk
    usage = await disk.usage(bench.directory)
    assert 0 <= usage.free_bytes <= usage.total_bytes
    facts = await disk.mount(bench.directory)
    assert facts.exists
    assert facts.fstype
    assert facts.path == bench.directory
    missing = await disk.mount(f"{bench.directory}/nowhere")
    assert not missing.exists
    assert not missing.is_mount_point


async def what_was_synced_survives_a_power_cut(bench: Bench) -> None:
    disk, path = bench.world.disk, f"{bench.directory}/f"
    file = await disk.open(path, create=True)
    await disk.sync_dir(bench.directory)
    await file.append([b"a" * 5000])
    await file.sync()
    await file.append([b"c" * 5000])
    after = bench.power_cut().disk
    content = await after.read(path)
    assert content[:5000] == b"a" * 5000


async def a_synced_rename_survives_a_power_cut(bench: Bench) -> None:
    await disk_port.replace_durably(bench.world.disk, f"{bench.directory}/f", b"old")
    await disk_port.replace_durably(bench.world.disk, f"{bench.directory}/f", b"new")
    assert await bench.power_cut().disk.read(f"{bench.directory}/f") == b"new"


DISK: list[Examination] = [
    appended_buffers_are_one_run_of_bytes_at_the_returned_offset,
    many_buffers_are_appended_whole,
    a_file_in_blocks_is_appended_to_in_whole_blocks_and_read_as_any_other,
    reads_are_short_only_at_the_end_of_the_file,
    truncate_cuts_and_the_next_append_follows,
    a_missing_file_is_named_and_an_existing_one_is_refused_when_exclusive,
    a_second_handle_sees_what_the_first_wrote,
    directories_are_made_with_parents_and_listed_in_order,
    rename_replaces_its_target,
    a_small_file_is_replaced_durably,
    a_lock_is_held_by_one_until_it_is_released,
    facts_about_the_file_system_make_sense,
    what_was_synced_survives_a_power_cut,
    a_synced_rename_survives_a_power_cut,
]


# ---- OrderedStore ----------------------------------------------------------------------------------------------------


async def keys_are_in_the_order_of_their_bytes(bench: Bench) -> None:
    store = await bench.world.ordered_stores.open(f"{bench.directory}/index")
    keys = [b"\x00", b"\x00\x00", b"\x01", b"\x7f\xff", b"\x80", b"\xff", b"\xff\x00"]
    store.put_many([(key, key) for key in reversed(keys)])
    assert [key for key, _ in store.range(b"\x00", b"\xff\xff")] == keys
    assert [key for key, _ in store.range(b"\x01", b"\x80")] == [b"\x01", b"\x7f\xff"]
    assert list(store.range(b"\x02", b"\x02")) == []
    await store.close()


async def later_items_of_a_batch_win(bench: Bench) -> None:
    store = await bench.world.ordered_stores.open(f"{bench.directory}/index")
    store.write(
        [
            PutRow(b"a", b"1"),
            PutRow(b"b", b"1"),
            DeleteRow(b"a"),
            PutRow(b"b", b"2"),
            DeleteRow(b"c"),
            PutRow(b"c", b"3"),
        ]
    )
    assert store.get(b"a") is None
    assert store.get_many([b"c", b"a", b"b"]) == [b"3", None, b"2"]
    store.write([DeleteRow(b"b"), DeleteRow(b"never")])
    assert [key for key, _ in store.range(b"", b"z")] == [b"c"]
    await store.close()


async def a_range_is_a_snapshot_of_the_moment_of_the_call(bench: Bench) -> None:
    store = await bench.world.ordered_stores.open(f"{bench.directory}/index")
    store.put_many([(b"a", b"1"), (b"c", b"1")])
    pairs = store.range(b"a", b"z")
    store.write([PutRow(b"b", b"2"), PutRow(b"c", b"2")])
    assert list(pairs) == [(b"a", b"1"), (b"c", b"1")]
    await store.close()


async def the_last_pair_of_a_range_is_found(bench: Bench) -> None:
    store = await bench.world.ordered_stores.open(f"{bench.directory}/index")
    store.put_many([(b"a1", b"x"), (b"a3", b"y"), (b"c", b"z")])
    assert store.last_in(b"a", b"b") == (b"a3", b"y")
    assert store.last_in(b"a", b"a3") == (b"a1", b"x")
    assert store.last_in(b"b", b"c") is None
    assert store.last_in(b"", b"\xff") == (b"c", b"z")
    await store.close()


async def a_deleted_range_is_half_open(bench: Bench) -> None:
    store = await bench.world.ordered_stores.open(f"{bench.directory}/index")
    store.put_many([(key, b"") for key in (b"a", b"b", b"c", b"d")])
    store.delete_range(b"b", b"d")
    assert [key for key, _ in store.range(b"", b"z")] == [b"a", b"d"]
    store.write([PutRow(b"c", b"again")])
    assert store.get(b"c") == b"again"
    await store.close()


async def a_flushed_store_is_found_again_after_closing(bench: Bench) -> None:
    stores = bench.world.ordered_stores
    store = await stores.open(f"{bench.directory}/index")
    store.put_many([(b"a", b"1")])
    await store.flush()
    await store.close()
    store = await stores.open(f"{bench.directory}/index")
    assert store.get(b"a") == b"1"
    await store.close()


async def a_store_has_one_opener_at_a_time(bench: Bench) -> None:
    stores = bench.world.ordered_stores
    store = await stores.open(f"{bench.directory}/index")
    with pytest.raises(errors.BookieError):
        await stores.open(f"{bench.directory}/index")
    await store.close()
    await (await stores.open(f"{bench.directory}/index")).close()


async def warming_changes_nothing_and_says_nothing(bench: Bench) -> None:
    store = await bench.world.ordered_stores.open(f"{bench.directory}/index")
    store.put_many([(b"a", b"1"), (b"b", b"2")])
    await store.warm([])
    await asyncio.gather(store.warm([b"a", b"never"]), store.warm([b"b"]))
    store.write([DeleteRow(b"a")])
    await store.warm([b"a"])
    assert store.get_many([b"a", b"never", b"b"]) == [None, None, b"2"]
    assert not store.is_slow()
    await store.close()


async def flushed_batches_survive_a_power_cut_and_of_the_rest_a_prefix(bench: Bench) -> None:
    await bench.world.disk.make_dir(f"{bench.directory}/index")
    await bench.world.disk.sync_dir(bench.directory)
    store = await bench.world.ordered_stores.open(f"{bench.directory}/index")
    for number in range(10):
        store.write([PutRow(b"%02d-a" % number, b""), PutRow(b"%02d-b" % number, b"")])
        if number == 5:
            await store.flush()
    after = await bench.power_cut().ordered_stores.open(f"{bench.directory}/index")
    kept = [key for key, _ in after.range(b"", b"z")]
    assert len(kept) >= 12
    assert kept == [b"%02d-%c" % (number // 2, b"ab"[number % 2]) for number in range(len(kept))]
    assert len(kept) % 2 == 0


ORDERED_STORE: list[Examination] = [
    keys_are_in_the_order_of_their_bytes,
    later_items_of_a_batch_win,
    a_range_is_a_snapshot_of_the_moment_of_the_call,
    the_last_pair_of_a_range_is_found,
    a_deleted_range_is_half_open,
    a_flushed_store_is_found_again_after_closing,
    a_store_has_one_opener_at_a_time,
    warming_changes_nothing_and_says_nothing,
    flushed_batches_survive_a_power_cut_and_of_the_rest_a_prefix,
]


# ---- Network ---------------------------------------------------------------------------------------------------------


async def echo(stream: ByteStream) -> None:
    while data := await stream.read():
        stream.write([data])
        await stream.drained()


async def read_exactly(stream: ByteStream, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = await stream.read()
        assert chunk, "the stream ended early"
        received += bytes(chunk)
    return received


def soon(bench: Bench) -> int:
    return bench.world.clock.monotonic_ns() + 5 * NS_PER_S


async def bytes_come_back_in_order_and_unchanged(bench: Bench) -> None:
    network = bench.world.network
    listener = await network.listen(Address(bench.host, 0), echo)
    assert listener.port > 0
    stream = await network.dial(Address(bench.host, listener.port), soon(bench))
    data = b"".join(number.to_bytes(4, "big") for number in range(2000))
    stream.write([data[:1], memoryview(data)[1:5000], bytearray(data[5000:])])
    assert await read_exactly(stream, len(data)) == data
    stream.close()
    await listener.close()


async def bytes_that_come_while_a_read_waits_are_offered_first(bench: Bench) -> None:
    taken, returned, ended = bytearray(), bytearray(), asyncio.Event()

    async def serve(stream: ByteStream) -> None:
        def take(data: Buffer) -> bool:
            is_wanted = b"?" not in bytes(data) and not returned
            if is_wanted:
                taken.extend(data)
            return is_wanted

        stream.on_chunk = take
        while data := await stream.read():
            returned.extend(data)
        ended.set()

    network = bench.world.network
    listener = await network.listen(Address(bench.host, 0), serve)
    stream = await network.dial(Address(bench.host, listener.port), soon(bench))
    stream.write([b"wanted"])
    await bench.eventually(lambda: taken == b"wanted")
    assert not returned
    stream.write([b"?not wanted"])
    await bench.eventually(lambda: returned == b"?not wanted")
    stream.write([b", nor this"])
    stream.close()

    await bench.eventually(ended.is_set)
    assert (taken, returned) == (b"wanted", b"?not wanted, nor this")
    await listener.close()


async def more_than_any_buffer_passes_when_both_sides_drain(bench: Bench) -> None:
    network = bench.world.network
    listener = await network.listen(Address(bench.host, 0), echo)
    stream = await network.dial(Address(bench.host, listener.port), soon(bench))
    block = bytes(range(256)) * 256

    async def send() -> None:
        for _ in range(40):
            stream.write([block])
            await stream.drained()

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        assert await read_exactly(stream, 40 * len(block)) == block * 40
    stream.close()
    await listener.close()


async def the_other_side_reads_to_the_end_after_a_close(bench: Bench) -> None:
    async def greet(stream: ByteStream) -> None:
        stream.write([b"hello"])
        await stream.drained()
        stream.close()
        stream.write([b"nobody hears this"])

    network = bench.world.network
    listener = await network.listen(Address(bench.host, 0), greet)
    stream = await network.dial(Address(bench.host, listener.port), soon(bench))
    assert await read_exactly(stream, 5) == b"hello"
    assert await stream.read() == b""
    stream.close()
    await listener.close()


async def a_local_close_ends_a_read_that_waits(bench: Bench) -> None:
    network = bench.world.network
    listener = await network.listen(Address(bench.host, 0), echo)
    stream = await network.dial(Address(bench.host, listener.port), soon(bench))

    async def read() -> None:
        with contextlib.suppress(errors.BookieUnavailable):
            assert await stream.read() == b""

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        await bench.world.clock.sleep_until(bench.world.clock.monotonic_ns() + 10 * NS_PER_MS)
        stream.close()
    await listener.close()


async def a_dial_where_nobody_listens_is_refused(bench: Bench) -> None:
    listener = await bench.world.network.listen(Address(bench.host, 0), echo)
    await listener.close()
    with pytest.raises(errors.BookieUnavailable, match=str(listener.port)):
        await bench.world.network.dial(Address(bench.host, listener.port), soon(bench))


async def a_port_in_use_is_refused_by_name(bench: Bench) -> None:
    listener = await bench.world.network.listen(Address(bench.host, 0), echo)
    with pytest.raises(errors.RefusedToStart, match=str(listener.port)):
        await bench.world.network.listen(Address(bench.host, listener.port), echo)
    await listener.close()


async def closing_a_listener_closes_what_it_accepted(bench: Bench) -> None:
    network = bench.world.network
    listener = await network.listen(Address(bench.host, 0), echo)
    stream = await network.dial(Address(bench.host, listener.port), soon(bench))
    stream.write([b"x"])
    assert await read_exactly(stream, 1) == b"x"
    await listener.close()
    with contextlib.suppress(errors.BookieUnavailable):
        assert await stream.read() == b""
    stream.close()


NETWORK: list[Examination] = [
    bytes_come_back_in_order_and_unchanged,
    bytes_that_come_while_a_read_waits_are_offered_first,
    more_than_any_buffer_passes_when_both_sides_drain,
    the_other_side_reads_to_the_end_after_a_close,
    a_local_close_ends_a_read_that_waits,
    a_dial_where_nobody_listens_is_refused,
    a_port_in_use_is_refused_by_name,
    closing_a_listener_closes_what_it_accepted,
]


# ---- MetadataStore ---------------------------------------------------------------------------------------------------


async def versions_count_changes_and_guard_them(bench: Bench) -> None:
    store = await bench.world.metadata_stores.connect(bench.uri)
    assert await store.create("/versions", b"0") == "/versions"
    assert (await store.get("/versions")).version == 0
    assert await store.put("/versions", b"1", 0) == 1
    with pytest.raises(errors.VersionConflict):
        await store.put("/versions", b"x", 0)
    with pytest.raises(errors.VersionConflict):
        await store.delete("/versions", 0)
    stored = await store.get("/versions")
    assert (stored.data, stored.version, stored.owner) == (b"1", 1, 0)
    await store.delete("/versions", 1)
    with pytest.raises(errors.NodeMissing):
        await store.get("/versions")
    await store.close()


async def a_change_moves_the_time_of_change_and_not_that_of_creation(bench: Bench) -> None:
    store = await bench.world.metadata_stores.connect(bench.uri)
    await store.create("/timed", b"")
    made = await store.get("/timed")
    assert made.modified_ms == made.created_ms > 1_600_000_000_000
    await bench.world.clock.sleep_until(bench.world.clock.monotonic_ns() + 2_000_000)
    await store.put("/timed", b"1", 0)
    changed = await store.get("/timed")
    assert changed.created_ms == made.created_ms < changed.modified_ms
    await store.close()


async def the_numbers_of_changes_tell_nodes_apart_and_only_grow(bench: Bench) -> None:
    """Also in a transaction, and also for a node that stands where another one was, with its version."""
    store = await bench.world.metadata_stores.connect(bench.uri)
    await store.create("/numbered", b"")
    made = await store.get("/numbered")
    assert 0 < made.created_zxid == made.modified_zxid
    await store.put("/numbered", b"1", 0)
    changed = await store.get("/numbered")
    assert changed.created_zxid == made.created_zxid < changed.modified_zxid
    with pytest.raises(errors.VersionConflict):
        await store.transact([PutOp("/numbered", b"2", 1), CheckOp("/numbered", 0)])
    assert await store.get("/numbered") == changed
    await store.transact([PutOp("/numbered", b"2", 1)])
    again = await store.get("/numbered")
    assert again.created_zxid == made.created_zxid < changed.modified_zxid < again.modified_zxid
    await store.delete("/numbered")
    await store.create("/numbered", b"")
    another = await store.get("/numbered")
    assert another.version == made.version
    assert again.modified_zxid < another.created_zxid == another.modified_zxid
    await store.close()


async def names_exist_once_and_have_parents(bench: Bench) -> None:
    store = await bench.world.metadata_stores.connect(bench.uri)
    await store.create("/names", b"")
    with pytest.raises(errors.NodeExists):
        await store.create("/names", b"")
    with pytest.raises(errors.NodeMissing):
        await store.create("/names/a/b", b"")
    await store.create("/names/c/d", b"", parents=True)
    await store.create("/names/a/b", b"", parents=True)
    assert await store.children("/names") == ["a", "c"]
    with pytest.raises(errors.MetadataError):
        await store.delete("/names")
    for missing in (store.put("/nowhere", b"", ANY_VERSION), store.delete("/nowhere"), store.children("/nowhere")):
        with pytest.raises(errors.NodeMissing):
            await missing
    await store.close()


async def sequential_names_count_upwards(bench: Bench) -> None:
    store = await bench.world.metadata_stores.connect(bench.uri)
    await store.create("/sequence", b"")
    made = [await store.create("/sequence/n-", b"", sequential=True) for _ in range(3)]
    assert made == [f"/sequence/n-{number:010d}" for number in range(3)]
    await store.close()


async def ephemeral_nodes_go_with_their_session(bench: Bench) -> None:
    owner = await bench.world.metadata_stores.connect(bench.uri)
    other = await bench.world.metadata_stores.connect(bench.uri)
    await owner.create("/ephemeral", b"", ephemeral=True)
    assert (await other.get("/ephemeral")).owner == owner.session_id
    await owner.close()
    await other.sync("/ephemeral")
    with pytest.raises(errors.NodeMissing):
        await other.get("/ephemeral")
    await other.close()


async def a_transaction_is_all_or_nothing(bench: Bench) -> None:
    store = await bench.world.metadata_stores.connect(bench.uri)
    await store.create("/transact", b"")
    await store.transact([CreateOp("/transact/a", b"1"), CheckOp("/transact", 0), CreateOp("/transact/b", b"")])
    with pytest.raises(errors.VersionConflict):
        await store.transact([PutOp("/transact/a", b"2", 0), DeleteOp("/transact/b", 7)])
    with pytest.raises(errors.NodeExists):
        await store.transact([DeleteOp("/transact/b", 0), CreateOp("/transact/a", b"")])
    assert (await store.get("/transact/a")).data == b"1"
    assert await store.children("/transact") == ["a", "b"]
    await store.close()


async def a_session_says_which_time_out_it_was_granted(bench: Bench) -> None:
    day_ms = 24 * 3_600_000
    store = await bench.world.metadata_stores.connect(bench.uri, session_timeout_ms=10_000)
    assert 0 < store.session_timeout_ms <= day_ms
    greedy = await bench.world.metadata_stores.connect(bench.uri, session_timeout_ms=day_ms)
    assert 0 < greedy.session_timeout_ms <= day_ms  # ZooKeeper grants twenty ticks at most
    await store.close()
    await greedy.close()


async def what_is_made_and_removed_in_one_transaction_proves_that_it_was_absent(bench: Bench) -> None:
    store = await bench.world.metadata_stores.connect(bench.uri)
    await store.create("/absent", b"")
    proof = [CreateOp("/absent/a", b""), DeleteOp("/absent/a", ANY_VERSION)]
    await store.transact([*proof, CreateOp("/absent/b", b"")])
    assert await store.children("/absent") == ["b"]
    await store.create("/absent/a", b"here")
    with pytest.raises(errors.NodeExists):
        await store.transact([*proof, CreateOp("/absent/c", b"")])
    assert (await store.get("/absent/a")).data == b"here"
    assert await store.children("/absent") == ["a", "b"]
    await store.close()


async def an_ephemeral_node_of_a_transaction_belongs_to_the_session(bench: Bench) -> None:
    store = await bench.world.metadata_stores.connect(bench.uri)
    other = await bench.world.metadata_stores.connect(bench.uri)
    await store.create("/signs", b"")
    await store.transact([CheckOp("/signs", 0), CreateOp("/signs/a", b"", ephemeral=True)])
    assert (await store.get("/signs/a")).owner == store.session_id != other.session_id
    with pytest.raises(errors.NodeMissing):
        await other.transact([CheckOp("/signs/b", ANY_VERSION), PutOp("/signs", b"changed", 0)])
    await store.close()
    await other.sync("/signs")
    with pytest.raises(errors.NodeMissing):
        await other.transact([CheckOp("/signs/a", ANY_VERSION), PutOp("/signs", b"changed", 0)])
    assert (await other.get("/signs")).version == 0
    await other.close()


async def a_watch_is_told_of_data_existence_and_children(bench: Bench) -> None:
    store = await bench.world.metadata_stores.connect(bench.uri)
    writer = await bench.world.metadata_stores.connect(bench.uri)
    told: list[str] = []
    await writer.create("/watched", b"")
    end = store.watch("/watched", lambda: told.append("changed"))
    store.watch("/watched/child", lambda: told.append("child changed"))
    await store.sync("/watched")
    await store.get("/watched")
    for change in (
        writer.put("/watched", b"1", 0),
        writer.create("/watched/other", b""),
        writer.delete("/watched/other"),
    ):
        told.clear()
        await change
        await bench.eventually(lambda: "changed" in told)
        # An owner reads when it is told. Only under that answer is the watch known to stand again: the writer's session
        # is another one, and its next change may reach the server before the request that sets the watch.
        await store.get("/watched")
    await writer.create("/watched/child", b"")
    await bench.eventually(lambda: "child changed" in told)
    end()
    await store.close()
    await writer.close()


async def a_session_says_nothing_while_all_is_well(bench: Bench) -> None:
    store = await bench.world.metadata_stores.connect(bench.uri)
    states: list[Session] = []
    end = store.on_session(states.append)
    await store.create("/calm", b"")
    assert Session.LOST not in states
    end()
    await store.close()


async def an_unusable_uri_is_bad_input(bench: Bench) -> None:
    with pytest.raises(errors.BadInput):
        await bench.world.metadata_stores.connect("http://somewhere/else")


METADATA_STORE: list[Examination] = [
    versions_count_changes_and_guard_them,
    a_change_moves_the_time_of_change_and_not_that_of_creation,
    the_numbers_of_changes_tell_nodes_apart_and_only_grow,
    names_exist_once_and_have_parents,
    sequential_names_count_upwards,
    ephemeral_nodes_go_with_their_session,
    a_transaction_is_all_or_nothing,
    a_session_says_which_time_out_it_was_granted,
    what_is_made_and_removed_in_one_transaction_proves_that_it_was_absent,
    an_ephemeral_node_of_a_transaction_belongs_to_the_session,
    a_watch_is_told_of_data_existence_and_children,
    a_session_says_nothing_while_all_is_well,
    an_unusable_uri_is_bad_input,
]
