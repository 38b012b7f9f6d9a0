"""A bookie whose certificates end: it starts and goes on, and its log, its figures and `bookie node show` say so."""

import datetime as dt
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import port_support
import tls_support
import wait_support
from bookie.runtime import admin_tls
from bookie_operator.certificates import authority as authorities
from bookie_operator.certificates import leaf
from tls_support import Authority

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
HOUR = dt.timedelta(hours=1)
FIGURE = 'bookie_certificate_ends_seconds{name="CN=%s",port="%s",role="%s"}'


def test_ended_certificates_are_told_by_log_figures_and_command_while_the_bookie_goes_on(tmp_path: Path) -> None:
    admin_files, data_files = tmp_path / "admin", tmp_path / "data"
    of_the_admin_port(admin_files, made=dt.datetime.now(dt.UTC) - dt.timedelta(days=28))
    data_files.mkdir()
    authority = Authority()
    data = tls_support.options(data_files, authority, authority.issue("bookie", left=-HOUR))
    bookie, admin, secure, metrics, nowhere = port_support.free_ports(5)
    for role in ("journal", "ledgers"):
        (tmp_path / role).mkdir()
    file = tmp_path / "bookie.properties"
    file.write_text(
        f"bookiePort={bookie}\nadminPort={admin}\nadminTlsPort={secure}\nmetricsPort={metrics}\n"
        f"journalDirectories={tmp_path}/journal\nledgerDirectories={tmp_path}/ledgers\nadminTlsDirectory={admin_files}\n"
        f"metadataServiceUri=zk+hierarchical://127.0.0.1:{nowhere}/ledgers\nlisteningAddress=127.0.0.1\n"
        "advertisedAddress=127.0.0.1\nzone=z\nvolumeProof=none\n"
        "tlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory\ntlsKeyStoreType=PEM\n"
        f"tlsKeyStore={data.key_store}\ntlsCertificatePath={data.certificate}\n"
        f"tlsTrustStoreType=PEM\ntlsTrustStore={data.trust_store}\n"
    )
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "bookie", "serve", "--config", str(file)], stderr=out)
    try:
        # It waits for its metadata store, and its ports are up.
        wait_support.wait_until(
            lambda: log.read_text().count("certificate to replace") == 2, "its first words", timeout_s=DEADLINE_S
        )

        page = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=DEADLINE_S).read().decode()
        show = [sys.executable, "-m", "bookie", "node", "show", "--admin", f"127.0.0.1:{admin}"]
        shown = subprocess.run(show, capture_output=True, text=True, timeout=DEADLINE_S, check=False).stdout

        told = [line for line in log.read_text().splitlines() if "certificate to replace" in line]
        assert len(told) == 2, told
        admin_certificate = admin_files / admin_tls.CERTIFICATE
        for said in (log.read_text(), shown):
            assert f"port data, own certificate {data.certificate} (CN=bookie): it ended" in said
            assert f"port admin, own certificate {admin_certificate} (CN=bookies uid): it ends" in said
        assert FIGURE % ("bookie", "data", "own") in page
        assert FIGURE % ("test authority", "data", "trusted") in page
        assert FIGURE % ("bookies uid", "admin", "own") in page
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def of_the_admin_port(folder: Path, *, made: dt.datetime) -> None:
    folder.mkdir()
    authority = authorities.renewed(None, "admin", made, os.urandom)
    server = leaf.server(authority, "uid", made, os.urandom)
    for name, text in (
        (admin_tls.CERTIFICATE, server.certificate),
        (admin_tls.KEY, server.key),
        (admin_tls.AUTHORITIES, authority.bundle()),
        (admin_tls.CLIENTS, b"nobody"),
    ):
        (folder / name).write_bytes(text)
