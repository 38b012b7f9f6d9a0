"""`bookie serve` with settings that cannot be: refused before anything is connected, made or written.

The command runs in this process, and its metadata store is a listener at which nobody may ever call.
"""

import fcntl
import logging
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import port_support
from bookie.cli import main

TLS = "tlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory\ntlsKeyStoreType=PEM\n"
SASL = "bookieAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory\n"
NEEDED = (
    "bookieId=b\nadvertisedAddress=127.0.0.1\nlisteningAddress=127.0.0.1\nbookiePort=0\nadminPort=0\nmetricsPort=0\n"
    "journalDirectories=@/j\nledgerDirectories=@/l\nindexDirectories=@/i\nmetadataServiceUri=zk://127.0.0.1:PORT/ledgers\n"
    "zkTimeout=1000\nmetadataPatienceMs=1\n"
)


class Wrong:
    """A folder with a settings file, and where its bookie would look for a cluster."""

    def __init__(self, folder: Path, store: socket.socket) -> None:
        self.folder = folder
        self.store = store

    def serve(self, lines: str) -> int:
        """The exit code of NEEDED with `lines` in the place of what they say anew; "@" is the folder."""
        changed = {line.partition("=")[0] for line in lines.splitlines()}
        kept = [line for line in NEEDED.splitlines() if line.partition("=")[0] not in changed]
        text = "\n".join([*kept, lines, ""]).replace("@", str(self.folder))
        (self.folder / "bk.conf").write_text(text.replace("PORT", str(self.store.getsockname()[1])))
        before = self._files()
        code = main.main(["serve", "--config", f"{self.folder}/bk.conf"])
        assert self._files() == before
        with pytest.raises(BlockingIOError):
            self.store.accept()
        return code

    def _files(self) -> dict[Path, bytes | None]:
        return {path: path.read_bytes() if path.is_file() else None for path in self.folder.rglob("*")}


