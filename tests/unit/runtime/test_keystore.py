"""Key stores of Java fleets: JKS as keytool wrote it, PKCS12, PEM; and what a wrong one is told."""

import base64
import dataclasses
import hashlib
import struct
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from hypothesis import given
from hypothesis import strategies as st

import tls_support
from bookie.base import errors
from bookie.ports.tls import TlsOptions
from bookie.runtime import keystore
from tls_support import Authority

# keytool 17: -genkeypair -keyalg EC -groupname secp256r1 -dname "CN=fixture, OU=0:bookie" -storetype JKS, and the
# same certificate imported as a trusted one. Made for this test; the key opens nothing.
KEY_JKS = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAQAGYm9va2llAAABof+kaAEAAAB/MH0wDgYKKwYBBAEqAhEBAQUABGsKVBsIaPpeorJVvDtBZwolpn7pki/7qztk"
    "sXnCbn7x0UO2ZA9zL8C9kPP7VD6iSonvbMzhhktG4CT7FjVNtSadOyI5AQO9Ze2+ZVb7zlZP653zZRult4FAuch2lj6bH8lJ7Fu1BAp3XrI4"
    "5AAAAAEABVguNTA5AAABZzCCAWMwggEJoAMCAQICCHm19g/iM2ubMAoGCCqGSM49BAMCMCUxETAPBgNVBAsTCDA6Ym9va2llMRAwDgYDVQQD"
    "EwdmaXh0dXJlMCAXDTI2MTEyMTE5NDUyNloYDzIxMjYxMDI4MTk0NTI2WjAlMREwDwYDVQQLEwgwOmJvb2tpZTEQMA4GA1UEAxMHZml4dHVy"
    "ZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHR2HnOpDSyc/UMW6tHSOdLA1L1IylEVay+3K6picJTe3lsafH79/L/DUswpVeqw7cVi4fsN"
    "r9e39AwRXym74C6jITAfMB0GA1UdDgQWBBRCsxj1Y2Qn5JLfAS4ifxBeta5dHzAKBggqhkjOPQQDAgNIADBFAiEAgXvCG7rozDdKPuWW3h/l"
    "/h49GyThXrslraZNfOo3QOQCIAw0EEHENzrk1lWhfDHkxpJWNOeMBv9PbM1rCPI2rSJ1ESwzrhmsgVIQj1hrLayDMwZVKHU="
)
TRUST_JKS = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAgACY2EAAAGh/6Rr2QAFWC41MDkAAAFnMIIBYzCCAQmgAwIBAgIIebX2D+Iza5swCgYIKoZIzj0EAwIwJTERMA8G"
    "A1UECxMIMDpib29raWUxEDAOBgNVBAMTB2ZpeHR1cmUwIBcNMjYxMTIxMTk0NTI2WhgPMjEyNjEwMjgxOTQ1MjZaMCUxETAPBgNVBAsTCDA6"
    "Ym9va2llMRAwDgYDVQQDEwdmaXh0dXJlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEdHYec6kNLJz9Qxbq0dI50sDUvUjKURVrL7crqmJw"
    "lN7eWxp8fv38v8NSzClV6rDtxWLh+w2v17f0DBFfKbvgLqMhMB8wHQYDVR0OBBYEFEKzGPVjZCfkkt8BLiJ/EF61rl0fMAoGCCqGSM49BAMC"
    "A0gAMEUCIQCBe8IbuujMN0o+5ZbeH+X+Hj0bJOFeuyWtpk186jdA5AIgDDQQQcQ3OuTWVaF8MeTGklY054wG/09szWsI8jatInXyVmkUg7t8"
    "MzzgEt/weuVqTk/5MA=="
)
JKS_PASSWORD = "changeit"


def test_a_jks_store_of_keytool_opens() -> None:
    key, chain = keystore.open_jks(KEY_JKS, JKS_PASSWORD)

    private = serialization.load_der_private_key(key, None)
    certificate = x509.load_der_x509_certificate(chain[0])
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert certificate.public_key() == private.public_key()
    assert certificate.subject.rfc4514_string() == "CN=fixture,OU=0:bookie"
    assert keystore.open_jks(TRUST_JKS, JKS_PASSWORD) == (b"", chain)


