"""The port over TLS in the moment of a renewal, with servers that a test makes fail."""

import asyncio
import datetime as dt
import logging
import os
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.ports.doors import NoDoors
from bookie.ports.network import Address
from bookie.runtime import admin_secure, admin_tls
from bookie.runtime.admin_secure import Secured, SecurePort
from bookie_operator.certificates import authority as authorities
from bookie_operator.certificates import leaf
from wait_support import wait_until

DEADLINE_S = 60.0


class Port:
    """A port that servers of ours hold, or another process does."""

    def __init__(self) -> None:
        self.is_taken = False
        self.servers: list[Server] = []

    def make(self) -> "Server":
        self.servers.append(Server(self))
        return self.servers[-1]

    @property
    def answering(self) -> "list[Server]":
        return [server for server in self.servers if server.is_started and server.grace_s is None]


class Server:
    def __init__(self, port: Port) -> None:
        self._port = port
        self.is_started = False
        self.grace_s: float | None = None
        self.is_over = asyncio.Event()

    def add_secure_port(self, address: str, credentials: object) -> int:
        if self._port.is_taken and not address.endswith(":0"):
            raise RuntimeError(f"{address} is in use")
        return 3184

    async def start(self) -> None:
        self.is_started = True

    async def stop(self, grace_s: float | None) -> None:
        """Wait for a call that never ends, unless the grace is that of the process's end."""
        self.grace_s = grace_s
        if grace_s is None or grace_s <= admin_secure.STOP_GRACE_S:
            self.is_over.set()
        await self.is_over.wait()


def put(folder: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    made = authorities.renewed(None, "admin", now, os.urandom)
    server = leaf.server(made, "uid", now, os.urandom)
    for name, text in zip(
        (admin_tls.CERTIFICATE, admin_tls.KEY, admin_tls.AUTHORITIES, admin_tls.CLIENTS),
        (server.certificate, server.key, made.bundle(), b"somebody"),
        strict=True,
    ):
        (folder / name).write_bytes(text)


def test_a_port_that_is_taken_at_a_renewal_is_told_once_and_had_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    put(tmp_path)

    async def story() -> None:
        port = Port()
        tls = Secured(Address("127.0.0.1", 0), admin_tls.Certificates(str(tmp_path)))
        secure = SecurePort(tls, port.make, NoDoors())  # type: ignore[arg-type]
        await secure.listen()
        async with secure.served():
            (first,) = port.answering
            port.is_taken = True
            put(tmp_path)
            lost = "nobody can call over TLS until 127.0.0.1:3184 can be had again"
            await asyncio.to_thread(wait_until, lambda: lost in caplog.text, lost, timeout_s=DEADLINE_S)
            assert port.answering == []
            assert first.grace_s == admin_secure.RENEWAL_GRACE_S
            port.is_taken = False
            await asyncio.to_thread(wait_until, lambda: bool(port.answering), "an answer again", timeout_s=DEADLINE_S)
            (second,) = port.answering
        assert all(server.is_over.is_set() for server in (first, second)), "a call held up the process's end"

    asyncio.run(story())
    assert caplog.text.count("nobody can call") == 1
    assert caplog.text.count("renewed") == 1


def test_who_may_call_is_no_reason_to_serve_anew(tmp_path: Path) -> None:
    """`clients` is asked at each call; a server of its own would break every connection for it."""
    put(tmp_path)
    files = admin_tls.read(str(tmp_path))
    (tmp_path / admin_tls.CLIENTS).write_text("somebody else")

    assert admin_tls.read(str(tmp_path)).shown == files.shown


def test_a_port_that_is_taken_at_the_start_is_refused(tmp_path: Path) -> None:
    put(tmp_path)

    async def story() -> None:
        port = Port()
        port.is_taken = True
        tls = Secured(Address("127.0.0.1", 3184), admin_tls.Certificates(str(tmp_path)))
        with pytest.raises(errors.RefusedToStart, match="choose another adminTlsPort"):
            await SecurePort(tls, port.make, NoDoors()).listen()  # type: ignore[arg-type]

    asyncio.run(story())
