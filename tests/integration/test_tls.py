"""START_TLS on real sockets, on both event loops: who is let in, what is refused, new files without a restart."""

import asyncio
import dataclasses
import datetime as dt
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

import tls_support
from bookie.base import errors
from bookie.base.units import MIB, NS_PER_S
from bookie.ports.network import Address, ByteStream
from bookie.ports.tls import Certificate, Tls, TlsOptions
from bookie.runtime.clock import SystemClock
from bookie.runtime.network import TcpNetwork
from tls_support import Authority

CLOCK = SystemClock()
Story = Callable[[TcpNetwork], Awaitable[None]]
Run = Callable[[Story], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def run(story: Story) -> None:
        async def whole() -> None:
            async with asyncio.timeout(60):
                await story(TcpNetwork(CLOCK))

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(whole())

    return run


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def soon() -> int:
    return CLOCK.monotonic_ns() + 10 * NS_PER_S


async def upgraded(
    network: TcpNetwork, server: Tls, client: Tls, payload: bytes = b"hello"
) -> tuple[Certificate | None, Certificate | None, bytes]:
    """Dial, upgrade both ends, echo `payload`; (what the server saw of the client, and the reverse, the echo)."""
    seen: asyncio.Future[Certificate | None] = asyncio.get_running_loop().create_future()

    async def on_connect(stream: ByteStream) -> None:
        assert bytes(await stream.read()) == b"plain"
        stream.write([b"go"])
        try:
            seen.set_result(await stream.start_tls(server, soon()))
        except errors.BookieError as error:
            seen.set_exception(error)
            return
        while chunk := await stream.read():
            stream.write([chunk])
            await stream.drained()

    listener = await network.listen(Address("127.0.0.1", 0), on_connect)
    stream = await network.dial(Address("localhost", listener.port), soon())
    try:
        stream.write([b"plain"])
        assert bytes(await stream.read()) == b"go"
        told = await stream.start_tls(client, soon())
        stream.write([payload[: len(payload) // 2], payload[len(payload) // 2 :]])
        echo = b""
        while len(echo) < len(payload):
            chunk = await stream.read()
            assert chunk, "the server closed"
            echo += chunk
        return await seen, told, echo
    finally:
        stream.close()
        await listener.close()
        if seen.done() and not seen.cancelled():
            seen.exception()


def test_bytes_survive_encryption_and_both_sides_know_the_other(run: Run, tmp_path: Path, authority: Authority) -> None:
    bookie = authority.issue("bookie", units=("0:bookie",))
    writer = authority.issue("writer", units=("0:writer,auditor;1:east",))

    async def story(network: TcpNetwork) -> None:
        server = network.load_tls(tls_support.options(tmp_path, authority, bookie, mutual=True), is_server=True)
        client = network.load_tls(tls_support.options(tmp_path, authority, writer), is_server=False)

        of_client, of_server, echo = await upgraded(network, server, client, payload := bytes(range(256)) * 20_000)

        assert of_client == Certificate("writer", ("0:writer,auditor;1:east",))
        assert of_server == Certificate("bookie", ("0:bookie",))
        assert echo == payload

    run(story)


def test_without_client_authentication_nobody_needs_a_certificate(
    run: Run, tmp_path: Path, authority: Authority
) -> None:
    async def story(network: TcpNetwork) -> None:
        server = network.load_tls(tls_support.options(tmp_path, authority, authority.issue("bookie")), is_server=True)
        client = network.load_tls(tls_support.options(tmp_path, authority, None), is_server=False)

        of_client, of_server, _ = await upgraded(network, server, client)

        assert of_client is None
        assert of_server == Certificate("bookie")

    run(story)


@pytest.mark.parametrize("case", ["no certificate", "a stranger's certificate", "a stranger's bookie", "another host"])
def test_who_cannot_prove_himself_is_refused(run: Run, tmp_path: Path, authority: Authority, case: str) -> None:
    strangers = Authority("strangers")
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    bookie = authority.issue("bookie", hosts=("elsewhere",) if case == "another host" else ("localhost",))
    client_options = tls_support.options(own, authority, authority.issue("writer"))
    server_options = tls_support.options(own, authority, bookie, mutual=True)
    if case == "no certificate":
        client_options = tls_support.options(own, authority, None)
    elif case == "a stranger's certificate":
        foreign = strangers.issue("writer").pem(other)
        client_options = dataclasses.replace(client_options, key_store=foreign[0], certificate=foreign[1])
    elif case == "a stranger's bookie":
        foreign = strangers.issue("bookie").pem(other)
        server_options = dataclasses.replace(server_options, key_store=foreign[0], certificate=foreign[1])

    async def story(network: TcpNetwork) -> None:
        server = network.load_tls(server_options, is_server=True)
        client = network.load_tls(client_options, is_server=False)

        # TLS 1.3 tells a client that it was refused only with the first read.
        with pytest.raises((errors.BookieUnavailable, AssertionError), match=r"TLS|broke|closed"):
            await upgraded(network, server, client)

    run(story)


@pytest.mark.parametrize("case", ["a stranger's bookie", "another host", "ended"])
def test_each_side_says_why_a_handshake_failed_and_what_to_try(
    run: Run, tmp_path: Path, authority: Authority, case: str
) -> None:
    strangers, hosts = Authority("strangers"), ("elsewhere",) if case == "another host" else ("localhost",)
    of = strangers if case == "a stranger's bookie" else authority
    left = dt.timedelta(hours=-1 if case == "ended" else 1)
    bookie = tls_support.options(tmp_path, of, of.issue("bookie", hosts=hosts, left=left))
    trusting = tmp_path / "client"
    trusting.mkdir()
    client_options = tls_support.options(trusting, authority, None)
    try_this = {
        "a stranger's bookie": f"is {client_options.trust_store} .tlsTrustStore. the right authority's",
        "another host": "it must name the address that was dialled",
        "ended": "certificate has expired: have it replaced",
    }[case]

    async def story(network: TcpNetwork) -> None:
        of_server: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server, client = network.load_tls(bookie, is_server=True), network.load_tls(client_options, is_server=False)

        async def on_connect(stream: ByteStream) -> None:
            try:
                await stream.start_tls(server, soon())
            except errors.BookieUnavailable as error:
                of_server.set_result(str(error))

        listener = await network.listen(Address("127.0.0.1", 0), on_connect)
        stream = await network.dial(Address("localhost", listener.port), soon())
        with pytest.raises(errors.BookieUnavailable) as of_client:
            await stream.start_tls(client, soon())
        told = await of_server
        await listener.close()

        assert re.search(f"the other side's certificate: .*{try_this}", str(of_client.value))
        assert "may not accept this side's certificate" in told

    run(story)


def test_a_host_name_is_not_looked_at_when_told_so(run: Run, tmp_path: Path, authority: Authority) -> None:
    bookie = authority.issue("bookie", hosts=("elsewhere",))
    careless = dataclasses.replace(tls_support.options(tmp_path, authority, None), checks_host_name=False)

    async def story(network: TcpNetwork) -> None:
        server = network.load_tls(tls_support.options(tmp_path, authority, bookie), is_server=True)

        _, of_server, _ = await upgraded(network, server, network.load_tls(careless, is_server=False))

        assert of_server == Certificate("bookie")

    run(story)


def test_new_files_are_taken_up_by_the_next_handshake(
    run: Run, tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    options = tls_support.options(tmp_path, authority, authority.issue("bookie"))

    def damage(options: TlsOptions) -> None:
        Path(options.certificate).write_bytes(b"half of a certif")

    def renew(options: TlsOptions) -> None:
        key, certificate = authority.issue("renewed").pem(tmp_path)
        Path(key).replace(options.key_store)
        Path(certificate).replace(options.certificate)

    async def story(network: TcpNetwork) -> None:
        server = network.load_tls(options, is_server=True)
        client = network.load_tls(tls_support.options(tmp_path, authority, None), is_server=False)
        assert (await upgraded(network, server, client))[1] == Certificate("bookie")

        damage(options)
        assert (await upgraded(network, server, client))[1] == Certificate("bookie")
        assert (await upgraded(network, server, client))[1] == Certificate("bookie")

        renew(options)
        assert (await upgraded(network, server, client))[1] == Certificate("renewed")

    run(story)

    assert [record.levelname for record in caplog.records if "cannot be used" in record.message] == ["WARNING"]


def test_plain_bytes_behind_the_request_are_not_taken_for_encrypted_ones(
    run: Run, tmp_path: Path, authority: Authority
) -> None:
    """Somebody between could put them there, and they would count as the client's own."""

    async def story(network: TcpNetwork) -> None:
        server = network.load_tls(tls_support.options(tmp_path, authority, authority.issue("bookie")), is_server=True)
        refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def on_connect(stream: ByteStream) -> None:
            await stream.read()
            stream.write([b"answer"])
            await more_came.wait()
            try:
                await stream.start_tls(server, soon())
            except errors.BadInput as error:
                refused.set_result(str(error))

        more_came = asyncio.Event()
        listener = await network.listen(Address("127.0.0.1", 0), on_connect)
        stream = await network.dial(Address("127.0.0.1", listener.port), soon())
        stream.write([b"request"])
        await stream.read()
        stream.write([b"injected"])
        accepted = next(iter(listener._tasks.values()))
        while not accepted._chunks:  # noqa: ASYNC110 - the port tells it in no other way
            await asyncio.sleep(0)
        more_came.set()

        assert "plain bytes" in await refused
        assert await stream.read() == b""
        await listener.close()

    run(story)


def test_what_is_encrypted_and_not_taken_is_unsent_still(run: Run, tmp_path: Path, authority: Authority) -> None:
    """TLS hands its bytes to the socket's queue, where they are in memory as before."""

    async def story(network: TcpNetwork) -> None:
        server = network.load_tls(tls_support.options(tmp_path, authority, authority.issue("bookie")), is_server=True)
        client = network.load_tls(tls_support.options(tmp_path, authority, None), is_server=False)
        accepted: asyncio.Future[ByteStream] = asyncio.get_running_loop().create_future()

        async def on_connect(stream: ByteStream) -> None:
            await stream.start_tls(server, soon())
            accepted.set_result(stream)
            await asyncio.Event().wait()

        listener = await network.listen(Address("127.0.0.1", 0), on_connect)
        others = TcpNetwork(CLOCK)
        deaf = await others.dial(Address("localhost", listener.port), soon())
        await deaf.start_tls(client, soon())
        stream = await accepted
        stream.write([bytes(MIB)] * 16)
        await asyncio.sleep(0.5)  # what the kernel and the other side take is gone by now
        unsent = stream.unsent_bytes
        stream.abort()
        await asyncio.sleep(0.1)
        left = stream.unsent_bytes
        deaf.close()
        await listener.close()
        await others.close()

        assert unsent > 4 * MIB
        assert left == 0

    run(story)


def test_a_side_that_never_shakes_hands_costs_a_deadline(run: Run, tmp_path: Path, authority: Authority) -> None:
    async def story(network: TcpNetwork) -> None:
        client = network.load_tls(tls_support.options(tmp_path, authority, None), is_server=False)

        async def on_connect(stream: ByteStream) -> None:
            while await stream.read():
                pass

        listener = await network.listen(Address("127.0.0.1", 0), on_connect)
        stream = await network.dial(Address("127.0.0.1", listener.port), soon())
        with pytest.raises(errors.BookieUnavailable, match="no handshake in time"):
            await stream.start_tls(client, CLOCK.monotonic_ns() + NS_PER_S // 20)
        await listener.close()

    run(story)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"key_store": ""}, "needs a key"),
        ({"key_store": "/nowhere/key.pem"}, "/nowhere/key.pem cannot be read"),
        ({"trust_store": "/nowhere/trust.pem"}, "/nowhere/trust.pem cannot be read"),
        ({"ciphers": ("TLS_NONE_WITH_NOTHING",)}, "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_told_when_it_is_loaded(
    tmp_path: Path, authority: Authority, changes: dict[str, object], reason: str
) -> None:
    good = tls_support.options(tmp_path, authority, authority.issue("bookie"))
    options = dataclasses.replace(good, **changes)  # type: ignore[arg-type]

    with pytest.raises(errors.BadInput, match=reason):
        TcpNetwork(CLOCK).load_tls(options, is_server=True)


def test_options_report_all_their_problems_together() -> None:
    with pytest.raises(errors.BadInput) as caught:
        TlsOptions(key_store="key", key_store_type="BCFKS", protocols=("SSLv3",), needs_client_certificate=True)

    for part in ("BCFKS", "SSLv3", "tlsTrustStore"):
        assert part in str(caught.value)
