"""Names of cipher suites, and subjects of certificates, as OpenSSL and Java write them."""

import ssl

import pytest

from bookie.ports.tls import Certificate
from bookie.runtime import tls


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


def test_a_subject_gives_its_name_and_units() -> None:
    subject = ((("organizationalUnitName", "0:writer"),), (("organizationalUnitName", "x"), ("commonName", "me")))

    assert tls.certificate_of({"subject": subject}) == Certificate("me", ("0:writer", "x"))
    assert tls.certificate_of({"subject": ()}) == Certificate("")
    assert tls.certificate_of({}) is None
    assert tls.certificate_of(None) is None
