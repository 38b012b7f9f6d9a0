"""Names of cipher suites, and subjects of certificates, as OpenSSL and Java write them."""

import ssl

import pytest

from bookie.ports.tls import Certificate, TlsOptions
from bookie.runtime import tls
from bookie.runtime.keystore import Material


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_java_s_names_of_cipher_suites_are_understood(java: str, openssl: str) -> None:
    assert tls.openssl_cipher(java) == openssl
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl)  # OpenSSL knows it


def test_suites_of_tls_1_3_alone_shut_out_older_versions() -> None:
    # Java's file lists them beside the others; OpenSSL does not choose among them, and refuses a list of nothing else.
    def context(*ciphers: str) -> ssl.SSLContext:
        return tls.make_context(TlsOptions(ciphers=ciphers), Material(), is_server=False)

    assert context("TLS_AES_256_GCM_SHA384").minimum_version is ssl.TLSVersion.TLSv1_3
    mixed = context("TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert mixed.minimum_version is ssl.TLSVersion.TLSv1_2
    old = [cipher["name"] for cipher in mixed.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert old == ["ECDHE-RSA-AES128-GCM-SHA256"]


def test_a_subject_gives_its_name_and_units() -> None:
    subject = ((("organizationalUnitName", "0:writer"),), (("organizationalUnitName", "x"), ("commonName", "me")))

    assert tls.certificate_of({"subject": subject}) == Certificate("me", ("0:writer", "x"))
    assert tls.certificate_of({"subject": ()}) == Certificate("")
    assert tls.certificate_of({}) is None
    assert tls.certificate_of(None) is None
