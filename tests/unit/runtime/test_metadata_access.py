"""What the settings of the metadata store's security mean: Java's names, ZooKeeper's own, and files of secrets."""

from pathlib import Path

import pytest

from bookie import connect
from bookie.base.errors import BadInput
from bookie.base.secret import Secret
from bookie.ports.metadata_store import MetadataSecurity
from bookie.ports.tls import TlsOptions
from bookie.runtime import keystore
from bookie.runtime.tls import certificate_remedy

JAAS = """
Bookie { Module required user_a="1"; };
Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="bookie" password="p w"; };
Mine { Module required username="me" password="mine"; };
Kerberos { com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true"; };
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jaas.conf").write_text(JAAS)
    (tmp_path / "digest").write_text("bookie:secret\n")
    return tmp_path


def read(folder: Path, text: str) -> MetadataSecurity:
    (folder / "settings").write_text(text.replace("@", str(folder)) + "\nbookiePort=3181\njournalDirectories=/j\n")
    return connect.metadata_security(str(folder / "settings"))


def test_nothing_said_is_nobody(folder: Path) -> None:
    assert read(folder, "") == MetadataSecurity()
    assert read(folder, "zkEnableSecurity=false") == MetadataSecurity()


def test_who_has_java_s_section_proves_who_he_is(folder: Path) -> None:
    ours = MetadataSecurity("bookie", Secret("p w"))

    assert read(folder, "saslJaasFile=@/jaas.conf") == ours
    assert read(folder, "zkJaasFile=@/jaas.conf") == ours
    assert read(folder, "saslJaasFile=@/jaas.conf\nzkEnableSecurity=true").creator_acl
    assert read(folder, "saslJaasFile=@/jaas.conf\nzookeeper.sasl.clientconfig=Mine").sasl_user == "me"
    (folder / "other.conf").write_text('Bookie { Module required user_a="1"; };')
    assert read(folder, "saslJaasFile=@/other.conf") == MetadataSecurity()


def test_a_digest_credential_comes_from_a_file(folder: Path) -> None:
    found = read(folder, "zkDigestFile=@/digest\nzkEnableSecurity=true")

    assert found == MetadataSecurity(digest=Secret("bookie:secret"), creator_acl=True)
    assert "secret" not in repr(found).replace("<secret>", "")


def test_zookeeper_s_names_for_tls(folder: Path) -> None:
    found = read(
        folder,
        "zookeeper.client.secure=true\nzookeeper.ssl.keyStore.location=/k.jks\n"
        "zookeeper.ssl.keyStore.passwordPath=/k.pass\nzookeeper.ssl.trustStore.location=/t.pem\n"
        "zookeeper.ssl.hostnameVerification=false\n",
    )

    assert found.tls == TlsOptions(
        key_store="/k.jks",
        key_store_type="JKS",
        certificate="/k.jks",
        key_password_file="/k.pass",
        trust_store="/t.pem",
        checks_host_name=False,
    )
    assert read(folder, "zkTlsEnabled=true").tls == TlsOptions()
    assert read(folder, "zkTlsTrustStore=/t.p12\nzkTlsEnabled=true").tls == TlsOptions(
        trust_store="/t.p12", trust_store_type="PKCS12"
    )
    assert read(folder, "zkTlsTrustStore=/t.pem").tls is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("zkEnableSecurity=true", "zkEnableSecurity=true without a user"),
        ("zkJaasSectionName=Mine", "zkJaasSectionName needs zkJaasFile"),
        ("saslJaasFile=@/jaas.conf\nzkJaasSectionName=Nobody", "has no section Nobody"),
        ("zkJaasFile=@/jaas.conf\nzkJaasSectionName=Kerberos", "no username and no password"),
        ("zkJaasFile=@/none", "zkJaasFile: .*none cannot be read"),
        ("saslJaasFile=@/none", "saslJaasFile: .*none cannot be read"),
        ("zkDigestFile=@/none", "zkDigestFile: .*none cannot be read"),
        ("zkDigestFile=@/settings", "does not hold USER:PASSWORD"),
        ("zkTlsEnabled=perhaps", "zkTlsEnabled is 'perhaps'"),
        ("zkTlsEnabled=true\nzkTlsTrustStoreType=ODD", "zkTlsTrustStoreType is 'ODD'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(folder: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        read(folder, text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("zkTlsTrustStore=@/none", "zkTlsTrustStore .*none cannot be read"),
        ("zkTlsTrustStore=@/settings", "zkTlsTrustStore .*settings holds nothing in PEM form"),
        ("zkTlsTrustStore=@/none.jks\nzkTlsTrustStorePasswordPath=@/none", "zkTlsTrustStorePasswordPath .*none cannot"),
        ("zkTlsKeyStore=@/none", "zkTlsKeyStore .*none cannot be read"),
        ("zkTlsKeyStore=@/none.jks\nzkTlsKeyStorePasswordPath=@/none", "zkTlsKeyStorePasswordPath .*none cannot"),
    ],
)
def test_a_key_store_for_zookeeper_is_told_by_the_setting_that_names_it(folder: Path, text: str, told: str) -> None:
    options = read(folder, f"zkTlsEnabled=true\n{text}").tls
    assert options is not None

    with pytest.raises(BadInput, match=told):
        keystore.load(options)


def test_what_to_try_with_zookeepers_certificate_is_told_by_zookeepers_settings(folder: Path) -> None:
    options = read(folder, "zkTlsEnabled=true").tls
    assert options is not None

    unable_to_get_issuer, another_name = 20, 62
    assert "(zkTlsTrustStore)" in certificate_remedy(unable_to_get_issuer, options)
    assert "zkTlsHostnameVerificationEnabled=false" in certificate_remedy(another_name, options)
