"""Encryption of a byte stream: the key files, and the proven name of the other side.

`TlsOptions` names files and never holds a secret; `Network.load_tls` makes a `Tls` of it, which `ByteStream.start_tls`
uses. Only the runtime reads the files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from bookie.base import errors

STORE_TYPES = ("PEM", "JKS", "PKCS12")
PROTOCOLS = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """One side's keys and trust, by the meaning that Java's tls* settings give them (TLSContextFactory.java).

    PEM: `key_store` is the private key and `certificate` its chain; JKS and PKCS12 have both in `key_store`. Passwords
    are in files, as in Java; "" is no file. `needs_client_certificate`: a server asks for one and refuses who has none.
    `checks_host_name`: a client wants the bookie's certificate to name the host it dialled. `may_be_plain`: a client
    goes on in plain with a bookie that says it has no TLS; whoever is on the way can make it say so. `named`: what the
    settings that say all this begin with, for what a person is told.
    """

    key_store: str = ""
    key_store_type: str = "PEM"
    certificate: str = ""
    key_password_file: str = ""
    trust_store: str = ""
    trust_store_type: str = "PEM"
    trust_password_file: str = ""
    needs_client_certificate: bool = False
    checks_host_name: bool = True
    may_be_plain: bool = False
    protocols: tuple[str, ...] = PROTOCOLS
    ciphers: tuple[str, ...] = ()
    named: str = field(default="tls", compare=False)

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise errors.BadInput("TLS: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        for name, kind in (
            (f"{self.named}KeyStoreType", self.key_store_type),
            (f"{self.named}TrustStoreType", self.trust_store_type),
        ):
            if kind not in STORE_TYPES:
                yield f"{name} is {kind!r}, one of {', '.join(STORE_TYPES)} is possible"
        if self.key_store and self.key_store_type == "PEM" and not self.certificate:
            yield f"a PEM key needs its certificate: set {self.named}CertificatePath"
        if self.needs_client_certificate and not self.trust_store:
            yield "tlsClientAuthentication needs the certificates to trust: set tlsTrustStore"
        unknown = [name for name in self.protocols if name not in PROTOCOLS]
        if unknown or not self.protocols:
            yield f"tlsEnabledProtocols: {', '.join(unknown) or 'none'}; {' and '.join(PROTOCOLS)} are possible"

    @property
    def files(self) -> tuple[str, ...]:
        """Return every file that is read."""
        named = (self.key_store, self.certificate, self.key_password_file, self.trust_store, self.trust_password_file)
        return tuple(path for path in named if path)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The identity that the other side proved: the subject of its certificate, which our trust store vouches for."""

    common_name: str
    organizational_units: tuple[str, ...] = ()


class Tls(Protocol):
    """Loaded keys and trust. A later handshake uses the files as they are then, without a restart."""

    is_server: bool
