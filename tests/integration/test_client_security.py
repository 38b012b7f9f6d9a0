"""Our client and our data port on real sockets: encrypted, authenticated, refused; and no secret in any log."""

import asyncio
import dataclasses
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import server_support
import tls_support
from bookie.base import errors
from bookie.base.budgets import Budgets
from bookie.base.errors import Status
from bookie.base.ids import BookieId
from bookie.base.secret import Secret
from bookie.base.units import MIB, NS_PER_S
from bookie.client.net.connection import Connection
from bookie.client.net.handshake import Handshake
from bookie.client.options import ClientOptions
from bookie.ports import World
from bookie.ports.network import Address, ByteStream
from bookie.runtime import jaas
from bookie.runtime import world as runtime_world
from bookie.server import lists, security
from bookie.server.admission import Admission
from bookie.server.boundary import Boundary
from bookie.server.connection import Backpressure, ServerConnection
from bookie.server.connections import Connections
from bookie.server.doors import NodeDoors
from bookie.server.metrics import ServerMetrics
from bookie.server.processor import Processor
from bookie.server.readers import Readers
from bookie.server.security import SecurityOptions
from bookie.server.unsent import Unsent
from bookie.storage import restart
from bookie.storage.options import StorageOptions
from bookie.wire import v2, v3
from bookie.wire.framing import FRAME_LIMIT_BYTES, FrameSplitter
from bookie.wire.messages import (
    AuthRequest,
    AuthResponse,
    BookieInfoRequest,
    BookieInfoResponse,
    ReadRequest,
    ReadResponse,
    Response,
    StartTlsRequest,
    StartTlsResponse,
)
from bookie.wire.sasl import DigestServer
from story_support import story
from tls_support import Authority

URI = "zk+hierarchical://127.0.0.1:2181/ledgers"
BOOKIE = BookieId("bookie-1")
USER, PASSWORD = "bookkeeperuser", "correct-horse-battery"
WRONG = "wrong-horse-battery"


@asynccontextmanager
async def data_port(
    world: World, folder: Path, options: SecurityOptions
) -> AsyncIterator[tuple[Address, ServerMetrics]]:
    """A store, a processor and a listener of ours with `options`."""

    def fail(error: Exception) -> None:
        raise AssertionError(f"the store stopped the node: {error}")

    storage = StorageOptions(journal_dirs=(str(folder / "journal"),), ledger_dirs=(str(folder / "ledgers"),))
    store = await restart.open_store(storage, world, fail=fail)
    doors = NodeDoors(world.clock, server_support.not_expected)
    boundary = Boundary(doors)
    connections = Connections(Budgets(), world.clock, doors)
    metrics, readers, admission = ServerMetrics(), Readers(boundary, Unsent(64 * MIB)), Admission()
    listers = lists.listers(boundary, connections.unsent)
    processor = Processor(store, readers, listers, admission, metrics, world.clock, boundary)
    backpressure = Backpressure(admission, store)
    loaded = security.load(options, world)

    async def on_connect(stream: ByteStream) -> None:
        await ServerConnection(
            stream, processor, backpressure, metrics, FRAME_LIMIT_BYTES, doors, connections, loaded
        ).run()

    listener = await world.network.listen(Address("127.0.0.1", 0), on_connect)
    reading = asyncio.create_task(readers.run())
    try:
        yield Address("localhost", listener.port), metrics
    finally:
        reading.cancel()
        await listener.close()
        await store.close()


async def connect(world: World, address: Address, **options: object) -> ByteStream:
    """Dial and shake hands as a client with `options` does."""
    handshake = Handshake(ClientOptions(URI, **options), world)  # type: ignore[arg-type]
    deadline_ns = world.clock.monotonic_ns() + 5 * NS_PER_S
    stream = await world.network.dial(address, deadline_ns)
    await handshake.begin(BOOKIE, stream, deadline_ns)
    return stream


async def answer(stream: ByteStream, unpack: Callable[[memoryview], Response] = v3.unpack_response) -> Response:
    frames = FrameSplitter()
    while chunk := await stream.read():
        for frame in frames.feed(chunk):
            return unpack(frame)
    raise AssertionError("the bookie closed the connection")


async def asked(stream: ByteStream) -> Status:
    stream.write(v3.pack_request(BookieInfoRequest(99, 3, 0)))
    told = await answer(stream)
    assert isinstance(told, BookieInfoResponse)
    return told.status


def run(story: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30), runtime_world.open_world() as world:
            await story(world)

    asyncio.run(whole())


