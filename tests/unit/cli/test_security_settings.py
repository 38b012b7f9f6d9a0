"""TLS and authentication as a Java fleet's bk_server.conf asks for them."""

import argparse
from pathlib import Path

import pytest

from bookie.base.errors import BadInput
from bookie.base.secret import Secret
from bookie.cli import security_settings, settings
from bookie.ports.tls import TlsOptions
from bookie.server.security import SecurityOptions

JAAS = """
Bookie { org.apache.zookeeper.server.auth.DigestLoginModule required user_bookkeeperuser="open-sesame" debug=true; };
BookKeeper { org.apache.zookeeper.server.auth.DigestLoginModule required username="bookkeeperself" password="own"; };
"""


def options_of(tmp_path: Path, text: str) -> SecurityOptions:
    path = tmp_path / "bk_server.conf"
    path.write_text(text)
    return security_settings.security_options(settings.load(argparse.Namespace(config=settings.SettingsFile(path)), {}))


def test_nothing_said_is_nothing_asked(tmp_path: Path) -> None:
    assert options_of(tmp_path, "") == SecurityOptions()


def test_java_s_names_for_tls_with_key_stores(tmp_path: Path) -> None:
    found = options_of(
        tmp_path,
        "tlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory\ntlsKeyStore=/k.jks\n"
        "tlsKeyStorePasswordPath=/k.pass\ntlsTrustStore=/t.p12\ntlsTrustStoreType=PKCS12\n"
        "tlsTrustStorePasswordPath=/t.pass\ntlsClientAuthentication=true\ntlsEnabledProtocols=TLSv1.2\n"
        "bookieAuthProviderFactoryClass=org.apache.bookkeeper.tls.BookieAuthZFactory\nauthorizedRoles=writer, reader\n",
    )

    keys = {"key_store": "/k.jks", "key_store_type": "JKS", "key_password_file": "/k.pass"}
    trust = {"trust_store": "/t.p12", "trust_store_type": "PKCS12", "trust_password_file": "/t.pass"}
    assert found.tls == TlsOptions(
        **keys, **trust, needs_client_certificate=True, checks_host_name=False, protocols=("TLSv1.2",)
    )
    # To other bookies it shows the same certificate, as a client.
    assert found.peer_tls == TlsOptions(**keys, **trust, checks_host_name=False, protocols=("TLSv1.2",))
    assert (found.provider, found.authorized_roles) == ("certificate", ("writer", "reader"))


def test_java_s_names_for_sasl(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(JAAS)

    found = options_of(
        tmp_path,
        "bookieAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory\n"
        "clientAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLClientProviderFactory\n"
        f"saslJaasFile={jaas}\n",
    )

    assert found.provider == "sasl"
    assert found.users == {"bookkeeperuser": Secret("open-sesame")}
    assert (found.peer_user, found.peer_password) == ("bookkeeperself", Secret("own"))
    assert "sesame" not in repr(found)


def test_commands_reach_bookies_as_a_bookie_with_these_settings_does() -> None:
    environment = {
        "BOOKIE_TLS_PROVIDER_FACTORY_CLASS": "org.apache.bookkeeper.tls.TLSContextFactory",
        "BOOKIE_TLS_KEY_STORE": "/k.pem",
        "BOOKIE_TLS_KEY_STORE_TYPE": "PEM",
        "BOOKIE_TLS_CERTIFICATE_PATH": "/c.pem",
        "BOOKIE_TLS_TRUST_STORE": "/t.pem",
        "BOOKIE_TLS_TRUST_STORE_TYPE": "PEM",
    }

    found = security_settings.client_options(settings.load(argparse.Namespace(), environment))
    plain = security_settings.client_options(settings.load(argparse.Namespace(), {}))

    # Without client authentication it has no need of the key.
    assert found["tls"] == TlsOptions(
        trust_store="/t.pem", trust_store_type="PEM", checks_host_name=False, key_store_type="PEM"
    )
    assert plain == {"tls": None, "sasl_user": "", "sasl_password": Secret("")}


def test_only_as_a_client_of_others_a_bookie_may_go_on_in_plain(tmp_path: Path) -> None:
    found = options_of(tmp_path, f"{TLS}tlsPeersMayBePlain=true\n")

    assert found.tls is not None
    assert found.peer_tls is not None
    assert (found.tls.may_be_plain, found.peer_tls.may_be_plain) == (False, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bookieAuthProviderFactoryClass=com.example.OwnAuth", "OwnAuth.*bk_server.conf:1.*class of somebody's own"),
        ("tlsProviderFactoryClass=com.example.OwnTls", "OwnTls"),
        ("bookieAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory", "saslJaasFile"),
        ("bookieAuthProviderFactoryClass=org.apache.bookkeeper.tls.BookieAuthZFactory", "tlsClientAuthentication"),
        ("tlsRequired=true", "TLS is required"),
    ],
)
def test_what_would_protect_nothing_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        options_of(tmp_path, text)


TLS = "tlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory\ntlsKeyStore=/k.jks\n"


@pytest.mark.parametrize(
    ("asked", "taken", "left_out"),
    [
        ("TLSv1.2,TLSv1.1", ("TLSv1.2",), "TLSv1.1"),
        (
            "TLSv1.3, TLSv1.2 ,TLSv1.1,TLSv1,SSLv3,SSLv2Hello",
            ("TLSv1.2", "TLSv1.3"),
            "TLSv1.1, TLSv1, SSLv3, SSLv2Hello",
        ),
        ("TLSv1.4,TLSv1.3", ("TLSv1.3",), "TLSv1.4"),
        ("TLSv1.3", ("TLSv1.3",), ""),
    ],
)
def test_versions_of_tls_that_cannot_be_had_are_left_out_with_a_warning(
    tmp_path: Path, asked: str, taken: tuple[str, ...], left_out: str
) -> None:
    found = options_of(tmp_path, f"{TLS}tlsEnabledProtocols={asked}\n")

    assert found.tls is not None
    assert found.tls.protocols == taken
    assert found.peer_tls is not None
    assert found.peer_tls.protocols == taken
    loaded = settings.load(argparse.Namespace(config=settings.SettingsFile(tmp_path / "bk_server.conf")), {})
    assert [f"tlsEnabledProtocols: {left_out} is not spoken here" in warning for warning in loaded.warnings] == [
        True
    ] * bool(left_out)


def test_versions_of_tls_of_which_none_can_be_had_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"tlsEnabledProtocols: TLSv1.1, TLSv1; TLSv1.2 and TLSv1.3 are possible"):
        options_of(tmp_path, f"{TLS}tlsEnabledProtocols=TLSv1.1,TLSv1\n")
