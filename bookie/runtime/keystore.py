"""Reads keys and certificates as Java fleets keep them: PEM files, PKCS12 stores, and JKS stores in Sun's old format.

All become PEM, which is what Python's `ssl` takes. JKS is read here (its layout and its key protection have not
changed since 1998, and no maintained library reads them); PKCS12 is read by `cryptography`. Java itself opens a PKCS12
store under the type name JKS, so a store is told by its first bytes. Never writes a file, never logs a password.

    JKS: magic feedfeed u32, version u32, count u32, entries, SHA-1 of (password, "Mighty Aphrodite", all before)
    key entry (1): alias, date u64, encrypted key, chain      certificate entry (2): alias, date u64, certificate
"""

import base64
import datetime as dt
import hashlib
import hmac
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bookie.base import errors, extras
from bookie.ports.tls import TlsOptions
from bookie.runtime import given_file

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_JKS_WHITENER = b"Mighty Aphrodite"
_DIGEST_SIZE = 20
# 1.3.6.1.4.1.42.2.17.1.1: Sun's own key protection, the only one in JKS.
_SUN_KEY_PROTECTOR = bytes.fromhex("2b060104012a02110101")
_U16, _U32, _DATE = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">Q")


Validity = tuple[dt.datetime, dt.datetime]


@dataclass(frozen=True, slots=True)
class Material:
    """PEM texts. `key` and `chain` are empty for a side without a certificate of its own."""

    key: bytes = field(default=b"", repr=False)
    key_password: str = field(default="", repr=False)
    chain: bytes = b""
    trusted: bytes = b""


def certificates(pem: bytes) -> list[Any]:
    """Return the certificates in `pem`, of the package `cryptography`. None where that is not installed: it is an
    extra; and none where it cannot read them: OpenSSL, which uses them, judges them."""
    if not pem:
        return []
    try:
        from cryptography import x509
    except ImportError:
        return []
    try:
        return list(x509.load_pem_x509_certificates(pem))
    except ValueError:
        return []


def validity(material: Material) -> Validity | None:
    """Return from when until when our own certificate is valid, in UTC; None without one, or where it cannot be
    told."""
    own = certificates(material.chain)
    return (own[0].not_valid_before_utc, own[0].not_valid_after_utc) if own else None


def load(options: TlsOptions) -> Material:
    """Read everything that `options` name. Raises BadInput naming the file and the reason."""
    named = options.named
    key, key_password, chain, trusted = b"", "", b"", b""
    if options.key_store:
        password = _password(f"{named}KeyStorePasswordPath", options.key_password_file)
        if options.key_store_type == "PEM":
            key, key_password = _read_pem(f"{named}KeyStore", options.key_store), password
            chain = _read_pem(f"{named}CertificatePath", options.certificate)
        else:
            found, certificates = _open_store(f"{named}KeyStore", options.key_store, password)
            if not found:
                raise errors.BadInput(
                    f"{named}KeyStore {options.key_store} holds no private key: name the store that does"
                )
            key, chain = _pem("PRIVATE KEY", [found]), _pem("CERTIFICATE", certificates)
    if options.trust_store:
        if options.trust_store_type == "PEM":
            trusted = _read_pem(f"{named}TrustStore", options.trust_store)
        else:
            password = _password(f"{named}TrustStorePasswordPath", options.trust_password_file)
            _, certificates = _open_store(f"{named}TrustStore", options.trust_store, password)
            if not certificates:
                raise errors.BadInput(f"{named}TrustStore {options.trust_store} holds no certificate to trust")
            trusted = _pem("CERTIFICATE", certificates)
    return Material(key, key_password, chain, trusted)


def _read(setting: str, path: str) -> bytes:
    try:
        return given_file.read(path)
    except OSError as error:
        raise errors.BadInput(f"{setting} {path} cannot be read: {error.strerror}") from None


def _read_pem(setting: str, path: str) -> bytes:
    """Return the text of the file. Refuse an empty one: OpenSSL would take it, and then fail in each handshake."""
    text = _read(setting, path)
    if b"-----BEGIN " not in text:
        raise errors.BadInput(
            f"{setting} {path} holds nothing in PEM form (no -----BEGIN): correct the file, or its type"
        )
    return text


def _password(setting: str, path: str) -> str:
    """Return the password in the file at `path`, without spaces and line ends around it, as in Java."""
    try:
        return _read(setting, path).decode().strip() if path else ""
    except UnicodeDecodeError:
        raise errors.BadInput(f"{setting} {path} is not a text: it should hold a password") from None


