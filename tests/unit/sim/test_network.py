"""The simulated network keeps TCP's promises and none beyond them."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.units import NS_PER_S
from bookie.ports import World
from bookie.ports.network import Address, ByteStream
from sim_support import Machine, on_machine
from story_support import story

SERVER = Address("server", 3181)


def two_worlds(machine: Machine) -> tuple[World, World]:
    client = machine.begin(machine.loop.begin_life("client"), name="client")
    server = machine.begin(machine.loop.begin_life("server"), name="server")
    return client, server


async def echo(stream: ByteStream) -> None:
    while data := await stream.read():
        stream.write([data])
        await stream.drained()


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_and_unchanged_in_any_chunks(seed: int) -> None:
    machine = Machine(seed)

    async def story() -> None:
        client, server = two_worlds(machine)
        machine.fabric.faults.chop_percent = 80
        await server.network.listen(SERVER, echo)
        stream = await client.network.dial(SERVER, 5 * NS_PER_S)
        sent = b"".join(number.to_bytes(4, "big") for number in range(500))
        for start in range(0, len(sent), 100):
            stream.write([sent[start : start + 50], sent[start + 50 : start + 100]])
        received = b""
        while len(received) < len(sent):
            received += bytes(await stream.read())
        assert received == sent
        stream.close()

    machine.run(story)


def test_a_one_way_partition_holds_bytes_back_and_loses_none() -> None:
    machine = Machine()

    async def story() -> None:
        client, server = two_worlds(machine)
        await server.network.listen(SERVER, echo)
        stream = await client.network.dial(SERVER, 5 * NS_PER_S)
        machine.fabric.hold("server", "client")
        stream.write([b"ping"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await stream.read()
        machine.fabric.release("server", "client")
        async with asyncio.timeout(1):
            received = b""
            while len(received) < 4:
                received += bytes(await stream.read())
            assert received == b"ping"

    machine.fabric.faults.chop_percent = 100
    machine.run(story)


def test_a_dial_into_a_partition_ends_at_its_deadline() -> None:
    machine = Machine()

    async def story() -> float:
        client, server = two_worlds(machine)
        await server.network.listen(SERVER, echo)
        machine.fabric.hold("client", "server")
        with pytest.raises(errors.BookieUnavailable):
            await client.network.dial(SERVER, 3 * NS_PER_S)
        return machine.loop.time()

    assert 3.0 <= machine.run(story) < 3.1


@story(on_machine)
async def test_a_reset_breaks_both_ends(machine: Machine) -> None:
    ended = asyncio.Event()

    async def serve(stream: ByteStream) -> None:
        with pytest.raises(errors.BookieUnavailable):
            await stream.read()
        ended.set()

    client, server = two_worlds(machine)
    await server.network.listen(SERVER, serve)
    stream = await client.network.dial(SERVER, 5 * NS_PER_S)
    machine.fabric.reset("server")
    with pytest.raises(errors.BookieUnavailable):
        await stream.read()
    await ended.wait()


@story(on_machine)
async def test_a_killed_process_closes_its_connections_and_a_dead_machine_says_nothing_until_it_is_back(
    machine: Machine,
) -> None:
    client, server = two_worlds(machine)
    life = machine.life
    await server.network.listen(SERVER, echo)
    stream = await client.network.dial(SERVER, 5 * NS_PER_S)
    machine.loop.end_life(life)
    server.network.process_ended(silently=True)  # type: ignore[attr-defined]
    machine.fabric.power_off("server")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await stream.read()
    machine.fabric.power_on("server")
    with pytest.raises(errors.BookieUnavailable):
        await stream.read()


@story(on_machine)
async def test_a_writer_waits_for_a_reader_that_does_not_read(machine: Machine) -> None:
    may_read = asyncio.Event()

    async def serve(stream: ByteStream) -> None:
        await may_read.wait()
        while await stream.read():
            pass

    client, server = two_worlds(machine)
    await server.network.listen(SERVER, serve)
    stream = await client.network.dial(SERVER, 5 * NS_PER_S)
    stream.write([bytes(1_000_000)])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await stream.drained()
    may_read.set()
    await stream.drained()


@story(on_machine)
async def test_a_port_in_use_is_refused(machine: Machine) -> None:
    _, server = two_worlds(machine)
    listener = await server.network.listen(SERVER, echo)
    with pytest.raises(errors.RefusedToStart, match="server:3181"):
        await server.network.listen(SERVER, echo)
    await listener.close()
    await server.network.listen(SERVER, echo)
