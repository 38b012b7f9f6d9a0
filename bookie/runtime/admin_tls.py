"""The admin port over mutual TLS: reads certificates from a directory, and decides who may call.

    tls.crt, tls.key   this bookie's certificate (with those that vouch for it) and key, PEM
    ca.crt             who may vouch for callers; several while one takes over from another
    clients            names that are obeyed, one a line: the URI (or DNS name) in a caller's certificate

A caller must have a certificate that an authority in `ca.crt` issued for clients (checked in the handshake) and that
bears one of the names. Replaced files count for the next call, and for connections as soon as `admin_secure` has seen
them; unusable files are reported once, and the former ones stay in use. Must never log or answer a key.
"""

import contextlib
import datetime as dt
import logging
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bookie.base import errors
from bookie.runtime import given_file

log = logging.getLogger(__name__)

CERTIFICATE, KEY, AUTHORITIES, CLIENTS = "tls.crt", "tls.key", "ca.crt", "clients"
# A replacement is seen half done at most once: the files change together (a symbolic link), and are read one by one.
_READS = 3


@dataclass(frozen=True, slots=True)
class Files:
    """The directory's files as PEM; no repr shows the key."""

    certificate: bytes
    key: bytes
    authorities: bytes
    clients: frozenset[str]

    @property
    def shown(self) -> tuple[bytes, bytes, bytes]:
        """What a handshake depends on; who is obeyed is asked at each call."""
        return self.certificate, self.key, self.authorities

    def __repr__(self) -> str:
        return f"Files(clients={sorted(self.clients)})"


def read(directory: str) -> Files:
    """Read the files. Raises BadInput that names the file and what is wrong with it."""
    for attempt in range(_READS):
        files = _read_once(Path(directory))
        try:
            _check(files)
        except ValueError as error:
            if attempt == _READS - 1:
                raise errors.BadInput(f"adminTlsDirectory {directory} cannot be used: {error}") from None
        else:
            return files
    raise AssertionError("either returned or raised")


class Certificates:
    """The admin port's certificates of one bookie, which follow the files for as long as it runs."""

    def __init__(self, directory: str) -> None:
        """Read the directory once. Raises BadInput when its files cannot be used."""
        self._directory = directory
        self._files = read(directory)
        self._told = ""

    def current(self) -> Files:
        """Return the present files, or the last ones that could be used."""
        try:
            self._files = read(self._directory)
            self._told = ""
        except errors.BadInput as error:
            if str(error) != self._told:
                self._told = str(error)
                log.warning("certificates of the admin port not renewed, the former stay in use reason=%s", error)
        return self._files

    def name_of(self, certificate: bytes) -> str | None:
        """Return the name in this (verified) certificate; None when the certificate has expired or bears no name we
        obey."""
        try:
            found = x509.load_pem_x509_certificate(certificate)
            alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, x509.ExtensionNotFound):
            return None
        if not found.not_valid_before_utc <= dt.datetime.now(dt.UTC) <= found.not_valid_after_utc:
            return None
        names = [
            *alternatives.get_values_for_type(x509.UniformResourceIdentifier),
            *alternatives.get_values_for_type(x509.DNSName),
        ]
        obeyed = self.current().clients
        name = next((name for name in names if name in obeyed), None)
        process = next((str(part.value) for part in found.subject), "")
        return f"{name} ({process})" if name is not None and process else name


def _read_once(directory: Path) -> Files:
    texts = {}
    for name in (CERTIFICATE, KEY, AUTHORITIES, CLIENTS):
        try:
            texts[name] = given_file.read(directory / name)
        except OSError as error:
            raise errors.BadInput(
                f"adminTlsDirectory: {directory / name} cannot be read: {error.strerror}; it needs {CERTIFICATE},"
                f" {KEY}, {AUTHORITIES} and {CLIENTS}"
            ) from None
    clients = texts[CLIENTS].decode(errors="replace").split()
    return Files(texts[CERTIFICATE], texts[KEY], texts[AUTHORITIES], frozenset(clients))


def _check(files: Files) -> None:
    """Check that the files fit together. Raises ValueError with the reason: gRPC would close every connection without a
    word."""
    if not files.clients:
        raise ValueError(f"{CLIENTS} names nobody")
    certificate = _parsed(CERTIFICATE, files.certificate)
    _parsed(AUTHORITIES, files.authorities)
    try:
        key = serialization.load_pem_private_key(files.key, None)
    except (ValueError, TypeError):
        raise ValueError(f"{KEY} holds no key in PEM without a password") from None
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(encoding, form) != certificate.public_key().public_bytes(encoding, form):
        raise ValueError(f"{KEY} is not the key of {CERTIFICATE}")


def _parsed(name: str, text: bytes) -> x509.Certificate:
    with contextlib.suppress(ValueError):
        return x509.load_pem_x509_certificates(text)[0]
    raise ValueError(f"{name} holds no certificate in PEM")
