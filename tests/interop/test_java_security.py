"""TLS and SASL with the official client on our bookies, and with our client on an official bookie.

Each secured bookie is a cluster of its own in the fleet's ZooKeeper: one bookie, ensembles of one.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import java_fleet_support
import java_support
import local_support
import port_support
import tls_support
import wait_support
from bookie import blocking
from bookie.base import errors
from bookie.base.secret import Secret
from bookie.ports.tls import TlsOptions
from java_fleet_support import JudgedFleet
from java_support import JavaAsker, JavaClient, JudgeError
from local_support import MortalBookie
from tls_support import Authority

pytestmark = pytest.mark.java

ONE = {"ensemble": 1, "write": 1, "ack": 1}
TLS_FACTORY = "org.apache.bookkeeper.tls.TLSContextFactory"
SASL_CLIENT = "org.apache.bookkeeper.sasl.SASLClientProviderFactory"


class Keys:
    """Files of one authority and of whom it vouches for."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.authority = Authority()
        self.trust = self.authority.pem(folder)
        self.password = tls_support.password_file(folder)

    def store(self, name: str, role: str) -> str:
        """A PKCS12 store of somebody with `role`."""
        return self.authority.issue(name, units=(f"0:{role}",)).pkcs12(self.folder)

    def java_store(self, name: str) -> str:
        """A JKS store of somebody, made by Java's own keytool."""
        source, target = self.store(name, "bookie"), self.folder / f"{name}.jks"
        stores = ["-srckeystore", source, "-srcstoretype", "PKCS12", "-destkeystore", target, "-deststoretype", "JKS"]
        passwords = ["-srcstorepass", tls_support.PASSWORD, "-deststorepass", tls_support.PASSWORD]
        subprocess.run(["keytool", "-importkeystore", *stores, *passwords], check=True, capture_output=True)
        return str(target)

    def client_settings(self, name: str = "", role: str = "") -> dict[str, object]:
        """An official client's settings; without a name it shows no certificate."""
        settings: dict[str, object] = {
            "tlsProviderFactoryClass": TLS_FACTORY,
            "tlsProvider": "JDK",
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": self.trust,
        }
        if name:
            settings |= {
                "tlsClientAuthentication": True,
                "tlsKeyStoreType": "PKCS12",
                "tlsKeyStore": self.store(name, role),
                "tlsKeyStorePasswordPath": self.password,
            }
        return settings


@pytest.fixture(scope="module")
def home(fleet: JudgedFleet) -> Path:
    home = fleet.folder / "security"
    home.mkdir()
    return home


@pytest.fixture(scope="module")
def keys(home: Path) -> Keys:
    return Keys(home / "keys")


