"""HTTP over TLS: strangers get a handshake and no name; certificates are obeyed as on the admin port, and renewed."""

import asyncio
import contextlib
import http.client
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import tls_support
from bookie.ports.doors import NoDoors
from bookie.ports.http import HttpAnswer, HttpRequest
from bookie.ports.network import Address
from bookie.runtime import admin_connections, admin_tls, http_tls
from bookie.runtime import http as served


async def who(request: HttpRequest) -> HttpAnswer:
    return HttpAnswer(200, request.caller.encode())


def put(folder: Path, authority: tls_support.Authority, *, trusts: bytes = b"") -> None:
    key, certificate = authority.issue("bookie").pem(folder)
    Path(key).rename(folder / admin_tls.KEY)
    Path(certificate).rename(folder / admin_tls.CERTIFICATE)
    Path(authority.pem(folder)).rename(folder / admin_tls.AUTHORITIES)
    (folder / admin_tls.CLIENTS).write_text("admin.example\n")


def ask(port: int, folder: Path, authority: tls_support.Authority, shown: tls_support.Identity | None) -> str:
    context = ssl.create_default_context(cafile=authority.pem(folder))
    if shown is not None:
        key, certificate = shown.pem(folder)
        context.load_cert_chain(certificate, key)
    connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def story(folder: Path, tell: Callable[[int], None]) -> None:
    async def run() -> None:
        certificates = admin_tls.Certificates(str(folder))
        known = served.Known(frozenset(), http_tls.context(str(folder)), certificates.name_of)
        async with served.serve(who, Address("127.0.0.1", 0), known=known) as port, asyncio.timeout(50):
            await asyncio.to_thread(tell, port)

    asyncio.run(run())


def test_a_certificate_gives_a_name_and_none_gives_none(tmp_path: Path) -> None:
    ours, theirs, mine = tls_support.Authority(), tls_support.Authority("theirs"), tmp_path / "mine"
    mine.mkdir()
    put(tmp_path, ours)

    def tell(port: int) -> None:
        assert ask(port, mine, ours, ours.issue("ada", hosts=("admin.example",))) == "admin.example (ada)"
        assert ask(port, mine, ours, ours.issue("eve", hosts=("eve.example",))) == ""
        assert ask(port, mine, ours, None) == ""
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            ask(port, mine, ours, theirs.issue("ada", hosts=("admin.example",)))

    story(tmp_path, tell)


def test_new_certificates_count_for_the_next_handshake(tmp_path: Path) -> None:
    old, new, mine = tls_support.Authority("old"), tls_support.Authority("new"), tmp_path / "mine"
    mine.mkdir()
    put(tmp_path, old)

    def tell(port: int) -> None:
        assert ask(port, mine, old, old.issue("ada", hosts=("admin.example",))) == "admin.example (ada)"
        put(tmp_path, new)
        assert ask(port, mine, new, new.issue("ada", hosts=("admin.example",))) == "admin.example (ada)"
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            ask(port, mine, new, old.issue("ada", hosts=("admin.example",)))

    story(tmp_path, tell)


def test_in_a_pod_loopback_is_nobody(tmp_path: Path) -> None:
    async def run() -> bytes:
        async with served.serve(who, Address("127.0.0.1", 0), known=served.Known(frozenset())) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(60):
                found = await reader.read()
            writer.close()
            return found

    assert asyncio.run(run()).endswith(b"\r\n\r\n")


class Telling(NoDoors):
    """Doors that tell of the first refusal."""

    def __init__(self) -> None:
        self.told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        if not self.told.done():
            self.told.set_result(f"{door}: {reason}")


def test_handshakes_that_nobody_begins_are_bounded(tmp_path: Path) -> None:
    """Who begins no handshake is no connection yet to asyncio, and has a descriptor of this process."""
    put(tmp_path, tls_support.Authority())

    async def story() -> str:
        doors, known = Telling(), served.Known(frozenset(), http_tls.context(str(tmp_path)))
        with contextlib.ExitStack() as stack:
            async with served.serve(who, Address("127.0.0.1", 0), doors, known) as port, asyncio.timeout(30):
                for _ in range(admin_connections.CONNECTIONS_MAX + 12):
                    stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                    await asyncio.sleep(0)  # so that the server takes it
                return await doors.told

    assert asyncio.run(story()).startswith(f"http: more than {admin_connections.CONNECTIONS_MAX} connections")


def in_time(folder: Path, monkeypatch: pytest.MonkeyPatch, client: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Run `client(port)` beside a server that waits for 50 ms where it waits for seconds."""
    put(folder, tls_support.Authority())
    monkeypatch.setattr(served, "_REQUEST_TIMEOUT_S", 0.05)

    async def run() -> None:
        known = served.Known(frozenset(), http_tls.context(str(folder)))
        async with served.serve(who, Address("127.0.0.1", 0), known=known) as port, asyncio.timeout(10):
            await client(port)

    asyncio.run(run())


def test_who_begins_no_handshake_is_let_go_in_the_time_of_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()

    in_time(tmp_path, monkeypatch, silent)


def test_who_does_not_end_its_side_after_the_answer_is_let_go_in_the_time_of_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lingering(port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
        tunnel = context.wrap_bio(heard, said)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def until_done(step: Callable[[], Any]) -> Any:
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    writer.write(said.read())
                    heard.write(await reader.read(2**16))

        await until_done(tunnel.do_handshake)
        tunnel.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await until_done(tunnel.read)).startswith(b"HTTP/1.1 200 ")
        with contextlib.suppress(ConnectionResetError):
            await reader.read()  # it ends although we never say that we end
        writer.close()

    in_time(tmp_path, monkeypatch, lingering)