@pytest.fixture
def wrong(tmp_path: Path) -> Iterator[Wrong]:
    """What a process has of its own (its log, its signals) is as before at the end."""
    root, numbers = logging.getLogger(), (signal.SIGTERM, signal.SIGINT)
    kept = (root.handlers, root.level, [signal.getsignal(number) for number in numbers])
    with socket.socket() as store:
        store.bind(("127.0.0.1", 0))
        store.listen()
        store.setblocking(False)
        yield Wrong(tmp_path, store)
    root.handlers, level, handlers = kept[0], kept[1], kept[2]
    root.setLevel(level)
    assert [signal.getsignal(number) for number in numbers] == handlers


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence at the end, with nothing but a log before it."""
    *log, last = capsys.readouterr().err.strip().splitlines()
    assert not [line for line in log if line.split(" ")[1:2] not in (["INFO"], ["WARNING"])], log
    assert last.startswith("bookie: ")
    return last.removeprefix("bookie: ")


def make(folder: Path, **contents: str) -> None:
    for name, text in contents.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("lines", "files", "named"),
    [
        ("ledgerDirectories=@/file", {"file": ""}, "ledgerDirectories @/file (@/bk.conf:12) can be no directory"),
        ("journalDirectories=/proc/j", {}, "journalDirectories /proc/j (@/bk.conf:12) is on proc"),
        ("ledgerDirectories=@/l,@/l/\nindexDirectories=", {}, "@/l/ (@/bk.conf:11) is the same directory as @/l"),
        ("journalDirectories=@/./l", {}, "is the same directory as journalDirectories @/./l"),
        ("bookiePort=x", {}, "bookiePort is 'x' (@/bk.conf:12), not a whole number"),
        ("adminPort=-1", {}, "adminPort is '-1' (@/bk.conf:12), at least 0"),
        ("bookiePort=4000\nmetricsPort=4000", {}, "bookiePort and metricsPort are both 4000"),
        ("metadataServiceUri=zk://127.0.0.1:x/ledgers", {}, "'127.0.0.1:x' is not HOST or HOST:PORT"),
        ("metadataServiceUri=http://a/b", {}, "metadata service URI 'http://a/b' is not of the form"),
        ("advertisedAddress=http://bk-1", {}, "advertisedAddress is 'http://bk-1', not a host's name or address"),
        ("bookieId=a b", {}, "bookie id 'a b' is not usable"),
        ("flushInterval=0", {}, "flushInterval is '0' (@/bk.conf:13), at least 1"),
        ("logLevel=LOUD", {}, "logLevel is 'LOUD' (@/bk.conf:13), not one of DEBUG"),
        ("readOnlyModeEnabled=false", {}, "readOnlyModeEnabled=false wants a bookie that ends when its disk is full"),
        ("regeneration=perhaps", {}, "regeneration is 'perhaps': one of gated, manual, local"),
        (f"{TLS}tlsKeyStore=@/k\ntlsCertificatePath=@/c", {}, "tlsKeyStore @/k cannot be read: No such file"),
        (f"{TLS}tlsKeyStore=@/k\ntlsCertificatePath=@/k", {"k": ""}, "tlsKeyStore @/k holds nothing in PEM form"),
        (f"{TLS.replace('PEM', 'JKS')}tlsKeyStore=@/k", {"k": "x"}, "tlsKeyStore @/k cannot be opened: "),
        ("tlsRequired=true", {}, "TLS is required, but has no key"),
        (f"{SASL}saslJaasFile=@/jaas", {}, "saslJaasFile @/jaas cannot be read: No such file"),
        (f"{SASL}saslJaasFile=@/jaas", {"jaas": "A { };"}, "saslJaasFile @/jaas has no section Bookie"),
        ("adminTokenFile=@/token", {"token": " "}, "adminTokenFile @/token holds no token"),
        ("lossSigningKeyFile=@/k", {}, "lossSigningKeyFile (@/bk.conf:13) @/k cannot be read: No such file"),
        ("lossSigningKeyFile=@/k", {"k": "x"}, "lossSigningKeyFile (@/bk.conf:13) @/k is no private key in PEM"),
        ("zkEnableSecurity=true", {}, "zkEnableSecurity=true without a user: nobody could own what is made"),
    ],
)
def test_settings_that_cannot_be_are_a_usage_error_before_anything_begins(
    wrong: Wrong, capsys: pytest.CaptureFixture[str], lines: str, files: dict[str, str], named: str
) -> None:
    make(wrong.folder, **files)

    code = wrong.serve(lines)

    said = told(capsys)
    assert named.replace("@", str(wrong.folder)) in said
    assert code == 2


@pytest.mark.parametrize("key", ["bookiePort", "adminPort", "metricsPort", "httpServerPort"])
def test_a_port_in_use_is_told_by_its_setting(wrong: Wrong, capsys: pytest.CaptureFixture[str], key: str) -> None:
    """The data port was found to be taken only when the cookie was written and the journal read."""
    taken = wrong.store.getsockname()[1]

    assert wrong.serve(f"{key}={taken}\nhttpServerEnabled=true\nzone=z") == 1

    assert told(capsys).startswith(f"{key}: cannot listen on 127.0.0.1:{taken}: the port is in use: stop the other")


def test_an_address_that_this_machine_has_not_is_told(wrong: Wrong, capsys: pytest.CaptureFixture[str]) -> None:
    port = port_support.free_port()

    assert wrong.serve(f"listeningAddress=192.0.2.7\nbookiePort={port}") == 1

    assert told(capsys).startswith(f"bookiePort: cannot listen on 192.0.2.7:{port}: this machine has no such address")


def test_directories_of_a_bookie_that_runs_are_told_before_its_ports(
    wrong: Wrong, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second start of the same settings, which other ports would not help."""
    (wrong.folder / "l" / "current").mkdir(parents=True)
    with (wrong.folder / "l" / "current" / "LOCK").open("w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)

        assert wrong.serve(f"bookiePort={wrong.store.getsockname()[1]}") == 1

    named = f"ledgerDirectories {wrong.folder}/l ({wrong.folder}/bk.conf:7)"
    assert told(capsys) == f"held by another process: {named}; one bookie per directory: stop the other one"
