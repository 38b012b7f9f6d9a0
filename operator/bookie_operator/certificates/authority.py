"""A certificate authority and its successors: each is published before it signs, so that everybody trusts it by then.

    generation 1  |--- signs ------------------------------|. . trusted . .|
    generation 2                       |. published . .|--- signs ---------…
                                       ^ RENEW_BEFORE the end of 1

Everybody trusts every generation that has not ended; the newest that was published for PUBLISHED_FOR signs. So a
process whose list of authorities is up to PUBLISHED_FOR old trusts all others, and all others trust it.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bookie.base.errors import BadInput

Token = Callable[[int], bytes]  # so many random bytes

LIFETIME = dt.timedelta(days=365)
RENEW_BEFORE = dt.timedelta(days=120)
PUBLISHED_FOR = dt.timedelta(days=7)
# Clocks of nodes differ: nothing begins at the very moment in which it was made.
BACKDATED = dt.timedelta(hours=1)
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256 (SEC 2, 2.4.2)
_SERIAL_SIZE = 16
# What `cryptography` raises, at once or when a field is asked for, where bytes are no certificate or key that it knows:
# of another algorithm, or with a letter changed in the middle.
UNREADABLE = (ValueError, TypeError, KeyError, UnsupportedAlgorithm)


@dataclass(frozen=True, slots=True)
class KeyGeneration:
    """One key of the authority and its certificate. No repr shows the key."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def __repr__(self) -> str:
        return f"KeyGeneration(serial={self.certificate.serial_number:x}, ends={self.ends})"

    @property
    def published(self) -> dt.datetime:
        return self.certificate.not_valid_before_utc + BACKDATED

    @property
    def ends(self) -> dt.datetime:
        return self.certificate.not_valid_after_utc


@dataclass(frozen=True, slots=True)
class Authority:
    """The keys of one cluster's authority: at least one, the oldest first."""

    generations: tuple[KeyGeneration, ...]

    def signing(self, now: dt.datetime) -> KeyGeneration:
        """Return the generation that signs now: the newest that has been published for long enough, else the oldest."""
        known = [one for one in self.generations if one.published + PUBLISHED_FOR <= now]
        return known[-1] if known else self.generations[0]

    def bundle(self) -> bytes:
        """Return the certificates to trust, as PEM."""
        return b"".join(_pem(one.certificate) for one in self.generations)


def renewed(authority: Authority | None, name: str, now: dt.datetime, token: Token) -> Authority:
    """Return `authority` without ended generations, and with the next one when due; the same object if nothing
    changes."""
    former = authority.generations if authority is not None else ()
    # Also what begins later, which a clock that went wrong and was set right has left behind.
    living = tuple(one for one in former if one.certificate.not_valid_before_utc <= now < one.ends)
    if not living or living[-1].ends - now <= RENEW_BEFORE:
        living = (*living, _generation(name, now, token))
    return Authority(living) if authority is None or living != authority.generations else authority


def new_key(token: Token) -> ec.EllipticCurvePrivateKey:
    """Return a key of P-256 made from 48 random bytes: sixteen more than the key has, so that no key is likelier than
    another."""
    return ec.derive_private_key(int.from_bytes(token(48), "big") % (_ORDER - 1) + 1, ec.SECP256R1())


def new_serial(token: Token) -> int:
    return int.from_bytes(token(_SERIAL_SIZE), "big") >> 1 | 1


def dump(authority: Authority) -> bytes:
    """Return key and certificate of each generation as PEM, oldest first."""
    return b"".join(key_pem(one.key) + _pem(one.certificate) for one in authority.generations)


def load(text: bytes) -> Authority:
    """Return the authority that `dump` wrote. Raises BadInput, which never shows the text."""
    end = b"-----END CERTIFICATE-----"
    try:
        generations = tuple(
            KeyGeneration(_key(part), _certificate(part[part.index(b"-----BEGIN CERTIFICATE") :] + end))
            for part in text.split(end)[:-1]
        )
    except UNREADABLE:
        raise BadInput("the stored authority of the admin port cannot be read") from None
    if not generations:
        raise BadInput("the stored authority of the admin port is empty")
    return Authority(generations)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _key(part: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(part, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not a key of an elliptic curve")
    return key


def _certificate(text: bytes) -> x509.Certificate:
    found = x509.load_pem_x509_certificate(text)
    found.subject  # noqa: B018  # parsed only when it is asked for
    return found


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _generation(name: str, now: dt.datetime, token: Token) -> KeyGeneration:
    key, serial = new_key(token), new_serial(token)
    # Names differ between generations, so that no verifier tries the wrong one of two keys.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name[:50]} {serial & 0xFFFFFFFF:08x}")])
    usage = x509.KeyUsage(
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
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyGeneration(key, certificate)
