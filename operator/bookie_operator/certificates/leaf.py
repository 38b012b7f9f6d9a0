"""The certificates that an authority issues: to the bookies of one cluster as servers, to one operator process as a
client.

A certificate says one thing only: a server's is no client's (extended key usage), and names the cluster's uid, so that
no other cluster accepts it.
"""

import datetime as dt
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bookie_operator.certificates.authority import BACKDATED, UNREADABLE, Authority, Token, key_pem, new_key, new_serial


@dataclass(frozen=True, slots=True)
class LeafKind:
    usage: x509.ObjectIdentifier  # the one thing that the certificate is for
    lifetime: dt.timedelta
    renew_before: dt.timedelta


# A fleet outlives an operator that is away for twenty days; a stolen certificate of an operator's is worth an hour.
SERVER = LeafKind(ExtendedKeyUsageOID.SERVER_AUTH, dt.timedelta(days=30), renew_before=dt.timedelta(days=20))
CLIENT = LeafKind(ExtendedKeyUsageOID.CLIENT_AUTH, dt.timedelta(hours=2), renew_before=dt.timedelta(hours=1))
_COMMON_NAME_MAX = 64  # RFC 5280, ub-common-name


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate and its key, as PEM. No repr shows the key."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Leaf(...)"


def server_name(uid: str) -> str:
    """Return the name that clients demand in the certificate of a cluster's bookies. No DNS has it: clients use
    addresses."""
    return f"{uid}.bookies.bookie.dev"


def operator_name(uid: str, namespace: str) -> str:
    """Return the one identity that the bookies of cluster `uid` obey: the operator of `namespace`, for this cluster."""
    return f"bookie://cluster/{uid}/operator/{namespace}"


def server(authority: Authority, uid: str, now: dt.datetime, token: Token) -> Leaf:
    return _leaf(SERVER, authority, f"bookies {uid}", [x509.DNSName(server_name(uid))], now, token)


def data_server(authority: Authority, uid: str, hosts: tuple[str, ...], now: dt.datetime, token: Token) -> Leaf:
    """Return the certificate that the bookies of a cluster show on their data port."""
    return _leaf(SERVER, authority, f"bookies {uid}", [x509.DNSName(host) for host in hosts], now, token)


def has_hosts(certificate: bytes, hosts: tuple[str, ...]) -> bool:
    """Return True when `certificate`, PEM, names exactly `hosts`."""
    try:
        found = x509.load_pem_x509_certificate(certificate).extensions
        return found.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
            x509.DNSName
        ) == list(hosts)
    except (*UNREADABLE, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return False


def client(authority: Authority, name: str, process: str, now: dt.datetime, token: Token) -> Leaf:
    """Return the certificate of one operator process. `name`: from `operator_name`. `process`: the name that people
    read in logs."""
    return _leaf(CLIENT, authority, process, [x509.UniformResourceIdentifier(name)], now, token)


def is_due(certificate: bytes, key: bytes, authority: Authority, now: dt.datetime, kind: LeafKind) -> bool:
    """Return True when the certificate must be replaced: it ends soon, does not fit its key, or another generation
    signs."""
    signer = authority.signing(now)
    try:
        found = x509.load_pem_x509_certificate(certificate)
        if serialization.load_pem_private_key(key, None).public_key() != found.public_key():
            return True
        if found.issuer != signer.certificate.subject or found.not_valid_before_utc > now:
            return True
    except UNREADABLE:
        return True
    lasts_longer = min(now + kind.lifetime, signer.ends) > found.not_valid_after_utc
    return found.not_valid_after_utc - now <= kind.renew_before and lasts_longer


def _leaf(
    kind: LeafKind,
    authority: Authority,
    common_name: str,
    alternatives: list[x509.GeneralName],
    now: dt.datetime,
    token: Token,
) -> Leaf:
    signer, key = authority.signing(now), new_key(token)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_COMMON_NAME_MAX])]))
        .issuer_name(signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(new_serial(token))
        .not_valid_before(max(now - BACKDATED, signer.certificate.not_valid_before_utc))
        .not_valid_after(min(now + kind.lifetime, signer.ends))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([kind.usage]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()), critical=False)
        .sign(signer.key, hashes.SHA256())
    )
    return Leaf(certificate.public_bytes(serialization.Encoding.PEM), key_pem(key))