@contextlib.contextmanager
def secured(fleet: JudgedFleet, home: Path, name: str, *settings: str) -> Iterator[tuple[str, MortalBookie]]:
    """Run one bookie of ours with `settings`, alone in a cluster; give its URI."""
    uri = f"{fleet.uri}-{name}"
    init = [*local_support.BOOKIE, "cluster", "init", "--metadata-service-uri", uri]
    done = subprocess.run(init, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with local_support.one_bookie(uri, home / name, *settings) as bookie:
        yield uri, bookie


@pytest.fixture(scope="module")
def tls_bookie(fleet: JudgedFleet, home: Path, keys: Keys) -> Iterator[str]:
    """Asks for certificates, and lets writers in. Its key is in a JKS store, as Java's own tool made it."""
    with secured(
        fleet,
        home,
        "tls",
        f"tlsProviderFactoryClass={TLS_FACTORY}",
        f"tlsKeyStore={keys.java_store('bookie')}",
        f"tlsKeyStorePasswordPath={keys.password}",
        f"tlsTrustStore={keys.trust}",
        "tlsTrustStoreType=PEM",
        "tlsClientAuthentication=true",
        "bookieAuthProviderFactoryClass=org.apache.bookkeeper.tls.BookieAuthZFactory",
        "authorizedRoles=writer",
    ) as (uri, _):
        yield uri


@pytest.fixture(scope="module")
def sasl_bookie(fleet: JudgedFleet, home: Path, java: JavaClient) -> Iterator[tuple[str, MortalBookie]]:
    with secured(
        fleet,
        home,
        "sasl",
        "bookieAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory",
        f"saslJaasFile={java_support.jaas_file(fleet.folder)}",
    ) as found:
        yield found


def writes_and_recovers(client: JavaAsker) -> None:
    """A whole life of a ledger."""
    ledger = client.ask("create", digest="MAC", password="secret", **ONE)
    payloads = list(java_support.payloads(ledger["ledger"], 100, 1000))
    client.append(ledger["handle"], payloads)
    client.ask("forget", handle=ledger["handle"])
    reader = client.ask("open", ledger=ledger["ledger"], digest="MAC", password="secret")
    assert reader["last"] == 99
    assert client.read(reader["handle"], 0, 99) == payloads


def is_refused(client: JavaAsker, why: str) -> None:
    ledger = client.ask("create", **ONE)
    with pytest.raises(JudgeError, match=why):
        client.append(ledger["handle"], [b"not let in"])


@pytest.mark.parametrize("v2", [False, True], ids=["v3", "v2"])
def test_java_with_an_authorized_certificate_is_served_over_tls(
    java: JavaClient, tls_bookie: str, keys: Keys, v2: bool
) -> None:
    with java.guest("tls", tls_bookie, v2=v2, **keys.client_settings("one", "writer")) as client:
        writes_and_recovers(client)


def test_java_with_another_role_is_encrypted_but_not_served(java: JavaClient, tls_bookie: str, keys: Keys) -> None:
    with java.guest("reader", tls_bookie, **keys.client_settings("two", "reader")) as client:
        is_refused(client, "Unauthorized")


def test_java_without_a_certificate_gets_no_tls(java: JavaClient, tls_bookie: str, keys: Keys) -> None:
    with java.guest("nobody", tls_bookie, **keys.client_settings()) as client:
        is_refused(client, "NotEnoughBookies")  # its only bookie failed it


@pytest.mark.parametrize("v2", [False, True], ids=["v3", "v2"])
def test_java_without_tls_is_unauthorized(java: JavaClient, tls_bookie: str, v2: bool) -> None:
    with java.guest("plain", tls_bookie, v2=v2) as client:
        is_refused(client, "Unauthorized")


@pytest.mark.parametrize("v2", [False, True], ids=["v3", "v2"])
def test_java_with_the_password_is_served(java: JavaClient, sasl_bookie: tuple[str, MortalBookie], v2: bool) -> None:
    settings = {"clientAuthProviderFactoryClass": SASL_CLIENT, "saslJaasClientSectionName": "BookKeeper"}
    with java.guest("sasl", sasl_bookie[0], v2=v2, **settings) as client:
        writes_and_recovers(client)


@pytest.mark.parametrize("section", ["WrongPassword", "NotAllowed"])
def test_java_with_a_wrong_password_or_name_is_refused(
    java: JavaClient, sasl_bookie: tuple[str, MortalBookie], section: str
) -> None:
    settings = {"clientAuthProviderFactoryClass": SASL_CLIENT, "saslJaasClientSectionName": section}
    with java.guest("intruder", sasl_bookie[0], **settings) as client:
        is_refused(client, "Unauthorized|NotEnoughBookies")


def test_java_without_a_password_is_unauthorized(java: JavaClient, sasl_bookie: tuple[str, MortalBookie]) -> None:
    with java.guest("nobody", sasl_bookie[0]) as client:
        is_refused(client, "Unauthorized")


def test_no_password_is_in_the_bookie_s_log(sasl_bookie: tuple[str, MortalBookie]) -> None:
    log = sasl_bookie[1].log.read_text()

    assert "user=bookkeeperuser" in log
    assert "refused door=proof peer=" in log
    for password in java_support.PASSWORDS:
        assert password not in log


# ---- our client on an official bookie


@pytest.fixture(scope="module")
def official(fleet: JudgedFleet, home: Path, keys: Keys) -> Iterator[str]:
    """An official bookie with TLS and SASL, alone in a cluster; gives its URI."""
    uri = f"{fleet.uri}-official"
    assert "Successfully" in java_support.shell(uri, home, "initnewcluster")
    port = port_support.free_port()
    folder = home / "official"
    folder.mkdir()
    settings, log = folder / "bookie.conf", folder / "bookie.log"
    settings.write_text(
        f"metadataServiceUri={uri}\nbookiePort={port}\nadvertisedAddress=127.0.0.1\nallowLoopback=true\n"
        f"journalDirectory={folder}/journal\nledgerDirectories={folder}/ledgers\nhttpServerEnabled=false\n"
        "diskUsageThreshold=0.99\ndiskUsageWarnThreshold=0.98\n"
        f"tlsProviderFactoryClass={TLS_FACTORY}\ntlsProvider=JDK\ntlsKeyStoreType=PKCS12\n"
        f"tlsKeyStore={keys.store('official', 'bookie')}\ntlsKeyStorePasswordPath={keys.password}\n"
        f"tlsTrustStoreType=PEM\ntlsTrustStore={keys.trust}\ntlsClientAuthentication=true\n"
        "bookieAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory\n"
    )
    flags = [*java_support.SMALL_JVM, f"-Djava.security.auth.login.config={java_support.jaas_file(fleet.folder)}"]
    main = "org.apache.bookkeeper.server.Main"
    with java_fleet_support.java_server(main, ["-c", str(settings)], log, *flags) as process:
        java_fleet_support.wait_port(port, process, log)
        wait_support.wait_until(lambda: has_a_bookie(uri), "the official bookie's registration", timeout_s=120)
        yield uri


def has_a_bookie(uri: str) -> bool:
    with blocking.connect(uri) as client:
        try:
            client.create(ensemble_size=1, write_quorum=1, ack_quorum=1)  # contacts no bookie
        except errors.NotEnoughBookies:
            return False
    return True


def our_options(keys: Keys, **changes: object) -> dict[str, object]:
    tls = TlsOptions(
        key_store=keys.store("ours", "writer"),
        key_store_type="PKCS12",
        key_password_file=keys.password,
        trust_store=keys.trust,
        checks_host_name=False,  # its bookies are numbers, not names
    )
    user, password = java_support.SASL_USER, Secret(java_support.PASSWORDS[0])
    return {"tls": tls, "sasl_user": user, "sasl_password": password, **changes}


@pytest.mark.parametrize("version", [2, 3])
def test_we_are_served_by_an_official_bookie_that_wants_tls_and_a_password(
    official: str, keys: Keys, version: int
) -> None:
    with blocking.connect(official, **our_options(keys, protocol_version=version)) as client:
        with client.create(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer:
            for number in range(50):
                writer.append(b"entry %d" % number)
        with client.open(writer.id) as reader:
            assert [entry.payload for entry in reader.read(0, 49)] == [b"entry %d" % number for number in range(50)]


def test_an_official_bookie_refuses_our_wrong_password(official: str, keys: Keys) -> None:
    wrong = our_options(keys, sasl_password=Secret("guess"), dial_timeout_ms=1_000, ensemble_timeout_ms=2_000)
    with (
        blocking.connect(official, **wrong) as client,
        pytest.raises(errors.BookieError, match=r"AUTH|password|bookies"),
    ):
        client.create(ensemble_size=1, write_quorum=1, ack_quorum=1).append(b"not let in")