def test_encrypted_and_authenticated_clients_are_served_on_both_protocols(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    tls = tls_support.options(tmp_path, authority, authority.issue("bookie"))
    server = SecurityOptions(tls=tls, needs_tls=True, provider="sasl", users={USER: Secret(PASSWORD)})
    client = {
        "tls": tls_support.options(tmp_path, authority, None),
        "sasl_user": USER,
        "sasl_password": Secret(PASSWORD),
    }

    async def story(world: World) -> None:
        async with data_port(world, tmp_path, server) as (address, metrics):
            stream = await connect(world, address, **client)
            assert await asked(stream) is Status.EOK

            stream.write(v2.pack_request(ReadRequest(0, 2, server_support.LEDGER, server_support.LAST)))
            told = await answer(stream, v2.unpack_response)
            assert told == ReadResponse(0, 2, Status.ENOLEDGER, server_support.LEDGER, server_support.LAST)
            assert metrics.refused_clients == 0
            stream.close()

    with caplog.at_level(logging.DEBUG):
        run(story)
    assert re.search(rf"client authenticated peer=127\.0\.0\.1:\d+ user={USER}", caplog.text)
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("may_be_plain", [True, False])
def test_a_bookie_that_gets_tls_later_is_reached_in_plain_until_then_if_one_may(
    tmp_path: Path, *, may_be_plain: bool
) -> None:
    authority = Authority()
    server = tls_support.options(tmp_path, authority, authority.issue("bookie", hosts=("localhost",)))
    client = dataclasses.replace(tls_support.options(tmp_path, authority, None), may_be_plain=may_be_plain)
    (tmp_path / "other").mkdir()
    stranger = tls_support.options(tmp_path / "other", Authority(), None)
    others = dataclasses.replace(stranger, may_be_plain=may_be_plain)

    async def story(world: World) -> None:
        async with data_port(world, tmp_path, SecurityOptions(tls=server, needs_tls=True)) as (address, _):
            assert await asked(await connect(world, address, tls=client)) is Status.EOK, "encrypted where it can be"
            with pytest.raises(errors.BookieUnavailable):  # a bookie that has TLS has to prove itself, always
                await connect(world, address, tls=others)
        async with data_port(world, tmp_path, SecurityOptions()) as (address, _):
            if may_be_plain:
                assert await asked(await connect(world, address, tls=client)) is Status.EOK
            else:
                with pytest.raises(errors.BookieUnavailable, match="it has no TLS"):
                    await connect(world, address, tls=client)

    run(story)


def test_a_certificate_with_an_authorized_role_is_all_it_needs(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    bookie = tls_support.options(tmp_path, authority, authority.issue("bookie"), mutual=True)
    writer = tls_support.options(tmp_path / "a", authority, authority.issue("one", units=("0:writer",)))
    reader = tls_support.options(tmp_path / "b", authority, authority.issue("two", units=("0:reader",)))
    server = SecurityOptions(tls=bookie, provider="certificate", authorized_roles=("writer",))

    async def story(world: World) -> None:
        async with data_port(world, tmp_path, server) as (address, _):
            assert await asked(await connect(world, address, tls=writer)) is Status.EOK
            assert await asked(await connect(world, address, tls=reader)) is Status.EUA
            assert await asked(await connect(world, address)) is Status.EUA

    run(story)


def test_a_new_user_is_let_in_and_a_former_one_kept_out_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f'Bookie {{ module required user_{USER}="{PASSWORD}"; }};')
    server = SecurityOptions(provider="sasl", users=jaas.Users(str(file), "Bookie"))
    newcomer = {"sasl_user": "bookkeeper-new", "sasl_password": Secret(WRONG)}
    former = {"sasl_user": USER, "sasl_password": Secret(PASSWORD)}

    async def story(world: World) -> None:
        async with data_port(world, tmp_path, server) as (address, _):
            assert await asked(await connect(world, address, **former)) is Status.EOK
            with pytest.raises(errors.BookieUnavailable):
                await connect(world, address, **newcomer)

            file.write_text("Bookie { half of")
            for _ in range(3):
                assert await asked(await connect(world, address, **former)) is Status.EOK

            file.write_text(f'Bookie {{ module required user_bookkeeper-new="{WRONG}"; }};')
            assert await asked(await connect(world, address, **newcomer)) is Status.EOK
            with pytest.raises(errors.BookieUnavailable):
                await connect(world, address, **former)

    with caplog.at_level(logging.INFO):
        run(story)
    assert caplog.text.count("new users cannot be read, the former stay") == 1
    for secret in (PASSWORD, WRONG):
        assert secret not in caplog.text


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        ({"sasl_user": USER, "sasl_password": Secret(WRONG)}, "does not accept user"),
        ({"sasl_user": "bookkeeper-nobody", "sasl_password": Secret(PASSWORD)}, "does not accept user"),
    ],
)
def test_a_wrong_password_is_refused_with_a_reason_and_stays_out_of_the_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, client: dict[str, object], reason: str
) -> None:
    server = SecurityOptions(provider="sasl", users={USER: Secret(PASSWORD)})

    async def story(world: World) -> None:
        async with data_port(world, tmp_path, server) as (address, metrics):
            with pytest.raises(errors.BookieUnavailable, match=reason) as caught:
                await connect(world, address, **client)

            assert metrics.refused_clients == 1
            assert not {PASSWORD, WRONG} & set(str(caught.value).split())

    with caplog.at_level(logging.DEBUG):
        run(story)
    assert "refused door=proof peer=127.0.0.1:" in caplog.text
    for secret in (PASSWORD, WRONG):
        assert secret not in caplog.text


