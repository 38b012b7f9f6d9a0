"""A bookie under strangers who break handshakes with its admin port: it lives, and says so in few lines."""

import contextlib
import datetime as dt
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import port_support
import wait_support
from bookie.runtime import admin_tls
from bookie_operator.certificates import authority as authorities
from bookie_operator.certificates import leaf

ATTEMPTS = 200
MANY, AT_ONCE, RENEWALS = 4_000, 64, 80
DEADLINE_S = 60.0


def break_handshake(port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=10) as stream,
        context.wrap_socket(stream) as tunnel,
    ):
        tunnel.recv(1)


@pytest.mark.slow
def test_broken_handshakes_of_strangers_fill_no_log(tmp_path: Path) -> None:
    with bookie_without_a_fleet(tmp_path) as (process, secure):
        before = len((tmp_path / "log").read_text().splitlines())

        for _ in range(ATTEMPTS):
            break_handshake(secure)

        told = (tmp_path / "log").read_text().splitlines()[before:]
        assert process.poll() is None
        assert len([line for line in told if "kazoo" not in line]) < 20, told


def test_strangers_who_come_and_go_at_once_end_no_bookie(tmp_path: Path) -> None:
    """It died of a broken heap within some of these rounds: gRPC was given other certificates, and freed the former
    ones while another of its threads began a handshake with them. Here they are renewed all the time."""
    shown: set[str] = set()
    with bookie_without_a_fleet(tmp_path) as (process, secure):
        deadline_s = time.monotonic() + DEADLINE_S
        with ThreadPoolExecutor(AT_ONCE) as strangers:
            # A bookie looks at its files each second: on a fast machine they come and go in less than three.
            while not shown or (len(shown) < 3 and time.monotonic() < deadline_s):
                for number, _ in enumerate(strangers.map(break_handshake, [secure] * MANY)):
                    assert process.poll() is None, "it ended"
                    if number % (MANY // RENEWALS) == 0:
                        put_certificates(tmp_path / "tls")
                        shown.add(certificate_of(secure))

        # For a moment of each renewal nobody listens.
        wait_support.wait_until(lambda: answers(secure), "the port answers", timeout_s=DEADLINE_S)
        assert process.poll() is None
    assert len(shown) > 2, "nothing was renewed meanwhile"


@contextlib.contextmanager
def bookie_without_a_fleet(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Run a bookie that waits for its metadata store, with its admin port up; give the port with TLS. Its log is the
    file `log`."""
    tls = tmp_path / "tls"
    tls.mkdir()
    put_certificates(tls)
    bookie, admin, secure, metrics, nowhere = port_support.free_ports(5)
    for role in ("journal", "ledgers"):
        (tmp_path / role).mkdir()
    file = tmp_path / "bookie.properties"
    file.write_text(
        f"bookiePort={bookie}\nadminPort={admin}\nadminTlsPort={secure}\nmetricsPort={metrics}\n"
        f"journalDirectories={tmp_path}/journal\nledgerDirectories={tmp_path}/ledgers\nadminTlsDirectory={tls}\n"
        f"metadataServiceUri=zk+hierarchical://127.0.0.1:{nowhere}/ledgers\nlisteningAddress=127.0.0.1\n"
        "advertisedAddress=127.0.0.1\nzone=z\nvolumeProof=none\n"
    )
    with (tmp_path / "log").open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "bookie", "serve", "--config", str(file)], stderr=out)
    try:
        wait_support.wait_until(lambda: answers(secure), "the admin port is up", timeout_s=DEADLINE_S)
        yield process, secure
    finally:
        process.kill()
        process.wait()


def put_certificates(folder: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    made = authorities.renewed(None, "admin", now, os.urandom)
    server = leaf.server(made, "uid", now, os.urandom)
    for name, text in (
        (admin_tls.CERTIFICATE, server.certificate),
        (admin_tls.KEY, server.key),
        (admin_tls.AUTHORITIES, made.bundle()),
        (admin_tls.CLIENTS, b"nobody"),
    ):
        (folder / name).write_bytes(text)


def certificate_of(port: int) -> str:
    """Return what the port shows; nothing in the moment in which nobody listens."""
    with contextlib.suppress(OSError):
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)
    return ""


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