@pytest.mark.parametrize("store", [KEY_JKS, TRUST_JKS])
def test_a_jks_store_wants_its_password_and_every_bit(store: bytes) -> None:
    with pytest.raises(ValueError, match="digest"):
        keystore.open_jks(store, "changeit2")
    for at in range(0, len(store), 7):
        flipped = bytearray(store)
        flipped[at] ^= 1
        with pytest.raises(ValueError, match="digest"):
            keystore.open_jks(bytes(flipped), JKS_PASSWORD)


def test_a_store_without_a_certificate_to_trust_is_refused(tmp_path: Path) -> None:
    """OpenSSL would take it, and refuse everybody in the handshake."""
    body = bytes.fromhex("feedfeed 00000002 00000000")
    digest = hashlib.sha1(JKS_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False).digest()
    (tmp_path / "trust.jks").write_bytes(body + digest)
    (tmp_path / "password").write_text(JKS_PASSWORD)
    options = TlsOptions(
        trust_store=str(tmp_path / "trust.jks"),
        trust_store_type="JKS",
        trust_password_file=str(tmp_path / "password"),
    )

    with pytest.raises(errors.BadInput, match="holds no certificate to trust"):
        keystore.load(options)


def sealed_store(protected: bytes, password: str = "") -> bytes:
    """A JKS store with one key, which `protected` is, and no certificate."""
    entry = struct.pack(">IHQI", 1, 0, 0, len(protected)) + protected + struct.pack(">I", 0)
    return signed(b"\xfe\xed\xfe\xed" + struct.pack(">II", 2, 1) + entry, password)


def signed(body: bytes, password: str = "") -> bytes:
    secret = password.encode("utf-16-be")
    return body + hashlib.sha1(secret + b"Mighty Aphrodite" + body, usedforsecurity=False).digest()


def der(tag: int, contents: bytes) -> bytes:
    size = len(contents)
    length = bytes([size]) if size < 0x80 else bytes([0x82]) + size.to_bytes(2, "big")
    return bytes([tag]) + length + contents


def test_a_long_key_of_jks_is_read(tmp_path: Path) -> None:
    """One of RSA has more bytes than one byte can say; keytool's own protection, by the book."""
    key, secret = bytes(range(256)) * 5, "pass".encode("utf-16-be")
    salt = block = bytes(20)
    stream = b""
    while len(stream) < len(key):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    check = hashlib.sha1(secret + key, usedforsecurity=False).digest()
    algorithm = der(0x30, der(0x06, bytes.fromhex("2b060104012a02110101")) + der(0x05, b""))
    sealed = salt + bytes(a ^ b for a, b in zip(key, stream, strict=False)) + check

    store = sealed_store(der(0x30, algorithm + der(0x04, sealed)), "pass")

    assert keystore.open_jks(store, "pass") == (key, [])


def test_a_key_under_another_password_or_protection_is_called_that() -> None:
    with pytest.raises(ValueError, match="the key has another password than the store"):
        keystore.open_jks(signed(KEY_JKS[:-20], "other"), "other")

    other = KEY_JKS[:-20].replace(bytes.fromhex("2b060104012a02110101"), bytes.fromhex("2b060104012a02110102"))
    with pytest.raises(ValueError, match="a protection that JKS does not have"):
        keystore.open_jks(signed(other, JKS_PASSWORD), JKS_PASSWORD)


@pytest.mark.parametrize(
    "store",
    [
        sealed_store(bytes.fromhex("307f00")),
        signed(bytes.fromhex("feedfeed 00000002 00000001 00000002 ffff 00") + bytes(20)),
    ],
    ids=["in its key", "in an alias"],
)
def test_a_store_that_is_cut_within_says_so(store: bytes) -> None:
    with pytest.raises(ValueError, match="it is cut"):
        keystore.open_jks(store, "")


