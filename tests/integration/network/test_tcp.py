"""TCP streams: what the port suite does not ask, because only real sockets have it."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.units import MIB, NS_PER_S
from bookie.ports.network import Address, ByteStream
from bookie.runtime import loop
from bookie.runtime.clock import SystemClock
from bookie.runtime.network import TcpNetwork
from story_support import story

HOST = "127.0.0.1"
DEADLINE_S = 30


def run(story: Callable[[TcpNetwork], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await story(TcpNetwork(SystemClock()))

    loop.run(main())


async def dial(network: TcpNetwork, port: int) -> ByteStream:
    return await network.dial(Address(HOST, port), SystemClock().monotonic_ns() + DEADLINE_S * NS_PER_S)


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(100 * DEADLINE_S):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not in {DEADLINE_S} s")


async def fill(stream: ByteStream) -> int:
    """Write until the other side takes no more; return how much was written."""
    sent = 0
    while sent < 256 * MIB:
        stream.write([bytes(MIB)])
        sent += MIB
        try:
            async with asyncio.timeout(1):
                await stream.drained()
        except TimeoutError:
            break
    return sent


@story(run)
async def test_a_reader_that_does_not_read_stops_the_writer(network: TcpNetwork) -> None:
    release, finished = asyncio.Event(), asyncio.Event()
    received = bytearray()

    async def slow(stream: ByteStream) -> None:
        await release.wait()
        while chunk := await stream.read():
            received.extend(chunk)
            if received.endswith(b"end"):
                finished.set()

    listener = await network.listen(Address(HOST, 0), slow)
    stream = await dial(network, listener.port)
    sent = await fill(stream)
    assert sent < 64 * MIB

    release.set()
    await stream.drained()
    stream.write([b"end"])
    await finished.wait()
    assert len(received) == sent + 3
    stream.close()
    await listener.close()


@story(run)
async def test_an_answer_that_is_queued_before_a_close_arrives(network: TcpNetwork) -> None:
    async def answer_and_close(stream: ByteStream) -> None:
        await stream.read()
        stream.write([b"x" * MIB])
        stream.close()

    listener = await network.listen(Address(HOST, 0), answer_and_close)
    stream = await dial(network, listener.port)
    stream.write([b"?"])

    received = 0
    while chunk := await stream.read():
        received += len(chunk)

    assert received == MIB
    await listener.close()


@story(run)
async def test_a_listener_that_closes_ends_its_connections_and_their_tasks(network: TcpNetwork) -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def wait_for_ever(stream: ByteStream) -> None:
        begun.set()
        try:
            await stream.read()
        finally:
            ended.append(stream.peer)

    listener = await network.listen(Address(HOST, 0), wait_for_ever)
    stream = await dial(network, listener.port)
    await begun.wait()

    await listener.close()

    assert len(ended) == 1
    assert await stream.read() == b""
    with pytest.raises(errors.BookieUnavailable):
        await dial(network, listener.port)


@story(run)
async def test_a_name_that_does_not_resolve_is_unavailable(network: TcpNetwork) -> None:
    with pytest.raises(errors.BookieUnavailable, match=r"nowhere\.invalid:3181"):
        await network.dial(Address("nowhere.invalid", 3181), SystemClock().monotonic_ns() + DEADLINE_S * NS_PER_S)


@story(run)
async def test_what_all_streams_hold_that_nobody_has_taken_is_bounded_and_none_of_it_is_lost(
    network: TcpNetwork,
) -> None:
    count, size = 100, 2 * MIB

    may_read, received = asyncio.Event(), []

    async def on_connect(stream: ByteStream) -> None:
        await may_read.wait()
        found = 0
        while chunk := await stream.read():
            found += len(chunk)
        received.append(found)

    listener = await network.listen(Address(HOST, 0), on_connect)
    others = TcpNetwork(SystemClock())
    streams = [await dial(others, listener.port) for _ in range(count)]
    for stream in streams:
        stream.write([bytes(size)])
    before, held = -1, 0
    while held != before:  # as much as comes
        before = held
        await asyncio.sleep(0.3)
        held = network._live.ahead_bytes
    may_read.set()
    await until(lambda: not any(stream.unsent_bytes for stream in streams))
    for stream in streams:
        stream.close()
    await until(lambda: len(received) == count)

    assert 32 * MIB < held < 64 * MIB + count * MIB // 4
    assert received == [size] * count
    assert network._live.ahead_bytes == 0
    await listener.close()
    await others.close()
    await network.close()


@pytest.mark.parametrize("is_dropped", [False, True])
@story(run)
async def test_what_is_queued_counts_until_it_is_gone_and_abort_drops_it(
    network: TcpNetwork, *, is_dropped: bool
) -> None:
    accepted: list[ByteStream] = []

    async def on_connect(stream: ByteStream) -> None:
        accepted.append(stream)
        await asyncio.Event().wait()

    listener = await network.listen(Address(HOST, 0), on_connect)
    others = TcpNetwork(SystemClock())
    deaf = await dial(others, listener.port)
    await until(lambda: bool(accepted))
    accepted[0].write([bytes(16 * MIB)])
    queued = accepted[0].unsent_bytes

    if is_dropped:
        accepted[0].abort()
    else:
        accepted[0].close()
        after_close = accepted[0].unsent_bytes
        assert after_close == queued > MIB
    await until(lambda: accepted[0].unsent_bytes == 0)

    deaf.close()
    await listener.close()
    await others.close()
    await network.close()


@story(run)
async def test_a_connection_that_breaks_is_no_orderly_end(network: TcpNetwork) -> None:
    """Whoever reads it as one takes what came so far for all there is."""
    heard: asyncio.Queue[bytes | errors.BookieUnavailable] = asyncio.Queue()

    async def serve(stream: ByteStream) -> None:
        try:
            heard.put_nowait(await stream.read())
        except errors.BookieUnavailable as error:
            heard.put_nowait(error)
        stream.abort()

    listener = await network.listen(Address(HOST, 0), serve)
    try:
        with socket.create_connection((HOST, listener.port)):
            pass
        assert await heard.get() == b""

        with socket.create_connection((HOST, listener.port)) as other:
            # The kernel sends a reset in place of an end.
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert "broke: " in str(await heard.get())
    finally:
        await listener.close()