def _pem(label: str, ders: Iterable[bytes]) -> bytes:
    lines = []
    for der in ders:
        text = base64.b64encode(der).decode()
        lines += [f"-----BEGIN {label}-----", *(text[at : at + 64] for at in range(0, len(text), 64))]
        lines.append(f"-----END {label}-----")
    return "\n".join([*lines, ""]).encode()


def _open_store(setting: str, path: str, password: str) -> tuple[bytes, list[bytes]]:
    """Return (private key as PKCS#8 DER or b"", certificates as DER: first the key's own chain, from its leaf up)."""
    data = _read(setting, path)
    try:
        if data.startswith(_JKS_MAGIC):
            return open_jks(data, password)
        return _open_pkcs12(data, password)
    except (ValueError, struct.error, IndexError) as error:
        # Texts of these errors are about formats; none has a secret in it.
        raise errors.BadInput(
            f"{setting} {path} cannot be opened: {error} (wrong password, or not a JKS or PKCS12 store)"
        ) from None


# ---- PKCS12


def _open_pkcs12(data: bytes, password: str) -> tuple[bytes, list[bytes]]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise errors.BadInput(
            f"PKCS12 stores need the package cryptography: {extras.INSTALL.format('bookie')}, or use PEM files"
        ) from None
    store = pkcs12.load_pkcs12(data, password.encode())
    others = [found.certificate for found in store.additional_certs]
    chain = [] if store.cert is None else _chain(store.cert.certificate, others)
    certificates = [*chain, *others]  # OpenSSL passes over what it has already
    key = b""
    if store.key is not None:
        key = store.key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificates = chain  # a bookie shows its chain and nothing else it happens to keep
    return key, [one.public_bytes(serialization.Encoding.DER) for one in certificates]


def _chain(leaf: Any, others: list[Any]) -> list[Any]:
    """Return `leaf` and its issuers among `others`, in the order in which TLS wants them."""
    chain = [leaf]
    while chain[-1].issuer != chain[-1].subject:
        issuers = [other for other in others if other.subject == chain[-1].issuer and other not in chain]
        if not issuers:
            break
        chain.append(issuers[0])
    return chain


# ---- JKS


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def number(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return int(value)

    def bytes(self, form: struct.Struct) -> bytes:
        size = self.number(form)
        found = self.data[self.at : self.at + size]
        if len(found) != size:
            raise ValueError("it is cut")
        self.at += size
        return found


def open_jks(data: bytes, password: str) -> tuple[bytes, list[bytes]]:
    """Return the first private key of a JKS store with its chain, else all its certificates. Raises ValueError."""
    secret = password.encode("utf-16-be")
    body, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    whole = hashlib.sha1(secret + _JKS_WHITENER + body, usedforsecurity=False).digest()
    if not hmac.compare_digest(whole, digest):
        raise ValueError("its digest does not match the password")
    reader = _Reader(body, len(_JKS_MAGIC))
    version = reader.number(_U32)
    if version not in (1, 2):
        raise ValueError(f"JKS version {version}")
    trusted = []
    for _ in range(reader.number(_U32)):
        kind = reader.number(_U32)
        reader.bytes(_U16)  # alias
        reader.number(_DATE)
        if kind == 1:
            key = _unprotect(reader.bytes(_U32), secret)
            return key, [_certificate(reader, version) for _ in range(reader.number(_U32))]
        if kind != 2:
            raise ValueError(f"an entry of kind {kind}")
        trusted.append(_certificate(reader, version))
    return b"", trusted


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == 2:
        reader.bytes(_U16)  # "X.509"
    return reader.bytes(_U32)


def _unprotect(protected: bytes, secret: bytes) -> bytes:
    """Decrypt a key under Sun's protection: salt, key XOR (SHA-1(secret, salt), SHA-1(secret, the one before), ...),
    SHA-1(secret, key)."""
    _, inside, _ = _der(protected, 0)
    _, algorithm, after = _der(protected, inside)
    _, oid, oid_end = _der(protected, algorithm)
    if protected[oid:oid_end] != _SUN_KEY_PROTECTOR:
        raise ValueError("a key under a protection that JKS does not have")
    _, start, end = _der(protected, after)
    sealed = protected[start:end]
    salt, sealed, check = sealed[:_DIGEST_SIZE], sealed[_DIGEST_SIZE:-_DIGEST_SIZE], sealed[-_DIGEST_SIZE:]
    stream, block = bytearray(), salt
    while len(stream) < len(sealed):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(sealed, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise ValueError("the key has another password than the store")
    return key


def _der(data: bytes, at: int) -> tuple[int, int, int]:
    """Return (tag, start of the contents, end) of the DER element at `at`."""
    tag, size, start = data[at], data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(data[start : start + count], "big")
        start += count
    if start + size > len(data):
        raise ValueError("it is cut")
    return tag, start, start + size