@story(run)
async def test_a_client_that_wants_tls_speaks_to_no_bookie_without(world: World, *, tmp_path: Path) -> None:
    authority = Authority()

    async with data_port(world, tmp_path, SecurityOptions()) as (address, _):
        with pytest.raises(errors.BookieUnavailable, match="no TLS"):
            await connect(world, address, tls=tls_support.options(tmp_path, authority, None))


@story(run)
async def test_a_client_with_a_password_is_served_by_a_bookie_that_asks_nobody(world: World, *, tmp_path: Path) -> None:
    async with data_port(world, tmp_path, SecurityOptions()) as (address, _):
        stream = await connect(world, address, sasl_user=USER, sasl_password=Secret(PASSWORD))
        assert await asked(stream) is Status.EOK


@story(run)
async def test_an_unencrypted_client_is_told_eua_where_tls_is_required(world: World, *, tmp_path: Path) -> None:
    authority = Authority()
    tls = tls_support.options(tmp_path, authority, authority.issue("bookie"))

    async with data_port(world, tmp_path, SecurityOptions(tls=tls, needs_tls=True)) as (address, _):
        assert await asked(await connect(world, address)) is Status.EUA


@pytest.mark.parametrize("shows_one", [True, False])
@story(run)
async def test_a_client_whose_certificate_is_not_accepted_hears_what_may_be_the_matter(
    world: World, *, tmp_path: Path, shows_one: bool
) -> None:
    """TLS 1.3 lets the client in before the bookie looks at its certificate; then the connection just ends."""
    authority, strangers = Authority(), Authority("strangers")
    tls = tls_support.options(tmp_path, authority, authority.issue("bookie"), mutual=True)
    theirs = strangers.issue("app").pem(tmp_path) if shows_one else ("", "")
    ours = dataclasses.replace(tls, key_store=theirs[0], certificate=theirs[1], needs_client_certificate=False)
    told = "may not accept this client's certificate" if shows_one else "this client shows none"
    async with data_port(world, tmp_path, SecurityOptions(tls=tls)) as (address, _):
        handshake = Handshake(ClientOptions(URI, tls=ours), world)
        deadline_ns = world.clock.monotonic_ns() + 5 * NS_PER_S
        stream = await world.network.dial(address, deadline_ns)
        await handshake.begin(BOOKIE, stream, deadline_ns)
        connection = Connection(BOOKIE, stream, FRAME_LIMIT_BYTES, version=v3.VERSION, doubt=handshake.doubt)

        await connection.run()

        assert told in str(connection.ended_by)


@story(run)
async def test_a_bookie_that_says_nothing_costs_a_deadline(world: World) -> None:
    async def on_connect(stream: ByteStream) -> None:
        while await stream.read():
            pass

    listener = await world.network.listen(Address("127.0.0.1", 0), on_connect)
    handshake = Handshake(ClientOptions(URI, sasl_user=USER, sasl_password=Secret(PASSWORD)), world)
    soon_ns = world.clock.monotonic_ns() + NS_PER_S // 20
    stream = await world.network.dial(Address("127.0.0.1", listener.port), soon_ns + NS_PER_S)
    with pytest.raises(errors.BookieUnavailable, match="did not answer AUTH in time"):
        await handshake.begin(BOOKIE, stream, soon_ns)
    await listener.close()


@story(run)
async def test_a_second_answer_to_start_tls_is_passed_over_as_java_sends_it(world: World, *, tmp_path: Path) -> None:
    """With TLS and SASL, Java's bookie sends EIO after the handshake, and then takes the password all the same."""
    authority = Authority()
    tls = tls_support.options(tmp_path, authority, authority.issue("bookie"))

    loaded = world.network.load_tls(tls, is_server=True)
    password = DigestServer({USER: Secret(PASSWORD)}, re.compile(".*"), "nonce")

    async def on_connect(stream: ByteStream) -> None:
        frames = FrameSplitter()
        while chunk := await stream.read():
            for frame in frames.feed(chunk):
                request = v3.unpack_request(frame)
                if isinstance(request, StartTlsRequest):
                    stream.write(v3.pack_response(StartTlsResponse(request.txn, 3, Status.EOK)))
                    await stream.start_tls(loaded, world.clock.monotonic_ns() + 5 * NS_PER_S)
                    stream.write(v3.pack_response(StartTlsResponse(request.txn, 3, Status.EIO)))
                else:
                    assert isinstance(request, AuthRequest)
                    payload = password.answer(request.payload)
                    stream.write(v3.pack_response(AuthResponse(request.txn, 3, Status.EOK, "sasl", payload)))

    listener = await world.network.listen(Address("127.0.0.1", 0), on_connect)
    client = tls_support.options(tmp_path, authority, None)
    address = Address("localhost", listener.port)
    stream = await connect(world, address, tls=client, sasl_user=USER, sasl_password=Secret(PASSWORD))

    assert password.user == USER
    stream.close()
    await listener.close()