def test_both_versions_of_jks_are_read_and_no_other(tmp_path: Path) -> None:
    """The first one wrote no type beside a certificate."""
    _, (certificate,) = keystore.open_jks(TRUST_JKS, JKS_PASSWORD)

    def store(version: int, kind: int = 2) -> bytes:
        entry = struct.pack(">IHQI", kind, 0, 0, len(certificate)) + certificate
        body = b"\xfe\xed\xfe\xed" + struct.pack(">II", version, 1) + entry
        return signed(body)

    assert keystore.open_jks(store(1), "") == (b"", [certificate])
    with pytest.raises(ValueError, match="JKS version 3"):
        keystore.open_jks(store(3), "")
    with pytest.raises(ValueError, match="an entry of kind 3"):
        keystore.open_jks(store(1, kind=3), "")


def test_authorities_that_vouch_for_each_other_are_shown_once_each(tmp_path: Path) -> None:
    """As after two fleets became one; a chain without an end would be looked for for ever."""
    one, other = Authority("one"), Authority("other")
    bookie = one.issue("bookie")
    store = tmp_path / "store.p12"
    vouching = [other.vouch_for(one), one.vouch_for(other)]
    sealed = serialization.BestAvailableEncryption(tls_support.PASSWORD.encode())
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"bookie", bookie.key, bookie.certificate, vouching, sealed)
    )
    password = tls_support.password_file(tmp_path)

    found = keystore.load(TlsOptions(key_store=str(store), key_store_type="PKCS12", key_password_file=password))

    assert x509.load_pem_x509_certificates(found.chain) == [bookie.certificate, *vouching]


def test_a_root_ends_the_chain_that_is_shown_whoever_has_its_name(tmp_path: Path) -> None:
    root, namesake = Authority(), Authority()
    bookie = root.issue("bookie")
    store = tmp_path / "store.p12"
    sealed = serialization.BestAvailableEncryption(tls_support.PASSWORD.encode())
    others = [root.certificate, namesake.certificate]
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"bookie", bookie.key, bookie.certificate, others, sealed))
    password = tls_support.password_file(tmp_path)

    found = keystore.load(TlsOptions(key_store=str(store), key_store_type="PKCS12", key_password_file=password))

    assert x509.load_pem_x509_certificates(found.chain) == [bookie.certificate, root.certificate]


@pytest.mark.parametrize(
    "body",
    ["feedfeed", "feedfeed 00000002 00000001 00000001 0000 0000000000000000 00000000"],
    ids=["cut", "a key of no bytes"],
)
def test_a_store_whose_digest_is_right_and_whose_layout_is_not_is_told(tmp_path: Path, body: str) -> None:
    data = bytes.fromhex(body)
    digest = hashlib.sha1(b"Mighty Aphrodite" + data, usedforsecurity=False).digest()
    store = tmp_path / "store.jks"
    store.write_bytes(data + digest)

    with pytest.raises(errors.BadInput, match=r"tlsKeyStore .*store\.jks cannot be opened"):
        keystore.load(TlsOptions(key_store=str(store), key_store_type="JKS"))


