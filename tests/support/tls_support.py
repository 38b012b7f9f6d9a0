"""Keys and certificates for tests: an authority of the moment, and whoever it vouches for."""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from bookie.ports.tls import TlsOptions

_DAY = dt.timedelta(days=1)
PASSWORD = "store-password"


@dataclass(frozen=True, slots=True)
class Identity:
    """A key with its certificate, and how to keep them in files."""

    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuer: x509.Certificate

    def pem(self, folder: Path) -> tuple[str, str]:
        """Write the key and the certificate; return their paths."""
        key, certificate = folder / f"{self.name}.key.pem", folder / f"{self.name}.pem"
        key.write_bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        certificate.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        return str(key), str(certificate)

    def pkcs12(self, folder: Path) -> str:
        """Write a PKCS12 store with key and chain under PASSWORD; return its path."""
        path = folder / f"{self.name}.p12"
        sealed = serialization.BestAvailableEncryption(PASSWORD.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(self.name.encode(), self.key, self.certificate, [self.issuer], sealed)
        )
        return str(path)


_SIGNS_ALONE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A certificate authority that lives for one test."""

    def __init__(self, name: str = "test authority", *, left: dt.timedelta = _DAY) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key(), left)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_SIGNS_ALONE, critical=True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
        )
        self.certificate = builder.sign(self._key, hashes.SHA256())

    def issue(
        self,
        name: str,
        *,
        units: tuple[str, ...] = (),
        hosts: tuple[str, ...] = ("localhost",),
        left: dt.timedelta = _DAY,
        curve: ec.EllipticCurve | None = None,
    ) -> Identity:
        """Vouch for `name`, with organizational units (roles) and host names; `left`: for so long, from now on.
        `curve`: of its key, in place of P-256."""
        key = ec.generate_private_key(curve or ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        builder = _builder(subject, self._name, key.public_key(), left)
        # Python 3.13 takes no certificate without it.
        whose = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(whose, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return Identity(name, key, builder.sign(self._key, hashes.SHA256()), self.certificate)

    def vouch_for(self, other: "Authority") -> x509.Certificate:
        """Return a certificate that says what the other one's own does, by us."""
        builder = _builder(other._name, self._name, other._key.public_key())
        return builder.sign(self._key, hashes.SHA256())

    def pem(self, folder: Path) -> str:
        """Write the authority's certificate; return its path."""
        path = folder / "authority.pem"
        path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        return str(path)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, left: dt.timedelta = _DAY
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + left)
    )


def password_file(folder: Path) -> str:
    """Write PASSWORD into a file, with the line end that editors leave; return its path."""
    path = folder / "password"
    path.write_text(PASSWORD + "\n")
    return str(path)


def options(folder: Path, authority: Authority, identity: Identity | None, *, mutual: bool = False) -> TlsOptions:
    """PEM options of one side; without an identity it shows no certificate."""
    key, certificate = identity.pem(folder) if identity else ("", "")
    return TlsOptions(
        key_store=key, certificate=certificate, trust_store=authority.pem(folder), needs_client_certificate=mutual
    )
