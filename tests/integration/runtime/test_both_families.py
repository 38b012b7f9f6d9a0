"""Listening on "::" is listening to IPv4 and IPv6, on every port of a bookie; an address shows as its own family has
it."""

import asyncio
import socket
from collections.abc import Iterator

import grpc.aio
import pytest

from bookie.ports import admin as port
from bookie.ports.http import HttpAnswer, HttpRequest
from bookie.ports.network import Address, ByteStream
from bookie.runtime import admin, http, network, place
from bookie.runtime import world as runtime_world
from bookie.runtime.admin_callers import Callers, Refused

EVERYWHERE = Address("::", 0)
pytestmark = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this kernel has no IPv6")


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    assert (str(Address("fd00::1", 3181)), str(Address("10.0.0.1", 3181))) == ("[fd00::1]:3181", "10.0.0.1:3181")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_data_port_is_reached_by_both(host: str) -> None:
    async def story() -> str:
        async with asyncio.timeout(30), runtime_world.open_world() as world:
            peers: asyncio.Queue[str] = asyncio.Queue()

            async def on_connect(stream: ByteStream) -> None:
                peers.put_nowait(stream.peer)
                stream.close()

            listener = await world.network.listen(EVERYWHERE, on_connect)
            stream = await world.network.dial(Address(host, listener.port), world.clock.monotonic_ns() + 5 * 10**9)
            found = await peers.get()
            stream.close()
            await listener.close()
            return found

    assert asyncio.run(story()).rpartition(":")[0] == host


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_http_is_reached_by_both_and_knows_its_own_machine(host: str) -> None:
    async def say(request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, request.caller.encode())

    async def story() -> bytes:
        async with asyncio.timeout(30), http.serve(say, EVERYWHERE) as bound:
            reader, writer = await asyncio.open_connection(host, bound)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(story()).endswith(b"local")


class Node:
    def is_healthy(self, question: port.Health) -> bool:
        return True


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_admin_port_is_reached_by_both(host: str) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(30),
            admin.serve(Node(), EVERYWHERE) as bound,  # type: ignore[arg-type]
            grpc.aio.insecure_channel(f"{host}:{bound}") as channel,
        ):
            await channel.channel_ready()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("peer", "is_local"),
    [
        ("ipv6:%5B::ffff:127.0.0.1%5D:4711", True),
        ("ipv6:[::1]:4711", True),
        ("ipv6:[::ffff:10.0.0.9]:4711", True),  # the bookie's own address
        ("ipv6:[::ffff:10.0.0.8]:4711", False),
        ("ipv6:[fd00::1]:4711", False),
    ],
)
def test_who_calls_from_this_machine_is_known_in_either_form(peer: str, is_local: bool) -> None:
    callers = Callers(own_host="10.0.0.9")

    if is_local:
        assert callers.name(peer, {}, "") == "local"
    else:
        with pytest.raises(Refused):
            callers.name(peer, {}, "")


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_port_that_another_has_on_one_family_is_told_before_anything_begins(taken: int) -> None:
    assert "the port is in use" in place.why_not_to_listen(Address("::", taken))
    assert place.why_not_to_listen(Address("::", 0)) == ""


def test_a_kernel_without_ipv6_listens_to_what_it_has() -> None:
    with network.everywhere(0, has_ipv6=False) as found:
        assert found.family is socket.AF_INET