def test_a_password_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    store, password = tmp_path / "store.jks", tmp_path / "password"
    store.write_bytes(KEY_JKS)
    password.write_bytes(b"\xff\xfe")
    options = TlsOptions(key_store=str(store), key_store_type="JKS", key_password_file=str(password))

    with pytest.raises(errors.BadInput, match=r"tlsKeyStorePasswordPath .*password is not a text"):
        keystore.load(options)


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_stumble(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    store = tmp_path_factory.mktemp("store") / "store.jks"
    for content in (data, b"\xfe\xed\xfe\xed" + data, KEY_JKS[: len(data)]):
        store.write_bytes(content)

        with pytest.raises(errors.BadInput, match=r"store\.jks"):
            keystore.load(TlsOptions(key_store=str(store), key_store_type="JKS"))


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_a_pkcs12_store_opens_under_either_type_name_as_in_java(tmp_path: Path, kind: str) -> None:
    authority = Authority()
    identity = authority.issue("bookie")
    store = identity.pkcs12(tmp_path)
    password = tls_support.password_file(tmp_path)

    found = keystore.load(TlsOptions(key_store=store, key_store_type=kind, key_password_file=password))

    private = serialization.load_pem_private_key(found.key, None)
    chain = x509.load_pem_x509_certificates(found.chain)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.private_numbers() == identity.key.private_numbers()
    assert chain == [identity.certificate, authority.certificate]


def test_of_a_pkcs12_store_a_bookie_shows_its_chain_alone_and_trusts_all_that_is_in_it(tmp_path: Path) -> None:
    """Whose authority is kept beside the key is nobody's business in a handshake; in a trust store it is the point."""
    authority, another = Authority(), Authority("another authority")
    identity = authority.issue("bookie")
    sealed = serialization.BestAvailableEncryption(tls_support.PASSWORD.encode())
    extra = [another.certificate, authority.certificate]
    store = pkcs12.serialize_key_and_certificates(b"bookie", identity.key, identity.certificate, extra, sealed)
    trust = pkcs12.serialize_key_and_certificates(None, None, None, extra, sealed)
    (tmp_path / "keys.p12").write_bytes(store)
    (tmp_path / "trust.p12").write_bytes(trust)
    password = tls_support.password_file(tmp_path)

    found = keystore.load(
        TlsOptions(
            key_store=str(tmp_path / "keys.p12"),
            key_store_type="PKCS12",
            key_password_file=password,
            trust_store=str(tmp_path / "trust.p12"),
            trust_store_type="PKCS12",
            trust_password_file=password,
        )
    )

    assert x509.load_pem_x509_certificates(found.chain) == [identity.certificate, authority.certificate]
    assert x509.load_pem_x509_certificates(found.trusted) == extra


def test_a_jks_store_becomes_pem(tmp_path: Path) -> None:
    keys, trust, password = tmp_path / "keys", tmp_path / "trust", tmp_path / "password"
    keys.write_bytes(KEY_JKS)
    trust.write_bytes(TRUST_JKS)
    password.write_text(f" {JKS_PASSWORD}\n")
    options = TlsOptions(
        key_store=str(keys),
        key_store_type="JKS",
        key_password_file=str(password),
        trust_store=str(trust),
        trust_store_type="JKS",
        trust_password_file=str(password),
    )

    found = keystore.load(options)

    assert x509.load_pem_x509_certificates(found.trusted) == x509.load_pem_x509_certificates(found.chain)
    serialization.load_pem_private_key(found.key, None)


def test_what_is_wrong_with_a_store_is_said_without_its_password(tmp_path: Path) -> None:
    keys, password = tmp_path / "keys", tmp_path / "password"
    keys.write_bytes(KEY_JKS)
    password.write_text("not-the-password")
    wrong = TlsOptions(key_store=str(keys), key_store_type="JKS", key_password_file=str(password))

    with pytest.raises(errors.BadInput, match="wrong password") as caught:
        keystore.load(wrong)
    assert "not-the-password" not in str(caught.value)

    keys.write_bytes(TRUST_JKS)
    password.write_text(JKS_PASSWORD)
    with pytest.raises(errors.BadInput, match="holds no private key"):
        keystore.load(wrong)
    with pytest.raises(errors.BadInput, match="/nowhere cannot be read"):
        keystore.load(dataclasses.replace(wrong, key_store="/nowhere"))


@pytest.mark.parametrize("setting", ["tlsKeyStore", "tlsCertificatePath", "tlsTrustStore"])
def test_a_pem_file_with_nothing_in_it_is_told_by_its_setting(setting: str, tmp_path: Path) -> None:
    """OpenSSL takes it, and then no handshake succeeds."""
    good = tls_support.options(tmp_path, authority := Authority(), authority.issue("bookie"))
    empty = tmp_path / "empty"
    empty.write_text("\n")
    field = {"tlsKeyStore": "key_store", "tlsCertificatePath": "certificate", "tlsTrustStore": "trust_store"}[setting]

    with pytest.raises(errors.BadInput, match=f"{setting} {empty} holds nothing in PEM form"):
        keystore.load(dataclasses.replace(good, **{field: str(empty)}))


def test_loaded_keys_do_not_print(tmp_path: Path) -> None:
    options = tls_support.options(tmp_path, authority := Authority(), authority.issue("bookie"))

    found = keystore.load(options)

    assert b"PRIVATE" in found.key
    assert "PRIVATE" not in repr(found)
